#include "onnx_bridge/operators/body_opset.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "onnx_bridge/operators/canonical.h"
#include "onnx_bridge/operators/op_table.h"

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

}  // namespace

absl::StatusOr<std::vector<Node>> node_in_opset(const Node& node, std::int64_t from, std::int64_t to) {
  const OpSchema *before = find_schema("", node.op_type, from), *after = find_schema("", node.op_type, to);
  if (!node.domain.empty() || from == to || (before && before == after && !after->deprecated)) return std::vector<Node>{node};
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
