#include "egraph/apply.h"

#include <algorithm>
#include <array>

#include "egraph/batch_apply.h"

namespace saturate {

std::optional<StopReason> StopCheck::now(const EGraph::Impl& g, std::size_t more) const {
  if (g.contradiction) return StopReason::kContradiction;
  if (limits_.cancel != nullptr && limits_.cancel->load(std::memory_order_relaxed)) return StopReason::kCancelled;
  if (seconds() > limits_.seconds) return StopReason::kTimeLimit;
  if (limits_.memory_bytes != ~std::size_t{0} && g.memory_bytes() + more > limits_.memory_bytes) return StopReason::kMemoryLimit;
  return std::nullopt;
}

MatchLayout layout_of(const Rewrite& rule, bool whole) {
  MatchLayout layout;
  if (rule.left.nodes.empty()) return layout;
  if (!rule.right || whole) {
    (rule.right ? layout.by_node : layout.with_nodes) = true;
    for (std::uint32_t i = 0; i < rule.left.nodes.size(); ++i) layout.slots.push_back(i);
    return layout;
  }
  layout.slots.push_back(rule.left.root());
  for (const Template::Node& node : rule.right->nodes) {
    if (node.op == kNone && std::find(layout.slots.begin(), layout.slots.end(), node.slot) == layout.slots.end())
      layout.slots.push_back(node.slot);
  }
  return layout;
}

namespace {

constexpr std::size_t kIdBorder = 0xffffff00u;
constexpr std::size_t kWorthBulk = 8'192;  // matches of one rule: below, small batches are faster

// A template with slots turned into places in a match.
class TemplateApplier {
 public:
  TemplateApplier(EGraph::Impl& g, const Rewrite& rule, const MatchLayout& layout)
      : g_(g), nodes_(rule.right->nodes), rule_(g.current_rule), slots_(layout.slots.size()) {
    values_.resize(nodes_.size());
    root_ = static_cast<std::uint32_t>(std::find(layout.slots.begin(), layout.slots.end(), rule.left.root()) - layout.slots.begin());
    for (Template::Node& node : nodes_) {
      made_.push_back(static_cast<std::uint32_t>(operators_));
      if (node.op == kNone) {
        node.slot = static_cast<std::uint32_t>(std::find(layout.slots.begin(), layout.slots.end(), node.slot) - layout.slots.begin());
      } else {
        ++operators_;
        batchable_ &= node.children.size() <= 3;
      }
    }
  }
  std::size_t operators() const { return operators_; }

  // New e-nodes that this match needs, on the e-graph as it is.
  std::size_t needed(std::span<const std::uint32_t> match) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Template::Node& node = nodes_[i];
      if (node.op == kNone) {
        values_[i] = match[node.slot];
        continue;
      }
      values_[i] = kNone;
      bool known = true;
      gather(node);
      for (const Id child : scratch_) known &= child != kNone;
      if (known) {
        const PackedENode rec = g_.canonical(node.op, scratch_);
        const NodeId found = g_.probe(rec, g_.hash(rec));
        if (rec.pooled()) g_.pool.resize(rec.c[0]);
        if (found != kNone) values_[i] = found;
      }
      if (values_[i] == kNone) ++count;
    }
    return count;
  }

  static constexpr std::size_t kBatch = 64;
  bool batchable() const { return batchable_; }
  BatchApplier bulk(const Limits& limits) { return BatchApplier(g_, nodes_, root_, rule_, limits.memory_bytes == ~std::size_t{0}); }

  // The same for `count` <= kBatch matches at once, template node by template node, so that the cache misses of many matches overlap.
  // No union is made before the last e-node of the batch is in, so what is canonical stays so.
  void apply_batch(const std::uint32_t* words, std::size_t stride, std::size_t count) {
    columns_.resize(nodes_.size() * kBatch);
    Id roots[kBatch];
    for (std::size_t b = 0; b < count; ++b) roots[b] = g_.find_halving(words[b * stride + root_]);
    Reasons reasons;
    if (g_.proof) reasons = record(words, stride, count);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Template::Node& node = nodes_[i];
      Id* column = columns_.data() + i * kBatch;
      if (node.op == kNone) {
        for (std::size_t b = 0; b < count; ++b) column[b] = g_.find_halving(words[b * stride + node.slot]);
      } else {
        add_batch(i, column, i + 1 == nodes_.size() ? roots : nullptr, count, reasons);
      }
    }
    const Id* last = columns_.data() + (nodes_.size() - 1) * kBatch;
    if (!g_.proof) {
      for (std::size_t b = 0; b < count; ++b) {
        if (roots[b] != last[b]) g_.merge(roots[b], last[b], rule_);
      }
      return;
    }
    for (std::size_t b = 0; b < count; ++b) {
      const std::uint32_t* bound = g_.proof->words.data() + reasons.of(b) + 1;
      const NodeId result = bound[nodes_.back().op == kNone ? nodes_.back().slot : slots_ + operators_ - 1];
      reasons.used[b] |= g_.merge(bound[root_], result, rule_, reasons.of(b));
    }
    g_.proof->forget_idle(reasons.base, std::span(reasons.used).first(count), reasons.first_edge);
    g_.proof->current = Proof::kGiven;
  }

  void apply(std::span<const std::uint32_t> match) {
    if (g_.proof) return apply_with_reasons(match);
    const Id root = g_.find_halving(match[root_]);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Template::Node& node = nodes_[i];
      if (node.op == kNone) {
        values_[i] = match[node.slot];
        continue;
      }
      gather(node);
      values_[i] = g_.add(node.op, scratch_, i + 1 == nodes_.size() ? root : kNone);
    }
    g_.merge(root, values_.back(), rule_);
  }

 private:
  void apply_with_reasons(std::span<const std::uint32_t> match) {
    const std::uint64_t before = g_.nodes_created + g_.unions;
    Proof& proof = *g_.proof;
    const std::uint32_t reason = proof.record(rule_, match, operators_);
    const std::uint32_t outer = std::exchange(proof.current, reason);
    const Id root = g_.find_halving(match[root_]);
    bool fresh = false;  // the top e-node has gone into the class of the match
    std::uint32_t* bound = proof.words.data() + reason + 1;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Template::Node& node = nodes_[i];
      if (node.op == kNone) {
        values_[i] = bound[node.slot];
        continue;
      }
      gather(node);
      const std::size_t ids = g_.recs.size();
      bound[slots_ + made_[i]] = values_[i] = g_.add_node(node.op, scratch_, i + 1 == nodes_.size() ? root : kNone);
      fresh = g_.recs.size() > ids;
    }
    const NodeId last = values_.back();
    if (nodes_.back().op != kNone && fresh) {
      proof.link(bound[root_], last, reason);
    } else {
      g_.merge(bound[root_], last, rule_, reason);
    }
    proof.current = outer;
    if (g_.nodes_created + g_.unions == before) proof.forget(reason);
  }

  void gather(const Template::Node& node) {
    scratch_.clear();
    for (const std::uint32_t child : node.children) scratch_.push_back(values_[child]);
  }

  // Where the applications of a batch are recorded, and which of them have made something.
  struct Reasons {
    std::uint32_t base = 0, width = 0, first_edge = 0;
    std::array<bool, kBatch> used{};
    std::uint32_t of(std::size_t b) const { return base + static_cast<std::uint32_t>(b) * width; }
  };
  Reasons record(const std::uint32_t* words, std::size_t stride, std::size_t count) {
    Proof& proof = *g_.proof;
    Reasons reasons;
    reasons.base = static_cast<std::uint32_t>(proof.words.size());
    reasons.width = static_cast<std::uint32_t>(1 + slots_ + operators_);
    reasons.first_edge = static_cast<std::uint32_t>(proof.edges.size());
    for (std::size_t b = 0; b < count; ++b) proof.record(rule_, {words + b * stride, slots_}, operators_);
    proof.current = reasons.base;
    return reasons;
  }
  // The e-nodes that a batch wants, and their hashes.
  struct Wanted {
    PackedENode recs[kBatch];
    std::uint32_t hashes[kBatch];
  };
  void insert_with_reasons(std::size_t i, Id* column, const Id* roots, std::size_t count, Reasons& reasons, const Wanted& wanted) {
    const auto& [recs, hashes] = wanted;
    Proof& proof = *g_.proof;
    for (std::size_t b = 0; b < count; ++b) {
      std::uint32_t* bound = proof.words.data() + reasons.of(b) + 1;
      NodeId node = g_.probe(recs[b], hashes[b]);
      if (node == kNone) {
        node = g_.insert_ensured(recs[b], hashes[b], roots == nullptr ? kNone : roots[b]);
        if (roots != nullptr) proof.link(bound[root_], node, reasons.of(b));
        reasons.used[b] = true;
      }
      bound[slots_ + made_[i]] = node;
      column[b] = g_.find_halving(node);
    }
  }

  void add_batch(std::size_t i, Id* column, const Id* roots, std::size_t count, Reasons& reasons) {
    const Template::Node& node = nodes_[i];
    Wanted wanted;
    auto& [recs, hashes] = wanted;
    const std::size_t n = node.children.size();
    const Id* columns[3] = {};
    g_.table.reserve(count);
    g_.ensure_ids(count);
    for (std::size_t k = 0; k < n; ++k) columns[k] = columns_.data() + node.children[k] * kBatch;
    g_.compose(node.op, std::span(columns, n), count, recs, hashes);
    for (std::size_t b = 0; b < count; ++b) {
      const NodeId likely = g_.table.home_id(hashes[b]);
      if (likely != kNone) {
        __builtin_prefetch(&g_.recs[likely]);
        __builtin_prefetch(&g_.parent[likely]);
      } else {
        for (std::size_t k = 0; k < n; ++k) __builtin_prefetch(&g_.uses[recs[b].c[k]], 1);
      }
    }
    if (g_.proof) return insert_with_reasons(i, column, roots, count, reasons, wanted);
    for (std::size_t b = 0; b < count; ++b) {
      const NodeId found = g_.probe(recs[b], hashes[b]);
      column[b] = found != kNone ? g_.find_halving(found) : g_.insert_ensured(recs[b], hashes[b], roots == nullptr ? kNone : roots[b]);
    }
  }

  EGraph::Impl& g_;
  std::vector<Template::Node> nodes_;
  std::vector<Id> columns_;
  bool batchable_ = true;  // no e-node of more than three children
  std::uint32_t rule_, root_ = 0;
  std::size_t slots_;
  std::vector<std::uint32_t> made_;  // template node -> operators before it
  std::size_t operators_ = 0;
  std::vector<Id> values_, scratch_;
};

// Room for `needed()` new e-nodes, after a rebuild if duplicates stand in the way.
template <class Needed>
bool has_room(EGraph::Impl& g, const Limits& limits, std::size_t most, Needed needed) {
  if (g.recs.size() + most > kIdBorder) return false;
  if (g.live_nodes + most <= limits.nodes) return true;
  if (g.live_nodes + needed() <= limits.nodes) return true;
  g.rebuild();
  return g.live_nodes + needed() <= limits.nodes;
}

ApplyResult stopped(ApplyResult result, StopReason reason) {
  result.stop = reason;
  return result;
}

ApplyResult apply_template(EGraph::Impl& g, const Rewrite& rule, const MatchLayout& layout, const MatchList& matches, std::uint64_t budget,
                           const StopCheck& check) {
  ApplyResult result;
  TemplateApplier applier(g, rule, layout);
  BatchApplier bulk = applier.bulk(check.limits());
  // Whether, must not depend on the number of threads: unions come later in larger batches, which other ids follow from.
  const bool many = applier.batchable() && matches.size() >= kWorthBulk && g.analysis == nullptr && !g.proof;
  const std::size_t most_at_once = many ? BatchApplier::kMost : TemplateApplier::kBatch;
  for (std::size_t i = 0; i < matches.size();) {
    if (result.effective >= budget) {
      result.left = true;
      break;
    }
    if (auto stop = check.now(g, matches.bytes + bulk.bytes() + g.growth(most_at_once * applier.operators())))
      return stopped(result, *stop);
    const std::uint64_t before = g.nodes_created + g.unions;
    const std::uint32_t* words = matches.words + i * matches.stride;
    const std::size_t left = matches.size() - i;
    const auto fits = [&](std::size_t batch) {
      const std::size_t most = batch * applier.operators();
      return batch > 1 && budget - result.effective >= batch && g.live_nodes + most <= check.limits().nodes &&
             g.recs.size() + most <= kIdBorder;
    };
    std::size_t batch = std::min(left, most_at_once);
    if (!fits(batch)) batch = std::min(left, TemplateApplier::kBatch);
    if (applier.batchable() && fits(batch)) {
      if (many) {
        bulk.apply(words, matches.stride, batch);
      } else {
        applier.apply_batch(words, matches.stride, batch);
      }
      result.applied += batch;
      result.effective += std::min<std::uint64_t>(batch, g.nodes_created + g.unions - before);
      i += batch;
      continue;
    }
    const std::span match(words, matches.stride);
    if (!has_room(g, check.limits(), applier.operators(), [&] { return applier.needed(match); }))
      return stopped(result, StopReason::kNodeLimit);
    applier.apply(match);
    ++result.applied;
    result.effective += g.nodes_created + g.unions != before;
    ++i;
  }
  return result;
}

// One match through an Applier. False: it would pass the node limit and has been taken back.
bool apply_one(EGraph& egraph, const Rewrite& rule, const Match& match, std::size_t node_limit) {
  EGraph::Impl& g = egraph.impl();
  std::vector<std::pair<Id, Id>> unions;
  const auto first = static_cast<NodeId>(g.recs.size());
  const std::uint64_t unions_before = g.unions;
  std::uint32_t reason = Proof::kGiven;
  if (g.proof) {
    reason = g.proof->record_met(g.current_rule, match.matched, match.classes);
    g.proof->current = reason;
  }
  rule.applier->apply(egraph, match, unions);
  if (g.proof) {
    g.proof->keep_met(reason, match.matched.size());
    g.proof->current = Proof::kGiven;
  }
  if (g.live_nodes > node_limit && g.recs.size() > first && g.unions == unions_before) {
    g.roll_back(first);
    return false;
  }
  for (const auto& [a, b] : unions) g.merge(a, b, g.current_rule, reason);
  return true;
}

ApplyResult apply_with_applier(EGraph& egraph, const Rewrite& rule, const MatchLayout& layout, const MatchList& matches,
                               std::uint64_t budget, const StopCheck& check) {
  EGraph::Impl& g = egraph.impl();
  ApplyResult result;
  const std::size_t n = layout.slots.size();
  std::vector<Id> classes(n);
  std::vector<OpId> ops(n);
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (result.effective == budget) {
      result.left = true;
      break;
    }
    const std::uint32_t* words = matches.words + i * matches.stride;
    if (i % 16 == 0) {
      if (auto stop = check.now(g, matches.bytes + g.growth(64))) return stopped(result, *stop);
    }
    if (g.contradiction) return stopped(result, StopReason::kContradiction);
    if (g.recs.size() > kIdBorder) return stopped(result, StopReason::kNodeLimit);
    const std::span<const NodeId> nodes(words + n, n);
    const auto canonicalize = [&] {
      for (std::size_t k = 0; k < n; ++k) {
        classes[k] = g.find_halving(words[k]);
        ops[k] = nodes[k] == kNone ? kNone : g.recs[nodes[k]].op;
      }
    };
    canonicalize();
    const std::uint64_t before = g.nodes_created + g.unions;
    if (!apply_one(egraph, rule, {classes, nodes, ops}, check.limits().nodes)) {
      g.rebuild();  // duplicates may stand in the way
      canonicalize();
      if (!apply_one(egraph, rule, {classes, nodes, ops}, check.limits().nodes)) return stopped(result, StopReason::kNodeLimit);
    }
    ++result.applied;
    result.effective += g.nodes_created + g.unions != before;
  }
  return result;
}

}  // namespace

ApplyResult apply_matches(EGraph& egraph, const Rewrite& rule, const MatchLayout& layout, const MatchList& matches, std::uint64_t budget,
                          const StopCheck& check) {
  if (rule.right) return apply_template(egraph.impl(), rule, layout, matches, budget, check);
  return apply_with_applier(egraph, rule, layout, matches, budget, check);
}

}  // namespace saturate
