// The loops, each compiled for the baseline, AVX2 and AVX-512 and chosen by cpuid when the program is loaded.
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#include <cmath>

#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/fused_elementwise.h"

namespace saturate {
namespace {

template <ElementOp kOp>
[[gnu::always_inline]] inline float apply(float a, float b) {
  switch (kOp) {
    case ElementOp::kAdd:
      return a + b;
    case ElementOp::kSub:
      return a - b;
    case ElementOp::kMul:
      return a * b;
    case ElementOp::kDiv:
      return a / b;
    case ElementOp::kAtLeast:
      return a < b ? b : a;  // NaN of a stays
    case ElementOp::kAtMost:
      return a > b ? b : a;
    case ElementOp::kNeg:
      return -a;
    case ElementOp::kAbs:
      return a < 0.0f ? -a : a + 0.0f;
    case ElementOp::kSqrt:
      return __builtin_sqrtf(a);
    case ElementOp::kReciprocal:
      return 1.0f / a;
    case ElementOp::kRelu:
      return a < 0.0f ? 0.0f : a;
    default:
      return a;
  }
}

// One body for all operators, inlined into a clone for each kind of processor.
template <ElementOp kOp>
[[gnu::always_inline]] inline void loop(const Piece& a, const Piece& b, std::int64_t n, float* out) {
  const float* x = a.data;
  const float* y = b.data;
  if (a.uniform) {
    const float c = *x;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = apply<kOp>(c, y[i]);
  } else if (b.uniform) {
    const float c = *y;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = apply<kOp>(x[i], c);
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = apply<kOp>(x[i], y[i]);
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void run_simple(ElementOp op, const Piece& a, const Piece& b,
                                                                                      std::int64_t n, float* out) {
  switch (op) {
    case ElementOp::kAdd:
      return loop<ElementOp::kAdd>(a, b, n, out);
    case ElementOp::kSub:
      return loop<ElementOp::kSub>(a, b, n, out);
    case ElementOp::kMul:
      return loop<ElementOp::kMul>(a, b, n, out);
    case ElementOp::kDiv:
      return loop<ElementOp::kDiv>(a, b, n, out);
    case ElementOp::kAtLeast:
      return loop<ElementOp::kAtLeast>(a, b, n, out);
    case ElementOp::kAtMost:
      return loop<ElementOp::kAtMost>(a, b, n, out);
    case ElementOp::kNeg:
      return loop<ElementOp::kNeg>(a, b, n, out);
    case ElementOp::kAbs:
      return loop<ElementOp::kAbs>(a, b, n, out);
    case ElementOp::kSqrt:
      return loop<ElementOp::kSqrt>(a, b, n, out);
    case ElementOp::kReciprocal:
      return loop<ElementOp::kReciprocal>(a, b, n, out);
    case ElementOp::kRelu:
      return loop<ElementOp::kRelu>(a, b, n, out);
    default:
      return;
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void hard_swish(const float* x, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = x[i] * (1.0f / 6.0f) + 0.5f, floored = v < 0.0f ? 0.0f : v;
    y[i] = x[i] * (floored > 1.0f ? 1.0f : floored);
  }
}

}  // namespace

void run_element_op(ElementOp op, const Piece& a, const Piece& b, std::int64_t n, float* out) {
  const bool two = has_two_operands(op);
  if (a.uniform && (!two || b.uniform)) n = 1;
  switch (op) {
    case ElementOp::kExp:
      return exp_floats(a.data, out, n);
    case ElementOp::kErf:
      return erf_floats(a.data, out, n);
    case ElementOp::kTanh:
      return tanh_floats(a.data, out, n);
    case ElementOp::kSigmoid:
      return sigmoid_floats(a.data, out, n);
    case ElementOp::kGelu:
      return gelu_floats(a.data, out, n);
    case ElementOp::kGeluTanh:
      return gelu_tanh_floats(a.data, out, n);
    case ElementOp::kSwish:
      return swish_floats(a.data, out, n, 1.0f);
    case ElementOp::kHardSwish:
      return hard_swish(a.data, out, n);
    default:
      // One operand: read as both, so that the loop over elements is taken.
      return run_simple(op, two && n > 1 ? a : Piece{a.data, false}, two ? b : Piece{a.data, false}, n, out);
  }
}

}  // namespace saturate
