#include "extract/prepare/local_functions.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/calls.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/opsets/body_opset.h"
#include "rules/language/own_functions.h"

namespace saturate {
namespace {

// The bodies of an operator that a rule file defines as a function; null of others.
const StoredRules* function_of(const RuleSet& rules, const std::string& domain, const std::string& op_type) {
  if (domain.empty() || !is_of_own_domain(domain)) return nullptr;
  const StoredRules* bodies = rules.operators().bodies(domain, op_type);
  return bodies && bodies->front()->rule().function ? bodies : nullptr;
}

// Adds what nodes call, and what that calls.
class Adding {
 public:
  Adding(Model& model, const RuleSet& rules, std::int64_t opset) : model_(model), rules_(rules), opset_(opset) {}

  absl::Status run() {
    if (auto s = visit(model_.graph.nodes); !s.ok()) return s;
    for (std::size_t i = 0; i < model_.functions.size(); ++i) {  // grows
      std::vector<Node> nodes = model_.functions[i].nodes;
      if (auto s = visit(nodes); !s.ok()) return s;
      model_.functions[i].nodes = std::move(nodes);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status visit(std::vector<Node>& nodes) {
    for (Node& node : nodes) {
      for (Attribute& a : node.attributes) {
        if (a.type != AttributeType::kGraph || a.value.index() == 0) continue;
        auto body = std::make_shared<Graph>(a.g());
        if (auto s = visit(body->nodes); !s.ok()) return s;
        if (changes(a.g().nodes, body->nodes)) a.value = std::shared_ptr<const Graph>(std::move(body));
      }
      if (auto s = add(node); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // Whether calls were given overloads.
  static bool changes(const std::vector<Node>& before, const std::vector<Node>& after) {
    return !std::equal(before.begin(), before.end(), after.begin(), [](const Node& a, const Node& b) {
      const auto same_body = [](const Attribute& x, const Attribute& y) {
        return x.type != AttributeType::kGraph || x.value.index() == 0 || &x.g() == &y.g();
      };
      return a.overload == b.overload && std::equal(a.attributes.begin(), a.attributes.end(), b.attributes.begin(), same_body);
    });
  }

  absl::Status add(Node& node) {
    const StoredRules* bodies = node.overload.empty() ? function_of(rules_, node.domain, node.op_type) : nullptr;
    if (!bodies || is_function(node.domain, node.op_type, "")) return absl::OkStatus();
    const auto is_given = [&](std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); };
    const auto body = std::find_if(bodies->begin(), bodies->end(),
                                   [&](const auto& b) { return RuleOperators::takes(b->rule(), node.inputs.size(), is_given); });
    if (body == bodies->end()) return absl::OkStatus();
    if (bodies->size() > 1) {
      node.overload = fmt::format("case_{}", body - bodies->begin());
      node.origin = nullptr;
    }
    if (is_function(node.domain, node.op_type, node.overload)) return absl::OkStatus();
    auto function = onnx_function((*body)->rule(), opset_, rules_.domain_versions());
    if (!function.ok()) return function.status();
    function->overload = node.overload;
    const std::int64_t ir = !node.overload.empty() ? 10 : function->attribute_defaults.empty() ? 8 : 9;
    model_.ir_version = std::max(model_.ir_version, ir);
    for (const auto& [domain, version] : function->opset_imports) model_.opset_imports.try_emplace(domain, version);
    model_.functions.push_back(*std::move(function));
    return absl::OkStatus();
  }

  bool is_function(const std::string& domain, const std::string& name, const std::string& overload) const {
    return std::any_of(model_.functions.begin(), model_.functions.end(),
                       [&](const Function& f) { return f.domain == domain && f.name == name && f.overload == overload; });
  }

  Model& model_;
  const RuleSet& rules_;
  std::int64_t opset_;
};

// The body of a call with these attributes: inputs x0, x1, ... of which nothing is known.
Model model_of_call(const Function& function, const std::vector<Attribute>& attributes) {
  Model out;
  out.opset_imports = function.opset_imports;
  for (auto& [domain, version] : out.opset_imports)
    if (is_of_own_domain(domain)) version = 1;  // that of the model is compared elsewhere
  Node call;
  call.attributes = attributes;
  std::map<std::string, std::string> names;
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    names[function.inputs[i]] = fmt::format("x{}", i);
    out.graph.inputs.push_back({names[function.inputs[i]], {}, nullptr});
  }
  const auto renamed = [&](std::string& name) {
    const auto it = names.find(name);
    if (!name.empty()) name = it == names.end() ? "inner." + name : it->second;
  };
  for (const Node& node : function.nodes) {
    Node& bound = out.graph.nodes.emplace_back(bind_attributes(node, call, function));
    std::for_each(bound.inputs.begin(), bound.inputs.end(), renamed);
    std::for_each(bound.outputs.begin(), bound.outputs.end(), renamed);
  }
  for (const std::string& name : function.outputs) {
    out.graph.outputs.push_back({name, {}, nullptr});
    renamed(out.graph.outputs.back().name);
  }
  return out;
}

// Numbers that stand for nothing else.
AttributeValue unusual(AttributeType type, const std::string& name) {
  const auto n = static_cast<std::int64_t>(name.size());
  switch (type) {
    case AttributeType::kInt:
      return n;
    case AttributeType::kFloat:
      return 0.375f + static_cast<float>(n);
    case AttributeType::kInts:
      return std::vector<std::int64_t>{n, 1};
    case AttributeType::kFloats:
      return std::vector<float>{0.375f, static_cast<float>(n)};
    case AttributeType::kStrings:
      return std::vector<std::string>{name};
    default:
      return name;
  }
}

std::vector<Attribute> unusual_attributes(const Rule& function) {
  std::vector<Attribute> out;
  for (const RuleAttribute& a : function.left.front().attributes) {
    Attribute& given = out.emplace_back(a.literal);
    given.value = unusual(given.type, given.name);
  }
  return out;
}

bool calls_one_of(const std::set<OperatorName>& functions, const std::vector<Node>& nodes) {
  return std::ranges::any_of(nodes, [&](const Node& node) {
    bool any = functions.contains({node.domain, node.op_type});
    for_each_body(node, [&](const Graph& body) { any = any || calls_one_of(functions, body.nodes); });
    return any;
  });
}

bool holds_bodies(const std::vector<Node>& nodes) {
  return std::ranges::any_of(nodes, [](const Node& node) { return has_body(node.attributes); });
}

bool same_names(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

}  // namespace

bool has_functions(const RuleSet& rules) {
  return std::any_of(rules.operators().all().begin(), rules.operators().all().end(),
                     [](const auto& body) { return is_of_own_domain(body->head().ends_in.domain) && body->rule().function; });
}

absl::StatusOr<Model> with_functions(Model model, const RuleSet& rules, std::int64_t opset) {
  if (!has_functions(rules)) return model;
  if (auto s = Adding(model, rules, opset).run(); !s.ok()) return s;
  return model;
}

bool is_same_function(const Function& function, const RuleSet& rules) {
  const StoredRules* bodies = function_of(rules, function.domain, function.name);
  if (!bodies || bodies->size() != 1) return false;
  const Rule& rule = bodies->front()->rule();
  const auto ours = onnx_function(rule, kNewestOpset, rules.domain_versions());
  if (!ours.ok() || ours->inputs.size() != function.inputs.size() || ours->outputs.size() != function.outputs.size()) return false;
  if (!same_names(ours->attributes, function.attributes)) return false;
  const auto same_default = [&](const Attribute& a) {
    const Attribute* other = find_attribute(function.attribute_defaults, a.name);
    return other && same_value(*other, a);
  };
  if (ours->attribute_defaults.size() != function.attribute_defaults.size() ||
      !std::all_of(ours->attribute_defaults.begin(), ours->attribute_defaults.end(), same_default))
    return false;
  const std::vector<Attribute> attributes = unusual_attributes(rule);
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  LowerOptions options;
  options.inline_functions = false;  // functions that both call are compared by themselves
  const Model first = model_of_call(*ours, attributes), second = model_of_call(function, attributes);
  const auto a = lower(first, g, options), b = lower(second, g, options);
  if (!a.ok() || !b.ok()) return false;
  g.egraph().rebuild();
  for (std::size_t i = 0; i < a->roots.size(); ++i)
    if (g.egraph().find(a->roots[i]) != g.egraph().find(b->roots[i])) return false;
  return true;
}

std::set<OperatorName> functions_of_other_versions(const Model& model, std::int64_t opset) {
  std::set<OperatorName> out;
  for (const Function& f : model.functions) {
    const auto own = f.opset_imports.find("");
    if (own != f.opset_imports.end() && !same_in_opset(f.nodes, own->second, opset)) out.emplace(f.domain, f.name);
  }
  for (bool grows = !out.empty(); grows;) {
    grows = false;
    for (const Function& f : model.functions)
      if (calls_one_of(out, f.nodes)) grows = out.emplace(f.domain, f.name).second || grows;
  }
  return out;
}

absl::Status bring_to_opset(Model& model, const std::set<OperatorName>& functions, std::int64_t before, bool were_in_place) {
  const std::int64_t opset = model.opset("");
  const auto stays = [&](const Function& f, const std::string& why) {
    return absl::FailedPreconditionError(
        fmt::format("function {} of opset {} stays, and opset {} is written: {}; --keep-opset keeps the model's",
                    qualified_name(f.domain, f.name), f.opset_imports.at(""), opset, why));
  };
  for (Function& f : model.functions) {
    const auto own = f.opset_imports.find("");
    if (own == f.opset_imports.end() || own->second == opset) continue;
    if (!functions.contains({f.domain, f.name}) && (before == opset || same_in_opset(f.nodes, own->second, opset))) continue;
    auto nodes = nodes_in_opset(f.nodes, own->second, opset);
    if (!nodes.ok()) return stays(f, std::string(nodes.status().message()));
    if (were_in_place && opset < before && !functions.contains({f.domain, f.name}) && !holds_bodies(f.nodes))
      return stays(f, "that opset does not have the dtypes of its operators");
    f.nodes = *std::move(nodes);
    own->second = opset;
    f.origin = nullptr;
  }
  return absl::OkStatus();
}

}  // namespace saturate
