// Examples of rules written otherwise: each by laws of equal graphs (respellings.rules), one place at a time. With all rules at work, as a
// model of that spelling has them, the rule must do for it what it does for its example. Where a guard of another rule, which would lead
// back from that spelling, is false there, the documentation of the rule names it, and the checker sees whether that is so:
//   # Silent by sub_by_sum: `not const(B)` of add_of_negative.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/evaluator.h"
#include "rules/compile/rule_set.h"

namespace saturate {

struct Respelling {
  std::string law;    // by which the example is written otherwise
  std::string place;  // of the example: "library/norms.rules:12:3"
  bool fires = false;
  std::string graph;  // the respelled graph, for people
  std::string guard;  // where it does not fire: "not const(B) of add_of_negative", which keeps it from that and may; "" : nobody knows
};

struct RespelledRule {
  std::string rule;
  // Lines of its documentation that name a guard, and whether an example shows each. Of a law one instance shows it.
  std::vector<std::pair<std::string, bool>> silences = {};
  int examples = 0;                 // that fire as they are written, with all rules at work
  std::vector<std::string> silent;  // places of those that do not: nothing can be told of their spellings
  std::vector<Respelling> respellings;
  int fired() const;
};

// The laws, as data (generated at build time from respellings.rules).
std::string_view embedded_respellings();

class Respeller {
 public:
  struct Tested;
  class Example;
  using Unions = std::vector<std::pair<Id, Id>>;

  // The laws in this text, as a rule file has them.
  static absl::StatusOr<Respeller> make(std::string_view laws, const RuleSet& rules, const Evaluator& evaluator);
  RespelledRule check(const Rule& rule) const;
  RespelledRule check(const NativeRule& rule) const;
  const std::vector<Rule>& laws() const { return laws_; }

 private:
  Respeller(std::vector<Rule> laws, const RuleSet& rules, const Evaluator& evaluator)
      : laws_(std::move(laws)), rules_(&rules), evaluator_(&evaluator) {}
  void check_example(const Tested& tested, const RuleExample& example, RespelledRule& out) const;
  std::string guard_of(const Example& example, const Unions& otherwise, const std::string& doc, std::string_view law) const;
  std::vector<Rule> laws_;
  const RuleSet* rules_;
  const Evaluator* evaluator_;
};

}  // namespace saturate
