// Operators that rule files define by a body of other operators: `operator twice <interleaved: int = 0> (X) => (Y) => Concat (...)`.
// A rule may match and make them as any other; no target takes them. Their schema, facts and reference all come from the body.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_bridge/facts/facts.h"
#include "onnx_bridge/operators/op_table.h"
#include "rules/evaluate/eval.h"
#include "rules/stored/stored_rule.h"

namespace saturate {

// The domain of operators that are defined by a name without a dot.
inline constexpr std::string_view kInternalDomain = "saturate";

class RuleOperators : public DefinedOperators {
 public:
  // A body: a rule whose left side is the operator alone (Rule::defines). Several bodies of one operator are cases of it: the first whose
  // inputs and `where` fit stands for it.
  void add(std::shared_ptr<const StoredRule> body);
  void add(const RuleOperators& others);
  // All bodies in the order in which they were added.
  const StoredRules& all() const { return all_; }
  // What a body's names stand for in a call: the attributes that it gives, or their defaults; false where one is missing.
  static bool bind_attributes(const Rule& body, const Node& call, Environment& environment);
  // Whether a body takes as many inputs as a call gives; `given` tells of each.
  static bool takes(const Rule& body, std::size_t inputs, const std::function<bool(std::size_t)>& given);
  // "" where the body may join those that are known: an operator has one signature, and none of the standard's names.
  std::string why_not(const Rule& body) const;

  const StoredRules* bodies(std::string_view domain, std::string_view op_type) const;
  // What all its bodies take. Inputs that they want to be `float(...)` are of one floating type, and the outputs with them.
  const OpSchema* schema(std::string_view domain, std::string_view op_type) const override;
  // Facts of the outputs, found along the body; nullopt where the operator is not defined here. What the body does not tell stays unknown.
  std::optional<absl::StatusOr<std::vector<Facts>>> infer(const Node& node, std::span<const Facts* const> inputs, int num_outputs,
                                                          InferContext& context) const override;

 private:
  struct Signature;
  struct Operator;
  const Operator* find(std::string_view domain, std::string_view op_type) const;
  std::map<std::string, std::shared_ptr<const Operator>, std::less<>> operators_;  // by "domain.name"
  StoredRules all_;
};

// The schema of an operator as rules see it: of one that is defined, or the newest.
const OpSchema* schema_for_rule(const RuleOperators* defined, std::string_view domain, std::string_view op_type);

}  // namespace saturate
