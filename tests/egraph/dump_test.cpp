#include "egraph/dump.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "egraph/invariants.h"
#include "egraph/text/text_workload.h"

namespace saturate {
namespace {

TEST(Dump, TextsOfASmallGraph) {
  auto w = Workload::parse("(rule r (f ?x) (g ?x ?x)) (root (f (f a)))");
  run(*w->egraph, w->rules, {});
  const OpName name = [&](OpId op) { return w->op_names[op]; };
  EXPECT_EQ(to_sexpr(*w->egraph, name), "c0 = <sym>\nc1 = (f c0) | (g c0 c0)\nc2 = (f c1) | (g c1 c1)\n");
  EXPECT_EQ(to_sexpr(*w->egraph, name, {.max_classes = 2, .max_nodes_per_class = 1}),
            "c0 = <sym>\nc1 = (f c0) | ... 1 more\n; 1 more e-classes\n");
  EXPECT_EQ(term_text(*w->egraph, w->roots[0], name, 10), "(f (f <sym>))");
  EXPECT_EQ(term_text(*w->egraph, w->roots[0], name, 2), "(f (f ...))");
  const std::string dot = to_dot(*w->egraph, name);
  EXPECT_NE(dot.find("subgraph cluster_2"), std::string::npos);
  EXPECT_NE(dot.find("lhead=cluster_0"), std::string::npos);
  EXPECT_NE(to_dot(*w->egraph, name, {.max_classes = 1}).find("2 more e-classes"), std::string::npos);
  const std::string text = summary(*w->egraph, name);
  EXPECT_EQ(text.substr(0, text.find(',')), "5 e-nodes in 3 e-classes");
  EXPECT_NE(text.find("f 2 g 2 <sym> 1"), std::string::npos);
}

TEST(Dump, ATermOverACycleIsCutOff) {
  auto w = Workload::parse("(root (f a))");
  w->egraph->merge(w->roots[0], 0);
  w->egraph->rebuild();
  const std::string text = term_text(
      *w->egraph, w->roots[0], [&](OpId op) { return w->op_names[op]; }, 50);
  EXPECT_FALSE(text.empty());
  EXPECT_LT(text.size(), 1000u);
}

TEST(Dump, JsonThereAndBack) {
  auto w = Workload::parse("(rule comm (+ ?a ?b) (+ ?b ?a)) (rule assoc (+ ?a (+ ?b ?c)) (+ (+ ?a ?b) ?c)) (root (+ v1 (+ v2 (+ v3 v4))))");
  run(*w->egraph, w->rules, {});
  // A cycle and an operator name that needs quoting.
  w->egraph->merge(w->roots[0], 0);
  w->egraph->rebuild();
  const OpName name = [&](OpId op) { return w->op_names[op] == "+" ? std::string("pl\"us\\\n\x01") : "leaf" + std::to_string(op); };
  const std::string text = to_json(*w->egraph, name, w->roots, [](NodeId n) { return n + 0.5; });
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["nodes"].size(), w->egraph->num_nodes());
  const auto back = from_json(text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->egraph->num_nodes(), w->egraph->num_nodes());
  EXPECT_EQ(back->egraph->num_classes(), w->egraph->num_classes());
  EXPECT_EQ(check_invariants(*back->egraph), "");
  ASSERT_EQ(back->roots.size(), 1u);
  EXPECT_EQ(back->egraph->class_size(back->roots[0]), w->egraph->class_size(w->roots[0]));
  EXPECT_EQ(class_sizes_fnv1a64(*back->egraph), class_sizes_fnv1a64(*w->egraph));
  double ours = 0, theirs = 0;
  for (const Id c : back->egraph->classes()) {
    for (const NodeId n : back->egraph->class_nodes(c)) theirs += back->costs[n];
  }
  for (const Id c : w->egraph->classes()) {
    for (const NodeId n : w->egraph->class_nodes(c)) ours += n + 0.5;
  }
  EXPECT_DOUBLE_EQ(ours, theirs);
}

// Both once made costs be written outside of their array.
TEST(Dump, JsonWithOneENodeInTwoClassesOrAnOperatorNamedLikeALeafOfOurs) {
  const auto twice = from_json(R"({"nodes": {"a": {"op": "x", "eclass": "A", "cost": 3}, "b": {"op": "f", "children": ["a"], "eclass": "B"},
                                             "c": {"op": "x", "eclass": "C", "cost": 2}, "d": {"op": "f", "children": ["a"], "eclass": "A"}}})");
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(check_invariants(*twice->egraph), "");
  EXPECT_EQ(twice->egraph->num_classes(), 1u);
  EXPECT_EQ(twice->egraph->num_nodes(), 2u);
  const Id all = twice->egraph->classes()[0];
  for (const NodeId n : twice->egraph->class_nodes(all)) {
    EXPECT_EQ(twice->costs[n], twice->op_names[twice->egraph->node(n).op] == "x" ? 2 : 1);
  }
  const auto named = from_json(R"({"nodes": {"a": {"op": "\n1", "eclass": "A"}, "b": {"op": "\n0", "children": ["a"], "eclass": "B"}}})");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->egraph->num_nodes(), 2u);
  EXPECT_EQ(check_invariants(*named->egraph), "");
}

TEST(Dump, BadJsonIsRefused) {
  for (const auto& [text, message] : std::vector<std::pair<const char*, const char*>>{
           {"", "not JSON"},
           {"[]", "no object 'nodes'"},
           {R"({"nodes":{"a":{"op":1,"eclass":"c"}}})", "node \"a\": no text 'op'"},
           {R"({"nodes":{"a":{"op":"f"}}})", "node \"a\": no text 'eclass'"},
           {R"({"nodes":{"a":{"op":"f","eclass":"c","children":["b"]}}})", "child \"b\" is no node"},
           {R"({"nodes":{"a":{"op":"f","eclass":"c","children":3}}})", "node \"a\": 'children' is not a list"},
           {R"({"nodes":{"a":{"op":"f","eclass":"c","cost":"x"}}})", "node \"a\": 'cost' is not a number"},
           {R"({"nodes":{"a":{"op":"f","eclass":"c"}},"root_eclasses":["d"]})", "root class \"d\" has no node"}}) {
    const auto loaded = from_json(text);
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_EQ(std::string(loaded.status().message()), message);
  }
}

}  // namespace
}  // namespace saturate
