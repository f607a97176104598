// The static checks of a rule: every name bound, every operator and attribute known, the pattern connected, the examples complete.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <map>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "rules/evaluate/functions.h"
#include "rules/language/operators.h"
#include "rules/language/parse_lexer.h"

namespace saturate {
namespace {

using Names = std::set<std::string, std::less<>>;

class Checker {
 public:
  Checker(const Rule& rule, const std::vector<std::pair<std::string, std::int64_t>>& opsets) : rule_(rule), opsets_(opsets) {}

  std::string run() {
    header();
    attribute_variables();
    left();
    expressions();
    if (!rule_.native && !(rule_.declares && rule_.right.empty())) right();
    examples();
    return error_;
  }

 private:
  void fail(Place place, std::string message) {
    if (error_.empty()) error_ = at(rule_.file, place, fmt::format("rule {}: {}", rule_.name, message));
  }

  void header() {
    optional_.insert(rule_.optional.begin(), rule_.optional.end());
    Names seen;
    for (const auto* list : {&rule_.inputs, &rule_.outputs, &rule_.attribute_variables})
      for (const std::string& name : *list)
        if (!seen.insert(name).second)
          fail(rule_.place, fmt::format("`{}` is declared twice in the header; give the second another name", name));
    if (rule_.outputs.empty()) fail(rule_.place, "a rule needs an output; name it after `=>` in the header");
    if (rule_.left.empty()) fail(rule_.place, "the left side has no nodes; a rule needs an operator to match");
  }

  void attribute_variables() {
    for (const RuleNode& n : rule_.left)
      for (const RuleAttribute& a : n.attributes)
        if (a.kind == RuleAttribute::Kind::kVariable) bound_attributes_.insert(a.variable);
    for (const auto& [name, expr] : rule_.lets) lets_.insert(name);
    for (const std::string& name : rule_.attribute_variables)
      if (!bound_attributes_.contains(name))
        fail(rule_.place,
             fmt::format("attribute variable `{}` is bound by no attribute of the left side; write `attribute = @{}` there", name, name));
    for (const std::string& name : bound_attributes_)
      if (!lets_.contains(name) &&
          std::find(rule_.attribute_variables.begin(), rule_.attribute_variables.end(), name) == rule_.attribute_variables.end())
        fail(rule_.place,
             fmt::format("attribute variable `@{}` is not declared; add it to the header: `rule {} <{}>`", name, rule_.name, name));
  }

  // What holds for nodes of both sides.
  void node(const RuleNode& n) {
    const auto declared = [&](const auto& opset) { return opset.first == n.domain; };
    if (!opsets_.empty() && std::none_of(opsets_.begin(), opsets_.end(), declared))
      fail(n.place, fmt::format("domain \"{}\" of {} is not in the file's `opset` line; add it", n.domain, n.op_type));
    if (rule_.effect == Effect::kReassociates && (n.op_type == "QuantizeLinear" || n.op_type == "DequantizeLinear"))
      fail(n.place,
           fmt::format("{} in a rule that reassociates: a step of a quantizer is no rounding error; state the rule beside it", n.op_type));
    if (n.is_constant()) {
      if (!rule_constant(n))
        fail(n.place,
             "a Constant of a rule has one attribute: value_float, value_floats, value_int or value_ints; other constants come from `let`");
      return;
    }
    if (rule_.defines && &n == &rule_.left.front()) return;
    const OpSchema* schema = schema_for_rule(rule_.operators.get(), n.domain, n.op_type);
    if (schema == nullptr) {
      if (find_schema(n.domain, n.op_type, INT_MAX) != nullptr)
        fail(n.place, fmt::format("{} is deprecated: lowering replaces it, so no rule can match it", n.op_type));
      else if (n.domain.empty() || n.domain == "com.microsoft")
        fail(n.place, fmt::format("there is no operator {}{}{}", n.domain, n.domain.empty() ? "" : ".", n.op_type));
      else if (n.domain == kInternalDomain)
        fail(n.place,
             fmt::format("there is no operator {0}.{1}; define it before, as in `operator {1} (X) => (Y) => ...`", n.domain, n.op_type));
      return;
    }
    arity(n, *schema);
    for (const OpAttribute& a : schema->attributes)
      if (a.required && n.attribute(a.name) == nullptr)
        fail(n.place, fmt::format("{} needs its attribute `{}`; write `<{} = ...>` or `<{} = @_>`", n.op_type, a.name, a.name, a.name));
  }

  void arity(const RuleNode& n, const OpSchema& schema) {
    const int inputs = static_cast<int>(n.inputs.size()), outputs = static_cast<int>(n.outputs.size());
    if (inputs < schema.min_inputs || inputs > schema.max_inputs)
      fail(n.place, fmt::format("{} takes {} inputs, not {}", n.op_type, range(schema.min_inputs, schema.max_inputs), inputs));
    if (outputs < schema.min_outputs || outputs > schema.max_outputs)
      fail(n.place, fmt::format("{} has {} outputs, not {}", n.op_type, range(schema.min_outputs, schema.max_outputs), outputs));
  }

  static std::string range(int low, int high) {
    if (high == INT_MAX) return fmt::format("{} or more", low);
    return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
  }

  void left() {
    Names available(rule_.inputs.begin(), rule_.inputs.end());
    available.insert(lets_.begin(), lets_.end());
    Names used;
    for (const RuleNode& n : rule_.left) {
      node(n);
      for (const std::string& name : n.inputs) {
        if (!name.empty() && !available.contains(name))
          fail(n.place, fmt::format("`{}` is made by no node before it and is no input of the rule; declare or make it", name));
        used.insert(name);
      }
      for (const std::string& name : n.outputs) {
        if (name.empty()) continue;
        if (!made_.insert(name).second || std::find(rule_.inputs.begin(), rule_.inputs.end(), name) != rule_.inputs.end())
          fail(n.place, fmt::format("`{}` is made twice; every name has one maker", name));
        available.insert(name);
      }
    }
    for (const std::string& name : rule_.inputs)
      if (!used.contains(name)) fail(rule_.place, fmt::format("input `{}` is used by no node of the left side; remove it", name));
    for (const std::string& name : rule_.outputs)
      if (!made_.contains(name)) fail(rule_.place, fmt::format("output `{}` is made by no node of the left side", name));
    connected(used);
  }

  // The matcher walks from one root: every node must feed it.
  void connected(const Names& used) {
    const RuleNode* root = nullptr;
    for (const RuleNode& n : rule_.left) {
      const bool feeds =
          std::any_of(n.outputs.begin(), n.outputs.end(), [&](const std::string& o) { return !o.empty() && used.contains(o); });
      if (feeds) continue;
      if (n.is_constant()) fail(n.place, "this Constant feeds no node of the left side; remove it");
      if (root != nullptr)
        fail(
            n.place,
            fmt::format("the left side has two ends, {} and {}; a pattern has one node that all others feed (write a native rule for more)",
                        root->op_type, n.op_type));
      root = &n;
      if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](const std::string& o) {
            return std::find(rule_.outputs.begin(), rule_.outputs.end(), o) != rule_.outputs.end();
          }))
        fail(n.place, fmt::format("the last node, {}, makes no output of the rule; name it in the header", n.op_type));
    }
  }

  void names_in(const Expr& e, const Names& known) {
    if (e.kind == Expr::Kind::kName && !known.contains(e.text) && e.text != "true" && e.text != "false" && !parse_dtype(e.text))
      fail(e.place, fmt::format("`{}` is no input, node output, attribute variable or earlier `let` of this rule", e.text));
    if (e.kind == Expr::Kind::kCall && (e.text == "absent" || e.text == "present"))
      for (const ExprPtr& a : e.arguments)
        if (a->kind == Expr::Kind::kName) optional_.insert(a->text);
    for (const ExprPtr& a : e.arguments)
      if (a) names_in(*a, known);
  }

  void expressions() {
    Names known = made_;
    known.insert(rule_.inputs.begin(), rule_.inputs.end());
    for (const std::string& v : bound_attributes_) known.insert(v);
    for (const ExprPtr& e : rule_.where) names_in(*e, known);
    Names seen;
    for (const auto& [name, expr] : rule_.lets) {
      names_in(*expr, known);
      if (!seen.insert(name).second || made_.contains(name) ||
          std::find(rule_.inputs.begin(), rule_.inputs.end(), name) != rule_.inputs.end())
        fail(expr->place, fmt::format("`{}` has a meaning already; give this `let` another name", name));
      known.insert(name);
    }
  }

  void right() {
    Names available = made_;
    for (const std::string& name : rule_.outputs) available.erase(name);  // not yet made on this side
    available.insert(rule_.inputs.begin(), rule_.inputs.end());
    available.insert(lets_.begin(), lets_.end());
    Names made;
    for (const RuleNode& n : rule_.right) {
      node(n);
      for (const std::string& name : n.inputs)
        if (!name.empty() && !available.contains(name))
          fail(n.place, fmt::format("`{}` is bound to nothing on the right side; make it before, or bind it on the left", name));
      for (const RuleAttribute& a : n.attributes) {
        if (a.kind == RuleAttribute::Kind::kAny) fail(a.place, "`@_` accepts anything: it can stand on the left side only");
        if (a.kind == RuleAttribute::Kind::kVariable && !bound_attributes_.contains(a.variable) && !lets_.contains(a.variable))
          fail(a.place, fmt::format("`@{}` is bound to nothing; bind it by an attribute of the left side or by `let`", a.variable));
      }
      for (const std::string& name : n.outputs) {
        if (name.empty()) continue;
        if (!made.insert(name).second || lets_.contains(name) ||
            std::find(rule_.inputs.begin(), rule_.inputs.end(), name) != rule_.inputs.end())
          fail(n.place, fmt::format("`{}` is made twice; every name has one maker", name));
        available.insert(name);
      }
    }
    for (const std::string& name : rule_.outputs)
      if (!made.contains(name))
        fail(rule_.place,
             fmt::format("output `{}` is made by no node of the right side (`{} = Identity (X)` passes a value on)", name, name));
  }

  void examples() {
    for (const auto* list : {&rule_.examples, &rule_.counterexamples})
      for (const RuleExample& example : *list) {
        Names given;
        for (const ExampleValue& v : example.values) {
          const auto& names = v.attribute ? rule_.attribute_variables : rule_.inputs;
          if (std::find(names.begin(), names.end(), v.name) == names.end())
            fail(v.place, fmt::format("`{}` is no {} of the rule", v.name, v.attribute ? "attribute variable" : "input"));
          if (!given.insert(v.name).second) fail(v.place, fmt::format("`{}` is given twice", v.name));
        }
        for (const std::string& name : rule_.inputs)
          if (!given.contains(name) && !optional_.contains(name))
            fail(example.place, fmt::format("the example gives no value to `{}`", name));
        for (const std::string& name : rule_.attribute_variables) {
          const bool rest = name.find('.') != std::string::npos;  // one of `..a` has its default
          if (!given.contains(name) && !rest && !optional_.contains(name))
            fail(example.place, fmt::format("the example gives no value to attribute variable `{}`", name));
        }
      }
  }

  const Rule& rule_;
  const std::vector<std::pair<std::string, std::int64_t>>& opsets_;
  Names made_, lets_, bound_attributes_, optional_;
  std::string error_;
};

}  // namespace

absl::Status check_rule(const Rule& rule, const std::vector<std::pair<std::string, std::int64_t>>& opsets) {
  if (std::string error = Checker(rule, opsets).run(); !error.empty()) return absl::InvalidArgumentError(error);
  if (!rule.both_ways) return absl::OkStatus();
  return check_rule(reversed(rule), opsets);
}

}  // namespace saturate
