#include <fmt/format.h>

#include <algorithm>

#include "onnx_bridge/operators/op_table.h"
#include "rules/check/check_run.h"

namespace saturate {
namespace {

// Runs operators as another evaluator does, and keeps them: what the checker runs becomes the nodes of a model. Operators of domain
// "saturate" are kept as what they are made of.
class KeepingEvaluator : public Evaluator {
 public:
  explicit KeepingEvaluator(const Evaluator& runs) : runs_(runs) {}

  absl::StatusOr<std::vector<Value>> evaluate(const Node& node, std::int64_t opset, const std::vector<Value>& inputs) const override {
    auto outputs = runs_.evaluate(node, opset, inputs);
    if (outputs.ok()) calls_.push_back({node, inputs, *outputs});
    return outputs;
  }

  struct Call {
    Node node;
    std::vector<Value> inputs, outputs;  // kept alive, so that no two tensors have one address
  };
  const std::vector<Call>& calls() const { return calls_; }

 private:
  const Evaluator& runs_;
  mutable std::vector<Call> calls_;
};

// A graph of kept calls: tensors of one address, type and shape are one value.
class ModelOfCalls {
 public:
  ModelOfCalls(const Instance& instance, const RuleExample& example) {
    for (const auto& [name, tensor] : instance.tensors) {
      names_.emplace(key(tensor), name);
      given_.emplace(name, tensor);
    }
    for (const ExampleValue& v : example.values)
      if (v.values) written_.insert(v.name);
  }

  // The calls of which these outputs are made; nullopt where one has other values than tensors.
  std::optional<Model> model(std::span<const KeepingEvaluator::Call> calls, std::size_t first, const std::string& name) {
    for (const auto& call : calls)
      if (!add(call)) return std::nullopt;
    keep_needed(first);
    model_.graph.name = name;
    model_.ir_version = 10;
    model_.opset_imports[""] = kNewestOpset;
    for (const Node& node : model_.graph.nodes) {
      if (!node.domain.empty()) model_.opset_imports[node.domain] = 1;
      for (const std::string& input : node.inputs) declare(input);
    }
    return std::move(model_);
  }

 private:
  using Key = std::tuple<const void*, DType, Shape>;
  static Key key(const Tensor& t) { return {t.bytes().data(), t.dtype(), t.dims()}; }

  bool add(const KeepingEvaluator::Call& call) {
    Node node = call.node;
    node.inputs.assign(call.inputs.size(), "");
    node.outputs.assign(call.outputs.size(), "");
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!call.inputs[i].present()) continue;
      if (!call.inputs[i].is_tensor()) return false;
      const Tensor& t = call.inputs[i].tensor();
      const auto [it, fresh] = names_.emplace(key(t), fmt::format("n{}", names_.size()));
      if (fresh) given_.emplace(it->second, t), written_.insert(it->second);
      node.inputs[i] = it->second;
    }
    while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      if (!call.outputs[i].is_tensor()) return false;
      node.outputs[i] = fmt::format("v{}_{}", model_.graph.nodes.size(), i);
      names_[key(call.outputs[i].tensor())] = node.outputs[i];
    }
    model_.graph.nodes.push_back(std::move(node));
    return true;
  }

  // What nodes from number `first` on give and none of them reads are the outputs; nodes that none of these needs go.
  void keep_needed(std::size_t first) {
    std::vector<Node>& nodes = model_.graph.nodes;
    std::set<std::string> read, needed;
    for (const Node& n : nodes) read.insert(n.inputs.begin(), n.inputs.end());
    for (std::size_t i = first; i < nodes.size(); ++i)
      for (const std::string& output : nodes[i].outputs)
        if (!read.contains(output)) {
          needed.insert(output);
          model_.graph.outputs.push_back({output, {}, nullptr});
        }
    std::vector<Node> kept;
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      if (std::none_of(n->outputs.begin(), n->outputs.end(), [&](const std::string& o) { return needed.contains(o); })) continue;
      needed.insert(n->inputs.begin(), n->inputs.end());
      kept.push_back(std::move(*n));
    }
    nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  }

  // Every value that no node makes is an initializer; one whose elements the example leaves open is an input, too.
  void declare(const std::string& name) {
    const auto it = given_.find(name);
    if (it == given_.end()) return;
    ValueType type;
    type.kind = ValueType::Kind::kTensor;
    type.dtype = it->second.dtype();
    type.shape.emplace(it->second.dims().begin(), it->second.dims().end());
    if (!written_.contains(name)) model_.graph.inputs.push_back({name, type, nullptr});
    model_.graph.initializers.push_back({name, it->second, nullptr, false});
    given_.erase(it);
  }

  std::map<Key, std::string> names_;
  std::map<std::string, Tensor> given_;
  std::set<std::string> written_;
  Model model_;
};

void add_models(const Rule& rule, const RuleExample& example, const Instance& instance, const Evaluator& evaluator,
                std::vector<ExampleModel>& out) {
  Rule left = rule;  // its right side makes nothing
  left.right.clear();
  left.where.clear();
  left.lets.clear();
  const KeepingEvaluator of_left(evaluator), of_both(evaluator);
  const Outcome ran = RuleRunner(left, of_left).run(instance);
  if (ran.kind == Outcome::Kind::kLeftFails || ran.kind == Outcome::Kind::kCannotRun || of_left.calls().empty()) return;
  const bool applies = RuleRunner(rule, of_both).run(instance).kind == Outcome::Kind::kEqual;
  if (auto model = ModelOfCalls(instance, example).model(of_left.calls(), 0, rule.name)) out.push_back({*std::move(model), applies});
  const std::size_t first = of_left.calls().size();
  if (!applies || !rule.both_ways || of_both.calls().size() == first) return;
  if (auto model = ModelOfCalls(instance, example).model(of_both.calls(), first, back_of(rule.name)))
    out.push_back({*std::move(model), true});
}

}  // namespace

std::vector<ExampleModel> example_models(const Rule& rule, const Evaluator& evaluator, int random_instances_per_example,
                                         std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<ExampleModel> out;
  for (const RuleExample& example : rule.examples) {
    add_models(rule, example, instance_of(rule, example, random), evaluator, out);
    for (const Instance& instance : random_instances(rule, example, random_instances_per_example, random))
      add_models(rule, example, instance, evaluator, out);
  }
  for (const RuleExample& counterexample : rule.counterexamples)
    add_models(rule, counterexample, instance_of(rule, counterexample, random), evaluator, out);
  return out;
}

}  // namespace saturate
