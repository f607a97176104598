#include "kernels/decode/stepper.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"

namespace saturate {
namespace {

// A tensor of whole numbers, or of floats or bools for masks; `at(i)` is element i.
template <typename At>
Tensor filled(DType dtype, Shape dims, At at) {
  Tensor out(dtype, std::move(dims));
  for (std::int64_t i = 0; i < out.size(); ++i)
    if (!store_int(out, i, at(i))) store_double(out, i, static_cast<double>(at(i)));
  return out;
}

// `count` elements along `axis` from one tensor into another of the same dtype and other dims.
void copy_along(int axis, const Tensor& from, std::int64_t begin, std::int64_t count, Tensor& to, std::int64_t at) {
  const auto k = static_cast<std::size_t>(axis);
  std::size_t outer = 1, inner = static_cast<std::size_t>(bit_width(from.dtype())) / 8;  // of dtypes of whole bytes
  for (std::size_t i = 0; i < from.dims().size(); ++i)
    if (i != k) (i < k ? outer : inner) *= static_cast<std::size_t>(from.dims()[i]);
  const auto stride = [&](const Tensor& t) { return inner * static_cast<std::size_t>(t.dims()[k]); };
  const std::size_t bytes = inner * static_cast<std::size_t>(count);
  if (bytes == 0) return;
  std::byte* target = to.mutable_data() + inner * static_cast<std::size_t>(at);
  const std::byte* source = from.bytes().data() + inner * static_cast<std::size_t>(begin);
  for (std::size_t o = 0; o < outer; ++o) std::memcpy(target + o * stride(to), source + o * stride(from), bytes);
}

Tensor part(const Tensor& t, int axis, std::int64_t begin, std::int64_t count) {
  Shape dims = t.dims();
  dims[static_cast<std::size_t>(axis)] = count;
  Tensor out(t.dtype(), std::move(dims));
  copy_along(axis, t, begin, count, out, 0);
  return out;
}

// Along the axis of tokens; 0 where that is not known.
std::int64_t length_of(const Value& value, int axis) {
  const bool known = axis >= 0 && value.is_tensor() && axis < value.tensor().rank();
  return known ? value.tensor().dims()[static_cast<std::size_t>(axis)] : 0;
}

std::optional<std::int64_t> fixed_length(const ValueInfo& info, int axis) {
  const auto& shape = info.type.shape;
  if (!shape || axis < 0 || static_cast<std::size_t>(axis) >= shape->size()) return std::nullopt;
  const auto* length = std::get_if<std::int64_t>(&(*shape)[static_cast<std::size_t>(axis)]);
  return length ? std::optional(*length) : std::nullopt;
}

// The past without its oldest, and the new behind.
Tensor shifted(const Tensor& past, const Tensor& fresh, int axis) {
  const std::int64_t length = past.dims()[static_cast<std::size_t>(axis)], count = fresh.dims()[static_cast<std::size_t>(axis)];
  Tensor out(past.dtype(), past.dims());
  copy_along(axis, past, count, length - count, out, 0);
  copy_along(axis, fresh, 0, count, out, length - count);
  return out;
}

}  // namespace

std::vector<float> StepLogits::last(std::int64_t row) const {
  const std::int64_t begin = (row * scores_.dims()[1] + first_ + tokens_ - 1) * vocabulary();
  std::vector<float> out(static_cast<std::size_t>(vocabulary()));
  if (scores_.dtype() == DType::kFloat)
    std::copy_n(scores_.data<float>() + begin, out.size(), out.begin());
  else
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(element_as_double(scores_, begin + static_cast<std::int64_t>(i)).value_or(0));
  return out;
}

Tensor StepLogits::tensor() const {
  return count() == scores_.dims()[1] ? scores_ : part(scores_, 1, std::max<std::int64_t>(first_, 0), count());
}

absl::Status Stepper::begin(std::vector<std::int64_t> padding, bool count_padding) {
  const auto batch = static_cast<std::int64_t>(padding.size());
  if (decoder_.batch && *decoder_.batch != batch)
    return absl::InvalidArgumentError(
        fmt::format("the model's batch is {}, not {}; give as many prompts, or export it with an open batch", *decoder_.batch, batch));
  if (absl::Status s = check_room(model_, decoder_, batch); !s.ok()) return s;
  const bool padded = std::any_of(padding.begin(), padding.end(), [](std::int64_t n) { return n > 0; });
  if (padded && !decoder_.attention_mask)
    return absl::InvalidArgumentError("the model has no attention_mask, so that prompts can't be padded; give prompts of one length");
  padding_ = std::move(padding);
  count_padding_ = count_padding;
  seen_ = 0;
  all_.assign(padding_.size(), {});
  inputs_.clear();
  for (const CachePair& pair : decoder_.cache) {
    absl::StatusOr<Shape> dims = first_past(model_, decoder_, pair, batch, sizes_);
    if (!dims.ok()) return dims.status();
    if (!checked_bytes(input(pair.past).type.dtype, *dims))
      return absl::InvalidArgumentError(fmt::format("input '{}': its shape is too large", input(pair.past).name));
    inputs_[input(pair.past).name] = Tensor(input(pair.past).type.dtype, *std::move(dims));
  }
  return absl::OkStatus();
}

Tensor Stepper::token_tensor(const Tokens& tokens, std::int64_t length) const {
  return filled(input(decoder_.input_ids).type.dtype, {rows(), length}, [&](std::int64_t i) {
    const auto& row = tokens[static_cast<std::size_t>(i / length)];
    const auto at = static_cast<std::size_t>(i % length);
    return at < row.size() ? row[at] : 0;
  });
}

// 1 for each token of the sequence that is no padding. Where the past slides, the mask ends with the sequence; else it begins with it.
Tensor Stepper::mask_tensor(std::int64_t total, std::int64_t end) const {
  std::int64_t length = decoder_.mask_length.value_or(end), begin = 0;
  if (decoder_.kind == CacheKind::kSliding) {
    const CachePair& pair = decoder_.cache[0];
    if (!decoder_.mask_length && pair.axis >= 0) {
      const Tensor& past = inputs_.at(input(pair.past).name).tensor();
      length = past.dims()[static_cast<std::size_t>(pair.axis)] + total - seen_;
    }
    begin = total - length;
  }
  return filled(input(*decoder_.attention_mask).type.dtype, {rows(), length}, [&](std::int64_t i) -> std::int64_t {
    const std::int64_t token = begin + i % length;
    return token >= padding_[static_cast<std::size_t>(i / length)] && token < total ? 1 : 0;
  });
}

// Of tokens [first, first + count) of the sequence; padding has position 0.
Tensor Stepper::positions(std::size_t place, std::int64_t first, std::int64_t count) const {
  const bool by_row = input(place).type.shape && input(place).type.shape->size() == 2;
  return filled(input(place).type.dtype, by_row ? Shape{rows(), count} : Shape{count}, [&](std::int64_t i) {
    const std::int64_t before = by_row && !count_padding_ ? padding_[static_cast<std::size_t>(i / count)] : 0;
    return std::max<std::int64_t>(first + i % count - before, 0);
  });
}

// As one number, or one a row, which then counts no padding.
Tensor Stepper::count(std::size_t place, std::int64_t number) const {
  const auto& declared = input(place).type.shape;
  const bool by_row = declared && !declared->empty() && !std::get_if<std::int64_t>(declared->data());
  Shape dims(declared ? declared->size() : 0, 1);
  if (by_row) dims[0] = rows();
  return filled(input(place).type.dtype, std::move(dims), [&](std::int64_t i) {
    return by_row ? std::max<std::int64_t>(number - padding_[static_cast<std::size_t>(i)], 0) : number;
  });
}

absl::StatusOr<StepLogits> Stepper::step(const Tokens& tokens, std::optional<std::int64_t> keep) {
  const auto fresh = static_cast<std::int64_t>(tokens[0].size()), total = seen_ + fresh;
  const bool whole = decoder_.cache.empty();
  if (!whole && decoder_.window.value_or(fresh) != fresh)
    return absl::InvalidArgumentError(fmt::format("the model takes {} tokens a run, not {}", *decoder_.window, fresh));
  if (whole && decoder_.window.value_or(total) < total)
    return absl::InvalidArgumentError(fmt::format("the model holds {} tokens, not {}", *decoder_.window, total));
  if (whole)
    for (std::size_t r = 0; r < tokens.size(); ++r) all_[r].insert(all_[r].end(), tokens[r].begin(), tokens[r].end());
  const std::int64_t first = whole ? 0 : seen_, length = decoder_.window.value_or(whole ? total : fresh);
  inputs_[input(decoder_.input_ids).name] = token_tensor(whole ? all_ : tokens, length);
  if (decoder_.attention_mask) inputs_[input(*decoder_.attention_mask).name] = mask_tensor(total, first + length);
  if (decoder_.position_ids) inputs_[input(*decoder_.position_ids).name] = positions(*decoder_.position_ids, first, length);
  if (decoder_.cache_position) inputs_[input(*decoder_.cache_position).name] = positions(*decoder_.cache_position, first, length);
  if (decoder_.past_length) inputs_[input(*decoder_.past_length).name] = count(*decoder_.past_length, first);
  if (decoder_.total_length) inputs_[input(*decoder_.total_length).name] = count(*decoder_.total_length, first + length);
  for (const auto& [name, value] : given_) inputs_[name] = value;
  const std::vector<std::int64_t> had = past_lengths();
  absl::StatusOr<std::vector<Value>> outputs = run_(needs_past_again() ? inputs_ : std::exchange(inputs_, {}));
  if (!outputs.ok())
    return absl::Status(outputs.status().code(),
                        fmt::format("tokens {} to {}: {}", seen_, total - 1, std::string(outputs.status().message())));
  absl::StatusOr<StepLogits> logits = logits_of((*outputs)[decoder_.logits], fresh, length);
  if (!logits.ok()) return logits;
  const std::int64_t dropped = fresh - keep.value_or(fresh);
  if (absl::Status s = feed_back(*outputs, had, dropped); !s.ok()) return s;
  if (whole)
    for (auto& row : all_) row.resize(static_cast<std::size_t>(total - dropped));
  seen_ = total - dropped;
  return logits;
}

absl::StatusOr<StepLogits> Stepper::logits_of(const Value& value, std::int64_t tokens, std::int64_t run_tokens) const {
  const std::string& name = model_.graph.outputs[decoder_.logits].name;
  if (!value.is_tensor()) return absl::InvalidArgumentError(fmt::format("output '{}' is no tensor, so it can't be logits", name));
  Tensor scores = value.tensor();
  if (scores.rank() == 2 && scores.dims()[0] == rows()) scores = scores.reshaped({rows(), 1, scores.dims()[1]});
  const bool fits = scores.rank() == 3 && scores.dims()[0] == rows() && scores.dims()[1] > 0 && scores.dims()[1] <= run_tokens &&
                    scores.dims()[2] > 0 && is_floating(scores.dtype()) && bit_width(scores.dtype()) >= 16;
  if (!fits)
    return absl::InvalidArgumentError(
        fmt::format("output '{}' is {} of rank {}, and logits are floats of [batch, tokens, vocabulary]; name "
                    "them by --logits",
                    name, dtype_name(scores.dtype()), scores.rank()));
  // Scores are of the run's last tokens; without a cache, the step's tokens have others in front, and perhaps padding behind.
  const std::int64_t first = (decoder_.cache.empty() ? seen_ : 0) - (run_tokens - scores.dims()[1]);
  if (first + tokens <= 0)
    return absl::InvalidArgumentError(
        fmt::format("output '{}' has scores of the last {} of {} tokens alone, and token {} is not among them; export the model with "
                    "logits of all tokens, or with an open length",
                    name, scores.dims()[1], run_tokens, seen_ + tokens - 1));
  return StepLogits(std::move(scores), first, tokens);
}

// Whether a past slides, and presents hold the new tokens alone. Any other is given away, so that a run may free it as it goes.
bool Stepper::needs_past_again() const {
  if (decoder_.kind != CacheKind::kSliding) return false;
  return !std::all_of(decoder_.cache.begin(), decoder_.cache.end(), [&](const CachePair& pair) {
    const auto past = fixed_length(input(pair.past), pair.axis), present = fixed_length(model_.graph.outputs[pair.present], pair.axis);
    return past && present && *present >= *past;
  });
}

std::vector<std::int64_t> Stepper::past_lengths() const {
  std::vector<std::int64_t> out;
  for (const CachePair& pair : decoder_.cache) out.push_back(length_of(inputs_.at(input(pair.past).name), pair.axis));
  return out;
}

// Presents become pasts, without the last tokens that are dropped. A fixed past keeps its length; a present that is shorter holds the new
// tokens alone. In a buffer the next run writes over what is dropped.
absl::Status Stepper::feed_back(std::vector<Value>& outputs, const std::vector<std::int64_t>& lengths, std::int64_t dropped) {
  for (std::size_t i = 0; i < decoder_.cache.size(); ++i) {
    const CachePair& pair = decoder_.cache[i];
    Value present = std::exchange(outputs[pair.present], Value());  // freed as soon as the past is made of it
    if (!present.is_tensor())
      return absl::InvalidArgumentError(fmt::format("output '{}' is no tensor", model_.graph.outputs[pair.present].name));
    Value& past = inputs_[input(pair.past).name];
    const std::int64_t made = length_of(present, pair.axis), had = lengths[i];
    const bool slides = decoder_.kind == CacheKind::kSliding && made != had;
    if (decoder_.kind == CacheKind::kSliding && !slides && dropped > 0)
      return absl::InvalidArgumentError(
          fmt::format("the model takes {} tokens a run, and its presents have no place for the oldest of the past: it can't "
                      "go on one by one; give one whose window is 1",
                      decoder_.window.value_or(1)));
    if (slides && made < had && !past.is_tensor())
      return absl::InvalidArgumentError(fmt::format("output '{}' is shorter than its type says", model_.graph.outputs[pair.present].name));
    if (slides && made < had)
      past = shifted(past.tensor(), part(present.tensor(), pair.axis, 0, made - dropped), pair.axis);
    else if (slides)
      past = part(present.tensor(), pair.axis, made - had - dropped, had);
    else if (decoder_.kind == CacheKind::kGrowing && dropped > 0)
      past = part(present.tensor(), pair.axis, 0, made - dropped);
    else
      past = std::move(present);
  }
  return absl::OkStatus();
}

void Stepper::forget_past(std::int64_t tokens) {
  for (const CachePair& pair : decoder_.cache) {
    Value& past = inputs_.at(input(pair.past).name);
    const DType dtype = past.tensor().dtype();
    Shape dims = past.tensor().dims();
    if (decoder_.kind == CacheKind::kGrowing && pair.axis >= 0) dims[static_cast<std::size_t>(pair.axis)] -= tokens;
    past = Value();
    past = Tensor(dtype, std::move(dims));
  }
  seen_ -= tokens;
}

std::size_t Stepper::cache_bytes() const {
  std::size_t bytes = 0;
  for (const CachePair& pair : decoder_.cache)
    if (const auto it = inputs_.find(input(pair.past).name); it != inputs_.end()) bytes += it->second.tensor().bytes().size();
  return bytes;
}

RunModel run_by(const Session& session, const RunLimits& limits) {
  return [&session, limits](Inputs inputs) { return session.run_over(std::move(inputs), limits); };
}

}  // namespace saturate
