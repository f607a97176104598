// Reshapes moved through batched products, their sums and Softmax, until heads stand where attention wants them.
#include <algorithm>
#include <array>
#include <numeric>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"
#include "rules/values/fills.h"

namespace saturate {
namespace {

using namespace native;

// Softmax over the last axis does not see how the other dims are cut.
void softmax_of_reshape(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[2]);
  if (!from || !mid || from->empty() || mid->empty() || !useful(from->size() > mid->size())) return;
  if (!v.guard("the last dim stays", v.equal(from->back(), mid->back()))) return;
  const auto axis = v.axis(m.ops[3], m.classes[2], -1);
  if (!axis || !v.guard("the Softmax is over the last axis", *axis + 1 == mid->size())) return;
  const int rank = static_cast<int>(from->size());
  const Dims result = *mid;
  const Id inner = v.g.add(make_key("", "Softmax", {Attribute::of("axis", std::int64_t{rank - 1})}, 1, rank), std::array{m.classes[0]});
  unions.emplace_back(m.root(), v.reshape(inner, result, 0));
}

// Softmax(Reshape(X) + M) = Reshape(Softmax(X + Reshape(M))) where the Reshape only merged batch dims of the scores X; M may broadcast
// there.
void softmax_of_merged_sum(const Views& v, const Match& m, Unions& unions) {
  const Dims *wide = v.shape(m.classes[0]), *narrow = v.shape(m.classes[2]), *mask = v.shape(m.classes[3]), *to = v.shape(m.root());
  if (!wide || !narrow || !mask || !to || narrow->size() < 3 || !useful(wide->size() > narrow->size() && !v.has_zero(*mask))) return;
  if (mask->size() > narrow->size() || !useful(v.equal(*narrow, *to))) return;  // M is asked below
  if (!v.guard("rows and columns stay", v.equal(std::span(*wide).last(2), std::span(*narrow).last(2)))) return;
  const auto axis = v.axis(m.ops[5], m.classes[2], -1);
  if (!axis || !v.guard("the Softmax is over the last axis", *axis + 1 == narrow->size())) return;
  const auto groups = group_dims(v.g.dims(), *narrow, *wide);
  if (!groups) return;
  const Dim one = v.g.dims().constant(1);
  Dims padded(narrow->size() - mask->size(), one);
  padded.insert(padded.end(), mask->begin(), mask->end());
  Dims cut;
  for (const DimGroup& g : *groups) {
    if (!v.guard("the Reshape only merges", g.from_end - g.from_begin == 1)) return;
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

// [1, h, ...] or [b, 1, ...] for three dims: heads of a batch of one, or one head of each, which the operators want apart.
bool has_batch_or_head_of_one(const Views& v, const Dims& wide, const Dims& narrow) {
  return narrow.size() == 3 && wide.size() == 4 && (v.g.dims().value(wide[0]) == 1 || v.g.dims().value(wide[1]) == 1);
}

// MatMul(Reshape(A), B) = Reshape(MatMul(A, Reshape(B))) where the Reshape merged batch dims of A only, not just ones. `side`: which factor
// it is.
void matmul_of_merge(const Views& v, const Match& m, Unions& unions, int side) {
  const Id a = m.classes[0], merged = m.classes[2], b = m.classes[3];
  const Dims *wide = v.shape(a), *narrow = v.shape(merged), *other = v.shape(b), *to = v.shape(m.root());
  if (!wide || !narrow || !other || !to || narrow->size() < 3 || other->size() != narrow->size() || wide->size() <= narrow->size()) return;
  if (!v.guard("rows and columns stay", v.equal(std::span(*wide).last(2), std::span(*narrow).last(2)))) return;
  if (!v.guard("both factors have one batch",
               v.equal(std::span(*narrow).first(narrow->size() - 2), std::span(*other).first(other->size() - 2))))
    return;
  if (!useful(v.cuts(*wide) > v.cuts(*narrow) || has_batch_or_head_of_one(v, *wide, *narrow))) return;
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
  if (!v.guard("rows and columns stay", v.equal(std::span(*mid).last(2), std::span(*to).last(2)))) return;
  if (!v.guard("both factors have one batch", v.equal(std::span(*da).first(da->size() - 2), std::span(*db).first(db->size() - 2)))) return;
  if (!useful(v.cuts(*to) > v.cuts(*mid) || has_batch_or_head_of_one(v, *to, *mid))) return;
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
  if (to->size() != mid->size() + 1 || !v.guard("the Reshape splits the rows", joined_at(v, *to, *mid) == rows)) return;
  if (!useful(!has_one(v, *to, rows))) return;
  if (!v.guard("both factors have one batch", v.equal(std::span(*da).first(rows), std::span(*db).first(rows)))) return;
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
  if (wide->size() != joined->size() + 1 || !v.guard("the Reshape joins the rows", joined_at(v, *wide, *joined) == rows)) return;
  if (!useful(!has_one(v, *wide, rows) && v.equal(std::span(*joined).first(rows), std::span(*other).first(rows)))) return;
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

// Reshape(A + B) = Reshape(A) + Reshape(B) where batch dims of scores are cut otherwise; a mask may broadcast. (Of scores alone: where
// it meets constants that go into Reshapes, every sum of a residual stream would be had in every view.)
void reshape_of_sum(const Views& v, const Match& m, Unions& unions) {
  const Dims *a = v.shape(m.classes[0]), *b = v.shape(m.classes[1]), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!a || !b || !mid || !to || mid->size() < 3 || to->size() < 3) return;
  if (!useful(!v.equal(*mid, *to) && is_floating(v.g.facts(m.root()).dtype))) return;
  if (!useful(v.equal(std::span(*mid).last(2), std::span(*to).last(2)) && reaches_scores(v.g, m.root()))) return;
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
  if (!times || !useful(*times >= 2 && is_floating(v.g.facts(m.root()).dtype))) return;
  if (!v.guard("only the new axis grows", kept(*cut) && kept(*wide) && before == 1)) return;
  if (!v.guard("the new axis joins the heads", v.equal((*to)[0], (*from)[0]) && v.equal(std::span(*to).last(2), std::span(*from).last(2))))
    return;
  unions.emplace_back(
      m.root(), v.g.add(make_key("saturate", "repeat_heads", {Attribute::of("times", *times)}, 1, std::nullopt), std::array{m.classes[0]}));
}

// The right factor of a batched product is the transpose of its transpose: attention rules may then ask for K itself.
void transposed_right_factor(const Views& v, const Match& m, Unions& unions) {
  const Dims *a = v.shape(m.classes[0]), *b = v.shape(m.classes[1]);
  if (!a || !b || a->size() != b->size() || a->size() < 3 || !useful(a->size() <= 6)) return;
  std::vector<std::int64_t> swap(a->size());
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[swap.size() - 2], swap.back());
  const Id k = v.transpose(m.classes[1], swap);
  unions.emplace_back(m.classes[1], v.transpose(k, swap));
}

std::vector<ViewRule> product_rules() {
  auto merged_factor = [](int side) {
    return [side](OnnxEGraph& g) {
      return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), variable(),
                      node(g, "MatMul", side == 0 ? std::vector<std::uint32_t>{2, 3} : std::vector<std::uint32_t>{3, 2})}};
    };
  };
  return {
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
       reshaped("Add"), reshape_of_sum, true},
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

std::vector<NativeRule> native_product_rules() { return to_native(product_rules()); }

}  // namespace saturate
