// The program of docs/egraph.md, compiled and run; the test sees to it that the document shows this text.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

// [tutorial]
#include <map>
#include <string>

#include "egraph/explain.h"
#include "egraph/text/text_workload.h"

namespace {

using namespace saturate;

constexpr const char* kRules = R"(
  (rule add-comm   (+ ?a ?b) (+ ?b ?a))
  (rule mul-comm   (* ?a ?b) (* ?b ?a))
  (rule add-zero   (+ ?a 0) ?a)
  (rule mul-zero   (* ?a 0) 0)
  (rule mul-one    (* ?a 1) ?a)
  (rule sub-self   (- ?a ?a) 0)
  (rule div-self   (/ ?a ?a) 1 (not-zero ?a))
  (rule regroup    (/ (* ?a ?b) ?c) (* ?a (/ ?b ?c)))
  (rule distribute (* ?a (+ ?b ?c)) (+ (* ?a ?b) (* ?a ?c)))
  (rule factor     (+ (* ?a ?b) (* ?a ?c)) (* ?a (+ ?b ?c)))
)";

// The smallest term of a class: sizes fall until nothing changes (bottom-up extraction).
std::string smallest(const Workload& w, Id root) {
  std::map<Id, std::pair<std::size_t, std::string>> best;
  for (bool again = true; again;) {
    again = false;
    for (const Id c : w.egraph->classes()) {
      for (const NodeId n : w.egraph->class_nodes(c)) {
        const ENode node = w.egraph->node(n);
        std::size_t size = 1;
        std::string text = w.op_texts[node.op];
        for (const Id child : node.children) {
          size += best.contains(child) ? best[child].first : 1'000'000;
          text += " " + best[child].second;
        }
        if (size > 1'000'000 || (best.contains(c) && best[c].first != 0 && best[c].first <= size)) continue;
        best[c] = {size, node.children.empty() ? text : "(" + text + ")"};
        again = true;
      }
    }
  }
  return best.at(w.egraph->find(root)).second;
}

struct Simplified {
  std::string text, why;
};

Simplified simplify(const std::string& term) {
  Workload w = *Workload::parse(kRules + ("(root " + term + ")"), {.reverse_rules = false, .commutative_matching = true});
  record_explanations(*w.egraph);
  RunOptions options;
  options.limits.nodes = 10'000;
  run(*w.egraph, w.rules, options);
  const std::string text = smallest(w, w.roots[0]);
  const Id result = *w.add_term(text);
  return {text, to_string(*w.egraph, *explain(*w.egraph, w.roots[0], result), [&](OpId op) { return w.op_texts[op]; })};
}
// [tutorial]

TEST(Tutorial, Simplifies) {
  const Simplified half = simplify("(+ (/ (* x 2) 2) (* 0 y))");
  EXPECT_EQ(half.text, "x");
  for (const char* rule : {"regroup", "div-self", "mul-one", "mul-zero", "add-zero"})
    EXPECT_NE(half.why.find(rule), std::string::npos) << half.why;
  EXPECT_EQ(simplify("(- (+ (* x y) (* z x)) (* (+ z y) x))").text, "0");
  EXPECT_EQ(simplify("(+ (* x y) (* x z))").text.size(), std::string("(* x (+ y z))").size());
  EXPECT_EQ(simplify("(/ 0 0)").text, "(/ 0 0)");
}

std::string read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Tutorial, TheDocumentShowsIt) {
  const std::string source = read(SATURATE_SOURCE_DIR "/tests/egraph/tutorial_test.cpp");
  const std::string mark = "// [tutorial]\n";
  const std::size_t begin = source.find(mark) + mark.size(), end = source.find(mark, begin);
  ASSERT_NE(end, std::string::npos);
  EXPECT_NE(read(SATURATE_SOURCE_DIR "/docs/egraph.md").find(source.substr(begin, end - begin)), std::string::npos)
      << "copy the text between the marks into docs/egraph.md";
}

}  // namespace
