#include "kernels/compare/compare.h"

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

// Elements of a row: the last axis, joined with those before it where it is too short to tell a scale, or what noise there is.
constexpr std::int64_t kForScale = 4, kForNoise = 16;
std::int64_t row_length(const Shape& dims, std::int64_t shortest) {
  std::int64_t length = 1;
  for (std::size_t k = dims.size(); k > 0 && length < shortest; --k) length *= dims[k - 1];
  return std::max<std::int64_t>(length, 1);
}

// The lower median of the sizes that are neither 0 nor huge; 0 where there are none.
double usual_size(const double* row, std::int64_t length, std::vector<double>& buffer) {
  buffer.clear();
  for (std::int64_t i = 0; i < length; ++i)
    if (const double size = std::abs(row[i]); size > 0 && size < kHuge) buffer.push_back(size);
  if (buffer.empty()) return 0;
  const auto middle = buffer.begin() + static_cast<std::ptrdiff_t>((buffer.size() - 1) / 2);
  std::nth_element(buffer.begin(), middle, buffer.end());
  return *middle;
}

}  // namespace

// How far elements of one row may differ.
class ElementTolerance {
 public:
  ElementTolerance(const std::vector<double>& reference, double rtol, double atol, const Noise* noise, std::size_t tensor)
      : a_(reference), rtol_(rtol), atol_(atol) {
    if (noise && tensor < noise->numbers_.size() && noise->numbers_[tensor].size() == a_.size()) noise_ = &noise->numbers_[tensor];
  }

  void begin_row(std::int64_t first, std::int64_t length) { usual_ = usual_size(a_.data() + first, length, buffer_); }

  // The noise around element i, by the size of the elements that have it.
  void look_around(std::int64_t i, std::int64_t length) {
    const std::int64_t first = i / length * length, end = std::min(first + length, static_cast<std::int64_t>(a_.size()));
    if (!noise_ || first == around_) return;
    around_ = first;
    lent_.clear();
    for (std::int64_t k = first; k < end; ++k) {
      const double n = (*noise_)[static_cast<std::size_t>(k)], size = std::abs(a_[static_cast<std::size_t>(k)]);
      if (std::isfinite(n) && std::isfinite(size) && n > 0) lent_.emplace_back(size, n);
    }
    std::sort(lent_.begin(), lent_.end());
    for (std::size_t k = 1; k < lent_.size(); ++k) lent_[k].second = std::max(lent_[k].second, lent_[k - 1].second);
  }

  double scale(std::int64_t i) const {
    const double size = std::abs(a_[static_cast<std::size_t>(i)]);
    return std::isfinite(size) ? std::max(size, usual_) : usual_;
  }

  double allowed(std::int64_t i) const {
    constexpr double kTimes = 4;
    if (!noise_) return atol_ + rtol_ * scale(i);
    const auto end = std::upper_bound(lent_.begin(), lent_.end(), std::pair(kComparable * scale(i), HUGE_VAL));
    const double lent = end == lent_.begin() ? 0 : std::prev(end)->second;
    return atol_ + rtol_ * scale(i) + kTimes * std::max((*noise_)[static_cast<std::size_t>(i)], lent);
  }

 private:
  static constexpr double kComparable = 16;  // what is so many times as large lends no noise
  const std::vector<double>& a_;
  double rtol_, atol_, usual_ = 0;
  const std::vector<double>* noise_ = nullptr;
  std::vector<double> buffer_;
  std::vector<std::pair<double, double>> lent_;  // sizes, ascending, and the largest noise up to there
  std::int64_t around_ = -1;
};

bool was_seen(const Noise& noise, std::size_t tensor, const Tensor& other, std::int64_t i) {
  if (tensor >= noise.alternatives_.size()) return false;
  const auto same = [&](const Tensor& t) { return t.size() == other.size() && element_as_int(t, i) == element_as_int(other, i); };
  return std::any_of(noise.alternatives_[tensor].begin(), noise.alternatives_[tensor].end(), same);
}

double spread_of(const Noise& noise, std::size_t tensor) { return tensor < noise.spread_.size() ? noise.spread_[tensor] : 0; }

// The largest noise of so many elements.
double noise_around(const Noise& noise, std::size_t tensor, std::int64_t first, std::int64_t length) {
  double most = 0;
  if (tensor >= noise.numbers_.size()) return most;
  const std::vector<double>& numbers = noise.numbers_[tensor];
  const std::int64_t end = std::min(first + length, static_cast<std::int64_t>(numbers.size()));
  for (std::int64_t i = first; i < end; ++i) most = std::max(most, numbers[static_cast<std::size_t>(i)]);
  return most;
}

namespace {

struct FloatRule {
  double rtol = 0, atol = 0;
  bool only_finite = false;
  const Noise* noise = nullptr;
  std::size_t tensor = 0;   // of the noise
  bool as_a_whole = false;  // the elements together may differ by little more than the noise does
  double rare_rtol = 0;     // of kShareRare of the elements, where it is larger
};

// Of an output, the elements that may be rounded otherwise where a value is rounded to fewer digits on its way; one always may.
constexpr double kShareRare = 1.0 / 64;

// Where each element is within its noise, a wrong scale or zero point may still show in all of them.
constexpr double kTimesSpread = 1.5;

// `squares`: the sum over elements that differ.
void judge_spread(OutputComparison& result, double squares, double allowed) {
  const double spread = std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(result.elements, 1)));
  if (!result.ok || spread <= allowed) return;
  result.ok = false;
  result.mismatches = result.elements;
  result.why =
      fmt::format("its elements differ by {:.3g} (root of mean square), where steps of the original's quantized values make {:.3g}", spread,
                  allowed / kTimesSpread);
}

void see_reference(OutputComparison& result, const std::vector<double>& a) {
  result.of_floats = true;
  for (double x : a) {
    result.nans += std::isnan(x);
    result.finite += std::isfinite(x);
    if (std::isfinite(x) && std::abs(x) < kHuge) result.largest = std::max(result.largest, std::abs(x));
  }
  result.all_nan = !a.empty() && result.nans == static_cast<std::int64_t>(a.size());
}

void compare_floats(OutputComparison& result, const Tensor& reference, const Tensor& other, const FloatRule& rule) {
  const std::vector<double> a = doubles(reference), b = doubles(other);
  see_reference(result, a);
  ElementTolerance tolerance(a, rule.rtol, rule.atol, rule.noise, rule.tensor);
  const std::int64_t length = row_length(reference.dims(), kForScale), n = reference.size();
  const std::int64_t around = row_length(reference.dims(), kForNoise);
  double worst = -1, squares = 0;
  const auto may_be_rare = std::max<std::int64_t>(1, static_cast<std::int64_t>(kShareRare * static_cast<double>(n)));
  std::int64_t rare = 0;
  for (std::int64_t first = 0; first < n; first += length) {
    const std::int64_t end = std::min(first + length, n);
    bool begun = false;  // most rows are equal to the last bit
    for (std::int64_t i = first; i < end; ++i) {
      const double x = a[static_cast<std::size_t>(i)], y = b[static_cast<std::size_t>(i)];
      if (x == y || same_special(x, y) || (rule.only_finite && !std::isfinite(x))) continue;
      if (!begun) tolerance.begin_row(first, end - first);
      begun = true;
      tolerance.look_around(i, around);
      const double difference = std::abs(x - y);
      double allowed = tolerance.allowed(i);
      if (difference > allowed && rule.rare_rtol > rule.rtol && ++rare <= may_be_rare)
        allowed = std::max(allowed, rule.atol + rule.rare_rtol * tolerance.scale(i));
      const bool huge = std::abs(x) >= kHuge;
      if (std::isfinite(difference) && !huge && difference > rule.atol + rule.rtol * tolerance.scale(i)) squares += difference * difference;
      if (std::isfinite(difference) && !huge) result.max_abs = std::max(result.max_abs, difference);
      if (const double share = allowed > 0 ? difference / allowed : kHuge; share > worst && !huge) {
        worst = share;
        result.nearest = std::isfinite(difference) ? difference : 0;
        result.scale = tolerance.scale(i);
        result.tolerance = allowed;
      }
      if (!(difference <= allowed) && !std::isinf(allowed)) mismatch(result, i, fmt::format("{:.9g}", y), fmt::format("{:.9g}", x));
    }
  }
  if (worst < 0) {
    result.scale = result.largest;
    result.tolerance = rule.atol + rule.rtol * result.largest;
  }
  finish(result);
  if (rule.as_a_whole && rule.noise) judge_spread(result, squares, kTimesSpread * spread_of(*rule.noise, rule.tensor));
}

// Numbers of which `steps.size` is a step.
void compare_in_steps(OutputComparison& result, const Tensor& reference, const Tensor& other, const StepRule& steps,
                      const FloatRule& rule) {
  constexpr double kNone = 0.02;  // what is no step, but rounding
  constexpr double kTimes = 2;    // the noise around an element
  const std::vector<double> a = doubles(reference), b = doubles(other);
  see_reference(result, a);
  result.step = result.scale = steps.size;
  result.tolerance = steps.most * steps.size;
  double squares = 0;
  bool beyond = false;
  const std::int64_t n = reference.size(), around = row_length(reference.dims(), kForNoise);
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = a[static_cast<std::size_t>(i)], y = b[static_cast<std::size_t>(i)], by = std::abs(x - y) / steps.size;
    if (x == y || same_special(x, y) || by <= kNone || (rule.only_finite && !std::isfinite(x))) continue;
    ++result.moved;
    if (std::isfinite(by)) {
      result.steps = std::max(result.steps, by);
      result.max_abs = result.steps * steps.size;
      squares += by * by;
    }
    if (by <= steps.most + kNone) continue;
    beyond = true;
    const double noise = rule.noise ? noise_around(*rule.noise, rule.tensor, i / around * around, around) : 0;
    if (!(by <= kTimes * noise / steps.size + kNone)) mismatch(result, i, fmt::format("{:.9g}", y), fmt::format("{:.9g}", x));
  }
  finish(result);
  const auto may_move = std::max<std::int64_t>(1, static_cast<std::int64_t>(steps.share * static_cast<double>(n)));
  if (!result.ok || (!beyond && result.moved <= may_move)) return;
  judge_spread(result, squares * steps.size * steps.size, rule.noise ? kTimesSpread * spread_of(*rule.noise, rule.tensor) : 0);
  if (!result.ok) result.why = fmt::format("{} of {} elements differ by up to {:.3g} steps; ", result.moved, n, result.steps) + result.why;
}

std::string element_text(const Tensor& t, std::int64_t i) {
  if (t.dtype() == DType::kString) return fmt::format("'{}'", t.string_data()[static_cast<std::size_t>(i)]);
  if (const auto number = element_as_int(t, i)) return fmt::format("{}", *number);
  return fmt::format("{:.9g}", element_as_double(t, i).value_or(NAN));
}

void compare_exactly(OutputComparison& result, const Tensor& reference, const Tensor& other, const Noise* noise, std::size_t tensor) {
  if (identical(reference, other)) return;
  for (std::int64_t i = 0; i < reference.size(); ++i) {
    const std::string wanted = element_text(reference, i), got = element_text(other, i);
    if (wanted == got) continue;
    if (reference.dtype() != DType::kString)
      result.max_abs =
          std::max(result.max_abs, std::abs(element_as_double(reference, i).value_or(0) - element_as_double(other, i).value_or(0)));
    if (!noise || !was_seen(*noise, tensor, other, i)) mismatch(result, i, got, wanted);
  }
  finish(result);
}

bool compare_forms(OutputComparison& result, const Tensor& reference, const Tensor& other) {
  result.dtype = dtype_name(reference.dtype());
  result.elements = reference.size();
  result.ok = reference.dtype() == other.dtype() && reference.dims() == other.dims();
  if (reference.dtype() != other.dtype())
    result.why = fmt::format("type {} instead of {}", dtype_name(other.dtype()), result.dtype);
  else if (!result.ok)
    result.why = fmt::format("shape [{}] instead of [{}]", fmt::join(other.dims(), ","), fmt::join(reference.dims(), ","));
  return result.ok;
}

bool compared_as_floats(const Tensor& t) { return is_floating(t.dtype()) || is_complex(t.dtype()); }

struct Allowed {
  const Tolerances& tolerances;
  const Noise* noise;
  const StepRule* steps;
};

void compare_tensors(OutputComparison& result, const Tensor& reference, const Tensor& other, const Allowed& allowed, std::size_t tensor) {
  if (!compare_forms(result, reference, other)) return;
  const auto& [tolerances, noise, steps] = allowed;
  if (steps && steps->size > 0 && !is_complex(reference.dtype()) && reference.dtype() != DType::kString) {
    compare_in_steps(result, reference, other, *steps, {0, 0, tolerances.only_finite, noise, tensor});
  } else if (compared_as_floats(reference)) {
    const Tensor real = as_real(reference);
    const double own = std::max(dtype_tolerance(real.dtype()), dtype_tolerance(tolerances.coarsest)), least = least_tolerance(real.dtype());
    const bool given = tolerances.rtol || tolerances.atol;
    compare_floats(result, real, as_real(other),
                   {tolerances.rtol.value_or(given ? 0 : own), tolerances.atol.value_or(given ? 0 : least), tolerances.only_finite, noise,
                    tensor, steps != nullptr, given ? 0 : dtype_tolerance(tolerances.rounded)});
  } else {
    compare_exactly(result, reference, other, noise, tensor);
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

double least_tolerance(DType dtype) {
  constexpr double kSteps = 2, kStep = 0x1p-24;
  return dtype == DType::kFloat16 ? kSteps * kStep : 0;
}

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

void Noise::learn(const Value& reference, const Value& again) {
  std::vector<std::pair<const Tensor*, const Tensor*>> pairs;
  if (!pair_up(reference, again, pairs)) return;
  numbers_.resize(pairs.size());
  alternatives_.resize(pairs.size());
  spread_.resize(pairs.size());
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const auto& [x, y] = pairs[p];
    if (x->dtype() != y->dtype() || x->dims() != y->dims() || x->dtype() == DType::kString) continue;
    if (!compared_as_floats(*x)) {
      if (identical(*x, *y)) continue;
      alternatives_[p].push_back(*y);
      any_ = true;
      if (bit_width(x->dtype()) > 16) continue;
    }
    const std::vector<double> a = doubles(as_real(*x)), b = doubles(as_real(*y));
    numbers_[p].resize(a.size());
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || same_special(a[i], b[i])) continue;
      const double difference = std::abs(a[i] - b[i]);
      numbers_[p][i] = std::isnan(difference) ? HUGE_VAL : std::max(numbers_[p][i], difference);
      if (std::isfinite(difference) && std::abs(a[i]) < kHuge) squares += difference * difference;
      any_ = true;
    }
    if (!a.empty()) spread_[p] = std::max(spread_[p], std::sqrt(squares / static_cast<double>(a.size())));
  }
}

namespace {

template <typename Compare>
OutputComparison compare_each(const std::string& name, const Value& reference, const Value& other, const Compare& compare) {
  OutputComparison result;
  result.name = name;
  std::vector<std::pair<const Tensor*, const Tensor*>> pairs;
  if (!pair_up(reference, other, pairs)) {
    result.ok = false;
    result.why = "another number or kind of values";
    return result;
  }
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    OutputComparison one;
    compare(one, *pairs[p].first, *pairs[p].second, p);
    one.max_abs = std::max(one.max_abs, result.max_abs);
    if (one.tolerance * result.nearest > result.tolerance * one.nearest) {
      one.nearest = result.nearest;
      one.scale = result.scale;
      one.tolerance = result.tolerance;
    }
    one.largest = std::max(one.largest, result.largest);
    one.elements += result.elements;
    one.finite += result.finite;
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

}  // namespace

OutputComparison compare_values(const std::string& name, const Value& reference, const Value& other, const Tolerances& tolerances,
                                const Noise* noise, const StepRule* steps) {
  return compare_each(name, reference, other, [&](OutputComparison& one, const Tensor& a, const Tensor& b, std::size_t p) {
    compare_tensors(one, a, b, {tolerances, noise, steps}, p);
  });
}

OutputComparison compare_kinds(const std::string& name, const Value& reference, const Value& other) {
  return compare_each(name, reference, other,
                      [](OutputComparison& one, const Tensor& a, const Tensor& b, std::size_t) { compare_forms(one, a, b); });
}

}  // namespace saturate
