#include "kernels/compare/empty_rows.h"

#include <algorithm>
#include <limits>
#include <set>

namespace saturate {
namespace {

constexpr double kFill = -5000;  // masks fill with -10000 and less, to which scores may have been added

// Rows along the axis of a Softmax, in which no score lies above `most`; before opset 13 all axes from it on are one row.
bool has_row_below(const Tensor& scores, double most, std::int64_t axis, bool to_the_end) {
  const Shape& dims = scores.dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || scores.size() == 0) return false;
  std::int64_t length = 1, step = 1;
  for (std::int64_t d = axis; d < rank; ++d) (d == axis || to_the_end ? length : step) *= dims[static_cast<std::size_t>(d)];
  const auto hidden = [&](std::int64_t row) {
    for (std::int64_t i = 0; i < length; ++i)
      if (!(element_as_double(scores, row / step * length * step + i * step + row % step).value_or(0) <= most)) return false;
    return true;
  };
  for (std::int64_t row = 0; row < scores.size() / length; ++row)
    if (hidden(row)) return true;
  return false;
}

// Whether all that reads the value asks whether it is NaN, or chooses.
bool is_guarded(const Graph& graph, const std::string& name) {
  bool read = false;
  for (const Node& node : graph.nodes) {
    if (std::find(node.inputs.begin(), node.inputs.end(), name) == node.inputs.end()) continue;
    read = true;
    if (!node.domain.empty()) return false;
    if (one_of(node.op_type, {"Cast", "Identity"}) ? !is_guarded(graph, node.outputs[0]) : !one_of(node.op_type, {"IsNaN", "Where"}))
      return false;
  }
  return read;
}

}  // namespace

bool has_hidden_row(const Model& model, const Inputs& inputs, const SessionOptions& options, HiddenBy by) {
  Model watched = model;
  std::set<std::string> inner;
  for (const Node& node : model.graph.nodes) inner.insert(node.outputs.begin(), node.outputs.end());
  for (const ValueInfo& output : model.graph.outputs) inner.erase(output.name);
  std::vector<const Node*> readers;
  watched.graph.outputs.clear();
  for (const Node& node : model.graph.nodes)
    if (node.domain.empty() && node.op_type == "Softmax" && inner.contains(node.inputs[0]) &&
        !(by == HiddenBy::kInfinity && is_guarded(model.graph, node.outputs[0]))) {
      readers.push_back(&node);
      ValueInfo scores;
      scores.name = node.inputs[0];
      watched.graph.outputs.push_back(std::move(scores));
      inner.erase(node.inputs[0]);
    }
  if (readers.empty()) return false;
  const auto session = Session::create(watched, options);
  if (!session.ok()) return false;
  const auto values = session->run(inputs);
  if (!values.ok()) return false;
  const bool old = model.opset("") < 13;
  const double most = by == HiddenBy::kInfinity ? -std::numeric_limits<double>::infinity() : kFill;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const Attribute* axis = find_attribute(readers[i]->attributes, "axis");
    if ((*values)[i].is_tensor() && has_row_below((*values)[i].tensor(), most, axis ? axis->i() : old ? 1 : -1, old)) return true;
  }
  return false;
}

}  // namespace saturate
