#include "extract/target/load_pattern.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace saturate {
namespace {

TEST(LoadPattern, IsReadAsItIsWritten) {
  const auto p = parse_load_pattern("Relu|com.microsoft::Gelu(c=Conv[group:1,pads:[0,0]](x,w!,...), -0.5)");
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->operators, (std::vector<std::string>{"Relu", "com.microsoft::Gelu"}));
  ASSERT_EQ(p->children.size(), 2);
  const LoadPattern& conv = p->children[0];
  EXPECT_EQ(conv.name, "c");
  EXPECT_EQ(conv.attributes.at("pads"), std::vector<std::string>{"[0,0]"});
  EXPECT_EQ(conv.attributes.at("group"), std::vector<std::string>{"1"});
  ASSERT_EQ(conv.children.size(), 3);
  EXPECT_TRUE(!conv.children[0].constant && conv.children[1].constant);
  EXPECT_EQ(conv.children[2].what, LoadPattern::What::kRest);
  EXPECT_EQ(p->children[1].number, -0.5);
}

TEST(LoadPattern, FaultsAreTold) {
  for (const char* text : {"", "Add(", "Add(x", "Add(x,)", "Add(x))", "c=x", "Add[axis](x)", "Add[axis:1(x)", "A|B", "Add(x y)"}) {
    const auto p = parse_load_pattern(text);
    EXPECT_FALSE(p.ok()) << text;
    EXPECT_NE(std::string(p.status().message()).find("wanted"), std::string::npos) << p.status();
  }
}

// What becomes of a spelling names values of it.
TEST(LoadPattern, TheTableIsWhole) {
  const auto names = [](const auto& self, const LoadPattern& p, std::set<std::string>& out) -> void {
    if (!p.name.empty()) out.insert(p.name);
    for (const LoadPattern& child : p.children) self(self, child, out);
  };
  ASSERT_FALSE(known_load_fusions().empty());
  for (const LoadFusion& f : known_load_fusions()) {
    std::set<std::string> there, used;
    names(names, f.pattern, there);
    names(names, f.becomes, used);
    for (const auto& [name, ranks] : f.ranks) used.insert(name);
    for (const auto& [axes, of] : f.last_axis) used.insert({axes, of});
    for (const auto& [name, least] : f.at_least) used.insert(name);
    for (const auto& [name, other] : f.same_type) used.insert({name, other});
    for (const auto& [name, other] : f.same_rank) used.insert({name, other});
    for (const auto& [name, weights] : f.per_filter) used.insert({name, weights});
    for (const auto* list : {&f.may_stay, &f.one_element, &f.all_sizes_known, &f.swaps_last_two, &f.same_shape})
      used.insert(list->begin(), list->end());
    for (const std::string& name : used) EXPECT_TRUE(there.contains(name)) << f.text << ": " << name;
    EXPECT_EQ(f.pattern.what, LoadPattern::What::kOperator) << f.text;
  }
}

TEST(LoadPattern, ReleasesFuseWhatTheTableSaysOfThem) {
  Target target;
  EXPECT_TRUE(load_fusions_of(target).empty());  // one that does not fuse
  target.fuses_at_load = true;
  EXPECT_FALSE(load_fusions_of(target).empty());
}

}  // namespace
}  // namespace saturate
