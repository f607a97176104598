// The way of a small language model from an export without a cache to a file for an accelerator, as a list of passes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "nlohmann/json_fwd.hpp"

namespace saturate {

struct SlmOptions {
  std::string cache;  // growing, window or buffer; "": window where one of these is given
  std::optional<std::int64_t> window, sequence, max_context;
  std::string dtype;                         // float16 or bfloat16; "": as it is
  std::optional<std::int64_t> opset;         // to be written
  std::string target = "onnx";               // that the result is optimized for at the end
  std::map<std::string, std::int64_t> dims;  // sizes of symbolic dims
  double max_error = 0;                      // of half precision; 0: any
  std::string calibrate = {};                // a file of tokens for its ranges; "": drawn inputs
  bool clamp = false;                        // values beyond its range
};

// As `saturate transform --passes` takes it: the cache, precision, operators of the target and opset, sizes.
nlohmann::json slm_passes(const SlmOptions& options);

}  // namespace saturate
