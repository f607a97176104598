// Rules as bytes: the built-in files are read and checked when saturate is built. What came of them is there when saturate starts; a rule
// is read from it when it is asked for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rules/stored/stored_rule.h"

namespace saturate {

// What running a rule needs: all but its documentation, its text, its examples and the places inside of it.
std::string flatten(const StoredRules& rules);
// Of bytes that flatten() of this very build wrote, and that outlive the rules: nothing is checked.
StoredRules unflatten(std::string_view bytes);

// Where things stand in the bytes.
class FlatRules {
 public:
  explicit FlatRules(std::string_view bytes);
  std::string_view text(std::size_t place) const { return texts_[place]; }
  const char* expr(std::size_t place) const { return exprs_[place].data(); }
  Rule rule(std::size_t place) const;
  // The heads, one after the other.
  const char* heads() const { return heads_; }
  std::size_t size() const { return rules_.size(); }

 private:
  std::vector<std::string_view> texts_, exprs_, rules_;
  const char* heads_ = nullptr;
};

}  // namespace saturate
