// The dtype and the layout of a decoder's cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode/decoder.h"
#include "kernels/decode/stepper.h"
#include "onnx_bridge/model/model.h"
#include "tools/transform/precision/calibration.h"

namespace saturate {

enum class CacheLayout : std::uint8_t {
  kHeadsFirst,   // [batch, heads, tokens, size]
  kTokensFirst,  // [batch, tokens, heads, size]
};
// Of a cache of rank 4. Where tokens stand in a buffer is told by its sizes: there are more of them than heads.
CacheLayout layout_of(const Model& model, const CachePair& pair);

// The sizes of keys or values of one layer, and how large their numbers become.
struct CacheRange {
  int heads_axis = 1;
  std::int64_t heads = 1, size = 1;
  std::vector<float> largest = {};  // without sign, by head and entry
  // Which of `largest` element `i` of a cache of these dims belongs to.
  std::size_t place(const Shape& dims, std::int64_t i) const;
};
enum class CacheScales : std::uint8_t {
  kHead,     // one for each head
  kChannel,  // one for each entry of each head
};

// The step of int8, by head, or by head and entry.
std::vector<float> scales_of(const CacheRange& range, CacheScales scales);

// One for each pair of the cache, in a decoder of rank 4 whose heads and sizes are numbers; kUnimplemented for others.
absl::StatusOr<std::vector<CacheRange>> cache_sizes(const Model& model, const Decoder& decoder);
// What the caches hold after these tokens, at most.
absl::Status measure_cache(const Model& model, const Decoder& decoder, const Texts& texts, int threads, std::vector<CacheRange>& ranges);

// What it takes to hold a cache in fewer bits.
struct CacheCode {
  DType dtype = DType::kFloat16;  // float16, bfloat16, int8
  CacheScales scales = CacheScales::kHead;
  std::vector<CacheRange> ranges = {};  // of int8, by pair
};
struct CodedCache {
  Model model;
  std::size_t written = 0;  // caches to which new tokens are added in the new dtype
  std::size_t whole = 0;    // caches of which all is brought into the new dtype in each run
};
// Tokens are brought into the new dtype where they are written, and back where they are read. Numbers beyond what was measured become the
// largest of int8.
absl::StatusOr<CodedCache> with_cache_dtype(const Model& model, const Decoder& decoder, const CacheCode& code);

}  // namespace saturate
