// Products of 8-bit matrices, exact in 32-bit integers, at the speed of the float product.
#pragma once

#include "kernels/gemm/gemm.h"
#include "kernels/quantized/util.h"

namespace saturate {

// Elements of an 8-bit (or tiny) integer tensor minus its zero point, as floats (exact). The zero point is one number, or broadcasts to the
// tensor; a vector counts along the rows of the last two axes if `per_row`, else along the columns.
absl::StatusOr<std::vector<float>> centred(const KernelContext& ctx, const Tensor& tensor, const Tensor* zero_point, bool per_row);

// c[m, n] += a b where every element is an integer of magnitude at most 255: products are summed in floats over stretches of k short enough
// to be exact (256 * 255 * 255 < 2^24) and then in 32-bit integers, which wrap as ONNX's do.
void add_exact_product(const KernelContext& ctx, GemmSize size, MatrixView<float> a, MatrixView<float> b, std::int32_t* c);

// The integer product of inputs `a` and `b` by the rules of numpy.matmul.
struct IntegerProduct {
  std::vector<std::int32_t> values;
  Shape dims;
  std::int64_t rows = 1, cols = 1;  // of the last two axes; 1 where a vector was given
};
absl::StatusOr<IntegerProduct> integer_product(const KernelContext& ctx, const Tensor& a, const Tensor* a_zero, const Tensor& b,
                                               const Tensor* b_zero);

}  // namespace saturate
