#include "onnx_bridge/model/subgraphs.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "fmt/format.h"

namespace saturate {
namespace {

constexpr std::size_t kMinSharedBytes = 256;  // smaller ones stay where they are read

template <typename Visit>
void for_each_body(const Graph& graph, Visit visit) {
  for (const Node& node : graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) visit(a.g());
}

// Bodies are shared and const: each is changed as a copy.
template <typename Change>
void change_bodies(Graph& graph, Change change) {
  for (Node& node : graph.nodes)
    for (Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) {
        auto body = std::make_shared<Graph>(a.g());
        change(*body);
        a.value = std::shared_ptr<const Graph>(std::move(body));
      }
}

class Sharer {
 public:
  Sharer(Graph& main, const std::unordered_set<std::string>& given, std::unordered_set<std::string>& names)
      : main_(main), given_(given), names_(names) {}

  void run() {
    for (const Initializer& i : main_.initializers) note(i, i.name);
    for_each_body(main_, [this](const Graph& body) { count(body); });
    change_bodies(main_, [this](Graph& body) { share(body); });
    for (Initializer& i : shared_) main_.initializers.push_back(std::move(i));
  }

 private:
  struct Group {
    Tensor tensor;
    int holders = 0;
    std::string name;  // in the main graph, once it is there
  };

  Group* group_of(const Initializer& i) {
    if (i.sparse || i.tensor.dtype() == DType::kString || i.tensor.bytes().size() < kMinSharedBytes) return nullptr;
    auto& alike = groups_[i.tensor.bytes().size()];
    const auto it = std::find_if(alike.begin(), alike.end(), [&](const Group& g) { return identical(g.tensor, i.tensor); });
    return it != alike.end() ? &*it : &alike.emplace_back(Group{i.tensor, 0, ""});
  }

  void note(const Initializer& i, const std::string& name_in_main) {
    const bool overridable =
        std::any_of(main_.inputs.begin(), main_.inputs.end(), [&](const ValueInfo& v) { return v.name == name_in_main; });
    Group* group = overridable ? nullptr : group_of(i);
    if (!group) return;
    ++group->holders;
    if (group->name.empty()) group->name = name_in_main;
  }

  void count(const Graph& body) {
    for (const Initializer& i : body.initializers)
      if (is_new(i, body)) note(i, "");
    for_each_body(body, [this](const Graph& inner) { count(inner); });
  }

  // Made by the optimizer, and nothing that the body gives away under its name.
  bool is_new(const Initializer& i, const Graph& body) const {
    return !given_.contains(i.name) &&
           std::none_of(body.outputs.begin(), body.outputs.end(), [&](const ValueInfo& o) { return o.name == i.name; });
  }

  void share(Graph& body) {
    std::map<std::string, std::string> renamed;
    for (const Initializer& i : body.initializers) {
      Group* group = is_new(i, body) ? group_of(i) : nullptr;
      if (!group || group->holders < 2) continue;
      if (group->name.empty()) {
        group->name = fresh(i.name);
        shared_.push_back({group->name, i.tensor, nullptr, false});
      }
      renamed[i.name] = group->name;
    }
    std::erase_if(body.initializers, [&](const Initializer& i) { return renamed.contains(i.name); });
    if (!renamed.empty()) body = *rename_captures(body, renamed);
    change_bodies(body, [this](Graph& inner) { share(inner); });
  }

  std::string fresh(const std::string& base) {
    for (int k = 0;; ++k)
      if (std::string name = fmt::format("{}_shared_{}", base, k); names_.insert(name).second) return name;
  }

  Graph& main_;
  const std::unordered_set<std::string>& given_;
  std::unordered_set<std::string>& names_;
  std::map<std::size_t, std::deque<Group>> groups_;  // by bytes
  std::vector<Initializer> shared_;
};

}  // namespace

bool has_body(std::span<const Attribute> attributes) {
  return std::ranges::any_of(attributes,
                             [](const Attribute& a) { return a.type == AttributeType::kGraph || a.type == AttributeType::kGraphs; });
}

Model model_of_body(const Model& model, const Graph& body) {
  return {model.ir_version, model.opset_imports, body, model.functions, model.path, model.external, model.origin};
}

std::shared_ptr<const Graph> rename_captures(const Graph& graph, std::map<std::string, std::string> renamed) {
  for (const ValueInfo& v : graph.inputs) renamed.erase(v.name);
  for (const Initializer& i : graph.initializers) renamed.erase(i.name);
  for (const Node& node : graph.nodes)
    for (const std::string& o : node.outputs) renamed.erase(o);
  auto copy = std::make_shared<Graph>(graph);
  for (Node& node : copy->nodes) {
    for (std::string& input : node.inputs)
      if (auto it = renamed.find(input); it != renamed.end()) input = it->second;
    for (Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) a.value = rename_captures(a.g(), renamed);
  }
  return copy;
}

void erase_unread(Graph& graph, const std::unordered_set<std::string>& kept) {
  std::unordered_set<std::string> read = kept;
  for (const ValueInfo& o : graph.outputs) read.insert(o.name);
  std::vector<Node> nodes;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(), [&](const std::string& o) { return !o.empty() && read.contains(o); }))
      continue;
    read.insert(node->inputs.begin(), node->inputs.end());
    for (const Attribute& a : node->attributes)
      if (a.type == AttributeType::kGraph)
        for (std::string& name : captured_names(a.g())) read.insert(std::move(name));
    nodes.push_back(std::move(*node));
  }
  graph.nodes.assign(std::make_move_iterator(nodes.rbegin()), std::make_move_iterator(nodes.rend()));
  std::erase_if(graph.initializers, [&](const Initializer& i) { return !read.contains(i.name); });
}

std::unordered_set<std::string> initializer_names(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const Initializer& i : graph.initializers) names.insert(i.name);
  for_each_body(graph, [&](const Graph& body) { names.merge(initializer_names(body)); });
  return names;
}

void share_initializers(Graph& main, const std::unordered_set<std::string>& given, std::unordered_set<std::string>& names) {
  Sharer(main, given, names).run();
}

}  // namespace saturate
