// Reading of egraph-serialize JSON.
#include <limits>
#include <map>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "egraph/dump.h"
#include "egraph/egraph_impl.h"
#include "egraph/text/read_json.h"

namespace saturate {
namespace {

absl::Status bad(const std::string& what) { return absl::InvalidArgumentError(what); }

struct Entry {
  std::string op, eclass;
  std::vector<std::string> children;  // node ids
  double cost = 1;
};

absl::Status read_entry(const std::string& id, const nlohmann::json& json, Entry& out) {
  const std::string at = absl::StrCat("node \"", id, "\": ");
  if (!json.is_object()) return bad(at + "not an object");
  for (const char* key : {"op", "eclass"}) {
    if (!json.contains(key) || !json[key].is_string()) return bad(absl::StrCat(at, "no text '", key, "'"));
  }
  out.op = json["op"].get<std::string>();
  out.eclass = json["eclass"].get<std::string>();
  if (json.contains("children")) {
    if (!json["children"].is_array()) return bad(at + "'children' is not a list");
    for (const auto& child : json["children"]) {
      if (!child.is_string()) return bad(at + "a child is not a node id");
      out.children.push_back(child.get<std::string>());
    }
  }
  if (json.contains("cost")) {
    if (!json["cost"].is_number()) return bad(at + "'cost' is not a number");
    out.cost = json["cost"].get<double>();
  }
  return absl::OkStatus();
}

class Loader {
 public:
  absl::StatusOr<LoadedEGraph> load(const nlohmann::json& json) {
    if (!json.is_object() || !json.contains("nodes") || !json["nodes"].is_object()) return bad("no object 'nodes'");
    for (const auto& [id, value] : json["nodes"].items()) {
      Entry entry;
      if (auto status = read_entry(id, value, entry); !status.ok()) return status;
      class_of_node_[id] = entry.eclass;
      entries_.push_back(std::move(entry));
    }
    out_.egraph = std::make_unique<EGraph>();
    make_classes();
    if (auto status = add_nodes(); !status.ok()) return status;
    return finish(json);
  }

 private:
  // A class may hold terms over itself: each begins as a leaf of its own, taken out once its e-nodes are in.
  void make_classes() {
    for (const Entry& entry : entries_) {
      const auto [it, fresh] = classes_.try_emplace(entry.eclass, kNone);
      if (!fresh) continue;
      it->second = out_.egraph->add(new_op(""), {});
      out_.class_names.push_back(entry.eclass);
    }
  }

  absl::Status add_nodes() {
    std::vector<Id> children;
    for (const Entry& entry : entries_) {
      children.clear();
      for (const std::string& child : entry.children) {
        const auto it = class_of_node_.find(child);
        if (it == class_of_node_.end()) return bad(absl::StrCat("child \"", child, "\" is no node"));
        children.push_back(classes_.at(it->second));
      }
      const NodeId node = out_.egraph->impl().add_node(op(entry.op), children);
      nodes_.emplace_back(node, entry.cost);
      out_.egraph->merge(node, classes_.at(entry.eclass));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<LoadedEGraph> finish(const nlohmann::json& json) {
    EGraph& egraph = *out_.egraph;
    egraph.rebuild();
    const std::size_t leaves = classes_.size();
    for (std::size_t i = 0; i < leaves; ++i) egraph.impl().remove_node(static_cast<NodeId>(i));
    std::vector<std::string> names(egraph.num_ids());
    for (std::size_t i = leaves; i-- > 0;) names[egraph.find(static_cast<Id>(i))] = out_.class_names[i];
    out_.class_names = std::move(names);
    // Costs belong to what is left of equal e-nodes.
    out_.costs.assign(egraph.num_ids(), std::numeric_limits<double>::infinity());
    for (const auto& [node, cost] : nodes_) {
      const ENode made = egraph.node(node);
      const NodeId left = egraph.is_live(node) ? node : egraph.impl().find_node(made.op, made.children);
      out_.costs[left] = std::min(out_.costs[left], cost);
    }
    if (json.contains("root_eclasses")) {
      for (const auto& root : json["root_eclasses"]) {
        const auto it = root.is_string() ? classes_.find(root.get<std::string>()) : classes_.end();
        if (it == classes_.end()) return bad(absl::StrCat("root class ", root.dump(), " has no node"));
        out_.roots.push_back(egraph.find(it->second));
      }
    }
    return std::move(out_);
  }

  OpId op(const std::string& text) {
    const auto [it, fresh] = ops_.try_emplace(text, kNone);
    if (fresh) it->second = new_op(text);
    return it->second;
  }
  OpId new_op(const std::string& text) {
    out_.op_names.push_back(text);
    return out_.egraph->add_op({.kind = static_cast<Kind>(out_.op_names.size() - 1)});
  }

  LoadedEGraph out_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::string> class_of_node_;
  std::unordered_map<std::string, Id> classes_;
  std::unordered_map<std::string, OpId> ops_;
  std::vector<std::pair<NodeId, double>> nodes_;
};

}  // namespace

absl::StatusOr<LoadedEGraph> from_json(std::string_view text) {
  const auto json = read_json(text);
  if (!json.ok()) return bad("not JSON");
  return Loader().load(*json);
}

}  // namespace saturate
