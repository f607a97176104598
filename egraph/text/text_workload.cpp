#include "egraph/text/text_workload.h"

#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace saturate {
namespace {

// ---- text to s-expressions ----

struct Expr {
  std::string atom;  // empty: a list
  std::vector<Expr> items;
  int line = 0;
};

absl::Status bad(int line, const std::string& what) { return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what)); }

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Expr>> read() {
    std::vector<Expr> stack(1);
    for (;;) {
      const std::string_view token = next();
      if (token.empty()) break;
      if (token == "(") {
        if (stack.size() > 1000) return bad(line_, "nested too deeply");
        stack.push_back({"", {}, line_});
      } else if (token == ")") {
        if (stack.size() == 1) return bad(line_, "')' without '('");
        Expr done = std::move(stack.back());
        stack.pop_back();
        stack.back().items.push_back(std::move(done));
      } else {
        stack.back().items.push_back({std::string(token), {}, line_});
      }
    }
    if (stack.size() > 1) return bad(stack.back().line, "'(' without ')'");
    return std::move(stack[0].items);
  }

 private:
  std::string_view next() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == ';') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++at_;
      } else {
        break;
      }
    }
    if (at_ == text_.size()) return {};
    if (text_[at_] == '(' || text_[at_] == ')') return text_.substr(at_++, 1);
    const std::size_t end = std::min(text_.find_first_of(" \t\r\n();", at_), text_.size());
    const std::string_view token = text_.substr(at_, end - at_);
    at_ = end;
    return token;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

std::optional<std::int64_t> as_number(std::string_view atom) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(atom.data(), atom.data() + atom.size(), value);
  if (error != std::errc() || end != atom.data() + atom.size()) return std::nullopt;
  return value;
}

// ---- what leaves a class holds ----

class LeafAnalysis : public Analysis {
 public:
  enum Bits : std::uint8_t { kZero = 1, kNumber = 2, kSymbol = 4 };
  void set_leaf(OpId op, std::uint8_t bits) {
    if (op >= of_op_.size()) of_op_.resize(op + 1, 0);
    of_op_[op] = bits;
  }
  std::uint8_t bits(Id id) const { return of_class_[id]; }

  void make(const EGraph&, Id id, const ENode& node) override {
    if (id >= of_class_.size()) of_class_.resize(id + 1, 0);
    of_class_[id] = of(node);
  }
  Join update(const EGraph&, Id id, const ENode& node) override {
    const std::uint8_t old = std::exchange(of_class_[id], static_cast<std::uint8_t>(of_class_[id] | of(node)));
    return {.first_changed = of_class_[id] != old, .second_changed = of_class_[id] != of(node), .contradiction = std::nullopt};
  }
  Join join(Id winner, Id loser) override {
    const std::uint8_t a = of_class_[winner], b = of_class_[loser];
    of_class_[winner] = a | b;
    return {.first_changed = (a | b) != a, .second_changed = (a | b) != b, .contradiction = std::nullopt};
  }
  void modify(EGraph&, Id) override {}

 private:
  std::uint8_t of(const ENode& node) const { return node.op < of_op_.size() ? of_op_[node.op] : 0; }
  std::vector<std::uint8_t> of_op_, of_class_;
};

struct Condition {
  enum class Type { kNotZero, kIsNumber, kIsSymbol, kNumberOrOther } type;
  std::uint32_t first = 0, second = 0;  // slots
};

class Conditional : public Applier {
 public:
  Conditional(const LeafAnalysis& leaves, std::vector<Condition> conditions) : leaves_(leaves), conditions_(std::move(conditions)) {}
  bool holds(const EGraph&, const Match& match) const override {
    for (const Condition& c : conditions_) {
      const std::uint8_t bits = leaves_.bits(match.classes[c.first]);
      bool ok = false;
      switch (c.type) {
        case Condition::Type::kNotZero:
          ok = (bits & LeafAnalysis::kZero) == 0;
          break;
        case Condition::Type::kIsNumber:
          ok = (bits & LeafAnalysis::kNumber) != 0;
          break;
        case Condition::Type::kIsSymbol:
          ok = (bits & LeafAnalysis::kSymbol) != 0;
          break;
        case Condition::Type::kNumberOrOther:
          ok = match.classes[c.first] != match.classes[c.second] && (bits & (LeafAnalysis::kNumber | LeafAnalysis::kSymbol)) != 0;
          break;
      }
      if (!ok) return false;
    }
    return true;
  }
  void apply(EGraph&, const Match&, std::vector<std::pair<Id, Id>>&) const override {}  // the template does it

 private:
  const LeafAnalysis& leaves_;
  std::vector<Condition> conditions_;
};

// ---- s-expressions to a workload ----

class WorkloadBuilder {
 public:
  explicit WorkloadBuilder(const Workload::Options& options) : options_(options) {
    auto leaves = std::make_unique<LeafAnalysis>();
    leaves_ = leaves.get();
    out_.leaves = std::move(leaves);
  }

  absl::StatusOr<Workload> build(const std::vector<Expr>& forms) {
    // Rules with conditions need the analysis, others run faster without.
    bool conditions = false;
    for (const Expr& form : forms) {
      if (form.items.empty() || form.items[0].atom.empty()) return bad(form.line, "a form (name ...) was expected");
      conditions |= form.items[0].atom == "rule" && form.items.size() > 4;
    }
    out_.egraph = std::make_unique<EGraph>(conditions ? out_.leaves.get() : nullptr);
    if (options_.commutative_matching) find_commutative(forms);
    for (const Expr& form : forms) {
      if (auto status = read_form(form); !status.ok()) return status;
    }
    if (options_.reverse_rules) std::reverse(out_.rules.begin(), out_.rules.end());
    out_.egraph->rebuild();
    return std::move(out_);
  }

 private:
  static bool is_commutativity(const Expr& form) {
    if (form.items.size() != 4 || form.items[0].atom != "rule") return false;
    const Expr &l = form.items[2], &r = form.items[3];
    if (l.items.size() != 3 || r.items.size() != 3 || l.items[0].atom != r.items[0].atom) return false;
    const auto variable = [](const Expr& e) { return e.atom.starts_with('?'); };
    return variable(l.items[1]) && variable(l.items[2]) && l.items[1].atom != l.items[2].atom && l.items[1].atom == r.items[2].atom &&
           l.items[2].atom == r.items[1].atom;
  }
  void find_commutative(const std::vector<Expr>& forms) {
    for (const Expr& form : forms) {
      if (is_commutativity(form)) commutative_[absl::StrCat(form.items[2].items[0].atom, "/", 2)] = true;
    }
  }

  absl::Status read_form(const Expr& form) {
    const std::string& name = form.items[0].atom;
    const std::size_t n = form.items.size();
    if (name == "lang" && n == 2) return absl::OkStatus();
    if (name == "iters" && n == 2) {
      const auto count = as_number(form.items[1].atom);
      if (!count || *count < 0) return bad(form.line, "a number of iterations was expected");
      out_.iterations = static_cast<std::size_t>(*count);
      return absl::OkStatus();
    }
    if (name == "rule" && n >= 4) return read_rule(form);
    if ((name == "root" && n == 2) || (name == "let" && n == 3 && form.items[1].atom.starts_with('$'))) {
      auto id = add_term(form.items[n - 1]);
      if (!id.ok()) return id.status();
      if (name == "root") out_.roots.push_back(*id);
      if (name == "let") lets_[form.items[1].atom] = *id;
      return absl::OkStatus();
    }
    return bad(form.line, absl::StrCat("unknown form '", name, "' or wrong number of parts"));
  }

  OpId op(const std::string& name, std::size_t arity) {
    const std::string key = absl::StrCat(name, "/", arity);
    const auto [it, fresh] = out_.ops.try_emplace(key, 0);
    if (!fresh) return it->second;
    it->second = out_.egraph->add_op({.kind = static_cast<Kind>(out_.ops.size() - 1), .commutative = commutative_.contains(key)});
    const auto number = as_number(name);
    if (arity == 0) {
      leaves_->set_leaf(it->second, !number        ? LeafAnalysis::kSymbol
                                    : *number == 0 ? LeafAnalysis::kZero | LeafAnalysis::kNumber
                                                   : LeafAnalysis::kNumber);
    }
    out_.op_names.push_back(arity == 0 ? (number ? "<num>" : "<sym>") : name);
    out_.op_texts.push_back(name);
    return it->second;
  }
  static std::string leaf_name(const std::string& atom) {
    const auto number = as_number(atom);
    return number ? absl::StrCat(*number) : atom;
  }

  absl::StatusOr<Id> add_term(const Expr& expr) {
    if (!expr.atom.empty()) {
      if (expr.atom[0] == '?') return bad(expr.line, "a pattern variable in a term");
      if (expr.atom[0] == '$') {
        const auto it = lets_.find(expr.atom);
        if (it == lets_.end()) return bad(expr.line, absl::StrCat("unknown name ", expr.atom));
        return it->second;
      }
      return out_.egraph->add(op(leaf_name(expr.atom), 0), {});
    }
    if (expr.items.empty() || expr.items[0].atom.empty()) return bad(expr.line, "a term (operator ...) was expected");
    std::vector<Id> children;
    for (std::size_t i = 1; i < expr.items.size(); ++i) {
      auto id = add_term(expr.items[i]);
      if (!id.ok()) return id;
      children.push_back(*id);
    }
    return out_.egraph->add(op(expr.items[0].atom, children.size()), children);
  }

  using Slots = std::map<std::string, std::uint32_t>;

  absl::StatusOr<std::uint32_t> add_pattern(const Expr& expr, Pattern& pattern, Slots& slots) {
    PatternNode node;
    if (expr.atom.starts_with('$')) return bad(expr.line, "a $name in a rule");
    if (expr.atom.starts_with('?')) {
      const auto [it, fresh] = slots.try_emplace(expr.atom, static_cast<std::uint32_t>(pattern.nodes.size()));
      if (fresh) pattern.nodes.push_back(node);
      return it->second;
    }
    node.type = PatternNode::Type::kOperator;
    if (!expr.atom.empty()) {
      node.op = op(leaf_name(expr.atom), 0);
    } else {
      if (expr.items.empty() || expr.items[0].atom.empty()) return bad(expr.line, "a pattern (operator ...) was expected");
      for (std::size_t i = 1; i < expr.items.size(); ++i) {
        auto child = add_pattern(expr.items[i], pattern, slots);
        if (!child.ok()) return child;
        node.children.push_back(*child);
      }
      node.op = op(expr.items[0].atom, node.children.size());
    }
    node.kind = out_.egraph->op(node.op).kind;
    pattern.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(pattern.nodes.size() - 1);
  }

  absl::StatusOr<std::uint32_t> add_template(const Expr& expr, Template& right, const Slots& slots,
                                             std::map<std::uint32_t, std::uint32_t>& made) {
    Template::Node node;
    if (expr.atom.starts_with('$')) return bad(expr.line, "a $name in a rule");
    if (expr.atom.starts_with('?')) {
      const auto it = slots.find(expr.atom);
      if (it == slots.end()) return bad(expr.line, absl::StrCat(expr.atom, " does not stand on the left"));
      const auto [at, fresh] = made.try_emplace(it->second, static_cast<std::uint32_t>(right.nodes.size()));
      if (!fresh) return at->second;
      node.slot = it->second;
    } else if (!expr.atom.empty()) {
      node.op = op(leaf_name(expr.atom), 0);
    } else {
      if (expr.items.empty() || expr.items[0].atom.empty()) return bad(expr.line, "a term (operator ...) was expected");
      for (std::size_t i = 1; i < expr.items.size(); ++i) {
        auto child = add_template(expr.items[i], right, slots, made);
        if (!child.ok()) return child;
        node.children.push_back(*child);
      }
      node.op = op(expr.items[0].atom, node.children.size());
    }
    right.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(right.nodes.size() - 1);
  }

  absl::StatusOr<Condition> read_condition(const Expr& expr, const Slots& slots) {
    static constexpr std::pair<std::string_view, Condition::Type> kTypes[] = {{"not-zero", Condition::Type::kNotZero},
                                                                              {"is-num", Condition::Type::kIsNumber},
                                                                              {"is-sym", Condition::Type::kIsSymbol},
                                                                              {"num-or-other", Condition::Type::kNumberOrOther}};
    if (expr.items.empty()) return bad(expr.line, "a condition was expected");
    for (const auto& [name, type] : kTypes) {
      if (expr.items[0].atom != name) continue;
      const std::size_t wanted = type == Condition::Type::kNumberOrOther ? 2 : 1;
      if (expr.items.size() != wanted + 1) return bad(expr.line, "wrong number of arguments of a condition");
      Condition condition{type};
      for (std::size_t i = 0; i < wanted; ++i) {
        const auto it = slots.find(expr.items[i + 1].atom);
        if (it == slots.end()) return bad(expr.line, "a condition on an unbound variable");
        (i == 0 ? condition.first : condition.second) = it->second;
      }
      return condition;
    }
    return bad(expr.line, absl::StrCat("unknown condition ", expr.items[0].atom));
  }

  absl::Status read_rule(const Expr& form) {
    if (options_.commutative_matching && is_commutativity(form)) return absl::OkStatus();
    Rewrite rule;
    rule.name = form.items[1].atom;
    Slots slots;
    auto left = add_pattern(form.items[2], rule.left, slots);
    if (!left.ok()) return left.status();
    rule.right.emplace();
    std::map<std::uint32_t, std::uint32_t> made;
    auto right = add_template(form.items[3], *rule.right, slots, made);
    if (!right.ok()) return right.status();
    if (*right + 1 != rule.right->nodes.size()) return bad(form.line, "the right-hand side has no root");
    std::vector<Condition> conditions;
    for (std::size_t i = 4; i < form.items.size(); ++i) {
      auto condition = read_condition(form.items[i], slots);
      if (!condition.ok()) return condition.status();
      conditions.push_back(*condition);
    }
    if (!conditions.empty()) rule.applier = std::make_shared<Conditional>(*leaves_, std::move(conditions));
    out_.rules.push_back(std::move(rule));
    return absl::OkStatus();
  }

  Workload::Options options_;
  Workload out_;
  LeafAnalysis* leaves_ = nullptr;
  std::map<std::string, bool> commutative_;
  std::map<std::string, Id> lets_;
};

}  // namespace

absl::StatusOr<Workload> Workload::parse(std::string_view text, const Options& options) {
  auto forms = Reader(text).read();
  if (!forms.ok()) return forms.status();
  return WorkloadBuilder(options).build(*forms);
}

absl::StatusOr<Id> Workload::add_term(std::string_view text) {
  auto forms = Reader(text).read();
  if (!forms.ok()) return forms.status();
  if (forms->size() != 1) return bad(1, "one term was expected");
  const auto add = [this](const auto& self, const Expr& expr) -> absl::StatusOr<Id> {
    const std::string& name = expr.atom.empty() && !expr.items.empty() ? expr.items[0].atom : expr.atom;
    std::vector<Id> children;
    for (std::size_t i = 1; i < expr.items.size(); ++i) {
      auto child = self(self, expr.items[i]);
      if (!child.ok()) return child;
      children.push_back(*child);
    }
    const auto it = ops.find(absl::StrCat(name, "/", children.size()));
    if (name.empty() || it == ops.end()) return bad(expr.line, absl::StrCat("unknown operator '", name, "' of ", children.size()));
    return egraph->add(it->second, children);
  };
  return add(add, (*forms)[0]);
}

std::string class_sizes_fnv1a64(const EGraph& egraph) {
  std::vector<std::uint32_t> sizes(egraph.num_ids(), 0);
  for (NodeId n = 0; n < egraph.num_ids(); ++n) {
    if (egraph.is_live(n)) ++sizes[egraph.class_of(n)];
  }
  std::map<std::size_t, std::size_t> histogram;
  for (const std::uint32_t size : sizes) {
    if (size > 0) ++histogram[size];
  }
  // Not the standard's offset basis (its last digit is missing), but the one that the expected values were made with.
  std::uint64_t hash = 1469598103934665603ull;
  for (const auto& [size, count] : histogram) {
    for (const char c : absl::StrCat(size, ":", count, ",")) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

}  // namespace saturate
