#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/diff/diff.h"
#include "tools/io/terminal.h"
#include "tools/judge/choice.h"

namespace saturate {

int diff_command(const DiffArgs& args) {
  Model models[2];
  if (const auto status = load_two(args.first, args.second, models)) return *status;
  absl::StatusOr<Setup> setup = set_up(args.saturate, {}, args.check.onnxruntime);
  if (!setup.ok()) return fail(kExitFile, "", std::string(setup.status().message()), "");
  absl::StatusOr<VerifyOptions> run = verify_options(args.check, args.shapes, args.common, models[0]);
  if (!run.ok()) return fail(run.status(), "", "");
  if (!run->here) take_runtime(run->judges, run->runtime);
  run->judges.clear();  // what is shown is told by one runtime
  DiffOptions options;
  options.run = *std::move(run);
  options.setup = &*setup;
  if (const auto points = parse_cost_points(args.saturate.cost_at); points.ok()) options.points = *points;
  const absl::StatusOr<ModelDiff> diff = diff_models(models[0], models[1], options);
  if (args.common.cancel && *args.common.cancel) return fail(kExitInterrupted, "", "interrupted", "");
  if (!diff.ok()) return fail(kExitFile, args.second, std::string(diff.status().message()), "");
  if (args.common.json)
    print_json(to_json(*diff));
  else if (!args.common.quiet())
    print_text(format_diff(*diff, args.first, args.second, args.common.verbosity > 0));
  return diff->equal() ? kExitOk : kExitDifferent;
}

}  // namespace saturate
