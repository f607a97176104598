// How a model is quantized, and which of its operators a target computes in integers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/target/target.h"
#include "extract/units/node_units.h"
#include "nlohmann/json_fwd.hpp"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Tensors that are quantized alike.
struct QuantizedKind {
  std::string role;         // "weights", "activations"
  std::string dtype;        // "uint8", "int4"
  std::string granularity;  // "per tensor", "per axis 1", "blocks of 32 along axis 0"
  std::string symmetric;    // "yes", "no", "?": the zero point is in the middle
  auto operator<=>(const QuantizedKind&) const = default;
};

// A float operator between integers.
struct FloatOperator {
  std::size_t island = 0;      // operators that hand each other floats are one, counted from 1
  std::string op_type, value;  // its first output
  std::string why;             // no integer kernel takes it
};

struct Quantization {
  std::map<std::string, std::size_t> schemes;  // "QDQ static" and such, by the number of operators with quantized weights or inputs
  std::map<QuantizedKind, std::size_t> kinds;  // by the number of tensors
  std::string target;
  std::size_t operators = 0, integer_operators = 0;  // that compute with numbers: no quantizers, and none that only find out shapes
  double macs = 0, integer_macs = 0;                 // multiply-accumulates of products and convolutions
  std::map<std::string, std::size_t> kernels;        // integer kernels by name
  std::vector<FloatOperator> islands;
  bool any() const { return !schemes.empty() || !kinds.empty(); }
};

// Whether anything in it is quantized: a cheap look.
bool is_quantized(const Model& model);
// Of the main graph, with calls of its functions inlined. Symbolic dims count at their usual sizes.
absl::StatusOr<Quantization> quantization(const Model& model, const Target& target);

// What the target makes of each operator of the main graph that computes with floats, by its first output; none of a model without
// quantizers. Operators are looked at as the model has them.
std::map<std::string, UnitAnswer> integer_kernels(const Model& model, const Target& target);

std::string format_quantization(const Quantization& q);
nlohmann::json to_json(const Quantization& q);

}  // namespace saturate
