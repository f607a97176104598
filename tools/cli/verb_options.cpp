#include "tools/cli/verb_options.h"
#include "kernels/judge/judge.h"

#include <algorithm>

#include "extract/solve/extractors.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/verbs.h"
#include "tools/io/option_checks.h"
#include "tools/pipeline/stage_dumps.h"

namespace saturate::verb_options {

std::function<std::string(const std::string&)> whole_in(std::int64_t least, std::int64_t most, std::string_view unit) {
  return [=](const std::string& text) { return not_a_whole_number_in(text, least, most, unit); };
}

CLI::Validator choice(const std::vector<std::string>& names) {
  const auto check = [names](const std::string& text) {
    const bool known = std::find(names.begin(), names.end(), text) != names.end();
    return known ? "" : fmt::format("'{}' is none of them; {}", text, what_instead(text, names));
  };
  return CLI::Validator(check, fmt::format("{{{}}}", fmt::join(names, ",")));
}

namespace {

// One of a few words, each of which stands for a value.
template <typename Into, typename E, std::size_t N>
CLI::Option* add_choice(CLI::App* app, const std::string& name, Into& into, const std::pair<std::string_view, E> (&choices)[N],
                        const std::string& what) {
  std::vector<std::string> names;
  for (const auto& [word, value] : choices) names.emplace_back(word);
  const auto take = [&into, &choices](const std::string& given) {
    for (const auto& [word, value] : choices)
      if (word == given) into = value;
  };
  return app->add_option_function<std::string>(name, take, what)->check(choice(names).description(""));
}

}  // namespace

CLI::Validator hint(const std::vector<std::string>& names) {
  return CLI::Validator([](const std::string&) { return std::string(); }, fmt::format("{{{}}}", fmt::join(names, ",")));
}

CLI::Option* add_list(CLI::App* app, const std::string& names, std::vector<std::string>& into, const std::string& type,
                      const std::string& what) {
  return app->add_option(names, into, what)->type_name(type)->expected(1)->take_all();
}

void add_common(CLI::App* app, CommonArgs& args, bool json, bool threads) {
  args.cancel = &asked_to_stop;
  app->add_flag_function(
      "-v,--verbose", [&args](std::int64_t n) { args.verbosity = static_cast<int>(n); },
      "say more; for optimize: tables of what changed; -vv: also rules and stages");
  app->add_flag_function(
      "-q,--quiet", [&args](std::int64_t) { args.verbosity = -1; }, "print nothing but errors and warnings");
  static constexpr std::pair<std::string_view, ColorChoice> kColors[] = {
      {"auto", ColorChoice::kAuto}, {"always", ColorChoice::kAlways}, {"never", ColorChoice::kNever}};
  add_choice(app, "--color", args.color, kColors, "colours: auto (default: on a terminal, unless NO_COLOR is set), always or never")
      ->type_name("WHEN");
  if (json) app->add_flag("--json", args.json, "print JSON on stdout instead of tables");
  if (threads)
    app->add_option("--threads", args.threads, "threads; 0: all cores; the result is the same for any number (default 1)")
        ->type_name("T")
        ->check(whole_in(0, 4096), "");
}

void add_max_memory(CLI::App* app, std::optional<std::size_t>& megabytes, const std::string& what) {
  app->add_option("--max-memory", megabytes, what)->type_name("MB")->check(whole_in(1, std::int64_t{1} << 30, "MB"), "");
}

void add_runtime(CLI::App* app, RuntimeArgs& args, const std::string& what) {
  app->add_option(
         "--runtime", args.asked,
         fmt::format("{}: saturate (default) or onnxruntime, which the Python package's command has if onnxruntime is installed", what))
      ->type_name("NAME")
      ->check(choice({std::string(kOurRuntime), "onnxruntime"}));
  add_list(app, "--custom-op-library", args.custom_op_libraries, "FILE",
           "with --runtime onnxruntime: a shared library of custom operators; may be repeated");
}

void add_judge(CLI::App* app, VerifyArgs& args, const std::string& what) {
  add_list(app, "--judge", args.judges, "NAME", what);
  app->add_option(
         "--onnxruntime", args.onnxruntime,
         fmt::format("shared library of ONNX Runtime, or the folder of its package (default: the package's, or the variable {}); it "
                     "is code, and trusted",
                     kOnnxruntimeVariable))
      ->type_name("PATH");
}

void add_page(CLI::App* app, PageArgs& args, bool pictures) {
  app->add_option("--html", args.html, "write one page to look at: graphs, changes, laws and numbers in one file that needs no network")
      ->type_name("PAGE.html");
  if (!pictures) return;
  app->add_option("--svg", args.svg,
                  "draw each kind of change, before and after, as a picture in this folder: change-1.svg, change-2.svg ...")
      ->type_name("DIR");
}

void add_check(CLI::App* app, VerifyArgs& args) {
  add_list(app, "--inputs", args.inputs, "X.npz", "verify on these inputs instead of random ones; may be repeated");
  app->add_option(
         "--check-rtol", args.rtol,
         "relative tolerance, times the size of the element or what is usual in its row, whichever is larger (default: float 1e-4, double "
         "1e-6, float16 and bfloat16 2e-2, and what rounding explains)")
      ->type_name("R");
  app->add_option("--check-atol", args.atol, "absolute tolerance (default 0)")->type_name("A");
  app->add_option(
         "--steps", args.steps,
         "steps that quantized values in outputs may differ by; what is computed of quantized values may then differ by what a step of "
         "some makes (default 0)")
      ->type_name("N")
      ->check(whole_in(0, 65535), "");
  app->add_option("--seed", args.seed, "seed of the random inputs (default 0)")->type_name("N");
  add_max_memory(app, args.max_memory,
                 "memory in MB that the tensors of one run, or of what is folded, may take together (default: 4096 for a run, 256 or four "
                 "times the weights for folding)");
  add_judge(app, args,
            "who judges the result: saturate, onnxruntime (in a process of its own) or onnxruntime=PATH of its shared library; may be "
            "repeated (default: saturate, and onnxruntime where it is installed)");
  add_runtime(app, args.runtime, "an older name of --judge");
  for (const char* name : {"--model-check-inputs", "--input-data-path"}) app->add_option(name, args.inputs)->group("")->expected(1);
  hidden(app, "--rtol", args.rtol);
  hidden(app, "--atol", args.atol);
}

void add_data_format(CLI::App* app, std::optional<DataFormat>& format) {
  add_choice(app, "--external-data-format", format, kDataFormats,
             "as --external-data, in this format: raw (OUT.onnx.data) or safetensors (OUT.onnx.safetensors); default: as the model's")
      ->type_name("FORMAT");
}

void add_time(CLI::App* app, std::optional<double>& seconds, const std::string& what) {
  app->add_option("--time-limit", seconds, what)->type_name("S");
}

void add_bounds(CLI::App* app, RunBounds& bounds) {
  add_time(app, bounds.seconds, "seconds that a run may take (default: no limit)");
  add_max_memory(app, bounds.max_memory, "memory in MB that the tensors of a run may take together (default: no limit)");
}

void add_shapes(CLI::App* app, ShapeArgs& args, const std::string& what) {
  add_list(app, "--dim", args.dims, "SYMBOL=SIZE", fmt::format("{} of a symbolic dim; may be repeated", what));
  app->add_option("--input-shapes,--input-shape", args.input_shapes,
                  fmt::format("{} of an input's dims: x:1,3,224,224 (-1 or a name leaves a dim; the name of a model's one input "
                              "may be left out); they are the rank of an input that has none; may be repeated",
                              what))
      ->type_name("SHAPE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app->add_flag("--allow-empty", args.allow_empty, "take sizes of 0 for dims and shapes");
  for (const char* name : {"--overwrite-input-shape", "--override-input-shapes", "--test-input-shape", "--shapes"})
    app->add_option(name, args.input_shapes)->group("")->expected(1)->take_all()->allow_extra_args(false);
}

void add_io_rank(CLI::App* app, std::optional<std::int64_t>& rank, const std::string& more) {
  app->add_option(
         "--io-rank", rank,
         fmt::format("give the model's inputs and outputs this rank, with ones in front of their dims: [2,8] becomes [1,1,2,8]{}", more))
      ->type_name("N")
      ->check(whole_in(1, kMostIoRank), "");
}

void add_budgets(CLI::App* app, SaturateArgs& args) {
  const std::string budgets = "Budgets";
  app->add_option("--iterations", args.limits.iterations, fmt::format("rounds of rewriting (default {})", args.limits.iterations))
      ->type_name("N")
      ->group(budgets);
  app->add_option(
         "--node-limit", args.limits.nodes,
         fmt::format("e-nodes that rules may make (default: {} for each of the model's, {} to {})", kNodesPerNode, kLeastNodes, kMostNodes))
      ->type_name("N")
      ->check(whole_in(1, std::int64_t{1} << 40), "")
      ->group(budgets);
  app->add_option_function<std::size_t>(
         "--memory-limit", [&args](std::size_t megabytes) { args.limits.memory_bytes = megabytes << 20; },
         "memory of the e-graph in MB (default: no limit)")
      ->type_name("MB")
      ->check(whole_in(1, std::int64_t{1} << 40), "")
      ->group(budgets);
  app->add_option("--time-limit", args.limits.seconds,
                  "seconds of rewriting, and again of verifying (default 60); where it is given, seconds of the whole run: half of them of "
                  "rewriting, the last quarter of verifying, and 2 more of judges; a safety net: where it is hit the result depends on the "
                  "machine")
      ->type_name("S")
      ->group(budgets);
}

void add_rule_options(CLI::App* app, SaturateArgs& args, const std::string& group) {
  add_list(app, "--rules", args.rules, "FILE|none", "rules beside the built-in ones; none: without the built-in ones; may be repeated")
      ->group(group);
  add_list(app, "--skip-rule", args.skip_rules, "NAME", "leave out a rule; may be repeated")->group(group);
  add_list(app, "--skip-fusion", args.not_made, "OPERATOR",
           "leave out the rules that make this operator (Attention) of what holds none; may be repeated")
      ->group(group);
  std::string assumptions = "don't apply rules that assume this (all: any), whatever --assume and the target say:", risky;
  for (const Assumption& a : known_assumptions()) {
    assumptions += fmt::format("\n{} ({}): {}", a.name, to_string(a.kind), a.what);
    if (a.kind == AssumptionClass::kRisky) risky += fmt::format("{}{}", risky.empty() ? "" : ", ", a.name);
  }
  add_list(app, "--assume", args.assumed, "NAME", fmt::format("apply rules that assume this risky thing, too: {}; may be repeated", risky))
      ->group(group);
  add_list(app, "--no-assume", args.not_assumed, "NAME|all", assumptions)->group(group);
  const auto allow_steps = [&args](bool allowed) { return [&args, allowed] { args.effects.within_one_step = allowed; }; };
  app->add_flag_callback(
         "--within-one-step", allow_steps(true),
         "allow rules that move quantized numbers by a step at most (effect within_one_step), such as an integer operator = "
         "the operator between quantizers; without it where the target's runtime does the same when it loads a model")
      ->group(group);
  app->add_flag_callback("--no-within-one-step", allow_steps(false), "forbid them")->group(group);
  app->add_flag("--rescale", args.effects.rescales, "allow rules that move the scales of quantized numbers (effect rescales)")
      ->group(group);
  app->add_flag("--approximate", args.effects.approximates, "allow rules that approximate (effect approximates)")->group(group);
}

void add_saturate(CLI::App* app, SaturateArgs& args) {
  const std::string group = "What is done";
  app->add_option(
         "--target", args.target,
         "what can run, and what it costs: ort-cpu (default), onnx, or a JSON file; ort-cpu@1.23 keeps to what that release loads, ort-cpu "
         "to the ONNX Runtime that is found, else 1.23")
      ->type_name("TARGET")
      ->check(hint(builtin_targets()))
      ->group(group);
  add_list(app, "--prefer", args.prefer, "WISH",
           "what the target would rather have, beside its own wishes: single-heads (attention one head at a time), quantizable "
           "(operators that quantizers know)")
      ->check(choice(known_wishes()))
      ->group(group);
  app->add_option("--cost", args.cost,
                  "cost model: nodes, flops, bytes, roofline, measured, a JSON file (table, roofline or fit), a .jsonl of measured times "
                  "or a shared library (default: the target's own)")
      ->type_name("MODEL")
      ->check(hint(builtin_cost_models()))
      ->group(group);
  add_list(app, "--cost-at", args.cost_at, "SYMBOL=SIZE,...[:WEIGHT]",
           "dim sizes at which costs are evaluated, and their weight; may be repeated: the weighted mean counts (default: by what inputs "
           "hold, docs/sizes.md)")
      ->group(group);
  app->add_option(
         "--memory-slack", args.memory_slack,
         "how much dearer the result may be for a lower peak of memory, as a share of the cost: 0.02 for 2 % (default 0: cost alone)")
      ->type_name("SHARE")
      ->check([](const std::string& text) { return not_a_number_in(text, 0, 10); }, "")
      ->group(group);
  app->add_option_function<std::string>(
         "--max-growth", [&args](const std::string& text) { args.max_growth = growth_of(text); },
         "how much more the weights of the result may take than the model's: 10%, or as a factor, 1.1 (default: any)")
      ->type_name("PERCENT%|FACTOR")
      ->check(not_a_growth, "")
      ->group(group);
  std::vector<std::string> extractors;
  for (const Extractor& e : saturate::extractors()) extractors.emplace_back(e.name);
  app->add_option("--extractor", args.extractor,
                  fmt::format("extraction algorithm: {}; anytime ones stop after 10 s (default: search)", fmt::join(extractors, ", ")))
      ->type_name("NAME")
      ->check(choice(extractors))
      ->group(group);
  add_rule_options(app, args, group);
  auto* opset =
      app->add_option(
             "--opset", args.opset,
             "write this opset of ai.onnx; newer operators become their bodies (default: the input's, or higher where the result needs it)")
          ->type_name("N")
          ->check(not_a_known_opset, "")
          ->group(group);
  app->add_flag("--keep-opset", args.keep_opset, "write the input's opset")->excludes(opset)->group(group);
  app->add_flag("--keep-functions", args.keep_functions,
                "functions of the model and of rule files that the target names stay calls, and OUT.onnx holds the functions")
      ->group(group);
  for (const char* name : {"--skip-rules", "--skip-optimization", "--skip-optimizations", "--skip-fusion-patterns"})
    app->add_option(name, args.skip_rules)->group("")->delimiter(',');
  app->add_option("--target-opset", args.opset)->group("")->check(not_a_known_opset, "");
  add_budgets(app, args);
}

void add_places(CLI::App* verb, OptimizeArgs& args, std::string& output_option) {
  verb->add_option("IN.onnx", args.input, "the model")->required();
  verb->add_option("OUT.onnx", args.output, "the result");
  verb->add_option("MORE.onnx", args.more)->group("");
  verb->add_option("-o,--output", output_option,
                   "the result (instead of the second argument); what is there is replaced; -: standard output")
      ->type_name("OUT.onnx");
  verb->add_option("--output-dir", args.output_dir, "take all arguments as models, and write each result under its name into this folder")
      ->type_name("DIR");
  verb->add_option("--report-dir", args.report_dir, "with --output-dir: write all that is known of each run as JSON into this folder")
      ->type_name("DIR");
  verb->add_option("--jobs", args.jobs,
                   "with --output-dir: models at a time, each in a process of its own; 0: as many as there are cores (default 1)")
      ->type_name("N")
      ->check(whole_in(0, 4096), "");
  verb->add_flag("--force", args.force, "replace OUT.onnx, or a file in the folder, though saturate did not write it");
}

}  // namespace saturate::verb_options
