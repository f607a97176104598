#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "kernels/compare/known_operators.h"
#include "kernels/verify/verify.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/file/data/external_data.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/save_files.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"
#include "tools/cli/optimize_many.h"
#include "tools/cli/progress.h"
#include "tools/cli/repro.h"
#include "tools/cli/run_facts.h"
#include "tools/diff/diff.h"
#include "tools/explain/kinds.h"
#include "tools/explain/not_fused.h"
#include "tools/io/files.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/page/page.h"
#include "tools/pipeline/pipeline.h"
#include "tools/pipeline/screen.h"
#include "tools/pipeline/stage_dumps.h"
#include "tools/transform/transform.h"

namespace saturate {
namespace {

class Clock {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// How a run ended: the exit status and, of a failure, the line that was printed.
struct RunEnd {
  int code = kExitOk;
  std::string message;
  bool ok() const { return code == kExitOk; }
};

RunEnd failed(ExitCode code, const std::string& place, const std::string& message, const std::string& advice) {
  return {fail(code, place, message, advice), error_line(place, message, advice)};
}

RunEnd failed(const absl::Status& status, const std::string& place, const std::string& advice = "") {
  return {fail(status, place, advice), error_line(place, std::string(status.message()), advice)};
}

bool exhausted(StopReason stop) {
  return stop != StopReason::kSaturated && stop != StopReason::kCancelled && stop != StopReason::kContradiction;
}

// The data is said to be elsewhere than users expect it.
void tell_data_file(const OptimizeArgs& args, const std::string& data_file, OptimizeReport& report) {
  const std::string usual = data_name(args.output, 1, format_of(data_file));
  if (data_file.empty() || same_place(data_file, usual)) return;
  report.warnings.push_back(fmt::format("the data is in {}, for {} is there and was not written for {}", data_file, usual, args.output));
}

// Whether the file that was read is what is to be written: it is returned byte by byte then.
bool is_file_itself(const OptimizeArgs& args, const PipelineResult& result) {
  const bool asked = !args.before.empty() || !args.after.empty() || !args.shapes.dims.empty() || !args.shapes.input_shapes.empty() ||
                     args.io_rank || args.external_data || args.data_format || args.external_threshold;
  bool has_data = false;
  for_each_file_range(result.model, [&](const FileRange& range) { has_data = has_data || range.path != args.input; });
  const auto kind = [](const std::string& path) { return std::filesystem::path(path).extension(); };
  return result.unchanged && !asked && !has_data && args.input != kPipe && args.output != kPipe && kind(args.input) == kind(args.output);
}

RunEnd write_as_it_came(const OptimizeArgs& args) {
  if (same_place(args.input, args.output)) return {};
  const absl::StatusOr<std::string> bytes = read_data_file(args.input, kMostNamedData);
  if (!bytes.ok()) return failed(bytes.status(), args.input);
  SaveOptions options;
  options.cancel = args.common.cancel;
  const absl::Status status = save_bytes(*bytes, args.output, options);
  if (absl::IsCancelled(status)) return failed(kExitInterrupted, args.output, "interrupted", "nothing was written");
  return status.ok() ? RunEnd{} : failed(kExitFile, args.output, std::string(status.message()), write_advice(status));
}

RunEnd write_result(const OptimizeArgs& args, const Model& model, OptimizeReport& report, const ResultToStdout* pipe) {
  if (pipe) {
    const absl::Status status = pipe->write(model);
    return status.ok() ? RunEnd{} : failed(status, std::string(kPipe), "write it to a file");
  }
  SaveOptions options;
  std::string data_file;
  options.cancel = args.common.cancel;
  options.data_file = &data_file;
  options.force_external = args.external_data;
  options.data_format = args.data_format;
  if (args.external_threshold) options.external_threshold = *args.external_threshold;
  const absl::Status status = save_model(model, args.output, options);
  if (absl::IsCancelled(status)) return failed(kExitInterrupted, args.output, "interrupted", "nothing was written");
  if (!status.ok()) return failed(kExitFile, args.output, std::string(status.message()), write_advice(status));
  tell_data_file(args, data_file, report);
  return {};
}

RunEnd write_dumps(const StageDumps& dumps) {
  const absl::Status status = dumps.write();
  return status.ok() ? RunEnd{} : failed(status, "");
}

// What stands around optimizing: the passes and what they did, and what differs in the result (--diff).
struct Around {
  std::vector<PassCall> before, after;
  std::optional<TransformReport> told_before, told_after;
  std::optional<ModelDiff> diff;    // of --diff and --html
  std::vector<NotFused> not_fused;  // of --report, --html and --json
  std::vector<Unfused> unfused;     // of the screen
};

nlohmann::json to_json(const OptimizeArgs& args, const Target& target, const WholeReport& report, const Around& around) {
  nlohmann::json out = to_json(report);
  out.update(run_facts(args, target));
  if (around.told_before) out["passes_before"] = to_json(*around.told_before);
  if (around.told_after) out["passes_after"] = to_json(*around.told_after);
  if (around.diff && args.diff) out["diff"] = to_json(*around.diff);
  out["not_fused"] = to_json(around.not_fused);
  return out;
}

// Safe to print.
std::string format_report(const WholeReport& report, const Around& around, const OptimizeArgs& args) {
  const CommonArgs& common = args.common;
  const Look look = common.look();
  std::string out = common.verbosity > 0 ? format_report(report, common.verbosity, look) : screen(report, look);
  if (around.told_before) out = "before optimizing\n" + printable(format_report(*around.told_before)) + "\n" + out;
  if (around.told_after) out += "\nafter optimizing\n" + printable(format_report(*around.told_after));
  if (around.diff && args.diff) out += "\n" + printable(format_diff(*around.diff, report.input, report.output, common.verbosity > 0));
  return out;
}

RunEnd write_report(const OptimizeArgs& args, const Target& target, const WholeReport& report, const Around& around) {
  if (args.report.empty()) return {};
  const absl::Status status = write_file(args.report, json_text(to_json(args, target, report, around)) + "\n");
  return status.ok() ? RunEnd{} : failed(status, args.report);
}

// Of both models, which may be another than the file's: passes came before. Without times of this run, so that equal runs give equal pages.
RunEnd write_result_page(const OptimizeArgs& args, const Model& before, const Model& after, const Setup& setup, WholeReport report,
                         const Around& around) {
  if (args.page.html.empty()) return {};
  report.stage_seconds.clear();
  Page page("optimize", screen(report, Look{}), args.page.command);
  page.add_models(before, after, report.input, report.output, *around.diff, setup.rules);
  page.add_not_fused(around.not_fused);
  if (report.verify) page.add_verification(*report.verify);
  if (report.optimize.measured) page.add_measured(*report.optimize.measured);
  const absl::Status status = write_file(args.page.html, page.text());
  return status.ok() ? RunEnd{} : failed(status, args.page.html);
}

absl::StatusOr<StageDumps> dumps_of(const OptimizeArgs& args) {
  std::vector<DumpRequest> requests;
  for (const std::string& text : args.dumps) {
    absl::StatusOr<DumpRequest> request = parse_dump(text);
    if (!request.ok()) return request.status();
    if (request->file.empty() && args.common.json)
      return absl::InvalidArgumentError(fmt::format("--dump {}: standard output has the JSON of --json; name a file", text));
    requests.push_back(*std::move(request));
  }
  return StageDumps(std::move(requests));
}

// Nothing that is there is lost by mistake: no output is an input or another output, and a second model on the command line
// (`saturate *.onnx`) is no output.
absl::Status check_outputs(const OptimizeArgs& args, const StageDumps& dumps) {
  const bool pipe = args.output == kPipe;
  if (pipe && !args.save_repro.empty()) return wrong_usage("--save-repro: name the output; a pipe is not repeated");
  if (const absl::Status s = pipe ? absl::OkStatus() : check_writable(args.output); !s.ok()) return s;
  if (const absl::Status s = args.save_repro.empty() ? absl::OkStatus() : check_repro_folder(args.save_repro); !s.ok()) return s;
  std::vector<NamedPath> besides{
      {"--report", args.report}, {"--html", args.page.html}, {"--dump-egraph", args.dump_egraph}, {"--measured", args.measured}};
  for (const DumpRequest& dump : dumps.requests()) besides.push_back({"--dump " + dump.stage, dump.file});
  for (const NamedPath& beside : besides)
    if (const absl::Status s = beside.path.empty() ? absl::OkStatus() : check_writable(beside.path, Into::kAnything); !s.ok()) return s;
  std::vector<NamedPath> inputs{{"the model", args.input}, {"--target", args.saturate.target}, {"--cost", args.saturate.cost}};
  for (const std::string& given : args.check.inputs) inputs.push_back({"--inputs", given});
  for (const std::string& rules : args.saturate.rules) inputs.push_back({"--rules", rules});
  for (const auto* files : {&args.before, &args.after})
    for (const std::string& passes : *files) inputs.push_back({"passes", passes});
  const NamedPath output{"the result", args.output};
  inputs.push_back(output);
  if (const absl::Status s = check_distinct(besides, inputs); !s.ok()) return s;
  inputs.pop_back();
  if (pipe || same_place(args.output, args.input)) return absl::OkStatus();  // in place
  if (const absl::Status s = check_distinct({output}, inputs); !s.ok()) return s;
  std::error_code ignored;
  if (args.output_by_place && !args.force && std::filesystem::exists(args.output, ignored) &&
      std::filesystem::file_size(args.output, ignored) > 0 && !is_signed(args.output))
    return absl::InvalidArgumentError(
        fmt::format("{}: is there, and saturate did not write it; -o {} replaces it, or --force", args.output, args.output));
  return absl::OkStatus();
}

// Likewise the files in which the model's weights lie.
absl::Status check_data_files(const OptimizeArgs& args, const Model& model) {
  std::set<std::string> files;
  for_each_file_range(model, [&](const FileRange& range) { files.insert(range.path); });
  std::vector<NamedPath> inputs;
  for (const std::string& file : files) inputs.push_back({"data of the model", file});
  return check_distinct(
      {{"the result", args.output}, {"--report", args.report}, {"--html", args.page.html}, {"--dump-egraph", args.dump_egraph}}, inputs);
}

absl::StatusOr<MeasureOptions> measure_options(const OptimizeArgs& args, const Model& model, Progress& progress) {
  MeasureOptions options;
  options.seconds = *args.measure;
  options.threads = args.common.threads;
  options.seed = args.check.seed;
  auto answers = Answers::open(args.measured);
  if (!answers.ok()) return answers.status();
  options.answers = *std::move(answers);
  absl::StatusOr<std::vector<CostPoint>> points = parse_cost_points(args.saturate.cost_at);
  if (!points.ok()) return points.status();
  options.points = *std::move(points);
  const std::uint64_t most = args.check.max_memory ? std::uint64_t{*args.check.max_memory} << 20 : VerifyOptions().memory;
  for (const std::string& path : args.check.inputs) {
    absl::StatusOr<Inputs> inputs = load_inputs(path, model, most);
    if (!inputs.ok()) return inputs.status();
    options.inputs.push_back(*std::move(inputs));
  }
  auto runtime = the_onnxruntime(judge_words(args.check), args.common.threads, args.common.cancel);
  if (!runtime.ok()) return runtime.status();
  options.runtime = *std::move(runtime);
  options.progress = [&progress](const std::string& detail, double left) { progress.stage("measure", detail, {0, 0, left}); };
  return options;
}

absl::StatusOr<PipelineOptions> pipeline_options(const OptimizeArgs& args, const Model& model, Progress& progress, StageDumps& dumps) {
  PipelineOptions options;
  options.optimize = optimize_options(args.saturate, args.common);
  options.io_rank = args.io_rank;
  options.optimize.progress = [&progress, most = args.saturate.limits.seconds.value_or(kSecondsOfRewriting)](const std::string& stage,
                                                                                                             const IterationStats* i) {
    progress.stage(stage == "saturate" ? "search" : stage,
                   i ? fmt::format("step {}, {} spellings", i->iteration, human_count(i->nodes)) : "",
                   {0, 0, stage == "saturate" || stage == "verify" ? most : Share{}.most});
  };
  options.optimize.annotate = args.annotate;
  options.details = args.common.json || !args.report.empty() || !args.page.html.empty();
  options.optimize.provenance = args.diff || options.details;
  options.optimize.newer_release = options.details || !args.common.quiet();
  options.optimize.reasons = args.annotate || args.diff || !args.page.html.empty();
  options.optimize.dump_egraph = !args.dump_egraph.empty();
  options.optimize.stop_after = args.stop_after == "emit" ? "" : args.stop_after;
  if (!dumps.empty()) options.optimize.after_stage = [&dumps](const StageView& made) { dumps.add(made); };
  if (args.check.max_memory) options.optimize.max_memory = *args.check.max_memory << 20;
  options.verify = args.verify && args.stop_after.empty();
  options.strict_verify = args.strict_verify;
  options.debug_rules = args.debug_rules;
  options.abort = args.common.cancel;
  if (args.measure && args.stop_after.empty()) {
    absl::StatusOr<MeasureOptions> measure = measure_options(args, model, progress);
    if (!measure.ok()) return measure.status();
    options.measure = *std::move(measure);
  }
  if (!options.verify) return options;
  VerifyArgs check_args = args.check;
  check_args.seconds = args.saturate.limits.seconds;
  absl::StatusOr<VerifyOptions> check = verify_options(check_args, {}, args.common, model);
  if (!check.ok()) return check.status();
  options.check = *std::move(check);
  options.check.progress = [&progress, most = options.check.seconds](std::size_t done) {
    constexpr std::size_t kUsual = 6;  // inputs
    progress.stage("verify", fmt::format("{} of about {} inputs", done, std::max(done, kUsual)), {done, kUsual, most});
  };
  return options;
}

void print_report(const OptimizeArgs& args, const Target& target, const WholeReport& report, const Around& around) {
  if (args.common.json)
    print_json(to_json(args, target, report, around));
  else if (args.in_a_line)
    print_safe_text(screen_line(report) + "\n");
  else if (!args.common.quiet())
    print_safe_text(format_report(report, around, args));
  else
    for (const std::string& warning : report.optimize.warnings) warn(warning);
}

// The files that come after the result, and what is said of the run.
RunEnd finish(const OptimizeArgs& args, const Target& target, const WholeReport& report, const Around& around, const std::string& egraph) {
  if (RunEnd end = write_report(args, target, report, around); !end.ok()) return end;
  if (!args.dump_egraph.empty())
    if (const absl::Status status = write_file(args.dump_egraph, egraph); !status.ok()) return failed(status, args.dump_egraph);
  print_report(args, target, report, around);
  if (args.strict_budget && exhausted(report.optimize.run.stop))
    return failed(kExitBudget, args.input, fmt::format("budget exhausted ({})", to_string(report.optimize.run.stop)),
                  "the best result was written; raise --iterations, --node-limit, --memory-limit or --time-limit");
  return {};
}

// The model that is optimized, and what it is optimized with. `report` holds the stages until then.
struct LoadedRun {
  const Model& model;
  const Setup& setup;
  PipelineOptions options;
  StageDumps& dumps;
  Around& around;
  WholeReport report;
  const ResultToStdout* pipe = nullptr;  // where the result goes instead of a file
};

absl::StatusOr<Around> passes_around(const OptimizeArgs& args) {
  absl::StatusOr<std::vector<PassCall>> before = load_passes(args.before), after = load_passes(args.after);
  if (!before.ok()) return before.status();
  if (!after.ok()) return after.status();
  return Around{*std::move(before), *std::move(after), {}, {}, {}, {}, {}};
}

// The model that the passes make of this one, or how that failed.
RunEnd run_passes(const OptimizeArgs& args, const std::vector<PassCall>& steps, Model& model, std::optional<TransformReport>& told) {
  if (steps.empty()) return {};
  VerifyArgs check_args = args.check;
  check_args.inputs.clear();  // those of the model that is optimized
  absl::StatusOr<VerifyOptions> check = verify_options(check_args, {}, args.common, model);
  if (!check.ok()) return failed(check.status(), "");
  TransformResult result = transform(model, steps, {args.verify, *std::move(check), args.output == kPipe ? "" : args.output});
  if (result.failure) return failed(result.failure->code, args.input, result.failure->message, result.failure->advice);
  model = std::move(result.model);
  told = std::move(result.report);
  return {};
}

RunEnd find_difference(const OptimizeArgs& args, const LoadedRun& run, const OptimizeReport& report, const Model& result) {
  if (!args.diff && args.page.html.empty()) return {};
  DiffOptions options;
  options.knows_nodes = !args.page.html.empty();
  options.run = run.options.check;
  options.run.threads = args.common.threads;
  options.run.cancel = args.common.cancel;
  options.setup = &run.setup;
  options.points = report.cost_points;
  options.made = report.provenance;
  absl::StatusOr<ModelDiff> diff = diff_models(run.model, result, options);
  if (!diff.ok()) return failed(diff.status(), args.output);
  run.around.diff = *std::move(diff);
  return {};
}

RunEnd run_and_write(const OptimizeArgs& args, LoadedRun run, Progress& progress) {
  WholeReport& report = run.report;
  PipelineResult result = run_pipeline(run.model, run.setup, run.options);
  if (!result.stopped && (!result.failure || result.failure->code == kExitDifferent)) run.dumps.add("emit", result.model);
  progress.clear();
  if (RunEnd end = write_dumps(run.dumps); !end.ok()) return end;
  if (!args.stop_after.empty() && !result.failure) return {};
  for (auto& [stage, seconds] : result.report.stage_seconds) report.stage_seconds.emplace_back(stage, seconds);
  report.optimize = std::move(result.report.optimize);
  report.unfused = std::move(run.around.unfused);
  report.verify = std::move(result.report.verify);
  if (result.failure) {
    RunEnd end = failed(result.failure->code, args.input, result.failure->message, result.failure->advice);
    if (report.verify) write_report(args, run.setup.target, report, run.around);
    return end;
  }
  if (RunEnd end = run_passes(args, run.around.after, result.model, run.around.told_after); !end.ok()) return end;
  Clock clock;
  progress.stage("save", args.output);
  const bool itself = is_file_itself(args, result);
  if (RunEnd end = itself ? write_as_it_came(args) : write_result(args, result.model, report.optimize, run.pipe); !end.ok()) return end;
  if (run.options.measure)
    if (const absl::Status status = run.options.measure->answers->save(); !status.ok()) return failed(status, "");
  report.stage_seconds.emplace_back("save", clock.lap());
  progress.clear();
  if (RunEnd end = find_difference(args, run, report.optimize, result.model); !end.ok()) return end;
  if (RunEnd end = write_result_page(args, run.model, result.model, run.setup, report, run.around); !end.ok()) return end;
  return finish(args, run.setup.target, report, run.around, result.egraph);
}

// As run_and_write, with the folder of --save-repro before and after it.
RunEnd run_with_repro(const OptimizeArgs& args, LoadedRun run, Progress& progress) {
  if (const absl::Status status = save_repro(args, run.model, run.setup); !status.ok()) return failed(status, args.save_repro);
  const RunEnd end = run_and_write(args, std::move(run), progress);
  const absl::Status status = end_repro(args.save_repro, end.code, end.message);
  return status.ok() || !end.ok() ? end : failed(status, args.save_repro);
}

int optimize_one(const OptimizeArgs& given) {
  OptimizeArgs args = given;
  args.saturate.limits.began = steady_seconds();
  if (args.output.empty()) args.output = args.input == kPipe ? args.input : path_beside(args.input, ".opt.onnx");
  std::optional<ResultToStdout> pipe;
  if (args.output == kPipe) pipe.emplace();
  std::error_code ignored;
  if (args.input != kPipe && !std::filesystem::exists(args.input, ignored)) return fail(load_given(args.input).status(), args.input, "");
  absl::StatusOr<StageDumps> dumps = dumps_of(args);
  if (!dumps.ok()) return fail(kExitUsage, "", std::string(dumps.status().message()), "");
  if (const absl::Status status = check_outputs(args, *dumps); !status.ok()) return fail(status, "", "");
  Progress progress(args.common.quiet() || args.common.json || args.of_many);
  Clock clock;
  WholeReport report{args.input, args.output, {}, {}, {}};
  const auto lap = [&](const std::string& stage) { report.stage_seconds.emplace_back(stage, clock.lap()); };

  absl::StatusOr<Around> around = passes_around(args);
  if (!around.ok()) return fail(around.status(), "", "");
  absl::StatusOr<Setup> setup = set_up(args.saturate, args.shapes, args.check.onnxruntime);
  if (!setup.ok()) return fail(setup.status(), "", "");
  name_target(setup->settled, args);
  lap("rules");
  progress.stage("load", args.input);
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  if (const absl::Status status = args.verify ? check_operators(*model) : absl::OkStatus(); !status.ok())
    return fail(status, args.input, "");
  if (const absl::Status status = fix_shapes(*model, args.shapes); !status.ok()) return fail(status, args.input, "");
  if (const absl::Status status = check_data_files(args, *model); !status.ok()) return fail(status, "", "");
  lap("load");
  if (const RunEnd end = run_passes(args, around->before, *model, around->told_before); !end.ok()) return end.code;
  dumps->add("load", *model);
  if (args.stop_after == "load") return write_dumps(*dumps).code;

  if (const absl::Status status = args.shapes.of_several_models ? absl::OkStatus() : check_cost_points(args.saturate, *model); !status.ok())
    return fail(status, "", "");
  absl::StatusOr<PipelineOptions> options = pipeline_options(args, *model, progress, *dumps);
  if (!options.ok()) return fail(options.status(), "", "");
  if (options->details || !args.common.quiet())
    options->optimize.observe = [&, optimize = options->optimize](const FinishedRun& run) {
      if ((!args.common.quiet() && !args.common.json) || !args.page.html.empty()) see_unfused(run, *setup, optimize, around->unfused);
      if (options->details) see_not_fused(run, *setup, around->not_fused);
    };
  options->optimize.glances = !options->details;
  LoadedRun run{*model, *setup, *std::move(options), *dumps, *around, std::move(report), pipe ? &*pipe : nullptr};
  return (args.save_repro.empty() ? run_and_write : run_with_repro)(args, std::move(run), progress).code;
}

}  // namespace

int optimize_command(const OptimizeArgs& args) {
  if (args.output_dir.empty()) return optimize_one(args);
  std::vector<std::string> inputs{args.input};
  if (!args.output.empty()) inputs.push_back(args.output);
  inputs.insert(inputs.end(), args.more.begin(), args.more.end());
  return optimize_many(args, inputs);
}

}  // namespace saturate
