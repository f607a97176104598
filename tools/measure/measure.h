// The choice by measuring: graphs of one e-graph, and the original, are timed in ONNX Runtime in turns.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/optimize/measured.h"
#include "extract/optimize/variants.h"
#include "extract/price/cost.h"
#include "kernels/judge/judge.h"
#include "tools/measure/answers.h"

namespace saturate {

struct MeasureOptions {
  double seconds = 0;              // after so many no run is begun
  std::shared_ptr<Judge> runtime;  // ready; its threads are those that are measured
  int threads = 1;
  std::vector<CostPoint> points;  // sizes of symbols beyond the usual ones, with their weights; none: the usual ones alone
  std::vector<Inputs> inputs;     // these instead of drawn ones
  std::uint64_t seed = 0;
  std::shared_ptr<Answers> answers;
  const std::atomic<bool>* stop = nullptr;                               // once set, what is known then decides
  std::function<void(const std::string& detail, double left)> progress;  // may be empty
};

// The fastest that is faster than the original beyond the interval; the original where none is, or the cheapest where that may not stay.
// `told` is filled. Errors are one line: kUnimplemented where the runtime does not take the original, kCancelled.
absl::StatusOr<Variant> measured_choice(Variants& variants, const MeasureOptions& options, Measured& told);

}  // namespace saturate
