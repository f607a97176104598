#include "onnx_bridge/opsets/body_opset.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/opsets/canonical.h"

namespace saturate {
namespace {

// What takes the place of an attribute that a call gives.
AttributeValue stand_in(AttributeType type) {
  switch (type) {
    case AttributeType::kInt:
      return std::int64_t{1};
    case AttributeType::kFloat:
      return 0.5f;
    case AttributeType::kInts:
      return std::vector<std::int64_t>{1};
    case AttributeType::kFloats:
      return std::vector<float>{0.5f};
    case AttributeType::kStrings:
      return std::vector<std::string>{"s"};
    default:
      return std::string("s");
  }
}

std::vector<const Facts*> pointers(const std::vector<Facts>& facts) {
  std::vector<const Facts*> out;
  for (const Facts& f : facts) out.push_back(&f);
  return out;
}

void add_constants(std::vector<Initializer> constants, std::vector<Node>& nodes) {
  for (Initializer& c : constants) {
    Node& node = nodes.emplace_back();
    node.op_type = "Constant";
    node.attributes = {Attribute::of("value", std::move(c.tensor))};
    node.outputs = {c.name};
  }
}

// Of a node without references.
absl::StatusOr<std::vector<Node>> converted(const Node& node, std::int64_t from, std::int64_t to) {
  const std::string prefix = node.outputs.empty() ? node.op_type : node.outputs[0];
  const std::vector<Facts> unknown(node.inputs.size());
  const DimTable dims;
  auto newest = to_canonical(node, from, pointers(unknown), dims, prefix);
  if (!newest) return absl::FailedPreconditionError(absl::StrCat(node.op_type, ": its form in opset ", to, " is not known"));
  std::vector<Node> out;
  add_constants(std::move(newest->constants), out);
  for (const Node& part : newest->nodes) {
    const std::vector<Facts> of_part(part.inputs.size());
    auto written = from_canonical(part, to, pointers(of_part), dims, part.outputs[0]);
    if (!written.ok()) return written.status();
    add_constants(std::move(written->constants), out);
    std::move(written->nodes.begin(), written->nodes.end(), std::back_inserter(out));
  }
  return out;
}

bool has_body(const Node& node) {
  bool any = false;
  for_each_body(node, [&](const Graph&) { any = true; });
  return any;
}

// Apart from what its bodies hold.
bool means_the_same(const Node& node, std::int64_t from, std::int64_t to) {
  if (!node.domain.empty()) return true;
  const OpSchema *before = find_schema("", node.op_type, from), *after = find_schema("", node.op_type, to);
  return before && before == after && !after->deprecated;
}

absl::StatusOr<std::shared_ptr<const Graph>> graph_in_opset(const Graph& graph, std::int64_t from, std::int64_t to) {
  auto out = std::make_shared<Graph>(graph);
  auto nodes = nodes_in_opset(graph.nodes, from, to);
  if (!nodes.ok()) return nodes.status();
  out->nodes = *std::move(nodes);
  return std::shared_ptr<const Graph>(std::move(out));
}

// If, Loop and Scan stay as they are: newer versions only take more types, but for Scan of opset 8.
absl::StatusOr<std::vector<Node>> with_bodies_in_opset(const Node& node, std::int64_t from, std::int64_t to) {
  const bool known = !node.domain.empty() || (find_schema("", node.op_type, from) && find_schema("", node.op_type, to));
  if (!known || (node.domain.empty() && node.op_type == "Scan" && (from < 9) != (to < 9)))
    return absl::FailedPreconditionError(absl::StrCat(node.op_type, ": opset ", to, " has no such form of it"));
  Node out = node;
  for (Attribute& a : out.attributes) {
    const auto convert = [&](std::shared_ptr<const Graph>& graph) -> absl::Status {
      auto made = graph_in_opset(*graph, from, to);
      if (made.ok()) graph = *std::move(made);
      return made.status();
    };
    if (auto* one = std::get_if<std::shared_ptr<const Graph>>(&a.value))
      if (absl::Status s = convert(*one); !s.ok()) return s;
    if (auto* many = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
      for (auto& graph : *many)
        if (absl::Status s = convert(graph); !s.ok()) return s;
  }
  return std::vector<Node>{std::move(out)};
}

}  // namespace

bool same_in_opset(const std::vector<Node>& nodes, std::int64_t from, std::int64_t to) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    bool same = means_the_same(node, from, to);
    for_each_body(node, [&](const Graph& body) { same = same && same_in_opset(body.nodes, from, to); });
    return same;
  });
}

absl::StatusOr<std::vector<Node>> nodes_in_opset(const std::vector<Node>& nodes, std::int64_t from, std::int64_t to) {
  std::vector<Node> out;
  for (const Node& node : nodes) {
    auto written = node_in_opset(node, from, to);
    if (!written.ok()) return written.status();
    for (Node& n : *written) {
      if (!means_the_same(node, from, to)) n.origin = nullptr;
      out.push_back(std::move(n));
    }
  }
  return out;
}

absl::StatusOr<std::vector<Node>> node_in_opset(const Node& node, std::int64_t from, std::int64_t to) {
  if (from == to) return std::vector<Node>{node};
  if (has_body(node)) return with_bodies_in_opset(node, from, to);
  if (means_the_same(node, from, to)) return std::vector<Node>{node};
  Node bound = node;
  std::vector<Attribute> references;
  for (Attribute& a : bound.attributes) {
    if (a.ref.empty()) continue;
    references.push_back(a);
    a.value = stand_in(a.type);
    a.ref.clear();
  }
  auto out = converted(bound, from, to);
  if (!out.ok() || references.empty()) return out;
  if (out->size() != 1 || out->front().op_type != node.op_type)
    return absl::FailedPreconditionError(absl::StrCat(node.op_type, ": opset ", to, " has another form of it"));
  for (const Attribute& a : references) {
    std::erase_if(out->front().attributes, [&](const Attribute& known) { return known.name == a.name; });
    out->front().attributes.push_back(a);
  }
  return out;
}

}  // namespace saturate
