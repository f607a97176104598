// What goes in and comes out: names, order, number.
#include <algorithm>
#include <numeric>
#include <set>

#include "extract/prepare/first_versions.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/inputs/types.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "onnx_bridge/operators/op_table.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

std::string list_of(const std::vector<ValueInfo>& infos) {
  std::vector<std::string> names;
  std::transform(infos.begin(), infos.end(), std::back_inserter(names), [](const ValueInfo& v) { return v.name; });
  return fmt::format("{}", fmt::join(names, ", "));
}

absl::Status no_input(Work& work, const char* field, const std::string& name, const Arguments& args) {
  return args.wrong(field, name, fmt::format("the model has no such input; it has {}", list_of(work.graph().inputs)));
}

absl::Status no_output(Work& work, const char* field, const std::string& name, const Arguments& args) {
  return args.wrong(field, name, fmt::format("the model has no such output; it has {}", list_of(work.graph().outputs)));
}

void add_identity(Work& work, const std::string& from, const std::string& to) {
  ensure_standard_opset(work.model);
  std::vector<Node> nodes;
  add_views(work.model, {}, from, to, work.fresh, nodes);
  work.append(std::move(nodes));
  if (const std::string original = work.ties.value_of(from); !original.empty()) work.ties.values[to] = original;
}

absl::Status reorder(std::vector<ValueInfo>& infos, const Arguments& args, const char* what) {
  std::vector<ValueInfo> sorted;
  for (const std::string& name : args.texts("order")) {
    if (find_named(sorted, name)) return args.wrong("order", name, "it is named twice; name each once");
    const ValueInfo* info = find_named(infos, name);
    if (!info) return args.wrong("order", name, fmt::format("the model has no such {}; it has {}", what, list_of(infos)));
    sorted.push_back(*info);
  }
  for (const ValueInfo& info : infos)
    if (!find_named(sorted, info.name)) return args.wrong("order", info.name, fmt::format("this {} is not named; name each once", what));
  infos = std::move(sorted);
  return absl::OkStatus();
}

std::string reader_of(const Graph& graph, const std::string& value) {
  for (const Node& node : graph.nodes)
    if (reads(node, value))
      return fmt::format("{} '{}'", node.op_type, node.name.empty() ? node.outputs.empty() ? "" : node.outputs[0] : node.name);
  return "";
}

absl::Status expose_values(Work& work, const std::vector<std::string>& values, const char* field, const Arguments& args) {
  const auto names = defined_names(work.graph());
  std::vector<std::string> wanted;
  for (const std::string& name : values) {
    if (work.output(name)) continue;  // it is one
    if (!names.contains(name)) return no_value(names, field, name, args);
    if (work.input(name)) return args.wrong(field, name, "it is an input, which needs no output");
    if (work.ties.value_of(name).empty()) return args.wrong(field, name, "another pass has made this value; expose before it");
    wanted.push_back(name);
  }
  if (wanted.empty()) return absl::OkStatus();
  const auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  for (const std::string& name : wanted) {
    const auto info = info_with_rank(work.graph(), name, *types);
    if (!info) return args.wrong(field, name, "its type and rank can't be inferred; set_shapes gives inputs theirs");
    work.add_output(*info);
  }
  return absl::OkStatus();
}

Node* find_node(Graph& graph, const std::string& name) { return find_named(graph.nodes, name); }

absl::Status no_node(Work& work, const char* field, const std::string& name, const Arguments& args) {
  std::vector<std::string> names;
  for (const Node& node : work.graph().nodes)
    if (!node.name.empty()) names.push_back(node.name);
  const std::string near = nearest(name, names);
  return args.wrong(field, name,
                    near.empty() ? "the main graph has no node of this name"
                                 : fmt::format("the main graph has no node of this name; did you mean '{}'?", near));
}

std::optional<Shape> numbers_of(const ValueType& type) {
  if (!type.shape) return std::nullopt;
  Shape dims;
  for (const DimSpec& dim : *type.shape) {
    const auto* number = std::get_if<std::int64_t>(&dim);
    if (!number) return std::nullopt;
    dims.push_back(*number);
  }
  return dims;
}

bool is_number(DType dtype) { return is_floating(dtype) || is_integer(dtype) || dtype == DType::kBool; }

// Zeros in the place of `like`, as nodes that make `to` (one, where all dims are numbers), or why not.
struct Zeros {
  std::vector<Node> nodes;
  std::string refusal;
};

Zeros zeros_like(Work& work, const ValueType& type, const std::string& like, const std::string& to) {
  if (type.kind != ValueType::Kind::kTensor || !is_number(type.dtype)) return {{}, "only tensors of numbers can be zeros"};
  ensure_standard_opset(work.model);
  Zeros zeros;
  constexpr std::size_t kMostOfConstant = std::size_t{1} << 20;  // bytes; larger ones are made when the model runs
  if (const auto dims = numbers_of(type); dims && checked_bytes(type.dtype, *dims).value_or(kMostOfConstant + 1) <= kMostOfConstant) {
    Node constant;
    constant.op_type = "Constant";
    constant.outputs = {to};
    constant.attributes = {Attribute::of("value", Tensor(type.dtype, *dims))};
    zeros.nodes.push_back(std::move(constant));
  } else if (work.model.opset("") < kFirstConstantOfShape) {
    zeros.refusal = fmt::format("zeros of an open shape need opset {}; set_dims fixes its dims", kFirstConstantOfShape);
  } else {
    add_views(work.model, {{View::Kind::kZeros, type.dtype}}, like, to, work.fresh, zeros.nodes);
  }
  return zeros;
}

}  // namespace

std::vector<std::string> input_names(const std::vector<ValueInfo>& infos) {
  std::vector<std::string> names;
  for (const ValueInfo& v : infos) names.push_back(v.name);
  return names;
}

absl::Status no_value(const std::unordered_set<std::string>& names, const char* field, const std::string& name, const Arguments& args) {
  const std::string near = nearest(name, {names.begin(), names.end()});
  return args.wrong(
      field, name,
      fmt::format("the main graph has no such value{}", near.empty() ? std::string() : fmt::format("; did you mean '{}'?", near)));
}

absl::Status rename_inputs(Work& work, const Arguments& args) {
  const Renaming names = args.pairs("names");
  for (const auto& [from, to] : names)
    if (!work.input(from)) return no_input(work, "names", from, args);
  Renaming handed_on;
  for (const auto& [from, to] : names)
    if (work.output(from)) handed_on[from] = to;
  if (absl::Status s = work.rename(names, "names", args); !s.ok()) return s;
  for (const auto& [from, to] : handed_on) {  // the output keeps its name
    work.each_output(to, [&, &name = from](ValueInfo& output) { output.name = name; });
    work.ties.outputs[from] = work.ties.outputs.at(to);
    work.ties.outputs.erase(to);
    add_identity(work, to, from);
  }
  return absl::OkStatus();
}

absl::Status rename_outputs(Work& work, const Arguments& args) {
  Renaming names = args.pairs("names"), handed_on;
  for (const auto& [from, to] : names) {
    if (!work.output(from)) return no_output(work, "names", from, args);
    if (work.input(from)) handed_on[from] = to;
  }
  for (const auto& [from, to] : handed_on) {  // the input keeps its name
    if (work.fresh.taken(to) && from != to) return args.wrong("names", to, "another value has this name; take another");
    names.erase(from);
  }
  if (absl::Status s = work.rename(names, "names", args); !s.ok()) return s;
  for (const auto& [from, to] : handed_on) {
    if (from == to) continue;
    work.each_output(from, [&, &name = to](ValueInfo& output) { output.name = name; });
    work.ties.outputs[to] = work.ties.outputs.at(from);
    work.ties.outputs.erase(from);
    add_identity(work, from, to);
  }
  return absl::OkStatus();
}

absl::Status reorder_inputs(Work& work, const Arguments& args) { return reorder(work.graph().inputs, args, "input"); }
absl::Status reorder_outputs(Work& work, const Arguments& args) { return reorder(work.graph().outputs, args, "output"); }

absl::Status remove_inputs(Work& work, const Arguments& args) {
  for (const std::string& name : args.texts("names")) {
    if (!work.input(name)) return no_input(work, "names", name, args);
    if (work.initializer(name)) return args.wrong("names", name, "it has a default; freeze keeps its values");
    if (work.output(name)) return args.wrong("names", name, "it is an output, too; remove_outputs first");
    if (const std::string reader = reader_of(work.graph(), name); !reader.empty())
      return args.wrong("names", name, fmt::format("it is read by {}; zero_inputs gives it a value", reader));
    work.drop_input(name);
  }
  return absl::OkStatus();
}

absl::Status remove_outputs(Work& work, const Arguments& args) {
  for (const std::string& name : args.texts("names")) {
    if (!work.output(name)) return no_output(work, "names", name, args);
    if (work.graph().outputs.size() == 1) return args.wrong("names", name, "it is the last output; a model needs one");
    work.drop_output(name);
  }
  std::unordered_set<std::string> kept;
  for (const ValueInfo& v : work.graph().inputs) kept.insert(v.name);
  erase_unread(work.graph(), kept);
  const auto left = defined_names(work.graph());
  std::erase_if(work.graph().value_info, [&](const ValueInfo& v) { return !left.contains(v.name); });
  return absl::OkStatus();
}

absl::Status add_inputs(Work& work, const Arguments& args) {
  const std::optional<DType> dtype = parse_dtype(args.text("dtype"));
  for (const auto& [name, dims] : args.all()["shapes"].items()) {
    if (work.fresh.taken(name)) return args.wrong("shapes", name, "a value has this name; take another");
    ValueInfo info{name, {ValueType::Kind::kTensor, *dtype, std::vector<DimSpec>(), nullptr}, nullptr};
    for (const auto& dim : dims)
      info.type.shape->push_back(dim.is_string() ? DimSpec(dim.get<std::string>()) : DimSpec(dim.get<std::int64_t>()));
    work.fresh.take(name);
    work.ties.inputs[name] = {name, {}};  // the original gets it, too
    work.ties.added.push_back(info);
    work.graph().inputs.push_back(std::move(info));
  }
  return absl::OkStatus();
}

absl::Status expose(Work& work, const Arguments& args) { return expose_values(work, args.texts("values"), "values", args); }

absl::Status expose_nodes(Work& work, const Arguments& args) {
  std::vector<std::string> values;
  for (const std::string& name : args.texts("names")) {
    const Node* node = find_node(work.graph(), name);
    if (!node) return no_node(work, "names", name, args);
    for (const std::string& made : node->outputs)
      if (!made.empty()) values.push_back(made);
  }
  return expose_values(work, values, "names", args);
}

absl::Status expose_all(Work& work, const Arguments& args) {
  const auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  std::vector<std::string> values;
  for (const Node& node : work.graph().nodes)
    for (const std::string& made : node.outputs)
      if (!made.empty() && !work.ties.value_of(made).empty() && info_with_rank(work.graph(), made, *types)) values.push_back(made);
  return expose_values(work, values, "values", args);
}

absl::Status expose_quantized(Work& work, const Arguments& args) {
  const std::string name = args.text("output");
  if (!work.output(name)) return no_output(work, "output", name, args);
  const auto& nodes = work.graph().nodes;
  const auto maker = std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) { return !n.outputs.empty() && n.outputs[0] == name; });
  if (maker == nodes.end() || maker->op_type != "DequantizeLinear" || maker->inputs.size() < 2)
    return args.wrong("output", name, "no DequantizeLinear makes it");
  std::vector<std::string> values = maker->inputs;
  std::erase(values, "");
  for (const std::string& value : values)
    if (work.input(value)) return args.wrong("output", name, fmt::format("its '{}' is an input of the model", value));
  const auto at = static_cast<std::ptrdiff_t>(work.output(name) - work.graph().outputs.data());
  if (absl::Status s = expose_values(work, values, "output", args); !s.ok()) return s;
  // The quantized values take the place of the floats; scale and zero point stand at the end.
  auto& outputs = work.graph().outputs;
  const auto quantized = std::find_if(outputs.begin(), outputs.end(), [&](const ValueInfo& v) { return v.name == values[0]; });
  outputs[static_cast<std::size_t>(at)] = *quantized;
  outputs.erase(quantized);
  work.ties.outputs.erase(name);
  erase_unread(work.graph(), [&] {
    std::unordered_set<std::string> kept;
    for (const ValueInfo& v : work.graph().inputs) kept.insert(v.name);
    return kept;
  }());
  return absl::OkStatus();
}

absl::Status zero_inputs(Work& work, const Arguments& args) {
  for (const std::string& name : args.texts("names")) {
    const ValueInfo* found = work.input(name);
    if (!found) return no_input(work, "names", name, args);
    if (work.output(name)) return args.wrong("names", name, "it is an output, too; remove_outputs first");
    if (work.initializer(name)) return args.wrong("names", name, "it has a default; freeze makes it a constant");
    const ValueInfo info = *found;
    const Tie tie = work.ties.inputs.at(name);
    const std::string zeros = work.fresh(name + "_zeros");
    const auto [nodes, refusal] = zeros_like(work, info.type, name, zeros);
    if (!refusal.empty()) return args.wrong("names", name, refusal);
    if (tie.original.empty() || !tie.views.empty()) return args.wrong("names", name, "another pass has changed its values; zero it first");
    rename_values(work.graph(), {{name, zeros}}, work.fresh);
    ValueInfo& input = *find_named(work.graph().inputs, zeros);
    input.name = name;
    const bool is_constant = nodes.size() == 1;
    work.ties.held[tie.original] = {{View::Kind::kZeros, info.type.dtype}};
    if (is_constant) work.drop_input(name);
    work.graph().nodes.insert(work.graph().nodes.begin(), nodes.begin(), nodes.end());
  }
  return absl::OkStatus();
}

absl::Status zero_node_input(Work& work, const Arguments& args) {
  const std::string name = args.text("node");
  Node* node = find_node(work.graph(), name);
  if (!node) return no_node(work, "node", name, args);
  const auto index = static_cast<std::size_t>(args.whole("input"));
  if (index >= node->inputs.size() || node->inputs[index].empty())
    return args.wrong("input", fmt::format("{}", index), fmt::format("the node has {} inputs, counted from 0", node->inputs.size()));
  const auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  const auto type = types->find(node->inputs[index]);
  if (type == types->end()) return args.wrong("input", node->inputs[index], "its type can't be inferred");
  const std::string zeros = work.fresh(name + "_zeros");
  const auto [nodes, refusal] = zeros_like(work, type->second, node->inputs[index], zeros);
  if (!refusal.empty()) return args.wrong("input", node->inputs[index], refusal);
  node->inputs[index] = zeros;
  work.graph().nodes.insert(work.graph().nodes.begin() + (node - work.graph().nodes.data()), nodes.begin(), nodes.end());
  return absl::OkStatus();
}

absl::Status initializers_to_inputs(Work& work, const Arguments& args) {
  for (const std::string& name : args.texts("names")) {
    const Initializer* initializer = work.initializer(name);
    if (!initializer)
      return args.wrong("names", name, "the main graph has no such initializer; constants_to_initializers makes some of Constants");
    if (initializer->sparse) return args.wrong("names", name, "it is sparse, and inputs are not");
    if (work.ties.value_of(name).empty()) return args.wrong("names", name, "another pass has made it; call this one before");
    if (work.output(name)) return args.wrong("names", name, "it is an output, too; put an Identity between");
    if (args.flag("default") && work.model.ir_version < kFirstWithDefaults)
      return args.wrong("default", "true",
                        fmt::format("defaults of inputs need IR version {}, this is {}", kFirstWithDefaults, work.model.ir_version));
    if (!work.input(name)) {
      ValueInfo info{name, {ValueType::Kind::kTensor, initializer->tensor.dtype(), std::vector<DimSpec>(), nullptr}, nullptr};
      info.type.shape->assign(initializer->tensor.dims().begin(), initializer->tensor.dims().end());
      work.graph().inputs.push_back(std::move(info));
      work.ties.inputs[name] = {work.ties.value_of(name), {}};
    }
    if (!args.flag("default")) std::erase_if(work.graph().initializers, [&](const Initializer& i) { return i.name == name; });
  }
  return absl::OkStatus();
}

absl::Status freeze(Work& work, const Arguments& args) {
  std::vector<std::string> names = args.texts("names");
  // Before that version of the IR all initializers are inputs and none is a default: there is one way of being apart for all.
  if (names.empty() || work.model.ir_version < kFirstWithDefaults) {
    for (const ValueInfo& input : work.graph().inputs)
      if (work.initializer(input.name) && std::find(names.begin(), names.end(), input.name) == names.end()) names.push_back(input.name);
  }
  for (const std::string& name : names) {
    if (!work.input(name)) return no_input(work, "names", name, args);
    if (!work.initializer(name)) return args.wrong("names", name, "it has no default; zero_inputs gives it a value");
    work.freeze(name);
  }
  if (!names.empty()) work.model.ir_version = std::max<std::int64_t>(work.model.ir_version, kFirstWithDefaults);
  return absl::OkStatus();
}

}  // namespace saturate::passes
