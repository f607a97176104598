#include "onnx_bridge/io.h"

namespace saturate {

absl::StatusOr<Model> parse_model_text(std::string_view, const std::string& name_for_errors) {
  return absl::UnimplementedError(name_for_errors + ": ONNX text cannot be read yet");
}

std::string print_model_text(const Model& model) { return "<\n  ir_version: " + std::to_string(model.ir_version) + "\n>\n"; }

}  // namespace saturate
