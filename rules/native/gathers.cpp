// Reading by indices that count: a tensor, or a part of it, along other axes.
#include <algorithm>
#include <array>
#include <numeric>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"
#include "rules/values/counting.h"

namespace saturate {
namespace {

using namespace native;

// An axis that is read from `first` on, and the axis of the table along which that goes; none where one element is read.
struct ReadAxis {
  std::size_t from;
  std::optional<std::size_t> to;
  Dim first, count;
};

// The axes of X that GatherND reads by index. nullopt: what it reads is no box of X.
std::optional<std::vector<ReadAxis>> read_axes(const Views& v, const Dims& table, std::size_t batch, Id indices) {
  const auto parts = counting_parts(v.g, indices);
  if (parts.empty()) return std::nullopt;
  const Dim zero = v.g.dims().constant(0), one = v.g.dims().constant(1);
  std::vector<ReadAxis> out;
  std::vector<bool> taken(table.size());
  for (std::size_t i = 0; i < batch + parts.size(); ++i) {
    const Counting along = i < batch ? Counting{i, zero} : parts[i - batch];
    if (!v.guard("no index counts from the end", v.g.dims().non_negative(along.from))) return std::nullopt;
    const auto to = along.axis && v.is_one(table[*along.axis]) ? std::nullopt : along.axis;
    if (to && taken[*to]) return std::nullopt;  // two indices that count together read a diagonal
    if (to) taken[*to] = true;
    out.push_back({i, to, along.from, to ? table[*to] : one});
  }
  return out;
}

// A Reshape that follows to the sizes of the table fails where the tensor has fewer elements, as the gather does.
Id box_of(const Views& v, Id x, const Dims& dims, std::span<const ReadAxis> axes) {
  Dims first, last;
  std::vector<std::int64_t> places;
  for (const ReadAxis& axis : axes) {
    if (v.g.dims().value(axis.first) == 0 && v.equal(axis.count, dims[axis.from])) continue;
    first.push_back(axis.first);
    last.push_back(v.g.dims().add(axis.first, axis.count));
    places.push_back(static_cast<std::int64_t>(axis.from));
  }
  if (places.empty()) return x;
  return v.g.add(make_key("", "Slice", {}, 1, std::nullopt),
                 std::array{x, v.g.literal(first, false), v.g.literal(last, false), v.g.constant(Tensor::vector_int64(places))});
}

// The axes that are read in their new order, those of one element in front of them, and the others behind.
std::vector<std::int64_t> new_order(std::vector<ReadAxis> axes, std::size_t rank) {
  std::stable_sort(axes.begin(), axes.end(), [](const ReadAxis& a, const ReadAxis& b) { return a.to < b.to; });
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), std::int64_t{0});
  for (std::size_t i = 0; i < axes.size(); ++i) perm[i] = static_cast<std::int64_t>(axes[i].from);
  return perm;
}

// Classes: 0 X, 1 the indices.
void gather_of_counting(const Views& v, const Match& m, Unions& unions) {
  const Dims *shape = v.shape(m.classes[0]), *indices = v.shape(m.classes[1]);
  if (!shape || !indices || indices->empty()) return;
  const Dims x = *shape, table(indices->begin(), indices->end() - 1);
  const auto axes = read_axes(v, table, static_cast<std::size_t>(v.int_attribute(m.ops[2], "batch_dims", 0)), m.classes[1]);
  if (!axes || axes->size() > x.size()) return;
  Dims out = table, placed(table.size(), v.g.dims().constant(1));
  for (const ReadAxis& axis : *axes)
    if (axis.to) placed[*axis.to] = axis.count;
  const auto behind = x.begin() + static_cast<std::ptrdiff_t>(axes->size());
  out.insert(out.end(), behind, x.end());
  placed.insert(placed.end(), behind, x.end());
  const Id turned = v.transpose(box_of(v, m.classes[0], x, *axes), new_order(*axes, x.size()));
  const Id box = v.reshape(turned, placed, static_cast<int>(x.size()));
  unions.emplace_back(m.root(), v.equal(placed, out) ? box : v.expand(box, out));
}

}  // namespace

std::vector<NativeRule> native_gather_rules() {
  return to_native(
      {{"gather_of_counting_indices", "GatherND by indices that count along axes of their own is its data, sliced and along other axes",
        Effect::kExact, [](OnnxEGraph& g) { return over_two(g, "GatherND"); }, gather_of_counting, true}});
}

}  // namespace saturate
