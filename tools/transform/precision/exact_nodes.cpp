#include "tools/transform/precision/exact_nodes.h"

#include <algorithm>
#include <span>
#include <unordered_set>
#include <vector>

#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/graph/questions.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

constexpr const char* kPosition = "an angle or a position";
constexpr const char* kNorm = "of a norm";
constexpr const char* kGuarded = "a number near 0 keeps it from 0";
constexpr const char* kCompared = "compared with a number that the type has not";

class ExactFinder {
 public:
  ExactFinder(const ExactQuestion& question, HalfWeights& weights)
      : graph_(question.graph),
        types_(question.types),
        constants_(question.constants),
        to_(question.to),
        is_listed_(question.is_listed),
        weights_(weights),
        view_(question.graph) {}

  ExactNodes find() && {
    find_counts();
    find_exact();
    find_norms();
    find_guarded();
    find_compared();
    return std::move(exact_);
  }

 private:
  // Floats that are computed of integers and constants alone, element by element: positions, distances, lengths.
  void find_counts() {
    for (const Node& node : graph_.nodes) {
      const bool begins = node.domain.empty() && (node.op_type == "Range" || is_cast_of_integer(node));
      if (begins || (has(Trait::kElementwise, node) && reads_counts(node)) ||
          (has(Trait::kMovement, node) && counts_.contains(node.inputs.at(0))))
        for (const std::string& made : node.outputs)
          if (types_.is_float(made)) counts_.insert(made);
    }
  }

  bool is_cast_of_integer(const Node& node) const {
    return one_of(node.op_type, {"Cast", "CastLike"}) && is_integer(types_.of(node.inputs.at(0)));
  }

  bool reads_counts(const Node& node) const {
    bool any = false;
    for (const std::string& read : node.inputs) {
      if (!types_.is_float(read) || constants_.contains(read)) continue;
      if (!counts_.contains(read)) return false;
      any = true;
    }
    return any;
  }

  // Whether the node makes of counts what another rounding would make another one.
  bool decides(const Node& node) const {
    if (!node.domain.empty() || !reads_counts(node)) return false;
    return is_integer(types_.of(node.outputs.at(0))) || has(Trait::kCompares, node);
  }

  // What Sin and Cos are computed of: angles of far positions need all bits of a float. And counts that become integers or are compared.
  void find_exact() {
    std::vector<const Node*> work;
    for (const Node& node : graph_.nodes) {
      const bool is_decided = decides(node);
      if (is_decided) exact_.emplace(&node, kPosition);
      if (is_decided || (node.domain.empty() && one_of(node.op_type, {"Sin", "Cos"}))) work.push_back(&node);
    }
    while (!work.empty()) {
      const Node* node = work.back();
      work.pop_back();
      for (const std::string& read : node->inputs)
        if (const Node* maker = view_.producer(read); maker && types_.is_float(read) && exact_.emplace(maker, kPosition).second)
          work.push_back(maker);
    }
  }

  // What a number near 0 keeps from 0 (an epsilon that is added, or a bound), and what is divided by it: the number would be 0 in halves.
  void find_guarded() {
    std::vector<const Node*> work;
    std::unordered_set<const Node*> seen;
    const auto keep = [&](const Node& node) {
      exact_.emplace(&node, kGuarded);
      if (seen.insert(&node).second) work.push_back(&node);
    };
    for (const Node& node : graph_.nodes) {
      const auto is_guard = [&](const std::string& read) {
        const auto it = constants_.find(read);
        return it != constants_.end() && it->second->dtype() == DType::kFloat && is_near_zero(*it->second, to_, weights_);
      };
      const bool guards = node.domain.empty() && one_of(node.op_type, {"Add", "Sub", "Max", "Clip", "Where"});
      if (guards && std::any_of(node.inputs.begin(), node.inputs.end(), is_guard)) keep(node);
    }
    while (!work.empty()) {
      const Node* from = work.back();
      work.pop_back();
      for (const std::string& made : from->outputs)
        for (const auto& [reader, input] : view_.uses(made)) {
          if (is_operator(*reader, "Div") && input == 1) exact_.emplace(reader, kGuarded);
          const bool hands_on = has(Trait::kMovement, *reader) && input == 0;
          if (hands_on || (reader->domain.empty() && one_of(reader->op_type, {"Sqrt", "Reciprocal", "Pow", "Log"}))) keep(*reader);
          if (is_operator(*from, "Reciprocal") && is_operator(*reader, "Mul")) exact_.emplace(reader, kGuarded);
        }
    }
  }

  // Comparisons with constants that the type rounds, and what only moves or scales what is compared.
  void find_compared() {
    std::vector<const Node*> work;
    for (const Node& node : graph_.nodes) {
      if (!has(Trait::kCompares, node)) continue;
      const auto is_rounded = [&](const std::string& read) {
        const auto it = constants_.find(read);
        return it != constants_.end() && it->second->dtype() == DType::kFloat && !weights_.holds(*it->second);
      };
      if (std::any_of(node.inputs.begin(), node.inputs.end(), is_rounded) && exact_.emplace(&node, kCompared).second) work.push_back(&node);
    }
    while (!work.empty()) {
      const Node* node = work.back();
      work.pop_back();
      for (const std::string& read : node->inputs)
        if (const Node* maker = view_.producer(read); maker && types_.is_float(read) && reads_one_value(*maker))
          if (exact_.emplace(maker, kCompared).second) work.push_back(maker);
    }
  }

  // Element by element, or moved, of one value and constants.
  bool reads_one_value(const Node& node) const {
    if (has(Trait::kMovement, node)) return true;
    const auto is_value = [&](const std::string& read) { return !read.empty() && !constants_.contains(read); };
    return node.domain.empty() && has(Trait::kElementwise, node) && std::count_if(node.inputs.begin(), node.inputs.end(), is_value) == 1;
  }

  // Norms in parts: the difference from the mean, squares, and what is divided by the root of their sum. Their sums stay in float, so that
  // this costs no Casts.
  void find_norms() {
    for (const Node& node : graph_.nodes) {
      if (!node.domain.empty() || !has(Trait::kReduction, node) || !is_listed_(node)) continue;
      const std::string* squared = &node.inputs.at(0);
      const Node* square = view_.producer(*squared);
      if (!one_of(node.op_type, {"ReduceL2", "ReduceSumSquare"})) {
        if (!square || !is_square(*square)) continue;
        if (is_read_by_sums_alone(*squared)) exact_.emplace(square, kNorm);
        squared = &square->inputs[0];
      }
      if (const Node* difference = view_.producer(*squared);
          difference && is_operator(*difference, "Sub") && is_mean(difference->inputs[1]))
        exact_.emplace(difference, kNorm);
      for (const std::string& made : node.outputs) keep_scaled(made, *squared);
    }
  }

  static bool is_square(const Node& node) {
    return node.domain.empty() && (node.op_type == "Pow" || (node.op_type == "Mul" && node.inputs[0] == node.inputs[1]));
  }

  bool is_mean(const std::string& value) const {
    const Node* maker = view_.producer(value);
    return maker && is_operator(*maker, "ReduceMean") && is_listed_(*maker);
  }

  bool is_read_by_sums_alone(const std::string& value) const {
    const std::span<const GraphView::Use> uses = view_.uses(value);
    return !view_.is_read_by_body(value) && std::all_of(uses.begin(), uses.end(), [&](const GraphView::Use& use) {
      return has(Trait::kReduction, *use.node) && is_listed_(*use.node);
    });
  }

  // What is made of a sum and constants alone, and the products of that with `scaled`.
  void keep_scaled(const std::string& sum, const std::string& scaled) {
    for (const auto& [node, input] : view_.uses(sum)) {
      if (!node->domain.empty() || !has(Trait::kElementwise, *node) || !types_.is_float(node->outputs.at(0))) continue;
      const auto is_other = [&](const std::string& read) { return !read.empty() && read != sum && !constants_.contains(read); };
      const auto other = std::find_if(node->inputs.begin(), node->inputs.end(), is_other);
      if (other == node->inputs.end()) {
        if (exact_.emplace(node, kNorm).second) keep_scaled(node->outputs[0], scaled);
      } else if (*other == scaled && one_of(node->op_type, {"Mul", "Div"})) {
        exact_.emplace(node, kNorm);
      }
    }
  }

  const Graph& graph_;
  const KnownTypes& types_;
  const Constants& constants_;
  const DType to_;
  const std::function<bool(const Node& node)>& is_listed_;
  HalfWeights& weights_;
  const GraphView view_;
  std::unordered_set<std::string> counts_;
  ExactNodes exact_;
};

}  // namespace

DType KnownTypes::of(const std::string& value) const {
  const auto it = types_.find(value);
  return it == types_.end() ? DType::kUndefined : it->second.dtype;
}

bool KnownTypes::all_known(const Node& node) const {
  const auto is_known = [&](const std::string& value) { return value.empty() || types_.contains(value); };
  return std::all_of(node.inputs.begin(), node.inputs.end(), is_known) && std::all_of(node.outputs.begin(), node.outputs.end(), is_known);
}

bool is_near_zero(const Tensor& tensor, DType to, HalfWeights& weights) {
  const HalfWeights::Reach reach = weights.reach_of(tensor);
  const double most = std::max(reach.above, reach.below);
  return most != 0 && most < least_number(to);
}

ExactNodes exact_nodes(const ExactQuestion& question, HalfWeights& weights) { return ExactFinder(question, weights).find(); }

}  // namespace saturate
