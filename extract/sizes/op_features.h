// Where an operator lies among the measured ones: the family whose times are comparable, its sizes on a logarithmic scale, and what else
// picks its kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "extract/sizes/op_sizes.h"

namespace saturate {

struct OpFeatures {
  std::string family;  // "MatMul" also of FusedMatMul, "Conv" of FusedConv; other operators are their own
  std::vector<float>
      logs;  // doublings; what they mean depends on the family (rows, inner size, columns, batch; rows, keys, heads, head size; ...)
  std::vector<int> kinds;  // equal or not: broadcast, constant operand, transposed, masked
};

// The operator that times of `op` belong to: that of its family without kind and dtype.
std::string comparable_op(std::string_view op);
OpFeatures features_of(const OpUse& use);

}  // namespace saturate
