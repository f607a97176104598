#include "tools/transform/split.h"

#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/model/node_order.h"

namespace saturate {
namespace {

class Splitter {
 public:
  explicit Splitter(const Graph& graph) : graph_(graph), view_(graph) {}

  absl::Status run(const std::vector<std::string>& values) {
    part_.assign(graph_.nodes.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Node* producer = view_.producer(values[i]);
      if (!producer) return absl::InvalidArgumentError(fmt::format("--split-at {}: no node of the main graph makes this value", values[i]));
      if (part_of(*producer) < i)
        return absl::InvalidArgumentError(
            fmt::format("--split-at {}: it is made on the way to {}; name values in their order", values[i], values[part_of(*producer)]));
      take(*producer, i);
    }
    const auto is_last = [&](const ValueInfo& output) {
      const Node* producer = view_.producer(output.name);
      return producer && part_of(*producer) == values.size();
    };
    if (std::none_of(graph_.outputs.begin(), graph_.outputs.end(), is_last))
      return absl::InvalidArgumentError(fmt::format("--split-at {}: no output is made behind it", values.back()));
    ends_.insert(values.begin(), values.end());
    for (const Node& node : graph_.nodes)
      for (const std::string& name : names_read(node))
        if (const Node* producer = view_.producer(name); producer && part_of(*producer) < part_of(node))
          crosses_[name].push_back(part_of(node));
    return absl::OkStatus();
  }

  nlohmann::json cut(std::size_t part) const {
    nlohmann::json inputs = nlohmann::json::array(), outputs = nlohmann::json::array();
    for (const Node& node : graph_.nodes)
      for (const std::string& value : node.outputs) {
        const auto read_by = crosses_.find(value);
        const bool crosses = read_by != crosses_.end();
        if (value.empty()) continue;
        if (part_of(node) == part && (crosses || ends_.contains(value) || find_named(graph_.outputs, value))) outputs.push_back(value);
        if (crosses && std::find(read_by->second.begin(), read_by->second.end(), part) != read_by->second.end()) inputs.push_back(value);
      }
    return {{"inputs", inputs}, {"outputs", outputs}};
  }

 private:
  // What is needed for the node and no part has yet.
  void take(const Node& node, std::size_t part) {
    std::vector<const Node*> open{&node};
    while (!open.empty()) {
      const Node* next = open.back();
      open.pop_back();
      if (part_of(*next) <= part) continue;
      part_[view_.place_of(*next)] = part;
      for (const std::string& name : names_read(*next))
        if (const Node* producer = view_.producer(name)) open.push_back(producer);
    }
  }

  std::size_t part_of(const Node& node) const { return part_[view_.place_of(node)]; }

  const Graph& graph_;
  GraphView view_;
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
