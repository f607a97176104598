#include "tools/cli/verbs/rules_data.h"

#include <map>

#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "rules/language/embedded.h"

namespace saturate {
namespace {

using nlohmann::json;

json terms_of(const std::vector<ExprPtr>& terms) {
  json out = json::array();
  for (const ExprPtr& e : terms) out.push_back(e ? term_data(*e) : json());
  return out;
}

json tensor_data(const Tensor& t) {
  json values = json::array();
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::optional<double> value = element_as_double(t, i);
    values.push_back(value ? json(*value) : json());
  }
  return {{"dtype", dtype_name(t.dtype())}, {"dims", t.dims()}, {"values", values}};
}

json value_data(const Attribute& a) {
  switch (a.type) {
    case AttributeType::kFloat:
      return a.f();
    case AttributeType::kInt:
      return a.i();
    case AttributeType::kString:
      return a.s();
    case AttributeType::kFloats:
      return a.floats();
    case AttributeType::kInts:
      return a.ints();
    case AttributeType::kStrings:
      return a.strings();
    case AttributeType::kTensor:
      return tensor_data(a.t());
    default:
      return json();
  }
}

json node_data(const RuleNode& node) {
  json attributes = json::object();
  for (const RuleAttribute& a : node.attributes) {
    json& out = attributes[a.literal.name];
    if (a.kind == RuleAttribute::Kind::kAny)
      out["any"] = true;
    else if (a.kind == RuleAttribute::Kind::kLiteral)
      out["literal"] = value_data(a.literal);
    else
      out["variable"] = a.variable;
    if (a.kind == RuleAttribute::Kind::kVariable && a.literal.value.index() != 0) out["default"] = value_data(a.literal);
  }
  return {
      {"op", qualified_name(node.domain, node.op_type)}, {"attributes", attributes}, {"inputs", node.inputs}, {"outputs", node.outputs}};
}

json nodes_of(const std::vector<RuleNode>& nodes) {
  json out = json::array();
  for (const RuleNode& n : nodes) out.push_back(node_data(n));
  return out;
}

std::string line_of(const std::string& state, const std::string& why) {
  if (state == "proven") return "proven for any size at every rank: " + why;
  if (state == "bounded") return "proven for any size at bounded ranks: " + why;
  return "checked by running only: " + why;
}

// What bench/prove_rules found, by the name of the law; of the built-in ones alone.
std::map<std::string, std::string, std::less<>> read_proofs() {
  std::map<std::string, std::string, std::less<>> out;
  const absl::StatusOr<json> all = read_json<json>(embedded_proofs());
  if (!all.ok() || !all->is_object()) return out;
  for (const auto& [law, proof] : all->items()) out[law] = line_of(proof.value("state", "run"), proof.value("why", ""));
  return out;
}

}  // namespace

json term_data(const Expr& e) {
  using Kind = Expr::Kind;
  json out = json::array();
  switch (e.kind) {
    case Kind::kInt:
      return json::array({"int", e.integer});
    case Kind::kReal:
      return json::array({"real", fmt::format("{}", e.real)});  // JSON has no infinity
    case Kind::kString:
      return json::array({"string", e.text});
    case Kind::kName:
      return json::array({"name", e.text});
    case Kind::kList:
      out = json::array({"list"});
      break;
    case Kind::kCall:
      out = json::array({"call", e.text});
      break;
    case Kind::kIndex:
      out = json::array({"index"});
      break;
    case Kind::kSlice:
      out = json::array({"slice"});
      break;
    case Kind::kNot:
      out = json::array({"not"});
      break;
    case Kind::kNegate:
      out = json::array({"negate"});
      break;
    case Kind::kBinary:
      out = json::array({"binary", e.text});
      break;
  }
  for (json& argument : terms_of(e.arguments)) out.push_back(std::move(argument));
  return out;
}

json rule_data(const Rule& rule) {
  json lets = json::array();
  for (const auto& [name, term] : rule.lets) lets.push_back(json::array({name, term_data(*term)}));
  return {{"name", rule.name},
          {"law", law_of(rule.name)},
          {"file", rule.file},
          {"attributes", rule.attribute_variables},
          {"inputs", rule.inputs},
          {"optional", rule.optional},
          {"outputs", rule.outputs},
          {"left", nodes_of(rule.left)},
          {"right", nodes_of(rule.right)},
          {"where", terms_of(rule.where)},
          {"lets", lets},
          {"both_ways", rule.both_ways},
          {"effect", to_string(rule.effect)},
          {"assumes", rule.assumes},
          {"defines", rule.defines},
          {"declares", rule.declares}};
}

std::string proof_line(const Rule& rule) {
  static const auto* const all = new std::map<std::string, std::string, std::less<>>(read_proofs());
  const auto found = all->find(law_of(rule.name));
  return found == all->end() ? "" : found->second;
}

}  // namespace saturate
