// Rules as a set keeps them: what choosing one needs is at hand; a built-in rule itself is read from its bytes when it is asked for first.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "egraph/once.h"
#include "rules/terms/rule.h"

namespace saturate {

// An operator as a rule's left side has it; views of the rule.
struct RuleOp {
  std::string_view domain, op_type;
  std::size_t outputs = 1;
};

// One way to read a rule: a rewrite for each form of it.
struct RuleDirection {
  // Of a thousand rules most have few: lists that hold these without memory of their own.
  absl::InlinedVector<RuleOp, 3> wants;                                 // the operators of its left side, the root last
  absl::InlinedVector<std::pair<std::uint8_t, std::uint8_t>, 4> below;  // places in `wants`: the second is an input of the first
  absl::InlinedVector<std::vector<std::string_view>, 1> forms;          // the optional inputs that each form is without
  absl::InlinedVector<RuleOp, 3> makes;                                 // the operators of its right side
};

// What is known of a rule before it is read; views of the rule.
struct RuleHead {
  std::string_view name;
  Effect effect = Effect::kExact;
  std::vector<std::string_view> assumes;
  bool if_unsupported = false, if_any_unsupported = false, if_lacking = false, if_refused = false, defines = false,
       moves_quantizers = false;
  std::string_view yields_to;
  std::optional<std::uint64_t> budget;
  int phase = 0;
  RuleOp ends_in;                                    // the last operator of its left side
  absl::InlinedVector<RuleDirection, 1> directions;  // two of a rule that reads both ways
};
RuleHead head_of(const Rule& rule);

class FlatRules;  // flat.h

class StoredRule {
 public:
  explicit StoredRule(Rule rule) : read_(std::make_unique<const Rule>(std::move(rule))), head_(head_of(*read_)) {}
  // The rule at this place of bytes.
  StoredRule(RuleHead head, std::shared_ptr<const FlatRules> flat, std::size_t place)
      : flat_(std::move(flat)), place_(place), head_(std::move(head)) {}

  const RuleHead& head() const { return head_; }
  const Rule& rule() const;

 private:
  mutable Once once_;
  mutable std::unique_ptr<const Rule> read_;
  std::shared_ptr<const FlatRules> flat_;
  std::size_t place_ = 0;
  RuleHead head_;
};
using StoredRules = std::vector<std::shared_ptr<const StoredRule>>;

// The rules of a set, one after the other.
class RuleRange {
 public:
  class Iterator {
   public:
    explicit Iterator(StoredRules::const_iterator at) : at_(at) {}
    const Rule& operator*() const { return (*at_)->rule(); }
    Iterator& operator++() { return ++at_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    StoredRules::const_iterator at_;
  };
  explicit RuleRange(const StoredRules& rules) : rules_(rules) {}
  Iterator begin() const { return Iterator(rules_.begin()); }
  Iterator end() const { return Iterator(rules_.end()); }
  std::size_t size() const { return rules_.size(); }
  bool empty() const { return rules_.empty(); }

 private:
  const StoredRules& rules_;
};

}  // namespace saturate
