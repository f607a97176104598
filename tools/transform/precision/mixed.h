// Which operators stay in float so that half precision in the others makes no larger error than allowed.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"
#include "tools/transform/precision/precision.h"
#include "tools/transform/precision/ranges.h"

namespace saturate {

// How far results lie from those of the float model: the largest difference of an output's numbers, relative to the largest number that the
// float model has in this output; infinite where a number is not finite, or the shape is another. NaN and infinities of the float model
// are not looked at.
double error_of(const Value& wanted, const Value& got);

struct MixedRequest {
  const Model& original;                          // whose results are wanted
  const Model& model;                             // to be converted: the original, or what computes nearly the same
  const std::map<std::string, ValueType>& types;  // of the model
  const Ranges& ranges;                           // of the model: the inputs on which the error is measured, and sizes
  double max_error = 0;
  const std::atomic<bool>* cancel = nullptr;
};

struct Mixed {
  std::set<std::string> floats;  // PrecisionOptions::floats
  double error = 0;              // measured with them
  double without = 0;            // measured with none
  double share = 0;              // of the bytes that operators read and write, those of operators that stay
  std::size_t measured = 0;      // how many choices were run
};

// Of operators that would convert, few that stay, priced by the bytes of floats, weights among them, that they read and write. First each
// group of operators is measured with all others in float, and groups that err much are split; then those that err most for their price
// stay, as few as are enough; then each is left out that is not needed after all. What is returned was run.
// Inputs that become halves are rounded for the original, too.
// kFailedPrecondition, with the error that was reached, where even no operator in half precision is enough, or a run failed.
absl::StatusOr<Mixed> floats_for_error(const MixedRequest& request, PrecisionOptions options, HalfWeights& weights);

}  // namespace saturate
