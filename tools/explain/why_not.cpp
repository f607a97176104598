#include "tools/explain/why_not.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "egraph/explain.h"
#include "extract/optimize/fused.h"
#include "extract/optimize/prediction.h"
#include "extract/optimize/target_check.h"
#include "extract/prepare/graph_stats.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/compile/near_miss.h"
#include "tools/explain/closure.h"
#include "tools/explain/quantization.h"
#include "tools/explain/question.h"
#include "tools/explain/run_index.h"
#include "tools/explain/summary.h"

namespace saturate {
namespace {

constexpr int kMaxStepsUp = 8;    // users of users of an anchor among which its fused operator is looked for
constexpr int kMaxStepsDown = 4;  // views and casts that rules put around it
constexpr std::size_t kMaxClassesUp = 400;
constexpr std::size_t kMaxMisses = 3, kMaxPlaces = 20, kMaxPriced = 4;
constexpr std::size_t kMaxBrief = 32;  // places of an operator that were not fused

std::string_view family_of(const std::string& op_type) {
  const std::string_view family = fused_family(op_type);
  return family == "other fused" ? "" : family;
}

class PlaceExplainer {
 public:
  PlaceExplainer(const FinishedRun& run, const RunIndex& index, const Setup& setup, const WhyQuery& query, WhyReport& report)
      : run_(run), g_(run.g), e_(run.g.egraph()), setup_(setup), model_(*run.lowered.model), query_(query), report_(report), index_(index) {
    name_ = [this](Id id) { return name(id); };
  }

  void ask() {
    const std::size_t first = report_.places.size();
    if (!query_.rule.empty())
      ask_rule();
    else if (!query_.value.empty())
      ask_value();
    else if (!query_.op.empty())
      ask_op();
    for (std::size_t i = first; i < report_.places.size(); ++i) report_.places[i].where = run_.where;
  }

 private:
  std::string name(Id id) const {
    id = e_.find(id);
    if (const auto it = index_.names.find(id); it != index_.names.end()) return fmt::format("'{}'", it->second);
    return g_.facts(id).constant ? "a constant made by rules" : fmt::format("a value made by rules ({})", operators_of(g_, id));
  }

  std::string op_of(NodeId node) const {
    const OpKey& key = g_.key(e_.node(node).op);
    return full_name(key.domain, key.op_type);
  }

  // Operators that become an integer kernel of this name.
  std::set<std::string> that_become(const std::string& kernel) const {
    std::set<std::string> ops;
    for (const NodeUnit& unit : setup_.target.node_units)
      if (unit.becomes == kernel || unit.becomes.ends_with("::" + kernel)) ops.insert(unit.operators.begin(), unit.operators.end());
    return ops;
  }

  // ---- --op

  void ask_op() {
    const Closure closure = query_.glance ? Closure() : Closure(setup_.rules, query_.op);
    const std::string_view family = family_ = family_of(query_.op).empty() ? family_of("com.microsoft." + query_.op) : family_of(query_.op);
    const auto [what, anchors] = anchors_of(family, closure);
    report_.anchors = what;
    for (const auto& [value, op_type] : anchors) anchors_.insert(e_.find(run_.lowered.values.at(value)));
    std::size_t open = 0;
    for (const auto& [value, op_type] : anchors) {
      if (query_.brief && open == kMaxBrief) break;
      WhyPlace place = place_of(value, op_type);
      explain_place(place, e_.find(run_.lowered.values.at(value)), family, closure);
      open += place.status == WhyPlace::Status::kMissed || place.status == WhyPlace::Status::kNotChosen;
      report_.places.push_back(std::move(place));
    }
  }

  WhyPlace place_of(const std::string& value, const std::string& op_type) const {
    WhyPlace place;
    place.value = value;
    place.op_type = op_type;
    place.facts = to_string(g_.facts(e_.find(run_.lowered.values.at(value))), g_.dims());
    return place;
  }

  using Anchors = std::vector<std::pair<std::string, std::string>>;  // value, operator

  std::pair<std::string, Anchors> anchors_of(std::string_view family, const Closure& closure) const {
    if (family == "attention") return {"Softmax", nodes_of({"Softmax", "LogSoftmax"}, &PlaceExplainer::is_attention)};
    if (family == "normalization")
      return {"mean of squares, or a normalization",
              nodes_of({"ReduceMean", "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"},
                       &PlaceExplainer::not_a_plain_mean)};
    if (family == "GELU") return {"Erf, Tanh or Gelu", nodes_of({"Erf", "Tanh", "Gelu"}, &PlaceExplainer::is_activation)};
    if (family == "SiLU") return {"Sigmoid", nodes_of({"Sigmoid", "HardSigmoid"}, &PlaceExplainer::is_activation)};
    if (family == "rotary embedding")
      return {"Concat with a negated half or of rotated halves", nodes_of({"Concat"}, &PlaceExplainer::joins_rotated)};
    std::set<std::string> roots = that_become(query_.op);
    roots.insert(closure.roots().begin(), closure.roots().end());
    return {fmt::format("{}", fmt::join(roots, ", ")), nodes_of(roots, nullptr)};
  }

  Anchors nodes_of(const std::set<std::string>& ops, bool (PlaceExplainer::*test)(const Node&) const) const {
    Anchors anchors;
    for (const Node& n : model_.graph.nodes)
      if (!n.outputs.empty() && run_.lowered.values.contains(n.outputs[0]))
        if (is_wanted(full_name(n.domain, n.op_type)) || (ops.contains(n.op_type) && (!test || (this->*test)(n))))
          anchors.emplace_back(n.outputs[0], full_name(n.domain, n.op_type));
    return anchors;
  }

  // QuickGelu is SiLU, too, with another alpha or none.
  static bool is_of_family(const std::string& op, std::string_view family) {
    return !family.empty() && (family_of(op) == family || (family == "SiLU" && op == "com.microsoft.QuickGelu"));
  }

  // The operator that was asked for, or one of its family.
  bool is_wanted(const std::string& op) const { return is_op(op, query_.op) || (query_.family && is_of_family(op, family_)); }

  bool is_attention(const Node& node) const { return index_.tests.attends(node); }
  bool is_activation(const Node& node) const { return index_.tests.activates(node); }

  bool not_a_plain_mean(const Node& node) const {
    if (node.op_type != "ReduceMean") return true;
    const auto it = run_.lowered.values.find(node.inputs[0]);
    return it != run_.lowered.values.end() && any_node(it->second, [&](const OpKey& key, const ENode& n) {
             return (key.op_type == "Mul" && n.children.size() == 2 && e_.find(n.children[0]) == e_.find(n.children[1])) ||
                    key.op_type == "Pow";
           });
  }

  // Of the halves of one value of which one is negated, or of a difference of two products (x cos - y sin).
  bool joins_rotated(const Node& node) const {
    const auto product = [&](Id id) { return any_node(id, [](const OpKey& key, const ENode&) { return key.op_type == "Mul"; }); };
    bool negated = false;
    std::optional<std::set<Id>> wholes;  // of all inputs so far
    for (const std::string& input : node.inputs) {
      const auto it = run_.lowered.values.find(input);
      if (it == run_.lowered.values.end()) return false;
      const auto is_difference = [&](const OpKey& key, const ENode& n) {
        return key.op_type == "Sub" && product(n.children[0]) && product(n.children[1]);
      };
      if (any_node(it->second, is_difference)) return true;
      negated = negated || any_node(it->second, [](const OpKey& key, const ENode&) { return key.op_type == "Neg"; });
      std::set<Id> own = wholes_of(it->second);
      if (wholes) std::erase_if(own, [&](Id id) { return !wholes->contains(id); });
      wholes = std::move(own);
    }
    return negated && wholes && !wholes->empty();
  }

  // What a value may be a part of, seen through views and signs: the nearest values.
  std::set<Id> wholes_of(Id id) const {
    constexpr std::size_t kMost = 64;
    const auto is_part = [](const OpKey& key) { return has(Trait::kMovement, key) || key.op_type == "Neg" || key.op_type == kProjOp; };
    std::vector<Id> order{e_.find(id)};
    std::set<Id> seen{order[0]};
    for (std::size_t at = 0; at < order.size() && order.size() < kMost; ++at)
      for (const NodeId n : e_.class_nodes(order[at])) {
        const ENode node = e_.node(n);
        if (node.children.empty() || !is_part(g_.key(node.op))) continue;
        if (const Id below = e_.find(node.children[0]); seen.insert(below).second) order.push_back(below);
      }
    return seen;
  }

  template <typename Test>
  bool any_node(Id id, Test test) const {
    for (NodeId n : e_.class_nodes(e_.find(id)))
      if (const ENode node = e_.node(n); test(g_.key(node.op), node)) return true;
    return false;
  }

  // The classes that an anchor feeds, nearest first, up to the next anchors and to operators of the family that read what it is part of.
  std::vector<Id> above(Id anchor, std::string_view family) const {
    std::vector<Id> order{anchor};
    std::set<Id> seen{anchor};
    std::size_t begin = 0;
    for (int step = 0; step < kMaxStepsUp && order.size() < kMaxClassesUp; ++step) {
      const std::size_t end = order.size();
      for (; begin < end; ++begin)
        for (NodeId user : e_.class_users(order[begin])) {
          const Id id = e_.find(e_.class_of(user));
          const std::string op = op_of(user);
          const bool reads_block = !family.empty() && (family_of(op) == family || op.starts_with("saturate."));
          if (!reads_block && !anchors_.contains(id) && seen.insert(id).second) order.push_back(id);
        }
    }
    return order;
  }

  // The e-node that the result has for a class: of an output of several, the operator's.
  NodeId selected(Id id) const {
    const Choice* choice = run_.selection.find(id);
    if (!choice || choice->folded || choice->node == kNone) return kNone;
    const ENode node = e_.node(choice->node);
    return g_.key(node.op).op_type == kProjOp ? selected(e_.find(node.children[0])) : choice->node;
  }

  // The first of what the result has for a class that passes a test, going down through values that rules made.
  template <typename Test>
  NodeId selected_below(Id id, Test test) const {
    for (int step = 0; step < kMaxStepsDown; ++step) {
      const NodeId node = selected(id);
      if (node == kNone || test(node)) return node;
      const ENode n = e_.node(node);
      const auto made = std::find_if(n.children.begin(), n.children.end(), [&](Id c) {
        return !index_.names.contains(e_.find(c)) && !g_.facts(e_.find(c)).constant && selected(e_.find(c)) != kNone;
      });
      if (made == n.children.end()) return kNone;
      id = e_.find(*made);
    }
    return kNone;
  }

  // The operators that compute a class: e-node of the class, e-node of the operator (another one where it has several outputs).
  std::vector<std::pair<NodeId, NodeId>> operators(Id id) const {
    std::vector<std::pair<NodeId, NodeId>> out;
    for (NodeId n : e_.class_nodes(id)) {
      const ENode node = e_.node(n);
      if (g_.key(node.op).role == UnitRole::kFused) continue;  // the runtime's, of another spelling
      if (g_.key(node.op).op_type != kProjOp) {
        out.emplace_back(n, n);
        continue;
      }
      for (NodeId tuple : e_.class_nodes(e_.find(node.children[0]))) out.emplace_back(n, tuple);
    }
    return out;
  }

  void explain_place(WhyPlace& place, Id anchor, std::string_view family, const Closure& closure) const {
    const bool given = is_wanted(place.op_type) || that_become(query_.op).contains(place.op_type);
    const NodeId stays = selected(anchor);
    if (given && stays != kNone && is_wanted(op_of(stays))) {
      place.status = WhyPlace::Status::kGiven;
      return;
    }
    if (!index_.needed.contains(anchor)) {
      place.status = WhyPlace::Status::kNotNeeded;
      place.reason = "no output of the model is computed from it";
      return;
    }
    if (g_.facts(anchor).constant) {
      place.status = WhyPlace::Status::kConstant;
      place.reason = "its value does not depend on an input; it is computed once and stored, so no operator is left";
      return;
    }
    const std::vector<Id> classes = above(anchor, family);
    const bool is_there = stays != kNone && op_of(stays) == place.op_type;
    if (!is_there && fused_above(place, classes, family)) {
      if (!query_.brief && !is_op(place.fused, query_.op)) tell_asked(place, classes);
      return;
    }
    if (given) {
      place.status = WhyPlace::Status::kGiven;
      return;
    }
    if (not_chosen_above(place, classes)) return;
    place.quantized = is_quantized_at(anchor);
    if (query_.glance) return;
    place.nearest = nearest(classes, place.op_type, closure);
    if (place.nearest.empty()) place.reason = used_otherwise(place, anchor, closure);
  }

  // Whether the operator of a place reads what was quantized, or is quantized itself.
  bool is_quantized_at(Id anchor) const {
    const auto is_op_named = [](std::string_view op) { return [op](const OpKey& key, const ENode&) { return key.op_type == op; }; };
    const auto users = e_.class_users(anchor);
    if (std::any_of(users.begin(), users.end(), [&](NodeId n) { return g_.key(e_.node(n).op).op_type == "QuantizeLinear"; })) return true;
    return any_node(anchor, [&](const OpKey&, const ENode& n) {
      return std::any_of(n.children.begin(), n.children.end(), [&](Id c) { return any_node(c, is_op_named("DequantizeLinear")); });
    });
  }

  // Where no rule comes near: what uses the anchor, beside what the rules look for there.
  std::string used_otherwise(const WhyPlace& place, Id anchor, const Closure& closure) const {
    std::set<std::string> wanted, users;
    for (const Rewrite& rewrite : run_.rewrites)
      if (closure.distance(rewrite.name)) collect_users(rewrite.left, place.op_type, wanted);
    for (NodeId n : e_.class_users(anchor))
      if (e_.find(e_.class_of(n)) != anchor && is_plain(op_of(n))) users.insert(op_of(n));
    if (wanted.empty()) return "";
    return fmt::format("it is used by {}; the rules for {} look for a {} under {}",
                       users.empty() ? "no operator" : fmt::format("{}", fmt::join(users, ", ")), query_.op, place.op_type,
                       fmt::join(wanted, ", "));
  }

  // The operators of a pattern that take what an operator of this name computes.
  void collect_users(const Pattern& pattern, const std::string& op, std::set<std::string>& users) const {
    for (const PatternNode& user : pattern.nodes)
      for (const std::uint32_t child : user.children) {
        if (!is_operator(pattern.nodes[child], op)) continue;
        if (const std::string name = g_.kind_name(user.kind); is_plain(name)) users.insert(name);
      }
  }

  // No internal operator, projection or literal.
  static bool is_plain(const std::string& op) { return !op.starts_with("#") && !op.starts_with("saturate."); }

  bool fused_above(WhyPlace& place, const std::vector<Id>& classes, std::string_view family) const {
    for (const bool asked : {true, false})
      for (Id id : classes) {
        const auto is_it = [&](NodeId n) { return asked ? is_op(op_of(n), query_.op) : is_of_family(op_of(n), family); };
        const NodeId node = selected_below(id, is_it);
        if (node == kNone) continue;
        const std::string op = op_of(node);
        place.rules = chain(node);
        if (!asked && e_.made_by(node) == kNone) continue;  // the model's own
        place.status = WhyPlace::Status::kFused;
        place.fused = op;
        return true;
      }
    return false;
  }

  // The place went to another operator of the family: what is wrong with the one that was asked for.
  void tell_asked(WhyPlace& place, const std::vector<Id>& classes) const {
    WhyPlace other;
    if (!not_chosen_above(other, classes)) return;
    place.asked = {std::move(other.fused), std::move(other.reason), std::move(other.rules), other.cost, other.pinned_cost};
  }

  // The cheapest of the e-nodes above an anchor that would do; where none of them can be had, what is wrong with the first.
  bool not_chosen_above(WhyPlace& place, const std::vector<Id>& classes) const {
    std::size_t priced = 0;
    for (Id id : classes)
      for (const auto& [of_class, n] : operators(id)) {
        if (!is_wanted(op_of(n))) continue;
        WhyPlace candidate = place;
        candidate.status = WhyPlace::Status::kNotChosen;
        candidate.fused = op_of(n);
        candidate.cost = candidate.pinned_cost = 0;
        candidate.reason = why_not_chosen(candidate, id, of_class, n);
        priced += candidate.cost > 0;
        const bool cheaper = candidate.pinned_cost > 0 && (place.pinned_cost == 0 || candidate.pinned_cost < place.pinned_cost);
        const bool better = query_.brief ? rank_of(candidate) > rank_of(place) : cheaper;
        if (place.status != WhyPlace::Status::kNotChosen || better) {
          candidate.rules = chain(n);
          place = std::move(candidate);
        }
        if ((query_.brief && !query_.family) || priced == kMaxPriced) return true;
      }
    return place.status == WhyPlace::Status::kNotChosen;
  }

  // Of what may be taken, might be in another opset, and may not: which says most to the user.
  static int rank_of(const WhyPlace& place) {
    using Because = WhyPlace::Because;
    return place.because == Because::kDearer ? 3 : place.because == Because::kOpset ? 2 : place.because == Because::kTarget ? 1 : 0;
  }

  std::string why_not_chosen(WhyPlace& place, Id id, NodeId of_class, NodeId node) const {
    const ENode n = e_.node(node);
    std::string why;
    const OpKey& key = g_.key(n.op);
    place.because = WhyPlace::Because::kOpset;
    if (key.domain.empty() && !find_schema("", key.op_type, run_.extract_options.opset_limit)) {
      place.opset = schema_versions("", key.op_type).front()->since_version;
      return fmt::format("it needs opset {} of ai.onnx, and the result is held to {}", place.opset, run_.extract_options.opset_limit);
    }
    place.because = WhyPlace::Because::kTarget;
    OpSite site = site_of(g_, n, id);
    site.highest_opset = run_.extract_options.opset_limit;
    if (!setup_.target.allows(site, &why)) return why;
    if (query_.brief) {
      const auto missing = missing_operand(n);
      if (!missing) place.because = WhyPlace::Because::kDearer;
      return missing ? *missing : fmt::format("the extractor preferred {}", instead_of(id));
    }
    ExtractOptions options = run_.extract_options;
    options.pinned[id] = of_class;
    if (of_class != node) options.pinned[e_.find(e_.class_of(node))] = node;
    place.cost = run_.selection.cost;
    const auto pinned = cost_with_pinned(g_, run_.lowered, setup_.target, *setup_.cost, options);
    if (!pinned.ok()) return std::string(pinned.status().message());
    if (std::isinf(*pinned))
      return missing_operand(n).value_or("nothing that the target can run has it: what it needs cannot be chosen with it");
    place.pinned_cost = *pinned;
    place.because = WhyPlace::Because::kDearer;
    const double more = *pinned - run_.selection.cost;
    return fmt::format("the extractor preferred {}: with {} the result is predicted to cost {} {} ({:.2g} % of all; {})", instead_of(id),
                       key.op_type, cost_text(std::abs(more), setup_.cost->unit()), more < 0 ? "less" : "more",
                       run_.selection.cost > 0 ? 100 * std::abs(more) / run_.selection.cost : 0, setup_.cost->name());
  }

  // What the result has for a class.
  std::string instead_of(Id id) const {
    const Choice* choice = run_.selection.find(id);
    if (choice && choice->folded) return "a stored constant";
    const NodeId node = selected(id);
    return node == kNone ? "a form that does not compute this value" : op_of(node);
  }

  // Of an e-node that nothing the target can run completes: the operand that cannot be had, where one can be named.
  std::optional<std::string> missing_operand(const ENode& node) const {
    std::string why;
    for (Id child : node.children) {
      const Id id = e_.find(child);
      const auto nodes = e_.class_nodes(id);
      const bool none = std::none_of(nodes.begin(), nodes.end(), [&](NodeId n) {
        const ENode other = e_.node(n);
        const OpKey& key = g_.key(other.op);
        return key.domain == "#" ? key.op_type != kLiteralOp
                                 : key.domain != "saturate" && setup_.target.allows(site_of(g_, other, id), &why);
      });
      if (none)
        return fmt::format("its operand {} has no form that target {} takes{}{}", name(id), setup_.target.name, why.empty() ? "" : ": ",
                           why);
    }
    return std::nullopt;
  }

  std::vector<std::string> chain(NodeId node) const { return rules_behind(e_, node); }

  std::vector<WhyMiss> nearest(const std::vector<Id>& classes, const std::string& op, const Closure& closure) const {
    struct Ranked {
      bool wants_internal;  // tells a user less than an operator that models hold
      std::uint32_t missing;
      int distance;
      std::uint32_t unmatched;
      WhyMiss miss;
    };
    std::vector<Ranked> all;
    for (const Rewrite& rewrite : run_.rewrites) {
      const auto distance = closure.distance(rewrite.name);
      if (!distance) continue;
      std::optional<Ranked> best;
      for (Id id : classes) {
        const auto miss = nearest_miss(g_, rewrite, id, name_);
        if (!miss || miss->missing == 0 || is_op(miss->wanted, query_.op) || !concerns(*miss, rewrite.left, classes, op)) continue;
        Ranked r{miss->wanted.starts_with("saturate."),
                 miss->missing,
                 *distance,
                 ~miss->matched,
                 {rewrite.name, miss->matched, miss->total, name(id), miss->reason}};
        if (!best || std::tie(r.missing, r.unmatched) < std::tie(best->missing, best->unmatched)) best = std::move(r);
      }
      if (best) all.push_back(*std::move(best));
    }
    std::stable_sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) {
      return std::tie(a.wants_internal, a.missing, a.distance, a.unmatched) <
             std::tie(b.wants_internal, b.missing, b.distance, b.unmatched);
    });
    std::vector<WhyMiss> out;
    for (Ranked& r : all) {
      const auto same = [&](const WhyMiss& m) { return m.at == r.miss.at && m.reason == r.miss.reason; };
      if (out.size() < kMaxMisses && std::none_of(out.begin(), out.end(), same)) out.push_back(std::move(r.miss));
    }
    return out;
  }

  // A miss is about an anchor if it looked at it, stands on an internal operator above it, or looks for such an operator and fails on the
  // way.
  bool concerns(const NearMiss& miss, const Pattern& pattern, const std::vector<Id>& above, const std::string& anchor_op) const {
    if (std::find(miss.classes.begin(), miss.classes.end(), above.front()) != miss.classes.end()) return true;
    const auto is_internal = [&](NodeId n) { return op_of(n).starts_with("saturate.") || !family_of(op_of(n)).empty(); };
    if (std::any_of(miss.nodes.begin(), miss.nodes.end(), is_internal)) return true;
    return miss.matched > 0 && std::find(above.begin(), above.end(), miss.at) != above.end() &&
           std::any_of(pattern.nodes.begin(), pattern.nodes.end(), [&](const PatternNode& n) { return is_operator(n, anchor_op); });
  }

  bool is_operator(const PatternNode& node, const std::string& op) const {
    return node.type == PatternNode::Type::kOperator && g_.kind_name(node.kind) == op;
  }

  // ---- --rule, --value

  void ask_rule() {
    report_.anchors = fmt::format("places of rule {}", query_.rule);
    std::vector<std::pair<std::uint32_t, WhyPlace>> all;
    for (const Rewrite& rewrite : run_.rewrites) {
      if (rewrite.name != query_.rule && rewrite.name != back_of(query_.rule)) continue;
      for (Id id : e_.classes()) {
        const auto miss = nearest_miss(g_, rewrite, id, name_);
        if (!miss) continue;
        WhyPlace place;
        place.value = name(id);
        place.op_type = operators_of(g_, id);
        place.facts = to_string(g_.facts(id), g_.dims());
        place.status = miss->missing == 0 ? WhyPlace::Status::kApplied : WhyPlace::Status::kMissed;
        if (miss->missing > 0) place.nearest.push_back({rewrite.name, miss->matched, miss->total, place.value, miss->reason});
        all.emplace_back(miss->missing, std::move(place));
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < std::min(all.size(), kMaxPlaces); ++i) report_.places.push_back(std::move(all[i].second));
  }

  void ask_value() {
    report_.anchors = fmt::format("value '{}'", query_.value);
    const auto value = run_.lowered.values.find(query_.value);
    if (value == run_.lowered.values.end() || !computes(query_.value)) return;
    const Id id = e_.find(value->second);
    WhyPlace place = place_of(query_.value, operators_of(g_, id));
    const NodeId node = selected(id);
    place.status = WhyPlace::Status::kGiven;
    if (node != kNone) {
      place.fused = op_of(node);
      place.rules = chain(node);
      if (!place.rules.empty()) place.status = WhyPlace::Status::kFused;
    }
    for (const Rewrite& rewrite : run_.rewrites)
      if (const auto miss = nearest_miss(g_, rewrite, id, name_); miss && miss->missing == 1 && 2 * miss->matched > miss->total)
        place.nearest.push_back({rewrite.name, miss->matched, miss->total, name(id), miss->reason});
    // What has most of its operators there says most.
    std::stable_sort(place.nearest.begin(), place.nearest.end(), [](const WhyMiss& a, const WhyMiss& b) { return a.matched > b.matched; });
    place.nearest.resize(std::min(place.nearest.size(), kMaxMisses));
    report_.places.push_back(std::move(place));
  }

  // Whether the value is of this graph, not one that it captures.
  bool computes(const std::string& value) const {
    return run_.where.empty() || std::any_of(model_.graph.nodes.begin(), model_.graph.nodes.end(), [&](const Node& n) {
             return std::find(n.outputs.begin(), n.outputs.end(), value) != n.outputs.end();
           });
  }

  const FinishedRun& run_;
  const OnnxEGraph& g_;
  const EGraph& e_;
  const Setup& setup_;
  const Model& model_;
  const WhyQuery& query_;
  WhyReport& report_;
  const RunIndex& index_;
  std::string_view family_;  // of the operator that was asked for
  std::set<Id> anchors_;     // of --op
  Namer name_;
};

}  // namespace

void ask_places(const FinishedRun& run, const RunIndex& index, const Setup& setup, const WhyQuery& query, WhyReport& report) {
  PlaceExplainer(run, index, setup, query, report).ask();
}

absl::StatusOr<WhyReport> why_not(const Model& model, const Setup& setup, OptimizeOptions options, const WhyQuery& query) {
  if (absl::Status s = check_question(model, setup.rules, query); !s.ok()) return s;
  WhyReport report;
  const BlockKind* kind = find_kind(query.kind);
  options.observe = [&, given = options.observe](const FinishedRun& run) {
    if (given) given(run);
    const RunIndex index(run);
    kind ? ask_kind(run, index, setup, *kind, false, report) : ask_places(run, index, setup, query, report);
  };
  auto result = optimize(model, setup.rules, setup.target, *setup.cost, options);
  if (!result.ok()) return result.status();
  count_refused(model, result->model, setup.target, result->report);
  report.run = std::move(result->report);
  const auto kernels = query.rule.empty() ? integer_kernels(model, setup.target) : std::map<std::string, UnitAnswer>();
  for (WhyPlace& place : report.places)
    if (const auto it = kernels.find(place.value); place.where.empty() && it != kernels.end()) place.integers = it->second;
  return report;
}

}  // namespace saturate
