// Attributes that rules set: the table of times has rows of each that changes an operator's time, or it was timed and changes nothing.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "extract/fit/lent_rows.h"
#include "extract/fit/measured.h"
#include "nlohmann/json.hpp"
#include "rules/compile/rule_set.h"

namespace saturate {
namespace {

std::string text_in(const std::string& name) {
  std::ifstream file(SATURATE_SOURCE_DIR "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

TimedRows table_rows(const std::string& name) { return *read_timed_rows(text_in("extract/costs/" + name + ".jsonl"), name); }

using Names = std::map<std::string, std::set<std::string>>;  // attributes of operators

Names of_rows() {
  Names out;
  for (const TimedUse& row : with_lent(table_rows("ort-cpu"), table_rows("ort-cpu-avx2")).rows) {
    auto& names = out[row.use.op];
    for (const Attribute& a : row.use.attributes) names.insert(a.name);
  }
  return out;
}

Names made_by_rules() {
  Names out;
  const auto set = RuleSet::builtin(false);
  for (const auto& stored : set->all_stored())
    for (const auto* side : {&stored->rule().left, &stored->rule().right})
      for (const RuleNode& node : *side)
        for (const RuleAttribute& a : node.attributes)
          if (node.domain != "saturate")
            out[operator_name(node.domain, node.op_type)].insert(a.kind == RuleAttribute::Kind::kAny ? "" : a.literal.name);
  return out;
}

TEST(AttributeRows, EachAttributeThatRulesSetWasTimed) {
  const auto timed = nlohmann::json::parse(text_in("bench/data/attribute_times.json"));
  const Names rows = of_rows();
  std::string without;
  int asked = 0;
  for (const auto& [op, names] : made_by_rules()) {
    const auto known = rows.find(op);
    if (known == rows.end()) continue;  // tests/extract/lent_rows_test.cpp
    for (const std::string& name : names) {
      if (name.empty() || known->second.contains(name)) continue;
      ++asked;
      const bool is_timed = timed["ratios"].contains(op) && timed["ratios"][op].contains(name);
      const std::string whole = op + "." + name;
      const bool is_explained = timed["of_shapes"].contains(name) || timed["of_numbers"].contains(name) || timed["untimed"].contains(whole);
      if (!is_timed && !is_explained) without += whole + " ";
    }
  }
  EXPECT_EQ(without, "") << "time it by bench/runtime/attribute_times.py";
  EXPECT_GT(asked, 20);
}

TEST(AttributeRows, WhatChangesTheTimeHasRows) {
  const auto timed = nlohmann::json::parse(text_in("bench/data/attribute_times.json"));
  const Names rows = of_rows();
  std::string without;
  for (const auto& [op, names] : timed["ratios"].items())
    for (const auto& [name, ratio] : names.items()) {
      const bool matters = ratio[0].get<double>() > timed["matters"].get<double>();
      const auto known = rows.find(op);
      if (matters && (known == rows.end() || !known->second.contains(name))) without += op + "." + name + " ";
    }
  EXPECT_EQ(without, "");
}

// Gemma 2's scores are capped by one tanh of each, for which ONNX Runtime's kernel has no vectors.
TEST(AttributeRows, ASoftcapIsDearerThanTheAttention) {
  const MeasuredTable table(with_lent(table_rows("ort-cpu"), table_rows("ort-cpu-avx2")));
  const auto seconds = [&](const std::string& attributes) {
    return table.seconds(*use_of(nlohmann::json::parse(
        R"({"op": "Attention", "in": [[1,8,128,64],[1,8,128,64],[1,8,128,64]], "out": [[1,8,128,64]], "attrs": {)" + attributes + "}}")));
  };
  EXPECT_GT(seconds(R"("softcap": 50.0)"), 4 * seconds(""));
  EXPECT_NEAR(seconds(R"("softcap": 0.0)"), seconds(""), 1e-9);
}

}  // namespace
}  // namespace saturate
