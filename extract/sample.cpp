#include "extract/sample.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "extract/solve/extractors.h"
#include "extract/solve/greedy.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr std::size_t kTriesEach = 20;
constexpr double kSpread[] = {0.5, 2, 6};  // of the logarithm of the factors on costs
constexpr int kMostChanges = 8;

// What is refused is there for want of anything else: it stays out of samples.
bool takes_part(const Price& p) { return p.refused == 0; }

double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// Costs multiplied by random factors; what costs nothing gets a little, so that it takes part.
std::vector<Price> perturbed(const ExtractionProblem& p, double spread, std::mt19937_64& random) {
  std::vector<Price> out = p.cost;
  double total = 0;
  std::size_t counted = 0;
  for (const Price& c : p.cost)
    if (c.cost > 0 && takes_part(c)) total += c.cost, ++counted;
  const double little = counted ? 1e-3 * total / static_cast<double>(counted) : 1;
  for (Price& c : out)
    if (takes_part(c)) c.cost = (c.cost + little) * std::exp(spread * (2 * uniform(random) - 1));
  return out;
}

// `from` with a few classes that have alternatives given another node; the nodes that the new ones need are taken as the cheapest trees
// need them.
NodeChoice changed(const ExtractionProblem& p, const NodeChoice& from, const NodeChoice& cheapest, std::mt19937_64& random) {
  NodeChoice out = from;
  std::vector<std::uint32_t> open;
  for (std::uint32_t c = 0; c < p.num_classes(); ++c)
    if (from[c] != kUnchosen && p.node_begin[c + 1] - p.node_begin[c] > 1) open.push_back(c);
  if (open.empty()) return out;
  for (int k = 1 + static_cast<int>(random() % kMostChanges); k > 0; --k) {
    const std::uint32_t c = open[random() % open.size()];
    const std::uint32_t n = p.node_begin[c] + static_cast<std::uint32_t>(random() % (p.node_begin[c + 1] - p.node_begin[c]));
    if (!takes_part(p.cost[n])) continue;
    NodeChoice next = out;
    next[c] = n;
    std::vector<std::uint32_t> needed(p.children_of(n).begin(), p.children_of(n).end());
    while (!needed.empty()) {
      const std::uint32_t k2 = needed.back();
      needed.pop_back();
      if (next[k2] != kUnchosen || cheapest[k2] == kUnchosen) continue;
      next[k2] = cheapest[k2];
      needed.insert(needed.end(), p.children_of(next[k2]).begin(), p.children_of(next[k2]).end());
    }
    if (evaluate_choice(p, next).wrong.empty()) out = std::move(next);
  }
  return out;
}

}  // namespace

std::vector<NodeChoice> sample_choices(const ExtractionProblem& p, const NodeChoice& from, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const ParentIndex parents(p);
  const NodeChoice cheapest = bottom_up(p, parents);
  std::set<NodeChoice> seen{needed_only(p, from)};
  const double most_refused = evaluate_choice(p, from).dag.refused;
  std::vector<NodeChoice> out;
  for (std::size_t i = 0; i < count * kTriesEach && out.size() < count; ++i) {
    NodeChoice c = i % 2 == 0 ? changed(p, needed_only(p, from), cheapest, random)
                              : bottom_up(p, parents, perturbed(p, kSpread[(i / 2) % std::size(kSpread)], random));
    const ChoiceValue value = evaluate_choice(p, c);
    if (!value.wrong.empty() || value.dag.refused > most_refused) continue;
    c = needed_only(p, c);
    if (seen.insert(c).second) out.push_back(std::move(c));
  }
  return out;
}

std::vector<Selection> sample_selections(const OnnxEGraph& g, const Lowered& lowered, const OnnxProblem& p, const Selection& chosen,
                                         std::size_t count, std::uint64_t seed) {
  const auto start = find_extractor("search")->run(p.plain, {});
  if (!start.ok()) return {};
  const auto nodes_of = [](const Selection& s) {
    std::vector<NodeId> out;
    for (const Choice& c : s.by_class) out.push_back(c.folded ? kNone - 1 : c.node);
    return out;
  };
  std::set<std::vector<NodeId>> seen{nodes_of(chosen)};
  std::vector<Selection> out;
  for (const NodeChoice& choice : sample_choices(p.plain, start->choice, count + 1, seed)) {
    Selection s = to_selection(p, choice);
    if (out.size() < count && check_selection(g.egraph(), lowered.roots, s).empty() && seen.insert(nodes_of(s)).second)
      out.push_back(std::move(s));
  }
  return out;
}

std::string problem_json(const OnnxEGraph& g, const OnnxProblem& p) {
  using nlohmann::ordered_json;
  // A child is named by any node of its class; classes that no node is left of stay out, and with them the nodes that need them.
  const ExtractionProblem& plain = p.plain;
  const NodeChoice some = bottom_up(plain, ParentIndex(plain));
  ordered_json nodes = ordered_json::object();
  const auto name = [](std::uint32_t n) { return fmt::format("n{}", n); };
  for (std::uint32_t c = 0; c < plain.num_classes(); ++c)
    for (std::uint32_t n = plain.node_begin[c]; n < plain.node_begin[c + 1]; ++n) {
      ordered_json children = ordered_json::array();
      bool complete = true;
      for (const std::uint32_t k : plain.children_of(n)) {
        complete = complete && some[k] != kUnchosen;
        if (complete) children.push_back(name(some[k]));
      }
      if (!complete) continue;
      std::string op = "folded";
      if (p.node_id[n] != kNone) {
        const OpKey& key = g.key(g.egraph().node(p.node_id[n]).op);
        op = key.domain.empty() || key.domain == "#" ? key.op_type : key.domain + "." + key.op_type;
      }
      nodes[name(n)] = {{"op", op},
                        {"children", std::move(children)},
                        {"eclass", fmt::format("c{}", c)},
                        {"cost", plain.cost[n].cost},
                        {"subsumed", false}};
      if (plain.cost[n].refused > 0) nodes[name(n)]["refused"] = plain.cost[n].refused;
    }
  ordered_json roots = ordered_json::array();
  std::set<std::uint32_t> listed;
  for (const std::uint32_t r : plain.roots)
    if (listed.insert(r).second) roots.push_back(fmt::format("c{}", r));
  return ordered_json{{"nodes", std::move(nodes)}, {"root_eclasses", std::move(roots)}, {"class_data", ordered_json::object()}}.dump(
      -1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace saturate
