// Operators that read or change a tensor's shape and leave its data where it is (ONNX Operators: Shape, Size, Reshape, Squeeze, ...).
#include <algorithm>
#include <cstring>

#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"
#include "onnx_bridge/file/sparse.h"

namespace saturate {
namespace {

Outputs identity(KernelContext& ctx) {
  if (!ctx.has_input(0)) return ctx.invalid("the input is absent");
  return outputs_of(ctx.inputs[0]);
}

Outputs constant(KernelContext& ctx) {
  if (const Tensor* t = ctx.attr_t("value")) return outputs_of(*t);
  for (const Attribute& a : ctx.node.attributes) {
    if (a.name == "value_float" && a.type == AttributeType::kFloat)
      return outputs_of(Tensor::of<float>(DType::kFloat, {}, std::span(&std::get<float>(a.value), 1)));
    if (a.name == "value_int" && a.type == AttributeType::kInt) return outputs_of(Tensor::scalar_int64(a.i()));
    if (a.name == "value_string" && a.type == AttributeType::kString) return outputs_of(Tensor::strings({}, {a.s()}));
    // An empty list may arrive with any of the list types.
    if (a.name == "value_floats") {
      const std::vector<float> v = ctx.attr_floats(a.name);
      return outputs_of(Tensor::of<float>(DType::kFloat, {static_cast<std::int64_t>(v.size())}, v));
    }
    if (a.name == "value_ints") return outputs_of(Tensor::vector_int64(ctx.attr_ints(a.name)));
    if (a.name == "value_strings") {
      std::vector<std::string> v = ctx.attr_strings(a.name);
      const auto n = static_cast<std::int64_t>(v.size());
      return outputs_of(Tensor::strings({n}, std::move(v)));
    }
    if (const std::optional<Initializer> sparse = sparse_of(a)) {
      absl::StatusOr<Tensor> dense = dense_tensor(*sparse);
      if (!dense.ok()) return dense.status();
      return outputs_of(*std::move(dense));
    }
  }
  return ctx.invalid("none of the value attributes is there");
}

Outputs shape(KernelContext& ctx) {
  if (!ctx.is_tensor(0)) return ctx.invalid("the input is not a tensor");
  const Shape& dims = ctx.tensor(0).dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t start = clamp(ctx.attr_i("start", 0)), end = std::max(start, clamp(ctx.attr_i("end", rank)));
  return outputs_of(Tensor::vector_int64(std::span(dims).subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(end - start))));
}

Outputs size(KernelContext& ctx) {
  if (!ctx.is_tensor(0)) return ctx.invalid("the input is not a tensor");
  return outputs_of(Tensor::scalar_int64(ctx.tensor(0).size()));
}

Outputs reshape(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  std::vector<std::int64_t> dims;
  if (ctx.has_input(1)) {
    auto values = int_values(ctx, ctx.tensor(1));
    if (!values.ok()) return values.status();
    dims = *std::move(values);
  } else {
    if (!ctx.has_attr("shape")) return ctx.invalid("no shape is given");
    dims = ctx.attr_ints("shape");
  }
  const bool allow_zero = ctx.attr_i("allowzero", 0) != 0;
  std::optional<std::size_t> unknown;
  std::int64_t known = 1;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] == -1) {
      if (unknown) return ctx.invalid("the shape has more than one -1");
      unknown = k;
      continue;
    }
    if (dims[k] == 0 && !allow_zero) {
      if (k >= x.dims().size()) return ctx.invalid("a 0 of the shape has no input dim to copy");
      dims[k] = x.dims()[k];
    }
    if (dims[k] < 0) return ctx.invalid("the shape has a negative dim");
    const auto next = checked_elements(std::array{known, dims[k]});
    if (!next) return ctx.invalid("the shape is too large");
    known = *next;
  }
  if (unknown) {
    if (known == 0 || x.size() % known != 0) return ctx.invalid("the -1 of the shape cannot be told from the input's size");
    dims[*unknown] = x.size() / known;
  } else if (known != x.size()) {
    return ctx.invalid("the shape has another number of elements than the input");
  }
  return outputs_of(x.reshaped(std::move(dims)));
}

// Axes as attribute (below opset 13) or as second input.
absl::StatusOr<std::optional<std::vector<std::int64_t>>> given_axes(const KernelContext& ctx) {
  if (ctx.has_input(1)) {
    auto values = int_values(ctx, ctx.tensor(1));
    if (!values.ok()) return values.status();
    return std::optional(*std::move(values));
  }
  if (ctx.has_attr("axes")) return std::optional(ctx.attr_ints("axes"));
  return std::optional<std::vector<std::int64_t>>();
}

Outputs squeeze(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  auto given = given_axes(ctx);
  if (!given.ok()) return given.status();
  Shape dims;
  if (!*given) {
    std::copy_if(x.dims().begin(), x.dims().end(), std::back_inserter(dims), [](std::int64_t d) { return d != 1; });
  } else {
    auto axes = axes_of(ctx, **given, x.rank());
    if (!axes.ok()) return axes.status();
    for (int k = 0; k < x.rank(); ++k) {
      const bool gone = std::find(axes->begin(), axes->end(), k) != axes->end();
      if (gone && x.dims()[k] != 1) return ctx.invalid("a dim to be squeezed is not 1");
      if (!gone) dims.push_back(x.dims()[k]);
    }
  }
  return outputs_of(x.reshaped(std::move(dims)));
}

Outputs unsqueeze(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  auto given = given_axes(ctx);
  if (!given.ok()) return given.status();
  if (!*given) return ctx.invalid("no axes are given");
  const std::size_t rank = x.dims().size() + (*given)->size();
  auto axes = axes_of(ctx, **given, static_cast<int>(rank));
  if (!axes.ok()) return axes.status();
  Shape dims(rank, 0);
  for (int a : *axes) dims[a] = 1;
  std::size_t next = 0;
  for (std::int64_t& d : dims) {
    if (d == 0) d = x.dims()[next++];
  }
  return outputs_of(x.reshaped(std::move(dims)));
}

Outputs flatten(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  std::int64_t axis = ctx.attr_i("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) return ctx.invalid("the axis is out of range");
  const std::span<const std::int64_t> dims(x.dims());
  const auto at = static_cast<std::size_t>(axis);
  return outputs_of(x.reshaped({product(dims.first(at)), product(dims.subspan(at))}));
}

}  // namespace

void register_data_shape(Registry& registry) {
  registry.add("", "Identity", identity);
  registry.add("", "Constant", constant);
  registry.add("", "Shape", shape);
  registry.add("", "Size", size);
  registry.add("", "Reshape", reshape);
  registry.add("", "Squeeze", squeeze);
  registry.add("", "Unsqueeze", unsqueeze);
  registry.add("", "Flatten", flatten);
}

}  // namespace saturate
