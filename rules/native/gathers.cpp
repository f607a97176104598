// Reading and writing by indices that count: of a tensor a part that is a box, its axes in another order.
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

// An axis of the data on which the box begins at `first`, and the axis of the table along which it goes; none where it has one element.
struct BoxAxis {
  std::size_t from;
  std::optional<std::size_t> to;
  Dim first, count;
};

// The axes of the data that have an index. nullopt: these are no box.
std::optional<std::vector<BoxAxis>> box_axes(const Views& v, const Dims& table, std::size_t batch, Id indices) {
  const auto parts = counting_parts(v.g, indices);
  if (parts.empty() || batch > table.size()) return std::nullopt;
  const Dim zero = v.g.dims().constant(0), one = v.g.dims().constant(1);
  std::vector<BoxAxis> out;
  std::vector<bool> taken(table.size());
  for (std::size_t i = 0; i < batch + parts.size(); ++i) {
    const Counting along = i < batch ? Counting{i, zero} : parts[i - batch];
    if (!v.guard("no index counts from the end", v.g.dims().non_negative(along.from))) return std::nullopt;
    const auto to = along.axis && v.is_one(table[*along.axis]) ? std::nullopt : along.axis;
    if (to && taken[*to]) return std::nullopt;  // two indices that count together are a diagonal
    if (to) taken[*to] = true;
    out.push_back({i, to, along.from, to ? table[*to] : one});
  }
  return out;
}

// A Reshape that follows to the sizes of the table fails where the tensor has fewer elements, as the gather does.
Id box_of(const Views& v, Id x, const Dims& dims, std::span<const BoxAxis> axes) {
  Dims first, last;
  std::vector<std::int64_t> places;
  for (const BoxAxis& axis : axes) {
    if (v.g.dims().value(axis.first) == 0 && v.equal(axis.count, dims[axis.from])) continue;
    first.push_back(axis.first);
    last.push_back(v.g.dims().add(axis.first, axis.count));
    places.push_back(static_cast<std::int64_t>(axis.from));
  }
  return places.empty() ? x : v.slice(x, first, last, std::move(places));
}

// The axes that are read in their new order, those of one element in front of them, and the others behind.
std::vector<std::int64_t> new_order(std::vector<BoxAxis> axes, std::size_t rank) {
  std::stable_sort(axes.begin(), axes.end(), [](const BoxAxis& a, const BoxAxis& b) { return a.to < b.to; });
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), std::int64_t{0});
  for (std::size_t i = 0; i < axes.size(); ++i) perm[i] = static_cast<std::int64_t>(axes[i].from);
  return perm;
}

// The box of data `from` of sizes `x`, with the axes of the table in front of those that no index is of.
Id box_in_table(const Views& v, Id from, const Dims& x, const Dims& table, const std::vector<BoxAxis>& axes) {
  Dims out = table, placed(table.size(), v.g.dims().constant(1));
  for (const BoxAxis& axis : axes)
    if (axis.to) placed[*axis.to] = axis.count;
  const auto behind = x.begin() + static_cast<std::ptrdiff_t>(axes.size());
  out.insert(out.end(), behind, x.end());
  placed.insert(placed.end(), behind, x.end());
  const Id turned = v.transpose(box_of(v, from, x, axes), new_order(axes, x.size()));
  const Id box = v.reshape(turned, placed, static_cast<int>(x.size()));
  return v.equal(placed, out) ? box : v.expand(box, out);
}

// Classes: 0 X, 1 the indices.
void gather_of_counting(const Views& v, const Match& m, Unions& unions) {
  const Dims *shape = v.shape(m.classes[0]), *indices = v.shape(m.classes[1]);
  if (!shape || !indices || indices->empty()) return;
  const Dims x = *shape, table(indices->begin(), indices->end() - 1);
  const std::int64_t batch = v.int_attribute(m.ops[2], "batch_dims", 0);
  const auto axes = batch < 0 ? std::nullopt : box_axes(v, table, static_cast<std::size_t>(batch), m.classes[1]);
  if (!axes || axes->size() > x.size()) return;
  unions.emplace_back(m.root(), box_in_table(v, m.classes[0], x, table, *axes));
}

// How an operand of an index counts along the axes of the whole index, which it is broadcast to.
std::optional<BoxAxis> counted_operand(const Views& v, Id operand, const Dims& table, std::size_t from) {
  const Dims* own = v.shape(operand);
  const auto& content = v.g.facts(operand).content;
  const Dim one = v.g.dims().constant(1);
  if (own && own->empty() && content && content->size() == 1) return BoxAxis{from, std::nullopt, content->front(), one};
  const auto found = counting(v.g, operand);
  if (!found || !own) return std::nullopt;
  if (!found->axis || v.is_one((*own)[*found->axis])) return BoxAxis{from, std::nullopt, found->from, one};
  const Dim count = (*own)[*found->axis];
  const std::size_t to = *found->axis + table.size() - own->size();
  if (!v.equal(table[to], count)) return std::nullopt;
  return BoxAxis{from, to, found->from, count};
}

// Classes: 0 X, 1 the place in a row, 2 the row, 3 the length of rows, 5 the index: X[row * length + place] is that place of that row, if
// rows are no shorter.
void gather_of_rows_and_places(const Views& v, const Match& m, Unions& unions) {
  const Dims *shape = v.shape(m.classes[0]), *indices = v.shape(m.classes[5]);
  const auto& length = v.g.facts(m.classes[3]).content;
  if (!shape || shape->empty() || !indices || !length || length->size() != 1 || v.int_attribute(m.ops[6], "axis", 0) != 0) return;
  DimTable& dims = v.g.dims();
  const Dims table = *indices;
  const Dim row_size = length->front();
  const auto rows = dims.exact_div(shape->front(), row_size);
  const auto row = counted_operand(v, m.classes[2], table, 0), place = counted_operand(v, m.classes[1], table, 1);
  if (!rows || !row || !place || (row->to && row->to == place->to)) return;
  if (!v.guard("no index counts from the end", dims.non_negative(row->first) && dims.non_negative(place->first))) return;
  if (!v.guard("no place lies behind its row", dims.non_negative(dims.sub(row_size, dims.add(place->first, place->count))))) return;
  const Dims behind(shape->begin() + 1, shape->end()), kept = v.without_ones(behind);
  Dims x{*rows, row_size}, out = table;
  x.insert(x.end(), kept.begin(), kept.end());
  out.insert(out.end(), behind.begin(), behind.end());
  const Id by_row = v.reshape(m.classes[0], x, static_cast<int>(shape->size()));
  const Id box = box_in_table(v, by_row, x, table, {*row, *place});
  unions.emplace_back(m.root(), kept.size() == behind.size() ? box : v.reshape(box, out, static_cast<int>(table.size() + kept.size())));
}

// Updates as the box of the data that they are written to.
Id as_box(const Views& v, Id updates, std::span<const BoxAxis> axes, const Dims& box) {
  const std::size_t table = v.shape(updates)->size() - (box.size() - axes.size());
  std::vector<std::int64_t> perm;
  for (std::size_t t = 0; t < table; ++t)
    if (std::none_of(axes.begin(), axes.end(), [t](const BoxAxis& axis) { return axis.to == t; }))
      perm.push_back(static_cast<std::int64_t>(t));
  for (const BoxAxis& axis : axes)
    if (axis.to) perm.push_back(static_cast<std::int64_t>(*axis.to));
  for (std::size_t t = table; t < v.shape(updates)->size(); ++t) perm.push_back(static_cast<std::int64_t>(t));
  const int rank = static_cast<int>(perm.size());
  return v.reshape(v.transpose(updates, std::move(perm)), box, rank);
}

bool is_plain_write(const Views& v, OpId op) {
  const Attribute* reduction = find_attribute(v.g.key(op).attributes, "reduction");
  return !reduction || reduction->s() == "none";
}

// What was written on one axis, and the data before and behind it; kNone where it is open whether it lies inside of the data.
Id with_rest(const Views& v, Id x, const Dims& dims, const BoxAxis& part, Id written) {
  DimTable& d = v.g.dims();
  const Dim end = d.add(part.first, part.count), size = dims[part.from];
  if (!useful(d.non_negative(d.sub(size, end)))) return kNone;
  const auto axis = static_cast<std::int64_t>(part.from);
  const auto rest = [&](Dim first, Dim last) { return v.slice(x, std::array{first}, std::array{last}, {axis}); };
  std::vector<Id> parts;
  if (d.value(part.first) != 0) parts.push_back(rest(d.constant(0), part.first));
  parts.push_back(written);
  if (!d.equal(end, size)) parts.push_back(rest(end, size));
  return v.concat(parts, axis);
}

// Classes: 0 X, 1 the indices, 2 the updates. What is assigned to a slice of a tensor stands between what lies before and behind it.
void scatter_of_counting(const Views& v, const Match& m, Unions& unions) {
  const Dims *shape = v.shape(m.classes[0]), *indices = v.shape(m.classes[1]), *updates = v.shape(m.classes[2]);
  if (!shape || !indices || !updates || indices->empty() || !is_plain_write(v, m.ops[3])) return;
  const Dims x = *shape, table(indices->begin(), indices->end() - 1);
  const auto axes = box_axes(v, table, 0, m.classes[1]);
  if (!axes || axes->size() > x.size() || updates->size() != table.size() + x.size() - axes->size()) return;
  const auto to_axis = [&](std::size_t t) {
    return std::any_of(axes->begin(), axes->end(), [t](const BoxAxis& axis) { return axis.to == t; });
  };
  for (std::size_t t = 0; t < table.size(); ++t)
    if (!v.guard("no element is written twice", v.is_one(table[t]) || to_axis(t))) return;
  Dims box = x;
  const BoxAxis* part = nullptr;
  for (const BoxAxis& axis : *axes) {
    box[axis.from] = axis.count;
    if (v.g.dims().value(axis.first) == 0 && v.equal(axis.count, x[axis.from])) continue;
    if (!useful(part == nullptr)) return;
    part = &axis;
  }
  const Id written = as_box(v, m.classes[2], *axes, box);
  const Id whole = part ? with_rest(v, m.classes[0], x, *part, written) : written;
  if (whole != kNone) unions.emplace_back(m.root(), whole);
}

}  // namespace

std::vector<NativeRule> native_gather_rules() {
  return to_native({
      {"gather_of_counting_indices", "GatherND by indices that count along axes of their own is its data, sliced and along other axes",
       Effect::kExact, [](OnnxEGraph& g) { return over_two(g, "GatherND"); }, gather_of_counting, true},
      {"gather_of_rows_and_places", "Gather by row * length + place, where both count, is a box of the data row by row", Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{
             {variable(), variable(), variable(), variable(), node(g, "Mul", {2, 3}), node(g, "Add", {1, 4}), node(g, "Gather", {0, 5})}};
       },
       gather_of_rows_and_places, true},
      {"scatter_of_counting_indices", "ScatterND by indices that count is the Concat of its updates and the data on both sides of them",
       Effect::kExact, [](OnnxEGraph& g) { return over(g, "ScatterND", 3); }, scatter_of_counting, true},
  });
}

}  // namespace saturate
