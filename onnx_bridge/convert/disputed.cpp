#include "onnx_bridge/convert/disputed.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace saturate {
namespace {

struct Asked {
  const OnnxEGraph& g;
  const Node& node;
  std::span<const Id> inputs;
  std::int64_t opset;  // of ai.onnx

  std::optional<Tensor> value(std::size_t i) const { return i < inputs.size() ? g.value(inputs[i]) : std::nullopt; }
  bool has(std::size_t i) const { return i < inputs.size() && g.facts(inputs[i]).kind != Facts::Kind::kAbsent; }
  bool is_constant(std::size_t i) const { return has(i) && g.facts(inputs[i]).constant; }
  const std::vector<Dim>* shape(std::size_t i) const { return has(i) && g.facts(inputs[i]).shape ? &*g.facts(inputs[i]).shape : nullptr; }
  std::int64_t number(std::string_view name) const {
    const Attribute* a = find_attribute(node.attributes, name);
    return a ? a->i() : 0;
  }
  // Element `i` of a list that may be absent.
  std::int64_t element(std::string_view name, std::size_t i, std::int64_t absent) const {
    const Attribute* a = find_attribute(node.attributes, name);
    return a && i < a->ints().size() ? a->ints()[i] : absent;
  }
  std::string_view text(std::string_view name) const {
    const Attribute* a = find_attribute(node.attributes, name);
    return a ? std::string_view(a->s()) : std::string_view();
  }
};

// ONNX Runtime takes these two ends for "behind the first element", the standard for "behind the last".
bool is_backward_to_far_end(const Asked& a) {
  const auto ends = a.value(2), steps = a.value(4);
  if (!ends || !steps) return false;
  for (std::int64_t i = 0; i < std::min(ends->size(), steps->size()); ++i) {
    const std::int64_t end = element_as_int(*ends, i).value_or(0);
    if (element_as_int(*steps, i).value_or(1) < 0 &&
        (end == std::numeric_limits<std::int32_t>::max() || end == std::numeric_limits<std::int64_t>::max()))
      return true;
  }
  return false;
}

// ONNX Runtime cuts off first, and wraps what is left.
bool wraps_and_cuts(const Asked& a) {
  if (a.text("mode") != "wrap") return false;
  const auto pads = a.value(1);
  for (std::int64_t i = 0; pads && i < pads->size(); ++i)
    if (element_as_int(*pads, i).value_or(0) < 0) return true;
  return false;
}

// Along spatial axis `k` of `axes`: windows of ceil_mode that begin in the padding behind the input, or, where padding counts, reach beyond
// it; and one that is longer than what it looks at. `size` is unknown where it is null.
bool is_pooled_beyond_the_end(const Asked& a, std::size_t k, std::size_t axes, std::optional<std::int64_t> size) {
  const std::string_view padding = a.text("auto_pad");
  const bool same = padding.starts_with("SAME"), ceil = a.number("ceil_mode") != 0, counts = a.number("count_include_pad") != 0;
  const std::int64_t stride = std::max<std::int64_t>(a.element("strides", k, 1), 1), dilation = a.element("dilations", k, 1);
  const std::int64_t extent = (a.element("kernel_shape", k, 1) - 1) * dilation + 1;
  if (same) return ceil && counts && dilation > 1;
  const bool valid = padding == "VALID";
  const std::int64_t begin = valid ? 0 : a.element("pads", k, 0), end = valid ? 0 : a.element("pads", k + axes, 0);
  if (!size) return ceil && (end > 0 || stride > extent || counts);
  const std::int64_t padded = *size + begin + end;
  if (padded < extent) return true;
  const std::int64_t last = (padded - extent + stride - 1) / stride * stride;
  return ceil && (last >= *size + begin || (counts && last + extent > padded));
}

// What is computed ahead is computed for all releases; and an AveragePool before opset 19 has a kernel of its own.
bool is_pooled_otherwise_by_release(const Asked& a) {
  constexpr std::int64_t kLastOfOwnKernel = 18;
  const auto* shape = a.shape(0);
  const Attribute* window = find_attribute(a.node.attributes, "kernel_shape");
  const bool own_kernel = a.node.op_type == "AveragePool" && a.opset <= kLastOfOwnKernel;
  if (!window || (!own_kernel && !a.is_constant(0))) return false;
  const std::size_t axes = window->ints().size();
  for (std::size_t k = 0; k < axes; ++k) {
    const bool known = shape && shape->size() == axes + 2;
    if (is_pooled_beyond_the_end(a, k, axes, known ? a.g.dims().value((*shape)[k + 2]) : std::nullopt)) return true;
  }
  return false;
}

// ONNX Runtime's bound is the largest finite number where none is given.
bool is_infinity_without_bound(const Asked& a) {
  const auto numbers = a.value(0);
  for (std::int64_t i = 0; numbers && i < numbers->size(); ++i)
    if (const double x = element_as_double(*numbers, i).value_or(0); std::isinf(x) && !a.has(x < 0 ? 1 : 2)) return true;
  return false;
}

// Whether one of the numbers of an input is none, or as large.
bool reaches(const Asked& a, std::size_t i, double limit) {
  const auto numbers = a.value(i);
  for (std::int64_t k = 0; numbers && k < numbers->size(); ++k)
    if (!(std::abs(element_as_double(*numbers, k).value_or(0)) < limit)) return true;
  return false;
}

double largest(const Tensor& numbers) {
  double out = 0;
  for (std::int64_t k = 0; k < numbers.size(); ++k) {
    const double x = std::abs(element_as_double(numbers, k).value_or(0));
    if (!(x <= out)) out = x;  // NaN stays
  }
  return out;
}

// No language defines the conversion of what lies beyond the integers.
bool is_power_beyond_integers(const Asked& a) {
  constexpr double kEnd32 = 2147483648.0, kEnd64 = 9223372036854775808.0;
  const auto base = a.value(0), exponent = a.value(1);
  if (!base || !exponent || (base->dtype() != DType::kInt32 && base->dtype() != DType::kInt64)) return false;
  for (std::int64_t k = 0; k < exponent->size(); ++k)
    if (!(element_as_double(*exponent, k).value_or(0) >= 0)) return true;
  return !(std::pow(std::max(largest(*base), 1.0), largest(*exponent)) < (base->dtype() == DType::kInt32 ? kEnd32 : kEnd64));
}

// It takes places for 64-bit integers, whatever they are.
bool is_sampled_far_away(const Asked& a) {
  constexpr double kFar = 1e9;
  return reaches(a, 1, kFar);
}

// Squares overflow in float, and releases take them, their sums and what they divide in another order.
bool is_normalized_beyond_squares(const Asked& a) {
  constexpr double kLarge = 1e15;
  return a.is_constant(0) && reaches(a, 0, kLarge);
}

// Nothing to sum: releases up to 1.20 then take the other summand as it is.
bool is_bias_alone(const Asked& a) {
  const Attribute* beta = find_attribute(a.node.attributes, "beta");
  const auto* shape = a.shape(0);
  if (!beta || beta->f() == 1 || !a.has(2)) return false;
  return !shape || shape->size() != 2 || !a.g.dims().positive((*shape)[a.number("transA") != 0 ? 0 : 1]);
}

bool is_resized_between_corners(const Asked& a) {
  return a.text("coordinate_transformation_mode") == "align_corners" && a.is_constant(0) && a.has(2);
}

struct Dispute {
  std::string_view op;
  bool (*holds)(const Asked&);
  std::string_view what;
};

constexpr std::string_view kPools = "windows that reach beyond the padding of a pool are counted otherwise by releases of ONNX Runtime";

constexpr std::string_view kSquares = "squares of a normalization that overflow are read otherwise by releases of ONNX Runtime";

constexpr std::array<Dispute, 18> kDisputes{{
    {"Slice", is_backward_to_far_end,
     "a Slice backwards to the largest integer gives nothing by the standard, and all in ONNX Runtime; the smallest integer is meant"},
    {"Pad", wraps_and_cuts, "Pad wraps before it cuts off by the standard, and after it in ONNX Runtime"},
    {"Resize", is_resized_between_corners, "corners of a Resize by scales lie elsewhere in ONNX Runtime than by the standard"},
    {"AveragePool", is_pooled_otherwise_by_release, kPools},
    {"LpPool", is_pooled_otherwise_by_release, kPools},
    {"MaxPool", is_pooled_otherwise_by_release, kPools},
    {"Clip", is_infinity_without_bound, "a Clip without a bound makes the largest finite number of an infinity in ONNX Runtime"},
    {"GridSample", is_sampled_far_away, "places of a GridSample that are no numbers, or far away, are read otherwise by ONNX Runtime"},
    {"Gemm", is_bias_alone, "a Gemm of inner size 0 takes no heed of beta in ONNX Runtime 1.20"},
    {"Pow", is_power_beyond_integers, "a Pow of integers that leaves them is another number in ONNX Runtime"},
    {"LayerNormalization", is_normalized_beyond_squares, kSquares},
    {"RMSNormalization", is_normalized_beyond_squares, kSquares},
    {"GroupNormalization", is_normalized_beyond_squares, kSquares},
    {"InstanceNormalization", is_normalized_beyond_squares, kSquares},
    {"LpNormalization", is_normalized_beyond_squares, kSquares},
    {"BatchNormalization", is_normalized_beyond_squares, kSquares},
    {"MeanVarianceNormalization", [](const Asked& a) { return a.is_constant(0); },
     "a MeanVarianceNormalization has no epsilon in ONNX Runtime"},
    {"MaxUnpool", [](const Asked& a) { return a.has(2); }, "indices of a MaxUnpool with output_shape are read otherwise by ONNX Runtime"},
}};

}  // namespace

std::optional<std::string_view> disputed(const OnnxEGraph& g, const Node& node, std::span<const Id> inputs, std::int64_t opset) {
  if (!node.domain.empty()) return std::nullopt;
  for (const Dispute& d : kDisputes)
    if (node.op_type == d.op && d.holds({g, node, inputs, opset})) return d.what;
  return std::nullopt;
}

}  // namespace saturate
