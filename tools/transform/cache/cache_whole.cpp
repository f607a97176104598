// Keys and values: where they are cached, and what is made of them at all positions.
#include <algorithm>
#include <limits>

#include "fmt/format.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

// Views one behind the other; the last one's result has this name, if there is one.
std::string behind(GraphWriter& writer, std::vector<Node> views, std::string value, const std::string& name) {
  if (views.empty() && !name.empty()) views.push_back(make_node("Identity", {""}, ""));
  for (std::size_t i = 0; i < views.size(); ++i) {
    Node& view = views[i];
    view.inputs[0] = value;
    value = writer.node(view.op_type.c_str(), view.inputs, view.outputs[0], view.attributes, i + 1 == views.size() ? name : "");
  }
  return value;
}

}  // namespace

std::optional<HeadLayout> head_layout(const DecoderFacts& facts, const std::string& value, int along) {
  const std::vector<Dim>& dims = *facts.shape(value);
  HeadLayout found;
  std::vector<std::int64_t> others, sizes;
  std::int64_t tokens = -1, at = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto extent = facts.extents().of(dims[i]);
    if (!extent) return std::nullopt;
    if (static_cast<int>(i) == along) {
      tokens = at++;
    } else if (i == 0) {
      if (extent->tokens > 0 || extent->given > 0 || (extent->batches > 0 && extent->factor != 1)) return std::nullopt;
      ++at;
    } else if (!extent->is_number()) {
      return std::nullopt;
    } else if (extent->factor == 1) {
      found.ones.push_back(static_cast<std::int64_t>(i));
    } else {
      others.push_back(at++);
      sizes.push_back(extent->factor);
    }
  }
  if (tokens <= 0 || others.empty() || others.size() > 2) return std::nullopt;
  found.order =
      others.size() == 1 ? std::vector{std::int64_t{0}, tokens, others[0]} : std::vector{std::int64_t{0}, others[0], tokens, others[1]};
  if (others.size() == 2) found.heads = sizes[0];
  found.size = sizes.back();
  return found;
}

std::string in_cache_order(GraphWriter& writer, const HeadLayout& layout, const std::string& value, const std::string& like,
                           const std::string& name) {
  std::vector<Node> views;
  if (!layout.ones.empty()) views.push_back(make_node("Squeeze", {"", writer.ints(layout.ones)}, like + "_without_ones"));
  if (!layout.in_order()) views.push_back(make_node("Transpose", {""}, like + "_by_head", {Attribute::of("perm", layout.order)}));
  if (!layout.has_heads()) views.push_back(make_node("Unsqueeze", {"", writer.ints({1})}, like + "_one_head"));
  return behind(writer, std::move(views), value, name);
}

std::string out_of_cache_order(GraphWriter& writer, const HeadLayout& layout, const std::string& value, const std::string& like,
                               const std::string& name) {
  std::vector<Node> views;
  if (!layout.has_heads()) views.push_back(make_node("Squeeze", {"", writer.ints({1})}, like + "_all"));
  if (!layout.in_order()) {
    std::vector<std::int64_t> back(layout.order.size());
    for (std::size_t i = 0; i < back.size(); ++i) back[layout.order[i]] = static_cast<std::int64_t>(i);
    views.push_back(make_node("Transpose", {""}, like + "_all", {Attribute::of("perm", back)}));
  }
  if (!layout.ones.empty()) views.push_back(make_node("Unsqueeze", {"", writer.ints(layout.ones)}, like + "_with_ones"));
  return behind(writer, std::move(views), value, name);
}

std::optional<HeadLayout> WholeTokens::layout(const std::string& value) const {
  const auto it = work_.tokens.find(value);
  if (!work_.facts.shape(value) || it == work_.tokens.end()) return std::nullopt;
  const Axes& axes = it->second;
  const auto along = std::find(axes.begin(), axes.end(), Axis::kNew);
  const bool alone = std::count(axes.begin(), axes.end(), Axis::kNone) + 1 == static_cast<std::ptrdiff_t>(axes.size());
  if (along == axes.end() || !alone) return std::nullopt;
  const auto at = static_cast<int>(along - axes.begin());
  const auto extent = work_.facts.extents().of((*work_.facts.shape(value))[at]);
  return extent && extent->is_tokens() ? head_layout(work_.facts, value, at) : std::nullopt;
}

std::string smallest_view(const DecoderFacts& facts, const std::string& value, const std::function<bool(const std::string&)>& on_side,
                          const std::function<std::optional<HeadLayout>(const std::string&)>& layout) {
  std::optional<std::tuple<std::int64_t, int, int>> least;
  std::string best;
  std::string at = value;
  for (int steps = 0;; ++steps) {
    if (const auto found = layout(at)) {
      const std::tuple cost{facts.extents().elements(*facts.shape(at)), found->has_heads() ? (found->in_order() ? 0 : 1) : 2, steps};
      if (!least || cost < *least) {
        least = cost;
        best = at;
      }
    }
    const Node* node = facts.producer(at);
    if (!node || !is_view(*node) || !on_side(node->inputs[0])) return best;
    at = node->inputs[0];
  }
}

absl::StatusOr<std::string> WholeTokens::place(const Node& reader, const std::string& value) const {
  std::string best = smallest_view(
      work_.facts, value, [&](const std::string& v) { return work_.is_token(v); }, [&](const std::string& v) { return layout(v); });
  if (best.empty())
    return cannot_cache(reader, fmt::format("'{}' has no dims of batch, heads, tokens and size that a cache could have", value));
  return best;
}

absl::StatusOr<std::string> WholeTokens::whole(const Node& reader, const std::string& value, const std::string& part) {
  if (const auto it = whole_.find(value); it != whole_.end()) return it->second;
  if (work_.options.group_query())
    return cannot_cache(reader,
                        "it is not written as one Attention, which GroupQueryAttention could take the place of; write=scatter_nd "
                        "takes any");
  const bool anew = work_.options.fixed && !work_.own_indices;  // positions are others in each window
  const absl::StatusOr<std::string> at = anew ? above_positions(reader, value) : place(reader, value);
  if (!at.ok()) return at;
  if (!whole_.contains(*at)) {
    absl::StatusOr<std::string> made = cached(reader, *at, part);
    if (!made.ok()) return made;
    whole_[*at] = *std::move(made);
  }
  return remade(reader, value);
}

absl::StatusOr<CacheSlot> SlotNames::next(const Node& reader, const std::string& value, const std::string& part, std::int64_t heads,
                                          std::int64_t size) {
  const int layer = layers_[part]++;
  CacheSlot slot{slot_name(work_.options.past, layer, part),
                 slot_name(work_.options.present, layer, part),
                 heads,
                 size,
                 work_.facts.dtype(value),
                 reader.name};
  FreshNames& fresh = work_.writer.fresh();
  for (const std::string* name : {&slot.past, &slot.present}) {
    if (fresh.taken(*name)) return cannot_cache(reader, fmt::format("'{}' is a value of the model; give another pattern of names", *name));
    fresh.take(*name);
  }
  return slot;
}

// Earlier entries and new ones.
std::string WholeTokens::joined(const CacheSlot& slot, const std::string& now) {
  GraphWriter& w = work_.writer;
  const Attribute along = Attribute::of("axis", std::int64_t{2});
  if (!work_.options.buffer) return w.node("Concat", {slot.past, now}, slot.present, {along}, slot.present);
  if (work_.options.write == CacheOptions::Write::kTensorScatter)
    return w.node("TensorScatter", {slot.past, now, positions_.place_of_rows()}, slot.present, {along}, slot.present);
  return w.node("ScatterND", {slot.past, positions_.places_in_buffer(slot.heads), now}, slot.present, {}, slot.present);
}

absl::StatusOr<std::string> WholeTokens::cached(const Node& reader, const std::string& value, const std::string& part) {
  GraphWriter& w = work_.writer;
  const HeadLayout found = *layout(value);
  absl::StatusOr<CacheSlot> slot = names_.next(reader, value, work_.options.part(part), found.heads, found.size);
  if (!slot.ok()) return slot.status();
  std::string now = joined(*slot, in_cache_order(w, found, value, value));
  if (const auto& fixed = work_.options.fixed; fixed && fixed->sequence < fixed->max_context)
    now = w.node("Slice", {now, w.ints({-fixed->sequence}), w.ints({std::numeric_limits<std::int64_t>::max()}), w.ints({2})},
                 value + "_in_sequence");
  slots_.push_back(*std::move(slot));
  return out_of_cache_order(w, found, now, value);
}

// What is made of cached values, once more at all positions.
absl::StatusOr<std::string> WholeTokens::remade(const Node& reader, const std::string& value) {
  if (const auto it = whole_.find(value); it != whole_.end()) return it->second;
  const Node& node = *work_.facts.producer(value);
  Node copy = node;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (work_.is_token(node.inputs[i])) {
      absl::StatusOr<std::string> input = remade(reader, node.inputs[i]);
      if (!input.ok()) return input;
      copy.inputs[i] = *std::move(input);
    }
  if (one_of(node.op_type, {"Reshape", "Expand"}) && !work_.facts.constant(node.inputs[1])) {
    const auto as_all = [](Axes axes) {
      std::replace(axes.begin(), axes.end(), Axis::kNew, Axis::kAll);
      return axes;
    };
    const bool reshape = node.op_type == "Reshape";
    absl::StatusOr<std::string> shape =
        positions_.sizes(node, *work_.facts.shape(value), as_all(work_.tokens.at(value)),
                         reshape ? work_.facts.shape(node.inputs[0]) : nullptr, as_all(work_.tokens.at(node.inputs[0])));
    if (!shape.ok()) return shape;
    copy.inputs[1] = *std::move(shape);
  }
  const Node& made = work_.writer.copy(std::move(copy));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) whole_[node.outputs[i]] = made.outputs[i];
  return whole_.at(value);
}

// The last values above this one that don't depend on positions, by their place. kFailedPrecondition: tokens must keep their indices.
absl::Status WholeTokens::positional_sources(const std::string& value, std::map<std::size_t, std::string>& found) const {
  if (!work_.positional.contains(value)) {
    found.emplace(work_.facts.place(value), value);
    return absl::OkStatus();
  }
  const Node* node = work_.facts.producer(value);
  const bool passes =
      node && (is_elementwise(*node) || is_view(*node) || has(Trait::kSelection, *node) || is_operator(*node, "RotaryEmbedding"));
  if (!passes) return absl::FailedPreconditionError(fmt::format("'{}' depends on the index of its token", value));
  for (const std::string& input : node->inputs)
    if (work_.is_token(input))
      if (absl::Status s = positional_sources(input, found); !s.ok()) return s;
  return absl::OkStatus();
}

// What the value is made of before positions matter: one value, of which others are parts.
absl::StatusOr<std::string> WholeTokens::above_positions(const Node& reader, const std::string& value) const {
  std::map<std::size_t, std::string> found;
  if (absl::Status s = positional_sources(value, found); !s.ok()) return s;
  while (found.size() > 1) {
    const auto last = std::prev(found.end());
    const Node* node = work_.facts.producer(last->second);
    const bool part = node && (is_view(*node) || has(Trait::kMovement, *node) || is_operator(*node, "Neg"));
    if (!part) return cannot_cache(reader, fmt::format("'{}' is made of several values before positions matter", value));
    found.erase(last);
    found.emplace(work_.facts.place(node->inputs[0]), node->inputs[0]);
  }
  return place(reader, found.begin()->second);
}

}  // namespace saturate
