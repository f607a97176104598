#include "extract/optimize/needs.h"

#include <algorithm>

#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

constexpr std::int64_t kFirstOfFloat4 = 11, kFirstOfFloat8Scales = 12, kFirstOfTwoBits = 13, kFirstOfFloat6 = 14;  // IR versions

std::int64_t ir_version_for_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat4e2m1:
      return kFirstOfFloat4;
    case DType::kFloat8e8m0:
      return kFirstOfFloat8Scales;
    case DType::kUint2:
    case DType::kInt2:
      return kFirstOfTwoBits;
    case DType::kFloat6e2m3:
    case DType::kFloat6e3m2:
      return kFirstOfFloat6;
    default:
      return 0;
  }
}

std::int64_t ir_version_for_type(const ValueType& type) {
  return std::max(ir_version_for_type(type.dtype), type.element ? ir_version_for_type(*type.element) : 0);
}

// Of what a graph and its bodies hold, by element types.
std::int64_t ir_version_for_types(const Graph& graph) {
  std::int64_t out = 0;
  for (const auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (const ValueInfo& info : *infos) out = std::max(out, ir_version_for_type(info.type));
  for (const Initializer& i : graph.initializers) out = std::max(out, ir_version_for_type(i.tensor.dtype()));
  for (const Node& node : graph.nodes) {
    for_each_body(node, [&](const Graph& body) { out = std::max(out, ir_version_for_types(body)); });
    for (const Attribute& a : node.attributes) {
      if (std::holds_alternative<Tensor>(a.value)) out = std::max(out, ir_version_for_type(a.t().dtype()));
      if (a.type == AttributeType::kInt && (a.name == "to" || a.name.ends_with("dtype")))
        out = std::max(out, ir_version_for_type(static_cast<DType>(a.i())));
    }
  }
  return out;
}

// Whether a release has no kernel for an operator of the model.
bool lacks_one_of(const RuntimeRelease& release, const GraphStats& model) {
  return std::any_of(release.lacks.begin(), release.lacks.end(), [&](std::string op) {
    if (const std::size_t colons = op.find("::"); colons != std::string::npos) op.replace(colons, 2, ".");
    return model.operators.contains(op);
  });
}

}  // namespace

Runtime runtime_of(const Target* target) {
  if (target && !target->runtime.releases.empty()) return target->runtime;
  const absl::StatusOr<Target> usual = builtin_target("ort-cpu");
  return usual.ok() ? usual->runtime : Runtime();
}

Needs needs_of(const GraphStats& model, const Runtime& runtime) {
  const RuntimeRelease* oldest = runtime.oldest_for(model.opset, model.ir_version);
  const RuntimeRelease* end = runtime.releases.data() + runtime.releases.size();
  while (oldest && oldest != end && lacks_one_of(*oldest, model)) ++oldest;
  if (!oldest || oldest == end) return {runtime.name, "", false};
  return {runtime.name, oldest->version, oldest == &runtime.releases.front()};
}

void fit_ir_version(Model& model, const Target& target) {
  if (!target.release) return;
  const std::int64_t opset = model.opset("");
  const RuntimeRelease* of_opset = target.runtime.oldest_for(opset, 0);
  if (!of_opset) return;
  const std::int64_t newest = std::max(target.release->ir, of_opset->ir);
  const bool needs_more = ir_version_for_types(model.graph) > newest || ir_version_for_opset(opset) > newest;
  if (!needs_more && model.functions.empty()) model.ir_version = std::min(model.ir_version, newest);
}

}  // namespace saturate
