#include "onnx_bridge/convert/disputed.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace saturate {
namespace {

struct Asked {
  const OnnxEGraph& g;
  const Node& node;
  std::span<const Id> inputs;

  std::optional<Tensor> value(std::size_t i) const { return i < inputs.size() ? g.value(inputs[i]) : std::nullopt; }
  bool has(std::size_t i) const { return i < inputs.size() && g.facts(inputs[i]).kind != Facts::Kind::kAbsent; }
  bool is_constant(std::size_t i) const { return has(i) && g.facts(inputs[i]).constant; }
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

bool is_resized_between_corners(const Asked& a) {
  return a.text("coordinate_transformation_mode") == "align_corners" && a.is_constant(0) && a.has(2);
}

struct Dispute {
  std::string_view op;
  bool (*holds)(const Asked&);
  std::string_view what;
};

constexpr std::array<Dispute, 4> kDisputes{{
    {"Slice", is_backward_to_far_end,
     "a Slice backwards to the largest integer gives nothing by the standard, and all in ONNX Runtime; the smallest integer is meant"},
    {"Pad", wraps_and_cuts, "Pad wraps before it cuts off by the standard, and after it in ONNX Runtime"},
    {"Resize", is_resized_between_corners, "corners of a Resize by scales lie elsewhere in ONNX Runtime than by the standard"},
    {"MaxUnpool", [](const Asked& a) { return a.has(2); }, "indices of a MaxUnpool with output_shape are read otherwise by ONNX Runtime"},
}};

}  // namespace

std::optional<std::string_view> disputed(const OnnxEGraph& g, const Node& node, std::span<const Id> inputs) {
  if (!node.domain.empty()) return std::nullopt;
  for (const Dispute& d : kDisputes)
    if (node.op_type == d.op && d.holds({g, node, inputs})) return d.what;
  return std::nullopt;
}

}  // namespace saturate
