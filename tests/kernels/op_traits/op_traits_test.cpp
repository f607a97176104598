// Is each line of onnx_bridge/operators/op_traits.inc true, and are those the only ones?
// The kernels are run: an entry that is true must hold,
// and for one that is false a counterexample must be found. So an entry that is flipped fails.
#include "onnx_bridge/operators/op_traits.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <map>
#include <set>

#include "onnx_bridge/operators/op_table.h"
#include "op_traits_forms.h"
#include "op_traits_values.h"
#include "tests/kernels/kernel_test_util.h"

namespace saturate::traits_test {
namespace {

constexpr int kRounds = 16;

constexpr const char* kHolds = "";
constexpr const char* kSaysNothing = "says nothing of this dtype";
// "" where the law holds for one function, else what breaks it.
using Law = std::string (*)(const Applied& f, Random& random);

std::vector<std::int64_t> shuffled(Random& random, std::int64_t n) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(n));
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[random.below(static_cast<std::uint32_t>(i))]);
  return places;
}

std::string elementwise(const Applied& f, Random& random) {
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

std::string broadcasts(const Applied& f, Random& random) {
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

std::string gives_bool(const Applied& f, Random& random) {
  const auto y = f(f.random_operands(random));
  return y && y->dtype() == DType::kBool ? kHolds : "another dtype";
}

std::string like_first(const Applied& f, Random& random) {
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
std::optional<Tensors> numbered(const Applied& f) {
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
std::optional<std::vector<std::int64_t>> sources(const Applied& f) {
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

std::string moves(const Applied& f, Random& random) {
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

std::string permutes(const Applied& f, Random& random) {
  if (std::string why = moves(f, random); !why.empty()) return why;
  auto from = sources(f);
  if (!from) return kSaysNothing;
  std::sort(from->begin(), from->end());
  const Shape& dims = f.form().inputs[0].dims;
  const bool once = std::adjacent_find(from->begin(), from->end()) == from->end();
  return once && static_cast<std::int64_t>(from->size()) == *checked_elements(dims) ? kHolds : "an element that is missing or stands twice";
}

std::string views(const Applied& f, Random& random) {
  if (std::string why = moves(f, random); !why.empty()) return why;
  const Tensors x = f.random_operands(random);
  const auto y = f(x);
  if (!y || y->size() != x[0].size()) return "another size";
  for (std::int64_t i = 0; i < y->size(); ++i)
    if (label(*y, i) != label(x[0], i)) return "another order";
  return kHolds;
}

std::string selects(const Applied& f, Random& random) {
  Tensors x = f.random_operands(random);
  if (random.below(3) == 0)  // each operand of one number
    for (Tensor& t : x) t = taken(t, std::vector<std::int64_t>(static_cast<std::size_t>(t.size())), t.dims());
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

std::string reduces(const Applied& f, Random& random) {
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

std::string commutes(const Applied& f, Random& random) {
  if (f.operands() < 2) return "one operand";
  Tensors x = f.random_operands(random);
  const auto y = f(x);
  std::swap(x[0], x[1]);
  const auto z = f(x);
  return y && z && near(*y, *z, 0) ? kHolds : "another order, another result";
}

std::string associates(const Applied& f, Random& random) {
  if (f.operands() != 2) return "not two operands";
  const Tensors ab = f.random_operands(random, Pick::kSmall), c = f.random_operands(random, Pick::kSmall);
  const auto left = f(ab), right = f({ab[1], c[0]});
  if (!left || !right || left->dtype() != f.dtype()) return "another dtype";
  const auto y = f({*left, c[0]}), z = f({ab[0], *right});
  return y && z && near(*y, *z, 16 * slack(f.dtype())) ? kHolds : "another bracket, another result";
}

Tensor scaled(const Tensor& t, double by) {
  Tensor out(t.dtype(), t.dims());
  for (std::int64_t i = 0; i < t.size(); ++i) store_double(out, i, by * *element_as_double(t, i));
  return out;
}

std::string repeats(const Applied& f, Random& random) {
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

Tensor negated(const Tensor& t) { return scaled(t, -1); }

std::string scales(const Applied& f, Random& random) {
  if (f.operands() != 2 || f.is_condition(0)) return "not two operands of numbers";
  if (!is_wide_float(f.dtype())) return kSaysNothing;
  const Tensors x = f.random_operands(random, Pick::kSmall);
  const auto y = f(x), first = f({scaled(x[0], 2), x[1]}), second = f({x[0], scaled(x[1], 2)});
  if (!y || !first || !second || y->dtype() != f.dtype()) return "another dtype";
  const double tolerance = 16 * slack(f.dtype());
  return near(*first, scaled(*y, 2), tolerance) && near(*second, scaled(*y, 2), tolerance) ? kHolds : "a factor does not come through";
}

std::string keeps_magnitude(const Applied& f, Random& random) {
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

std::string is_positive(const Applied& f, Random& random) {
  if (f.dtype() == DType::kString) return "no number";
  const auto y = f(f.random_operands(random, Pick::kSmall));
  if (!y || y->dtype() == DType::kString) return "no number";
  for (std::int64_t i = 0; i < y->size(); ++i)
    if (!(*element_as_double(*y, i) > 0)) return "0, negative or none";
  return kHolds;
}

std::string is_odd(const Applied& f, Random& random) {
  if (f.operands() != 1) return "more than one operand";
  if (!is_wide_float(f.dtype())) return kSaysNothing;
  const Tensors x = f.random_operands(random);
  const auto y = f(x), z = f({negated(x[0])});
  if (!y || !z || y->dtype() != f.dtype()) return "another dtype";
  return near(negated(*y), *z, slack(f.dtype())) ? kHolds : "f(-x) is not -f(x)";
}

std::string is_even(const Applied& f, Random& random) {
  if (f.operands() != 1) return "more than one operand";
  if (!is_wide_float(f.dtype())) return kSaysNothing;
  const Tensors x = f.random_operands(random);
  const auto y = f(x), z = f({negated(x[0])});
  if (!y || !z || y->dtype() != f.dtype()) return "another dtype";
  return near(*y, *z, slack(f.dtype())) ? kHolds : "f(-x) is not f(x)";
}

std::string rises(const Applied& f, Random& random) {
  if (f.operands() != 1) return "more than one operand";
  const Tensors x = f.random_operands(random);
  const auto y = f(x);
  if (!y || y->dtype() != f.dtype()) return "another dtype";
  if (f.dtype() == DType::kString) return kSaysNothing;
  const bool floats = is_wide_float(f.dtype());
  const auto number = [&](const Tensor& t, std::int64_t i) -> long double {
    if (floats) return *element_as_double(t, i);
    if (f.dtype() == DType::kUint64) return static_cast<long double>(element_bits(t, i));
    return static_cast<long double>(*element_as_int(t, i));
  };
  for (std::int64_t i = 0; i < y->size(); ++i)
    for (std::int64_t j = 0; j < y->size(); ++j) {
      const long double low = number(x[0], i), high = number(x[0], j), a = number(*y, i), b = number(*y, j);
      if (low <= high && a > b && !(a - b <= slack(f.dtype()) * std::max<long double>(1, std::abs(a)))) return "it falls";
    }
  return kHolds;
}

std::optional<Tensor> rounded(const Tensor& t, DType to) {
  if (!is_wide_float(t.dtype())) return t;
  Node cast;
  cast.op_type = "Cast";
  cast.inputs = {"x"};
  cast.outputs = {"y"};
  cast.attributes = {Attribute::of("to", static_cast<std::int64_t>(to))};
  const auto y = make_evaluator()->evaluate(cast, kNewestOpset, {t});
  return y.ok() ? std::optional((*y)[0].tensor()) : std::nullopt;
}

std::string rounds_outside(const Applied& f, Random& random) {
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
std::optional<Tensor> filled_like(const Tensor& x, double number) {
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

std::string is_neutral(const Applied& f, Random& random, const Element& e) {
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

// Runs a law on every dtype and form that the operator takes; "" where it holds and was run at least once.
template <typename F>
std::string broken(std::string_view full, F law) {
  int runs = 0;
  for (const Form& form : forms_of(full)) {
    if (form.inputs.empty()) continue;
    const std::size_t first = !form.inputs.empty() && form.inputs[0].kind == Given::Kind::kCondition ? 1 : 0;
    for (const DType dtype : dtypes_of(full, first)) {
      if (!is_plain(dtype) && dtype != DType::kString) continue;
      const Applied f(full, form, dtype);
      Random random(static_cast<std::uint32_t>(dtype) * 77 + static_cast<std::uint32_t>(full.size()));
      if (!f(f.random_operands(random))) continue;  // no kernel for it, or a form of other dtypes
      for (int round = 0; round < kRounds; ++round) {
        std::string why = law(f, random);
        if (why == kSaysNothing) break;
        if (!why.empty()) return why;
        ++runs;
      }
    }
  }
  return runs > 0 ? kHolds : "it cannot be run";
}

std::string broken_arity(std::string_view full, int least, int most) {
  const OpSchema& schema = newest_schema(full);
  const bool variadic = most == INT_MAX;
  if (schema.max_inputs != most || (!variadic && schema.min_inputs != least)) return "another number of inputs";
  const auto counted = [&](const Applied& f, Random&) {
    return f.operands() == static_cast<std::size_t>(variadic ? 2 : least) ? kHolds : "inputs that differ in what they are";
  };
  if (std::string why = broken(full, counted); !why.empty()) return why;
  if (std::string why = broken(full, elementwise); !why.empty()) return why;
  return broken(full, broadcasts);
}

bool has_graph(const OpSchema& schema) {
  const auto is_graph = [](const OpAttribute& a) { return a.type == AttributeType::kGraph; };
  return std::any_of(schema.attributes.begin(), schema.attributes.end(), is_graph);
}

std::string broken_law(std::string_view full, Trait trait) {
  const bool one_by_one = has(Trait::kElementwise, full);
  const auto of_numbers = [&](Law law) { return one_by_one ? broken(full, law) : std::string("not element by element"); };
  switch (trait) {
    case Trait::kElementwise:
      return broken(full, elementwise);
    case Trait::kUnaryElementwise:
      return broken_arity(full, 1, 1);
    case Trait::kBinaryElementwise:
      return broken_arity(full, 2, 2);
    case Trait::kTernaryElementwise:
      return broken_arity(full, 3, 3);
    case Trait::kVariadicElementwise:
      return broken_arity(full, 1, INT_MAX);
    case Trait::kGivesBool:
      return broken(full, gives_bool);
    case Trait::kLikeFirst:
      return broken(full, like_first);
    case Trait::kView:
      return broken(full, views);
    case Trait::kPermutation:
      return broken(full, permutes);
    case Trait::kMovement:
      return broken(full, moves);
    case Trait::kSelection:
      return broken(full, selects);
    case Trait::kReduction:
      return broken(full, reduces);
    case Trait::kRandom:
      return newest_schema(full).attribute("seed") ? kHolds : "no seed";
    case Trait::kControlFlow:
      return has_graph(newest_schema(full)) ? kHolds : "no graph";
    case Trait::kCommutative:
      return of_numbers(commutes);
    case Trait::kAssociative:
      return of_numbers(associates);
    case Trait::kBilinear:
      return broken(full, scales);
    case Trait::kKeepsMagnitude:
      return of_numbers(keeps_magnitude);
    case Trait::kPositive:
      return broken(full, is_positive);
    case Trait::kIdempotent:
      return of_numbers(repeats);
    case Trait::kOdd:
      return of_numbers(is_odd);
    case Trait::kEven:
      return of_numbers(is_even);
    case Trait::kMonotone:
      return of_numbers(rises);
    case Trait::kCommutesWithRounding:
      return one_by_one || has(Trait::kReduction, full) ? broken(full, rounds_outside) : "not element by element";
  }
  return "no such trait";
}

// Entries of operators that no kernel of ours runs.
const std::set<std::pair<std::string_view, Trait>> kNotProven = {{"com.microsoft.Inverse", Trait::kLikeFirst}};

// An entry and what the kernels say of it.
std::string fault(std::string_view full, Trait trait, bool entry) {
  static std::map<std::pair<std::string, Trait>, std::string> known;
  const auto [it, fresh] = known.try_emplace({std::string(full), trait});
  if (fresh) it->second = kNotProven.contains({full, trait}) ? kHolds : broken_law(full, trait);
  if (entry == it->second.empty()) return kHolds;
  return entry ? it->second : "no counterexample";
}

std::string broken_element(std::string_view full, const Element& e) {
  return broken(full, [&](const Applied& f, Random& random) { return is_neutral(f, random, e); });
}

constexpr std::array<double, 5> kNumbers = {0, 1, -1, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};

std::string element_fault(std::string_view full, bool unit, std::optional<double> entry) {
  for (const double number : kNumbers) {
    if (!unit && std::isinf(number)) continue;  // most sums and products
    const std::string why = broken_element(full, {number, unit});
    if (entry == number && !why.empty()) return why;
    if (entry != number && why.empty()) return "no counterexample to " + std::to_string(number);
  }
  return kHolds;
}

TEST(OpTraitLaws, EveryEntryHoldsAndEveryOtherHasACounterexample) {
  for (const OperatorTraits& traits : all_op_traits())
    for (int t = 0; t < kTraits; ++t) {
      const auto trait = static_cast<Trait>(t);
      const bool entry = traits.has(trait);
      EXPECT_EQ(fault(traits.name, trait, entry), kHolds) << traits.name << ", " << trait_name(trait) << " is " << entry;
    }
}

TEST(OpTraitLaws, UnitsAndZerosAreThoseOfTheKernels) {
  for (const OperatorTraits& traits : all_op_traits()) {
    EXPECT_EQ(element_fault(traits.name, true, traits.unit), kHolds) << traits.name << ", unit";
    EXPECT_EQ(element_fault(traits.name, false, traits.zero), kHolds) << traits.name << ", zero";
  }
}

TEST(OpTraitLaws, AFlippedEntryFails) {
  for (const OperatorTraits& traits : all_op_traits()) {
    for (int t = 0; t < kTraits; ++t) {
      const auto trait = static_cast<Trait>(t);
      EXPECT_NE(fault(traits.name, trait, !traits.has(trait)), kHolds) << traits.name << ", " << trait_name(trait);
    }
    for (const bool unit : {true, false}) {
      const std::optional<double> entry = unit ? traits.unit : traits.zero;
      for (const double other : kNumbers) {
        if (entry == other || (!unit && std::isinf(other))) continue;
        EXPECT_NE(element_fault(traits.name, unit, other), kHolds) << traits.name << ", " << other;
      }
      if (entry.has_value()) {
        EXPECT_NE(element_fault(traits.name, unit, std::nullopt), kHolds) << traits.name;
      }
    }
  }
}

// An operator that holds a graph is what its graph is, one without inputs is no function, and the others have no kernel here.
TEST(OpTraitLaws, EveryOperatorIsRunButThese) {
  std::set<std::string_view> not_run;
  for (const OperatorTraits& traits : all_op_traits())
    if (broken(traits.name, [](const Applied&, Random&) { return std::string(kHolds); }) != kHolds) not_run.insert(traits.name);
  const std::set<std::string_view> wanted = {"If",
                                             "Loop",
                                             "Scan",
                                             "SequenceMap",
                                             "RandomNormal",
                                             "RandomUniform",
                                             "com.microsoft.Inverse",
                                             "com.microsoft.BiasDropout",
                                             "com.microsoft.BitmaskDropout",
                                             "com.microsoft.BitmaskBiasDropout"};
  EXPECT_EQ(not_run, wanted);
}

}  // namespace
}  // namespace saturate::traits_test
