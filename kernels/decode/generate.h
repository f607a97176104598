// Tokens out of a language model's decoder: prompts in, what follows them out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode/decoder.h"
#include "kernels/decode/sampling.h"
#include "kernels/decode/stepper.h"

namespace saturate {

struct GenerateOptions {
  DecoderNames names;
  std::optional<std::int64_t> max_new_tokens;  // of each prompt; default: 64, or as many as the model holds
  std::int64_t min_new_tokens = 0;             // before so many no end is taken
  std::vector<std::int64_t> eos_ids;           // tokens that end a row
  std::optional<std::int64_t> max_context;     // tokens of prompt and result together
  Sampling sampling;
  Inputs given;  // what an encoder gave (given_inputs of encoder.h), with a row for each prompt
  std::uint64_t seed = 0;
};

enum class RowEnd : std::uint8_t { kEos, kLength };
std::string_view to_string(RowEnd end);

struct GeneratedRow {
  std::vector<std::int64_t> tokens;  // without the prompt, with the one that ended it
  RowEnd end = RowEnd::kLength;
};

struct Generation {
  std::vector<GeneratedRow> rows;  // by prompt
  CacheKind cache = CacheKind::kNone;
  std::int64_t prompt_tokens = 0, new_tokens = 0, runs = 0;
  std::int64_t decoded_tokens = 0;  // of runs behind the prompt's: all but the first of each row
  double prefill_seconds = 0, decode_seconds = 0;
  std::size_t cache_bytes = 0;     // at the end, of the largest batch
  std::vector<std::string> notes;  // what a user should know: prompts that ran one after another, and why
};

// What is wrong with prompts and options for this model, before anything runs; kInvalidArgument.
absl::Status check_prompts(const std::vector<std::vector<std::int64_t>>& prompts, const Decoder& decoder, const GenerateOptions& options);

// Prompts of one length, or that the model lets be padded in front, run as one batch; others one after another. A row's draws depend on the
// seed and its place alone.
absl::StatusOr<Generation> generate(const Model& model, const std::vector<std::vector<std::int64_t>>& prompts,
                                    const GenerateOptions& options, const RunModel& run);

}  // namespace saturate
