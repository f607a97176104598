#include "tools/optimize.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "egraph/explain.h"
#include "extract/extract.h"
#include "extract/forced.h"
#include "extract/sample.h"
#include "fmt/format.h"
#include "kernels/runtime.h"
#include "onnx_bridge/captures.h"
#include "onnx_bridge/io.h"
#include "onnx_bridge/lower.h"
#include "onnx_bridge/op_table.h"
#include "onnx_bridge/raise.h"
#include "rules/native_views.h"

namespace saturate {
namespace {

constexpr int kMaxBodyDepth = 16;
constexpr int kMaxRetries = 8;
// Unless another number of e-nodes is asked for, rules may make so many for each of the model's, and this many at least. The models of the
// zoo come to 5 for each on average; rules of views, which feed each other, went to 280 on a window attention, for the same result.
constexpr std::size_t kGrowth = 60, kRoom = 10'000;

class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double& total_;
  std::chrono::steady_clock::time_point start_;
};

std::string qualified(const Node& node) { return node.domain.empty() ? node.op_type : node.domain + "." + node.op_type; }

// Nodes with calls written out; each function is counted once.
class NodeCounter {
 public:
  explicit NodeCounter(const Model& model) {
    for (const Function& f : model.functions) functions_.emplace(std::tuple(f.domain, f.name, f.overload), &f);
  }

  void count(const std::vector<Node>& nodes, GraphStats& stats, int depth) {
    for (const Node& node : nodes) {
      const auto f = functions_.find(std::tuple(node.domain, node.op_type, node.overload));
      if (f != functions_.end() && depth < kMostDepth) {
        add(of(*f->second, depth + 1), stats);
        continue;
      }
      if (node.domain.empty() && node.op_type == "Constant") {
        ++stats.constants;
        continue;
      }
      ++stats.nodes;
      ++stats.operators[qualified(node)];
      const Attribute* alpha = qualified(node) == "com.microsoft.QuickGelu" ? find_attribute(node.attributes, "alpha") : nullptr;
      if (alpha && alpha->type == AttributeType::kFloat && alpha->f() == 1) ++stats.unit_quick_gelus;
      for (const Attribute& a : node.attributes)
        if (a.type == AttributeType::kGraph && depth < kMostDepth) count(a.g().nodes, stats, depth + 1);
    }
  }

 private:
  static constexpr int kMostDepth = 64;

  const GraphStats& of(const Function& f, int depth) {
    if (const auto it = counted_.find(&f); it != counted_.end()) return it->second;
    GraphStats stats;
    count(f.nodes, stats, depth);
    return counted_.emplace(&f, std::move(stats)).first->second;
  }

  static void add(const GraphStats& from, GraphStats& to) {
    to.constants += from.constants;
    to.nodes += from.nodes;
    to.unit_quick_gelus += from.unit_quick_gelus;
    for (const auto& [name, n] : from.operators) to.operators[name] += n;
  }

  std::map<std::tuple<std::string, std::string, std::string>, const Function*> functions_;
  std::unordered_map<const Function*, GraphStats> counted_;
};

bool has_bodies(const Graph& graph) {
  for (const Node& node : graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) return true;
  return false;
}

// Whether the operator takes a cache at this place: keys and values of earlier positions.
bool takes_cache(const Node& node, std::size_t place) {
  if (node.op_type == "Concat") return place == 0 && node.inputs.size() == 2;
  const auto versions = schema_versions(node.domain, node.op_type);
  if (versions.empty() || place >= versions.back()->inputs.size()) return false;
  return one_of(versions.back()->inputs[place].name, {"past_key", "past"});
}

// Names of the open dims of inputs that index a table of the model, where another input is a cache: then one position at a time is usual.
std::set<std::string> next_positions(const Model& model) {
  std::set<std::string> tables, positions, of_caches;
  std::map<std::string, const ValueInfo*> inputs;
  for (const Initializer& table : model.graph.initializers) tables.insert(table.name);
  for (const ValueInfo& input : model.graph.inputs)
    if (input.type.shape) inputs[input.name] = &input;
  const auto add_symbols = [&](const ValueInfo& input, std::set<std::string>& symbols) {
    for (const DimSpec& dim : *input.type.shape)
      if (const auto* symbol = std::get_if<std::string>(&dim)) symbols.insert(*symbol);
  };
  for (const Node& node : model.graph.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto it = inputs.find(node.inputs[i]);
      if (it == inputs.end()) continue;
      const ValueInfo& input = *it->second;
      if (node.op_type == "Gather" && i == 1 && tables.contains(node.inputs[0])) add_symbols(input, positions);
      if (takes_cache(node, i) && is_floating(input.type.dtype) && input.type.shape->size() >= 3) add_symbols(input, of_caches);
    }
  if (of_caches.empty()) return {};
  std::erase_if(positions, [&](const std::string& symbol) { return of_caches.contains(symbol); });
  return positions;
}

// Sizes for costs where the user gives none: the first axis of an input is a batch of one, another a sequence.
std::map<std::string, std::int64_t> usual_sizes(const Model& model) {
  constexpr std::int64_t kBatch = 1, kSequence = 128;
  std::map<std::string, std::int64_t> sizes;
  for (const ValueInfo& input : model.graph.inputs) {
    if (!input.type.shape) continue;
    const auto& dims = *input.type.shape;
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
      if (const auto* symbol = std::get_if<std::string>(&dims[axis])) {
        std::int64_t& size = sizes[*symbol];
        size = std::max(size, axis == 0 && dims.size() > 1 ? kBatch : kSequence);
      }
  }
  for (const std::string& symbol : next_positions(model)) sizes[symbol] = 1;
  return sizes;
}

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

// One graph, main or a body of If, Loop or Scan, from its e-graph to what was chosen of it.
struct GraphPlan {
  std::string where;  // as in Observed
  const Model* model = nullptr;
  std::unique_ptr<const Model> body_model;  // of a body: the model with the body in the place of its graph
  std::unique_ptr<OnnxEGraph> g;
  Lowered lowered;
  std::vector<Rewrite> rewrites;  // kept for `observe`
  std::vector<std::string> rule_names;
  ExtractOptions extract_options;
  Selection selection;
  std::vector<std::pair<const Graph*, std::unique_ptr<GraphPlan>>> bodies;
};

template <typename Visit>
void visit_plans(const GraphPlan& plan, Visit visit) {
  visit(plan);
  for (const auto& [graph, body] : plan.bodies) visit_plans(*body, visit);
}

class Optimizer {
 public:
  Optimizer(const RuleSet& rules, const Target& target, const CostModel& cost, const OptimizeOptions& options)
      : rules_(rules), target_(target), cost_(cost), options_(options) {}

  absl::StatusOr<OptimizeResult> run(const Model& model) {
    OptimizeResult result;
    OptimizeReport& report = result.report;
    report.before = graph_stats(model);
    newest_opset_ = target_.newest_opset_with(report.before.operators);
    evaluator_ = make_evaluator(folding(report.before));
    report.cost_model = cost_.name();
    report.target = target_.name;
    if (opset_was_assumed(model))
      report.warnings.push_back(
          fmt::format("opset_import names no version of ai.onnx: taken as the newest ({}), as ONNX Runtime does", model.opset("")));
    if (const std::vector<std::string> twice = names_of_repeated_constants(model); !twice.empty())
      report.warnings.push_back(
          fmt::format("{} value{} defined by more than one Constant, the first is '{}': the last holds, as in ONNX Runtime", twice.size(),
                      twice.size() == 1 ? " is" : "s are", twice[0]));
    warn_of_unknown_symbols(model, report);
    collect_names(model.graph, names_);
    std::unique_ptr<GraphPlan> plan;
    std::set<std::string> without;
    for (int attempt = 0;; ++attempt) {
      report.run = {};
      report.egraph_nodes = report.egraph_classes = 0;
      auto made = make_plan(model, nullptr, without, report, 0);
      if (made.ok()) {
        plan = *std::move(made);
        break;
      }
      if (unsound_rule_.empty() || attempt >= kMaxRetries || !without.insert(unsound_rule_).second) return made.status();
      report.warnings.push_back(
          fmt::format("rule {} contradicts what is known ({}) and was left out", unsound_rule_, std::string(made.status().message())));
    }
    auto written = choose_and_write(*plan, report);
    if (!written.ok()) return written.status();
    result.model = *std::move(written);
    if (has_bodies(result.model.graph)) share_initializers(result.model.graph, initializer_names(model.graph), names_);
    result.samples = std::move(samples_);
    result.egraph = std::move(egraph_);
    report.after = graph_stats(result.model);
    for (const Assumption& a : known_assumptions())
      if (a.name == "attention_not_empty" && !attends(result.model.graph))
        continue;  // ONNX Runtime's own operators, which were cheaper, take sizes of 0
      else if (OptimizeReport::Assumed assumed{std::string(a.name), applied_rules_that_assume(a.name, report.run)}; !assumed.rules.empty())
        report.assumed.push_back(std::move(assumed));
    return result;
  }

 private:
  // Whether the standard's Attention is there, or in a body.
  static bool attends(const Graph& graph) {
    const auto in_body = [](const Attribute& a) { return a.type == AttributeType::kGraph && attends(a.g()); };
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
      return (n.domain.empty() && n.op_type == "Attention") || std::any_of(n.attributes.begin(), n.attributes.end(), in_body);
    });
  }

  EvaluatorOptions folding(const GraphStats& model) const {
    constexpr std::size_t kFoldingMemory = std::size_t{256} << 20;
    const std::size_t usual = std::max<std::size_t>(kFoldingMemory, 4 * model.parameter_bytes);
    return {.memory = std::min(usual, options_.max_memory.value_or(usual)),
            .seconds = std::max(1.0, options_.limits.seconds),
            .cancel = options_.abort};
  }

  void warn_of_unknown_symbols(const Model& model, OptimizeReport& report) const {
    if (options_.cost_symbols.empty()) return;
    const auto known = usual_sizes(model);
    for (const std::string& name : options_.cost_symbols) {
      const auto has = [&](const auto& symbol) { return symbol.first.find(name) != std::string::npos; };  // "past + 1" has past
      if (std::any_of(known.begin(), known.end(), has)) continue;
      std::string names;
      for (const auto& [symbol, size] : known) names += fmt::format("{}{}", names.empty() ? "" : ", ", symbol);
      report.warnings.push_back(fmt::format("--cost-at {}: no input has a dim of this name; {}", name,
                                            names.empty() ? "all sizes of the model's inputs are numbers" : "there are " + names));
    }
  }

  std::vector<std::string> applied_rules_that_assume(std::string_view assumption, const RunReport& run) const {
    const auto assumes = [&](const auto& rule) { return std::find(rule.assumes.begin(), rule.assumes.end(), assumption) != rule.assumes.end(); };
    std::set<std::string_view> assuming;
    for (const auto& rule : rules_.stored())
      if (assumes(rule->head())) assuming.insert(rule->head().name);
    for (const NativeRule& rule : rules_.native_rules())
      if (assumes(rule)) assuming.insert(rule.name);
    std::vector<std::string> names;
    for (const RuleStats& stats : run.rules) {
      if (stats.applied == 0) continue;
      const std::string_view name = rule_of_rewrite(stats.name);
      const bool listed = std::find(names.begin(), names.end(), name) != names.end();  // in another form of it
      if (!listed && assuming.contains(name)) names.emplace_back(name);
    }
    return names;
  }

  // Lowers and saturates a graph and its bodies; `outside` is the plan of the graph around a body.
  absl::StatusOr<std::unique_ptr<GraphPlan>> make_plan(const Model& model, const GraphPlan* outside, const std::set<std::string>& without,
                                                  OptimizeReport& report, int depth) {
    auto plan = std::make_unique<GraphPlan>();
    plan->model = &model;
    plan->g = std::make_unique<OnnxEGraph>(*evaluator_);
    OnnxEGraph& g = *plan->g;
    if (options_.observe) record_explanations(g.egraph());
    rules_.define_operators(g);
    LowerOptions lower_options;
    if (outside) lower_options.captured = capture(model.graph, *outside->g, outside->lowered, g.dims());
    progress("lower");
    {
      Stopwatch watch(report.seconds["lower"]);
      g.pass_over_empty_tensors();
      auto lowered = lower(model, g, lower_options);
      if (!lowered.ok()) return lowered.status();
      plan->lowered = *std::move(lowered);
    }
    if (auto s = saturate(*plan, without, report); !s.ok()) return s;
    report.egraph_nodes += g.egraph().num_nodes();
    report.egraph_classes += g.egraph().num_classes();
    if (has_rules() && depth < kMaxBodyDepth && has_bodies(model.graph))
      if (auto s = plan_bodies(*plan, without, report, depth); !s.ok()) return s;
    return plan;
  }

  // Whether the target takes an operator at all, in some opset that the result may have.
  bool takes(const RuleOp& n, std::int64_t limit) const {
    OpKey key;
    key.domain = n.domain;
    key.op_type = n.op_type;
    return (!n.domain.empty() || find_schema("", n.op_type, limit)) && target_.allows({.key = key, .highest_opset = limit});
  }

  static bool holds(const std::vector<Node>& nodes, const RuleOp& n) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return node.domain == n.domain && node.op_type == n.op_type; });
  }

  // Whether a model may need an operator step by step: the target does not take it, or it is of another domain than the standard's, from a
  // runtime's own optimizer, and rules start from the standard's operators.
  bool not_taken(const RuleHead& rule, const Model& model, std::int64_t limit) const {
    const RuleOp& n = rule.ends_in;
    return rule.unless_taken && (!takes(n, limit) || (!n.domain.empty() && holds(model.graph.nodes, n)));
  }

  // Whether the model holds something to take apart. Else rules would only take apart what others have put together.
  bool holds_what_to_take_apart(const Model& model, std::int64_t limit) const {
    return std::any_of(rules_.stored().begin(), rules_.stored().end(), [&](const auto& stored) {
      const RuleHead& rule = stored->head();
      const auto calls = [&](const Function& f) { return holds(f.nodes, rule.ends_in); };
      return not_taken(rule, model, limit) &&
             (holds(model.graph.nodes, rule.ends_in) || std::any_of(model.functions.begin(), model.functions.end(), calls));
    });
  }

  // The highest opset of ai.onnx that the result may have.
  std::int64_t opset_limit(const Model& model) const {
    if (options_.opset) return *options_.opset;
    if (options_.keep_opset) return model.opset("");
    return opset_was_assumed(model) ? target_.max_opset : std::max(model.opset(""), newest_opset_);
  }

  absl::Status saturate(GraphPlan& plan, const std::set<std::string>& without, OptimizeReport& report) {
    progress("saturate");
    Stopwatch watch(report.seconds["saturate"]);
    OnnxEGraph& g = *plan.g;
    const std::int64_t limit = opset_limit(*plan.model);
    const bool apart = holds_what_to_take_apart(*plan.model, limit);
    const auto wanted = [&](const RuleHead& rule) {
      return !rule.unless_taken || (not_taken(rule, *plan.model, limit) && (apart || !rule.takes_apart));
    };
    const bool looked_at = options_.instrument || options_.observe;  // by others, as a whole
    std::vector<Rewrite> rewrites = looked_at ? rules_.compile(g, nullptr, wanted) : rules_.compile_when_wanted(g, wanted);
    std::erase_if(rewrites, [&](const Rewrite& r) {
      return without.contains(r.name) || options_.left_out.contains(std::string(rule_of_rewrite(r.name)));
    });
    if (options_.instrument) options_.instrument(rewrites);
    RunOptions run_options;
    run_options.limits = options_.limits;
    const std::size_t own = g.egraph().num_nodes();
    if (options_.limits.nodes == Limits{}.nodes) run_options.limits.nodes = std::min(Limits{}.nodes, std::max(kRoom, kGrowth * own));
    run_options.limits.nodes += own;
    if (options_.progress) run_options.on_iteration = [this](const IterationStats& i) { options_.progress("saturate", &i); };
    RunReport run_report = ::saturate::run(g.egraph(), rewrites, run_options);
    const bool contradiction = run_report.stop == StopReason::kContradiction;
    add_run(report.run, std::move(run_report));
    for (const Rewrite& r : rewrites) plan.rule_names.push_back(r.name);
    unsound_rule_.clear();
    if (!contradiction) {
      if (!rewrites.empty()) close(plan);
      if (options_.observe) plan.rewrites = std::move(rewrites);
      return absl::OkStatus();
    }
    const auto& c = g.egraph().contradiction();
    unsound_rule_ = c ? c->rule : "";
    return absl::InternalError(fmt::format("contradiction: {}{}", c ? c->what : "unknown",
                                           unsound_rule_.empty() ? "" : ", brought together by rule " + unsound_rule_));
  }

  // Rules that look at the whole graph, once, when all others are done. Each tells what it made under its name.
  void close(GraphPlan& plan) {
    const auto apply = [&](std::string_view name, const auto& rule) {
      plan.g->egraph().set_maker(static_cast<std::uint32_t>(plan.rule_names.size()));
      plan.rule_names.emplace_back(name);
      rule(*plan.g);
      plan.g->egraph().set_maker(kNone);
    };
    apply("spell_reshapes", [](OnnxEGraph& g) { spell_reshapes(g); });
    apply("spell_literals", [](OnnxEGraph& g) { spell_literals(g); });
    apply("sum_for_add", [&](OnnxEGraph& g) { add_sums_for_adds(g, plan.lowered, target_); });
  }

  // Bodies of If, Loop and Scan, each an e-graph of its own that knows the facts of what it captures.
  absl::Status plan_bodies(GraphPlan& plan, const std::set<std::string>& without, OptimizeReport& report, int depth) {
    for (const Node& node : plan.model->graph.nodes)
      for (const Attribute& a : node.attributes) {
        if (a.type != AttributeType::kGraph) continue;
        auto model = std::make_unique<Model>(model_of_body(*plan.model, a.g()));
        auto body = make_plan(*model, &plan, without, report, depth + 1);
        if (!body.ok()) {
          if (!unsound_rule_.empty()) return body.status();
          continue;  // a body that cannot be lowered stays as it is
        }
        (*body)->body_model = std::move(model);
        (*body)->where = fmt::format("{} of '{}'{}", a.name, node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name,
                                     plan.where.empty() ? "" : " in " + plan.where);
        plan.bodies.emplace_back(&a.g(), *std::move(body));
      }
    return absl::OkStatus();
  }

  // All graphs of a model have one opset: first the highest that any of them wants, below the limit; where something cannot follow it, the
  // given one.
  absl::StatusOr<Model> choose_and_write(GraphPlan& plan, OptimizeReport& report) {
    const std::int64_t given = plan.model->opset("");
    const std::unordered_set<std::string> names = names_;
    for (std::int64_t limit = opset_limit(*plan.model);; limit = given) {
      report.cost_before = report.cost_after = 0;
      if (auto s = choose(plan, limit, {}, report); !s.ok()) return s;
      Writing writing{options_.opset, limit, {}, {}};
      if (opset_was_assumed(*plan.model) && limit != given) writing.opset = limit;
      auto written = write(plan, writing, report);
      if (written.ok() && writing.opsets.size() > 1) {
        names_ = names;
        writing = {*writing.opsets.rbegin(), limit, {}, {}};
        written = write(plan, writing, report);
      }
      if (!written.ok() && limit != given && !options_.opset) {
        names_ = names;
        continue;
      }
      if (!written.ok()) return written.status();
      report.made = std::move(writing.made);
      if (options_.dump_egraph || options_.samples > 0) add_experiments(plan, writing, report);
      if (options_.observe)
        visit_plans(plan, [&](const GraphPlan& p) { options_.observe({p.where, *p.g, p.lowered, p.selection, p.rewrites, p.extract_options}); });
      return written;
    }
  }

  // Chooses what stands for each class, in a graph and its bodies; `sizes` are the usual ones of the graphs around it.
  absl::Status choose(GraphPlan& plan, std::int64_t limit, std::map<std::string, std::int64_t> sizes, OptimizeReport& report) {
    sizes.merge(usual_sizes(*plan.model));
    ExtractOptions& options = plan.extract_options;
    options.extractor = options_.extractor;
    options.memory_slack = options_.memory_slack;
    options.usual_sizes = sizes;
    options.opset_limit = limit;
    options.lowers_opset = limit < plan.model->opset("");
    progress("extract");
    if (auto s = choose_graph(plan, report); !s.ok()) return s;
    for (auto& [graph, body] : plan.bodies)
      if (auto s = choose(*body, limit, sizes, report); !s.ok()) return s;
    return absl::OkStatus();
  }

  absl::Status choose_graph(GraphPlan& plan, OptimizeReport& report) {
    const Stopwatch watch(report.seconds["extract"]);
    const OnnxEGraph& g = *plan.g;
    ExtractOptions& options = plan.extract_options;
    options.asked = std::make_shared<AskedOfNodes>();
    for (int attempt = 0;; ++attempt) {
      auto selection =
          has_rules() ? extract(g, plan.lowered, target_, cost_, options) : original_selection(g, plan.lowered, &target_, cost_, options);
      if (!selection.ok()) return selection.status();
      plan.selection = *std::move(selection);
      if (!ban_folds(g, plan.selection, options) || attempt >= kMaxRetries) break;
    }
    report.cost_after += plan.selection.cost;
    report.cost_before += plan.selection.cost_before;
    options.asked = nullptr;
    return absl::OkStatus();
  }

  // One pass of writing all graphs of a plan.
  struct Writing {
    std::optional<std::int64_t> opset;  // of all graphs; nullopt: each the lowest that expresses it
    std::int64_t limit = 0;
    std::set<std::int64_t> opsets;  // that were written
    std::vector<OptimizeReport::Made> made;
  };

  RaiseOptions raise_options(const Writing& writing) {
    RaiseOptions options;
    options.opset = writing.opset;
    options.max_opset = writing.limit;
    options.reserved = &names_;
    return options;
  }

  absl::StatusOr<Model> write(const GraphPlan& plan, Writing& writing, OptimizeReport& report) {
    RaiseOptions options = raise_options(writing);
    if (auto s = write_bodies(plan, writing, options, report); !s.ok()) return s;
    std::vector<MadeNode> made;
    options.made = &made;
    progress("raise");
    Stopwatch watch(report.seconds["raise"]);
    auto raised = raise(*plan.g, plan.lowered, plan.selection, options);
    if (!raised.ok()) return raised.status();
    note_made(plan, made, writing.made);
    writing.opsets.insert(raised->opset(""));
    return raised;
  }

  absl::Status write_bodies(const GraphPlan& plan, Writing& writing, RaiseOptions& options, OptimizeReport& report) {
    for (const auto& [graph, body] : plan.bodies) {
      auto written = write(*body, writing, report);
      if (!written.ok()) return written.status();
      options.body_imports.insert(written->opset_imports.begin(), written->opset_imports.end());
      options.bodies[graph] = std::make_shared<Graph>(std::move(written->graph));
    }
    return absl::OkStatus();
  }

  // What experiments with costs ask for: other graphs of the main graph's e-graph, and that e-graph itself.
  void add_experiments(const GraphPlan& plan, Writing writing, OptimizeReport& report) {
    const OnnxEGraph& g = *plan.g;
    if (options_.dump_egraph) egraph_ = problem_json(g, onnx_problem(g, plan.lowered, &target_, cost_, plan.extract_options));
    RaiseOptions options = raise_options(writing);
    if (options_.samples == 0 || !write_bodies(plan, writing, options, report).ok()) return;
    for (const Selection& s :
         sample_selections(g, plan.lowered, target_, cost_, plan.extract_options, plan.selection, options_.samples, options_.sample_seed)) {
      const auto known = [&](Id id) { return !s.by_class[id].folded || g.value(id, ~std::size_t{0}).has_value(); };
      bool foldable = true;
      for (Id id = 0; id < s.by_class.size() && foldable; ++id) foldable = known(id);
      if (!foldable) continue;
      if (auto raised = raise(g, plan.lowered, s, options); raised.ok()) samples_.push_back({*std::move(raised), s.cost});
    }
  }

  // Folded classes whose value cannot be computed here; true if there are any.
  bool ban_folds(const OnnxEGraph& g, const Selection& selection, ExtractOptions& extract_options) const {
    bool banned = false;
    for (Id id = 0; id < selection.by_class.size(); ++id)
      if (selection.by_class[id].folded && !g.value(id, ~std::size_t{0})) banned = extract_options.not_foldable.insert(id).second || banned;
    return banned;
  }

  static void note_made(const GraphPlan& plan, const std::vector<MadeNode>& nodes, std::vector<OptimizeReport::Made>& made) {
    for (const MadeNode& m : nodes) {
      const std::uint32_t rule = plan.g->egraph().made_by(m.node);
      made.push_back({m.op_type, m.output, rule < plan.rule_names.size() ? plan.rule_names[rule] : ""});
    }
  }

  // Without rules every node is written back as it came: no folding either.
  bool has_rules() const { return !rules_.rules().empty() || !rules_.native_rules().empty(); }

  void progress(const char* stage) const {
    if (options_.progress) options_.progress(stage, nullptr);
  }

  const RuleSet& rules_;
  const Target& target_;
  std::int64_t newest_opset_ = 0;  // that the target takes the model's operators in
  const CostModel& cost_;
  const OptimizeOptions& options_;
  std::unique_ptr<Evaluator> evaluator_;
  std::string unsound_rule_;
  std::vector<OptimizeResult::Sample> samples_;
  std::string egraph_;
  std::unordered_set<std::string> names_;  // of the whole model: scopes are nested, so new names differ from all
};

}  // namespace

GraphStats graph_stats(const Model& model) {
  GraphStats stats;
  stats.opset = model.opset("");
  stats.initializers = model.graph.initializers.size();
  for (const Initializer& i : model.graph.initializers) {
    stats.parameters += static_cast<std::uint64_t>(std::max<std::int64_t>(i.tensor.size(), 0));
    stats.parameter_bytes += i.tensor.bytes().size();
  }
  NodeCounter(model).count(model.graph.nodes, stats, 0);
  return stats;
}

absl::StatusOr<OptimizeResult> optimize(const Model& model, const RuleSet& rules, const Target& target, const CostModel& cost,
                                        const OptimizeOptions& options) {
  return Optimizer(rules, target, cost, options).run(model);
}

}  // namespace saturate
