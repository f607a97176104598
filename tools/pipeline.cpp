#include "tools/pipeline.h"

#include <algorithm>
#include <chrono>

#include "fmt/format.h"
#include "tools/debug_rules.h"
#include "tools/target_check.h"

namespace saturate {
namespace {

ExitCode exit_code(VerifyStatus status, bool inputs_given) {
  switch (status) {
    case VerifyStatus::kEqual:
      return kExitOk;
    case VerifyStatus::kDifferent:
      return kExitDifferent;
    case VerifyStatus::kUnsupported:
      return kExitUnsupported;
    case VerifyStatus::kNotRun:
      return inputs_given ? kExitFile : kExitUnsupported;
    case VerifyStatus::kCancelled:
      return kExitInterrupted;
  }
  return kExitFile;
}

std::optional<Failure> judge(const VerifyReport& report, bool inputs_given) {
  const ExitCode code = exit_code(report.status, inputs_given);
  if (code == kExitOk) return std::nullopt;
  if (code == kExitInterrupted) return Failure{code, "interrupted", "nothing was written"};
  if (code == kExitDifferent)
    return Failure{code, fmt::format("verification failed: {}", report.message), "nothing was written; --debug-rules finds the rule"};
  return Failure{code, fmt::format("can't verify: {}", report.message),
                 "nothing was written; --no-verify goes on without, --inputs gives inputs"};
}

// What stays in the result although the target can't express it.
void warn_of_inexpressible(const Model& model, const Target& target, OptimizeReport& report) {
  if (!target.is_restricted()) return;
  const auto found = check_target(model, target);
  if (!found.ok() || found->empty()) return;
  report.warnings.push_back(fmt::format("{} node{} can't be expressed on {}, the first is {} '{}': {}; `saturate targets check` lists them",
                                        found->size(), found->size() == 1 ? "" : "s", target.name, found->front().op, found->front().node,
                                        found->front().reason));
}

bool assumes(const OptimizeReport& report, std::string_view assumption) {
  return std::any_of(report.assumed.begin(), report.assumed.end(), [&](const auto& a) { return a.assumption == assumption; });
}

bool set(const std::atomic<bool>* flag) { return flag && *flag; }

}  // namespace

PipelineResult run_pipeline(const Model& model, const Setup& setup, const PipelineOptions& options) {
  PipelineResult out;
  absl::StatusOr<OptimizeResult> result = optimize(model, setup.rules, setup.target, *setup.cost, options.optimize);
  if (!result.ok()) {
    out.failure = Failure{kExitFile, std::string(result.status().message()), kModelAdvice};
    return out;
  }
  out.model = std::move(result->model);
  out.egraph = std::move(result->egraph);
  out.report.optimize = std::move(result->report);
  out.report.optimize.risks = setup.risks;
  warn_of_inexpressible(out.model, setup.target, out.report.optimize);
  for (const char* stage : {"lower", "saturate", "extract", "raise"})
    if (const auto it = out.report.optimize.seconds.find(stage); it != out.report.optimize.seconds.end())
      out.report.stage_seconds.emplace_back(stage, it->second);
  if (set(options.abort)) {
    out.failure = Failure{kExitInterrupted, "interrupted", "nothing was written"};
    return out;
  }
  if (!options.verify) return out;
  if (options.optimize.progress) options.optimize.progress("verify", nullptr);
  const auto start = std::chrono::steady_clock::now();
  VerifyOptions check = options.check;
  check.full_rows = assumes(out.report.optimize, "no_empty_row") || assumes(out.report.optimize, "causal_rows");
  check.float_masks = assumes(out.report.optimize, "mask_of_zeros_and_ones");
  out.report.verify = verify(model, out.model, check);
  if (out.report.verify->refuses_all)
    out.report.optimize.warnings.push_back(fmt::format("not verified, for the model itself cannot run: {}", out.report.verify->message));
  else
    out.failure = judge(*out.report.verify, options.check.inputs.has_value());
  if (out.failure && out.failure->code == kExitDifferent && options.debug_rules)
    out.failure->advice = find_culprit(model, setup, options).message;
  out.report.stage_seconds.emplace_back("verify", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return out;
}

}  // namespace saturate
