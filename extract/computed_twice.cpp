#include "extract/computed_twice.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/target_json.h"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

// An operator and what it computes before it adds, scales or activates. The plain one of a product comes first.
struct Product {
  std::string_view op, of;
};
constexpr std::array<Product, 6> kProducts{{{"Conv", "Conv"},
                                            {"com.microsoft::FusedConv", "Conv"},
                                            {"MatMul", "MatMul"},
                                            {"Gemm", "MatMul"},
                                            {"com.microsoft::FusedGemm", "MatMul"},
                                            {"com.microsoft::FusedMatMul", "MatMul"}}};

// What the product itself hangs on, where that is no default of it.
std::string geometry(const OpKey& key) {
  std::string out;
  for (const Attribute& a : key.attributes) {
    if (a.name.starts_with("activation") || a.name == "alpha" || a.name == "beta") continue;
    if (a.type == AttributeType::kInt && a.i() == 0) continue;
    out += a.name + "=" + attribute_text(a) + ";";
  }
  return out;
}

struct Computed {
  const Product* product = nullptr;
  std::tuple<std::string_view, Id, Id, std::string> what;
};

std::optional<Computed> product_of(const OnnxEGraph& g, const ENode& node) {
  const EGraph& e = g.egraph();
  const OpKey& key = g.key(node.op);
  if (key.role != UnitRole::kNone || node.children.size() < 2) return std::nullopt;
  const auto* const product = std::ranges::find(kProducts, operator_name(key.domain, key.op_type), &Product::op);
  if (product == kProducts.end()) return std::nullopt;
  return Computed{product, {product->of, e.find(node.children[0]), e.find(node.children[1]), geometry(key)}};
}

}  // namespace

std::vector<NodeId> computed_twice(const OnnxEGraph& g, const Lowered& lowered, const Selection& selection) {
  const EGraph& e = g.egraph();
  std::map<std::tuple<std::string_view, Id, Id, std::string>, std::vector<std::pair<const Product*, NodeId>>> products;
  for (const Choice& choice : selection.by_class) {
    if (choice.folded || choice.node == kNone) continue;
    if (const auto made = product_of(g, e.node(choice.node))) products[made->what].emplace_back(made->product, choice.node);
  }
  const absl::flat_hash_set<std::vector<Id>> originals = node_signatures(e, lowered);
  std::vector<NodeId> out;
  for (auto& [what, same] : products) {
    if (same.size() < 2) continue;
    std::ranges::sort(same);
    for (const auto& [product, node] : same) {
      if (product == same.front().first) continue;
      // Others of its class that compute the product would be chosen next.
      for (const NodeId n : e.class_nodes(e.find(e.class_of(node)))) {
        const ENode other = e.node(n);
        const auto made = product_of(g, other);
        if (made && made->what == what && !originals.contains(node_signature(e, other.op, other.children))) out.push_back(n);
      }
    }
  }
  return out;
}

}  // namespace saturate
