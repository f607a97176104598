// Several element-by-element operators in one pass over their inputs, in pieces that stay in the first-level cache. Made by
// kernels/session/fuse.cpp; a model can't name it.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/core/registry.h"

namespace saturate {

enum class ElementOp : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kAtLeast,
  kAtMost,  // two operands
  kNeg,
  kAbs,
  kSqrt,
  kReciprocal,
  kExp,
  kErf,
  kTanh,
  kSigmoid,
  kRelu,
  kGelu,
  kGeluTanh,
  kSwish,
  kHardSwish,
};
constexpr bool has_two_operands(ElementOp op) { return op <= ElementOp::kAtMost; }
// The standard's operator that computes the same; AtLeast and AtMost are Max and Min.
std::string_view element_op_name(ElementOp op);
std::optional<ElementOp> element_op_named(std::string_view op_type);

// Operand of an instruction: one value for the whole piece, or one an element.
struct Piece {
  const float* data;
  bool uniform;
};
// out[i] = op(a, b) for n elements. `out` may be a's or b's data. Two uniform operands give out[0] only.
void run_element_op(ElementOp op, const Piece& a, const Piece& b, std::int64_t n, float* out);

void register_fused_elementwise(Registry& registry);

}  // namespace saturate
