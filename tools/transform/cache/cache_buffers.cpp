#include "onnx_bridge/operators/op_questions.h"
#include "tools/transform/cache/cache_buffers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/cache/node_axes.h"
#include "tools/transform/edit.h"
#include "tools/transform/opset.h"

namespace saturate {
namespace {

bool is_grouped(const Node& node) { return is_operator(node, "GroupQueryAttention", kMicrosoftDomain); }

class BufferRemover {
 public:
  BufferRemover(const Model& model, const std::vector<CacheBuffer>& buffers, const DecoderFacts& facts)
      : model_(model), facts_(facts), made_(model), fresh_(model.graph), writer_(made_.graph, fresh_) {
    for (const CacheBuffer& buffer : buffers) {
      buffers_[buffer.past] = buffer;
      presents_.insert(buffer.present);
    }
  }

  absl::StatusOr<Model> run(const std::string& ids, const std::vector<std::string>& masks) && {
    for (const auto& [past, buffer] : buffers_) mark({past, buffer.axis});
    for (const std::string& mask : masks) mark({mask, 1});
    if (absl::Status s = spread(); !s.ok()) return s;
    Graph& graph = made_.graph;
    graph.nodes.clear();
    graph.value_info.clear();
    const std::string counted = writer_.node("Shape", {ids}, "ids_shape");
    tokens_ = writer_.node("Gather", {counted, writer_.ints({1})}, "tokens");
    cut_constants();
    for (const Node& node : model_.graph.nodes)
      if (absl::Status s = write(node); !s.ok()) return s;
    for (const auto& [past, buffer] : buffers_)
      for (const Node& node : graph.nodes)
        if (reads(node, past)) return cannot_remove(node, fmt::format("it reads '{}', and writes no tokens into it", past));
    return std::move(made_);
  }

 private:
  // Whether an axis has an entry for each place.
  bool marked(const std::string& value, int axis) const { return marks_.contains({value, axis}); }
  bool marked(const std::string& value) const {
    for (int i = 0; i < facts_.rank(value); ++i)
      if (marked(value, i)) return true;
    return false;
  }
  bool mark(const AxisOf& axis) { return marks_.insert(axis).second; }

  absl::Status spread() {
    std::vector<SameAxes> all;
    std::vector<const Node*> strange;
    std::vector<std::pair<const Node*, std::vector<SameAxes>>> known_nodes;
    for (const Node& node : model_.graph.nodes) {
      if (groups(node)) continue;
      const auto known = [&](const std::string& value) { return value.empty() || facts_.shape(value); };
      const bool ranks =
          std::all_of(node.inputs.begin(), node.inputs.end(), known) && std::all_of(node.outputs.begin(), node.outputs.end(), known);
      auto found = ranks ? same_axes(facts_, node) : std::nullopt;
      if (!found) {
        strange.push_back(&node);
        continue;
      }
      all.insert(all.end(), found->begin(), found->end());
      known_nodes.emplace_back(&node, *std::move(found));
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const SameAxes& axes : all)
        if (std::any_of(axes.axes.begin(), axes.axes.end(), [&](const AxisOf& a) { return marks_.contains(a); }))
          for (const AxisOf& axis : axes.axes) changed = mark(axis) || changed;
    }
    for (const auto& [node, found] : known_nodes)
      if (makes_other_places(*node, found)) strange.push_back(node);
    for (const Node* node : strange)
      for (const auto* values : {&node->inputs, &node->outputs})
        for (const std::string& value : *values)
          if (!value.empty() && marked(value))
            return cannot_remove(*node, fmt::format("nothing is known of what it does along the places of '{}'", value));
    return absl::OkStatus();
  }

  // Whether a result has as many entries as there are places, and they are others.
  bool makes_other_places(const Node& node, const std::vector<SameAxes>& found) const {
    const auto linked = [&](const AxisOf& axis) {
      return std::any_of(found.begin(), found.end(),
                         [&](const SameAxes& same) { return std::count(same.axes.begin(), same.axes.end(), axis) > 0; });
    };
    const auto made = [&](const std::string& input, int axis) {
      for (const std::string& output : node.outputs)
        for (int k = 0; k < facts_.rank(output); ++k)
          if (!linked({output, k}) && facts_.dims().equal((*facts_.shape(input))[axis], (*facts_.shape(output))[k])) return true;
      return false;
    };
    for (const std::string& input : node.inputs)
      for (int k = 0; k < facts_.rank(input); ++k)
        if (marked(input, k) && !linked({input, k}) && made(input, k)) return true;
    return false;
  }

  // Weights and tables with an entry for each place begin with those of the tokens; what counts places goes on counting.
  void cut_constants() {
    for (const Initializer& weight : model_.graph.initializers)
      if (marked(weight.name)) renamed_[weight.name] = of_tokens(weight.name, weight.name, "");
  }
  // `constant` as `value`, which is the same, of a name that is known.
  std::string of_tokens(const std::string& value, const std::string& constant, const std::string& name) {
    std::vector<std::int64_t> axes, dims;
    for (int i = 0; i < facts_.rank(value); ++i) {
      if (marked(value, i)) axes.push_back(i);
      dims.push_back(marked(value, i) ? -1 : 1);
    }
    if (const auto first = counts_from(value)) {
      const std::string count = writer_.node("Squeeze", {tokens_}, "steps");
      const std::string end = writer_.node("Add", {count, writer_.scalar(*first)}, "end");
      const std::string places = writer_.node("Range", {writer_.scalar(*first), end, writer_.scalar(1)}, "places");
      const std::string shaped = writer_.node("Reshape", {places, writer_.ints(dims)}, "places");
      return writer_.node("Cast", {shaped}, "places", {Attribute::of("to", static_cast<std::int64_t>(facts_.dtype(value)))}, name);
    }
    std::string ends = tokens_;
    if (axes.size() > 1)
      ends = writer_.node("Concat", std::vector<std::string>(axes.size(), tokens_), "ends", {Attribute::of("axis", std::int64_t{0})});
    return writer_.node("Slice", {constant, writer_.ints(std::vector<std::int64_t>(axes.size(), 0)), ends, writer_.ints(axes)},
                        value + "_of_tokens", {}, name);
  }
  // Of whole numbers that grow by one from place to place: the first. nullopt: others.
  std::optional<std::int64_t> counts_from(const std::string& value) const {
    const auto numbers = facts_.ints(value);
    if (!numbers || numbers->empty()) return std::nullopt;
    for (int i = 0; i < facts_.rank(value); ++i)
      if (const auto size = facts_.extents().of((*facts_.shape(value))[i]); !marked(value, i) && (!size || *size != Extent{}))
        return std::nullopt;
    for (std::size_t i = 0; i < numbers->size(); ++i)
      if ((*numbers)[i] != (*numbers)[0] + static_cast<std::int64_t>(i)) return std::nullopt;
    return (*numbers)[0];
  }

  // Sizes in which the number of places is that of tokens.
  std::string resized(const std::string& sizes, const std::string& of) {
    std::vector<std::string> parts;
    const int rank = facts_.rank(of);
    for (int i = 0, from = 0; i <= rank; ++i) {
      if (i < rank && !marked(of, i)) continue;
      if (from < i) parts.push_back(writer_.node("Slice", {sizes, writer_.ints({from}), writer_.ints({i}), writer_.ints({0})}, "sizes"));
      if (i < rank) parts.push_back(tokens_);
      from = i + 1;
    }
    return parts.size() == 1 ? parts[0] : writer_.node("Concat", parts, "sizes", {Attribute::of("axis", std::int64_t{0})});
  }

  absl::Status write(const Node& before) {
    Node node = before;
    for (std::string& input : node.inputs)
      if (const auto it = renamed_.find(input); it != renamed_.end()) {
        input = it->second;
        node.origin = nullptr;
      }
    if (groups(before)) return attend(node);
    if (!before.inputs.empty() && buffers_.contains(before.inputs[0])) {
      const std::string written = written_by(before);
      if (written.empty()) return cannot_remove(before, "how it writes tokens into the buffer is not known");
      node = make_node("Identity", {written}, before.outputs[0]);
    } else if (before.domain.empty() && !before.outputs.empty() && marked(before.outputs[0])) {
      if (before.op_type == "Constant") {
        const std::string value = before.outputs[0];
        node.outputs[0] = fresh_(value + "_of_places");
        made_.graph.nodes.push_back(node);
        of_tokens(value, made_.graph.nodes.back().outputs[0], value);
        return absl::OkStatus();
      }
      if (one_of(before.op_type, {"Reshape", "Expand"})) node.inputs[1] = resized(node.inputs[1], before.outputs[0]);
      if (before.op_type == "ConstantOfShape") node.inputs[0] = resized(node.inputs[0], before.outputs[0]);
      if (before.op_type == "Range") node.inputs[1] = end_of_range(before);
      if (node.inputs != before.inputs) node.origin = nullptr;
    }
    made_.graph.nodes.push_back(std::move(node));
    return absl::OkStatus();
  }

  // As many steps as there are tokens.
  std::string end_of_range(const Node& node) {
    const auto to = static_cast<std::int64_t>(facts_.dtype(node.outputs[0]));
    std::string count = writer_.node("Squeeze", {tokens_}, "steps");
    if (facts_.dtype(node.outputs[0]) != DType::kInt64) count = writer_.node("Cast", {count}, "steps", {Attribute::of("to", to)});
    return writer_.node("Add", {node.inputs[0], writer_.node("Mul", {count, node.inputs[2]}, "steps")}, "end");
  }

  // New tokens in the buffer's order; "": they are not.
  std::string written_by(const Node& node) const {
    const CacheBuffer& buffer = buffers_.at(node.inputs[0]);
    const auto written = updates_of(node);
    if (!written) return "";
    const std::string& updates = node.inputs[*written];
    const int rank = facts_.rank(buffer.past);
    if (facts_.rank(updates) != rank) return "";
    for (int i = 0; i < rank; ++i)
      if (i != buffer.axis && i != 0 && !facts_.dims().equal((*facts_.shape(updates))[i], (*facts_.shape(buffer.past))[i])) return "";
    return updates;
  }

  // Whether it writes into a buffer and attends to it.
  bool groups(const Node& node) const { return is_grouped(node) && node.inputs.size() > 4 && buffers_.contains(node.inputs[3]); }
  // The standard's Attention of the tokens alone; lengths of rows hide nothing that is not behind a token.
  absl::Status attend(const Node& node) {
    static constexpr std::size_t kBias = 10;
    for (const std::size_t i : {1, 2})
      if (node.inputs[i].empty()) return cannot_remove(node, "its queries, keys and values are one input");
    for (std::size_t i = 1; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty() && !presents_.contains(node.outputs[i])) return cannot_remove(node, "more than its present is read");
    std::vector<std::string> inputs(node.inputs.begin(), node.inputs.begin() + 3);
    std::vector<Attribute> attributes{Attribute::of("is_causal", std::int64_t{1})};
    for (const Attribute& a : node.attributes) {
      if (a.name == "num_heads") attributes.push_back(Attribute::of("q_num_heads", a.i()));
      if (one_of(a.name, {"kv_num_heads", "scale", "softcap"})) attributes.push_back(a);
      if (one_of(a.name, {"do_rotary", "smooth_softmax"}) && a.i() != 0)
        return cannot_remove(node, fmt::format("its {} has no counterpart in Attention", a.name));
      if (a.name == "local_window_size" && a.i() != -1) return cannot_remove(node, "its window has no counterpart in Attention");
    }
    for (std::size_t i = 7; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty()) continue;
      if (i != kBias) return cannot_remove(node, fmt::format("it reads '{}', for which Attention has no place", node.inputs[i]));
      inputs.push_back(node.inputs[i]);
    }
    made_.graph.nodes.push_back(make_node("Attention", std::move(inputs), node.outputs[0], std::move(attributes)));
    return absl::OkStatus();
  }

  const Model& model_;
  const DecoderFacts& facts_;
  Model made_;
  FreshNames fresh_;
  GraphWriter writer_;
  std::map<std::string, CacheBuffer> buffers_;  // by past
  std::set<std::string> presents_;
  std::set<AxisOf> marks_;
  std::map<std::string, std::string> renamed_;
  std::string tokens_;  // how many there are, [1]
};

}  // namespace

absl::StatusOr<Model> without_buffers(const Model& model, const std::string& ids, const std::vector<CacheBuffer>& buffers,
                                      const std::vector<std::string>& masks) {
  CacheOptions options;
  options.tokens = {ids};
  const bool grouped = std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(), is_grouped);
  const absl::StatusOr<Model> raised = grouped && model.opset("") < kCacheOpset ? at_opset(model, kCacheOpset) : model;
  if (!raised.ok()) return raised;
  const auto facts = DecoderFacts::of(*raised, options);
  if (!facts.ok()) return facts.status();
  return BufferRemover(*raised, buffers, **facts).run(ids, masks);
}

}  // namespace saturate
