// Sparse initializers and Constants (onnx.SparseTensorProto), which stay as they are in the file and are dense where they are computed
// with.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// A larger one is no longer what a sparse tensor is for.
inline constexpr std::size_t kMostDenseBytes = std::size_t{1} << 30;

// Element type and shape, as those of a dense tensor; unknown where the initializer is malformed.
ValueType type_of_sparse(const Initializer& initializer);
// All of its elements. Indices are places in the flat tensor, or one for each dim (ONNX IR, "Sparse tensors").
absl::StatusOr<Tensor> dense_tensor(const Initializer& initializer, std::size_t most_bytes = kMostDenseBytes);

// What an attribute of this type holds, as an initializer without a name; nullopt of other attributes.
std::optional<Initializer> sparse_of(const Attribute& attribute);

}  // namespace saturate
