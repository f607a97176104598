// Recurrent operators, sequences and optionals, losses, signal processing, strings.
#include <algorithm>

#include "onnx_bridge/facts/infer_call.h"

namespace saturate::inference {

namespace {

// `state_axis`: that of the recurrent weights which has the size of a state.
void recurrent_of(Call& c, int state_axis) {
  for (int o = 0; o < c.num_outputs(); ++o) c.set_dtype(o, c.in(0).dtype);
  if (!c.has_rank(0) || !c.require_rank(0, 3)) return;
  const bool batch_first = c.int_attribute("layout", 0) != 0;
  const Dim steps = c.dim(0, batch_first ? 1 : 0), batch = c.dim(0, batch_first ? 0 : 1);
  const Dim directions = c.constant(c.string_attribute("direction", "forward") == "bidirectional" ? 2 : 1);
  std::optional<Dim> hidden;
  if (c.attribute("hidden_size") && c.int_attribute("hidden_size", 0) > 0)
    hidden = c.constant(c.int_attribute("hidden_size", 0));
  else if (c.has_rank(2) && c.rank(2) == 3)
    hidden = c.dim(2, state_axis);
  if (!hidden) return;
  c.set_shape(0, batch_first ? DimVector{batch, steps, directions, *hidden} : DimVector{steps, directions, batch, *hidden});
  const DimVector last = batch_first ? DimVector{batch, directions, *hidden} : DimVector{directions, batch, *hidden};
  for (int o = 1; o < c.num_outputs(); ++o) c.set_shape(o, last);
}

void recurrent(Call& c) { recurrent_of(c, 2); }
// com.microsoft's has its weights the other way round.
void dynamic_quantize_lstm(Call& c) { recurrent_of(c, 1); }

void set_sequence(Call& c, DType dtype) {
  if (!c.wants(0)) return;
  c.out[0].kind = Facts::Kind::kSequence;
  c.out[0].dtype = dtype;
}

// Facts of the items, where the number of items is known, are the sequence's elements.
void split_to_sequence(Call& c) {
  set_sequence(c, c.in(0).dtype);
  if (!c.wants(0) || !c.has_rank(0) || c.rank(0) == 0) return;
  auto axis = c.normal_axis(c.int_attribute("axis", 0), c.rank(0));
  if (!axis) return;
  const auto size = c.value(c.dim(0, *axis));
  DimVector parts;
  bool keep = true;
  if (!c.has(1)) {
    if (!size || *size > kMaxContent) return;
    parts.assign(static_cast<std::size_t>(*size), c.constant(1));
    keep = c.int_attribute("keepdims", 1) != 0;
  } else if (c.has_rank(1) && c.rank(1) == 0) {
    auto part = c.scalar(1);
    const auto n = part ? c.value(*part) : std::nullopt;
    if (!size || !n || *n <= 0 || *size / *n > kMaxContent) return;
    for (std::int64_t left = *size; left > 0; left -= std::min(*n, left)) parts.push_back(c.constant(std::min(*n, left)));
    // As ONNX Runtime, and exporters that count on it; the standard ignores keepdims here.
    keep = *n != 1 || c.int_attribute("keepdims", 1) != 0;
  } else if (auto given = c.content(1)) {
    parts = *given;
  } else {
    return;
  }
  for (Dim d : parts) {
    Facts item;
    item.kind = Facts::Kind::kTensor;
    item.dtype = c.in(0).dtype;
    item.shape = c.shape(0);
    if (keep)
      (*item.shape)[static_cast<std::size_t>(*axis)] = d;
    else
      item.shape->erase(item.shape->begin() + *axis);
    c.out[0].elements.push_back(std::move(item));
  }
}

void sequence_construct(Call& c) {
  set_sequence(c, c.inputs.empty() ? DType::kUndefined : c.in(0).dtype);
  if (!c.wants(0)) return;
  for (const Facts* f : c.inputs) {
    if (!f || f->kind != Facts::Kind::kTensor) return c.out[0].elements.clear();
    c.out[0].elements.push_back(*f);
    c.out[0].elements.back().constant = false;
    c.out[0].elements.back().value.reset();
  }
}

void sequence_at(Call& c) {
  if (c.in(0).kind != Facts::Kind::kSequence || !c.wants(0)) return;
  c.set_dtype(0, c.in(0).dtype);
  const auto& items = c.in(0).elements;
  auto at = c.ints(1);
  if (items.empty()) return;
  const auto n = static_cast<std::int64_t>(items.size());
  if (at && at->size() == 1) {
    if (at->front() < -n || at->front() >= n) return c.fail("the position is outside the sequence");
    c.out[0] = items[static_cast<std::size_t>(at->front() < 0 ? at->front() + n : at->front())];
    return;
  }
  const auto& first = items.front().shape;
  if (first && std::all_of(items.begin(), items.end(), [&](const Facts& f) { return f.shape == first; })) c.set_shape(0, first);
}

void sequence_empty(Call& c) { set_sequence(c, static_cast<DType>(c.int_attribute("dtype", 1))); }
void sequence_changed(Call& c) { set_sequence(c, c.in(0).dtype); }

void sequence_length(Call& c) {
  c.set(0, DType::kInt64, DimVector{});
  if (!c.in(0).elements.empty()) c.set_content(0, {c.constant(static_cast<std::int64_t>(c.in(0).elements.size()))});
}

void concat_from_sequence(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  const auto& items = c.in(0).elements;
  if (items.empty() || !items.front().shape) return;
  const bool stacked = c.int_attribute("new_axis", 0) != 0;
  DimVector shape = *items.front().shape;
  auto axis = c.normal_axis(c.int_attribute("axis", 0), static_cast<int>(shape.size()) + (stacked ? 1 : 0));
  if (!axis) return;
  for (const Facts& f : items)
    if (!f.shape || f.shape->size() != shape.size()) return;
  if (stacked) {
    shape.insert(shape.begin() + *axis, c.constant(static_cast<std::int64_t>(items.size())));
  } else {
    Dim sum = c.constant(0);
    for (const Facts& f : items) sum = c.dims.add(sum, (*f.shape)[static_cast<std::size_t>(*axis)]);
    shape[static_cast<std::size_t>(*axis)] = sum;
  }
  c.set_shape(0, std::move(shape));
}

void optional_has_element(Call& c) { c.set(0, DType::kBool, DimVector{}); }

void optional_get_element(Call& c) {
  if (c.wants(0) && (c.in(0).kind == Facts::Kind::kTensor || c.in(0).kind == Facts::Kind::kSequence)) c.out[0] = c.in(0);
}

void loss(Call& c, std::size_t scores) {
  c.set_dtype(0, c.in(scores).dtype);
  if (c.string_attribute("reduction", "mean") != "none") return c.set_shape(0, DimVector{});
  if (c.has_rank(1)) c.set_shape(0, c.shape(1));
}
void negative_log_likelihood(Call& c) { loss(c, 0); }
void cross_entropy(Call& c) {
  loss(c, 0);
  c.set_like(1, 0);
}

void dft(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || c.rank(0) < 2) return;
  const bool one_sided = c.int_attribute("onesided", 0) != 0, inverse = c.int_attribute("inverse", 0) != 0;
  std::optional<std::int64_t> axis = c.has(2) ? std::nullopt : std::optional<std::int64_t>(-2);
  if (auto given = c.ints(2); given && given->size() == 1) axis = given->front();
  DimVector shape = c.shape(0);
  if (!axis) return c.set_shape(0, c.fresh_shape(0, c.rank(0)));
  auto a = c.normal_axis(*axis, c.rank(0));
  if (!a) return;
  Dim& d = shape[static_cast<std::size_t>(*a)];
  if (c.has(1)) {
    auto n = c.scalar(1);
    d = n && c.dims.non_negative(*n) ? *n : c.fresh(0, *a);
  }
  if (one_sided && inverse) return c.set_shape(0, c.fresh_shape(0, c.rank(0)));
  if (one_sided) d = c.dims.add(c.dims.floor_div(d, c.constant(2)), c.constant(1));
  shape.back() = c.constant(2);
  c.set_shape(0, std::move(shape));
}

void stft(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  if (c.rank(0) == 0) return c.fail("a signal of rank 0");
  const auto step = c.scalar(1);
  const auto length = !c.has(3) && c.has_rank(2) && c.rank(2) == 1 ? std::optional(c.dim(2, 0)) : c.scalar(3);
  DimVector shape = c.fresh_shape(0, 4);
  shape[0] = c.dim(0, 0);
  shape[3] = c.constant(2);
  if (length && c.rank(0) >= 2) {
    if (step && c.value(*step) != 0) shape[1] = c.dims.add(c.dims.floor_div(c.dims.sub(c.dim(0, 1), *length), *step), c.constant(1));
    shape[2] = c.int_attribute("onesided", 1) != 0 ? c.dims.add(c.dims.floor_div(*length, c.constant(2)), c.constant(1)) : *length;
  }
  c.set_shape(0, std::move(shape));
}

void mel_weights(Call& c) {
  c.set_dtype(0, static_cast<DType>(c.int_attribute("output_datatype", 1)));
  auto bins = c.scalar(0), length = c.scalar(1);
  DimVector shape = c.fresh_shape(0, 2);
  if (length && c.dims.non_negative(*length)) shape[0] = c.dims.add(c.dims.floor_div(*length, c.constant(2)), c.constant(1));
  if (bins && c.dims.non_negative(*bins)) shape[1] = *bins;
  c.set_shape(0, std::move(shape));
}

void string_split(Call& c) {
  c.set_dtype(0, DType::kString);
  c.set_dtype(1, DType::kInt64);
  if (!c.has_rank(0)) return;
  DimVector shape = c.shape(0);
  c.set_shape(1, shape);
  shape.push_back(c.fresh(0, c.rank(0)));
  c.set_shape(0, std::move(shape));
}

}  // namespace

void add_other_rules(Rules& rules) {
  rules[":LSTM"] = rules[":GRU"] = rules[":RNN"] = recurrent;
  rules["com.microsoft:DynamicQuantizeLSTM"] = dynamic_quantize_lstm;
  rules[":SplitToSequence"] = split_to_sequence;
  rules[":SequenceConstruct"] = sequence_construct;
  rules[":SequenceAt"] = sequence_at;
  rules[":SequenceEmpty"] = sequence_empty;
  rules[":SequenceInsert"] = rules[":SequenceErase"] = sequence_changed;
  rules[":SequenceLength"] = sequence_length;
  rules[":ConcatFromSequence"] = concat_from_sequence;
  rules[":OptionalHasElement"] = optional_has_element;
  rules[":OptionalGetElement"] = optional_get_element;
  rules[":NegativeLogLikelihoodLoss"] = negative_log_likelihood;
  rules[":SoftmaxCrossEntropyLoss"] = cross_entropy;
  rules[":DFT"] = dft;
  rules[":STFT"] = stft;
  rules[":MelWeightMatrix"] = mel_weights;
  rules[":StringSplit"] = string_split;
}

}  // namespace saturate::inference
