// What is true of operators, said once: one line an operator in op_traits.inc. Everybody who asks "is it a view", "is it random" asks here.
// tests/kernels/op_traits/op_traits_test.cpp runs the kernels on every dtype: each trait is true, and to each one that is missing there is
// a counterexample. An operator is named as in rules: "Relu" of the standard, "com.microsoft.FastGelu" of another domain.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace saturate {

// Laws hold for every attribute and every dtype that the operator takes; of floats within rounding.
// Those about numbers, from commutative on, are told of elementwise operators alone.
// Of others are told linear, bilinear, positive, and (of those between their elements) commutes_with_rounding.
enum class Trait : std::uint8_t {
  // An element of the result depends on the elements of its place alone, whatever the shape.
  // The four that name an arity take exactly so many inputs, all of them operands that broadcast to each other.
  // Clip, PRelu and such have none: their inputs differ in what they are.
  kElementwise,
  kUnaryElementwise,
  kBinaryElementwise,
  kTernaryElementwise,
  kVariadicElementwise,
  kGivesBool,    // the result is bool, whatever the inputs are
  kCompares,     // ... and tells of two numbers how they stand to each other: which of them is larger, if any
  kLikeFirst,    // the (first) result has the dtype and the shape of the first input
  kSelection,    // each element of the result is one of some input
  kMovement,     // ... of the first input, and which one depends on no element of it
  kPermutation,  // ... each of them once
  kView,         // ... in their order
  kBetween,      // each element of the result lies between the least and the largest of the first input, where that has some
  kReduction,    // takes `axes` away, in whatever order their elements stand
  kRandom,       // draws at each run, unless it is told not to (Dropout)
  kControlFlow,  // runs graphs that it holds
  // Of two operands (or more).
  kCommutative,  // f(a, b) = f(b, a)
  kAssociative,  // f(f(a, b), c) = f(a, f(b, c)); of floats within rounding, where no partial result overflows
  kLinear,       // f(a + b) = f(a) + f(b) and f(c a) = c f(a), of all operands of float together
  kBilinear,     // f(c a, b) = f(a, c b) = c f(a, b), of floats, without a bias: products, and what sums them
  // f(f(x)) = f(x) of one operand, f(x, x) = x of two (of floats where no partial result overflows: Mean).
  kIdempotent,
  // Of one operand (monotone: and of Clip in its first one).
  kOdd,             // f(-x) = -f(x), of floats: the least integer has no negative
  kEven,            // f(-x) = f(x), of floats
  kMonotone,        // x <= y gives f(x) <= f(y), where neither is NaN
  kKeepsMagnitude,  // |f(x)| = |x|
  kPositive,        // f(x) > 0 of finite x, but for what is too small to be held
  // Rounding all operands to a float of fewer bits and rounding the result is one and the same, bit for bit.
  kCommutesWithRounding,
};
inline constexpr int kTraits = static_cast<int>(Trait::kCommutesWithRounding) + 1;

// "unary_elementwise": how rules name it.
std::string_view trait_name(Trait trait);
std::optional<Trait> trait_named(std::string_view name);

// A line of the table.
struct OperatorTraits {
  std::string_view name;  // with its domain
  std::uint32_t bits = 0;
  // f(x, unit) = x, and f(unit, x) = x where it is commutative. -1 is all bits set, 1 and 0 are true and false.
  std::optional<double> unit = {};
  // f(x, zero) = zero; of floats where x is finite. 1, 0 or -1.
  std::optional<double> zero = {};

  constexpr bool has(Trait trait) const { return (bits >> static_cast<int>(trait) & 1) != 0; }
  constexpr std::string_view domain() const { return name.substr(0, dot()); }  // "" of ai.onnx
  constexpr std::string_view op_type() const { return name.substr(dot() == 0 ? 0 : dot() + 1); }

 private:
  constexpr std::size_t dot() const { return name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.'); }
};

// Null: nothing is known of it. Domain "ai.onnx" is "".
const OperatorTraits* traits_of(std::string_view domain, std::string_view op_type);
const OperatorTraits* traits_of(std::string_view name);

inline bool has(Trait trait, std::string_view domain, std::string_view op_type) {
  const OperatorTraits* traits = traits_of(domain, op_type);
  return traits != nullptr && traits->has(trait);
}
inline bool has(Trait trait, std::string_view name) {
  const OperatorTraits* traits = traits_of(name);
  return traits != nullptr && traits->has(trait);
}
// Of a Node, an OpKey, a RuleNode.
template <typename T>
requires requires(const T& node) {
  std::string_view(node.domain);
  std::string_view(node.op_type);
}
bool has(Trait trait, const T& node) { return has(trait, node.domain, node.op_type); }

// Whether it takes several operands that broadcast to each other.
template <typename T>
bool broadcasts(const T& node) {
  return has(Trait::kBinaryElementwise, node) || has(Trait::kTernaryElementwise, node) || has(Trait::kVariadicElementwise, node);
}

std::span<const OperatorTraits> all_op_traits();
// Their names, in the order of the table.
std::span<const std::string_view> operators_with(Trait trait);

}  // namespace saturate
