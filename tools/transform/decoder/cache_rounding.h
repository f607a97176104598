// What it costs a decoder to hold its cache in fewer bits.
#pragma once

#include "absl/status/statusor.h"
#include "tools/transform/cache/cache_dtype.h"

namespace saturate {

struct Rounding {
  double moved = 0;  // how far logits move, at most
  double usual = 0;  // how large they are, at the median
};

// Of the model, where each token is rounded as it comes into the cache: to steps as large as those of `code`, laid at several places, and
// cut off where int8 ends. The coded model is not asked.
absl::StatusOr<Rounding> cost_of_rounding(const Model& model, const Decoder& decoder, const CacheCode& code, const Texts& texts,
                                          int threads);

}  // namespace saturate
