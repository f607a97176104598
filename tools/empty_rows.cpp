#include "tools/empty_rows.h"

#include <algorithm>
#include <set>

namespace saturate {
namespace {

constexpr double kHidden = -5000;  // masks fill with -10000 and less, to which scores may have been added

// Rows along the axis of a Softmax; before opset 13 all axes from it on are one row.
bool has_empty_row(const Tensor& scores, std::int64_t axis, bool to_the_end) {
  const Shape& dims = scores.dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || scores.size() == 0) return false;
  std::int64_t length = 1, step = 1;
  for (std::int64_t d = axis; d < rank; ++d) (d == axis || to_the_end ? length : step) *= dims[static_cast<std::size_t>(d)];
  const auto hidden = [&](std::int64_t row) {
    for (std::int64_t i = 0; i < length; ++i)
      if (element_as_double(scores, row / step * length * step + i * step + row % step).value_or(0) > kHidden) return false;
    return true;
  };
  for (std::int64_t row = 0; row < scores.size() / length; ++row)
    if (hidden(row)) return true;
  return false;
}

}  // namespace

bool has_empty_row(const Model& model, const Inputs& inputs, const SessionOptions& options) {
  Model watched = model;
  std::set<std::string> inner;
  for (const Node& node : model.graph.nodes) inner.insert(node.outputs.begin(), node.outputs.end());
  for (const ValueInfo& output : model.graph.outputs) inner.erase(output.name);
  std::vector<const Node*> readers;
  watched.graph.outputs.clear();
  for (const Node& node : model.graph.nodes)
    if (node.domain.empty() && node.op_type == "Softmax" && inner.contains(node.inputs[0])) {
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
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const Attribute* axis = find_attribute(readers[i]->attributes, "axis");
    if ((*values)[i].is_tensor() && has_empty_row((*values)[i].tensor(), axis ? axis->i() : old ? 1 : -1, old)) return true;
  }
  return false;
}

}  // namespace saturate
