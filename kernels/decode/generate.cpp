#include "kernels/decode/generate.h"

#include <algorithm>
#include <limits>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "kernels/decode/encoder.h"

namespace saturate {
namespace {

absl::Status wrong(const std::string& message) { return absl::InvalidArgumentError(message); }

constexpr std::int64_t kUsualTokens = 64;

std::string known_tokens(const Decoder& decoder) {
  return decoder.vocabulary ? fmt::format("0 to {}", *decoder.vocabulary - 1) : "no negative ones";
}

std::string name_of(std::size_t prompt, std::size_t prompts) { return prompts > 1 ? fmt::format("prompt {}", prompt) : "the prompt"; }

absl::Status check_tokens(const std::vector<std::int64_t>& prompt, const std::string& name, const Decoder& decoder) {
  if (prompt.empty()) return wrong(fmt::format("{} is empty; give at least one token, such as the one that begins texts", name));
  for (std::size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || (decoder.vocabulary && prompt[i] >= *decoder.vocabulary))
      return wrong(
          fmt::format("{}: token {} is {}, and the model knows {}; take its own tokenizer", name, i, prompt[i], known_tokens(decoder)));
  return absl::OkStatus();
}

// The most tokens of prompt and result together, and what holds no more.
struct ContextBound {
  std::optional<std::int64_t> most;
  std::string holder;
};

ContextBound bound_of(const Decoder& decoder, const GenerateOptions& options) {
  if (options.max_context && (!decoder.most_tokens || *options.max_context < *decoder.most_tokens))
    return {options.max_context, "--max-context is"};
  return {decoder.most_tokens, decoder.holds_most + " holds"};
}

// The last token is chosen, but never read.
absl::Status check_length(const std::vector<std::int64_t>& prompt, const std::string& name, const ContextBound& bound,
                          const GenerateOptions& options) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t wanted = options.max_new_tokens.value_or(1);
  if (!bound.most || length + wanted - 1 <= *bound.most) return absl::OkStatus();
  return wrong(fmt::format(
      "{} of {} tokens and {} new ones need {} places, and {} {}; {}", name, length, wanted, length + wanted - 1, bound.holder, *bound.most,
      length <= *bound.most ? fmt::format("--max-new-tokens {} fits", *bound.most - length + 1) : "give a shorter prompt"));
}

std::int64_t new_tokens(const std::vector<std::vector<std::int64_t>>& prompts, const Decoder& decoder, const GenerateOptions& options) {
  if (options.max_new_tokens) return *options.max_new_tokens;
  std::int64_t out = kUsualTokens;
  const ContextBound bound = bound_of(decoder, options);
  for (const auto& prompt : prompts)
    if (bound.most) out = std::min(out, *bound.most - static_cast<std::int64_t>(prompt.size()) + 1);
  return out;
}

// Prompts that run together.
struct Batch {
  std::vector<std::size_t> prompts;  // by row; a fixed batch is filled with the last one again
  std::size_t distinct = 0;          // rows that count
};

class Generator {
 public:
  Generator(const Model& model, const std::vector<std::vector<std::int64_t>>& prompts, const GenerateOptions& options, Decoder decoder,
            const RunModel& run)
      : prompts_(prompts),
        options_(options),
        max_new_tokens_(new_tokens(prompts, decoder, options)),
        stepper_(model, std::move(decoder), options.names.sizes, run) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      randoms_.emplace_back(options.seed + i * 0x9e3779b97f4a7c15u);
      done_.prompt_tokens += static_cast<std::int64_t>(prompts[i].size());
    }
    done_.rows.resize(prompts.size());
    done_.cache = stepper_.decoder().kind;
  }

  absl::StatusOr<Generation> run() {
    for (const Batch& batch : batches())
      if (absl::Status s = run(batch); !s.ok()) return s;
    for (const GeneratedRow& row : done_.rows) done_.new_tokens += static_cast<std::int64_t>(row.tokens.size());
    return std::move(done_);
  }

 private:
  const Decoder& decoder() const { return stepper_.decoder(); }

  std::vector<Batch> batches() {
    const bool uneven = std::any_of(prompts_.begin(), prompts_.end(), [&](const auto& p) { return p.size() != prompts_[0].size(); });
    const bool apart = uneven && (!decoder().attention_mask || decoder().counts_tokens || !decoder().position_ids);
    if (apart)
      done_.notes.push_back(fmt::format("prompts of different lengths run one after another: the model {}",
                                        !decoder().attention_mask ? "takes no attention_mask"
                                        : decoder().counts_tokens ? "counts tokens by its mask, from the front"
                                                                  : "takes no position_ids, so that padding would move positions"));
    const std::size_t rows = apart ? 1 : decoder().batch ? static_cast<std::size_t>(*decoder().batch) : prompts_.size();
    std::vector<Batch> out;
    for (std::size_t begin = 0; begin < prompts_.size(); begin += apart ? 1 : rows) {
      Batch batch;
      batch.distinct = std::min(rows, prompts_.size() - begin);
      const std::size_t wanted = decoder().batch ? static_cast<std::size_t>(*decoder().batch) : batch.distinct;
      for (std::size_t r = 0; r < wanted; ++r) batch.prompts.push_back(begin + std::min(r, batch.distinct - 1));
      out.push_back(std::move(batch));
    }
    return out;
  }

  // The prompts behind padding, as long as the longest, in whole windows.
  Tokens padded(const Batch& batch, std::vector<std::int64_t>& padding) const {
    std::size_t longest = 0;
    for (const std::size_t p : batch.prompts) longest = std::max(longest, prompts_[p].size());
    if (!decoder().cache.empty() && decoder().window) {
      const auto window = static_cast<std::size_t>(*decoder().window);
      longest = (longest + window - 1) / window * window;
    }
    Tokens out;
    for (const std::size_t p : batch.prompts) {
      padding.push_back(static_cast<std::int64_t>(longest - prompts_[p].size()));
      out.emplace_back(longest - prompts_[p].size(), 0);
      out.back().insert(out.back().end(), prompts_[p].begin(), prompts_[p].end());
    }
    return out;
  }

  absl::Status run(const Batch& batch) {
    std::vector<std::int64_t> padding;
    sequence_ = padded(batch, padding);
    if (absl::Status s = stepper_.begin(padding); !s.ok()) return s;
    stepper_.give(rows_of(options_.given, batch.prompts));
    const double start = steady_seconds();
    absl::StatusOr<StepLogits> logits = prefill();
    const double prefilled = steady_seconds();
    done_.prefill_seconds += prefilled - start;
    std::vector<bool> ended(batch.prompts.size(), false);
    for (std::int64_t n = 0; logits.ok() && n < max_new_tokens_; ++n) {
      append(batch, *logits, n, ended);
      if (std::all_of(ended.begin(), ended.end(), [](bool e) { return e; }) || n + 1 == max_new_tokens_) break;
      done_.decoded_tokens += std::count(ended.begin(), ended.begin() + static_cast<std::ptrdiff_t>(batch.distinct), false);
      const auto end = static_cast<std::int64_t>(sequence_[0].size());
      logits = step(end - window(), window(), 1);
    }
    done_.decode_seconds += steady_seconds() - prefilled;
    done_.cache_bytes = std::max(done_.cache_bytes, stepper_.cache_bytes());
    return logits.status();
  }

  // Tokens of a run behind the prompt; all but the last come again where the model's window is fixed.
  std::int64_t window() const { return decoder().cache.empty() ? 1 : decoder().window.value_or(1); }

  absl::StatusOr<StepLogits> step(std::int64_t begin, std::int64_t count, std::int64_t keep) {
    ++done_.runs;
    Tokens part;
    for (const auto& row : sequence_) part.emplace_back(row.begin() + begin, row.begin() + begin + count);
    return stepper_.step(part, keep);
  }

  absl::StatusOr<StepLogits> prefill() {
    const auto length = static_cast<std::int64_t>(sequence_[0].size());
    const bool windows = !decoder().cache.empty() && decoder().window;
    for (std::int64_t at = 0, count = windows ? window() : length;; at += count) {
      const bool last = at + count >= length;
      absl::StatusOr<StepLogits> logits = step(at, count, windows && last ? 1 : count);
      if (!logits.ok() || last) return logits;
    }
  }

  // The next token of each row that goes on; those that ended are given 0.
  void append(const Batch& batch, const StepLogits& logits, std::int64_t n, std::vector<bool>& ended) {
    for (std::size_t r = 0; r < batch.prompts.size(); ++r) {
      const bool copy = r >= batch.distinct;
      std::int64_t token = 0;
      if (!ended[r] && !copy) token = next_token(batch.prompts[r], logits.last(static_cast<std::int64_t>(r)), n, ended, r);
      if (copy) ended[r] = true;
      sequence_[r].push_back(std::max<std::int64_t>(token, 0));
    }
  }

  std::int64_t next_token(std::size_t prompt, std::vector<float> scores, std::int64_t n, std::vector<bool>& ended, std::size_t r) {
    const auto& ends = options_.eos_ids;
    if (n < options_.min_new_tokens)
      for (const std::int64_t end : ends)
        if (end < static_cast<std::int64_t>(scores.size())) scores[static_cast<std::size_t>(end)] = -std::numeric_limits<float>::infinity();
    const std::int64_t token = sample(scores, options_.sampling, randoms_[prompt]);
    if (token < 0) {
      done_.notes.push_back(fmt::format("prompt {}: after {} tokens all logits are NaN; it ends there", prompt, n));
      ended[r] = true;
      return token;
    }
    done_.rows[prompt].tokens.push_back(token);
    if (std::find(ends.begin(), ends.end(), token) == ends.end()) return token;
    done_.rows[prompt].end = RowEnd::kEos;
    ended[r] = true;
    return token;
  }

  const std::vector<std::vector<std::int64_t>>& prompts_;
  const GenerateOptions& options_;
  std::int64_t max_new_tokens_;
  Stepper stepper_;
  Tokens sequence_;              // of the batch that runs: padding, prompt, and what follows
  std::vector<Random> randoms_;  // by prompt
  Generation done_;
};

}  // namespace

std::string_view to_string(RowEnd end) { return end == RowEnd::kEos ? "eos" : "length"; }

absl::Status check_prompts(const std::vector<std::vector<std::int64_t>>& prompts, const Decoder& decoder, const GenerateOptions& options) {
  if (prompts.empty()) return wrong("--prompt-ids: no prompt is given; write e.g. --prompt-ids 1,2,3");
  for (std::size_t p = 0; p < prompts.size(); ++p)
    if (absl::Status s = check_tokens(prompts[p], name_of(p, prompts.size()), decoder); !s.ok()) return s;
  for (std::size_t p = 0; p < prompts.size(); ++p)
    if (absl::Status s = check_length(prompts[p], name_of(p, prompts.size()), bound_of(decoder, options), options); !s.ok()) return s;
  for (const std::int64_t end : options.eos_ids)
    if (end < 0 || (decoder.vocabulary && end >= *decoder.vocabulary))
      return wrong(fmt::format("--eos-id {}: the model knows {}", end, known_tokens(decoder)));
  return absl::OkStatus();
}

absl::StatusOr<Generation> generate(const Model& model, const std::vector<std::vector<std::int64_t>>& prompts,
                                    const GenerateOptions& options, const RunModel& run) {
  absl::StatusOr<Decoder> decoder = find_decoder(model, options.names);
  if (!decoder.ok()) return decoder.status();
  if (absl::Status s = check_prompts(prompts, *decoder, options); !s.ok()) return s;
  return Generator(model, prompts, options, *std::move(decoder), run).run();
}

}  // namespace saturate
