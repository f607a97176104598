#include "rules/language/own_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "onnx_bridge/operators/random_nodes.h"
#include "rules/evaluate/functions.h"
#include "rules/language/expand.h"
#include "rules/language/parse_lexer.h"

namespace saturate {
namespace {

using Names = std::set<std::string, std::less<>>;

bool is_among(std::string_view name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const RuleNode& call_of(const Rule& function) { return function.left.front(); }

// The type of the attribute that a Constant's takes its numbers from.
AttributeType type_of_numbers(std::string_view attribute) {
  if (attribute == "value_float") return AttributeType::kFloat;
  if (attribute == "value_floats") return AttributeType::kFloats;
  if (attribute == "value_int") return AttributeType::kInt;
  return attribute == "value_ints" ? AttributeType::kInts : AttributeType::kUndefined;
}

// A Constant of a tensor as one of numbers; false where rules have none.
bool write_numbers(Attribute& a) {
  const auto* t = std::get_if<Tensor>(&a.value);
  constexpr std::int64_t kMost = 4096;
  if (!t || t->rank() > 1 || t->size() > kMost || t->dtype() == DType::kBool || t->dtype() == DType::kString) return false;
  const bool list = t->rank() == 1;
  std::vector<float> reals;
  std::vector<std::int64_t> ints;
  for (std::int64_t i = 0; i < t->size(); ++i) {
    reals.push_back(static_cast<float>(element_as_double(*t, i).value_or(0)));
    ints.push_back(element_as_int(*t, i).value_or(0));
  }
  if (is_floating(t->dtype()))
    a = list ? Attribute::of("value_floats", std::move(reals)) : Attribute::of("value_float", reals.at(0));
  else if (is_integer(t->dtype()))
    a = list ? Attribute::of("value_ints", std::move(ints)) : Attribute::of("value_int", ints.at(0));
  else
    return false;
  return true;
}

// A body in ONNX text, brought into the form of rules.
class Completion {
 public:
  Completion(Rule& function, const RuleOperators& defined) : function_(function), defined_(defined) {}

  std::string run() {
    for (RuleNode& node : function_.right) {
      for (std::string& input : node.inputs)
        if (const auto it = aliases_.find(input); it != aliases_.end()) input = it->second;
      check(node);
      if (!error_.empty()) return std::move(error_);
      if (!is_spelling(node)) kept_.push_back(std::move(node));
    }
    rename_copies();
    function_.right = std::move(kept_);
    check_ends();
    fill_in_examples();
    return std::move(error_);
  }

 private:
  void fail(Place place, std::string what) {
    if (error_.empty()) error_ = at(function_.file, place, fmt::format("function {}: {}", law_of(function_.name), what));
  }

  const RuleAttribute* declared(std::string_view name) const {
    for (const RuleAttribute& a : call_of(function_).attributes)
      if (a.variable == name) return &a;
    return nullptr;
  }

  void check(const RuleNode& node) {
    Node drawn;
    drawn.domain = node.domain;
    drawn.op_type = node.op_type;
    if (may_draw(drawn))
      fail(node.place, fmt::format("{} draws numbers: two calls differ, so that no rule can say what they are", node.op_type));
    const RuleNode& call = call_of(function_);
    if (node.domain == call.domain && node.op_type == call.op_type)
      fail(node.place, "its body calls the function itself; functions of ONNX are not recursive");
    else if (is_of_own_domain(node.domain) && !defined_.schema(node.domain, node.op_type))
      fail(node.place,
           fmt::format("there is no function {0}.{1} before this one; define it first, or declare it by `operator {0}.{1} (...) "
                       "=> (...)`",
                       node.domain, node.op_type));
    else if (node.domain == kInternalDomain)
      fail(node.place, fmt::format("{}.{} is an operator between rules, which no model holds; write its body", node.domain, node.op_type));
    for (const RuleAttribute& a : node.attributes) check_reference(a);
  }

  void check_reference(const RuleAttribute& a) {
    if (a.kind == RuleAttribute::Kind::kAny) fail(a.place, "`@_` accepts anything; a body says what its attributes are");
    if (a.kind != RuleAttribute::Kind::kVariable) return;
    read_.insert(a.variable);
    const RuleAttribute* known = declared(a.variable);
    if (!known) {
      std::string names;
      for (const RuleAttribute& d : call_of(function_).attributes) names += (names.empty() ? "" : ", ") + d.variable;
      return fail(a.place, fmt::format("`@{}` is no attribute of the function; it has: {}", a.variable, names.empty() ? "none" : names));
    }
    if (a.literal.type != AttributeType::kUndefined && a.literal.type != known->literal.type)
      fail(a.place, fmt::format("`{}` takes another type than `@{}` has", a.literal.name, a.variable));
  }

  // Whether a node only spells what rules say without one.
  bool is_spelling(RuleNode& node) {
    if (node.is_constant()) return is_number_of_attribute(node);
    if (!node.domain.empty() || node.inputs.empty() || node.outputs.size() != 1) return false;
    const std::string &from = node.inputs[0], &to = node.outputs[0];
    const bool is_output = is_among(to, function_.outputs);
    if (node.op_type == "CastLike" && numbers_.contains(from)) {
      if (is_output) return false;
      aliases_[to] = from;
      return true;
    }
    if (node.op_type != "Identity") return false;
    if (is_output) {
      copies_.emplace_back(from, to);
      return false;
    }
    aliases_[to] = from;
    return true;
  }

  bool is_number_of_attribute(RuleNode& node) {
    if (node.attributes.size() != 1 || node.outputs.size() != 1) {
      fail(node.place, "a Constant has one attribute and one output");
      return false;
    }
    RuleAttribute& a = node.attributes[0];
    numbers_.insert(node.outputs[0]);
    if (a.kind == RuleAttribute::Kind::kLiteral) {
      if (a.literal.name == "value" ? !write_numbers(a.literal) : type_of_numbers(a.literal.name) == AttributeType::kUndefined)
        fail(a.place, "a Constant of a function is a number or a list of numbers; other tensors are inputs");
      if (is_among(node.outputs[0], function_.outputs)) hand_out(node);
      return false;
    }
    if (type_of_numbers(a.literal.name) == AttributeType::kUndefined) {
      fail(a.place, fmt::format("`{}` takes no attribute of a function here; value_float, value_floats, value_int and value_ints do",
                                a.literal.name));
      return false;
    }
    if (is_among(node.outputs[0], function_.outputs))
      hand_out(node);
    else if (declared(node.outputs[0]))
      rename_number(node);
    function_.lets.emplace_back(node.outputs[0], name_expr(a.variable, a.place));
    return true;
  }

  // A number that is an output: made under another name, and copied.
  void hand_out(RuleNode& node) {
    const std::string to = node.outputs[0];
    rename_number(node);
    late_.push_back({"", "Identity", {}, {node.outputs[0]}, {to}, node.place, {}, {}, false});
  }

  void rename_number(RuleNode& node) {
    std::string& name = node.outputs[0];
    const std::string number = name + ":number";
    aliases_[name] = number;
    numbers_.insert(number);
    name = number;
  }

  // A copy that is an output is what it copies, where that is no output and no input.
  void rename_copies() {
    kept_.insert(kept_.end(), late_.begin(), late_.end());
    for (const auto& [from, to] : copies_) {
      const auto maker = std::find_if(kept_.begin(), kept_.end(), [&](const RuleNode& n) { return is_among(from, n.outputs); });
      if (maker == kept_.end() || maker->is_constant() || is_among(from, function_.outputs)) continue;
      std::erase_if(kept_, [&](const RuleNode& n) { return n.op_type == "Identity" && n.domain.empty() && is_among(to, n.outputs); });
      for (RuleNode& n : kept_)
        for (auto* names : {&n.inputs, &n.outputs}) std::replace(names->begin(), names->end(), from, to);
    }
  }

  void check_ends() {
    Names made;
    for (const RuleNode& n : function_.right) made.insert(n.outputs.begin(), n.outputs.end());
    for (const std::string& o : function_.outputs)
      if (!made.contains(o)) fail(function_.place, fmt::format("output `{}` is made by no node of the body", o));
    for (const RuleAttribute& a : call_of(function_).attributes)
      if (!read_.contains(a.variable) && a.literal.value.index() == 0)
        fail(a.place, fmt::format("attribute `{}` is read by no node of the body; remove it, or give it a default", a.variable));
  }

  // Rules want every attribute of an example.
  void fill_in_examples() {
    for (auto* list : {&function_.examples, &function_.counterexamples})
      for (RuleExample& example : *list)
        for (const RuleAttribute& a : call_of(function_).attributes) {
          const auto is_given = [&](const ExampleValue& v) { return v.name == a.variable; };
          if (a.literal.value.index() == 0 || std::any_of(example.values.begin(), example.values.end(), is_given)) continue;
          ExampleValue& added = example.values.emplace_back();
          added.name = a.variable;
          added.attribute = a.literal;
          added.place = example.place;
        }
  }

  Rule& function_;
  const RuleOperators& defined_;
  std::string error_;
  std::vector<RuleNode> kept_, late_;
  Names numbers_;  // that have no dtype
  Names read_;     // attributes
  std::map<std::string, std::string> aliases_;
  std::vector<std::pair<std::string, std::string>> copies_;  // to outputs
};

// The part of a body that makes one output.
struct Cone {
  std::vector<RuleNode> nodes;  // in order, with Constants
  Names read;                   // names of inputs, lets and inner values
};

Cone cone_of(const Rule& function, const std::string& output) {
  Cone cone;
  Names wanted{output};
  for (auto n = function.right.rbegin(); n != function.right.rend(); ++n) {
    if (std::none_of(n->outputs.begin(), n->outputs.end(), [&](const std::string& o) { return !o.empty() && wanted.contains(o); }))
      continue;
    wanted.insert(n->inputs.begin(), n->inputs.end());
    cone.read.insert(n->inputs.begin(), n->inputs.end());
    cone.nodes.insert(cone.nodes.begin(), *n);
  }
  return cone;
}

ExprPtr called(std::string_view function, std::vector<ExprPtr> arguments, Place place) {
  auto e = make_expr(Expr::Kind::kCall, place);
  e->text = function;
  e->function = find_rule_function(function);
  e->arguments = std::move(arguments);
  return e;
}

ExprPtr both(std::string_view op, ExprPtr left, ExprPtr right) {
  auto e = make_expr(Expr::Kind::kBinary, left->place);
  e->text = op;
  e->arguments = {std::move(left), std::move(right)};
  return e;
}

ExprPtr int_expr(std::int64_t value, Place place) {
  auto e = make_expr(Expr::Kind::kInt, place);
  e->integer = value;
  return e;
}

// The rule that finds a function by the part of its body that makes one output.
class Finding {
 public:
  Finding(const Rule& function, const std::string& output) : function_(function), output_(output), cone_(cone_of(function, output)) {}

  std::optional<Rule> rule() {
    if (cone_.nodes.empty() || cone_.nodes.back().op_type == "Identity" || !is_whole()) return std::nullopt;
    out_ = function_;
    out_.defines = out_.function = false;
    out_.derived = true;
    out_.left = cone_.nodes;
    out_.attribute_variables.clear();
    out_.lets.clear();
    out_.counterexamples.clear();
    for (const RuleNode& n : cone_.nodes)
      for (const RuleAttribute& a : n.attributes)
        if (a.kind == RuleAttribute::Kind::kVariable && !is_among(a.variable, out_.attribute_variables))
          out_.attribute_variables.push_back(a.variable);
    for (const auto& [name, expr] : function_.lets)
      if (cone_.read.contains(name)) read_number(name, *expr);
    if (!write_call()) return std::nullopt;
    std::erase_if(out_.outputs, [&](const std::string& o) { return !is_made(o); });
    return std::move(out_);
  }

 private:
  // Whether the output is made of all that the body holds: else the function might not run where a part of it does.
  bool is_whole() const {
    const auto is_read = [&](const std::string& i) { return cone_.read.contains(i); };
    return cone_.nodes.size() == function_.right.size() && std::all_of(function_.inputs.begin(), function_.inputs.end(), is_read);
  }
  bool is_made(const std::string& output) const {
    return std::any_of(cone_.nodes.begin(), cone_.nodes.end(), [&](const RuleNode& n) { return is_among(output, n.outputs); });
  }

  // A number that the body takes from an attribute is an input here, a constant that the attribute can hold.
  void read_number(const std::string& name, const Expr& attribute) {
    const RuleAttribute* declared = call_of(function_).attribute(attribute.text);
    const Place place = attribute.place;
    const ExprPtr number = name_expr(name, place);
    out_.inputs.push_back(name);
    const auto want = [&](ExprPtr e) { out_.where.push_back(std::move(e)); };
    want(called("const", {number}, place));
    const AttributeType type = declared->literal.type;
    const bool list = type == AttributeType::kInts || type == AttributeType::kFloats;
    const bool whole = type == AttributeType::kInt || type == AttributeType::kInts;
    if (list) {
      want(both("==", called("rank", {number}, place), int_expr(1, place)));
      if (whole) want(called("integer", {number}, place));
    } else {
      want_scalar(name, number, place);
    }
    if (!(whole && list)) want(called("exact_in_float", {number}, place));
    if (!(whole && list)) want(called("all_finite", {number}, place));
    const ExprPtr value = called(list ? "value" : "item", {number}, place);
    if (whole && !list) want(called("integral", {value}, place));
    const auto bound = values_.find(attribute.text);
    const bool by_node = is_among(attribute.text, out_.attribute_variables);
    if (by_node || bound != values_.end()) {
      want(both("==", value, by_node ? name_expr(attribute.text, place) : bound->second));
    } else {
      values_.emplace(attribute.text, value);
      out_.lets.emplace_back(attribute.text, whole && !list ? called("int", {value}, place) : value);
    }
    give_example(name, *declared);
  }

  // One element, which widens nothing of what it meets.
  void want_scalar(const std::string& name, const ExprPtr& number, Place place) {
    std::vector<ExprPtr> met;
    for (const RuleNode& n : cone_.nodes) {
      if (!is_among(name, n.inputs)) continue;
      const auto other = std::find_if(n.inputs.begin(), n.inputs.end(), [&](const std::string& i) { return i != name && is_value(i); });
      if (!saturate::broadcasts(n) || other == n.inputs.end())
        return out_.where.push_back(both("==", called("rank", {number}, place), int_expr(0, place)));
      met.push_back(called("scalar", {number, name_expr(*other, place)}, place));
    }
    out_.where.insert(out_.where.end(), met.begin(), met.end());
  }

  bool is_value(const std::string& name) const {
    if (is_among(name, function_.inputs)) return !is_among(name, function_.optional);
    return std::any_of(cone_.nodes.begin(), cone_.nodes.end(),
                       [&](const RuleNode& n) { return !n.is_constant() && is_among(name, n.outputs); });
  }

  // Of the attribute's value in the function's, in the dtype of what it meets.
  void give_example(const std::string& name, const RuleAttribute& attribute) {
    for (RuleExample& example : out_.examples) {
      const auto given =
          std::find_if(example.values.begin(), example.values.end(), [&](const ExampleValue& v) { return v.name == attribute.variable; });
      if (given == example.values.end() || !given->attribute) continue;
      ExampleValue value;
      value.name = name;
      value.place = given->place;
      value.dtype = dtype_in(example, name);
      value.values.emplace();
      add_numbers(given->attribute->value, value);
      example.values.push_back(std::move(value));
    }
  }

  static void add_numbers(const AttributeValue& attribute, ExampleValue& value) {
    const auto add_list = [&](const auto& list) {
      value.values->assign(list.begin(), list.end());
      value.dims = {static_cast<std::int64_t>(list.size())};
    };
    if (const auto* i = std::get_if<std::int64_t>(&attribute)) value.values->push_back(static_cast<double>(*i));
    if (const auto* f = std::get_if<float>(&attribute)) value.values->push_back(*f);
    if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&attribute)) add_list(*ints);
    if (const auto* floats = std::get_if<std::vector<float>>(&attribute)) add_list(*floats);
  }

  DType dtype_in(const RuleExample& example, const std::string& name) const {
    for (const RuleNode& n : cone_.nodes)
      for (std::size_t i = 0; i < n.inputs.size(); ++i) {
        const OpSchema* schema = n.inputs[i] == name ? schema_for_rule(function_.operators.get(), n.domain, n.op_type) : nullptr;
        const OpSchema::Formal* formal = schema ? formal_at(schema->inputs, i) : nullptr;
        if (const auto fixed = formal ? dtype_of_tensor(formal->type) : std::nullopt) return *fixed;
      }
    for (const ExampleValue& v : example.values)
      if (!v.attribute) return v.dtype;
    return DType::kFloat;
  }

  // The right side; false where an attribute is not told.
  bool write_call() {
    RuleNode made = call_of(function_);
    for (RuleAttribute& a : made.attributes) {
      const bool is_told = is_among(a.variable, out_.attribute_variables) || values_.contains(a.variable);
      if (is_told) {
        a.literal.value = AttributeValue();
        continue;
      }
      if (a.literal.value.index() == 0 || is_read_elsewhere(a.variable)) return false;
      a.kind = RuleAttribute::Kind::kLiteral;
    }
    for (std::string& o : made.outputs)
      if (!is_made(o)) o.clear();
    out_.right = {std::move(made)};
    for (RuleExample& example : out_.examples)
      std::erase_if(example.values, [&](const ExampleValue& v) { return v.attribute && !is_among(v.name, out_.attribute_variables); });
    return true;
  }

  bool is_read_elsewhere(const std::string& attribute) const {
    const auto by_node = [&](const RuleNode& n) {
      return std::any_of(n.attributes.begin(), n.attributes.end(),
                         [&](const RuleAttribute& a) { return a.kind == RuleAttribute::Kind::kVariable && a.variable == attribute; });
    };
    const auto by_let = [&](const auto& let) { return let.second->text == attribute; };
    return std::any_of(function_.right.begin(), function_.right.end(), by_node) ||
           std::any_of(function_.lets.begin(), function_.lets.end(), by_let);
  }

  const Rule& function_;
  const std::string& output_;
  Cone cone_;
  Rule out_;
  std::map<std::string, ExprPtr, std::less<>> values_;  // of attributes, by what constants say
};

std::string instance_name(const Rule& function, std::string_view label) {
  const std::string_view law = law_of(function.name);
  if (law.size() == function.name.size()) return fmt::format("{}[{}]", law, label);
  return fmt::format("{},{}]", function.name.substr(0, function.name.size() - 1), label);
}

}  // namespace

absl::Status complete_function(Rule& function, const RuleOperators& defined) {
  const std::string error = Completion(function, defined).run();
  return error.empty() ? absl::OkStatus() : absl::InvalidArgumentError(error);
}

std::vector<Rule> rules_of_function(const Rule& function) {
  std::vector<Rule> out;
  Rule& expanded = out.emplace_back(function);
  expanded.defines = expanded.function = false;
  expanded.derived = true;
  expanded.name = instance_name(function, "expanded");
  expanded.counterexamples.clear();
  for (RuleAttribute& a : expanded.left.front().attributes) a.literal.value = AttributeValue();
  for (const std::string& output : function.outputs) {
    auto found = Finding(function, output).rule();
    if (!found) continue;
    found->name = instance_name(function, "found");
    out.push_back(*std::move(found));
    break;  // other outputs of the same node would find the same
  }
  return out;
}

}  // namespace saturate
