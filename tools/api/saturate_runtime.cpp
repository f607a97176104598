// Runtimes that the caller brings.
#include <algorithm>
#include <memory>
#include <utility>

#include "egraph/stop.h"
#include "tools/api/saturate_impl.h"

namespace saturate::api {
namespace {

absl::Status status_of(const Error& error) {
  switch (error.code) {
    case Code::kUnsupported:
      return absl::UnimplementedError(error.message);
    case Code::kInterrupted:
      return absl::CancelledError(error.message);
    default:
      return absl::InvalidArgumentError(error.message);
  }
}

absl::StatusOr<saturate::Ran> run_there(const Run& run, const Inputs& inputs, const RunLimits& limits) {
  Values values;
  for (const auto& [name, value] : inputs) values[name] = to_public(value, false);
  std::optional<double> seconds;
  if (limits.deadline != kNoDeadline) seconds = std::max(0.0, limits.deadline - steady_seconds());
  const Expected<Ran> made = run(values, seconds);
  if (!made && steady_seconds() >= limits.deadline) return absl::DeadlineExceededError(made.error().message);
  if (!made) return status_of(made.error());
  saturate::Ran out;
  out.seconds = made->seconds;
  for (const Value& value : made->outputs) {
    Expected<saturate::Value> inner = to_internal(value, "output");
    if (!inner) return absl::UnimplementedError(inner.error().message);
    out.outputs.push_back(*std::move(inner));
  }
  return out;
}

}  // namespace

OtherRuntime to_internal(const Runtime& runtime) {
  if (!runtime.open) return {};
  return {runtime.name, [open = runtime.open](const saturate::Model& model) -> absl::StatusOr<RunOnce> {
            const Expected<Run> run = open(Model(std::make_shared<const Model::Impl>(Model::Impl{model})));
            if (!run) return status_of(run.error());
            return RunOnce([run = *run, outputs = model.graph.outputs.size()](const Inputs& inputs,
                                                                              const RunLimits& limits) -> absl::StatusOr<saturate::Ran> {
              absl::StatusOr<saturate::Ran> ran = run_there(run, inputs, limits);
              if (ran.ok() && ran->outputs.size() != outputs) return absl::InternalError("the runtime gave another number of outputs");
              return ran;
            });
          }};
}

}  // namespace saturate::api
