#include "tools/transform/split.h"

#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"

namespace saturate {
namespace {

class Splitter {
 public:
  explicit Splitter(const Graph& graph) : graph_(graph) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      for (const std::string& made : graph.nodes[n].outputs)
        if (!made.empty()) makers_[made] = n;
  }

  absl::Status run(const std::vector<std::string>& values) {
    part_.assign(graph_.nodes.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto maker = makers_.find(values[i]);
      if (maker == makers_.end())
        return absl::InvalidArgumentError(fmt::format("--split-at {}: no node of the main graph makes this value", values[i]));
      if (part_[maker->second] < i)
        return absl::InvalidArgumentError(
            fmt::format("--split-at {}: it is made on the way to {}; name values in their order", values[i], values[part_[maker->second]]));
      take(maker->second, i);
    }
    const auto is_last = [&](const ValueInfo& output) {
      const auto it = makers_.find(output.name);
      return it != makers_.end() && part_[it->second] == values.size();
    };
    if (std::none_of(graph_.outputs.begin(), graph_.outputs.end(), is_last))
      return absl::InvalidArgumentError(fmt::format("--split-at {}: no output is made behind it", values.back()));
    ends_.insert(values.begin(), values.end());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      for (const std::string& name : needs(graph_.nodes[n]))
        if (const auto it = makers_.find(name); it != makers_.end() && part_[it->second] < part_[n]) crosses_[name].push_back(part_[n]);
    return absl::OkStatus();
  }

  nlohmann::json cut(std::size_t part) const {
    nlohmann::json inputs = nlohmann::json::array(), outputs = nlohmann::json::array();
    for (const Node& node : graph_.nodes)
      for (const std::string& value : node.outputs) {
        const auto read_by = crosses_.find(value);
        const bool crosses = read_by != crosses_.end();
        if (value.empty()) continue;
        const std::size_t made_in = part_[makers_.at(value)];
        if (made_in == part && (crosses || ends_.contains(value) || find_named(graph_.outputs, value))) outputs.push_back(value);
        if (crosses && std::find(read_by->second.begin(), read_by->second.end(), part) != read_by->second.end()) inputs.push_back(value);
      }
    return {{"inputs", inputs}, {"outputs", outputs}};
  }

 private:
  // What is needed for the node and no part has yet.
  void take(std::size_t node, std::size_t part) {
    std::vector<std::size_t> open{node};
    while (!open.empty()) {
      const std::size_t n = open.back();
      open.pop_back();
      if (part_[n] <= part) continue;
      part_[n] = part;
      for (const std::string& name : needs(graph_.nodes[n]))
        if (const auto it = makers_.find(name); it != makers_.end()) open.push_back(it->second);
    }
  }

  static std::vector<std::string> needs(const Node& node) {
    Graph holder;
    holder.nodes = {node};
    return captured_names(holder);
  }

  const Graph& graph_;
  std::map<std::string, std::size_t> makers_;                // nodes by what they make
  std::vector<std::size_t> part_;                            // of each node
  std::map<std::string, std::vector<std::size_t>> crosses_;  // values that later parts read, and which parts do
  std::set<std::string> ends_;                               // the values that it is split at
};

}  // namespace

absl::StatusOr<std::vector<PassCall>> split_at(const Model& model, const std::vector<std::string>& values) {
  Splitter splitter(model.graph);
  if (absl::Status s = splitter.run(values); !s.ok()) return s;
  const Pass* cut = find_pass("cut");
  std::vector<PassCall> calls;
  for (std::size_t part = 0; part <= values.size(); ++part) {
    absl::StatusOr<Arguments> args = Arguments::from_json(cut->name, cut->fields, splitter.cut(part));
    if (!args.ok()) return args.status();
    calls.push_back({cut, *std::move(args)});
  }
  return calls;
}

}  // namespace saturate
