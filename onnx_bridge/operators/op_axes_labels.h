// Between op_axes.cpp, which reads lines, and op_axes_by.cpp, where a line can't say it: the axes of each input and output with labels.
#pragma once

#include <optional>
#include <vector>

#include "onnx_bridge/operators/op_axes.h"

namespace saturate {

// Axes of the same label are linked.
struct AxisLabel {
  int id = 0;             // 0: nothing is said
  bool together = false;  // AxisLink::apart is false
  bool alike = false;     // only where all have the same size, for certain
};
using AxisLabels = std::vector<AxisLabel>;  // of a value; empty: nothing is said of it

struct OpLabels {
  std::vector<AxisLabels> inputs, outputs;
  std::optional<int> sizes = std::nullopt;
};
using LabelsBy = std::optional<OpLabels> (*)(const OpView& op);

// Of the standard's forms, axes as attributes of older ones included.
std::optional<OpLabels> by_perm(const OpView& op);        // Transpose
std::optional<OpLabels> by_sizes(const OpView& op);       // Reshape, Flatten: as many entries behind an axis as before
std::optional<OpLabels> by_squeezed(const OpView& op);    // Squeeze
std::optional<OpLabels> by_added(const OpView& op);       // Unsqueeze
std::optional<OpLabels> by_broadcast(const OpView& op);   // Expand
std::optional<OpLabels> by_repeats(const OpView& op);     // Tile
std::optional<OpLabels> by_reduced(const OpView& op);     // reductions
std::optional<OpLabels> by_starts(const OpView& op);      // Slice
std::optional<OpLabels> by_listed(const OpView& op);      // all axes but that of input 1
std::optional<OpLabels> by_axes(const OpView& op);        // all axes but those of the attribute `axes`
std::optional<OpLabels> by_normalized(const OpView& op);  // those of the attribute `axes` together
std::optional<OpLabels> by_pads(const OpView& op);        // Pad
std::optional<OpLabels> by_scales(const OpView& op);      // Resize, Upsample
std::optional<OpLabels> by_equation(const OpView& op);    // Einsum
std::optional<OpLabels> by_depth(const OpView& op);       // GatherND
std::optional<OpLabels> by_updates(const OpView& op);     // ScatterND
std::optional<OpLabels> by_signal(const OpView& op);      // DFT
std::optional<OpLabels> by_threes(const OpView& op);      // QLinearConcat
std::optional<OpLabels> by_blocks(const OpView& op);      // GatherBlockQuantized

// Attributes with the defaults of the schema.
std::optional<std::int64_t> int_of(const OpView& op, std::string_view name);
std::optional<std::string_view> text_of(const OpView& op, std::string_view name);

}  // namespace saturate
