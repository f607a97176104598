#include "egraph/invariants.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "egraph/egraph_impl.h"

namespace saturate {
namespace {

std::string check_node(const EGraph::Impl& g, NodeId n) {
  const PackedENode& rec = g.recs[n];
  const auto children = g.children(rec);
  for (const Id child : children) {
    if (child >= g.parent.size() || g.find(child) != child)
      return absl::StrCat("e-node ", n, " has the child ", child, ", which is not canonical");
    if ((g.flags[child] & EGraph::Impl::kKilled) != 0) return absl::StrCat("e-node ", n, " has the dead child ", child);
    const std::vector<NodeId> users = g.owner->class_users(child);
    if (!std::binary_search(users.begin(), users.end(), n)) return absl::StrCat("e-node ", n, " is missing among the parents of ", child);
  }
  if (children.size() == 2 && g.ops[rec.op].commutative && children[0] > children[1])
    return absl::StrCat("commutative e-node ", n, " is not sorted");
  if (g.probe(rec, g.hash(rec)) != n) return absl::StrCat("e-node ", n, " is not what its key finds");
  return {};
}

}  // namespace

std::string check_invariants(const EGraph& egraph) {
  const EGraph::Impl& g = egraph.impl();
  if (!g.clean()) return "the e-graph is not clean";
  std::size_t live = 0, classes = 0;
  std::map<Id, std::size_t> sizes;
  for (std::size_t i = 0; i < g.recs.size(); ++i) {
    const auto n = static_cast<NodeId>(i);
    if (g.parent[n] == n && (g.flags[n] & EGraph::Impl::kKilled) == 0) ++classes;
    if ((g.flags[n] & EGraph::Impl::kDead) != 0) continue;
    ++live;
    ++sizes[g.find(n)];
    if (std::string wrong = check_node(g, n); !wrong.empty()) return wrong;
  }
  if (live != egraph.num_nodes()) return absl::StrCat(egraph.num_nodes(), " e-nodes counted, ", live, " live");
  if (g.table.size() != live) return absl::StrCat("hash table holds ", g.table.size(), " keys for ", live, " live e-nodes");
  if (classes != egraph.num_classes()) return absl::StrCat(egraph.num_classes(), " classes counted, ", classes, " canonical");
  if (sizes.size() != classes) return absl::StrCat(classes, " classes, ", sizes.size(), " with live e-nodes");
  return {};
}

}  // namespace saturate
