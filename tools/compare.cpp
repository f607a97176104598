#include "tools/compare.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace saturate {
namespace {

constexpr double kHuge = 1e30;

bool is_complex(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

// A complex tensor as one of pairs of floats.
Tensor as_real(const Tensor& t) {
  if (!is_complex(t.dtype())) return t;
  Shape dims = t.dims();
  dims.push_back(2);
  const DType real = t.dtype() == DType::kComplex64 ? DType::kFloat : DType::kDouble;
  return Tensor(real, std::move(dims), std::make_shared<Tensor>(t), t.bytes());
}

template <typename T>
void widen(const Tensor& t, std::vector<double>& out) {
  std::transform(t.data<T>(), t.data<T>() + t.size(), out.begin(), [](T v) { return static_cast<double>(v); });
}

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> out(static_cast<std::size_t>(t.size()));
  if (out.empty()) return out;
  if (t.dtype() == DType::kFloat) {
    widen<float>(t, out);
  } else if (t.dtype() == DType::kDouble) {
    widen<double>(t, out);
  } else {
    for (std::int64_t i = 0; i < t.size(); ++i) out[static_cast<std::size_t>(i)] = element_as_double(t, i).value_or(NAN);
  }
  return out;
}

bool same_special(double a, double b) { return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b); }

void mismatch(OutputComparison& result, std::int64_t index, const std::string& got, const std::string& wanted) {
  result.ok = false;
  if (++result.mismatches == 1) result.why = fmt::format("first at element {}: {} instead of {}", index, got, wanted);
}

void finish(OutputComparison& result) {
  if (result.mismatches > 0) result.why = fmt::format("{} of {} elements differ, {}", result.mismatches, result.elements, result.why);
}

void compare_floats(OutputComparison& result, const Tensor& reference, const Tensor& other, double rtol, double atol) {
  const std::vector<double> a = doubles(reference), b = doubles(other);
  for (double x : a) {
    result.nans += std::isnan(x);
    if (std::isfinite(x) && std::abs(x) < kHuge) result.largest = std::max(result.largest, std::abs(x));
  }
  result.all_nan = !a.empty() && result.nans == static_cast<std::int64_t>(a.size());
  result.scale = std::max(1.0, result.largest);
  result.tolerance = atol + rtol * result.scale;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || same_special(a[i], b[i])) continue;
    const double difference = std::abs(a[i] - b[i]);
    const bool huge = std::abs(a[i]) >= kHuge;
    if (std::isfinite(difference) && !huge) result.max_abs = std::max(result.max_abs, difference);
    const double allowed = huge ? rtol * std::abs(a[i]) : result.tolerance;
    if (!std::isfinite(difference) || difference > allowed)
      mismatch(result, static_cast<std::int64_t>(i), fmt::format("{:.9g}", b[i]), fmt::format("{:.9g}", a[i]));
  }
  finish(result);
}

std::string element_text(const Tensor& t, std::int64_t i) {
  if (t.dtype() == DType::kString) return fmt::format("'{}'", t.string_data()[static_cast<std::size_t>(i)]);
  if (const auto number = element_as_int(t, i)) return fmt::format("{}", *number);
  return fmt::format("{:.9g}", element_as_double(t, i).value_or(NAN));
}

void compare_exactly(OutputComparison& result, const Tensor& reference, const Tensor& other) {
  if (identical(reference, other)) return;
  for (std::int64_t i = 0; i < reference.size(); ++i) {
    const std::string wanted = element_text(reference, i), got = element_text(other, i);
    if (wanted == got) continue;
    if (reference.dtype() != DType::kString)
      result.max_abs =
          std::max(result.max_abs, std::abs(element_as_double(reference, i).value_or(0) - element_as_double(other, i).value_or(0)));
    mismatch(result, i, got, wanted);
  }
  finish(result);
}

void compare_tensors(OutputComparison& result, const Tensor& reference, const Tensor& other, const Tolerances& tolerances) {
  result.dtype = dtype_name(reference.dtype());
  result.elements = reference.size();
  result.ok = false;
  if (reference.dtype() != other.dtype()) {
    result.why = fmt::format("type {} instead of {}", dtype_name(other.dtype()), result.dtype);
    return;
  }
  if (reference.dims() != other.dims()) {
    result.why = fmt::format("shape [{}] instead of [{}]", fmt::join(other.dims(), ","), fmt::join(reference.dims(), ","));
    return;
  }
  result.ok = true;
  if (is_floating(reference.dtype()) || is_complex(reference.dtype())) {
    const double own = std::max(dtype_tolerance(as_real(reference).dtype()), dtype_tolerance(tolerances.coarsest));
    const bool given = tolerances.rtol || tolerances.atol;
    compare_floats(result, as_real(reference), as_real(other), tolerances.rtol.value_or(given ? 0 : own),
                   tolerances.atol.value_or(0) + tolerances.noise);
  } else if (tolerances.inexact_integers && reference.dtype() != DType::kString) {
    compare_floats(result, reference, other, 0, 1);
  } else {
    compare_exactly(result, reference, other);
  }
}

// Tensors inside sequences and optionals, in order; false where the two are built differently.
bool pair_up(const Value& a, const Value& b, std::vector<std::pair<const Tensor*, const Tensor*>>& out) {
  if (a.v.index() != b.v.index()) return false;
  if (const auto* tensor = std::get_if<Tensor>(&a.v)) {
    out.emplace_back(tensor, &std::get<Tensor>(b.v));
    return true;
  }
  if (const auto* left = std::get_if<Sequence>(&a.v)) {
    const auto& right = std::get<Sequence>(b.v);
    if (left->items.size() != right.items.size()) return false;
    for (std::size_t i = 0; i < left->items.size(); ++i)
      if (!pair_up(left->items[i], right.items[i], out)) return false;
    return true;
  }
  if (const auto* left = std::get_if<Optional>(&a.v)) {
    const auto& right = std::get<Optional>(b.v);
    if (!left->value || !right.value) return left->value == right.value;
    return pair_up(*left->value, *right.value, out);
  }
  return true;
}

}  // namespace

double dtype_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return 1e-4;
    case DType::kDouble:
      return 1e-6;
    case DType::kFloat16:
    case DType::kBfloat16:
      return 2e-2;
    default:
      return is_floating(dtype) ? 0.125 : 0;
  }
}

OutputComparison compare_values(const std::string& name, const Value& reference, const Value& other, const Tolerances& tolerances) {
  OutputComparison result;
  result.name = name;
  std::vector<std::pair<const Tensor*, const Tensor*>> pairs;
  if (!pair_up(reference, other, pairs)) {
    result.ok = false;
    result.why = "another number or kind of values";
    return result;
  }
  for (const auto& [a, b] : pairs) {
    OutputComparison one;
    compare_tensors(one, *a, *b, tolerances);
    one.max_abs = std::max(one.max_abs, result.max_abs);
    one.elements += result.elements;
    one.mismatches += result.mismatches;
    if (!result.ok) {
      one.ok = false;
      one.why = result.why;
    }
    one.name = name;
    result = std::move(one);
  }
  return result;
}

}  // namespace saturate
