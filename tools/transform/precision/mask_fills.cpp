#include "tools/transform/precision/mask_fills.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/graph/floats.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/operators/op_questions.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

constexpr double kSmall = 1000;           // scores are smaller, and so is what a mask is compared with
constexpr double kNoNumberOfData = 1e30;  // what is larger hides, whatever it is multiplied by

using Use = GraphView::Use;  // a place that reads a value

// What becomes of a number that a constant holds, in a graph.
class Flow {
 public:
  Flow(const Model& model, const std::map<std::string, ValueType>& types) : model_(model), types_(types), view_(model.graph) {}

  std::span<const Use> uses(const std::string& value) const { return view_.uses(value); }
  // Whether an output of the graph is it, or a body reads it.
  bool is_read_elsewhere(const std::string& value) const { return view_.is_output(value) || view_.is_read_by_body(value); }

  // Whether the fill that enters there, `factor` times kMaskFill, hides keys as the number of size `most` does, and does nothing else.
  bool hides(const Use& use, double factor, double most) {
    const Node& node = *use.node;
    if (called_function(model_, node)) return false;
    if (is_bias(use)) return is_hidden(factor);
    if (!node.domain.empty()) return false;
    if (one_of(node.op_type, {"Softmax", "Exp", "ReduceMax"})) return use.input == 0 && is_hidden(factor);
    if (one_of(node.op_type, {"Shape", "Size"}) || (node.op_type == "CastLike" && use.input == 1)) return true;
    if (has(Trait::kCompares, node)) {
      const auto bound = number_of(node.inputs[1 - use.input]);
      return bound && std::abs(*bound) < kSmall && is_hidden(std::abs(factor));
    }
    if (node.op_type == "Cast" && dtype_of(node.outputs[0]) == DType::kBool) return true;
    const auto onwards = factor_behind(use, factor, most);
    return onwards && std::all_of(node.outputs.begin(), node.outputs.end(),
                                  [&](const std::string& made) { return made.empty() || all_hide(made, *onwards, most); });
  }

  bool all_hide(const std::string& value, double factor, double most) {
    if (is_read_elsewhere(value)) return false;
    const auto [known, is_new] = known_.try_emplace({value, {factor, most}}, true);
    if (!is_new) return known->second;
    const std::span<const Use> all = uses(value);
    const bool hide = std::all_of(all.begin(), all.end(), [&](const Use& use) { return hides(use, factor, most); });
    return known_[{value, {factor, most}}] = hide;
  }

 private:
  static bool is_hidden(double factor) {
    const double fill = kMaskFill * factor;
    return fill <= -kSmall && fill >= 3 * static_cast<double>(kMaskFill);
  }

  // An input of attention that is added to its scores.
  bool is_bias(const Use& use) const {
    const OpSchema* schema = find_schema(use.node->domain, use.node->op_type, model_.opset(use.node->domain));
    return schema && use.input < schema->inputs.size() && one_of(schema->inputs[use.input].name, {"attn_mask", "attention_bias"});
  }

  DType dtype_of(const std::string& value) const {
    const auto it = types_.find(value);
    return it == types_.end() ? DType::kUndefined : it->second.dtype;
  }

  std::optional<double> number_of(const std::string& value) const {
    const Tensor* constant = constant_tensor(model_.graph, value);
    return constant && constant->size() == 1 ? element_as_double(*constant, 0) : std::nullopt;
  }

  // Whether the node only gives elements places, beside others and zeros, and those of this input too.
  bool places(const Use& use) const {
    const Node& node = *use.node;
    const bool selects = has(Trait::kSelection, node) && !has(Trait::kElementwise, node);
    if (!selects && !updates_of(node) && !one_of(node.op_type, {"Pad", "Trilu"})) return false;
    const OpSchema* schema = find_schema(node.domain, node.op_type, model_.opset(node.domain));
    const OpSchema::Formal* formal = schema ? formal_at(schema->inputs, use.input) : nullptr;
    return formal && formal->type == schema->outputs[0].type;
  }

  // Of what the node makes, where some of its elements are elements of this input, or sums of them with others.
  std::optional<double> factor_behind(const Use& use, double factor, double most) const {
    const Node& node = *use.node;
    const std::string& op = node.op_type;
    if (places(use) || one_of(op, {"Add", "Sum"}) || (op == "Where" && use.input > 0)) return factor;
    if (op == "Sub") return use.input == 0 ? factor : -factor;
    if (op == "Neg") return -factor;
    if (op == "Cast" || (op == "CastLike" && use.input == 0))
      return is_floating(dtype_of(node.outputs[0])) ? std::optional(factor) : std::nullopt;
    if (op == "Max") return all_lower(node, use.input) ? std::optional(factor) : std::nullopt;
    if (op == "Mul" || (op == "Div" && use.input == 0)) return times(op == "Mul", node.inputs[1 - use.input], factor, most);
    return std::nullopt;
  }

  // Whether the others of Max are bounds so low that nothing lies below.
  bool all_lower(const Node& node, std::size_t but) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (const auto bound = i == but ? std::nullopt : number_of(node.inputs[i]); i != but && (!bound || *bound > 3 * kMaskFill))
        return false;
    return true;
  }

  std::optional<double> times(bool is_product, const std::string& other, double factor, double most) const {
    if (const auto number = number_of(other))
      return *number == 0 ? std::nullopt : std::optional(is_product ? factor * *number : factor / *number);
    return is_product && (most >= kNoNumberOfData || is_zero_or_one(other)) ? std::optional(factor) : std::nullopt;
  }

  // Whether the value tells by 0 and 1 what is hidden, as far as the graph says.
  bool is_zero_or_one(const std::string& value) const {
    if (const Tensor* constant = constant_tensor(model_.graph, value)) {
      for (std::int64_t i = 0; i < constant->size(); ++i)
        if (const auto x = element_as_double(*constant, i); x != 0.0 && x != 1.0) return false;
      return true;
    }
    const Node* producer = view_.producer(value);
    if (!producer || producer->inputs.empty()) return false;
    const Node& node = *producer;
    const std::string& first = node.inputs[0];
    if (one_of(node.op_type, {"Cast", "CastLike"})) {
      const DType from = dtype_of(first);
      return from == DType::kBool || is_integer(from) || is_zero_or_one(first);
    }
    if (node.op_type == "Sub") return number_of(first) == 1.0;
    if (node.op_type == "Mul") return is_zero_or_one(first) && is_zero_or_one(node.inputs[1]);
    return (has(Trait::kMovement, node) || node.op_type == "Trilu") && is_zero_or_one(first);
  }

  const Model& model_;
  const std::map<std::string, ValueType>& types_;
  GraphView view_;
  std::map<std::pair<std::string, std::pair<double, double>>, bool> known_;
};

class Filler {
 public:
  Filler(Model& model, DType to, HalfWeights& weights, std::map<std::string, ValueType>& types)
      : graph_(model.graph), largest_(largest_number(to)), weights_(weights), types_(types), flow_(model, types), fresh_(model.graph) {}

  std::size_t run() && {
    for (const Initializer& i : graph_.initializers)
      if (!i.sparse && !find_named(graph_.inputs, i.name)) look_at(i.name, i.tensor);
    for (const Node& node : graph_.nodes)
      if (one_of(node.op_type, {"Constant", "ConstantOfShape"}))
        if (const Attribute* a = find_attribute(node.attributes, "value"))
          if (const auto* tensor = std::get_if<Tensor>(&a->value)) look_at(node.outputs.at(0), *tensor);
    return change();
  }

 private:
  struct Found {
    Tensor filled;
    std::vector<Use> uses;  // where it hides
    bool whole = false;     // there are no others
  };

  void look_at(const std::string& name, const Tensor& tensor) {
    if (tensor.dtype() != DType::kFloat) return;
    const HalfWeights::Reach reach = weights_.reach_of(tensor);
    const bool below = reach.below > largest_, above = reach.above > largest_;
    if (below == above) return;
    const double sign = below ? 1 : -1;
    const std::span<const Use> all = flow_.uses(name);
    std::vector<Use> hiding(all.begin(), all.end());
    std::erase_if(hiding, [&](const Use& use) { return !flow_.hides(use, sign, std::max(reach.below, reach.above)); });
    if (hiding.empty()) return;
    const auto is_beyond = [&](double x) { return std::isfinite(x) && std::abs(x) > largest_; };
    const bool whole = hiding.size() == all.size() && !flow_.is_read_elsewhere(name);
    found_.emplace(name, Found{*replaced(tensor, is_beyond, kMaskFill * sign), std::move(hiding), whole});
  }

  // A constant that hides wherever it is read gets other numbers; of another one there are two.
  std::size_t change() {
    std::size_t changed = 0;
    std::vector<Initializer> added;
    for (auto& [name, found] : found_) {
      if (found.whole ? put_in_place(name, found.filled) : put_beside(name, found, added)) ++changed;
    }
    std::move(added.begin(), added.end(), std::back_inserter(graph_.initializers));
    return changed;
  }

  bool put_in_place(const std::string& name, Tensor& filled) {
    if (Initializer* i = find_named(graph_.initializers, name)) {
      *i = {name, std::move(filled), nullptr, false};
      return true;
    }
    Node& maker = node_of(*producer_of(graph_, name));
    for (Attribute& a : maker.attributes)
      if (a.name == "value") a = Attribute::of(a.name, filled);
    maker.origin = nullptr;
    return true;
  }

  bool put_beside(const std::string& name, Found& found, std::vector<Initializer>& added) {
    const Node* maker = producer_of(graph_, name);
    if (maker && is_operator(*maker, "ConstantOfShape")) return false;
    const std::string fill = fresh_(name + "_fill");
    for (const Use& use : found.uses) {
      Node& node = node_of(*use.node);
      node.inputs[use.input] = fill;
      node.origin = nullptr;
    }
    types_.emplace(fill, types_.at(name));
    added.push_back({fill, std::move(found.filled), nullptr, false});
    return true;
  }

  Node& node_of(const Node& node) { return graph_.nodes[static_cast<std::size_t>(&node - graph_.nodes.data())]; }

  Graph& graph_;
  double largest_;
  HalfWeights& weights_;
  std::map<std::string, ValueType>& types_;
  Flow flow_;
  FreshNames fresh_;
  std::map<std::string, Found> found_;
};

}  // namespace

std::size_t fill_masks(Model& model, DType to, HalfWeights& weights, std::map<std::string, ValueType>& types) {
  return Filler(model, to, weights, types).run();
}

}  // namespace saturate
