#include "tools/transform/cache/node_axes.h"

#include <algorithm>
#include <span>
#include <utility>

#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/edit.h"

namespace saturate {

std::optional<int> ViewOfTypes::rank(Port port) const {
  const auto found = rank_of(types_, name(port));
  return found ? std::optional(static_cast<int>(*found)) : std::nullopt;
}

std::optional<std::int64_t> ViewOfTypes::size(Port port, int axis) const {
  const auto* number = std::get_if<std::int64_t>(&(*types_.at(name(port)).shape)[static_cast<std::size_t>(axis)]);
  return number ? std::optional(*number) : std::nullopt;
}

bool ViewOfTypes::same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const {
  // Numbers and names of a product.
  const auto product = [&](Port port, int first, int last) -> std::optional<std::pair<std::int64_t, std::vector<std::string>>> {
    std::pair<std::int64_t, std::vector<std::string>> out{1, {}};
    for (int i = first; i < last; ++i) {
      const DimSpec& dim = (*types_.at(name(port)).shape)[static_cast<std::size_t>(i)];
      if (const auto* number = std::get_if<std::int64_t>(&dim))
        out.first *= *number;
      else if (const auto* text = std::get_if<std::string>(&dim))
        out.second.push_back(*text);
      else
        return std::nullopt;
    }
    std::sort(out.second.begin(), out.second.end());
    return out;
  };
  const auto one = product(a, a_first, a_last), other = product(b, b_first, b_last);
  return one && one == other;
}

std::optional<std::vector<std::int64_t>> ViewOfTypes::ints(int input) const { return constant_ints(model_.graph, name({input})); }

ViewOfFacts::ViewOfFacts(const DecoderFacts& facts, const Node& node) : NodeView(node, facts.opset(node.domain)), facts_(facts) {}

std::optional<int> ViewOfFacts::rank(Port port) const {
  return facts_.shape(name(port)) ? std::optional(facts_.rank(name(port))) : std::nullopt;
}

std::optional<std::int64_t> ViewOfFacts::size(Port port, int axis) const {
  return facts_.dims().value((*facts_.shape(name(port)))[static_cast<std::size_t>(axis)]);
}

Dim ViewOfFacts::product(Port port, int first, int last) const {
  const std::span<const Dim> dims(*facts_.shape(name(port)));
  return facts_.dims().product(dims.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)));
}

bool ViewOfFacts::same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const {
  return facts_.dims().equal(product(a, a_first, a_last), product(b, b_first, b_last));
}

std::optional<std::vector<std::int64_t>> ViewOfFacts::ints(int input) const { return facts_.ints(name({input})); }

std::optional<std::vector<SameAxes>> same_axes(const DecoderFacts& facts, const Node& node) {
  const ViewOfFacts view(facts, node);
  const auto found = axes_of(view);
  if (!found) return std::nullopt;
  std::vector<SameAxes> out;
  const auto value = [&](Port port) { return (port.output ? node.outputs : node.inputs)[static_cast<std::size_t>(port.index)]; };
  for (const AxisLink& link : found->links) {
    std::vector<AxisAt> all = link.outputs;  // first: sizes of a result are those of most inputs
    all.insert(all.end(), link.inputs.begin(), link.inputs.end());
    SameAxes same{{}, link.apart ? SameAxes::Kind::kApart : SameAxes::Kind::kTogether};
    for (const AxisAt& at : all)
      if (!at.one && view.same_sizes(all[0].port, all[0].axis, all[0].axis + 1, at.port, at.axis, at.axis + 1))
        same.axes.push_back({value(at.port), at.axis});
    out.push_back(std::move(same));
  }
  if (!has(Trait::kLikeFirst, node)) return out;
  for (int k = 0; k < facts.rank(node.inputs[0]); ++k)  // in the order of the input's, whatever is made of them
    if (!found->link({0, true}, k)) out.push_back({{{node.inputs[0], k}, {node.outputs[0], k}}, SameAxes::Kind::kInOrder});
  return out;
}

}  // namespace saturate
