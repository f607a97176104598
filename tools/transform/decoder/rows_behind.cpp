// Which operators treat entries along an axis one by one, and where their inputs have these entries: as op_axes.inc says.
#include <algorithm>

#include "onnx_bridge/operators/op_axes.h"
#include "tools/transform/cache/node_axes.h"
#include "tools/transform/decoder/last_rows.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

// Sizes in the place of those that a Reshape or an Expand is given, of as many entries along the axis as there will be. nullopt: some size
// is neither a number nor one of the input's.
std::optional<std::vector<std::int64_t>> sizes_behind(const ViewOfTypes& view, const AxisLink& link, bool expands) {
  const Port from{0}, to{0, true};
  const int axis = link.of(to)->axis, before = link.of(from)->axis;
  const auto rank = view.rank(to), own = view.rank(from);
  if (!rank || !own) return std::nullopt;
  const int shift = expands ? *rank - *own : 0;  // the last axes stand on each other
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < *rank; ++i) {
    const int k = i - shift;
    const auto number = view.size(to, i);
    const bool same = i == axis ? k == before : k >= 0 && k < *own && k != before && view.same_sizes(from, k, k + 1, to, i, i + 1);
    if (same)
      sizes.push_back(expands ? 1 : 0);
    else if (i == axis)
      sizes.push_back(-1);
    else if (number && *number > 0)
      sizes.push_back(*number);
    else
      return std::nullopt;
  }
  return sizes;
}

}  // namespace

std::optional<RowsPlan> rows_behind(const Model& model, const std::map<std::string, ValueType>& types, const Node& node, int axis) {
  const ViewOfTypes view(model, types, node);
  if (!view.has({0, true})) return std::nullopt;
  const auto axes = axes_of(view);
  const AxisLink* link = axes ? axes->apart({0, true}, axis) : nullptr;
  if (!link) return std::nullopt;
  RowsPlan plan{InputRows(node.inputs.size())};
  for (const AxisAt& at : link->inputs)
    if (!at.one) plan.inputs[static_cast<std::size_t>(at.port.index)] = at.axis;
  plan.of_first_output = link->outputs.size() == 1 && node.outputs.size() > 1;
  for (int i = 1; i < view.outputs() && !plan.of_first_output; ++i)
    if (const AxisAt* at = link->of({i, true}); view.has({i, true}) && (!at || at->axis != axis)) return std::nullopt;
  if (!axes->sizes) return plan;
  if (*axes->sizes != 1) return std::nullopt;
  plan.shape = sizes_behind(view, *link, node.op_type == "Expand");
  return plan.shape ? std::optional(std::move(plan)) : std::nullopt;
}

}  // namespace saturate
