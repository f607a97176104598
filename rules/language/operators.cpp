#include "rules/language/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <list>
#include <set>

#include "egraph/once.h"
#include "onnx_bridge/convert/op_key.h"
#include "rules/evaluate/eval.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

const RuleNode& signature_of(const Rule& body) { return body.left.front(); }

bool is_optional(const Rule& body, const std::string& name) {
  return std::find(body.optional.begin(), body.optional.end(), name) != body.optional.end();
}

// What a body knows while its facts are found: of each value by its place.
class FactsOfBody : public FactSource {
 public:
  explicit FactsOfBody(DimTable& dims) : dims_(dims) {}
  Id add(Facts facts) {
    facts_.push_back(std::move(facts));
    return static_cast<Id>(facts_.size() - 1);
  }
  const Facts& facts(Id id) const override { return facts_[id]; }
  std::optional<Tensor> value(Id id, std::size_t max_bytes) const override {
    const auto& v = facts_[id].value;
    return v && v->bytes().size() <= max_bytes ? v : std::nullopt;
  }
  DimTable& dims() const override { return dims_; }

 private:
  DimTable& dims_;
  std::deque<Facts> facts_;  // they stay where they are
};

// Facts along one body of an operator.
class BodyInference {
 public:
  using Outputs = absl::StatusOr<std::vector<Facts>>;
  BodyInference(const Rule& body, InferContext& context) : body_(body), context_(context), facts_(context.dims) {}

  // Whether the body takes as many inputs, and the attributes.
  bool binds(const Node& node, std::span<const Facts* const> inputs) {
    const auto given = [&](std::size_t i) { return i < inputs.size() && inputs[i]->kind != Facts::Kind::kAbsent; };
    if (!RuleOperators::takes(body_, inputs.size(), given) || !RuleOperators::bind_attributes(body_, node, environment_)) return false;
    const std::vector<std::string>& names = signature_of(body_).inputs;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty()) set(names[i], given(i) ? *inputs[i] : absent());
    return true;
  }

  std::size_t conditions() const { return body_.where.size(); }
  // Whether this condition is known to be false.
  bool excluded_by(std::size_t condition) const {
    if (condition >= body_.where.size()) return false;
    EvalContext context(facts_, environment_, false);
    const Result r = context.evaluate(*body_.where[condition]);
    const bool* holds = r ? r->get<bool>() : nullptr;
    return holds && !*holds;
  }

  // nullopt: the body does not tell.
  std::optional<Outputs> outputs() {
    if (body_.right.empty()) return std::nullopt;  // a declaration
    EvalContext context(facts_, environment_, false);
    for (const auto& [name, expr] : body_.lets) {
      Result r = context.evaluate(*expr);
      if (!r) return std::nullopt;
      environment_.set(name, *std::move(r));
    }
    for (std::size_t i = 0; i < body_.right.size(); ++i) {
      const RuleNode& node = body_.right[i];
      if (node.is_constant()) {
        numbers_.emplace_back(node.outputs[0], *rule_constant(node));
        continue;
      }
      if (const auto s = step(node, static_cast<int>(i)); !s.ok()) return Outputs(s);
    }
    std::vector<Facts> out;
    for (const std::string& name : body_.outputs) {
      out.push_back(of(name, DType::kUndefined));
      out.back().constant = false;  // nobody can run the operator
      out.back().value.reset();
    }
    return Outputs(std::move(out));
  }

 private:
  static Facts absent() {
    Facts f;
    f.kind = Facts::Kind::kAbsent;
    return f;
  }

  void set(const std::string& name, Facts facts) { environment_.set(name, Val(ClassRef{facts_.add(std::move(facts))})); }

  const RuleConstant* written(const std::string& name) const {
    for (const auto& [known, number] : numbers_)
      if (known == name) return &number;
    return nullptr;
  }

  // The number, or the list of numbers, that a name stands for.
  std::optional<RuleConstant> number(const std::string& name) const {
    if (const RuleConstant* c = written(name)) return *c;
    const Val* v = environment_.find(name);
    return v && !v->get<ClassRef>() ? constant_of(*v) : std::nullopt;
  }

  // Numbers are of the dtype that is wanted.
  Facts of(const std::string& name, DType wanted) const {
    if (name.empty()) return absent();
    if (const auto c = number(name)) {
      std::vector<double> reals;
      for (std::size_t i = 0; i < c->size(); ++i) reals.push_back(c->real(i));
      const DType dtype = wanted != DType::kUndefined ? wanted : c->integers ? DType::kInt64 : DType::kFloat;
      const auto t = tensor_of_reals(dtype, c->list ? Shape{static_cast<std::int64_t>(c->size())} : Shape{}, reals);
      return t.ok() ? facts_of_tensor(*t, facts_.dims()) : Facts{};
    }
    const Val* v = environment_.find(name);
    if (!v) return {};
    if (const auto* ref = v->get<ClassRef>()) return facts_.facts(ref->id);
    if (const Tensor* t = v->tensor()) return facts_of_tensor(*t, facts_.dims());
    return facts_of_sizes(*v);
  }

  // A shape of which some sizes are symbols.
  Facts facts_of_sizes(const Val& v) const {
    EvalContext context(facts_, environment_, false);
    std::optional<std::vector<Dim>> sizes;
    if (const Dim* d = v.get<Dim>())
      sizes = std::vector{*d};
    else
      sizes = context.as_dims(v);
    Facts f;
    if (!sizes) return f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = DType::kInt64;
    f.shape.emplace();
    if (v.list()) f.shape->push_back(facts_.dims().constant(static_cast<std::int64_t>(sizes->size())));
    f.content = std::move(sizes);
    return f;
  }

  absl::Status step(const RuleNode& node, int place) {
    const OpSchema* schema = schema_for_rule(dynamic_cast<const RuleOperators*>(context_.defined), node.domain, node.op_type);
    Node call;
    call.op_type = node.op_type;
    call.domain = node.domain;
    for (const RuleAttribute& a : node.attributes)
      if (auto made = attribute_from(a, environment_); made.ok()) call.attributes.push_back(*std::move(made));
    if (schema) add_defaults(*schema, call.attributes);
    const std::size_t n = node.inputs.size();
    std::vector<DType> dtypes(n, DType::kUndefined);
    std::vector<Facts> inputs(n);
    for (const bool numbers : {false, true})
      for (std::size_t i = 0; i < n; ++i) {
        const auto c = number(node.inputs[i]);
        if (c.has_value() != numbers) continue;
        const DType usual = c && !c->integers ? DType::kFloat : DType::kInt64;
        inputs[i] = of(node.inputs[i], numbers ? wanted_dtype(schema, i, dtypes, usual).value_or(usual) : DType::kUndefined);
        dtypes[i] = inputs[i].dtype;
      }
    std::vector<const Facts*> read;
    for (const Facts& f : inputs) read.push_back(&f);
    call.inputs.assign(n, "x");
    InferContext inner = context_;
    inner.fresh = [this, place](int output, int axis) { return context_.fresh(kPlaces * (place + 1) + output, axis); };
    auto made = infer(call, read, static_cast<int>(node.outputs.size()), inner);
    if (!made.ok()) return made.status();
    for (std::size_t i = 0; i < node.outputs.size() && i < made->size(); ++i)
      if (!node.outputs[i].empty()) set(node.outputs[i], std::move((*made)[i]));
    return absl::OkStatus();
  }

  static constexpr int kPlaces = 64;  // the node at this place of a body, or of a body in it, makes symbols of its own
  const Rule& body_;
  InferContext& context_;
  FactsOfBody facts_;
  Environment environment_;
  std::vector<std::pair<std::string, RuleConstant>> numbers_;
};

}  // namespace

// Keeps the names that the schema's views are of.
struct RuleOperators::Signature {
  std::deque<std::string> texts;
  OpSchema schema;

  std::string_view kept(std::string text) { return texts.emplace_back(std::move(text)); }

  void join(const Rule& body) {
    const RuleNode& node = signature_of(body);
    if (schema.attributes.empty()) attributes(body, node);
    const std::set<std::string> floats = names_of_floats(body);
    for (std::size_t i = schema.inputs.size(); i < node.inputs.size(); ++i)
      schema.inputs.push_back({kept(node.inputs[i]), floats.contains(node.inputs[i]) ? kFloats : ""});
    for (std::size_t i = schema.outputs.size(); i < node.outputs.size(); ++i)
      schema.outputs.push_back({kept(node.outputs[i]), floats.empty() ? "" : kFloats});
    for (std::size_t i = 0; i < schema.inputs.size(); ++i) {
      const std::string name = i < node.inputs.size() ? node.inputs[i] : "";
      schema.inputs[i].optional |= name.empty() || is_optional(body, name);
    }
    schema.max_inputs = static_cast<int>(schema.inputs.size());
    schema.min_inputs = schema.max_inputs;
    while (schema.min_inputs > 0 && schema.inputs[static_cast<std::size_t>(schema.min_inputs) - 1].optional) --schema.min_inputs;
    schema.min_outputs = schema.max_outputs = static_cast<int>(schema.outputs.size());
  }

  void attributes(const Rule& body, const RuleNode& node) {
    for (const RuleAttribute& a : node.attributes) {
      const bool has_default = a.literal.value.index() != 0;
      const bool required = !has_default && !is_optional(body, a.variable);
      schema.attributes.push_back({kept(a.literal.name), a.literal.type, required, has_default ? std::optional(a.literal) : std::nullopt});
    }
  }

  static constexpr std::string_view kFloats = "T";
  static std::set<std::string> names_of_floats(const Rule& body) {
    std::set<std::string> out;
    for (const ExprPtr& e : body.where)
      if (e->kind == Expr::Kind::kCall && e->text == "float")
        for (const ExprPtr& name : e->arguments) out.insert(name->text);
    return out;
  }
};

struct RuleOperators::Operator {
  StoredRules bodies;
  // Made when it is asked for first: built-in bodies are read then.
  mutable Once asked;
  mutable Signature signature;
};

const RuleOperators::Operator* RuleOperators::find(std::string_view domain, std::string_view op_type) const {
  if (operators_.empty()) return nullptr;
  const auto it = operators_.find(fmt::format("{}.{}", domain, op_type));
  return it == operators_.end() ? nullptr : it->second.get();
}

const StoredRules* RuleOperators::bodies(std::string_view domain, std::string_view op_type) const {
  const Operator* known = find(domain, op_type);
  return known ? &known->bodies : nullptr;
}

const OpSchema* RuleOperators::schema(std::string_view domain, std::string_view op_type) const {
  const Operator* known = find(domain, op_type);
  if (!known) return nullptr;
  known->asked.call([known] {
    static constexpr std::string_view kTypes[] = {"tensor(float)", "tensor(double)", "tensor(float16)", "tensor(bfloat16)"};
    OpSchema& schema = known->signature.schema;
    for (const auto& body : known->bodies) known->signature.join(body->rule());
    auto& floats = schema.constraints.emplace_back();
    floats.name = Signature::kFloats;
    floats.types.assign(std::begin(kTypes), std::end(kTypes));
    for (const std::string_view type : kTypes) floats.tensors |= std::uint64_t{1} << static_cast<int>(*dtype_of_tensor(type));
  });
  return &known->signature.schema;
}

// The operators of other sets, which share this one, stay as they are.
void RuleOperators::add(std::shared_ptr<const StoredRule> body) {
  const RuleOp& op = body->head().ends_in;
  auto& known = operators_[fmt::format("{}.{}", op.domain, op.op_type)];
  const auto with = std::make_shared<Operator>();
  if (known) with->bodies = known->bodies;
  with->bodies.push_back(body);
  known = with;
  all_.push_back(std::move(body));
}

bool RuleOperators::bind_attributes(const Rule& body, const Node& call, Environment& environment) {
  for (const RuleAttribute& a : signature_of(body).attributes) {
    const Attribute* given = find_attribute(call.attributes, a.literal.name);
    const bool has_default = a.literal.value.index() != 0;
    if (!given && !has_default && !is_optional(body, a.variable)) return false;
    if (given || has_default) environment.set(a.variable, Val(given ? *given : a.literal));
  }
  return true;
}

bool RuleOperators::takes(const Rule& body, std::size_t inputs, const std::function<bool(std::size_t)>& given) {
  const std::vector<std::string>& names = signature_of(body).inputs;
  for (std::size_t i = 0; i < std::max(inputs, names.size()); ++i) {
    const bool named = i < names.size() && !names[i].empty();
    if (given(i) ? !named : named && !is_optional(body, names[i])) return false;
  }
  return true;
}

void RuleOperators::add(const RuleOperators& others) {
  for (const auto& body : others.all_) add(body);
}

std::string RuleOperators::why_not(const Rule& body) const {
  const RuleNode& node = signature_of(body);
  if (node.domain == "com.microsoft" || newest_schema(node.domain, node.op_type))
    return fmt::format("{} is an operator of a runtime already; give yours another domain", body.name);
  const StoredRules* others = bodies(node.domain, node.op_type);
  if (!others) return {};
  const Rule& first = others->front()->rule();
  if (law_of(first.name) == law_of(body.name) && first.source == body.source && !body.source.empty()) return {};
  const auto& known = signature_of(first);
  const bool same = std::equal(known.attributes.begin(), known.attributes.end(), node.attributes.begin(), node.attributes.end(),
                               [](const RuleAttribute& a, const RuleAttribute& b) {
                                 return a.literal.name == b.literal.name && a.literal.type == b.literal.type &&
                                        a.literal.value.index() == b.literal.value.index();
                               });
  const bool stands_alone = body.function || body.declares || first.function || first.declares;
  if (!same || first.file != body.file || (stands_alone && law_of(first.name) == law_of(body.name) && first.place.line != body.place.line))
    return fmt::format("{} is defined in {}:{} already{}", body.name, first.file, first.place.line,
                       same ? "" : " with other attributes; a further body has the same");
  return {};
}

std::optional<absl::StatusOr<std::vector<Facts>>> RuleOperators::infer(const Node& node, std::span<const Facts* const> inputs,
                                                                       int num_outputs, InferContext& context) const {
  const StoredRules* known = bodies(node.domain, node.op_type);
  if (!known) return std::nullopt;
  // That a body stands for such inputs is taken for granted, as of every operator that a graph holds: conditions only tell which of
  // several.
  std::list<BodyInference> may_stand;
  for (const auto& body : *known)
    if (BodyInference& last = may_stand.emplace_back(body->rule(), context); !last.binds(node, inputs)) may_stand.pop_back();
  for (std::size_t k = 0; may_stand.size() > 1 && k < may_stand.front().conditions(); ++k)
    std::erase_if(may_stand, [k](const BodyInference& body) { return body.excluded_by(k); });
  auto outputs = may_stand.size() == 1 ? may_stand.front().outputs() : std::nullopt;
  if (!outputs) return std::vector<Facts>(static_cast<std::size_t>(num_outputs));
  return *std::move(outputs);
}

const OpSchema* schema_for_rule(const RuleOperators* defined, std::string_view domain, std::string_view op_type) {
  const OpSchema* own = defined && !domain.empty() ? defined->schema(domain, op_type) : nullptr;
  return own ? own : newest_schema(domain, op_type);
}

}  // namespace saturate
