// LpNormalization, MeanVarianceNormalization, LRN, Dropout (ONNX spec).
#include <cmath>
#include <random>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/norm.h"

namespace saturate {
namespace {

Outputs lp_normalization(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", -1), x.rank());
  const std::int64_t p = ctx.attr_i("p", 2);
  if (!axis) return ctx.invalid("axis is out of range");
  if (p != 1 && p != 2) return ctx.invalid("p must be 1 or 2");
  const std::int64_t length = x.dims()[*axis], inner = product(std::span(x.dims()).subspan(static_cast<std::size_t>(*axis) + 1));
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), x.dims());
  if (!y.ok()) return y.status();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const std::int64_t rows = length == 0 ? 0 : x.size() / length;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = r / inner * length * inner + r % inner;
      double norm = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        const double v = static_cast<double>(x.data<T>()[at + i * inner]);
        norm += p == 1 ? std::fabs(v) : v * v;
      }
      if (p == 2) norm = std::sqrt(norm);
      // A row of zeros stays zero (LpNormalization-22).
      for (std::int64_t i = 0; i < length; ++i)
        write<T>(*y)[at + i * inner] = static_cast<T>(norm == 0 ? 0.0 : static_cast<double>(x.data<T>()[at + i * inner]) / norm);
    }
    return outputs_of(*std::move(y));
  });
}

// (x - mean) / (sqrt(E[x^2] - mean^2) + 1e-9) over `axes`, as the function body says.
Outputs mean_variance_normalization(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  std::vector<bool> reduced(static_cast<std::size_t>(x.rank()), false);
  for (std::int64_t a : ctx.attr_ints("axes", {0, 2, 3})) {
    const std::optional<int> axis = normalize_axis(a, x.rank());
    if (!axis) return ctx.invalid("an axis is out of range");
    reduced[static_cast<std::size_t>(*axis)] = true;
  }
  Shape small = x.dims();
  for (std::size_t k = 0; k < small.size(); ++k) {
    if (reduced[k]) small[k] = 1;
  }
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), x.dims());
  if (!y.ok()) return y.status();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const T* in = x.data<T>();
    std::vector<double> sum(static_cast<std::size_t>(product(small)), 0), square(sum);
    const std::array<Shape, 2> strides{strides_of(x.dims()), broadcast_strides(small, x.dims())};
    const double n = sum.empty() ? 0 : static_cast<double>(x.size()) / static_cast<double>(sum.size());
    const auto walk = [&](auto f) {
      for_each_run<2>(x.dims(), strides, [&](const auto& at, std::int64_t count, const auto& step) {
        for (std::int64_t i = 0; i < count; ++i) f(at[0] + i * step[0], static_cast<std::size_t>(at[1] + i * step[1]));
      });
    };
    walk([&](std::int64_t i, std::size_t s) { sum[s] += static_cast<double>(in[i]); });
    walk([&](std::int64_t i, std::size_t s) {
      const double d = static_cast<double>(in[i]) - sum[s] / n;
      square[s] += d * d;
    });
    walk([&](std::int64_t i, std::size_t s) {
      write<T>(*y)[i] = static_cast<T>((static_cast<double>(in[i]) - sum[s] / n) / (std::sqrt(square[s] / n) + 1e-9));
    });
    return outputs_of(*std::move(y));
  });
}

Outputs lrn(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() < 2) return ctx.invalid("the input has no channels");
  const std::int64_t size = ctx.attr_i("size", 1), channels = x.dims()[1], inner = product(std::span(x.dims()).subspan(2));
  if (size < 1) return ctx.invalid("size must be positive");
  const double alpha = ctx.attr_f("alpha", 0.0001f), beta = ctx.attr_f("beta", 0.75f), bias = ctx.attr_f("bias", 1.0f);
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), x.dims());
  if (!y.ok()) return y.status();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const T* in = x.data<T>();
    T* out = write<T>(*y);
    parallel_for(ctx, x.dims()[0] * channels, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t batch = r / channels, c = r % channels;
        const std::int64_t low = std::max<std::int64_t>(0, c - (size - 1) / 2), high = std::min(channels - 1, c + size / 2);
        for (std::int64_t i = 0; i < inner; ++i) {
          double square = 0;
          for (std::int64_t k = low; k <= high; ++k) {
            const double v = static_cast<double>(in[(batch * channels + k) * inner + i]);
            square += v * v;
          }
          out[r * inner + i] =
              static_cast<T>(static_cast<double>(in[r * inner + i]) / std::pow(bias + alpha / static_cast<double>(size) * square, beta));
        }
      }
    });
    return outputs_of(*std::move(y));
  });
}

// Dropout-12: training by an input; below, Dropout is the identity at inference (is_test below 7). The mask was of x's type below 10.
Outputs dropout(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  double ratio = ctx.attr_f("ratio", 0.5f);
  bool training = false;
  if (ctx.opset >= 12) {
    ratio = 0.5;
    if (ctx.has_input(1) && ctx.tensor(1).size() == 1) ratio = element_as_double(ctx.tensor(1), 0).value_or(0.5);
    training = ctx.has_input(2) && ctx.tensor(2).size() == 1 && ctx.tensor(2).dtype() == DType::kBool && ctx.tensor(2).data<bool>()[0];
  }
  if (ratio < 0 || ratio >= 1) return ctx.invalid("ratio must be in [0, 1)");
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    std::vector<bool> keep(static_cast<std::size_t>(x.size()), true);
    Tensor y = x;
    if (training && ratio > 0) {
      // The standard's recorded cases draw as numpy's RandomState does: Mersenne Twister, doubles of 53 bits from two words.
      std::mt19937 generator(ctx.has_attr("seed") ? static_cast<std::uint32_t>(ctx.attr_i("seed", 0)) : std::random_device{}());
      const auto draw = [&generator] {
        const double high = static_cast<double>(generator() >> 5), low = static_cast<double>(generator() >> 6);
        return (high * 67108864.0 + low) / 9007199254740992.0;
      };
      absl::StatusOr<Tensor> dropped = ctx.allocate(x.dtype(), x.dims());
      if (!dropped.ok()) return dropped.status();
      for (std::size_t i = 0; i < keep.size(); ++i) {
        keep[i] = draw() >= ratio;
        write<T>(*dropped)[i] = keep[i] ? static_cast<T>(static_cast<double>(x.data<T>()[i]) / (1 - ratio)) : static_cast<T>(0.0f);
      }
      y = *std::move(dropped);
    }
    if (!ctx.wants(1)) return outputs_of(std::move(y));
    absl::StatusOr<Tensor> mask = ctx.allocate(ctx.opset >= 10 ? DType::kBool : x.dtype(), x.dims());
    if (!mask.ok()) return mask.status();
    for (std::size_t i = 0; i < keep.size(); ++i) {
      if (ctx.opset >= 10)
        write<bool>(*mask)[i] = keep[i];
      else
        write<T>(*mask)[i] = static_cast<T>(keep[i] ? 1.0f : 0.0f);
    }
    return outputs_of(std::move(y), *std::move(mask));
  });
}

}  // namespace

void register_norm_other(Registry& registry) {
  registry.add("", "LpNormalization", lp_normalization);
  registry.add("", "MeanVarianceNormalization", mean_variance_normalization);
  registry.add("", "LRN", lrn);
  registry.add("", "Dropout", dropout);
}

}  // namespace saturate
