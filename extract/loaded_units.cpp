// Operators between quantizers that the runtime turns into integer kernels when it loads a model (loaded_graph.h): the target's units
// (NodeUnit in extract/target/target.h), looked for among its nodes.
#include <algorithm>

#include "extract/loaded_graph.h"
#include "extract/sizes/op_features.h"
#include "extract/target/target_json.h"
#include "extract/units/node_units.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/integer_kernels.h"

namespace saturate {
namespace {

bool is_byte(DType dtype) { return dtype == DType::kUint8 || dtype == DType::kInt8; }

}  // namespace

void LoadedGraph::join_units(const Target& target) {
  for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
    if (nodes_[at(n)].gone || nodes_[at(n)].outputs.size() != 1 || nodes_[at(n)].key.unique != 0) continue;
    for (const NodeUnit& unit : target.node_units)
      if (const auto found = unit_of(n, unit, target)) {
        join_unit(n, *found);
        break;
      }
  }
}

// The node with the quantizers around it, as the unit has them.
std::optional<LoadedGraph::Unit> LoadedGraph::unit_of(int n, const NodeUnit& unit, const Target& target) const {
  const LoadedNode& node = nodes_[at(n)];
  const std::string name = operator_name(node.key.domain, node.key.op_type);
  if (!unit.operators.contains(name) || !refuse_attributes(unit.attributes, node.key.attributes).empty()) return std::nullopt;
  Unit found{&unit, std::vector<int>(node.inputs.size(), -1)};
  bool any = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Facts& f = facts(node.inputs[i]);
    const std::vector<std::string>* wanted = dequantized_from(unit, i);
    if (!wanted || f.kind == Facts::Kind::kAbsent || is_quantized_at_load(unit, i, f)) continue;
    const std::vector<int> maker = nodes_of(node.inputs[i]);
    if (maker.empty() && i == 1 && f.constant && target.quantizes_weights.operators.contains(name)) continue;
    if (maker.empty() || !is_quantizer(nodes_[at(maker[0])].key, "DequantizeLinear")) return std::nullopt;
    const Facts& integers = facts(nodes_[at(maker[0])].inputs[0]);
    const bool fits = std::find(wanted->begin(), wanted->end(), dtype_name(integers.dtype)) != wanted->end();
    if (!fits || (!integers.constant && unit.constant_inputs.contains(static_cast<int>(i)))) return std::nullopt;
    found.dequantizers[i] = maker[0];
    any = true;
  }
  return any && (!unit.quantized || closes(n, found)) ? std::optional(found) : std::nullopt;
}

// Whether a QuantizeLinear alone reads what the node makes, and closes the unit.
bool LoadedGraph::closes(int n, Unit& found) const {
  const int reader = only_reader(value_of(n));
  if (reader < 0 || !is_quantizer(nodes_[at(reader)].key, "QuantizeLinear")) return false;
  const auto first = std::find_if(found.dequantizers.begin(), found.dequantizers.end(), [](int d) { return d >= 0; });
  const LoadedNode &quantize = nodes_[at(reader)], &dequantize = nodes_[at(*first)];
  const DType from = facts(dequantize.inputs[0]).dtype, to = facts(value_of(reader)).dtype;
  if (from != to && !(is_byte(from) && is_byte(to))) return false;  // the runtime writes uint8 for int8
  if (found.unit->same_parameters)
    for (std::size_t i = 1; i < std::max(quantize.inputs.size(), dequantize.inputs.size()); ++i)
      if (i >= quantize.inputs.size() || i >= dequantize.inputs.size() ||
          classes_[at(quantize.inputs[i])] != classes_[at(dequantize.inputs[i])])
        return false;
  found.quantize = reader;
  return true;
}

// -1: none or several, or the graph itself.
int LoadedGraph::only_reader(int v) const {
  if (readers_[at(v)] != 1) return -1;
  for (const int n : users_[at(v)])
    if (const LoadedNode& user = nodes_[at(n)]; !user.gone && std::find(user.inputs.begin(), user.inputs.end(), v) != user.inputs.end())
      return n;
  return -1;
}

void LoadedGraph::join_unit(int n, const Unit& found) {
  LoadedNode& node = nodes_[at(n)];
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const int dequantize = found.dequantizers[i];
    if (dequantize < 0) continue;
    const int integers = nodes_[at(dequantize)].inputs[0];
    --readers_[at(node.inputs[i])], ++readers_[at(integers)];
    node.inputs[i] = integers;
    users_[at(integers)].push_back(n);
    drop_if_unread(dequantize);
  }
  const IntegerKernel* integer = integer_kernel(found.unit->becomes);
  if (integer && integer->step == 0)
    while (node.inputs.size() > integer->tensors.size()) --readers_[at(node.inputs.back())], node.inputs.pop_back();
  if (found.quantize >= 0) {
    LoadedNode& quantize = nodes_[at(found.quantize)];
    for (const int v : quantize.inputs) --readers_[at(v)];
    quantize.gone = true;
    node.outputs = quantize.outputs;
    makers_[at(node.outputs[0])] = n;
  }
  const std::string kernel = found.unit->becomes.empty() ? operator_name(node.key.domain, node.key.op_type) : found.unit->becomes;
  std::vector<Attribute> attributes = node.key.attributes;
  attributes.insert(attributes.end(), found.unit->kernel_attributes.begin(), found.unit->kernel_attributes.end());
  const std::size_t colon = kernel.find("::");
  const bool foreign = colon != std::string::npos;
  node.key =
      make_key(foreign ? kernel.substr(0, colon) : "", foreign ? kernel.substr(colon + 2) : kernel, std::move(attributes), 1, std::nullopt);
  node.key.role = UnitRole::kFused;
  node.in_integers = true;
}

}  // namespace saturate
