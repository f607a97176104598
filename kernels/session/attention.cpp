
#include <algorithm>
#include <optional>

#include "kernels/core/registry.h"
#include "kernels/session/graph.h"

namespace saturate {
namespace {

const std::vector<std::int64_t> kSwapHeads{0, 2, 1, 3}, kSwapLast{0, 1, 3, 2}, kSwapLast3{0, 2, 1}, kSwapBoth{0, 2, 3, 1};

bool has_perm(const Node& node, const std::vector<std::int64_t>& perm) {
  const Attribute* a = find_attribute(node.attributes, "perm");
  return a != nullptr && a->type == AttributeType::kInts && a->ints() == perm;
}

struct Match {
  Node made;
  std::vector<std::string> gone;  // results of the nodes that it stands for
  bool plain_keys = false;        // the product transposes K
};

class AttentionFinder {
 public:
  explicit AttentionFinder(SessionGraph& g) : g_(g) {
    for (const Node& node : g.graph.nodes)
      for (const std::string& name : node.inputs) reader_[name] = &node;
  }

  // For the product with V.
  std::optional<Match> match(const Node& product) {
    if (!is_standard(product, "MatMul") || g_.opset < 13) return std::nullopt;
    const Node* softmax = only(product.inputs[0], "Softmax");
    if (softmax == nullptr) return std::nullopt;
    Match m;
    const Attribute* axis = find_attribute(softmax->attributes, "axis");
    m.made = {product.name, "Attention", std::string(kSessionDomain), "", {}, product.outputs, {}, nullptr};
    m.made.attributes.push_back(Attribute::of("axis", axis == nullptr || axis->type != AttributeType::kInt ? std::int64_t{-1} : axis->i()));
    m.gone = {product.outputs[0], softmax->outputs[0]};
    std::string mask;
    const Node* scores = scores_of(softmax->inputs[0], m);
    if (scores == nullptr) {
      const Node* sum = only(softmax->inputs[0], "Add");
      for (std::size_t side = 0; sum != nullptr && scores == nullptr && side < 2; ++side) {
        scores = scores_of(sum->inputs[side], m);
        mask = sum->inputs[1 - side];
      }
      if (scores == nullptr) return std::nullopt;
      m.gone.push_back(sum->outputs[0]);
    }
    m.made.inputs = {scores->inputs[0], scores->inputs[1], product.inputs[1]};
    if (!mask.empty()) m.made.inputs.push_back(mask);
    take_transposes(m);
    return m;
  }

 private:
  // The node that makes a value which nothing else reads, if it is of this type.
  const Node* only(const std::string& name, std::string_view op_type) const {
    const Node* node = g_.uses(name) == 1 ? g_.producer(name) : nullptr;
    return node != nullptr && is_standard(*node, op_type) ? node : nullptr;
  }

  // MatMul, or MatMul times or over a constant, or com.microsoft's FusedMatMul that says so.
  const Node* scores_of(const std::string& name, Match& m) const {
    if (const Node* product = only(name, "MatMul")) {
      m.gone.push_back(product->outputs[0]);
      return product;
    }
    if (const Node* product = g_.uses(name) == 1 ? g_.producer(name) : nullptr; product != nullptr && take_fused(*product, m))
      return product;
    for (const char* op : {"Mul", "Div"}) {
      const Node* scaled = only(name, op);
      if (scaled == nullptr) continue;
      for (std::size_t side = 0; side < (scaled->op_type == "Mul" ? 2u : 1u); ++side) {
        const Node* product = only(scaled->inputs[side], "MatMul");
        const Tensor* factor = g_.constant(scaled->inputs[1 - side]);
        if (product == nullptr || factor == nullptr || factor->size() != 1 || factor->rank() > 1 || factor->dtype() != DType::kFloat)
          continue;
        const float value = *factor->data<float>();
        m.made.attributes.push_back(Attribute::of("scale", scaled->op_type == "Mul" ? value : 1.0f / value));
        m.gone.push_back(product->outputs[0]);
        m.gone.push_back(scaled->outputs[0]);
        return product;
      }
    }
    return nullptr;
  }

  bool take_fused(const Node& product, Match& m) const {
    if (product.domain != kMicrosoft || product.op_type != "FusedMatMul") return false;
    const auto number = [&](std::string_view name) {
      const Attribute* a = find_attribute(product.attributes, name);
      return a != nullptr && a->type == AttributeType::kInt ? a->i() : std::int64_t{0};
    };
    if (number("transA") != 0 || number("transBatchA") != 0 || number("transBatchB") != 0) return false;
    m.plain_keys = number("transB") != 0;
    if (const Attribute* alpha = find_attribute(product.attributes, "alpha"); alpha != nullptr && alpha->type == AttributeType::kFloat)
      m.made.attributes.push_back(Attribute::of("scale", alpha->f()));
    m.gone.push_back(product.outputs[0]);
    return true;
  }

  void take_transposes(Match& m) const {
    std::string orders[4] = {"bhsd", m.plain_keys ? "bhsd" : "bhds", "bhsd", "bhsd"};
    const auto take = [&](std::size_t i, const std::vector<std::int64_t>& perm, const char* order) {
      const Node* t = only(m.made.inputs[i], "Transpose");
      if (t == nullptr || !has_perm(*t, perm)) return false;
      m.gone.push_back(t->outputs[0]);
      m.made.inputs[i] = t->inputs[0];
      orders[i] = order;
      return true;
    };
    take(0, kSwapHeads, "bshd");
    take(2, kSwapHeads, "bshd");
    if (m.plain_keys || (!take(1, kSwapBoth, "bshd") && (take(1, kSwapLast, "bhsd") || take(1, kSwapLast3, "bhsd"))))
      take(1, kSwapHeads, "bshd");
    const std::string& result = m.made.outputs[0];
    const auto reader = g_.uses(result) == 1 ? reader_.find(result) : reader_.end();
    if (reader != reader_.end() && is_standard(*reader->second, "Transpose") && has_perm(*reader->second, kSwapHeads)) {
      orders[3] = "bshd";
      m.gone.push_back(reader->second->outputs[0]);
      m.made.outputs = reader->second->outputs;
    }
    for (std::size_t i = 0; i < 4; ++i) m.made.attributes.push_back(Attribute::of(std::string(1, "qkvy"[i]), orders[i]));
  }

  SessionGraph& g_;
  std::unordered_map<std::string, const Node*> reader_;
};

}  // namespace

void fuse_attention(SessionGraph& g) {
  std::unordered_map<std::size_t, Node> made;  // by the position of the product with V
  std::set<std::string> gone;
  AttentionFinder finder(g);
  for (std::size_t i = 0; i < g.graph.nodes.size(); ++i) {
    std::optional<Match> m = finder.match(g.graph.nodes[i]);
    if (!m) continue;
    gone.insert(m->gone.begin(), m->gone.end());
    made.emplace(i, std::move(m->made));
  }
  std::vector<Node> out;
  for (std::size_t i = 0; i < g.graph.nodes.size(); ++i) {
    Node& node = g.graph.nodes[i];
    if (const auto it = made.find(i); it != made.end())
      out.push_back(std::move(it->second));
    else if (node.outputs.empty() || !gone.contains(node.outputs[0]))
      out.push_back(std::move(node));
  }
  g.graph.nodes = std::move(out);
  g.count_uses();
}

}  // namespace saturate
