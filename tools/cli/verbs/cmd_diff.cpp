#include <filesystem>

#include "fmt/format.h"
#include "kernels/verify/choice.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/diff/diff.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"
#include "tools/page/page.h"
#include "tools/page/svg.h"

namespace saturate {
namespace {

absl::Status write_diff_page(const DiffArgs& args, const Model (&models)[2], const Setup& setup, const ModelDiff& diff) {
  if (args.page.html.empty()) return absl::OkStatus();
  const std::string text = format_diff(diff, args.first, args.second, false);
  Page page("diff", text.substr(0, text.find("\n@@")), args.page.command);
  page.add_models(models[0], models[1], args.first, args.second, diff, setup.rules);
  return write_file(args.page.html, page.text());
}

absl::Status write_pictures(const DiffArgs& args, const Model (&models)[2], const ModelDiff& diff) {
  if (args.page.svg.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(args.page.svg, error);
  if (error) return absl::InvalidArgumentError(fmt::format("cannot make this folder: {}", error.message()));
  std::size_t number = 0;
  for (const std::string& picture : change_pictures(models[0], models[1], diff)) {
    const std::string path = fmt::format("{}/change-{}.svg", args.page.svg, ++number);
    if (const absl::Status s = check_distinct({{"--svg", path}}, {{"the first model", args.first}, {"the second model", args.second}});
        !s.ok())
      return s;
    if (const absl::Status s = write_file(path, picture); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

int diff_command(const DiffArgs& args) {
  Model models[2];
  const std::vector<NamedPath> inputs{{"the first model", args.first}, {"the second model", args.second}, {"--cost", args.saturate.cost}};
  if (const absl::Status status = check_page(args.page.html, inputs); !status.ok()) return fail(status, "", "");
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
  options.knows_nodes = !args.page.html.empty() || !args.page.svg.empty();
  if (const auto points = parse_cost_points(args.saturate.cost_at); points.ok()) options.points = *points;
  const absl::StatusOr<ModelDiff> diff = diff_models(models[0], models[1], options);
  if (args.common.cancel && *args.common.cancel) return fail(kExitInterrupted, "", "interrupted", "");
  if (!diff.ok()) return fail(kExitFile, args.second, std::string(diff.status().message()), "");
  if (const absl::Status status = write_diff_page(args, models, *setup, *diff); !status.ok()) return fail(status, args.page.html, "");
  if (const absl::Status status = write_pictures(args, models, *diff); !status.ok()) return fail(status, args.page.svg, "");
  if (args.common.json)
    print_json(to_json(*diff));
  else if (!args.common.quiet())
    print_text(format_diff(*diff, args.first, args.second, args.common.verbosity > 0));
  return diff->equal() ? kExitOk : kExitDifferent;
}

}  // namespace saturate
