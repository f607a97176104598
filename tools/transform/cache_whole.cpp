// Keys and values: where they are cached, and what is made of them at all positions.
#include <algorithm>
#include <limits>

#include "fmt/format.h"
#include "tools/transform/cache_parts.h"

namespace saturate {
namespace {

bool is_view(const Node& node) {
  return node.domain.empty() && one_of(node.op_type, {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Identity"});
}

}  // namespace

std::optional<WholeTokens::Layout> WholeTokens::layout(const std::string& value) const {
  const std::vector<Dim>* dims = work_.facts.shape(value);
  const auto it = work_.tokens.find(value);
  if (!dims || it == work_.tokens.end()) return std::nullopt;
  Layout found;
  std::vector<std::int64_t> others, sizes;
  std::int64_t tokens = -1, at = 0;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    const auto extent = work_.facts.extents().of((*dims)[i]);
    if (!extent) return std::nullopt;
    if (it->second[i] == Axis::kNew) {
      if (tokens >= 0 || !extent->is_tokens()) return std::nullopt;
      tokens = at++;
    } else if (i == 0) {
      if (it->second[i] != Axis::kNone || (extent->batches > 0 && extent->factor != 1)) return std::nullopt;
      ++at;
    } else if (!extent->is_number() || it->second[i] != Axis::kNone) {
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

// Among the value and what it is a view of, the smallest that has a layout; of equal ones that with heads, and in the cache's order.
absl::StatusOr<std::string> WholeTokens::place(const Node& reader, const std::string& value) const {
  std::optional<std::tuple<std::int64_t, int, int>> least;
  std::string best;
  std::string at = value;
  for (int steps = 0;; ++steps) {
    if (const auto found = layout(at)) {
      const std::tuple cost{work_.facts.extents().elements(*work_.facts.shape(at)),
                            found->order.size() == 4 ? (found->in_order() ? 0 : 1) : 2, steps};
      if (!least || cost < *least) {
        least = cost;
        best = at;
      }
    }
    const Node* node = work_.facts.producer(at);
    if (!node || !is_view(*node) || !work_.is_token(node->inputs[0])) break;
    at = node->inputs[0];
  }
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

absl::StatusOr<CacheSlot> WholeTokens::new_slot(const Node& reader, const std::string& value, const std::string& part, std::int64_t heads,
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
  const Layout found = *layout(value);
  absl::StatusOr<CacheSlot> slot = new_slot(reader, value, part, found.heads, found.size);
  if (!slot.ok()) return slot.status();
  const bool has_heads = found.order.size() == 4;
  std::string now = value;
  if (!found.ones.empty()) now = w.node("Squeeze", {now, w.ints(found.ones)}, value + "_without_ones");
  if (!found.in_order()) now = w.node("Transpose", {now}, value + "_by_head", {Attribute::of("perm", found.order)});
  if (!has_heads) now = w.node("Unsqueeze", {now, w.ints({1})}, value + "_one_head");
  now = joined(*slot, now);
  if (const auto& fixed = work_.options.fixed; fixed && fixed->sequence < fixed->max_context)
    now = w.node("Slice", {now, w.ints({-fixed->sequence}), w.ints({std::numeric_limits<std::int64_t>::max()}), w.ints({2})},
                 value + "_in_sequence");
  if (!has_heads) now = w.node("Squeeze", {now, w.ints({1})}, value + "_all");
  if (!found.in_order()) {
    std::vector<std::int64_t> back(found.order.size());
    for (std::size_t i = 0; i < back.size(); ++i) back[found.order[i]] = static_cast<std::int64_t>(i);
    now = w.node("Transpose", {now}, value + "_all", {Attribute::of("perm", back)});
  }
  if (!found.ones.empty()) now = w.node("Unsqueeze", {now, w.ints(found.ones)}, value + "_with_ones");
  slots_.push_back(*std::move(slot));
  return now;
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
  const bool passes = node && (is_elementwise(*node) || is_view(*node) ||
                               (node->domain.empty() && one_of(node->op_type, {"RotaryEmbedding", "Concat", "Slice", "Split", "Gather"})));
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
    const bool part = node && (is_view(*node) || (node->domain.empty() && one_of(node->op_type, {"Slice", "Split", "Neg"})));
    if (!part) return cannot_cache(reader, fmt::format("'{}' is made of several values before positions matter", value));
    found.erase(last);
    found.emplace(work_.facts.place(node->inputs[0]), node->inputs[0]);
  }
  return place(reader, found.begin()->second);
}

}  // namespace saturate
