#include <algorithm>
#include <iterator>

#include "extract/optimize/provenance.h"
#include "extract/optimize/stages.h"
#include "onnx_bridge/convert/emit/emit.h"

namespace saturate {
namespace {

void note_made(const Grown& grown, const std::vector<WrittenNode>& nodes, std::vector<OptimizeReport::Made>& made) {
  for (const WrittenNode& n : nodes) {
    if (n.source || n.node == kNone) continue;
    const std::uint32_t rule = grown.g->egraph().made_by(n.node);
    made.push_back({n.op_type, n.output, rule < grown.rule_names.size() ? grown.rule_names[rule] : ""});
  }
}

absl::StatusOr<Model> emit_into(const Grown& grown, const Chosen& chosen, const EmitOptions& options, Emitted& emitted, const Task& task) {
  auto how = emit_model_options(grown, chosen, options, emitted, task);
  if (!how.ok()) return how.status();
  std::vector<WrittenNode> written;
  how->written = &written;
  task.progress("emit");
  const StageTimer timer(task, "emit");
  const StageBound bound(task);
  auto model = emit_model(*grown.g, grown.lowered, chosen.selection, *how);
  if (!model.ok()) return model.status();
  note_made(grown, written, emitted.made);
  if (task.wants_provenance) {
    std::vector<Provenance> nodes = provenance(grown, written);
    if (task.has_rules()) emitted.cut_metadata += merge_metadata(nodes, task.options.annotate, model->graph);
    std::move(nodes.begin(), nodes.end(), std::back_inserter(emitted.provenance));
  }
  emitted.opsets.insert(model->opset(""));
  return model;
}

}  // namespace

absl::StatusOr<EmitModelOptions> emit_model_options(const Grown& grown, const Chosen& chosen, const EmitOptions& options, Emitted& emitted,
                                                    const Task& task) {
  EmitModelOptions out;
  out.is_body = grown.body_model != nullptr;
  out.opset = options.opset;
  out.max_opset = options.limit;
  out.only_initializers = task.target.for_quantizers;
  out.reserved = &emitted.names;
  out.domain_versions = task.rules.domain_versions();
  for (std::size_t i = 0; i < grown.bodies.size(); ++i) {
    auto body = emit_into(*grown.bodies[i].second, *chosen.bodies[i], options, emitted, task);
    if (!body.ok()) return body.status();
    out.body_imports.insert(body->opset_imports.begin(), body->opset_imports.end());
    out.bodies[grown.bodies[i].first] = std::make_shared<Graph>(std::move(body->graph));
  }
  return out;
}

absl::StatusOr<Emitted> emit(const Grown& grown, const Chosen& chosen, EmitOptions options, const Task& task) {
  Emitted emitted;
  emitted.names = std::move(options.names);
  auto model = emit_into(grown, chosen, options, emitted, task);
  if (!model.ok()) return model.status();
  emitted.model = *std::move(model);
  return emitted;
}

bool has_bodies(const Graph& graph) {
  for (const Node& node : graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) return true;
  return false;
}

}  // namespace saturate
