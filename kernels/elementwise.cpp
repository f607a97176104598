#include "kernels/elementwise.h"

namespace saturate {

absl::StatusOr<Tensor> align_legacy(const KernelContext& ctx, const Tensor& a, const Tensor& b) {
  if (!ctx.node.domain.empty() || ctx.opset >= 7 || !ctx.has_attr("axis") || b.rank() >= a.rank()) return b;
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 0), a.rank());
  if (!axis || *axis + b.rank() > a.rank()) return ctx.invalid("axis does not fit the inputs");
  Shape dims = b.dims();
  dims.resize(static_cast<std::size_t>(a.rank() - *axis), 1);
  return b.reshaped(std::move(dims));
}

absl::StatusOr<BinaryInputs> binary_inputs(const KernelContext& ctx, std::optional<Tensor>& store) {
  if (!ctx.is_tensor(0) || !ctx.is_tensor(1)) return ctx.invalid("needs two tensors");
  if (ctx.tensor(0).dtype() != ctx.tensor(1).dtype()) return ctx.invalid("the inputs differ in element type");
  if (ctx.opset >= 7) return BinaryInputs{ctx.tensor(0), ctx.tensor(1)};
  absl::StatusOr<Tensor> b = align_legacy(ctx, ctx.tensor(0), ctx.tensor(1));
  if (!b.ok()) return b.status();
  return BinaryInputs{ctx.tensor(0), store.emplace(*std::move(b))};
}

void register_elementwise(Registry& registry) {
  register_elementwise_arithmetic(registry);
  register_elementwise_compare(registry);
  register_elementwise_unary(registry);
  register_elementwise_variadic(registry);
}

}  // namespace saturate
