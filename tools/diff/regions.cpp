#include "tools/diff/regions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/convert/node_text.h"

namespace saturate {
namespace {

using Root = std::uint32_t;
using Roots = std::vector<Root>;  // ascending, each once

bool is_constant_node(const Node& node) { return node.domain.empty() && node.op_type == "Constant"; }

class Splitter {
 public:
  Splitter(const LoweredGraph& first, const LoweredGraph& second, const Matching& matching) : side_{&first, &second}, matching_(matching) {
    for (int graph : {0, 1}) in_region_[graph].assign(nodes(graph).size(), true);
  }

  NodeRegions run() {
    pair_constants();
    pair_nodes();
    name_outputs();
    for (int graph : {0, 1}) find_roots(graph);
    join_roots();
    collect();
    return std::move(out_);
  }

 private:
  const std::vector<Node>& nodes(int graph) const { return side_[graph]->model->graph.nodes; }
  const Source& source(int graph, std::size_t i) const { return side_[graph]->lowered.sources[i]; }

  // A Constant node is equal where the other model has its value, as whatever constant.
  void pair_constants() {
    for (int graph : {0, 1})
      for (std::size_t i = 0; i < nodes(graph).size(); ++i) {
        const auto c = is_constant_node(nodes(graph)[i]) ? matching_.of(graph, nodes(graph)[i].outputs[0]) : std::nullopt;
        if (!c || !matching_.common(*c)) continue;
        in_region_[graph][i] = false;
        ++out_.constants[graph];
      }
  }

  // Operator and the classes of what it reads.
  std::string signature(int graph, std::size_t i) const {
    const Node& node = nodes(graph)[i];
    const Source& s = source(graph, i);
    const bool lowered = s.op != kNone;
    std::vector<std::uint32_t> read;
    for (const Id id : lowered ? s.children : s.inputs) read.push_back(matching_.of(graph, id));
    if (lowered && side_[graph]->g->egraph().op(s.op).commutative) std::sort(read.begin(), read.end());
    std::string text = lowered ? matching_.text(graph, s.op) : node.domain + "." + node.op_type + attributes_text(node.attributes);
    return fmt::format("{}({})", text, fmt::join(read, ","));
  }

  void pair_nodes() {
    std::map<std::string, std::vector<std::size_t>> waiting;
    for (std::size_t i = 0; i < nodes(0).size(); ++i)
      if (in_region_[0][i]) waiting[signature(0, i)].push_back(i);
    for (const bool by_name : {true, false})  // of several that are equal, first those of one name
      for (std::size_t j = 0; j < nodes(1).size(); ++j) {
        if (!in_region_[1][j]) continue;
        const auto it = waiting.find(signature(1, j));
        if (it == waiting.end() || it->second.empty()) continue;
        auto i = it->second.begin();
        if (by_name) i = std::find_if(i, it->second.end(), [&](std::size_t n) { return nodes(0)[n].outputs == nodes(1)[j].outputs; });
        if (i == it->second.end()) continue;
        out_.equal.emplace_back(*i, j);
        in_region_[0][*i] = in_region_[1][j] = false;
        it->second.erase(i);
      }
  }

  // Outputs of the graphs that are not known to be equal are roots, too, those of one name or place as one.
  void name_outputs() {
    const auto &first = side_[0]->model->graph.outputs, &second = side_[1]->model->graph.outputs;
    for (const ValueInfo& o : first) open_outputs_[0].emplace(o.name, root_of("output " + o.name));
    for (std::size_t i = 0; i < second.size(); ++i) {
      const bool named = open_outputs_[0].contains(second[i].name) || first.size() != second.size();
      open_outputs_[1].emplace(second[i].name, root_of("output " + (named ? second[i].name : first[i].name)));
    }
  }

  Root root_of(const std::string& text) { return root_numbers_.try_emplace(text, static_cast<Root>(root_numbers_.size())).first->second; }
  Root root_of(Matching::Class c) { return root_of(fmt::format("{}", c)); }

  void find_roots(int graph) {
    roots_[graph].resize(nodes(graph).size());
    std::unordered_map<std::string, Roots> needed;  // by value that the other graph has not
    for (std::size_t i = nodes(graph).size(); i-- > 0;) {
      if (!in_region_[graph][i]) continue;
      const Node& node = nodes(graph)[i];
      Roots& roots = roots_[graph][i];
      Roots own;
      for (const std::string& output : node.outputs) {
        if (output.empty()) continue;
        const auto c = matching_.of(graph, output);
        if (c && matching_.common(*c)) {
          if (is_read(graph, output)) take_root(own, root_of(*c), graph, output);
          continue;
        }
        if (const auto open = open_outputs_[graph].find(output); open != open_outputs_[graph].end()) {
          take_root(own, open->second, graph, output);
          unproven_[graph].insert(open->second);
        }
        const Roots& more = needed[output];
        roots.insert(roots.end(), more.begin(), more.end());
      }
      for (std::size_t k = 1; k < own.size(); ++k) same_.emplace_back(own[0], own[k]);
      roots.insert(roots.end(), own.begin(), own.end());
      std::sort(roots.begin(), roots.end());
      roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
      if (is_constant_node(node) && roots.size() > 1) roots.resize(1);
      const auto read = [&](const std::string& value) {
        const auto c = matching_.of(graph, value);
        if (value.empty() || (c && matching_.common(*c))) return;
        Roots& of = needed[value];
        of.insert(of.end(), roots.begin(), roots.end());
      };
      std::for_each(node.inputs.begin(), node.inputs.end(), read);
      const std::vector<std::string>& captures = source(graph, i).captures;
      std::for_each(captures.begin(), captures.end(), read);
    }
  }

  void take_root(Roots& own, Root root, int graph, const std::string& name) {
    own.push_back(root);
    names_[root].emplace(graph, name);
  }

  // An output that nothing reads is none: an optional one that a node names beside the wanted.
  bool is_read(int graph, const std::string& value) {
    std::set<std::string>& read = read_[graph];
    if (read.empty()) {
      for (const Node& node : nodes(graph)) read.insert(node.inputs.begin(), node.inputs.end());
      for (std::size_t i = 0; i < nodes(graph).size(); ++i) read.insert(source(graph, i).captures.begin(), source(graph, i).captures.end());
      for (const ValueInfo& o : side_[graph]->model->graph.outputs) read.insert(o.name);
    }
    return read.contains(value);
  }

  Root find(Root r) const {
    while (parent_[r] != r) r = parent_[r];
    return r;
  }

  // Values that one node makes together are made by one region.
  void join_roots() {
    parent_.resize(root_numbers_.size());
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const auto& [a, b] : same_) parent_[std::max(find(a), find(b))] = std::min(find(a), find(b));
    for (int graph : {0, 1})
      for (Roots& roots : roots_[graph]) {
        for (Root& r : roots) r = find(r);
        std::sort(roots.begin(), roots.end());
        roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
      }
  }

  void collect() {
    std::map<Roots, std::size_t> place;
    for (int graph : {0, 1})
      for (std::size_t i = 0; i < nodes(graph).size(); ++i) {
        if (!in_region_[graph][i]) continue;
        const auto [it, added] = place.try_emplace(roots_[graph][i], out_.regions.size());
        if (added) out_.regions.emplace_back();
        out_.regions[it->second].nodes[graph].push_back(i);
      }
    for (const auto& [roots, number] : place) {
      NodeRegions::Region& region = out_.regions[number];
      region.shared = roots.size() > 1;
      if (roots.size() == 1) name_region(roots[0], region);
      region.shape = shape_of(region);
    }
  }

  void name_region(Root group, NodeRegions::Region& region) const {
    std::map<Root, std::string> names;
    for (const auto& [root, made] : names_) {
      if (find(root) != group) continue;
      region.unproven = region.unproven || (unproven_[0].contains(root) && unproven_[1].contains(root));
      for (const auto& [graph, name] : made)
        if (!name.empty() && (graph == 0 || !names.contains(root))) names.try_emplace(root, name);
    }
    for (const auto& [root, name] : names) region.outputs.push_back(name);
  }

  // Alike for regions that do the same with different values and weights.
  std::string shape_of(const NodeRegions::Region& region) const {
    std::string out = region.shared ? "shared " : region.unproven ? "unproven " : "";
    for (int graph : {0, 1}) {
      std::unordered_map<std::string, std::string> inner;
      std::vector<std::string> texts;
      for (const std::size_t i : region.nodes[graph]) {
        const Node& node = nodes(graph)[i];
        std::string text = node.domain + "." + node.op_type + attributes_text(node.attributes) + "(";
        for (const std::string& input : node.inputs) {
          const auto it = inner.find(input);
          text += it != inner.end() ? it->second : input.empty() ? "-" : "x";
          text += ",";
        }
        const std::string digest = fmt::format("{:016x}", std::hash<std::string>()(text));
        for (std::size_t o = 0; o < node.outputs.size(); ++o) inner[node.outputs[o]] = fmt::format("{}.{}", digest, o);
        texts.push_back(digest);
      }
      std::sort(texts.begin(), texts.end());
      out += fmt::format("{}/", fmt::join(texts, ""));
    }
    return out;
  }

  const LoweredGraph* side_[2];
  const Matching& matching_;
  std::vector<bool> in_region_[2];
  std::vector<Roots> roots_[2];  // by node: the values that both graphs have and that it is on the way to
  std::map<std::string, Root> open_outputs_[2];
  std::map<std::string, Root> root_numbers_;
  std::map<Root, std::set<std::pair<int, std::string>>> names_;
  std::set<Root> unproven_[2];
  std::vector<std::pair<Root, Root>> same_;
  std::vector<Root> parent_;
  std::set<std::string> read_[2];
  NodeRegions out_;
};

}  // namespace

NodeRegions node_regions(const LoweredGraph& first, const LoweredGraph& second, const Matching& matching) {
  return Splitter(first, second, matching).run();
}

}  // namespace saturate
