#include "extract/optimize/variants_in_graph.h"

#include <algorithm>
#include <utility>

#include "extract/optimize/fused.h"
#include "extract/sizes/op_sizes.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/file/text/parser.h"

namespace saturate {
namespace {

// A fused operator that a rule made.
struct FusedNode {
  NodeId node = kNone;
  Id id = kNone;  // its class
  std::string region, op;
  double elements = 1;  // of its first operand
};

class FusedNodes {
 public:
  FusedNodes(const OnnxEGraph& g, const Lowered& lowered, const CostOptions& sizes) : g_(g), e_(g.egraph()), sizes_(sizes) {
    for (const Id id : e_.classes())
      for (const NodeId n : e_.class_nodes(id)) {
        const OpKey& key = g.key(e_.node(n).op);
        if (key.domain == "#" || (key.role != UnitRole::kNone && key.role != UnitRole::kFused) || e_.made_by(n) == kNone ||
            is_of_model(lowered, n))
          continue;
        const std::string op = qualified_name(key.domain, key.op_type);
        const std::string_view family = fused_family(op);
        if (family.empty()) continue;
        const double elements = elements_of(n, id);
        all.push_back({n, id, fmt::format("{} of {:.0f}", family, elements), op, elements});
      }
  }

  // The values that such an operator makes: its class, or those of its projections.
  std::vector<Id> values_of(const FusedNode& fused) const {
    if (g_.key(e_.node(fused.node).op).outputs == 1) return {fused.id};
    std::vector<Id> out;
    for (const NodeId user : e_.class_users(fused.id))
      if (g_.key(e_.node(user).op).op_type == kProjOp) out.push_back(e_.find(e_.class_of(user)));
    return out;
  }

  std::string signature(const FusedNode& fused) const {
    const OpUse use = use_of(g_, e_.node(fused.node), fused.id, sizes_);
    std::vector<std::string> shapes, attributes;
    for (const Sizes1D& shape : use.inputs) shapes.push_back(fmt::format("[{}]", fmt::join(shape, ",")));
    for (const Attribute& attribute : use.attributes) attributes.push_back(print_text(attribute));
    return fmt::format("{} {}({}){{{}}}", use.op, use.dtype, fmt::join(shapes, ","), fmt::join(attributes, ","));
  }

  std::vector<FusedNode> all;

 private:
  bool is_of_model(const Lowered& lowered, NodeId n) const {
    const auto it = lowered.by_op.find(e_.node(n).op);
    if (it == lowered.by_op.end()) return false;
    const Id id = e_.find(e_.class_of(n));
    return std::any_of(it->second.begin(), it->second.end(), [&](std::size_t i) {
      const Source& source = lowered.sources[i];
      return e_.find(e_.lookup(source.op, source.children)) == id;
    });
  }

  double elements_of(NodeId n, Id id) const {
    const OpUse use = use_of(g_, e_.node(n), id, sizes_);
    double elements = 1;
    if (!use.inputs.empty())
      for (const double dim : use.inputs[0]) elements *= dim;
    return elements;
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const CostOptions& sizes_;
};

}  // namespace

std::map<std::string, Region> regions_of(const OnnxEGraph& g, const Lowered& lowered, const Selection& selection,
                                         const CostOptions& sizes) {
  const FusedNodes fused(g, lowered, sizes);
  std::map<std::string, Region> regions;
  std::map<std::string, std::set<std::string>> there, possible;  // signatures, by region
  const auto is_taken = [&](const FusedNode& f) {
    const Choice* choice = selection.find(f.id);
    return choice && choice->node == f.node;
  };
  for (const FusedNode& f : fused.all) {
    const std::vector<Id> values = fused.values_of(f);
    const bool needed = std::any_of(values.begin(), values.end(), [&](Id id) {
      const Choice* choice = selection.find(id);
      return choice && choice->node != kNone;
    });
    if (!needed) continue;
    Region& region = regions[f.region];
    region.name = f.region;
    (is_taken(f) ? region.taken : region.others).insert(f.op);
    (is_taken(f) ? there : possible)[f.region].insert(fused.signature(f));
    region.elements += f.elements;
  }
  for (auto& [name, region] : regions) {
    const auto& told = region.taken.empty() ? possible[name] : there[name];
    region.signature = fmt::format("{}", fmt::join(told, "; "));
    for (const std::string& op : region.taken) region.others.erase(op);
  }
  return regions;
}

void take_variant(const OnnxEGraph& g, const Lowered& lowered, const Variant& variant, const CostOptions& sizes, ExtractOptions& options) {
  if (variant.unfused.empty() && variant.fused.empty() && variant.other.empty()) return;
  const FusedNodes fused(g, lowered, sizes);
  const EGraph& e = g.egraph();
  std::map<Id, std::set<NodeId>> wanted;  // by class
  for (const FusedNode& f : fused.all) {
    const auto other = variant.other.find(f.region);
    if (variant.unfused.contains(f.region) || (other != variant.other.end() && other->second.contains(f.op))) {
      options.left_out.insert(f.node);
    } else if (variant.fused.contains(f.region)) {
      wanted[f.id].insert(f.node);
      for (const Id id : fused.values_of(f)) wanted[id];
    }
  }
  for (const auto& [id, nodes] : wanted)
    for (const NodeId n : e.class_nodes(id))
      if (g.key(e.node(n).op).domain != "#" && !nodes.contains(n)) options.avoided.insert(n);
}

}  // namespace saturate
