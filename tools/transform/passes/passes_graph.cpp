// What a model holds beside its interface: constants, functions, shapes, metadata.
#include <algorithm>
#include <cmath>

#include "extract/prepare/first_versions.h"
#include "fmt/format.h"
#include "kernels/inputs/types.h"
#include "onnx_bridge/graph/constant_nodes.h"
#include "onnx_bridge/graph/floats.h"
#include "onnx_bridge/model/uncalled_functions.h"
#include "onnx_bridge/operators/assumptions.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

bool is_output(const Graph& graph, const std::string& name) { return find_named(graph.outputs, name) != nullptr; }

}  // namespace

absl::Status constants_to_initializers(Work& work, const Arguments& args) {
  const bool bodies = args.flag("bodies");
  const auto move = [](Graph& graph) {
    std::erase_if(graph.nodes, [&](const Node& node) {
      const std::optional<Tensor> value = is_constant(node) ? value_of(node) : std::nullopt;
      if (value) graph.initializers.push_back({node.outputs[0], *value, nullptr, false});
      return value.has_value();
    });
  };
  if (bodies)
    for_each_graph(work.graph(), move);
  else
    move(work.graph());
  if (work.model.ir_version >= kFirstWithDefaults || work.graph().initializers.empty()) return absl::OkStatus();
  // Before that version an initializer is an input, too.
  for (const ValueInfo& input : std::vector(work.graph().inputs))
    if (work.initializer(input.name)) work.freeze(input.name);
  work.model.ir_version = kFirstWithDefaults;
  return absl::OkStatus();
}

absl::Status initializers_to_constants(Work& work, const Arguments& args) {
  const auto most = static_cast<std::size_t>(args.whole("most_bytes"));
  Graph& graph = work.graph();
  std::vector<Node> constants;
  std::erase_if(graph.initializers, [&](const Initializer& i) {
    const bool small = !i.sparse && i.tensor.dtype() != DType::kString && i.tensor.bytes().size() <= most;
    if (!small || find_named(graph.inputs, i.name)) return false;
    Node node;
    node.op_type = "Constant";
    node.outputs = {i.name};
    node.attributes = {Attribute::of("value", i.tensor)};
    constants.push_back(std::move(node));
    return true;
  });
  if (!constants.empty()) ensure_standard_opset(work.model);
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(constants.begin()), std::make_move_iterator(constants.end()));
  return absl::OkStatus();
}

absl::Status drop_uncalled_functions(Work& work, const Arguments&) {
  Model all = work.model;  // that calls each of them
  for (const Function& f : work.model.functions) {
    Node call;
    call.domain = f.domain;
    call.op_type = f.name;
    call.overload = f.overload;
    all.graph.nodes.push_back(std::move(call));
  }
  const std::size_t before = work.model.functions.size();
  work.model = without_uncalled_functions(std::move(work.model), all);
  if (before > work.model.functions.size()) work.notes.push_back(fmt::format("{} functions dropped", before - work.model.functions.size()));
  return absl::OkStatus();
}

absl::Status infer_shapes(Work& work, const Arguments&) {
  const auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  Graph& graph = work.graph();
  // What is written stays, where nothing more is known.
  const auto sharpen = [&](ValueInfo& info) {
    const auto it = types->find(info.name);
    if (it == types->end()) return;
    const ValueType& known = it->second;
    if (info.type.kind == ValueType::Kind::kUnknown) info.type = known;
    if (info.type.kind != ValueType::Kind::kTensor || !known.shape) return;
    if (!info.type.shape) info.type.shape.emplace(known.shape->size());
    if (info.type.shape->size() != known.shape->size()) return;
    for (std::size_t i = 0; i < known.shape->size(); ++i)
      if (DimSpec& dim = (*info.type.shape)[i];
          !std::holds_alternative<std::monostate>((*known.shape)[i]) && !std::holds_alternative<std::int64_t>(dim))
        dim = (*known.shape)[i];
  };
  for (auto* infos : {&graph.outputs, &graph.value_info}) std::for_each(infos->begin(), infos->end(), sharpen);
  std::unordered_set<std::string> written;
  for (const ValueInfo& info : graph.value_info) written.insert(info.name);
  for (const Node& node : graph.nodes)
    for (const std::string& made : node.outputs) {
      const auto it = types->find(made);
      if (it != types->end() && !is_output(graph, made) && !written.contains(made)) graph.value_info.push_back({made, it->second, nullptr});
    }
  return absl::OkStatus();
}

absl::Status remove_shapes(Work& work, const Arguments& args) {
  const bool keep_types = args.text("keep") == "types", outputs = args.flag("outputs");
  for_each_graph(work.graph(), [&](Graph& graph) {
    if (!keep_types) graph.value_info.clear();
    for (ValueInfo& info : graph.value_info) info.type.shape = std::nullopt;
  });
  if (outputs)
    for (ValueInfo& info : work.graph().outputs)
      if (info.type.shape) info.type.shape->assign(info.type.shape->size(), DimSpec());
  return absl::OkStatus();
}

absl::Status strip_metadata(Work& work, const Arguments&) {
  work.model.origin = nullptr;
  for (Function& f : work.model.functions) {
    f.origin = nullptr;
    for (Node& node : f.nodes) node.origin = nullptr;
  }
  for_each_graph(work.graph(), [](Graph& graph) {
    graph.origin = nullptr;
    for (auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
      for (ValueInfo& info : *infos) info.origin = nullptr;
    for (Initializer& i : graph.initializers)
      if (!i.sparse) i.origin = nullptr;
    for (Node& node : graph.nodes) {
      node.origin = nullptr;
      node.metadata = nullptr;
    }
  });
  return absl::OkStatus();
}

absl::Status replace_mask_value(Work& work, const Arguments& args) {
  const double threshold = args.number("threshold"), by = args.number("replacement");
  const auto is_low = [threshold](double x) { return x < threshold; };
  std::size_t count = 0;
  for_each_graph(work.graph(), [&](Graph& graph) {
    for (Initializer& i : graph.initializers)
      if (auto tensor = i.sparse ? std::nullopt : replaced(i.tensor, is_low, by)) {
        i = {i.name, *std::move(tensor), nullptr, false};
        ++count;
      }
    for (Node& node : graph.nodes) {
      if (!node.domain.empty() || !one_of(node.op_type, {"Constant", "ConstantOfShape"}) || node.attributes.size() != 1 ||
          !node.attributes[0].ref.empty())
        continue;
      const auto value = value_of(node);
      auto tensor = value ? replaced(*value, is_low, by) : std::nullopt;
      if (!tensor) continue;
      node.attributes = {Attribute::of("value", *std::move(tensor))};
      node.origin = nullptr;
      ++count;
    }
  });
  work.notes.push_back(fmt::format("{} constants changed", count));
  if (count > 0) {
    work.allowed.excluded |= kHiddenRows | kLowScores;
    work.notes.push_back(fmt::format("taken for granted: no row of scores is hidden as a whole, and none that counts lies near {:g}", by));
  }
  return absl::OkStatus();
}

absl::Status remove_memcpy(Work& work, const Arguments&) {
  std::size_t count = 0;
  for_each_graph(work.graph(), [&](Graph& graph) {
    for (Node& node : graph.nodes)
      if (one_of(node.op_type, {"MemcpyToHost", "MemcpyFromHost"}) && node.inputs.size() == 1 && node.outputs.size() == 1) {
        node = Node{node.name, "Identity", "", "", node.inputs, node.outputs, {}, nullptr};
        ++count;
      }
  });
  if (count > 0) ensure_standard_opset(work.model);
  work.notes.push_back(fmt::format("{} copies became Identity, which optimizing leaves out", count));
  return absl::OkStatus();
}

}  // namespace saturate::passes
