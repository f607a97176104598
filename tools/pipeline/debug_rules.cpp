#include "tools/pipeline/debug_rules.h"

#include <algorithm>
#include <memory>

#include "fmt/format.h"

namespace saturate {
namespace {

struct Counter {
  std::uint64_t limit = ~std::uint64_t{0}, made = 0;
  std::uint64_t moving = 0;  // of these, of rules that move numbers
  std::string rule;          // of the last application
  const EGraph* egraph = nullptr;
  Id root = kNone;
};

// A rule's applier that stops when all rules together have been applied often enough.
class Counted : public Applier {
 public:
  Counted(std::shared_ptr<const Applier> inner, std::string rule, bool moves, Counter* counter)
      : inner_(std::move(inner)), rule_(std::move(rule)), moves_(moves), counter_(counter) {}

  bool holds(const EGraph& g, const Match& match) const override { return inner_->holds(g, match); }

  void apply(EGraph& g, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
    if (counter_->made >= counter_->limit) return;
    const std::size_t before = unions.size();
    inner_->apply(g, match, unions);
    if (unions.size() == before) return;
    ++counter_->made;
    counter_->moving += moves_ ? 1 : 0;
    counter_->rule = rule_;
    counter_->egraph = &g;
    counter_->root = match.root();
  }

 private:
  std::shared_ptr<const Applier> inner_;
  std::string rule_;
  bool moves_;
  Counter* counter_;
};

std::string name_of(const FinishedRun& run, Id root) {
  const EGraph& e = run.g.egraph();
  // The class as it was when the rule applied, else what it has become.
  if (const auto it = run.lowered.names.find(root); it != run.lowered.names.end() && !it->second.empty()) return it->second.front();
  for (const auto& [id, names] : run.lowered.names)
    if (!names.empty() && e.find(id) == e.find(root)) return names.front();
  return "";
}

// Other graphs of the e-graph that are looked at with the cheapest one. What a false application makes is in the e-graph from then on, but
// chosen by cost alone it may show only when a true one has made it cheap: then the true one would be blamed.
constexpr std::size_t kSamples = 12;

class Bisection {
 public:
  Bisection(const Model& model, const Setup& setup, PipelineOptions options) : model_(model), setup_(setup), options_(std::move(options)) {
    options_.optimize.dump_egraph = false;
    options_.optimize.limits.threads = 1;
    options_.optimize.progress = nullptr;
    options_.optimize.samples = kSamples;
    if (!options_.debug_rules) until_ = time_given(options_.optimize.limits).judges;  // else the user waits for the rule
    options_.optimize.limits.began = 0;  // each trial has the time anew: a model that is returned as it came would look right
  }

  Culprit run() {
    Culprit out;
    if (!differs(~std::uint64_t{0})) {
      out.message = "run again on one thread, the result does not differ: no rule could be found";
      return out;
    }
    // An exact rule may be what makes the form cheap that another one moves the numbers of: then the other one is to blame.
    const std::uint64_t all = counter_.made, moving = counter_.moving;
    moving_alone_ = moving > 0;
    if (moving_alone_) moving_alone_ = !differs(0);
    out.applications = moving_alone_ ? moving : all;
    if (!moving_alone_ && differs(0)) {
      out.message = "the result differs without any rule, too: the fault is in reading, folding, extracting or writing, not in a rule";
      return out;
    }
    std::uint64_t good = 0, bad = out.applications;
    while (bad - good > 1) {
      if (steady_seconds() > until_) {
        out.message = "the time was over before a rule was found";
        return out;
      }
      const std::uint64_t middle = good + (bad - good) / 2;
      (differs(middle) ? bad : good) = middle;
    }
    differs(bad);
    out.found = true;
    out.application = bad;
    out.rule = std::string(rule_of_rewrite(counter_.rule));  // of one that reads both ways, not which
    out.value = value_;
    out.message =
        fmt::format("rule {}{} brings the difference (application {} of {}); --skip-rule {} leaves it out", out.rule,
                    out.value.empty() ? "" : fmt::format(", at value '{}',", out.value), out.application, out.applications, out.rule);
    return out;
  }

 private:
  // Whether a rule's sides are told to differ by more than the order of rounding.
  bool moves_numbers(const std::string& rewrite) const {
    const std::string name(rule_of_rewrite(rewrite));
    const auto moves = [](Effect effect) { return effect > Effect::kReassociates; };
    if (const Rule* rule = setup_.rules.find(name)) return moves(rule->effect);
    return std::ranges::any_of(setup_.rules.native_rules(), [&](const NativeRule& r) { return r.name == name && moves(r.effect); });
  }

  bool differs(std::uint64_t limit) {
    counter_ = {};
    counter_.limit = limit;
    value_.clear();
    options_.optimize.instrument = [this](std::vector<Rewrite>& rewrites) {
      for (Rewrite& r : rewrites) {
        const bool moves = moves_numbers(r.name);
        if (r.applier && (moves || !moving_alone_)) r.applier = std::make_shared<Counted>(std::move(r.applier), r.name, moves, &counter_);
      }
    };
    options_.optimize.glances = false;
    options_.optimize.observe = [this](const FinishedRun& run) {
      if (counter_.egraph == &run.g.egraph()) value_ = name_of(run, counter_.root);
    };
    const PipelineResult result = optimize_and_verify(model_, setup_, options_);
    return result.failure && result.failure->code == kExitDifferent;
  }

  const Model& model_;
  const Setup& setup_;
  PipelineOptions options_;
  Counter counter_;
  std::string value_;
  double until_ = kNoDeadline;
  bool moving_alone_ = false;  // applications of rules that move numbers are counted, and those of others never end
};

}  // namespace

Culprit find_culprit(const Model& model, const Setup& setup, PipelineOptions options) {
  return Bisection(model, setup, std::move(options)).run();
}

}  // namespace saturate
