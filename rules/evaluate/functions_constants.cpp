// Tests on the elements of constants, and new constants.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "rules/evaluate/functions.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxScanned = 1 << 20;  // bytes of a constant that a guard may read through

// Applies a test to every element; none where the constant is larger than a guard may read.
template <typename Test>
Result every(EvalContext& c, const Val& v, Test test, std::size_t most = kMaxScanned) {
  const auto t = c.as_tensor(v, most);
  if (!t) return std::nullopt;
  if (t->bytes().size() > most) return c.fail([&] { return fmt::format("{} is too large to be read by a guard", c.show(v)); });
  for (std::int64_t i = 0; i < t->size(); ++i) {
    const auto x = element_as_double(*t, i);
    if (!x) return c.fail([&] { return fmt::format("the elements of {} are no numbers", c.show(v)); });
    if (!test(*x, t->dtype())) return Val(false);
  }
  return Val(true);
}

Result all_equal(EvalContext& c, Args a) {
  const auto wanted = c.as_real(a[1]);
  if (!wanted) return std::nullopt;
  return every(c, a[0], [&](double x, DType t) { return matches_number(x, *wanted, match_tolerance(t)); });
}
Result all_zeros(EvalContext& c, Args a) {
  return every(c, a[0], [](double x, DType) { return x == 0; });
}
Result all_ones(EvalContext& c, Args a) {
  return every(c, a[0], [](double x, DType) { return x == 1; });
}
Result all_zero_or_one(EvalContext& c, Args a) {
  return every(
      c, a[0], [](double x, DType) { return x == 0 || x == 1; }, std::size_t{1} << 25);  // causal masks are large
}
Result nonzero(EvalContext& c, Args a) {
  return every(c, a[0], [](double x, DType) { return x != 0; });
}
Result all_finite(EvalContext& c, Args a) {
  return every(c, a[0], [](double x, DType) { return std::isfinite(x); });
}
Result all_positive(EvalContext& c, Args a) {
  return every(c, a[0], [](double x, DType) { return x > 0; });
}
Result all_nonneg(EvalContext& c, Args a) {
  return every(c, a[0], [](double x, DType) { return x >= 0; });
}
Result all_below(EvalContext& c, Args a) {
  const auto bound = c.as_real(a[1]);
  if (!bound) return std::nullopt;
  return every(c, a[0], [&](double x, DType) { return x <= *bound; });
}
Result all_above(EvalContext& c, Args a) {
  const auto bound = c.as_real(a[1]);
  if (!bound) return std::nullopt;
  return every(c, a[0], [&](double x, DType) { return x >= *bound; });
}
// A scale of quantized numbers as its least and its largest element; nothing where one is no usual scale.
struct ScaleRange {
  double least = HUGE_VAL, most = 0;
};
std::optional<ScaleRange> range_of_scale(EvalContext& c, const Val& v) {
  constexpr double kLeast = 1e-12, kMost = 1e12;
  ScaleRange r;
  const Result usual = every(c, v, [&](double x, DType t) {
    r.least = std::min(r.least, x);
    r.most = std::max(r.most, x);
    return t == DType::kFloat && x >= kLeast && x <= kMost;
  });
  return usual && *usual->get<bool>() ? std::optional(r) : std::nullopt;
}

// The first is what a result is quantized with.
Result scale_ratio(EvalContext& c, Args a) {
  double most = 1;
  for (std::size_t i = 1; i < a.size(); ++i) {
    const auto r = range_of_scale(c, a[i]);
    if (!r) return Val(HUGE_VAL);
    most *= r->most;
  }
  const auto of = range_of_scale(c, a[0]);
  return Val(of ? most / of->least : HUGE_VAL);
}

// By which ONNX Runtime quantizes what its tables hold.
Result whole_reciprocal(EvalContext& c, Args a) {
  constexpr double kNear = 0.01;
  return every(c, a[0], [](double x, DType) { return x > 0 && 1 / x - std::floor(1 / x) <= kNear; });
}

// k = p q, where one of them may be a single number.
Result is_product(EvalContext& c, Args a) {
  constexpr double kRounding = 1e-6;
  std::array<std::vector<double>, 3> values;
  for (std::size_t i = 0; i < 3; ++i) {
    const Result numbers = every(c, a[i], [&](double x, DType) {
      values[i].push_back(x);
      return std::isfinite(x);
    });
    if (!numbers) return numbers;
    if (!*numbers->get<bool>() || values[i].empty()) return Val(false);
  }
  const std::size_t n = std::max(values[1].size(), values[2].size());
  for (std::size_t i = 0; i < 3; ++i)
    if (values[i].size() != n && values[i].size() != 1) return Val(false);
  const auto of = [&](std::size_t i, std::size_t at) { return values[i][values[i].size() == 1 ? 0 : at]; };
  for (std::size_t at = 0; at < n; ++at) {
    const double product = of(1, at) * of(2, at);
    if (std::fabs(of(0, at) - product) > kRounding * std::fabs(product)) return Val(false);
  }
  return Val(true);
}

// By the magnitudes of all elements: every one of `d` is below the last place of every one of `c`.
Result swallows(EvalContext& c, Args a) {
  constexpr std::size_t kMost = 1 << 16;
  double least = HUGE_VAL, most = 0, place = 0;
  const Result of_c = every(
      c, a[0],
      [&](double x, DType t) {
        least = std::min(least, std::fabs(x));
        place = t == DType::kDouble     ? 0x1p-54
                : t == DType::kFloat    ? 0x1p-25
                : t == DType::kFloat16  ? 0x1p-12
                : t == DType::kBfloat16 ? 0x1p-9
                                        : 0;
        return place > 0;
      },
      kMost);
  const Result of_d = every(
      c, a[1],
      [&](double x, DType) {
        most = std::max(most, std::fabs(x));
        return !std::isnan(x);
      },
      kMost);
  if (!of_c || !of_d) return Val(false);  // too large to be read
  return Val(*of_c->get<bool>() && *of_d->get<bool>() && most <= place * least);
}
Result power_of_two(EvalContext& c, Args a) {
  if (const auto r = a[0].real()) {
    int exponent = 0;
    return Val(std::isfinite(*r) && std::fabs(std::frexp(*r, &exponent)) == 0.5);
  }
  return every(c, a[0], [](double x, DType) {
    int exponent = 0;
    return std::isfinite(x) && std::fabs(std::frexp(x, &exponent)) == 0.5;
  });
}

Result is_splat(EvalContext& c, Args a) {
  std::optional<double> first;
  return every(c, a[0], [&](double x, DType) {
    if (!first) first = x;
    return x == *first || (std::isnan(x) && std::isnan(*first));
  });
}

Result splat_value(EvalContext& c, Args a) {
  const Result same = is_splat(c, a);
  if (!same) return same;
  const auto t = c.as_tensor(a[0], kMaxScanned);
  if (!*same->get<bool>() || t->size() == 0) return c.fail([&] { return fmt::format("{} is not one number all over", c.show(a[0])); });
  return Val(*element_as_double(*t, 0));
}

Result repeats(EvalContext& c, Args a) {
  const auto t = c.as_tensor(a[0], kMaxScanned);
  if (!t) return std::nullopt;
  const auto bytes = t->bytes();
  if (t->rank() == 0 || t->dims()[0] == 0 || t->dtype() == DType::kString) return Val(false);
  if (bytes.size() > kMaxScanned || bytes.size() % static_cast<std::size_t>(t->dims()[0]) != 0)
    return c.fail([&] { return fmt::format("{} is too large to be read by a guard", c.show(a[0])); });
  const std::size_t part = bytes.size() / static_cast<std::size_t>(t->dims()[0]);
  return Val(std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(part), bytes.end(), bytes.begin()));
}

std::optional<DType> dtype_like(EvalContext& c, const Val& v) {
  if (const auto* d = v.get<DType>()) return *d;
  const Facts* f = c.as_facts(v);
  if (f == nullptr) return std::nullopt;
  if (f->kind == Facts::Kind::kTensor && f->dtype != DType::kUndefined) return f->dtype;
  return c.fail([&] { return fmt::format("the dtype of {} is unknown", c.show(v)); });
}

Result made(EvalContext& c, DType dtype, const Shape& dims, std::span<const double> values) {
  auto t = tensor_of_reals(dtype, dims, values);
  if (!t.ok()) return c.fail([&] { return std::string(t.status().message()); });
  return Val(*std::move(t));
}

Result scalar_like(EvalContext& c, Args a) {
  const auto x = c.as_real(a[0]);
  const auto dtype = x ? dtype_like(c, a[1]) : std::nullopt;
  if (!dtype) return std::nullopt;
  return made(c, *dtype, {}, std::span(&*x, 1));
}

Result mask_fill(EvalContext& c, Args a) {
  const auto r = a[0].real();
  if (!r) return c.fail([&] { return fmt::format("{} is no number", c.show(a[0])); });
  const auto dtype = dtype_like(c, a[1]);
  if (!dtype) return std::nullopt;
  return Val(std::isinf(*r) ? *r : lowest_fill(*dtype));
}

// The ends of an integer element type that reals hold.
template <bool kHighest>
Result end_of_range(EvalContext& c, Args a) {
  const auto dtype = dtype_like(c, a[0]);
  if (!dtype) return std::nullopt;
  const int bits = bit_width(*dtype);
  if (!is_integer(*dtype) || bits > 32)
    return c.fail([&] { return fmt::format("{} is no integer type of up to 32 bits", dtype_name(*dtype)); });
  const int digits = has_sign(*dtype) ? bits - 1 : bits;
  return Val(kHighest ? std::ldexp(1.0, digits) - 1 : has_sign(*dtype) ? -std::ldexp(1.0, digits) : 0.0);
}

Result vector_like(EvalContext& c, Args a) {
  const List* list = a[0].list();
  const auto dtype = dtype_like(c, a[1]);
  if (!dtype) return std::nullopt;
  if (list == nullptr) return c.fail([&] { return fmt::format("{} is no list", c.show(a[0])); });
  std::vector<double> values;
  for (const Val& v : *list) {
    const auto x = c.as_real(v);
    if (!x) return std::nullopt;
    values.push_back(*x);
  }
  return made(c, *dtype, {static_cast<std::int64_t>(values.size())}, values);
}

Result ints_tensor(EvalContext& c, Args a) {
  const auto ints = c.as_ints(a[0]);
  if (!ints) return std::nullopt;
  return Val(Tensor::vector_int64(*ints));
}

Result int_tensor(EvalContext& c, Args a) {
  const auto i = c.as_int(a[0]);
  if (!i) return std::nullopt;
  return Val(Tensor::scalar_int64(*i));
}

Result filled(EvalContext& c, Args a) {
  const auto x = c.as_real(a[0]);
  const auto dims = x ? c.as_ints(a[1]) : std::nullopt;
  const auto dtype = dims ? dtype_like(c, a[2]) : std::nullopt;
  if (!dtype) return std::nullopt;
  const auto n = checked_elements(*dims);
  if (!n || static_cast<std::size_t>(*n) > kMaxScanned / 8)
    return c.fail([&] { return fmt::format("a constant of dims {} is too large for a rule", c.show(a[1])); });
  return made(c, *dtype, *dims, std::vector<double>(static_cast<std::size_t>(*n), *x));
}

constexpr RuleFunction kConstantFunctions[] = {
    {"all_equal", 2, 2, "(c, number) -> bool", "Whether every element of a constant is this number, within its dtype's precision.",
     "all_equal(c, 0.5)", all_equal},
    {"all_zeros", 1, 1, "(c) -> bool", "Whether every element of a constant is 0.", "all_zeros(b)", all_zeros},
    {"all_ones", 1, 1, "(c) -> bool", "Whether every element of a constant is 1.", "all_ones(g)", all_ones},
    {"zeros_and_ones", 1, 1, "(c) -> bool", "Whether every element of a constant is 0 or 1.", "zeros_and_ones(mask)", all_zero_or_one},
    {"nonzero", 1, 1, "(c) -> bool", "Whether no element of a constant is 0.", "nonzero(d)", nonzero},
    {"all_finite", 1, 1, "(c) -> bool", "Whether no element of a constant is infinite or NaN.", "all_finite(c)", all_finite},
    {"all_positive", 1, 1, "(c) -> bool", "Whether every element of a constant is above 0.", "all_positive(c)", all_positive},
    {"all_nonneg", 1, 1, "(c) -> bool", "Whether no element of a constant is below 0, or NaN.", "all_nonneg(c)", all_nonneg},
    {"all_at_most", 2, 2, "(c, number) -> bool", "Whether no element of a constant is above a number.", "all_at_most(mask, 0)", all_below},
    {"all_at_least", 2, 2, "(c, number) -> bool", "Whether no element of a constant is below a number.", "all_at_least(scale, 0.001)",
     all_above},
    {"scale_ratio", 1, 4, "(r, p, ...) -> real",
     "The product of the other scales over r, at most. Infinite unless all are constant floats from 1e-12 to 1e12.",
     "scale_ratio(r, p, q) <= 1", scale_ratio},
    {"whole_reciprocal", 1, 1, "(c) -> bool", "Whether one over each element is a whole number, or that and a hundredth at most.",
     "whole_reciprocal(r)", whole_reciprocal},
    {"is_product", 3, 3, "(k, p, q) -> bool", "Whether a constant is the product of two others, within float's rounding.",
     "is_product(k, p, q)", is_product},
    {"swallows", 2, 2, "(c, d) -> bool", "Whether every element of a small constant stays as it is when any of the other's is added to it.",
     "not swallows(c, d)", swallows},
    {"power_of_two", 1, 1, "(c or number) -> bool", "Whether every element is a power of two, so that products with it round nothing.",
     "power_of_two(c)", power_of_two},
    {"splat", 1, 1, "(c) -> bool", "Whether all elements of a constant are one number.", "splat(c)", is_splat},
    {"splat_value", 1, 1, "(c) -> real", "The number that all elements of a constant are.", "splat_value(c) > 0", splat_value},
    {"repeats", 1, 1, "(c) -> bool", "Whether a constant is the same at every index of its first axis.", "repeats(c)", repeats},
    {"scalar_like", 2, 2, "(number, x or dtype) -> tensor", "A rank-0 tensor of x's dtype.", "scalar_like(0.5, X)", scalar_like},
    {"mask_fill", 2, 2, "(number, x or dtype) -> real",
     "What hides scores as this number does: -1e30 (half: -60000), next to which no score counts, or the number where it is infinite.",
     "mask_fill(item(f), S)", mask_fill},
    {"integer_min", 1, 1, "(x or dtype) -> real", "The least number of an integer element type of up to 32 bits.", "integer_min(Y)",
     end_of_range<false>},
    {"integer_max", 1, 1, "(x or dtype) -> real", "The largest number of an integer element type of up to 32 bits.", "integer_max(Y)",
     end_of_range<true>},
    {"vector_like", 2, 2, "(list, x or dtype) -> tensor", "A vector of x's dtype.", "vector_like([1, 0], X)", vector_like},
    {"ints_tensor", 1, 1, "(ints) -> tensor", "An int64 vector.", "ints_tensor([1, -1])", ints_tensor},
    {"int_tensor", 1, 1, "(int) -> tensor", "An int64 tensor of rank 0.", "int_tensor(1)", int_tensor},
    {"filled", 3, 3, "(number, dims, x or dtype) -> tensor", "A tensor of these dims and x's dtype, one number all over.",
     "filled(1, shape(X)[-1:], X)", filled},
};

}  // namespace

std::span<const RuleFunction> constant_functions() { return kConstantFunctions; }

}  // namespace saturate
