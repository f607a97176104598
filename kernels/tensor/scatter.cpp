// Operators that put elements at indices of a copy (ONNX Operators: Scatter, ScatterElements, ScatterND, TensorScatter).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/wrapping.h"
#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

enum class ScatterReduction { kNone, kAdd, kMul, kMax, kMin };

std::optional<ScatterReduction> reduction_of(const KernelContext& ctx) {
  const std::string name = ctx.attr_s("reduction", "none");
  if (name == "none") return ScatterReduction::kNone;
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMul;
  if (name == "max") return ScatterReduction::kMax;
  if (name == "min") return ScatterReduction::kMin;
  return std::nullopt;
}

template <typename T>
T combine(T a, T b, ScatterReduction reduction) {
  const auto x = static_cast<Compute<T>>(a), y = static_cast<Compute<T>>(b);
  if constexpr (std::is_same_v<T, bool>) {
    return reduction == ScatterReduction::kAdd || reduction == ScatterReduction::kMax ? a || b : a && b;
  } else {
    if constexpr (is_float_v<T>) {
      if (reduction >= ScatterReduction::kMax && (std::isnan(x) || std::isnan(y))) return std::isnan(x) ? a : b;
    }
    switch (reduction) {
      case ScatterReduction::kAdd:
        return static_cast<T>(added(x, y));
      case ScatterReduction::kMul:
        return static_cast<T>(multiplied(x, y));
      case ScatterReduction::kMax:
        return x > y ? a : b;
      case ScatterReduction::kMin:
        return x < y ? a : b;
      default:
        return b;
    }
  }
}

// Runs `each(set)` where set(position, source) stores the update's element `source` at the output's element `position`.
template <typename F>
Outputs scatter_into(KernelContext& ctx, const Tensor& data, const Tensor& updates, ScatterReduction reduction, F&& each) {
  if (data.dtype() != updates.dtype()) return ctx.invalid("data and updates differ in element type");
  if (reduction == ScatterReduction::kNone) {
    Moving moving(ctx, data.dtype());
    auto to = moving.make_of(data);
    if (!to.ok()) return to.status();
    const std::byte* news = moving.units(updates);
    with_unit(moving.unit(), [&]<typename U>(std::type_identity<U>) {
      each([&](std::int64_t position, std::int64_t source) {
        reinterpret_cast<U*>(*to)[position] = reinterpret_cast<const U*>(news)[source];
      });
    });
    return one_output(moving.take());
  }
  return dispatch(NumericAndBoolTypes(), ctx, data.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    auto out = ctx.allocate(data.dtype(), data.dims());
    if (!out.ok()) return out.status();
    T* y = write<T>(*out);
    std::copy_n(data.data<T>(), data.size(), y);
    const T* u = updates.data<T>();
    each([&](std::int64_t position, std::int64_t source) { y[position] = combine(y[position], u[source], reduction); });
    return outputs_of(*std::move(out));
  });
}

Outputs scatter_elements(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor& indices = ctx.tensor(1);
  const Tensor& updates = ctx.tensor(2);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 0), x.rank());
  const std::optional<ScatterReduction> reduction = reduction_of(ctx);
  if (!axis || !reduction) return ctx.invalid("the axis or the reduction is not valid");
  if (indices.rank() != x.rank() || indices.dims() != updates.dims())
    return ctx.invalid("indices and updates must have one shape, of the data's rank");
  const auto at = int_values(ctx, indices);
  if (!at.ok()) return at.status();
  const std::int64_t dim = x.dims()[*axis];
  for (int k = 0; k < x.rank(); ++k) {
    if (k != *axis && indices.dims()[k] > x.dims()[k]) return ctx.invalid("the indices are larger than the data");
  }
  if (std::any_of(at->begin(), at->end(), [&](std::int64_t i) { return i < -dim || i >= dim; }))
    return ctx.invalid("an index is out of range");
  Shape strides = strides_of(x.dims());
  const std::int64_t step = strides[*axis];
  strides[*axis] = 0;
  return scatter_into(ctx, x, updates, *reduction, [&](auto&& set) {
    for_each_run<2>(indices.dims(), {strides, strides_of(indices.dims())}, [&](const auto& offset, std::int64_t n, const auto& inner) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t source = offset[1] + i * inner[1], index = (*at)[static_cast<std::size_t>(source)];
        set(offset[0] + i * inner[0] + (index < 0 ? index + dim : index) * step, source);
      }
    });
  });
}

Outputs scatter_nd(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor& indices = ctx.tensor(1);
  const Tensor& updates = ctx.tensor(2);
  const std::optional<ScatterReduction> reduction = reduction_of(ctx);
  if (!reduction) return ctx.invalid("the reduction is not known");
  if (x.rank() < 1 || indices.rank() < 1) return ctx.invalid("data and indices must have rank 1 or more");
  const std::int64_t depth = indices.dims().back();
  if (depth > x.rank()) return ctx.invalid("the indices are longer than the data's rank");
  const auto at = int_values(ctx, indices);
  if (!at.ok()) return at.status();
  Shape wanted(indices.dims().begin(), indices.dims().end() - 1);
  wanted.insert(wanted.end(), x.dims().begin() + depth, x.dims().end());
  if (updates.dims() != wanted) return ctx.invalid("the updates have the wrong shape");
  const Shape strides = strides_of(x.dims());
  const std::int64_t run = product(std::span(x.dims()).subspan(static_cast<std::size_t>(depth)));
  const std::int64_t rows = product(std::span(indices.dims()).first(indices.dims().size() - 1));
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows), 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t d = 0; d < depth; ++d) {
      const std::int64_t dim = x.dims()[d], i = (*at)[static_cast<std::size_t>(r * depth + d)];
      if (i < -dim || i >= dim) return ctx.invalid("an index is out of range");
      offsets[static_cast<std::size_t>(r)] += (i < 0 ? i + dim : i) * strides[d];
    }
  }
  return scatter_into(ctx, x, updates, *reduction, [&](auto&& set) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < run; ++i) set(offsets[static_cast<std::size_t>(r)] + i, r * run + i);
    }
  });
}

// Writes a piece of a sequence into a cache, per batch at its own position, around the end if circular.
Outputs tensor_scatter(KernelContext& ctx) {
  const Tensor& cache = ctx.tensor(0);
  const Tensor& update = ctx.tensor(1);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", -2), cache.rank());
  if (!axis || *axis == 0) return ctx.invalid("the axis is out of range");
  const bool circular = ctx.attr_s("mode", "linear") == "circular";
  for (int k = 0; k < cache.rank(); ++k) {
    if (update.rank() != cache.rank() || (k == *axis ? update.dims()[k] > cache.dims()[k] : update.dims()[k] != cache.dims()[k]))
      return ctx.invalid("the update does not fit the cache");
  }
  const std::int64_t batch = cache.dims()[0], length = cache.dims()[*axis], piece = update.dims()[*axis];
  std::vector<std::int64_t> starts(static_cast<std::size_t>(batch), 0);
  if (ctx.has_input(2)) {
    auto given = int_values(ctx, ctx.tensor(2));
    if (!given.ok()) return given.status();
    if (given->size() != starts.size()) return ctx.invalid("write_indices has another length than the batch");
    starts = *std::move(given);
  }
  for (std::int64_t& s : starts) {
    if (s < 0 || s >= std::max<std::int64_t>(length, 1) || (!circular && s + piece > length))
      return ctx.invalid("a write index is out of range");
  }
  const std::span<const std::int64_t> dims(cache.dims());
  const std::int64_t middle = product(dims.subspan(1, static_cast<std::size_t>(*axis) - 1)), inner = strides_of(cache.dims())[*axis];
  return scatter_into(ctx, cache, update, ScatterReduction::kNone, [&](auto&& set) {
    for (std::int64_t o = 0; o < batch * middle; ++o) {
      for (std::int64_t t = 0; t < piece; ++t) {
        const std::int64_t at = (starts[static_cast<std::size_t>(o / middle)] + t) % length;
        for (std::int64_t i = 0; i < inner; ++i) set((o * length + at) * inner + i, (o * piece + t) * inner + i);
      }
    }
  });
}

}  // namespace

void register_data_scatter(Registry& registry) {
  registry.add("", "Scatter", scatter_elements);
  registry.add("", "ScatterElements", scatter_elements);
  registry.add("", "ScatterND", scatter_nd);
  registry.add("", "TensorScatter", tensor_scatter);
}

}  // namespace saturate
