#include "kernels/inputs/input_uses.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/integer_kernels.h"
#include "onnx_bridge/operators/op_questions.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

bool is_any_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Operators that hand on the values of their first input as they are.
bool forwards(const Node& node) { return has(Trait::kMovement, node) || (node.domain.empty() && node.op_type == "Cast"); }

// Operators whose output has the shape of their first input.
bool keeps_shape(const Node& node) { return has(Trait::kLikeFirst, node) || has(Trait::kUnaryElementwise, node); }

bool is_single_one(const Tensor& t) { return t.size() == 1 && element_as_double(t, 0) == 1.0; }

std::size_t ints_in(const Node& node, const char* name) {
  const Attribute* a = find_attribute(node.attributes, name);
  return a && a->type == AttributeType::kInts ? a->ints().size() : 0;
}

void join(ShapeHint& into, const ShapeHint& other) {
  if (!into.rank) into.rank = other.rank;
  into.least_rank = std::max(into.least_rank, other.least_rank);
  into.sizes.insert(other.sizes.begin(), other.sizes.end());
}

}  // namespace

InputUses::InputUses(const Graph& graph) {
  for (const Initializer& initializer : graph.initializers) see_constant(initializer.name, initializer.tensor);
  see_graph(graph);
  for (const Node& node : graph.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty()) uses_[node.inputs[i]].push_back({&node, i});
}

// Constants of bodies are seen by their names, too; who hides a name of the graph around it writes no valid model.
void InputUses::see_graph(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    for_each_body(node, [this](const Graph& body) { see_graph(body); });
    if (node.op_type != "Constant" || node.outputs.empty()) continue;
    const std::string& name = node.outputs[0];
    for (const Attribute& a : node.attributes) {
      if (std::holds_alternative<Tensor>(a.value)) see_constant(name, a.t());
      if (a.type == AttributeType::kFloat) see_constant(name, Tensor::of<float>(DType::kFloat, {}, std::vector{a.f()}));
      if (a.type == AttributeType::kInt) see_constant(name, Tensor::of<std::int64_t>(DType::kInt64, {}, std::vector{a.i()}));
    }
  }
}

bool InputUses::taken_from_one(const std::string& value, int depth) const {
  const auto it = uses_.find(value);
  return it != uses_.end() && depth <= 16 && std::any_of(it->second.begin(), it->second.end(), [&](const Use& use) {
           const auto& [node, position] = use;
           if (position == 0 && forwards(*node) && !node->outputs.empty()) return taken_from_one(node->outputs[0], depth + 1);
           return position == 1 && node->domain.empty() && node->op_type == "Sub" && ones_.contains(node->inputs[0]);
         });
}

std::optional<std::int64_t> InputUses::rows(const std::string& value, int depth) const {
  std::optional<std::int64_t> least;
  const auto it = uses_.find(value);
  if (it == uses_.end() || depth > 16) return least;
  for (const auto& [node, position] : it->second) {
    std::optional<std::int64_t> here;
    if (position == 0 && forwards(*node) && !node->outputs.empty()) here = rows(node->outputs[0], depth + 1);
    if (position == 1 && node->domain.empty() && node->op_type == "Gather") here = gather_rows(*node);
    if (node->op_type == "EmbedLayerNormalization" && position < 2)
      here = table_rows(node->inputs.size() > position + 2 ? node->inputs[position + 2] : "", 0);
    if (here) least = least ? std::min(*least, *here) : *here;
  }
  return least;
}

ShapeHint InputUses::shape(const std::string& value, int depth) const {
  ShapeHint hint;
  const auto it = uses_.find(value);
  if (it == uses_.end() || depth > 16) return hint;
  for (const auto& [node, position] : it->second) {
    if (!node->domain.empty()) continue;
    join(hint, asked(*node, position));
    if (position == 0 && keeps_shape(*node) && !node->outputs.empty()) join(hint, shape(node->outputs[0], depth + 1));
  }
  return hint;
}

namespace {

constexpr std::int64_t kMostOfConstant = 16;  // of a constant that is compared with
constexpr std::size_t kMostCompared = 64;     // constants that are looked at for one value
// Attributes that are such a constant.
constexpr std::string_view kThresholds[] = {"alpha", "lambd", "threshold", "min", "max"};

// Whether it asks on which side of an operand another lies, or cuts it off there (Max, Min, Clip); a sum tells where it crosses 0.
bool compares(const Node& node) {
  const bool bounds = has(Trait::kSelection, node) && has(Trait::kIdempotent, node);
  const bool sums = has(Trait::kBinaryElementwise, node) && has(Trait::kLinear, node);
  return has(Trait::kCompares, node) || bounds || sums || (node.domain.empty() && node.op_type == "Mod");
}

// Whether what its first input is compared with behind it tells of the input itself: it is moved, of another sign, or cut off.
bool keeps_sides(const Node& node) {
  const bool cuts = has(Trait::kElementwise, node) && has(Trait::kCommutesWithRounding, node) && node.op_type != "Where";
  return forwards(node) || cuts;
}

}  // namespace

void InputUses::add_compared(const Node& node, std::size_t position, std::vector<double>& out) const {
  const auto add = [&](double c) {
    if (std::isfinite(c) && std::find(out.begin(), out.end(), c) == out.end()) out.push_back(c);
  };
  if (position == 0)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kFloat && std::ranges::find(kThresholds, a.name) != std::end(kThresholds)) add(a.f());
  if (!compares(node)) return;
  for (const double c : few_constants(node))
    if (out.size() < kMostCompared) add(c);
}

const std::vector<double>& InputUses::few_constants(const Node& node) const {
  const auto [known, is_new] = few_constants_.try_emplace(&node);
  std::vector<double>& values = known->second;
  for (std::size_t i = 0; is_new && i < node.inputs.size() && values.size() < kMostCompared; ++i) {
    const auto it = few_.find(node.inputs[i]);
    if (it == few_.end() || it->second.size() > kMostOfConstant) continue;
    for (std::int64_t k = 0; k < it->second.size(); ++k)
      if (const double c = element_as_double(it->second, k).value_or(NAN);
          std::isfinite(c) && std::find(values.begin(), values.end(), c) == values.end())
        values.push_back(c);
  }
  return values;
}

std::vector<double> InputUses::compared(const std::string& value, int depth) const {
  std::vector<double> out;
  const auto it = uses_.find(value);
  if (it == uses_.end() || depth > 16) return out;
  const Node* before = nullptr;
  for (const auto& [node, position] : it->second) {
    if (node == std::exchange(before, node)) continue;  // it reads the value once more
    add_compared(*node, position, out);
    if (position != 0 || !keeps_sides(*node) || node->outputs.empty()) continue;
    for (const double c : compared(node->outputs[0], depth + 1))
      if (std::find(out.begin(), out.end(), c) == out.end()) out.push_back(c);
  }
  return out;
}

std::optional<std::int64_t> InputUses::length(const std::string& value, int depth) const {
  const auto it = uses_.find(value);
  if (it == uses_.end() || depth > 16) return std::nullopt;
  for (const auto& [node, position] : it->second) {
    if (position == 0 && forwards(*node) && !node->outputs.empty())
      if (const auto behind = length(node->outputs[0], depth + 1)) return behind;
    const OpSchema* schema = find_schema(node->domain, node->op_type, kNewestOpset);
    if (!schema || position >= schema->inputs.size()) continue;
    const std::string_view place = schema->inputs[position].name;
    if (place == "seqlens_k") return 1;
    if (place == "total_sequence_length") return 0;
  }
  return std::nullopt;
}

std::vector<double> InputUses::constants() const {
  constexpr double kLeast = 1e-30, kMost = 1e7;
  std::vector<double> out;
  std::set<double> seen;
  for (const auto& [name, tensor] : few_) {
    const double c = tensor.size() == 1 && is_floating(tensor.dtype()) ? std::abs(element_as_double(tensor, 0).value_or(NAN)) : NAN;
    if (c >= kLeast && c <= kMost && seen.insert(c).second) out.push_back(c);
  }
  return out;
}

std::optional<QuantizerHint> InputUses::quantizer_of(const Node& node) const {
  const auto constant = [&](std::size_t i) -> const Tensor* {
    const auto it = i < node.inputs.size() ? few_.find(node.inputs[i]) : few_.end();
    return it == few_.end() ? nullptr : &it->second;
  };
  const Tensor *scale = constant(1), *zero = constant(2);
  const bool no_zero = node.inputs.size() < 3 || node.inputs[2].empty();
  const double step = scale ? std::abs(element_as_double(*scale, 0).value_or(0)) : 0;
  const auto to = static_cast<DType>(int_attribute(node, "output_dtype", static_cast<std::int64_t>(DType::kUint8)));
  const DType dtype = zero ? zero->dtype() : to;
  if ((!zero && !no_zero) || !(step > 0) || !std::isfinite(step) || !is_integer(dtype) || bit_width(dtype) > 16) return std::nullopt;
  const double values = std::exp2(bit_width(dtype)), least = has_sign(dtype) ? -values / 2 : 0;
  const double at = zero ? static_cast<double>(element_as_int(*zero, 0).value_or(0)) : 0;
  return QuantizerHint{step, step * (least - at), step * (least + values - 1 - at)};
}

std::optional<QuantizerHint> InputUses::quantizer(const std::string& value, int depth) const {
  const auto it = uses_.find(value);
  if (it == uses_.end() || depth > 16) return std::nullopt;
  for (const auto& [node, position] : it->second) {
    std::optional<QuantizerHint> here;
    if (position != 0) continue;
    if (node->op_type == "QuantizeLinear") here = quantizer_of(*node);
    if (has(Trait::kMovement, *node) && !node->outputs.empty()) here = quantizer(node->outputs[0], depth + 1);
    if (here) return here;
  }
  return std::nullopt;
}

// Beside a zero point of the same name; norms have scales of another kind.
bool InputUses::is_step(const std::string& value, int depth) const {
  static constexpr std::string_view kScale = "_scale";
  const auto it = uses_.find(value);
  return it != uses_.end() && depth <= 16 && std::any_of(it->second.begin(), it->second.end(), [&](const Use& use) {
           const auto& [node, position] = use;
           if (position == 0 && forwards(*node) && !node->outputs.empty()) return is_step(node->outputs[0], depth + 1);
           const OpSchema* schema = find_schema(node->domain, node->op_type, kNewestOpset);
           if (!schema || position >= schema->inputs.size()) return false;
           std::string_view name = schema->inputs[position].name;
           if (!name.ends_with(kScale)) return false;
           name.remove_suffix(kScale.size());
           return std::ranges::any_of(schema->inputs, [&](const OpSchema::Formal& other) {
             return other.name.starts_with(name) && other.name.substr(name.size()) == "_zero_point";
           });
         });
}

bool InputUses::is_dequantized(const std::string& value, int depth) const {
  const auto it = uses_.find(value);
  return it != uses_.end() && depth <= 16 && std::any_of(it->second.begin(), it->second.end(), [&](const Use& use) {
           const auto& [node, position] = use;
           if (position == 0 && has(Trait::kMovement, *node) && !node->outputs.empty()) return is_dequantized(node->outputs[0], depth + 1);
           if (node->op_type == "DequantizeLinear") return position == 0;
           const IntegerKernel* kernel = integer_kernel(operator_name(node->domain, node->op_type));
           return kernel && kernel->reads(position);
         });
}

void InputUses::see_constant(const std::string& name, const Tensor& tensor) {
  constexpr std::int64_t kFew = 1 << 16;
  shapes_[name] = tensor.dims();
  if (tensor.size() > 0 && tensor.size() <= kFew) few_.emplace(name, tensor);
  if (is_single_one(tensor)) ones_.insert(name);
}

std::optional<std::int64_t> InputUses::gather_rows(const Node& node) const {
  return table_rows(node.inputs[0], int_attribute(node, "axis", 0));
}

std::optional<std::int64_t> InputUses::table_rows(const std::string& table, std::int64_t axis) const {
  const auto shape = shapes_.find(table);
  if (shape == shapes_.end()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(shape->second.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  const std::int64_t n = shape->second[static_cast<std::size_t>(axis)];
  return n > 0 ? std::optional(n) : std::nullopt;
}

const Shape* InputUses::constant_shape(const Node& node, std::size_t input) const {
  if (input >= node.inputs.size()) return nullptr;
  const auto it = shapes_.find(node.inputs[input]);
  return it == shapes_.end() ? nullptr : &it->second;
}

ShapeHint InputUses::asked(const Node& node, std::size_t position) const {
  if (is_any_of(node.op_type, {"MatMul", "Gemm"})) return asked_by_product(node, position);
  if (broadcasts(node) || node.op_type == "PRelu") return asked_beside(node, position);
  if (position != 0) return {};
  if (node.op_type == "Transpose" && ints_in(node, "perm") > 0) return {.rank = ints_in(node, "perm")};
  if (is_recurrent(node.op_type)) {
    const Shape* weights = constant_shape(node, 1);
    ShapeHint hint{.rank = 3};
    if (weights && weights->size() == 3) hint.sizes[-1] = (*weights)[2];
    return hint;
  }
  if (node.op_type == "LayerNormalization") {
    const Shape* scale = constant_shape(node, 1);
    if (scale && scale->size() == 1 && (*scale)[0] > 1) return {.least_rank = 1, .sizes = {{-1, (*scale)[0]}}};
  }
  return asked_by_window(node);
}

ShapeHint InputUses::asked_by_product(const Node& node, std::size_t position) const {
  const Shape* other = position < 2 ? constant_shape(node, 1 - position) : nullptr;
  const bool gemm = node.op_type == "Gemm";
  ShapeHint hint;
  if (gemm && position < 2) hint.rank = 2;
  if (!other || other->empty()) return hint;
  const bool turned = gemm && int_attribute(node, position == 0 ? "transB" : "transA", 0) != 0;
  const bool own_turned = gemm && int_attribute(node, position == 0 ? "transA" : "transB", 0) != 0;
  const std::size_t rank = other->size();
  if (rank == 1) {  // a vector
    hint.sizes[position == 0 ? -1 : -2] = (*other)[0];
    return hint;
  }
  hint.least_rank = 1;
  const bool last = (position == 1) != turned;  // which axis of the other is summed over
  hint.sizes[(position == 0) != own_turned ? -1 : -2] = (*other)[last ? rank - 1 : rank - 2];
  return hint;
}

ShapeHint InputUses::asked_by_window(const Node& node) const {
  const bool transposed = node.op_type == "ConvTranspose";
  if (node.op_type == "Conv" || transposed) {
    const Shape* weights = constant_shape(node, 1);
    if (!weights || weights->size() < 3) return {.least_rank = 3};
    const std::int64_t channels = transposed ? (*weights)[0] : (*weights)[1] * int_attribute(node, "group", 1);
    return {.rank = weights->size(), .sizes = {{1, channels}}};
  }
  const bool pool = node.op_type.ends_with("Pool"), global = pool && node.op_type.starts_with("Global");
  if (pool && !global) return {.rank = ints_in(node, "kernel_shape") + 2};
  if (global || is_any_of(node.op_type, {"DepthToSpace", "SpaceToDepth"})) return {.rank = 4};
  if (is_any_of(node.op_type, {"BatchNormalization", "InstanceNormalization"})) {
    const Shape* scale = constant_shape(node, 1);
    if (scale && scale->size() == 1) return {.least_rank = 2, .sizes = {{1, (*scale)[0]}}};
  }
  return {};
}

// Elements beside those of a constant: axes of it that are longer than 1 are the value's, too, or 1.
ShapeHint InputUses::asked_beside(const Node& node, std::size_t position) const {
  if (constant_shape(node, position)) return beside_constants(node, position);
  const auto [known, is_new] = beside_.try_emplace(&node);  // once for all that the node reads: they may be many
  if (is_new) known->second = beside_constants(node, node.inputs.size());
  return known->second;
}

ShapeHint InputUses::beside_constants(const Node& node, std::size_t position) const {
  ShapeHint hint;
  for (std::size_t other = 0; other < node.inputs.size(); ++other) {
    const Shape* shape = other == position ? nullptr : constant_shape(node, other);
    if (!shape || shape->empty()) continue;
    hint.least_rank = std::max(hint.least_rank, shape->size());
    for (std::size_t k = 1; k <= shape->size(); ++k)
      if (const std::int64_t size = (*shape)[shape->size() - k]; size > 1) hint.sizes.emplace(-static_cast<std::int64_t>(k), size);
  }
  return hint;
}

}  // namespace saturate
