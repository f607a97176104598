#include "kernels/inputs/model_sizes.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

constexpr std::int64_t kLargest = 4096;
constexpr std::int64_t kMostElements = 64;  // of a constant that is a shape or the like

class Numbers {
 public:
  explicit Numbers(const Graph& graph) {
    for (const Initializer& initializer : graph.initializers) constants_[initializer.name] = integers(initializer.tensor);
    for (const Node& node : graph.nodes) read_constant(node);
    read_graph(graph);
    if (last_index_ > 0) see(last_index_ + 1, 1);
  }

  // Most frequent first; equally frequent ones by size.
  std::vector<std::int64_t> ranked(std::size_t most) const {
    std::vector<std::pair<double, std::int64_t>> by_weight;
    for (const auto& [n, weight] : weight_) by_weight.emplace_back(-weight, n);
    std::sort(by_weight.begin(), by_weight.end());
    std::vector<std::int64_t> out;
    for (const auto& [weight, n] : by_weight)
      if (out.size() < most) out.push_back(n);
    return out;
  }

 private:
  static std::vector<std::int64_t> integers(const Tensor& t) {
    if (t.dtype() != DType::kInt64 || t.size() > kMostElements) return {};
    const auto values = t.span<std::int64_t>();
    return {values.begin(), values.end()};
  }

  void read_constant(const Node& node) {
    if (node.op_type != "Constant" || node.outputs.empty()) return;
    if (const Attribute* a = find_attribute(node.attributes, "value"); a && std::holds_alternative<Tensor>(a->value))
      constants_[node.outputs[0]] = integers(a->t());
    if (const Attribute* a = find_attribute(node.attributes, "value_ints"); a && a->type == AttributeType::kInts)
      constants_[node.outputs[0]] = a->ints();
    if (const Attribute* a = find_attribute(node.attributes, "value_int"); a && a->type == AttributeType::kInt)
      constants_[node.outputs[0]] = {a->i()};
  }

  void read_graph(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      read(node);
      for_each_body(node, [this](const Graph& body) {
        for (const Node& inner : body.nodes) read_constant(inner);
        read_graph(body);
      });
    }
  }

  // A window of many elements: what it slides over is at least as long, and a few of its steps longer.
  void read_window(const Node& node) {
    constexpr std::int64_t kMany = 16;
    constexpr double kWeight = 100;
    const Attribute *window = find_attribute(node.attributes, "kernel_shape"), *strides = find_attribute(node.attributes, "strides");
    if (!window || window->type != AttributeType::kInts) return;
    for (std::size_t axis = 0; axis < window->ints().size(); ++axis) {
      const std::int64_t size = window->ints()[axis];
      const bool has_stride = strides && strides->type == AttributeType::kInts && axis < strides->ints().size();
      if (size < kMany) continue;
      see(size, kWeight);
      see(size + 2 * (has_stride ? strides->ints()[axis] : 1), kWeight / 2);
    }
  }

  void read(const Node& node) {
    static constexpr std::string_view kShapes[] = {"Reshape", "Expand",          "Slice", "Concat", "Range",
                                                   "Tile",    "ConstantOfShape", "Split", "STFT"};
    if (!node.domain.empty()) return;
    read_window(node);
    const bool shapes = std::find(std::begin(kShapes), std::end(kShapes), node.op_type) != std::end(kShapes);
    const bool gather = node.op_type == "Gather";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto it = constants_.find(node.inputs[i]);
      if (it == constants_.end()) continue;
      if (gather && i == 1)
        for (const std::int64_t n : it->second) last_index_ = std::max(last_index_, n);
      if (shapes)
        for (const std::int64_t n : it->second) see_with_factors(n);
    }
  }

  void see(std::int64_t n, double weight) {
    if (n >= 1 && n <= kLargest) weight_[n] += weight;
  }
  void see_with_factors(std::int64_t n) {
    see(n, 1);
    for (const std::int64_t factor : {2, 4, 8, 12, 16})
      if (n > 0 && n % factor == 0) see(n / factor, 0.01);
  }

  std::map<std::string, std::vector<std::int64_t>> constants_;
  std::map<std::int64_t, double> weight_;
  std::int64_t last_index_ = 0;
};

}  // namespace

std::vector<Sizes> sizes_in_model(const Model& model, const std::vector<std::string>& symbols, std::size_t limit) {
  constexpr std::size_t kFewest = 3;  // candidates of a symbol
  if (symbols.empty()) return {};
  const auto each = static_cast<std::size_t>(std::pow(static_cast<double>(limit), 1.0 / static_cast<double>(symbols.size())) + 1e-9);
  if (each < kFewest) return {};
  std::vector<std::int64_t> candidates = Numbers(model.graph).ranked(each);
  for (const std::int64_t small : {1, 2, 3})
    if (std::find(candidates.begin(), candidates.end(), small) == candidates.end()) {
      if (candidates.size() >= each) candidates.pop_back();
      candidates.insert(candidates.begin(), small);
    }
  std::vector<Sizes> out;
  std::vector<std::size_t> at(symbols.size(), 0);
  while (true) {
    Sizes sizes;
    for (std::size_t i = 0; i < symbols.size(); ++i) sizes[symbols[i]] = candidates[at[i]];
    out.push_back(std::move(sizes));
    std::size_t i = 0;
    while (i < at.size() && ++at[i] == candidates.size()) at[i++] = 0;
    if (i == at.size()) return out;
  }
}

}  // namespace saturate
