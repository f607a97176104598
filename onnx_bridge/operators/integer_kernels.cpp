#include "onnx_bridge/operators/integer_kernels.h"

#include <algorithm>
#include <array>

namespace saturate {
namespace {

// Measured with AVX2 at 1 to 128 rows: 5 to 24 times.
constexpr double kSignedBytes = 6;

// By name.
const std::array<IntegerKernel, 20>& kernels() {
  static const std::array<IntegerKernel, 20> all{{
      {"ConvInteger", "Conv", {0, 1}, 0, kSignedBytes},
      {"MatMulInteger", "MatMul", {0, 1}, 0, kSignedBytes},
      {"QLinearConv", "Conv", {0, 3, 8}, 0, kSignedBytes},
      {"QLinearMatMul", "MatMul", {0, 3}, 0, kSignedBytes},
      {"com.microsoft::DynamicQuantizeLSTM", "LSTM", {0, 1, 2, 3, 4, 5, 6, 7}},
      {"com.microsoft::DynamicQuantizeMatMul", "MatMul", {0, 1, 4}},
      {"com.microsoft::MatMulIntegerToFloat", "MatMul", {0, 1, 6}, 0, kSignedBytes},
      {"com.microsoft::MatMulNBits", "MatMul", {0}},
      {"com.microsoft::QAttention", "com.microsoft::Attention", {0, 1, 2, 5, 8}},
      {"com.microsoft::QGemm", "Gemm", {0, 3, 6}, 0, kSignedBytes},
      {"com.microsoft::QLinearAdd", "Add", {0, 3}},
      {"com.microsoft::QLinearAveragePool", "AveragePool", {0}},
      {"com.microsoft::QLinearConcat", "Concat", {2}, 3},
      {"com.microsoft::QLinearConv", "Conv", {0, 3, 8}, 0, kSignedBytes},
      {"com.microsoft::QLinearGlobalAveragePool", "GlobalAveragePool", {0}},
      {"com.microsoft::QLinearLeakyRelu", "LeakyRelu", {0}},
      {"com.microsoft::QLinearMul", "Mul", {0, 3}},
      {"com.microsoft::QLinearSigmoid", "Sigmoid", {0}},
      {"com.microsoft::QLinearSoftmax", "Softmax", {0}},
      {"com.microsoft::QLinearWhere", "Where", {0, 1, 4}},
  }};
  return all;
}

}  // namespace

bool IntegerKernel::reads(std::size_t input) const {
  if (std::find(tensors.begin(), tensors.end(), input) != tensors.end()) return true;
  return step > 0 && input > tensors.back() && (input - tensors.back()) % step == 0;
}

const IntegerKernel* integer_kernel(std::string_view op) {
  const auto& all = kernels();
  const auto it = std::lower_bound(all.begin(), all.end(), op, [](const IntegerKernel& k, std::string_view name) { return k.name < name; });
  return it != all.end() && it->name == op ? &*it : nullptr;
}

}  // namespace saturate
