#include "extract/prepare/graph_stats.h"

#include <tuple>
#include <unordered_map>

namespace saturate {
namespace {

std::string qualified(const Node& node) { return qualified_name(node.domain, node.op_type); }

void add_weight(const Tensor& tensor, GraphStats& stats) {
  stats.parameters += static_cast<std::uint64_t>(std::max<std::int64_t>(tensor.size(), 0));
  stats.parameter_bytes += tensor.bytes().size();
}

// Nodes with calls written out; each function is counted once.
class NodeCounter {
 public:
  explicit NodeCounter(const Model& model) {
    for (const Function& f : model.functions) functions_.emplace(std::tuple(f.domain, f.name, f.overload), &f);
  }

  void count(const std::vector<Node>& nodes, GraphStats& stats, int depth) {
    for (const Node& node : nodes) {
      const auto f = functions_.find(std::tuple(node.domain, node.op_type, node.overload));
      if (f != functions_.end() && depth < kMostDepth) {
        add(of(*f->second, depth + 1), stats);
        continue;
      }
      if (node.domain.empty() && node.op_type == "Constant") {
        ++stats.constants;
        for (const Attribute& a : node.attributes)
          if (a.type == AttributeType::kTensor && a.ref.empty()) add_weight(a.t(), stats);
        continue;
      }
      ++stats.nodes;
      ++stats.operators[qualified(node)];
      const Attribute* alpha = qualified(node) == "com.microsoft.QuickGelu" ? find_attribute(node.attributes, "alpha") : nullptr;
      if (alpha && alpha->type == AttributeType::kFloat && alpha->f() == 1) ++stats.unit_quick_gelus;
      for (const Attribute& a : node.attributes)
        if (a.type == AttributeType::kGraph && depth < kMostDepth) count(a.g().nodes, stats, depth + 1);
    }
  }

 private:
  static constexpr int kMostDepth = 64;

  const GraphStats& of(const Function& f, int depth) {
    if (const auto it = counted_.find(&f); it != counted_.end()) return it->second;
    GraphStats stats;
    count(f.nodes, stats, depth);
    return counted_.emplace(&f, std::move(stats)).first->second;
  }

  static void add(const GraphStats& from, GraphStats& to) {
    to.constants += from.constants;
    to.parameters += from.parameters;
    to.parameter_bytes += from.parameter_bytes;
    to.nodes += from.nodes;
    to.unit_quick_gelus += from.unit_quick_gelus;
    for (const auto& [name, n] : from.operators) to.operators[name] += n;
  }

  std::map<std::tuple<std::string, std::string, std::string>, const Function*> functions_;
  std::unordered_map<const Function*, GraphStats> counted_;
};

}  // namespace

GraphStats graph_stats(const Model& model) {
  GraphStats stats;
  stats.opset = model.opset("");
  stats.ir_version = model.ir_version;
  stats.initializers = model.graph.initializers.size();
  for (const Initializer& i : model.graph.initializers) add_weight(i.tensor, stats);
  NodeCounter(model).count(model.graph.nodes, stats, 0);
  return stats;
}

}  // namespace saturate
