#include "tools/transform/cache_axes.h"

#include <algorithm>
#include <span>
#include <utility>

#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

class NodeAxes {
 public:
  NodeAxes(const DecoderFacts& facts, const Node& node) : facts_(facts), node_(node) {}

  std::optional<std::vector<SameAxes>> find() && {
    const auto& op = node_.op_type;
    if (is_elementwise(node_) || (node_.domain.empty() && op == "Expand")) {
      broadcast(op == "Expand" ? 1 : node_.inputs.size());
    } else if (!node_.domain.empty()) {
      return std::nullopt;
    } else if (has(Trait::kReduction, node_)) {
      reduction();
    } else if (one_of(op, {"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "CumSum", "RotaryEmbedding", "ScatterND",
                           "ScatterElements", "TensorScatter", "Slice", "Split", "QuantizeLinear", "DequantizeLinear"})) {
      kept(0);
    } else if (op == "Transpose") {
      transposed();
    } else if (one_of(op, {"Reshape", "Squeeze", "Unsqueeze", "Flatten"})) {
      reshaped();
    } else if (op == "MatMul") {
      product();
    } else if (op == "Gemm") {
      if (int_attribute(node_, "transA", 0) == 0) same(in(0), 0, out(), 0);
      same(in(1), int_attribute(node_, "transB", 0) == 0 ? 1 : 0, out(), 1);
    } else if (op == "Concat") {
      for (std::size_t i = 0; i < node_.inputs.size(); ++i) kept(i);
    } else if (op == "Gather") {
      gathered();
    } else if (op == "GatherND" && int_attribute(node_, "batch_dims", 0) == 0) {
      chosen();
    } else if (op == "Attention") {
      attention();
    } else if (!one_of(op, {"Shape", "Range", "ConstantOfShape", "Constant", "Size"})) {
      return std::nullopt;
    }
    return std::move(found_);
  }

 private:
  const std::string& in(std::size_t i) const { return node_.inputs[i]; }
  const std::string& out() const { return node_.outputs[0]; }
  int rank(const std::string& value) const { return facts_.rank(value); }
  bool same_size(const std::string& a, int i, const std::string& b, int j) const {
    return facts_.dims().equal((*facts_.shape(a))[i], (*facts_.shape(b))[j]);
  }
  void same(const std::string& a, int i, const std::string& b, int j) {
    if (i >= 0 && j >= 0 && i < rank(a) && j < rank(b) && same_size(a, i, b, j)) found_.push_back({{a, i}, {b, j}});
  }

  void broadcast(std::size_t inputs) {
    for (std::size_t i = 0; i < inputs; ++i)
      for (int k = 1; k <= rank(in(i)); ++k) same(in(i), rank(in(i)) - k, out(), rank(out()) - k);
  }
  // All axes whose size stays.
  void kept(std::size_t i) {
    for (const std::string& output : node_.outputs)
      for (int k = 0; k < rank(in(i)); ++k) same(in(i), k, output, k);
  }
  void reduction() {
    if (int_attribute(node_, "keepdims", 1) != 0) return kept(0);
    const auto given = node_.inputs.size() > 1 ? facts_.ints(in(1)) : std::nullopt;
    if (!given) return;
    for (int k = 0, to = 0; k < rank(in(0)); ++k) {
      const auto taken = [&](std::int64_t axis) { return axis == k || axis + rank(in(0)) == k; };
      if (std::none_of(given->begin(), given->end(), taken)) same(in(0), k, out(), to++);
    }
  }
  void transposed() {
    const Attribute* perm = find_attribute(node_.attributes, "perm");
    for (int k = 0; k < rank(out()); ++k) same(in(0), perm ? static_cast<int>(perm->ints()[k]) : rank(out()) - 1 - k, out(), k);
  }
  // Entries behind an axis are as many as before.
  void reshaped() {
    const std::vector<Dim>&from = *facts_.shape(in(0)), &to = *facts_.shape(out());
    DimTable& dims = facts_.dims();
    for (int i = 0; i < rank(in(0)); ++i)
      for (int k = 0; k < rank(out()); ++k)
        if (dims.equal(dims.product(std::span(from).subspan(i + 1)), dims.product(std::span(to).subspan(k + 1)))) same(in(0), i, out(), k);
  }
  void product() {
    const int a = rank(in(0)), b = rank(in(1)), r = rank(out());
    if (a < 2 || b < 2) return;
    same(in(0), a - 2, out(), r - 2);
    same(in(1), b - 1, out(), r - 1);
    same(in(0), a - 1, in(1), b - 2);
    for (int k = 3; k <= r; ++k) {
      same(in(0), a - k, out(), r - k);
      same(in(1), b - k, out(), r - k);
    }
  }
  void gathered() {
    const std::int64_t given = int_attribute(node_, "axis", 0);
    const auto at = static_cast<int>(given < 0 ? given + rank(in(0)) : given);
    for (int k = 0; k < rank(in(0)); ++k)
      if (k != at) same(in(0), k, out(), k < at ? k : k + rank(in(1)) - 1);
    for (int k = 0; k < rank(in(1)); ++k) same(in(1), k, out(), at + k);
  }
  // By indices in the last axis; what is behind the axes that they count in stays.
  void chosen() {
    const int r = rank(in(1));
    for (int k = 0; k + 1 < r; ++k) same(in(1), k, out(), k);
    const auto depth = facts_.extents().of((*facts_.shape(in(1)))[r - 1]);
    if (!depth || !depth->is_number()) return;
    for (int k = static_cast<int>(depth->factor); k < rank(in(0)); ++k) same(in(0), k, out(), k - static_cast<int>(depth->factor) + r - 1);
  }
  void attention() {
    const int tokens = rank(in(0)) - 2;
    same(in(1), rank(in(1)) == 4 ? 2 : 1, in(2), rank(in(2)) == 4 ? 2 : 1);
    if (node_.inputs.size() < 4 || in(3).empty()) return;
    same(in(1), rank(in(1)) == 4 ? 2 : 1, in(3), rank(in(3)) - 1);
    same(in(0), rank(in(0)) == 4 ? tokens : 1, in(3), rank(in(3)) - 2);
  }

  const DecoderFacts& facts_;
  const Node& node_;
  std::vector<SameAxes> found_;
};

}  // namespace

std::optional<std::vector<SameAxes>> same_axes(const DecoderFacts& facts, const Node& node) { return NodeAxes(facts, node).find(); }

}  // namespace saturate
