// Loading and saving ONNX files: binary protobuf, ONNX text (.onnxtxt), external data by mmap.
// Models are untrusted: sizes are checked before allocation, nesting is bounded, no path leaves the model's folder.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_bridge/model.h"

namespace saturate {

// Reads a model and checks its structure: acyclic (nodes are sorted if need be), every input defined once, names unique, tensors consistent.
// Errors name the file and the place.
absl::StatusOr<Model> load_model(const std::string& path);
// The same from bytes; external data is looked up in `folder` ("" : refused).
absl::StatusOr<Model> parse_model(std::string_view bytes, const std::string& folder);
absl::StatusOr<Model> parse_model_text(std::string_view text, const std::string& name_for_errors);

struct SaveOptions {
  std::size_t external_threshold = 1024;       // initializers of at least so many bytes go outside, when anything does
  std::size_t max_inline_bytes = 1'800'000'000;  // more than this goes to external data
  bool force_external = false;
};
// Writes to temporary files beside `path` and renames; a failed save leaves nothing behind and nothing overwritten.
// Tensors that came from external files are copied file to file into `<path>.data`; a result stays external if its input was.
absl::Status save_model(const Model& model, const std::string& path, const SaveOptions& options = {});
absl::StatusOr<std::string> serialize_model(const Model& model);
std::string print_model_text(const Model& model);

}  // namespace saturate
