#include "tools/pipeline/target_forms.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "absl/container/flat_hash_map.h"
#include "extract/optimize/optimize.h"
#include "extract/sizes/op_sizes.h"
#include "extract/units/border.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {
namespace {

constexpr std::size_t kMostOperators = 24;  // of a form that is told
constexpr std::size_t kMostObstacles = 3;
constexpr int kDeepest = 6;  // operators between a form and what it lacks

struct EqualForm {
  std::vector<std::string> instead;
  std::string obstacle;
};

// The choice of one graph, asked for the values of its refused nodes.
class Forms {
 public:
  Forms(const StageView& view, const Target& target)
      : g_(view.g),
        e_(view.g.egraph()),
        lowered_(view.lowered),
        chosen_(*view.selection),
        target_(target),
        border_(Border::of_enodes(view.g, view.lowered, target)) {
    wants_sizes_ = std::any_of(target.limits.begin(), target.limits.end(), [](const OperatorLimits& l) { return l.static_shapes; });
    for (const Source& s : lowered_.sources) {
      for (const Id o : s.outputs)
        if (o != kNone) values_.insert(e_.find(o));
      for (const Id i : s.children) readers_[e_.find(i)].push_back(&s);
    }
  }

  EqualForm form_of(const Source& s) const {
    if (wants_sizes_ && has_open_sizes(s)) return {{}, "its sizes are open; --dim or --input-shapes gives them"};
    const auto first = std::find_if(s.outputs.begin(), s.outputs.end(), [](Id o) { return o != kNone; });
    if (first == s.outputs.end()) return {};
    const Id id = e_.find(*first);
    const Choice* choice = chosen_.find(id);
    if (choice && choice->folded) return {{"a constant"}, ""};
    if (!choice || choice->node == kNone) return part_of(id);
    EqualForm out;
    std::unordered_set<Id> seen;
    collect(id, id, seen, out);
    if (!out.obstacle.empty()) out.instead.clear();
    return out;
  }

 private:
  bool has_open_sizes(const Source& s) const {
    const auto open = [&](Id id) {
      const Facts& f = g_.facts(id);
      return f.shape && std::any_of(f.shape->begin(), f.shape->end(), [&](Dim d) { return !g_.dims().value(d); });
    };
    return std::any_of(s.inputs.begin(), s.inputs.end(), open);
  }

  std::string name_of(NodeId n) const {
    const OpKey& key = g_.key(e_.node(n).op);
    return operator_name(key.domain, key.op_type);
  }
  bool is_leaf(NodeId n) const { return g_.key(e_.node(n).op).domain == "#" && e_.node(n).children.empty(); }
  bool is_projection(NodeId n) const { return g_.key(e_.node(n).op).op_type == kProjOp; }

  std::string refusal(NodeId n, Id id) const {
    std::string why;
    const OpKey& key = g_.key(e_.node(n).op);
    if (key.domain == "#") return "";
    if (key.domain == "saturate") return "not an operator of ONNX";
    OpSite site = site_of(g_, e_.node(n), id);
    site.highest_opset = std::max(target_.highest_opset(), lowered_.model->opset(""));
    site.at_border = !e_.node(n).children.empty() && border_.has(e_.node(n).children[0], id);
    target_.allows(site, &why);
    return why;
  }

  // The chosen operators between a value and the model's values that it is made of, inputs first.
  void collect(Id id, Id whole, std::unordered_set<Id>& seen, EqualForm& out) const {
    if (!seen.insert(id).second || out.instead.size() > kMostOperators) return;
    const Choice* choice = chosen_.find(id);
    if (!choice || choice->folded || choice->node == kNone || is_leaf(choice->node)) return;
    const ENode node = e_.node(choice->node);
    for (const Id child : node.children) {
      const Id c = e_.find(child);
      if (!values_.contains(c)) collect(c, whole, seen, out);
      if (is_projection(choice->node)) collect(c, whole, seen, out);
    }
    if (g_.key(node.op).domain == "#") return;
    if (const std::string why = refusal(choice->node, id); !why.empty() && out.obstacle.empty())
      out.obstacle = obstacle_at(id, choice->node, why);
    out.instead.push_back(name_of(choice->node));
  }

  // Why a value is made by an operator that the target refuses: what else would make it, and what is wrong with that.
  std::string obstacle_at(Id id, NodeId chosen, const std::string& why) const {
    std::vector<std::string> others;
    for (const NodeId n : e_.class_nodes(id)) {
      if (n == chosen || g_.key(e_.node(n).op).domain == "#" || g_.key(e_.node(n).op).domain == "saturate") continue;
      if (name_of(n) == name_of(chosen) && refusal(n, id) == why) continue;
      const std::string wrong = refusal(n, id);
      const std::string line = wrong.empty() ? needs_of(n) : wrong;
      if (!line.empty() && std::find(others.begin(), others.end(), line) == others.end()) others.push_back(line);
    }
    if (others.empty()) return fmt::format("no equal form of {} is known", name_of(chosen));
    if (others.size() > kMostObstacles) others.resize(kMostObstacles);
    return fmt::format("{} would also do, but: {}", name_of(chosen), fmt::join(others, "; "));
  }

  // What an operator that the target takes lacks: an operand that only refused operators make.
  std::string needs_of(NodeId n, int depth = 0) const {
    if (depth == kDeepest) return "";
    for (const Id child : e_.node(n).children)
      if (std::string lacks = lacks_of(e_.find(child), depth + 1); !lacks.empty()) return fmt::format("{} needs {}", name_of(n), lacks);
    return "";
  }

  // Empty for what is there, or can be made.
  std::string lacks_of(Id id, int depth) const {
    if (g_.facts(id).constant || values_.contains(id)) return "";
    std::string first;
    for (const NodeId n : e_.class_nodes(id)) {
      std::string wrong = is_leaf(n) ? "" : refusal(n, id);
      if (wrong.empty()) wrong = needs_of(n, depth);
      if (wrong.empty()) return "";
      if (first.empty()) first = std::move(wrong);
    }
    return first;
  }

  // A value that the choice does not need: the nearest value behind it that it does need takes it in.
  EqualForm part_of(Id id) const {
    std::vector<Id> open{id};
    std::unordered_set<Id> seen{id};
    for (std::size_t i = 0; i < open.size(); ++i) {
      const auto readers = readers_.find(open[i]);
      if (readers == readers_.end()) continue;
      for (const Source* s : readers->second)
        for (const Id o : s->outputs) {
          if (o == kNone || !seen.insert(e_.find(o)).second) continue;
          const Choice* choice = chosen_.find(e_.find(o));
          if (choice && choice->folded) return {{"a constant"}, ""};
          if (choice && choice->node != kNone) {
            const std::string why = refusal(choice->node, e_.find(o));
            const std::string name = g_.key(e_.node(choice->node).op).domain == "#" ? "what reads it" : name_of(choice->node);
            return why.empty() ? EqualForm{{fmt::format("part of {}", name)}, ""}
                               : EqualForm{{}, obstacle_at(e_.find(o), choice->node, why)};
          }
          open.push_back(e_.find(o));
        }
    }
    return {{"nothing: no output needs it"}, ""};
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const Lowered& lowered_;
  const Selection& chosen_;
  const Target& target_;
  const Border border_;
  bool wants_sizes_ = false;
  std::unordered_set<Id> values_;  // that the model's nodes make
  absl::flat_hash_map<Id, std::vector<const Source*>> readers_;
};

}  // namespace

absl::StatusOr<std::vector<Inexpressible>> check_target_with_forms(const Model& model, const Setup& setup) {
  auto found = check_target(model, setup.target);
  if (!found.ok() || found->empty()) return found;
  std::map<std::string, std::map<std::string, EqualForm>> forms;  // by graph, then by the first output of the node
  OptimizeOptions options;
  options.stop_after = "extract";
  options.after_stage = [&](const StageView& view) {
    if (view.stage != "extract") return;
    const Forms of_graph(view, setup.target);
    auto& here = forms[view.where];
    here.clear();
    for (const Source& s : view.lowered.sources)
      if (s.node && s.op != kNone) here[first_output(*s.node)] = of_graph.form_of(s);
  };
  if (const auto optimized = optimize(model, setup.rules, setup.target, *setup.cost, options); !optimized.ok()) return found;
  for (Inexpressible& node : *found)
    for (const auto& [where, here] : forms)
      if (const auto it = here.find(node.output); it != here.end() && node.instead.empty() && node.obstacle.empty()) {
        node.instead = it->second.instead;
        node.obstacle = it->second.obstacle;
      }
  return found;
}

}  // namespace saturate
