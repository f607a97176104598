// Operators of which a line of op_axes.inc can't say where their axes go: by constants, sizes, or an equation.
#include <algorithm>
#include <string>

#include "onnx_bridge/operators/op_axes_labels.h"

namespace saturate {
namespace {

constexpr Port kFirstInput{0}, kFirstOutput{0, true};

// Labels of an input of so many axes, from `first` on.
AxisLabels numbered_axes(int rank, int first = 1) {
  AxisLabels out;
  for (int i = 0; i < rank; ++i) out.push_back({first + i});
  return out;
}

OpLabels labels_of_first(const OpView& op, AxisLabels from, const AxisLabels& to) {
  OpLabels out{.inputs = std::vector<AxisLabels>(static_cast<std::size_t>(op.inputs())), .outputs = {}};
  out.inputs[0] = std::move(from);
  out.outputs.assign(static_cast<std::size_t>(op.outputs()), to);
  return out;
}

// All axes of the first input stay in their places but these.
OpLabels all_but(const OpView& op, int rank, const std::vector<bool>& gone) {
  AxisLabels labels = numbered_axes(rank);
  for (std::size_t i = 0; i < gone.size(); ++i)
    if (gone[i]) labels[i] = {};
  return labels_of_first(op, labels, labels);
}

std::optional<std::vector<bool>> marked_axes(const std::vector<std::int64_t>& axes, int rank) {
  std::vector<bool> out(static_cast<std::size_t>(rank));
  for (const std::int64_t axis : axes) {
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) return std::nullopt;
    out[static_cast<std::size_t>(at)] = true;
  }
  return out;
}

// Axes of an attribute, or of an input of newer versions; empty: neither is given. nullopt: no constant, or no axes of this rank.
struct ListedAxes {
  bool given = false;
  std::vector<bool> at;
  bool contains(int axis) const { return at[static_cast<std::size_t>(axis)]; }
};
std::optional<ListedAxes> listed_axes(const OpView& op, int input, int rank) {
  const Attribute* attribute = op.attribute("axes");
  const bool as_input = !attribute && input >= 0 && op.has({input});
  if (!attribute && !as_input) return ListedAxes{false, std::vector<bool>(static_cast<std::size_t>(rank))};
  const auto* ints = attribute ? std::get_if<std::vector<std::int64_t>>(&attribute->value) : nullptr;
  const auto axes = ints ? std::optional(*ints) : as_input ? op.ints(input) : std::nullopt;
  auto at = axes ? marked_axes(*axes, rank) : std::nullopt;
  if (!at) return std::nullopt;
  return ListedAxes{!axes->empty(), *std::move(at)};
}

std::optional<int> known_rank(const OpView& op, Port port) { return op.has(port) ? op.rank(port) : std::nullopt; }

// Axes that are not taken out, in their order.
AxisLabels axes_left(const AxisLabels& labels, const std::vector<bool>& gone) {
  AxisLabels out;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (!gone[i]) out.push_back(labels[i]);
  return out;
}

}  // namespace

std::optional<OpLabels> by_perm(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  if (!rank) return std::nullopt;
  AxisLabels from = numbered_axes(*rank), to(from.rbegin(), from.rend());
  if (const Attribute* perm = op.attribute("perm")) {
    if (perm->ints().size() != from.size() || !marked_axes(perm->ints(), *rank)) return std::nullopt;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[static_cast<std::size_t>(perm->ints()[i])];
  }
  return labels_of_first(op, std::move(from), to);
}

std::optional<OpLabels> by_sizes(const OpView& op) {
  const auto from = known_rank(op, kFirstInput), to = known_rank(op, kFirstOutput);
  if (!from || !to) return std::nullopt;
  AxisLabels labels = numbered_axes(*from), result(static_cast<std::size_t>(*to));
  for (int i = 0, next = 0; i < *from; ++i)
    for (int k = next; k < *to; ++k)
      if (op.same_sizes(kFirstInput, i, i + 1, kFirstOutput, k, k + 1) &&
          op.same_sizes(kFirstInput, i + 1, *from, kFirstOutput, k + 1, *to)) {
        result[static_cast<std::size_t>(k)] = labels[static_cast<std::size_t>(i)];
        next = k + 1;
        break;
      }
  OpLabels out = labels_of_first(op, std::move(labels), result);
  if (op.inputs() > 1) out.sizes = 1;
  return out;
}

// Without axes, one of which a single place is left goes, too: its places are together.
std::optional<OpLabels> by_squeezed(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  auto axes = rank ? listed_axes(op, 1, *rank) : std::nullopt;
  if (!axes) return std::nullopt;
  AxisLabels from = numbered_axes(*rank);
  if (!axes->given) {
    for (int i = 0; i < *rank; ++i) axes->at[static_cast<std::size_t>(i)] = op.size(kFirstInput, i) == 1;
    for (AxisLabel& label : from) label.together = true;
  }
  AxisLabels to = axes_left(from, axes->at);
  const auto result = known_rank(op, kFirstOutput);
  if (!axes->given && (!result || to.size() != static_cast<std::size_t>(*result))) return std::nullopt;  // some size is not known
  return labels_of_first(op, std::move(from), to);
}

std::optional<OpLabels> by_added(const OpView& op) {
  const auto from = known_rank(op, kFirstInput), to = known_rank(op, kFirstOutput);
  const auto axes = to ? listed_axes(op, 1, *to) : std::nullopt;
  if (!from || !axes || *to - *from != std::count(axes->at.begin(), axes->at.end(), true)) return std::nullopt;
  AxisLabels labels = numbered_axes(*from), result(static_cast<std::size_t>(*to));
  for (int k = 0, i = 0; k < *to; ++k)
    if (!axes->contains(k)) result[static_cast<std::size_t>(k)] = labels[static_cast<std::size_t>(i++)];
  return labels_of_first(op, std::move(labels), result);
}

std::optional<OpLabels> by_broadcast(const OpView& op) {
  const auto from = known_rank(op, kFirstInput), to = known_rank(op, kFirstOutput);
  if (!from || !to || *from > *to) return std::nullopt;
  AxisLabels labels = numbered_axes(*from), result(static_cast<std::size_t>(*to));
  for (int i = 0; i < *from; ++i) {
    labels[static_cast<std::size_t>(i)].alike = true;  // one entry may become several
    result[static_cast<std::size_t>(i + *to - *from)] = labels[static_cast<std::size_t>(i)];
  }
  OpLabels out = labels_of_first(op, std::move(labels), result);
  out.sizes = 1;
  return out;
}

std::optional<OpLabels> by_repeats(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  const auto times = rank && op.has({1}) ? op.ints(1) : std::nullopt;
  if (!rank) return std::nullopt;
  std::vector<bool> repeated(static_cast<std::size_t>(*rank), true);
  for (int i = 0; i < *rank; ++i)
    if (times && times->size() == repeated.size()) repeated[static_cast<std::size_t>(i)] = (*times)[static_cast<std::size_t>(i)] != 1;
  OpLabels out = all_but(op, *rank, repeated);
  for (int i = 0; i < *rank; ++i)
    if (!times) {  // what has as many entries as before is repeated once
      const AxisLabel same{i + 1, false, true};
      out.inputs[0][static_cast<std::size_t>(i)] = out.outputs[0][static_cast<std::size_t>(i)] = same;
    }
  return out;
}

std::optional<OpLabels> by_reduced(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  const auto axes = rank ? listed_axes(op, 1, *rank) : std::nullopt;
  if (!axes) return std::nullopt;
  AxisLabels labels = numbered_axes(*rank);
  if (!axes->given && int_of(op, "noop_with_empty_axes").value_or(0) != 0) return labels_of_first(op, labels, labels);
  std::vector<bool> gone = axes->given ? axes->at : std::vector<bool>(static_cast<std::size_t>(*rank), true);
  AxisLabels result = labels;
  for (std::size_t i = 0; i < gone.size(); ++i)
    if (gone[i]) {
      labels[i].together = true;
      result[i] = {};
    }
  if (int_of(op, "keepdims").value_or(1) == 0) result = axes_left(result, gone);
  return labels_of_first(op, std::move(labels), result);
}

std::optional<OpLabels> by_starts(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  if (!rank) return std::nullopt;
  const bool as_inputs = op.has({1});
  const auto axes = listed_axes(op, 3, *rank);
  if (!axes) return std::nullopt;
  std::vector<bool> cut = axes->at;
  if (!axes->given) {
    const Attribute* attribute = op.attribute("starts");
    const auto starts = as_inputs ? op.ints(1) : attribute ? std::optional(attribute->ints()) : std::nullopt;
    for (int i = 0; i < *rank; ++i) cut[static_cast<std::size_t>(i)] = !starts || i < static_cast<int>(starts->size());
  }
  OpLabels out = all_but(op, *rank, cut);
  const auto steps = op.has({4}) ? op.ints(4) : std::optional(std::vector<std::int64_t>());
  const bool forward = steps && std::all_of(steps->begin(), steps->end(), [](std::int64_t step) { return step > 0; });
  for (int i = 0; i < *rank && forward; ++i)
    if (cut[static_cast<std::size_t>(i)])  // of which nothing may be cut off; more places could be
      out.inputs[0][static_cast<std::size_t>(i)] = out.outputs[0][static_cast<std::size_t>(i)] = {i + 1, true, true};
  return out;
}

std::optional<OpLabels> by_listed(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  const auto axes = rank && op.has({1}) ? op.ints(1) : std::nullopt;
  const auto gone = axes ? marked_axes(*axes, *rank) : std::nullopt;
  return gone ? std::optional(all_but(op, *rank, *gone)) : std::nullopt;
}

std::optional<OpLabels> by_axes(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  const auto axes = rank ? listed_axes(op, -1, *rank) : std::nullopt;
  if (!axes) return std::nullopt;
  return all_but(op, *rank, axes->given ? axes->at : std::vector<bool>(static_cast<std::size_t>(*rank), true));
}

std::optional<OpLabels> by_normalized(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  const auto axes = rank ? listed_axes(op, -1, *rank) : std::nullopt;
  if (!axes) return std::nullopt;
  AxisLabels labels = numbered_axes(*rank);
  for (int i = 0; i < *rank; ++i) labels[static_cast<std::size_t>(i)].together = axes->given ? axes->contains(i) : i != 1;
  return labels_of_first(op, labels, labels);
}

std::optional<OpLabels> by_pads(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  if (!rank) return std::nullopt;
  const Attribute* attribute = op.attribute("pads");
  const auto pads = attribute ? std::optional(attribute->ints()) : op.has({1}) ? op.ints(1) : std::nullopt;
  const auto axes = op.has({3}) ? op.ints(3) : std::nullopt;
  if (!pads || (op.has({3}) && !axes)) return std::nullopt;
  std::vector<bool> padded(static_cast<std::size_t>(*rank));
  const std::size_t count = pads->size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t at = axes && i < axes->size() ? (*axes)[i] + ((*axes)[i] < 0 ? *rank : 0) : static_cast<std::int64_t>(i);
    if (at < 0 || at >= *rank) return std::nullopt;
    if ((*pads)[i] != 0 || (*pads)[i + count] != 0) padded[static_cast<std::size_t>(at)] = true;
  }
  return all_but(op, *rank, padded);
}

// An axis whose size stays is not resampled, wherever between its entries the results stand.
std::optional<OpLabels> by_scales(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  if (!rank) return std::nullopt;
  const auto mode = text_of(op, "coordinate_transformation_mode");
  if (mode && mode->starts_with("tf_crop")) return all_but(op, *rank, std::vector<bool>(static_cast<std::size_t>(*rank), true));
  OpLabels out = all_but(op, *rank, {});
  for (std::size_t i = 0; i < out.inputs[0].size(); ++i) out.inputs[0][i].alike = out.outputs[0][i].alike = true;
  if (op.has({3})) {
    if (op.attribute("axes")) return all_but(op, *rank, std::vector<bool>(static_cast<std::size_t>(*rank), true));
    out.sizes = 3;
  }
  return out;
}

std::optional<OpLabels> by_equation(const OpView& op) {
  const auto text = text_of(op, "equation");
  if (!text) return std::nullopt;
  std::string equation;
  std::copy_if(text->begin(), text->end(), std::back_inserter(equation), [](char c) { return c != ' '; });
  const auto arrow = equation.find("->");
  if (arrow == std::string::npos) return std::nullopt;
  const std::string result = equation.substr(arrow + 2);
  const auto labels = [&](std::string_view term, int rank) -> std::optional<AxisLabels> {
    AxisLabels out;
    const auto dots = term.find("...");
    const int left = rank - static_cast<int>(term.size()) + (dots == term.npos ? 0 : 3);
    if (left < 0 || (dots == term.npos && left > 0)) return std::nullopt;
    for (std::size_t i = 0; i < term.size(); ++i) {
      if (term[i] != '.') {
        out.push_back({static_cast<unsigned char>(term[i]), result.find(term[i]) == std::string::npos, true});
        continue;
      }
      for (int k = left; k-- > 0;) out.push_back({256 + k, result.find('.') == std::string::npos});
      i += 2;
    }
    return out;
  };
  OpLabels out;
  std::string_view terms = std::string_view(equation).substr(0, arrow);
  for (int i = 0; i < op.inputs(); ++i) {
    const std::string_view term = terms.substr(0, terms.find(','));
    terms.remove_prefix(std::min(terms.size(), term.size() + 1));
    const auto rank = known_rank(op, {i});
    const auto found = rank ? labels(term, *rank) : std::nullopt;
    if (!found) return std::nullopt;
    out.inputs.push_back(*found);
  }
  const auto rank = known_rank(op, kFirstOutput);
  const auto found = rank ? labels(result, *rank) : std::nullopt;
  if (!found) return std::nullopt;
  out.outputs.push_back(*found);
  return out;
}

// Batch dims, those of the indices, and those behind what the indices count in.
std::optional<OpLabels> by_depth(const OpView& op) {
  const auto data = known_rank(op, kFirstInput), indices = known_rank(op, {1});
  const auto depth = indices && *indices > 0 ? op.size({1}, *indices - 1) : std::nullopt;
  if (!data || !indices || !depth) return std::nullopt;
  const auto batch = static_cast<int>(int_of(op, "batch_dims").value_or(0)), counted = static_cast<int>(*depth);
  if (batch < 0 || batch >= *indices || batch + counted > *data) return std::nullopt;
  AxisLabels of_data = numbered_axes(*data), of_indices = numbered_axes(*indices, 100), result;
  for (int i = 0; i < batch; ++i) of_indices[static_cast<std::size_t>(i)] = of_data[static_cast<std::size_t>(i)];
  for (int i = batch; i < batch + counted; ++i) of_data[static_cast<std::size_t>(i)] = {};
  of_indices.back() = {};
  result.assign(of_indices.begin(), of_indices.end() - 1);
  result.insert(result.end(), of_data.begin() + batch + counted, of_data.end());
  OpLabels out = labels_of_first(op, std::move(of_data), result);
  out.inputs[1] = std::move(of_indices);
  return out;
}

// Axes behind what the indices count in are apart; the order of the updates does not matter.
std::optional<OpLabels> by_updates(const OpView& op) {
  const auto data = known_rank(op, kFirstInput), indices = known_rank(op, {1});
  const auto depth = indices && *indices > 0 ? op.size({1}, *indices - 1) : std::nullopt;
  if (!data || !depth || *depth > *data) return std::nullopt;
  const auto counted = static_cast<std::ptrdiff_t>(*depth);
  AxisLabels of_data = numbered_axes(*data), of_indices = numbered_axes(*indices, 100), updates;
  for (AxisLabel& label : of_indices) label.together = true;
  of_indices.back() = {};
  std::fill(of_data.begin(), of_data.begin() + counted, AxisLabel{});
  updates.assign(of_indices.begin(), of_indices.end() - 1);
  updates.insert(updates.end(), of_data.begin() + counted, of_data.end());
  OpLabels out = labels_of_first(op, of_data, of_data);
  out.inputs[1] = std::move(of_indices);
  out.inputs[2] = std::move(updates);
  return out;
}

std::optional<OpLabels> by_signal(const OpView& op) {
  const auto rank = known_rank(op, kFirstInput);
  if (!rank || *rank < 2) return std::nullopt;
  const auto given = op.has({2}) ? op.ints(2) : std::optional(std::vector<std::int64_t>{int_of(op, "axis").value_or(-2)});
  auto gone = given ? marked_axes(*given, *rank) : std::nullopt;
  if (!gone) return std::nullopt;
  gone->back() = true;  // real and imaginary part
  return all_but(op, *rank, *gone);
}

// Tensor, scale and zero point of each.
std::optional<OpLabels> by_threes(const OpView& op) {
  const auto rank = known_rank(op, kFirstOutput);
  const auto axis = int_of(op, "axis");
  const auto gone = rank && axis ? marked_axes({*axis}, *rank) : std::nullopt;
  if (!gone) return std::nullopt;
  OpLabels out = all_but(op, *rank, *gone);
  const AxisLabels labels = out.outputs[0];
  out.inputs[0].clear();
  for (std::size_t i = 2; i < out.inputs.size(); i += 3) out.inputs[i] = labels;
  return out;
}

// Entries of the indices; of the data those along which no block goes.
std::optional<OpLabels> by_blocks(const OpView& op) {
  const auto data = known_rank(op, kFirstInput), indices = known_rank(op, {1}), result = known_rank(op, kFirstOutput);
  if (!data || !indices || !result) return std::nullopt;
  const auto at = [&](std::string_view name, std::int64_t otherwise) {
    const std::int64_t axis = int_of(op, name).value_or(otherwise);
    return static_cast<int>(axis < 0 ? axis + *data : axis);
  };
  const int gathered = at("gather_axis", 0), blocked = at("quantize_axis", 1);
  AxisLabels of_data = numbered_axes(*data), of_indices = numbered_axes(*indices, 100);
  if (gathered < 0 || gathered >= *data || blocked < 0 || blocked >= *data) return std::nullopt;
  of_data[static_cast<std::size_t>(gathered)] = of_data[static_cast<std::size_t>(blocked)] = of_data.back() = {};
  AxisLabels to(of_data.begin(), of_data.begin() + gathered);
  to.insert(to.end(), of_indices.begin(), of_indices.end());
  to.insert(to.end(), of_data.begin() + gathered + 1, of_data.end());
  OpLabels out = labels_of_first(op, of_data, to);
  out.inputs[1] = std::move(of_indices);
  for (std::size_t i = 2; i < out.inputs.size(); ++i)
    if (op.has({static_cast<int>(i)})) out.inputs[i] = of_data;
  return out;
}

}  // namespace saturate
