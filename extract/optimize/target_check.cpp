#include "extract/optimize/target_check.h"

#include <algorithm>

#include "extract/optimize/optimize.h"
#include "extract/units/border.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/model/function_index.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

constexpr int kMaxDepth = 16;

class Checker {
 public:
  Checker(const Target& target, const Evaluator& evaluator) : target_(target), evaluator_(evaluator) {}

  // A graph; the one around it is given for a body.
  absl::Status check(const Model& model, const OnnxEGraph* outside, const Lowered* values, int depth) {
    OnnxEGraph g(evaluator_);
    LowerOptions options;
    if (outside) options.captured = capture(model.graph, *outside, *values, g.dims());
    const auto lowered = lower(model, g, options);
    if (!lowered.ok()) return lowered.status();
    const Border border = Border::of_nodes(g, *lowered, target_);
    const FunctionIndex functions(model.functions);
    for (const Source& s : lowered->sources) check_source(model, functions, g, s, border);
    if (depth == kMaxDepth) return absl::OkStatus();
    for (const Node& node : model.graph.nodes)
      for (const Attribute& a : node.attributes) {
        if (a.type != AttributeType::kGraph) continue;
        const Model body = model_of_body(model, a.g());
        if (absl::Status s = check(body, &g, &*lowered, depth + 1); !s.ok()) return s;
      }
    return absl::OkStatus();
  }

  std::vector<Inexpressible> found;

 private:
  void check_source(const Model& model, const FunctionIndex& functions, const OnnxEGraph& g, const Source& s, const Border& border) {
    if (!s.node || s.op == kNone) return;
    const Node& node = *s.node;
    if (functions.called(node)) return;
    OpKey key = g.key(s.op);
    key.domain = node.domain;  // as written: the e-node may be of another operator (canonical form)
    key.op_type = node.op_type;
    OpSite site{.key = key, .of_model = true};
    for (const Id c : s.inputs) site.inputs.push_back(&g.facts(c));
    for (const Id o : s.outputs)
      if (o != kNone) site.outputs.push_back(&g.facts(o));
    site.dims = &g.dims();
    site.egraph = &g;
    site.node = ENode{s.op, s.inputs};
    site.lowest_opset = site.highest_opset = model.opset("");
    site.at_border = !s.inputs.empty() && !s.outputs.empty() && s.outputs[0] != kNone && border.has(s.inputs[0], s.outputs[0]);
    std::string why;
    if (target_.allows(site, &why)) return;
    const std::string output = first_output(node);
    found.push_back({node.name.empty() ? output : node.name, qualified_name(node.domain, node.op_type), why, output});
  }

  const Target& target_;
  const Evaluator& evaluator_;
};

}  // namespace

absl::StatusOr<std::vector<Inexpressible>> check_target(const Model& model, const Target& target) {
  const auto evaluator = make_evaluator();
  Checker checker(target, *evaluator);
  if (absl::Status s = checker.check(model, nullptr, nullptr, 0); !s.ok()) return s;
  return std::move(checker.found);
}

std::vector<Inexpressible> count_refused(const Model& original, const Model& result, const Target& target, OptimizeReport& report) {
  if (!target.is_restricted()) return {};
  if (const auto before = check_target(original, target); before.ok()) report.refused_before = before->size();
  auto found = check_target(result, target);
  if (!found.ok()) return {};
  report.refused_after = found->size();
  return *std::move(found);
}

}  // namespace saturate
