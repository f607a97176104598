#include "tools/transform/ties.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "extract/prepare/first_versions.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/subgraphs.h"
#include "tools/transform/clamp_values.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

Node constant_of(Tensor tensor, std::string output) {
  return make_node("Constant", {}, std::move(output), {Attribute::of("value", std::move(tensor))});
}

void add_axes(const Model& model, const char* op, const View& view, Node& node, FreshNames& fresh, std::vector<Node>& nodes) {
  node.op_type = op;
  if (model.opset("") < kFirstWithAxesAsInput) {
    node.attributes = {Attribute::of("axes", view.dims)};
    return;
  }
  node.inputs.push_back(fresh(node.outputs[0] + "_axes"));
  nodes.push_back(constant_of(Tensor::vector_int64(view.dims), node.inputs[1]));
}

void add_view(const Model& model, const View& view, const std::string& from, const std::string& to, FreshNames& fresh,
              std::vector<Node>& nodes) {
  Node node = make_node("Identity", {from}, to);
  switch (view.kind) {
    case View::Kind::kCast:
      node.op_type = "Cast";
      node.attributes = {Attribute::of("to", static_cast<std::int64_t>(view.dtype))};
      break;
    case View::Kind::kTranspose:
      node.op_type = "Transpose";
      node.attributes = {Attribute::of("perm", view.dims)};
      break;
    case View::Kind::kUnsqueeze:
      add_axes(model, "Unsqueeze", view, node, fresh, nodes);
      break;
    case View::Kind::kSqueeze:
      add_axes(model, "Squeeze", view, node, fresh, nodes);
      break;
    case View::Kind::kReshape:
      node.op_type = "Reshape";
      node.inputs.push_back(fresh(to + "_dims"));
      nodes.push_back(constant_of(Tensor::vector_int64(view.dims), node.inputs[1]));
      break;
    case View::Kind::kLast:  // from opset 10 on
      node.op_type = "Slice";
      for (const std::int64_t number : {-view.dims[1], std::numeric_limits<std::int64_t>::max(), view.dims[0]}) {
        node.inputs.push_back(fresh(to + "_last"));
        nodes.push_back(constant_of(Tensor::vector_int64({{number}}), node.inputs.back()));
      }
      break;
    case View::Kind::kZeros:
      node.op_type = "ConstantOfShape";
      node.inputs = {fresh(to + "_shape")};
      node.attributes = {Attribute::of("value", Tensor(view.dtype, {1}))};
      nodes.push_back(make_node("Shape", {from}, node.inputs[0]));
      break;
  }
  nodes.push_back(std::move(node));
}

// Inputs of the original whose values are changed on the way in: what reads them reads what the views make. The new
// values' names by input.
Renaming hold(Model& model, const std::map<std::string, std::vector<View>>& held, FreshNames& fresh) {
  std::vector<Node> in_front;
  Renaming inside;
  for (const auto& [input, views] : held) inside[input] = fresh(input + "_held");
  rename_values(model.graph, inside, fresh);
  for (ValueInfo& info : model.graph.inputs)
    for (const auto& [input, held_name] : inside)
      if (info.name == held_name) info.name = input;
  for (const auto& [input, views] : held) add_views(model, views, input, inside[input], fresh, in_front);
  model.graph.nodes.insert(model.graph.nodes.begin(), in_front.begin(), in_front.end());
  return inside;
}

// The If of the original that make these values read constants.
void choose_branches(Graph& graph, const std::map<std::string, bool>& chosen, FreshNames& fresh) {
  for (const auto& [value, then] : chosen) {
    Tensor constant(DType::kBool, {});
    *constant.mutable_as<std::uint8_t>() = then ? 1 : 0;
    const std::string name = fresh(value + "_chosen");
    for (Node& node : graph.nodes)
      if (std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end()) node.inputs[0] = name;
    graph.initializers.push_back({name, constant, nullptr, false});
  }
}

// Adds the nodes and initializers behind some values of `from` under names of their own; where each value is.
Renaming add_what_makes(const Graph& from, const std::vector<std::string>& values, FreshNames& fresh, std::vector<Node>& nodes,
                        std::vector<Initializer>& initializers) {
  Graph part = from;
  part.outputs.clear();
  for (const std::string& name : values) part.outputs.push_back({name, {}, nullptr});
  part.value_info.clear();
  erase_unread(part, {});
  Renaming names;
  for (const std::string& name : defined_names(part))
    if (!find_named(part.inputs, name)) names[name] = fresh("original." + name);
  rename_values(part, names, fresh);
  std::move(part.initializers.begin(), part.initializers.end(), std::back_inserter(initializers));
  std::move(part.nodes.begin(), part.nodes.end(), std::back_inserter(nodes));
  return names;
}

// The result behind the inputs of `original`, with outputs named `names` (by its own).
Model behind_inputs_of(const Model& original, Model result, const Ties& ties, const Renaming& names) {
  Graph& graph = result.graph;
  FreshNames fresh(original.graph);
  for (const auto& [own, outside] : names) fresh.take(outside);
  Renaming inside;
  for (const std::string& name : defined_names(graph)) inside[name] = fresh("result." + name);
  graph.value_info.clear();
  rename_values(graph, inside, fresh);
  std::erase_if(graph.initializers, [&](const Initializer& i) {
    return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const ValueInfo& v) { return v.name == i.name; });
  });
  graph.inputs = original.graph.inputs;
  ensure_standard_opset(result);
  std::vector<std::string> inner;
  for (const auto& [name, tie] : ties.inputs)
    if (!find_named(graph.inputs, tie.original)) inner.push_back(tie.original);
  std::vector<Node> in_front;
  const Renaming computed = add_what_makes(original.graph, inner, fresh, in_front, graph.initializers);
  for (const auto& [name, tie] : ties.inputs) {
    const auto it = computed.find(tie.original);
    add_views(result, tie.views, it == computed.end() ? tie.original : it->second, inside.at(name), fresh, in_front);
  }
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(in_front.begin()), std::make_move_iterator(in_front.end()));
  std::set<std::string> made;  // a value may be an output twice
  for (ValueInfo& output : graph.outputs) {
    std::string outside;
    for (const auto& [own, given] : names)
      if (inside.at(own) == output.name) outside = given;
    if (made.insert(outside).second) add_views(result, {}, output.name, outside, fresh, graph.nodes);
    output.name = outside;
  }
  for (const Initializer& i : original.graph.initializers)
    if (find_named(graph.inputs, i.name) && !find_named(graph.initializers, i.name)) graph.initializers.push_back(i);
  for (const Function& f : original.functions)
    if (std::none_of(result.functions.begin(), result.functions.end(), [&](const Function& g) { return same_name(f, g); }))
      result.functions.push_back(f);
  for (const auto& [domain, version] : original.opset_imports) result.opset_imports.try_emplace(domain, version);
  return result;
}

// The original with the outputs that the result should have; `names`: what they are called in both, by their names in the result. An inner
// value that has such a name makes way, so that reports name outputs as the result does; an input keeps its name.
Model with_outputs(Model original, const Model& result, const Ties& ties, const Renaming& held, Renaming& names) {
  Graph& graph = original.graph;
  FreshNames fresh(graph);
  const auto as_it_is = [&](const std::string& name) {
    const Tie& tie = ties.outputs.at(name);
    return tie.views.empty() && tie.original == name && !find_named(graph.inputs, name);
  };
  Renaming away = held;
  Renaming inner;
  const auto defined = defined_names(graph);
  for (const ValueInfo& output : result.graph.outputs)
    if (!as_it_is(output.name) && defined.contains(output.name) && !find_named(graph.inputs, output.name))
      away[output.name] = inner[output.name] = fresh(output.name + "_inner");
  std::vector<ValueInfo> outputs;
  const std::vector<ValueInfo> before = std::move(graph.outputs);
  graph.outputs.clear();
  rename_values(graph, inner, fresh);
  for (const ValueInfo& output : result.graph.outputs) {
    const Tie& tie = ties.outputs.at(output.name);
    const bool stays = as_it_is(output.name);
    const bool is_free = stays || inner.contains(output.name) || !defined.contains(output.name);
    const auto [named, is_new] = names.try_emplace(output.name);  // a value may be an output twice
    if (is_new) named->second = is_free ? output.name : fresh(output.name);
    const std::string& name = named->second;
    const auto inside = away.find(tie.original);
    if (!stays && is_new) add_views(original, tie.views, inside == away.end() ? tie.original : inside->second, name, fresh, graph.nodes);
    // Dims that the result declares have its names.
    const ValueInfo* declared = tie.views.empty() ? find_named(before, tie.original) : nullptr;
    ValueInfo& info = outputs.emplace_back(ValueInfo{name, declared ? declared->type : output.type, nullptr});
    if (!declared) info.type.shape = std::nullopt;
  }
  graph.outputs = std::move(outputs);
  return original;
}

}  // namespace

void add_views(const Model& model, const std::vector<View>& views, const std::string& from, const std::string& to, FreshNames& fresh,
               std::vector<Node>& nodes) {
  if (views.empty()) {
    nodes.push_back(make_node("Identity", {from}, to));
    return;
  }
  std::string at = from;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::string next = i + 1 == views.size() ? to : fresh(to + "_view");
    add_view(model, views[i], at, next, fresh, nodes);
    at = next;
  }
}

void ensure_standard_opset(Model& model) {
  if (model.opset("") == 0) model.opset_imports[""] = kOpsetOfNone;
}

Ties Ties::identity(const Model& model) {
  Ties ties;
  for (const ValueInfo& v : model.graph.inputs) ties.inputs[v.name] = {v.name, {}};
  for (const ValueInfo& v : model.graph.outputs) ties.outputs[v.name] = {v.name, {}};
  for (const std::string& name : defined_names(model.graph)) ties.values[name] = name;
  return ties;
}

std::string Ties::value_of(const std::string& result) const {
  const auto it = values.find(result);
  return it == values.end() ? "" : it->second;
}

std::set<std::string> Ties::symbols_of(const std::string& result) const {
  const auto it = symbols.find(result);
  return it == symbols.end() ? std::set<std::string>{result} : it->second;
}

bool same_name(const Function& a, const Function& b) {
  return std::tie(a.domain, a.name, a.overload) == std::tie(b.domain, b.name, b.overload);
}

Comparable comparable(const Model& original, const Model& result, const Ties& ties) {
  Comparable pair{original, {}};
  Model& first = pair.original;
  ensure_standard_opset(first);
  std::erase_if(first.graph.inputs, [&](const ValueInfo& v) { return ties.frozen.contains(v.name); });
  first.graph.inputs.insert(first.graph.inputs.end(), ties.added.begin(), ties.added.end());
  clamp_values(first, ties.clamped);
  FreshNames fresh(first.graph);
  choose_branches(first.graph, ties.chosen, fresh);
  const Renaming held = hold(first, ties.held, fresh);
  Renaming names;
  first = with_outputs(std::move(first), result, ties, held, names);
  pair.result = behind_inputs_of(first, result, ties, names);
  return pair;
}

}  // namespace saturate
