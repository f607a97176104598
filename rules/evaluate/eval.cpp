#include "rules/evaluate/eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rules/evaluate/functions.h"

namespace saturate {
namespace {

constexpr std::string_view kUnproven = "unproven";
constexpr std::size_t kMaxAsked = 1 << 16;  // bytes of a constant that a guard may ask to be evaluated

bool is_true(const Result& result) {
  const bool* answer = result ? result->get<bool>() : nullptr;
  return answer != nullptr && *answer;
}

}  // namespace

template <typename T>
void Val::hold(T value) {
  held_ = new Held{.value = std::move(value)};
  kind_ = Kind::kHeld;
}

void Val::drop() const {
  if (held_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete held_;
}

Val::Val(std::string s) { hold(std::move(s)); }
Val::Val(List list) { hold(std::move(list)); }
Val::Val(Tensor t) { hold(std::move(t)); }

Val::Val(const Attribute& a) {
  const auto list_of = [](const auto& items, auto make) {
    List list;
    list.reserve(items.size());
    for (const auto& x : items) list.push_back(make(x));
    return Val(std::move(list));
  };
  switch (a.type) {
    case AttributeType::kInt:
      *this = Val(a.i());
      break;
    case AttributeType::kFloat:
      *this = Val(static_cast<double>(a.f()));
      break;
    case AttributeType::kString:
      *this = Val(a.s());
      break;
    case AttributeType::kInts:
      *this = ints(a.ints());
      break;
    case AttributeType::kFloats:
      *this = list_of(a.floats(), [](float x) { return Val(static_cast<double>(x)); });
      break;
    case AttributeType::kStrings:
      *this = list_of(a.strings(), [](const std::string& x) { return Val(x); });
      break;
    case AttributeType::kTensor:
      *this = Val(Tensor(a.t()));
      break;
    default:
      hold(a);
      break;
  }
}

Val Val::of(Dim d, const DimTable& dims) {
  if (const auto n = dims.value(d)) return Val(*n);
  Val out;
  out.kind_ = Kind::kDim;
  out.dim_ = d;
  return out;
}

Val Val::ints(std::span<const std::int64_t> values) {
  List list;
  list.reserve(values.size());
  for (std::int64_t x : values) list.emplace_back(x);
  return Val(std::move(list));
}

Val Val::dims(std::span<const Dim> dims, const DimTable& table) {
  List list;
  list.reserve(dims.size());
  for (Dim d : dims) list.push_back(Val::of(d, table));
  return Val(std::move(list));
}

std::optional<double> Val::real() const {
  if (const auto* i = get<std::int64_t>()) return static_cast<double>(*i);
  if (const auto* d = get<double>()) return *d;
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> Val::int_list() const {
  const List* items = list();
  if (items == nullptr) return std::nullopt;
  std::vector<std::int64_t> out;
  out.reserve(items->size());
  for (const Val& item : *items) {
    if (const auto* i = item.get<std::int64_t>())
      out.push_back(*i);
    else
      return std::nullopt;
  }
  return out;
}

const Val* Environment::find(std::string_view name) const {
  for (const auto& [n, value] : entries_)
    if (n == name) return &value;
  return nullptr;
}

std::string EvalContext::show(const Val& value) const {
  if (const auto* b = value.get<bool>()) return *b ? "true" : "false";
  if (const auto* i = value.get<std::int64_t>()) return fmt::format("{}", *i);
  if (const auto* d = value.get<double>()) return fmt::format("{:g}", *d);
  if (const auto* s = value.get<std::string>()) return fmt::format("\"{}\"", *s);
  if (const auto* d = value.get<Dim>()) return dims().to_string(*d);
  if (const auto* t = value.get<DType>()) return dtype_name(*t);
  if (const auto* r = value.get<ClassRef>()) return saturate::to_string(source_.facts(r->id), dims());
  if (const List* list = value.list()) {
    std::string out;
    for (const Val& item : *list) out += (out.empty() ? "" : ", ") + show(item);
    return "[" + out + "]";
  }
  if (const Tensor* t = value.tensor()) return fmt::format("a tensor of {} {} elements", t->size(), dtype_name(t->dtype()));
  return "an attribute";
}

// "s is float[3], p is [1, 0]" for the names of an expression.
std::string EvalContext::values_in(const Expr& expr) const {
  std::vector<const Expr*> todo{&expr};
  std::vector<std::string_view> seen;
  std::string out;
  while (!todo.empty()) {
    const Expr* e = todo.back();
    todo.pop_back();
    for (auto it = e->arguments.rbegin(); it != e->arguments.rend(); ++it)
      if (*it) todo.push_back(it->get());
    if (e->kind != Expr::Kind::kName || std::find(seen.begin(), seen.end(), e->text) != seen.end()) continue;
    const Val* value = environment_.find(e->text);
    if (value == nullptr) continue;
    seen.push_back(e->text);
    out += fmt::format("{}{} is {}", out.empty() ? "" : ", ", e->text, show(*value));
  }
  return out;
}

bool EvalContext::holds(const Expr& condition) {
  reason_.clear();
  const Result result = evaluate(condition);
  if (is_true(result)) return true;
  if (!explain_) return false;
  const std::string why = !result                          ? reason_
                          : result->get<bool>() == nullptr ? "it is " + show(*result) + ", not true or false"
                                                           : "it is false";
  const std::string values = values_in(condition);
  reason_ = fmt::format("`{}` does not hold: {}{}", to_string(condition), why, values.empty() ? "" : " (" + values + ")");
  return false;
}

// `absent(a)` of an attribute: nothing is bound where the operator leaves it out. nullopt: another question.
std::optional<bool> EvalContext::attribute_absence(const Expr& call) const {
  constexpr std::string_view kAbsent = "absent";
  if (call.text != kAbsent || call.arguments.size() != 1 || call.arguments[0]->kind != Expr::Kind::kName) return std::nullopt;
  const std::optional<Val> bound = named(*call.arguments[0]);
  if (bound && bound->get<ClassRef>()) return std::nullopt;
  return !bound;
}

std::optional<Val> EvalContext::named(const Expr& name) const {
  if (name.bound >= 0 && bound_ != nullptr) return bound_->value(name.bound);
  const Val* value = environment_.find(name.text);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

Result EvalContext::evaluate(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::kInt:
      return Val(expr.integer);
    case Expr::Kind::kReal:
      return Val(expr.real);
    case Expr::Kind::kString:
      return Val(expr.text);
    case Expr::Kind::kName: {
      if (std::optional<Val> value = named(expr)) return value;
      if (expr.text == "true" || expr.text == "false") return Val(expr.text == "true");
      if (const auto dtype = parse_dtype(expr.text)) return Val(*dtype);
      return fail([&] { return fmt::format("`{}` is bound to nothing", expr.text); });
    }
    case Expr::Kind::kList: {
      List list;
      list.reserve(expr.arguments.size());
      for (const ExprPtr& e : expr.arguments) {
        Result r = evaluate(*e);
        if (!r) return r;
        list.push_back(*std::move(r));
      }
      return Val(std::move(list));
    }
    case Expr::Kind::kCall: {
      if (const auto absence = attribute_absence(expr)) return Val(*absence);
      if (expr.text == kUnproven) return Val(!is_true(evaluate(*expr.arguments[0])));  // also where that has no answer
      absl::InlinedVector<Val, 3> arguments;
      for (const ExprPtr& argument : expr.arguments) {
        Result r = evaluate(*argument);
        if (!r) return r;
        arguments.push_back(*std::move(r));
      }
      return expr.function->run(*this, Args(arguments.data(), arguments.size()));
    }
    case Expr::Kind::kIndex:
      return index(expr);
    case Expr::Kind::kSlice:
      return slice(expr);
    case Expr::Kind::kNot: {
      const Result r = evaluate(*expr.arguments[0]);
      if (!r) return r;
      if (const bool* b = r->get<bool>()) return Val(!*b);
      return fail([&] { return fmt::format("`not` of {}, which is not true or false", show(*r)); });
    }
    case Expr::Kind::kNegate: {
      const Result r = evaluate(*expr.arguments[0]);
      if (!r) return r;
      if (const auto* i = r->get<std::int64_t>()) return Val(static_cast<std::int64_t>(-static_cast<std::uint64_t>(*i)));
      if (const auto* d = r->get<double>()) return Val(-*d);
      if (const auto* d = r->get<Dim>()) return Val::of(dims().neg(*d), dims());
      return fail([&] { return fmt::format("{} cannot be negated", show(*r)); });
    }
    case Expr::Kind::kBinary:
      return evaluate_binary(expr);
  }
  return std::nullopt;
}

std::optional<Id> EvalContext::as_class(const Val& v) {
  if (const auto* r = v.get<ClassRef>()) return r->id;
  return fail([&] { return fmt::format("{} is no value of the model", show(v)); });
}

const Facts* EvalContext::as_ranked(const Val& v) {
  const Facts* f = as_facts(v);
  if (f == nullptr) return nullptr;
  if (f->kind == Facts::Kind::kTensor && f->shape) return f;
  fail([&] { return fmt::format("the rank of {} is unknown", show(v)); });
  return nullptr;
}

std::optional<std::int64_t> EvalContext::as_int(const Val& v) {
  if (const auto* i = v.get<std::int64_t>()) return *i;
  if (const auto* ref = v.get<ClassRef>()) {
    const Result r = elements_of(ref->id);
    if (!r) return std::nullopt;
    if (const auto* i = r->get<std::int64_t>()) return *i;
    if (const auto* list = r->list(); list && list->size() == 1 && (*list)[0].get<std::int64_t>()) return *(*list)[0].get<std::int64_t>();
  }
  return fail([&] { return fmt::format("{} is no known integer", show(v)); });
}

std::optional<double> EvalContext::as_real(const Val& v) {
  if (const auto r = v.real()) return r;
  if (const auto* ref = v.get<ClassRef>()) {
    const auto t = source_.value(ref->id, kMaxAsked);
    if (t && t->size() == 1)
      if (const auto r = element_as_double(*t, 0)) return r;
  }
  return fail([&] { return fmt::format("{} is no known number", show(v)); });
}

std::optional<Dim> EvalContext::as_dim(const Val& v) {
  if (const auto* i = v.get<std::int64_t>()) return dims().constant(*i);
  if (const auto* d = v.get<Dim>()) return *d;
  return fail([&] { return fmt::format("{} is no dim", show(v)); });
}

std::optional<std::vector<Dim>> EvalContext::as_dims(const Val& v) {
  if (const auto* ref = v.get<ClassRef>()) {
    const Facts& f = source_.facts(ref->id);
    if (f.content) return *f.content;
  }
  const List* list = v.list();
  if (list == nullptr) return fail([&] { return fmt::format("{} is no list of dims", show(v)); });
  std::vector<Dim> out;
  out.reserve(list->size());
  for (const Val& item : *list) {
    const auto d = as_dim(item);
    if (!d) return std::nullopt;
    out.push_back(*d);
  }
  return out;
}

std::optional<std::vector<std::int64_t>> EvalContext::as_ints(const Val& v) {
  if (auto ints = v.int_list()) return ints;
  if (const auto* ref = v.get<ClassRef>()) {
    const Result r = elements_of(ref->id);
    if (!r) return std::nullopt;
    if (auto ints = r->int_list()) return ints;
    if (const auto* i = r->get<std::int64_t>()) return std::vector<std::int64_t>{*i};
  }
  return fail([&] { return fmt::format("{} is no list of known integers", show(v)); });
}

std::optional<Tensor> EvalContext::as_tensor(const Val& v, std::size_t max_bytes) {
  if (const Tensor* t = v.tensor()) return *t;
  if (const auto* ref = v.get<ClassRef>()) {
    if (auto t = source_.value(ref->id, max_bytes)) return t;
    return fail([&] { return fmt::format("{} is no constant of at most {} bytes", show(v), max_bytes); });
  }
  return fail([&] { return fmt::format("{} is no tensor", show(v)); });
}

Result EvalContext::elements_of(Id id) {
  const Facts& f = source_.facts(id);
  if (f.content && f.shape) {
    if (f.shape->empty() && f.content->size() == 1) return Val::of(f.content->front(), dims());
    return Val::dims(*f.content, dims());
  }
  const auto t = source_.value(id, kMaxAsked);
  if (!t) return fail([&] { return fmt::format("the value of {} is not known", show(Val(ClassRef{id}))); });
  if (t->rank() > 1) return Val(*t);
  List list;
  for (std::int64_t i = 0; i < t->size(); ++i) {
    if (is_integer(t->dtype())) {
      const auto n = element_as_int(*t, i);
      if (!n) return Val(*t);
      list.emplace_back(*n);
    } else {
      const auto r = element_as_double(*t, i);
      if (!r) return Val(*t);
      list.emplace_back(*r);
    }
  }
  return t->rank() == 0 ? list.front() : Val(std::move(list));
}

// A number or list of numbers that an expression gave, as a constant of a rule.
std::optional<RuleConstant> constant_of(const Val& v) {
  RuleConstant c;
  const auto push = [&](const Val& item) {
    if (const auto* i = item.get<std::int64_t>())
      c.ints.push_back(*i);
    else if (const auto* d = item.get<double>())
      c.reals.push_back(*d);
    else
      return false;
    return true;
  };
  if (const List* list = v.list()) {
    c.list = true;
    for (const Val& item : *list)
      if (!push(item)) return std::nullopt;
  } else if (!push(v)) {
    return std::nullopt;
  }
  if (!c.ints.empty() && !c.reals.empty()) return std::nullopt;
  c.integers = c.reals.empty();
  return c;
}

absl::StatusOr<Attribute> attribute_from(const RuleAttribute& a, const Environment& environment) {
  if (a.kind == RuleAttribute::Kind::kLiteral) return a.literal;
  const Val* v = environment.find(a.variable);
  const std::string& name = a.literal.name;
  if (v == nullptr) return absl::NotFoundError("unbound");
  if (const auto* t = v->get<DType>()) return Attribute::of(name, static_cast<std::int64_t>(*t));
  if (const auto* b = v->get<bool>()) return Attribute::of(name, static_cast<std::int64_t>(*b));
  if (const auto* s = v->get<std::string>()) return Attribute::of(name, *s);
  if (const Tensor* t = v->tensor()) return Attribute::of(name, *t);
  const AttributeType type = a.literal.type;
  if (const auto* i = v->get<std::int64_t>(); i && type != AttributeType::kFloat) return Attribute::of(name, *i);
  if (const auto r = v->real()) return Attribute::of(name, static_cast<float>(*r));
  if (const auto ints = v->int_list(); ints && type != AttributeType::kFloats) return Attribute::of(name, *ints);
  if (const List* list = v->list()) {
    std::vector<float> floats;
    for (const Val& item : *list) floats.push_back(static_cast<float>(item.real().value_or(0)));
    return Attribute::of(name, std::move(floats));
  }
  return absl::InvalidArgumentError(fmt::format("attribute {} cannot be written", name));
}

}  // namespace saturate
