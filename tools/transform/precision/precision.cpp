#include "tools/transform/precision/precision.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "fmt/format.h"
#include "kernels/inputs/types.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/graph/floats.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/node_order.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_questions.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/edit.h"
#include "tools/transform/precision/exact_nodes.h"

namespace saturate {

std::string label(const Node& node) {
  const std::string made = first_output(node);
  return made.empty() ? node.name : made;
}

namespace {

// Whether the type of its result is named by the node, or hangs on what it reads in a way that the schema's types don't say.
bool is_typed_otherwise(const Node& node, const OpSchema& schema) {
  if (node.domain == "ai.onnx.ml") return true;  // attributes are of the inputs' type
  return types_its_result(schema) || (node.domain.empty() && one_of(node.op_type, {"CastLike", "DequantizeLinear"}));
}

bool is_called(const Node& node, const std::string& name) {
  return qualified_name(node.domain, node.op_type) == name || node.name == name || label(node) == name;
}

// Inputs and outputs of a node that become halves together, by place.
struct Places {
  std::vector<bool> inputs, outputs;
  bool any() const { return std::find(inputs.begin(), inputs.end(), true) != inputs.end(); }
};

// The types of an operator that are float here and may be the other one, as its schema says. A type that no input has is named by an
// attribute, and stays.
Places convertible(const Node& node, const OpSchema& schema, const KnownTypes& types, DType to) {
  Places out{std::vector<bool>(node.inputs.size()), std::vector<bool>(node.outputs.size())};
  for (const OpSchema::TypeConstraint& type : schema.constraints) {
    if (!type.allows(to)) continue;
    std::vector<std::size_t> read;
    bool all_floats = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const OpSchema::Formal* formal = formal_at(schema.inputs, i);
      if (!formal || formal->type != type.name || node.inputs[i].empty()) continue;
      read.push_back(i);
      all_floats &= types.is_float(node.inputs[i]);
    }
    if (read.empty() || !all_floats) continue;
    for (const std::size_t i : read) out.inputs[i] = true;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (const OpSchema::Formal* formal = formal_at(schema.outputs, i); formal && formal->type == type.name && !node.outputs[i].empty())
        out.outputs[i] = true;
  }
  return out;
}

Node cast_node(const std::string& from, const std::string& to, DType dtype) {
  return make_node("Cast", {from}, to, {Attribute::of("to", static_cast<std::int64_t>(dtype))});
}

class Converter {
 public:
  Converter(const Model& model, const std::map<std::string, ValueType>& types, const PrecisionOptions& options, HalfWeights& weights)
      : model_(model), options_(options), types_(types), fresh_(model.graph), weights_(weights) {
    out_.model = model;
    for (const Initializer& i : model.graph.initializers)
      if (!i.sparse) constants_.emplace(i.name, &i.tensor);
    for (const ValueInfo& input : model.graph.inputs) constants_.erase(input.name);  // a default that may be replaced
    for (const Node& node : model.graph.nodes)
      if (const Attribute* value = find_attribute(node.attributes, "value"); node.op_type == "Constant" && value)
        if (const auto* tensor = std::get_if<Tensor>(&value->value)) constants_.emplace(node.outputs.at(0), tensor);
  }

  Precision run() && {
    const auto is_listed = [&](const Node& node) { return listed(options_.keep, node); };
    exact_ = exact_nodes({model_.graph, types_, constants_, options_.to, is_listed}, weights_);
    if (options_.interface) change_interface();
    std::vector<Node>& nodes = out_.model.graph.nodes;
    nodes.clear();
    nodes.reserve(model_.graph.nodes.size());
    for (const Node& node : model_.graph.nodes) {
      std::string why;
      const Places places = places_of(node, why);
      if (places.any()) {
        convert(node, places);
        continue;
      }
      if (!why.empty()) out_.kept.emplace(label(node), why);
      keep(node);
    }
    for (const ValueInfo& output : model_.graph.outputs)
      out_.singles.contains(output.name) ? need_half(output.name) : need_single(output.name);
    erase_unread(out_.model.graph, {});
    describe_halves();
    out_.casts = static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [](const Node& n) { return is_operator(n, "Cast"); }));
    return std::move(out_);
  }

 private:
  static bool listed(const std::set<std::string>& names, const Node& node) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return is_called(node, name); });
  }

  // Inputs and outputs are halves, and what was their float gets another name.
  void change_interface() {
    Graph& graph = out_.model.graph;
    for (auto* list : {&graph.inputs, &graph.outputs})
      for (ValueInfo& value : *list) {
        if (!types_.is_float(value.name)) continue;
        value.type.dtype = options_.to;
        if (out_.singles.try_emplace(value.name, fresh_(value.name + "_float")).second) out_.halves.emplace(value.name, value.name);
      }
    for (const ValueInfo& input : graph.inputs) {
      if (!out_.singles.contains(input.name)) continue;
      only_half_.insert(input.name);
      made_half_.insert(input.name);
      if (Initializer* value = find_named(graph.initializers, input.name))
        *value = {input.name, weights_.half_of(value->tensor), nullptr, false};
    }
    for (Initializer& i : graph.initializers)
      if (!find_named(graph.inputs, i.name)) i.name = single_name(i.name);
    std::erase_if(graph.value_info, [&](const ValueInfo& v) { return out_.singles.contains(v.name); });
  }

  bool touches_floats(const Node& node) const {
    const auto is_float = [&](const std::string& value) { return types_.is_float(value); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is_float) || std::any_of(node.outputs.begin(), node.outputs.end(), is_float);
  }

  // Whether the constant has numbers that the type has not; where all are near 0, as an epsilon, they must not become 0.
  bool has_beyond(const Tensor& tensor) const {
    if (tensor.dtype() != DType::kFloat) return false;
    const HalfWeights::Reach reach = weights_.reach_of(tensor);
    return is_near_zero(tensor, options_.to, weights_) ||
           (!options_.any_size && std::max(reach.above, reach.below) > largest_number(options_.to));
  }

  // Whether it reads or makes numbers that the type has not.
  bool reads_beyond(const Node& node) const {
    const auto is_beyond = [&](const std::string& value) { return options_.large.contains(value) || options_.tiny.contains(value); };
    if (options_.large_inside.contains(label(node)) || std::any_of(node.outputs.begin(), node.outputs.end(), is_beyond)) return true;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& read) {
      const auto it = constants_.find(read);
      return is_beyond(read) || (it != constants_.end() && has_beyond(*it->second));
    });
  }

  // Empty where the node stays in float: `why`, where it has floats at all.
  Places places_of(const Node& node, std::string& why) const {
    if (!touches_floats(node) || node.op_type == "Constant") return {};
    const OpSchema* schema = find_schema(node.domain, node.op_type, model_.opset(node.domain));
    Places places;
    if (has_body(node.attributes)) {
      why = "it has bodies";
    } else if (!schema || called_function(model_, node)) {
      why = "a function of the model, or no schema";
    } else if (is_typed_otherwise(node, *schema)) {
      why = "the result has a type of its own";
    } else if (listed(options_.keep, node)) {
      why = "on the list";
    } else if (options_.floats.contains(label(node))) {
      why = "for the error";
    } else if (const auto exact = exact_.find(&node); exact != exact_.end()) {
      why = exact->second;
    } else if (const Attribute* stash = find_attribute(node.attributes, "stash_type"); stash && stash->i() != 1) {
      why = "it would add up in half precision";
    } else if (reads_beyond(node)) {
      why = "numbers beyond the type";
    } else if (!types_.all_known(node)) {
      why = "no tensor, or a type that is not known";
    } else {
      places = convertible(node, *schema, types_, options_.to);
      if (!places.any()) why = "no such type in the schema";
    }
    return places;
  }

  void cast(const std::string& from, const std::string& to, DType dtype) {
    out_.model.graph.nodes.push_back(cast_node(from, to, dtype));
    out_.model.graph.nodes.back().name = fresh_("cast_" + to);
  }

  const std::string& single_name(const std::string& value) const {
    const auto it = out_.singles.find(value);
    return it == out_.singles.end() ? value : it->second;
  }

  // The float of a value that only a half was made of so far.
  const std::string& need_single(const std::string& value) {
    const std::string& single = single_name(value);
    if (only_half_.erase(value) > 0) cast(out_.halves.at(value), single, DType::kFloat);
    return single;
  }

  // What was known of a value is told of its half: runtimes infer less than a model may say.
  void describe_halves() {
    const auto there = defined_names(out_.model.graph);
    std::vector<ValueInfo>& infos = out_.model.graph.value_info;
    for (const ValueInfo& info : model_.graph.value_info) {
      const auto half = out_.halves.find(info.name);
      if (half == out_.halves.end() || types_.of(half->second) == options_.to || !there.contains(half->second)) continue;
      if (find_named(out_.model.graph.inputs, half->second) || find_named(out_.model.graph.outputs, half->second)) continue;
      ValueInfo& told = infos.emplace_back(info);
      told.name = half->second;
      told.type.dtype = options_.to;
      told.origin = nullptr;
    }
    std::erase_if(infos, [&](const ValueInfo& info) { return !there.contains(info.name); });
  }

  std::string name_of_half(const std::string& value) { return fresh_(value + (options_.to == DType::kFloat16 ? "_float16" : "_bfloat16")); }

  // The half of a value of which there may only be a float.
  const std::string& need_half(const std::string& value) {
    if (!made_half_.insert(value).second) return out_.halves.at(value);
    const auto source = cast_of_.find(value);
    if (source != cast_of_.end() && !out_.singles.contains(value)) {
      if (types_.is_float(source->second)) return out_.halves[value] = need_half(source->second);
      if (types_.of(source->second) == options_.to) return out_.halves[value] = source->second;
    }
    const std::string& half = out_.halves.try_emplace(value, name_of_half(value)).first->second;
    const auto constant = constants_.find(value);
    if (constant == constants_.end()) {
      cast(source != cast_of_.end() ? single_name(source->second) : single_name(value), half, options_.to);
    } else {
      out_.model.graph.initializers.push_back({half, weights_.half_of(*constant->second), nullptr, false});
    }
    return half;
  }

  // A Cast reads the half where the float would be made of it; the half of what it makes of a half as float is that half.
  bool keep_cast(const Node& from) {
    if (!from.domain.empty() || from.op_type != "Cast" || !made_half_.contains(from.inputs[0])) return false;
    Node node = from;
    const std::string half = out_.halves.at(from.inputs[0]);
    if (only_half_.contains(from.inputs[0])) node.inputs[0] = half;
    const std::string& made = from.outputs[0];
    if (types_.is_float(made) && !out_.singles.contains(made)) {
      out_.halves.emplace(made, half);
      made_half_.insert(made);
    }
    node.outputs[0] = single_name(made);
    out_.model.graph.nodes.push_back(std::move(node));
    return true;
  }

  // The half of what a Cast makes a float is made of what the Cast reads.
  void remember_cast(const Node& from) {
    if (!from.domain.empty() || !one_of(from.op_type, {"Cast", "CastLike"}) || !types_.is_float(from.outputs[0])) return;
    const DType read = types_.of(from.inputs[0]);
    if (!is_integer(read) && read != DType::kBool && read != DType::kFloat && read != DType::kDouble && read != options_.to) return;
    cast_of_.emplace(from.outputs[0], from.inputs[0]);
    if (const auto it = constants_.find(from.inputs[0]); it != constants_.end() && read == DType::kFloat)
      constants_.emplace(from.outputs[0], it->second);
  }

  // A node as it is, with the floats that it and its bodies read.
  void keep(const Node& from) {
    if (keep_cast(from)) return;
    remember_cast(from);
    Node node = from;
    std::map<std::string, std::string> renamed;
    for (const std::string& read : names_read(from))
      if (const std::string& single = need_single(read); single != read) renamed.emplace(read, single);
    for (auto* list : {&node.inputs, &node.outputs})
      for (std::string& name : *list)
        if (!name.empty()) name = single_name(name);
    if (!renamed.empty())
      for (Attribute& a : node.attributes) {
        if (auto* one = std::get_if<std::shared_ptr<const Graph>>(&a.value)) *one = rename_captures(**one, renamed);
        if (auto* many = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
          for (auto& body : *many) body = rename_captures(*body, renamed);
      }
    out_.model.graph.nodes.push_back(std::move(node));
  }

  void convert(const Node& from, const Places& places) {
    Node node = from;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty()) node.inputs[i] = places.inputs[i] ? need_half(from.inputs[i]) : need_single(from.inputs[i]);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& made = from.outputs[i];
      if (made.empty()) continue;
      if (!places.outputs[i]) {
        node.outputs[i] = single_name(made);
        continue;
      }
      only_half_.insert(made);
      made_half_.insert(made);
      node.outputs[i] = out_.halves.try_emplace(made, name_of_half(made)).first->second;
    }
    keep_softmax_in_float(node);
    out_.converted.push_back(label(from));
    out_.model.graph.nodes.push_back(std::move(node));
  }

  // Attention says in what its Softmax works (ai.onnx 23).
  void keep_softmax_in_float(Node& node) const {
    const OpSchema* schema = find_schema(node.domain, node.op_type, model_.opset(node.domain));
    if (!schema->attribute("softmax_precision") || find_attribute(node.attributes, "softmax_precision")) return;
    node.attributes.push_back(Attribute::of("softmax_precision", static_cast<std::int64_t>(DType::kFloat)));
    node.origin = nullptr;
  }

  const Model& model_;
  const PrecisionOptions& options_;
  KnownTypes types_;
  FreshNames fresh_;
  HalfWeights& weights_;
  Constants constants_;
  ExactNodes exact_;
  std::unordered_map<std::string, std::string> cast_of_;  // by float that a Cast of the model makes, what it is made of
  std::unordered_set<std::string> only_half_;             // values whose float is not made so far
  std::unordered_set<std::string> made_half_;             // values whose half is made
  Precision out_;
};

}  // namespace

bool names_something(const Model& model, const std::string& name) {
  return !name.empty() &&
         std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(), [&](const Node& node) { return is_called(node, name); });
}

std::unordered_set<std::string> compared_values(const Graph& graph) {
  std::unordered_set<std::string> out;
  for (const Node& node : graph.nodes) {
    const bool bounds = has(Trait::kSelection, node) && has(Trait::kIdempotent, node);  // Clip, Min, Max
    if ((!node.domain.empty() && node.domain != "com.microsoft") || has(Trait::kCompares, node) || bounds)
      out.insert(node.inputs.begin(), node.inputs.end());
  }
  return out;
}

Precision with_precision(const Model& model, const std::map<std::string, ValueType>& types, const PrecisionOptions& options,
                         HalfWeights& weights) {
  return Converter(model, types, options, weights).run();
}

}  // namespace saturate
