#include "onnx_bridge/convert/lower.h"

#include <algorithm>
#include <array>
#include <climits>
#include <set>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "onnx_bridge/convert/body_facts.h"
#include "onnx_bridge/convert/calls.h"
#include "onnx_bridge/convert/disputed.h"
#include "onnx_bridge/convert/flex_attention.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/file/sparse.h"
#include "onnx_bridge/file/text/model.h"
#include "onnx_bridge/model/function_index.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/random_nodes.h"
#include "onnx_bridge/opsets/canonical.h"

namespace saturate {
namespace {

constexpr int kMaxCallDepth = 32;
constexpr std::int64_t kMaxIterations = 16;      // of a Loop that is unrolled
constexpr std::size_t kMaxUnrolledNodes = 1024;  // and of nodes that this makes

using Scope = std::unordered_map<std::string, Id>;
using Opsets = std::map<std::string, std::int64_t>;

bool contains_random(const Graph& graph, int depth = 0) {
  for (const Node& node : graph.nodes) {
    if (may_draw(node)) return true;
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph && depth < 64 && contains_random(a.g(), depth + 1)) return true;
  }
  return false;
}

std::optional<Tensor> constant_value(const Node& node) {
  for (const Attribute& a : node.attributes) {
    if (!a.ref.empty()) return std::nullopt;
    const auto is = [&a](std::string_view name, const auto* value) { return a.name == name && value != nullptr; };
    const auto length = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
    if (const auto* t = std::get_if<Tensor>(&a.value); is("value", t)) return *t;
    if (const auto* f = std::get_if<float>(&a.value); is("value_float", f)) return Tensor::of<float>(DType::kFloat, {}, std::array{*f});
    if (const auto* i = std::get_if<std::int64_t>(&a.value); is("value_int", i)) return Tensor::scalar_int64(*i);
    if (const auto* s = std::get_if<std::string>(&a.value); is("value_string", s)) return Tensor::strings({}, {*s});
    if (const auto* i = std::get_if<std::vector<std::int64_t>>(&a.value); is("value_ints", i)) return Tensor::vector_int64(*i);
    if (const auto* f = std::get_if<std::vector<float>>(&a.value); is("value_floats", f))
      return Tensor::of<float>(DType::kFloat, {length(*f)}, *f);
    if (const auto* s = std::get_if<std::vector<std::string>>(&a.value); is("value_strings", s)) return Tensor::strings({length(*s)}, *s);
  }
  return std::nullopt;
}

// Dtype, rank and fixed dims of a declared type; names of dims inside a graph prove nothing, so they are dropped.
Facts declared_facts(ValueType type, DimTable& dims, const std::string& name) {
  if (type.shape)
    for (DimSpec& d : *type.shape)
      if (std::holds_alternative<std::string>(d)) d = std::monostate{};
  return facts_of_type(type, dims, name);
}

class Lowerer {
 public:
  Lowerer(const Model& model, OnnxEGraph& g, const LowerOptions& options)
      : model_(model), functions_(model.functions), g_(g), options_(options) {
    out_.model = &model;
  }

  absl::StatusOr<Lowered> run() {
    const Graph& graph = model_.graph;
    for (const auto& [name, value] : options_.captured) lower_captured(name, value);
    std::set<std::string> with_initializer, used;
    for (const Initializer& i : graph.initializers) with_initializer.insert(i.name);
    std::set<std::string> overridable;
    for (const ValueInfo& input : graph.inputs) {
      if (model_.ir_version < 4 && with_initializer.contains(input.name)) continue;
      const auto known = options_.inputs.find(input.name);
      const Facts facts = known == options_.inputs.end() ? facts_of_type(input.type, g_.dims(), input.name) : known->second;
      const auto name = options_.input_names.find(input.name);
      define(out_.values, input.name, g_.input(name == options_.input_names.end() ? input.name : name->second, facts));
      overridable.insert(input.name);
    }
    for (const Initializer& i : graph.initializers)
      if (!overridable.contains(i.name)) lower_initializer(i);
    for (const auto* declared : {&graph.value_info, &graph.outputs})
      for (const ValueInfo& v : *declared) declared_.emplace(v.name, &v.type);
    mark_used(graph, used);
    for (const Node& node : graph.nodes) {
      heed_stop();
      if (auto s = lower_node(node, model_.opset_imports, out_.values, used, true, 0); !s.ok()) return s;
    }
    for (const ValueInfo& output : graph.outputs) {
      auto it = out_.values.find(output.name);
      if (it == out_.values.end()) return absl::InvalidArgumentError(fmt::format("graph output '{}' is made by no node", output.name));
      out_.roots.push_back(it->second);
    }
    g_.egraph().rebuild();
    return std::move(out_);
  }

 private:
  void define(Scope& scope, const std::string& name, Id id) {
    scope[name] = id;
    if (&scope == &out_.values) out_.names[id].push_back(name);
  }

  std::string own_name(const std::string& name) const { return options_.model == 0 ? name : fmt::format("{} of {}", name, options_.model); }

  void lower_captured(const std::string& name, const Captured& value) {
    const Id id = value.constant ? g_.constant(*value.constant) : g_.input(name, value.facts);
    define(out_.values, name, id);
    if (value.constant) out_.captured_constants.emplace(leaf_op(id, kConstantOp), name);
  }

  void lower_initializer(const Initializer& i) {
    if (i.sparse) {
      define(out_.values, i.name, g_.input(own_name(i.name), facts_of_type(type_of_sparse(i), g_.dims(), i.name)));
      return;
    }
    const Id id = g_.constant(i.tensor);
    define(out_.values, i.name, id);
    out_.initializers.emplace(leaf_op(id, kConstantOp), &i);
  }

  OpId leaf_op(Id id, std::string_view op_type) const {
    for (NodeId n : g_.egraph().class_nodes(id))
      if (g_.key(g_.egraph().node(n).op).op_type == op_type) return g_.egraph().node(n).op;
    return kNone;
  }

  static void mark_used(const Graph& graph, std::set<std::string>& used) {
    for (const ValueInfo& o : graph.outputs) used.insert(o.name);
    for (const Node& node : graph.nodes) {
      used.insert(node.inputs.begin(), node.inputs.end());
      for (const Attribute& a : node.attributes)
        if (a.type == AttributeType::kGraph)
          for (const std::string& name : captured_names(a.g())) used.insert(name);
    }
  }

  // How many outputs the e-node has: all of a variadic operator, else up to the last one that is used or that the operator must have.
  int count_outputs(const Node& node, const std::set<std::string>& used) const {
    int last = 0;
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      if (used.contains(node.outputs[i]) && !node.outputs[i].empty()) last = i;
    const OpSchema* schema = find_schema(node.domain, node.op_type, node.domain.empty() ? kNewestOpset : INT_MAX);
    const bool fixed = schema && !(schema->outputs.empty() || schema->outputs.back().variadic);
    const int given = static_cast<int>(node.outputs.size());
    return std::max(1, fixed ? std::max(last + 1, std::min(schema->min_outputs, given)) : given);
  }

  absl::StatusOr<std::vector<Id>> inputs_of(const Node& node, const Scope& scope) {
    std::vector<Id> ids;
    for (const std::string& name : node.inputs) {
      if (name.empty()) {
        ids.push_back(g_.absent());
        continue;
      }
      auto it = scope.find(name);
      if (it == scope.end())
        return absl::InvalidArgumentError(fmt::format("node '{}' ({}): input '{}' is defined nowhere", node.name, node.op_type, name));
      ids.push_back(it->second);
    }
    return ids;
  }

  // Numbers of inputs and outputs and types of attributes: what reads them relies on these.
  // In a body a call may leave out what an operator must have.
  absl::Status check_form(const Node& node, std::int64_t opset, const std::vector<Id>& inputs, bool in_body) {
    for (const Attribute& a : node.attributes)
      if (!a.ref.empty())
        return absl::InvalidArgumentError(
            fmt::format("node '{}' ({}): attribute '{}' refers to attribute '{}' of a function, but is in none", node_name(node),
                        node.op_type, a.name, a.ref));
    const OpSchema* schema = find_schema(node.domain, node.op_type, node.domain.empty() ? opset : INT_MAX);
    if (schema == nullptr || functions_.has(node.domain, node.op_type)) return absl::OkStatus();
    const int given = static_cast<int>(node.inputs.size());
    if (given < schema->min_inputs || given > schema->max_inputs)
      return absl::InvalidArgumentError(fmt::format("node '{}' ({}): has {} inputs, the operator takes {}", node_name(node), node.op_type,
                                                    given, number_range(schema->min_inputs, schema->max_inputs)));
    for (std::size_t i = 0; in_body && i < std::min(schema->inputs.size(), inputs.size()); ++i)
      if (!schema->inputs[i].optional && !schema->inputs[i].variadic && g_.facts(inputs[i]).kind == Facts::Kind::kAbsent)
        return absl::InvalidArgumentError(fmt::format("node '{}' ({}): input {} is missing", node_name(node), node.op_type, i));
    if (const int outputs = static_cast<int>(node.outputs.size()); outputs < schema->min_outputs)
      return absl::InvalidArgumentError(fmt::format("node '{}' ({}): has {} outputs, the operator makes at least {}", node_name(node),
                                                    node.op_type, outputs, schema->min_outputs));
    for (const Attribute& a : node.attributes) {
      const OpAttribute* declared = schema->attribute(a.name);
      if (declared == nullptr || declared->type == a.type) continue;
      return absl::InvalidArgumentError(fmt::format("node '{}' ({}): attribute '{}' is of type {}, the operator takes {}", node_name(node),
                                                    node.op_type, a.name, attribute_type_name(a.type),
                                                    attribute_type_name(declared->type)));
    }
    return absl::OkStatus();
  }

  static std::string number_range(int low, int high) {
    if (high == INT_MAX) return fmt::format("at least {}", low);
    return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
  }

  static const std::string& node_name(const Node& node) { return node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name; }

  absl::Status lower_node(const Node& node, const Opsets& opsets, Scope& scope, const std::set<std::string>& used, bool top, int depth) {
    auto inputs = inputs_of(node, scope);
    if (!inputs.ok()) return inputs.status();
    auto opset = opsets.find(node.domain);
    const std::int64_t version = opset == opsets.end() ? 1 : opset->second;
    if (auto s = check_form(node, version, *inputs, !top); !s.ok()) return s;
    Source source{&node, kNone, *inputs, {}, {}, {}};
    const bool is_constant = node.domain.empty() && node.op_type == "Constant" && node.outputs.size() == 1;
    if (node.domain.empty() && node.op_type == "Identity" && inputs->size() == 1 && node.outputs.size() == 1) {
      define(scope, node.outputs[0], (*inputs)[0]);
      source.outputs = {(*inputs)[0]};
    } else if (auto value = is_constant ? constant_value(node) : std::nullopt) {
      const Id id = g_.constant(*value);
      define(scope, node.outputs[0], id);
      source.outputs = {id};
      if (top) out_.constant_nodes.emplace(leaf_op(id, kConstantOp), &node);
    } else {
      if (auto s = lower_operator(node, version, scope, used, source, depth); !s.ok()) return s;
    }
    if (const std::string error = g_.take_type_error(); !error.empty())
      return absl::InvalidArgumentError(fmt::format("node '{}' ({}) cannot run on its inputs: {}", node_name(node), node.op_type, error));
    if (top) {
      if (source.op != kNone) out_.by_op[source.op].push_back(out_.sources.size());
      out_.sources.push_back(std::move(source));
    } else {
      out_.inlined.emplace_back(out_.sources.size(), std::move(source));
    }
    return absl::OkStatus();
  }

  // A node that is told not to (training_mode is known to be false) does not.
  bool draws(const Node& node, const Scope& scope) const {
    if (!may_draw(node)) return false;
    const auto place = training_input(node);
    const auto it = place ? scope.find(node.inputs[*place]) : scope.end();
    const auto training = it == scope.end() ? std::nullopt : g_.value(it->second);
    return !training || training->size() != 1 || element_as_int(*training, 0) != 0;
  }

  absl::Status lower_operator(const Node& node, std::int64_t opset, Scope& scope, const std::set<std::string>& used, Source& source,
                              int depth) {
    const int outputs = count_outputs(node, used);
    const Function* function = functions_.called(node);
    std::optional<Canonical> canonical;
    std::vector<const Facts*> facts;
    const auto dispute = disputed(g_, node, source.inputs, opset);
    if (dispute) out_.disputes.emplace_back(&node, *dispute);
    const bool random = (dispute && options_.disputes_are_unique) || draws(node, scope);
    if (!function && !has_body(node.attributes) && !random && !dispute) {
      std::vector<Facts> copies;  // facts move when e-nodes are added
      for (Id id : source.inputs) copies.push_back(g_.facts(id));
      for (const Facts& f : copies) facts.push_back(&f);
      canonical = to_canonical(node, opset, facts, g_.dims(), fmt::format("{}/c", node.outputs.empty() ? node.name : node.outputs[0]));
    }
    if (canonical && canonical->nodes.size() == 1 && !is_training(canonical->nodes[0], source.inputs)) {
      const absl::Status lowered = lower_canonical_single(canonical->nodes[0], *canonical, node, outputs, scope, source);
      return lowered.ok() && is_flex_attention(node) ? unite_attention(node, scope, source, depth) : lowered;
    }
    const bool kept = function && options_.kept.contains({node.domain, node.op_type});
    if (kept) return lower_kept(*function, node, opset, outputs, scope, source);
    if (!random && is_named(node)) {
      lower_named(node, outputs, scope, source);
    } else {
      lower_opaque(node, opset, outputs, scope, source, random || is_training(node, source.inputs));
    }
    if (canonical && canonical->nodes.size() > 1) return unite_expansion(*canonical, node, outputs, source);
    if (function && options_.inline_functions && depth < kMaxCallDepth) return unite_body(*function, node, source, depth);
    if (node.domain.empty() && node.op_type == "If" && depth < kMaxCallDepth) return unite_branch(node, scope, source, depth);
    if (is_flex_attention(node)) return unite_attention(node, scope, source, depth);
    if (node.domain.empty() && node.op_type == "Loop" && depth < kMaxCallDepth) return unite_iterations(node, scope, source, depth);
    return absl::OkStatus();
  }

  // Dropout in training mode draws random numbers.
  bool is_training(const Node& node, const std::vector<Id>& inputs) const {
    if (!node.domain.empty() || node.op_type != "Dropout" || inputs.size() < 3) return false;
    const Facts& f = g_.facts(inputs[2]);
    if (f.kind == Facts::Kind::kAbsent) return false;
    const auto v = g_.value(inputs[2]);
    return !v || element_as_int(*v, 0).value_or(1) != 0;
  }

  void add_outputs(const OpKey& key, std::span<const Id> children, const Node& node, Scope& scope, Source& source) {
    const Id id = g_.add(key, children);
    source.op = g_.op(key);
    source.children.assign(children.begin(), children.end());
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
      if (node.outputs[i].empty() || i >= key.outputs) {
        source.outputs.push_back(kNone);
        continue;
      }
      const Id value = key.outputs == 1 ? id : g_.project(id, i);
      if (auto it = declared_.find(node.outputs[i]);
          it != declared_.end() && &scope == &out_.values && g_.facts(value).kind == Facts::Kind::kUnknown) {
        ++out_.known_by_declaration;
        if (options_.believes_types) g_.assume(value, believed_facts(node, i, *it->second, source));
      }
      source.outputs.push_back(value);
      define(scope, node.outputs[i], value);
    }
  }

  Facts believed_facts(const Node& node, int output, const ValueType& type, const Source& source) {
    std::vector<const Facts*> inputs;
    for (const Id id : source.inputs) inputs.push_back(&g_.facts(id));
    return believed_output(node, static_cast<std::size_t>(output), declared_facts(type, g_.dims(), node.outputs[output]), inputs,
                           g_.dims());
  }

  absl::Status lower_canonical_single(const Node& newest, const Canonical& canonical, const Node& node, int outputs, Scope& scope,
                                      Source& source) {
    Scope local;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) local[node.inputs[i]] = source.inputs[i];
    for (const Initializer& c : canonical.constants) local[c.name] = g_.constant(c.tensor);
    local[""] = g_.absent();
    std::vector<Id> children;
    for (const std::string& name : newest.inputs) {
      if (!local.contains(name))
        return absl::InternalError(fmt::format("canonical form of {} names unknown input '{}'", node.op_type, name));
      children.push_back(local[name]);
    }
    const OpKey key{newest.domain, newest.op_type, newest.overload, newest.attributes, outputs, 0, 0};
    add_outputs(key, children, node, scope, source);
    return absl::OkStatus();
  }

  void lower_opaque(const Node& node, std::int64_t opset, int outputs, Scope& scope, Source& source, bool impure) {
    // A function of the model's own with the name of an operator is no such operator: whatever knows the operator must not take it for one.
    const bool shadows = functions_.called(node) != nullptr && !schema_versions(node.domain, node.op_type).empty();
    OpKey key{shadows ? "own functions" : node.domain,
              node.op_type,
              functions_.called(node) ? own_name(node.overload) : node.overload,
              node.attributes,
              outputs,
              std::max<std::int64_t>(opset, 1),
              0};
    std::sort(key.attributes.begin(), key.attributes.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const Attribute& a : node.attributes) {
      if (a.type != AttributeType::kGraph) continue;
      impure = impure || contains_random(a.g());
      for (const std::string& name : captured_names(a.g()))
        if (std::find(source.captures.begin(), source.captures.end(), name) == source.captures.end()) source.captures.push_back(name);
    }
    for (const std::string& name : source.captures) {
      auto it = scope.find(name);
      source.inputs.push_back(it == scope.end() ? g_.absent() : it->second);
    }
    if (impure) key.unique = ++unique_ + (std::int64_t{options_.model} << 32);
    add_outputs(key, source.inputs, node, scope, source);
  }

  // Whether rules may match the node as the operator of its name: with attributes that they can say.
  bool is_named(const Node& node) const {
    const auto is_said = [](const Attribute& a) {
      return a.value.index() != 0 && a.type != AttributeType::kGraph && a.type != AttributeType::kGraphs;
    };
    return node.overload.empty() && options_.named.contains({node.domain, node.op_type}) &&
           std::all_of(node.attributes.begin(), node.attributes.end(), is_said);
  }

  // As rules write it: attributes with their defaults, and every output that the operator is defined with.
  void lower_named(const Node& node, int outputs, Scope& scope, Source& source) {
    const OpSchema* schema = g_.defined() ? g_.defined()->schema(node.domain, node.op_type) : nullptr;
    if (schema) outputs = std::max(schema->max_outputs, outputs);
    add_outputs(make_key(schema, node.domain, node.op_type, node.attributes, outputs, std::nullopt), source.inputs, node, scope, source);
  }

  // A call that stays one.
  absl::Status lower_kept(const Function& function, const Node& node, std::int64_t opset, int outputs, Scope& scope, Source& source) {
    lower_opaque(node, opset, outputs, scope, source, draws_numbers(function));
    const std::vector<Facts> known = facts_of_call(model_, function, node, g_, source.inputs, options_.kept);
    for (std::size_t i = 0; i < std::min(known.size(), source.outputs.size()); ++i)
      if (source.outputs[i] != kNone) g_.assume(source.outputs[i], known[i]);
    return absl::OkStatus();
  }

  bool draws_numbers(const Function& function) {
    const auto [known, is_new] = draws_.try_emplace(&function, false);
    if (!is_new) return known->second;
    return known->second = std::any_of(function.nodes.begin(), function.nodes.end(), [&](const Node& n) {
             const auto in_body = [](const Attribute& a) { return a.type == AttributeType::kGraph && contains_random(a.g()); };
             const Function* inner = functions_.called(n);
             return may_draw(n) || std::any_of(n.attributes.begin(), n.attributes.end(), in_body) || (inner && draws_numbers(*inner));
           });
  }

  // One e-node a canonical node, its outputs joined with those of the original.
  absl::Status unite_expansion(const Canonical& canonical, const Node& node, int outputs, const Source& source) {
    Scope local;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) local[node.inputs[i]] = source.inputs[i];
    for (const Initializer& c : canonical.constants) local[c.name] = g_.constant(c.tensor);
    local[""] = g_.absent();
    for (const Node& part : canonical.nodes) {
      std::vector<Id> children;
      for (const std::string& name : part.inputs) {
        if (!local.contains(name)) return absl::InternalError(fmt::format("expansion of {} names unknown input '{}'", node.op_type, name));
        children.push_back(local[name]);
      }
      const int count = static_cast<int>(part.outputs.size());
      const Id id = g_.add({part.domain, part.op_type, part.overload, part.attributes, count, 0, 0}, children);
      for (int i = 0; i < count; ++i) local[part.outputs[i]] = count == 1 ? id : g_.project(id, i);
    }
    for (int i = 0; i < outputs && i < static_cast<int>(node.outputs.size()); ++i)
      if (source.outputs[i] != kNone && local.contains(node.outputs[i])) g_.egraph().merge(source.outputs[i], local[node.outputs[i]]);
    g_.egraph().rebuild();
    return absl::OkStatus();
  }

  absl::Status unite_body(const Function& function, const Node& call, const Source& source, int depth) {
    Scope local;
    for (std::size_t i = 0; i < function.inputs.size(); ++i)
      local[function.inputs[i]] = i < source.inputs.size() ? source.inputs[i] : g_.absent();
    std::set<std::string> used(function.outputs.begin(), function.outputs.end());
    for (const Node& node : function.nodes) used.insert(node.inputs.begin(), node.inputs.end());
    for (const Node& node : function.nodes) {
      heed_stop();
      // Bodies that draw random numbers, or hold subgraphs of which it is open what they do, stay calls.
      if (!function.opset_imports.contains(node.domain) && !functions_.called(node)) return absl::OkStatus();
      if (!lower_part(bind_attributes(node, call, function), function.opset_imports, local, used, depth)) return absl::OkStatus();
    }
    std::vector<Id> values;
    for (const std::string& output : function.outputs) {
      const auto it = local.find(output);
      values.push_back(it == local.end() ? kNone : it->second);
    }
    unite_outputs(source, values);
    return absl::OkStatus();
  }

  static const Graph* graph_attribute(const Node& node, std::string_view name) {
    const Attribute* a = find_attribute(node.attributes, name);
    return a && a->type == AttributeType::kGraph ? &a->g() : nullptr;
  }

  // One node that is taken out of its body; false where it cannot be. An If is the branch that it is known to take.
  bool lower_part(Node part, const Opsets& opsets, Scope& local, const std::set<std::string>& used, int depth) {
    if (draws(part, local)) return false;
    out_.owned_nodes.push_back(std::make_shared<Node>(std::move(part)));
    const Node& node = *out_.owned_nodes.back();
    if (!has_body(node.attributes)) return lower_node(node, opsets, local, used, false, depth + 1).ok();
    if (is_flex_attention(node)) {
      const auto made = attention_of(node, local, opsets, depth + 1);
      if (made) define(local, node.outputs[0], *made);
      return made.has_value();
    }
    if (!node.domain.empty() || node.op_type != "If" || node.inputs.size() != 1 || depth >= kMaxCallDepth) return false;
    const auto condition = local.find(node.inputs[0]);
    const auto taken = condition == local.end() ? std::nullopt : truth(condition->second);
    const Graph* branch = taken ? graph_attribute(node, *taken ? "then_branch" : "else_branch") : nullptr;
    Scope inner = local;
    if (!branch || branch->outputs.size() < node.outputs.size() || !lower_inside(*branch, inner, opsets, depth + 1)) return false;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) define(local, node.outputs[i], inner.at(branch->outputs[i].name));
    return true;
  }

  // Lowers the nodes of a body into a scope that starts as what surrounds it; false where something in it cannot be taken out of it.
  bool lower_inside(const Graph& graph, Scope& local, const Opsets& opsets, int depth) {
    std::set<std::string> used;
    mark_used(graph, used);
    for (const Initializer& i : graph.initializers) {
      if (i.sparse) return false;
      local[i.name] = g_.constant(i.tensor);
    }
    for (const Node& node : graph.nodes)
      if (!lower_part(node, opsets, local, used, depth)) return false;
    return std::all_of(graph.outputs.begin(), graph.outputs.end(), [&](const ValueInfo& o) { return local.contains(o.name); });
  }

  // What a boolean of one element is known to be.
  std::optional<bool> truth(Id id) {
    g_.egraph().rebuild();
    const auto v = g_.facts(id).constant ? g_.value(id, 64) : std::nullopt;
    if (!v || v->dtype() != DType::kBool || v->size() != 1) return std::nullopt;
    return element_as_int(*v, 0) != 0;
  }

  void unite_outputs(const Source& source, const std::vector<Id>& values) {
    for (std::size_t i = 0; i < std::min(source.outputs.size(), values.size()); ++i)
      if (source.outputs[i] != kNone && values[i] != kNone) g_.egraph().merge(source.outputs[i], values[i]);
    g_.egraph().rebuild();
  }

  // An If whose condition is known is the branch that it takes.
  absl::Status unite_branch(const Node& node, const Scope& scope, const Source& source, int depth) {
    const auto taken = source.inputs.empty() ? std::nullopt : truth(source.inputs[0]);
    const Graph* branch = taken ? graph_attribute(node, *taken ? "then_branch" : "else_branch") : nullptr;
    Scope local = branch ? scope : Scope{};
    if (!branch || !lower_inside(*branch, local, model_.opset_imports, depth)) return absl::OkStatus();
    std::vector<Id> values;
    for (const ValueInfo& o : branch->outputs) values.push_back(local.at(o.name));
    unite_outputs(source, values);
    return absl::OkStatus();
  }

  // A Loop that runs a known, small number of times, whatever it computes, is its body so many times.
  absl::Status unite_iterations(const Node& node, const Scope& scope, const Source& source, int depth) {
    const Graph* body = graph_attribute(node, "body");
    if (!body || node.inputs.size() < 2 || body->inputs.size() != node.inputs.size()) return absl::OkStatus();
    if (body->outputs.size() + 1 != body->inputs.size()) return absl::OkStatus();  // outputs that are collected
    g_.egraph().rebuild();
    const Facts& limit_facts = g_.facts(source.inputs[0]);
    const auto limit = limit_facts.kind == Facts::Kind::kTensor && limit_facts.constant ? g_.value(source.inputs[0], 64) : std::nullopt;
    const auto times = limit && limit->size() == 1 ? element_as_int(*limit, 0) : std::nullopt;
    if (!times || *times > kMaxIterations ||
        static_cast<std::size_t>(std::max<std::int64_t>(*times, 0)) * body->nodes.size() > kMaxUnrolledNodes)
      return absl::OkStatus();
    // Without a condition the body's still ends the loop, in ONNX Runtime, the reference evaluator and here, though the specification has
    // it ignored.
    std::vector<Id> carried(source.inputs.begin() + 2, source.inputs.begin() + static_cast<std::ptrdiff_t>(node.inputs.size()));
    Id condition = !node.inputs[1].empty() ? source.inputs[1] : g_.constant(Tensor::of<bool>(DType::kBool, {}, std::array{true}));
    for (std::int64_t i = 0; i < *times; ++i) {
      heed_stop();
      const auto goes_on = truth(condition);
      if (!goes_on) return absl::OkStatus();
      if (!*goes_on) break;
      Scope local = scope;
      local[body->inputs[0].name] = g_.constant(Tensor::scalar_int64(i));
      local[body->inputs[1].name] = condition;
      for (std::size_t k = 0; k < carried.size(); ++k) local[body->inputs[k + 2].name] = carried[k];
      if (!lower_inside(*body, local, model_.opset_imports, depth)) return absl::OkStatus();
      condition = local.at(body->outputs[0].name);
      for (std::size_t k = 0; k < carried.size(); ++k) carried[k] = local.at(body->outputs[k + 1].name);
    }
    unite_outputs(source, carried);
    return absl::OkStatus();
  }

  // What a FlexAttention computes, with the nodes of the graphs that change its scores or probabilities inside.
  std::optional<Id> attention_of(const Node& node, Scope local, const Opsets& opsets, int depth) {
    std::array<Id, 3> sides{};
    for (std::size_t i = 0; i < sides.size(); ++i) {
      if (!local.contains(node.inputs[i])) return std::nullopt;
      sides[i] = local.at(node.inputs[i]);
    }
    const auto body = flex_attention_body(node, g_.facts(sides[0]), g_.facts(sides[1]), g_.dims(), opsets);
    if (!body || depth >= kMaxCallDepth || functions_.called(node)) return std::nullopt;
    for (std::size_t i = 0; i < sides.size(); ++i) local[body->kSides[i]] = sides[i];
    for (const auto& [name, value] : body->constants) local[name] = g_.constant(value);
    const auto lower_all = [&](const std::vector<Node>& nodes) {
      return std::ranges::all_of(nodes, [&](const Node& n) { return lower_part(n, opsets, local, {n.outputs[0]}, depth); });
    };
    const auto change = [&](const char* by, const char* value) {
      const Graph* graph = graph_attribute(node, by);
      if (!graph) return true;
      if (graph->inputs.size() != 1 || graph->outputs.size() != 1) return false;
      local[graph->inputs[0].name] = Id(local.at(value));
      if (!lower_inside(*graph, local, opsets, depth)) return false;
      local[value] = Id(local.at(graph->outputs[0].name));
      return true;
    };
    if (!lower_all(body->scores) || !change("score_mod", body->kScores) || !lower_all(body->probabilities)) return std::nullopt;
    if (!change("prob_mod", body->kProbabilities) || !lower_all(body->result)) return std::nullopt;
    return local.at(body->kResult);
  }

  absl::Status unite_attention(const Node& node, const Scope& scope, const Source& source, int depth) {
    if (const auto made = attention_of(node, scope, model_.opset_imports, depth)) unite_outputs(source, {*made});
    return absl::OkStatus();
  }

  const Model& model_;
  const FunctionIndex functions_;
  OnnxEGraph& g_;
  const LowerOptions& options_;
  Lowered out_;
  std::map<const Function*, bool> draws_;  // random numbers
  std::unordered_map<std::string, const ValueType*> declared_;
  std::int64_t unique_ = 0;
};

}  // namespace

std::vector<Id> node_signature(const EGraph& egraph, OpId op, std::span<const Id> children) {
  std::vector<Id> key{op};
  for (Id c : children) key.push_back(egraph.find(c));
  if (egraph.op(op).commutative) std::sort(key.begin() + 1, key.end());
  return key;
}

absl::flat_hash_set<std::vector<Id>> node_signatures(const EGraph& egraph, const Lowered& lowered) {
  absl::flat_hash_set<std::vector<Id>> out;
  for (const Source& s : lowered.sources)
    if (s.op != kNone) out.insert(node_signature(egraph, s.op, s.children));
  return out;
}

absl::StatusOr<Lowered> lower(const Model& model, OnnxEGraph& egraph, const LowerOptions& options) {
  return Lowerer(model, egraph, options).run();
}

}  // namespace saturate
