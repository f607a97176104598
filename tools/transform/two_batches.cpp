#include "tools/transform/two_batches.h"

#include <cstdint>
#include <utility>

#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/graph/questions.h"

namespace saturate {
namespace {

Node joined(const std::string& name, std::size_t axis) {
  return make_node("Concat", {}, name, {Attribute::of("axis", static_cast<std::int64_t>(axis))});
}

}  // namespace

TwoBatches two_batches(const Model& model, const BatchAxes& inputs, const BatchAxes& outputs) {
  TwoBatches out{model, {}, {}};
  std::vector<Node> results;
  for (const auto& [name, axis] : inputs) out.joins.push_back(joined(name, axis));
  for (const ValueInfo& output : model.graph.outputs) results.push_back(joined(output.name, outputs.at(output.name)));
  out.apart.graph.nodes.clear();
  FreshNames fresh(model.graph);
  for (const char* part : {"_first", "_second"}) {
    Graph copy = model.graph;
    Renaming names;
    for (const std::string& name : defined_names(copy))
      if (!find_named(copy.initializers, name) && (inputs.contains(name) || !find_named(copy.inputs, name)))
        names[name] = fresh(name + part);
    rename_values(copy, names, fresh);
    for (ValueInfo& input : copy.inputs)
      if (!find_named(out.inputs, input.name)) out.inputs.push_back(input);
    for (std::size_t i = 0; i < results.size(); ++i) results[i].inputs.push_back(copy.outputs[i].name);
    for (Node& join : out.joins) join.inputs.push_back(names.at(join.outputs[0]));
    out.apart.graph.nodes.insert(out.apart.graph.nodes.end(), copy.nodes.begin(), copy.nodes.end());
  }
  out.apart.graph.nodes.insert(out.apart.graph.nodes.end(), results.begin(), results.end());
  out.apart.graph.inputs = out.inputs;
  return out;
}

}  // namespace saturate
