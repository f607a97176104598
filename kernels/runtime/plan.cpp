#include "kernels/runtime/plan.h"

#include <algorithm>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "onnx_bridge/file/sparse.h"
#include "onnx_bridge/operators/attribute_values.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kKeptCopies = std::size_t{128} << 20;  // bytes of a graph

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

std::string describe(const Node& node) {
  const std::string op = qualified_name(node.domain, node.op_type);
  return fmt::format("{} '{}'", op, node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name);
}

const Function* find_function(const PlanContext& context, const Node& node) {
  return context.functions == nullptr ? nullptr : context.functions->called(node);
}

bool only_tensors(const OpSchema& schema, std::string_view type) {
  if (type.starts_with("tensor(")) return true;
  for (const OpSchema::TypeConstraint& c : schema.constraints) {
    if (c.name == type) return std::all_of(c.types.begin(), c.types.end(), [](std::string_view t) { return t.starts_with("tensor("); });
  }
  return false;
}

// What every kernel may rely on: inputs that the schema requires are there, and are tensors where it has nothing else.
absl::Status check_against_schema(const Node& node, const std::string& domain, Step& step) {
  const OpSchema* schema = find_schema(domain, node.op_type, step.opset);
  if (schema == nullptr) return absl::OkStatus();
  if (const Attribute* strange = unknown_value(node, *schema, ValueUse::kRead))
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is '{}', which opset {} does not know", describe(node), strange->name, strange->s(), step.opset));
  for (std::size_t i = 0; i < 64 && !schema->inputs.empty(); ++i) {
    const bool listed = i < schema->inputs.size();
    const OpSchema::Formal& formal = listed ? schema->inputs[i] : schema->inputs.back();
    if (!listed && !formal.variadic) break;
    const std::uint64_t bit = std::uint64_t{1} << i;
    const bool required = listed && !formal.optional && (!formal.variadic || static_cast<int>(i) < schema->min_inputs);
    if (required && (i >= step.inputs.size() || step.inputs[i] < 0))
      return absl::InvalidArgumentError(fmt::format("{}: input {} is missing", describe(node), i));
    if (i >= step.inputs.size()) break;
    if (required) step.required_inputs |= bit;
    if (only_tensors(*schema, formal.type)) step.tensor_inputs |= bit;
  }
  return absl::OkStatus();
}

using Bindings = std::map<std::string, const Attribute*>;

void substitute(std::vector<Node>& nodes, const Bindings& bindings);

std::shared_ptr<const Graph> substitute(const Graph& graph, const Bindings& bindings) {
  auto copy = std::make_shared<Graph>(graph);
  substitute(copy->nodes, bindings);
  return copy;
}

// ONNX spec, "Functions": an attribute reference takes the call's attribute, else the function's default, else it is left out.
void substitute(std::vector<Node>& nodes, const Bindings& bindings) {
  for (Node& node : nodes) {
    std::vector<Attribute> kept;
    for (Attribute& a : node.attributes) {
      if (!a.ref.empty()) {
        const auto it = bindings.find(a.ref);
        if (it == bindings.end()) continue;
        Attribute bound = *it->second;
        bound.name = a.name;
        kept.push_back(std::move(bound));
        continue;
      }
      if (auto* graph = std::get_if<std::shared_ptr<const Graph>>(&a.value)) {
        *graph = substitute(**graph, bindings);
      } else if (auto* graphs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value)) {
        for (auto& g : *graphs) g = substitute(*g, bindings);
      }
      kept.push_back(std::move(a));
    }
    node.attributes = std::move(kept);
  }
}

std::shared_ptr<const Graph> instantiate(const Function& function, const Node& call) {
  auto graph = std::make_shared<Graph>();
  graph->name = function.name;
  for (const std::string& name : function.inputs) graph->inputs.push_back({name, {}, nullptr});
  for (const std::string& name : function.outputs) graph->outputs.push_back({name, {}, nullptr});
  graph->nodes = function.nodes;
  Bindings bindings;
  for (const Attribute& a : function.attribute_defaults) bindings[a.name] = &a;
  for (const Attribute& a : call.attributes) bindings[a.name] = &a;
  substitute(graph->nodes, bindings);
  return graph;
}

// Nodes in an order in which every value is made before it is used; the given order where it already is one.
absl::StatusOr<std::vector<const Node*>> ordered(const Graph& graph) {
  absl::flat_hash_map<std::string, std::size_t> producer;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string& name : graph.nodes[i].outputs) {
      if (!name.empty()) producer[name] = i;
    }
  }
  std::vector<std::vector<std::size_t>> users(graph.nodes.size());
  std::vector<int> missing(graph.nodes.size(), 0);
  bool in_order = true;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    std::vector<std::string> used = graph.nodes[i].inputs;
    for (const Attribute& a : graph.nodes[i].attributes) {
      if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value)) {
        for (std::string& name : captured_names(**g)) used.push_back(std::move(name));
      }
    }
    for (const std::string& name : used) {
      const auto it = producer.find(name);
      if (name.empty() || it == producer.end()) continue;
      users[it->second].push_back(i);
      ++missing[i];
      in_order = in_order && it->second < i;
    }
  }
  std::vector<const Node*> order;
  if (in_order) {
    for (const Node& node : graph.nodes) order.push_back(&node);
    return order;
  }
  std::deque<std::size_t> ready;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    const std::size_t i = ready.front();
    ready.pop_front();
    order.push_back(&graph.nodes[i]);
    for (std::size_t user : users[i]) {
      if (--missing[user] == 0) ready.push_back(user);
    }
  }
  if (order.size() != graph.nodes.size()) return absl::InvalidArgumentError(fmt::format("graph '{}' has a cycle", graph.name));
  return order;
}

class Planner {
 public:
  Planner(std::shared_ptr<const Graph> graph, const PlanContext& context, const std::function<int(const std::string&)>& outer)
      : context_(context), outer_(outer), plan_(std::make_shared<Plan>()) {
    plan_->graph = std::move(graph);
  }

  absl::StatusOr<std::shared_ptr<Plan>> make() {
    if (context_.depth > kMaxDepth) return absl::InvalidArgumentError("subgraphs or functions are nested too deeply");
    const Graph& graph = *plan_->graph;
    for (const ValueInfo& input : graph.inputs) plan_->inputs.emplace_back(input.name, define(input.name));
    for (const Initializer& init : graph.initializers) {
      absl::StatusOr<Tensor> value = init.sparse ? dense_tensor(init) : init.tensor;
      if (!value.ok()) return value.status();
      const bool overridable = slots_.contains(init.name);
      const int slot = overridable ? slots_[init.name] : define(init.name);
      plan_->constants.emplace_back(slot, Value(*std::move(value)));
      if (!overridable) constant_.insert(slot);
    }
    absl::StatusOr<std::vector<const Node*>> order = ordered(graph);
    if (!order.ok()) return order.status();
    for (const Node* node : *order) {
      if (absl::Status s = add_step(*node); !s.ok()) return s;
    }
    for (const ValueInfo& output : graph.outputs) {
      const int slot = find(output.name);
      if (slot < 0) return absl::InvalidArgumentError(fmt::format("output '{}' of graph '{}' is made by no node", output.name, graph.name));
      plan_->outputs.emplace_back(output.name, slot);
    }
    find_last_uses();
    align_constants();
    return plan_;
  }

 private:
  int define(const std::string& name) {
    slots_[name] = plan_->slots;
    return plan_->slots++;
  }

  // The slot of a name, captured from outside where the graph does not define it; -1: unknown.
  int find(const std::string& name) {
    const auto it = slots_.find(name);
    if (it != slots_.end()) return it->second;
    const int outside = outer_ ? outer_(name) : -1;
    if (outside < 0) return -1;
    const int slot = define(name);
    plan_->captures.emplace_back(outside, slot);
    return slot;
  }

  std::int64_t opset_of(const Node& node) const {
    const std::string domain = plain_domain(node.domain);
    auto it = context_.opset_imports.find(domain);
    if (it == context_.opset_imports.end() && domain.empty()) it = context_.opset_imports.find("ai.onnx");
    return it == context_.opset_imports.end() ? 1 : it->second;
  }

  absl::Status add_step(const Node& node) {
    if ((*context_.steps_left)-- == 0) return absl::ResourceExhaustedError("the model's functions expand to too many nodes");
    Step step;
    step.node = &node;
    step.opset = opset_of(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int slot = node.inputs[i].empty() ? -1 : find(node.inputs[i]);
      if (slot < 0 && !node.inputs[i].empty()) {
        return absl::InvalidArgumentError(fmt::format("{}: input '{}' is made by no node", describe(node), node.inputs[i]));
      }
      if (slot >= 0 && i < 64 && constant_.contains(slot)) step.constant_inputs |= std::uint64_t{1} << i;
      step.inputs.push_back(slot);
    }
    PlanContext inner = context_;
    inner.depth = context_.depth + 1;
    inner.session_nodes = false;
    if (const Function* function = find_function(context_, node)) {
      inner.opset_imports = function->opset_imports;
      absl::StatusOr<std::shared_ptr<Plan>> body = make_plan(instantiate(*function, node), inner, nullptr);
      if (!body.ok())
        return absl::Status(body.status().code(), fmt::format("in function {}: {}", describe(node), std::string(body.status().message())));
      step.function = *std::move(body);
    } else {
      step.kernel = Registry::standard().find(plain_domain(node.domain), node.op_type);
      if (step.kernel == nullptr || (node.domain == kSessionDomain && !context_.session_nodes))
        return absl::UnimplementedError(fmt::format("no kernel for {} (opset {})", describe(node), step.opset));
      if (absl::Status s = check_against_schema(node, plain_domain(node.domain), step); !s.ok()) return s;
      if (context_.keep_prepared) step.state = state_of(node, step);
      if (absl::Status s = plan_graphs(node, inner, step); !s.ok()) return s;
    }
    for (const std::string& name : node.outputs) step.outputs.push_back(name.empty() ? -1 : define(name));
    plan_->steps.push_back(std::move(step));
    return absl::OkStatus();
  }

  // Layers that share their weights share what is prepared of them: it depends on operator, attributes and constants alone.
  std::shared_ptr<NodeState> state_of(const Node& node, const Step& step) {
    auto state = std::make_shared<NodeState>();
    if (step.constant_inputs == 0) return state;
    std::string key = fmt::format("{}|{}|{}|{}", node.domain, node.op_type, step.opset, step.constant_inputs);
    for (std::size_t i = 0; i < std::min<std::size_t>(step.inputs.size(), 64); ++i)
      if ((step.constant_inputs >> i & 1u) != 0) key += fmt::format("|{}", step.inputs[i]);
    for (const Attribute& a : node.attributes) {
      key += fmt::format("|{}:{}=", a.name, static_cast<int>(a.type));
      if (const auto* i = std::get_if<std::int64_t>(&a.value))
        key += fmt::format("{}", *i);
      else if (const auto* f = std::get_if<float>(&a.value))
        key += fmt::format("{}", *f);
      else if (const auto* s = std::get_if<std::string>(&a.value))
        key += fmt::format("{}:{}", s->size(), *s);
      else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&a.value))
        key += fmt::format("{}", fmt::join(*ints, ","));
      else if (const auto* floats = std::get_if<std::vector<float>>(&a.value))
        key += fmt::format("{}", fmt::join(*floats, ","));
      else
        return state;
    }
    return states_.try_emplace(std::move(key), std::move(state)).first->second;
  }

  absl::Status plan_graphs(const Node& node, const PlanContext& inner, Step& step) {
    for (const Attribute& a : node.attributes) {
      std::vector<std::shared_ptr<const Graph>> graphs;
      if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value)) graphs.push_back(*g);
      if (const auto* gs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value)) graphs = *gs;
      for (const std::shared_ptr<const Graph>& g : graphs) {
        if (g == nullptr) return absl::InvalidArgumentError(fmt::format("{}: attribute '{}' has no graph", describe(node), a.name));
        absl::StatusOr<std::shared_ptr<Plan>> plan = make_plan(g, inner, [this](const std::string& name) { return find(name); });
        if (!plan.ok())
          return absl::Status(plan.status().code(),
                              fmt::format("in {} of {}: {}", a.name, describe(node), std::string(plan.status().message())));
        step.graphs.emplace_back(g.get(), *std::move(plan));
      }
    }
    return absl::OkStatus();
  }

  // Weights mapped from a file begin anywhere. Kernels that can't read them so get copies: kept, where what is prepared is kept, and of
  // others the smallest, as far as kKeptCopies goes; else made at every run, one at a time.
  void align_constants() {
    absl::flat_hash_map<int, Value*> found;
    absl::flat_hash_set<int> fixed;  // to be copied once
    for (auto& [slot, value] : plan_->constants) {
      if (!value.is_tensor() || is_aligned(value.tensor())) continue;
      found[slot] = &value;
      if (context_.keep_prepared || !constant_.contains(slot)) fixed.insert(slot);
    }
    if (found.empty()) return;
    std::vector<std::pair<std::size_t, int>> others;  // bytes, slot
    for (const auto& [slot, value] : found)
      if (!fixed.contains(slot)) others.emplace_back(value->tensor().bytes().size(), slot);
    std::sort(others.begin(), others.end());
    std::size_t kept = 0;
    for (const auto& [bytes, slot] : others)
      if ((kept += bytes) <= kKeptCopies) fixed.insert(slot);
    absl::flat_hash_set<int> wanted;
    for (const auto& [name, slot] : plan_->outputs) fixed.insert(slot), wanted.insert(slot);
    for (Step& step : plan_->steps) {
      for (const auto& [graph, plan] : step.graphs)
        for (const auto& [outside, own] : plan->captures) fixed.insert(outside), wanted.insert(outside);
      const std::uint64_t any =
          step.kernel == nullptr ? 0 : Registry::standard().any_alignment(plain_domain(step.node->domain), step.node->op_type);
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        if (!found.contains(step.inputs[i]) || (i < 64 && (any >> i & 1u) != 0 && constant_.contains(step.inputs[i]))) continue;
        wanted.insert(step.inputs[i]);
        step.realigned.push_back(static_cast<int>(i));
      }
    }
    for (const auto& [slot, value] : found)
      if (fixed.contains(slot) && wanted.contains(slot)) *value = aligned(value->tensor());
    for (Step& step : plan_->steps)
      std::erase_if(step.realigned, [&](int i) { return is_aligned(found.at(step.inputs[static_cast<std::size_t>(i)])->tensor()); });
  }

  void find_last_uses() {
    std::vector<char> seen(static_cast<std::size_t>(plan_->slots), 0);
    for (const auto& [name, slot] : plan_->outputs) seen[slot] = 1;
    const std::vector<char> is_output = seen;
    for (auto step = plan_->steps.rbegin(); step != plan_->steps.rend(); ++step) {
      const auto use = [&](int slot) {
        if (slot >= 0 && !seen[slot]) {
          seen[slot] = 1;
          step->release.push_back(slot);
        }
      };
      for (int slot : step->outputs) use(slot);
      for (int slot : step->inputs) use(slot);
      for (const auto& [graph, plan] : step->graphs) {
        for (const auto& [outside, own] : plan->captures) use(outside);
      }
      step->makes_result =
          std::any_of(step->outputs.begin(), step->outputs.end(), [&](int slot) { return slot >= 0 && is_output[slot] != 0; });
      if (!step->graphs.empty() || step->kernel == nullptr) continue;  // what a subgraph captures it takes from where it was
      for (std::size_t i = 0; i < step->inputs.size() && i < 64; ++i) {
        const int slot = step->inputs[i];
        if (std::find(step->release.begin(), step->release.end(), slot) != step->release.end() &&
            std::count(step->inputs.begin(), step->inputs.end(), slot) == 1)
          step->last_uses |= std::uint64_t{1} << i;
      }
    }
  }

  const PlanContext& context_;
  const std::function<int(const std::string&)>& outer_;
  std::shared_ptr<Plan> plan_;
  absl::flat_hash_map<std::string, int> slots_;
  absl::flat_hash_set<int> constant_;
  absl::flat_hash_map<std::string, std::shared_ptr<NodeState>> states_;  // by what they are prepared of
};

}  // namespace

absl::StatusOr<std::shared_ptr<Plan>> make_plan(std::shared_ptr<const Graph> graph, const PlanContext& context,
                                                const std::function<int(const std::string&)>& outer) {
  return Planner(std::move(graph), context, outer).make();
}

}  // namespace saturate
