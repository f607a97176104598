// The laws that traits of onnx_bridge/operators/op_traits.inc are: each says of one call of an operator whether it holds, or what breaks
// it.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "op_traits_forms.h"
#include "op_traits_values.h"

namespace saturate::traits_test {

inline constexpr const char* kHolds = "";
inline constexpr const char* kSaysNothing = "says nothing of this dtype";
// "" where the law holds for one function, else what breaks it.
using Law = std::string (*)(const Applied& f, Random& random);

inline std::vector<std::int64_t> shuffled(Random& random, std::int64_t n) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(n));
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[random.below(static_cast<std::uint32_t>(i))]);
  return places;
}

inline std::string elementwise(const Applied& f, Random& random) {
  const Tensors x = f.random_operands(random);
  const Shape& dims = x[0].dims();
  for (const Tensor& t : x)
    if (t.dims() != dims) return "operands of several shapes";
  const auto y = f(x);
  if (!y || y->dims() != dims) return "another shape";
  const auto places = shuffled(random, x[0].size());
  Tensors moved, changed;
  for (const Tensor& t : x) moved.push_back(taken(t, places, dims));
  const std::int64_t at = random.below(static_cast<std::uint32_t>(x[0].size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<std::int64_t> same(static_cast<std::size_t>(x[i].size()));
    std::iota(same.begin(), same.end(), 0);
    same[static_cast<std::size_t>(at)] = (at + 1) % x[i].size();
    changed.push_back(taken(x[i], same, dims));
  }
  const auto of_moved = f(moved), of_changed = f(changed);
  if (!of_moved || !near(*of_moved, taken(*y, places, dims), slack(y->dtype()))) return "the place counts";
  for (std::int64_t i = 0; i < y->size(); ++i)
    if (i != at && !near(*y, i, *of_changed, i, slack(y->dtype()))) return "other elements count";
  return kHolds;
}

inline std::string broadcasts(const Applied& f, Random& random) {
  if (f.operands() < 2) return kHolds;
  // The first operand over rows, the others over columns, and both ways round.
  for (const bool turned : {false, true}) {
    const Shape column{3, 1}, row{1, 4}, all{3, 4};
    Tensors small, whole;
    for (std::size_t i = 0; i < f.operands(); ++i) {
      const bool down = (i == 0) != turned;
      small.push_back(random_tensor(random, f.is_condition(i) ? DType::kBool : f.dtype(), down ? column : row));
      std::vector<std::int64_t> places;
      for (std::int64_t k = 0; k < 12; ++k) places.push_back(down ? k / 4 : k % 4);
      whole.push_back(taken(small.back(), places, all));
    }
    const auto a = f(small), b = f(whole);
    if (!a || !b || !near(*a, *b, slack(a->dtype()))) return "operands do not broadcast to each other";
  }
  return kHolds;
}

inline std::string gives_bool(const Applied& f, Random& random) {
  const auto y = f(f.random_operands(random));
  return y && y->dtype() == DType::kBool ? kHolds : "another dtype";
}

// As it is, whatever the dtype.
inline long double exact(const Tensor& t, std::int64_t i) {
  if (is_wide_float(t.dtype())) return *element_as_double(t, i);
  if (t.dtype() == DType::kUint64) return static_cast<long double>(element_bits(t, i));
  return static_cast<long double>(*element_as_int(t, i));
}

inline std::string compares(const Applied& f, Random& random) {
  if (f.operands() != 2) return "not two operands";
  if (f.dtype() == DType::kBool || f.dtype() == DType::kString) return kSaysNothing;
  const Tensors x = f.random_operands(random, Pick::kSmall);
  const auto y = f(x);
  if (!y || y->dtype() != DType::kBool) return "another dtype";
  std::map<int, std::string> said;  // by which of the two is larger
  for (std::int64_t i = 0; i < y->size(); ++i) {
    const long double a = exact(x[0], i), b = exact(x[1], i);
    if (said.try_emplace(a < b ? -1 : a > b, label(*y, i)).first->second != label(*y, i)) return "the numbers count";
  }
  return kHolds;
}

inline std::string like_first(const Applied& f, Random& random) {
  const Tensors x = f.random_operands(random);
  const auto y = f(x);
  if (!y || y->dtype() != x[0].dtype() || y->dims() != x[0].dims()) return "another dtype or shape";
  if (has(Trait::kElementwise, f.name()) && f.operands() > 1) {
    const Tensors one_and_more{random_tensor(random, x[0].dtype(), {1}), random_tensor(random, x[1].dtype(), {4})};
    const auto wider = f.operands() == 2 ? f(one_and_more) : std::nullopt;
    if (wider && wider->dims() != Shape{1}) return "a first operand that broadcasts";
    if (f.operands() > 2) return "operands that broadcast";
  }
  return kHolds;
}

// Operands whose elements are all different numbers; nullopt where the dtype has too few.
inline std::optional<Tensors> numbered(const Applied& f) {
  Tensors out;
  std::int64_t next = 0;
  for (std::size_t k = 0; k < f.form().inputs.size(); ++k) {
    const Given& g = f.form().inputs[k];
    if (!g.is_operand()) continue;
    if (g.kind == Given::Kind::kCondition || (!is_wide_float(f.dtype()) && f.dtype() != DType::kInt32 && f.dtype() != DType::kInt64))
      return std::nullopt;
    Tensor t(f.dtype(), g.dims);
    for (std::int64_t i = 0; i < t.size(); ++i) store_double(t, i, static_cast<double>(next++));
    out.push_back(t);
  }
  return out;
}

// Where each element of the result comes from in the first operand.
inline std::optional<std::vector<std::int64_t>> sources(const Applied& f) {
  const auto x = numbered(f);
  const auto y = x ? f(*x) : std::nullopt;
  if (!y) return std::nullopt;
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < y->size(); ++i) {
    const double at = element_as_double(*y, i).value_or(-1);
    if (!(at >= 0 && at < static_cast<double>((*x)[0].size())) || at != std::floor(at)) return std::nullopt;
    out.push_back(static_cast<std::int64_t>(at));
  }
  return out;
}

inline std::string moves(const Applied& f, Random& random) {
  if (f.operands() == 0) return "no operand";
  const bool counts = is_wide_float(f.dtype()) || f.dtype() == DType::kInt32 || f.dtype() == DType::kInt64;
  const Applied of_floats(f.name(), f.form(), DType::kFloat), of_ints(f.name(), f.form(), DType::kInt64);
  auto from = sources(counts ? f : of_floats);
  if (!from && !counts) from = sources(of_ints);
  if (!from) return "elements that are none of the first operand";
  const Tensors x = f.random_operands(random);
  const auto y = f(x);
  if (!y || y->dtype() != x[0].dtype() || y->size() != static_cast<std::int64_t>(from->size())) return "another dtype";
  for (std::int64_t i = 0; i < y->size(); ++i)
    if (label(*y, i) != label(x[0], (*from)[static_cast<std::size_t>(i)])) return "which element it is depends on their values";
  return kHolds;
}

inline std::string permutes(const Applied& f, Random& random) {
  if (std::string why = moves(f, random); !why.empty()) return why;
  auto from = sources(f);
  if (!from) return kSaysNothing;
  std::sort(from->begin(), from->end());
  const Shape& dims = f.form().inputs[0].dims;
  const bool once = std::adjacent_find(from->begin(), from->end()) == from->end();
  return once && static_cast<std::int64_t>(from->size()) == *checked_elements(dims) ? kHolds : "an element that is missing or stands twice";
}

inline std::string views(const Applied& f, Random& random) {
  if (std::string why = moves(f, random); !why.empty()) return why;
  const Tensors x = f.random_operands(random);
  const auto y = f(x);
  if (!y || y->size() != x[0].size()) return "another size";
  for (std::int64_t i = 0; i < y->size(); ++i)
    if (label(*y, i) != label(x[0], i)) return "another order";
  return kHolds;
}

// All elements the same, now and then.
inline Tensors sometimes_of_one_number(Tensors x, Random& random) {
  if (random.below(2) == 0)
    for (Tensor& t : x) {
      const std::int64_t at = t.size() == 0 ? 0 : random.below(static_cast<std::uint32_t>(t.size()));
      t = taken(t, std::vector<std::int64_t>(static_cast<std::size_t>(t.size()), at), t.dims());
    }
  return x;
}

inline std::string lies_between(const Applied& f, Random& random) {
  if (f.operands() == 0) return "no operand";
  if (!can_fill(f.dtype())) return kSaysNothing;
  Tensors x = f.random_operands(random, Pick::kSmall);
  if (is_integer(f.dtype()))  // no sum of them overflows
    for (Tensor& t : x)
      for (std::int64_t i = 0; i < t.size(); ++i)
        store_wrapped(t, i, static_cast<std::int64_t>(random.below(20)) - (has_sign(f.dtype()) ? 10 : 0));
  x = sometimes_of_one_number(std::move(x), random);
  const auto y = f(x);
  if (!y || y->dtype() != x[0].dtype()) return "another dtype";
  if (x[0].size() == 0) return kHolds;
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (std::int64_t i = 0; i < x[0].size(); ++i) {
    low = std::min(low, *element_as_double(x[0], i));
    high = std::max(high, *element_as_double(x[0], i));
  }
  for (std::int64_t i = 0; i < y->size(); ++i)
    if (const double e = *element_as_double(*y, i), more = slack(y->dtype()) * std::abs(e); !(low - more <= e && e <= high + more))
      return "an element outside";
  return kHolds;
}

inline std::string selects(const Applied& f, Random& random) {
  const Tensors x = sometimes_of_one_number(f.random_operands(random), random);
  const auto y = f(x);
  if (!y || y->dtype() != f.dtype()) return "another dtype";
  std::set<std::string> all;
  for (const Tensor& t : x)
    for (std::int64_t i = 0; i < t.size() && t.dtype() == y->dtype(); ++i) all.insert(label(t, i));
  for (const Given& g : f.form().inputs) {
    if (g.kind != Given::Kind::kNumber) continue;
    Tensor t(f.dtype(), {1});
    store_double(t, 0, g.number);
    all.insert(label(t, 0));
  }
  for (std::int64_t i = 0; i < y->size(); ++i)
    if (!all.contains(label(*y, i))) return "an element of no input";
  return kHolds;
}

inline std::string reduces(const Applied& f, Random& random) {
  const OpSchema& schema = newest_schema(f.name());
  if (!schema.attribute("keepdims")) return "no keepdims";
  const Tensors x = f.random_operands(random, Pick::kSmall);
  const auto y = f(x);
  Shape reduced = x[0].dims();
  reduced[1] = 1;
  if (!y || y->dims() != reduced) return "another shape";
  const std::int64_t inner = x[0].dims()[2], axis = x[0].dims()[1];
  if (axis == 0) return kHolds;
  const auto order = shuffled(random, axis);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < x[0].size(); ++i)
    places.push_back((i / (inner * axis) * axis + order[static_cast<std::size_t>(i / inner % axis)]) * inner + i % inner);
  const auto z = f({taken(x[0], places, x[0].dims())});
  return z && near(*y, *z, 4 * slack(y->dtype())) ? kHolds : "the order counts";
}

inline std::string commutes(const Applied& f, Random& random) {
  if (f.operands() < 2) return "one operand";
  Tensors x = f.random_operands(random);
  const auto y = f(x);
  std::swap(x[0], x[1]);
  const auto z = f(x);
  return y && z && near(*y, *z, 0) ? kHolds : "another order, another result";
}

inline std::string associates(const Applied& f, Random& random) {
  if (f.operands() != 2) return "not two operands";
  const Tensors ab = f.random_operands(random, Pick::kSmall), c = f.random_operands(random, Pick::kSmall);
  const auto left = f(ab), right = f({ab[1], c[0]});
  if (!left || !right || left->dtype() != f.dtype()) return "another dtype";
  const auto y = f({*left, c[0]}), z = f({ab[0], *right});
  return y && z && near(*y, *z, 16 * slack(f.dtype())) ? kHolds : "another bracket, another result";
}

inline Tensor scaled(const Tensor& t, double by) {
  Tensor out(t.dtype(), t.dims());
  for (std::int64_t i = 0; i < t.size(); ++i) store_double(out, i, by * *element_as_double(t, i));
  return out;
}

inline std::string repeats(const Applied& f, Random& random) {
  if (f.operands() > 2) return "more than two operands";
  const Tensors x = f.random_operands(random);
  if (f.operands() == 2) {
    const Tensor same = is_wide_float(f.dtype()) ? scaled(x[0], 0.5) : x[0];  // the mean of the largest overflows
    const auto y = f({same, same});
    return y && near(*y, same, 0) ? kHolds : "twice the same gives something else";
  }
  const auto y = f(x);
  if (!y || y->dtype() != f.dtype()) return "another dtype";
  const auto z = f({*y});
  return z && near(*y, *z, 0) ? kHolds : "the second time changes something";
}

inline Tensor summed(const Tensor& a, const Tensor& b) {
  Tensor out(a.dtype(), a.dims());
  for (std::int64_t i = 0; i < a.size(); ++i) store_double(out, i, *element_as_double(a, i) + *element_as_double(b, i));
  return out;
}

inline std::string adds(const Applied& f, Random& random) {
  if (f.operands() == 0) return "no operand";
  if (!is_wide_float(f.dtype())) return kSaysNothing;
  const Tensors a = f.random_operands(random, Pick::kSmall);
  Tensors b = f.random_operands(random, Pick::kSmall), sum, twice;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (f.is_condition(i)) b[i] = a[i];
    sum.push_back(f.is_condition(i) ? a[i] : summed(a[i], b[i]));
    twice.push_back(f.is_condition(i) ? a[i] : scaled(a[i], 2));
  }
  const auto of_a = f(a), of_b = f(b), of_sum = f(sum), of_twice = f(twice);
  if (!of_a || !of_b || !of_sum || !of_twice || of_a->dtype() != f.dtype()) return "another dtype";
  const double tolerance = 16 * slack(f.dtype());
  if (!near(*of_sum, summed(*of_a, *of_b), tolerance)) return "not the sum of the results";
  return near(*of_twice, scaled(*of_a, 2), tolerance) ? kHolds : "a factor does not come through";
}

inline Tensor negated(const Tensor& t) { return scaled(t, -1); }

inline std::string scales(const Applied& f, Random& random) {
  if (f.operands() != 2 || f.is_condition(0)) return "not two operands of numbers";
  if (!is_wide_float(f.dtype())) return kSaysNothing;
  const Tensors x = f.random_operands(random, Pick::kSmall);
  const auto y = f(x), first = f({scaled(x[0], 2), x[1]}), second = f({x[0], scaled(x[1], 2)});
  if (!y || !first || !second || y->dtype() != f.dtype()) return "another dtype";
  const double tolerance = 16 * slack(f.dtype());
  return near(*first, scaled(*y, 2), tolerance) && near(*second, scaled(*y, 2), tolerance) ? kHolds : "a factor does not come through";
}

inline std::string keeps_magnitude(const Applied& f, Random& random) {
  if (f.operands() != 1) return "more than one operand";
  if (f.dtype() == DType::kString) return kSaysNothing;
  const Tensors x = f.random_operands(random);
  const auto y = f(x);
  if (!y || y->dtype() != f.dtype()) return "another dtype";
  for (std::int64_t i = 0; i < y->size(); ++i) {
    const double a = std::abs(*element_as_double(x[0], i)), b = std::abs(*element_as_double(*y, i));
    if (a != b && !(std::isnan(a) && std::isnan(b))) return "another magnitude";
  }
  return kHolds;
}

inline std::string is_positive(const Applied& f, Random& random) {
  if (f.dtype() == DType::kString) return "no number";
  const auto y = f(f.random_operands(random, Pick::kSmall));
  if (!y || y->dtype() == DType::kString) return "no number";
  for (std::int64_t i = 0; i < y->size(); ++i)
    if (!(*element_as_double(*y, i) > 0)) return "0, negative or none";
  return kHolds;
}

// Of the result at -x, its negative where `turned`, beside that at x.
inline std::string mirrors(const Applied& f, Random& random, bool turned, const char* says) {
  if (f.operands() != 1) return "more than one operand";
  if (!is_wide_float(f.dtype())) return kSaysNothing;
  const Tensors x = f.random_operands(random);
  const auto y = f(x), z = f({negated(x[0])});
  if (!y || !z || y->dtype() != f.dtype()) return "another dtype";
  return near(turned ? negated(*y) : *y, *z, slack(f.dtype())) ? kHolds : says;
}

inline std::string is_odd(const Applied& f, Random& random) { return mirrors(f, random, true, "f(-x) is not -f(x)"); }
inline std::string is_even(const Applied& f, Random& random) { return mirrors(f, random, false, "f(-x) is not f(x)"); }

inline std::string rises(const Applied& f, Random& random) {
  if (f.operands() != 1) return "more than one operand";
  const Tensors x = f.random_operands(random);
  const auto y = f(x);
  if (!y || y->dtype() != f.dtype()) return "another dtype";
  if (f.dtype() == DType::kString) return kSaysNothing;
  for (std::int64_t i = 0; i < y->size(); ++i)
    for (std::int64_t j = 0; j < y->size(); ++j) {
      const long double low = exact(x[0], i), high = exact(x[0], j), a = exact(*y, i), b = exact(*y, j);
      if (low <= high && a > b && !(a - b <= slack(f.dtype()) * std::max<long double>(1, std::abs(a)))) return "it falls";
    }
  return kHolds;
}

inline std::optional<Tensor> rounded(const Tensor& t, DType to) {
  if (!is_wide_float(t.dtype())) return t;
  Node cast;
  cast.op_type = "Cast";
  cast.inputs = {"x"};
  cast.outputs = {"y"};
  cast.attributes = {Attribute::of("to", static_cast<std::int64_t>(to))};
  const auto y = make_evaluator()->evaluate(cast, kNewestOpset, {t});
  return y.ok() ? std::optional((*y)[0].tensor()) : std::nullopt;
}

inline std::string rounds_outside(const Applied& f, Random& random) {
  if (!is_wide_float(f.dtype())) return kSaysNothing;
  bool said = false;
  for (const DType narrow : {DType::kFloat, DType::kFloat16, DType::kBfloat16}) {
    const bool narrower = f.dtype() == DType::kDouble || (f.dtype() == DType::kFloat && narrow != DType::kFloat);
    const auto taken_dtypes = dtypes_of(f.name(), f.form().inputs[0].kind == Given::Kind::kCondition ? 1 : 0);
    if (!narrower || std::find(taken_dtypes.begin(), taken_dtypes.end(), narrow) == taken_dtypes.end()) continue;
    const Tensors x = f.random_operands(random);
    Tensors small;
    for (const Tensor& t : x) small.push_back(*rounded(t, narrow));
    const auto y = f(x), z = f(small, narrow);
    if (!y || !z || y->dtype() != f.dtype()) return "another dtype";
    if (!near(*rounded(*y, narrow), *z, 0)) return "rounding first changes the result";
    said = true;
  }
  return said ? kHolds : kSaysNothing;
}

// -1 stands for all bits.
inline std::optional<Tensor> filled_like(const Tensor& x, double number) {
  Tensor t(x.dtype(), x.dims());
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (!is_wide_float(x.dtype())) {
      if (!std::isfinite(number) || (x.dtype() == DType::kBool && number < 0)) return std::nullopt;
      store_wrapped(t, i, static_cast<std::int64_t>(number));
    } else if (!store_double(t, i, number)) {
      return std::nullopt;
    }
  }
  return t;
}

struct Element {
  double number;
  bool unit;  // else the zero
};

inline std::string is_neutral(const Applied& f, Random& random, const Element& e) {
  if (f.operands() != 2 || !can_fill(f.dtype())) return "not two operands of numbers";
  const Tensors x = f.random_operands(random, e.unit ? Pick::kAny : Pick::kSmall);
  const auto u = filled_like(x[1], e.number);
  if (!u) return "a dtype that has no such number";
  const auto y = f({x[0], *u});
  if (!y || !near(*y, e.unit ? x[0] : *u, 0)) return "not on the right";
  if (e.unit && !has(Trait::kCommutative, f.name())) return kHolds;
  const auto z = f({*u, x[0]});
  return z && near(*z, e.unit ? x[0] : *u, 0) ? kHolds : "not on the left";
}

}  // namespace saturate::traits_test
