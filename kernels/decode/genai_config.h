// The configuration with which onnxruntime-genai runs a decoder: genai_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode/decoder.h"

namespace saturate {

struct GenaiOptions {
  std::string model_path, config_path;  // the model is named relative to the configuration
  std::vector<std::int64_t> eos_ids;
  std::optional<std::int64_t> max_context;
  std::optional<std::int64_t> bos_id;
  std::string type;  // of models, as genai has them; empty: llama, which takes whatever the inputs are
};

// kInvalidArgument where genai can't run such a model, or something is not known: what, and what to do.
absl::StatusOr<std::string> genai_config(const Model& model, const Decoder& decoder, const GenaiOptions& options);

}  // namespace saturate
