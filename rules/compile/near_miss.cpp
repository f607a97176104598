#include "rules/compile/near_miss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "rules/compile/compile.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxFullMatches = 10'000;
constexpr std::size_t kMaxShownBytes = 64;  // a constant of one number is read, others are only called so

class NearestSearch {
 public:
  NearestSearch(const OnnxEGraph& g, const Rewrite& rewrite, const Namer& name)
      : g_(g), e_(g.egraph()), rewrite_(rewrite), pattern_(rewrite.left), name_(name) {}

  std::optional<NearMiss> run(Id root) {
    const Found& best = find(pattern_.root(), e_.find(root));
    if (best.node == kNone) return std::nullopt;
    NearMiss miss;
    miss.missing = best.missing;
    collect(pattern_.root(), e_.find(root), miss);
    if (miss.missing == 0) full_match(root, miss);
    return miss;
  }

 private:
  // The best e-node of a class for a pattern node: fewest requirements missing, then most operators matched.
  struct Found {
    NodeId node = kNone;
    std::uint32_t missing = 0, matched = 0;
    std::uint32_t leaves = 0;  // of the missing ones, those where an input or constant stands: no rewriting would bring them
    bool swapped = false, attributes = true;
  };

  bool is_operator(std::uint32_t slot) const { return pattern_.nodes[slot].type == PatternNode::Type::kOperator; }
  std::uint32_t operators_below(std::uint32_t slot) const {
    if (!is_operator(slot)) return 0;
    std::uint32_t n = plumbing(slot) ? 0 : 1;
    for (std::uint32_t c : pattern_.nodes[slot].children) n += operators_below(c);
    return n;
  }
  // Absent inputs and projections of tuples are no operators to a reader.
  bool plumbing(std::uint32_t slot) const { return g_.kind_name(pattern_.nodes[slot].kind).starts_with("#"); }

  bool is_leaf(Id id) const {
    const auto nodes = e_.class_nodes(id);
    return std::all_of(nodes.begin(), nodes.end(), [&](NodeId n) { return e_.node(n).children.empty(); });
  }

  const Found& find(std::uint32_t slot, Id id) {
    const auto key = std::pair(slot, id);
    if (const auto it = found_.find(key); it != found_.end()) return it->second;
    const Found found = is_operator(slot) ? find_operator(slot, id) : find_variable(slot, id);
    return found_[key] = found;
  }

  Found find_variable(std::uint32_t slot, Id id) const {
    const auto& accepts = pattern_.nodes[slot].accepts;
    Found found;
    found.missing = accepts && !accepts(e_, id) ? 1 : 0;
    return found;
  }

  Found find_operator(std::uint32_t slot, Id id) {
    const PatternNode& wanted = pattern_.nodes[slot];
    Found best;
    best.missing = std::max(1u, operators_below(slot));
    best.leaves = is_leaf(id) ? 1 : 0;
    for (NodeId n : e_.class_nodes(id)) {
      const ENode node = e_.node(n);
      const OpTraits& traits = e_.op(node.op);
      if (traits.kind != wanted.kind || node.children.size() != wanted.children.size()) continue;
      for (const bool swapped : {false, true}) {
        if (swapped && !(traits.commutative && node.children.size() == 2)) continue;
        Found f;
        f.node = n;
        f.matched = plumbing(slot) ? 0 : 1;
        f.swapped = swapped;
        f.attributes = (wanted.op == kNone || wanted.op == node.op) && (!wanted.accepts_op || wanted.accepts_op(node.op));
        f.missing += f.attributes ? 0 : 1;
        for (std::size_t i = 0; i < node.children.size(); ++i) {
          const Found& child = find(wanted.children[i], e_.find(node.children[swapped ? 1 - i : i]));
          f.missing += child.missing;
          f.matched += child.matched;
          f.leaves += child.leaves;
        }
        const auto worse_than = [&](const Found& a, const Found& b) {
          return std::tie(a.missing, a.leaves, b.matched) > std::tie(b.missing, b.leaves, a.matched);
        };
        if (best.node == kNone || worse_than(best, f)) best = f;
      }
    }
    return best;
  }

  // Follows the best choices down; notes what is there and the first thing that is not.
  void collect(std::uint32_t slot, Id id, NearMiss& miss) {
    const Found found = find(slot, id);
    const PatternNode& wanted = pattern_.nodes[slot];
    miss.classes.push_back(id);
    if (!is_operator(slot)) {
      if (found.missing) fail(miss, id, [&] { return fmt::format("{} is {}, not {}", name_(id), operators_of(g_, id), wanted_at(slot)); });
      return;
    }
    if (!plumbing(slot)) ++miss.total;
    if (found.node == kNone) {
      miss.total += operators_below(slot) - (plumbing(slot) ? 0 : 1);
      if (miss.reason.empty() && !plumbing(slot)) miss.wanted = g_.kind_name(wanted.kind);
      fail(miss, id, [&] {
        return plumbing(slot) ? fmt::format("{} is there, where the rule wants nothing", name_(id))
                              : fmt::format("{} is {}, not {}", name_(id), operators_of(g_, id), g_.kind_name(wanted.kind));
      });
      return;
    }
    const ENode node = e_.node(found.node);
    if (!plumbing(slot)) {
      ++miss.matched;
      miss.nodes.push_back(found.node);
    }
    if (!found.attributes)
      fail(miss, id, [&] { return fmt::format("{}, a {}, has other attributes than the rule wants", name_(id), shown(node.op)); });
    for (std::size_t i = 0; i < node.children.size(); ++i)
      collect(wanted.children[i], e_.find(node.children[found.swapped ? 1 - i : i]), miss);
  }

  // The first thing that fails is told.
  template <typename Reason>
  static void fail(NearMiss& miss, Id id, Reason reason) {
    if (!miss.reason.empty()) return;
    miss.reason = reason();
    miss.at = id;
  }

  // What a variable or constant of the pattern stands for, to a reader.
  std::string wanted_at(std::uint32_t slot) const {
    const auto* applier = dynamic_cast<const RuleApplier*>(rewrite_.applier.get());
    const std::string constant = applier ? applier->constant_at(slot) : "";
    return constant.empty() ? "the input that the rule names" : constant;
  }

  std::string shown(OpId op) const {
    const OpKey& key = g_.key(op);
    std::vector<std::string> attributes;
    for (const Attribute& a : key.attributes) attributes.push_back(fmt::format("{}={}", a.name, to_string(a)));
    return fmt::format("{} <{}>", key.op_type, fmt::join(attributes, ", "));
  }

  static std::string to_string(const Attribute& a) {
    if (a.type == AttributeType::kInt) return fmt::format("{}", a.i());
    if (a.type == AttributeType::kFloat) return fmt::format("{:g}", a.f());
    if (a.type == AttributeType::kString) return fmt::format("\"{}\"", a.s());
    if (a.type == AttributeType::kInts) return fmt::format("[{}]", fmt::join(a.ints(), ","));
    return "...";
  }

  // All operators are there: either one value would have to be two, or a condition fails.
  void full_match(Id root, NearMiss& miss) {
    const auto* applier = dynamic_cast<const RuleApplier*>(rewrite_.applier.get());
    bool any = false;
    std::string why;
    for (const OwnedMatch& m : search(e_, pattern_, kMaxFullMatches)) {
      if (e_.find(m.classes.back()) != e_.find(root)) continue;
      any = true;
      const Match match{m.classes, m.matched, m.ops};
      const std::string reason = applier                                                   ? applier->why_not(match)
                                 : rewrite_.applier && !rewrite_.applier->holds(e_, match) ? "its condition does not hold"
                                                                                           : "";
      if (reason.empty()) return;  // the rule applies
      if (why.empty()) why = reason;
    }
    miss.missing = 1;
    miss.reason = any ? why : "values that the rule wants to be one and the same are not known to be";
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const Rewrite& rewrite_;
  const Pattern& pattern_;
  const Namer& name_;
  std::map<std::pair<std::uint32_t, Id>, Found> found_;
};

}  // namespace

std::optional<NearMiss> nearest_miss(const OnnxEGraph& g, const Rewrite& rewrite, Id root, const Namer& name) {
  return NearestSearch(g, rewrite, name).run(root);
}

namespace {

// "the constant 1.5" where it is one number.
std::string constant_of(const OnnxEGraph& g, Id id) {
  const auto t = g.value(id, kMaxShownBytes);
  const auto number = t && t->size() == 1 ? element_as_double(*t, 0) : std::nullopt;
  return number ? fmt::format("the constant {:g}", *number) : "a constant";
}

}  // namespace

std::string operators_of(const OnnxEGraph& g, Id id) {
  std::set<std::string> ops, internal;  // internal operators are none to a reader, where there are others
  bool literal = false;
  for (NodeId n : g.egraph().class_nodes(g.egraph().find(id))) {
    const OpKey& key = g.key(g.egraph().node(n).op);
    if (key.domain != "#")
      (key.domain == "saturate" ? internal : ops).insert(key.op_type);
    else if (key.op_type == kInputOp)
      return "an input";
    else if (key.op_type == kConstantOp)
      return constant_of(g, id);
    else if (key.op_type == kAbsentOp)
      return "absent";
    else
      literal = literal || key.op_type == kLiteralOp;
  }
  if (ops.empty()) ops = std::move(internal);
  if (ops.empty()) return literal ? "a shape" : "an output of several";
  return fmt::format("{}", fmt::join(ops, " or "));
}

}  // namespace saturate
