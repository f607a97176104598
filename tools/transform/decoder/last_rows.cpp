#include "tools/transform/decoder/last_rows.h"

#include <algorithm>
#include <limits>
#include <set>

#include "fmt/format.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/model/node_order.h"
#include "tools/transform/cache/cache_sizes.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

class LastRowsCutter {
 public:
  LastRowsCutter(Model& model, const std::map<std::string, ValueType>& types, const LastRows& rows, FreshNames& fresh)
      : model_(model), types_(types), rows_(rows), fresh_(fresh), writer_(made_, fresh) {}

  absl::StatusOr<RowsCut> run() && {
    for (const ValueInfo& output : model_.graph.outputs)
      if (output.name != rows_.value) needs_[output.name] = {};
    need(rows_.value, rows_.axis);
    plans_.resize(model_.graph.nodes.size());
    for (std::size_t i = model_.graph.nodes.size(); i-- > 0;) look_at(i);
    if (!moved_.contains(rows_.value)) return mixes();
    rewrite();
    return std::move(done_);
  }

 private:
  // Of a value: entries along an axis, or (without one) all of it.
  using Need = std::optional<int>;

  void need(const std::string& value, Need axis) {
    if (value.empty()) return;
    const auto [it, is_first] = needs_.emplace(value, axis);
    if (!is_first && it->second != axis) it->second = std::nullopt;
  }

  // The axis that all who read the node's results need entries of; nullopt: somebody needs all of a result, or nobody needs anything.
  Need wanted(const Node& node, bool of_first_output) const {
    Need axis;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const auto it = needs_.find(node.outputs[i]);
      if (node.outputs[i].empty() || it == needs_.end() || (i > 0 && of_first_output)) continue;
      if (!it->second || (axis && axis != it->second)) return std::nullopt;
      axis = it->second;
    }
    return axis;
  }

  void look_at(std::size_t i) {
    const Node& node = model_.graph.nodes[i];
    std::optional<RowsPlan>& plan = plans_[i];
    for (const bool of_first_output : {false, true})
      if (const Need axis = wanted(node, of_first_output); axis && !plan) {
        plan = rows_behind(model_, types_, node, *axis);
        if (plan && of_first_output && !plan->of_first_output) plan.reset();
      }
    if (plan) {
      for (std::size_t o = 0; o < node.outputs.size(); ++o)
        if (o == 0 || !plan->of_first_output) moved_.insert(node.outputs[o]);
      for (std::size_t k = 0; k < node.inputs.size(); ++k) need(node.inputs[k], plan->inputs[k]);
      return;
    }
    for (const std::string& name : names_read(node)) need(name, std::nullopt);
  }

  absl::Status mixes() const {
    const Node* node = producer_of(model_.graph, rows_.value);
    if (!node) return absl::UnimplementedError(fmt::format("no node makes '{}'", rows_.value));
    return absl::UnimplementedError(
        fmt::format("node '{}' ({}), which makes '{}', is not known to treat tokens one by one, so that nothing could be left out",
                    node->name.empty() ? rows_.value : node->name, qualified_name(node->domain, node->op_type), rows_.value));
  }

  // The last entries of a value, which may be all that there are of it.
  std::string last_of(const std::string& value, int axis) {
    if (moved_.contains(value)) return value;
    std::string& made = last_[{value, axis}];
    if (!made.empty()) return made;
    done_.cut.push_back(value);
    const std::vector<std::int64_t> ends{std::numeric_limits<std::int64_t>::max()};
    return made = writer_.node("Slice", {value, writer_.ints({-rows_.count}), writer_.ints(ends), writer_.ints({axis})}, value + "_last");
  }

  void rewrite() {
    Graph& graph = model_.graph;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      Node node = graph.nodes[i];
      if (const auto& plan = plans_[i]) {
        for (std::size_t k = 0; k < node.inputs.size(); ++k)
          if (plan->inputs[k] && !node.inputs[k].empty()) node.inputs[k] = last_of(node.inputs[k], *plan->inputs[k]);
        if (plan->shape) {
          node.inputs[1] = writer_.ints(*plan->shape);
          std::erase_if(node.attributes, [](const Attribute& a) { return a.name == "allowzero"; });
        }
        node.origin = nullptr;
      }
      made_.nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(made_.nodes);
    std::move(made_.initializers.begin(), made_.initializers.end(), std::back_inserter(graph.initializers));
    std::erase_if(graph.value_info, [&](const ValueInfo& info) { return moved_.contains(info.name); });
    moved_.erase("");
    done_.moved.assign(moved_.begin(), moved_.end());
  }

  Model& model_;
  const std::map<std::string, ValueType>& types_;
  const LastRows& rows_;
  FreshNames& fresh_;
  Graph made_;
  GraphWriter writer_;
  std::map<std::string, Need> needs_;
  std::vector<std::optional<RowsPlan>> plans_;               // by node
  std::set<std::string> moved_;                              // values that are their last entries
  std::map<std::pair<std::string, int>, std::string> last_;  // of others, by value and axis
  RowsCut done_;
};

}  // namespace

absl::StatusOr<RowsCut> keep_last_rows(Model& model, const std::map<std::string, ValueType>& types, const LastRows& rows,
                                       FreshNames& fresh) {
  return LastRowsCutter(model, types, rows, fresh).run();
}

}  // namespace saturate
