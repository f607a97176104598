// How far two results of one model lie apart, and how far they may.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "onnx_bridge/evaluator.h"

namespace saturate {

struct Tolerances {
  std::optional<double> rtol, atol;  // given by the user: in place of the dtype's own, for every float output
  DType coarsest = DType::kFloat;  // coarsest float format that the original computes in: float16 inside a model shows in its float outputs
  double noise = 0;                // allowed beside: what the original differs from itself by, see verify.cpp
  bool inexact_integers = false;   // integers and bools are compared like floats of tolerance 1 (an approximating rule was allowed)
};

// Of one output. |a - b| <= atol + rtol * scale, scale = max(1, largest finite |reference|); NaN equals NaN, infinities equal themselves.
// Numbers beyond 1e30 (masks) are compared with their own size and don't count for the scale.
struct OutputComparison {
  std::string name, dtype;
  double max_abs = 0;  // largest difference of finite elements
  double scale = 1, tolerance = 0;
  double largest = 0;  // finite |reference|
  std::int64_t elements = 0, mismatches = 0;
  std::int64_t nans = 0;  // in the reference
  bool all_nan = false;   // nothing but NaN to compare
  bool random = false;    // depends on an operator without a fixed seed: not compared
  bool ok = true;
  std::string why;  // if not ok: "shape [2,3] instead of [2,4]", "3 of 12 elements differ, first at 5: 1 instead of 2"
};

OutputComparison compare_values(const std::string& name, const Value& reference, const Value& other, const Tolerances& tolerances);
// Relative tolerance of a dtype: float 1e-4, double 1e-6, float16 and bfloat16 2e-2, 8-bit floats 0.125; 0 for what must be exact.
double dtype_tolerance(DType dtype);

}  // namespace saturate
