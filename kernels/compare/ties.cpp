#include "kernels/compare/ties.h"

#include <algorithm>
#include <cmath>

#include "kernels/compare/compare.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

// The operator whose places the output hands on as they are, in the same order.
const Node* finder_of(const Graph& graph, std::string value) {
  for (int depth = 0; depth < 16; ++depth) {
    const Node* node = producer_of(graph, value);
    if (!node || !node->domain.empty() || node->inputs.empty()) return nullptr;
    if (node->op_type == "ArgMax" || node->op_type == "ArgMin") return node;
    if (node->op_type == "TopK") return node->outputs.size() > 1 && node->outputs[1] == value ? node : nullptr;
    if (!has(Trait::kView, *node) && node->op_type != "Cast") return nullptr;
    value = node->inputs[0];
  }
  return nullptr;
}

std::optional<Tensor> value_of(const Model& model, const std::string& name, const Inputs& inputs, const SessionOptions& options) {
  if (const auto given = inputs.find(name); given != inputs.end())
    return given->second.is_tensor() ? std::optional(given->second.tensor()) : std::nullopt;
  Model watched = model;
  watched.graph.outputs.clear();
  ValueInfo info;
  info.name = name;
  watched.graph.outputs.push_back(std::move(info));
  const auto session = Session::create(watched, options);
  if (!session.ok()) return std::nullopt;
  const auto values = session->run(inputs);
  return values.ok() && (*values)[0].is_tensor() ? std::optional((*values)[0].tensor()) : std::nullopt;
}

// The searched tensor seen as [outer, length, inner] around the axis.
struct Searched {
  Tensor tensor;
  std::int64_t outer = 1, length = 1, inner = 1;
  double at(std::int64_t o, std::int64_t place, std::int64_t i) const {
    return element_as_double(tensor, (o * length + place) * inner + i).value_or(NAN);
  }
  // The size that rounding is told by: of the largest number beside it.
  double size(std::int64_t o, std::int64_t i) const {
    double largest = 0;
    for (std::int64_t k = 0; k < length; ++k)
      if (const double x = std::abs(at(o, k, i)); std::isfinite(x)) largest = std::max(largest, x);
    return largest;
  }
};

std::optional<Searched> searched_by(const Node& node, Tensor tensor) {
  const Attribute* given = find_attribute(node.attributes, "axis");
  std::int64_t axis = given && given->type == AttributeType::kInt ? given->i() : node.op_type == "TopK" ? -1 : 0;
  const Shape dims = tensor.dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || tensor.size() == 0) return std::nullopt;
  Searched out{std::move(tensor)};
  for (std::int64_t k = 0; k < rank; ++k) (k < axis ? out.outer : k == axis ? out.length : out.inner) *= dims[static_cast<std::size_t>(k)];
  return out;
}

}  // namespace

bool differs_by_ties(const Model& model, const std::string& output, const Inputs& inputs, const SessionOptions& options,
                     const Tensor& wanted, const Tensor& got) {
  const Node* node = finder_of(model.graph, output);
  if (!node || wanted.dims() != got.dims() || wanted.dtype() != got.dtype()) return false;
  std::optional<Tensor> tensor = value_of(model, node->inputs[0], inputs, options);
  const std::optional<Searched> searched = tensor ? searched_by(*node, *std::move(tensor)) : std::nullopt;
  if (!searched || !is_floating(searched->tensor.dtype()) || wanted.size() % (searched->outer * searched->inner) != 0) return false;
  const std::int64_t found = wanted.size() / (searched->outer * searched->inner);  // for each row: 1, or the k of TopK
  const double share = 0.1 * dtype_tolerance(searched->tensor.dtype());
  for (std::int64_t e = 0; e < wanted.size(); ++e) {
    const auto a = element_as_int(wanted, e), b = element_as_int(got, e);
    if (a == b) continue;
    const auto is_place = [&](const std::optional<std::int64_t>& place) { return place && *place >= 0 && *place < searched->length; };
    if (!is_place(a) || !is_place(b)) return false;
    const std::int64_t o = e / (found * searched->inner), i = e % searched->inner;
    const double x = searched->at(o, *a, i), y = searched->at(o, *b, i);
    if (x != y && !(std::abs(x - y) <= share * searched->size(o, i))) return false;
  }
  return true;
}

bool searches_an_input(const Model& model, const std::string& output) {
  const Node* node = finder_of(model.graph, output);
  for (int depth = 0; node && depth < 16; ++depth) {
    const Node* maker = producer_of(model.graph, node->inputs[0]);
    if (!maker)
      return std::any_of(model.graph.inputs.begin(), model.graph.inputs.end(),
                         [&](const ValueInfo& i) { return i.name == node->inputs[0]; });
    if (!has(Trait::kMovement, *maker) && !has(Trait::kKeepsMagnitude, *maker)) return false;
    node = maker;
  }
  return false;
}

}  // namespace saturate
