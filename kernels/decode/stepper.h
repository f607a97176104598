// Runs a decoder step by step: each run takes some tokens more, and gets the past that the one before has left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode/decoder.h"
#include "kernels/runtime/runtime.h"

namespace saturate {

// Runs the model, in whatever runtime: inputs by name, which it may write over, outputs in the graph's order.
using RunModel = std::function<absl::StatusOr<std::vector<Value>>(Inputs)>;

using Tokens = std::vector<std::vector<std::int64_t>>;  // by row, all rows of one length

// The scores of a step's tokens.
class StepLogits {
 public:
  // `first`: where among the scores the first of the step's tokens has its own; below 0 where there are scores of the last ones alone.
  StepLogits(Tensor scores, std::int64_t first, std::int64_t tokens) : scores_(std::move(scores)), first_(first), tokens_(tokens) {}
  // Of how many of the step's tokens there are scores: of the last ones.
  std::int64_t count() const { return std::min(tokens_, first_ + tokens_); }
  bool all() const { return first_ >= 0; }
  std::int64_t vocabulary() const { return scores_.dims()[2]; }
  // Of the last token of a row.
  std::vector<float> last(std::int64_t row) const;
  // As [rows, count(), vocabulary].
  Tensor tensor() const;

 private:
  Tensor scores_;  // [batch, n, vocabulary]
  std::int64_t first_, tokens_;
};

class Stepper {
 public:
  // `model` must live as long; its nodes are not read.
  Stepper(const Model& model, Decoder decoder, Sizes sizes, RunModel run)
      : model_(model), decoder_(std::move(decoder)), sizes_(std::move(sizes)), run_(std::move(run)) {}

  // Forgets all. Of each row the first `padding` tokens that come are padding; positions are counted behind it, or with it.
  absl::Status begin(std::vector<std::int64_t> padding, bool count_padding = false);
  // What an encoder gave, by input: a row for each. It stays until other things are given.
  void give(Inputs given) { given_ = std::move(given); }
  // The next tokens of each row, as many as the model's window where that is fixed. Of them the first `keep` (default: all) come into the
  // past; the others are given again in the next step.
  absl::StatusOr<StepLogits> step(const Tokens& tokens, std::optional<std::int64_t> keep = std::nullopt);

  // Puts zeros in the place of the past before the last `tokens` tokens, and takes these back: the next step takes them again.
  void forget_past(std::int64_t tokens);

  const Decoder& decoder() const { return decoder_; }
  std::int64_t seen() const { return seen_; }
  std::size_t cache_bytes() const;

 private:
  std::int64_t rows() const { return static_cast<std::int64_t>(padding_.size()); }
  const ValueInfo& input(std::size_t place) const { return model_.graph.inputs[place]; }
  Tensor token_tensor(const Tokens& tokens, std::int64_t length) const;
  Tensor mask_tensor(std::int64_t total, std::int64_t end) const;
  Tensor positions(std::size_t place, std::int64_t first, std::int64_t count) const;
  Tensor count(std::size_t place, std::int64_t number) const;
  bool needs_past_again() const;
  std::vector<std::int64_t> past_lengths() const;
  absl::Status feed_back(std::vector<Value>& outputs, const std::vector<std::int64_t>& had, std::int64_t dropped);
  absl::StatusOr<StepLogits> logits_of(const Value& value, std::int64_t tokens, std::int64_t run_tokens) const;

  const Model& model_;
  Decoder decoder_;
  Sizes sizes_;
  RunModel run_;
  std::vector<std::int64_t> padding_;
  bool count_padding_ = false;
  std::int64_t seen_ = 0;
  Tokens all_;     // without a cache
  Inputs inputs_;  // the past, by input
  Inputs given_;
};

// A session of ours as what a stepper runs. The session must live as long.
RunModel run_by(const Session& session, const RunLimits& limits = {});

}  // namespace saturate
