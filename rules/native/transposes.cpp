// Reshapes around Transposes. A view is brought to one form, Reshape(Transpose(Reshape(X))) with the fewest axes, none of them of size 1.
#include <algorithm>
#include <numeric>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace native;

// The permutation of the axes of `x_dims` that are not 1; nullopt where the Transpose has none of so many axes.
std::optional<std::vector<std::int64_t>> moved_axes(const Views& v, const Dims& x_dims, OpId transpose) {
  const auto perm = v.perm(transpose, x_dims.size());
  if (!perm) return std::nullopt;
  std::vector<std::int64_t> place(x_dims.size(), -1), out;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < x_dims.size(); ++i)
    if (v.g.dims().value(x_dims[i]) != 1) place[i] = next++;
  for (const std::int64_t axis : *perm)
    if (place[static_cast<std::size_t>(axis)] >= 0) out.push_back(place[static_cast<std::size_t>(axis)]);
  return out;
}

// Reshape(Transpose(Reshape(X, inner), perm), to), without the Reshapes that do nothing.
Id view(const Views& v, Id x, const Dims& inner, std::vector<std::int64_t> perm, const Dims& to) {
  const auto reshaped = [&](Id from, const Dims& dims) {
    const Dims* own = v.shape(from);
    return own && v.equal(*own, dims) ? from : v.reshape(from, dims, 0);
  };
  if (std::is_sorted(perm.begin(), perm.end())) return reshaped(x, to);
  return reshaped(v.transpose(reshaped(x, inner), std::move(perm)), to);
}

// Transpose(Reshape(X)) = Reshape(Transpose(X)) where the Reshape only merges neighbouring dims, not just ones.
void transpose_of_merge(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!useful(v.is_spelled_out(m.classes[1], mid))) return;
  if (!from || !mid || !to || !useful(v.cuts(*from) > v.cuts(*mid))) return;
  const auto moved_by = moved_axes(v, *mid, m.ops[3]);
  if (!moved_by) return;
  const std::vector<std::int64_t>& perm = *moved_by;
  const Dims parts = v.without_ones(*from), merged = v.without_ones(*mid), result = *to;
  const auto groups = group_dims(v.g.dims(), parts, merged);
  if (!groups || perm.size() != merged.size()) return;
  std::vector<std::pair<std::size_t, std::size_t>> run(merged.size(), {0, 0});
  for (const DimGroup& g : *groups) {
    if (!v.guard("the Reshape only merges", g.to_end - g.to_begin == 1)) return;
    run[g.to_begin] = {g.from_begin, g.from_end};
  }
  std::vector<std::int64_t> inner;
  for (std::int64_t axis : perm)
    for (std::size_t i = run[axis].first; i < run[axis].second; ++i) inner.push_back(static_cast<std::int64_t>(i));
  if (inner.size() == parts.size()) unions.emplace_back(m.root(), view(v, m.classes[0], parts, std::move(inner), result));
}

// Reshape(Transpose(X)) = Transpose(Reshape(X)) where the Reshape only splits dims, not just ones off them.
void split_of_transpose(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[1]), *to = v.shape(m.root());
  if (!useful(v.is_spelled_out(m.classes[2], to))) return;
  if (!from || !mid || !to || !useful(v.cuts(*to) > v.cuts(*mid))) return;
  const auto moved_by = moved_axes(v, *from, m.ops[1]);
  if (!moved_by) return;
  const std::vector<std::int64_t>& perm = *moved_by;
  const Dims joined = v.without_ones(*mid), parts = v.without_ones(*to), result = *to;
  const auto groups = group_dims(v.g.dims(), joined, parts);
  if (!groups || perm.size() != joined.size()) return;
  std::vector<std::pair<std::size_t, std::size_t>> run(joined.size(), {0, 0});  // dims of the result that each dim of X becomes
  for (const DimGroup& g : *groups) {
    if (!v.guard("the Reshape only splits", g.from_end - g.from_begin == 1)) return;
    run[static_cast<std::size_t>(perm[g.from_begin])] = {g.to_begin, g.to_end};
  }
  Dims split;
  std::vector<std::int64_t> place(parts.size(), 0);
  for (const auto& [begin, end] : run)
    for (std::size_t i = begin; i < end; ++i) {
      place[i] = static_cast<std::int64_t>(split.size());
      split.push_back(parts[i]);
    }
  if (split.size() == parts.size()) unions.emplace_back(m.root(), view(v, m.classes[0], split, std::move(place), result));
}

// The axes of a Transpose's result, none of size 1, in runs that are neighbours in this order before it too, and that `together` does not
// tear apart: the Transpose of X with each run joined to one axis, in the shape `to`. nullopt where that has as many axes as before.
struct Transposed {
  Id x;
  const Dims& dims;  // of x
  std::span<const std::int64_t> perm;
};
template <typename Together>
std::optional<Id> view_of_runs(const Views& v, const Transposed& from, const Dims& to, std::size_t rank, Together together) {
  const std::span<const std::int64_t> perm = from.perm;
  std::vector<std::size_t> first;  // axis of the result that each run begins with
  for (std::size_t i = 0; i < perm.size(); ++i)
    if (i == 0 || !useful(together(i - 1, i)) || !v.guard("what is joined are neighbours before the Transpose", perm[i] == perm[i - 1] + 1))
      first.push_back(i);
  if (!useful(first.size() != rank)) return std::nullopt;
  std::vector<std::size_t> order(first.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return perm[first[a]] < perm[first[b]]; });
  Dims joined;
  std::vector<std::int64_t> outer(first.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t end = order[k] + 1 < first.size() ? first[order[k] + 1] : perm.size();
    Dim n = v.g.dims().constant(1);
    for (std::size_t i = first[order[k]]; i < end; ++i) n = v.g.dims().mul(n, from.dims[static_cast<std::size_t>(perm[i])]);
    joined.push_back(n);
    outer[order[k]] = static_cast<std::int64_t>(k);
  }
  return view(v, from.x, joined, std::move(outer), to);
}

// Reshape(Transpose(X)) = Transpose(Reshape(X)) where the Reshape only puts axes of size 1 between others: X gets them behind its
// first, whatever their places in the result, so that X with so many of them is one value.
void ones_of_transpose(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[1]), *to = v.shape(m.root());
  if (!useful(v.is_spelled_out(m.classes[2], to))) return;
  if (!from || !mid || !to || mid->empty() || to->size() <= mid->size()) return;
  if (v.cuts(*mid) != std::ssize(*mid) || !v.guard("only axes of size 1 are added", v.equal(v.without_ones(*to), *mid))) return;
  const auto perm = v.perm(m.ops[1], mid->size());
  if (!perm) return;
  const std::int64_t ones = std::ssize(*to) - std::ssize(*mid);
  Dims longer = *from;
  longer.insert(longer.begin() + 1, static_cast<std::size_t>(ones), v.g.dims().constant(1));
  std::vector<std::int64_t> outer;
  std::int64_t one = 1;
  std::size_t next = 0;
  for (const Dim d : *to) {
    const bool added = v.g.dims().value(d) == 1;
    const std::int64_t axis = added ? one++ : (*perm)[next++];
    outer.push_back(added || axis == 0 ? axis : axis + ones);
  }
  const Id inner = v.reshape(m.classes[0], longer, 0);
  unions.emplace_back(m.root(), v.transpose(inner, std::move(outer)));
}

// Reshape(Transpose(X)) = Reshape(Transpose(Reshape(X))) where axes that the Transpose keeps together are joined by the Reshape anyway.
void merge_of_transpose(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[1]), *to = v.shape(m.root());
  if (!useful(v.is_spelled_out(m.classes[2], to))) return;
  if (!from || !mid || !to || from->size() != mid->size() || !useful(!v.has_zero(*from))) return;
  const auto moved_by = moved_axes(v, *from, m.ops[1]);
  if (!moved_by) return;
  const std::vector<std::int64_t>& perm = *moved_by;
  const Dims dims = v.without_ones(*from), moved = v.without_ones(*mid), result = *to;
  const std::size_t mid_rank = mid->size();
  const auto groups = group_dims(v.g.dims(), moved, v.without_ones(result));
  if (!groups || perm.size() != moved.size()) return;
  std::vector<std::size_t> group_of(moved.size(), 0);
  for (std::size_t k = 0; k < groups->size(); ++k) {
    if ((*groups)[k].from_end - (*groups)[k].from_begin > 1 && (*groups)[k].to_end - (*groups)[k].to_begin != 1) continue;
    for (std::size_t i = (*groups)[k].from_begin; i < (*groups)[k].from_end; ++i) group_of[i] = k + 1;
  }
  const auto together = [&](std::size_t a, std::size_t b) { return group_of[a] != 0 && group_of[a] == group_of[b]; };
  if (const auto made = view_of_runs(v, {m.classes[0], dims, perm}, result, mid_rank, together)) unions.emplace_back(m.root(), *made);
}

// Transpose(Reshape(X)) = Reshape(Transpose(Reshape(X))) where axes that the Reshape split from one stay together.
void transpose_of_split(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!useful(v.is_spelled_out(m.classes[1], mid))) return;
  if (!from || !mid || !to || !useful(!v.has_zero(*mid))) return;
  const auto moved_by = moved_axes(v, *mid, m.ops[3]);
  if (!moved_by) return;
  const std::vector<std::int64_t>& perm = *moved_by;
  const Dims dims = v.without_ones(*mid), result = *to;
  const std::size_t mid_rank = mid->size();
  const auto groups = group_dims(v.g.dims(), v.without_ones(*from), dims);
  if (!groups || perm.size() != dims.size()) return;
  std::vector<std::size_t> group_of(dims.size(), 0);
  for (std::size_t k = 0; k < groups->size(); ++k)
    if ((*groups)[k].from_end - (*groups)[k].from_begin == 1)
      for (std::size_t i = (*groups)[k].to_begin; i < (*groups)[k].to_end; ++i) group_of[i] = k + 1;
  const auto together = [&](std::size_t a, std::size_t b) {
    const std::size_t before = group_of[static_cast<std::size_t>(perm[a])];
    return before != 0 && before == group_of[static_cast<std::size_t>(perm[b])];
  };
  if (const auto made = view_of_runs(v, {m.classes[0], dims, perm}, result, mid_rank, together)) unions.emplace_back(m.root(), *made);
}

std::vector<ViewRule> transpose_rules() {
  auto of_reshaped = [](OnnxEGraph& g) { return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), node(g, "Transpose", {2})}}; };
  auto of_transposed = [](OnnxEGraph& g) {
    return Pattern{{variable(), node(g, "Transpose", {0}), variable(), node(g, "Reshape", {1, 2})}};
  };
  return {
      {"transpose_of_merge", "Transpose(Reshape(X)) = Reshape(Transpose(X)) where the Reshape merges neighbours", Effect::kExact,
       of_reshaped, transpose_of_merge},
      {"split_of_transpose", "Reshape(Transpose(X)) = Transpose(Reshape(X)) where the Reshape splits dims", Effect::kExact, of_transposed,
       split_of_transpose},
      {"ones_of_transpose", "Reshape(Transpose(X)) = Transpose(Reshape(X)) where the Reshape puts axes of size 1 between others",
       Effect::kExact, of_transposed, ones_of_transpose},
      {"merge_of_transpose", "Reshape(Transpose(X)) = Reshape(Transpose(Reshape(X))) where axes that stay together are joined",
       Effect::kExact, of_transposed, merge_of_transpose},
      {"transpose_of_split", "Transpose(Reshape(X)) = Reshape(Transpose(Reshape(X))) where axes split from one stay together",
       Effect::kExact, of_reshaped, transpose_of_split},
  };
}

}  // namespace

std::vector<NativeRule> native_transpose_rules() { return to_native(transpose_rules()); }

}  // namespace saturate
