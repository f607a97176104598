// Operators that make tensors from few numbers (ONNX Operators: ConstantOfShape, Range, EyeLike, OneHot), and Trilu.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

Outputs constant_of_shape(KernelContext& ctx) {
  auto dims = int_values(ctx, ctx.tensor(0));
  if (!dims.ok()) return dims.status();
  const float zero = 0;
  const Tensor* given = ctx.attr_t("value");
  const Tensor value = given != nullptr ? *given : Tensor::of<float>(DType::kFloat, {}, std::span(&zero, 1));
  if (value.size() != 1) return ctx.invalid("the value must be one element");
  if (!checked_elements(*dims)) return ctx.invalid("the shape is negative or too large");
  return rearrange(ctx, value, *dims, Shape(dims->size(), 0));
}

template <typename T>
Outputs range_of(KernelContext& ctx) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (ctx.tensor(i).size() != 1 || ctx.tensor(i).dtype() != dtype_of<T>())
      return ctx.invalid("start, limit and delta must be one number each, of one type");
  }
  const auto number = [&](std::size_t i) { return static_cast<Compute<T>>(*ctx.tensor(i).data<T>()); };
  const auto start = number(0), limit = number(1), delta = number(2);
  if (delta == 0) return ctx.invalid("delta is 0");
  std::int64_t n = 0;
  if constexpr (is_float_v<T>) {
    const double count = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
    if (!(count < 9.0e18)) return ctx.invalid("the range has no end");
    n = static_cast<std::int64_t>(std::max(0.0, count));
  } else if ((limit > start) == (delta > 0) && limit != start) {
    // Unsigned differences cannot overflow.
    const auto wide = [](auto a) { return static_cast<std::uint64_t>(static_cast<std::int64_t>(a)); };
    const std::uint64_t distance = delta > 0 ? wide(limit) - wide(start) : wide(start) - wide(limit);
    const std::uint64_t step = delta > 0 ? wide(delta) : -wide(delta);
    n = static_cast<std::int64_t>((distance - 1) / step + 1);
  }
  auto out = ctx.allocate(dtype_of<T>(), {n});
  if (!out.ok()) return out.status();
  T* y = write<T>(*out);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T>) {
      y[i] = static_cast<T>(static_cast<std::uint64_t>(start) + static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(delta));
    } else {
      y[i] = static_cast<T>(start + static_cast<Compute<T>>(i) * delta);
    }
  }
  return outputs_of(*std::move(out));
}

Outputs range(KernelContext& ctx) {
  return dispatch(NumericTypes(), ctx, ctx.tensor(0).dtype(), [&]<typename T>(std::type_identity<T>) { return range_of<T>(ctx); });
}

Outputs eye_like(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() != 2) return ctx.invalid("the input must be a matrix");
  const auto dtype = static_cast<DType>(ctx.attr_i("dtype", static_cast<std::int64_t>(x.dtype())));
  const std::int64_t k = ctx.attr_i("k", 0), rows = x.dims()[0], cols = x.dims()[1];
  auto out = ctx.allocate_zeroed(dtype, x.dims());
  if (!out.ok()) return out.status();
  return dispatch(NumericAndBoolTypes(), ctx, dtype, [&]<typename T>(std::type_identity<T>) {
    T* y = write<T>(*out);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (k > -rows && k < cols && r + k >= 0 && r + k < cols) y[r * cols + r + k] = static_cast<T>(1);
    }
    return Outputs(outputs_of(*std::move(out)));
  });
}

Outputs one_hot(KernelContext& ctx) {
  const Tensor& indices = ctx.tensor(0);
  const Tensor& values = ctx.tensor(2);
  const auto at = to_doubles(ctx, indices), depth_given = to_doubles(ctx, ctx.tensor(1));
  if (!at.ok()) return at.status();
  if (!depth_given.ok()) return depth_given.status();
  if (depth_given->size() != 1 || values.size() != 2) return ctx.invalid("depth must be one number and values two");
  if (!((*depth_given)[0] >= 0 && (*depth_given)[0] < 9.0e18)) return ctx.invalid("the depth is out of range");
  const auto depth = static_cast<std::int64_t>((*depth_given)[0]);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", -1), indices.rank() + 1);
  if (!axis) return ctx.invalid("the axis is out of range");
  Shape dims = indices.dims();
  dims.insert(dims.begin() + *axis, depth);
  Moving moving(ctx, values.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  const int unit = moving.unit();
  const std::byte* pair = moving.units(values);
  copy_strided(ctx, unit, dims, {pair, Shape(dims.size(), 0)}, {*to, strides_of(dims)});
  const std::int64_t inner = strides_of(dims)[*axis];
  for (std::int64_t i = 0; i < indices.size(); ++i) {
    double d = (*at)[static_cast<std::size_t>(i)];
    if (d < 0) d += static_cast<double>(depth);
    if (!(d >= 0 && d < static_cast<double>(depth))) continue;
    const std::int64_t position = (i / inner * depth + static_cast<std::int64_t>(d)) * inner + i % inner;
    std::memcpy(*to + position * unit, pair + unit, static_cast<std::size_t>(unit));
  }
  return one_output(moving.take());
}

Outputs trilu(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() < 2) return ctx.invalid("the input must have rank 2 or more");
  std::int64_t k = 0;
  if (ctx.has_input(1)) {
    const auto given = one_integer(ctx, ctx.tensor(1));
    if (!given.ok()) return given.status();
    k = *given;
  }
  const bool upper = ctx.attr_i("upper", 1) != 0;
  const std::int64_t rows = x.dims()[x.dims().size() - 2], cols = x.dims().back();
  k = std::clamp(k, -rows - 1, cols + 1);
  Moving moving(ctx, x.dtype());
  auto to = moving.make(x.dims());
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(x);
  const std::int64_t unit = moving.unit(), lines = cols == 0 ? 0 : x.size() / cols;
  for (std::int64_t line = 0; line < lines; ++line) {
    // The line keeps [first, last).
    const std::int64_t diagonal = line % rows + k;
    const std::int64_t first = upper ? std::clamp<std::int64_t>(diagonal, 0, cols) : 0,
                       last = upper ? cols : std::clamp<std::int64_t>(diagonal + 1, 0, cols);
    std::byte* row = *to + line * cols * unit;
    std::memset(row, 0, static_cast<std::size_t>(cols * unit));
    std::memcpy(row + first * unit, from + (line * cols + first) * unit, static_cast<std::size_t>((last - first) * unit));
  }
  return one_output(moving.take());
}

}  // namespace

void register_data_generate(Registry& registry) {
  registry.add("", "ConstantOfShape", constant_of_shape);
  registry.add("", "Range", range);
  registry.add("", "EyeLike", eye_like);
  registry.add("", "OneHot", one_hot);
  registry.add("", "Trilu", trilu);
  registry.add(kMicrosoft, "Trilu", trilu);
}

}  // namespace saturate
