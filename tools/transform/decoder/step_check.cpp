#include "tools/transform/decoder/step_check.h"

#include <algorithm>

#include "fmt/format.h"
#include "kernels/inputs/widened.h"
#include "onnx_bridge/graph/floats.h"

namespace saturate {
namespace {

constexpr double kRtolOfSums = 1e-3;  // which are made over positions in other orders

}  // namespace

double rtol_of_steps(const Model& model) {
  const auto& weights = model.graph.initializers;
  const bool half = std::any_of(weights.begin(), weights.end(), [](const Initializer& i) { return is_16_bit_float(i.tensor.dtype()); });
  return half ? rtol_of_layers(DType::kFloat16) : kRtolOfSums;
}

absl::Status same_steps(Work& work, const Model& first, const Model& second, SteppingOptions options) {
  options.seed = work.check.seed;
  options.threads = work.check.threads;
  options.seconds = work.check.seconds;
  options.memory = work.check.memory;
  options.cancel = work.check.cancel;
  if (work.check.tolerances.rtol) options.rtol = work.check.tolerances.rtol;
  if (work.check.tolerances.atol) options.atol = work.check.tolerances.atol;
  const VerifyReport report = verify_by_stepping(first, second, options);
  switch (report.status) {
    case VerifyStatus::kDifferent:
      return absl::DataLossError(fmt::format("step by step the result gives something else: {}", report.message));
    case VerifyStatus::kCancelled:
      return absl::CancelledError(report.message);
    case VerifyStatus::kUnsupported:
    case VerifyStatus::kNotRun:
      return absl::UnimplementedError(fmt::format("can't verify: {}", report.message));
    case VerifyStatus::kEqual:
      break;
  }
  work.notes.push_back(fmt::format("step by step as before in {} cases; largest difference {:.2e}", report.cases.size(), report.max_abs()));
  for (const std::string& note : report.notes) work.notes.push_back(note);
  return absl::OkStatus();
}

}  // namespace saturate
