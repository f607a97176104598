#include "tools/prove/open_regions.h"

#include <algorithm>
#include <map>
#include <optional>

#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

constexpr std::size_t kMostRegions = 32;

}  // namespace

OpenRegions::OpenRegions(OnnxEGraph& g, const Lowered (&sides)[2]) : g_(g), sides_(sides) { read_values(); }

void OpenRegions::read_values() {
  for (int side : {0, 1}) {
    values_[side].clear();
    for (const auto& [name, id] : sides_[side].values) values_[side].insert(g_.egraph().find(id));
  }
}

bool OpenRegions::is_shared(Id id) const {
  const Id c = g_.egraph().find(id);
  return (values_[0].contains(c) && values_[1].contains(c)) || g_.facts(c).kind == Facts::Kind::kAbsent;
}

bool OpenRegions::is_open(const Source& source) const {
  return std::ranges::any_of(source.outputs, [&](Id id) { return id != kNone && !is_shared(id); });
}

std::size_t OpenRegions::proven_nodes(int side) const {
  return static_cast<std::size_t>(std::ranges::count_if(sides_[side].sources, [&](const Source& s) { return !is_open(s); }));
}

std::vector<std::size_t> OpenRegions::open_behind(int side, Id output) const {
  std::set<Id> wanted{g_.egraph().find(output)};
  std::vector<std::size_t> out;
  const auto& sources = sides_[side].sources;
  for (std::size_t i = sources.size(); i-- > 0;) {
    const Source& s = sources[i];
    const bool needed =
        std::ranges::any_of(s.outputs, [&](Id id) { return id != kNone && !is_shared(id) && wanted.contains(g_.egraph().find(id)); });
    if (!needed) continue;
    out.push_back(i);
    for (const Id id : s.inputs) wanted.insert(g_.egraph().find(id));
  }
  std::ranges::reverse(out);
  return out;
}

std::vector<OpenRegions::Site> OpenRegions::sites(int side, const std::vector<std::size_t>& open) const {
  std::vector<Site> out;
  for (const std::size_t i : open) {
    const Source& s = sides_[side].sources[i];
    for (std::size_t o = 0; o < s.outputs.size(); ++o)
      if (s.outputs[o] != kNone && !is_shared(s.outputs[o])) out.push_back({i, g_.egraph().find(s.outputs[o]), s.node->outputs[o]});
  }
  return out;
}

bool OpenRegions::alike(Id a, Id b) const {
  const Facts &x = g_.facts(a), &y = g_.facts(b);
  return x.kind == y.kind && x.dtype == y.dtype && x.shape.has_value() == y.shape.has_value() && (!x.shape || *x.shape == *y.shape);
}

// The first values that may be meant to be one: of one operator over values that are equal, or of one name. The later of such pairs follow
// from the first, or not.
std::optional<std::pair<OpenRegions::Site, OpenRegions::Site>> OpenRegions::next_pair(const std::vector<std::size_t> (&open)[2]) const {
  const std::vector<Site> first = sites(0, open[0]), second = sites(1, open[1]);
  std::map<std::string, const Site*> by_name;
  for (const Site& a : first) by_name.emplace(a.name, &a);
  const auto over_shared = [&](int side, const Site& site) {
    return std::ranges::all_of(sides_[side].sources[site.source].inputs, [&](Id id) { return is_shared(id); });
  };
  for (const Site& b : second) {
    if (const auto it = by_name.find(b.name); it != by_name.end() && alike(it->second->value, b.value)) return std::pair(*it->second, b);
    if (!over_shared(1, b)) continue;
    const Source& y = sides_[1].sources[b.source];
    for (const Site& a : first) {
      const Source& x = sides_[0].sources[a.source];
      if (x.node->op_type != y.node->op_type || x.node->domain != y.node->domain || !over_shared(0, a) || !alike(a.value, b.value))
        continue;
      const bool share = std::ranges::any_of(
          x.inputs, [&](Id i) { return std::ranges::any_of(y.inputs, [&](Id j) { return g_.egraph().find(i) == g_.egraph().find(j); }); });
      if (share) return std::pair(a, b);
    }
  }
  return std::nullopt;
}

OpenRegion OpenRegions::region(const Site& first, const Site& second) const {
  OpenRegion out;
  const Site* sites[2] = {&first, &second};
  for (int side : {0, 1}) {
    out.outputs[side] = sites[side]->name;
    for (const std::size_t i : open_behind(side, sites[side]->value)) {
      const Node& node = *sides_[side].sources[i].node;
      out.operators[side].push_back(qualified_name(node.domain, node.op_type));
      out.nodes[side].push_back(node.name.empty() ? sides_[side].sources[i].node->outputs[0] : node.name);
    }
  }
  return out;
}

std::vector<OpenRegion> OpenRegions::between(const std::vector<std::pair<std::string, std::string>>& outputs) {
  std::vector<OpenRegion> out;
  for (const auto& [name, partner] : outputs) {
    const Id roots[2] = {sides_[0].values.at(name), sides_[1].values.at(partner)};
    while (g_.egraph().find(roots[0]) != g_.egraph().find(roots[1]) && out.size() < kMostRegions) {
      const std::vector<std::size_t> open[2] = {open_behind(0, roots[0]), open_behind(1, roots[1])};
      const auto pair =
          next_pair(open).value_or(std::pair(Site{0, g_.egraph().find(roots[0]), name}, Site{0, g_.egraph().find(roots[1]), partner}));
      out.push_back(region(pair.first, pair.second));
      if (!alike(pair.first.value, pair.second.value)) break;
      g_.egraph().merge(pair.first.value, pair.second.value);
      g_.egraph().rebuild();
      if (g_.egraph().contradiction()) break;
      read_values();
    }
  }
  return out;
}

}  // namespace saturate
