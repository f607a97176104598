#include "rules/native_views.h"

#include <algorithm>
#include <array>
#include <map>

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
void reshape_by_constant(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (!from || !to || v.g.facts(m.classes[1]).value || v.has_zero(*to)) return;
  std::vector<std::int64_t> spelled;
  bool inferred = false;
  for (std::size_t i = 0; i < to->size(); ++i) {
    if (const auto n = v.g.dims().value((*to)[i])) spelled.push_back(*n);
    else if (i < from->size() && v.equal((*from)[i], (*to)[i])) spelled.push_back(0);
    else if (!std::exchange(inferred, true)) spelled.push_back(-1);
    else return;
  }
  const int rank = static_cast<int>(from->size());
  unions.emplace_back(m.root(), v.reshape_by(m.classes[0], std::move(spelled), rank));
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
    if (i >= lead && v.equal((*from)[i - lead], (*to)[i])) spelled.push_back(1);
    else if (const auto n = v.g.dims().value((*to)[i])) spelled.push_back(*n);
    else return;
  }
  const Id shape_id = v.g.constant(Tensor::vector_int64(spelled));
  unions.emplace_back(m.root(), v.g.add(make_key("", "Expand", {}, 1, std::nullopt), std::array{m.classes[0], shape_id}));
}

// Transpose(Reshape(X)) = Reshape(Transpose(X)) where the Reshape only merges neighbouring dims.
void transpose_of_merge(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  const auto perm = v.perm(m.ops[3]);
  if (!from || !mid || !to || perm.size() != mid->size() || from->size() <= mid->size()) return;
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

// The shape of `batch` with the last two dims of `matrix`.
Dims with_matrix(const Dims& batch, const Dims& matrix) {
  Dims out(batch.begin(), batch.end() - 2);
  out.insert(out.end(), matrix.end() - 2, matrix.end());
  return out;
}

// MatMul(Reshape(A), B) = Reshape(MatMul(A, Reshape(B))) where the Reshape merged batch dims of A only. `side`: which factor it is.
void matmul_of_merge(const Views& v, const Match& m, Unions& unions, int side) {
  const Id a = m.classes[0], merged = m.classes[2], b = m.classes[3];
  const Dims *wide = v.shape(a), *narrow = v.shape(merged), *other = v.shape(b), *to = v.shape(m.root());
  if (!wide || !narrow || !other || !to || narrow->size() < 3 || other->size() != narrow->size() || wide->size() <= narrow->size()) return;
  if (!v.equal(std::span(*wide).last(2), std::span(*narrow).last(2))) return;
  if (!v.equal(std::span(*narrow).first(narrow->size() - 2), std::span(*other).first(other->size() - 2))) return;
  const Dims cut = with_matrix(*wide, *other), result = *to;
  const Id b_cut = v.reshape(b, cut, 0);
  const Id product = v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), side == 0 ? std::array{a, b_cut} : std::array{b_cut, a});
  unions.emplace_back(m.root(), v.reshape(product, result, 0));
}

// Reshape(MatMul(A, B)) = MatMul(Reshape(A), Reshape(B)) where the Reshape splits batch dims only.
void split_of_matmul(const Views& v, const Match& m, Unions& unions) {
  const Id a = m.classes[0], b = m.classes[1];
  const Dims *da = v.shape(a), *db = v.shape(b), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!da || !db || !mid || !to || mid->size() < 3 || to->size() <= mid->size() || da->size() != mid->size() || db->size() != mid->size()) return;
  if (!v.equal(std::span(*mid).last(2), std::span(*to).last(2))) return;
  if (!v.equal(std::span(*da).first(da->size() - 2), std::span(*db).first(db->size() - 2))) return;
  const Dims cut_a = with_matrix(*to, *da), cut_b = with_matrix(*to, *db);
  const Id left = v.reshape(a, cut_a, 0), right = v.reshape(b, cut_b, 0);
  unions.emplace_back(m.root(), v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), std::array{left, right}));
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

// Reshape(A + B) = Reshape(A) + Reshape(B) where batch dims of scores are cut otherwise; a mask may broadcast.
void reshape_of_sum(const Views& v, const Match& m, Unions& unions) {
  const Dims *a = v.shape(m.classes[0]), *b = v.shape(m.classes[1]), *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!a || !b || !mid || !to || mid->size() < 3 || to->size() < 3 || v.equal(*mid, *to) || !is_floating(v.g.facts(m.root()).dtype)) return;
  if (!v.equal(std::span(*mid).last(2), std::span(*to).last(2))) return;
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
  unions.emplace_back(m.root(), v.g.add(make_key("saturate", "repeat_heads", {Attribute::of("times", *times)}, 1, std::nullopt), std::array{m.classes[0]}));
}

// The right factor of a 4-D product is the transpose of its transpose: attention rules may then ask for K itself.
void transposed_right_factor(const Views& v, const Match& m, Unions& unions) {
  const Dims *a = v.shape(m.classes[0]), *b = v.shape(m.classes[1]);
  if (!a || !b || a->size() != 4 || b->size() != 4) return;
  const Id k = v.transpose(m.classes[1], {0, 1, 3, 2});
  unions.emplace_back(m.classes[1], v.transpose(k, {0, 1, 3, 2}));
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
      {"reshape_by_constant", "Reshape(X, computed shape) = Reshape(X, [0, -1, n]) where that says the same", Effect::kExact, reshape, reshape_by_constant},
      {"reshape_identity", "Reshape(X, shape of X) = X", Effect::kExact, reshape, reshape_identity},
      {"expand_to_literal", "Expand(X, any spelling) = Expand(X, the shape it has); X where nothing grows", Effect::kExact, expand, expand_to_literal},
      {"expand_by_constant", "Expand(X, computed shape) = Expand(X, [1, n]) where only numbers grow", Effect::kExact, expand, expand_by_constant},
      {"transpose_of_merge", "Transpose(Reshape(X)) = Reshape(Transpose(X)) where the Reshape merges neighbours", Effect::kExact,
       [](OnnxEGraph& g) { return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), node(g, "Transpose", {2})}}; },
       transpose_of_merge},
      {"split_of_transpose", "Reshape(Transpose(X)) = Transpose(Reshape(X)) where the Reshape splits dims", Effect::kExact,
       [](OnnxEGraph& g) { return Pattern{{variable(), node(g, "Transpose", {0}), variable(), node(g, "Reshape", {1, 2})}}; },
       split_of_transpose},
      {"softmax_of_reshape", "Softmax(Reshape(X)) = Reshape(Softmax(X)) where the last dim stays", Effect::kExact,
       [](OnnxEGraph& g) { return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), node(g, "Softmax", {2})}}; },
       softmax_of_reshape},
      {"matmul_of_merged_left", "MatMul(Reshape(A), B) = Reshape(MatMul(A, Reshape(B))) where batch dims of A were merged", Effect::kExact,
       merged_factor(0), [](const Views& v, const Match& m, Unions& u) { matmul_of_merge(v, m, u, 0); }},
      {"matmul_of_merged_right", "MatMul(A, Reshape(B)) = Reshape(MatMul(Reshape(A), B)) where batch dims of B were merged", Effect::kExact,
       merged_factor(1), [](const Views& v, const Match& m, Unions& u) { matmul_of_merge(v, m, u, 1); }},
      {"split_of_matmul", "Reshape(MatMul(A, B)) = MatMul(Reshape(A), Reshape(B)) where batch dims are split", Effect::kExact,
       [](OnnxEGraph& g) { return Pattern{{variable(), variable(), node(g, "MatMul", {0, 1}), variable(), node(g, "Reshape", {2, 3})}}; },
       split_of_matmul},
      {"reshape_of_sum", "Reshape(A + B) = Reshape(A) + Reshape(B) where only batch dims are cut otherwise", Effect::kExact,
       [](OnnxEGraph& g) { return Pattern{{variable(), variable(), node(g, "Add", {0, 1}), variable(), node(g, "Reshape", {2, 3})}}; },
       reshape_of_sum},
      {"heads_repeated", "Reshape(Expand(Reshape(K))) = repeat_heads(K) where each head is repeated in place", Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), variable(), node(g, "Expand", {2, 3}), variable(), node(g, "Reshape", {4, 5})}};
       },
       heads_repeated},
      {"transposed_right_factor", "Kt = Transpose(Transpose(Kt)) for the right factor of a 4-D MatMul", Effect::kExact,
       [](OnnxEGraph& g) { return over_two(g, "MatMul"); },
       transposed_right_factor},
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

namespace {

// Where each dim can be read off: a class and an axis of it. Graph inputs come first.
struct DimSource {
  Id from;
  int axis;
  bool input;
};
using DimSources = std::map<Dim, DimSource>;

DimSources find_dims(const OnnxEGraph& g, const std::vector<Id>& classes) {
  DimSources sources;
  for (bool inputs : {true, false})
    for (Id id : classes) {
      const Facts& f = g.facts(id);
      if (f.kind != Facts::Kind::kTensor || !f.shape) continue;
      const auto members = g.egraph().class_nodes(id);
      const bool is_input = std::any_of(members.begin(), members.end(), [&](NodeId n) { return g.key(g.egraph().node(n).op).op_type == kInputOp; });
      if (is_input != inputs) continue;
      for (int axis = 0; axis < f.rank(); ++axis) {
        const Dim d = g.dims().canonical((*f.shape)[axis]);
        if (!g.dims().value(d)) sources.try_emplace(d, DimSource{id, axis, is_input});
      }
    }
  return sources;
}

// The sums of two dims of graph inputs: a cache's length and the new tokens'.
std::map<Dim, std::pair<DimSource, DimSource>> find_sums(OnnxEGraph& g, const DimSources& sources) {
  std::vector<std::pair<Dim, DimSource>> inputs;
  for (const auto& source : sources)
    if (source.second.input && inputs.size() < 16) inputs.push_back(source);
  std::map<Dim, std::pair<DimSource, DimSource>> sums;
  for (const auto& [x, a] : inputs)
    for (const auto& [y, b] : inputs) sums.try_emplace(g.dims().canonical(g.dims().add(x, y)), a, b);
  return sums;
}

// Spells a symbolic dim as a vector of one element. `inputs`: by sizes of graph inputs only.
struct DimSpeller {
  OnnxEGraph& g;
  DimSources sources;
  std::map<Dim, std::pair<DimSource, DimSource>> sums = find_sums(g, sources);

  Id size(const DimSource& s) const {
    return g.add(make_key("", "Shape", {Attribute::of("start", std::int64_t{s.axis}), Attribute::of("end", std::int64_t{s.axis + 1})}, 1, g.facts(s.from).rank()),
                 std::array{s.from});
  }

  std::optional<Id> spell(Dim d, bool inputs) const {
    const Dim dim = g.dims().canonical(d);
    if (const auto it = sources.find(dim); it != sources.end() && (it->second.input || !inputs)) return size(it->second);
    if (const auto it = sums.find(dim); it != sums.end()) return g.add(make_key("", "Add", {}, 1, std::nullopt), std::array{size(it->second.first), size(it->second.second)});
    return std::nullopt;
  }
};

}  // namespace

void spell_literals(OnnxEGraph& g) {
  const std::vector<Id> classes = g.egraph().classes();
  const DimSpeller speller{g, find_dims(g, classes)};
  for (Id id : classes) {
    const auto members = g.egraph().class_nodes(id);
    if (std::none_of(members.begin(), members.end(), [&](NodeId n) { return g.key(g.egraph().node(n).op).op_type == kLiteralOp; })) continue;
    const bool computed = members.size() > 1;  // then only graph inputs are better
    const Facts facts = g.facts(id);
    std::vector<Id> parts;
    std::vector<std::int64_t> numbers;
    auto flush = [&] {
      if (!numbers.empty()) parts.push_back(g.constant(Tensor::vector_int64(numbers)));
      numbers.clear();
    };
    bool known = facts.shape && !facts.shape->empty();
    for (std::size_t i = 0; known && i < facts.content->size(); ++i) {
      const Dim d = (*facts.content)[i];
      if (const auto n = g.dims().value(d)) {
        numbers.push_back(*n);
        continue;
      }
      const auto spelled = speller.spell(d, computed);
      if (!(known = spelled.has_value())) break;
      flush();
      parts.push_back(*spelled);
    }
    if (!known) continue;
    flush();
    const Id spelled = parts.size() == 1 ? parts[0] : g.add(make_key("", "Concat", {Attribute::of("axis", std::int64_t{0})}, 1, 1), parts);
    g.egraph().merge(id, spelled);
  }
  g.egraph().rebuild();
}

}  // namespace saturate
