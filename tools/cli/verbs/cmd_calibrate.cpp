// `saturate cost calibrate`: the prices of this machine.
#include <algorithm>
#include <charconv>
#include <thread>

#include "extract/price/measured_on.h"
#include "extract/price/op_times.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"
#include "tools/cli/progress.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"
#include "tools/measure/calibrate.h"

namespace saturate {
namespace {

using nlohmann::ordered_json;

constexpr const char* kWhere = "cost calibrate";

// Wrong words say so; `options` gets what the right ones ask for.
absl::Status read_words(const CostArgs& args, CalibrateOptions& options) {
  if (args.output.empty()) return wrong_usage("no -o FILE.jsonl; name the file that the prices go to");
  if (!args.output.ends_with(".jsonl"))
    return wrong_usage(fmt::format("-o {}: --cost knows measured times by the ending .jsonl; name such a file", args.output));
  if (!args.inputs.empty()) return wrong_usage(fmt::format("{}: it takes no files; leave it out", args.inputs[0]));
  if (!args.rows.empty()) {
    const char* const end = args.rows.data() + args.rows.size();
    const auto [stop, error] = std::from_chars(args.rows.data(), end, options.rows);
    if (error != std::errc() || stop != end || options.rows < 1 || options.rows > kMostCalibrationRows)
      return wrong_usage(fmt::format("--rows {}: give how many rows are timed, 1 to {}", args.rows, kMostCalibrationRows));
  }
  options.seconds = args.seconds.value_or(options.seconds);
  if (options.seconds > kMostCalibrationSeconds)
    return wrong_usage(fmt::format("--seconds {:g}: at most {:g}", options.seconds, kMostCalibrationSeconds));
  const std::string fitting = fitting_table(this_machine());
  if (!args.saturate.cost.empty() || !fitting.empty()) options.table = args.saturate.cost.empty() ? fitting : args.saturate.cost;
  const auto tables = measured_tables();
  if (std::find(tables.begin(), tables.end(), options.table) == tables.end())
    return wrong_usage(
        fmt::format("--cost {}: no built-in table of measured times; {}", options.table, what_instead(options.table, tables)));
  options.threads = args.common.threads > 0 ? args.common.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.stop = args.common.cancel;
  return check_writable(args.output, Into::kAnything);
}

void tell(const CostArgs& args, const CalibrateOptions& options, const Calibration& made) {
  if (args.common.json) {
    print_json(ordered_json{{"output", args.output},
                            {"table", options.table},
                            {"rows", made.rows},
                            {"failed", made.failed},
                            {"threads", options.threads},
                            {"runtime", options.runtime->version()},
                            {"seconds", made.seconds},
                            {"ratio", made.ratio}});
    return;
  }
  if (args.common.quiet()) return;
  std::string text = fmt::format(
      "{} rows of {} timed in {}, {} thread{}: they take {:.2f} of what it says, in the median\nthe prices of "
      "this machine are in {}; use them by --cost {}\n",
      made.rows, options.table, options.runtime->name(), options.threads, options.threads == 1 ? "" : "s", made.ratio, args.output,
      args.output);
  if (!made.failed.empty()) text += fmt::format("{} more did not run; the first: {}\n", made.failed.size(), made.failed[0]);
  print_text(text);
}

}  // namespace

int calibrate_command(const CostArgs& args) {
  CalibrateOptions options;
  if (const absl::Status s = read_words(args, options); !s.ok()) return fail(s, kWhere, "");
  auto runtime = the_onnxruntime(judge_words(args.check), options.threads, args.common.cancel);
  if (!runtime.ok()) return fail(runtime.status(), kWhere, "");
  options.runtime = *std::move(runtime);
  Progress progress(args.common.quiet() || args.common.json);
  options.progress = [&](std::size_t done, std::size_t all) {
    progress.stage("measure", fmt::format("{} of {} runs of rows", done, all), {done, all, options.seconds});
  };
  const auto made = calibrate(options);
  progress.clear();
  if (args.common.cancel && *args.common.cancel) return fail(kExitInterrupted, args.output, "interrupted", "nothing was written");
  if (!made.ok()) return fail(made.status(), kWhere, "");
  if (const absl::Status s = write_file(args.output, made->text); !s.ok()) return fail(s, args.output, "");
  tell(args, options, *made);
  return kExitOk;
}

}  // namespace saturate
