#include "egraph/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "egraph/dump.h"
#include "egraph/egraph_impl.h"

namespace saturate {

bool record_explanations(EGraph& egraph) {
  EGraph::Impl& g = egraph.impl();
  if (g.proof) return true;
  if (g.unions != 0) return false;
  g.proof = std::make_unique<Proof>();
  for (const PackedENode& rec : g.recs) g.proof->added(rec, g.pool.data());
  return true;
}

bool records_explanations(const EGraph& egraph) { return egraph.impl().proof != nullptr; }

ENode term(const EGraph& egraph, NodeId node) {
  const EGraph::Impl& g = egraph.impl();
  return g.proof ? ENode{g.proof->recs[node].op, g.proof->children(node)} : egraph.node(node);
}

namespace {

// Collects the edges that a question needs: all ways of all premises, each edge once. Collected edges are contracted, so that no way is
// walked twice.
class Collector {
 public:
  explicit Collector(const EGraph::Impl& g)
      : g_(g),
        proof_(*g.proof),
        depth_(ReservedArray<std::uint32_t>::zeros(g.recs.size())),
        contracted_(ReservedArray<std::uint32_t>::zeros(g.recs.size())) {}

  std::vector<std::uint32_t> collect(NodeId a, NodeId b) {
    need(a, b);
    for (std::size_t i = 0; i < edges_.size(); ++i) expand(edges_[i]);
    return edges_;
  }

  // The way from a to b: edges, and whether each is taken from its `a` to its `b`.
  std::vector<std::pair<std::uint32_t, bool>> way(NodeId a, NodeId b) {
    std::vector<std::pair<std::uint32_t, bool>> front, back;
    const auto climb = [&](NodeId& n, std::vector<std::pair<std::uint32_t, bool>>& out, bool reverse) {
      const std::uint32_t edge = proof_.up_edge[n];
      out.emplace_back(edge, (proof_.edges[edge].a == n) != reverse);
      n = proof_.up(n);
    };
    while (a != b) {
      if (depth_of(a) >= depth_of(b)) {
        climb(a, front, false);
      } else {
        climb(b, back, true);
      }
    }
    front.insert(front.end(), back.rbegin(), back.rend());
    return front;
  }

 private:
  std::uint32_t depth_of(NodeId n) {
    open_.clear();
    NodeId at = n;
    for (; at != kNone && depth_[at] == 0; at = proof_.up(at)) open_.push_back(at);
    std::uint32_t depth = at == kNone ? 0 : depth_[at];
    for (; !open_.empty(); open_.pop_back()) depth_[open_.back()] = ++depth;
    return depth_[n];
  }
  NodeId top(NodeId n) {
    NodeId root = n;
    while (contracted_[root] != 0) root = contracted_[root] - 1;
    while (n != root) n = std::exchange(contracted_[n], root + 1) - 1;
    return root;
  }
  void need(NodeId a, NodeId b) {
    a = top(a), b = top(b);
    while (a != b) {
      if (depth_of(a) < depth_of(b)) std::swap(a, b);
      edges_.push_back(proof_.up_edge[a]);
      contracted_[a] = proof_.up(a) + 1;
      a = top(a);
    }
  }
  // Whether a and b were equal before the edge `age`.
  bool equal_before(NodeId a, NodeId b, std::uint32_t age) {
    while (a != b) {
      if (depth_of(a) < depth_of(b)) std::swap(a, b);
      if (proof_.up_edge[a] == kNone || proof_.up_edge[a] >= age) return false;
      a = proof_.up(a);
    }
    return true;
  }
  // Children of two congruent e-nodes, in the order that pairs equals with equals.
  void need_children(OpId op, std::span<const NodeId> a, std::span<const NodeId> b, std::uint32_t age) {
    if (a.size() != b.size()) return;
    const bool swapped = a.size() == 2 && g_.ops[op].commutative && !(equal_before(a[0], b[0], age) && equal_before(a[1], b[1], age));
    for (std::size_t i = 0; i < a.size(); ++i) need(a[i], b[swapped ? 1 - i : i]);
  }
  void expand(std::uint32_t age) {
    const Proof::Edge& edge = proof_.edges[age];
    if (edge.reason == Proof::kGiven || edge.reason == Proof::kByAnalysis) return;
    if (edge.reason == Proof::kCongruence) {
      need_children(proof_.recs[edge.a].op, proof_.children(edge.a), proof_.children(edge.b), age);
      return;
    }
    const std::uint32_t* words = proof_.words.data() + edge.reason;
    const Proof::Rule& rule = proof_.rules[words[0]];
    const std::span<const PatternNode> left = rule.left.nodes;
    const std::uint32_t *bound = words + 1, *made = bound + left.size();
    std::vector<NodeId> children, right;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i].type == PatternNode::Type::kVariable) continue;
      children.clear();
      for (const std::uint32_t child : left[i].children) children.push_back(bound[child]);
      need_children(proof_.recs[bound[i]].op, proof_.children(bound[i]), children, age);
    }
    if (!rule.right) {
      for (std::uint32_t i = 0; i < *made; ++i) need(made[1 + 2 * i], made[2 + 2 * i]);
      return;
    }
    for (const Template::Node& node : rule.right->nodes) {
      if (node.op == kNone) {
        right.push_back(bound[node.slot]);
        continue;
      }
      children.clear();
      for (const std::uint32_t child : node.children) children.push_back(right[child]);
      need_children(node.op, proof_.children(*made), children, age);
      right.push_back(*made++);
    }
  }

  const EGraph::Impl& g_;
  const Proof& proof_;
  std::vector<std::uint32_t> edges_;
  std::vector<NodeId> open_;
  // By e-node, where 0 is unknown:
  ReservedArray<std::uint32_t> depth_;       // in its tree, and 1
  ReservedArray<std::uint32_t> contracted_;  // the e-node above, and 1, where the edge to it has been collected
};

ExplainStep application(const Proof& proof, std::uint32_t reason) {
  ExplainStep step;
  const std::uint32_t* words = proof.words.data() + reason;
  const Proof::Rule& rule = proof.rules[words[0]];
  step.rule_index = words[0];
  step.rule = rule.name;
  step.kind = rule.right ? ExplainStep::Kind::kRule : ExplainStep::Kind::kNative;
  step.slots.assign(words + 1, words + 1 + rule.left.nodes.size());
  return step;
}

ExplainStep step_of(const Proof& proof, std::uint32_t age) {
  const Proof::Edge& edge = proof.edges[age];
  ExplainStep step;
  if (edge.reason == Proof::kCongruence) {
    step.kind = ExplainStep::Kind::kCongruence;
  } else if (edge.reason == Proof::kByAnalysis) {
    step.kind = ExplainStep::Kind::kAnalysis;
  } else if (edge.reason != Proof::kGiven) {
    step = application(proof, edge.reason);
  }
  step.left = edge.a;
  step.right = edge.b;
  return step;
}

}  // namespace

std::optional<Explanation> explain(const EGraph& egraph, Id a, Id b) {
  const EGraph::Impl& g = egraph.impl();
  if (!g.proof || a >= g.recs.size() || b >= g.recs.size() || g.find(a) != g.find(b)) return std::nullopt;
  Explanation out;
  std::vector<bool> in_chain(g.proof->edges.size(), false);
  Collector collector(g);
  const auto way = collector.way(a, b);
  out.chain.reserve(way.size());
  for (const auto& [edge, forward] : way) {
    out.chain.push_back(step_of(*g.proof, edge));
    out.chain.back().forward = forward;
    in_chain[edge] = true;
  }
  std::vector<std::uint32_t> edges = collector.collect(a, b);
  std::sort(edges.begin(), edges.end());
  out.replay.reserve(edges.size());
  for (const std::uint32_t edge : edges) {
    out.replay.push_back(step_of(*g.proof, edge));
    if (!in_chain[edge]) out.support.push_back(out.replay.back());
  }
  return out;
}

std::optional<ExplainStep> explain_added(const EGraph& egraph, NodeId node) {
  const EGraph::Impl& g = egraph.impl();
  if (!g.proof || node >= g.recs.size()) return std::nullopt;
  const std::uint32_t origin = g.proof->origin(node);
  if (origin >= Proof::kByAnalysis) return std::nullopt;
  ExplainStep step = application(*g.proof, origin);
  step.right = node;
  if (!step.slots.empty()) step.left = step.slots.back();
  return step;
}

std::vector<std::string> rules_behind(const EGraph& egraph, NodeId node, std::size_t most_nodes) {
  std::vector<std::string> rules;
  std::set<NodeId> seen;
  std::vector<std::pair<NodeId, bool>> stack{{node, false}};
  while (!stack.empty() && seen.size() < most_nodes) {
    const auto [n, done] = stack.back();
    stack.pop_back();
    const auto step = explain_added(egraph, n);
    if (!step) continue;
    if (done) {
      if (std::find(rules.begin(), rules.end(), step->rule) == rules.end()) rules.push_back(step->rule);
      continue;
    }
    if (!seen.insert(n).second) continue;
    stack.emplace_back(n, true);
    for (const NodeId s : step->slots)
      if (s != kNone) stack.emplace_back(s, false);
  }
  return rules;
}

namespace {

class Checker {
 public:
  explicit Checker(const EGraph& egraph) : egraph_(egraph), proof_(*egraph.impl().proof) {
    for (OpId op = 0; op < egraph.num_ops(); ++op) fresh_.add_op(egraph.op(op));
  }

  std::string run(const Explanation& explanation, Id a, Id b) {
    for (std::size_t i = 0; i < explanation.replay.size(); ++i) {
      const ExplainStep& step = explanation.replay[i];
      if (std::string wrong = apply(step); !wrong.empty()) return absl::StrCat("step ", i + 1, " (", step.rule, "): ", wrong);
      fresh_.rebuild();
      if (!equal(step.left, step.right))
        return absl::StrCat("step ", i + 1, " (", step.rule, ") does not equate e-nodes ", step.left, " and ", step.right);
    }
    if (!equal(a, b)) return "the steps do not lead from one to the other";
    Id at = a;
    for (const ExplainStep& step : explanation.chain) {
      if (at != (step.forward ? step.left : step.right)) return "the chain has a gap";
      at = step.forward ? step.right : step.left;
    }
    return at == b ? "" : "the chain ends elsewhere";
  }

 private:
  bool equal(NodeId a, NodeId b) {
    const Id x = add(a), y = add(b);
    fresh_.rebuild();  // adding may have met children that are equal by now
    return fresh_.find(x) == fresh_.find(y);
  }
  // The term of an e-node as it was made.
  Id add(NodeId node) {
    std::vector<NodeId> open{node};
    std::vector<Id> children;
    while (!open.empty()) {
      const NodeId n = open.back();
      if (made_.contains(n)) {
        open.pop_back();
        continue;
      }
      children.clear();
      bool ready = true;
      for (const NodeId child : proof_.children(n)) {
        const auto it = made_.find(child);
        if (it == made_.end()) {
          open.push_back(child);
          ready = false;
        } else {
          children.push_back(it->second);
        }
      }
      if (ready) made_[n] = fresh_.add(proof_.recs[n].op, children);
    }
    return made_.at(node);
  }
  std::string apply(const ExplainStep& step) {
    switch (step.kind) {
      case ExplainStep::Kind::kCongruence:
        return {};  // the closure has to find it
      case ExplainStep::Kind::kGiven:
      case ExplainStep::Kind::kAnalysis:
        fresh_.merge(add(step.left), add(step.right));
        return {};
      case ExplainStep::Kind::kNative:
      case ExplainStep::Kind::kRule:
        return apply_rule(step);
    }
    return "unknown kind of step";
  }
  std::string apply_rule(const ExplainStep& step) {
    if (step.rule_index >= proof_.rules.size()) return "unknown rule";
    const Proof::Rule& rule = proof_.rules[step.rule_index];
    if (step.slots.size() != rule.left.nodes.size() || rule.right.has_value() != (step.kind == ExplainStep::Kind::kRule))
      return "not an instance of its rule";
    std::vector<Id> left, right, children;
    for (std::size_t i = 0; i < rule.left.nodes.size(); ++i) {
      const PatternNode& node = rule.left.nodes[i];
      if (node.type == PatternNode::Type::kVariable) {
        left.push_back(step.slots[i] == kNone ? kNone : add(step.slots[i]));  // a variable that no operator has is not bound
        continue;
      }
      const OpId op = proof_.recs[step.slots[i]].op;
      if (egraph_.op(op).kind != node.kind || (node.op != kNone && node.op != op)) return "the operator is not that of the pattern";
      children.clear();
      for (const std::uint32_t child : node.children) children.push_back(left[child]);
      left.push_back(fresh_.add(op, children));
      if (!rule.right && fresh_.find(left.back()) != fresh_.find(add(step.slots[i]))) return "the match is not known by then";
    }
    if (!rule.right) {
      fresh_.merge(add(step.left), add(step.right));
      return {};
    }
    for (const Template::Node& node : rule.right->nodes) {
      children.clear();
      for (const std::uint32_t child : node.children) children.push_back(right[child]);
      right.push_back(node.op == kNone ? left[node.slot] : fresh_.add(node.op, children));
    }
    fresh_.merge(left.back(), right.back());
    return {};
  }

  const EGraph& egraph_;
  const Proof& proof_;
  EGraph fresh_;
  std::unordered_map<NodeId, Id> made_;
};

}  // namespace

std::string check_explanation(const EGraph& egraph, const Explanation& explanation, Id a, Id b) {
  if (!egraph.impl().proof) return "no reasons are kept";
  return Checker(egraph).run(explanation, a, b);
}

std::string to_string(const EGraph& egraph, const ExplainStep& step, const std::function<std::string(OpId)>& op_name) {
  const auto text = [&](NodeId n) { return term_text(egraph, n, op_name, 40); };
  const std::string from = text(step.forward ? step.left : step.right), to = text(step.forward ? step.right : step.left);
  std::string by;
  switch (step.kind) {
    case ExplainStep::Kind::kRule:
    case ExplainStep::Kind::kNative:
      by = step.rule;
      break;
    case ExplainStep::Kind::kCongruence:
      by = "equal children";
      break;
    case ExplainStep::Kind::kGiven:
      by = "given";
      break;
    case ExplainStep::Kind::kAnalysis:
      by = "known fact";
      break;
  }
  return absl::StrCat(from, "  =", step.forward ? ">" : "<", "=  ", to, "   by ", by);
}

std::string to_string(const EGraph& egraph, const Explanation& explanation, const std::function<std::string(OpId)>& op_name) {
  std::string out;
  for (const ExplainStep& step : explanation.chain) absl::StrAppend(&out, to_string(egraph, step, op_name), "\n");
  if (!explanation.support.empty()) absl::StrAppend(&out, "where\n");
  for (const ExplainStep& step : explanation.support) absl::StrAppend(&out, "  ", to_string(egraph, step, op_name), "\n");
  return out;
}

}  // namespace saturate
