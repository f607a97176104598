// Normalization over trailing dims, shared by the standard's and com.microsoft's layer norms.
#pragma once

#include "kernels/reduce/reduce.h"

namespace saturate {

struct NormOptions {
  double epsilon = 1e-5;
  bool rms = false;  // no mean subtracted
  std::int64_t rows = 0, length = 0;
};

// Where the statistics go, one number a row; null: nowhere.
struct StatisticsOut {
  float* mean = nullptr;
  float* inverse_std = nullptr;
};

// y = (x - mean) / sqrt(var + epsilon) * scale + bias for each row; scale and bias have `length` elements.
template <typename T, typename S>
void normalize_rows(const KernelContext& ctx, const NormOptions& options, const T* x, ScaleAndBias<S> by, T* y,
                    StatisticsOut statistics = {});

// x + skip + bias, both of shapes that broadcast to x's; without bias: null.
absl::StatusOr<Tensor> residual(const KernelContext& ctx, const Tensor& x, const Tensor& skip, const Tensor* bias);

void register_norm_batch(Registry& registry);
void register_norm_contrib(Registry& registry);
void register_norm_other(Registry& registry);

}  // namespace saturate
