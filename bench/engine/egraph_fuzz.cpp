// Random texts, random JSON and random e-graphs, for as long as asked: everything read is refused or gives an e-graph whose invariants
// hold. usage: egraph_fuzz SECONDS SEED [WORKLOAD...]. Build it with -DSATURATE_SANITIZE=address,undefined.
#include <chrono>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "egraph/dump.h"
#include "egraph/explain.h"
#include "egraph/invariants.h"
#include "egraph/text/text_workload.h"

namespace {

using namespace saturate;

class Fuzzer {
 public:
  Fuzzer(unsigned seed, std::vector<std::string> texts) : random_(seed), texts_(std::move(texts)) {}

  // Empty, or what went wrong.
  std::string round() {
    switch (pick(3)) {
      case 0:
        return workload();
      case 1:
        return json();
      default:
        return graph();
    }
  }
  std::size_t read() const { return read_; }

 private:
  std::size_t pick(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  std::string mutated(std::string text) {
    static const std::vector<std::string> kPieces = {
        "(",  ")", "?a", "?x", "$a", "0", "-1", " ",      "(rule r ",     "(root ", "(+ ?a ?b)", "f",    ";", "\n", "(not-zero ?a)",
        "\"", "{", "}",  ",",  ":",  "[", "]",  "\"n0\"", "\"children\"", "\"op\"", "null",      "1e999"};
    const std::size_t edits = 1 + pick(8);
    for (std::size_t i = 0; i < edits && !text.empty(); ++i) {
      const std::size_t at = pick(text.size());
      switch (pick(5)) {
        case 0:
          text.erase(at, 1 + pick(10));
          break;
        case 1:
          text[at] = static_cast<char>(pick(256));
          break;
        case 2:
          text.insert(at, kPieces[pick(kPieces.size())]);
          break;
        case 3:
          text.insert(at, text.substr(pick(text.size()), pick(60)));
          break;
        default:
          text.insert(at, 1, static_cast<char>(32 + pick(90)));
          break;
      }
    }
    return text;
  }

  std::string finish(EGraph& egraph, const std::vector<Rewrite>& rules) {
    RunOptions options;
    options.limits.iterations = 1 + pick(6);
    options.limits.nodes = pick(20) == 0 ? 60'000 : 50 + pick(3000);  // many: matches by the thousand are applied at once
    options.limits.seconds = 1;
    options.limits.memory_bytes = std::size_t{100} << 20;  // two roots make squares of matches
    options.limits.threads = static_cast<int>(1 + pick(2));
    options.count_stale_matches = pick(2) == 0;
    switch (pick(3)) {
      case 0:
        options.scheduler = make_backoff_scheduler(1 + pick(50), 1 + pick(5));
        break;
      case 1:
        options.scheduler = make_quota_scheduler(0.1, 1 + pick(20));
        break;
      default:
        break;
    }
    const std::size_t before = egraph.num_nodes();
    run(egraph, rules, options);
    if (egraph.num_nodes() > std::max(before, options.limits.nodes)) return "the node limit was passed";
    if (std::string wrong = check_invariants(egraph); !wrong.empty()) return wrong;
    if (!records_explanations(egraph) || egraph.num_ids() == 0) return {};
    for (int i = 0; i < 5; ++i) {
      const auto a = static_cast<Id>(pick(egraph.num_ids()));
      const auto why = explain(egraph, a, egraph.find(a));
      if (!why) return "no explanation";
      if (std::string wrong = check_explanation(egraph, *why, a, egraph.find(a)); !wrong.empty()) return wrong;
    }
    return {};
  }

  std::string workload() {
    auto w = Workload::parse(mutated(texts_[pick(texts_.size())]), {.reverse_rules = pick(2) == 0, .commutative_matching = pick(2) == 0});
    if (!w.ok()) return {};
    ++read_;
    if (pick(2) == 0) record_explanations(*w->egraph);
    return finish(*w->egraph, w->rules);
  }

  std::string json() {
    auto w = Workload::parse(texts_[pick(texts_.size())]);
    if (!w.ok() || w->egraph->num_nodes() > 500) return {};
    std::string text = to_json(
        *w->egraph, [&](OpId op) { return w->op_texts[op]; }, w->roots);
    if (pick(4) != 0) text = mutated(text);
    const auto loaded = from_json(text);
    if (!loaded.ok()) return {};
    ++read_;
    return check_invariants(*loaded->egraph);
  }

  std::string graph() {
    EGraph egraph;
    std::vector<std::size_t> arity;
    for (Kind k = 0; k < 10; ++k) {
      arity.push_back(k < 2 ? 0 : pick(6));
      egraph.add_op({.kind = static_cast<Kind>(pick(k + 1)), .commutative = pick(3) == 0});
    }
    if (pick(2) == 0) record_explanations(egraph);
    std::vector<Id> ids;
    for (std::size_t i = 0; i < 5 + pick(100); ++i) {
      const std::size_t op = ids.empty() ? 0 : pick(10);
      std::vector<Id> children;
      for (std::size_t k = 0; k < arity[op]; ++k) children.push_back(ids[pick(ids.size())]);
      ids.push_back(egraph.add(static_cast<OpId>(op), children));
      if (pick(8) == 0) egraph.merge(ids[pick(ids.size())], ids[pick(ids.size())]);
      if (pick(30) == 0) egraph.rebuild();
    }
    egraph.rebuild();
    std::vector<Rewrite> rules;
    for (std::size_t r = 0; r < 1 + pick(5); ++r) rules.push_back(random_rule(egraph, arity));
    ++read_;
    return finish(egraph, rules);
  }

  Rewrite random_rule(const EGraph& egraph, const std::vector<std::size_t>& arity) {
    Rewrite rule;
    rule.name = "r";
    for (std::size_t i = 0; i < 1 + pick(5); ++i) {
      PatternNode node;
      const auto op = static_cast<OpId>(pick(10));
      if (pick(3) != 0 && (i > 0 || arity[op] == 0)) {
        node.type = PatternNode::Type::kOperator;
        node.kind = egraph.op(op).kind;
        if (pick(2) == 0) node.op = op;
        for (std::size_t k = 0; k < arity[op]; ++k) node.children.push_back(static_cast<std::uint32_t>(pick(i)));
      }
      rule.left.nodes.push_back(node);
    }
    // Slots that the root does not reach are bound only where they are operators: the right side names the root's own.
    std::vector<bool> reached(rule.left.nodes.size(), false);
    reached.back() = true;
    for (std::size_t i = rule.left.nodes.size(); i-- > 0;) {
      if (!reached[i]) continue;
      for (const std::uint32_t child : rule.left.nodes[i].children) reached[child] = true;
    }
    rule.right.emplace();
    for (std::size_t i = 0; i < 1 + pick(4); ++i) {
      Template::Node node;
      const auto op = static_cast<OpId>(pick(10));
      if (pick(3) == 0 || (i == 0 && arity[op] > 0)) {
        do node.slot = static_cast<std::uint32_t>(pick(rule.left.nodes.size()));
        while (!reached[node.slot]);
      } else {
        node.op = op;
        for (std::size_t k = 0; k < arity[op]; ++k) node.children.push_back(static_cast<std::uint32_t>(pick(i)));
      }
      rule.right->nodes.push_back(node);
    }
    return rule;
  }

  std::mt19937 random_;
  std::vector<std::string> texts_;
  std::size_t read_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::stod(argv[1]) : 10;
  const auto seed = static_cast<unsigned>(argc > 2 ? std::stoul(argv[2]) : 1);
  std::vector<std::string> texts = {
      "(rule comm (+ ?a ?b) (+ ?b ?a)) (rule assoc (+ ?a (+ ?b ?c)) (+ (+ ?a ?b) ?c)) (root (+ v1 (+ v2 (+ v3 v4)))) (iters 60)",
      "(lang math) (rule d (/ ?a ?a) 1 (not-zero ?a)) (rule i (i (pow ?x ?c) ?x) (/ (pow ?x (+ ?c 1)) (+ ?c 1)) (is-num ?c)) (rule z ?a (+ "
      "?a 0))\n"
      "; a comment\n(let $q (i (pow x 3) x)) (root (/ $q (f $q 0 1 2 3)))"};
  for (int i = 3; i < argc; ++i) {
    std::ifstream in(argv[i]);
    std::stringstream text;
    text << in.rdbuf();
    texts.push_back(text.str());
  }
  Fuzzer fuzzer(seed, texts);
  std::size_t rounds = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
    if (const std::string wrong = fuzzer.round(); !wrong.empty()) {
      fmt::print("round {} of seed {}: {}\n", rounds, seed, wrong);
      return 1;
    }
    ++rounds;
  }
  fmt::print("{} rounds, {} of them with an e-graph: no finding\n", rounds, fuzzer.read());
  return 0;
}
