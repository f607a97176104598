// Rules in C++, checked on graphs: they fire on examples with equal sides, not on counterexamples; and without the guard that a
// counterexample is for, they fire on it with sides that differ.
#include <fmt/format.h>

#include <algorithm>

#include "rules/check/check_graph.h"
#include "rules/language/parse_lexer.h"
#include "rules/native/kit.h"

namespace saturate {
namespace {

class NativeCheck {
 public:
  NativeCheck(const NativeRule& rule, const Evaluator& evaluator, const CheckOptions& options)
      : rule_(rule), evaluator_(evaluator), options_(options), random_(options.seed) {
    out_.rule = rule.name;
  }

  RuleCheck run(std::span<const Rule* const> graphs) {
    for (const Rule* graph : graphs)
      for (const RuleExample& example : graph->examples) check_example(told_of_rule(*graph), example);
    if (out_.examples == 0)
      find(RuleFinding::Severity::kWarning, "native rules: ",
           fmt::format("there is no example, so nothing shows that the sides are equal; add `native {} ...` to a rule file", rule_.name));
    needed_.assign(names_.size(), false);
    for (const Rule* graph : graphs)
      for (const RuleExample& counterexample : graph->counterexamples) check_counterexample(told_of_rule(*graph), counterexample);
    needed_.resize(names_.size(), false);
    for (const Rule* graph : graphs)
      for (const RuleExample& example : graph->examples) note_needed(told_of_rule(*graph), instance_of(*graph, example, random_), example);
    out_.guards = static_cast<int>(names_.size());
    out_.guard_names = names_;
    out_.needed = static_cast<int>(std::count(needed_.begin(), needed_.end(), true));
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (!needed_[i])
        find(RuleFinding::Severity::kWarning, "native rules: ",
             fmt::format("no counterexample shows that the guard `{}` is needed (one in which it alone is false)", names_[i]));
    return std::move(out_);
  }

 private:
  void find(RuleFinding::Severity severity, std::string place, std::string what) {
    out_.findings.push_back({severity, rule_.name, std::move(place), std::move(what)});
  }

  // The graph with what the rule says of itself, by which instances are drawn and results compared.
  Rule told_of_rule(const Rule& graph) const {
    Rule told = graph;
    told.effect = rule_.effect;
    told.assumes = rule_.assumes;
    return told;
  }

  void check_example(const Rule& graph, const RuleExample& example) {
    ++out_.examples;
    const std::string place = at(graph.file, example.place, "");
    const Instance instance = instance_of(graph, example, random_);
    Outcome outcome = fire(graph, instance, example, -1, false);
    if (outcome.kind == Outcome::Kind::kNotApplicable) outcome = fire(graph, instance, example, -1, true);
    if (outcome.kind == Outcome::Kind::kEqual)
      out_.largest_difference = std::max(out_.largest_difference, outcome.difference);
    else
      find(outcome.kind == Outcome::Kind::kCannotRun ? RuleFinding::Severity::kNote : RuleFinding::Severity::kError, place,
           outcome.kind == Outcome::Kind::kDifferent       ? "the sides differ: " + outcome.why
           : outcome.kind == Outcome::Kind::kNotApplicable ? "the rule does not fire on its example: " + outcome.why
                                                           : "the graph cannot run: " + outcome.why);
    bool reported = false;
    const RuleRunner of_left(graph, evaluator_);
    for (const Instance& i : random_instances(graph, example, options_.random_instances, random_)) {
      if (of_left.sides(i).left.empty()) continue;  // it cannot run, which an e-graph would show as well, but later
      for (const bool symbolic : {false, true}) {
        const Outcome drawn = fire(graph, i, example, -1, symbolic);
        out_.random_instances += drawn.kind == Outcome::Kind::kEqual;
        if (drawn.kind != Outcome::Kind::kDifferent || reported) continue;
        reported = true;
        find(RuleFinding::Severity::kError, place,
             fmt::format("the sides differ for {}{}: {}", i.what, symbolic ? ", whose sizes the rule did not know" : "", drawn.why));
      }
    }
  }

  void check_counterexample(const Rule& graph, const RuleExample& counterexample) {
    ++out_.counterexamples;
    const std::string place = at(graph.file, counterexample.place, "");
    const Instance instance = instance_of(graph, counterexample, random_);
    for (const bool symbolic : {false, true}) {
      const Outcome guarded = fire(graph, instance, counterexample, -1, symbolic);
      if (guarded.kind == Outcome::Kind::kLeftFails && !symbolic)
        return find(RuleFinding::Severity::kError, place, "the graph cannot run: " + guarded.why);
      if (guarded.kind == Outcome::Kind::kEqual || guarded.kind == Outcome::Kind::kDifferent)
        return find(RuleFinding::Severity::kError, place, "the rule fires on this counterexample");
    }
    if (note_needed(graph, instance, counterexample)) return;
    find(RuleFinding::Severity::kError, place, "no guard alone keeps the rule from this counterexample; it shows no need of one");
  }

  // Which guards, switched off, make the sides differ. Where a guard chooses between two results, an example notices.
  bool note_needed(const Rule& graph, const Instance& instance, const RuleExample& example) {
    bool any = false;
    for (std::size_t i = 0; i < names_.size(); ++i)
      for (const bool symbolic : {false, true}) {
        if (fire(graph, instance, example, static_cast<int>(i), symbolic).kind != Outcome::Kind::kDifferent) continue;
        needed_.resize(names_.size(), false);
        needed_[i] = any = true;
      }
    return any;
  }

  // Every node of the left side in an e-graph; each union that the rule makes there is run. `off`: the guard that is taken to hold.
  // `symbolic`: the rule does not see the sizes of graph inputs, only which are the same.
  Outcome fire(const Rule& graph, const Instance& instance, const RuleExample& example, int off, bool symbolic) {
    std::set<std::string> variable;
    for (const ExampleValue& v : example.values)
      if (!v.attribute && !v.values) variable.insert(v.name);
    std::map<std::string, std::int64_t> sizes;
    const LeftSide::Axes axes = symbolic ? LeftSide::named_sizes(instance, example, sizes) : LeftSide::Axes{};
    if (symbolic && axes.empty()) return {Outcome::Kind::kNotApplicable, "its dims have no names", 0};
    OnnxEGraph g(evaluator_);
    auto& watch = g.notes<native::GuardWatch>();
    watch = {true, off, names_};
    LeftSide left(graph, instance, g, axes);
    if (std::string problem = left.build(variable); !problem.empty()) return {Outcome::Kind::kLeftFails, problem, 0};
    const ClassValues values(g, instance, left, sizes);
    ClassValues before = values;
    double scale = 0;
    for (const auto& [name, tensor] : instance.tensors) scale = std::max(scale, cancellation_scale(tensor));
    for (const std::string& output : graph.outputs)
      if (const auto value = before.of(left.id(output)); !value.ok())
        return {absl::IsUnimplemented(value.status()) ? Outcome::Kind::kCannotRun : Outcome::Kind::kLeftFails,
                std::string(value.status().message()), 0};
    Outcome out{Outcome::Kind::kNotApplicable, "no match", 0};
    for (const Rewrite& rewrite : rule_.make(g, std::make_shared<RuleLog>()))
      for (const OwnedMatch& found : search(g.egraph(), rewrite.left, 100)) {
        if (out.kind == Outcome::Kind::kNotApplicable) out.why = "its guards do not hold";
        std::vector<std::pair<Id, Id>> unions;
        rewrite.applier->apply(g.egraph(), Match{found.classes, found.matched, found.ops}, unions);
        for (const auto& [a, b] : unions)
          if (g.egraph().find(a) != g.egraph().find(b)) join(out, compare(values, a, b, scale, graph));
      }
    names_ = watch.names;
    return out;
  }

  static void join(Outcome& all, Outcome one) {
    if (all.kind == Outcome::Kind::kDifferent) return;
    one.difference = std::max(one.difference, all.difference);
    all = std::move(one);
  }

  static Outcome compare(ClassValues values, Id a, Id b, double scale, const Rule& graph) {
    const auto left = values.of(a), right = values.of(b);
    if (!left.ok()) return {Outcome::Kind::kLeftFails, std::string(left.status().message()), 0};
    if (!right.ok()) {
      const bool no_kernel = absl::IsUnimplemented(right.status());
      return {no_kernel ? Outcome::Kind::kCannotRun : Outcome::Kind::kDifferent,
              fmt::format("what the rule makes cannot run: {}", std::string(right.status().message())), 0};
    }
    if (!left->is_tensor() || !right->is_tensor()) return {Outcome::Kind::kCannotRun, "the result is no tensor", 0};
    return compare_tensors(graph.outputs[0], left->tensor(), right->tensor(), scale, allowed_by(graph, left->tensor().dtype()));
  }

  const NativeRule& rule_;
  const Evaluator& evaluator_;
  CheckOptions options_;
  std::mt19937_64 random_;
  std::vector<std::string> names_;  // of guards, by their numbers
  std::vector<bool> needed_;
  RuleCheck out_;
};

}  // namespace

RuleCheck check_native_by_running(const NativeRule& rule, std::span<const Rule* const> graphs, const Evaluator& evaluator,
                                  const CheckOptions& options) {
  return NativeCheck(rule, evaluator, options).run(graphs);
}

}  // namespace saturate
