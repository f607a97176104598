// What is done to a decoder before its sides are told apart, and what it declares in the end.
#include <algorithm>

#include "fmt/format.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/edit.h"

namespace saturate {

absl::Status check_inputs(const Model& model, const CacheOptions& options) {
  const auto known = [&](const std::string& name) {
    const auto in = [&](const std::vector<std::string>& names) { return std::count(names.begin(), names.end(), name) > 0; };
    return in(options.tokens) || in(options.masks) || in(options.given) || in(options.given_masks);
  };
  for (const ValueInfo& input : model.graph.inputs)
    if (!known(input.name) && !find_named(model.graph.initializers, input.name))
      return absl::UnimplementedError(fmt::format(
          "no cache: input '{}' is none of 'tokens', 'masks', 'given' and 'given_masks'; name it in one of them, or make a constant of it",
          input.name));
  return absl::OkStatus();
}

Model with_masks_apart(Model model, const CacheOptions& options) {
  Graph& graph = model.graph;
  FreshNames fresh(graph);
  std::vector<Node> in_front;
  for (const std::string& mask : options.masks) {
    const std::string inside = fresh(mask + "_inside");
    rename_values(graph, {{mask, inside}}, fresh);
    for (ValueInfo& info : graph.inputs)
      if (info.name == inside) info.name = mask;
    in_front.push_back(make_node("Identity", {mask}, inside));
  }
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(in_front.begin()), std::make_move_iterator(in_front.end()));
  return model;
}

CacheDims cache_dims(const Graph& graph, const CacheOptions& options) {
  const auto dims_of = [&](const std::string& input) { return *find_named(graph.inputs, input)->type.shape; };
  const std::vector<DimSpec> ids = dims_of(options.tokens[0]);
  const DimSpec given = options.given.empty() ? DimSpec() : dims_of(options.given[0])[1];
  if (const auto& fixed = options.fixed)
    return {ids[0], fixed->window, fixed->max_context - fixed->window, fixed->sequence, fixed->max_context, given};
  const std::string name = std::holds_alternative<std::string>(ids[1]) ? std::get<std::string>(ids[1]) : "sequence_length";
  if (options.positions_of_buffer()) return {ids[0], name, *options.buffer, *options.buffer, *options.buffer, given};
  const std::string all = fmt::format("{} + {}", options.past_dim, name);
  if (options.buffer) return {ids[0], name, *options.buffer, all, *options.buffer, given};
  return {ids[0], name, options.past_dim, all, all, given};
}

ValueType type_of(const CacheSlot& slot, const DimSpec& batch, const DimSpec& tokens) {
  return {ValueType::Kind::kTensor, slot.dtype, std::vector<DimSpec>{batch, slot.heads, tokens, slot.size}, nullptr};
}

void declare_caches(CachedModel& made, const CacheOptions& options, const CacheDims& dims) {
  Graph& graph = made.model.graph;
  if (options.buffer && options.write == CacheOptions::Write::kTensorScatter) made.model.opset_imports[""] = kTensorScatterOpset;
  if (options.group_query()) made.model.opset_imports.try_emplace(kMicrosoftDomain, 1);
  for (const std::string& input : options.tokens) (*find_named(graph.inputs, input)->type.shape)[1] = dims.fresh;
  for (const std::string& input : options.masks) (*find_named(graph.inputs, input)->type.shape)[1] = dims.all;
  for (ValueInfo& info : graph.inputs) info.origin = nullptr;
  if (made.counted) {
    const DimSpec rows = *made.counted == CacheOptions::Counted::kShown ? dims.batch : DimSpec(1);
    graph.inputs.push_back({options.filled, {ValueType::Kind::kTensor, DType::kInt64, std::vector<DimSpec>{rows}, nullptr}, nullptr});
  }
  for (const CacheSlot& slot : made.given) graph.inputs.push_back({slot.past, type_of(slot, dims.batch, dims.given), nullptr});
  for (const CacheSlot& slot : made.slots) {
    graph.inputs.push_back({slot.past, type_of(slot, dims.batch, dims.past), nullptr});
    graph.outputs.push_back({slot.present, type_of(slot, dims.batch, dims.present), nullptr});
  }
}

namespace {

// Operands whose heads stand beside each other in the last of three dims, and how many they are.
using Packed = std::vector<std::pair<std::size_t, std::int64_t>>;
Packed packed_operands(const Node& node, const DecoderFacts& facts) {
  if (is_operator(node, "Attention")) {
    const std::int64_t queries = int_attribute(node, "q_num_heads", 0), keys = int_attribute(node, "kv_num_heads", 0);
    if (queries > 0 && keys > 0) return {{0, queries}, {1, keys}, {2, keys}};
  }
  // (Of four dims it takes the attribute and does not read it.)
  if (is_operator(node, "RotaryEmbedding") && facts.rank(node.inputs[0]) == 3)
    if (const std::int64_t heads = int_attribute(node, "num_heads", 0); heads > 0) return {{0, heads}};
  return {};
}

Attribute heads_and_tokens_change_places() { return Attribute::of("perm", std::vector<std::int64_t>{0, 2, 1, 3}); }

// The node with operands of heads apart, and its result with them beside each other again.
void unpack(Node node, const Packed& operands, GraphWriter& writer) {
  for (const auto& [i, heads] : operands) {
    const std::string apart = writer.node("Reshape", {node.inputs[i], writer.ints({0, 0, heads, -1})}, node.inputs[i] + "_heads");
    node.inputs[i] = writer.node("Transpose", {apart}, node.inputs[i] + "_apart", {heads_and_tokens_change_places()});
  }
  std::erase_if(node.attributes, [](const Attribute& a) { return one_of(a.name, {"q_num_heads", "kv_num_heads", "num_heads"}); });
  const std::string output = node.outputs[0], apart = writer.fresh()(output + "_apart");
  node.outputs[0] = apart;
  node.origin = nullptr;
  writer.graph().nodes.push_back(std::move(node));
  const std::string beside = writer.node("Transpose", {apart}, output + "_beside", {heads_and_tokens_change_places()});
  writer.node("Reshape", {beside, writer.ints({0, 0, -1})}, "", {}, output);
}

}  // namespace

absl::Status unpack_heads(Model& model) {
  std::vector<Packed> packed;
  {
    const auto facts = DecoderFacts::as_declared(model);
    if (!facts.ok()) return facts.status();
    for (const Node& node : model.graph.nodes) packed.push_back(packed_operands(node, **facts));
  }
  Graph& graph = model.graph;
  FreshNames fresh(graph);
  Graph made;
  GraphWriter writer(made, fresh);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    if (packed[i].empty())
      made.nodes.push_back(std::move(graph.nodes[i]));
    else
      unpack(std::move(graph.nodes[i]), packed[i], writer);
  }
  graph.nodes = std::move(made.nodes);
  std::move(made.initializers.begin(), made.initializers.end(), std::back_inserter(graph.initializers));
  return absl::OkStatus();
}

}  // namespace saturate
