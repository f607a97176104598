// The slow and obvious e-graph that the engine is compared with: congruence closure by fixpoint, matching by trying everything.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "egraph/egraph.h"
#include "egraph/rewrite.h"

namespace saturate {

// Rules that random runs draw from.
inline constexpr const char* kRandomRules[][2] = {{"(add ?x ?y)", "(add ?y ?x)"},
                                                  {"(add ?x (add ?y ?z))", "(add (add ?x ?y) ?z)"},
                                                  {"(f (f ?x))", "?x"},
                                                  {"(sub ?x ?x)", "a"},
                                                  {"(f (add ?x ?y))", "(add (f ?x) (f ?y))"},
                                                  {"(g ?x)", "(f (f ?x))"},
                                                  {"(sub ?x ?y)", "(add ?x (g ?y))"},
                                                  {"(add ?x a)", "?x"},
                                                  {"(f (g ?x))", "(g (f ?x))"}};

class NaiveEGraph {
 public:
  using Key = std::pair<OpId, std::vector<Id>>;
  explicit NaiveEGraph(std::vector<OpTraits> ops) : ops_(std::move(ops)) {}

  Id find(Id id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }
  Id add(OpId op, std::vector<Id> children) {
    const Key key = canonical({op, std::move(children)});
    for (const auto& [other, id] : nodes_) {
      if (canonical(other) == key) return find(id);
    }
    const auto id = static_cast<Id>(parent_.size());
    parent_.push_back(id);
    nodes_.push_back({key, id});
    return id;
  }
  bool merge(Id a, Id b) {
    a = find(a), b = find(b);
    if (a == b) return false;
    parent_[std::max(a, b)] = std::min(a, b);
    return true;
  }
  void rebuild() {
    for (bool again = true; again;) {
      again = false;
      std::map<Key, Id> seen;
      for (const auto& [key, id] : nodes_) {
        const auto [it, fresh] = seen.try_emplace(canonical(key), find(id));
        if (!fresh && merge(it->second, id)) again = true;
      }
    }
    std::map<Key, Id> unique;
    for (const auto& [key, id] : nodes_) unique.try_emplace(canonical(key), find(id));
    nodes_.assign(unique.begin(), unique.end());
  }
  std::size_t num_nodes() const { return nodes_.size(); }
  std::size_t num_classes() const {
    std::set<Id> classes;
    for (const auto& [key, id] : nodes_) classes.insert(find(id));
    return classes.size();
  }

  // All bindings of the pattern's nodes (trees or DAGs reached from the root), as sorted distinct vectors of classes.
  std::set<std::vector<Id>> match(const Pattern& pattern) const {
    std::set<std::vector<Id>> out;
    std::set<Id> classes;
    for (const auto& [key, id] : nodes_) classes.insert(find(id));
    for (const Id c : classes) {
      for (auto& binding : bind(pattern, pattern.root(), c, std::vector<Id>(pattern.nodes.size(), kNone))) out.insert(std::move(binding));
    }
    return out;
  }

 private:
  Key canonical(Key key) const {
    for (Id& id : key.second) id = find(id);
    if (ops_[key.first].commutative && key.second.size() == 2) std::sort(key.second.begin(), key.second.end());
    return key;
  }
  std::vector<std::vector<Id>> bind(const Pattern& pattern, std::uint32_t slot, Id id, std::vector<Id> binding) const {
    using Bindings = std::vector<std::vector<Id>>;
    if (binding[slot] != kNone) return binding[slot] == id ? Bindings(1, binding) : Bindings();
    binding[slot] = id;
    const PatternNode& node = pattern.nodes[slot];
    if (node.type == PatternNode::Type::kVariable) return Bindings(1, binding);
    std::vector<std::vector<Id>> out;
    for (const auto& [key, home] : nodes_) {
      if (find(home) != id || ops_[key.first].kind != node.kind || (node.op != kNone && node.op != key.first)) continue;
      if (key.second.size() != node.children.size() || (node.accepts_op && !node.accepts_op(key.first))) continue;
      std::vector<Id> children = key.second;
      for (int order = 0; order < (ops_[key.first].commutative && children.size() == 2 ? 2 : 1); ++order) {
        Bindings partial(1, binding);
        for (std::size_t i = 0; i < children.size(); ++i) {
          std::vector<std::vector<Id>> next;
          for (const auto& b : partial) {
            for (auto& more : bind(pattern, node.children[i], children[i], b)) next.push_back(std::move(more));
          }
          partial = std::move(next);
        }
        out.insert(out.end(), partial.begin(), partial.end());
        std::reverse(children.begin(), children.end());
      }
    }
    return out;
  }

  std::vector<OpTraits> ops_;
  std::vector<Id> parent_;
  std::vector<std::pair<Key, Id>> nodes_;
};

// Patterns and templates from prefix text: "(f ?x (g ?x))"; names are looked up in `ops`.
struct Language {
  std::map<std::string, OpId> ops;
  std::vector<OpTraits> traits;
  EGraph* egraph = nullptr;

  OpId op(const std::string& name) const { return ops.at(name); }
  void declare(const std::string& name, bool commutative = false) {
    const OpTraits t{static_cast<Kind>(traits.size()), commutative};
    ops[name] = static_cast<OpId>(traits.size());
    traits.push_back(t);
    if (egraph != nullptr) egraph->add_op(t);
  }
};

inline std::vector<std::string> tokens(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    if (c == '(' || c == ')' || c == ' ') {
      if (!word.empty()) out.push_back(std::exchange(word, {}));
      if (c != ' ') out.push_back(std::string(1, c));
    } else {
      word += c;
    }
  }
  return out;
}

inline Pattern pattern_of(const Language& language, const std::string& text) {
  Pattern pattern;
  std::map<std::string, std::uint32_t> variables;
  std::vector<std::vector<std::uint32_t>> stack(1);
  std::vector<std::string> heads;
  const auto words = tokens(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    PatternNode node;
    if (words[i] == "(") {
      heads.push_back(words[++i]);
      stack.emplace_back();
      continue;
    }
    if (words[i][0] == '?') {
      const auto [it, fresh] = variables.try_emplace(words[i], static_cast<std::uint32_t>(pattern.nodes.size()));
      if (fresh) pattern.nodes.push_back(node);
      stack.back().push_back(it->second);
      continue;
    }
    node.type = PatternNode::Type::kOperator;
    if (words[i] == ")") {
      node.children = stack.back();
      stack.pop_back();
      node.op = language.op(heads.back());
      heads.pop_back();
    } else {
      node.op = language.op(words[i]);
    }
    node.kind = language.traits[node.op].kind;
    stack.back().push_back(static_cast<std::uint32_t>(pattern.nodes.size()));
    pattern.nodes.push_back(node);
  }
  return pattern;
}

// A rule "left => right". Variables of the right stand on the left.
inline Rewrite rule_of(const Language& language, const std::string& name, const std::string& left, const std::string& right) {
  Rewrite rule;
  rule.name = name;
  rule.left = pattern_of(language, left);
  // Slots by variable name, in order of appearance, as pattern_of gives them.
  std::map<std::string, std::uint32_t> slots;
  {
    std::uint32_t next = 0;
    const auto words = tokens(left);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "(") {
        ++i;
      } else if (words[i][0] == '?') {
        if (slots.try_emplace(words[i], next).second) ++next;
      } else {
        ++next;
      }
    }
  }
  rule.right.emplace();
  std::vector<std::vector<std::uint32_t>> stack(1);
  std::vector<std::string> heads;
  const auto words = tokens(right);
  for (std::size_t i = 0; i < words.size(); ++i) {
    Template::Node node;
    if (words[i] == "(") {
      heads.push_back(words[++i]);
      stack.emplace_back();
      continue;
    }
    if (words[i][0] == '?') {
      node.slot = slots.at(words[i]);
    } else if (words[i] == ")") {
      node.children = stack.back();
      stack.pop_back();
      node.op = language.op(heads.back());
      heads.pop_back();
    } else {
      node.op = language.op(words[i]);
    }
    stack.back().push_back(static_cast<std::uint32_t>(rule.right->nodes.size()));
    rule.right->nodes.push_back(node);
  }
  return rule;
}

inline Id add_term(const Language& language, EGraph& egraph, const std::string& text) {
  std::vector<std::vector<Id>> stack(1);
  std::vector<std::string> heads;
  const auto words = tokens(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "(") {
      heads.push_back(words[++i]);
      stack.emplace_back();
    } else if (words[i] == ")") {
      const std::vector<Id> children = stack.back();
      stack.pop_back();
      stack.back().push_back(egraph.add(language.op(heads.back()), children));
      heads.pop_back();
    } else {
      stack.back().push_back(egraph.add(language.op(words[i]), {}));
    }
  }
  return stack[0][0];
}

}  // namespace saturate
