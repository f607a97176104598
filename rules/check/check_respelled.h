// Examples of rules written otherwise: each by laws of equal graphs (respellings.rules), one place at a time. With all rules at work, as a
// model of that spelling has them, the rule must do for it what it does for its example.
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
  int examples = 0;                 // that fire as they are written, with all rules at work
  std::vector<std::string> silent;  // places of those that do not: nothing can be told of their spellings
  std::vector<Respelling> respellings;
  int fired() const;
  bool ok() const;  // each fires, or has a guard
};

// What is known to stay silent: a guard of a rule that leads back from other spellings.
struct StaysSilent {
  std::string rule, law, by, guard;
};

// The laws, and what stays silent, as data (generated at build time from respellings.rules and stay_silent.txt).
std::string_view embedded_respellings();
std::string_view embedded_silence();

class Respeller {
 public:
  struct Tested;
  class Example;
  using Unions = std::vector<std::pair<Id, Id>>;

  // The laws in this text, as a rule file has them; what stays silent by them as lines `rule; law; rule with the guard; guard`.
  static absl::StatusOr<Respeller> make(std::string_view laws, std::string_view silence, const RuleSet& rules, const Evaluator& evaluator);
  RespelledRule check(const Rule& rule) const;
  RespelledRule check(const NativeRule& rule) const;
  const std::vector<Rule>& laws() const { return laws_; }

 private:
  Respeller(std::vector<Rule> laws, std::vector<StaysSilent> silence, const RuleSet& rules, const Evaluator& evaluator)
      : laws_(std::move(laws)), silence_(std::move(silence)), rules_(&rules), evaluator_(&evaluator) {}
  void check_example(const Tested& tested, const RuleExample& example, RespelledRule& out) const;
  std::string guard_of(const Example& example, const Unions& otherwise, std::string_view rule, std::string_view law) const;
  std::vector<Rule> laws_;
  std::vector<StaysSilent> silence_;
  const RuleSet* rules_;
  const Evaluator* evaluator_;
};

}  // namespace saturate
