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
#include "op_traits_laws.h"
#include "tests/kernels/kernel_test_util.h"

namespace saturate::traits_test {
namespace {

constexpr int kRounds = 16;

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
    case Trait::kCompares:
      return broken(full, compares);
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
    case Trait::kBetween:
      return broken(full, lies_between);
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
    case Trait::kLinear:
      return broken(full, adds);
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
      return one_by_one || (has(Trait::kBetween, full) && !has(Trait::kMovement, full)) ? broken(full, rounds_outside)
                                                                                        : "not element by element";
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
