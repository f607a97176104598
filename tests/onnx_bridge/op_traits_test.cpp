#include "onnx_bridge/operators/op_traits.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"
#include "onnx_bridge/model/model.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

TEST(OpTraits, FindsOperatorsByDomainAndName) {
  EXPECT_TRUE(has(Trait::kUnaryElementwise, "Relu"));
  EXPECT_TRUE(has(Trait::kUnaryElementwise, "", "Relu"));
  EXPECT_TRUE(has(Trait::kUnaryElementwise, "ai.onnx", "Relu"));
  EXPECT_FALSE(has(Trait::kUnaryElementwise, "com.microsoft", "Relu"));
  EXPECT_TRUE(has(Trait::kUnaryElementwise, "com.microsoft", "QuickGelu"));
  EXPECT_TRUE(has(Trait::kUnaryElementwise, "com.microsoft.QuickGelu"));
  EXPECT_FALSE(has(Trait::kUnaryElementwise, "", "com.microsoft.QuickGelu"));
  EXPECT_EQ(traits_of("NoSuchOperator"), nullptr);
  Node node;
  node.op_type = "Reshape";
  EXPECT_TRUE(has(Trait::kView, node));
  node.domain = "my.domain";
  EXPECT_FALSE(has(Trait::kView, node));
}

TEST(OpTraits, ListsOperatorsInTheOrderOfTheTable) {
  for (int t = 0; t < kTraits; ++t) {
    const auto trait = static_cast<Trait>(t);
    EXPECT_EQ(trait_named(trait_name(trait)), trait);
    std::vector<std::string_view> wanted;
    for (const OperatorTraits& traits : all_op_traits())
      if (traits.has(trait)) wanted.push_back(traits.name);
    const auto listed = operators_with(trait);
    EXPECT_TRUE(std::equal(listed.begin(), listed.end(), wanted.begin(), wanted.end())) << trait_name(trait);
  }
  EXPECT_EQ(trait_named("no_such_trait"), std::nullopt);
}

TEST(OpTraits, NamesEachKnownOperatorOnce) {
  std::set<std::string_view> seen;
  for (const OperatorTraits& traits : all_op_traits()) {
    EXPECT_TRUE(seen.insert(traits.name).second) << traits.name << " stands twice";
    EXPECT_EQ(traits_of(traits.name), &traits);
    const std::size_t dot = traits.name.rfind('.');
    const bool standard = dot == std::string_view::npos;
    EXPECT_FALSE(schema_versions(standard ? "" : traits.name.substr(0, dot), standard ? traits.name : traits.name.substr(dot + 1)).empty())
        << traits.name;
  }
}

}  // namespace
}  // namespace saturate
