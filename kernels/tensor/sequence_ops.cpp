// Sequences and optionals (ONNX Operators: Sequence*, SplitToSequence, ConcatFromSequence, Optional*).
#include <algorithm>

#include "kernels/core/registry.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

const Sequence* sequence_of(const KernelContext& ctx, std::size_t i) {
  if (!ctx.has_input(i)) return nullptr;
  const Value* value = &ctx.inputs[i];
  if (const auto* optional = std::get_if<Optional>(&value->v); optional != nullptr && optional->value) value = optional->value.get();
  return std::get_if<Sequence>(&value->v);
}

Outputs sequence_construct(KernelContext& ctx) {
  Sequence out;
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    if (!ctx.is_tensor(i)) return ctx.invalid("an input is not a tensor");
    if (i > 0 && ctx.tensor(i).dtype() != ctx.tensor(0).dtype()) return ctx.invalid("the inputs differ in element type");
    out.items.push_back(ctx.inputs[i]);
  }
  out.dtype = ctx.tensor(0).dtype();
  return outputs_of(std::move(out));
}

Outputs sequence_empty(KernelContext& ctx) {
  return outputs_of(Sequence{{}, static_cast<DType>(ctx.attr_i("dtype", static_cast<std::int64_t>(DType::kFloat)))});
}

Outputs sequence_length(KernelContext& ctx) {
  const Sequence* s = sequence_of(ctx, 0);
  if (s == nullptr) return ctx.invalid("the input is not a sequence");
  return outputs_of(Tensor::scalar_int64(static_cast<std::int64_t>(s->items.size())));
}

// The position that input i says, negative from the end; `size` positions exist.
absl::StatusOr<std::int64_t> position(const KernelContext& ctx, std::size_t i, std::int64_t size, std::int64_t from_end) {
  auto at = one_integer(ctx, ctx.tensor(i));
  if (!at.ok()) return at;
  if (*at < 0) *at += from_end;
  if (*at < 0 || *at >= size) return ctx.invalid("the position is out of range");
  return at;
}

Outputs sequence_at(KernelContext& ctx) {
  const Sequence* s = sequence_of(ctx, 0);
  if (s == nullptr) return ctx.invalid("the input is not a sequence");
  const auto n = static_cast<std::int64_t>(s->items.size());
  const auto at = position(ctx, 1, n, n);
  if (!at.ok()) return at.status();
  return outputs_of(s->items[static_cast<std::size_t>(*at)]);
}

Outputs sequence_insert(KernelContext& ctx) {
  const Sequence* s = sequence_of(ctx, 0);
  if (s == nullptr || !ctx.is_tensor(1)) return ctx.invalid("a sequence and a tensor are expected");
  const auto n = static_cast<std::int64_t>(s->items.size());
  std::int64_t at = n;
  if (ctx.has_input(2)) {
    const auto given = position(ctx, 2, n + 1, n);
    if (!given.ok()) return given.status();
    at = *given;
  }
  const DType dtype = ctx.tensor(1).dtype();
  if (n > 0 && s->items[0].is_tensor() && s->items[0].tensor().dtype() != dtype)
    return ctx.invalid("the tensor has another element type than the sequence");
  Sequence out = *s;
  out.items.insert(out.items.begin() + at, ctx.inputs[1]);
  out.dtype = dtype;
  return outputs_of(std::move(out));
}

Outputs sequence_erase(KernelContext& ctx) {
  const Sequence* s = sequence_of(ctx, 0);
  if (s == nullptr) return ctx.invalid("the input is not a sequence");
  const auto n = static_cast<std::int64_t>(s->items.size());
  std::int64_t at = n - 1;
  if (ctx.has_input(1)) {
    const auto given = position(ctx, 1, n, n);
    if (!given.ok()) return given.status();
    at = *given;
  }
  if (n == 0) return ctx.invalid("the sequence is empty");
  Sequence out = *s;
  out.items.erase(out.items.begin() + at);
  return outputs_of(std::move(out));
}

Outputs split_to_sequence(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 0), x.rank());
  if (!axis) return ctx.invalid("the axis is out of range");
  const std::int64_t dim = x.dims()[*axis];
  std::vector<std::int64_t> lengths;
  bool keep = true;
  if (!ctx.has_input(1)) {
    lengths.assign(static_cast<std::size_t>(dim), 1);
    keep = ctx.attr_i("keepdims", 1) != 0;
  } else {
    auto given = int_values(ctx, ctx.tensor(1));
    if (!given.ok()) return given.status();
    if (ctx.tensor(1).rank() == 0) {
      const std::int64_t each = (*given)[0];
      if (each <= 0) return ctx.invalid("the length of the pieces is not positive");
      keep = each != 1 || ctx.attr_i("keepdims", 1) != 0;  // as ONNX Runtime; the standard ignores keepdims here
      for (std::int64_t at = 0; at < dim; at += each) lengths.push_back(std::min(each, dim - at));
    } else {
      lengths = *std::move(given);
    }
  }
  const Shape strides = strides_of(x.dims());
  Sequence out;
  out.dtype = x.dtype();
  std::int64_t at = 0;
  for (std::int64_t n : lengths) {
    if (n < 0 || n > dim - at) return ctx.invalid("the lengths of the split do not add up to the dim");
    Shape dims = x.dims();
    dims[*axis] = n;
    Outputs piece = rearrange(ctx, x, dims, strides, at * strides[*axis]);
    if (!piece.ok()) return piece;
    if (!keep) dims.erase(dims.begin() + *axis);
    out.items.emplace_back(piece->front().tensor().reshaped(std::move(dims)));
    at += n;
  }
  if (at != dim) return ctx.invalid("the lengths of the split do not add up to the dim");
  return outputs_of(std::move(out));
}

Outputs concat_from_sequence(KernelContext& ctx) {
  const Sequence* s = sequence_of(ctx, 0);
  if (s == nullptr || s->items.empty()) return ctx.invalid("a sequence with at least one tensor is expected");
  std::vector<Tensor> parts;
  for (const Value& v : s->items) {
    if (!v.is_tensor()) return ctx.invalid("an element of the sequence is not a tensor");
    parts.push_back(v.tensor());
  }
  const std::int64_t axis = ctx.attr_i("axis", 0);
  if (ctx.attr_i("new_axis", 0) != 0) return one_output(stack(ctx, parts, axis));
  Node node = ctx.node;
  node.op_type = "Concat";
  node.domain.clear();
  node.attributes = {Attribute::of("axis", axis)};
  node.inputs.assign(parts.size(), "part");
  return ctx.host.run_node(node, ctx.opset, s->items);
}

Outputs sequence_map(KernelContext& ctx) {
  const Graph* body = ctx.attr_g("body");
  const Sequence* lead = sequence_of(ctx, 0);
  if (body == nullptr || lead == nullptr) return ctx.invalid("a body and a sequence are expected");
  std::vector<Sequence> out(body->outputs.size());
  for (std::size_t k = 0; k < out.size(); ++k) out[k].dtype = body->outputs[k].type.dtype;
  for (std::size_t i = 0; i < lead->items.size(); ++i) {
    std::vector<Value> inputs;
    for (std::size_t j = 0; j < ctx.inputs.size(); ++j) {
      const auto* sequence = std::get_if<Sequence>(&ctx.inputs[j].v);
      if (sequence != nullptr && sequence->items.size() != lead->items.size()) return ctx.invalid("the sequences differ in length");
      inputs.push_back(sequence != nullptr ? sequence->items[i] : ctx.inputs[j]);
    }
    Outputs results = ctx.host.run_graph(*body, inputs);
    if (!results.ok()) return results;
    if (results->size() != out.size()) return ctx.invalid("the body gave another number of outputs than declared");
    for (std::size_t k = 0; k < out.size(); ++k) out[k].items.push_back((*results)[k]);
  }
  std::vector<Value> values;
  for (Sequence& s : out) values.emplace_back(std::move(s));
  return values;
}

Outputs optional(KernelContext& ctx) {
  if (!ctx.has_input(0)) return outputs_of(Optional{});
  return outputs_of(Optional{std::make_shared<const Value>(ctx.inputs[0])});
}

Outputs optional_has_element(KernelContext& ctx) {
  bool has = ctx.has_input(0);
  if (has) {
    const auto* optional = std::get_if<Optional>(&ctx.inputs[0].v);
    has = optional == nullptr || optional->value != nullptr;
  }
  return outputs_of(Tensor::of<bool>(DType::kBool, {}, std::span(&has, 1)));
}

Outputs optional_get_element(KernelContext& ctx) {
  if (!ctx.has_input(0)) return ctx.invalid("the optional is absent");
  const auto* optional = std::get_if<Optional>(&ctx.inputs[0].v);
  if (optional == nullptr) return outputs_of(ctx.inputs[0]);
  if (!optional->value) return ctx.invalid("the optional is empty");
  return outputs_of(*optional->value);
}

}  // namespace

void register_sequence(Registry& registry) {
  registry.add("", "SequenceConstruct", sequence_construct);
  registry.add("", "SequenceEmpty", sequence_empty);
  registry.add("", "SequenceLength", sequence_length);
  registry.add("", "SequenceAt", sequence_at);
  registry.add("", "SequenceInsert", sequence_insert);
  registry.add("", "SequenceErase", sequence_erase);
  registry.add("", "SequenceMap", sequence_map);
  registry.add("", "SplitToSequence", split_to_sequence);
  registry.add("", "ConcatFromSequence", concat_from_sequence);
  registry.add("", "Optional", optional);
  registry.add("", "OptionalHasElement", optional_has_element);
  registry.add("", "OptionalGetElement", optional_get_element);
}

}  // namespace saturate
