// AveragePool, MaxPool, LpPool, their global forms and MaxUnpool (ONNX spec), any rank.
#include <algorithm>
#include <cmath>
#include <limits>

#include "egraph/stop.h"
#include "kernels/conv/conv.h"
#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

absl::StatusOr<Window> pool_window(const KernelContext& ctx, const Tensor& x, bool global) {
  if (x.rank() < 2) return ctx.invalid("the input has no channels");
  Shape spatial(x.dims().begin() + 2, x.dims().end());
  if (!global) return window_of(ctx, spatial, ctx.attr_ints("kernel_shape"), ctx.attr_i("ceil_mode", 0) != 0);
  Window w;
  w.input = w.kernel = spatial;
  w.output = w.strides = w.dilations = Shape(spatial.size(), 1);
  w.pad_begin = w.pad_end = Shape(spatial.size(), 0);
  return w;
}

absl::StatusOr<Tensor> pooled_like(const KernelContext& ctx, const Tensor& x, const Window& w, DType dtype) {
  Shape dims{x.dims()[0], x.dims()[1]};
  dims.insert(dims.end(), w.output.begin(), w.output.end());
  return ctx.allocate(dtype, dims);
}

// f(plane) for every (batch, channel).
template <typename F>
void for_each_plane(const KernelContext& ctx, const Tensor& x, F f) {
  const std::int64_t planes = x.dims()[0] * x.dims()[1];
  parallel_for(ctx, planes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) f(p);
  });
}

// A window may have 2 ** 62 places, all but few of them beside the input.
void heed_stop_at(std::int64_t k) {
  constexpr std::int64_t kSeldom = 1024;
  if (k % kSeldom == kSeldom - 1) heed_stop();
}

// Elements counted by count_include_pad = 1: those of the window that lie within the input and its padding (not beyond, as in ceil mode).
std::vector<double> padded_counts(const Window& w) {
  std::vector<double> counts(static_cast<std::size_t>(w.output_size()), 1.0);
  std::int64_t inner = w.output_size();
  for (std::size_t d = 0; d < w.input.size(); ++d) {
    inner /= std::max<std::int64_t>(1, w.output[d]);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::int64_t o = static_cast<std::int64_t>(i) / inner % w.output[d], start = o * w.strides[d] - w.pad_begin[d];
      std::int64_t n = 0;
      for (std::int64_t k = 0; k < w.kernel[d]; ++k) {
        heed_stop_at(k);
        n += start + k * w.dilations[d] < w.input[d] + w.pad_end[d] ? 1 : 0;
      }
      counts[i] *= static_cast<double>(n);
    }
  }
  return counts;
}

template <bool kGlobal>
Outputs average_pool(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  absl::StatusOr<Window> w = pool_window(ctx, x, kGlobal);
  if (!w.ok()) return w.status();
  absl::StatusOr<Tensor> y = pooled_like(ctx, x, *w, x.dtype());
  if (!y.ok()) return y.status();
  const bool include_pad = !kGlobal && ctx.attr_i("count_include_pad", 0) != 0;
  const std::int64_t in = w->input_size(), out = w->output_size(), kernel = w->kernel_size();
  std::vector<double> counts = include_pad ? padded_counts(*w) : std::vector<double>(static_cast<std::size_t>(out), 0.0);
  if (!include_pad) {
    for (std::int64_t k = 0; k < kernel; ++k) {
      heed_stop_at(k);
      for_each_window_run(*w, k, [&](std::int64_t to, std::int64_t n, std::int64_t, std::int64_t) {
        for (std::int64_t i = 0; i < n; ++i) counts[static_cast<std::size_t>(to + i)] += 1;
      });
    }
  }
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    for_each_plane(ctx, x, [&](std::int64_t p) {
      std::vector<double> sums(static_cast<std::size_t>(out), 0.0);
      const T* from = x.data<T>() + p * in;
      for (std::int64_t k = 0; k < kernel; ++k) {
        heed_stop_at(k);
        for_each_window_run(*w, k, [&](std::int64_t to, std::int64_t n, std::int64_t at, std::int64_t step) {
          for (std::int64_t i = 0; i < n; ++i) sums[static_cast<std::size_t>(to + i)] += static_cast<double>(from[at + i * step]);
        });
      }
      for (std::int64_t i = 0; i < out; ++i)
        write<T>(*y)[p * out + i] = static_cast<T>(sums[static_cast<std::size_t>(i)] / counts[static_cast<std::size_t>(i)]);
    });
    return outputs_of(*std::move(y));
  });
}

template <bool kGlobal>
Outputs lp_pool(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  absl::StatusOr<Window> w = pool_window(ctx, x, kGlobal);
  if (!w.ok()) return w.status();
  absl::StatusOr<Tensor> y = pooled_like(ctx, x, *w, x.dtype());
  if (!y.ok()) return y.status();
  // Version 1 had p as a float.
  const double p = ctx.has_attr("p") ? std::max(static_cast<double>(ctx.attr_i("p", 0)), static_cast<double>(ctx.attr_f("p", 0))) : 2.0;
  if (p <= 0) return ctx.invalid("p must be positive");
  const std::int64_t in = w->input_size(), out = w->output_size();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    for_each_plane(ctx, x, [&](std::int64_t plane) {
      std::vector<double> sums(static_cast<std::size_t>(out), 0.0);
      const T* from = x.data<T>() + plane * in;
      for (std::int64_t k = 0; k < w->kernel_size(); ++k) {
        heed_stop_at(k);
        for_each_window_run(*w, k, [&](std::int64_t to, std::int64_t n, std::int64_t at, std::int64_t step) {
          for (std::int64_t i = 0; i < n; ++i)
            sums[static_cast<std::size_t>(to + i)] += std::pow(std::fabs(static_cast<double>(from[at + i * step])), p);
        });
      }
      for (std::int64_t i = 0; i < out; ++i)
        write<T>(*y)[plane * out + i] = static_cast<T>(std::pow(sums[static_cast<std::size_t>(i)], 1.0 / p));
    });
    return outputs_of(*std::move(y));
  });
}

// Indices count over the whole tensor; storage_order 1: column-major within each plane.
std::int64_t index_of(const Window& w, std::int64_t plane, std::int64_t at, bool column_major) {
  if (!column_major) return plane * w.input_size() + at;
  std::int64_t index = 0, step = 1, rest = at;
  Shape position(w.input.size());
  for (std::size_t d = w.input.size(); d-- > 0; rest /= w.input[d]) position[d] = rest % w.input[d];
  for (std::size_t d = 0; d < w.input.size(); ++d) {
    index += position[d] * step;
    step *= w.input[d];
  }
  return plane * w.input_size() + index;
}

template <typename T>
void max_plane(const Window& w, std::int64_t plane, bool column_major, const T* from, T* to, std::int64_t* indices) {
  using C = Compute<T>;
  const std::int64_t out = w.output_size();
  std::vector<C> best(static_cast<std::size_t>(out),
                      is_float_v<T> ? static_cast<C>(-std::numeric_limits<float>::infinity()) : std::numeric_limits<C>::lowest());
  std::vector<std::int64_t> where(indices == nullptr ? 0 : static_cast<std::size_t>(out), -1);
  for (std::int64_t k = 0; k < w.kernel_size(); ++k) {
    heed_stop_at(k);
    for_each_window_run(w, k, [&](std::int64_t first, std::int64_t n, std::int64_t at, std::int64_t step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto o = static_cast<std::size_t>(first + i);
        const C v = static_cast<C>(from[at + i * step]);
        const bool better = v > best[o] || v != v;
        best[o] = better ? v : best[o];
        if (indices != nullptr && (better || where[o] < 0)) where[o] = at + i * step;
      }
    });
  }
  for (std::int64_t o = 0; o < out; ++o) {
    to[o] = static_cast<T>(best[static_cast<std::size_t>(o)]);
    if (indices != nullptr) indices[o] = index_of(w, plane, std::max<std::int64_t>(0, where[static_cast<std::size_t>(o)]), column_major);
  }
}

template <bool kGlobal>
Outputs max_pool(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  absl::StatusOr<Window> w = pool_window(ctx, x, kGlobal);
  if (!w.ok()) return w.status();
  absl::StatusOr<Tensor> y = pooled_like(ctx, x, *w, x.dtype());
  if (!y.ok()) return y.status();
  std::int64_t* indices = nullptr;
  Value index_value;
  if (!kGlobal && ctx.wants(1)) {
    absl::StatusOr<Tensor> t = pooled_like(ctx, x, *w, DType::kInt64);
    if (!t.ok()) return t.status();
    indices = write<std::int64_t>(*t);
    index_value = *std::move(t);
  }
  const bool column_major = ctx.attr_i("storage_order", 0) != 0;
  return dispatch(Join<FloatTypes, Types<std::int8_t, std::uint8_t>>{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    T* to = write<T>(*y);
    for_each_plane(ctx, x, [&](std::int64_t p) {
      max_plane<T>(*w, p, column_major, x.data<T>() + p * w->input_size(), to + p * w->output_size(),
                   indices == nullptr ? nullptr : indices + p * w->output_size());
    });
    return outputs_of(*std::move(y), std::move(index_value));
  });
}

// The inverse of MaxPool: values go where the indices say, in a tensor of the pooling's input shape (or of output_shape, whose
// planes the indices are then counted in anew).
Outputs max_unpool(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &indices = ctx.tensor(1);
  if (x.rank() < 3 || indices.dims() != x.dims() || indices.dtype() != DType::kInt64)
    return ctx.invalid("the indices do not fit the input");
  const std::size_t rank = static_cast<std::size_t>(x.rank()) - 2;
  const Shape kernel = ctx.attr_ints("kernel_shape"), strides = ctx.attr_ints("strides", Shape(rank, 1)),
              pads = ctx.attr_ints("pads", Shape(2 * rank, 0));
  if (kernel.size() != rank || strides.size() != rank || pads.size() != 2 * rank)
    return ctx.invalid("kernel_shape, strides or pads have the wrong size");
  Shape natural{x.dims()[0], x.dims()[1]};
  for (std::size_t d = 0; d < rank; ++d) natural.push_back((x.dims()[d + 2] - 1) * strides[d] + kernel[d] - pads[d] - pads[rank + d]);
  Shape dims = natural;
  if (ctx.has_input(2)) {
    absl::StatusOr<std::vector<std::int64_t>> given = int_values(ctx, ctx.tensor(2));
    if (!given.ok()) return given.status();
    if (given->size() != dims.size()) return ctx.invalid("output_shape has the wrong size");
    dims = *std::move(given);
  }
  absl::StatusOr<Tensor> y = ctx.allocate_zeroed(x.dtype(), dims);
  if (!y.ok()) return y.status();
  const Shape natural_strides = strides_of(natural), out_strides = strides_of(dims);
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    for (std::int64_t i = 0; i < x.size(); ++i) {
      std::int64_t rest = indices.data<std::int64_t>()[i], at = 0;
      if (rest < 0) return ctx.invalid("an index is negative");
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const std::int64_t position = natural_strides[d] == 0 ? 0 : rest / natural_strides[d];
        if (position >= dims[d]) return ctx.invalid("an index is out of range");
        at += position * out_strides[d];
        rest -= position * natural_strides[d];
      }
      write<T>(*y)[at] = x.data<T>()[i];
    }
    return outputs_of(*std::move(y));
  });
}

}  // namespace

void register_pool(Registry& registry) {
  registry.add("", "AveragePool", average_pool<false>);
  registry.add("", "GlobalAveragePool", average_pool<true>);
  registry.add("", "LpPool", lp_pool<false>);
  registry.add("", "GlobalLpPool", lp_pool<true>);
  registry.add("", "MaxPool", max_pool<false>);
  registry.add("", "GlobalMaxPool", max_pool<true>);
  registry.add("", "MaxUnpool", max_unpool);
}

}  // namespace saturate
