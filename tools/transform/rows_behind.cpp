// Which operators treat entries along an axis one by one, and where their inputs have these entries.
#include <algorithm>
#include <numeric>

#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/edit.h"
#include "tools/transform/last_rows.h"

namespace saturate {
namespace {

class RowsBehind {
 public:
  RowsBehind(const Model& model, const std::map<std::string, ValueType>& types, const Node& node, int axis)
      : model_(model), types_(types), node_(node), axis_(axis) {}

  std::optional<RowsPlan> plan() const {
    const auto rank = this->rank(node_.outputs[0]);
    if (!rank || axis_ >= *rank) return std::nullopt;
    const Handler handler = handler_of();
    return handler ? (this->*handler)() : std::nullopt;
  }

 private:
  using Plan = std::optional<RowsPlan>;
  using Handler = Plan (RowsBehind::*)() const;

  Handler handler_of() const {
    static const std::map<std::string, Handler> handlers{
        {"MatMul", &RowsBehind::product},
        {"com.microsoft.MatMulNBits", &RowsBehind::like_first},
        {"com.microsoft.FastGelu", &RowsBehind::like_first},
        {"com.microsoft.BiasGelu", &RowsBehind::like_first},
        {"LayerNormalization", &RowsBehind::norm},
        {"RMSNormalization", &RowsBehind::norm},
        {"SimplifiedLayerNormalization", &RowsBehind::norm},
        {"com.microsoft.SkipLayerNormalization", &RowsBehind::skip_norm},
        {"com.microsoft.SkipSimplifiedLayerNormalization", &RowsBehind::skip_norm},
        {"Softmax", &RowsBehind::along_one_axis},
        {"LogSoftmax", &RowsBehind::along_one_axis},
        {"LpNormalization", &RowsBehind::along_one_axis},
        {"Transpose", &RowsBehind::transpose},
        {"Reshape", &RowsBehind::reshape},
        {"Squeeze", &RowsBehind::squeeze},
        {"Unsqueeze", &RowsBehind::unsqueeze},
        {"Split", &RowsBehind::split},
        {"Slice", &RowsBehind::slice},
        {"Concat", &RowsBehind::concat},
        {"Gather", &RowsBehind::gather},
        {"Attention", &RowsBehind::attention},
        {"RotaryEmbedding", &RowsBehind::rotary},
    };
    const std::string name = qualified_name(node_.domain, node_.op_type);
    if (const auto it = handlers.find(name); it != handlers.end()) return it->second;
    if (has(Trait::kElementwise, node_) || has(Trait::kUnaryElementwise, node_) || broadcasts(node_)) return &RowsBehind::elementwise;
    if (has(Trait::kReduction, node_)) return &RowsBehind::reduction;
    return nullptr;
  }

  std::optional<int> rank(const std::string& value) const {
    const auto found = rank_of(types_, value);
    return found ? std::optional(static_cast<int>(*found)) : std::nullopt;
  }
  const std::vector<DimSpec>& dims(const std::string& value) const { return *types_.at(value).shape; }
  bool given(std::size_t i) const { return i < node_.inputs.size() && !node_.inputs[i].empty(); }
  int out_rank() const { return *rank(node_.outputs[0]); }
  std::int64_t number(const char* name, std::int64_t otherwise) const { return int_attribute(node_, name, otherwise); }
  int axis_attribute(std::int64_t otherwise, int rank) const {
    const std::int64_t given = number("axis", otherwise);
    return static_cast<int>(given < 0 ? given + rank : given);
  }
  RowsPlan whole() const { return {InputRows(node_.inputs.size())}; }

  // Puts in where a value that broadcasts to the results has the entries: nowhere if it has one for all. False: its rank is not known.
  bool broadcast(RowsPlan& plan, std::size_t i, int axis, int to_rank) const {
    if (!given(i)) return true;
    const auto own = rank(node_.inputs[i]);
    if (!own || *own > to_rank) return false;
    const int at = axis - (to_rank - *own);
    if (at >= 0 && dims(node_.inputs[i])[static_cast<std::size_t>(at)] != DimSpec(std::int64_t{1})) plan.inputs[i] = at;
    return true;
  }

  Plan elementwise() const {
    RowsPlan plan = whole();
    for (std::size_t i = 0; i < node_.inputs.size(); ++i)
      if (!broadcast(plan, i, axis_, out_rank())) return std::nullopt;
    return plan;
  }

  // Rows of its first input, behind which is one axis at least; the others are for all.
  Plan like_first() const {
    if (axis_ >= out_rank() - 1 || rank(node_.inputs[0]) != out_rank()) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_;
    return plan;
  }

  Plan product() const {
    const auto a = rank(node_.inputs[0]), b = rank(node_.inputs[1]);
    if (!a || !b || *a < 2 || *b < 2) return std::nullopt;
    RowsPlan plan = whole();
    if (axis_ == out_rank() - 2)
      plan.inputs[0] = *a - 2;
    else if (axis_ == out_rank() - 1)
      plan.inputs[1] = *b - 1;
    else if (!broadcast(plan, 0, axis_, out_rank()) || !broadcast(plan, 1, axis_, out_rank()))
      return std::nullopt;
    return plan;
  }

  // The mean and such of further outputs are of one entry in the place of those that are normalized.
  Plan norm() const {
    const auto own = rank(node_.inputs[0]);
    if (!own || axis_ >= axis_attribute(-1, *own)) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_;
    for (std::size_t i = 1; i < node_.inputs.size(); ++i)
      if (!broadcast(plan, i, axis_, *own)) return std::nullopt;
    return plan;
  }

  Plan skip_norm() const {
    const auto own = rank(node_.inputs[0]);
    if (!own || axis_ >= *own - 1) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_;
    return broadcast(plan, 1, axis_, *own) ? Plan(plan) : std::nullopt;
  }

  Plan along_one_axis() const {
    const int along = axis_attribute(model_.opset("") < 13 && node_.op_type != "LpNormalization" ? 1 : -1, out_rank());
    const bool flat = model_.opset("") < 13 && node_.op_type != "LpNormalization";  // over that axis and those behind it
    if (axis_ == along || (flat && axis_ > along)) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_;
    return plan;
  }

  Plan transpose() const {
    const Attribute* perm = find_attribute(node_.attributes, "perm");
    RowsPlan plan = whole();
    plan.inputs[0] = perm ? static_cast<int>(perm->ints()[static_cast<std::size_t>(axis_)]) : out_rank() - 1 - axis_;
    return plan;
  }

  // The same dims up to the axis, and numbers behind it.
  Plan reshape() const {
    const auto own = rank(node_.inputs[0]);
    if (!own || axis_ >= *own) return std::nullopt;
    const std::vector<DimSpec>&from = dims(node_.inputs[0]), &to = dims(node_.outputs[0]);
    RowsPlan plan = whole();
    plan.shape.emplace();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto* size = std::get_if<std::int64_t>(&to[i]);
      const bool in_front = i <= static_cast<std::size_t>(axis_);
      if (in_front ? from[i] != to[i] || std::holds_alternative<std::monostate>(to[i]) : !size || *size == 0) return std::nullopt;
      plan.shape->push_back(in_front ? 0 : *size);
    }
    plan.inputs[0] = axis_;
    return plan;
  }

  // Constant axes, from 0: an attribute of older versions, or an input.
  std::optional<std::vector<int>> axes(std::size_t input, int of_rank) const {
    std::optional<std::vector<std::int64_t>> found;
    if (const Attribute* attribute = find_attribute(node_.attributes, "axes"))
      found = attribute->ints();
    else if (given(input))
      found = constant_ints(model_.graph, node_.inputs[input]);
    if (!found) return std::nullopt;
    std::vector<int> out;
    for (const std::int64_t axis : *found) out.push_back(static_cast<int>(axis < 0 ? axis + of_rank : axis));
    std::sort(out.begin(), out.end());
    return out;
  }

  // The place of an axis among those that are not in `gone`.
  static int behind_others(int axis, const std::vector<int>& gone) {
    for (const int one : gone)
      if (one <= axis) ++axis;
    return axis;
  }

  Plan without(const std::optional<std::vector<int>>& gone) const {
    if (!gone) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = behind_others(axis_, *gone);
    return plan;
  }

  Plan squeeze() const {
    const auto own = rank(node_.inputs[0]);
    return own ? without(axes(1, *own)) : std::nullopt;
  }

  Plan unsqueeze() const {
    const auto added = axes(1, out_rank());
    if (!added || std::find(added->begin(), added->end(), axis_) != added->end()) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_ - static_cast<int>(std::count_if(added->begin(), added->end(), [&](int one) { return one < axis_; }));
    return plan;
  }

  Plan reduction() const {
    const auto own = rank(node_.inputs[0]);
    const auto over = own ? axes(1, *own) : std::nullopt;
    if (!over || over->empty()) return std::nullopt;
    if (number("keepdims", 1) == 0) return without(over);
    if (std::find(over->begin(), over->end(), axis_) != over->end()) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_;
    return plan;
  }

  Plan split() const {
    if (axis_attribute(0, out_rank()) == axis_) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_;
    return plan;
  }

  Plan slice() const {
    const auto along = given(3) ? axes(3, out_rank()) : std::nullopt;
    if (!along || std::find(along->begin(), along->end(), axis_) != along->end()) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_;
    return plan;
  }

  Plan concat() const {
    if (axis_attribute(0, out_rank()) == axis_) return std::nullopt;
    RowsPlan plan = whole();
    for (auto& input : plan.inputs) input = axis_;
    return plan;
  }

  Plan gather() const {
    const auto data = rank(node_.inputs[0]), indices = rank(node_.inputs[1]);
    if (!data || !indices) return std::nullopt;
    const int at = axis_attribute(0, *data);
    RowsPlan plan = whole();
    if (axis_ >= at && axis_ < at + *indices)
      plan.inputs[1] = axis_ - at;
    else
      plan.inputs[0] = axis_ < at ? axis_ : axis_ - *indices + 1;
    return plan;
  }

  // Queries. By is_causal the last ones would be taken for the first.
  Plan attention() const {
    const int tokens = out_rank() - 2;
    if (axis_ != tokens || rank(node_.inputs[0]) != out_rank() || number("is_causal", 0) != 0) return std::nullopt;
    if (node_.outputs.size() > 3 && !node_.outputs[3].empty()) return std::nullopt;
    RowsPlan plan = whole();
    plan.of_first_output = true;  // the others are keys and values
    plan.inputs[0] = tokens;
    if (!given(3)) return plan;
    const auto mask = rank(node_.inputs[3]);
    return mask && *mask >= 2 && broadcast(plan, 3, *mask - 2, *mask) ? Plan(plan) : std::nullopt;
  }

  Plan rotary() const {
    if (axis_ != out_rank() - 2 || rank(node_.inputs[0]) != out_rank()) return std::nullopt;
    RowsPlan plan = whole();
    plan.inputs[0] = axis_;
    for (const std::size_t i : given(3) ? std::vector<std::size_t>{3} : std::vector<std::size_t>{1, 2}) plan.inputs[i] = 1;
    return plan;
  }

  const Model& model_;
  const std::map<std::string, ValueType>& types_;
  const Node& node_;
  const int axis_;
};

}  // namespace

std::optional<RowsPlan> rows_behind(const Model& model, const std::map<std::string, ValueType>& types, const Node& node, int axis) {
  if (node.outputs.empty() || node.outputs[0].empty()) return std::nullopt;
  return RowsBehind(model, types, node, axis).plan();
}

}  // namespace saturate
