// How far two results of one model lie apart, and how far they may.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "onnx_bridge/model/evaluator.h"

namespace saturate {

struct Tolerances {
  std::optional<double> rtol, atol;  // given by the user: in place of the dtype's own, for every float output
  DType coarsest = DType::kFloat;    // coarsest float format that the original computes in: float16 inside it shows in its float outputs
  bool inexact_integers = false;     // integers and bools are compared like floats of tolerance 1 (an approximating rule was allowed)
  bool only_finite = false;          // elements that are NaN or infinite in the reference may be anything
};

// What an output of the original differs from itself by, element by element, when it is computed more exactly or beside its inputs.
class Noise {
 public:
  void learn(const Value& reference, const Value& again);
  bool any() const { return any_; }

 private:
  friend class ElementTolerance;
  friend bool was_seen(const Noise&, std::size_t, const Tensor&, std::int64_t);
  std::vector<std::vector<double>> floats_;        // by tensor of the value; the largest difference
  std::vector<std::vector<Tensor>> alternatives_;  // by tensor: integers and bools as they came out
  bool any_ = false;
};

// Of one output. |a - b| <= atol + rtol * scale, where the scale of an element is its own size or that of its row (the median of what is
// not 0 in it), whichever is larger: one large number beside it allows nothing. NaN equals NaN, infinities equal themselves.
struct OutputComparison {
  std::string name, dtype;
  double max_abs = 0;               // largest difference of finite elements; numbers beyond 1e30 (masks) don't count
  double scale = 0, tolerance = 0;  // of the element that comes nearest to its tolerance
  double largest = 0;               // finite |reference|
  std::int64_t elements = 0, mismatches = 0;
  std::int64_t nans = 0;  // in the reference
  bool all_nan = false;   // nothing but NaN to compare
  bool random = false;    // depends on an operator without a fixed seed: only type and shape are compared
  bool ok = true;
  std::string why;  // if not ok: "shape [2,3] instead of [2,4]", "3 of 12 elements differ, first at 5: 1 instead of 2"
};

// `noise`, where given, widens the tolerance: an element may differ by a few times what the original differs from itself there or at
// elements of its row that are no larger; an integer may be what the original made of it.
OutputComparison compare_values(const std::string& name, const Value& reference, const Value& other, const Tolerances& tolerances,
                                const Noise* noise = nullptr);
// The same for values that chance decides: dtype and shape.
OutputComparison compare_kinds(const std::string& name, const Value& reference, const Value& other);
// Relative tolerance of a dtype: float 1e-4, double 1e-6, float16 and bfloat16 2e-2, 8-bit floats 0.125; 0 for what must be exact.
double dtype_tolerance(DType dtype);

}  // namespace saturate
