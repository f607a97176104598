#include "tools/optimize.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <unordered_map>

#include "egraph/explain.h"
#include "extract/extract.h"
#include "extract/forced.h"
#include "extract/sample.h"
#include "fmt/format.h"
#include "kernels/runtime.h"
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

void count(const std::vector<Node>& nodes, const Model& model, GraphStats& stats, int depth) {
  for (const Node& node : nodes) {
    auto f = std::find_if(model.functions.begin(), model.functions.end(), [&](const Function& f) {
      return f.domain == node.domain && f.name == node.op_type && f.overload == node.overload;
    });
    if (f != model.functions.end() && depth < 64) {
      count(f->nodes, model, stats, depth + 1);
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
      if (a.type == AttributeType::kGraph && depth < 64) count(a.g().nodes, model, stats, depth + 1);
  }
}

bool has_bodies(const Graph& graph) {
  for (const Node& node : graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) return true;
  return false;
}

// Of a rule that reads both ways, `name.back` is the other way.
std::string_view base_name(std::string_view rule) { return rule.substr(0, rule.find('.')); }

// Whether the operator takes a cache at this place: keys and values of earlier positions.
bool takes_cache(const Node& node, std::size_t place) {
  if (node.op_type == "Concat") return place == 0 && node.inputs.size() == 2;
  return (node.op_type == "Attention" && place == 4) || (node.op_type == "MultiHeadAttention" && place == 6) ||
         (node.op_type == "GroupQueryAttention" && place == 3);
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

class Optimizer {
 public:
  Optimizer(const RuleSet& rules, const Target& target, const CostModel& cost, const OptimizeOptions& options)
      : rules_(rules), target_(target), cost_(cost), options_(options), evaluator_(make_evaluator()) {}

  absl::StatusOr<OptimizeResult> run(const Model& model) {
    OptimizeResult result;
    OptimizeReport& report = result.report;
    report.before = graph_stats(model);
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
    std::set<std::string> without;
    collect_names(model.graph, names_);
    for (int attempt = 0;; ++attempt) {
      auto optimized = optimize_graph(model, {}, without, report, 0);
      if (optimized.ok()) {
        result.model = std::move(*optimized);
        break;
      }
      if (unsound_rule_.empty() || attempt >= kMaxRetries || !without.insert(unsound_rule_).second) return optimized.status();
      report.warnings.push_back(
          fmt::format("rule {} contradicts what is known ({}) and was left out", unsound_rule_, std::string(optimized.status().message())));
      report.run = {};
      report.made.clear();
    }
    result.samples = std::move(samples_);
    result.egraph = std::move(egraph_);
    report.after = graph_stats(result.model);
    for (const Assumption& a : known_assumptions())
      if (OptimizeReport::Assumed assumed{std::string(a.name), applied_rules_that_assume(a.name, report.run)}; !assumed.rules.empty())
        report.assumed.push_back(std::move(assumed));
    return result;
  }

 private:
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

  using Captured = std::map<std::string, std::pair<Facts, const DimTable*>>;

  std::vector<std::string> applied_rules_that_assume(std::string_view assumption, const RunReport& run) const {
    std::vector<std::string> names;
    for (const RuleStats& stats : run.rules) {
      const Rule* rule = stats.applied > 0 ? rules_.find(base_name(stats.name)) : nullptr;
      const bool listed = rule && std::find(names.begin(), names.end(), rule->name) != names.end();  // in another form of it
      if (rule && !listed && std::find(rule->assumes.begin(), rule->assumes.end(), assumption) != rule->assumes.end())
        names.push_back(rule->name);
    }
    return names;
  }

  absl::StatusOr<Model> optimize_graph(const Model& model, const Captured& captured, const std::set<std::string>& without,
                                       OptimizeReport& report, int depth) {
    OnnxEGraph g(*evaluator_);
    if (options_.observe && depth == 0) record_explanations(g.egraph());
    LowerOptions lower_options;
    for (const auto& [name, facts] : captured) lower_options.captured[name] = translate(facts.first, *facts.second, g.dims());
    auto lowered = [&] {
      progress("lower");
      Stopwatch watch(report.seconds["lower"]);
      return lower(model, g, lower_options);
    }();
    if (!lowered.ok()) return lowered.status();
    if (auto s = saturate(model, g, without, report, depth); !s.ok()) return s;
    if (has_rules()) add_escapes(g, *lowered, target_);
    if (depth == 0) {
      report.egraph_nodes = g.egraph().num_nodes();
      report.egraph_classes = g.egraph().num_classes();
    }
    RaiseOptions raise_options;
    raise_options.opset = options_.opset;
    raise_options.reserved = &names_;
    if (has_rules() && depth < kMaxBodyDepth && has_bodies(model.graph))
      if (auto s = optimize_bodies(model, g, *lowered, without, report, depth, raise_options); !s.ok()) return s;
    return extract_and_raise(model, g, *lowered, report, depth, raise_options);
  }

  // Whether the target takes an operator at all, in some opset that the result may have.
  bool takes(const RuleNode& n, std::int64_t limit) const {
    OpKey key;
    key.domain = n.domain;
    key.op_type = n.op_type;
    return (!n.domain.empty() || find_schema("", n.op_type, limit)) && target_.allows({.key = key, .highest_opset = limit});
  }

  // Whether the model holds an operator of another domain than the standard's. Rules start from the standard's operators, so such a one
  // (from a runtime's own optimizer) is read as its body, too.
  static bool holds_foreign(const Model& model, const RuleNode& n) {
    return !n.domain.empty() && std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(),
                                            [&](const Node& node) { return node.domain == n.domain && node.op_type == n.op_type; });
  }

  // The highest opset of ai.onnx that the result may have. (Bodies that the result still has hold it to the given one, see
  // extract_and_raise.)
  std::int64_t opset_limit(const Model& model, int depth) const {
    if (options_.opset) return *options_.opset;
    if (options_.keep_opset || depth > 0) return model.opset("");
    return opset_was_assumed(model) ? target_.max_opset : std::max(model.opset(""), target_.max_opset);
  }

  absl::Status saturate(const Model& model, OnnxEGraph& g, const std::set<std::string>& without, OptimizeReport& report, int depth) {
    progress("saturate");
    Stopwatch watch(report.seconds["saturate"]);
    const std::int64_t limit = opset_limit(model, depth);
    std::vector<Rewrite> rewrites = rules_.compile(g, nullptr, [&](const Rule& rule) {
      return !rule.unless_taken || !takes(rule.left.back(), limit) || holds_foreign(model, rule.left.back());
    });
    std::erase_if(rewrites, [&](const Rewrite& r) { return without.contains(r.name); });
    if (options_.instrument) options_.instrument(rewrites);
    RunOptions run_options;
    run_options.limits = options_.limits;
    const std::size_t own = g.egraph().num_nodes();
    if (options_.limits.nodes == Limits{}.nodes) run_options.limits.nodes = std::min(Limits{}.nodes, std::max(kRoom, kGrowth * own));
    run_options.limits.nodes += own;
    if (options_.progress) run_options.on_iteration = [this](const IterationStats& i) { options_.progress("saturate", &i); };
    RunReport run_report = ::saturate::run(g.egraph(), rewrites, run_options);
    const bool contradiction = run_report.stop == StopReason::kContradiction;
    if (depth == 0) {
      report.run = std::move(run_report);
      rule_names_.clear();
      for (const Rewrite& r : rewrites) rule_names_.push_back(r.name);
      if (options_.observe) rewrites_ = rewrites;
    }
    unsound_rule_.clear();
    if (!contradiction) {
      if (!rewrites.empty()) {
        spell_reshapes(g);
        spell_literals(g);
      }
      return absl::OkStatus();
    }
    const auto& c = g.egraph().contradiction();
    unsound_rule_ = c ? c->rule : "";
    return absl::InternalError(fmt::format("contradiction: {}{}", c ? c->what : "unknown",
                                           unsound_rule_.empty() ? "" : ", brought together by rule " + unsound_rule_));
  }

  // Bodies of If, Loop and Scan, each an e-graph of its own that knows the facts of what it captures.
  absl::Status optimize_bodies(const Model& model, const OnnxEGraph& g, const Lowered& lowered, const std::set<std::string>& without,
                               OptimizeReport& report, int depth, RaiseOptions& raise_options) {
    Captured captured;
    for (const auto& [name, id] : lowered.values) captured[name] = {g.facts(id), &g.dims()};
    for (const Node& node : model.graph.nodes)
      for (const Attribute& a : node.attributes) {
        if (a.type != AttributeType::kGraph) continue;
        Model body = model;
        body.graph = a.g();
        Captured used;
        for (const std::string& name : captured_names(a.g()))
          if (auto it = captured.find(name); it != captured.end()) used.insert(*it);
        auto optimized = optimize_graph(body, used, without, report, depth + 1);
        if (!optimized.ok()) {
          if (!unsound_rule_.empty()) return optimized.status();
          continue;  // a body that cannot be lowered stays as it is
        }
        raise_options.body_imports.insert(optimized->opset_imports.begin(), optimized->opset_imports.end());
        raise_options.bodies[&a.g()] = std::make_shared<Graph>(std::move(optimized->graph));
      }
    return absl::OkStatus();
  }

  absl::StatusOr<Model> extract_and_raise(const Model& model, const OnnxEGraph& g, const Lowered& lowered, OptimizeReport& report,
                                          int depth, RaiseOptions& raise_options) {
    const std::int64_t given = model.opset("");
    ExtractOptions extract_options;
    extract_options.extractor = options_.extractor;
    extract_options.memory_slack = options_.memory_slack;
    extract_options.usual_sizes = usual_sizes(model);
    extract_options.opset_limit = opset_limit(model, depth);
    if (opset_was_assumed(model) && extract_options.opset_limit != given) raise_options.opset = extract_options.opset_limit;
    raise_options.max_opset = extract_options.opset_limit;
    std::vector<MadeNode> made;
    raise_options.made = &made;
    for (int attempt = 0;; ++attempt) {
      progress("extract");
      auto selection = [&] {
        Stopwatch watch(report.seconds["extract"]);
        return has_rules() ? extract(g, lowered, target_, cost_, extract_options)
                           : original_selection(g, lowered, &target_, cost_, extract_options);
      }();
      if (!selection.ok()) return selection.status();
      if (ban_folds(g, *selection, extract_options) && attempt < kMaxRetries) continue;
      made.clear();
      progress("raise");
      auto raised = [&] {
        Stopwatch watch(report.seconds["raise"]);
        return raise(g, lowered, *selection, raise_options);
      }();
      const bool cannot_follow = !raised.ok() || (raised->opset("") != given && has_bodies(raised->graph));
      if (cannot_follow && extract_options.opset_limit != given && !options_.opset) {
        extract_options.opset_limit = raise_options.max_opset = given;  // something in the model cannot follow to another opset
        raise_options.opset.reset();
        continue;
      }
      if (!raised.ok()) return raised.status();
      if (depth == 0) {
        report.cost_after = selection->cost;
        if (auto original = original_selection(g, lowered, &target_, cost_, extract_options); original.ok())
          report.cost_before = original->cost;
      }
      note_made(g, made, report, depth);
      if (depth == 0) add_experiments(g, lowered, *selection, extract_options, raise_options);
      if (options_.observe && depth == 0) options_.observe({g, lowered, *selection, rewrites_, extract_options});
      return raised;
    }
  }

  // What experiments with costs ask for: other graphs of the same e-graph, and the e-graph itself.
  void add_experiments(const OnnxEGraph& g, const Lowered& lowered, const Selection& chosen, const ExtractOptions& extract_options,
                       RaiseOptions raise_options) {
    if (options_.dump_egraph) egraph_ = problem_json(g, onnx_problem(g, lowered, &target_, cost_, extract_options));
    if (options_.samples == 0) return;
    raise_options.made = nullptr;
    samples_.clear();
    for (const Selection& s :
         sample_selections(g, lowered, target_, cost_, extract_options, chosen, options_.samples, options_.sample_seed)) {
      const auto known = [&](Id id) { return !s.by_class[id].folded || g.value(id, ~std::size_t{0}).has_value(); };
      bool foldable = true;
      for (Id id = 0; id < s.by_class.size() && foldable; ++id) foldable = known(id);
      if (!foldable) continue;
      if (auto raised = raise(g, lowered, s, raise_options); raised.ok()) samples_.push_back({*std::move(raised), s.cost});
    }
  }

  // Folded classes whose value cannot be computed here; true if there are any.
  bool ban_folds(const OnnxEGraph& g, const Selection& selection, ExtractOptions& extract_options) const {
    bool banned = false;
    for (Id id = 0; id < selection.by_class.size(); ++id)
      if (selection.by_class[id].folded && !g.value(id, ~std::size_t{0})) banned = extract_options.not_foldable.insert(id).second || banned;
    return banned;
  }

  void note_made(const OnnxEGraph& g, const std::vector<MadeNode>& made, OptimizeReport& report, int depth) const {
    for (const MadeNode& m : made) {
      const std::uint32_t rule = g.egraph().made_by(m.node);
      const bool spelled = rule == kNone && !rule_names_.empty();  // made after saturation
      report.made.push_back({m.op_type, m.output,
                             depth > 0                   ? ""
                             : spelled                   ? "spell_literals"
                             : rule < rule_names_.size() ? rule_names_[rule]
                                                         : ""});
    }
  }

  // Without rules every node is written back as it came: no folding either.
  bool has_rules() const { return !rules_.rules().empty() || !rules_.native_rules().empty(); }

  void progress(const char* stage) const {
    if (options_.progress) options_.progress(stage, nullptr);
  }

  const RuleSet& rules_;
  const Target& target_;
  const CostModel& cost_;
  const OptimizeOptions& options_;
  std::unique_ptr<Evaluator> evaluator_;
  std::vector<std::string> rule_names_;
  std::vector<Rewrite> rewrites_;  // kept for `observe`
  std::string unsound_rule_;
  std::vector<OptimizeResult::Sample> samples_;
  std::string egraph_;
  std::unordered_set<std::string> names_;  // of the whole model: scopes are nested, so new names differ from all
};

}  // namespace

Facts translate(const Facts& facts, const DimTable& from, DimTable& to) {
  Facts out;
  out.kind = facts.kind;
  out.dtype = facts.dtype;
  if (!facts.shape) return out;
  out.shape.emplace();
  for (Dim d : *facts.shape) {
    const auto v = from.value(d);
    out.shape->push_back(v ? to.constant(*v) : to.symbol(from.to_string(from.canonical(d))));
  }
  return out;
}

GraphStats graph_stats(const Model& model) {
  GraphStats stats;
  stats.opset = model.opset("");
  stats.initializers = model.graph.initializers.size();
  for (const Initializer& i : model.graph.initializers) {
    stats.parameters += static_cast<std::uint64_t>(std::max<std::int64_t>(i.tensor.size(), 0));
    stats.parameter_bytes += i.tensor.bytes().size();
  }
  count(model.graph.nodes, model, stats, 0);
  return stats;
}

absl::StatusOr<OptimizeResult> optimize(const Model& model, const RuleSet& rules, const Target& target, const CostModel& cost,
                                        const OptimizeOptions& options) {
  return Optimizer(rules, target, cost, options).run(model);
}

}  // namespace saturate
