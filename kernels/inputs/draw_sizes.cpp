#include "kernels/inputs/draw_sizes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <string_view>

namespace saturate {
namespace {

struct SizeOperand {
  std::string_view op;
  std::size_t input;
  SizeRole role;
};
constexpr SizeOperand kSizeOperands[] = {
    {"Reshape", 1, SizeRole::kShape},
    {"Expand", 1, SizeRole::kShape},
    {"ConstantOfShape", 0, SizeRole::kShape},
    {"Resize", 3, SizeRole::kShape},
    {"CenterCropPad", 1, SizeRole::kShape},
    {"Resize", 2, SizeRole::kScales},
    {"Upsample", 1, SizeRole::kScales},
    {"Tile", 1, SizeRole::kScales},
    {"Split", 1, SizeRole::kParts},
    {"SplitToSequence", 1, SizeRole::kParts},
    {"Slice", 1, SizeRole::kBegins},
    {"Slice", 2, SizeRole::kShape},
    {"Slice", 3, SizeRole::kAxes},
    {"Slice", 4, SizeRole::kSteps},
    {"TopK", 1, SizeRole::kOfAxis},
    {"OneHot", 1, SizeRole::kOfAxis},
    {"AffineGrid", 1, SizeRole::kGrid},
};

using Dims = std::optional<std::vector<DimSpec>>;

// Sizes of declared dims; nullopt where one is not known.
std::optional<Shape> sizes_of(const Dims& dims, const Sizes& sizes) {
  if (!dims) return std::nullopt;
  Shape out;
  for (const DimSpec& dim : *dims) {
    const auto size = dim_size(dim, sizes);
    if (!size) return std::nullopt;
    out.push_back(*size);
  }
  return out;
}

std::size_t from_front(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

// The places that so many numbers are for: all axes in their order, or those that the node names.
std::vector<std::size_t> axes_of(const SizeInput& one, std::size_t count, std::size_t rank) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(i < one.axes.size() ? from_front(one.axes[i], rank) : i);
  return out;
}

// Lengths of parts of an axis: as declared, else as even as they can be.
std::optional<std::vector<double>> parts(const SizeInput& one, std::size_t count, const std::optional<Shape>& data, const Sizes& sizes) {
  const auto at = [&](const Shape& dims) -> std::optional<double> {
    const std::size_t axis = from_front(one.axis, dims.size());
    return axis < dims.size() ? std::optional(static_cast<double>(dims[axis])) : std::nullopt;
  };
  std::vector<double> out;
  for (const Dims& result : one.results)
    if (const auto dims = sizes_of(result, sizes))
      if (const auto size = at(*dims)) out.push_back(*size);
  if (out.size() == count) return out;
  const auto whole = data ? at(*data) : std::nullopt;
  if (!whole || count == 0) return std::nullopt;
  out.assign(count, std::floor(*whole / static_cast<double>(count)));
  out.back() = *whole - std::accumulate(out.begin(), out.end() - 1, 0.0);
  return out;
}

std::optional<std::vector<double>> numbers(const SizeInput& one, std::size_t count, const std::optional<Shape>& data, const Sizes& sizes) {
  const std::optional<Shape> result = one.results.empty() ? std::nullopt : sizes_of(one.results[0], sizes);
  std::vector<double> out(count, 1);
  const std::size_t rank = result ? result->size() : data ? data->size() : count;
  const std::vector<std::size_t> axes = axes_of(one, count, rank);
  const auto size = [&](const std::optional<Shape>& dims, std::size_t i) {
    return dims && axes[i] < dims->size() ? static_cast<double>((*dims)[axes[i]]) : 1;
  };
  switch (one.role) {
    case SizeRole::kShape:
      if (!result && !data) return std::nullopt;
      for (std::size_t i = 0; i < count; ++i) out[i] = size(result ? result : data, i);
      return out;
    case SizeRole::kScales:
      for (std::size_t i = 0; i < count; ++i)
        if (result && data && size(data, i) > 0) out[i] = size(result, i) / size(data, i);
      return out;
    case SizeRole::kParts:
      return parts(one, count, data, sizes);
    case SizeRole::kBegins:
      return std::vector<double>(count, 0);
    case SizeRole::kAxes:
      std::iota(out.begin(), out.end(), 0);
      return out;
    case SizeRole::kSteps:
      return out;
    case SizeRole::kOfAxis: {
      if (!result) return std::nullopt;
      const std::size_t axis = from_front(one.axis, rank);
      return axis < rank ? std::optional(std::vector<double>(count, static_cast<double>((*result)[axis]))) : std::nullopt;
    }
    case SizeRole::kGrid:  // batch, channels, and the positions that stand between batch and coordinates in the result
      if (!result || rank != count) return std::nullopt;
      for (std::size_t i = 2; i < count; ++i) out[i] = static_cast<double>((*result)[i - 1]);
      out[0] = static_cast<double>((*result)[0]);
      return out;
  }
  return std::nullopt;
}

// In the types that operators take sizes in.
std::optional<Tensor> written(std::span<const double> numbers, const Tensor& as) {
  Tensor out(as.dtype(), as.dims());
  const auto fill = [&]<typename T>(T* to) {
    std::transform(numbers.begin(), numbers.end(), to, [](double x) { return static_cast<T>(x); });
    return out;
  };
  if (as.dtype() == DType::kInt64) return fill(out.mutable_as<std::int64_t>());
  if (as.dtype() == DType::kInt32) return fill(out.mutable_as<std::int32_t>());
  if (as.dtype() == DType::kFloat) return fill(out.mutable_as<float>());
  return std::nullopt;
}

}  // namespace

std::vector<SizeInput> size_inputs(const Graph& graph) {
  std::map<std::string, Dims> declared, given;
  for (const auto* list : {&graph.value_info, &graph.outputs, &graph.inputs})
    for (const ValueInfo& info : *list) declared[info.name] = info.type.shape;
  for (const ValueInfo& info : graph.inputs) given[info.name] = info.type.shape;
  for (const Initializer& initializer : graph.initializers) given.erase(initializer.name);
  std::vector<SizeInput> out;
  for (const Node& node : graph.nodes)
    for (const SizeOperand& operand : kSizeOperands) {
      if (!node.domain.empty() || node.op_type != operand.op || operand.input >= node.inputs.size()) continue;
      if (!given.contains(node.inputs[operand.input])) continue;
      SizeInput one{node.inputs[operand.input], operand.role};
      if (operand.input > 0) one.data = node.inputs[0], one.dims = declared[node.inputs[0]];
      for (const std::string& result : node.outputs) one.results.push_back(declared[result]);
      one.axis = int_attribute(node, "axis", node.op_type == "TopK" || node.op_type == "OneHot" ? -1 : 0);
      if (const Attribute* axes = find_attribute(node.attributes, "axes"); axes && axes->type == AttributeType::kInts)
        one.axes = axes->ints();
      out.push_back(std::move(one));
    }
  return out;
}

void fit_sizes(const std::vector<SizeInput>& all, const Sizes& sizes, Inputs& inputs) {
  for (const SizeInput& one : all) {
    const auto it = inputs.find(one.input);
    if (it == inputs.end() || !it->second.is_tensor()) continue;
    const Tensor& drawn = it->second.tensor();
    const auto data = inputs.find(one.data);
    const std::optional<Shape> dims =
        data != inputs.end() && data->second.is_tensor() ? std::optional(data->second.tensor().dims()) : sizes_of(one.dims, sizes);
    const auto wanted = numbers(one, static_cast<std::size_t>(drawn.size()), dims, sizes);
    if (auto made = wanted ? written(*wanted, drawn) : std::nullopt) it->second = *std::move(made);
  }
}

}  // namespace saturate
