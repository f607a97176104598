// What rules and targets do, between passes.
#include <algorithm>
#include <set>

#include "extract/sizes/op_sizes.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/operators/assumptions.h"
#include "onnx_bridge/operators/op_table.h"
#include "tools/pipeline/pipeline.h"
#include "tools/transform/named_files.h"
#include "tools/transform/opset.h"
#include "tools/transform/passes/passes.h"

namespace saturate {
namespace {

// By its own name or by that of the law that it was expanded from ("NAME[...]").
bool is_named(std::string_view rule, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return rule == name || (rule.starts_with(name) && (rule[name.size()] == '[' || rule[name.size()] == '.'));
  });
}

std::vector<std::string> names_of(const RuleSet& rules) {
  std::vector<std::string> names;
  for (const auto& rule : rules.stored()) names.emplace_back(rule->head().name);
  for (const NativeRule& rule : rules.native_rules()) names.push_back(rule.name);
  return names;
}

absl::StatusOr<RuleSet> only(const std::vector<std::string>& wanted, bool approximate, const std::vector<std::string>& assumed) {
  absl::StatusOr<RuleSet> rules = RuleSet::builtin(false);
  if (!rules.ok()) return rules;
  RuleFilter filter;
  filter.effects = kAllEffects;
  filter.effects.approximates = approximate;
  filter.assumptions.assumed = assumed;
  for (const std::string& name : names_of(*rules))
    if (!is_named(name, wanted)) filter.except.push_back(name);
  return filter_rules(*std::move(rules), filter);
}

// As the exit status of `saturate optimize` would say it. `field`: the one that is to blame; nullptr: the message says what is.
absl::Status failure_status(const Failure& failure, const char* field, const Arguments& args) {
  const absl::Status said =
      field ? args.wrong(field, args.all()[field].dump(), failure.message) : absl::InvalidArgumentError(failure.message);
  const absl::StatusCode code = failure.code == kExitDifferent     ? absl::StatusCode::kDataLoss
                                : failure.code == kExitUnsupported ? absl::StatusCode::kUnimplemented
                                : failure.code == kExitInterrupted ? absl::StatusCode::kCancelled
                                                                   : said.code();
  return absl::Status(code, said.message());
}

// `strict`: rules that were named are not left out where they make the result differ.
absl::Status run_rules(Work& work, const Setup& setup, const OptimizeOptions& options, bool approximate, bool strict, const char* field,
                       const Arguments& args) {
  PipelineOptions pipeline;
  pipeline.optimize = options;
  pipeline.verify = work.verifies(work.model);
  pipeline.strict_verify = strict;
  pipeline.check = work.check;
  // Of quantizers that are left out the verifier asks what their steps make, unless it is given a tolerance.
  const bool loosely = approximate && !pipeline.check.tolerances.rtol && !has_quantizers(work.model);
  if (loosely) pipeline.check.tolerances.rtol = kApproximateRtol;
  // An approximation is one of numbers: a quantizer makes a number of NaN, and a Clip in its place does not.
  if (approximate) pipeline.check.excluded |= kNotFinite;
  PipelineResult result = run_pipeline(work.model, setup, pipeline);
  if (result.failure) return failure_status(*result.failure, field, args);
  const OptimizeReport& report = result.report.optimize;
  allow_for_rules(report, work.allowed);
  if (loosely) work.allowed.tolerances.rtol = kApproximateRtol;
  work.allowed.excluded |= pipeline.check.excluded;
  for (const std::string& warning : report.warnings)
    if (!strict) work.notes.push_back(warning);
  work.notes.push_back(fmt::format("{} nodes -> {}", report.before.nodes, report.after.nodes));
  // What the graph no longer has, or has made anew, is no value of the original.
  const auto before = defined_names(work.graph()), after = defined_names(result.model.graph);
  std::erase_if(work.ties.values, [&](const auto& value) { return !before.contains(value.first) || !after.contains(value.first); });
  work.model = std::move(result.model);
  return absl::OkStatus();
}

void tell_what_stays(Work& work, const std::vector<std::string>& avoided) {
  for (const std::string& op : avoided) {
    std::size_t count = 0;
    for_each_graph(work.graph(), [&](Graph& graph) {
      for (const Node& node : graph.nodes) count += operator_name(node.domain, node.op_type) == op;
    });
    if (count > 0)
      work.notes.push_back(fmt::format("{} {} {}: no rule that was asked for applies", count, op, count == 1 ? "stays" : "stay"));
  }
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What the fields name: built-in names, and files of data. Libraries of costs run code, and are taken from the command line alone.
absl::StatusOr<Setup> named_setup(const Arguments& args) {
  const std::string target = args.text("target"), cost = args.text("cost");
  if (!cost.empty() && !is_cost_data(cost))
    return args.wrong("cost", cost,
                      fmt::format("neither built in ({}) nor a .json or .jsonl file; a library is given by --cost of `saturate optimize`",
                                  fmt::join(builtin_cost_models(), ", ")));
  std::vector<NamedFile> files;
  const bool own_target = !is_among(builtin_targets(), target);
  // Before it is looked for a release, which opens it.
  if (absl::Status s = own_target ? check_named_file(args, "target", target, kMostNamedText) : absl::OkStatus(); !s.ok()) return s;
  if (own_target) files.push_back({"target", split_release(target).name_or_path, "saturate targets show"});
  if (!cost.empty() && !is_among(builtin_cost_models(), cost)) files.push_back({"cost", cost, "saturate optimize MODEL --cost"});
  for (const std::string& file : args.texts("rules"))
    if (file != "none") files.push_back({"rules", file, "saturate rules check"});
  for (const NamedFile& file : files)
    if (absl::Status s = check_named_file(args, file.field, file.path, kMostNamedText); !s.ok()) return s;
  SetupOptions options{target, {}, cost, {}, args.texts("rules"), {}};
  options.filter.except = args.texts("skip_rules");
  options.filter.effects.approximates = args.flag("approximate");
  absl::StatusOr<Setup> setup = set_up(options);
  if (!setup.ok() && files.empty()) return args.wrong("target", target, std::string(setup.status().message()));
  if (!setup.ok()) return without_contents(args, setup.status(), files);
  return setup;
}

}  // namespace

absl::StatusOr<Target> everything_but(const Model& model, const std::vector<std::string>& avoided) {
  absl::StatusOr<Target> target = load_target("onnx");
  if (!target.ok()) return target;
  target->name = "everything but " + fmt::format("{}", fmt::join(avoided, ", "));
  target->max_opset = kNewestOpset;
  target->keeps_quantizers.clear();  // the pass says what goes
  for (const auto& [domain, version] : model.opset_imports)
    if (!domain.empty()) target->operators[domain] = {"*"};
  target->forbidden.insert(avoided.begin(), avoided.end());
  return target;
}

absl::StatusOr<Model> at_opset(const Model& model, std::int64_t opset) {
  const absl::StatusOr<Target> target = everything_but(model, {});
  if (!target.ok()) return target.status();
  const auto cost = load_cost_model("nodes", {});
  if (!cost.ok()) return cost.status();
  OptimizeOptions options;
  options.opset = opset;
  absl::StatusOr<OptimizeResult> result = optimize(model, RuleSet(), *target, **cost, options);
  if (!result.ok()) return result.status();
  return std::move(result->model);
}

namespace {
// Attention with a sink as one key more, which no cache holds: scores with one column more are stepped as they are.
const std::vector<std::string> kWithSinks{"sdpa_with_sink", "sdpa_with_sink_for_heads"};
}  // namespace

absl::StatusOr<Model> rewritten(const Model& model, std::int64_t opset, const std::set<std::string>& avoided) {
  SetupOptions options;
  options.target = "onnx";
  absl::StatusOr<Setup> setup = set_up(options);
  if (!setup.ok()) return setup.status();
  setup->target.forbidden.insert(avoided.begin(), avoided.end());
  setup->target.keeps_quantizers.clear();
  PipelineOptions pipeline;
  pipeline.verify = false;
  pipeline.optimize.opset = opset;
  for (const std::string& rule : names_of(setup->rules))
    if (is_named(rule, kWithSinks)) pipeline.optimize.left_out.insert(rule);
  PipelineResult result = run_pipeline(model, *setup, pipeline);
  if (result.failure) return absl::UnimplementedError(result.failure->message);
  return std::move(result.model);
}

namespace passes {

absl::Status optimize(Work& work, const Arguments& args) {
  absl::StatusOr<Setup> setup = named_setup(args);
  if (!setup.ok()) return setup.status();
  const std::vector<std::string> avoided = args.texts("avoid");
  setup->target.forbidden.insert(avoided.begin(), avoided.end());
  OptimizeOptions how;
  if (args.whole("opset") > 0) how.opset = args.whole("opset");
  return run_rules(work, *setup, how, args.flag("approximate"), false, nullptr, args);
}

absl::Status inner_rank(Work& work, const Arguments& args) {
  absl::StatusOr<Setup> setup = set_up({"onnx", {}, "nodes", {}, {}, {}});
  if (!setup.ok()) return setup.status();
  absl::StatusOr<Target> target = everything_but(work.model, {});
  if (!target.ok()) return target.status();
  const auto rank = static_cast<int>(args.whole("rank"));
  target->name = fmt::format("rank {}", rank);
  OperatorLimits& limits = target->limits.emplace_back();
  limits.except = {"Identity"};
  limits.min_rank = limits.max_rank = rank;
  limits.because = "as asked";
  target->border = {"Reshape", "Transpose", "Cast"};
  target->index_ranks["Gather"][1] = {1, 2};
  setup->target = *std::move(target);
  OptimizeOptions how;  // in the model's opset, or else in a newer one
  how.keep_opset = true;
  const absl::Status kept = run_rules(work, *setup, how, false, false, "rank", args);
  if (kept.ok() || absl::IsCancelled(kept)) return kept;
  return run_rules(work, *setup, {}, false, false, "rank", args);
}

absl::Status rewrite(Work& work, const Arguments& args) {
  const std::vector<std::string> wanted = args.texts("rules");
  const AssumptionChoice assumed{args.texts("assume"), {}};
  if (const auto unknown = assumed.unknown()) return args.wrong("assume", args.all()["assume"].dump(), *unknown);
  absl::StatusOr<RuleSet> rules = only(wanted, args.flag("approximate"), assumed.assumed);
  if (!rules.ok()) return rules.status();
  const std::vector<std::string> have = names_of(*rules);
  for (const std::string& name : wanted)
    if (std::none_of(have.begin(), have.end(), [&](const std::string& rule) { return is_named(rule, {name}); }))
      return args.wrong("rules", name,
                        "no such rule, or one that approximates or assumes, which \"approximate\" and \"assume\" allow; `saturate rules "
                        "list` names them");
  absl::StatusOr<Target> target = everything_but(work.model, args.texts("avoid"));
  if (!target.ok()) return target.status();
  target->operators["com.microsoft"] = {"*"};
  auto cost = load_cost_model("nodes", {});
  if (!cost.ok()) return cost.status();
  if (absl::Status s =
          run_rules(work, {*std::move(rules), *std::move(target), *std::move(cost), {}}, {}, args.flag("approximate"), true, "rules", args);
      !s.ok())
    return s;
  tell_what_stays(work, args.texts("avoid"));
  for (const std::string& name : assumed.assumed) work.notes.push_back(fmt::format("taken for granted: {}", find_assumption(name)->what));
  return absl::OkStatus();
}

}  // namespace passes
}  // namespace saturate
