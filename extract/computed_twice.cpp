#include "extract/computed_twice.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "extract/price/op_sizes.h"
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

}  // namespace

std::vector<NodeId> computed_twice(const OnnxEGraph& g, const Lowered& lowered, const Selection& selection) {
  const EGraph& e = g.egraph();
  std::map<std::tuple<std::string_view, Id, Id, std::string>, std::vector<std::pair<std::size_t, NodeId>>> products;
  for (const Choice& choice : selection.by_class) {
    if (choice.folded || choice.node == kNone) continue;
    const ENode node = e.node(choice.node);
    const OpKey& key = g.key(node.op);
    if (key.role != UnitRole::kNone || node.children.size() < 2) continue;
    const std::string name = operator_name(key.domain, key.op_type);
    const auto* const product = std::ranges::find(kProducts, name, &Product::op);
    if (product == kProducts.end()) continue;
    products[{product->of, e.find(node.children[0]), e.find(node.children[1]), geometry(key)}].emplace_back(product - kProducts.begin(),
                                                                                                            choice.node);
  }
  const absl::flat_hash_set<std::vector<Id>> originals = node_signatures(e, lowered);
  std::vector<NodeId> out;
  for (auto& [what, same] : products) {
    if (same.size() < 2) continue;
    std::ranges::sort(same);
    for (const auto& [place, node] : same)
      if (place != same.front().first && !originals.contains(node_signature(e, e.node(node).op, e.node(node).children)))
        out.push_back(node);
  }
  return out;
}

}  // namespace saturate
