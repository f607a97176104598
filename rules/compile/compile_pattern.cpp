#include <algorithm>
#include <cmath>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "onnx_bridge/opsets/canonical.h"
#include "rules/compile/compile_plan.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxConstantBytes = 4096;  // a constant that a rule writes out is not longer

// What an operator's attributes must be; see compile_plan.h for what only the match can tell.
struct Expectation {
  enum class Kind : std::uint8_t { kEqual, kPresent, kAnything };
  std::string name;
  Kind kind = Kind::kAnything;
  Attribute value;
};

bool accepts_key(const OpKey& key, const std::vector<Expectation>& expectations) {
  if (!key.overload.empty()) return false;
  std::size_t seen = 0;
  for (const Expectation& e : expectations) {
    const Attribute* found = find_attribute(key.attributes, e.name);
    seen += found != nullptr;
    if (e.kind == Expectation::Kind::kPresent && found == nullptr) return false;
    if (e.kind == Expectation::Kind::kEqual && (found == nullptr || !same_value(*found, e.value))) return false;
  }
  return seen == key.attributes.size();
}

bool matches_constant(const Tensor& t, const RuleConstant& wanted) {
  if (wanted.list ? t.rank() != 1 || t.size() != static_cast<std::int64_t>(wanted.size()) : t.size() != 1) return false;
  if (t.dtype() == DType::kBool || t.dtype() == DType::kString) return false;
  const double tolerance = match_tolerance(t.dtype());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto found = element_as_double(t, static_cast<std::int64_t>(i));
    if (!found || !matches_number(*found, wanted.real(i), tolerance)) return false;
  }
  return true;
}

// A test of a class against a constant written in a rule. Lists with negative axes are compared where the rank is known.
std::function<bool(const EGraph&, Id)> constant_test(const OnnxEGraph& g, RuleConstant wanted, bool any_list_of_its_length) {
  return [&g, wanted = std::move(wanted), any_list_of_its_length](const EGraph&, Id id) {
    const Facts& f = g.facts(id);
    if (!f.constant || f.kind != Facts::Kind::kTensor) return false;
    if (f.shape && f.rank() > 8) return false;
    const auto t = f.value ? f.value : g.value(id, kMaxConstantBytes);
    if (!t) return false;
    if (any_list_of_its_length) return t->rank() == 1 && t->size() == static_cast<std::int64_t>(wanted.size());
    return matches_constant(*t, wanted);
  };
}

class LeftCompiler {
 public:
  LeftCompiler(CompiledRule& out, OnnxEGraph& g) : out_(out), g_(g) {}

  void run() {
    find_optional_names();
    if (out_.tests_inputs_early) find_constancy();
    for (const std::string& name : out_.rule->inputs)
      if (!left_out(name)) variable(name);
    for (const auto& [name, expr] : out_.rule->lets)
      if (used_on_left(name)) {
        variable(name);
        out_.let_slots.emplace_back(name, slot_of_.at(name));
      }
    for (const RuleNode& n : out_.rule->left) {
      if (n.is_constant()) constant(n);
    }
    for (const RuleNode& n : out_.rule->left)
      if (!n.is_constant()) operator_node(n);
    for (const auto& [name, slot] : slot_of_) out_.slots.emplace_back(name, slot);
    out_.names = names();
    for (const CompiledRule::AttributeBinding& b : out_.bindings)
      for (const CompiledRule::AttributeBinding* before = out_.bindings.data(); before != &b; ++before)
        if (before->variable == b.variable) out_.bound_twice.emplace_back(&b, before);
  }

 private:
  void find_optional_names() {
    optional_.insert(out_.rule->optional.begin(), out_.rule->optional.end());
    each_in_conditions([&](const Expr& e) {
      if (e.kind != Expr::Kind::kCall || (e.text != "absent" && e.text != "present")) return;
      for (const ExprPtr& a : e.arguments)
        if (a && a->kind == Expr::Kind::kName) optional_.insert(a->text);
    });
  }

  // `const(c)` and `not const(X)`, of inputs that are there.
  void find_constancy() {
    for (const ExprPtr& condition : out_.rule->where) {
      const bool negated = condition->kind == Expr::Kind::kNot;
      const Expr& call = negated ? *condition->arguments[0] : *condition;
      const auto is_input = [&](const ExprPtr& e) {
        const auto& inputs = out_.rule->inputs;
        return e->kind == Expr::Kind::kName && !left_out(e->text) && std::find(inputs.begin(), inputs.end(), e->text) != inputs.end();
      };
      const bool early = call.kind == Expr::Kind::kCall && call.text == "const" && (!negated || call.arguments.size() == 1) &&
                         std::all_of(call.arguments.begin(), call.arguments.end(), is_input);
      out_.tested_early.push_back(early);
      for (const ExprPtr& input : call.arguments)
        if (early) constancy_.emplace_back(input->text, !negated);
    }
  }

  // Every expression of the conditions, with those that it is made of.
  template <typename Visit>
  void each_in_conditions(const Visit& visit) const {
    std::vector<const Expr*> open;
    for (const ExprPtr& e : out_.rule->where) open.push_back(e.get());
    while (!open.empty()) {
      const Expr* e = open.back();
      open.pop_back();
      visit(*e);
      for (const ExprPtr& a : e->arguments)
        if (a) open.push_back(a.get());
    }
  }

  CompiledRule::Names names() const {
    const auto is_let = [&](const std::string& name) {
      return std::any_of(out_.rule->lets.begin(), out_.rule->lets.end(), [&](const auto& let) { return let.first == name; });
    };
    CompiledRule::Names out;
    for (const auto& [name, slot] : out_.slots)
      if (!is_let(name)) out.slots.emplace_back(name, slot);
    out.left_out.assign(out_.left_out.begin(), out_.left_out.end());
    for (const CompiledRule::AttributeBinding& b : out_.bindings)
      if (!is_let(b.variable)) out.bindings.push_back(&b);
    return out;
  }

  bool left_out(const std::string& name) const {
    return std::find(out_.left_out.begin(), out_.left_out.end(), name) != out_.left_out.end();
  }

  bool used_on_left(const std::string& name) const {
    for (const RuleNode& n : out_.rule->left)
      if (std::find(n.inputs.begin(), n.inputs.end(), name) != n.inputs.end()) return true;
    return false;
  }

  std::uint32_t push(PatternNode node) {
    out_.pattern.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(out_.pattern.nodes.size()) - 1;
  }

  void variable(const std::string& name) {
    PatternNode node;
    const bool may_be_absent = optional_.contains(name);
    bool constant = false, variable = false;
    for (const auto& [tested, is_constant] : constancy_)
      if (tested == name) (is_constant ? constant : variable) = true;
    if (constant || variable) {
      node.accepts = [&g = g_, may_be_absent, constant, variable](const EGraph&, Id id) {
        const Facts& f = g.facts(id);
        return (may_be_absent || f.kind != Facts::Kind::kAbsent) && (f.constant ? !variable : !constant);
      };
    } else if (!may_be_absent) {
      node.accepts = [&g = g_](const EGraph&, Id id) { return g.facts(id).kind != Facts::Kind::kAbsent; };
    }
    slot_of_[name] = push(std::move(node));
  }

  void constant(const RuleNode& n) {
    const RuleConstant wanted = *rule_constant(n);
    const bool negative =
        wanted.list && wanted.integers && std::any_of(wanted.ints.begin(), wanted.ints.end(), [](std::int64_t i) { return i < 0; });
    bool axes = false;
    for (const RuleNode& consumer : out_.rule->left) {
      const OpSchema* schema = newest_schema(consumer.domain, consumer.op_type);
      for (std::size_t i = 0; schema && i < consumer.inputs.size(); ++i)
        axes |= consumer.inputs[i] == n.outputs[0] && is_axes_input(*schema, i);
    }
    PatternNode node;
    node.accepts = constant_test(g_, wanted, axes && negative);
    const std::uint32_t slot = push(std::move(node));
    slot_of_[n.outputs[0]] = slot;
    constants_[slot] = {wanted, axes && negative};
  }

  void operator_node(const RuleNode& n) {
    PatternNode node;
    node.type = PatternNode::Type::kOperator;
    node.kind = g_.kind(n.domain, n.op_type, static_cast<int>(n.outputs.size()));
    std::size_t operands = n.inputs.size();  // e-nodes have no absent operands at the end
    while (operands > 0 && (n.inputs[operands - 1].empty() || left_out(n.inputs[operands - 1]))) --operands;
    for (const std::string& name : std::span(n.inputs).first(operands))
      node.children.push_back(name.empty() || left_out(name) ? absent() : slot_of_.at(name));
    const std::vector<std::uint32_t> children = node.children;
    std::vector<Expectation> expectations = expect(n);
    std::vector<std::pair<std::string, std::string>> variables;
    std::vector<Attribute> axes;
    const bool along_first = !children.empty() && counts_along_first_input(n.domain);
    for (Expectation& e : expectations) {
      if (e.kind == Expectation::Kind::kEqual && negative_axis(e.value) && along_first && axis_rank(n.op_type, e.name, 1)) {
        axes.push_back(e.value);
        e.kind = Expectation::Kind::kPresent;
      }
    }
    node.accepts_op = [&g = g_, expectations = std::move(expectations)](OpId op) { return accepts_key(g.key(op), expectations); };
    const std::uint32_t slot = push(std::move(node));
    for (Attribute& a : axes) out_.axis_tests.push_back({slot, children[0], n.op_type, std::move(a)});
    for (const RuleAttribute& a : n.attributes)
      if (a.kind == RuleAttribute::Kind::kVariable) {
        const bool axis = along_first && axis_rank(n.op_type, a.literal.name, 1).has_value();
        out_.bindings.push_back({a.variable, slot, a.literal.name, axis ? children[0] : kNone});
      }
    constant_operands(n, children);
    outputs(n, slot);
  }

  std::vector<Expectation> expect(const RuleNode& n) const {
    std::vector<Expectation> out;
    for (const RuleAttribute& a : n.attributes) {
      Expectation e;
      e.name = a.literal.name;
      e.value = a.literal;
      if (a.kind == RuleAttribute::Kind::kLiteral) e.kind = Expectation::Kind::kEqual;
      out.push_back(std::move(e));
    }
    if (const OpSchema* schema = newest_schema(n.domain, n.op_type))
      for (const OpAttribute& a : schema->attributes)
        if (a.default_value && n.attribute(a.name) == nullptr)
          out.push_back({std::string(a.name), Expectation::Kind::kEqual, *a.default_value});
    return out;
  }

  std::uint32_t absent() {
    if (absent_ == kNone) {
      PatternNode node;
      node.type = PatternNode::Type::kOperator;
      node.kind = g_.kind("#", kAbsentOp);
      absent_ = push(std::move(node));
    }
    return absent_;
  }

  // Tests that constants among these children need besides their value.
  void constant_operands(const RuleNode& n, const std::vector<std::uint32_t>& children) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      const auto it = constants_.find(children[i]);
      if (it == constants_.end()) continue;
      const auto& [wanted, axes] = it->second;
      if (axes && i > 0) out_.axes_tests.push_back({children[i], children[0], wanted.ints, n.op_type == "Unsqueeze"});
      if (wanted.list) continue;
      if (!saturate::broadcasts(n)) continue;
      CompiledRule::RankTest test{children[i], {}};
      for (std::uint32_t other : children)
        if (other != children[i] && !constants_.contains(other)) test.others.push_back(other);
      out_.rank_tests.push_back(std::move(test));
    }
  }

  void outputs(const RuleNode& n, std::uint32_t slot) {
    const auto& wanted = out_.rule->outputs;
    const auto rule_output = [&](const std::string& name) { return std::find(wanted.begin(), wanted.end(), name) - wanted.begin(); };
    if (out_.outputs.empty()) out_.outputs.resize(wanted.size());
    if (n.outputs.size() == 1) {
      slot_of_[n.outputs[0]] = slot;
      if (const auto k = rule_output(n.outputs[0]); k < std::ssize(wanted)) out_.outputs[static_cast<std::size_t>(k)].slot = slot;
      return;
    }
    const bool root = &n == &last_operator();
    const auto ends = std::count_if(n.outputs.begin(), n.outputs.end(),
                                    [&](const std::string& o) { return !o.empty() && rule_output(o) < std::ssize(wanted); });
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      const std::string& name = n.outputs[i];
      if (name.empty()) continue;
      const auto k = rule_output(name);
      const bool is_output = k < std::ssize(wanted);
      if (root && ends > 1) {
        if (is_output) out_.outputs[static_cast<std::size_t>(k)] = {slot, static_cast<int>(i), {}};
        continue;
      }
      if (!is_output && !used_on_left(name)) continue;
      slot_of_[name] = projection(slot, static_cast<std::int64_t>(i));
      if (is_output) out_.outputs[static_cast<std::size_t>(k)].slot = slot_of_[name];
    }
  }

  const RuleNode& last_operator() const {
    const RuleNode* last = nullptr;
    for (const RuleNode& n : out_.rule->left)
      if (!n.is_constant()) last = &n;
    return *last;
  }

  std::uint32_t projection(std::uint32_t tuple, std::int64_t index) {
    PatternNode node;
    node.type = PatternNode::Type::kOperator;
    node.kind = g_.kind("#", kProjOp);
    node.children = {tuple};
    node.accepts_op = [&g = g_, index](OpId op) { return g.key(op).attributes[0].i() == index; };
    return push(std::move(node));
  }

  CompiledRule& out_;
  OnnxEGraph& g_;
  std::map<std::string, std::uint32_t> slot_of_;
  std::map<std::uint32_t, std::pair<RuleConstant, bool>> constants_;  // by slot; whether negative axes are to be resolved
  std::set<std::string> optional_;
  std::vector<std::pair<std::string_view, bool>> constancy_;  // inputs, and whether they must be constants or may not be
  std::uint32_t absent_ = kNone;
};

using Places = std::map<std::string_view, std::int32_t>;

ExprPtr with_places(const ExprPtr& expr, const Places& places) {
  if (!expr) return expr;
  auto out = std::make_shared<Expr>(*expr);
  if (const auto it = places.find(expr->text); it != places.end() && expr->kind == Expr::Kind::kName) out->bound = it->second;
  for (ExprPtr& argument : out->arguments) argument = with_places(argument, places);
  return out;
}

}  // namespace

// Names in the order in which Environment would find them.
Conditions conditions_of(const CompiledRule& rule) {
  Conditions out;
  Places places;
  const auto place = [&](std::string_view name) {
    const auto [it, is_new] = places.try_emplace(name, static_cast<std::int32_t>(out.bound.size()));
    if (is_new) out.bound.emplace_back();
    return is_new ? &out.bound.back() : nullptr;
  };
  for (const auto& [name, slot] : rule.names.slots)
    if (auto* bound = place(name)) bound->slot = slot;
  for (const std::string_view name : rule.names.left_out)
    if (auto* bound = place(name)) bound->left_out = true;
  for (const CompiledRule::AttributeBinding* b : rule.names.bindings) {
    place(b->variable);
    out.bound[static_cast<std::size_t>(places.at(b->variable))].attributes.push_back(b);
  }
  for (std::size_t i = 0; i < rule.rule->where.size(); ++i)
    if (i >= rule.tested_early.size() || !rule.tested_early[i]) out.expressions.push_back(with_places(rule.rule->where[i], places));
  return out;
}

void compile_left(CompiledRule& compiled, OnnxEGraph& g) { LeftCompiler(compiled, g).run(); }

}  // namespace saturate
