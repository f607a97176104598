#include <algorithm>

#include "egraph/explain.h"
#include "egraph/stop.h"
#include "extract/onnx_problem.h"
#include "extract/optimize/stages.h"
#include "extract/target/load_fusions.h"
#include "extract/units/kept_quantizers.h"
#include "extract/units/load_time_fusions.h"
#include "extract/units/node_units.h"
#include "fmt/format.h"
#include "kernels/verify/verify.h"
#include "onnx_bridge/convert/body_facts.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/function_index.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

// Which rules a model needs.
class Wanted {
 public:
  Wanted(const Grown& graph, const Task& task)
      : model_(*graph.model), task_(task), limit_(opset_limit(model_, task)), apart_(holds_what_to_take_apart()) {
    if (graph.g->refusals() != nullptr && graph.g->refusals()->of_any_operator()) look_at(*graph.g);
  }

  bool operator()(const RuleHead& rule) const {
    if (!rule.yields_to.empty() && is_in(rule.yields_to)) return false;
    if (task_.own.leaves_out(rule)) return false;
    if (looked_ && leads_nowhere(rule)) return false;
    if (rule.moves_quantizers && keeps_quantizers(task_)) return false;
    if (rule.if_lacking && stands_in_by_what_is_lacking(rule)) return false;
    return !rule.if_unsupported || (not_taken(rule) && (apart_ || !rule.if_any_unsupported)) ||
           (!rule.if_lacking && is_limited(rule.ends_in));
  }
  // A rule in C++ that makes one operator alone.
  bool operator()(const NativeRule& rule) const { return rule.makes.op_type.empty() || takes(rule.makes); }

 private:
  bool is_in(std::string_view name) const {
    const auto named = [&](const auto& stored) { return law_of(stored->head().name) == name; };
    return std::any_of(task_.rules.stored().begin(), task_.rules.stored().end(), named);
  }

  bool takes(const RuleOp& n) const { return saturate::takes(task_.target, n, limit_); }

  // Of another domain's operators in the place of the standard's: whether the target lacks these, too.
  bool stands_in_by_what_is_lacking(const RuleHead& rule) const {
    const auto lacks = [this](const RuleOp& n) { return !n.domain.empty() && n.domain != kInternalDomain && !takes(n); };
    return rule.ends_in.domain.empty() && std::any_of(rule.directions.begin(), rule.directions.end(), [&](const RuleDirection& d) {
             return std::any_of(d.makes.begin(), d.makes.end(), lacks);
           });
  }

  // Whether a model may need an operator step by step: the target does not take it, or it is of another domain than the standard's, from a
  // runtime's own optimizer, and rules start from the standard's operators.
  bool not_taken(const RuleHead& rule) const {
    const RuleOp& n = rule.ends_in;
    return rule.if_unsupported && (!takes(n) || (!rule.if_lacking && !n.domain.empty() && holds(model_.graph.nodes, n)));
  }

  // Whether the model holds something to take apart. Otherwise decompositions would undo fusions.
  bool holds_what_to_take_apart() const {
    return std::any_of(task_.rules.stored().begin(), task_.rules.stored().end(), [&](const auto& stored) {
      const RuleHead& rule = stored->head();
      const auto calls = [&](const Function& f) { return holds(f.nodes, rule.ends_in); };
      return not_taken(rule) &&
             (holds(model_.graph.nodes, rule.ends_in) || std::any_of(model_.functions.begin(), model_.functions.end(), calls));
    });
  }

  // Of a target that refuses operators for their places, much is made of a model beside what it holds: so no more than may be chosen.
  // What is refused wherever it stands, and what rules make of it that is refused, is to be taken apart; what others make is not, for that
  // leads back alone. Nor are operators made of a domain that neither the model nor the target has.
  void look_at(const OnnxEGraph& g) {
    looked_ = true;
    for (const Id id : g.egraph().classes())
      for (const NodeId n : g.egraph().class_nodes(id)) {
        const OpKey& key = g.key(g.egraph().node(n).op);
        domains_.insert(key.domain);
        if (key.domain != "#") add_refused({key.domain, key.op_type});
      }
    for (const auto& [domain, operators] : task_.target.operators) domains_.insert(domain);
    domains_.insert("");
    for (bool grows = true; grows;) {
      const std::size_t before = refused_.size();
      for (const auto& stored : task_.rules.stored())
        for (const RuleDirection& d : stored->head().directions)
          if (!d.wants.empty() && (is_refused(d.wants.back()) || (stored->head().if_unsupported && is_limited(d.wants.back()))))
            for (const RuleOp& made : d.makes) add_refused(made);
      grows = refused_.size() > before;
    }
  }

  // Whether the target takes an operator of the standard at some places alone.
  bool is_limited(const RuleOp& n) const { return n.domain.empty() && task_.target.limits_by_place(std::string(n.op_type)); }

  void add_refused(const RuleOp& n) {
    if (!is_refused(n) && !takes(n)) refused_.emplace(n.domain, n.op_type);
  }
  bool is_refused(const RuleOp& n) const { return refused_.contains({std::string(n.domain), std::string(n.op_type)}); }

  bool leads_nowhere(const RuleHead& rule) const {
    if (rule.if_unsupported && !is_refused(rule.ends_in) && !takes(rule.ends_in)) return true;
    const auto foreign = [this](const RuleOp& n) {
      return n.domain != kInternalDomain && !domains_.contains(std::string(n.domain)) &&
             !task_.rules.operators().bodies(n.domain, n.op_type);
    };
    return std::any_of(rule.directions.begin(), rule.directions.end(),
                       [&](const RuleDirection& d) { return std::any_of(d.makes.begin(), d.makes.end(), foreign); });
  }

  static constexpr std::string_view kInternalDomain = "saturate";  // of operators between rules
  const Model& model_;
  const Task& task_;
  std::int64_t limit_;
  bool apart_, looked_ = false;
  std::set<std::pair<std::string, std::string>> refused_;
  std::set<std::string> domains_;
};

std::vector<Rewrite> rewrites_for(Grown& graph, const std::set<std::string>& without, const Task& task) {
  const Wanted wanted(graph, task);
  const OptimizeOptions& options = task.options;
  const bool looked_at = options.instrument || options.observes_all();  // by others, as a whole
  std::vector<Rewrite> rewrites =
      looked_at ? task.rules.compile(*graph.g, nullptr, wanted) : task.rules.compile_when_wanted(*graph.g, wanted);
  std::set<std::string, std::less<>> useless;
  for (const NativeRule& rule : task.rules.native_rules())
    if (!wanted(rule)) useless.insert(rule.name);
  if (!without.empty() || !options.left_out.empty() || !useless.empty())
    std::erase_if(rewrites, [&](const Rewrite& r) {
      return without.contains(r.name) || useless.contains(r.name) || options.left_out.contains(std::string(rule_of_rewrite(r.name)));
    });
  if (options.instrument) options.instrument(rewrites);
  return rewrites;
}

bool is_over(double deadline) { return deadline < kNoDeadline && steady_seconds() >= deadline; }

RunOptions run_options(const EGraph& egraph, const Task& task) {
  const OptimizeOptions& options = task.options;
  RunOptions out;
  const Budgets& given = options.limits;
  out.limits = limits_of(given, egraph);
  if (given.seconds) out.limits.seconds = std::clamp(time_given(given).rewriting - steady_seconds(), 0.0, *given.seconds);
  if (options.progress) out.on_iteration = [&options](const IterationStats& i) { options.progress("saturate", &i); };
  return out;
}

// Rules that look at the whole graph, once, when all others are done. Each tells what it made under its name.
void close(Grown& graph, const Task& task) {
  const auto apply = [&](std::string_view name, const auto& rule) {
    graph.g->egraph().set_maker(static_cast<std::uint32_t>(graph.rule_names.size()));
    graph.rule_names.emplace_back(name);
    rule(*graph.g);
    graph.g->egraph().set_maker(kNone);
  };
  apply("spell_reshapes", [](OnnxEGraph& g) { spell_reshapes(g); });
  apply("spell_literals", [](OnnxEGraph& g) { spell_literals(g); });
  apply("sum_for_add", [&](OnnxEGraph& g) { add_sums_for_adds(g, graph.lowered, task.target); });
  apply("fused_conv_for_conv", [&](OnnxEGraph& g) { add_fused_convs_for_convs(g, task.target); });
  apply("node_unit", [&](OnnxEGraph& g) {
    add_node_units(g, graph.lowered, task.target);
    if (keeps_quantizers(task) && task.target.node_units.empty()) add_kept_units(g, graph.lowered);
  });
  apply("load_fusion", [&](OnnxEGraph& g) {
    if (prices_fusions(task.cost)) add_load_fusions(g, task.target);
  });
}

std::optional<Contradicted> saturate(Grown& graph, const std::set<std::string>& without, const Task& task) {
  task.progress("saturate");
  const StageTimer timer(task, "saturate");
  EGraph& egraph = graph.g->egraph();
  std::vector<Rewrite> rewrites = rewrites_for(graph, without, task);
  graph.run = ::saturate::run(egraph, rewrites, run_options(egraph, task));
  const bool kept = task.options.observes_all();
  graph.rule_names.reserve(rewrites.size() + 6);
  for (Rewrite& r : rewrites) graph.rule_names.push_back(kept ? r.name : std::move(r.name));
  if (graph.run.stop == StopReason::kContradiction) {
    const auto& c = egraph.contradiction();
    return Contradicted{c ? c->rule : "", c ? c->what : "unknown"};
  }
  const StageBound bound(task);
  if (!rewrites.empty()) close(graph, task);
  if (kept) graph.rewrites = std::move(rewrites);
  return std::nullopt;
}

// A graph and its bodies, depth first.
class Grower {
 public:
  Grower(const std::set<std::string>& without, const Task& task) : without_(without), task_(task) {}

  // The graph around a body, and the node of it that has the body.
  struct Around {
    const Grown* graph = nullptr;
    const Node* node = nullptr;
  };
  // Adds what runs once the target's runtime has loaded the graph as it is, and its bodies once each. `share`: of runs, for the price.
  absl::Status load(const Model& model, Around outside, std::map<std::string, std::int64_t> sizes, int depth, double share,
                    AtLoad& sum) const {
    Grown graph;
    graph.model = &model;
    if (auto s = lowered(graph, outside); !s.ok()) return s;
    if (depth > 0) sizes.merge(numbers_of(sizes_of_table(model)));
    const absl::StatusOr<AtLoad> made = loaded_graph(graph, sizes);
    if (!made.ok()) return made.status();
    const AtLoad& loaded = *made;
    sum.price += loaded.price * share;
    for (const auto& [op, count] : loaded.operators) sum.operators[op] += count;
    for (const auto& [family, cost] : loaded.cost) sum.cost[family] += cost * share;
    for (const Node& node : model.graph.nodes)
      for (const Attribute& a : node.attributes) {
        if (a.type != AttributeType::kGraph || depth >= kMaxBodyDepth || bodies_++ >= kMostBodies) continue;
        const auto taken = loaded.taken.find(&node);
        if (taken != loaded.taken.end() && taken->second != (a.name == "then_branch")) continue;
        const bool either = node.op_type == "If" && taken == loaded.taken.end();
        const Model body = model_of_body(model, a.g());
        (void)load(body, {&graph, &node}, sizes, depth + 1, either ? share / 2 : share, sum);  // one that cannot be lowered has no price
      }
    return absl::OkStatus();
  }

  // Calls hold what they run: that is chosen in the e-graph.
  absl::StatusOr<AtLoad> loaded_graph(const Grown& graph, const std::map<std::string, std::int64_t>& sizes) const {
    OnnxEGraph& g = *graph.g;
    const FunctionIndex functions(graph.model->functions);
    const auto calls = [&](const Node& node) { return functions.called(node) != nullptr; };
    if (std::ranges::none_of(graph.model->graph.nodes, calls)) return load_as_it_is(g, graph.lowered, task_.target, task_.cost, sizes);
    add_node_units(g, graph.lowered, task_.target);
    if (prices_fusions(task_.cost)) add_load_fusions(g, task_.target);
    ExtractOptions options;
    options.usual_sizes = sizes;
    options.opset_limit = graph.model->opset("");
    const OnnxProblem problem = onnx_problem(g, graph.lowered, &task_.target, task_.cost, options);
    const auto choice = original_choice(g, graph.lowered, problem, true);
    if (!choice.ok()) return choice.status();
    const std::unique_ptr<CostModel> prepared = task_.cost.for_graph(g, sizes);
    return at_load(g, &task_.target, problem, *choice, prepared ? prepared.get() : &task_.cost);
  }

  absl::StatusOr<GrowResult> run(const Model& model, Around outside, int depth, std::string where = "") const {
    auto graph = std::make_unique<Grown>();
    graph->model = &model;
    graph->where = std::move(where);
    task_.progress("lower");
    if (auto s = lowered(*graph, outside); !s.ok()) return s;
    const auto& points = task_.options.cost_points;
    if (depth == 0) task_.sizes = assumed_sizes(model, *graph->g, graph->lowered, points.empty() ? CostPoint().symbols : points[0].symbols);
    tell(*graph, "lower");
    if (task_.options.stop_after == "lower") return GrowResult(std::move(graph));
    if (auto c = saturate(*graph, without_, task_)) return GrowResult(*std::move(c));
    tell(*graph, "saturate");
    if (!task_.has_rules() || depth >= kMaxBodyDepth) return GrowResult(std::move(graph));
    for (const Node& node : model.graph.nodes)
      for (const Attribute& a : node.attributes)
        if (a.type == AttributeType::kGraph && bodies_++ < kMostBodies && !is_late(*graph))
          if (auto c = add_body(*graph, node, a, depth)) return GrowResult(*std::move(c));
    return GrowResult(std::move(graph));
  }

 private:
  // Then bodies stay as they are.
  bool is_late(Grown& graph) const {
    if (!is_over(time_given(task_.options.limits).rewriting)) return false;
    graph.run.stop = StopReason::kTimeLimit;
    return true;
  }

  void tell(const Grown& graph, std::string_view stage) const {
    if (task_.options.after_stage) task_.options.after_stage({stage, graph.where, *graph.g, graph.lowered});
  }

  absl::Status lowered(Grown& graph, Around outside) const {
    const StageTimer timer(task_, "lower");
    const StageBound bound(task_);
    const auto new_graph = [this] {
      auto g = std::make_unique<OnnxEGraph>(task_.evaluator);
      task_.rules.define_operators(*g);
      return g;
    };
    graph.g = new_graph();
    if (task_.options.observes_all() || task_.options.reasons) record_explanations(graph.g->egraph());
    LowerOptions options;
    options.named = task_.own.named;
    options.kept = task_.own.kept;
    if (outside.graph) {
      const Grown& around = *outside.graph;
      const BodyLowering as_here{new_graph, options};
      options.captured = capture(graph.model->graph, *around.g, around.lowered, graph.g->dims());
      options.inputs = body_input_facts(*outside.node, *graph.model, *around.g, around.lowered, as_here, graph.g->dims());
    }
    graph.g->pass_over_empty_tensors();
    graph.g->refuse_by(refusals_of(task_.target, opset_limit(*graph.model, task_)));
    auto made = lower(*graph.model, *graph.g, options);
    if (!made.ok()) return made.status();
    graph.lowered = *std::move(made);
    return absl::OkStatus();
  }

  // A body that cannot be lowered stays as it is.
  std::optional<Contradicted> add_body(Grown& graph, const Node& node, const Attribute& a, int depth) const {
    auto model = std::make_unique<Model>(model_of_body(*graph.model, a.g()));
    std::string where = fmt::format("{} of '{}'{}", a.name, node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name,
                                    graph.where.empty() ? "" : " in " + graph.where);
    auto made = run(*model, {&graph, &node}, depth + 1, std::move(where));
    if (!made.ok()) return std::nullopt;
    if (auto* contradiction = std::get_if<Contradicted>(&*made))
      return contradiction->rule.empty() ? std::nullopt : std::optional(std::move(*contradiction));
    auto body = std::get<std::unique_ptr<Grown>>(*std::move(made));
    body->body_model = std::move(model);
    graph.bodies.emplace_back(&a.g(), std::move(body));
    return std::nullopt;
  }

  const std::set<std::string>& without_;
  const Task& task_;
  mutable std::size_t bodies_ = 0;  // begun so far
};

}  // namespace

void Task::progress(const char* stage) const {
  if (options.progress) options.progress(stage, nullptr);
}

StageTimer::StageTimer(const Task& task, const std::string& stage) : total_(task.seconds[stage]), start_(steady_seconds()) {}
StageTimer::~StageTimer() { total_ += steady_seconds() - start_; }

namespace {

StopSign sign_of_stages(const Task& task) {
  Budgets given = task.options.limits;
  if (task.variant) given.began = steady_seconds();
  return {task.options.abort, time_given(given).stages};
}

}  // namespace

StageBound::StageBound(const Task& task) : sign_(sign_of_stages(task)), scope_(sign_.set() ? &sign_ : nullptr) {}

bool may_return(const Model& model, const Task& task) {
  return task.options.opset.value_or(model.opset("")) == model.opset("") && opset_limit(model, task) >= model.opset("");
}

std::int64_t opset_limit(const Model& model, const Task& task) {
  if (task.options.opset) return *task.options.opset;
  if (task.options.keep_opset || !task.own.kept.empty()) return model.opset("");
  const std::int64_t highest = task.target.highest_opset();
  const bool too_new = task.has_rules() && task.target.release && model.opset("") > task.target.release->opset;
  if (opset_was_assumed(model) || too_new) return highest;
  return std::max(model.opset(""), task.newest_opset);
}

TimeGiven time_given(const Budgets& budgets) {
  constexpr double kLeast = 1;  // of a run: less than that bounds rewriting alone
  constexpr double kRewriting = 0.5, kStages = 0.75, kTold = 0.85;
  if (!budgets.seconds) return {};
  const double began = budgets.began > 0 ? budgets.began : steady_seconds(), whole = std::max(kLeast, *budgets.seconds);
  return {began + kRewriting * whole, began + kStages * whole, began + kTold * whole, began + whole, began + whole + kTimeOfJudges};
}

Limits limits_of(const Budgets& given, const EGraph& egraph) {
  Limits out;
  const std::size_t own = egraph.num_nodes();
  out.iterations = given.iterations;
  out.nodes = own + given.nodes.value_or(std::clamp(kNodesPerNode * own, kLeastNodes, kMostNodes));
  out.memory_bytes = given.memory_bytes.value_or(out.memory_bytes);
  out.seconds = given.seconds.value_or(kSecondsOfRewriting);
  out.threads = given.threads;
  out.cancel = given.cancel;
  return out;
}

absl::StatusOr<GrowResult> grow(const Model& model, const std::set<std::string>& without, const Task& task) {
  return Grower(without, task).run(model, {}, 0);
}

absl::StatusOr<AtLoad> load(const Model& model, const Task& task) {
  AtLoad sum;
  if (auto s = Grower({}, task).load(model, {}, numbers_of(task.sizes), 0, 1, sum); !s.ok()) return s;
  return sum;
}

}  // namespace saturate
