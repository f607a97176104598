// A decoder with a cache as one that computes the whole sequence at once.
#pragma once

#include "absl/status/statusor.h"
#include "kernels/decode/decoder.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Its past is empty, and its present is no output any more; buffers are as long as the tokens (cache_buffers.h), and so are
// a window and its places (cache_window.h). What counts the tokens
// before is 0, and `cache_position` counts from 0; the mask is as long as the tokens, and `position_ids` stays. kUnimplemented, with the
// reason: dims that are not known, and what those two refuse.
absl::StatusOr<Model> without_cache(const Model& model, const Decoder& decoder);

}  // namespace saturate
