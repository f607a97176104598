// Whether constants that rules fold, move or invert stay numbers that their dtype holds with all its digits. Integers wrap alike on both
// sides, so for them every answer is yes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx_bridge/convert/op_key.h"
#include "rules/evaluate/functions.h"
#include "rules/values/magnitudes.h"

namespace saturate {
namespace {

constexpr std::size_t kMostPaired = std::size_t{1} << 24;  // bytes of a constant whose elements are taken one by one

std::optional<DType> dtype_for_range(EvalContext& c, const Val& v) {
  if (const auto* d = v.get<DType>()) return *d;
  if (v.get<double>() || v.get<std::int64_t>()) return DType::kFloat;  // numbers become attributes, which are floats
  if (const Tensor* t = v.tensor()) return t->dtype();
  const Facts* f = c.as_facts(v);
  if (f == nullptr) return std::nullopt;
  if (f->kind == Facts::Kind::kTensor && f->dtype != DType::kUndefined) return f->dtype;
  return c.fail([&] { return fmt::format("the dtype of {} is unknown", c.show(v)); });
}

std::optional<Magnitudes> sizes_of(EvalContext& c, const Val& v) {
  if (const auto r = v.real()) return Magnitudes{*r == 0 ? HUGE_VAL : std::fabs(*r), std::isfinite(*r) ? std::fabs(*r) : HUGE_VAL};
  if (const Tensor* t = v.tensor()) return magnitudes_of(*t);
  const auto id = c.as_class(v);
  if (!id) return std::nullopt;
  if (auto m = c.source().magnitudes(*id)) return m;
  return c.fail([&] { return fmt::format("{} is no constant whose numbers can be read", c.show(v)); });
}

// What `ask` says of the range of v's dtype. Integers wrap alike on both sides; of a float without a range nothing is promised.
template <typename Ask>
Result with_range(EvalContext& c, const Val& v, Ask ask) {
  const auto dtype = dtype_for_range(c, v);
  if (!dtype) return std::nullopt;
  const auto range = float_range(*dtype);
  return range ? ask(*range) : Val(!is_floating(*dtype));
}

// What a test of magnitudes and of the range of their dtype says.
template <typename Test>
Result in_range(EvalContext& c, const Val& v, Test test) {
  return with_range(c, v, [&](const FloatRange& range) -> Result {
    const auto sizes = sizes_of(c, v);
    if (!sizes) return std::nullopt;
    return Val(test(*sizes, range));
  });
}

bool holds_normally(const Magnitudes& m, const FloatRange& r) { return m.most <= r.highest && (m.most == 0 || m.least >= r.least); }

Result ask_moderate(EvalContext& c, Args a) {
  return in_range(c, a[0], [](const Magnitudes& m, const FloatRange& r) {
    const double bound = r.highest < 1e6 ? 0x1p5 : r.highest > 1e300 ? 0x1p200 : 0x1p30;
    return m.most <= bound && (m.most == 0 || m.least >= 1 / bound);
  });
}

Result ask_reciprocals_hold(EvalContext& c, Args a) {
  return in_range(c, a[0], [](const Magnitudes& m, const FloatRange& r) {
    return m.most > 0 && std::isfinite(m.most) && holds_normally({1 / m.most, 1 / m.least}, r);
  });
}

// Numbers below the normal ones fit where they have no more digits than are left there.
Result ask_fits(EvalContext& c, Args a) {
  const auto* to = a[1].get<std::int64_t>();  // Cast's `to`
  const auto dtype = to ? std::optional(static_cast<DType>(*to)) : dtype_for_range(c, a[1]);
  if (!dtype) return std::nullopt;
  const auto range = float_range(*dtype);
  if (!range) return Val(false);
  const auto t = c.as_tensor(a[0], kMostPaired);
  if (!t) return std::nullopt;
  const double last_place = std::ldexp(range->least, 1 - range->digits);
  for (std::int64_t i = 0; i < t->size(); ++i) {
    const auto x = element_as_double(*t, i);
    if (!x || !(std::fabs(*x) <= range->highest)) return Val(false);
    if (std::fabs(*x) < range->least && std::fmod(*x, last_place) != 0) return Val(false);
  }
  return Val(true);
}

Result ask_exact_in_float(EvalContext& c, Args a) {
  const auto t = c.as_tensor(a[0], kMostPaired);
  if (!t) return std::nullopt;
  for (std::int64_t i = 0; i < t->size(); ++i) {
    const auto x = element_as_double(*t, i);
    if (!x || std::fabs(*x) > std::numeric_limits<float>::max() || static_cast<double>(static_cast<float>(*x)) != *x) return Val(false);
  }
  return Val(true);
}

// The range that two constants share; none where they are integers.
struct ConstantPair {
  Magnitudes first, second;
  std::optional<FloatRange> range;
};
std::optional<ConstantPair> pair_of(EvalContext& c, Args a) {
  const auto dtype = dtype_for_range(c, a[0]);
  if (!dtype) return std::nullopt;
  ConstantPair out{{}, {}, float_range(*dtype)};
  if (!out.range) return is_floating(*dtype) ? std::nullopt : std::optional(out);
  const auto first = sizes_of(c, a[0]);
  const auto second = first ? sizes_of(c, a[1]) : std::nullopt;
  if (!second) return std::nullopt;
  out.first = *first;
  out.second = *second;
  return out;
}

// The largest of a weight's elements must keep its digits under each scale: beside it, what smaller ones lose is rounding. A scale that is
// below the normal numbers has lost digits itself.
Result ask_scales_hold(EvalContext& c, Args a) {
  const auto p = pair_of(c, a);
  if (!p) return std::nullopt;
  if (!p->range) return Val(true);
  if (!(p->first.most * p->second.most <= p->range->highest)) return Val(false);
  if (p->first.most == 0 || p->first.most * p->second.least >= p->range->least) return Val(true);
  const auto s = c.as_tensor(a[1], kMostPaired);
  if (!s) return std::nullopt;
  for (std::int64_t i = 0; i < s->size(); ++i) {
    const double size = std::fabs(element_as_double(*s, i).value_or(0));
    if (size >= p->range->least && size * p->first.most < p->range->least) return Val(false);
  }
  return Val(true);
}

Result ask_matrix_product_holds(EvalContext& c, Args a) {
  const auto p = pair_of(c, a);
  if (!p) return std::nullopt;
  if (!p->range) return Val(true);
  const double size = p->first.most * p->second.most;
  const bool nothing = p->first.most == 0 || p->second.most == 0;
  const Facts* f = c.as_ranked(a[1]);
  if (f == nullptr) return std::nullopt;
  const auto terms = f->rank() >= 2 ? c.dims().value((*f->shape)[static_cast<std::size_t>(f->rank() - 2)]) : std::nullopt;
  if (!terms) return c.fail([&] { return fmt::format("the number of rows of {} is not known", c.show(a[1])); });
  return Val(size * static_cast<double>(*terms) <= p->range->highest && (nothing || size >= p->range->least));
}

// Calls test(x, y) for the elements of two constants as they broadcast; whether all hold.
template <typename Test>
Result every_pair(EvalContext& c, Args a, Test test) {
  const auto x = c.as_tensor(a[0], kMostPaired), y = x ? c.as_tensor(a[1], kMostPaired) : std::nullopt;
  if (!y) return std::nullopt;
  const std::size_t rank = std::max(x->dims().size(), y->dims().size());
  Shape dims(rank, 1);
  std::vector<std::int64_t> step_x(rank, 0), step_y(rank, 0);
  for (const auto& [t, step] : {std::pair(&*x, &step_x), std::pair(&*y, &step_y)}) {
    std::int64_t stride = 1;
    for (std::size_t i = t->dims().size(); i-- > 0;) {
      const std::size_t at = rank - t->dims().size() + i;
      const std::int64_t n = t->dims()[i];
      if (n != 1 && dims[at] != 1 && dims[at] != n) return c.fail([&] { return std::string("the constants do not broadcast"); });
      if (n != 1) dims[at] = n;
      (*step)[at] = n == 1 ? 0 : stride;
      stride *= n;
    }
  }
  const auto total = checked_elements(dims);
  if (!total || static_cast<std::size_t>(*total) > kMostPaired / 4)
    return c.fail([&] { return fmt::format("{} and {} are too large to be read by a guard", c.show(a[0]), c.show(a[1])); });
  Shape at(rank, 0);
  std::int64_t i = 0, j = 0;
  for (std::int64_t k = 0; k < *total; ++k) {
    const auto p = element_as_double(*x, i), q = element_as_double(*y, j);
    if (!p || !q) return c.fail([&] { return std::string("the elements are no numbers"); });
    if (!test(*p, *q)) return Val(false);
    for (std::size_t d = rank; d-- > 0;) {
      i += step_x[d];
      j += step_y[d];
      if (++at[d] < dims[d]) break;
      i -= step_x[d] * dims[d];
      j -= step_y[d] * dims[d];
      at[d] = 0;
    }
  }
  return Val(true);
}

Result ask_products_hold(EvalContext& c, Args a) {
  return with_range(c, a[0], [&](const FloatRange& range) {
    return every_pair(c, a, [&](double x, double y) {
      const double size = std::fabs(x * y);
      return std::isfinite(x) && std::isfinite(y) && size <= range.highest && (x == 0 || y == 0 || size >= range.least);
    });
  });
}

// x + c + d rounds x to the last place of c. That is rounding error as long as c is small, or their sum is about as large.
Result sums_to(EvalContext& c, Args a, double sign) {
  return with_range(c, a[0], [&](const FloatRange& range) {
    return every_pair(c, a, [&](double x, double y) {
      const double sum = std::fabs(x + sign * y), larger = std::max(std::fabs(x), std::fabs(y));
      return std::isfinite(larger) && sum <= range.highest && (larger <= 4 || std::ldexp(sum, range.digits / 2) >= larger);
    });
  });
}
Result ask_sums_hold(EvalContext& c, Args a) { return sums_to(c, a, 1); }
Result ask_differences_hold(EvalContext& c, Args a) { return sums_to(c, a, -1); }

Result ask_largest(EvalContext& c, Args a) {
  const auto sizes = sizes_of(c, a[0]);
  if (!sizes) return std::nullopt;
  return Val(sizes->most);
}

Result ask_highest(EvalContext& c, Args a) {
  const auto dtype = dtype_for_range(c, a[0]);
  if (!dtype) return std::nullopt;
  const auto range = float_range(*dtype);
  return Val(range ? range->highest : HUGE_VAL);
}

constexpr RuleFunction kRangeFunctions[] = {
    {"moderate", 1, 1, "(c or number) -> bool",
     "Whether every element is 0 or neither huge nor tiny (2^-30 to 2^30; half: 2^-5 to 2^5), so that it may move past other factors.",
     "moderate(scale)", ask_moderate},
    {"reciprocals_hold", 1, 1, "(c) -> bool", "Whether one over each element is a number that c's dtype holds with all its digits.",
     "reciprocals_hold(c)", ask_reciprocals_hold},
    {"products_hold", 2, 2, "(c, d) -> bool", "Whether the products of two constants are numbers that their dtype holds with all digits.",
     "products_hold(c, d)", ask_products_hold},
    {"sums_hold", 2, 2, "(c, d) -> bool",
     "Whether x + c + d may be x + (c + d): the sum is finite, and c is not so large beside it that x is rounded by it.", "sums_hold(c, d)",
     ask_sums_hold},
    {"differences_hold", 2, 2, "(c, d) -> bool", "The same of c - d.", "differences_hold(c, d)", ask_differences_hold},
    {"scales_hold", 2, 2, "(w, s) -> bool",
     "Whether a scale can go into a weight: no product is too large, and the largest keep all digits. Weights may be large.",
     "scales_hold(W, s)", ask_scales_hold},
    {"matrix_product_holds", 2, 2, "(a, b) -> bool", "Whether the product of two constant matrices is finite and keeps its digits.",
     "matrix_product_holds(A, B)", ask_matrix_product_holds},
    {"fits", 2, 2, "(c, x or dtype) -> bool", "Whether every element of a constant is 0 or a number that the dtype holds with all digits.",
     "fits(scale, float16)", ask_fits},
    {"exact_in_float", 1, 1, "(c) -> bool", "Whether every element of a constant is a float.", "exact_in_float(c)", ask_exact_in_float},
    {"largest", 1, 1, "(c) -> real", "The largest magnitude in a constant, infinite where an element is no finite number.",
     "largest(W) < 1000", ask_largest},
    {"highest", 1, 1, "(x or dtype) -> real", "The largest number of a floating dtype; infinite for others.", "largest(W) < highest(W)",
     ask_highest},
};

}  // namespace

std::span<const RuleFunction> range_functions() { return kRangeFunctions; }

}  // namespace saturate
