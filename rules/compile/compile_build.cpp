#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "egraph/once.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/opsets/canonical.h"
#include "rules/compile/compile_plan.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

constexpr std::uint32_t kMaxRightNodes = 4096;

std::optional<int> rank_of(const Facts& f) {
  if (f.kind != Facts::Kind::kTensor || !f.shape) return std::nullopt;
  return f.rank();
}

// One application of a rule to one match.
class Application : public BoundNames {
 public:
  Application(const CompiledRule& rule, OnnxEGraph& g, const Match& match, bool explain)
      : rule_(rule), g_(g), match_(match), facts_(g), context_(facts_, environment_, explain, this), explain_(explain) {}

  // `conditions` gives the rule's; most matches that fail do so before they are looked at.
  template <typename Given>
  bool holds(const Given& conditions) {
    if (g_.is_passed_over(match_.root())) return fail([] { return std::string("it never has elements"); });
    if ((rule_.rule->if_refused || is_for_places()) && !is_refused())
      return fail([&] { return std::string("the target takes the operator where it stands"); });
    if (!structure()) return false;
    if (explain_) bind();
    conditions_ = &conditions();
    for (const ExprPtr& condition : conditions_->expressions)
      if (!context_.holds(*condition)) return fail([&] { return context_.reason(); });
    return true;
  }

  // Needs holds() before. False: not applicable, see reason().
  bool build(std::vector<std::pair<Id, Id>>& pairs) {
    if (!rule_.rule->lets.empty()) bind();  // else names are asked for once, if ever
    if (!evaluate_lets()) return false;
    values_.assign(rule_.num_values, kNone);
    for (const CompiledRule::Step& step : rule_.steps)
      if (!(step.alias ? pass_on(step) : add(step))) return false;
    for (const CompiledRule::Output& output : rule_.outputs) {
      Id left = match_.classes[output.slot];
      if (output.projection >= 0) left = g_.project(left, output.projection);
      const Facts& f = g_.facts(left);
      const auto right = materialize(output.right, f.dtype != DType::kUndefined ? std::optional(f.dtype) : std::nullopt);
      if (!right) return false;
      pairs.emplace_back(left, *right);
    }
    return true;
  }

  // Evaluates the lets alone; for explanations.
  bool lets_hold() {
    bind();
    return evaluate_lets();
  }

  const std::string& reason() const { return reason_; }

  std::optional<Val> value(std::int32_t place) const override {
    const Conditions::Bound& bound = conditions_->bound[static_cast<std::size_t>(place)];
    if (bound.slot != kNone) return Val(ClassRef{g_.egraph().find(match_.classes[bound.slot])});
    if (bound.left_out) return Val(ClassRef{g_.absent()});
    for (const CompiledRule::AttributeBinding* b : bound.attributes)
      if (auto found = bound_by(*b)) return found;
    return std::nullopt;
  }

 private:
  template <typename F>
  bool fail(F&& text) {
    if (explain_ && reason_.empty()) reason_ = text();
    return false;
  }

  const Attribute* attribute(std::uint32_t slot, std::string_view name) const {
    return find_attribute(g_.key(match_.ops[slot]).attributes, name);
  }
  // The attribute with its axes counted from the front, where the operator keeps some that were written before the rank was known.
  std::optional<Attribute> counted(const CompiledRule::AttributeBinding& b, const Attribute& found) const {
    const auto rank = b.first != kNone && negative_axis(found) ? rank_of(facts(b.first)) : std::nullopt;
    if (!rank) return std::nullopt;
    Attribute out = found;
    count_axes_from_front(out, g_.key(match_.ops[b.slot]).op_type, *rank);
    return out;
  }
  std::optional<Val> bound_by(const CompiledRule::AttributeBinding& b) const {
    const Attribute* found = attribute(b.slot, b.attribute);
    if (found == nullptr) return std::nullopt;
    const auto axes = counted(b, *found);
    return Val(axes ? *axes : *found);
  }
  const Facts& facts(std::uint32_t slot) const { return g_.facts(match_.classes[slot]); }

  // A body of an operator that the target takes, but not everywhere.
  bool is_for_places() const {
    const Refusals* refusals = rule_.rule->if_unsupported ? g_.refusals() : nullptr;
    const OpKey& key = g_.key(g_.egraph().node(match_.matched.back()).op);
    return refusals != nullptr && key.domain.empty() && refusals->by_place(key);
  }
  bool is_refused() const { return g_.is_refused(match_.matched.back(), match_.root()); }

  // What the pattern cannot test on one class alone.
  bool structure() {
    for (const auto& test : rule_.axis_tests)
      if (!axis_fits(test)) return fail([&] { return unlike(test); });
    for (const auto& test : rule_.rank_tests)
      if (!rank_fits(test)) return fail([&] { return unlike(test); });
    for (const auto& test : rule_.axes_tests)
      if (!axes_fit(test)) return fail([&] { return unlike(test); });
    for (const auto& [a, b] : rule_.bound_twice)
      if (!same_binding(*a, *b))
        return fail([&, a = a, b = b] {
          return fmt::format("@{} is {} and {}", a->variable, shown(a->slot, a->attribute), shown(b->slot, b->attribute));
        });
    return true;
  }

  // Each test that fails in words, with the values that were found.
  std::string shown(std::uint32_t slot, std::string_view name) const {
    const Attribute* found = attribute(slot, name);
    return found != nullptr ? context_.show(Val(*found)) : "absent";
  }
  std::string shown_rank(std::uint32_t slot) const {
    const auto rank = rank_of(facts(slot));
    return rank ? fmt::format("rank {}", *rank) : "unknown rank";
  }
  std::string unlike(const CompiledRule::AxisTest& test) const {
    return fmt::format("{} of {} is {}, the rule wants {}", test.wanted.name, test.op_type, shown(test.slot, test.wanted.name),
                       context_.show(Val(test.wanted)));
  }
  std::string unlike(const CompiledRule::RankTest& test) const {
    std::string met;
    for (const std::uint32_t other : test.others) met += fmt::format("{}{}", met.empty() ? "" : " or ", shown_rank(other));
    return fmt::format("a constant of {} would give a value of {} more axes", shown_rank(test.slot), met);
  }
  std::string unlike(const CompiledRule::AxesTest& test) const {
    return fmt::format("the axes are {}, the rule wants [{}]", context_.show(Val(ClassRef{match_.classes[test.slot]})),
                       fmt::join(test.axes, ", "));
  }

  bool axis_fits(const CompiledRule::AxisTest& test) const {
    const Attribute* found = attribute(test.slot, test.wanted.name);
    if (found == nullptr) return false;
    if (same_value(*found, test.wanted)) return true;
    const auto rank = rank_of(facts(test.first));
    const auto counted = rank ? axis_rank(test.op_type, test.wanted.name, *rank) : std::nullopt;
    if (!counted || found->type != test.wanted.type) return false;
    const auto wrap = [&](std::int64_t axis) { return axis < 0 ? axis + *counted : axis; };
    if (found->type == AttributeType::kInt) return wrap(found->i()) == wrap(test.wanted.i());
    std::vector<std::int64_t> a = found->ints(), b = test.wanted.ints();
    for (auto* list : {&a, &b})
      for (std::int64_t& axis : *list) axis = wrap(axis);
    return a == b;
  }

  bool rank_fits(const CompiledRule::RankTest& test) const {
    const auto rank = rank_of(facts(test.slot));
    if (rank == 0) return true;
    if (!rank) return false;
    return std::any_of(test.others.begin(), test.others.end(), [&](std::uint32_t other) {
      const auto r = rank_of(facts(other));
      return r && *rank <= *r;
    });
  }

  bool axes_fit(const CompiledRule::AxesTest& test) const {
    const auto t = g_.value(match_.classes[test.slot]);
    auto rank = rank_of(facts(test.first));
    if (!t || t->size() != static_cast<std::int64_t>(test.axes.size())) return false;
    if (rank && test.grows) *rank += static_cast<int>(test.axes.size());
    for (std::size_t i = 0; i < test.axes.size(); ++i) {
      const auto found = element_as_int(*t, static_cast<std::int64_t>(i));
      if (!found) return false;
      if (*found == test.axes[i]) continue;
      if (!rank) return false;
      const auto wrap = [&](std::int64_t axis) { return axis < 0 ? axis + *rank : axis; };
      if (wrap(*found) != wrap(test.axes[i])) return false;
    }
    return true;
  }

  bool same_binding(const CompiledRule::AttributeBinding& a, const CompiledRule::AttributeBinding& b) const {
    const Attribute *x = attribute(a.slot, a.attribute), *y = attribute(b.slot, b.attribute);
    if (!x || !y) return x == y;
    const auto p = counted(a, *x), q = counted(b, *y);
    return same_value(p ? *p : *x, q ? *q : *y);
  }

  bool is_let(std::string_view name) const {
    return std::any_of(rule_.rule->lets.begin(), rule_.rule->lets.end(), [&](const auto& let) { return let.first == name; });
  }

  void bind() {
    const CompiledRule::Names& names = rule_.names;
    environment_.clear();
    environment_.reserve(names.slots.size() + names.left_out.size() + names.bindings.size() + rule_.rule->lets.size());
    for (const auto& [name, slot] : names.slots) environment_.set(name, Val(ClassRef{g_.egraph().find(match_.classes[slot])}));
    for (const std::string_view name : names.left_out) environment_.set(name, Val(ClassRef{g_.absent()}));
    for (const CompiledRule::AttributeBinding* b : names.bindings)
      if (environment_.find(b->variable) == nullptr)
        if (auto bound = bound_by(*b)) environment_.set(b->variable, *std::move(bound));
  }

  bool evaluate_lets() {
    for (const auto& [name, expr] : rule_.rule->lets) {
      Result r = context_.evaluate(*expr);
      if (!r)
        return fail([&, &name = name, &expr = expr] {
          return fmt::format("`{} = {}` has no value: {}", name, to_string(*expr), context_.reason());
        });
      if (!let_fits(name, *r)) return fail([&, &name = name] { return fmt::format("`{}` is not {}", name, context_.show(*r)); });
      environment_.set(name, *std::move(r));
    }
    return true;
  }

  // In a rule read backwards, a let that the match has bound is a test.
  bool let_fits(const std::string& name, const Val& computed) {
    for (const auto& b : rule_.bindings)
      if (b.variable == name)
        if (const auto bound = bound_by(b); !bound || context_.equal(computed, *bound) != true) return false;
    for (const auto& [let, slot] : rule_.let_slots) {
      if (let != name) continue;
      const Val bound(ClassRef{g_.egraph().find(match_.classes[slot])});
      if (const auto number = computed.real()) {
        const auto t = g_.value(match_.classes[slot], 64);
        const auto found = t && t->rank() == 0 ? element_as_double(*t, 0) : std::nullopt;
        if (!found || !matches_number(*found, *number, match_tolerance(t->dtype()))) return false;
      } else if (const Tensor* tensor = computed.tensor()) {
        const auto t = g_.value(match_.classes[slot], tensor->bytes().size());
        if (!t || !identical(*t, *tensor)) return false;
      } else if (context_.equal(computed, bound) != true) {
        return false;
      }
    }
    return true;
  }

  // The class of an operand; numbers take the dtype `wanted` (where given).
  std::optional<Id> materialize(const Operand& operand, std::optional<DType> wanted) {
    switch (operand.from) {
      case Operand::From::kSlot:
        return match_.classes[operand.index];
      case Operand::From::kRight:
        return values_[operand.index];
      case Operand::From::kAbsent:
        return g_.absent();
      case Operand::From::kConstant: {
        const RuleConstant& c = rule_.constants[operand.index];
        std::vector<double> reals;
        for (std::size_t i = 0; i < c.size(); ++i) reals.push_back(c.real(i));
        return constant(wanted.value_or(c.integers ? DType::kInt64 : DType::kFloat),
                        c.list ? Shape{static_cast<std::int64_t>(c.size())} : Shape{}, reals);
      }
      case Operand::From::kLet:
        return of_let(*environment_.find(rule_.rule->lets[operand.index].first), wanted);
    }
    return std::nullopt;
  }

  std::optional<Id> constant(DType dtype, const Shape& dims, std::span<const double> values) {
    const auto t = tensor_of_reals(dtype, dims, values);
    if (t.ok()) return g_.constant(*t);
    fail([&] { return std::string(t.status().message()); });
    return std::nullopt;
  }

  std::optional<Id> of_let(const Val& v, std::optional<DType> wanted) {
    if (const auto* ref = v.get<ClassRef>()) return ref->id;
    if (const Tensor* t = v.tensor()) return g_.constant(*t);
    if (const auto* i = v.get<std::int64_t>()) {
      const double real = static_cast<double>(*i);
      if (!wanted || wanted == DType::kInt64) return g_.constant(Tensor::scalar_int64(*i));
      return constant(*wanted, {}, std::span(&real, 1));
    }
    if (const auto* d = v.get<double>()) return constant(wanted.value_or(DType::kFloat), {}, std::span(d, 1));
    if (const auto* d = v.get<Dim>()) return g_.literal(std::span(d, 1), true);
    if (const List* list = v.list()) {
      std::vector<double> reals;
      for (const Val& item : *list)
        if (const auto* d = item.get<double>()) reals.push_back(*d);
      if (!reals.empty() && reals.size() == list->size())
        return constant(wanted.value_or(DType::kFloat), {static_cast<std::int64_t>(reals.size())}, reals);
      if (const auto dims = context_.as_dims(v)) return g_.literal(*dims, false);
    }
    fail([&] { return fmt::format("{} is nothing that an operator takes", context_.show(v)); });
    return std::nullopt;
  }

  bool pass_on(const CompiledRule::Step& step) {
    const Operand& operand = step.operands[0];
    std::optional<DType> wanted;  // a number that is an output has the dtype of what it replaces
    for (const CompiledRule::Output& o : rule_.outputs)
      if (o.right.from == Operand::From::kRight && o.right.index == step.first_value && o.projection < 0) wanted = facts(o.slot).dtype;
    if (wanted == DType::kUndefined) wanted.reset();
    const auto id = materialize(operand, wanted);
    if (id) values_[step.first_value] = *id;
    return id.has_value();
  }

  bool add(const CompiledRule::Step& step) {
    const std::size_t n = step.operands.size();
    std::vector<Id> children(n, kNone);
    std::vector<DType> dtypes(n, DType::kUndefined);
    const auto note = [&](std::size_t i) {
      const Facts& f = g_.facts(children[i]);
      if (f.kind == Facts::Kind::kTensor) dtypes[i] = f.dtype;
    };
    const auto number = [&](const Operand& o) {
      if (o.from != Operand::From::kLet) return o.from == Operand::From::kConstant;
      const Val& v = *environment_.find(rule_.rule->lets[o.index].first);
      return v.get<std::int64_t>() || v.get<double>() || v.list();
    };
    for (bool numbers : {false, true})
      for (std::size_t i = 0; i < n; ++i) {
        if (number(step.operands[i]) != numbers) continue;
        std::optional<DType> wanted;
        if (numbers && !(wanted = wanted_dtype(step.schema, i, dtypes, default_dtype(step.operands[i]))))
          return fail([&] { return fmt::format("no dtype fits the constant of {}", step.node->op_type); });
        const auto id = materialize(step.operands[i], wanted);
        if (!id) return false;
        children[i] = *id;
        note(i);
      }
    if (step.schema != nullptr) {
      std::string why;
      if (!dtypes_fit(*step.schema, dtypes, explain_ ? &why : nullptr)) return fail([&] { return why; });
      for (std::size_t i = 1; i < n; ++i)
        if (is_axes_input(*step.schema, i)) normalize_axes(children, i, step.schema->name == "Unsqueeze");
    }
    return intern(step, children);
  }

  DType default_dtype(const Operand& o) const {
    if (o.from == Operand::From::kConstant) return rule_.constants[o.index].integers ? DType::kInt64 : DType::kFloat;
    const Val& v = *environment_.find(rule_.rule->lets[o.index].first);
    const List* list = v.list();
    return v.get<double>() || (list && !list->empty() && list->front().get<double>()) ? DType::kFloat : DType::kInt64;
  }

  // Constant axes as lowering writes them: >= 0 where the rank is known.
  void normalize_axes(std::vector<Id>& children, std::size_t i, bool grows) {
    const auto rank = rank_of(g_.facts(children[0]));
    const auto& value = g_.facts(children[i]).value;
    if (!rank || !value) return;
    if (auto axes = axes_from_front(*value, *rank + (grows ? value->size() : 0))) children[i] = g_.constant(*std::move(axes));
  }

  bool intern(const CompiledRule::Step& step, std::vector<Id>& children) {
    const int outputs = static_cast<int>(step.node->outputs.size());
    Id id = kNone;
    if (step.fixed) {
      std::span<const Id> kept = children;
      while (!kept.empty() && g_.facts(kept.back()).kind == Facts::Kind::kAbsent) kept = kept.first(kept.size() - 1);
      id = g_.egraph().add(step.op, kept);
    } else {
      std::vector<Attribute> attributes;
      attributes.reserve(step.schema ? std::max(step.schema->attributes.size(), step.node->attributes.size())
                                     : step.node->attributes.size());
      for (const RuleAttribute& a : step.node->attributes) {
        if (left_out(a)) {
          const OpAttribute* known = step.schema ? step.schema->attribute(a.literal.name) : nullptr;
          if (known && known->required)
            return fail(
                [&] { return fmt::format("{} needs attribute {}, which @{} leaves out", step.node->op_type, a.literal.name, a.variable); });
          continue;
        }
        auto made = attribute_of(a);
        if (!made) return false;
        attributes.push_back(*std::move(made));
      }
      const auto rank = children.empty() ? std::nullopt : rank_of(g_.facts(children[0]));
      id = g_.add(make_key(step.schema, step.node->domain, step.node->op_type, std::move(attributes), outputs, rank), children);
    }
    if (outputs == 1) {
      values_[step.first_value] = id;
      return true;
    }
    for (int i = 0; i < outputs; ++i)
      if (!step.node->outputs[static_cast<std::size_t>(i)].empty())
        values_[step.first_value + static_cast<std::uint32_t>(i)] = g_.project(id, i);
    return true;
  }

  // An optional attribute without default that the left side does not have: the right side has it no more.
  bool left_out(const RuleAttribute& a) const {
    if (a.kind != RuleAttribute::Kind::kVariable || is_let(a.variable)) return false;
    return std::all_of(rule_.bindings.begin(), rule_.bindings.end(),
                       [&](const auto& b) { return b.variable != a.variable || attribute(b.slot, b.attribute) == nullptr; });
  }

  std::optional<Attribute> attribute_of(const RuleAttribute& a) {
    if (a.kind == RuleAttribute::Kind::kLiteral) return a.literal;
    for (const auto& b : rule_.bindings)
      if (b.variable == a.variable) {
        const Attribute* found = attribute(b.slot, b.attribute);
        if (found == nullptr) continue;
        Attribute bound = counted(b, *found).value_or(*found);
        bound.name = a.literal.name;
        if (bound.type == a.literal.type || a.literal.type == AttributeType::kUndefined) return bound;
      }
    if (environment_.find(a.variable) == nullptr) bind();
    return attribute_of_value(a, *environment_.find(a.variable));
  }

  std::optional<Attribute> attribute_of_value(const RuleAttribute& a, const Val& v) {
    const std::string& name = a.literal.name;
    switch (a.literal.type) {
      case AttributeType::kInt:
        if (const auto* t = v.get<DType>()) return Attribute::of(name, static_cast<std::int64_t>(*t));
        if (const auto* b = v.get<bool>()) return Attribute::of(name, static_cast<std::int64_t>(*b));
        if (const auto* i = v.get<std::int64_t>()) return Attribute::of(name, *i);
        break;
      case AttributeType::kFloat:
        if (const auto r = v.real()) return Attribute::of(name, static_cast<float>(*r));
        break;
      case AttributeType::kString:
        if (const auto* s = v.get<std::string>()) return Attribute::of(name, *s);
        break;
      case AttributeType::kInts:
        if (const auto ints = v.int_list()) return Attribute::of(name, *ints);
        break;
      case AttributeType::kFloats:
        if (const List* list = v.list()) {
          std::vector<float> floats;
          for (const Val& item : *list)
            if (const auto r = item.real()) floats.push_back(static_cast<float>(*r));
          if (floats.size() == list->size()) return Attribute::of(name, std::move(floats));
        }
        break;
      case AttributeType::kTensor:
        if (const Tensor* t = v.tensor()) return Attribute::of(name, *t);
        break;
      case AttributeType::kUndefined:  // an operator without schema: as the value is
        if (const auto* i = v.get<std::int64_t>()) return Attribute::of(name, *i);
        if (const auto* d = v.get<double>()) return Attribute::of(name, static_cast<float>(*d));
        if (const auto* s = v.get<std::string>()) return Attribute::of(name, *s);
        if (const auto ints = v.int_list()) return Attribute::of(name, *ints);
        break;
      default:
        break;
    }
    fail([&] { return fmt::format("{} cannot be attribute {}", context_.show(v), name); });
    return std::nullopt;
  }

  const CompiledRule& rule_;
  const Conditions* conditions_ = nullptr;
  OnnxEGraph& g_;
  const Match& match_;
  EGraphFacts facts_;
  Environment environment_;
  EvalContext context_;
  std::vector<Id> values_;
  bool explain_;
  std::string reason_;
};

class CompiledApplier : public RuleApplier {
 public:
  CompiledApplier(std::shared_ptr<CompiledRule> rule, OnnxEGraph& g, std::shared_ptr<RuleLog> log)
      : rule_(std::move(rule)), g_(g), log_(std::move(log)) {}

  bool holds(const EGraph&, const Match& match) const override {
    return Application(*rule_, g_, match, false).holds([this]() -> const Conditions& { return conditions(); });
  }

  void apply(EGraph&, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
    applied_.call([this] { compile_right(*rule_, g_); });
    std::vector<std::pair<Id, Id>> pairs;
    if (!Application(*rule_, g_, match, false).build(pairs)) return;
    for (const auto& [left, right] : pairs) {
      std::string what = clash(g_.facts(left), g_.facts(right), g_.dims());
      if (what.empty()) continue;
      if (log_) log_->refuse(rule_->rule->name, std::move(what));
      return;
    }
    unions.insert(unions.end(), pairs.begin(), pairs.end());
  }

  std::string why_not(const Match& match) const override {
    Application application(*rule_, g_, match, true);
    return application.holds([this]() -> const Conditions& { return conditions(); }) && application.lets_hold() ? "" : application.reason();
  }

  std::string constant_at(std::uint32_t slot) const override {
    for (const RuleNode& n : rule_->rule->left)
      for (const auto& [name, at] : rule_->slots)
        if (at == slot && n.is_constant() && n.outputs[0] == name) {
          const RuleConstant wanted = *rule_constant(n);
          if (wanted.integers) return wanted.list ? fmt::format("[{}]", fmt::join(wanted.ints, ", ")) : fmt::format("{}", wanted.ints[0]);
          return wanted.list ? fmt::format("[{:g}]", fmt::join(wanted.reals, ", ")) : fmt::format("{:g}", wanted.reals[0]);
        }
    return "";
  }

 private:
  const Conditions& conditions() const {
    asked_.call([this] { conditions_ = conditions_of(*rule_); });
    return conditions_;
  }

  std::shared_ptr<CompiledRule> rule_;
  mutable Once asked_, applied_;
  mutable Conditions conditions_;
  OnnxEGraph& g_;
  std::shared_ptr<RuleLog> log_;
};

}  // namespace

void compile_right(CompiledRule& compiled, OnnxEGraph& g) {
  std::map<std::string, Operand> scope;
  for (const auto& [name, slot] : compiled.slots) scope[name] = {Operand::From::kSlot, slot};
  for (const std::string& name : compiled.left_out) scope[name] = {};
  for (std::uint32_t i = 0; i < compiled.rule->lets.size(); ++i) scope[compiled.rule->lets[i].first] = {Operand::From::kLet, i};
  for (const RuleNode& n : compiled.rule->right) {
    if (compiled.num_values > kMaxRightNodes) return;
    if (n.is_constant()) {
      scope[n.outputs[0]] = {Operand::From::kConstant, static_cast<std::uint32_t>(compiled.constants.size())};
      compiled.constants.push_back(*rule_constant(n));
      continue;
    }
    CompiledRule::Step step;
    step.node = &n;
    step.schema = newest_schema(n.domain, n.op_type);
    if (!step.schema && g.defined()) step.schema = g.defined()->schema(n.domain, n.op_type);
    for (const std::string& name : n.inputs) step.operands.push_back(name.empty() ? Operand{} : scope.at(name));
    step.alias = n.domain.empty() && n.op_type == "Identity";
    step.first_value = compiled.num_values;
    compiled.num_values += static_cast<std::uint32_t>(n.outputs.size());
    std::vector<Attribute> literals;
    for (const RuleAttribute& a : n.attributes)
      if (a.kind == RuleAttribute::Kind::kLiteral) literals.push_back(a.literal);
    OpKey key = make_key(n.domain, n.op_type, literals, static_cast<int>(n.outputs.size()), std::nullopt);
    const bool axes =
        std::any_of(key.attributes.begin(), key.attributes.end(), [](const Attribute& a) { return a.name == "axis" || a.name == "axes"; });
    step.fixed = !step.alias && (!axes || !counts_along_first_input(n.domain)) && literals.size() == n.attributes.size();
    if (step.fixed) step.op = g.op(key);
    for (std::uint32_t i = 0; i < n.outputs.size(); ++i)
      if (!n.outputs[i].empty()) scope[n.outputs[i]] = {Operand::From::kRight, step.first_value + i};
    compiled.steps.push_back(std::move(step));
  }
  for (std::size_t k = 0; k < compiled.outputs.size(); ++k) compiled.outputs[k].right = scope.at(compiled.rule->outputs[k]);
}

std::shared_ptr<const RuleApplier> make_applier(std::shared_ptr<CompiledRule> compiled, OnnxEGraph& g, std::shared_ptr<RuleLog> log) {
  return std::make_shared<CompiledApplier>(std::move(compiled), g, std::move(log));
}

}  // namespace saturate
