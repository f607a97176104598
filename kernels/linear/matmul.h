// Batched matrix products with numpy's broadcasting of the leading dims.
#pragma once

#include "kernels/core/registry.h"
#include "kernels/gemm/gemm.h"

namespace saturate {

struct MatMulOptions {
  bool transpose_a = false, transpose_b = false;  // of the last two dims; ignored for vectors
  float alpha = 1.0f;
};

// numpy.matmul: 1-D operands are a row or a column whose dim is dropped again.
absl::StatusOr<Tensor> matmul(const KernelContext& ctx, const Tensor& a, const Tensor& b, const MatMulOptions& options = {});

// The packed form of `b`, a float matrix of k rows, which is or views input 1; null where that is no constant of a session's node. It may
// begin at any address; its pages are given back.
std::shared_ptr<const PackedMatrix> packed_constant(const KernelContext& ctx, const Tensor& b, std::int64_t k, std::int64_t n,
                                                    std::int64_t row_stride, std::int64_t col_stride);

void register_matmul_gemm(Registry& registry);
void register_matmul_einsum(Registry& registry);
void register_experts(Registry& registry);

}  // namespace saturate
