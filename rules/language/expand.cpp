#include "rules/language/expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/evaluate/functions.h"
#include "rules/language/operators.h"
#include "rules/language/parse_lexer.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

using Names = std::set<std::string, std::less<>>;
using Aliases = std::map<std::string, ExprPtr, std::less<>>;

constexpr std::size_t kMostChoices = 10;  // 1,024 rules and their mirror images

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

ExprPtr call(std::string_view function, ExprPtr argument) {
  auto e = make_expr(Expr::Kind::kCall, argument->place);
  e->text = function;
  e->function = find_rule_function(function);
  e->arguments = {std::move(argument)};
  return e;
}

bool mentions(const Expr& e, const Names& names) {
  if (e.kind == Expr::Kind::kName && names.contains(e.text)) return true;
  return std::any_of(e.arguments.begin(), e.arguments.end(), [&](const ExprPtr& a) { return a && mentions(*a, names); });
}

void trim(std::vector<std::string>& names) {
  while (!names.empty() && names.back().empty()) names.pop_back();
}

// One rule without the values of some groups.
class Without {
 public:
  Without(Rule rule, Names absent) : rule_(std::move(rule)), gone_(std::move(absent)) {}

  Rule run() {
    std::erase_if(rule_.inputs, [&](const std::string& n) { return gone_.contains(n); });
    std::erase_if(rule_.outputs, [&](const std::string& n) { return gone_.contains(n); });
    std::erase_if(rule_.optional, [&](const std::string& n) { return gone_.contains(n); });
    rule_.left = side(rule_.left);
    conditions();
    lets();
    const Names after_left = gone_;
    rule_.right = side(rule_.right);
    gone_ = after_left;
    drop_unread();
    attribute_variables();
    return std::move(rule_);
  }

 private:
  const OpSchema* schema_of(const RuleNode& n) const { return schema_for_rule(rule_.operators.get(), n.domain, n.op_type); }

  bool may_be_absent(const RuleNode& n, std::size_t input) const {
    if (rule_.defines && n.domain == rule_.left.front().domain && n.op_type == rule_.left.front().op_type) return true;
    const OpSchema* schema = schema_of(n);
    const OpSchema::Formal* formal = schema ? formal_at(schema->inputs, input) : nullptr;
    return formal != nullptr && (formal->optional || formal->variadic);
  }

  // Outputs that the operator always has stay, with no name, as `Y,  = Op (X)` says it.
  void trim_outputs(RuleNode& n) const {
    const std::size_t written = n.outputs.size();
    trim(n.outputs);
    const OpSchema* schema = schema_of(n);
    if (schema == nullptr || n.outputs.empty()) return;
    n.outputs.resize(std::max(n.outputs.size(), std::min(written, static_cast<std::size_t>(schema->min_outputs))));
  }

  std::vector<RuleNode> side(const std::vector<RuleNode>& nodes) {
    std::vector<RuleNode> out;
    for (RuleNode n : nodes) {
      if (!inputs(n)) {
        pass_on(n, out);
        continue;
      }
      for (std::string& o : n.outputs)
        if (gone_.contains(o)) o.clear();
      trim(n.inputs);
      trim_outputs(n);
      if (!n.outputs.empty()) out.push_back(std::move(n));
    }
    return out;
  }

  // Whether the node can be: no input is gone that it needs.
  bool inputs(RuleNode& n) const {
    bool whole = true;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      if (const auto it = aliases_.find(n.inputs[i]); it != aliases_.end()) n.inputs[i] = it->second->text;
      if (!gone_.contains(n.inputs[i])) continue;
      n.inputs[i].clear();
      whole &= may_be_absent(n, i);
    }
    return whole;
  }

  // A step that is left out: what reads it reads what it would have read, or there is nothing to read.
  void pass_on(RuleNode& n, std::vector<RuleNode>& out) {
    const auto kept = std::find_if(n.inputs.begin(), n.inputs.end(), [](const std::string& i) { return !i.empty(); });
    const std::string& made = n.outputs[0];
    if (!n.passes || kept == n.inputs.end()) {
      for (const std::string& o : n.outputs) gone_.insert(o);
    } else if (contains(rule_.outputs, made)) {
      out.push_back({"", "Identity", {}, {*kept}, {made}, n.place, {}, {}, false});
    } else {
      aliases_[made] = name_expr(*kept, n.place);
    }
  }

  // Of `a and b` each part by itself: one about something absent has nothing to say.
  ExprPtr without_absent(const ExprPtr& e) {
    if (e->kind == Expr::Kind::kBinary && e->text == "and") {
      const ExprPtr left = without_absent(e->arguments[0]), right = without_absent(e->arguments[1]);
      if (!left || !right) return left ? left : right;
      if (left == e->arguments[0] && right == e->arguments[1]) return e;
      auto both = std::make_shared<Expr>(*e);
      both->arguments = {left, right};
      return both;
    }
    if (e->kind == Expr::Kind::kCall && e->text == "useful") {
      const ExprPtr inner = without_absent(e->arguments[0]);
      if (!inner) return nullptr;
      return inner == e->arguments[0] ? e : call("useful", inner);
    }
    if (mentions(*e, gone_)) return nullptr;
    const ExprPtr left = with_names(e, aliases_);
    return compares_with_itself(*left) ? nullptr : left;
  }

  // `same_shape(A, S)` where A is S: what it asks about is a step that is left out.
  static bool compares_with_itself(const Expr& e) {
    const auto name = [](const ExprPtr& a) { return a->kind == Expr::Kind::kName ? a->text : ""; };
    return e.kind == Expr::Kind::kCall && e.text == "same_shape" && e.arguments.size() == 2 && !name(e.arguments[0]).empty() &&
           name(e.arguments[0]) == name(e.arguments[1]);
  }

  void conditions() {
    std::vector<ExprPtr> kept;
    for (const ExprPtr& e : rule_.where)
      if (ExprPtr condition = without_absent(e)) kept.push_back(std::move(condition));
    rule_.where = std::move(kept);
  }

  void lets() {
    std::vector<std::pair<std::string, ExprPtr>> kept;
    for (const auto& [name, e] : rule_.lets)
      if (mentions(*e, gone_))
        gone_.insert(name);
      else
        kept.emplace_back(name, with_names(e, aliases_));
    rule_.lets = std::move(kept);
  }

  // What only a step that is left out has read.
  void drop_unread() {
    const auto read = [&](const std::string& name) {
      return contains(rule_.outputs, name) || std::any_of(rule_.right.begin(), rule_.right.end(), [&](const RuleNode& n) {
               return contains(n.inputs, name) ||
                      std::any_of(n.attributes.begin(), n.attributes.end(), [&](const RuleAttribute& a) { return a.variable == name; });
             });
    };
    for (std::size_t i = rule_.right.size(); i-- > 0;)
      if (std::none_of(rule_.right[i].outputs.begin(), rule_.right[i].outputs.end(), read))
        rule_.right.erase(rule_.right.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::size_t i = rule_.lets.size(); i-- > 0;) {
      const std::string& name = rule_.lets[i].first;
      const bool used = read(name) || std::any_of(rule_.lets.begin() + static_cast<std::ptrdiff_t>(i) + 1, rule_.lets.end(),
                                                  [&](const auto& later) { return mentions(*later.second, Names{name}); });
      if (!used) rule_.lets.erase(rule_.lets.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void attribute_variables() {
    std::erase_if(rule_.attribute_variables, [&](const std::string& name) {
      return std::none_of(rule_.left.begin(), rule_.left.end(), [&](const RuleNode& n) {
        return std::any_of(n.attributes.begin(), n.attributes.end(), [&](const RuleAttribute& a) { return a.variable == name; });
      });
    });
  }

  Rule rule_;
  Names gone_;
  Aliases aliases_;
};

bool gives(const RuleExample& example, const OptionalGroup& group) {
  return std::any_of(example.values.begin(), example.values.end(), [&](const ExampleValue& v) { return contains(group.values, v.name); });
}

class Expander {
 public:
  explicit Expander(const WrittenRule& written) : written_(written) {}

  absl::StatusOr<std::vector<Rule>> run() {
    for (const OptionalGroup& group : written_.optional)
      for (const std::string& value : group.values)
        if (!contains(written_.rule.inputs, value) && !contains(written_.rule.outputs, value))
          return wrong(group.place, fmt::format("`{}` is no input and no output", value));
    const bool mirrors = has_mirror();
    const std::size_t groups = written_.optional.size(), assumed = written_.assumed.size();
    if (groups + assumed > kMostChoices)
      return wrong(written_.rule.place, fmt::format("{} optional groups and assumptions make too many rules; at most {} may stand together",
                                                    groups + assumed, kMostChoices));
    for (std::size_t mask = 0; mask < std::size_t{1} << groups; ++mask)
      for (int mirrored = 0; mirrored <= (mirrors ? 1 : 0); ++mirrored)
        for (std::size_t with = 0; with < std::size_t{1} << assumed; ++with)
          if (auto status = add(mask, mirrored != 0, with); !status.ok()) return status;
    return std::move(out_);
  }

 private:
  absl::Status wrong(Place place, std::string_view what) const {
    return absl::InvalidArgumentError(at(written_.rule.file, place, fmt::format("rule {}: {}", written_.rule.name, what)));
  }

  const OpSchema* schema_of(const RuleNode& n) const { return schema_for_rule(written_.rule.operators.get(), n.domain, n.op_type); }

  // Of operators that commute the matcher finds both orders: they need none.
  bool has_mirror() const {
    const auto any = [](const std::vector<RuleNode>& nodes) {
      return std::any_of(nodes.begin(), nodes.end(),
                         [](const RuleNode& n) { return !n.mirrored.empty() && !has(Trait::kCommutative, n.domain, n.op_type); });
    };
    return any(written_.rule.left) || any(written_.rule.right);
  }

  // `mask`: of the optional groups those that are there; `with`: of the assumptions those that are made.
  absl::Status add(std::size_t mask, bool mirrored, std::size_t with) {
    std::vector<std::string> labels = written_.labels;
    Rule rule = written_.rule;
    Names absent;
    for (std::size_t g = 0; g < written_.optional.size(); ++g) {
      const OptionalGroup& group = written_.optional[g];
      const bool given = mask >> g & 1;
      if (given) labels.push_back(group.name);
      if (!given) absent.insert(group.values.begin(), group.values.end());
      const bool input =
          std::any_of(group.values.begin(), group.values.end(), [&](const std::string& v) { return contains(written_.rule.inputs, v); });
      for (auto* list : {&rule.examples, &rule.counterexamples})
        std::erase_if(*list, [&](const RuleExample& e) { return input && gives(e, group) != given; });
    }
    if (mirrored) labels.emplace_back("mirrored");
    mirror(rule, mirrored);
    for (std::size_t a = 0; a < written_.assumed.size(); ++a) {
      const auto& [names, unless] = written_.assumed[a];
      const bool made = with >> a & 1;
      if (made) labels.push_back(names.front());
      if (made) rule.assumes.insert(rule.assumes.end(), names.begin(), names.end());
      rule.where.push_back(made ? call("useful", call("unproven", unless)) : unless);
    }
    std::erase_if(rule.where, [](const ExprPtr& e) { return e->kind == Expr::Kind::kName && e->text == "true"; });
    if (!absent.empty()) rule = Without(std::move(rule), std::move(absent)).run();
    if (auto status = rest(rule); !status.ok()) return status;
    for (auto* list : {&rule.examples, &rule.counterexamples})
      for (RuleExample& example : *list) given_values(rule, example);
    if (!labels.empty()) rule.name += fmt::format("[{}]", fmt::join(labels, ","));
    for (auto* nodes : {&rule.left, &rule.right})
      for (RuleNode& n : *nodes) n.passes = false;
    push(std::move(rule));
    return absl::OkStatus();
  }

  // Directions that differ are rules of their own.
  void push(Rule rule) {
    if (!written_.backward) return out_.push_back(std::move(rule));
    Rule back = reversed(rule);
    back.if_unsupported |= written_.backward->if_unsupported;
    back.if_any_unsupported |= written_.backward->if_any_unsupported;
    back.if_refused |= written_.backward->if_refused;
    back.moves_quantizers |= written_.backward->moves_quantizers;
    back.where.insert(back.where.end(), written_.backward->where.begin(), written_.backward->where.end());
    rule.both_ways = false;
    out_.push_back(std::move(rule));
    out_.push_back(std::move(back));
  }

  static void mirror(Rule& rule, bool mirrored) {
    for (auto* nodes : {&rule.left, &rule.right})
      for (RuleNode& n : *nodes) {
        for (const std::size_t i : n.mirrored)
          if (mirrored) std::swap(n.inputs[i], n.inputs[i + 1]);
        n.mirrored.clear();
      }
  }

  // `<..a>`: on the left each attribute that is not mentioned is bound as `a.name`, on the right it is handed on.
  absl::Status rest(Rule& rule) const {
    std::map<std::string, std::vector<std::string>, std::less<>> bound;
    for (RuleNode& n : rule.left) {
      if (n.rest.empty()) continue;
      if (!contains(written_.rests, n.rest))
        return wrong(n.place, fmt::format("`..{0}` is not declared; add it to the header: `<..{0}>`", n.rest));
      const OpSchema* schema = schema_of(n);
      if (schema == nullptr) return wrong(n.place, fmt::format("the attributes of {} are not known; name them", n.op_type));
      for (const OpAttribute& a : schema->attributes) {
        if (n.attribute(a.name) != nullptr) continue;
        bound[n.rest].emplace_back(a.name);
        n.attributes.push_back(attribute_of_rest(n, std::string(a.name)));
        if (!contains(rule.attribute_variables, n.attributes.back().variable))
          rule.attribute_variables.push_back(n.attributes.back().variable);
      }
      bound[n.rest];
      n.rest.clear();
    }
    for (RuleNode& n : rule.right) {
      if (n.rest.empty()) continue;
      const auto it = bound.find(n.rest);
      if (it == bound.end()) return wrong(n.place, fmt::format("`..{}` is bound by no node of the left side", n.rest));
      for (const std::string& name : it->second)
        if (n.attribute(name) == nullptr) n.attributes.push_back(attribute_of_rest(n, name));
      for (RuleAttribute& a : n.attributes)
        if (const auto problem = complete_attribute_type(schema_of(n), n.op_type, a); !problem.empty()) return wrong(n.place, problem);
      n.rest.clear();
    }
    return absl::OkStatus();
  }

  RuleAttribute attribute_of_rest(const RuleNode& n, const std::string& name) const {
    RuleAttribute a;
    a.kind = RuleAttribute::Kind::kVariable;
    a.literal.name = name;
    a.variable = n.rest + "." + name;
    a.place = n.place;
    complete_attribute_type(schema_of(n), n.op_type, a);
    return a;
  }

  // An example may give a value to an attribute of `..a` by its name; what this instance does not have, it leaves out.
  void given_values(const Rule& rule, RuleExample& example) const {
    for (ExampleValue& v : example.values)
      for (const std::string& rest : written_.rests)
        if (const std::string name = rest + "." + v.name; v.attribute && contains(rule.attribute_variables, name)) {
          v.name = name;
          break;
        }
    std::erase_if(example.values, [&](const ExampleValue& v) {
      const bool declared = contains(written_.rule.attribute_variables, v.name);
      const bool rest = !written_.rests.empty() && !declared;
      return v.attribute && (rest || declared) && !contains(rule.attribute_variables, v.name);
    });
  }

  const WrittenRule& written_;
  std::vector<Rule> out_;
};

}  // namespace

ExprPtr name_expr(const std::string& name, Place place) {
  auto e = make_expr(Expr::Kind::kName, place);
  e->text = name;
  return e;
}

absl::StatusOr<std::vector<Rule>> expand(const WrittenRule& written) { return Expander(written).run(); }

ExprPtr with_names(const ExprPtr& e, const std::map<std::string, ExprPtr, std::less<>>& names, const Place* place) {
  if (e == nullptr) return nullptr;
  if (e->kind == Expr::Kind::kName)
    if (const auto it = names.find(e->text); it != names.end()) return it->second;
  auto copy = std::make_shared<Expr>(*e);
  if (place != nullptr) copy->place = *place;
  for (ExprPtr& a : copy->arguments) a = with_names(a, names, place);
  return copy;
}

}  // namespace saturate
