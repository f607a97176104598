// Fills: the numbers by which masks hide scores.
#pragma once

#include <cstdint>
#include <optional>

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// What masks hide by: next to it no score counts, and two of them add up to a number.
double lowest_fill(DType dtype);

// The lowest number that a runtime's attention operator does not take for "no result": ONNX Runtime's gives zeros for a row whose mask is
// the lowest float throughout.
double lowest_result(DType dtype);

// What definitions.rules calls near_zero and may_hide.
inline constexpr double kNearZero = 1000, kMayHide = -1000;

// What a value holds of constants, handed on by sums, choices, views and products with a number. What is computed otherwise from finite
// values (products of matrices, norms, truth values) counts as 1.
struct Fills {
  double largest = 0;     // magnitude of the largest part
  double sum = 0;         // what all parts add up to at most, in magnitude
  bool infinite = false;  // a part is infinite, or a float that the model is given
};

Fills fills_of_tensor(const Tensor& t);
// nullopt: it may hold anything (an input as it is, what a Loop gives).
std::optional<Fills> fills_of(const OnnxEGraph& g, Id id);

// Whether no finite number of it is below lowest_result(), as far as masks go.
bool is_above_lowest(const OnnxEGraph& g, Id id);
// The same of what is known of its parts.
bool is_above_lowest(const std::optional<Fills>& fills, DType dtype);

// Whether a mask of floats hides by finite numbers alone, also where several of them add up: no row of scores becomes NaN.
bool hides_by_numbers(const OnnxEGraph& g, Id id);
// The same of what is known of its parts.
bool hides_by_numbers(const std::optional<Fills>& fills, DType dtype);

// Whether the model asks somewhere behind this value whether it is NaN (a guard against rows that a mask hides as a whole).
bool told_as_nan(const OnnxEGraph& g, Id id);

// Whether the model itself holds ONNX's Attention with a mask: it gives zeros for a row that is hidden by -inf as a whole, where Softmax
// gives NaN, and what stands for such an operator must do so, too.
bool holds_attention(const OnnxEGraph& g);

// Whether the model itself holds no attention operator: one in its graph stands for a Softmax, and rules that made it assume that no row is
// hidden as a whole. What the standard says of such rows holds for it no more.
bool attention_is_made(const OnnxEGraph& g);

// The value with fills that are not below lowest_fill(): a mask that hides the same, and the same of a row that it hides as a whole. The
// value itself where it is one already. A row that is hidden by several numbers shows what the highest hides: where some are as deep as
// lowest_fill(), they keep their order, for only the lowest float is raised, to lowest_result(). Not found in half precision then. Nothing
// is known of some parts, like a mask that the model is given: these are refused (nullopt), bounded, which takes -inf for a number, or
// halved below what scores come near.
enum class UnknownFills : std::uint8_t { kRefused, kBounded, kHalved };
std::optional<Id> with_raised_fills(OnnxEGraph& g, Id id, UnknownFills unknown);

// Whether a Softmax or an attention operator reads the value as scores, or as a mask that it adds to them: through sums, choices, views
// and products with a constant.
bool reaches_scores(const OnnxEGraph& g, Id id);

// Whether a whole number is made of dims and positions alone, so that it is below 2^24.
inline constexpr int kMostCounted = 1 << 24;
bool is_count(const OnnxEGraph& g, Id id);

}  // namespace saturate
