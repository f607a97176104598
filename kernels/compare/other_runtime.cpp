#include "kernels/compare/other_runtime.h"

#include <memory>
#include <utility>

#include "egraph/stop.h"

namespace saturate {

OpenModel open_here(const SessionOptions& options) {
  return [options](const Model& model) -> absl::StatusOr<RunOnce> {
    absl::StatusOr<Session> made = Session::create(model, options);
    if (!made.ok()) return made.status();
    const auto session = std::make_shared<const Session>(*std::move(made));
    return RunOnce([session](const Inputs& inputs, const RunLimits& limits) -> absl::StatusOr<Ran> {
      const double start = steady_seconds();
      absl::StatusOr<std::vector<Value>> outputs = session->run(inputs, nullptr, limits);
      if (!outputs.ok()) return outputs.status();
      return Ran{*std::move(outputs), steady_seconds() - start};
    });
  };
}

}  // namespace saturate
