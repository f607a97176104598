// The rules of one run: the built-in files (compiled into the binary), files of a user, and native rules in C++.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rules/compile/compile.h"
#include "rules/compile/kept_known.h"
#include "rules/language/embedded.h"
#include "rules/language/operators.h"
#include "rules/stored/stored_rule.h"
#include "rules/terms/rule.h"

namespace saturate {

// A rule that no pattern can state. `make` gives its rewrites for one e-graph.
struct NativeRule {
  std::string name, doc, example;  // example: the equality in ONNX text, for people
  Effect effect = Effect::kExact;
  std::function<std::vector<Rewrite>(OnnxEGraph& g, const std::shared_ptr<RuleLog>& log)> make;
  std::vector<std::string> assumes = {};  // names of known assumptions
  bool if_refused = false;                // it asks OnnxEGraph::is_refused
  RuleOp makes = {};                      // an operator without which there is nothing to make: left out where the target has none
};

struct RuleFilter {
  EffectChoice effects;
  std::vector<std::string> only;             // names; empty: all
  std::vector<std::string> except;           // names
  std::vector<std::string> not_made;         // operators, with or without domain: no rule that makes one of what holds none of them
  std::vector<KnownOperators> readers = {};  // tools that read the result next: no rule that hides from one what it knows
  AssumptionChoice assumptions;
  bool accepts(std::string_view name, Effect effect, std::span<const std::string_view> assumes = {}) const;
  // Whether a rule makes none of `not_made`.
  bool spares(const RuleHead& head) const;
};

class RuleSet {
 public:
  // The rules of rules/library as of the build, and the native ones. An error is a bug in one of these files.
  // Without `examples` they are loaded from bytes that were made when saturate was built (flat.h): they lack their examples,
  // counterexamples, text and documentation, which only the checker and people read.
  static absl::StatusOr<RuleSet> builtin(bool examples = true);
  absl::Status load_file(const std::string& path);
  absl::Status load_text(std::string_view text, const std::string& name);
  absl::Status add(NativeRule rule);
  // Adds the rules of another set; a name that stands here already is an error.
  absl::Status add(const RuleSet& other);

  RuleRange rules() const { return RuleRange(rules_); }
  // The same with what is known of them before they are read.
  const StoredRules& stored() const { return rules_; }
  // The same by law: the instances of one stand beside each other.
  std::vector<std::vector<const Rule*>> laws() const;
  std::span<const NativeRule> native_rules() const { return native_; }
  bool empty() const { return rules().empty() && native_.empty(); }
  // The operators that the files define, and then the rules: what is kept of the built-in ones as bytes.
  StoredRules all_stored() const;
  // What the files define.
  const RuleOperators& operators() const { return *operators_; }
  // The versions of domains of their own (is_of_own_domain) that the files' `opset` lines state.
  const std::map<std::string, std::int64_t>& domain_versions() const { return domain_versions_; }
  // Lets the e-graph know these operators. Compiling does so, too.
  void define_operators(OnnxEGraph& g) const { g.define(operators_); }
  // The graphs with examples and counterexamples of the native rule of this name; none without `examples`.
  std::vector<const Rule*> cases_of(std::string_view native) const;
  // The operators that rules make of others.
  std::vector<std::string> made_operators() const;
  // A rule by its name; by the name of a law its first instance.
  const Rule* find(std::string_view name) const;
  RuleSet filtered(const RuleFilter& filter) const&;
  RuleSet filtered(const RuleFilter& filter) &&;
  // The file's text of a rule with its documentation, of native rules their examples; "" where there is none of this name.
  std::string show(std::string_view name) const;
  // `wanted` (given): of the rules in text, only those for which it holds. The set must outlive them. Rules for what is refused are left
  // out where nobody refuses anything (OnnxEGraph::refusals).
  std::vector<Rewrite> compile(OnnxEGraph& g, const std::shared_ptr<RuleLog>& log = nullptr,
                               const std::function<bool(const RuleHead&)>& wanted = nullptr) const;
  // The same for one run of the engine, which makes what it has e-nodes for.
  std::vector<Rewrite> compile_when_wanted(OnnxEGraph& g, const std::function<bool(const RuleHead&)>& wanted) const;

 private:
  void add_native(OnnxEGraph& g, const std::shared_ptr<RuleLog>& log, std::vector<Rewrite>& out) const;
  absl::Status add_versions(const RuleFile& file);
  absl::Status check_name(const std::string& name, const std::string& place) const;
  StoredRules rules_;
  std::shared_ptr<RuleOperators> operators_ = std::make_shared<RuleOperators>();
  std::vector<NativeRule> native_;
  std::vector<Rule> cases_;  // of native rules
  std::map<std::string, std::int64_t> domain_versions_;
};

// The rules of the built-in files as flatten() writes them (generated at build time).
std::string_view flat_rules();

// Rules in C++ (rules/native/).
std::vector<NativeRule> native_rules();

}  // namespace saturate
