// Element-by-element neighbours become one node: every such node starts as a group, and a group takes in the group that makes one of
// its inputs where nothing else reads that value.
#include <algorithm>
#include <optional>

#include "kernels/elementwise/fused_elementwise.h"
#include "kernels/session/graph.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

constexpr std::size_t kMostInstructions = 24, kMostInputs = 12;

// Names of values that are surely floats: the operators that fuse take other types too, which pieces of floats can't hold.
class FloatValues {
 public:
  // Sessions check the types of inputs; those written beside other values are believed where a mistake costs time only.
  explicit FloatValues(const SessionGraph& g, bool believing = true) : g_(g) {
    for (const ValueInfo& input : g.graph.inputs) declare(input);
    for (const auto* values : {&g.graph.value_info, &g.graph.outputs})
      for (const ValueInfo& value : *values)
        if (believing) declare(value);
    for (const Node& node : g.graph.nodes) visit(node);
  }
  bool contains(const std::string& name) const {
    const Tensor* t = g_.constant(name);
    return t != nullptr ? t->dtype() == DType::kFloat : names_.contains(name);
  }

 private:
  void declare(const ValueInfo& v) {
    if (v.type.kind == ValueType::Kind::kTensor && v.type.dtype == DType::kFloat) names_.insert(v.name);
  }
  void visit(const Node& node) {
    if (node.inputs.empty() || node.outputs.empty()) return;
    const bool session = node.domain == kSessionDomain;
    const bool product = node.domain == kMicrosoft && node.op_type == "FusedMatMul";
    if (!session && !product && !node.domain.empty() && node.domain != "ai.onnx") return;
    if (node.op_type == "Cast") {
      const Attribute* to = find_attribute(node.attributes, "to");
      if (to != nullptr && to->type == AttributeType::kInt && to->i() == static_cast<std::int64_t>(DType::kFloat))
        names_.insert(node.outputs[0]);
      return;
    }
    const auto versions = session ? std::span<const OpSchema* const>() : schema_versions(node.domain, node.op_type);
    const OpSchema* schema = versions.empty() ? nullptr : versions.back();
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (session ? contains(node.inputs[0]) : schema != nullptr && follows_floats(node, *schema, i)) names_.insert(node.outputs[i]);
  }

  // Whether an output has the dtype of an input that is floats.
  bool follows_floats(const Node& node, const OpSchema& schema, std::size_t output) const {
    const auto type_of = [](const std::vector<OpSchema::Formal>& formals, std::size_t i) {
      return formals.empty() ? std::string_view() : formals[std::min(i, formals.size() - 1)].type;
    };
    const std::string_view type = type_of(schema.outputs, output);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty() && type_of(schema.inputs, i) == type) return contains(node.inputs[i]);
    return false;
  }

  const SessionGraph& g_;
  std::set<std::string> names_;
};

struct Operation {
  ElementOp op;
  std::string a, b, result;  // names; b empty for one operand
};
struct Group {
  std::vector<Operation> operations;  // the last one makes the group's result
  std::size_t position = 0;           // of its last node
  std::string name;
};

class ElementFuser {
 public:
  explicit ElementFuser(SessionGraph& g) : g_(g), floats_(g) {}

  void run() {
    for (std::size_t i = 0; i < g_.graph.nodes.size(); ++i) {
      std::optional<Group> group = group_of(g_.graph.nodes[i]);
      if (!group) continue;
      group->position = i;
      while (absorb_one(*group)) {
      }
      const std::string result = group->operations.back().result;
      groups_.emplace(result, *std::move(group));
    }
    write_back();
  }

 private:
  std::optional<Group> group_of(const Node& node) const {
    if ((!node.domain.empty() && node.domain != "ai.onnx") || node.outputs.size() != 1 || g_.opset < 7) return std::nullopt;
    const auto is_float = [&](const std::string& n) { return (n.empty() && node.op_type == "Clip") || floats_.contains(n); };
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), is_float)) return std::nullopt;
    const std::string& y = node.outputs[0];
    Group group{{}, 0, node.name};
    if (node.op_type == "Pow" && node.inputs.size() == 2) {
      const Tensor* e = g_.constant(node.inputs[1]);
      if (e == nullptr || e->size() != 1 || e->rank() > 0) return std::nullopt;
      if (*e->data<float>() == 2.0f) group.operations = {{ElementOp::kMul, node.inputs[0], node.inputs[0], y}};
      if (*e->data<float>() == 3.0f)
        group.operations = {{ElementOp::kMul, node.inputs[0], node.inputs[0], y + "#square"},
                            {ElementOp::kMul, y + "#square", node.inputs[0], y}};
      return group.operations.empty() ? std::nullopt : std::optional(group);
    }
    if (node.op_type == "Clip") return clip_group(node, std::move(group));
    if (node.op_type == "Sum" && node.inputs.size() > 1 && g_.opset >= 8) {
      for (std::size_t i = 1; i < node.inputs.size(); ++i) {
        const std::string result = i + 1 == node.inputs.size() ? y : y + "#sum" + std::to_string(i);
        group.operations.push_back({ElementOp::kAdd, i == 1 ? node.inputs[0] : group.operations.back().result, node.inputs[i], result});
      }
      return group;
    }
    std::optional<ElementOp> op = element_op_named(node.op_type);
    if (!op || node.inputs.size() != (has_two_operands(*op) ? 2u : 1u)) return std::nullopt;
    if (*op == ElementOp::kGelu) {
      const Attribute* form = find_attribute(node.attributes, "approximate");
      if (form != nullptr && form->type == AttributeType::kString && form->s() == "tanh") op = ElementOp::kGeluTanh;
    } else if (!node.attributes.empty()) {
      return std::nullopt;
    }
    group.operations = {{*op, node.inputs[0], has_two_operands(*op) ? node.inputs[1] : "", y}};
    return group;
  }

  // From opset 11 the bounds are inputs.
  std::optional<Group> clip_group(const Node& node, Group group) const {
    std::string value = node.inputs[0];
    for (std::size_t i = 1; i < node.inputs.size() && i < 3; ++i) {
      if (node.inputs[i].empty()) continue;
      if (const Tensor* bound = g_.constant(node.inputs[i]); bound == nullptr || bound->rank() > 0) return std::nullopt;
      const std::string result = i + 1 == node.inputs.size() ? node.outputs[0] : node.outputs[0] + "#bounded";
      group.operations.push_back({i == 1 ? ElementOp::kAtLeast : ElementOp::kAtMost, value, node.inputs[i], result});
      value = result;
    }
    return group.operations.empty() || value != node.outputs[0] || !node.attributes.empty() ? std::nullopt
                                                                                            : std::optional(std::move(group));
  }

  static std::vector<std::string> inputs_of(const Group& group) {
    std::vector<std::string> out;
    std::set<std::string> seen;
    for (const Operation& o : group.operations) seen.insert(o.result);
    for (const Operation& o : group.operations)
      for (const std::string& name : {o.a, o.b})
        if (!name.empty() && seen.insert(name).second) out.push_back(name);
    return out;
  }

  bool absorb_one(Group& group) {
    if (group.operations.size() > kMostInstructions) return false;  // a Sum of thousands
    for (const std::string& name : inputs_of(group)) {
      const auto it = groups_.find(name);
      if (it == groups_.end() || node_reads(group, name) != g_.uses(name)) continue;
      Group merged{it->second.operations, group.position, group.name};
      merged.operations.insert(merged.operations.end(), group.operations.begin(), group.operations.end());
      if (merged.operations.size() > kMostInstructions || inputs_of(merged).size() > kMostInputs) continue;
      gone_.insert(it->second.position);
      groups_.erase(it);
      group = std::move(merged);
      return true;
    }
    return false;
  }

  // Reads as the graph's nodes count them: Pow reads its base once, however often its multiplications do.
  int node_reads(const Group& group, const std::string& name) const {
    int n = 0;
    for (const Operation& o : group.operations) {
      const Node* node = g_.producer(o.result);
      if (node == nullptr) continue;  // an inner step of Pow, Clip or Sum
      n += static_cast<int>(std::count(node->inputs.begin(), node->inputs.end(), name));
    }
    return n;
  }

  void write_back() {
    std::unordered_map<std::size_t, const Group*> at;
    for (const auto& [name, group] : groups_)
      if (group.operations.size() > 1) at[group.position] = &group;
    std::vector<Node> out;
    for (std::size_t i = 0; i < g_.graph.nodes.size(); ++i) {
      if (gone_.contains(i)) continue;
      const auto it = at.find(i);
      out.push_back(it == at.end() ? std::move(g_.graph.nodes[i]) : node_of(*it->second));
    }
    g_.graph.nodes = std::move(out);
    g_.count_uses();
  }

  static Node node_of(const Group& group) {
    const std::vector<std::string> inputs = inputs_of(group);
    std::unordered_map<std::string, std::int64_t> numbers;
    std::int64_t next = 0;
    for (const std::string& name : inputs) numbers.emplace(name, next++);
    std::vector<std::int64_t> program;
    for (const Operation& o : group.operations) {
      program.insert(program.end(), {static_cast<std::int64_t>(o.op), numbers[o.a], o.b.empty() ? 0 : numbers[o.b]});
      numbers.emplace(o.result, next++);
    }
    return {group.name,
            "Elementwise",
            std::string(kSessionDomain),
            "",
            inputs,
            {group.operations.back().result},
            {Attribute::of("program", std::move(program))},
            nullptr};
  }

  SessionGraph& g_;
  FloatValues floats_;
  std::unordered_map<std::string, Group> groups_;  // by result
  std::set<std::size_t> gone_;                     // positions of nodes that other groups took in
};

}  // namespace

// Casts of floats to float, as exporters leave around a softmax.
void drop_casts(SessionGraph& g) {
  const FloatValues floats(g, false);
  std::unordered_map<std::string, std::string> same;
  std::vector<Node> kept;
  for (Node& node : g.graph.nodes) {
    for (std::string& input : node.inputs)
      if (const auto it = same.find(input); it != same.end()) input = it->second;
    const Attribute* to = is_standard(node, "Cast") ? find_attribute(node.attributes, "to") : nullptr;
    const bool to_float = to != nullptr && to->type == AttributeType::kInt && to->i() == static_cast<std::int64_t>(DType::kFloat);
    if (to_float && floats.contains(node.inputs[0]) && !g.is_protected(node.outputs[0]))
      same[node.outputs[0]] = node.inputs[0];
    else
      kept.push_back(std::move(node));
  }
  g.graph.nodes = std::move(kept);
  g.count_uses();
}

void fuse_elementwise(SessionGraph& g) { ElementFuser(g).run(); }

}  // namespace saturate
