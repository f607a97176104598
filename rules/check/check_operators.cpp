// Operators that rule files define, run by their bodies.
#include <fmt/format.h>

#include "rules/check/check_graph.h"

namespace saturate {
namespace {

// One body on its instances.
class OperatorCheck {
 public:
  OperatorCheck(const Rule& body, const RuleOperators& defined, const Evaluator& evaluator, const CheckOptions& options)
      : body_(body), defined_(defined), evaluator_(evaluator), options_(options), random_(options.seed) {
    out_.rule = body.name;
  }

  RuleCheck run() {
    if (body_.declares) return std::move(out_);
    if (body_.examples.empty()) error(body_.place, "an operator needs an example");
    for (const RuleExample& example : body_.examples) {
      ++out_.examples;
      if (const std::string why = try_on(instance_of(body_, example, random_), example); !why.empty()) error(example.place, why);
      for (const Instance& instance : random_instances(body_, example, options_.random_instances, random_)) {
        ++out_.random_instances;
        const std::string why = try_on(instance, example);
        if (why.starts_with(kFacts)) error(example.place, fmt::format("{}: {}", instance.what, why));
      }
    }
    for (const RuleExample& counterexample : body_.counterexamples) {
      ++out_.counterexamples;
      if (ran(instance_of(body_, counterexample, random_)).ok())
        error(counterexample.place, "a body of the operator takes this counterexample");
    }
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kFacts = "its facts";

  void error(Place place, std::string what) {
    out_.findings.push_back(
        {RuleFinding::Severity::kError, body_.name, fmt::format("{}:{}:{}: ", body_.file, place.line, place.column), std::move(what)});
  }

  absl::StatusOr<std::vector<Value>> ran(const Instance& instance) const {
    const RuleNode& signature = body_.left.front();
    Node node;
    node.domain = signature.domain;
    node.op_type = signature.op_type;
    for (const auto& [name, value] : instance.attributes) {
      node.attributes.push_back(value);
      node.attributes.back().name = name;
    }
    std::vector<Value> inputs;
    for (const std::string& name : signature.inputs) {
      const auto it = instance.tensors.find(name);
      inputs.push_back(it == instance.tensors.end() ? Value() : Value(it->second));
    }
    return run_operator_of_rule(evaluator_, &defined_, node, inputs);
  }

  // "" or what is wrong.
  std::string try_on(const Instance& instance, const RuleExample& example) const {
    const auto outputs = ran(instance);
    if (!outputs.ok()) return std::string(outputs.status().message());
    for (const bool symbolic : {false, true})
      if (std::string why = compare_facts(instance, example, *outputs, symbolic); !why.empty()) return why;
    return {};
  }

  // `symbolic`: the e-graph knows of the inputs' sizes only which are the same.
  std::string compare_facts(const Instance& instance, const RuleExample& example, const std::vector<Value>& outputs, bool symbolic) const {
    std::map<std::string, std::int64_t> sizes;
    const LeftSide::Axes axes = symbolic ? LeftSide::named_sizes(instance, example, sizes) : LeftSide::Axes{};
    if (symbolic && axes.empty()) return {};
    OnnxEGraph g(evaluator_);
    g.define(std::shared_ptr<const DefinedOperators>(std::shared_ptr<void>(), &defined_));
    LeftSide left(body_, instance, g, axes);
    std::set<std::string> variable(body_.inputs.begin(), body_.inputs.end());
    if (std::string problem = left.build(variable); !problem.empty()) return fmt::format("{} cannot be told: {}", kFacts, problem);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& t = outputs[i].tensor();
      const Facts& facts = g.facts(left.id(body_.outputs[i]));
      const bool known = facts.kind == Facts::Kind::kTensor && facts.shape && facts.dtype == t.dtype() &&
                         facts.rank() == static_cast<int>(t.dims().size());
      const std::string told = fmt::format("{} are {}, and {}", kFacts, to_string(facts, g.dims()), body_.outputs[i]);
      if (!known) return fmt::format("{} is {} of rank {}", told, dtype_name(t.dtype()), t.dims().size());
      for (std::size_t axis = 0; axis < t.dims().size(); ++axis) {
        const Dim d = (*facts.shape)[axis];
        if (const auto size = symbolic ? g.dims().evaluate(d, sizes) : g.dims().value(d); size != t.dims()[axis])
          return fmt::format("{} has {} along axis {}", told, t.dims()[axis], axis);
      }
    }
    return {};
  }

  const Rule& body_;
  const RuleOperators& defined_;
  const Evaluator& evaluator_;
  CheckOptions options_;
  std::mt19937_64 random_;
  RuleCheck out_;
};

}  // namespace

RuleCheck check_operator_by_running(const Rule& body, const RuleOperators& defined, const Evaluator& evaluator,
                                    const CheckOptions& options) {
  return OperatorCheck(body, defined, evaluator, options).run();
}
absl::StatusOr<std::vector<Value>> RuleRunner::body(Values given, Environment environment) const {
  InstanceFacts facts;
  std::map<std::string, DType> dtypes;
  for (const std::string& name : rule_.inputs) {
    const auto it = given.find(name);
    if (it != given.end() && !it->second.is_tensor()) return absl::UnimplementedError(name + " is no tensor");
    environment.set(name, Val(ClassRef{it == given.end() ? facts.add_absent() : facts.add(it->second.tensor(), true)}));
  }
  EvalContext context(facts, environment, true);
  for (const ExprPtr& condition : rule_.where)
    if (!context.holds(*condition)) return absl::FailedPreconditionError(context.reason());
  for (const auto& [name, expr] : rule_.lets) {
    const Result r = context.evaluate(*expr);
    if (!r) return absl::FailedPreconditionError(fmt::format("`{}` has no value: {}", name, context.reason()));
    if (const Tensor* t = r->tensor()) given[name] = Value(*t);
    environment.set(name, *r);
  }
  auto made = run_side(rule_.right, std::move(given), environment, {});
  if (!made.ok()) return made.status();
  std::vector<Value> out;
  for (const std::string& name : rule_.outputs) out.push_back(std::move((*made)[name]));
  return out;
}

absl::StatusOr<std::vector<Value>> run_operator_of_rule(const Evaluator& evaluator, const RuleOperators* defined, const Node& node,
                                                        const std::vector<Value>& inputs) {
  const StoredRules* bodies = defined ? defined->bodies(node.domain, node.op_type) : nullptr;
  if (!bodies) return evaluator.evaluate(node, node.domain.empty() ? kNewestOpset : 1, inputs);
  absl::Status refused = absl::InvalidArgumentError(fmt::format("no body of {}.{} takes such inputs", node.domain, node.op_type));
  for (const auto& stored : *bodies) {
    const Rule& body = stored->rule();
    if (body.declares) return absl::UnimplementedError(fmt::format("{} is declared without a body", body.name));
    const auto is_given = [&](std::size_t i) { return i < inputs.size() && inputs[i].present(); };
    Environment environment;
    if (!RuleOperators::takes(body, inputs.size(), is_given) || !RuleOperators::bind_attributes(body, node, environment)) continue;
    RuleRunner::Values given;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (is_given(i)) given[body.left.front().inputs[i]] = inputs[i];
    auto made = RuleRunner(body, evaluator, defined).body(std::move(given), std::move(environment));
    if (!absl::IsFailedPrecondition(made.status())) return made;
    refused = absl::InvalidArgumentError(made.status().message());
  }
  return refused;
}

}  // namespace saturate
