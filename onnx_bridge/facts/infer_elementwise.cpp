// Elementwise operators: shapes by broadcasting, and arithmetic on the elements of shape computations.
#include <algorithm>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "onnx_bridge/facts/infer_call.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate::inference {

namespace {

void shapes_as_first(Call& c) {
  for (int o = 0; o < c.num_outputs(); ++o)
    if (c.in(0).kind == Facts::Kind::kTensor) c.set_shape(o, c.in(0).shape);
}

std::optional<DimVector> broadcast_all(Call& c) {
  DimVector shape;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) continue;
    if (!c.has_rank(i)) return std::nullopt;
    auto next = c.broadcast(shape, c.shape(i));
    if (!next) return std::nullopt;
    shape = *std::move(next);
  }
  return shape;
}

using Arithmetic = std::function<std::optional<Dim>(Call&, Dim, Dim)>;

std::optional<DimVector> combine(Call& c, const DimVector& a, const DimVector& b, const Arithmetic& op) {
  const std::size_t n = a.size() == 1 ? b.size() : a.size();
  if (a.size() != n && a.size() != 1) return std::nullopt;
  if (b.size() != n && b.size() != 1) return std::nullopt;
  DimVector all;
  for (std::size_t k = 0; k < n; ++k) {
    const Dim x = a[a.size() == 1 ? 0 : k], y = b[b.size() == 1 ? 0 : k];
    auto r = op(c, x, y);
    // Two numbers whose result is no number: overflow, where the operator wraps.
    if (!r || (c.value(x) && c.value(y) && !c.value(*r))) return std::nullopt;
    all.push_back(*r);
  }
  return all;
}

void broadcasting(Call& c) { c.set_shape(0, broadcast_all(c)); }

void arithmetic(Call& c, const Arithmetic& op) {
  broadcasting(c);
  if (!c.ok() || !c.wants(0) || c.inputs.empty()) return;
  const DType dtype = c.in(0).dtype;
  c.out[0].dtype = dtype;
  if (dtype != DType::kInt64 && dtype != DType::kInt32) return;
  auto sum = c.content(0);
  for (std::size_t i = 1; sum && i < c.inputs.size(); ++i) {
    auto next = c.content(i);
    sum = next ? combine(c, *sum, *next, op) : std::nullopt;
  }
  if (sum) c.set_content(0, *std::move(sum));
}

void add(Call& c) {
  arithmetic(c, [](Call& call, Dim a, Dim b) { return std::optional(call.dims.add(a, b)); });
}
void sub(Call& c) {
  arithmetic(c, [](Call& call, Dim a, Dim b) { return std::optional(call.dims.sub(a, b)); });
}
void mul(Call& c) {
  arithmetic(c, [](Call& call, Dim a, Dim b) { return std::optional(call.dims.mul(a, b)); });
}
void div(Call& c) {
  arithmetic(c, [](Call& call, Dim a, Dim b) -> std::optional<Dim> {
    if (call.value(b) == 0) return std::nullopt;
    return call.dims.trunc_div(a, b);
  });
}
void mod(Call& c) {
  const bool fmod = c.int_attribute("fmod", 0) != 0;
  arithmetic(c, [fmod](Call& call, Dim a, Dim b) -> std::optional<Dim> {
    if (call.value(b) == 0) return std::nullopt;
    if (fmod && !(call.dims.non_negative(a) && call.dims.non_negative(b))) return std::nullopt;
    return call.dims.mod(a, b);
  });
}
void minimum(Call& c) {
  arithmetic(c, [](Call& call, Dim a, Dim b) { return std::optional(call.dims.min(a, b)); });
}
void maximum(Call& c) {
  arithmetic(c, [](Call& call, Dim a, Dim b) { return std::optional(call.dims.max(a, b)); });
}
void power(Call& c) {
  // The result has the dtype of the base; the exponent may be of another.
  broadcasting(c);
  c.set_dtype(0, c.in(0).dtype);
}

void unary_content(Call& c, const std::function<std::optional<Dim>(Call&, Dim)>& op) {
  shapes_as_first(c);
  if (!c.wants(0)) return;
  c.out[0].dtype = c.in(0).dtype;
  auto elements = c.content(0);
  if (!elements) return;
  DimVector all;
  for (Dim d : *elements) {
    auto r = op(c, d);
    if (!r || (c.value(d) && !c.value(*r))) return;
    all.push_back(*r);
  }
  c.set_content(0, std::move(all));
}

void negate(Call& c) {
  unary_content(c, [](Call& call, Dim d) { return std::optional(call.dims.neg(d)); });
}
void absolute(Call& c) {
  unary_content(c, [](Call& call, Dim d) -> std::optional<Dim> {
    if (call.dims.non_negative(d)) return d;
    if (call.dims.non_negative(call.dims.neg(d))) return call.dims.neg(d);
    return std::nullopt;
  });
}

// Known booleans of a small output: a value, though the inputs may not be constants.
void set_bools(Call& c, const std::vector<std::optional<bool>>& all) {
  if (!c.wants(0) || !c.out[0].shape || c.out[0].shape->size() > 1) return;
  Tensor t(DType::kBool, c.out[0].shape->empty() ? Shape{} : Shape{static_cast<std::int64_t>(all.size())});
  if (t.size() != static_cast<std::int64_t>(all.size())) return;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (!all[k]) return;
    t.mutable_as<bool>()[k] = *all[k];
  }
  c.out[0].value = std::move(t);
  c.out[0].constant = true;
}

using Comparison = std::function<std::optional<bool>(DimTable&, Dim, Dim)>;

void compare(Call& c, const Comparison& op) {
  broadcasting(c);
  c.set_dtype(0, DType::kBool);
  if (!c.ok()) return;
  auto a = c.content(0), b = c.content(1);
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return;
  const std::size_t n = a->size() == 1 ? b->size() : a->size();
  std::vector<std::optional<bool>> all;
  for (std::size_t k = 0; k < n; ++k) all.push_back(op(c.dims, (*a)[a->size() == 1 ? 0 : k], (*b)[b->size() == 1 ? 0 : k]));
  set_bools(c, all);
}

std::optional<bool> greater_equal(DimTable& dims, Dim a, Dim b) {
  if (dims.equal(a, b) || dims.non_negative(dims.sub(a, b))) return true;
  if (dims.positive(dims.sub(b, a))) return false;
  return std::nullopt;
}
std::optional<bool> inverted(std::optional<bool> b) { return b ? std::optional(!*b) : std::nullopt; }

void equal(Call& c) {
  compare(c, [](DimTable& dims, Dim a, Dim b) -> std::optional<bool> {
    if (dims.equal(a, b)) return true;
    if (dims.differ(a, b)) return false;
    return std::nullopt;
  });
}
void greater_or_equal(Call& c) { compare(c, greater_equal); }
void less_or_equal(Call& c) {
  compare(c, [](DimTable& dims, Dim a, Dim b) { return greater_equal(dims, b, a); });
}
void greater(Call& c) {
  compare(c, [](DimTable& dims, Dim a, Dim b) { return inverted(greater_equal(dims, b, a)); });
}
void less(Call& c) {
  compare(c, [](DimTable& dims, Dim a, Dim b) { return inverted(greater_equal(dims, a, b)); });
}

void logic(Call& c, bool (*op)(bool, bool)) {
  broadcasting(c);
  c.set_dtype(0, DType::kBool);
  auto a = c.bools(0), b = c.bools(1);
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return;
  std::vector<std::optional<bool>> all;
  for (std::size_t k = 0; k < (a->size() == 1 ? b->size() : a->size()); ++k)
    all.push_back(op((*a)[a->size() == 1 ? 0 : k], (*b)[b->size() == 1 ? 0 : k]));
  set_bools(c, all);
}
void logical_and(Call& c) {
  logic(c, [](bool a, bool b) { return a && b; });
}
void logical_or(Call& c) {
  logic(c, [](bool a, bool b) { return a || b; });
}
void logical_xor(Call& c) {
  logic(c, [](bool a, bool b) { return a != b; });
}
void logical_not(Call& c) {
  shapes_as_first(c);
  c.set_dtype(0, DType::kBool);
  auto a = c.bools(0);
  if (!a) return;
  std::vector<std::optional<bool>> all;
  for (bool b : *a) all.push_back(!b);
  set_bools(c, all);
}

void where(Call& c) {
  broadcasting(c);
  if (!c.ok() || !c.wants(0)) return;
  c.out[0].dtype = c.in(1).dtype != DType::kUndefined ? c.in(1).dtype : c.in(2).dtype;
  auto x = c.content(1), y = c.content(2);
  if (!x || !y) return;
  const auto condition = c.bools(0);
  std::size_t n = std::max(x->size(), y->size());
  if (condition) n = std::max(n, condition->size());
  if (x->empty() || y->empty() || (condition && condition->empty())) return;
  if (!condition && !(c.has_rank(0) && c.rank(0) == 0)) return;
  auto at = [](const auto& v, std::size_t k) { return v[v.size() == 1 ? 0 : k]; };
  if (condition && condition->size() != n && condition->size() != 1) return;
  if ((x->size() != n && x->size() != 1) || (y->size() != n && y->size() != 1)) return;
  DimVector all;
  for (std::size_t k = 0; k < n; ++k) {
    const Dim a = at(*x, k), b = at(*y, k);
    if (condition)
      all.push_back(at(*condition, k) ? a : b);
    else if (c.dims.equal(a, b))
      all.push_back(a);
    else
      return;
  }
  c.set_content(0, std::move(all));
}

void identity(Call& c) {
  if (!c.wants(0)) return;
  c.out[0] = c.in(0);
  if (c.out[0].kind == Facts::Kind::kAbsent) c.out[0] = Facts{};
}

void dropout(Call& c) {
  c.set_like(0, 0);
  if (c.in(0).kind == Facts::Kind::kTensor) c.set(1, DType::kBool, c.in(0).shape);
}

void cast_to(Call& c, DType to) {
  shapes_as_first(c);
  if (!c.wants(0)) return;
  c.set_dtype(0, to);
  if (auto elements = c.content(0)) {
    if (to == DType::kBool) {
      std::vector<std::optional<bool>> all;
      for (Dim d : *elements) {
        const bool zero = c.value(d) == 0, other = c.dims.differ(d, c.constant(0));
        all.push_back(zero || other ? std::optional(other) : std::nullopt);
      }
      return set_bools(c, all);
    }
    return c.set_content(0, *std::move(elements));
  }
  if (auto bits = c.bools(0); bits && c.has_rank(0) && c.rank(0) <= 1) {
    DimVector all;
    for (bool b : *bits) all.push_back(c.constant(b ? 1 : 0));
    c.set_content(0, std::move(all));
  }
}
void cast(Call& c) { cast_to(c, static_cast<DType>(c.int_attribute("to", 0))); }
void cast_like(Call& c) { cast_to(c, c.in(1).dtype); }

// BitCast (opset 26): the same bits under another dtype of the same width.
void bit_cast(Call& c) {
  shapes_as_first(c);
  c.set_dtype(0, static_cast<DType>(c.int_attribute("to", 0)));
}

void bool_like_first(Call& c) {
  shapes_as_first(c);
  c.set_dtype(0, DType::kBool);
}

void prelu(Call& c) {
  // The slope broadcasts to x, never the other way.
  c.set_like(0, 0);
  if (c.has_rank(0) && c.has_rank(1)) c.broadcast(c.shape(0), c.shape(1));
}

void gated(Call& c) {
  // SwiGLU (opset 28): gate and value have one shape, nothing broadcasts.
  c.set_like(0, 0);
  if (!c.has_rank(0) || !c.has_rank(1) || !c.require_rank(1, c.rank(0))) return;
  for (int a = 0; a < c.rank(0); ++a)
    if (!c.require_equal(c.dim(0, a), c.dim(1, a), "gate and value differ in shape")) return;
}

}  // namespace

void add_elementwise_rules(Rules& rules) {
  const auto all = [&rules](Trait trait, auto rule) {
    for (const OperatorTraits& traits : all_op_traits())
      if (traits.has(trait)) rules[fmt::format("{}:{}", traits.domain(), traits.op_type())] = rule;
  };
  all(Trait::kBinaryElementwise, broadcasting);
  all(Trait::kVariadicElementwise, broadcasting);
  all(Trait::kGivesBool, bool_like_first);
  all(Trait::kLikeFirst, same_as_first);
  rules[":Add"] = add;
  rules[":Sub"] = sub;
  rules[":Mul"] = mul;
  rules[":Div"] = div;
  rules[":Mod"] = mod;
  rules[":Min"] = minimum;
  rules[":Max"] = maximum;
  rules[":Pow"] = power;
  rules[":Neg"] = negate;
  rules[":Abs"] = absolute;
  rules[":Equal"] = equal;
  rules[":Greater"] = greater;
  rules[":GreaterOrEqual"] = greater_or_equal;
  rules[":Less"] = less;
  rules[":LessOrEqual"] = less_or_equal;
  rules[":And"] = logical_and;
  rules[":Or"] = logical_or;
  rules[":Xor"] = logical_xor;
  rules[":Not"] = logical_not;
  rules[":Where"] = where;
  rules[":Identity"] = identity;
  rules[":Dropout"] = dropout;
  rules[":Cast"] = cast;
  rules[":CastLike"] = cast_like;
  rules[":BitCast"] = bit_cast;
  rules[":PRelu"] = prelu;
  rules[":SwiGLU"] = gated;
}

}  // namespace saturate::inference
