// What a language model's decoder reads and gives, by role: tokens, mask, positions, logits, the cache of keys and values, and what an
// encoder gives it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

enum class CacheKind : std::uint8_t {
  kNone,     // the whole sequence runs again at each step
  kGrowing,  // a run appends its tokens to the past
  kSliding,  // the past has a fixed length and ends where the sequence ends; before it there is padding
  kInPlace,  // the past is a buffer of a fixed length, filled from the front
};
std::string_view to_string(CacheKind kind);
std::optional<CacheKind> parse_cache_kind(std::string_view name);

// What a user says of a model, in place of what would be found; empty: found by names, types and shapes.
struct DecoderNames {
  std::string input_ids, attention_mask, position_ids, logits;
  std::vector<std::string> past, present;  // patterns with %d for the layer, one each for keys and values
  std::vector<std::string> given;          // inputs that stay as they are while tokens go on, beside those whose names tell it
  std::optional<CacheKind> cache;
  Sizes sizes;  // of symbolic dims
};

// A past and the present that becomes the next run's past: places among the graph's inputs and outputs.
struct CachePair {
  std::size_t past = 0, present = 0;
  int axis = -1;  // of tokens; -1: not known, and not needed, for the lengths are fixed and equal
};

struct Decoder {
  std::size_t input_ids = 0, logits = 0;  // places among the graph's inputs; among its outputs
  std::optional<std::size_t> attention_mask, position_ids;
  std::optional<std::size_t> cache_position;  // indices of the run's tokens in the sequence, without a batch
  std::optional<std::size_t> past_length;     // tokens before the run, as one number or one a row, which counts no padding
  std::optional<std::size_t> total_length;    // with those of the run
  std::vector<CachePair> cache;               // in the order of the inputs
  std::vector<std::size_t> given;             // inputs that stay as they are: an encoder's states and mask, keys and values made of them
  CacheKind kind = CacheKind::kNone;
  std::optional<std::int64_t> batch, window;  // fixed dims of the tokens
  std::optional<std::int64_t> mask_length;    // fixed
  std::optional<std::int64_t> vocabulary;
  std::optional<std::int64_t> most_tokens;  // that position table, buffers or a fixed sequence hold
  std::string holds_most;                   // what holds no more: "the table of position_ids"
  bool counts_tokens = false;               // it takes lengths from sums over the mask (GroupQueryAttention): no padding in front
};

// Whether a name tells that something comes from an encoder.
bool names_encoder(const std::string& name);
// What is left of a cache's name without the words that tell past from present: "past_key_values.0.key" and "present.0.key" are ".0.key".
std::string bare_name(const std::string& name);

// kInvalidArgument where the model is no decoder, or the names are wrong: what is missing, and what to do.
absl::StatusOr<Decoder> find_decoder(const Model& model, const DecoderNames& names = {});

// kInvalidArgument where a run of so many rows is larger than any that is made, by the lengths that the model fixes.
absl::Status check_room(const Model& model, const Decoder& decoder, std::int64_t rows);

// The dims of the past before the first token, for `batch` rows; kInvalidArgument where one is not known.
absl::StatusOr<Shape> first_past(const Model& model, const Decoder& decoder, const CachePair& pair, std::int64_t batch, const Sizes& sizes);

}  // namespace saturate
