#include "extract/optimize/optimize.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "egraph/explain.h"
#include "egraph/stop.h"
#include "extract/onnx_problem.h"
#include "extract/optimize/needs.h"
#include "extract/optimize/provenance.h"
#include "extract/optimize/stages.h"
#include "extract/optimize/target_check.h"
#include "extract/optimize/variants_in_graph.h"
#include "extract/prepare/local_functions.h"
#include "extract/price/op_times.h"
#include "extract/sample.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/load_fusions.h"
#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/written.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

constexpr int kMaxRetries = 8;  // for each reason

// The runs of all graphs of a model as one.
void add_run(RunReport& into, RunReport run) {
  if (into.stop == StopReason::kSaturated) into.stop = run.stop;
  if (into.iterations.size() < run.iterations.size()) into.iterations = std::move(run.iterations);
  into.seconds += run.seconds;
  into.peak_memory_bytes = std::max(into.peak_memory_bytes, run.peak_memory_bytes);
  into.budget_exhausted = into.budget_exhausted || run.budget_exhausted;
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < into.rules.size(); ++i) places.emplace(into.rules[i].name, i);
  for (RuleStats& rule : run.rules) {
    const auto [place, added] = places.try_emplace(rule.name, into.rules.size());
    if (added) {
      into.rules.push_back(std::move(rule));
      continue;
    }
    RuleStats& sum = into.rules[place->second];
    sum.matches += rule.matches;
    sum.fresh += rule.fresh;
    sum.applied += rule.applied;
    sum.nodes_made += rule.nodes_made;
    sum.unions += rule.unions;
    sum.bans += rule.bans;
    sum.search_s += rule.search_s;
    sum.apply_s += rule.apply_s;
  }
}

void add_runs(const Grown& grown, OptimizeReport& report) {
  add_run(report.run, grown.run);
  report.egraph_nodes += grown.g->egraph().num_nodes() - grown.g->notes<FusedAtLoad>().of.size();  // which no rule made
  report.egraph_classes += grown.g->egraph().num_classes();
  for (const auto& [graph, body] : grown.bodies) add_runs(*body, report);
}

// Whether the standard's Attention is there, or in a body.
// Attention that a runtime refuses or dies of where it is of nothing: the standard's, and what the target says so of.
bool attends(const Graph& graph, const Target& target) {
  const auto in_body = [&](const Attribute& a) { return a.type == AttributeType::kGraph && attends(a.g(), target); };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
    return (n.domain.empty() && n.op_type == "Attention") || !target.takes_empty(operator_name(n.domain, n.op_type)) ||
           std::any_of(n.attributes.begin(), n.attributes.end(), in_body);
  });
}

// The rules for which `wanted` holds: of what stands before its body is read.
template <typename Wanted>
std::vector<std::string> applied_rules(const RuleSet& rules, const RunReport& run, const Wanted& wanted) {
  std::set<std::string_view> all;
  for (const auto& rule : rules.stored())
    if (wanted(rule->head())) all.insert(rule->head().name);
  for (const NativeRule& rule : rules.native_rules())
    if (wanted(rule)) all.insert(rule.name);
  std::vector<std::string> names;
  for (const RuleStats& stats : run.rules) {
    if (stats.applied == 0) continue;
    const std::string_view name = rule_of_rewrite(stats.name);
    const bool listed = std::find(names.begin(), names.end(), name) != names.end();  // in another form of it
    if (!listed && all.contains(name)) names.emplace_back(name);
  }
  return names;
}

// What experiments with costs ask for: the main graph's e-graph, and other graphs of it.
void add_experiments(const Grown& grown, const Chosen& chosen, EmitOptions options, const Task& task, OptimizeResult& result) {
  const OnnxEGraph& g = *grown.g;
  if (!task.options.dump_egraph && task.options.samples == 0) return;
  const OnnxProblem problem = onnx_problem(g, grown.lowered, &task.target, task.cost, chosen.options);
  if (task.options.dump_egraph) result.egraph = problem_json(g, problem);
  if (task.options.samples == 0) return;
  Emitted bodies;
  bodies.names = std::move(options.names);
  const auto emitting = emit_model_options(grown, chosen, options, bodies, task);
  if (!emitting.ok()) return;
  for (const Selection& s :
       sample_selections(g, grown.lowered, problem, chosen.selection, task.options.samples, task.options.sample_seed)) {
    const auto known = [&](Id id) { return !s.by_class[id].folded || g.value(id, ~std::size_t{0}).has_value(); };
    bool foldable = true;
    for (Id id = 0; id < s.by_class.size() && foldable; ++id) foldable = known(id);
    if (!foldable) continue;
    auto emitted = emit_model(g, grown.lowered, s, *emitting);
    if (!emitted.ok()) continue;
    const auto loaded = load(*emitted, task);
    result.samples.push_back({*std::move(emitted), loaded.ok() ? loaded->price.cost : s.cost});
  }
}

EvaluatorOptions folding(const GraphStats& model, const OptimizeOptions& options) {
  constexpr std::size_t kFoldingMemory = std::size_t{256} << 20;
  const std::size_t usual = std::max<std::size_t>(kFoldingMemory, 4 * model.parameter_bytes);
  return {.memory = std::min(usual, options.max_memory.value_or(usual)),
          .seconds = std::max(1.0, options.limits.seconds.value_or(kSecondsOfRewriting)),
          .cancel = options.abort};
}

// Of the main graph and its bodies.
double cost_of(const Grown& grown, const Chosen& chosen) {
  double sum = 0;
  visit_graphs(grown, chosen, [&](const Grown&, const Chosen& c) { sum += c.selection.cost; });
  return sum;
}

// Why the stages are run again, each time with less to choose from.
enum class Again {
  kWithoutRule,  // a rule contradicts what is known: it is left out
  kNotComputed,  // the choice wants values that cannot be computed: they are no constants
  kGivenOpset,   // something has no form in the opset that the rules' operators want: the model's own is kept
  kOneOpset,     // graph and bodies came out in several opsets: the highest of them is for all
  kRaised,       // ONNX Runtime refuses in the opset that was written what it takes in the model's: that is spelled otherwise
};

// The stages of one model, and what earlier tries have left to them.
class Attempt {
 public:
  Attempt(const Model& model, const Task& task, OptimizeReport& report)
      : model_(model), task_(task), report_(report), limit_(opset_limit(model, task)) {
    collect_names(model.graph, names_);
    options_.opset = task.options.opset;
    if (opset_was_assumed(model) ? limit_ != model.opset("") : limit_ < model.opset("")) options_.opset = limit_;
  }

  // nullopt: there is a result, or the stage is done after which to stop.
  absl::StatusOr<std::optional<Again>> once() {
    if (!grown_) {
      auto grown = grow(model_, without_, task_);
      if (!grown.ok()) return grown.status();
      if (const auto* c = std::get_if<Contradicted>(&*grown)) return leave_out(*c);
      grown_ = std::get<std::unique_ptr<Grown>>(*std::move(grown));
    }
    if (task_.options.stop_after == "lower" || task_.options.stop_after == "saturate") return std::nullopt;
    if (!chosen_) {
      auto chosen = choose(*grown_, limit_, learned_, task_);
      if (!chosen.ok()) return chosen.status();
      chosen_ = *std::move(chosen);
      if (tries_[Again::kNotComputed] < kMaxRetries && note_not_computed(*grown_, *chosen_, learned_)) return again(Again::kNotComputed);
    }
    if (task_.options.stop_after == "extract") return std::nullopt;
    options_.limit = limit_;
    options_.names = names_;
    auto emitted = emit(*grown_, *chosen_, options_, task_);
    if (!emitted.ok() && limit_ != model_.opset("") && !task_.options.opset) {
      if (limit_ < model_.opset("") && task_.target.release_is_asked_for)
        report_.warnings.push_back(not_lowered(std::string(emitted.status().message())));
      return again(Again::kGivenOpset);
    }
    if (!emitted.ok()) return emitted.status();
    emitted_ = *std::move(emitted);
    if (emitted_.opsets.size() > 1) return again(Again::kOneOpset);
    if (is_lowered_for_nothing()) return again(Again::kGivenOpset);
    return spelled_otherwise_once_raised();
  }

  void prepare(Again why) {
    switch (why) {
      case Again::kWithoutRule:
        grown_.reset();
        break;
      case Again::kNotComputed:
        chosen_.reset();
        break;
      case Again::kGivenOpset:
        limit_ = model_.opset("");
        options_.opset = task_.options.opset;
        chosen_.reset();
        break;
      case Again::kOneOpset:
        options_.opset = *emitted_.opsets.rbegin();
        break;
      case Again::kRaised:
        learned_.is_raised = true;
        chosen_.reset();
        break;
    }
  }

  std::int64_t limit() const { return limit_; }
  // What the cheapest choice costs in another opset; nullopt where there is none.
  std::optional<double> cost_at(std::int64_t limit) const try {
    const auto other = choose(*grown_, limit, learned_, task_);
    if (!other.ok()) return std::nullopt;
    return cost_of(*grown_, **other);
  } catch (const Stopped&) {
    return std::nullopt;  // no time for it
  }

  // Another choice, written.
  struct Another {
    std::unique_ptr<Chosen> chosen;
    EmitOptions options;
    Emitted emitted;
  };
  absl::StatusOr<Another> another(const Task& task, std::int64_t limit) const {
    Another out;
    Learned learned = learned_;
    for (int tries = 0; !out.chosen || (tries < kMaxRetries && note_not_computed(*grown_, *out.chosen, learned)); ++tries) {
      auto chosen = choose(*grown_, limit, learned, task);
      if (!chosen.ok()) return chosen.status();
      out.chosen = *std::move(chosen);
    }
    out.options = options_;
    out.options.limit = limit;
    if (limit != limit_) out.options.opset = task_.options.opset;
    out.options.names = names_;
    for (bool again = true; again;) {
      auto emitted = emit(*grown_, *out.chosen, out.options, task);
      if (!emitted.ok()) return emitted.status();
      out.emitted = *std::move(emitted);
      again = out.emitted.opsets.size() > 1 && out.options.opset != *out.emitted.opsets.rbegin();
      if (again) out.options.opset = *out.emitted.opsets.rbegin();
    }
    return out;
  }
  void take(Another other) {
    limit_ = other.options.limit;
    chosen_ = std::move(other.chosen);
    options_ = std::move(other.options);
    emitted_ = std::move(other.emitted);
  }

  const Grown& grown() const { return *grown_; }
  const Chosen& chosen() const { return *chosen_; }
  const EmitOptions& options() const { return options_; }
  Emitted& emitted() { return emitted_; }

 private:
  Again again(Again why) {
    ++tries_[why];
    return why;
  }

  // Where nothing else is left, the model's own opset is kept, unless another was asked for.
  std::optional<Again> spelled_otherwise_once_raised() {
    const std::int64_t opset = emitted_.model.opset("");
    if (opset <= model_.opset("")) return std::nullopt;
    const std::string because = refused_once_raised(*grown_, *chosen_, opset, task_.target);
    if (because.empty()) return std::nullopt;
    if (!learned_.is_raised) return again(Again::kRaised);
    if (!task_.options.opset) return again(Again::kGivenOpset);
    report_.warnings.push_back(fmt::format("ONNX Runtime may refuse the result in opset {}, which was asked for: {}", opset, because));
    return std::nullopt;
  }

  // Whether the opset alone would change, for a release that nobody asked for.
  bool is_lowered_for_nothing() const {
    if (limit_ >= model_.opset("") || opset_was_assumed(model_) || task_.options.opset || task_.target.release_is_asked_for) return false;
    const GraphStats before = graph_stats(model_), after = graph_stats(emitted_.model);
    return before.operators == after.operators && before.parameter_bytes == after.parameter_bytes;
  }

  std::string not_lowered(const std::string& because) const {
    return fmt::format("{} {} loads opset {} at most, and the model stays in opset {}: {}", task_.target.runtime.name,
                       task_.target.release->version, limit_, model_.opset(""), because);
  }

  absl::StatusOr<std::optional<Again>> leave_out(const Contradicted& c) {
    const std::string what = fmt::format("contradiction: {}{}", c.what, c.rule.empty() ? "" : ", brought together by rule " + c.rule);
    if (c.rule.empty() || tries_[Again::kWithoutRule] >= kMaxRetries || !without_.insert(c.rule).second) return absl::InternalError(what);
    report_.warnings.push_back(fmt::format("rule {} contradicts what is known ({}) and was left out", c.rule, what));
    return again(Again::kWithoutRule);
  }

  const Model& model_;
  const Task& task_;
  OptimizeReport& report_;
  std::map<Again, int> tries_;
  std::set<std::string> without_;
  Learned learned_;
  std::int64_t limit_;
  EmitOptions options_;
  std::unordered_set<std::string> names_;
  std::unique_ptr<Grown> grown_;
  std::unique_ptr<Chosen> chosen_;
  Emitted emitted_;
};

// Whether some of the model's own Attention operators of the standard are gone.
bool attends_by_parts(const OptimizeReport& report) { return report.after.count("Attention") < report.before.count("Attention"); }

void note_assumed(const Model& result, const RuleSet& rules, const Target& target, OptimizeReport& report) {
  for (const Assumption& a : known_assumptions()) {
    if (a.name == "attention_not_empty" && !attends(result.graph, target)) continue;  // all others take sizes of 0
    if (a.name == "finite_attention" && !attends_by_parts(report)) continue;  // one that rules made and took apart gives NaN in both
    const auto assumes = [&](const auto& rule) {
      return std::find(rule.assumes.begin(), rule.assumes.end(), a.name) != rule.assumes.end();
    };
    OptimizeReport::Assumed assumed{std::string(a.name), applied_rules(rules, report.run, assumes)};
    if (!assumed.rules.empty()) report.assumed.push_back(std::move(assumed));
  }
}

// What another choice in the same e-graph would cost for the first release that takes every opset of the target.
void note_newer(const Attempt& attempt, const Task& task, OptimizeReport& report) {
  const Target& target = task.target;
  const auto& releases = target.runtime.releases;
  const auto newer = std::find_if(releases.begin(), releases.end(), [&](const RuntimeRelease& r) { return r.opset >= target.max_opset; });
  if (!task.options.newer_release || !target.release || newer == releases.end()) return;
  if (task.options.opset || task.options.keep_opset || !task.has_rules()) return;
  const std::int64_t higher = target.newest_opset_with(report.before.operators, target.max_opset);
  if (higher <= attempt.limit()) return;
  const double chosen = cost_of(attempt.grown(), attempt.chosen());
  if (const auto cost = attempt.cost_at(higher); cost && chosen > 0) report.newer = {newer->version, report.cost_after * *cost / chosen};
}

// Prices of what will run: of the model and of the result as they are, with nothing in mind that rules found out. Without time for them
// those of the choice stand.
void note_loaded(const Model& model, const Model& result, const Task& task, OptimizeReport& report) try {
  const auto before = load(model, task), after = &result == &model ? before : load(result, task);
  if (!before.ok() || !after.ok()) return;
  report.cost_before = before->price.cost, report.cost_after = after->price.cost;
  if (!task.target.fuses_at_load || !prices_fusions(task.cost)) return;
  report.before_at_load = before->operators, report.after_at_load = after->operators;
  const double error = task.cost.relative_error();
  if (error <= 0) return;
  report.cost_ratio = ratio_range(*before, *after, error);
  report.dearer = saturate::is_dearer(*before, *after, error);
} catch (const Stopped&) {
  if (task.options.abort && *task.options.abort) throw;
}

void note_effects(const RuleSet& rules, OptimizeReport& report) {
  const auto reassociates = [](const auto& rule) { return rule.effect == Effect::kReassociates; };
  report.reassociated = !applied_rules(rules, report.run, reassociates).empty();
  for (const Effect effect : {Effect::kWithinOneStep, Effect::kRescales, Effect::kApproximates}) {
    auto names = applied_rules(rules, report.run, [&](const auto& rule) { return rule.effect == effect; });
    if (!names.empty()) report.effects.push_back({effect, std::move(names)});
  }
}

// What is written as the model.
absl::StatusOr<Model> finished(Model result, std::unordered_set<std::string>& names, const Model& model, const Task& task) {
  if (has_bodies(result.graph)) share_initializers(result.graph, initializer_names(model.graph), names);
  if (task.target.keep_functions) {
    const std::int64_t opset = result.opset("");
    auto whole = with_functions(std::move(result), task.rules, opset);
    if (!whole.ok()) return whole.status();
    result = *std::move(whole);
  }
  if (auto s = bring_to_opset(result, task.own.kept, model.opset(""), task.has_rules()); !s.ok()) return s;
  if (task.has_rules()) fit_ir_version(result, task.target);
  return result;
}

// The graphs of an attempt, for whoever decides.
class AttemptVariants : public Variants {
 public:
  AttemptVariants(const Model& model, const Attempt& attempt, const Task& task, const Model& cheapest)
      : model_(model), attempt_(attempt), task_(task), cheapest_(cheapest) {}

  const Model& original() const override { return model_; }
  const Model& cheapest() const override { return cheapest_; }
  bool has_other_opset() const override {
    return !task_.options.opset && !task_.options.keep_opset && attempt_.limit() > model_.opset("") &&
           cheapest_.opset("") > model_.opset("");
  }

  bool may_stay() const override {
    if (!may_return(model_, task_) || attempt_.limit() < model_.opset("")) return false;
    if (cheapest_.ir_version < model_.ir_version) return false;
    const StageBound bound(task_);
    const auto before = check_target(model_, task_.target), after = check_target(cheapest_, task_.target);
    return before.ok() && after.ok() && before->size() <= after->size();
  }
  double seconds_to_make() const override {
    double seconds = 0;
    for (const char* stage : {"extract", "emit"})
      if (const auto it = task_.seconds.find(stage); it != task_.seconds.end()) seconds = std::max(seconds, it->second);
    return seconds;
  }

  std::vector<Region> regions() const override {
    std::map<std::string, Region> all;
    const auto usual = numbers_of(task_.sizes);
    visit_graphs(attempt_.grown(), attempt_.chosen(), [&](const Grown& grown, const Chosen& chosen) {
      const CostOptions sizes = with_all_symbols(task_.options.sizes, *grown.g, usual);
      for (auto& [name, region] : regions_of(*grown.g, grown.lowered, chosen.selection, sizes)) {
        Region& sum = all[name];
        sum.name = name;
        sum.elements += region.elements;
        sum.others.merge(region.others);
        if (sum.signature.empty() || (sum.taken.empty() && !region.taken.empty())) sum.signature = region.signature;
        sum.taken.merge(region.taken);
      }
    });
    std::vector<Region> out;
    for (auto& [name, region] : all) out.push_back(std::move(region));
    std::stable_sort(out.begin(), out.end(), [](const Region& a, const Region& b) { return a.elements > b.elements; });
    return out;
  }

  absl::StatusOr<Attempt::Another> another(const Variant& variant) const {
    std::unique_ptr<CostModel> nodes;
    if (variant.fewest_operators) {
      auto loaded = load_cost_model("nodes");
      if (!loaded.ok()) return loaded.status();
      nodes = *std::move(loaded);
    }
    const Task task{task_.rules, task_.target,  nodes ? *nodes : task_.cost, task_.options, task_.evaluator, task_.own, task_.newest_opset,
                    task_.sizes, task_.seconds, task_.wants_provenance,      &variant};
    return attempt_.another(task, variant.own_opset ? model_.opset("") : attempt_.limit());
  }

  absl::StatusOr<Model> make(const Variant& variant) override {
    if (variant.original) return model_;
    auto made = another(variant);
    if (!made.ok()) return made.status();
    return finished(std::move(made->emitted.model), made->emitted.names, model_, task_);
  }

 private:
  const Model& model_;
  const Attempt& attempt_;
  const Task& task_;
  const Model& cheapest_;
};

// Takes what options.decide says. Whether it is the original.
absl::StatusOr<bool> decide(const Model& model, Attempt& attempt, const Task& task) {
  if (!task.options.decide || !task.has_rules()) return false;
  std::unordered_set<std::string> names = attempt.emitted().names;
  const absl::StatusOr<Model> cheapest = finished(attempt.emitted().model, names, model, task);
  if (!cheapest.ok()) return cheapest.status();
  AttemptVariants variants(model, attempt, task, *cheapest);
  const absl::StatusOr<Variant> variant = task.options.decide(variants);
  if (!variant.ok()) return variant.status();
  if (variant->original) return true;
  if (variant->is_cheapest()) return false;
  auto made = variants.another(*variant);
  if (!made.ok()) return made.status();
  attempt.take(*std::move(made));
  return false;
}

// With the rule that made the value.
absl::Status internal_error(const WritingFault& fault, const OptimizeReport& report) {
  const auto made = std::find_if(report.made.begin(), report.made.end(), [&](const auto& m) { return m.output == fault.value; });
  const std::string rule = made == report.made.end() || made->rule.empty() ? "no rule" : fmt::format("rule {}", made->rule);
  return absl::InternalError(fmt::format("internal error: {} ({} made it); please report it with the model", fault.what, rule));
}

// Whether the runtime takes longer for the result than for the original: beyond the error of prices, or in more operators.
bool is_dearer(const OptimizeReport& report) {
  const auto count = [](const std::map<std::string, std::size_t>& operators) {
    std::size_t sum = 0;
    for (const auto& [op, times] : operators) sum += times;
    return sum;
  };
  if (report.before_at_load.empty() || !(report.cost_after > report.cost_before * (1 + 1e-6))) return false;
  return report.dearer || count(report.after_at_load) > count(report.before_at_load);
}

// The original as the result.
OptimizeResult as_it_came(const Model& model, const Task& task, OptimizeResult result) {
  OptimizeReport& report = result.report;
  result.unchanged = true;
  result.model = model;
  report.cost_after = report.cost_before;
  report.after_at_load = report.before_at_load;
  report.cost_ratio = std::nullopt, report.dearer = report.proved = false;
  report.made.clear(), report.provenance.clear(), report.unwanted.clear(), report.cut_metadata = 0;
  report.after = report.before;
  report.needs = needs_of(report.after, runtime_of(&task.target));
  return result;
}

// The stages, one after the other. Throws Stopped where the time is over.
absl::StatusOr<OptimizeResult> optimized(const Model& model, const Task& task, OptimizeResult& result) {
  const OptimizeOptions& options = task.options;
  OptimizeReport& report = result.report;
  Attempt attempt(model, task, report);
  for (;;) {
    const absl::StatusOr<std::optional<Again>> why = attempt.once();
    if (!why.ok()) return why.status();
    if (!*why) break;
    attempt.prepare(**why);
  }

  add_runs(attempt.grown(), report);
  result.stopped = !options.stop_after.empty();
  if (result.stopped) return std::move(result);
  const absl::StatusOr<bool> unchanged = decide(model, attempt, task);
  if (!unchanged.ok()) return unchanged.status();
  visit_graphs(attempt.grown(), attempt.chosen(), [&](const Grown&, const Chosen& chosen) {
    report.cost_before += chosen.selection.cost_before, report.proved = report.proved && chosen.selection.proved;
  });
  if (*unchanged) {
    note_loaded(model, model, task, report);
    return as_it_came(model, task, std::move(result));
  }
  report.cost_after = cost_of(attempt.grown(), attempt.chosen());
  visit_graphs(attempt.grown(), attempt.chosen(), [&](const Grown& grown, const Chosen& chosen) {
    note_unwanted(grown, chosen, task.target, report);
    for (const auto& [node, dispute] : grown.lowered.disputes)
      report.warnings.push_back(fmt::format("{} '{}' stays as it is: {}", node->op_type,
                                            node->name.empty() && !node->outputs.empty() ? node->outputs[0] : node->name, dispute));
    if (options.observe) options.observe({grown.where, *grown.g, grown.lowered, chosen.selection, grown.rewrites, chosen.options});
  });
  Emitted& emitted = attempt.emitted();
  report.made = std::move(emitted.made);
  report.provenance = std::move(emitted.provenance);
  report.cut_metadata = emitted.cut_metadata;
  result.model = std::move(emitted.model);
  EmitOptions same = attempt.options();
  same.names = emitted.names;
  add_experiments(attempt.grown(), attempt.chosen(), std::move(same), task, result);
  auto whole = finished(std::move(result.model), emitted.names, model, task);
  if (!whole.ok()) return whole.status();
  result.model = *std::move(whole);
  const auto unfit = writing_fault(result.model);
  if (const auto fault = unfit ? unfit : value_fault(result.model, model)) return internal_error(*fault, report);
  report.after = graph_stats(result.model);
  report.needs = needs_of(report.after, runtime_of(&task.target));
  note_loaded(model, result.model, task, report);
  const bool cost_decides = task.has_rules() && !options.decide && task.target.wishes.empty() && options.memory_slack <= 0;
  if (cost_decides && is_dearer(report) && AttemptVariants(model, attempt, task, result.model).may_stay()) {
    report.warnings.push_back("what the rules made would be dearer once the runtime has loaded it: the model is returned as it came");
    report.given_back = true;
    return as_it_came(model, task, std::move(result));
  }
  note_newer(attempt, task, report);
  note_assumed(result.model, task.rules, task.target, report);
  note_effects(task.rules, report);
  return std::move(result);
}

}  // namespace

absl::StatusOr<OptimizeResult> optimize(const Model& model, const RuleSet& rules, const Target& target, const CostModel& cost,
                                        const OptimizeOptions& given) {
  OptimizeOptions options = given;
  if (options.limits.began <= 0) options.limits.began = steady_seconds();
  OptimizeResult result;
  OptimizeReport& report = result.report;
  report.before = graph_stats(model);
  report.cost_model = cost.name();
  report.target = target.name;
  report.cost_unit = cost.unit();
  if (const auto on = cost.measured_on()) report.cost_of = beside_here(*on, target.release ? target.release->version : "");
  if (report.cost_of && report.cost_of->other_machine) report.cost_of->nearer = fitting_table(report.cost_of->here);
  report.cost_points = options.cost_points;
  warn_of_the_model(model, options, report);
  const auto evaluator = make_evaluator(folding(report.before, options));
  const OwnOperators own = own_operators(model, rules, target);
  report.warnings.insert(report.warnings.end(), own.warnings.begin(), own.warnings.end());
  const Task task{rules,
                  target,
                  cost,
                  options,
                  *evaluator,
                  own,
                  target.newest_opset_with(report.before.operators),
                  report.assumed_sizes,
                  report.seconds,
                  options.provenance || options.annotate || has_metadata(model) || names_devices(model)};

  try {
    return optimized(model, task, result);
  } catch (const Stopped&) {
    if (options.abort && *options.abort) return absl::CancelledError("interrupted");
    if (!may_return(model, task))
      return absl::DeadlineExceededError("the time was over before there was a result in the opset that was asked for");
    result.stopped = !options.stop_after.empty();
    result.report.warnings.push_back(
        "the time was over before there was a result: the model is returned as it came; --time-limit gives more");
    result.report.run.stop = StopReason::kTimeLimit;
    report.late = true;
    report.cost_before = 0;
    return as_it_came(model, task, std::move(result));
  }
}

}  // namespace saturate
