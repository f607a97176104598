// What a target refuses for its rank, as the same operator at a rank that it takes: Reshape, operator, Reshape. Reshapes of neighbours
// cancel by the rules about views.
#include <algorithm>
#include <array>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/native/regroup.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace native;

// The axes of an operator that works along some of them and does the same at each place of the others.
Axes axes_along(const Operation& op, const Dims& dims, const std::vector<bool>& along) {
  return axes_of(
      op, dims, [&along](std::size_t i) { return along[i]; },
      [&op, along](std::size_t i, std::size_t j) { return op.v.guard("it does nothing along joined axes", !along[i] && !along[j]); });
}

std::vector<bool> only(std::size_t rank, std::size_t axis) {
  std::vector<bool> out(rank, false);
  out[axis] = true;
  return out;
}

// The first input at another rank: its axes that the operator works along stay apart.
struct Lifted {
  Regrouped axes;
  Id x;
  std::int64_t place(std::size_t axis) const { return static_cast<std::int64_t>(axes.place(axis)); }
};

std::optional<Lifted> lifted(const Operation& op, const Dims& dims, const Axes& axes) {
  auto regrouped = Regrouped::at(axes, op.ranks);
  if (!regrouped) return std::nullopt;
  const Id x = with_dims(op.v, op.inputs[0], regrouped->dims(op.v.g.dims(), dims));
  return Lifted{*std::move(regrouped), x};
}

std::optional<Lifted> lifted_along(const Operation& op, const Dims& dims, const std::vector<bool>& along) {
  return lifted(op, dims, axes_along(op, dims, along));
}

OpKey with_axis(const Operation& op, std::int64_t axis) { return with_attribute(op.key, Attribute::of("axis", axis)); }

Id add(const Operation& op, const OpKey& key, const std::vector<Id>& inputs) { return op.v.g.add(key, inputs); }

std::vector<Id> with_first(const Operation& op, Id first) {
  std::vector<Id> inputs = op.inputs;
  inputs[0] = first;
  return inputs;
}

// ---- operands that broadcast

void elementwise(const Operation& op, Unions& unions) {
  const Dims* to = op.v.shape(op.result);
  if (!to) return;
  const Dims out = *to;
  DimTable& table = op.v.g.dims();
  const std::size_t operands = broadcasts(op.key) || op.key.op_type == "PRelu" ? op.inputs.size() : 1;
  std::vector<Dims> dims;
  for (std::size_t i = 0; i < operands; ++i) {
    const Dims* own = op.shape(i);
    if (!own || own->size() > out.size()) return;
    dims.push_back(padded(table, *own, out.size()));
  }
  const auto regrouped = regrouped_operands(op, out, dims, out.size());
  if (!regrouped) return;
  std::vector<Id> inputs = op.inputs;
  for (std::size_t i = 0; i < operands; ++i) inputs[i] = operand_with_dims(op, inputs[i], regrouped->dims(table, dims[i]));
  unite(op, add(op, op.key, inputs), unions);
}

// Expand: as an operand beside one of the result's shape.
void expansion(const Operation& op, Unions& unions) {
  const Dims *from = op.shape(0), *to = op.v.shape(op.result);
  if (!from || !to || from->size() > to->size()) return;
  DimTable& table = op.v.g.dims();
  const Dims out = *to, own = padded(table, *from, out.size());
  const auto regrouped = regrouped_operands(op, out, std::array{own}, out.size());
  if (!regrouped) return;
  unite(op, op.v.expand(with_dims(op.v, op.inputs[0], regrouped->dims(table, own)), regrouped->dims(table, out)), unions);
}

// ---- along one axis

// Softmax and such: the shape stays.
void along_an_axis(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  if (!from) return;
  const Dims dims = *from;
  const auto axis = op.axis("axis", -1, dims.size());
  if (!axis) return;
  const auto up = lifted_along(op, dims, only(dims.size(), *axis));
  if (!up) return;
  unite(op, add(op, with_axis(op, up->place(*axis)), with_first(op, up->x)), unions);
}

// QuantizeLinear and DequantizeLinear, by one scale or by those of an axis.
void quantizer(const Operation& op, Unions& unions) {
  const Dims *from = op.shape(0), *scales = op.shape(1);
  if (!from || !scales || scales->size() > 1 || op.number("block_size", 0) != 0) return;
  const Dims dims = *from;
  std::vector<bool> along(dims.size(), false);
  const auto axis = scales->empty() ? std::nullopt : op.axis("axis", 1, dims.size());
  if (!scales->empty() && !axis) return;
  if (axis) along[*axis] = true;
  const auto up = lifted_along(op, dims, along);
  if (!up) return;
  unite(op, add(op, with_axis(op, axis ? up->place(*axis) : 0), with_first(op, up->x)), unions);
}

// CumSum: the axis is an input.
void along_a_given_axis(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  if (!from) return;
  const Dims dims = *from;
  const auto axes = op.axes_in(1, dims.size());
  if (!axes || axes->size() != 1) return;
  const auto up = lifted_along(op, dims, only(dims.size(), axes->front()));
  if (!up) return;
  const Id axis = op.v.g.constant(Tensor::scalar_int64(up->place(axes->front())));
  unite(op, add(op, op.key, {up->x, axis}), unions);
}

// LayerNormalization and such, over the axes from `axis` on: these stay apart, since scale and bias have them.
void over_last_axes(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  if (!from) return;
  const Dims dims = *from;
  const auto axis = op.axis("axis", -1, dims.size());
  if (!axis) return;
  std::vector<bool> along(dims.size(), false);
  std::fill(along.begin() + static_cast<std::ptrdiff_t>(*axis), along.end(), true);
  const auto up = lifted_along(op, dims, along);
  if (!up) return;
  unite(op, add(op, with_axis(op, up->place(*axis)), with_first(op, up->x)), unions);
}

// ---- reductions

// Which axes are reduced; nullopt where that is unknown, or none is.
std::optional<std::vector<bool>> reduced_axes(const Operation& op, std::size_t rank) {
  std::vector<bool> out(rank, true);
  if (op.has(1)) {
    const auto axes = op.axes_in(1, rank);
    if (!axes) return std::nullopt;
    if (!axes->empty()) out.assign(rank, false);
    for (const std::size_t axis : *axes) out[axis] = true;
    if (!axes->empty()) return out;
  }
  return op.number("noop_with_empty_axes", 0) == 0 ? std::optional(out) : std::nullopt;
}

void reduction(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  if (!from || from->empty()) return;
  const Dims dims = *from;
  const auto reduced = reduced_axes(op, dims.size());
  if (!reduced) return;
  const auto alike = [&](std::size_t i, std::size_t j) {
    return op.v.guard("joined axes are reduced together", (*reduced)[i] == (*reduced)[j]);
  };
  const auto touched = [&](std::size_t i) { return (*reduced)[i]; };
  const auto up = lifted(op, dims, axes_of(op, dims, touched, alike));
  if (!up) return;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if ((*reduced)[i]) axes.push_back(up->place(i));
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  const OpKey key = with_attribute(op.key, Attribute::of("keepdims", std::int64_t{1}));
  unite(op, add(op, key, {up->x, op.v.g.constant(Tensor::vector_int64(axes))}), unions);
}

void arg_reduction(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  if (!from || from->empty()) return;
  const Dims dims = *from;
  const auto axis = op.axis("axis", 0, dims.size());
  if (!axis) return;
  const auto up = lifted_along(op, dims, only(dims.size(), *axis));
  if (!up) return;
  const OpKey kept = with_attribute(op.key, Attribute::of("keepdims", std::int64_t{1}));
  unite(op, add(op, with_attribute(kept, Attribute::of("axis", up->place(*axis))), {up->x}), unions);
}

// ---- parts and indices

void slice(const Operation& op, Unions& unions) {
  const Dims *from = op.shape(0), *starts = op.shape(1);
  if (!from || !starts || starts->size() != 1 || op.v.g.facts(op.inputs[1]).dtype != DType::kInt64) return;
  const Dims dims = *from;
  std::vector<std::size_t> axes;
  if (op.has(3)) {
    const auto given = op.axes_in(3, dims.size());
    if (!given) return;
    axes = *given;
  } else {
    const auto count = op.v.g.dims().value((*starts)[0]);
    for (std::int64_t i = 0; count && i < *count; ++i) axes.push_back(static_cast<std::size_t>(i));
  }
  std::vector<bool> along(dims.size(), false);
  for (const std::size_t axis : axes) along[axis] = true;
  const auto up = axes.empty() ? std::nullopt : lifted_along(op, dims, along);
  if (!up) return;
  std::vector<std::int64_t> places;
  for (const std::size_t axis : axes) places.push_back(up->place(axis));
  std::vector<Id> inputs = with_first(op, up->x);
  inputs.resize(std::max<std::size_t>(inputs.size(), 4), op.v.g.absent());
  inputs[3] = op.v.g.constant(Tensor::vector_int64(places));
  unite(op, add(op, op.key, inputs), unions);
}

void split(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  if (!from) return;
  const Dims dims = *from;
  const auto axis = op.axis("axis", 0, dims.size());
  if (!axis) return;
  const auto up = lifted_along(op, dims, only(dims.size(), *axis));
  if (!up) return;
  const Id parts = add(op, with_axis(op, up->place(*axis)), with_first(op, up->x));
  for (int i = 0; i < op.key.outputs; ++i) {
    const Id part = op.v.g.project(op.result, i);
    const Dims* to = op.v.shape(part);
    if (!to) return;
    const Dims own = *to;
    unions.emplace_back(part, with_dims(op.v, op.v.g.project(parts, i), own));
  }
}

void concat(const Operation& op, Unions& unions) {
  const Dims* to = op.v.shape(op.result);
  if (!to) return;
  const Dims out = *to;
  const auto axis = op.axis("axis", 0, out.size());
  if (!axis) return;
  const auto regrouped = Regrouped::at(axes_along(op, out, only(out.size(), *axis)), op.ranks);
  if (!regrouped) return;
  std::vector<Id> inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Dims* own = op.shape(i);
    if (!own || own->size() != out.size()) return;
    inputs.push_back(with_dims(op.v, op.inputs[i], regrouped->dims(op.v.g.dims(), Dims(*own))));
  }
  unite(op, add(op, with_axis(op, static_cast<std::int64_t>(regrouped->place(*axis))), inputs), unions);
}

// Pad: what is added before and behind each axis.
void pad(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  const auto given = op.has(1) ? op.v.ints(op.inputs[1]) : std::nullopt;
  if (!from || !given) return;
  const Dims dims = *from;
  std::vector<std::size_t> axes(dims.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  if (op.has(3)) {
    const auto listed = op.axes_in(3, dims.size());
    if (!listed) return;
    axes = *listed;
  }
  if (given->size() != 2 * axes.size()) return;
  std::vector<std::int64_t> before(dims.size(), 0), behind(dims.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) before[axes[i]] = (*given)[i], behind[axes[i]] = (*given)[axes.size() + i];
  std::vector<bool> along;
  for (std::size_t i = 0; i < dims.size(); ++i) along.push_back(before[i] != 0 || behind[i] != 0);
  const auto up = lifted_along(op, dims, along);
  if (!up) return;
  std::vector<std::int64_t> pads = up->axes.list(before, 0);
  for (const std::int64_t n : up->axes.list(behind, 0)) pads.push_back(n);
  std::vector<Id> inputs = with_first(op, up->x);
  inputs[1] = op.v.g.constant(Tensor::vector_int64(pads));
  if (inputs.size() > 3) inputs.resize(3);
  unite(op, add(op, op.key, inputs), unions);
}

void tile(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  const auto repeats = op.v.ints(op.inputs[1]);
  if (!from || !repeats || repeats->size() != from->size()) return;
  const Dims dims = *from;
  std::vector<bool> along;
  for (const std::int64_t n : *repeats) along.push_back(n != 1);
  const auto up = lifted_along(op, dims, along);
  if (!up) return;
  unite(op, add(op, op.key, {up->x, op.v.g.constant(Tensor::vector_int64(up->axes.list(*repeats, 1)))}), unions);
}

// Gather: the indices become a vector, whose axis stands in the place of the one that they index.
void gather(const Operation& op, Unions& unions) {
  const Dims *from = op.shape(0), *indices = op.shape(1);
  if (!from || !indices) return;
  const Dims dims = *from, listed = *indices;
  const auto axis = op.axis("axis", 0, dims.size());
  if (!axis) return;
  const auto up = lifted_along(op, dims, only(dims.size(), *axis));
  if (!up) return;
  const Id i = with_dims(op.v, op.inputs[1], {op.v.g.dims().product(listed)});
  unite(op, add(op, with_axis(op, up->place(*axis)), {up->x, i}), unions);
}

void gather_elements(const Operation& op, Unions& unions) {
  const Dims *from = op.shape(0), *indices = op.shape(1);
  if (!from || !indices || from->size() != indices->size()) return;
  const Dims dims = *from, to = *indices;
  const auto axis = op.axis("axis", 0, dims.size());
  if (!axis) return;
  std::vector<bool> along;
  for (std::size_t i = 0; i < dims.size(); ++i) along.push_back(i == *axis || !op.v.equal(dims[i], to[i]));
  const auto up = lifted_along(op, dims, along);
  if (!up) return;
  const Id i = with_dims(op.v, op.inputs[1], up->axes.dims(op.v.g.dims(), to));
  unite(op, add(op, with_axis(op, up->place(*axis)), {up->x, i}), unions);
}

// Every operator of these traits, with as many inputs as it may have.
std::vector<Taken> elementwise_operators() {
  std::vector<Taken> out;
  constexpr std::size_t kMostOperands = 8;
  for (const OperatorTraits& t : all_op_traits()) {
    if (!t.domain().empty() || t.op_type() == "Identity") continue;
    if (const auto taken = elementwise_of_fixed_arity(t)) out.push_back(*taken);
    if (t.has(Trait::kVariadicElementwise)) out.push_back({t.op_type(), 1, kMostOperands});
  }
  out.insert(out.end(), {{"Clip", 1, 3}, {"PRelu", 2, 2}, {"CastLike", 2, 2}});
  return out;
}

std::vector<Taken> reductions() {
  std::vector<Taken> out;
  for (const std::string_view name : operators_with(Trait::kReduction)) out.push_back({name, 1, 2});
  return out;
}

std::vector<Taken> splits() {
  std::vector<Taken> out;
  for (int parts = 2; parts <= 32; ++parts) out.push_back({"Split", 1, 2, parts});
  return out;
}

std::vector<ViewRule> rank_rules() {
  const Effect exact = Effect::kExact, sums = Effect::kReassociates;
  return {
      regrouping("rank_of_elementwise", "op(X, Y) = Reshape(op(Reshape(X), Reshape(Y))) at a rank that the target takes", exact,
                 elementwise_operators(), elementwise),
      regrouping("rank_of_expand", "Expand(X) = Reshape(Expand(Reshape(X))) at a rank that the target takes", exact, {{"Expand", 2, 2}},
                 expansion),
      regrouping("rank_along_axis", "Softmax(X) = Reshape(Softmax(Reshape(X))) at a rank that the target takes", exact,
                 {{"Softmax", 1, 1}, {"LogSoftmax", 1, 1}, {"Hardmax", 1, 1}, {"LpNormalization", 1, 1}}, along_an_axis),
      regrouping("rank_of_quantizer", "QuantizeLinear(X) = Reshape(QuantizeLinear(Reshape(X))) at a rank that the target takes", exact,
                 {{"QuantizeLinear", 2, 3}, {"DequantizeLinear", 2, 3}}, quantizer),
      regrouping("rank_of_cumsum", "CumSum(X) = Reshape(CumSum(Reshape(X))) at a rank that the target takes", exact,
                 {{"CumSum", 2, 2}, {"CumProd", 2, 2}}, along_a_given_axis),
      regrouping("rank_of_norm", "LayerNormalization(X) = Reshape(LayerNormalization(Reshape(X))) at a rank that the target takes", sums,
                 {{"LayerNormalization", 2, 3}, {"RMSNormalization", 2, 2}}, over_last_axes),
      regrouping("rank_of_reduction", "Reduce(X) = Reshape(Reduce<keepdims = 1>(Reshape(X))) at a rank that the target takes", sums,
                 reductions(), reduction),
      regrouping("rank_of_arg", "ArgMax(X) = Reshape(ArgMax<keepdims = 1>(Reshape(X))) at a rank that the target takes", exact,
                 {{"ArgMax", 1, 1}, {"ArgMin", 1, 1}}, arg_reduction),
      regrouping("rank_of_slice", "Slice(X) = Reshape(Slice(Reshape(X))) at a rank that the target takes", exact, {{"Slice", 3, 5}}, slice),
      regrouping("rank_of_split", "Split(X) = Reshape(Split(Reshape(X))) at a rank that the target takes", exact, splits(), split),
      regrouping("rank_of_concat", "Concat(X, Y) = Reshape(Concat(Reshape(X), Reshape(Y))) at a rank that the target takes", exact,
                 {{"Concat", 1, 32}}, concat),
      regrouping("rank_of_pad", "Pad(X) = Reshape(Pad(Reshape(X))) at a rank that the target takes", exact, {{"Pad", 2, 4}}, pad),
      regrouping("rank_of_tile", "Tile(X) = Reshape(Tile(Reshape(X))) at a rank that the target takes", exact, {{"Tile", 2, 2}}, tile),
      regrouping("rank_of_gather", "Gather(X, i) = Reshape(Gather(Reshape(X), Reshape(i))) at a rank that the target takes", exact,
                 {{"Gather", 2, 2}}, gather),
      regrouping("rank_of_gather_elements", "GatherElements(X, i) = Reshape(GatherElements(Reshape(X), Reshape(i)))", exact,
                 {{"GatherElements", 2, 2}}, gather_elements),
  };
}

}  // namespace

std::vector<NativeRule> native_rank_rules() { return to_native(rank_rules()); }

}  // namespace saturate
