#include "extract/target/load_fusions.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "egraph/stop.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/load_match.h"
#include "extract/target/load_pattern.h"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr std::size_t kMostOfNode = 4;     // spellings with one e-node as their last
constexpr std::size_t kStepsOfNode = 50;   // of the e-graph, for a fusion
constexpr std::size_t kMostFound = 20000;  // of a graph and a fusion

// Spellings among all e-nodes; what the runtime makes of one may be in another.
struct EGraphView {
  using Value = Id;
  using Node = NodeId;

  struct Class {
    std::vector<NodeId> nodes;
    std::uint64_t bits = 0;
  };
  // Classes are asked for again and again, and do not change while spellings are looked for.
  const Class& class_of(Id id) const {
    const auto [it, is_new] = classes.try_emplace(id);
    if (!is_new) return it->second;
    it->second.nodes = e.class_nodes(id);
    for (const NodeId n : it->second.nodes) it->second.bits |= bit_of(e.node(n).op);
    return it->second;
  }
  std::uint64_t bit_of(OpId op) const {
    if (op >= bits.size()) bits.resize(op + 1);
    if (bits[op] == 0) bits[op] = operator_bit(g.key(op).domain, g.key(op).op_type);
    return bits[op];
  }
  const std::vector<NodeId>& nodes_of(Id id) const { return class_of(id).nodes; }
  std::uint64_t bits_of(Id id) const { return class_of(id).bits; }
  const OpKey& key(NodeId n) const { return g.key(e.node(n).op); }
  absl::InlinedVector<Id, 6> inputs(NodeId n) const {
    absl::InlinedVector<Id, 6> out;
    for (const Id child : e.node(n).children) out.push_back(e.find(child));
    return out;
  }
  Id value_of(NodeId n) const { return e.find(e.class_of(n)); }
  static std::optional<Id> output_of(NodeId, std::size_t) { return std::nullopt; }
  const Facts& facts(Id id) const { return g.facts(id); }
  std::optional<double> number(Id id) const { return number_of(g, id); }
  bool is_commutative(NodeId n) const { return e.op(e.node(n).op).commutative; }
  static bool is_shape_known(Id) { return true; }
  static bool is_rank_known(Id) { return true; }
  void add_node(NodeId n, LoadMatch<EGraphView>& m) const {
    const auto it = fused.of.find(n);
    if (it == fused.of.end()) {
      m.nodes.push_back(n);
      return;
    }
    m.nodes.insert(m.nodes.end(), it->second.nodes.begin(), it->second.nodes.end());
    m.leaves.insert(m.leaves.end(), it->second.leaves.begin(), it->second.leaves.end());
  }

  const OnnxEGraph& g;
  const EGraph& e;
  const FusedAtLoad& fused;
  mutable std::unordered_map<Id, Class> classes = {};
  mutable std::vector<std::uint64_t> bits = {};  // by operator
};

class Adder {
 public:
  explicit Adder(OnnxEGraph& g) : g_(g), e_(g.egraph()), view_{g, g.egraph(), g.notes<FusedAtLoad>()} {}

  // All are found before any is added: the classes change while they are.
  void add(const LoadFusion& fusion) {
    const LoadMatcher<EGraphView> matcher(view_, kStepsOfNode * e_.num_nodes());
    const LoadGuards<EGraphView> guards(view_, g_.dims(), fusion);
    std::vector<std::pair<Id, LoadMatch<EGraphView>>> found;
    for (const std::string& op : fusion.pattern.operators)
      for (const NodeId n : by_operator_[op]) {
        if (found.size() > kMostFound) break;
        heed_stop();
        if (!e_.is_live(n) || !matcher.is_one_of(fusion.pattern, n)) continue;
        for (auto& m : matcher.of_node(fusion.pattern, n, kMostOfNode))
          if (guards.hold(m)) found.emplace_back(view_.value_of(n), std::move(m));
      }
    view_.classes.clear();
    for (const auto& [id, m] : found) add(fusion.becomes, id, m);
    if (!found.empty()) e_.rebuild();
  }

  // The e-nodes of operators that stand last in a spelling, found once for all fusions.
  void look_for(const std::vector<const LoadFusion*>& fusions) {
    for (const LoadFusion* fusion : fusions)
      for (const std::string& op : fusion->pattern.operators) by_operator_[op];
    absl::flat_hash_map<OpId, std::vector<NodeId>*> of_op;
    for (const Id id : e_.classes())
      for (const NodeId n : e_.class_nodes(id)) {
        const auto [it, is_new] = of_op.try_emplace(e_.node(n).op, nullptr);
        if (is_new) {
          const auto known = by_operator_.find(operator_name(view_.key(n).domain, view_.key(n).op_type));
          it->second = known == by_operator_.end() ? nullptr : &known->second;
        }
        if (it->second) it->second->push_back(n);
      }
  }

 private:
  void add(const LoadPattern& becomes, Id id, const LoadMatch<EGraphView>& m) {
    MadeAtLoad<EGraphView> fused = made_at_load(view_, becomes, m, [](const auto&) { return kNone; });
    // It says less than the spelling (no scale of a product, no epsilon), so that one of another class is another operator.
    fused.key.overload = fmt::format("{}", e_.find(id));
    if (std::find(fused.inputs.begin(), fused.inputs.end(), e_.find(id)) != fused.inputs.end()) return;
    const Id made = g_.add(fused.key, fused.inputs);
    const OpId op = g_.op(fused.key);
    for (const NodeId n : e_.class_nodes(e_.find(made)))
      if (e_.node(n).op == op) {
        g_.notes<FusedAtLoad>().of.try_emplace(n, FusedAtLoad::Spelling{m.nodes, leaves_of(m, fused.inputs)});
        if (const auto it = by_operator_.find(becomes.operators.front()); it != by_operator_.end()) it->second.push_back(n);
        break;
      }
    e_.merge(id, made);
  }

  // What was fused before reads values that the spelling has inside now. Inputs may be such values, too: of MatMul(t,Transpose(b)) with t
  // for that Transpose.
  std::vector<Id> leaves_of(const LoadMatch<EGraphView>& m, const std::vector<Id>& inputs) const {
    std::vector<Id> out = m.leaves;
    std::erase_if(out, [&](Id leaf) {
      const auto is_it = [&](Id id) { return e_.find(id) == e_.find(leaf); };
      return std::ranges::none_of(inputs, is_it) && std::ranges::any_of(m.nodes, [&](NodeId n) { return is_it(e_.class_of(n)); });
    });
    return out;
  }

  OnnxEGraph& g_;
  EGraph& e_;
  const EGraphView view_;
  std::map<std::string, std::vector<NodeId>> by_operator_;
};

}  // namespace

void add_load_fusions(OnnxEGraph& g, const Target& target) {
  const std::vector<const LoadFusion*> fusions = load_fusions_of(target);
  if (fusions.empty()) return;
  Adder adder(g);
  adder.look_for(fusions);
  for (const LoadFusion* fusion : fusions)
    if (fusion->becomes.what == LoadPattern::What::kOperator && is_of_choices(*fusion)) adder.add(*fusion);  // rules know what is a value
}

DroppedAtLoad::DroppedAtLoad(const OnnxEGraph& g, const Target& target) : g_(g), fusions_(load_fusions_of(target)) {
  std::erase_if(fusions_, [](const LoadFusion* f) { return f->becomes.what != LoadPattern::What::kValue || !is_of_choices(*f); });
}

bool DroppedAtLoad::has(NodeId node) const {
  const FusedAtLoad none;
  const EGraphView view{g_, g_.egraph(), none};
  return std::ranges::any_of(fusions_, [&](const LoadFusion* fusion) {
    const LoadMatcher<EGraphView> matcher(view, kStepsOfNode);
    if (!matcher.is_one_of(fusion->pattern, node)) return false;
    const LoadGuards<EGraphView> guards(view, g_.dims(), *fusion);
    return std::ranges::any_of(matcher.of_node(fusion->pattern, node, kMostOfNode), [&](const auto& m) { return guards.hold(m); });
  });
}

}  // namespace saturate
