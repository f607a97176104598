#include "tools/pipeline/pipeline.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "absl/status/status.h"
#include "egraph/stop.h"
#include "extract/optimize/target_check.h"
#include "extract/prepare/local_functions.h"
#include "fmt/format.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/operators/op_table.h"
#include "tools/pipeline/debug_rules.h"

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
  return Failure{code, fmt::format("can't verify: {}", report.message), std::string(advice_unverified(report))};
}

// What stays in the result although the target can't express it, and how much of it the model had.
void find_inexpressible(const Model& original, const Model& result, const Target& target, OptimizeReport& report) {
  const std::vector<Inexpressible> found = count_refused(original, result, target, report);
  if (found.empty()) return;
  report.warnings.push_back(fmt::format("{} node{} can't be expressed on {}, the first is {} '{}': {}; `saturate targets check` lists them",
                                        found.size(), found.size() == 1 ? "" : "s", target.name, found.front().op, found.front().node,
                                        found.front().reason));
}

std::set<std::string> values_of(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  for (const ValueInfo& input : graph.inputs) names.insert(input.name);
  for (const Initializer& i : graph.initializers) names.insert(i.name);
  names.erase("");
  return names;
}

// Single nodes and values, for those who look for one.
void find_details(const Model& original, const Model& result, const CostModel& cost, OptimizeReport& report) {
  const auto sizes = numbers_of(report.assumed_sizes);
  if (auto nodes = node_costs(original, cost, sizes); nodes.ok()) report.nodes_before = *std::move(nodes);
  if (auto nodes = node_costs(result, cost, sizes); nodes.ok()) report.nodes_after = *std::move(nodes);
  const std::set<std::string> kept = values_of(result.graph);
  for (const Node& node : original.graph.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty() && !kept.contains(output)) report.vanished.push_back(output);
}

bool set(const std::atomic<bool>* flag) { return flag && *flag; }

// What the report says of the result beside how it was made, so far as there is time.
void tell_of_result(const Model& original, const Model& result, const Setup& setup, const PipelineOptions& options, const TimeGiven& time,
                    OptimizeReport& report) try {
  const StopSign sign{options.abort, time.told};
  const StopScope scope(sign.set() ? &sign : nullptr);
  find_inexpressible(original, result, setup.target, report);
  if (options.details) find_details(original, result, *setup.cost, report);
} catch (const Stopped&) {
  if (!set(options.abort)) report.warnings.push_back("the time was over before all was known of the result; --time-limit gives more");
}

unsigned excluded_by(const std::string& assumption) {
  const Assumption* known = find_assumption(assumption);
  return known ? known->excludes : kExcludesNothing;
}

// Adds the names of rules of which this holds.
void add_rules(const RuleSet& rules, const auto& holds, std::set<std::string>& names) {
  const auto see = [&](const auto& rule) {
    if (holds(rule)) names.emplace(rule.name);
  };
  for (const auto& rule : rules.stored()) see(rule->head());
  for (const NativeRule& rule : rules.native_rules()) see(rule);
}

bool is_built_in(const std::string& rule) {
  const absl::StatusOr<RuleSet> own = RuleSet::builtin(false);
  if (!own.ok()) return false;
  const auto named = [&](const auto& r) { return r.name == rule; };
  return own->find(rule) != nullptr || std::any_of(own->native_rules().begin(), own->native_rules().end(), named);
}

std::string left_out_warning(const OptimizeReport::LeftOut& out, const Model& model, const VerifyOptions& check) {
  if (!out.assumption.empty())
    return fmt::format("inputs break the assumption {0} ({1}): rules that make it were left out; --no-assume {0} says so beforehand",
                       out.assumption, out.because);
  const std::string file = model.path.empty() ? "MODEL" : std::filesystem::path(model.path).filename().string();
  const bool asked = check.tolerances.rtol || check.tolerances.atol;  // a rule that is right rounds, too
  const std::string advice =
      asked              ? "that is more than the tolerance that was asked for"
      : out.approximates ? "it approximates, as --approximate allows; --check-rtol says how far numbers may move"
      : out.built_in
          ? fmt::format("please report it with the model: `saturate {} --seed {} --debug-rules` shows it again", file, check.seed)
          : "mend or remove it";
  return fmt::format("rule {} makes the result differ ({}) and was left out; {}", out.rule, out.because, advice);
}

// What the failed round puts the blame on; nullopt where it is no rule.
std::optional<OptimizeReport::LeftOut> blame(const Model& model, const Setup& setup, const PipelineOptions& options,
                                             const WholeReport& report) {
  const VerifyReport& failed = *report.verify;
  for (const OptimizeReport::Assumed& a : report.optimize.assumed)
    if (excluded_by(a.assumption) & failed.breaks) return OptimizeReport::LeftOut{"", a.assumption, failed.message, false};
  PipelineOptions again = options;
  if (failed.failed_on) {
    again.check.inputs = {*failed.failed_on};
    again.check.given = {{{}, failed.failed_kind}};
  }
  const Culprit culprit = find_culprit(model, setup, again);
  if (!culprit.found) return std::nullopt;
  const Rule* rule = setup.rules.find(culprit.rule);
  const bool approximates = rule && rule->effect == Effect::kApproximates;
  return OptimizeReport::LeftOut{culprit.rule, "", failed.message, is_built_in(culprit.rule), approximates};
}

// Adds the rules that approximate; false where none is new.
bool leave_out_approximations(const RuleSet& rules, std::set<std::string>& names) {
  const std::size_t before = names.size();
  add_rules(
      rules, [](const auto& rule) { return rule.effect == Effect::kApproximates; }, names);
  return names.size() > before;
}

// Adds what is to be left out; false where nothing is new about it.
bool leave_out(const OptimizeReport::LeftOut& out, const RuleSet& rules, std::set<std::string>& names) {
  const std::size_t before = names.size();
  if (out.assumption.empty()) {
    names.insert(out.rule);
  } else {
    const auto assumes = [&](const auto& rule) {
      return std::find(rule.assumes.begin(), rule.assumes.end(), out.assumption) != rule.assumes.end();
    };
    add_rules(rules, assumes, names);
  }
  return names.size() > before;
}

}  // namespace

void note_maker(const Setup& setup, Model& result) {
  if (setup.rules.empty()) return;
  if (setup.target.release) set_metadata(result, "saturate.target", setup.target.name);
  set_metadata(result, "saturate.version", SATURATE_VERSION);
}

void give_time(const TimeGiven& time, VerifyOptions& check) {
  constexpr double kLeast = 1;
  if (time.verifying == kNoDeadline) return;
  check.ends_in_time = true;
  check.seconds = std::max(kLeast, std::round((time.verifying - steady_seconds()) * 10) / 10);
  check.judges_until = time.judges;
}

void allow_for_rules(const OptimizeReport& report, VerifyOptions& check) {
  check.knows_assumptions = true;
  for (const OptimizeReport::Assumed& a : report.assumed) check.excluded |= excluded_by(a.assumption);
  if (report.reassociated) check.moves = std::max(check.moves, StepMoves::kSome);  // a quantizer of what is rounded otherwise
  for (const OptimizeReport::Effected& e : report.effects)
    check.moves = std::max(check.moves, e.effect == Effect::kApproximates ? StepMoves::kLeftOut : StepMoves::kSome);
}

namespace {

// Operators that rule files define as functions are run by their bodies.
VerifyReport verify_with_functions(const Model& model, const Model& result, const RuleSet& rules, const VerifyOptions& check) {
  if (!has_functions(rules)) return verify(model, result, check);
  const auto original = with_functions(model, rules, kNewestOpset), optimized = with_functions(result, rules, kNewestOpset);
  return verify(original.ok() ? *original : model, optimized.ok() ? *optimized : result, check);
}

}  // namespace

namespace {

// Regions are told apart at the first of the sizes.
void measure_in(OptimizeOptions& options, const MeasureOptions& measure, std::optional<Measured>& told) {
  if (!measure.points.empty())
    for (const auto& [symbol, size] : measure.points.front().symbols) options.sizes.symbols[symbol] = size;
  options.decide = [&measure, &told, progress = options.progress](Variants& variants) {
    if (progress) progress("measure", nullptr);
    told.emplace();
    return measured_choice(variants, measure, *told);
  };
}

}  // namespace

namespace {

Failure failure_of(const absl::Status& status, const PipelineOptions& options) {
  if (absl::IsCancelled(status)) return {kExitInterrupted, "interrupted", "nothing was written"};
  if (options.measure && absl::IsUnimplemented(status))
    return {kExitUnsupported, fmt::format("can't measure: {}", std::string(status.message())), "leave --measure out"};
  if (absl::IsDeadlineExceeded(status)) return {kExitFile, std::string(status.message()), "--time-limit gives more time"};
  return {kExitFile, std::string(status.message()), kModelAdvice};
}

void tell_seconds(WholeReport& report) {
  for (const char* stage : {"lower", "saturate", "extract", "emit"})
    if (const auto it = report.optimize.seconds.find(stage); it != report.optimize.seconds.end())
      report.stage_seconds.emplace_back(stage, it->second);
  if (report.optimize.measured) report.stage_seconds.emplace_back("measure", report.optimize.measured->seconds);
}

// Both take the inputs of the original.
VerifyReport verified(const Model& model, const PipelineResult& out, const std::vector<OptimizeResult::Sample>& samples, const Setup& setup,
                      const PipelineOptions& options, const TimeGiven& time) {
  VerifyOptions check = options.check;
  allow_for_rules(out.report.optimize, check);
  check.kernels_may_be_missing = !setup.target.cpu_kernels;
  const auto& io = out.report.optimize.io_rank;
  const auto verify_one = [&](const Model& one) {
    give_time(time, check);
    return verify_with_functions(model, io ? with_interface(one, *io, Interface::kOriginal) : one, setup.rules, check);
  };
  VerifyReport report = verify_one(out.model);
  for (const OptimizeResult::Sample& sample : samples) {
    if (report.status == VerifyStatus::kDifferent || set(options.abort)) break;
    if (VerifyReport other = verify_one(sample.model); other.status == VerifyStatus::kDifferent) report = std::move(other);
  }
  return report;
}

}  // namespace

PipelineResult optimize_and_verify(const Model& model, const Setup& setup, const PipelineOptions& options) {
  PipelineResult out;
  std::optional<IoRank> io;
  std::optional<Model> asked;  // with the interface that the result shall have
  if (options.io_rank) {
    absl::StatusOr<IoRank> plan = plan_io_rank(model, *options.io_rank);
    if (!plan.ok()) {
      out.failure = Failure{kExitFile, std::string(plan.status().message()), ""};
      return out;
    }
    io = *std::move(plan);
    asked = with_interface(model, *io, Interface::kAsked);
  }
  std::optional<Measured> measured;
  OptimizeOptions how = options.optimize;
  how.has_other_interface = asked.has_value();
  if (how.limits.began <= 0) how.limits.began = steady_seconds();
  const TimeGiven time = time_given(how.limits);
  if (options.measure) measure_in(how, *options.measure, measured);
  absl::StatusOr<OptimizeResult> result = optimize(asked ? *asked : model, setup.rules, setup.target, *setup.cost, how);
  if (!result.ok()) {
    out.failure = failure_of(result.status(), options);
    return out;
  }
  out.stopped = result->stopped;
  if (out.stopped) return out;
  out.model = std::move(result->model);
  out.unchanged = result->unchanged;
  out.egraph = std::move(result->egraph);
  out.report.optimize = std::move(result->report);
  out.report.optimize.risks = setup.risks;
  out.report.optimize.measured = std::move(measured);
  out.report.optimize.settled = setup.settled;
  if (!out.unchanged) note_maker(setup, out.model);
  out.report.optimize.io_rank = io;
  if (io) out.report.optimize.before = graph_stats(model);
  tell_of_result(model, out.model, setup, options, time, out.report.optimize);
  tell_seconds(out.report);
  if (set(options.abort)) {
    out.failure = Failure{kExitInterrupted, "interrupted", "nothing was written"};
    return out;
  }
  if (!options.verify || (out.report.optimize.late && !io)) return out;
  if (options.optimize.progress) options.optimize.progress("verify", nullptr);
  const double start = steady_seconds();
  out.report.verify = verified(model, out, result->samples, setup, options, time);
  out.failure = judge(*out.report.verify, !options.check.inputs.empty());
  out.report.stage_seconds.emplace_back("verify", steady_seconds() - start);
  return out;
}

PipelineResult run_pipeline(const Model& model, const Setup& setup, const PipelineOptions& given) {
  PipelineOptions options = given;
  options.optimize.abort = given.abort;
  std::vector<OptimizeReport::LeftOut> left_out;
  std::optional<PipelineResult> failed;  // the first round
  std::vector<std::string> told;         // warnings of earlier rounds
  const double start = steady_seconds();
  if (options.optimize.limits.began <= 0) options.optimize.limits.began = start;
  const double until = time_given(options.optimize.limits).judges;
  for (int round = 0;; ++round) {
    PipelineResult result = optimize_and_verify(model, setup, options);
    if (result.report.optimize.given_back && leave_out_approximations(setup.rules, options.optimize.left_out)) {
      told.emplace_back("what --approximate allows would be dearer once the runtime has loaded it: exact rules alone were applied");
      continue;
    }
    for (const OptimizeReport::LeftOut& out : left_out)
      result.report.optimize.warnings.push_back(left_out_warning(out, model, options.check));
    result.report.optimize.warnings.insert(result.report.optimize.warnings.end(), told.begin(), told.end());
    result.report.optimize.left_out = left_out;
    if (!result.failure || result.failure->code == kExitInterrupted) return result;
    if (result.failure->code == kExitDifferent && options.measure && !options.strict_verify) {
      told.push_back(fmt::format("what was measured as the fastest does not compute the same ({}): the predicted graph was taken",
                                 result.report.verify->message));
      options.measure.reset();
      continue;
    }
    if (result.failure->code != kExitDifferent) return failed ? *std::move(failed) : std::move(result);
    if (options.debug_rules) {
      result.failure->advice = find_culprit(model, setup, options).message;
      return result;
    }
    const double now = steady_seconds();
    if (options.strict_verify || round == kMostLeftOut || now - start > options.check.seconds || now > until || set(options.abort))
      return result;
    const auto next = blame(model, setup, options, result.report);
    if (!next || !leave_out(*next, setup.rules, options.optimize.left_out)) return result;
    left_out.push_back(*next);
    if (!failed) failed = std::move(result);
  }
}

}  // namespace saturate
