#include "rules/native/views.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"

namespace saturate {
namespace {

using namespace native;

// Reshape(X, anything) = Reshape(X, the shape it has): all spellings of one target shape become one e-node.
void reshape_to_literal(const Views& v, const Match& m, Unions& unions) {
  const Dims* to = v.shape(m.root());
  if (!to || !useful(to->size() <= 8)) return;
  const Dims copy = *to;
  unions.emplace_back(m.root(), v.reshape(m.classes[0], copy, 0));
}

// The axes at which `wide` has a dim of 1 beyond those of `narrow`; nullopt where it has more than such ones.
std::optional<std::vector<std::int64_t>> ones_beside(const Views& v, const Dims& narrow, const Dims& wide) {
  std::vector<std::int64_t> axes;
  std::size_t i = 0;
  for (std::size_t j = 0; j < wide.size(); ++j) {
    if (i < narrow.size() && v.equal(narrow[i], wide[j]))
      ++i;
    else if (v.g.dims().value(wide[j]) == 1)
      axes.push_back(static_cast<std::int64_t>(j));
    else
      return std::nullopt;
  }
  return i == narrow.size() ? std::optional(axes) : std::nullopt;
}

// The permutation that moves nothing but dims of 1; nullopt where there is none.
std::optional<std::vector<std::int64_t>> moves_ones(const Views& v, const Dims& from, const Dims& to) {
  if (from.size() != to.size() || !v.equal(v.without_ones(from), v.without_ones(to))) return std::nullopt;
  std::vector<std::int64_t> ones, others, perm;
  for (std::size_t i = 0; i < from.size(); ++i) (v.g.dims().value(from[i]) == 1 ? ones : others).push_back(static_cast<std::int64_t>(i));
  std::size_t one = 0, other = 0;
  for (Dim d : to) perm.push_back(v.g.dims().value(d) == 1 ? ones[one++] : others[other++]);
  return perm;
}

// Reshape(X) that only adds, drops or moves dims of 1, as the operator that needs no sizes.
void reshape_by_ones(const Views& v, Id result, Id x, const Dims& from, const Dims& to, Unions& unions) {
  const auto over_axes = [&](const char* op, const std::vector<std::int64_t>& axes) {
    return v.g.add(make_key("", op, {}, 1, std::nullopt), std::array{x, v.g.constant(Tensor::vector_int64(axes))});
  };
  if (const auto perm = moves_ones(v, from, to))
    unions.emplace_back(result, v.transpose(x, *perm));
  else if (const auto added = ones_beside(v, from, to))
    unions.emplace_back(result, over_axes("Unsqueeze", *added));
  else if (const auto dropped = ones_beside(v, to, from))
    unions.emplace_back(result, over_axes("Squeeze", *dropped));
}

// Reshape(X, computed shape) = Reshape(X, [0, -1, 64]) where copies and one inferred dim suffice. Beside a size of 0 none can be inferred,
// so what is copied there must be proven to be at least 1.
void reshape_by_constant(const Views& v, Id result, Id x, Id target, Unions& unions) {
  const Dims *shape = v.shape(x), *made = v.shape(result);
  if (!shape || !made || v.g.facts(target).value || v.has_zero(*made)) return;
  const Dims from = *shape, to = *made;  // what is added below moves the facts
  std::vector<std::int64_t> spelled;
  int inferred = 0;
  bool positive = true;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (const auto n = v.g.dims().value(to[i])) {
      spelled.push_back(*n);
    } else if (i < from.size() && v.equal(from[i], to[i])) {
      spelled.push_back(0);
      positive = positive && v.g.dims().positive(to[i]);
    } else {
      spelled.push_back(-1);
      ++inferred;
    }
  }
  if (inferred == 0 || (inferred == 1 && positive))
    unions.emplace_back(result, v.reshape_by(x, std::move(spelled), static_cast<int>(from.size())));
  else
    reshape_by_ones(v, result, x, from, to, unions);
}

void reshape_identity(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (from && to && v.guard("the shape stays", v.equal(*from, *to))) unions.emplace_back(m.root(), m.classes[0]);
}

void expand_to_literal(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (!from || !to || !useful(to->size() <= 8)) return;
  if (v.guard("the shape stays", v.equal(*from, *to))) {
    unions.emplace_back(m.root(), m.classes[0]);
    return;
  }
  const Dims copy = *to;
  unions.emplace_back(m.root(), v.expand(m.classes[0], copy));
}

// Expand(X, computed shape) = Expand(X, [1, 1, 7]) where every dim that grows is a number.
void expand_by_constant(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (!from || !to || !useful(!v.g.facts(m.classes[1]).value)) return;
  std::vector<std::int64_t> spelled;
  const std::size_t lead = to->size() - from->size();
  for (std::size_t i = 0; i < to->size(); ++i) {
    if (i >= lead && v.guard("a dim of 1 in the target stays", v.equal((*from)[i - lead], (*to)[i])))
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

// Reshape(Reshape(X, any), to) = Reshape(X, to).
void reshape_reshape(const Views& v, const Match& m, Unions& unions) {
  const Dims *mid = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!to || !useful(!v.has_zero(*to) && v.is_spelled_out(m.classes[1], mid) && v.is_spelled_out(m.classes[3], to))) return;
  const Dims* from = v.shape(m.classes[0]);
  const Dims result = *to;
  const bool same = from && v.guard("the last shape is the first", v.equal(*from, result));
  unions.emplace_back(m.root(), same ? m.classes[0] : v.reshape(m.classes[0], result, 0));
}

// Reshape(X) = Reshape(Reshape(X)) by way of the shape that splits and does not merge: [s, b, 64] -> [s, b, 4, 16] -> [s, 4 b, 16].
void reshape_by_refinement(const Views& v, const Match& m, Unions& unions) {
  const Dims *from = v.shape(m.classes[0]), *to = v.shape(m.root());
  if (!from || !to || !useful(from->size() >= 2 && to->size() >= 2 && !v.has_zero(*from) && v.is_spelled_out(m.classes[1], to))) return;
  const Dims parts = v.without_ones(*from), result = *to;  // dims of 1 cut nothing: with them every view would refine every other
  const Dims joined = v.without_ones(result);
  const auto fine = refinement(v.g.dims(), parts, joined);
  if (!fine || !useful(fine->size() <= 6 && fine->size() > parts.size() && fine->size() > joined.size())) return;
  unions.emplace_back(m.root(), v.reshape(v.reshape(m.classes[0], *fine, 0), result, 0));
}

std::vector<ViewRule> view_rules() {
  auto reshape = [](OnnxEGraph& g) { return over_two(g, "Reshape"); };
  auto expand = [](OnnxEGraph& g) { return over_two(g, "Expand"); };
  return {
      {"reshape_to_literal", "Reshape(X, any spelling) = Reshape(X, the shape it has)", Effect::kExact, reshape, reshape_to_literal},
      {"reshape_identity", "Reshape(X, shape of X) = X", Effect::kExact, reshape, reshape_identity},
      {"reshape_reshape",
       "Reshape(Reshape(X)) = Reshape(X)",
       Effect::kExact,
       [](OnnxEGraph& g) {
         return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), variable(), node(g, "Reshape", {2, 3})}};
       },
       reshape_reshape,
       false,
       {},
       false,
       0,
       kRankPhase},
      {"reshape_by_refinement", "Reshape(X) = Reshape(Reshape(X)) by way of a shape that only splits", Effect::kExact, reshape,
       reshape_by_refinement},
      {"expand_to_literal", "Expand(X, any spelling) = Expand(X, the shape it has); X where nothing grows", Effect::kExact, expand,
       expand_to_literal},
      {"expand_by_constant", "Expand(X, computed shape) = Expand(X, [1, n]) where only numbers grow", Effect::kExact, expand,
       expand_by_constant},
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
