#include "tools/transform/precision/exact_nodes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kernels/inputs/types.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

// By the name of what a node makes, why it needs the bits.
std::map<std::string, std::string> exact_in(const std::string& body, const std::string& listed = "") {
  const auto model = parse_model_text(
      "<ir_version: 10, opset_import: [\"\" : 20]>\n"
      "g (float[2,4] x, int64[2,4] i) => (float[n,m] y)\n"
      "<float eps = {1e-12}, float[1] one = {1}, float third = {0.333333}, int64[1] last = {-1}> {\n" +
          body + "\n}\n",
      "test");
  EXPECT_TRUE(model.ok()) << model.status();
  const auto inferred = inferred_types(*model);
  EXPECT_TRUE(inferred.ok()) << inferred.status();
  const KnownTypes types(*inferred);
  Constants constants;
  for (const Initializer& i : model->graph.initializers) constants.emplace(i.name, &i.tensor);
  HalfWeights weights(DType::kFloat16, "");
  std::map<std::string, std::string> out;
  const auto is_listed = [&](const Node& node) { return node.op_type == listed; };
  for (const auto& [node, why] : exact_nodes({model->graph, types, constants, DType::kFloat16, is_listed}, weights))
    out[node->outputs[0]] = why;
  return out;
}

using Why = std::map<std::string, std::string>;

TEST(ExactNodes, NothingOfWhatIsOnlyComputed) { EXPECT_EQ(exact_in("a = Mul (x, one)\ny = Relu (a)"), Why()); }

TEST(ExactNodes, AnglesAndWhatTheyAreMadeOf) {
  EXPECT_EQ(exact_in("p = Cast <to = 1> (i)\na = Mul (p, one)\ny = Sin (a)"),
            (Why{{"p", "an angle or a position"}, {"a", "an angle or a position"}}));
}

TEST(ExactNodes, CountsThatBecomeIntegersAgain) {
  const Why found = exact_in("p = Cast <to = 1> (i)\nh = Mul (p, third)\nn = Cast <to = 7> (h)\ny = Cast <to = 1> (n)");
  EXPECT_TRUE(found.contains("h"));
  EXPECT_TRUE(found.contains("n"));
}

TEST(ExactNodes, WhatAnEpsilonKeepsFromZero) {
  EXPECT_EQ(
      exact_in("a = Abs (x)\nb = Add (a, eps)\nc = Sqrt (b)\ny = Div (x, c)"),
      (Why{{"b", "a number near 0 keeps it from 0"}, {"c", "a number near 0 keeps it from 0"}, {"y", "a number near 0 keeps it from 0"}}));
  EXPECT_EQ(exact_in("a = Abs (x)\nb = Add (a, one)\nc = Sqrt (b)\ny = Div (x, c)"), Why());
}

TEST(ExactNodes, ComparisonsWithNumbersThatAreRounded) {
  EXPECT_EQ(exact_in("a = Neg (x)\nb = Less (a, third)\ny = Cast <to = 1> (b)"),
            (Why{{"a", "compared with a number that the type has not"}, {"b", "compared with a number that the type has not"}}));
  EXPECT_EQ(exact_in("a = Neg (x)\nb = Less (a, one)\ny = Cast <to = 1> (b)"), Why());
}

TEST(ExactNodes, TheDifferenceAndTheSquareOfANormWhoseSumsStay) {
  const std::string norm =
      "m = ReduceMean (x, last)\nd = Sub (x, m)\ns = Mul (d, d)\nv = ReduceMean (s, last)\nr = Sqrt (v)\ny = Div (d, r)";
  EXPECT_EQ(exact_in(norm), Why());
  EXPECT_EQ(exact_in(norm, "ReduceMean"), (Why{{"d", "of a norm"}, {"s", "of a norm"}, {"r", "of a norm"}, {"y", "of a norm"}}));
  // A square that others read, too, is left.
  EXPECT_FALSE(exact_in(norm + "\nother = Relu (s)", "ReduceMean").contains("s"));
}

}  // namespace
}  // namespace saturate
