#include "rules/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rules/check/check_run.h"
#include "rules/language/parse_lexer.h"

namespace saturate {
namespace {

using Severity = RuleFinding::Severity;
constexpr std::string_view kGuard = "guard", kMutant = "mutant";  // kinds of demands

// Guards that say what the rule needs to know, not where the equality holds: they need no counterexample.
bool only_asks_for_knowledge(const Expr& e) {
  if (e.kind == Expr::Kind::kNot) return only_asks_for_knowledge(*e.arguments[0]);
  if (e.kind != Expr::Kind::kCall) return false;
  for (std::string_view name : {"const", "static", "known", "present", "absent", "no_zero", "useful"})
    if (e.text == name) return true;
  return false;
}

bool is_useful(const Expr& e) { return e.kind == Expr::Kind::kCall && e.text == "useful"; }

// The parts of `a and b`, and of `useful(a and b)` as `useful(a)`, `useful(b)`.
void take_apart(const ExprPtr& e, std::vector<ExprPtr>& out) {
  const Expr* inner = is_useful(*e) ? e->arguments[0].get() : e.get();
  if (inner->kind != Expr::Kind::kBinary || inner->text != "and") {
    out.push_back(e);
    return;
  }
  for (const ExprPtr& part : inner->arguments) {
    if (!is_useful(*e)) {
      take_apart(part, out);
      continue;
    }
    auto wrapped = std::make_shared<Expr>(*e);
    wrapped->arguments = {part};
    take_apart(wrapped, out);
  }
}

}  // namespace

Rule with_single_guards(Rule rule) {
  std::vector<ExprPtr> guards;
  for (const ExprPtr& e : rule.where) take_apart(e, guards);
  rule.where = std::move(guards);
  return rule;
}

namespace {

class Check {
 public:
  Check(const Rule& rule, const Evaluator& evaluator, const CheckOptions& options)
      : rule_(with_single_guards(rule)),
        evaluator_(evaluator),
        options_(options),
        runner_(rule_, evaluator_),
        random_(options.seed),
        near_(options.seed) {
    out_.rule = rule.name;
  }

  RuleCheck run() {
    if (rule_.examples.empty())
      find(Severity::kWarning, rule_.place, "there is no example, so nothing shows that the sides are equal; add one");
    for (const RuleExample& example : rule_.examples) check_example(example);
    if (applied_ == 0 && !rule_.examples.empty()) find(Severity::kError, rule_.place, "the rule applies to none of its examples");
    check_optional_inputs();
    check_share();
    check_counters();
    if (options_.mutate && out_.ok() && !instances_.empty()) check_mutants();
    return std::move(out_);
  }

 private:
  void find(Severity severity, Place place, std::string what, std::string demand = {}) {
    out_.findings.push_back({severity, rule_.name, at(rule_.file, place, ""), std::move(what), std::move(demand)});
  }

  // What one instance of a law must show; the finding where it does not.
  void demand(bool met, std::string_view kind, Severity severity, Place place, std::string_view of, std::string what) {
    const std::string key = fmt::format("{} {}:{} {}", kind, place.line, place.column, of);
    out_.demands[key] |= met;
    if (!met) find(severity, place, std::move(what), key);
  }

  // Of an exact rule each bit counts, but for the sign of zero.
  std::string advice(const Outcome& outcome) const {
    constexpr double kLittle = 0.1;
    const bool little = outcome.difference > 0 && outcome.difference < kLittle && !rule_.tolerance;
    return little && rule_.effect == Effect::kExact ? "; the rule is said to be exact, is it `effect reassociates`?" : "";
  }

  void check_example(const RuleExample& example) {
    ++out_.examples;
    const Instance instance = instance_of(rule_, example, random_);
    const Outcome outcome = runner_.run(instance);
    note(outcome);
    const bool runs = outcome.kind != Outcome::Kind::kLeftFails, applies = outcome.kind != Outcome::Kind::kNotApplicable;
    demand(runs && applies, "example", Severity::kError, example.place, "",
           (runs ? "the rule does not apply to its example: " : "the left side cannot run: ") + outcome.why);
    switch (outcome.kind) {
      case Outcome::Kind::kEqual:
        instances_.push_back(instance);
        break;
      case Outcome::Kind::kDifferent:
        find(Severity::kError, example.place, "the sides differ: " + outcome.why + advice(outcome));
        break;
      case Outcome::Kind::kNotApplicable:
      case Outcome::Kind::kLeftFails:
        break;
      case Outcome::Kind::kCannotRun:
        find(Severity::kNote, example.place, "not run, for want of a kernel: " + outcome.why);
        break;
    }
    applied_ += runs && applies ? 1 : 0;
    if (options_.fire && runs && applies) check_firing(rule_, instance, example);
    for (const Instance& i : random_instances(rule_, example, options_.random_instances, random_)) check_random(i, example.place);
    if (rule_.effect == Effect::kReassociates && options_.random_instances > 0) check_rounding(example);
  }

  double most_rounding() const { return rule_.rounding.value_or(kMostRounding); }

  // Whether sides that differ do so by rounding alone: large numbers may be far apart where the expression makes much of each eps.
  bool rounds_so(const Instance& instance) const {
    if (rule_.effect != Effect::kReassociates) return false;
    const auto rounding = rounding_of(rule_, evaluator_, instance);
    return rounding && rounding->finite && rounding->rounded.units <= most_rounding();
  }

  void check_rounding(const RuleExample& example) {
    constexpr int kNear = 3;
    constexpr double kDoubleInFloat = 0x1p29;
    const double most = most_rounding();
    const double most_of_reals = most * (is_identity_within_float(rule_) ? kDoubleInFloat : 1);
    for (const Instance& instance : near_instances(rule_, example, kNear, near_)) {
      const auto rounding = rounding_of(rule_, evaluator_, instance);
      if (!rounding) continue;
      ++out_.rounded;
      out_.largest_rounding = std::max(out_.largest_rounding, rounding->rounded.units);
      if (reported_) continue;
      reported_ = rounding->rounded.units > most || rounding->real.units > most_of_reals;
      if (rounding->rounded.units > most)
        find(Severity::kError, example.place,
             fmt::format("a side rounds worse than {:.3g} eps M of what the other one is in double, for {}: {}", most, instance.what,
                         rounding->rounded.why));
      else if (reported_)
        find(Severity::kError, example.place,
             fmt::format("the sides are not the same real number for {}: {}", instance.what, rounding->real.why));
    }
  }

  void check_firing(const Rule& rule, const Instance& instance, const RuleExample& example) {
    if (std::string why = why_it_does_not_fire(rule, instance, example, evaluator_); !why.empty())
      find(Severity::kError, example.place, "the rule does not fire on its example in an e-graph: " + why);
  }

  void check_random(const Instance& instance, Place place) {
    const Outcome outcome = runner_.run(instance);
    if (outcome.kind == Outcome::Kind::kNotApplicable) check_useful(instance);
    if (outcome.kind == Outcome::Kind::kDifferent && rounds_so(instance)) return;
    if (outcome.kind == Outcome::Kind::kEqual) {
      ++out_.random_instances;
      note(outcome);
      if (instances_.size() < 12) instances_.push_back(instance);
    }
    if (outcome.kind != Outcome::Kind::kDifferent || reported_) return;
    reported_ = true;
    find(Severity::kError, place, fmt::format("the sides differ for {}: {}{}", instance.what, outcome.why, advice(outcome)));
  }

  // What is said to be useful alone is not needed for the sides to be equal.
  void check_useful(const Instance& instance) {
    for (std::size_t g = 0; g < rule_.where.size(); ++g) {
      if (!is_useful(*rule_.where[g])) continue;
      RunOptionsOfRule without;
      without.dropped_guard = static_cast<int>(g);
      const Outcome outcome = runner_.run(instance, without);
      if (outcome.kind != Outcome::Kind::kDifferent || !needed_.insert(g).second) continue;
      find(Severity::kWarning, rule_.where[g]->place,
           fmt::format("`{}` is more than useful: without it the sides differ for {}: {}", to_string(*rule_.where[g]), instance.what,
                       outcome.why));
    }
  }

  void note(const Outcome& outcome) {
    if (outcome.kind != Outcome::Kind::kEqual) return;
    out_.largest_difference = std::max(out_.largest_difference, outcome.difference);
    out_.moved += outcome.moved;
    out_.compared += outcome.compared;
  }

  // Over all instances, since one of few elements says little of a share.
  void check_share() {
    if (rule_.effect != Effect::kWithinOneStep) return;
    const double share = rule_.share.value_or(kMostMoved);
    if (static_cast<double>(out_.moved) > 2 + share * static_cast<double>(out_.compared))
      find(Severity::kError, rule_.place,
           fmt::format("{} of {} elements are a step apart, and {:.3g} of them may be", out_.moved, out_.compared, share));
  }

  void check_optional_inputs() {
    for (const std::string& name : rule_.optional) {
      const auto given = std::count_if(rule_.examples.begin(), rule_.examples.end(), [&](const RuleExample& e) {
        return std::any_of(e.values.begin(), e.values.end(), [&](const ExampleValue& v) { return v.name == name; });
      });
      demand(given != 0 && given != std::ssize(rule_.examples), "optional", Severity::kWarning, rule_.place, name,
             fmt::format("`{}` may be absent, but is {} example; add one", name, given == 0 ? "in no" : "in every"));
    }
  }

  void check_counters() {
    std::vector<bool> shown(rule_.where.size());
    for (const RuleExample& counterexample : rule_.counterexamples) {
      ++out_.counterexamples;
      const Instance instance = instance_of(rule_, counterexample, random_);
      const Outcome guarded = runner_.run(instance);
      const bool refused = guarded.kind != Outcome::Kind::kEqual && guarded.kind != Outcome::Kind::kDifferent;
      demand(refused, "counterexample", Severity::kError, counterexample.place, "is refused", "every guard holds for this counterexample");
      if (!refused) continue;
      RunOptionsOfRule open;
      open.guards = false;
      const Outcome outcome = runner_.run(instance, open);
      demand(outcome.kind != Outcome::Kind::kEqual, "counterexample", Severity::kError, counterexample.place, "differs",
             "the sides do not differ for this counterexample; it shows no need of a guard");
      for (std::size_t g = 0; g < rule_.where.size(); ++g) {
        RunOptionsOfRule without;
        without.dropped_guard = static_cast<int>(g);
        const Outcome::Kind dropped = runner_.run(instance, without).kind;
        const bool cannot_run = dropped == Outcome::Kind::kCannotRun && guarded.kind == Outcome::Kind::kNotApplicable;
        if (dropped == Outcome::Kind::kDifferent || cannot_run) shown[g] = true;
      }
    }
    for (std::size_t g = 0; g < rule_.where.size(); ++g) {
      if (rule_.derived || only_asks_for_knowledge(*rule_.where[g])) continue;
      ++out_.guards;
      out_.needed += shown[g] ? 1 : 0;
      const std::string guard = to_string(*rule_.where[g]);
      demand(shown[g], kGuard, Severity::kWarning, rule_.where[g]->place, guard,
             fmt::format("no counterexample shows that the guard `{}` is needed (one in which it alone is false)", guard));
    }
  }

  void check_mutants() {
    for (const Mutant& mutant : mutants_of(rule_)) {
      ++out_.mutants;
      const RuleRunner runner(mutant.rule, evaluator_);
      const bool noticed =
          std::any_of(instances_.begin(), instances_.end(), [&](const Instance& i) { return runner.run(i).kind != Outcome::Kind::kEqual; });
      out_.survivors += noticed ? 0 : 1;
      demand(noticed, kMutant, Severity::kWarning, rule_.place, mutant.what, "the examples do not notice this mutant: " + mutant.what);
    }
  }

  const Rule rule_;
  const Evaluator& evaluator_;
  CheckOptions options_;
  RuleRunner runner_;
  std::mt19937_64 random_, near_;
  std::vector<Instance> instances_;  // that the rule holds for
  int applied_ = 0;                  // examples
  bool reported_ = false;
  std::set<std::size_t> needed_;  // guards that are said to be useful and are more
  RuleCheck out_;
};

}  // namespace

bool RuleCheck::ok() const {
  return std::none_of(findings.begin(), findings.end(), [](const RuleFinding& f) { return f.severity == Severity::kError; });
}

RuleCheck check_by_running(const Rule& rule, const Evaluator& evaluator, const CheckOptions& options) {
  return Check(rule, evaluator, options).run();
}

RuleCheck check_of_law(std::span<const RuleCheck> instances) {
  if (instances.size() == 1) return instances.front();
  RuleCheck out;
  out.rule = fmt::format("{} ({} instances)", law_of(instances.front().rule), instances.size());
  for (const RuleCheck& one : instances) {
    out.examples += one.examples;
    out.random_instances += one.random_instances;
    out.counterexamples += one.counterexamples;
    out.rounded += one.rounded;
    out.moved += one.moved;
    out.compared += one.compared;
    out.largest_difference = std::max(out.largest_difference, one.largest_difference);
    out.largest_rounding = std::max(out.largest_rounding, one.largest_rounding);
    for (const auto& [demand, met] : one.demands) out.demands[demand] |= met;
  }
  std::set<std::string> said;
  for (const RuleCheck& one : instances)
    for (const RuleFinding& f : one.findings) {
      if (!f.demand.empty() && (out.demands[f.demand] || !said.insert(f.demand).second)) continue;
      out.findings.push_back(f);
      out.findings.back().what += fmt::format(" ({})", one.rule);
    }
  for (const auto& [demand, met] : out.demands) {
    const bool guard = demand.starts_with(kGuard), mutant = demand.starts_with(kMutant);
    out.guards += guard ? 1 : 0;
    out.needed += guard && met ? 1 : 0;
    out.mutants += mutant ? 1 : 0;
    out.survivors += mutant && !met ? 1 : 0;
  }
  return out;
}

std::string to_string(const RuleCheck& check) {
  std::string out = fmt::format(
      "{}: {} examples, {} random instances, {} counterexamples, {} of {} guards needed, {} mutants of which {} unnoticed, largest "
      "difference "
      "{:.2g}{}{}\n",
      check.rule, check.examples, check.random_instances, check.counterexamples, check.needed, check.guards, check.mutants, check.survivors,
      check.largest_difference, check.compared == 0 ? "" : fmt::format(", {} of {} elements a step apart", check.moved, check.compared),
      check.rounded == 0 ? "" : fmt::format(", largest rounding {:.2g} eps M", check.largest_rounding));
  for (const RuleFinding& f : check.findings)
    out += fmt::format("  {}{}: {}\n", f.place,
                       f.severity == Severity::kError     ? "error"
                       : f.severity == Severity::kWarning ? "warning"
                                                          : "note",
                       f.what);
  return out;
}

}  // namespace saturate
