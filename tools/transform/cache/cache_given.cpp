// What is given to a decoder beside its tokens, as an encoder's states: keys and values of cross attention are made of it once.
#include <algorithm>

#include "fmt/format.h"
#include "onnx_bridge/model/node_order.h"
#include "onnx_bridge/model/subgraphs.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

// An operator whose sizes are an input, which may be read anywhere.
bool takes_sizes(const DecoderFacts& facts, const Node& node) {
  return node.domain.empty() && one_of(node.op_type, {"Reshape", "Expand"}) && !facts.constant(node.inputs[1]);
}

// What a node reads, with what its bodies do; sizes left out.
std::vector<std::string> reads_of_values(const DecoderFacts& facts, const Node& node) {
  std::vector<std::string> read = names_read(node);
  if (takes_sizes(facts, node)) read.resize(1);
  return read;
}

}  // namespace

GivenSide::GivenSide(CacheWork& work) : work_(work), names_(work), values_(work.options.given.begin(), work.options.given.end()) {}

absl::Status GivenSide::attended(const Node& reader, const std::string& value, const std::string& part) {
  const DecoderFacts& facts = work_.facts;
  const auto layout = [&](const std::string& v) -> std::optional<HeadLayout> {
    std::optional<int> along;
    for (int i = 1; i < facts.rank(v); ++i)
      if (facts.along_given(v, i)) {
        if (along) return std::nullopt;
        along = i;
      }
    return along ? head_layout(facts, v, *along) : std::nullopt;
  };
  const auto made_here = [&](const std::string& v) { return has(v) && facts.producer(v) != nullptr; };
  if (!made_here(value)) return absl::OkStatus();
  const std::string at = smallest_view(facts, value, made_here, layout);
  const auto is_cached = [&](const auto& pair) { return pair.first == at; };
  if (at.empty() || std::any_of(cached_.begin(), cached_.end(), is_cached)) return absl::OkStatus();
  const HeadLayout found = *layout(at);
  absl::StatusOr<CacheSlot> slot = names_.next(reader, at, work_.options.part_of_given(part), found.heads, found.size);
  if (!slot.ok()) return slot.status();
  slots_.push_back(*std::move(slot));
  cached_.emplace_back(at, found);
  return absl::OkStatus();
}

void GivenSide::finish(Graph& step, const std::string& length) const {
  if (values_.empty()) return;
  FreshNames& fresh = work_.writer.fresh();
  Graph front;
  GraphWriter writer(front, fresh);
  const std::string tells =
      slots_.empty() ? size_of(writer, work_.options.given[0], 1, "states") : size_of(writer, slots_[0].past, 2, "states");
  writer.node("Identity", {tells}, "", {}, length);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::string& value = cached_[i].first;
    for (Node& node : step.nodes)
      for (std::string& output : node.outputs)
        if (output == value) {
          output = fresh(value + "_once");
          node.origin = nullptr;
        }
    out_of_cache_order(writer, cached_[i].second, slots_[i].past, value, value);
  }
  step.nodes.insert(step.nodes.begin(), std::make_move_iterator(front.nodes.begin()), std::make_move_iterator(front.nodes.end()));
  std::move(front.initializers.begin(), front.initializers.end(), std::back_inserter(step.initializers));
}

// The nodes that the cached values are made of, and the inputs that these read.
absl::StatusOr<std::set<const Node*>> GivenSide::needed(const Model& model, std::set<std::string>& inputs) const {
  std::set<std::string> values;
  for (const auto& [value, layout] : cached_) values.insert(value);
  std::set<const Node*> nodes;
  for (auto node = model.graph.nodes.rbegin(); node != model.graph.nodes.rend(); ++node) {
    const auto is_needed = [&](const std::string& output) { return values.contains(output); };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), is_needed)) continue;
    nodes.insert(&*node);
    for (const std::string& name : reads_of_values(work_.facts, *node)) {
      values.insert(name);
      if (!find_named(model.graph.inputs, name) || find_named(model.graph.initializers, name)) continue;
      inputs.insert(name);
      const auto& options = work_.options;
      for (const auto* others : {&options.tokens, &options.masks})
        if (std::find(others->begin(), others->end(), name) != others->end())
          return cannot_cache(*node, fmt::format("what tokens attend to is made of what is given and of '{}', too", name));
    }
  }
  return nodes;
}

absl::StatusOr<Model> GivenSide::once(const Model& model) const {
  Model made = model;
  for (auto* list : {&made.graph.inputs, &made.graph.outputs, &made.graph.value_info}) list->clear();
  made.graph.nodes.clear();
  if (slots_.empty()) return made;
  std::set<std::string> inputs;
  const absl::StatusOr<std::set<const Node*>> nodes = needed(model, inputs);
  if (!nodes.ok()) return nodes.status();
  FreshNames fresh(model.graph);
  GraphWriter writer(made.graph, fresh);
  CacheWork work{work_.facts, work_.options, writer};
  PositionSide sizes(work, SizesOf::kGiven);
  for (const Node& node : model.graph.nodes) {
    if (!nodes->contains(&node)) continue;
    Node copy = node;
    if (takes_sizes(work_.facts, node)) {
      const std::vector<Dim>&to = *work_.facts.shape(node.outputs[0]), &from = *work_.facts.shape(node.inputs[0]);
      absl::StatusOr<std::string> shape =
          sizes.sizes(node, to, Axes(to.size(), Axis::kNone), node.op_type == "Reshape" ? &from : nullptr, Axes(from.size(), Axis::kNone));
      if (!shape.ok()) return shape.status();
      copy.inputs[1] = *std::move(shape);
      copy.origin = nullptr;
    }
    made.graph.nodes.push_back(std::move(copy));
  }
  for (const ValueInfo& input : model.graph.inputs)
    if (inputs.contains(input.name) || input.name == work_.options.given[0]) made.graph.inputs.push_back(input);
  const std::vector<DimSpec>& dims = *find_named(made.graph.inputs, work_.options.given[0])->type.shape;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    in_cache_order(writer, cached_[i].second, cached_[i].first, cached_[i].first, slots_[i].present);
    made.graph.outputs.push_back({slots_[i].present, type_of(slots_[i], dims[0], dims[1]), nullptr});
  }
  erase_unread(made.graph, {});
  return made;
}

}  // namespace saturate
