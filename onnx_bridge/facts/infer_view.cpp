// Operators that rearrange without computing: Reshape, Transpose, Squeeze, Expand, Tile, ...
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx_bridge/facts/infer_call.h"

namespace saturate::inference {

namespace {

void keep_content(Call& c) {
  if (!c.wants(0) || !c.ok()) return;
  if (auto elements = c.content(0)) c.set_content(0, *std::move(elements));
}

// total / known, where known times the wanted dim is total: factors that both have go first, they are not zero in a run that succeeds.
Dim solve_minus_one(Call& c, DimVector total, DimVector known) {
  for (auto d = known.begin(); d != known.end();) {
    auto same = std::find_if(total.begin(), total.end(), [&](Dim t) { return c.dims.equal(t, *d); });
    if (same == total.end() || c.value(*d) == 0) {
      ++d;
      continue;
    }
    total.erase(same);
    d = known.erase(d);
  }
  const Dim all = c.product(total), rest = c.product(known);
  if (auto q = c.dims.exact_div(all, rest)) return *q;
  return c.dims.floor_div(all, rest);
}

void reshape_unknown(Call& c) {
  if (auto n = c.length(1); n && *n <= kMaxContent) c.set_shape(0, c.fresh_shape(0, static_cast<int>(*n)));
}

void reshape_to(Call& c, const DimVector& target) {
  const bool allow_zero = c.int_attribute("allowzero", 0) != 0;
  DimVector shape(target.size());
  int inferred = -1;
  bool all_known = true, certain = true;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto v = c.value(target[i]);
    const int axis = static_cast<int>(i);
    if (v == -1) {
      if (inferred >= 0) return c.fail("two dims of -1");
      inferred = axis;
    } else if (v && *v < -1) {
      return c.fail(absl::StrCat("dim ", *v));
    } else if (v == 0 && !allow_zero) {
      if (!c.has_rank(0)) {
        shape[i] = c.fresh(0, axis);
        all_known = false;
        continue;
      }
      if (axis >= c.rank(0)) return c.fail("a 0 copies a dim that the input does not have");
      shape[i] = c.dim(0, axis);
    } else if (v || c.dims.non_negative(target[i])) {
      shape[i] = target[i];
    } else {  // may be a -1 or a 0 at run time
      shape[i] = c.fresh(0, axis);
      all_known = certain = false;
    }
  }
  // [batch, seq, 64] to [batch, seq, -1, 16] with batch or seq read off another input: leading dims of one name are one size.
  if (c.has_rank(0))
    for (std::size_t i = 0; i < shape.size() && static_cast<int>(i) < c.rank(0) && static_cast<int>(i) != inferred; ++i)
      if (!c.dims.join_named(c.dim(0, static_cast<int>(i)), shape[i])) break;
  if (inferred >= 0) {
    const auto k = static_cast<std::size_t>(inferred);
    for (std::size_t i = 0; i < shape.size(); ++i)  // beside a size of 0 runtimes infer none, so the others are at least 1
      if (i != k && !c.dims.positive(shape[i])) c.dims.assume_non_negative(c.dims.sub(shape[i], c.dims.constant(1)));
    if (all_known && c.has_rank(0)) {
      DimVector known = shape;
      known.erase(known.begin() + inferred);
      const Dim total = c.product(c.shape(0)), rest = c.product(known);
      const auto t = c.value(total), r = c.value(rest);
      if (t && r && (*r == 0 ? *t != 0 : *t % *r != 0)) return c.fail(absl::StrCat(*t, " elements do not divide by ", *r));
      shape[k] = r == 0 ? c.fresh(0, inferred) : solve_minus_one(c, c.shape(0), std::move(known));
    } else {
      shape[k] = c.fresh(0, inferred);
    }
  } else if (all_known && certain && c.has_rank(0)) {
    const Dim from = c.product(c.shape(0)), to = c.product(shape);
    if (!c.require_equal(from, to, "numbers of elements differ")) return;
  }
  c.set_shape(0, std::move(shape));
}

void reshape(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (auto target = c.content(1))
    reshape_to(c, *target);
  else
    reshape_unknown(c);
  keep_content(c);
}

void transpose(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  auto perm = c.ints_attribute("perm");
  if (!c.has_rank(0)) {
    if (perm) c.set_shape(0, c.fresh_shape(0, static_cast<int>(perm->size())));
    return;
  }
  const int rank = c.rank(0);
  if (!perm) {
    perm.emplace();
    for (int a = rank; a-- > 0;) perm->push_back(a);
  }
  std::vector<bool> seen(static_cast<std::size_t>(rank), false);
  DimVector shape;
  for (std::int64_t a : *perm) {
    if (a < 0 || a >= rank || seen[static_cast<std::size_t>(a)]) return c.fail("perm is no permutation of the axes");
    seen[static_cast<std::size_t>(a)] = true;
    shape.push_back(c.dim(0, static_cast<int>(a)));
  }
  if (static_cast<int>(shape.size()) != rank) return c.fail("perm is no permutation of the axes");
  c.set_shape(0, std::move(shape));
  if (rank <= 1) keep_content(c);
}

void flatten(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return c.set_shape(0, c.fresh_shape(0, 2));
  const int rank = c.rank(0);
  std::int64_t axis = c.int_attribute("axis", 1);
  if (axis < -rank || axis > rank) return c.fail("axis is outside the tensor");
  if (axis < 0) axis += rank;
  const std::span<const Dim> all = c.shape(0);
  c.set_shape(0,
              DimVector{c.product(all.subspan(0, static_cast<std::size_t>(axis))), c.product(all.subspan(static_cast<std::size_t>(axis)))});
}

void squeeze(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  const int rank = c.rank(0);
  std::vector<bool> drop(static_cast<std::size_t>(rank), false);
  if (!c.has(1)) {
    for (int a = 0; a < rank; ++a) {
      const auto v = c.value(c.dim(0, a));
      if (!v && !c.dims.differ(c.dim(0, a), c.constant(1))) return;  // may be 1 at run time
      drop[static_cast<std::size_t>(a)] = v == 1;
    }
  } else {
    auto given = c.ints(1);
    if (!given) {
      if (auto n = c.length(1); n && *n <= rank) c.set_shape(0, c.fresh_shape(0, rank - static_cast<int>(*n)));
      return;
    }
    auto axes = c.normal_axes(*given, rank);
    if (!axes) return;
    for (int a : *axes) {
      drop[static_cast<std::size_t>(a)] = true;
      if (!c.require_equal(c.dim(0, a), c.constant(1), "a squeezed dim is not 1")) return;
    }
  }
  DimVector shape;
  for (int a = 0; a < rank; ++a)
    if (!drop[static_cast<std::size_t>(a)]) shape.push_back(c.dim(0, a));
  c.set_shape(0, std::move(shape));
  keep_content(c);
}

void unsqueeze(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  auto given = c.ints(1);
  if (!given) {
    if (auto n = c.length(1); n && *n <= kMaxContent) c.set_shape(0, c.fresh_shape(0, c.rank(0) + static_cast<int>(*n)));
    return;
  }
  const int rank = c.rank(0) + static_cast<int>(given->size());
  auto axes = c.normal_axes(*given, rank);
  if (!axes) return;
  std::vector<bool> added(static_cast<std::size_t>(rank));
  for (const auto a : *axes) {
    if (added[static_cast<std::size_t>(a)]) return c.fail("an axis is named twice");
    added[static_cast<std::size_t>(a)] = true;
  }
  DimVector shape;
  int from = 0;
  for (int a = 0; a < rank; ++a) shape.push_back(added[static_cast<std::size_t>(a)] ? c.constant(1) : c.dim(0, from++));
  c.set_shape(0, std::move(shape));
  keep_content(c);
}

void expand(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  auto target = c.content(1);
  if (target) {
    for (Dim d : *target) {
      if (c.dims.non_negative(d)) continue;
      if (auto v = c.value(d)) return c.fail(absl::StrCat("dim ", *v));
      target.reset();
      break;
    }
  }
  if (!target) {
    auto n = c.length(1);
    if (!n || *n > kMaxContent) return;
    DimVector shape = c.fresh_shape(0, std::max(c.rank(0), static_cast<int>(*n)));
    for (std::size_t k = 0; k < c.shape(0).size();
         ++k) {  // a dim of two or more stays what it is; so do those that the target does not reach
      const Dim d = c.shape(0)[c.shape(0).size() - 1 - k];
      if (k >= static_cast<std::size_t>(*n) || c.dims.positive(c.dims.sub(d, c.constant(1)))) shape[shape.size() - 1 - k] = d;
    }
    return c.set_shape(0, std::move(shape));
  }
  auto shape = c.broadcast(c.shape(0), *target);
  if (!shape) return;
  c.set_shape(0, shape);
  auto elements = c.content(0);
  if (!elements || elements->size() != 1 || shape->size() > 1) return;
  if (shape->empty()) return c.set_content(0, *elements);
  if (auto n = c.value(shape->front()); n && *n <= kMaxContent)
    c.set_content(0, DimVector(static_cast<std::size_t>(*n), elements->front()));
}

void tile(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  auto repeats = c.content(1);
  if (!repeats) return c.set_shape(0, c.fresh_shape(0, c.rank(0)));
  if (repeats->size() != c.shape(0).size()) return c.fail("as many repeats as axes are wanted");
  DimVector shape;
  for (std::size_t a = 0; a < repeats->size(); ++a) shape.push_back(c.dims.mul(c.shape(0)[a], (*repeats)[a]));
  c.set_shape(0, shape);
  auto elements = c.content(0);
  if (!elements || shape.size() != 1) return;
  auto n = c.value(repeats->front());
  if (!n || *n < 0 || *n > kMaxContent || *n * static_cast<std::int64_t>(elements->size()) > kMaxContent) return;
  DimVector all;
  for (std::int64_t k = 0; k < *n; ++k) all.insert(all.end(), elements->begin(), elements->end());
  c.set_content(0, std::move(all));
}

void depth_to_space(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.require_rank(0, 4)) return;
  const Dim b = c.constant(c.int_attribute("blocksize", 1)), area = c.dims.mul(b, b);
  c.set_shape(0, DimVector{c.dim(0, 0), c.dims.floor_div(c.dim(0, 1), area), c.dims.mul(c.dim(0, 2), b), c.dims.mul(c.dim(0, 3), b)});
}

void space_to_depth(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.require_rank(0, 4)) return;
  const Dim b = c.constant(c.int_attribute("blocksize", 1)), area = c.dims.mul(b, b);
  c.set_shape(0, DimVector{c.dim(0, 0), c.dims.mul(c.dim(0, 1), area), c.dims.floor_div(c.dim(0, 2), b), c.dims.floor_div(c.dim(0, 3), b)});
}

}  // namespace

void add_view_rules(Rules& rules) {
  rules[":Reshape"] = reshape;
  rules[":Transpose"] = transpose;
  rules[":Flatten"] = flatten;
  rules[":Squeeze"] = squeeze;
  rules[":Unsqueeze"] = unsqueeze;
  rules[":Expand"] = expand;
  rules[":Tile"] = tile;
  rules[":DepthToSpace"] = depth_to_space;
  rules[":SpaceToDepth"] = space_to_depth;
}

}  // namespace saturate::inference
