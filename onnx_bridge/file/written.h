// What a model must be like for the runtimes that read its file. The loader takes more, and what users have is written as well as it can
// be.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct WritingFault {
  std::string what;   // "value 'y' is made twice, by node 3 (Add) as well"
  std::string value;  // that it is about
};
// Values that are made twice or by nothing, as no runtime takes them. What ready_to_write() mends is none.
std::optional<WritingFault> writing_fault(const Model& model);
// An attribute's value that the model's opset does not know, though the model that it was made of has none of this kind.
std::optional<WritingFault> value_fault(const Model& model, const Model& before);

// The model as ONNX Runtime takes it, nullopt where it is so: of the nodes of one graph no two have one name ("" is none), they stand
// behind those that make what they read, and no node of a body makes a value of a name that is visible around it. kInternal where it can't
// be.
absl::StatusOr<std::optional<Model>> ready_to_write(const Model& model);

}  // namespace saturate
