#include "onnx_bridge/empty_dims.h"
#include "rules/native_views.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "rules/native_kit.h"
#include "rules/opkey.h"

namespace saturate {
namespace {

using namespace native;

// Reshape(X, anything) = Reshape(X, the shape it has): all spellings of one target shape become one e-node.
void reshape_to_literal(const Views& v, const Match& m, Unions& unions) {
  const Dims* to = v.shape(m.root());
  if (!to || to->size() > 8) return;
  const Dims copy = *to;
  unions.emplace_back(m.root(), v.reshape(m.classes[0], copy, 0));
}

// Reshape(X, computed shape) = Reshape(X, [0, -1, 64]) where copies and one inferred dim suffice.
void reshape_by_constant(const Views& v, Id result, Id x, Id target, Unions& unions) {
  const Dims *from = v.shape(x), *to = v.shape(result);
  if (!from || !to || v.g.facts(target).value || v.has_zero(*to)) return;
  std::vector<std::int64_t> spelled;
  bool inferred = false, empty = false;  // beside a size of 0 none can be inferred
  for (std::size_t i = 0; i < to->size(); ++i) {
    if (const auto n = v.g.dims().value((*to)[i])) {
      spelled.push_back(*n);
    } else if (i < from->size() && v.equal((*from)[i], (*to)[i])) {
      spelled.push_back(0);
      empty = empty || !(v.g.dims().symbol_name((*to)[i]) || fills(v.g.dims(), (*to)[i], v.g.dims().symbols()));
    } else if (!std::exchange(inferred, true)) {
      spelled.push_back(-1);
    } else {
      return;
    }
  }
  if (inferred && empty) return;
  const int rank = static_cast<int>(from->size());
  unions.emplace_back(result, v.reshape_by(x, std::move(spelled), rank));
}

void reshape_identity(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (from && to && v.equal(*from, *to)) unions.emplace_back(m.root(), m.classes[0]);
}

void expand_to_literal(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (!from || !to || to->size() > 8) return;
  if (v.equal(*from, *to)) {
    unions.emplace_back(m.root(), m.classes[0]);
    return;
  }
  const Dims copy = *to;
  unions.emplace_back(m.root(), v.expand(m.classes[0], copy));
}

// Expand(X, computed shape) = Expand(X, [1, 1, 7]) where every dim that grows is a number.
void expand_by_constant(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (!from || !to || v.g.facts(m.classes[1]).value) return;
  std::vector<std::int64_t> spelled;
  const std::size_t lead = to->size() - from->size();
  for (std::size_t i = 0; i < to->size(); ++i) {
    if (i >= lead && v.equal((*from)[i - lead], (*to)[i]))
      spelled.push_back(1);
    else if (const auto n = v.g.dims().value((*to)[i]))
      spelled.push_back(*n);
    else
      return;
  }
  const Id shape_id = v.g.constant(Tensor::vector_int64(spelled));
  unions.emplace_back(m.root(), v.g.add(make_key("", "Expand", {}, 1, std::nullopt), std::array{m.classes[0], shape_id}));
}

// The coarsest shape that both are merges of; nullopt where none is proven.
std::optional<Dims> refinement(DimTable& table, Dims from, Dims to) {
  Dims fine;
  std::size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    if (table.equal(from[i], to[j])) {
      fine.push_back(from[i]);
      ++i, ++j;
      continue;
    }
    if (table.value(from[i]) == 0 || table.value(to[j]) == 0) return std::nullopt;
    if (const auto rest = table.exact_div(to[j], from[i])) {
      fine.push_back(from[i++]);
      to[j] = *rest;
    } else if (const auto left = table.exact_div(from[i], to[j])) {
      fine.push_back(to[j++]);
      from[i] = *left;
    } else {
      return std::nullopt;
    }
  }
  if (i < from.size() || j < to.size()) return std::nullopt;
  return fine;
}

// Whether this input of a Reshape says each size, as the literal does that every Reshape to a known shape gets: the rules about Reshapes in
// Reshapes and Transposes look at that spelling only, or each view would meet each other one as often as both have spellings.
bool is_spelled_out(const Views& v, Id target, const Dims* to) {
  if (!to || to->size() > 8) return true;
  const auto& content = v.g.facts(target).content;
  return content && v.equal(*content, *to);
}

// Reshape(Reshape(X, any), to) = Reshape(X, to).
void reshape_reshape(const Views& v, const Match& m, Unions& unions) {
  const Dims *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!to || v.has_zero(*to) || !is_spelled_out(v, m.classes[1], mid) || !is_spelled_out(v, m.classes[3], to)) return;
  const Dims result = *to;
  unions.emplace_back(m.root(), v.reshape(m.classes[0], result, 0));
}

// Reshape(X) = Reshape(Reshape(X)) by way of the shape that splits and does not merge: [s, b, 64] -> [s, b, 4, 16] -> [s, 4 b, 16].
void reshape_by_refinement(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (!from || !to || from->size() < 2 || to->size() < 2 || v.has_zero(*from) || !is_spelled_out(v, m.classes[1], to)) return;
  const Dims result = *to;
  const auto fine = refinement(v.g.dims(), *from, *to);
  if (!fine || fine->size() > 6) return;
  const auto cuts = [&](const Dims& dims) {
    return std::count_if(dims.begin(), dims.end(), [&](Dim d) { return v.g.dims().value(d) != 1; });
  };
  if (cuts(*fine) <= cuts(*from) || cuts(*fine) <= cuts(result))
    return;  // dims of 1 cut nothing: with them every view would refine every other
  unions.emplace_back(m.root(), v.reshape(v.reshape(m.classes[0], *fine, 0), result, 0));
}

// Dims that are not 1.
std::ptrdiff_t cuts(const Views& v, const Dims& dims) {
  return std::count_if(dims.begin(), dims.end(), [&](Dim d) { return v.g.dims().value(d) != 1; });
}

// Transpose(Reshape(X)) = Reshape(Transpose(X)) where the Reshape only merges neighbouring dims, not just ones.
void transpose_of_merge(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!is_spelled_out(v, m.classes[1], mid)) return;
  const auto perm = v.perm(m.ops[3]);
  if (!from || !mid || !to || perm.size() != mid->size() || cuts(v, *from) <= cuts(v, *mid)) return;
  const auto groups = group_dims(v.g.dims(), *from, *mid);
  if (!groups) return;
  std::vector<std::pair<std::size_t, std::size_t>> run(mid->size(), {0, 0});
  for (const DimGroup& g : *groups) {
    if (g.to_end - g.to_begin != 1) return;
    run[g.to_begin] = {g.from_begin, g.from_end};
  }
  std::vector<std::int64_t> inner;
  for (std::int64_t axis : perm)
    for (std::size_t i = run[axis].first; i < run[axis].second; ++i) inner.push_back(static_cast<std::int64_t>(i));
  if (inner.size() != from->size()) return;
  const Dims result = *to;
  const Id moved = v.transpose(m.classes[0], std::move(inner));
  unions.emplace_back(m.root(), v.reshape(moved, result, 0));
}

// Reshape(Transpose(X)) = Transpose(Reshape(X)) where the Reshape only splits dims.
void split_of_transpose(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[1]), *to = v.shape(m.root());
  if (!is_spelled_out(v, m.classes[2], to)) return;
  const auto perm = v.perm(m.ops[1]);
  if (!from || !mid || !to || perm.size() != mid->size() || to->size() <= mid->size()) return;
  const auto groups = group_dims(v.g.dims(), *mid, *to);
  if (!groups) return;
  std::vector<std::pair<std::size_t, std::size_t>> run(from->size(), {0, 0});  // dims of the result that each dim of X becomes
  for (const DimGroup& g : *groups) {
    if (g.from_end - g.from_begin != 1) return;
    run[perm[g.from_begin]] = {g.to_begin, g.to_end};
  }
  Dims split;
  std::vector<std::int64_t> place(to->size(), 0);
  for (const auto& [begin, end] : run)
    for (std::size_t i = begin; i < end; ++i) {
      place[i] = static_cast<std::int64_t>(split.size());
      split.push_back((*to)[i]);
    }
  if (split.size() != to->size()) return;
  const Id inner = v.reshape(m.classes[0], split, 0);
  unions.emplace_back(m.root(), v.transpose(inner, std::move(place)));
}

// Runs of axes of a Transpose's result that are neighbours in this order before it too, and that `keep` does not tear apart.
// Each is (first axis of the result, length).
using Runs = std::vector<std::pair<std::size_t, std::size_t>>;
template <typename Keep>
Runs neighbours(std::span<const std::int64_t> perm, Keep together) {
  Runs runs;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (i > 0 && perm[i] == perm[i - 1] + 1 && together(i - 1, i))
      ++runs.back().second;
    else
      runs.emplace_back(i, 1);
  }
  return runs;
}

// The Transpose of X with each run of axes joined to one; `x_dims` are X's.
Id transpose_of_runs(const Views& v, Id x, const Dims& x_dims, std::span<const std::int64_t> perm, const Runs& runs) {
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return perm[runs[a].first] < perm[runs[b].first]; });
  Dims joined;
  std::vector<std::int64_t> outer(runs.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto [first, length] = runs[order[k]];
    Dim n = v.g.dims().constant(1);
    for (std::size_t i = 0; i < length; ++i) n = v.g.dims().mul(n, x_dims[static_cast<std::size_t>(perm[first]) + i]);
    joined.push_back(n);
    outer[order[k]] = static_cast<std::int64_t>(k);
  }
  return v.transpose(v.reshape(x, joined, 0), std::move(outer));
}

// Reshape(Transpose(X)) = Reshape(Transpose(Reshape(X))) where axes that the Transpose keeps together are joined by the Reshape anyway.
void merge_of_transpose(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[1]), *to = v.shape(m.root());
  if (!is_spelled_out(v, m.classes[2], to)) return;
  const auto perm = v.perm(m.ops[1]);
  if (!from || !mid || !to || perm.size() != mid->size() || from->size() != mid->size() || from->size() < 4 || v.has_zero(*from)) return;
  const auto groups = group_dims(v.g.dims(), *mid, *to);
  if (!groups) return;
  std::vector<std::size_t> group_of(mid->size(), 0);
  for (std::size_t k = 0; k < groups->size(); ++k) {
    if ((*groups)[k].from_end - (*groups)[k].from_begin > 1 && (*groups)[k].to_end - (*groups)[k].to_begin != 1) continue;
    for (std::size_t i = (*groups)[k].from_begin; i < (*groups)[k].from_end; ++i) group_of[i] = k + 1;
  }
  const Runs runs = neighbours(perm, [&](std::size_t a, std::size_t b) { return group_of[a] != 0 && group_of[a] == group_of[b]; });
  if (runs.size() == perm.size() || runs.size() == 1) return;
  const Dims x_dims = *from, result = *to;
  unions.emplace_back(m.root(), v.reshape(transpose_of_runs(v, m.classes[0], x_dims, perm, runs), result, 0));
}

// Transpose(Reshape(X)) = Reshape(Transpose(Reshape(X))) where axes that the Reshape split from one stay together.
void transpose_of_split(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!is_spelled_out(v, m.classes[1], mid)) return;
  const auto perm = v.perm(m.ops[3]);
  if (!from || !mid || !to || perm.size() != mid->size() || mid->size() < 4 || v.has_zero(*mid)) return;
  const auto groups = group_dims(v.g.dims(), *from, *mid);
  if (!groups) return;
  std::vector<std::size_t> group_of(mid->size(), 0);
  for (std::size_t k = 0; k < groups->size(); ++k)
    if ((*groups)[k].from_end - (*groups)[k].from_begin == 1)
      for (std::size_t i = (*groups)[k].to_begin; i < (*groups)[k].to_end; ++i) group_of[i] = k + 1;
  const auto together = [&](std::size_t a, std::size_t b) {
    const std::size_t before = group_of[static_cast<std::size_t>(perm[a])];
    return before != 0 && before == group_of[static_cast<std::size_t>(perm[b])];
  };
  const Runs runs = neighbours(perm, together);
  if (runs.size() == perm.size() || runs.size() == 1) return;
  const Dims mid_dims = *mid, result = *to;
  unions.emplace_back(m.root(), v.reshape(transpose_of_runs(v, m.classes[2], mid_dims, perm, runs), result, 0));
}

// Softmax over the last axis does not see how the other dims are cut.
void softmax_of_reshape(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[2]);
  if (!from || !mid || from->empty() || mid->empty() || !v.equal(from->back(), mid->back()) || from->size() <= mid->size()) return;
  const Attribute* axis = find_attribute(v.g.key(m.ops[3]).attributes, "axis");
  if (!axis || (axis->i() != static_cast<std::int64_t>(mid->size()) - 1 && axis->i() != -1)) return;
  const int rank = static_cast<int>(from->size());
  const Dims result = *mid;
  const Id inner = v.g.add(make_key("", "Softmax", {Attribute::of("axis", std::int64_t{rank - 1})}, 1, rank), std::array{m.classes[0]});
  unions.emplace_back(m.root(), v.reshape(inner, result, 0));
}

// Softmax(Reshape(X) + M) = Reshape(Softmax(X + Reshape(M))) where the Reshape only merged batch dims of the scores X; M may broadcast
// there.
void softmax_of_merged_sum(const Views& v, const Match& m, Unions& unions) {
  const Dims *wide = v.shape(m.classes[0]), *narrow = v.shape(m.classes[2]), *mask = v.shape(m.classes[3]), *to = v.shape(m.root());
  if (!wide || !narrow || !mask || !to || narrow->size() < 3 || wide->size() <= narrow->size() || !v.equal(*narrow, *to) ||
      v.has_zero(*mask))
    return;
  if (!v.equal(std::span(*wide).last(2), std::span(*narrow).last(2)) || mask->size() > narrow->size()) return;
  const Attribute* axis = find_attribute(v.g.key(m.ops[5]).attributes, "axis");
  if (!axis || (axis->i() != static_cast<std::int64_t>(narrow->size()) - 1 && axis->i() != -1)) return;
  const auto groups = group_dims(v.g.dims(), *narrow, *wide);
  if (!groups) return;
  const Dim one = v.g.dims().constant(1);
  Dims padded(narrow->size() - mask->size(), one);
  padded.insert(padded.end(), mask->begin(), mask->end());
  Dims cut;
  for (const DimGroup& g : *groups) {
    if (g.from_end - g.from_begin != 1) return;
    const Dim here = padded[g.from_begin];
    const bool whole = v.equal(here, (*narrow)[g.from_begin]);
    if (!whole && v.g.dims().value(here) != 1) return;
    for (std::size_t i = g.to_begin; i < g.to_end; ++i) cut.push_back(whole ? (*wide)[i] : one);
  }
  const Dims result = *narrow;
  const std::int64_t last = static_cast<std::int64_t>(wide->size()) - 1;
  const Id sum = v.g.add(make_key("", "Add", {}, 1, std::nullopt), std::array{m.classes[0], v.reshape(m.classes[3], cut, 0)});
  const Id inner = v.g.add(make_key("", "Softmax", {Attribute::of("axis", last)}, 1, static_cast<int>(last) + 1), std::array{sum});
  unions.emplace_back(m.root(), v.reshape(inner, result, 0));
}

// The shape of `batch` with the last two dims of `matrix`.
Dims with_matrix(const Dims& batch, const Dims& matrix) {
  Dims out(batch.begin(), batch.end() - 2);
  out.insert(out.end(), matrix.end() - 2, matrix.end());
  return out;
}

// [1, h, ...] for [h, ...]: heads of a batch of one, which the operators want apart.
bool is_batch_of_one(const Views& v, const Dims& wide, const Dims& narrow) {
  return narrow.size() == 3 && wide.size() == 4 && v.g.dims().value(wide[0]) == 1;
}

// MatMul(Reshape(A), B) = Reshape(MatMul(A, Reshape(B))) where the Reshape merged batch dims of A only, not just ones. `side`: which factor
// it is.
void matmul_of_merge(const Views& v, const Match& m, Unions& unions, int side) {
  const Id a = m.classes[0], merged = m.classes[2], b = m.classes[3];
  const Dims *wide = v.shape(a), *narrow = v.shape(merged), *other = v.shape(b), *to = v.shape(m.root());
  if (!wide || !narrow || !other || !to || narrow->size() < 3 || other->size() != narrow->size() || wide->size() <= narrow->size()) return;
  if (!v.equal(std::span(*wide).last(2), std::span(*narrow).last(2))) return;
  if (!v.equal(std::span(*narrow).first(narrow->size() - 2), std::span(*other).first(other->size() - 2))) return;
  if (cuts(v, *wide) <= cuts(v, *narrow) && !is_batch_of_one(v, *wide, *narrow)) return;
  const Dims cut = with_matrix(*wide, *other), result = *to;
  const Id b_cut = v.reshape(b, cut, 0);
  const Id product = v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), side == 0 ? std::array{a, b_cut} : std::array{b_cut, a});
  unions.emplace_back(m.root(), v.reshape(product, result, 0));
}

// Reshape(MatMul(A, B)) = MatMul(Reshape(A), Reshape(B)) where the Reshape splits batch dims only, and not just ones off them.
void split_of_matmul(const Views& v, const Match& m, Unions& unions) {
  const Id a = m.classes[0], b = m.classes[1];
  const Dims *da = v.shape(a), *db = v.shape(b), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!da || !db || !mid || !to || mid->size() < 3 || to->size() <= mid->size() || da->size() != mid->size() || db->size() != mid->size())
    return;
  if (!v.equal(std::span(*mid).last(2), std::span(*to).last(2))) return;
  if (!v.equal(std::span(*da).first(da->size() - 2), std::span(*db).first(db->size() - 2))) return;
  if (cuts(v, *to) <= cuts(v, *mid) && !is_batch_of_one(v, *to, *mid)) return;
  const Dims cut_a = with_matrix(*to, *da), cut_b = with_matrix(*to, *db);
  const Id left = v.reshape(a, cut_a, 0), right = v.reshape(b, cut_b, 0);
  unions.emplace_back(m.root(), v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), std::array{left, right}));
}

// Where `merged` is `wide` with the dims [at, at + 2) joined; nullopt where it is not proven to be.
std::optional<std::size_t> joined_at(const Views& v, const Dims& wide, const Dims& merged) {
  if (wide.size() != merged.size() + 1) return std::nullopt;
  for (std::size_t at = 0; at < merged.size(); ++at)
    if (v.equal(std::span(wide).first(at), std::span(merged).first(at)) &&
        v.equal(std::span(wide).subspan(at + 2), std::span(merged).subspan(at + 1)) &&
        v.equal(v.g.dims().mul(wide[at], wide[at + 1]), merged[at]))
      return at;
  return std::nullopt;
}

Dims with_one(Dims dims, std::size_t at, Dim one) {
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), one);
  return dims;
}

// A dim of 1 cut off the rows says nothing, and could be cut off again and again.
bool has_one(const Views& v, const Dims& wide, std::size_t at) {
  return v.g.dims().value(wide[at]) == 1 || v.g.dims().value(wide[at + 1]) == 1;
}

// Reshape(MatMul(A, B)) = MatMul(Reshape(A), Unsqueeze(B)) where the Reshape splits the rows of each matrix: heads of queries that share
// one of keys.
void split_of_matmul_rows(const Views& v, const Match& m, Unions& unions) {
  const Id a = m.classes[0], b = m.classes[1];
  const Dims *da = v.shape(a), *db = v.shape(b), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!da || !db || !mid || !to || mid->size() < 3 || mid->size() > 4 || da->size() != mid->size() || db->size() != mid->size()) return;
  const std::size_t rows = mid->size() - 2;
  if (joined_at(v, *to, *mid) != rows || has_one(v, *to, rows) || !v.equal(std::span(*da).first(rows), std::span(*db).first(rows))) return;
  Dims cut = *to;
  cut.back() = da->back();
  const Dims beside = with_one(*db, rows, v.g.dims().constant(1));
  const Id left = v.reshape(a, cut, 0), right = v.reshape(b, beside, 0);
  unions.emplace_back(m.root(), v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), std::array{left, right}));
}

// MatMul(Reshape(A), B) = Reshape(MatMul(A, Unsqueeze(B))) where the Reshape joined the rows of two axes.
void matmul_of_joined_rows(const Views& v, const Match& m, Unions& unions) {
  const Id a = m.classes[0], b = m.classes[3];
  const Dims *wide = v.shape(a), *joined = v.shape(m.classes[2]), *other = v.shape(b), *to = v.shape(m.root());
  if (!wide || !joined || !other || !to || joined->size() < 3 || joined->size() > 4 || other->size() != joined->size()) return;
  const std::size_t rows = joined->size() - 2;
  if (joined_at(v, *wide, *joined) != rows || has_one(v, *wide, rows) ||
      !v.equal(std::span(*joined).first(rows), std::span(*other).first(rows)))
    return;
  const Dims beside = with_one(*other, rows, v.g.dims().constant(1)), result = *to;
  const Id right = v.reshape(b, beside, 0);
  unions.emplace_back(m.root(), v.reshape(v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), std::array{a, right}), result, 0));
}

// How `part`, which broadcasts into `whole`, broadcasts into `to` once `whole` is reshaped to that: the shape to expand it to, then the
// shape to reshape it to. nullopt where that is not known.
std::optional<std::pair<Dims, Dims>> reshaped_part(const Views& v, const Dims& part, const Dims& whole, const Dims& to) {
  const auto groups = group_dims(v.g.dims(), whole, to);
  if (!groups || part.size() > whole.size()) return std::nullopt;
  const Dim one = v.g.dims().constant(1);
  Dims padded(whole.size() - part.size(), one);
  padded.insert(padded.end(), part.begin(), part.end());
  Dims wide, cut;
  for (const DimGroup& g : *groups) {
    if (g.from_end - g.from_begin == 1 && g.to_end - g.to_begin == 1) {  // one that stays may be open: whole, or 1
      wide.push_back(padded[g.from_begin]);
      cut.push_back(padded[g.from_begin]);
      continue;
    }
    bool ones = true, full = true;
    for (std::size_t i = g.from_begin; i < g.from_end; ++i) {
      const bool one_here = v.g.dims().value(padded[i]) == 1, whole_here = v.equal(padded[i], whole[i]);
      if (!one_here && !whole_here) return std::nullopt;
      ones = ones && one_here;
      full = full && whole_here;
    }
    for (std::size_t i = g.from_begin; i < g.from_end; ++i) wide.push_back(ones ? one : whole[i]);
    for (std::size_t i = g.to_begin; i < g.to_end; ++i) cut.push_back(ones && !full ? one : to[i]);
  }
  return std::pair{std::move(wide), std::move(cut)};
}

// Whether a Softmax reads the value, through sums, scales, masks and views.
bool are_scores(const Views& v, Id value) {
  constexpr std::size_t kMostClasses = 64;
  constexpr std::string_view kBetween[] = {"Add", "Mul", "Where", "Cast", "Reshape", "Transpose", "Max"};
  const EGraph& e = v.g.egraph();
  std::vector<Id> seen{e.find(value)};
  for (std::size_t i = 0; i < seen.size() && seen.size() < kMostClasses; ++i)
    for (const NodeId user : e.class_users(seen[i])) {
      const std::string_view name = v.g.key(e.node(user).op).op_type;
      if (name == "Softmax") return true;
      const Id made = e.find(e.class_of(user));
      if (std::find(std::begin(kBetween), std::end(kBetween), name) != std::end(kBetween) &&
          std::find(seen.begin(), seen.end(), made) == seen.end())
        seen.push_back(made);
    }
  return false;
}

// Reshape(A + B) = Reshape(A) + Reshape(B) where batch dims of scores are cut otherwise; a mask may broadcast. (Of scores alone: where
// it meets constants that go into Reshapes, every sum of a residual stream would be had in every view.)
void reshape_of_sum(const Views& v, const Match& m, Unions& unions) {
  const Dims *a = v.shape(m.classes[0]), *b = v.shape(m.classes[1]), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!a || !b || !mid || !to || mid->size() < 3 || to->size() < 3 || v.equal(*mid, *to) || !is_floating(v.g.facts(m.root()).dtype)) return;
  if (!v.equal(std::span(*mid).last(2), std::span(*to).last(2)) || !are_scores(v, m.root())) return;
  const auto left = reshaped_part(v, *a, *mid, *to), right = reshaped_part(v, *b, *mid, *to);
  if (!left || !right) return;
  const auto cut = [&](Id x, const std::pair<Dims, Dims>& shapes) {
    const Dims from = *v.shape(x);
    const Id wide = v.equal(from, shapes.first) ? x : v.expand(x, shapes.first);
    return v.equal(shapes.first, shapes.second) ? wide : v.reshape(wide, shapes.second, 0);
  };
  const Id x = cut(m.classes[0], *left), y = cut(m.classes[1], *right);
  unions.emplace_back(m.root(), v.g.add(make_key("", "Add", {}, 1, std::nullopt), std::array{x, y}));
}

// Reshape(Expand(Reshape(K, [B, G, 1, T, D]), [B, G, r, T, D]), [B, G * r, T, D]): every head r times.
void heads_repeated(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *cut = v.shape(m.classes[2]), *wide = v.shape(m.classes[4]), *to = v.shape(m.root());
  if (!from || !cut || !wide || !to || from->size() != 4 || cut->size() != 5 || wide->size() != 5 || to->size() != 4) return;
  const auto kept = [&](const Dims& five) {
    return v.equal(std::span(five).first(2), std::span(*from).first(2)) && v.equal(std::span(five).last(2), std::span(*from).last(2));
  };
  const auto times = v.g.dims().value((*wide)[2]), before = v.g.dims().value((*cut)[2]);
  if (!kept(*cut) || !kept(*wide) || before != 1 || !times || *times < 2 || !is_floating(v.g.facts(m.root()).dtype)) return;
  if (!v.equal((*to)[0], (*from)[0]) || !v.equal(std::span(*to).last(2), std::span(*from).last(2))) return;
  unions.emplace_back(
      m.root(), v.g.add(make_key("saturate", "repeat_heads", {Attribute::of("times", *times)}, 1, std::nullopt), std::array{m.classes[0]}));
}

// The right factor of a batched product is the transpose of its transpose: attention rules may then ask for K itself.
void transposed_right_factor(const Views& v, const Match& m, Unions& unions) {
  const Dims *a = v.shape(m.classes[0]), *b = v.shape(m.classes[1]);
  if (!a || !b || a->size() != b->size() || a->size() < 3 || a->size() > 6) return;
  std::vector<std::int64_t> swap(a->size());
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[swap.size() - 2], swap.back());
  const Id k = v.transpose(m.classes[1], swap);
  unions.emplace_back(m.classes[1], v.transpose(k, swap));
}

std::vector<ViewRule> view_rules() {
  auto reshape = [](OnnxEGraph& g) { return over_two(g, "Reshape"); };
  auto expand = [](OnnxEGraph& g) { return over_two(g, "Expand"); };
  auto merged_factor = [](int side) {
    return [side](OnnxEGraph& g) {
      return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), variable(),
                      node(g, "MatMul", side == 0 ? std::vector<std::uint32_t>{2, 3} : std::vector<std::uint32_t>{3, 2})}};
    };
  };
  return {
      {"reshape_to_literal", "Reshape(X, any spelling) = Reshape(X, the shape it has)", Effect::kExact, reshape, reshape_to_literal},
      {"reshape_identity", "Reshape(X, shape of X) = X", Effect::kExact, reshape, reshape_identity},
      {"reshape_reshape", "Reshape(Reshape(X)) = Reshape(X)", Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), variable(), node(g, "Reshape", {2, 3})}};
       },
       reshape_reshape},
      {"reshape_by_refinement", "Reshape(X) = Reshape(Reshape(X)) by way of a shape that only splits", Effect::kExact, reshape,
       reshape_by_refinement},
      {"expand_to_literal", "Expand(X, any spelling) = Expand(X, the shape it has); X where nothing grows", Effect::kExact, expand,
       expand_to_literal},
      {"expand_by_constant", "Expand(X, computed shape) = Expand(X, [1, n]) where only numbers grow", Effect::kExact, expand,
       expand_by_constant},
      {"transpose_of_merge", "Transpose(Reshape(X)) = Reshape(Transpose(X)) where the Reshape merges neighbours", Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), node(g, "Transpose", {2})}};
       },
       transpose_of_merge},
      {"split_of_transpose", "Reshape(Transpose(X)) = Transpose(Reshape(X)) where the Reshape splits dims", Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), node(g, "Transpose", {0}), variable(), node(g, "Reshape", {1, 2})}};
       },
       split_of_transpose},
      {"merge_of_transpose", "Reshape(Transpose(X)) = Reshape(Transpose(Reshape(X))) where axes that stay together are joined",
       Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), node(g, "Transpose", {0}), variable(), node(g, "Reshape", {1, 2})}};
       },
       merge_of_transpose},
      {"transpose_of_split", "Transpose(Reshape(X)) = Reshape(Transpose(Reshape(X))) where axes split from one stay together",
       Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), node(g, "Transpose", {2})}};
       },
       transpose_of_split},
      {"softmax_of_reshape", "Softmax(Reshape(X)) = Reshape(Softmax(X)) where the last dim stays", Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), node(g, "Softmax", {2})}};
       },
       softmax_of_reshape},
      {"softmax_of_merged_sum", "Softmax(Reshape(X) + M) = Reshape(Softmax(X + Reshape(M))) where batch dims of X were merged",
       Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), variable(), node(g, "Add", {2, 3}), node(g, "Softmax", {4})}};
       },
       softmax_of_merged_sum},
      {"matmul_of_merged_left", "MatMul(Reshape(A), B) = Reshape(MatMul(A, Reshape(B))) where batch dims of A were merged", Effect::kExact,
       merged_factor(0), [](const Views& v, const Match& m, Unions& u) { matmul_of_merge(v, m, u, 0); }},
      {"matmul_of_merged_right", "MatMul(A, Reshape(B)) = Reshape(MatMul(Reshape(A), B)) where batch dims of B were merged", Effect::kExact,
       merged_factor(1), [](const Views& v, const Match& m, Unions& u) { matmul_of_merge(v, m, u, 1); }},
      {"split_of_matmul", "Reshape(MatMul(A, B)) = MatMul(Reshape(A), Reshape(B)) where batch dims are split", Effect::kExact,
       reshaped("MatMul"), split_of_matmul},
      {"split_of_matmul_rows", "Reshape(MatMul(A, B)) = MatMul(Reshape(A), Unsqueeze(B)) where the rows are split", Effect::kExact,
       reshaped("MatMul"), split_of_matmul_rows},
      {"matmul_of_joined_rows", "MatMul(Reshape(A), B) = Reshape(MatMul(A, Unsqueeze(B))) where rows of two axes were joined",
       Effect::kExact, merged_factor(0), matmul_of_joined_rows},
      {"reshape_of_sum", "Reshape(A + B) = Reshape(A) + Reshape(B) where only batch dims are cut otherwise", Effect::kExact,
       reshaped("Add"), reshape_of_sum},
      {"heads_repeated", "Reshape(Expand(Reshape(K))) = repeat_heads(K) where each head is repeated in place", Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), variable(), node(g, "Expand", {2, 3}), variable(),
                         node(g, "Reshape", {4, 5})}};
       },
       heads_repeated},
      {"transposed_right_factor", "Kt = Transpose(Transpose(Kt)) for the right factor of a batched MatMul", Effect::kExact,
       [](OnnxEGraph& g) { return over_two(g, "MatMul"); }, transposed_right_factor},
  };
}

}  // namespace

std::optional<std::vector<DimGroup>> group_dims(DimTable& dims, std::span<const Dim> from, std::span<const Dim> to) {
  std::vector<DimGroup> groups;
  const Dim one = dims.constant(1);
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    bool found = false;
    // Runs of growing total length, so that the finest partition is found; a run may be empty against dims of 1.
    for (std::size_t total = 1; total <= (from.size() - i) + (to.size() - j) && !found; ++total)
      for (std::size_t a = std::min(total, from.size() - i); !found; --a) {
        const std::size_t b = total - a;
        if (b <= to.size() - j && (a > 0 || i == from.size()) && (b > 0 || j == to.size())) {
          Dim pa = one, pb = one;
          for (std::size_t k = 0; k < a; ++k) pa = dims.mul(pa, from[i + k]);
          for (std::size_t k = 0; k < b; ++k) pb = dims.mul(pb, to[j + k]);
          if (dims.equal(pa, pb)) {
            groups.push_back({i, i + a, j, j + b});
            i += a;
            j += b;
            found = true;
          }
        }
        if (a == 0) break;
      }
    if (!found) return std::nullopt;
  }
  // Trailing ones were left over as a run of their own: they belong to the run before.
  while (groups.size() > 1 && (groups.back().from_begin == groups.back().from_end || groups.back().to_begin == groups.back().to_end)) {
    const DimGroup last = groups.back();
    groups.pop_back();
    groups.back().from_end = last.from_end;
    groups.back().to_end = last.to_end;
  }
  return groups;
}

std::vector<NativeRule> native_view_rules() { return to_native(view_rules()); }

void spell_reshapes(OnnxEGraph& g) {
  struct Reshape {
    Id result, x, target;
  };
  std::vector<Reshape> reshapes;
  for (const Id id : g.egraph().classes())
    for (const NodeId n : g.egraph().class_nodes(id)) {
      const ENode node = g.egraph().node(n);
      if (g.key(node.op).op_type == "Reshape" && g.key(node.op).domain.empty())
        reshapes.push_back({id, node.children[0], node.children[1]});
    }
  Unions unions;
  for (const Reshape& r : reshapes) reshape_by_constant(Views{g}, r.result, r.x, r.target, unions);
  for (const auto& [a, b] : unions) g.egraph().merge(a, b);
  g.egraph().rebuild();
}

}  // namespace saturate
