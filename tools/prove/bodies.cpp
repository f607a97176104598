#include "tools/prove/bodies.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/convert/node_text.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/graph/questions.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/prove/prove.h"

namespace saturate {
namespace {

constexpr std::int64_t kSameSince = 11;  // from this opset on If, Loop and Scan mean the same in all versions

std::map<std::string, const Graph*> bodies_by_attribute(const Node& node) {
  std::map<std::string, const Graph*> out;
  for (const Attribute& a : node.attributes)
    if (a.type == AttributeType::kGraph && a.ref.empty()) out.emplace(a.name, &a.g());
  return out;
}

// Names of values that neither body has, and that start with it.
std::string free_prefix(const Graph& first, const Graph& second) {
  std::unordered_set<std::string> names;
  for (const Graph* graph : {&first, &second}) {
    collect_names(*graph, names);
    for (const std::string& name : captured_names(*graph)) names.insert(name);
  }
  std::string prefix = "of both";
  while (std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(prefix); })) prefix += "'";
  return prefix + ": ";
}

// With inputs and outputs named by their places, without the types that are declared of them.
Model by_places(Model body, const Renaming& captured, const std::string& prefix) {
  Graph graph = *rename_captures(body.graph, captured);
  FreshNames fresh(graph);
  Renaming inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) inputs[graph.inputs[i].name] = fmt::format("{}input {}", prefix, i);
  rename_values(graph, inputs, fresh);
  for (ValueInfo& input : graph.inputs) input.type = {};
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    std::string name = fmt::format("{}output {}", prefix, i);
    graph.nodes.push_back(make_node("Identity", {graph.outputs[i].name}, name));
    graph.outputs[i] = {std::move(name), {}, nullptr};
  }
  body.graph = std::move(graph);
  return body;
}

bool has_defaults(const Graph& body) {
  return std::ranges::any_of(body.inputs, [&](const ValueInfo& input) { return find_named(body.initializers, input.name) != nullptr; });
}

// By place, whether the outputs of both are proven equal.
std::vector<bool> proven_outputs(const ModelProof& proof, std::size_t outputs) {
  std::vector<bool> out(outputs, false);
  for (std::size_t i = 0; i < std::min(outputs, proof.outputs.size()); ++i) out[i] = proof.interface.empty() && proof.outputs[i].proven;
  return out;
}

}  // namespace

std::vector<Id> EqualBodies::read(const Source& source) const {
  std::vector<Id> out;
  for (const Id id : source.inputs) out.push_back(g_.egraph().find(id));
  return out;
}

std::string EqualBodies::signature(const Source& source) const {
  const Node& node = *source.node;
  std::vector<Attribute> others;
  std::ranges::copy_if(node.attributes, std::back_inserter(others), [](const Attribute& a) { return a.type != AttributeType::kGraph; });
  std::vector<Id> inputs = read(source);
  inputs.resize(node.inputs.size());  // without what is captured
  const std::int64_t version = std::min(g_.key(source.op).version, kSameSince);
  return fmt::format("{} {} {} {} {}", node.op_type, version, node.outputs.size(), attributes_text(std::move(others)),
                     fmt::join(inputs, ","));
}

bool EqualBodies::are_united(const Source& a, const Source& b) const {
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    if (a.outputs[i] != kNone && b.outputs[i] != kNone && g_.egraph().find(a.outputs[i]) != g_.egraph().find(b.outputs[i])) return false;
  return true;
}

std::vector<const Source*> EqualBodies::with_bodies(int side) const {
  std::vector<const Source*> out;
  for (const Source& s : sides_[side].sources)
    if (s.op != kNone && has(Trait::kControlFlow, *s.node) && g_.key(s.op).unique == 0) out.push_back(&s);
  return out;
}

bool EqualBodies::unite() {
  const std::vector<const Source*> first = with_bodies(0);
  std::multimap<std::string, const Source*> by_signature;
  bool any = false, stale = true;
  for (const Source* b : with_bodies(1)) {
    if (std::exchange(stale, false)) {  // what was united changes what others read
      by_signature.clear();
      for (const Source* a : first) by_signature.emplace(signature(*a), a);
    }
    const auto [from, to] = by_signature.equal_range(signature(*b));
    stale = std::any_of(from, to, [&](const auto& like) { return try_pair(*like.second, *b); });
    any = any || stale;
  }
  return any;
}

bool EqualBodies::try_pair(const Source& a, const Source& b) {
  if (a.outputs.size() != b.outputs.size() || are_united(a, b)) return false;
  std::vector<Id> both = read(a), others = read(b);
  both.insert(both.end(), others.begin(), others.end());
  if (!tried_.emplace(&a, &b, std::move(both)).second) return false;
  const auto first = bodies_by_attribute(*a.node), second = bodies_by_attribute(*b.node);
  if (first.size() != second.size()) return false;
  std::vector<bool> equal(a.outputs.size(), true);
  bool all = true;
  std::vector<ModelProof> proofs;
  for (const auto& [name, body] : first) {
    const auto other = second.find(name);
    if (other == second.end() || body->outputs.size() != other->second->outputs.size() || has_defaults(*body) ||
        body->inputs.size() != other->second->inputs.size() || has_defaults(*other->second))
      return false;
    absl::StatusOr<ModelProof> proof = prove_(pair_of(a, b, *body, *other->second));
    if (!proof.ok()) return false;
    const std::vector<bool> proven = proven_outputs(*proof, body->outputs.size());
    all = all && std::ranges::all_of(proven, std::identity());
    for (std::size_t i = 0; i < equal.size(); ++i) equal[i] = equal[i] && (i >= proven.size() || proven[i]);
    proofs.push_back(*std::move(proof));
  }
  if (!all && a.node->op_type != "If") return false;  // what a turn hands on may change all that follows
  bool any = false;
  for (std::size_t i = 0; i < equal.size(); ++i)
    if (equal[i] && a.outputs[i] != kNone && b.outputs[i] != kNone) any = g_.egraph().merge(a.outputs[i], b.outputs[i]) || any;
  if (!any) return false;
  g_.egraph().rebuild();
  std::ranges::move(proofs, std::back_inserter(proofs_));
  return true;
}

BodyPair EqualBodies::pair_of(const Source& a, const Source& b, const Graph& first, const Graph& second) const {
  const Graph* graphs[] = {&first, &second};
  const std::string prefix = free_prefix(first, second);
  BodyPair out{g_, sides_, {&a, &b}, {}, {}, {}};
  for (const int side : {0, 1}) {
    Renaming captured;
    for (const std::string& name : captured_names(*graphs[side])) {
      const auto it = sides_[side].values.find(name);
      if (it == sides_[side].values.end()) continue;
      const Id id = g_.egraph().find(it->second);
      const std::string& to = captured[name] = fmt::format("{}class {}", prefix, id);
      out.captured.emplace(to, id);
    }
    out.bodies[side] = model_of_body(*sides_[side].model, *graphs[side]);
    out.models[side] = by_places(out.bodies[side], captured, prefix);
  }
  return out;
}

}  // namespace saturate
