#include "rules/check/check_respelled.h"

#include <fmt/format.h>

#include <algorithm>

#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/opsets/canonical.h"
#include "rules/check/check_graph.h"
#include "rules/language/parse_lexer.h"

namespace saturate {
// What a rule is, in text or in C++.
struct Respeller::Tested {
  const Rule* graph;  // its left side, or a graph that a native rule has for an example
  std::string name;
  Effect effect;
  const std::vector<std::string>* assumes;
  std::function<std::vector<Rewrite>(OnnxEGraph&)> make;
};

namespace {

// A rule that a user of this one has at work: those that always are, and those under the same conditions.
bool is_at_work(const RuleHead& other, const Rule& rule, Effect effect, std::span<const std::string> assumes) {
  const auto assumed = [&](std::string_view name) {
    return AssumptionChoice{}.allows(name) || std::find(assumes.begin(), assumes.end(), name) != assumes.end();
  };
  return other.effect <= std::max(effect, Effect::kReassociates) && std::all_of(other.assumes.begin(), other.assumes.end(), assumed) &&
         (!other.if_unsupported || rule.if_unsupported) && (!other.if_any_unsupported || rule.if_any_unsupported) &&
         (!other.if_refused || rule.if_refused);
}

// Copies what e-classes are made of into another e-graph. Each class has one e-node, but for those that are told to be another one.
class Copy {
 public:
  Copy(const OnnxEGraph& from, OnnxEGraph& to, const Instance& instance, const LeftSide& left) : from_(from), to_(to) {
    for (const auto& [name, tensor] : instance.tensors) inputs_.emplace(from.egraph().find(left.id(name)), std::pair(&name, &tensor));
  }
  void replace(Id by, Id with) { instead_[from_.egraph().find(by)] = with; }
  // Classes from this one on are nodes of a model, and lowered; others are in the form that the rule has for its example.
  void lower_from(Id first) { lowered_from_ = first; }

  Id of(Id id) {
    const Id root = from_.egraph().find(id);
    if (const auto it = copies_.find(root); it != copies_.end()) return it->second;
    if (const auto it = instead_.find(root); it != instead_.end()) {
      const Id with = it->second;
      instead_.erase(it);  // what is in its place may be made of it
      const Id copy = of(with);
      instead_.emplace(root, with);
      return copies_[root] = copy;
    }
    const Id copy = of(from_.egraph().node(from_.egraph().class_nodes(root)[0]), root);
    copies_.emplace(root, copy);
    return copy;
  }

 private:
  Id of(const ENode& node, Id root) {
    const OpKey key = from_.key(node.op);
    if (key.op_type == kConstantOp) return to_.constant(from_.constant_tensor(node.op));
    if (key.op_type == kAbsentOp) return to_.absent();
    if (const auto it = inputs_.find(root); it != inputs_.end() && key.op_type == kInputOp)
      return to_.input(*it->second.first, facts_of(*it->second.second));
    const std::vector<Id> children(node.children.begin(), node.children.end());
    std::vector<Id> copied;
    for (const Id child : children) copied.push_back(of(child));
    if (key.op_type == kProjOp) return to_.project(copied[0], static_cast<int>(find_attribute(key.attributes, "index")->i()));
    return root >= lowered_from_ ? lowered(key, copied) : to_.add(key, copied);
  }

  // As lowering brings a node of a model to its one form.
  Id lowered(const OpKey& key, std::vector<Id> children) {
    Node node;
    node.domain = key.domain;
    node.op_type = key.op_type;
    node.attributes = key.attributes;
    std::vector<Facts> known;
    std::map<std::string, Id> names{{"", to_.absent()}};
    for (const Id child : children) {
      known.push_back(to_.facts(child));
      const bool absent = known.back().kind == Facts::Kind::kAbsent;
      node.inputs.push_back(absent ? "" : fmt::format("i{}", known.size()));
      if (!absent) names[node.inputs.back()] = child;
    }
    for (int i = 0; i < key.outputs; ++i) node.outputs.push_back(fmt::format("o{}", i));
    std::vector<const Facts*> facts;
    for (const Facts& f : known) facts.push_back(&f);
    const auto canonical = to_canonical(node, kNewestOpset, facts, to_.dims(), "c");
    if (!canonical || canonical->nodes.size() != 1) return to_.add(key, children);
    for (const Initializer& c : canonical->constants) names[c.name] = to_.constant(c.tensor);
    children.clear();
    for (const std::string& name : canonical->nodes[0].inputs) children.push_back(names.at(name));
    OpKey newest = key;
    newest.attributes = canonical->nodes[0].attributes;
    return to_.add(newest, children);
  }

  Facts facts_of(const Tensor& tensor) {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = tensor.dtype();
    f.shape.emplace();
    for (const std::int64_t d : tensor.dims()) f.shape->push_back(to_.dims().constant(d));
    return f;
  }

  const OnnxEGraph& from_;
  OnnxEGraph& to_;
  std::map<Id, std::pair<const std::string*, const Tensor*>> inputs_;
  std::map<Id, Id> instead_, copies_;
  Id lowered_from_ = kNone;
};

}  // namespace

// An example as e-nodes, what the rule makes of it, and what the laws make of its nodes; nothing is united.
class Respeller::Example {
 public:
  Example(const Tested& tested, const Instance& instance, const Evaluator& evaluator)
      : tested_(tested), instance_(instance), g_(evaluator), left_(*tested.graph, instance, g_) {}

  // Whether the rule applies, with these inputs as what is no constant.
  bool build(const std::set<std::string>& variable, const RuleSet& rules) {
    rules.define_operators(g_);
    return left_.build(variable).empty();
  }

  bool apply(const std::vector<Rule>& laws) {
    std::vector<std::tuple<const Rule*, Rewrite, OwnedMatch>> places;
    for (const Rule& law : laws)
      for (Rewrite& rewrite : compile_rule(law, g_))
        for (OwnedMatch& m : search(g_.egraph(), rewrite.left, 100))
          if (rewrite.applier->holds(g_.egraph(), match(m))) places.emplace_back(&law, rewrite, std::move(m));
    example_ends_ = static_cast<Id>(g_.egraph().num_ids());
    for (const Rewrite& rewrite : tested_.make(g_))
      for (const OwnedMatch& m : search(g_.egraph(), rewrite.left, 100))
        if (made_.empty() && rewrite.applier->holds(g_.egraph(), match(m))) made_ = unions_of(rewrite, m);
    for (const auto& [law, rewrite, m] : places)
      if (Unions unions = unions_of(rewrite, m); !unions.empty() && !g_.facts(unions[0].first).constant)
        respelled_.emplace_back(law, std::move(unions));
    return !made_.empty();
  }

  const std::vector<std::pair<const Rule*, Unions>>& respelled() const { return respelled_; }

  // Whether all rules bring what the rule makes of the example into the classes of the example, which is written otherwise.
  // `opened`: a rule that is at work, too.
  bool fires(const Unions& otherwise, const RuleSet& rules, const Evaluator& evaluator, std::string* shown,
             const Rule* opened = nullptr) const {
    OnnxEGraph g(evaluator);
    Copy respelled(g_, g, instance_, left_), plain(g_, g, instance_, left_);
    respelled.lower_from(example_ends_);
    for (const auto& [by, with] : otherwise) respelled.replace(by, with);
    rules.define_operators(g);
    std::vector<Id> before, after;
    for (const auto& [from, to] : made_) before.push_back(respelled.of(from));
    for (const std::string& output : tested_.graph->outputs) LeftSide::add_reader(g, respelled.of(left_.id(output)));
    if (shown)
      for (const Id id : before) *shown += text(g, id, 0) + " ";
    g.egraph().rebuild();
    run(g, rules, true, opened);
    for (const auto& [from, to] : made_) after.push_back(plain.of(to));
    g.egraph().rebuild();
    const auto met = [&] {
      for (std::size_t i = 0; i < before.size(); ++i)
        if (g.egraph().find(before[i]) != g.egraph().find(after[i])) return false;
      return true;
    };
    if (met()) return true;
    // What the rule makes may be brought to another form, as all else is; but not by the rule itself.
    run(g, rules, false, opened);
    return met();
  }

 private:
  static Match match(const OwnedMatch& m) { return {m.classes, m.matched, m.ops}; }

  Unions unions_of(const Rewrite& rewrite, const OwnedMatch& m) {
    Unions unions, out;
    rewrite.applier->apply(g_.egraph(), match(m), unions);
    for (const auto& [a, b] : unions)
      if (g_.egraph().find(a) != g_.egraph().find(b)) out.emplace_back(a, b);
    return out;
  }

  void run(OnnxEGraph& g, const RuleSet& rules, bool with_rule, const Rule* opened) const {
    std::vector<Rewrite> rewrites =
        rules.compile_when_wanted(g, [&](const RuleHead& r) { return is_at_work(r, *tested_.graph, tested_.effect, *tested_.assumes); });
    const auto is_own = [&](const Rewrite& r) { return law_of(rule_of_rewrite(r.name)) == law_of(tested_.name); };
    if (!with_rule) std::erase_if(rewrites, is_own);
    if (with_rule && std::none_of(rewrites.begin(), rewrites.end(), is_own))
      for (Rewrite& r : tested_.make(g)) rewrites.push_back(std::move(r));
    if (opened)
      for (Rewrite& r : compile_rule(*opened, g)) rewrites.push_back(std::move(r));
    RunOptions options;
    options.limits.iterations = 16;
    options.limits.nodes = 5'000;
    options.limits.seconds = 2;
    ::saturate::run(g.egraph(), rewrites, options);
  }

  static std::string text(const OnnxEGraph& g, Id id, int depth) {
    constexpr int kDeepest = 12;
    const ENode node = g.egraph().node(g.egraph().class_nodes(g.egraph().find(id))[0]);
    const OpKey& key = g.key(node.op);
    if (key.op_type == kInputOp) return find_attribute(key.attributes, "name")->s();
    if (key.op_type == kConstantOp) return "c";
    if (key.op_type == kAbsentOp) return "";
    if (depth > kDeepest) return "...";
    std::vector<std::string> inputs;
    for (const Id child : node.children) inputs.push_back(text(g, child, depth + 1));
    if (key.op_type == kProjOp) return fmt::format("{}.{}", inputs[0], find_attribute(key.attributes, "index")->i());
    return fmt::format("{}({})", key.op_type, fmt::join(inputs, ", "));
  }

  const Tested& tested_;
  const Instance& instance_;
  OnnxEGraph g_;
  LeftSide left_;
  Id example_ends_ = 0;
  Unions made_;
  std::vector<std::pair<const Rule*, Unions>> respelled_;
};

namespace {

// A guard that keeps examples of a rule silent, as its documentation says.
struct Silence {
  std::string law, guard, by;
};

std::vector<Silence> silence_of(std::string_view doc) {
  constexpr std::string_view kBegin = "Silent by ", kGuard = ": `", kOf = "` of ";
  std::vector<Silence> out;
  for (std::size_t at = doc.find(kBegin); at != std::string_view::npos; at = doc.find(kBegin, at + 1)) {
    std::string_view line = doc.substr(at + kBegin.size());
    line = line.substr(0, line.find('\n'));
    const std::size_t guard = line.find(kGuard), of = line.find(kOf), end = line.rfind('.');
    if (guard == std::string_view::npos || of == std::string_view::npos || end == std::string_view::npos || guard > of || of > end)
      continue;
    out.push_back({std::string(line.substr(0, guard)), std::string(line.substr(guard + kGuard.size(), of - guard - kGuard.size())),
                   std::string(line.substr(of + kOf.size(), end - of - kOf.size()))});
  }
  return out;
}

std::string text_of(const Silence& s) { return fmt::format("`{}` of {}", s.guard, s.by); }

}  // namespace

// The guard that keeps an example silent: with it switched off, the example fires.
std::string Respeller::guard_of(const Example& example, const Unions& otherwise, const std::string& doc, std::string_view law) const {
  for (const Silence& s : silence_of(doc)) {
    if (s.law != law_of(law)) continue;
    for (const Rule& by : rules_->rules()) {
      if (law_of(by.name) != s.by) continue;
      Rule opened = with_single_guards(by);
      const auto named = [&](const ExprPtr& e) { return to_string(*e) == s.guard; };
      if (std::erase_if(opened.where, named) == 0) continue;
      if (example.fires(otherwise, *rules_, *evaluator_, nullptr, &opened)) return text_of(s);
    }
  }
  return {};
}

void Respeller::check_example(const Tested& tested, const RuleExample& example, RespelledRule& out) const {
  std::mt19937_64 random(1);
  const Instance instance = instance_of(*tested.graph, example, random);
  if (RuleRunner(*tested.graph, *evaluator_).run(instance).kind == Outcome::Kind::kLeftFails) return;  // it is for another instance
  std::set<std::string> variable = non_constant_names(*tested.graph), open = variable;
  for (const ExampleValue& v : example.values)
    if (!v.attribute && !v.values) open.insert(v.name);
  const std::string place = at(tested.graph->file, example.place, "");
  for (const std::set<std::string>& inputs : {open, variable}) {
    Example one(tested, instance, *evaluator_);
    if (!one.build(inputs, *rules_) || !one.apply(laws_)) continue;
    if (!one.fires({}, *rules_, *evaluator_, nullptr)) return out.silent.push_back(place);
    ++out.examples;
    for (const auto& [law, unions] : one.respelled()) {
      Respelling r{law->name, place, false, "", ""};
      r.fires = one.fires(unions, *rules_, *evaluator_, &r.graph);
      if (!r.fires) r.guard = guard_of(one, unions, tested.graph->doc, law->name);
      out.respellings.push_back(std::move(r));
    }
    return;
  }
}

namespace {

void add_silences(const std::string& doc, RespelledRule& out) {
  for (const Silence& s : silence_of(doc))
    out.silences.emplace_back(fmt::format("Silent by {}: {}", s.law, text_of(s)),
                              std::any_of(out.respellings.begin(), out.respellings.end(),
                                          [&](const Respelling& r) { return law_of(r.law) == s.law && r.guard == text_of(s); }));
}

}  // namespace

int RespelledRule::fired() const {
  return static_cast<int>(std::count_if(respellings.begin(), respellings.end(), [](const Respelling& r) { return r.fires; }));
}

absl::StatusOr<Respeller> Respeller::make(std::string_view laws, const RuleSet& rules, const Evaluator& evaluator) {
  auto file = parse_rules(laws, "respellings.rules");
  if (!file.ok()) return file.status();
  return Respeller(std::move(file->rules), rules, evaluator);
}

RespelledRule Respeller::check(const Rule& rule) const {
  RespelledRule out;
  out.rule = rule.name;
  const Tested tested{&rule, rule.name, rule.effect, &rule.assumes, [&rule](OnnxEGraph& g) {
                        std::vector<Rewrite> rewrites = compile_rule(rule, g);
                        std::erase_if(rewrites, [&](const Rewrite& r) { return r.name != rule.name; });
                        return rewrites;
                      }};
  for (const RuleExample& example : rule.examples) check_example(tested, example, out);
  add_silences(rule.doc, out);
  return out;
}

RespelledRule Respeller::check(const NativeRule& rule) const {
  RespelledRule out;
  out.rule = rule.name;
  for (const Rule* graph : rules_->cases_of(rule.name)) {
    Rule told = *graph;
    told.if_refused = rule.if_refused;
    const Tested tested{&told, rule.name, rule.effect, &rule.assumes,
                        [&rule](OnnxEGraph& g) { return rule.make(g, std::make_shared<RuleLog>()); }};
    for (const RuleExample& example : graph->examples) check_example(tested, example, out);
    add_silences(graph->doc, out);
  }
  return out;
}

}  // namespace saturate
