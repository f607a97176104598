#include "kernels/session/graph.h"

#include <algorithm>
#include <array>

#include "fmt/format.h"
#include "kernels/core/registry.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

constexpr std::size_t kFoldedBytes = std::size_t{1} << 24;  // larger results are made at every run rather than kept beside their inputs

bool has_graphs(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [](const Attribute& a) {
    return std::holds_alternative<std::shared_ptr<const Graph>>(a.value) ||
           std::holds_alternative<std::vector<std::shared_ptr<const Graph>>>(a.value);
  });
}

}  // namespace

bool is_standard(const Node& node, std::string_view op_type) {
  return node.op_type == op_type && (node.domain.empty() || node.domain == "ai.onnx");
}

SessionGraph::SessionGraph(const Graph& g, const std::map<std::string, std::int64_t>& opset_imports) : graph(g) {
  for (const char* domain : {"", "ai.onnx"})
    if (const auto it = opset_imports.find(domain); it != opset_imports.end() && opset == 0) opset = it->second;
  std::set<std::string> inputs;
  for (const ValueInfo& input : graph.inputs) inputs.insert(input.name);
  names_ = inputs;
  for (const Initializer& init : graph.initializers) {
    names_.insert(init.name);
    if (!init.sparse && !inputs.contains(init.name)) constants_.emplace(init.name, init.tensor);
  }
  for (const Node& node : graph.nodes) names_.insert(node.outputs.begin(), node.outputs.end());
  count_uses();
}

const Tensor* SessionGraph::constant(const std::string& name) const {
  const auto it = constants_.find(name);
  return it == constants_.end() ? nullptr : &it->second;
}

void SessionGraph::add_constant(const std::string& name, Tensor tensor) {
  names_.insert(name);
  graph.initializers.push_back({name, tensor, nullptr, false});
  constants_.emplace(name, std::move(tensor));
}

int SessionGraph::uses(const std::string& name) const {
  const auto it = uses_.find(name);
  return it == uses_.end() ? 0 : it->second;
}

void SessionGraph::count_uses() {
  uses_.clear();
  producers_.clear();
  for (const ValueInfo& output : graph.outputs) uses_[output.name] += kMany;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const std::string& name : node.inputs) ++uses_[name];
    for_each_body(node, [&](const Graph& body) {
      for (const std::string& name : captured_names(body)) uses_[name] += kMany;
    });
    for (const std::string& name : node.outputs) producers_[name] = i;
  }
}

std::string SessionGraph::fresh(const std::string& base) {
  for (int i = 0;; ++i)
    if (std::string name = fmt::format("{}#{}", base, i); names_.insert(name).second) return name;
}

const Node* SessionGraph::producer(const std::string& name) const {
  const auto it = producers_.find(name);
  return it == producers_.end() ? nullptr : &graph.nodes[it->second];
}

namespace {

// Whether the node was done away with: its outputs are constants now.
bool fold_node(SessionGraph& g, const Node& node, const Evaluator& evaluator) {
  if ((!node.domain.empty() && node.domain != "ai.onnx") || has(Trait::kRandom, node) || has_graphs(node)) return false;
  if (node.inputs.empty() && node.op_type != "Constant") return false;
  if (node.outputs.size() != 1) return false;
  std::vector<Value> inputs;
  std::size_t bytes = 0;
  for (const std::string& name : node.inputs) {
    const Tensor* t = name.empty() ? nullptr : g.constant(name);
    if (t == nullptr && !name.empty()) return false;
    inputs.push_back(t == nullptr ? Value() : Value(*t));
    if (t != nullptr) bytes += t->bytes().size();
  }
  if (node.op_type == "Identity" && inputs.size() == 1 && inputs[0].is_tensor()) {
    g.add_constant(node.outputs[0], inputs[0].tensor());
    return true;
  }
  if (bytes > kFoldedBytes) return false;
  absl::StatusOr<std::vector<Value>> out = evaluator.evaluate(node, g.opset, inputs);
  if (!out.ok() || out->size() != 1 || !(*out)[0].is_tensor() || (*out)[0].tensor().bytes().size() > std::max(kFoldedBytes / 16, bytes))
    return false;
  g.add_constant(node.outputs[0], (*out)[0].tensor());
  return true;
}

void rename_inputs(Node& node, const std::unordered_map<std::string, std::string>& names) {
  for (std::string& input : node.inputs)
    if (const auto it = names.find(input); it != names.end()) input = it->second;
}

}  // namespace

void fold_constants(SessionGraph& g, const Evaluator& evaluator) {
  std::vector<Node> nodes = std::move(g.graph.nodes), kept;
  std::unordered_map<std::string, std::string> same;  // results of Identity
  kept.reserve(nodes.size());
  for (Node& node : nodes) {
    rename_inputs(node, same);
    if (fold_node(g, node, evaluator)) continue;
    if (is_standard(node, "Identity") && node.inputs.size() == 1 && node.outputs.size() == 1 && !g.is_protected(node.outputs[0])) {
      same[node.outputs[0]] = node.inputs[0];
      continue;
    }
    kept.push_back(std::move(node));
  }
  g.graph.nodes = std::move(kept);
  g.count_uses();
}

// x * Sigmoid(x) is Swish(x).
void fuse_small_patterns(SessionGraph& g) {
  std::set<std::string> gone;
  for (Node& node : g.graph.nodes) {
    if (!is_standard(node, "Mul") || node.inputs.size() != 2) continue;
    for (int side = 0; side < 2; ++side) {
      const Node* sigmoid = g.producer(node.inputs[side]);
      if (sigmoid == nullptr || !is_standard(*sigmoid, "Sigmoid") || sigmoid->inputs[0] != node.inputs[1 - side] ||
          g.uses(node.inputs[side]) != 1)
        continue;
      gone.insert(sigmoid->outputs[0]);
      node = {node.name, "Swish", "", "", {node.inputs[1 - side]}, node.outputs, {}, nullptr};
      break;
    }
  }
  std::erase_if(g.graph.nodes, [&](const Node& n) { return is_standard(n, "Sigmoid") && gone.contains(n.outputs[0]); });
  g.count_uses();
}

// A product by a transposed constant packs it as it lies: folded, the transposed weights would stand in memory beside the packed ones.
void fuse_transposed_weights(SessionGraph& g) {
  g.count_uses();
  for (Node& node : g.graph.nodes) {
    if (!is_standard(node, "MatMul") || node.inputs.size() != 2) continue;
    const Node* transpose = g.producer(node.inputs[1]);
    if (transpose == nullptr || !is_standard(*transpose, "Transpose")) continue;
    const Tensor* weight = g.constant(transpose->inputs[0]);
    if (weight == nullptr || weight->rank() != 2 || weight->dtype() != DType::kFloat) continue;
    const Attribute* perm = find_attribute(transpose->attributes, "perm");
    if (perm != nullptr && perm->ints() != Shape{1, 0}) continue;
    node.domain = kMicrosoft;
    node.op_type = "FusedMatMul";
    node.attributes = {Attribute::of("transB", std::int64_t{1})};
    node.inputs[1] = transpose->inputs[0];
  }
  g.count_uses();
  std::erase_if(g.graph.nodes,
                [&](const Node& n) { return is_standard(n, "Transpose") && n.outputs.size() == 1 && g.uses(n.outputs[0]) == 0; });
  g.count_uses();
}

namespace {

// Whether a node has the inputs and outputs that its schema demands: the passes rely on them.
bool is_complete(const Node& node, const std::map<std::string, std::int64_t>& opset_imports) {
  const std::string domain = node.domain == "ai.onnx" ? "" : node.domain;
  const auto version = opset_imports.find(domain);
  const OpSchema* schema = find_schema(domain, node.op_type, version == opset_imports.end() ? kNewestOpset : version->second);
  const int inputs = schema == nullptr ? 0 : schema->min_inputs, outputs = schema == nullptr ? 1 : std::max(1, schema->min_outputs);
  return static_cast<int>(node.inputs.size()) >= inputs && static_cast<int>(node.outputs.size()) >= outputs;
}

}  // namespace

Graph prepare_graph(const Graph& graph, const std::map<std::string, std::int64_t>& opset_imports, const std::vector<Function>& functions,
                    const Evaluator& evaluator) {
  if (std::any_of(functions.begin(), functions.end(), [](const Function& f) { return f.domain.empty() || f.domain == "ai.onnx"; }))
    return graph;
  if (!std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return is_complete(n, opset_imports); })) return graph;
  SessionGraph g(graph, opset_imports);
  expand_fused(g);
  fuse_transposed_weights(g);
  fold_constants(g, evaluator);
  fuse_small_patterns(g);
  lay_out_channels_last(g);
  drop_casts(g);
  fuse_attention(g);
  fuse_elementwise(g);
  return std::move(g.graph);
}

}  // namespace saturate
