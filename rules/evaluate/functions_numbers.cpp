// Numbers.
#include <fmt/format.h>

#include <cmath>

#include "rules/evaluate/functions.h"

namespace saturate {
namespace {

template <double (*f)(double)>
Result apply(EvalContext& c, Args a) {
  const auto x = c.as_real(a[0]);
  if (!x) return std::nullopt;
  const double y = f(*x);
  if (std::isnan(y)) return c.fail([&] { return fmt::format("the function has no value at {:g}", *x); });
  return Val(y);
}

double square_root(double x) { return std::sqrt(x); }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }
double exponential(double x) { return std::exp(x); }
double logarithm(double x) { return std::log(x); }

Result absolute(EvalContext& c, Args a) {
  if (const auto* i = a[0].get<std::int64_t>()) return Val(*i < 0 ? -*i : *i);
  const auto x = c.as_real(a[0]);
  if (!x) return std::nullopt;
  return Val(std::fabs(*x));
}

template <bool largest>
Result extreme(EvalContext& c, Args a) {
  std::vector<double> values;
  for (const Val& v : a) {
    const auto x = c.as_real(v);
    if (!x) return std::nullopt;
    values.push_back(*x);
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i)
    if (largest ? values[i] > values[best] : values[i] < values[best]) best = i;
  return a[best];
}

Result integral(EvalContext& c, Args a) {
  const auto x = c.as_real(a[0]);
  if (!x) return std::nullopt;
  return Val(std::isfinite(*x) && *x == std::floor(*x));
}

Result integer_of(EvalContext& c, Args a) {
  const auto x = c.as_real(a[0]);
  if (!x) return std::nullopt;
  if (!(std::fabs(*x) < 9.0e15) || *x != std::floor(*x)) return c.fail([&] { return fmt::format("{:g} is no integer", *x); });
  return Val(static_cast<std::int64_t>(*x));
}

Result approx(EvalContext& c, Args a) {
  const auto x = c.as_real(a[0]);
  const auto y = x ? c.as_real(a[1]) : std::nullopt;
  const auto tolerance = !y ? std::nullopt : a.size() > 2 ? c.as_real(a[2]) : std::optional<double>(1e-5);
  if (!tolerance) return std::nullopt;
  return Val(*x == *y || std::fabs(*x - *y) <= *tolerance * std::max(std::fabs(*x), std::fabs(*y)));
}

// What a fill of hidden scores may be replaced by, and no sum of two overflows.
Result finite(EvalContext& c, Args a) {
  const auto x = c.as_real(a[0]);
  if (!x) return std::nullopt;
  return Val(std::isfinite(*x));
}

// Every number of `from` is a number of `to`, so that a Cast there and back changes nothing.
bool widens(DType from, DType to) {
  if (from == to || from == DType::kBool) return from == to || is_floating(to) || is_integer(to);
  const auto digits = [](DType t) {
    switch (t) {
      case DType::kFloat16:
        return 11;
      case DType::kBfloat16:
        return 8;
      case DType::kFloat:
        return 24;
      case DType::kDouble:
        return 53;
      default:
        return 0;
    }
  };
  const auto exponents = [](DType t) { return t == DType::kFloat16 ? 5 : t == DType::kDouble ? 11 : 8; };
  if (digits(from) && digits(to)) return digits(from) <= digits(to) && exponents(from) <= exponents(to);
  if (!is_integer(from)) return false;
  const auto is_unsigned = [](DType t) {
    for (DType u : {DType::kUint2, DType::kUint4, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64})
      if (t == u) return true;
    return false;
  };
  const int needed = bit_width(from) - (is_unsigned(from) ? 0 : 1);
  if (is_integer(to)) return is_unsigned(to) ? is_unsigned(from) && needed <= bit_width(to) : needed <= bit_width(to) - 1;
  return digits(to) > 0 && needed <= digits(to) && (to != DType::kFloat16 || needed <= 11);
}

std::optional<DType> dtype_of(EvalContext& c, const Val& v) {
  if (const auto* d = v.get<DType>()) return *d;
  if (const auto* i = v.get<std::int64_t>()) return static_cast<DType>(*i);
  const Facts* f = c.as_facts(v);
  if (f == nullptr) return std::nullopt;
  if (f->kind == Facts::Kind::kTensor && f->dtype != DType::kUndefined) return f->dtype;
  return c.fail([&] { return fmt::format("the dtype of {} is unknown", c.show(v)); });
}

Result lossless(EvalContext& c, Args a) {
  const auto from = dtype_of(c, a[0]);
  const auto to = from ? dtype_of(c, a[1]) : std::nullopt;
  if (!to) return std::nullopt;
  return Val(widens(*from, *to));
}

Result floating(EvalContext& c, Args a) {
  const auto d = dtype_of(c, a[0]);
  if (!d) return std::nullopt;
  return Val(is_floating(*d));
}

constexpr RuleFunction kNumberFunctions[] = {
    {"sqrt", 1, 1, "(number) -> real", "The square root.", "sqrt(dim(Q, -1))", apply<square_root>},
    {"rsqrt", 1, 1, "(number) -> real", "One over the square root.", "approx(item(scale), rsqrt(dim(Q, -1)))", apply<reciprocal_root>},
    {"exp", 1, 1, "(number) -> real", "e to the power of a number.", "exp(item(c))", apply<exponential>},
    {"log", 1, 1, "(number) -> real", "The natural logarithm.", "log(item(c))", apply<logarithm>},
    {"abs", 1, 1, "(number) -> number", "The absolute value.", "abs(item(c)) < 1", absolute},
    {"min", 1, 8, "(number, ...) -> number", "The smallest.", "min(item(a), item(b))", extreme<false>},
    {"max", 1, 8, "(number, ...) -> number", "The largest.", "max(item(a), item(b))", extreme<true>},
    {"integral", 1, 1, "(number) -> bool", "Whether a number is whole.", "integral(item(e))", integral},
    {"int", 1, 1, "(number) -> int", "A whole number as an int.", "int(item(e))", integer_of},
    {"approx", 2, 3, "(a, b[, tolerance]) -> bool", "Whether two numbers agree within a relative tolerance (1e-5).",
     "approx(item(s), 0.125)", approx},
    {"near", 2, 3, "(a, b[, tolerance]) -> bool", "The same as approx.", "near(item(s), 0.125)", approx},
    {"finite", 1, 1, "(number) -> bool", "Whether a number is neither infinite nor NaN.", "finite(item(c))", finite},
    {"lossless", 2, 2, "(from, to) -> bool", "Whether every number of one dtype is a number of the other; dtypes, values, or Cast's `to`.",
     "lossless(dtype(X), @to)", lossless},
    {"floating", 1, 1, "(dtype) -> bool", "Whether a dtype, or Cast's `to`, is floating.", "floating(@to)", floating},
};

}  // namespace

std::span<const RuleFunction> number_functions() { return kNumberFunctions; }

}  // namespace saturate
