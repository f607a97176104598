// A decoder whose cache is a buffer, without it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct CacheBuffer {
  std::string past, present;
  int axis = 2;  // of its places
};

// What has an entry for each place of the buffers gets one for each token of `ids`, [batch, tokens]; keys and values are those of these
// tokens. It is the same where nothing was written before, and where the model hides the places that are not filled.
// `masks`: other inputs with an entry for each place, along axis 1. Inputs and outputs stay as they are declared; nothing reads the pasts
// any more, and presents may be missing. GroupQueryAttention becomes Attention, of opset 23. kUnimplemented, with the node and the reason:
// it is not known how buffers are written, or what happens to their places.
absl::StatusOr<Model> without_buffers(const Model& model, const std::string& ids, const std::vector<CacheBuffer>& buffers,
                                      const std::vector<std::string>& masks);

}  // namespace saturate
