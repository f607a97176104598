#include <algorithm>
#include <map>
#include <set>

#include "egraph/stop.h"
#include "onnx_bridge/convert/emit/emit_parts.h"

namespace saturate {
namespace {

// Whether (in a model that rules changed) two inputs declare one name for a dim of this class and nothing makes it one size.
bool has_dim_apart(const EmitTask& task, bool changed, Id id) {
  const Facts& f = task.g.facts(id);
  return changed && f.shape &&
         std::any_of(f.shape->begin(), f.shape->end(), [&](Dim d) { return task.g.dims().name_apart(d).has_value(); });
}

void keep_value_info(const EmitTask& task, const ValueNames& names, bool changed, Graph& graph) {
  std::unordered_set<std::string> alive;
  for (const auto& [id, name] : names.all()) {
    auto it = task.lowered.values.find(name);
    if (it != task.lowered.values.end() && task.e().find(it->second) == id) alive.insert(name);
  }
  std::erase_if(graph.value_info, [&](const ValueInfo& v) {
    return !alive.contains(v.name) || has_dim_apart(task, changed, task.lowered.values.at(v.name));
  });
}

// Numbers and the names that inputs declare; names of our own say nothing to others.
DimSpec dim_spec(const EmitTask& task, Dim d) {
  if (const auto v = task.g.dims().value(d)) return *v;
  if (const auto apart = task.g.dims().name_apart(d)) return *apart;
  const auto name = task.g.dims().symbol_name(d);
  for (const ValueInfo& input : task.model().graph.inputs)
    if (name && input.type.shape)
      for (const DimSpec& declared : *input.type.shape)
        if (declared == DimSpec(*name)) return *name;
  return std::monostate{};
}

// Numbers that the facts know, in the place of names: quantizers leave types behind in which each dim has a name of its own.
void sharpen(const EmitTask& task, Id id, ValueInfo& info) {
  const Facts& f = task.g.facts(id);
  if (f.kind != Facts::Kind::kTensor || info.type.kind != ValueType::Kind::kTensor || !f.shape) return;
  if (!info.type.shape) info.type.shape.emplace(f.shape->size());
  if (info.type.shape->size() != f.shape->size()) return;
  for (std::size_t i = 0; i < f.shape->size(); ++i) {
    const auto number = task.g.dims().value((*f.shape)[i]);
    DimSpec& dim = (*info.type.shape)[i];
    if (!number || dim == DimSpec(*number)) continue;
    dim = *number;
    info.origin = nullptr;
  }
}

// ONNX Runtime's inference of the standard's Attention goes wrong where V's last dim is unknown: it makes an output of size 0.
// It refuses a Scan of whose body it can't infer all shapes, as from a captured value that a Reshape, which is gone, gave its rank.
bool needs_types(const EmitTask& task, const EmitUnit& unit) {
  if (!unit.source) return true;
  const std::string name = key_name(task, unit);
  return name == "Attention" || name == "Scan";
}

std::vector<Id> described_values(const EmitTask& task, const EmitUnit& unit, bool changed) {
  std::vector<Id> values;
  if (needs_types(task, unit)) values = unit.children;
  for (const auto& [index, id] : unit.outputs)
    if (!unit.source || has_dim_apart(task, changed, id)) values.push_back(id);
  return values;
}

// Of what goes into and comes out of nodes made by rules: runtimes infer less than the facts know (a Reshape to a computed shape).
// Also of a value with a dim whose name another dim of the inputs has: ONNX Runtime takes values of one name for equally large and reuses
// their memory. Where they are not, the order of nodes would decide whether the model runs.
void describe_values(const EmitTask& task, const SelectedNodes& nodes, const ValueNames& names, bool changed, Graph& graph) {
  std::set<std::string> known;
  std::map<std::string, std::size_t> given;  // by name: places in value_info
  for (const auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (const ValueInfo& v : *list) known.insert(v.name);
  for (std::size_t i = 0; i < graph.value_info.size(); ++i) given.emplace(graph.value_info[i].name, i);
  for (const Initializer& i : graph.initializers) known.insert(i.name);
  for (const EmitUnit& unit : nodes.units) {
    heed_stop();
    for (Id id : described_values(task, unit, changed)) {
      const Facts& f = task.g.facts(id);
      if (const auto it = given.find(names.of(id)); it != given.end()) sharpen(task, id, graph.value_info[it->second]);
      if (f.kind != Facts::Kind::kTensor || f.dtype == DType::kUndefined || !f.shape || !known.insert(names.of(id)).second) continue;
      ValueInfo info{names.of(id), {ValueType::Kind::kTensor, f.dtype, std::vector<DimSpec>{}, nullptr}, nullptr};
      for (Dim d : *f.shape) info.type.shape->push_back(dim_spec(task, d));
      graph.value_info.push_back(std::move(info));
    }
  }
}

}  // namespace

void write_types(const EmitTask& task, const SelectedNodes& nodes, const ValueNames& names, Graph& graph) {
  const bool changed = std::any_of(nodes.units.begin(), nodes.units.end(), [](const EmitUnit& unit) { return unit.source == nullptr; });
  keep_value_info(task, names, changed, graph);
  // ONNX Runtime refuses a body whose types say another number than it infers around the body, as a fold there makes it do.
  if (!task.options.is_body) describe_values(task, nodes, names, changed, graph);
}

}  // namespace saturate
