// Shapes: broadcasting, and what reshapes keep.
#include <fmt/format.h>

#include <algorithm>

#include "rules/evaluate/functions.h"

namespace saturate {
namespace {

using Dims = std::vector<Dim>;

// A list of dims, or the shape of a value.
std::optional<Dims> shape_of(EvalContext& c, const Val& v) {
  if (!v.get<ClassRef>()) return c.as_dims(v);
  const Facts* f = c.as_ranked(v);
  if (f == nullptr) return std::nullopt;
  return *f->shape;
}

// Whether `from` broadcasts into `to` and leaves it as it is.
std::optional<bool> fits_into(EvalContext& c, const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  const std::size_t offset = to.size() - from.size();
  bool unknown = false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto n = c.dims().value(from[i]);
    if ((n && *n == 1) || c.dims().equal(from[i], to[offset + i])) continue;
    const auto m = c.dims().value(to[offset + i]);
    if (n && m) return false;  // two different numbers, and the first is not 1
    unknown = true;
  }
  if (unknown) return c.fail([&] { return std::string("nothing decides whether the shapes broadcast"); });
  return true;
}

Result broadcasts_to(EvalContext& c, Args a) {
  const auto from = shape_of(c, a[0]);
  const auto to = from ? shape_of(c, a[1]) : std::nullopt;
  const auto fits = to ? fits_into(c, *from, *to) : std::nullopt;
  if (!fits) {
    // A single number fits whatever the other is, as long as its rank does; of rank 0 it always does.
    if (from && from->empty()) return Val(true);
    return std::nullopt;
  }
  return Val(*fits);
}

Result broadcast(EvalContext& c, Args a) {
  const auto x = shape_of(c, a[0]);
  const auto y = x ? shape_of(c, a[1]) : std::nullopt;
  if (!y) return std::nullopt;
  Dims out(std::max(x->size(), y->size()), c.dims().constant(1));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Dim* l = i < x->size() ? &(*x)[x->size() - 1 - i] : nullptr;
    const Dim* r = i < y->size() ? &(*y)[y->size() - 1 - i] : nullptr;
    Dim& d = out[out.size() - 1 - i];
    const auto one = [&](const Dim* v) { return v == nullptr || c.dims().value(*v) == 1; };
    if (one(l))
      d = r ? *r : *l;
    else if (one(r))
      d = *l;
    else if (c.dims().equal(*l, *r))
      d = *l;
    else
      return c.fail([&] { return fmt::format("nothing says how {} and {} broadcast", c.dims().to_string(*l), c.dims().to_string(*r)); });
  }
  return Val::dims(out, c.dims());
}

Result same_shape(EvalContext& c, Args a) {
  const auto x = shape_of(c, a[0]);
  const auto y = x ? shape_of(c, a[1]) : std::nullopt;
  if (!y) return std::nullopt;
  const auto same = c.equal_dims(*x, *y);
  if (!same) return c.fail([&] { return fmt::format("nothing decides whether {} and {} have one shape", c.show(a[0]), c.show(a[1])); });
  return Val(*same);
}

// All but the last of `before` stay, the last becomes heads x size.
Result split_heads(EvalContext& c, Args a) {
  const auto before = shape_of(c, a[0]);
  const auto after = before ? shape_of(c, a[1]) : std::nullopt;
  if (!after) return std::nullopt;
  if (before->empty() || after->size() != before->size() + 1) return Val(false);
  const std::size_t n = before->size() - 1;
  const Dim joined = c.dims().mul((*after)[n], (*after)[n + 1]);
  Dims flat(after->begin(), after->begin() + static_cast<std::ptrdiff_t>(n));
  flat.push_back(joined);
  const auto same = c.equal_dims(*before, flat);
  if (!same)
    return c.fail([&] { return fmt::format("nothing decides whether {} is {} with the last dim split", c.show(a[1]), c.show(a[0])); });
  return Val(*same);
}

Result merge_heads(EvalContext& c, Args a) {
  const Val swapped[] = {a[1], a[0]};
  return split_heads(c, swapped);
}

// How many leading dims two shapes have in common, proven.
Result common_prefix(EvalContext& c, Args a) {
  const auto x = shape_of(c, a[0]);
  const auto y = x ? shape_of(c, a[1]) : std::nullopt;
  if (!y) return std::nullopt;
  std::int64_t n = 0;
  while (n < static_cast<std::int64_t>(std::min(x->size(), y->size())) &&
         c.dims().equal((*x)[static_cast<std::size_t>(n)], (*y)[static_cast<std::size_t>(n)]))
    ++n;
  return Val(n);
}

// The axis of `after` that has the indices of axis i of `before` where the one is a Reshape of the other.
Result kept_axis(EvalContext& c, Args a) {
  const auto before = shape_of(c, a[0]);
  const auto after = before ? shape_of(c, a[1]) : std::nullopt;
  const std::int64_t* axis = after ? a[2].get<std::int64_t>() : nullptr;
  if (!axis || *axis < 0 || *axis >= std::ssize(*before)) return c.fail([] { return std::string("there is no such axis"); });
  DimTable& t = c.dims();
  const Dim outside = t.product(std::span<const Dim>(*before).first(static_cast<std::size_t>(*axis)));
  Dim passed = t.constant(1);
  for (std::size_t i = 0; i < after->size(); ++i) {
    if (t.equal(passed, outside) && t.equal((*after)[i], (*before)[static_cast<std::size_t>(*axis)]))
      return Val(static_cast<std::int64_t>(i));
    passed = t.mul(passed, (*after)[i]);
  }
  return c.fail([&] { return fmt::format("{} is not proven to keep axis {} of {}", c.show(a[1]), *axis, c.show(a[0])); });
}

// A target of Reshape (with its 0 and -1) as the dims that it makes of x; `value(shape)` where `allowzero` does not matter.
Result reshaped_to(EvalContext& c, Args a) {
  const auto from = shape_of(c, a[0]);
  auto to = from ? c.as_dims(a[1]) : std::nullopt;
  if (!to) return std::nullopt;
  DimTable& t = c.dims();
  const Dim total = t.product(*from);
  Dim rest = t.constant(1);
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < to->size(); ++i) {
    const auto n = t.value((*to)[i]);
    if (n == 0) {
      if (i >= from->size()) return c.fail([] { return std::string("a 0 in the shape has no dim to copy"); });
      (*to)[i] = (*from)[i];
    }
    if (n == -1)
      open = i;
    else
      rest = t.mul(rest, (*to)[i]);
  }
  if (open) {
    const auto q = t.exact_div(total, rest);
    if (!q) return c.fail([&] { return fmt::format("nothing says what -1 stands for in {}", c.show(a[1])); });
    (*to)[*open] = *q;
  }
  return Val::dims(*to, t);
}

Result positive(EvalContext& c, Args a) {
  if (const auto r = a[0].real()) return Val(*r > 0);
  const auto d = c.as_dim(a[0]);
  if (!d) return std::nullopt;
  if (c.dims().positive(*d)) return Val(true);
  return c.fail([&] { return fmt::format("nothing says that {} is positive", c.show(a[0])); });
}

Result nonneg(EvalContext& c, Args a) {
  if (const auto r = a[0].real()) return Val(*r >= 0);
  const auto d = c.as_dim(a[0]);
  if (!d) return std::nullopt;
  if (c.dims().non_negative(*d)) return Val(true);
  return c.fail([&] { return fmt::format("nothing says that {} is not negative", c.show(a[0])); });
}

Result no_zero(EvalContext& c, Args a) {
  const auto dims = shape_of(c, a[0]);
  if (!dims) return std::nullopt;
  return Val(std::none_of(dims->begin(), dims->end(), [&](Dim d) { return c.dims().value(d) == 0; }));
}

Result may_be_empty(EvalContext& c, Args a) {
  const auto dims = shape_of(c, a[0]);
  if (!dims) return std::nullopt;
  return Val(std::any_of(dims->begin(), dims->end(), [&](Dim d) { return !c.dims().positive(d); }));
}

Result is_static(EvalContext& c, Args a) {
  const auto dims = shape_of(c, a[0]);
  if (!dims) return std::nullopt;
  return Val(std::all_of(dims->begin(), dims->end(), [&](Dim d) { return c.dims().value(d).has_value(); }));
}

constexpr RuleFunction kShapeFunctions[] = {
    {"broadcasts_to", 2, 2, "(c, x or shape) -> bool", "Whether c broadcasts with x to the very shape of x.", "broadcasts_to(bias, X)",
     broadcasts_to},
    {"broadcastable_to", 2, 2, "(x, shape) -> bool", "The same as broadcasts_to: x broadcasts into the shape and leaves it as it is.",
     "broadcastable_to(mask, [dim(X, 0), 1])", broadcasts_to},
    {"broadcast", 2, 2, "(x, y) -> dims", "The shape of an elementwise operator on two values or shapes.", "broadcast(A, B) == shape(A)",
     broadcast},
    {"same_shape", 2, 2, "(x, y) -> bool", "Whether two values or shapes are proven to have the same dims.", "same_shape(X, Y)",
     same_shape},
    {"split_heads", 2, 2, "(before, after) -> bool", "Whether a reshape splits the last dim in two and keeps the others.",
     "split_heads(X, Y)", split_heads},
    {"merge_heads", 2, 2, "(before, after) -> bool", "Whether a reshape joins the last two dims and keeps the others.", "merge_heads(X, Y)",
     merge_heads},
    {"common_prefix", 2, 2, "(x, y) -> int", "How many leading dims two shapes have in common.", "common_prefix(X, Y) >= 2", common_prefix},
    {"kept_axis", 3, 3, "(before, after, i) -> int", "Where axis i stands after a Reshape that keeps it.", "kept_axis(X, Y, 1)", kept_axis},
    {"reshaped", 2, 2, "(x, target) -> dims", "The dims that Reshape (allowzero = 0) makes of x, 0 and -1 resolved.",
     "reshaped(X, shape) == shape(X)", reshaped_to},
    {"positive", 1, 1, "(dim or number) -> bool", "Whether it is proven to be at least 1 (a real: above 0).", "positive(dim(X, 0))",
     positive},
    {"nonneg", 1, 1, "(dim or number) -> bool", "Whether it is proven to be at least 0.", "nonneg(item(c))", nonneg},
    {"no_zero", 1, 1, "(x or shape) -> bool", "Whether no dim is the number 0 (which means another thing to Reshape).", "no_zero(Y)",
     no_zero},
    {"may_be_empty", 1, 1, "(x or shape) -> bool", "Whether a dim is not proven to be at least 1.", "not may_be_empty(Q)", may_be_empty},
    {"static", 1, 1, "(x or shape) -> bool", "Whether all dims are numbers.", "static(X)", is_static},
};

}  // namespace

std::span<const RuleFunction> shape_functions() { return kShapeFunctions; }

}  // namespace saturate
