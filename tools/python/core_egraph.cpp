// A small e-graph for experiments: terms and rules as s-expressions over any operators, "(* (+ x 0) 2)", variables "?x".
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>
#include <map>

#include "egraph/dump.h"
#include "egraph/egraph.h"
#include "egraph/explain.h"
#include "egraph/rewrite.h"
#include "tools/python/core.h"

namespace saturate::python {
namespace {

struct Term {
  std::string head;
  std::vector<Term> arguments;
};

class TermReader {
 public:
  explicit TermReader(const std::string& text) : text_(text) {}
  Term read() {
    Term term = one(0);
    skip();
    if (at_ < text_.size()) fail("something follows the term");
    return term;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw nb::value_error((text_ + ": column " + std::to_string(at_ + 1) + ": " + what).c_str());
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  std::string atom() {
    const std::size_t start = at_;
    while (at_ < text_.size() && !std::isspace(static_cast<unsigned char>(text_[at_])) && text_[at_] != '(' && text_[at_] != ')') ++at_;
    if (at_ == start) fail("a name or a number is missing");
    return text_.substr(start, at_ - start);
  }
  Term one(int depth) {
    if (depth > 1000) fail("nested more than 1000 deep");
    skip();
    if (at_ >= text_.size() || text_[at_] != '(') return {atom(), {}};
    ++at_;
    skip();
    Term term{atom(), {}};
    for (skip(); at_ < text_.size() && text_[at_] != ')'; skip()) term.arguments.push_back(one(depth + 1));
    if (at_ >= text_.size()) fail("a ) is missing");
    ++at_;
    return term;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

bool is_variable(const Term& term) { return term.arguments.empty() && term.head.starts_with('?'); }

class TermGraph {
 public:
  TermGraph() { record_explanations(egraph_); }

  Id add(const std::string& text) {
    const auto known = added_.find(text);
    if (known != added_.end()) return known->second;
    const Id id = insert(TermReader(text).read());
    egraph_.rebuild();
    return added_[text] = id;
  }

  bool merge(Id a, Id b) {
    const bool changed = egraph_.merge(known(a), known(b));
    egraph_.rebuild();
    return changed;
  }

  Id find(Id id) const { return egraph_.find(known(id)); }
  std::size_t nodes() const { return egraph_.num_nodes(); }
  std::size_t classes() const { return egraph_.num_classes(); }

  // (stop reason, iterations)
  std::pair<std::string, std::size_t> run(const std::vector<std::tuple<std::string, std::string, std::string>>& rules,
                                          std::size_t iterations, std::size_t node_limit, double time_limit) {
    rules_.clear();
    for (const auto& [name, left, right] : rules) rules_.push_back(rewrite(name, TermReader(left).read(), TermReader(right).read()));
    Call call;
    RunOptions options;
    options.limits.iterations = iterations;
    options.limits.nodes = node_limit;
    options.limits.seconds = time_limit;
    options.limits.cancel = &call.stop;
    RunReport report;
    run_watched(call, [&] { report = ::saturate::run(egraph_, rules_, options); });
    return {std::string(to_string(report.stop)), report.iterations.size()};
  }

  // The cheapest term of a class by a sum over its tree, and its cost; `cost` prices an operator by name (1 where None).
  std::pair<std::string, double> extract(Id id, const nb::object& cost) const {
    std::vector<double> prices;
    for (const std::string& name : names_) prices.push_back(cost.is_none() ? 1.0 : nb::cast<double>(cost(name)));
    for (std::size_t i = 0; i < prices.size(); ++i)
      if (!(prices[i] >= 0)) throw nb::value_error((names_[i] + ": a cost must be a number of at least 0").c_str());
    std::vector<double> best(egraph_.num_ids(), std::numeric_limits<double>::infinity());
    std::vector<NodeId> choice(egraph_.num_ids(), kNone);
    const std::vector<Id> classes = egraph_.classes();
    for (bool changed = true; changed;) {
      changed = false;
      for (const Id c : classes)
        for (const NodeId n : egraph_.class_nodes(c)) {
          const ENode node = egraph_.node(n);
          double sum = prices[node.op];
          for (const Id child : node.children) sum += best[egraph_.find(child)];
          if (sum >= best[c]) continue;
          best[c] = sum;
          choice[c] = n;
          changed = true;
        }
    }
    const Id root = find(id);
    if (choice[root] == kNone) throw nb::value_error("no term of finite cost");
    std::string text;
    print(root, choice, text);
    return {text, best[root]};
  }

  std::optional<std::string> explain(Id a, Id b) const {
    const auto chain = ::saturate::explain(egraph_, known(a), known(b));
    if (!chain) return std::nullopt;
    return to_string(egraph_, *chain, name());
  }

  std::string dot() const { return to_dot(egraph_, name()); }
  std::string json(const std::vector<Id>& roots) const {
    for (const Id id : roots) known(id);
    return to_json(egraph_, name(), roots);
  }
  std::string text() const { return to_sexpr(egraph_, name()); }

 private:
  OpName name() const {
    return [this](OpId op) { return names_[op]; };
  }

  Id known(Id id) const {
    if (id >= egraph_.num_ids()) throw nb::index_error("no such class in this e-graph");
    return id;
  }

  // An operator is a name and a number of arguments.
  OpId op(const std::string& head, std::size_t arguments) {
    const auto [it, fresh] = ops_.try_emplace({head, arguments}, 0);
    if (fresh) {
      it->second = egraph_.add_op({static_cast<Kind>(names_.size())});
      names_.push_back(head);
    }
    return it->second;
  }

  Id insert(const Term& term) {
    if (is_variable(term)) throw nb::value_error((term.head + ": a variable has no place in a term").c_str());
    std::vector<Id> children;
    for (const Term& argument : term.arguments) children.push_back(insert(argument));
    return egraph_.add(op(term.head, children.size()), children);
  }

  std::uint32_t pattern(const Term& term, Pattern& out, std::map<std::string, std::uint32_t>& slots) {
    if (is_variable(term)) {
      const auto [it, fresh] = slots.try_emplace(term.head, static_cast<std::uint32_t>(out.nodes.size()));
      if (fresh) out.nodes.push_back({});
      return it->second;
    }
    PatternNode node;
    node.type = PatternNode::Type::kOperator;
    for (const Term& argument : term.arguments) node.children.push_back(pattern(argument, out, slots));
    node.kind = egraph_.op(op(term.head, term.arguments.size())).kind;
    out.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(out.nodes.size()) - 1;
  }

  std::uint32_t instance(const Term& term, Template& out, const std::map<std::string, std::uint32_t>& slots, const std::string& rule) {
    Template::Node node;
    if (is_variable(term)) {
      const auto it = slots.find(term.head);
      if (it == slots.end()) throw nb::value_error((rule + ": " + term.head + " stands on the right side only").c_str());
      node.slot = it->second;
    } else {
      for (const Term& argument : term.arguments) node.children.push_back(instance(argument, out, slots, rule));
      node.op = op(term.head, term.arguments.size());
    }
    out.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(out.nodes.size()) - 1;
  }

  Rewrite rewrite(const std::string& name, const Term& left, const Term& right) {
    Rewrite out;
    out.name = name;
    std::map<std::string, std::uint32_t> slots;
    pattern(left, out.left, slots);
    out.right.emplace();
    instance(right, *out.right, slots, name);
    return out;
  }

  void print(Id id, const std::vector<NodeId>& choice, std::string& out) const {
    const ENode node = egraph_.node(choice[egraph_.find(id)]);
    if (node.children.empty()) {
      out += names_[node.op];
      return;
    }
    out += "(" + names_[node.op];
    for (const Id child : node.children) {
      out += ' ';
      print(child, choice, out);
    }
    out += ')';
  }

  EGraph egraph_;
  std::map<std::pair<std::string, std::size_t>, OpId> ops_;
  std::vector<std::string> names_;   // by OpId
  std::vector<Rewrite> rules_;       // explanations name them
  std::map<std::string, Id> added_;  // the ids that terms had before they became equal: what explanations go between
};

}  // namespace

void bind_egraph(nb::module_& m) {
  nb::class_<TermGraph>(m, "EGraph")
      .def(nb::init<>())
      .def("add", &TermGraph::add)
      .def("merge", &TermGraph::merge)
      .def("find", &TermGraph::find)
      .def("nodes", &TermGraph::nodes)
      .def("classes", &TermGraph::classes)
      .def("run", &TermGraph::run)
      .def("extract", &TermGraph::extract, nb::arg("id"), nb::arg("cost").none())
      .def("explain", &TermGraph::explain)
      .def("dot", &TermGraph::dot)
      .def("json", &TermGraph::json)
      .def("text", &TermGraph::text);
}

}  // namespace saturate::python
