#include "extract/onnx_problem.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "egraph/stop.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/kernels.h"
#include "extract/target/load_fusions.h"
#include "extract/target/unpacked.h"
#include "extract/units/border.h"
#include "extract/units/kept_quantizers.h"
#include "extract/units/load_time_fusions.h"
#include "extract/units/node_units.h"
#include "fmt/format.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/integer_kernels.h"
#include "onnx_bridge/operators/op_traits.h"
#include "onnx_bridge/opsets/canonical.h"

namespace saturate {
namespace {

// An operator that the asked opset lacks counts as more than a result can hold of those that the target refuses: it can't be written at
// all.
constexpr double kLacking = 1 << 30;
// A call that is left counts more than a body of any size that lacks: then the error tells of the operator.
constexpr double kLeftCall = kLacking * (1 << 20);

// As many refused operators as an e-node that is avoided counts: more than it takes to break a unit that is kept (kept_quantizers.cpp).
constexpr double kAvoided = 16;

class ProblemBuilder {
 public:
  ProblemBuilder(const OnnxEGraph& g, const Lowered& lowered, const Target* target, const CostModel& cost, const ExtractOptions& options)
      : g_(g),
        e_(g.egraph()),
        lowered_(lowered),
        target_(target),
        prepared_(cost.for_graph(g, options.usual_sizes)),
        cost_(prepared_ ? *prepared_ : cost),
        options_(options),
        asked_(options.asked ? options.asked : std::make_shared<AskedOfNodes>()),
        unpacked_(g, target) {
    if (target && !target->border.empty()) border_.emplace(Border::of_enodes(g, lowered, *target));
    originals_ = node_signatures(e_, lowered);
    int operators = 0, dequantizers = 0;
    for (const Source& s : lowered.sources) {
      if (s.op == kNone) continue;
      operators += is_integer_operator(g_.key(s.op)) ? 1 : 0;
      dequantizers += g_.key(s.op).op_type == "DequantizeLinear" ? 1 : 0;
      note_what_runs_nowhere(s);
    }
    spelled_as_operators_ = operators > dequantizers;
    if (target && !target->node_units.empty()) quantized_by_units_ = values_in_units(g);
    if (options.keep_quantizers && dequantizers > 0) kept_.emplace(g, lowered);
  }

  OnnxProblem build() {
    OnnxProblem p;
    std::vector<std::vector<Candidate>> candidates(e_.num_ids());
    std::vector<Id> stack;
    std::vector<bool> seen(e_.num_ids());
    auto reach = [&](Id id) {
      if (!seen[id]) seen[id] = true, stack.push_back(id), p.class_id.push_back(id);
    };
    for (Id r : lowered_.roots) reach(e_.find(r));
    for (const auto& [id, node] : options_.pinned) reach(e_.find(id));
    while (!stack.empty()) {
      heed_stop();
      const Id id = stack.back();
      stack.pop_back();
      candidates[id] = candidates_of(id);
      for (const Candidate& c : candidates[id])
        for (Id child : c.children) reach(child);
    }
    std::vector<Blocker> blockers = price_pairs(candidates, p);
    keep_weights_quantized(candidates, p, blockers);
    std::sort(p.class_id.begin(), p.class_id.end());
    p.number.assign(e_.num_ids(), kUnchosen);
    for (std::uint32_t c = 0; c < p.class_id.size(); ++c) p.number[p.class_id[c]] = c;
    for (Id id : p.class_id) {
      for (Candidate& c : candidates[id]) {
        for (Id& child : c.children) child = number_of(p, child);
        p.plain.add_node(c.cost, c.children);
        p.node_id.push_back(c.node);
      }
      p.plain.end_class();
    }
    for (const Blocker& blocker : blockers) {  // classes of one e-node, after the others
      p.blockers.push_back({p.plain.num_classes(), p.number[blocker.id]});
      std::vector<std::uint32_t> children;
      for (Id child : blocker.candidate.children) children.push_back(number_of(p, child));
      p.plain.add_node(blocker.candidate.cost, children);
      p.node_id.push_back(blocker.candidate.node);
      p.plain.end_class();
    }
    for (Id r : lowered_.roots) p.plain.roots.push_back(p.number[e_.find(r)]);
    for (const auto& [id, node] : options_.pinned) p.plain.roots.push_back(p.number[e_.find(id)]);
    note_spellings(p);
    return p;
  }

 private:
  struct Candidate {
    NodeId node = kNone;
    Price cost;
    std::vector<Id> children;  // canonical, without repeats
  };

  struct Blocker {
    Id id;
    Candidate candidate;
  };

  void note_spellings(OnnxProblem& p) const {
    const FusedAtLoad& fused = g_.notes<FusedAtLoad>();
    if (!target_ || fused.of.empty()) return;
    absl::flat_hash_map<NodeId, std::uint32_t> place;
    for (std::uint32_t n = 0; n < p.node_id.size(); ++n)
      if (p.node_id[n] != kNone) place.try_emplace(p.node_id[n], n);
    for (std::uint32_t n = 0; n < p.node_id.size(); ++n) {
      const auto it = fused.of.find(p.node_id[n]);
      if (it == fused.of.end()) continue;
      std::vector<std::uint32_t> nodes;
      for (const NodeId of : it->second.nodes)
        if (const auto at = place.find(of); at != place.end()) nodes.push_back(at->second);
      if (nodes.size() == it->second.nodes.size())
        p.spelled.emplace(n, std::move(nodes));
      else
        p.plain.cost[n].refused += kLacking;  // it could not be written back as the spelling, and stands in no file itself
    }
  }

  static std::uint32_t number_of(const OnnxProblem& p, Id id) {
    return id >= kBlockerBase ? static_cast<std::uint32_t>(p.class_id.size()) + (id - kBlockerBase) : p.number[id];
  }

  // A consumer of a pinned pair costs what the runtime makes of it, unless its input comes from an e-node that the runtime leaves alone:
  // each such e-node is a class of its own (`Blocker`), which its class may take for nothing and a second form of the consumer needs
  // without surcharge.
  std::vector<Blocker> price_pairs(std::vector<std::vector<Candidate>>& candidates, const OnnxProblem& p) const {
    std::vector<Blocker> blockers;
    if (!target_ || target_->load_time_fusions.empty()) return blockers;
    const ValueReaders readers(e_, lowered_);
    std::map<Id, std::vector<Id>> made;  // class of a producer -> its blockers
    auto blockers_of = [&](Id id) -> const std::vector<Id>& {
      const auto [it, fresh] = made.try_emplace(id);
      if (!fresh) return it->second;
      for (Candidate& c : candidates[id]) {
        if (c.node == kNone || is_fused_at_load(g_, *target_, e_.node(c.node)) || !g_.key(e_.node(c.node).op).domain.empty()) continue;
        it->second.push_back(kBlockerBase + static_cast<Id>(blockers.size()));
        blockers.push_back({id, c});
        c.cost = {};
        c.children = {it->second.back()};
      }
      return it->second;
    };
    for (Id id : p.class_id) {
      heed_stop();
      std::vector<Candidate> more;
      for (Candidate& c : candidates[id]) {
        if (c.node == kNone || c.children.empty() || c.children[0] >= kBlockerBase) continue;
        const ENode node = e_.node(c.node);
        const double surcharge = load_time_surcharge(g_, *target_, cost_, node, id, readers);
        if (surcharge <= 0) continue;
        const Id child = e_.find(node.children[0]);
        for (Id blocker : blockers_of(child)) {
          more.push_back(c);
          std::replace(more.back().children.begin(), more.back().children.end(), child, blocker);
        }
        c.cost += surcharge;
      }
      candidates[id].insert(candidates[id].end(), more.begin(), more.end());
    }
    return blockers;
  }

  // Of an operator whose weights the runtime quantizes, one that is dequantized is read as such, never folded: each DequantizeLinear of it
  // is a class of its own, which the operator reads. Where the asked opset lacks one, the weight may be folded, too.
  void keep_weights_quantized(std::vector<std::vector<Candidate>>& candidates, const OnnxProblem& p, std::vector<Blocker>& blockers) const {
    if (!target_ || target_->quantizes_weights.operators.empty()) return;
    std::map<Id, std::vector<Id>> made;  // class of a weight -> its blockers
    std::set<Id> lacking;                // of these
    const auto dequantized = [&](Id id) -> const std::vector<Id>& {
      const auto [it, fresh] = made.try_emplace(id);
      if (!fresh) return it->second;
      for (Candidate& c : candidates[id]) {
        if (c.node == kNone || g_.key(e_.node(c.node).op).op_type != "DequantizeLinear") continue;
        if (c.cost.refused >= kLacking) {
          lacking.insert(id);
          continue;
        }
        it->second.push_back(kBlockerBase + static_cast<Id>(blockers.size()));
        blockers.push_back({id, c});
        c.cost = {};
        c.children = {it->second.back()};
      }
      return it->second;
    };
    for (const Id id : p.class_id) {
      heed_stop();
      std::vector<Candidate> kept;
      for (Candidate& c : candidates[id]) {
        const bool concerned = c.node != kNone && quantizes_weights_of(g_, *target_, e_.node(c.node), id);
        const Id weight = concerned ? e_.find(e_.node(c.node).children[1]) : kNone;
        if (!concerned || weight == id || dequantized(weight).empty()) {
          kept.push_back(std::move(c));
          continue;
        }
        if (lacking.contains(weight)) kept.push_back(c);
        for (const Id blocker : dequantized(weight)) {
          kept.push_back(c);
          std::replace(kept.back().children.begin(), kept.back().children.end(), weight, blocker);
        }
      }
      candidates[id] = std::move(kept);
    }
  }

  // Classes in the order in which they come first; by a set, for an e-node may have a million children.
  std::vector<Id> each_once(std::span<const Id> children) const {
    std::vector<Id> out;
    absl::flat_hash_set<Id> seen;
    for (const Id child : children)
      if (const Id k = e_.find(child); seen.insert(k).second) out.push_back(k);
    return out;
  }

  std::vector<Candidate> candidates_of(Id id) const {
    std::vector<Candidate> out;
    bool has_constant = false;
    const auto pinned = options_.pinned.find(id);
    for (NodeId n : e_.class_nodes(id)) {
      const ENode node = e_.node(n);
      const OpKey& key = g_.key(node.op);
      has_constant = has_constant || key.op_type == kConstantOp;
      if (pinned != options_.pinned.end() && pinned->second != n) continue;
      if (options_.left_out.contains(n)) continue;
      const FusedAtLoad::Spelling* spelling = key.role == UnitRole::kFused ? spelling_of(n) : nullptr;
      if (key.role == UnitRole::kFused && !spelling) continue;
      const Price cost = spelling ? fused_cost(id, n, node, *spelling) : node_cost(id, n, node, key);
      if (!cost.is_finite()) continue;
      Candidate c{n, cost, each_once(spelling ? std::span<const Id>(spelling->leaves) : node.children)};
      if (std::find(c.children.begin(), c.children.end(), id) == c.children.end()) out.push_back(std::move(c));
    }
    const Facts& f = g_.facts(id);
    if (pinned == options_.pinned.end() && !has_constant && f.constant && f.kind == Facts::Kind::kTensor &&
        !options_.not_foldable.contains(id))
      if (const auto bytes = known_bytes(f, g_.dims()))
        out.push_back({kNone, Price(constant_cost(*bytes) + kPreferFolded) + stored_though_kept(id), {}});
    return out;
  }

  const FusedAtLoad::Spelling* spelling_of(NodeId n) const {
    const FusedAtLoad& fused = g_.notes<FusedAtLoad>();
    const auto it = target_ ? fused.of.find(n) : fused.of.end();
    return it == fused.of.end() ? nullptr : &it->second;
  }

  // What the runtime makes of a spelling costs what its operator does, and is refused where a node of the spelling is.
  Price fused_cost(Id id, NodeId n, const ENode& node, const FusedAtLoad::Spelling& spelling) const {
    Price price;
    double wish = 1;  // the file holds the spelling
    bool original = true;
    for (const NodeId of : spelling.nodes) {
      const ENode spelled = e_.node(of);
      const Id made = e_.find(e_.class_of(of));
      const auto pinned = options_.pinned.find(made);
      if (options_.left_out.contains(of) || (pinned != options_.pinned.end() && pinned->second != of)) return kInfinity;
      price.refused += node_cost(made, of, spelled, g_.key(spelled.op)).refused;
      original = original && is_original(spelled);
      wish = std::max(wish, wish_price(spelled, made));
    }
    const auto [it, is_new] = asked_->cost_when_fused.try_emplace(n);
    if (is_new) it->second = cost_.cost(g_, node, id);
    // Where operators are counted, those of the file count, too, unless the target tells its own fusions: then time is meant.
    const double loses = cost_.unit() == "operators" && !(target_ && target_->fusions)
                             ? std::max(kLosesToFused, kShareOfFile * static_cast<double>(spelling.nodes.size()))
                             : kLosesToFused;
    price.cost = it->second * loses * wish + (original ? 0 : kPreferOriginal);
    return price;
  }

  // What it counts to store what the model dequantizes, in an opset that has its DequantizeLinear.
  Price stored_though_kept(Id id) const {
    if (!kept_) return {};
    for (const NodeId n : e_.class_nodes(id))
      if (const ENode node = e_.node(n); is_quantizer(g_.key(node.op), "DequantizeLinear") && standard_in_limit(id, n, node) == false)
        return {};
    return kept_->stored(id);
  }

  double constant_cost(std::size_t bytes) const {
    return cost_.constant_cost(bytes) + options_.per_constant_byte * static_cast<double>(bytes);
  }

  // Whether the result's opset may have an operator; nullopt of what is not the standard's, or has no other form than its own.
  std::optional<bool> standard_in_limit(Id id, NodeId n, const ENode& node) const {
    const OpKey& key = g_.key(node.op);
    if (!key.domain.empty() || key.version != 0) return std::nullopt;
    return lowest_within_limit(n, key, site_of(g_, node, id).inputs).has_value();
  }

  double cost_of(Id id, const ENode& node) const {
    if (unpacked_.has(node, id)) return 0;
    const UnitRole role = g_.key(node.op).role;
    if (role != UnitRole::kNone) return role == UnitRole::kPart ? 0 : unit_cost(g_, *target_, cost_, node, id);
    const double cost = target_ && !target_->node_units.empty()
                            ? std::min(cost_.cost(g_, node, id), cost_in_channels_last(g_, cost_, node, id))
                            : cost_.cost(g_, node, id);
    if (const IntegerKernel* integer = integer_kernel(operator_name(g_.key(node.op).domain, g_.key(node.op).op_type)))
      return is_original(node) ? cost : cost * price_of_new(*integer, node);
    if (parts_signed_pair(id, node)) return cost * kPartsPair;
    return quantized_by_units_.contains(e_.find(id)) ? cost + cost_outside_unit(g_, cost_, node, id, cost) : cost;
  }

  // Whether a rule moves int8 between its quantizer and its dequantizer: the runtime writes uint8, which its products are for, only where
  // one follows the other.
  bool parts_signed_pair(Id id, const ENode& node) const {
    const OpKey& key = g_.key(node.op);
    if (!target_ || target_->node_units.empty() || g_.facts(id).dtype != DType::kInt8 || g_.facts(id).constant) return false;
    if (!has(Trait::kMovement, key) || is_original(node)) return false;
    const auto is_quantized = [&](Id value) {
      return std::ranges::any_of(e_.class_nodes(value), [&](NodeId n) {
        const ENode made = e_.node(n);
        return g_.key(made.op).op_type == "QuantizeLinear" && is_original(made);
      });
    };
    return is_quantized(id) && is_quantized(e_.find(node.children[0]));
  }

  // How many times its cost an integer operator counts that rules make.
  double price_of_new(const IntegerKernel& integer, const ENode& node) const {
    const bool is_signed =
        target_ && !target_->node_units.empty() && g_.facts(node.children[integer.tensors.front()]).dtype == DType::kInt8;
    return (spelled_as_operators_ ? kWinsOverUnits : kLosesToUnits) * (is_signed ? integer.if_signed : 1);
  }

  // The model's own nodes may stay where the target or the opset lacks them, and count as refused; what rules make may not, unless the
  // opset is lowered and has them. Operators of the border may stand around what is refused, and count as such: else all around it would
  // stay, too, as it came.
  Price node_cost(Id id, NodeId n, const ENode& node, const OpKey& key) const {
    if (key.domain == "#") {
      if (key.op_type == kLiteralOp) return kInfinity;
      if (key.op_type == kProjOp && kept_) return kept_->surcharge(cost_, e_.find(id), node, is_original_value(node));
      if (key.op_type != kConstantOp) return 0;
      return Price(constant_cost(g_.constant_tensor(node.op).bytes().size())) + stored_though_kept(id);
    }
    const auto [it, is_new] = asked_->price.try_emplace(n);
    const Price price = is_new ? it->second = price_of(id, n, node, key) : it->second;
    return {price.refused + (options_.avoided.contains(n) ? kAvoided : 0), price.cost};
  }

  Price price_of(Id id, NodeId n, const ENode& node, const OpKey& key) const {
    const bool kept_unit = kept_ && key.role != UnitRole::kNone;  // the model's own nodes in another form
    if (kept_unit && standard_in_limit(id, n, node) == false) return kInfinity;
    const bool original = kept_unit || is_original(node), taken = allowed(id, n, node, key);
    const std::optional<bool> in_opset = options_.lowers_opset ? standard_in_limit(id, n, node) : std::nullopt;
    if (!original && !taken && in_opset != true && !may_be_at_border(key)) return kInfinity;
    if (!original && !runs_where_model_does(node, id, key)) return kInfinity;
    const double refused = (target_ && !taken ? 1 : 0) + (in_opset == false ? kLacking : 0) + (is_left(key) ? kLeftCall : 0);
    const double cost = cost_of(id, node) * wish_price(node, id), fragile = may_end_the_runtime(g_, node, id) ? cost + kFragile : 0;
    const Price price{refused, cost + fragile + (original || stands_for_original(n, key.role) ? 0 : kPreferOriginal)};
    return kept_ ? price + kept_->surcharge(cost_, e_.find(id), node, original) : price;
  }

  bool is_left(const OpKey& key) const { return key.version != 0 && options_.calls_left.contains({key.domain, key.op_type}); }

  double wish_price(const ENode& node, Id id) const {
    return target_ && !target_->wishes.empty() ? target_->wish_price(site_of(g_, node, id)) : 1;
  }

  bool may_be_at_border(const OpKey& key) const {
    return target_ && key.version == 0 && key.unique == 0 && target_->border.contains(operator_name(key.domain, key.op_type));
  }

  // Of a unit the last node alone bears what the model's own nodes are preferred by.
  bool stands_for_original(NodeId n, UnitRole role) const {
    if (role != UnitRole::kLast) return role == UnitRole::kPart;
    const NodeId plain = without_unit(g_, n);
    return plain != kNone && is_original(e_.node(plain));
  }

  // ONNX Runtime has a kernel on the CPU for what rules make of a model that runs there, whatever the target.
  bool lacks_kernel(const OpKey& key, DType dtype) const {
    if (!is_standard(key) || key.version != 0 || dtype == DType::kUndefined) return false;
    const std::string release = target_ && target_->release ? target_->release->version : std::string(oldest_release_of_kernels());
    const std::set<std::string>* types = kernel_dtypes(key.op_type, release);
    return types != nullptr && !types->contains(std::string(dtype_name(dtype)));
  }

  void note_what_runs_nowhere(const Source& s) {
    OpSite site{g_.key(s.op)};
    for (const Id input : s.inputs) site.inputs.push_back(&g_.facts(input));
    if (const DType dtype = data_dtype(site); lacks_kernel(site.key, dtype)) runs_nowhere_.insert(dtype);
    some_must_go_ = some_must_go_ || must_go(site);
  }

  // The user named it or asked for an opset that lacks it, or it calls a function whose body has another form in that opset.
  bool must_go(const OpSite& site) const {
    if (is_left(site.key)) return true;
    if (target_ && target_->forbidden.contains(operator_name(site.key.domain, site.key.op_type))) return true;
    if (!options_.lowers_opset || !is_standard(site.key)) return false;
    const std::optional<std::int64_t> lowest = lowest_of(site.key, site.inputs);
    return !lowest || *lowest > options_.opset_limit;
  }

  bool runs_where_model_does(const ENode& node, Id id, const OpKey& key) const {
    if (some_must_go_ || !is_standard(key) || key.role != UnitRole::kNone) return true;
    const DType dtype = data_dtype(site_of(g_, node, id));
    return runs_nowhere_.contains(dtype) || !lacks_kernel(key, dtype);
  }

  bool is_original(const ENode& node) const { return originals_.contains(node_signature(e_, node.op, node.children)); }

  // Of several of the model's operator.
  bool is_original_value(const ENode& projection) const {
    return std::ranges::any_of(e_.class_nodes(e_.find(projection.children[0])), [&](NodeId n) { return is_original(e_.node(n)); });
  }

  bool allowed(Id id, NodeId n, const ENode& node, const OpKey& key) const {
    if (key.version != 0 || key.unique != 0 || !target_) return false;
    OpSite site = site_of(g_, node, id);
    if (key.domain.empty()) {
      const auto lowest = lowest_within_limit(n, key, site.inputs);
      if (!lowest) return false;
      site.lowest_opset = *lowest;
      site.highest_opset = options_.opset_limit;
    }
    site.of_model = is_original(node);
    site.at_border = border_ && !node.children.empty() && border_->has(node.children[0], id);
    return target_->allows(site);
  }

  // The lowest opset of ai.onnx that says an operator, if the result may have it.
  std::optional<std::int64_t> lowest_within_limit(NodeId n, const OpKey& key, std::span<const Facts* const> inputs) const {
    const auto [it, is_new] = asked_->lowest.try_emplace(n);
    if (is_new) {
      const auto [known, is_first] = asked_->lowest_alike.try_emplace(what_tells_opsets(n));
      if (is_first) known->second = lowest_of(key, inputs);
      it->second = known->second;
    }
    return it->second && *it->second <= options_.opset_limit ? it->second : std::nullopt;
  }

  // The operator, and of each input what lowest_opset asks, which is given no dims: its elements where they are known, else sort, dtype and
  // rank.
  std::vector<std::uint64_t> what_tells_opsets(NodeId n) const {
    const ENode node = e_.node(n);
    std::vector<std::uint64_t> out{node.op};
    for (const Id child : node.children) {
      const Facts& f = g_.facts(child);
      const std::uint64_t rank = f.shape ? f.shape->size() + 1 : 0;
      out.push_back(f.value ? std::uint64_t{1} << 63 | e_.find(child)
                            : rank << 16 | static_cast<std::uint64_t>(f.dtype) << 8 | static_cast<std::uint64_t>(f.kind));
    }
    return out;
  }

  static std::optional<std::int64_t> lowest_of(const OpKey& key, std::span<const Facts* const> inputs) {
    Node probe;
    probe.op_type = key.op_type;
    probe.attributes = key.attributes;
    probe.outputs.assign(static_cast<std::size_t>(key.outputs), "y");
    for (const Facts* f : inputs) probe.inputs.push_back(f->kind == Facts::Kind::kAbsent ? "" : fmt::format("x{}", probe.inputs.size()));
    return lowest_opset(probe, inputs);
  }

  static bool is_integer_operator(const OpKey& key) { return integer_kernel(operator_name(key.domain, key.op_type)) != nullptr; }

  // At equal cost the model's own nodes stay, and computed constants are written only where that saves something.
  static constexpr Id kBlockerBase = Id{1} << 31;  // above any class id
  static constexpr double kPreferOriginal = 1e-9, kPreferFolded = 1e-10, kFragile = 1e-8;
  // What the runtime would fuse is written as one operator where there is one, within what prices tell apart: it says what it is, and
  // other runtimes have it, too.
  static constexpr double kLosesToFused = 1.25, kShareOfFile = 0.75;
  // What a rule makes is an integer operator in models of such operators, and a unit (kLosesTies in node_units.cpp) in others, though it
  // has no scale of a bias to store.
  static constexpr double kWinsOverUnits = 1 + 5e-7, kLosesToUnits = 1.05;
  static constexpr double kPartsPair = 10;  // less than a product in floats takes beside its integer kernel
  const OnnxEGraph& g_;
  const EGraph& e_;
  const Lowered& lowered_;
  const Target* target_;
  std::unique_ptr<CostModel> prepared_;
  const CostModel& cost_;
  const ExtractOptions& options_;
  const std::shared_ptr<AskedOfNodes> asked_;
  mutable UnpackedAtLoad unpacked_;
  absl::flat_hash_set<std::vector<Id>> originals_;
  bool some_must_go_ = false;     // of the model's operators: what rules make of these runs where it can
  std::set<DType> runs_nowhere_;  // that the model has operators of without a kernel: of these rules may make such, too
  std::optional<Border> border_;
  std::optional<KeptQuantizers> kept_;
  bool spelled_as_operators_ = false;           // the model has integer operators rather than operators between quantizers
  absl::flat_hash_set<Id> quantized_by_units_;  // values that a unit computes in integers
};

}  // namespace

namespace {

// The problem without the e-nodes that are left out, and where those that are avoided count as refused.
OnnxProblem without(const OnnxProblem& p, const ExtractOptions& options) {
  OnnxProblem out;
  out.class_id = p.class_id, out.blockers = p.blockers, out.number = p.number;
  out.plain.roots = p.plain.roots;
  const auto is_in = [&](const std::set<NodeId>& nodes) { return [&](std::uint32_t n) { return nodes.contains(p.node_id[n]); }; };
  std::vector<std::uint32_t> place(p.node_id.size(), kUnchosen);
  for (std::uint32_t c = 0; c < p.plain.num_classes(); ++c) {
    for (std::uint32_t n = p.plain.node_begin[c]; n < p.plain.node_begin[c + 1]; ++n) {
      const auto spelled = p.spelled.find(n);
      const std::vector<std::uint32_t> nodes = spelled == p.spelled.end() ? std::vector{n} : spelled->second;
      if (is_in(options.left_out)(n) || std::ranges::any_of(nodes, is_in(options.left_out))) continue;
      place[n] = out.plain.num_nodes();
      const auto avoided = kAvoided * static_cast<double>(std::ranges::count_if(nodes, is_in(options.avoided)));
      out.plain.add_node({p.plain.cost[n].refused + avoided, p.plain.cost[n].cost}, p.plain.children_of(n));
      out.node_id.push_back(p.node_id[n]);
    }
    out.plain.end_class();
  }
  for (const auto& [n, nodes] : p.spelled) {
    if (place[n] == kUnchosen) continue;
    std::vector<std::uint32_t>& now = out.spelled[place[n]];
    for (const std::uint32_t of : nodes) now.push_back(place[of]);
  }
  return out;
}

}  // namespace

OnnxProblem onnx_problem(const OnnxEGraph& egraph, const Lowered& lowered, const Target* target, const CostModel& cost,
                         const ExtractOptions& options) {
  if (!options.asked || !options.pinned.empty() || options.per_constant_byte > 0)
    return ProblemBuilder(egraph, lowered, target, cost, options).build();
  if (!options.asked->whole) {
    ExtractOptions all = options;
    all.left_out.clear(), all.avoided.clear();
    options.asked->whole = ProblemBuilder(egraph, lowered, target, cost, all).build();
  }
  if (options.left_out.empty() && options.avoided.empty()) return *options.asked->whole;
  return without(*options.asked->whole, options);
}

namespace {

// By class, the model's first node that makes its value; null where a graph input or a constant is it. What the model makes later is
// equal to it, and may be made of it.
std::vector<const Source*> first_makers(const OnnxEGraph& g, const Lowered& lowered, const OnnxProblem& p) {
  const EGraph& e = g.egraph();
  std::vector<const Source*> out(p.class_id.size(), nullptr);
  for (auto s = lowered.sources.rbegin(); s != lowered.sources.rend(); ++s)
    for (const Id output : s->outputs)
      if (const std::uint32_t c = output == kNone || s->op == kNone ? kUnchosen : p.number[e.find(output)]; c != kUnchosen) out[c] = &*s;
  for (std::uint32_t c = 0; c < out.size(); ++c)
    for (std::uint32_t n = p.plain.node_begin[c]; n < p.plain.node_begin[c + 1]; ++n)
      if (p.node_id[n] != kNone && e.node(p.node_id[n]).children.empty() && g.key(e.node(p.node_id[n]).op).domain == "#") out[c] = nullptr;
  return out;
}

// The model's nodes in their order, those of bodies in front of the calls.
std::vector<const Source*> sources_of(const Lowered& lowered, bool inside) {
  std::vector<const Source*> out;
  auto inner = lowered.inlined.begin();
  for (std::size_t i = 0; i < lowered.sources.size(); ++i) {
    for (; inside && inner != lowered.inlined.end() && inner->first == i; ++inner) out.push_back(&inner->second);
    out.push_back(&lowered.sources[i]);
  }
  return out;
}

// Whether every part of a unit has an e-node in the problem: one of an operator that the asked opset lacks has none.
bool has_all_parts(const OnnxEGraph& g, const OnnxProblem& p, const ENode& node) {
  const EGraph& e = g.egraph();
  return std::all_of(node.children.begin(), node.children.end(), [&](Id child) {
    const auto& made = e.class_nodes(e.find(child));
    const auto part = std::find_if(made.begin(), made.end(), [&](NodeId n) { return g.key(e.node(n).op).role == UnitRole::kPart; });
    if (part == made.end()) return true;
    const std::uint32_t c = p.number[e.find(child)];
    return c != kUnchosen && p.plain.node_begin[c] != p.plain.node_begin[c + 1] && has_all_parts(g, p, e.node(*part));
  });
}

}  // namespace

absl::StatusOr<NodeChoice> original_choice(const OnnxEGraph& g, const Lowered& lowered, const OnnxProblem& p, bool inside) {
  const EGraph& e = g.egraph();
  NodeChoice choice(p.plain.num_classes(), kUnchosen);
  // The first node of the class for which `fits` holds, unless the class has one already.
  auto pick = [&](std::uint32_t c, auto fits) {
    if (c == kUnchosen || choice[c] != kUnchosen) return;
    for (std::uint32_t n = p.plain.node_begin[c]; n < p.plain.node_begin[c + 1]; ++n)
      if (p.node_id[n] != kNone && fits(e.node(p.node_id[n]))) {
        choice[c] = n;
        return;
      }
  };
  auto is_source = [&](const Source& s) {
    return [&e, &s](const ENode& node) {
      return node.op == s.op && node_signature(e, s.op, node.children) == node_signature(e, s.op, s.children);
    };
  };
  for (const auto& [c, of] : p.blockers) choice[c] = p.plain.node_begin[c];
  const std::vector<const Source*> makers = first_makers(g, lowered, p);
  for (const NodeId node : units_of_model(g, lowered)) {
    const std::uint32_t c = p.number[e.find(e.class_of(node))];
    if (c == kUnchosen || choice[c] != kUnchosen || !has_all_parts(g, p, e.node(node))) continue;
    const NodeId same = g.key(e.node(node).op).role == UnitRole::kLast ? without_unit(g, node) : kNone;
    if (same != kNone && (!makers[c] || !is_source(*makers[c])(e.node(same)))) continue;
    const auto begin = p.node_id.begin() + p.plain.node_begin[c], end = p.node_id.begin() + p.plain.node_begin[c + 1];
    if (const auto it = std::find(begin, end, node); it != end) choice[c] = static_cast<std::uint32_t>(it - p.node_id.begin());
  }
  for (std::uint32_t c = 0; c < p.class_id.size(); ++c)
    pick(c, [&](const ENode& node) { return node.children.empty() && g.key(node.op).domain == "#"; });
  for (const Source* source : sources_of(lowered, inside)) {
    const Source& s = *source;
    if (s.op == kNone) continue;
    const bool tuple = g.key(s.op).outputs != 1;
    Id tuple_class = kNone;
    for (std::size_t o = 0; o < s.outputs.size(); ++o) {
      if (s.outputs[o] == kNone) continue;
      const std::uint32_t c = p.number[e.find(s.outputs[o])];
      if (!tuple) {
        pick(c, is_source(s));
        continue;
      }
      if (tuple_class == kNone) tuple_class = e.lookup(s.op, s.children);
      if (tuple_class == kNone) return absl::InternalError("a node of the model has no e-node");
      pick(c, [&](const ENode& node) {
        const OpKey& key = g.key(node.op);
        return key.op_type == kProjOp && key.attributes[0].i() == static_cast<std::int64_t>(o) &&
               e.find(node.children[0]) == e.find(tuple_class);
      });
    }
    if (tuple_class != kNone) pick(p.number[e.find(tuple_class)], is_source(s));
  }
  if (const ChoiceValue value = evaluate_choice(p.plain, choice); !value.wrong.empty())
    return absl::InternalError(fmt::format("the model's own graph: {}", value.wrong));
  return choice;
}

std::optional<NodeChoice> spelled_out(const OnnxProblem& p, const NodeChoice& given) {
  NodeChoice choice = needed_only(p.plain, given);
  if (p.spelled.empty()) return choice;
  const std::vector<std::uint32_t> class_of = p.plain.class_of_node();
  bool any = false;
  for (std::uint32_t c = 0; c < choice.size(); ++c) {
    const auto it = choice[c] == kUnchosen ? p.spelled.end() : p.spelled.find(choice[c]);
    if (it == p.spelled.end()) continue;
    any = true;
    choice[c] = it->second.front();
    for (const std::uint32_t n : it->second)
      if (std::uint32_t& made = choice[class_of[n]]; made == kUnchosen) made = n;
  }
  if (!any) return choice;
  for (const auto& [c, of] : p.blockers)
    if (choice[c] == kUnchosen) choice[c] = p.plain.node_begin[c];
  if (!evaluate_choice(p.plain, choice).wrong.empty()) return std::nullopt;
  return needed_only(p.plain, choice);
}

Selection to_selection(const OnnxProblem& p, const NodeChoice& choice) {
  Selection s;
  s.by_class.resize(p.number.size());
  const std::optional<NodeChoice> spelled = spelled_out(p, choice);
  if (!spelled) return s;
  const NodeChoice& needed = *spelled;
  for (std::uint32_t c = 0; c < p.class_id.size(); ++c)
    if (needed[c] != kUnchosen) s.by_class[p.class_id[c]] = {p.node_id[needed[c]], p.node_id[needed[c]] == kNone};
  for (const auto& [c, of] : p.blockers)  // made anyway, so its class is not made in another way, too
    if (needed[c] != kUnchosen) s.by_class[p.class_id[of]] = {p.node_id[needed[c]], false};
  const Price price = evaluate_choice(p.plain, choice).dag;
  s.refused = price.refused, s.cost = price.cost;
  return s;
}

}  // namespace saturate
