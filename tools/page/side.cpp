#include "tools/page/side.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/convert/node_text.h"
#include "tools/diff/labels.h"
#include "tools/page/fold_boxes.h"

namespace saturate {
namespace {

using nlohmann::json;

constexpr std::size_t kMostPoints = 240;  // of a curve

bool is_constant_node(const Node& node) { return node.domain.empty() && node.op_type == "Constant"; }

// Three digits, which is what predictions are good for.
double few_digits(double x) {
  if (x == 0 || !std::isfinite(x)) return 0;
  const double scale = std::pow(10.0, std::floor(std::log10(std::abs(x))) - 2);
  return scale < 1 ? std::round(x / scale) / std::round(1 / scale) : std::round(x / scale) * scale;
}

// A whole number is written without ".0".
json short_number(double x) { return x == std::floor(x) && std::abs(x) < 1e15 ? json(static_cast<std::int64_t>(x)) : json(x); }

std::string type_of(const Tensor& tensor) { return fmt::format("{}[{}]", dtype_name(tensor.dtype()), fmt::join(tensor.dims(), ", ")); }

// The worst of each stretch, so that a peak is never lost.
std::vector<double> thinned(const std::vector<double>& all) {
  if (all.size() <= kMostPoints) return all;
  std::vector<double> out(kMostPoints, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    double& most = out[i * kMostPoints / all.size()];
    most = std::max(most, all[i]);
  }
  return out;
}

}  // namespace

struct PageSide::Parts {
  json op = json::array(), name = json::array(), output = json::array(), type = json::array(), cost = json::array(),
       attributes = json::array(), inputs = json::array(), region = json::array(), chain = json::array();
  json weights = json::object();  // by word: their types
  json bodies = json::object();   // by node: the folds of its bodies
  FoldBoxes boxes;
  int root = 0;
  json memory = json::array();
};

std::vector<const Graph*> compared_graphs(const Model& model, const ModelDiff& diff, int side) {
  std::vector<const Graph*> out;
  for (const DiffGraph& known : diff.graphs)
    out.push_back(out.empty() ? &model.graph
                              : &find_attribute(out[known.parent]->nodes[known.owner[side]].attributes, known.attribute)->g());
  return out;
}

PageSide::PageSide(const Model& model, const SideFacts& facts, PageWords& words)
    : facts_(facts), words_(words), parts_(std::make_shared<Parts>()) {
  find_graphs(model);
  number_nodes();
  for (std::size_t g = 0; g < graphs_.size(); ++g)
    for (std::size_t i = 0; i < graphs_[g]->nodes.size(); ++i) add_node(g, i);
  for (std::size_t g = graphs_.size(); g-- > 0;) fold_graph(g);
  add_memory();
}

// Bodies that the other model has not, or that are equal there, stand behind those that were compared: nothing is known of their nodes.
void PageSide::find_graphs(const Model& model) {
  std::set<std::tuple<std::size_t, std::size_t, std::string>> seen;
  graphs_ = compared_graphs(model, *facts_.diff, facts_.side);
  for (const DiffGraph& known : facts_.diff->graphs) {
    const std::size_t owner = known.owner[facts_.side];
    if (!places_.empty()) seen.emplace(known.parent, owner, known.attribute);
    places_.push_back({known.parent, owner, known.attribute});
  }
  for (std::size_t g = 0; g < graphs_.size(); ++g)
    for (std::size_t i = 0; i < graphs_[g]->nodes.size(); ++i)
      for (const Attribute& attribute : graphs_[g]->nodes[i].attributes) {
        if (attribute.type != AttributeType::kGraph || !attribute.ref.empty() || !seen.emplace(g, i, attribute.name).second) continue;
        graphs_.push_back(&attribute.g());
        places_.push_back({g, i, attribute.name});
      }
}

void PageSide::number_nodes() {
  int next = 0;
  for (std::size_t g = 0; g < graphs_.size(); ++g) {
    const Graph* graph = graphs_[g];
    base_.push_back(next);
    makers_.emplace_back(g > 0 ? makers_[places_[g].parent] : std::unordered_map<std::string, int>());
    for (const ValueInfo& input : graph->inputs) makers_[g].erase(input.name);
    for (const Initializer& weight : graph->initializers) {
      makers_[g].erase(weight.name);
      parts_->weights[std::to_string(words_.add(shown(weight.name)))] = words_.add(weight.sparse ? "sparse" : type_of(weight.tensor));
    }
    for (const Node& node : graph->nodes) {
      if (is_constant_node(node)) {
        const Attribute* value = find_attribute(node.attributes, "value");
        const bool tensor = value && value->type == AttributeType::kTensor && value->ref.empty();
        parts_->weights[std::to_string(words_.add(shown(first_output(node))))] = words_.add(tensor ? type_of(value->t()) : "Constant");
      }
      for (const std::string& output : node.outputs) {
        makers_[g].erase(output);
        if (!output.empty() && !is_constant_node(node)) makers_[g].emplace(output, next);
      }
      ++next;
    }
    for (const ValueInfo& output : graph->outputs)
      if (const auto it = makers_[g].find(output.name); it != makers_[g].end()) given_[it->second].push_back(output.name);
  }
}

void PageSide::add_node(std::size_t graph, std::size_t position) {
  const Node& node = graphs_[graph]->nodes[position];
  static const std::vector<DiffGraph::Known> kNothing;
  const bool known = graph < facts_.diff->graphs.size();
  const auto& nodes = known ? facts_.diff->graphs[graph].nodes[facts_.side] : kNothing;
  std::vector<int> reads;
  const auto read = [&](const std::string& value) {
    if (value.empty()) return;
    const auto it = makers_[graph].find(value);
    reads.push_back(it != makers_[graph].end() ? it->second : ~words_.add(shown(value)));
  };
  std::for_each(node.inputs.begin(), node.inputs.end(), read);
  for (const Attribute& attribute : node.attributes) {
    if (attribute.type != AttributeType::kGraph || !attribute.ref.empty()) continue;
    const std::vector<std::string> captured = captured_names(attribute.g());
    std::for_each(captured.begin(), captured.end(), read);
  }
  Parts& parts = *parts_;
  op_types_.push_back(shown(qualified_name(node.domain, node.op_type)));
  scopes_.push_back(scope_of_node(node));
  parts.op.push_back(words_.add(op_types_.back()));
  parts.name.push_back(words_.add(shown(node.name)));
  parts.output.push_back(words_.add(shown(first_output(node))));
  parts.type.push_back(words_.add(position < nodes.size() ? shown(nodes[position].type) : ""));
  parts.cost.push_back(position < nodes.size() ? short_number(few_digits(nodes[position].cost * facts_.cost_scale)) : json(0));
  parts.attributes.push_back(words_.add(is_constant_node(node) ? "" : shown(short_attributes(node))));
  parts.inputs.push_back(reads);
  const bool told = position < nodes.size();
  parts.region.push_back(told ? facts_.regions[graph][position] : -1);
  parts.chain.push_back(told ? json(facts_.chains[graph][position]) : json::array());
  reads_.push_back(std::move(reads));
}

void PageSide::fold_graph(std::size_t graph) {
  const auto is_weight = [&](int read) { return read < 0 && parts_->weights.contains(std::to_string(~read)); };
  FoldInput input;
  std::vector<int> numbers;  // of its nodes on the page
  std::unordered_map<int, int> local;
  for (std::size_t i = 0; i < graphs_[graph]->nodes.size(); ++i) {
    if (is_constant_node(graphs_[graph]->nodes[i])) continue;
    const int number = node_number(graph, i);
    local[number] = static_cast<int>(numbers.size());
    numbers.push_back(number);
    std::set<int> seen, outside;
    std::vector<int> reads;  // of this graph, in their order
    for (const int r : reads_[number]) {
      const auto it = local.find(r);
      if (it != local.end() && seen.insert(it->second).second) reads.push_back(it->second);
      if (it == local.end() && !is_weight(r)) outside.insert(r);
    }
    input.nodes.push_back({fmt::format("{} {}", op_types_[number], reads.size() + outside.size()), scopes_[number], reads});
  }
  FoldView view{numbers, reads_, op_types_, scopes_, given_, parts_->region, is_weight, words_};
  const int root = parts_->boxes.add(fold(input), view);
  if (graph == 0) {
    parts_->root = root;
    return;
  }
  const Place& place = places_[graph];
  parts_->bodies[std::to_string(node_number(place.parent, place.owner))].push_back(json::array({words_.add(shown(place.attribute)), root}));
}

void PageSide::add_memory() {
  const std::vector<Node>& nodes = graphs_[0]->nodes;
  const auto& known = facts_.diff->graphs[0].nodes[facts_.side];
  if (known.size() != nodes.size()) return;
  std::vector<std::size_t> last(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    last[i] = given_.contains(static_cast<int>(i)) ? nodes.size() : i;
    for (const int r : reads_[i])
      if (r >= 0 && static_cast<std::size_t>(r) < nodes.size()) last[r] = std::max(last[r], i);
  }
  std::vector<double> change(nodes.size() + 2, 0), alive;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    change[i] += known[i].bytes;
    change[std::min(last[i], nodes.size()) + 1] -= known[i].bytes;
  }
  double sum = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) alive.push_back(few_digits(sum += change[i]));
  for (const double bytes : thinned(alive)) parts_->memory.push_back(short_number(bytes));
}

int PageSide::maker(const std::string& value) const {
  for (const auto& makers : makers_)
    if (const auto it = makers.find(value); it != makers.end()) return it->second;
  return -1;
}

json PageSide::to_json() const {
  const Parts& p = *parts_;
  return {{"name", shown(facts_.name)},
          {"op", p.op},
          {"nm", p.name},
          {"out", p.output},
          {"ty", p.type},
          {"cost", p.cost},
          {"at", p.attributes},
          {"in", p.inputs},
          {"rg", p.region},
          {"ch", p.chain},
          {"weights", p.weights},
          {"bodies", p.bodies},
          {"folds", p.boxes.folds()},
          {"layouts", p.boxes.layouts()},
          {"root", p.root},
          {"main", graphs_[0]->nodes.size()},
          {"memory", p.memory}};
}

}  // namespace saturate
