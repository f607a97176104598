// Operators that compute in integers what another one computes in floats. Among their inputs stand scales and zero points.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace saturate {

struct IntegerKernel {
  std::string_view name, plain;      // "QLinearMatMul", "MatMul"
  std::vector<std::size_t> tensors;  // inputs that the plain operator has, too, in the same layout
  std::size_t step = 0;              // of a variadic one: from one of its tensors to the next, the last of `tensors` being the first
  // How many times as much it takes where its first tensor is int8: few processors multiply signed bytes by signed bytes, and on the others
  // ONNX Runtime has a loop without vectors for them. It writes uint8 in their place only between quantizers (QDQS8ToU8Transformer).
  double if_signed = 1;
  bool reads(std::size_t input) const;
};

// Null where the operator is none.
const IntegerKernel* integer_kernel(std::string_view op);

}  // namespace saturate
