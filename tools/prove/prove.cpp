#include "tools/prove/prove.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "egraph/explain.h"
#include "extract/prepare/own_operators.h"
#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/body_facts.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/convert/refusals.h"
#include "onnx_bridge/operators/op_table.h"
#include "rules/values/fills.h"
#include "tools/diff/interface.h"
#include "tools/prove/bodies.h"
#include "tools/prove/known_equal.h"
#include "tools/prove/open_regions.h"

namespace saturate {
namespace {

using Names = std::map<std::string, std::string>;

bool holds_attention_operator(const Model& model) {
  return std::ranges::any_of(model.graph.nodes, [](const Node& n) { return n.op_type.ends_with("Attention"); });
}

// Operators of the one model alone stand there for what a target takes, in the form in which it takes it. Here they are refused wherever
// they stand, and so come to be in their other forms, too.
class LoneOperators : public Refusals {
 public:
  explicit LoneOperators(std::set<OperatorName> lone) : lone_(std::move(lone)) {}
  bool refuses(const OnnxEGraph& g, const ENode& node, Id) const override { return by_place(g.key(node.op)); }
  bool by_place(const OpKey& key) const override { return lone_.contains({key.domain, key.op_type}); }
  bool of_any_operator() const override { return false; }
  Ranks ranks(const OpKey&) const override { return {}; }
  bool takes_empty(const OpKey&) const override { return false; }
  bool counts_heads() const override { return false; }

 private:
  std::set<OperatorName> lone_;
};

constexpr int kMostDepth = 8;  // of bodies in bodies that are compared

class Prover {
 public:
  Prover(const Model& first, const Model& second, const Setup& setup, const ProveOptions& options, bool believes_types)
      : models_{&first, &second},
        setup_(setup),
        options_(options),
        evaluator_(make_evaluator()),
        g_(*evaluator_),
        until_(steady_seconds() + options.limits.seconds.value_or(kSecondsOfRewriting)) {
    out_.believes_types = believes_types;
  }
  // Of two bodies in graphs that another one compares.
  Prover(const BodyPair& bodies, const Prover& around, const ProveOptions& options)
      : Prover(bodies.models[0], bodies.models[1], around.setup_, options, around.out_.believes_types) {
    pair_ = &bodies;
    depth_ = around.depth_ + 1;
  }

  absl::StatusOr<ModelProof> run() {
    compare_interfaces();
    record_explanations(g_.egraph());
    setup_.rules.define_operators(g_);
    g_.pass_over_empty_tensors();
    if (auto s = lower_both(); !s.ok()) return s;
    pair_outputs();
    if (auto s = rewrite(); !s.ok()) return s;
    note_outcome();
    return std::move(out_);
  }

 private:
  void compare_interfaces() {
    inputs_ = partners(given_inputs(*models_[0]), given_inputs(*models_[1]));
    std::set<std::string> met;
    for (const auto& [a, b] : inputs_) met.insert(b);
    for (const ValueInfo* i : given_inputs(*models_[0]))
      if (!inputs_.contains(i->name)) out_.interface.push_back(fmt::format("input '{}' is gone", i->name));
    for (const ValueInfo* i : given_inputs(*models_[1]))
      if (!met.contains(i->name)) out_.interface.push_back(fmt::format("input '{}' is new", i->name));
    std::erase_if(inputs_, [&](const auto& pair) { return !are_one_input(pair.first, pair.second); });
  }

  // What one model takes and the other does not is no input of both, and what a call leaves out is another value where defaults differ.
  bool are_one_input(const std::string& first, const std::string& second) {
    const auto info = [&](int side, const std::string& name) -> const ValueType& {
      const auto given = given_inputs(*models_[side]);
      return (*std::ranges::find_if(given, [&](const ValueInfo* i) { return i->name == name; }))->type;
    };
    const Tensor *x = default_of(0, first), *y = default_of(1, second);
    const bool one_default = (x == nullptr) == (y == nullptr) && (!x || identical(*x, *y));
    if (!one_default) out_.interface.push_back(fmt::format("input '{}' has another default", first));
    const ValueType &a = info(0, first), &b = info(1, second);
    const bool one_type = a.kind == b.kind && a.dtype == b.dtype && (!a.shape || !b.shape || fit(*a.shape, *b.shape));
    if (!one_type) out_.interface.push_back(fmt::format("input '{}' is of another type or size", first));
    return one_default && one_type;
  }

  static bool fit(const std::vector<DimSpec>& a, const std::vector<DimSpec>& b) {
    const auto may_be_one = [](const DimSpec& x, const DimSpec& y) {
      const auto *m = std::get_if<std::int64_t>(&x), *n = std::get_if<std::int64_t>(&y);
      return !m || !n || *m == *n;
    };
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), may_be_one);
  }

  const Tensor* default_of(int side, const std::string& input) const {
    const auto& all = models_[side]->graph.initializers;
    const auto it = std::ranges::find(all, input, &Initializer::name);
    return it == all.end() ? nullptr : &it->tensor;
  }

  // The model without operators of attention comes first: rules ask, once, what the model that they make something of holds.
  absl::Status lower_both() {
    const int base = holds_attention_operator(*models_[0]) && !holds_attention_operator(*models_[1]) ? 1 : 0;
    LowerOptions options = as_in_a_proof();
    if (pair_) know_what_is_around(base, options);
    if (auto s = lower_side(base, options); !s.ok()) return s;
    (void)holds_attention(g_);
    options.model = 1;
    for (const ValueInfo* i : given_inputs(*models_[1 - base])) options.input_names[i->name] = fmt::format("{} of the other", i->name);
    for (const auto& [first, second] : inputs_) {
      const std::string &known = base == 0 ? first : second, &other = base == 0 ? second : first;
      options.input_names[other] = known;
      if (const auto it = sides_[base].values.find(known); it != sides_[base].values.end()) options.inputs[other] = g_.facts(it->second);
    }
    if (auto s = lower_side(1 - base, options); !s.ok()) return s;
    return contradiction();
  }

  LowerOptions as_in_a_proof() const {
    LowerOptions options;
    options.disputes_are_unique = false;
    options.believes_types = out_.believes_types;
    return options;
  }

  // What comes in is the same in both bodies, and so it is what the one of them shows it to be.
  void know_what_is_around(int base, LowerOptions& options) {
    for (const auto& [name, id] : pair_->captured) options.captured[name] = captured_value(pair_->outside, id, g_.dims());
    const auto new_graph = [this] {
      auto g = std::make_unique<OnnxEGraph>(*evaluator_);
      setup_.rules.define_operators(*g);
      return g;
    };
    const Model& body = pair_->bodies[base];
    const auto known =
        body_input_facts(*pair_->nodes[base]->node, body, pair_->outside, pair_->sides[base], {new_graph, as_in_a_proof()}, g_.dims());
    for (std::size_t i = 0; i < body.graph.inputs.size(); ++i)
      if (const auto it = known.find(body.graph.inputs[i].name); it != known.end())
        options.inputs[models_[base]->graph.inputs[i].name] = it->second;
  }

  absl::Status lower_side(int side, const LowerOptions& options) {
    auto lowered = lower(*models_[side], g_, options);
    if (!lowered.ok()) return lowered.status();
    sides_[side] = *std::move(lowered);
    out_.declares_types |= sides_[side].known_by_declaration > 0;
    return absl::OkStatus();
  }

  absl::Status contradiction() const {
    const auto& c = g_.egraph().contradiction();
    if (!c) return absl::OkStatus();
    return absl::FailedPreconditionError(c->rule.empty() ? fmt::format("what the models declare of one value can't be: {}", c->what)
                                                         : fmt::format("rule {} contradicts what is known: {}", c->rule, c->what));
  }

  void pair_outputs() {
    const auto pairs = partners(outputs_of(*models_[0]), outputs_of(*models_[1]));
    for (const ValueInfo& o : models_[0]->graph.outputs) {
      const auto pair = pairs.find(o.name);
      out_.outputs.push_back({o.name, pair == pairs.end() ? "" : pair->second});
      if (pair == pairs.end()) out_.interface.push_back(fmt::format("output '{}' is gone", o.name));
    }
    std::set<std::string> taken, names;
    for (const auto& [first, second] : pairs) taken.insert(second);
    for (const ValueInfo& o : models_[1]->graph.outputs) names.insert(o.name);
    if (names != taken) out_.interface.push_back("the second model has more outputs");
  }

  Id value(int side, const std::string& name) const { return sides_[side].values.at(name); }
  bool are_equal(Id a, Id b) const { return g_.egraph().find(a) == g_.egraph().find(b); }
  bool all_equal() const {
    return std::ranges::all_of(out_.outputs,
                               [&](const auto& o) { return !o.partner.empty() && are_equal(value(0, o.name), value(1, o.partner)); });
  }

  // Laws that fuse, then also those that make what one of the models alone calls, then those that take it apart, then with constants that
  // differ in their last bits.
  absl::Status rewrite() {
    if (all_equal() || (unite_bodies() && all_equal())) return absl::OkStatus();
    const auto fuses =
        [this](const RuleHead& rule) {  // and what leads on from operators that the target has not, between those that it has
          return !rule.if_unsupported || (!rule.if_any_unsupported && !takes(setup_.target, rule.ends_in, kNewestOpset));
        };
    if (auto s = saturate_whole(fuses); !s.ok() || all_equal()) return s;
    const std::set<OperatorName> lone = lone_operators();
    g_.refuse_by(std::make_shared<LoneOperators>(lone));
    const auto stands_in = [&](const RuleHead& rule) { return fuses(rule) || makes_any(rule, lone); };
    if (auto s = saturate_whole(stands_in); !s.ok() || all_equal()) return s;
    const auto takes_apart = [&](const RuleHead& rule) {
      return rule.if_unsupported && holds(models_[0]->graph.nodes, rule.ends_in) != holds(models_[1]->graph.nodes, rule.ends_in);
    };
    const bool any = std::ranges::any_of(setup_.rules.stored(), [&](const auto& stored) { return takes_apart(stored->head()); });
    const auto either = [&](const RuleHead& rule) { return stands_in(rule) || takes_apart(rule); };
    if (any)
      if (auto s = saturate_whole(either); !s.ok() || all_equal()) return s;
    if (!known_.constants(true) || all_equal()) return absl::OkStatus();
    return saturate_whole(any ? std::function<bool(const RuleHead&)>(either) : stands_in);
  }

  static bool makes_any(const RuleHead& rule, const std::set<OperatorName>& operators) {
    return std::ranges::any_of(rule.directions, [&](const RuleDirection& to) {
      return std::ranges::any_of(to.makes, [&](const RuleOp& op) {
        return !op.domain.empty() && operators.contains({std::string(op.domain), std::string(op.op_type)});
      });
    });
  }

  std::set<OperatorName> lone_operators() const {
    std::set<OperatorName> of[2], out;
    for (const int side : {0, 1})
      for (const Node& node : models_[side]->graph.nodes) of[side].emplace(node.domain, node.op_type);
    std::ranges::set_symmetric_difference(of[0], of[1], std::inserter(out, out.end()));
    return out;
  }

  // And again with what laws computed, as long as that is what the other model holds.
  absl::Status saturate_whole(const std::function<bool(const RuleHead&)>& wanted) {
    constexpr int kMostRounds = 4;
    for (int round = 0; round < kMostRounds; ++round) {
      if (auto s = saturate(wanted); !s.ok() || all_equal()) return s;
      const bool any[] = {known_.constants(false), known_.sizes(), known_.reshapes(), unite_bodies()};
      if (all_equal() || std::ranges::none_of(any, std::identity())) break;
    }
    return absl::OkStatus();
  }

  bool unite_bodies() { return depth_ < kMostDepth && bodies_.unite(); }

  // What all bodies take together is the time that rewriting has.
  absl::StatusOr<ModelProof> prove_bodies(const BodyPair& pair) {
    const double left = until_ - steady_seconds();
    if (left <= 0 || (options_.limits.cancel && *options_.limits.cancel)) return absl::DeadlineExceededError("no time is left");
    ProveOptions options = options_;
    options.limits.seconds = left;
    return Prover(pair, *this, options).run();
  }

  absl::Status saturate(const std::function<bool(const RuleHead&)>& wanted) {
    std::vector<Rewrite> rewrites = setup_.rules.compile_when_wanted(g_, wanted);
    RunOptions options;
    options.limits = limits_of(options_.limits, g_.egraph());
    std::atomic<bool> ends = false;
    options.limits.cancel = &ends;
    options.on_iteration = [&](const IterationStats&) { ends = all_equal() || (options_.limits.cancel && *options_.limits.cancel); };
    const RunReport report = ::saturate::run(g_.egraph(), rewrites, options);
    out_.stop = to_string(report.stop);
    return contradiction();
  }

  void note_outcome() {
    for (auto& o : out_.outputs) o.proven = !o.partner.empty() && are_equal(value(0, o.name), value(1, o.partner));
    const bool proven = out_.interface.empty() && std::ranges::all_of(out_.outputs, &ModelProof::Output::proven);
    if (proven) {
      out_.verdict = ModelProof::Verdict::kProven;
      out_.stop.clear();
    }
    out_.rounded = known_.rounded();
    note_laws();
    std::vector<std::pair<std::string, std::string>> open;
    for (const auto& o : out_.outputs)
      if (!o.proven && !o.partner.empty()) open.emplace_back(o.name, o.partner);
    OpenRegions regions(g_, sides_);
    for (int side : {0, 1}) {
      out_.nodes[side] = models_[side]->graph.nodes.size();
      out_.proven_nodes[side] = regions.proven_nodes(side);
    }
    out_.regions = regions.between(open);
  }

  void note_laws() {
    std::map<std::string, std::size_t> times;
    std::set<std::string> sizes;
    std::set<std::pair<NodeId, NodeId>> counted;
    for (const auto& o : out_.outputs) {
      if (!o.proven) continue;
      const auto why = explain(g_.egraph(), value(0, o.name), value(1, o.partner));
      if (!why) continue;
      for (const auto* steps : {&why->chain, &why->support})
        for (const ExplainStep& step : *steps) {
          if (!counted.emplace(step.left, step.right).second) continue;
          if (std::string taken = known_.taken(step.left, step.right); !taken.empty()) sizes.insert(std::move(taken));
          if (step.kind == ExplainStep::Kind::kAnalysis || step.kind == ExplainStep::Kind::kGiven) ++out_.computed;
          if (step.kind == ExplainStep::Kind::kRule || step.kind == ExplainStep::Kind::kNative)
            ++times[std::string(rule_of_rewrite(step.rule))];
        }
    }
    for (const ModelProof& body : bodies_.proofs()) {
      for (const UsedLaw& law : body.laws) times[law.rule] += law.times;
      sizes.insert(body.sizes.begin(), body.sizes.end());
      out_.rounded.insert(out_.rounded.end(), body.rounded.begin(), body.rounded.end());
      out_.computed += body.computed;
      out_.declares_types |= body.declares_types;
    }
    out_.bodies = bodies_.proofs().size();
    out_.sizes.assign(sizes.begin(), sizes.end());
    for (const auto& [name, n] : times) out_.laws.push_back(law(name, n));
    std::ranges::stable_sort(out_.laws, std::ranges::greater(), &UsedLaw::times);
  }

  UsedLaw law(const std::string& name, std::size_t times) const {
    if (const Rule* rule = setup_.rules.find(name)) return {name, rule->effect, {rule->assumes.begin(), rule->assumes.end()}, times};
    for (const NativeRule& native : setup_.rules.native_rules())
      if (native.name == name) return {name, native.effect, native.assumes, times};
    return {name, Effect::kExact, {}, times};
  }

  const Model* models_[2];
  const BodyPair* pair_ = nullptr;  // of which the models are the bodies
  int depth_ = 0;
  const Setup& setup_;
  const ProveOptions& options_;
  std::unique_ptr<Evaluator> evaluator_;
  OnnxEGraph g_;
  double until_;  // for bodies
  Names inputs_;
  Lowered sides_[2];
  KnownEqual known_{g_, sides_};
  EqualBodies bodies_{g_, sides_, [this](const BodyPair& pair) { return prove_bodies(pair); }};
  ModelProof out_;
};

}  // namespace

absl::StatusOr<ModelProof> prove(const Model& first, const Model& second, const Setup& setup, const ProveOptions& options) {
  auto proof = Prover(first, second, setup, options, false).run();
  if (proof.ok() && proof->verdict != ModelProof::Verdict::kProven && proof->interface.empty() && proof->declares_types) {
    auto believing = Prover(first, second, setup, options, true).run();
    if (believing.ok() && believing->verdict == ModelProof::Verdict::kProven) proof = std::move(believing);
  }
  if (!proof.ok() || proof->verdict == ModelProof::Verdict::kProven || !options.compares_numbers) return proof;
  proof->numbers = verify(first, second, options.run);
  if (proof->numbers->status == VerifyStatus::kDifferent) proof->verdict = ModelProof::Verdict::kDifferent;
  return proof;
}

}  // namespace saturate
