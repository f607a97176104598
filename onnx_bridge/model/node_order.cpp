#include "onnx_bridge/model/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

class Sorter {
 public:
  explicit Sorter(std::vector<Node>& nodes) : nodes_(nodes) {}

  std::vector<std::size_t> run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const std::string& name : nodes_[i].outputs)
        if (!name.empty()) makers_.emplace(name, i);
    edges();
    return in_order_ ? std::vector<std::size_t>() : sort();
  }

 private:
  void edges() {
    users_.resize(nodes_.size());
    waits_.assign(nodes_.size(), 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const std::string& name : names_read(nodes_[i])) {
        const auto it = makers_.find(name);
        if (it == makers_.end()) continue;
        users_[it->second].push_back(i);
        ++waits_[i];
        if (it->second >= i) in_order_ = false;
      }
  }

  std::vector<std::size_t> sort() {
    std::vector<int> waits = waits_;
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (waits[i] == 0) ready.push(i);
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      const std::size_t i = ready.top();
      ready.pop();
      order.push_back(i);
      for (std::size_t user : users_[i])
        if (--waits[user] == 0) ready.push(user);
    }
    if (order.size() < nodes_.size()) return cycle(waits);
    std::vector<Node> sorted;
    sorted.reserve(nodes_.size());
    for (std::size_t i : order) sorted.push_back(std::move(nodes_[i]));
    nodes_ = std::move(sorted);
    return {};
  }

  // Among waiting nodes every one waits for another: walking backwards must meet a node twice.
  std::vector<std::size_t> cycle(const std::vector<int>& waits) const {
    std::vector<std::size_t> path;
    std::size_t at = 0;
    while (waits[at] == 0) ++at;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      for (const std::string& name : names_read(nodes_[at])) {
        const auto it = makers_.find(name);
        if (it == makers_.end() || waits[it->second] == 0) continue;
        at = it->second;
        break;
      }
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    return path;
  }

  std::vector<Node>& nodes_;
  absl::flat_hash_map<std::string_view, std::size_t> makers_;
  std::vector<std::vector<std::size_t>> users_;
  std::vector<int> waits_;
  bool in_order_ = true;
};

}  // namespace

std::vector<std::string> names_read(const Node& node) {
  std::vector<std::string> names;
  for (const std::string& name : node.inputs)
    if (!name.empty()) names.push_back(name);
  for_each_body(node, [&](const Graph& g) {
    for (std::string& name : captured_names(g)) names.push_back(std::move(name));
  });
  return names;
}

std::vector<std::size_t> sort_nodes(std::vector<Node>& nodes) { return Sorter(nodes).run(); }

}  // namespace saturate
