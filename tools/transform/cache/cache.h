// A key-value cache for a decoder that has none: it computes new tokens alone, and takes the keys and values of earlier ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct CacheOptions {
  std::vector<std::string> tokens;  // inputs with an entry for each new token: [batch, tokens, ...]
  std::vector<std::string> masks;   // inputs with an entry for each position, past and new: [batch, positions]
  // Inputs that stay as they are while tokens go on, as an encoder's states, and their masks: [batch, given, ...]. Keys and values of cross
  // attention are made of the former alone.
  std::vector<std::string> given, given_masks;
  std::string past, present;  // names with {layer} and {part}, as part() says it
  std::string past_dim;       // the name of the dim of earlier tokens
  // Of fixed sizes: `window` new tokens stand at the end of `sequence` positions, and caches hold max_context.
  struct Fixed {
    std::int64_t window = 1, sequence = 1, max_context = 1;
  };
  std::optional<Fixed> fixed;
  // Of buffers with room for so many tokens, into which new ones are written; the input `filled` tells how many are there. In a window it
  // tells how many tokens came before, where the index of a token matters.
  std::optional<std::int64_t> buffer;
  std::string filled;
  enum class Write : std::uint8_t {
    kScatterND,
    kTensorScatter,  // of opset 24
    kGroupQuery,     // com.microsoft GroupQueryAttention writes them itself; positions are those of past and new tokens, as in (b)
  };
  Write write = Write::kScatterND;
  // "key" or "value", and of an encoder-decoder of which side it is.
  std::string part(const std::string& part) const { return given.empty() ? part : "decoder." + part; }
  std::string part_of_given(const std::string& part) const { return "encoder." + part; }
  bool group_query() const { return buffer && write == Write::kGroupQuery; }
  // Whether positions are as many as a buffer has room for, filled or not.
  bool positions_of_buffer() const { return buffer && !group_query(); }
  // How `filled` counts in a window, where there is such an input: places, as [1], padding in front included; or what the mask shows of
  // each row, as [batch].
  enum class Counted : std::uint8_t { kPlaces, kShown };
};

struct CacheSlot {
  std::string past, present;
  std::int64_t heads = 0, size = 0;
  DType dtype = DType::kFloat;
  std::string node;  // that attends to it
};

struct CachedModel {
  Model model;
  std::vector<CacheSlot> slots;
  // Inputs of `model` that stay as they are, and the model of CacheOptions::given that computes them as its outputs, once.
  std::vector<CacheSlot> given = {};
  Model once = {};
  std::map<std::string, int> outputs = {};  // of the original: the axis along which they have an entry for each new token, -1: none
  std::optional<CacheOptions::Counted> counted = {};  // how the input CacheOptions::filled counts; nullopt: there is none
};

// Of a model of opset kCacheOpset in whose attention keys and values have heads apart (unpack_heads). kUnimplemented, with the node and
// the reason: it can't be cached.
//   (b) without `fixed` and `buffer`: keys are cached as attention reads them, so behind rotary embeddings;
//   (c) with `buffer`: likewise, in tensors whose size stays;
//   (a) with `fixed`: they are cached before anything that depends on positions, and positions are counted from the end. Where they depend
//   on the index of their token, as with learned positions, that index is counted through all windows, and they are cached as in (b).
absl::StatusOr<CachedModel> with_cache(const Model& model, const CacheOptions& options);
inline constexpr std::int64_t kCacheOpset = 23, kTensorScatterOpset = 24;

// Writes each Attention and RotaryEmbedding of heads packed in the last dim as one of heads apart, which is how caches hold them.
absl::Status unpack_heads(Model& model);

// The model run on parts of its tokens, one behind the other, with the caches handed on. It has the inputs of the original, and those of
// its outputs that are comparable, whole. `behind`: how many tokens each part but the first takes. `handed_on`: kEmptied gives each part
// zeros, which shows whether the caches matter; kGivenEmptied shows it of cross attention.
enum class StepCache : std::uint8_t {
  kKept,
  kEmptied,
  kGivenEmptied,  // keys and values of what is given are zeros in all parts
};
Model stepped(const CachedModel& cached, const Model& original, const CacheOptions& options, const std::vector<std::int64_t>& behind,
              StepCache handed_on);

}  // namespace saturate
