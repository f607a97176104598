// Literals of rules: numbers as attributes and tensors of the types that operators want, and whether a constant is the number written.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "onnx_bridge/operators/op_table.h"
#include "rules/terms/rule.h"

namespace saturate {

// Turns a literal as written into the type of the schema (`alpha = 1` of a float attribute becomes 1.0). Returns what is wrong, empty if
// nothing.
std::string complete_attribute_type(const OpSchema* schema, std::string_view op_type, RuleAttribute& attribute);

// A tensor of any numeric dtype from numbers, rounded to it; kInvalidArgument where the count is wrong or the dtype cannot hold them.
absl::StatusOr<Tensor> tensor_of_reals(DType dtype, const Shape& dims, std::span<const double> values);
// How far a constant may be off (relative) and still count as the number that a rule wrote; 0 for integers.
double match_tolerance(DType dtype);
bool matches_number(double found, double wanted, double tolerance);

}  // namespace saturate
