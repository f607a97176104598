// How far two results of one model lie apart, and how far they may.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "onnx_bridge/model/evaluator.h"

namespace saturate {

struct Tolerances {
  std::optional<double> rtol, atol;  // given by the user: in place of the dtype's own, for every float output
  DType coarsest = DType::kFloat;    // coarsest float format that the output is computed in: float16 shows in a float output
  DType rounded = DType::kFloat;     // coarsest that a value was rounded to on the way; a few elements may be rounded otherwise there
  bool only_finite = false;          // elements that are NaN or infinite in the reference may be anything
};

// Of an output that may differ by what steps of quantized values make.
struct StepRule {
  double size = 0;   // of a step of the output; 0: it holds no quantized values, but what is computed of them
  double most = 0;   // steps that an element may differ by, whatever the noise is
  double share = 1;  // of the elements that may do so; one always may
};

// What an output of the original differs from itself by, element by element, when it is computed more exactly or beside its inputs.
class Noise {
 public:
  void learn(const Value& reference, const Value& again);
  bool any() const { return any_; }

 private:
  friend class ElementTolerance;
  friend double spread_of(const Noise&, std::size_t);
  friend double noise_around(const Noise&, std::size_t, std::int64_t, std::int64_t);
  friend bool was_seen(const Noise&, std::size_t, const Tensor&, std::int64_t);
  std::vector<std::vector<double>> numbers_;       // by tensor of the value; the largest difference
  std::vector<double> spread_;                     // by tensor: root of the mean square of all differences, of the run with the largest
  std::vector<std::vector<Tensor>> alternatives_;  // by tensor: integers and bools as they came out
  bool any_ = false;
};

// Of one output. |a - b| <= atol + rtol * scale, where the scale of an element is its own size or that of its row (the median of what is
// not 0 in it), whichever is larger: one large number beside it allows nothing. NaN equals NaN, infinities equal themselves.
struct OutputComparison {
  std::string name, dtype;
  double max_abs = 0;               // largest difference of finite elements; numbers beyond 1e30 (masks) don't count
  double nearest = 0;               // the difference of the element that comes nearest to its tolerance
  double scale = 0, tolerance = 0;  // of that element
  double largest = 0;               // finite |reference|
  std::int64_t elements = 0, mismatches = 0;
  std::int64_t nans = 0, finite = 0;  // floats of the reference
  bool of_floats = false;             // compared as such
  bool all_nan = false;               // nothing but NaN to compare
  double step = 0;                    // size of a step of quantized values, where it is told by steps
  double steps = 0;                   // the largest difference, in steps
  std::int64_t moved = 0;             // elements that lie a step off or more
  bool random = false;                // depends on an operator without a fixed seed: only type and shape are compared
  bool ok = true;
  std::string why;  // if not ok: "shape [2,3] instead of [2,4]", "3 of 12 elements differ, first at 5: 1 instead of 2"
};

// `noise`, where given, widens the tolerance: an element may differ by a few times what the original differs from itself there or at
// elements of its row that are no larger; an integer may be what the original made of it. `steps`, where given, allows for steps of
// quantized values: then all elements together may not differ by much more than the original does from itself.
OutputComparison compare_values(const std::string& name, const Value& reference, const Value& other, const Tolerances& tolerances,
                                const Noise* noise = nullptr, const StepRule* steps = nullptr);
// The same for values that chance decides: dtype and shape.
OutputComparison compare_kinds(const std::string& name, const Value& reference, const Value& other);
// Relative tolerance of a dtype: float 1e-4, double 1e-6, float16 and bfloat16 2e-2, 8-bit floats 0.125; 0 for what must be exact.
double dtype_tolerance(DType dtype);
// What any element may differ by: of float16 two steps of its smallest numbers, below 6e-5 where no relative tolerance reaches one; else 0.
double least_tolerance(DType dtype);

}  // namespace saturate
