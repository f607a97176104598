#include <algorithm>

#include "fmt/format.h"
#include "onnx_bridge/convert/emit/emit_parts.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"
#include "onnx_bridge/opsets/canonical.h"

namespace saturate {
namespace {

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.name != b.name || a.value.index() != b.value.index()) return false;
  switch (a.type) {
    case AttributeType::kFloat:
      return a.f() == b.f();
    case AttributeType::kInt:
      return a.i() == b.i();
    case AttributeType::kString:
      return a.s() == b.s();
    case AttributeType::kInts:
      return a.ints() == b.ints();
    case AttributeType::kFloats:
      return a.floats() == b.floats();
    case AttributeType::kStrings:
      return a.strings() == b.strings();
    case AttributeType::kTensor:
      return identical(a.t(), b.t());
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<OpsetForms> OpsetForms::choose(const EmitTask& task, const std::vector<EmitUnit>& units) {
  const std::int64_t given = task.model().opset("");
  std::int64_t opset = task.options.opset.value_or(given);
  if (task.options.opset) return OpsetForms(task, opset);
  for (const EmitUnit& unit : units) {
    const OpKey& key = task.g.key(task.e().node(unit.node).op);
    if (unit.source || !key.domain.empty()) continue;
    const auto lowest = lowest_opset(canonical_node(task, unit), input_facts(task, unit));
    if (!lowest) return absl::InternalError(fmt::format("no opset expresses the selected {}", key.op_type));
    opset = std::max(opset, *lowest);
    if (task.options.max_opset >= 14 && wants_zeros(task, unit)) opset = std::max<std::int64_t>(opset, 14);
  }
  if (opset <= std::max(given, task.options.max_opset)) return OpsetForms(task, opset);
  return absl::FailedPreconditionError(fmt::format("the result needs opset {}, more than {} allows", opset, task.options.max_opset));
}

bool OpsetForms::keeps_meaning(const Node& node) const {
  if (opset_ == task_->model().opset("")) return true;
  for (const Attribute& a : node.attributes)
    if (a.type == AttributeType::kGraph && !task_->options.bodies.contains(&a.g()) &&
        !std::all_of(a.g().nodes.begin(), a.g().nodes.end(), [this](const Node& n) { return keeps_meaning(n); }))
      return false;
  if (!node.domain.empty() || is_control_flow(node)) return true;
  const OpSchema* before = find_schema("", node.op_type, task_->model().opset(""));
  const OpSchema* after = find_schema("", node.op_type, opset_);
  if (!before || !after || after->deprecated) return before == after;
  return before->since_version == after->since_version || keeps_canonical_form(node);
}

bool OpsetForms::takes_types(const EmitUnit& unit) const {
  const OpKey& key = task_->g.key(task_->e().node(unit.node).op);
  if (opset_ >= task_->model().opset("") || !key.domain.empty() || key.version != 0 || is_control_flow(*unit.source->node)) return true;
  return from_canonical(canonical_node(*task_, unit), opset_, input_facts(*task_, unit), task_->g.dims(), "c").ok();
}

// Later versions of these only take more types.
bool OpsetForms::is_control_flow(const Node& node) const {
  return has(Trait::kControlFlow, node) && (node.op_type != "Scan" || task_->model().opset("") >= 9);
}

bool OpsetForms::keeps_canonical_form(const Node& node) const {
  std::vector<Facts> unknown(node.inputs.size());
  std::vector<const Facts*> facts;
  for (const Facts& f : unknown) facts.push_back(&f);
  const auto a = to_canonical(node, task_->model().opset(""), facts, task_->g.dims(), "c");
  const auto b = to_canonical(node, opset_, facts, task_->g.dims(), "c");
  if (!a || !b || a->nodes.size() != 1 || b->nodes.size() != 1 || !a->constants.empty() || !b->constants.empty()) return false;
  return a->nodes[0].op_type == b->nodes[0].op_type && a->nodes[0].inputs == b->nodes[0].inputs &&
         std::ranges::equal(a->nodes[0].attributes, b->nodes[0].attributes, same_attribute);
}

}  // namespace saturate
