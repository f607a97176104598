#include "rules/native/axes.h"

#include "onnx_bridge/operators/op_table.h"

namespace saturate::native {

std::int64_t ViewOfOperator::opset() const {
  if (key_.version != 0) return key_.version;
  return key_.domain.empty() ? kNewestOpset : 1;
}

bool ViewOfOperator::has(Port port) const {
  if (port.output) return port.index == 0;
  return port.index < inputs() && !is_absent(port.index);
}

bool ViewOfOperator::is_absent(int input) const {
  const EGraph& e = views_.g.egraph();
  for (const NodeId n : e.class_nodes(inputs_[static_cast<std::size_t>(input)]))
    if (views_.g.key(e.node(n).op).op_type == kAbsentOp) return true;
  return false;
}

const Dims* ViewOfOperator::dims(Port port) const {
  return port.output ? &result_ : views_.shape(inputs_[static_cast<std::size_t>(port.index)]);
}

std::optional<int> ViewOfOperator::rank(Port port) const {
  const Dims* found = dims(port);
  return found ? std::optional(static_cast<int>(found->size())) : std::nullopt;
}

std::optional<std::int64_t> ViewOfOperator::size(Port port, int axis) const {
  return views_.g.dims().value((*dims(port))[static_cast<std::size_t>(axis)]);
}

Dim ViewOfOperator::product(Port port, int first, int last) const {
  const std::span<const Dim> all(*dims(port));
  return views_.g.dims().product(all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)));
}

bool ViewOfOperator::same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const {
  return views_.equal(product(a, a_first, a_last), product(b, b_first, b_last));
}

std::optional<std::vector<std::int64_t>> ViewOfOperator::ints(int input) const {
  return views_.ints(inputs_[static_cast<std::size_t>(input)]);
}

}  // namespace saturate::native
