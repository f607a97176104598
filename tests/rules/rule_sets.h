// Rule sets for tests.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "rules/compile/rule_set.h"

namespace saturate {

inline RuleSet set_of(std::string_view text) {
  RuleSet set;
  const auto status = set.load_text(text, "t.rules");
  EXPECT_TRUE(status.ok()) << status.message();
  return set;
}

}  // namespace saturate
