// Other shapes of the same numbers, and sums in parts.
#include <algorithm>
#include <numeric>

#include "extract/prepare/first_versions.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/inputs/types.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/edit.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

using Extents = std::vector<std::int64_t>;
using Types = std::map<std::string, ValueType>;

std::int64_t product(const Extents& dims) { return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>()); }

// ---- reshape_results

// The shape for so many elements, its -1 resolved; nullopt where it has room for another number of them.
std::optional<Extents> resolved(Extents shape, std::int64_t elements) {
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open == shape.end()) return product(shape) == elements ? std::optional(shape) : std::nullopt;
  *open = 1;
  const std::int64_t others = product(shape);
  if (elements <= 0 || others <= 0 || elements % others != 0) return std::nullopt;
  *open = elements / others;
  return shape;
}

// Whether a node takes its input in any shape, and gives the same one.
bool moves_on(const Node& node) { return has(Trait::kUnaryElementwise, node) && node.inputs.size() == 1; }

class Reshaper {
 public:
  Reshaper(Work& work, Extents shape, Types types) : work_(work), shape_(std::move(shape)), types_(std::move(types)) {}

  // What the node gives becomes the same numbers in the new shape, wherever that is taken.
  absl::Status reshape(std::size_t at, const Arguments& args) {
    Node node = work_.graph().nodes[at];
    const std::string value = node.outputs[0];
    const auto dims = static_dims(types_, value);
    if (!dims)
      return args.wrong("shape", fmt::format("{}", fmt::join(shape_, ",")),
                        fmt::format("the dims of '{}' are no numbers; set_dims sets them", value));
    const auto shape = resolved(shape_, product(*dims));
    if (!shape)
      return args.wrong("shape", fmt::format("{}", fmt::join(shape_, ",")),
                        fmt::format("'{}' has {} elements, of dims {}", value, product(*dims), fmt::join(*dims, ",")));
    if (*shape == *dims && node.op_type != "Flatten") return absl::OkStatus();
    const std::string like = node.name.empty() ? value : node.name;
    const std::string to = add_ints(work_, like + "_reshape_shape", *shape);
    auto& nodes = work_.graph().nodes;
    if (node.op_type == "Flatten") {
      nodes[at] = make_node("Reshape", {node.inputs[0], to}, value);
    } else {
      const std::string before = work_.fresh(value + "_unshaped");
      nodes[at].outputs[0] = before;
      nodes[at].origin = nullptr;
      nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1, make_node("Reshape", {before, to}, value));
    }
    work_.ties.values.erase(value);
    take_on(value, *shape, *dims);
    return absl::OkStatus();
  }

  std::size_t restored() const { return restored_; }

 private:
  // `value` has another shape now: readers that work element by element hand it on, others read it in the old one.
  void take_on(const std::string& value, const Extents& shape, const Extents& before) {
    std::erase_if(work_.graph().value_info, [&](const ValueInfo& v) { return v.name == value; });
    if (const auto tie = work_.ties.outputs.find(value); tie != work_.ties.outputs.end())
      tie->second.views.push_back({View::Kind::kReshape, DType::kUndefined, shape});
    work_.each_output(value, [&](ValueInfo& output) {
      output.type.shape.emplace(shape.begin(), shape.end());
      output.origin = nullptr;
    });
    std::string old;
    std::vector<std::string> onward;
    for (Node& node : work_.graph().nodes) {
      if (!reads(node, value)) continue;
      if (moves_on(node)) {
        onward.push_back(node.outputs[0]);
        continue;
      }
      if (old.empty()) old = work_.fresh(value + "_restored");
    }
    if (!old.empty()) restore(value, old, before);
    for (const std::string& next : onward) {
      work_.ties.values.erase(next);
      take_on(next, shape, before);
    }
  }

  void restore(const std::string& value, const std::string& old, const Extents& before) {
    auto& nodes = work_.graph().nodes;
    std::vector<Node> all;
    // Readers in their places, so that a rename of all of them keeps those that go on.
    Graph readers;
    for (Node& node : nodes)
      if (reads(node, value) && !moves_on(node)) readers.nodes.push_back(node);
    rename_values(readers, {{value, old}}, work_.fresh);
    std::size_t next = 0;
    for (Node& node : nodes) {
      const bool makes = std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end();
      all.push_back(reads(node, value) && !moves_on(node) ? readers.nodes[next++] : std::move(node));
      if (makes) all.push_back(make_node("Reshape", {value, add_ints(work_, value + "_old_shape", before)}, old));
    }
    nodes = std::move(all);
    ++restored_;
  }

  Work& work_;
  Extents shape_;
  Types types_;
  std::size_t restored_ = 0;
};

// ---- split_sums

// Y = ReduceSum(Clip?(Reshape(X))) where the Reshape cuts the last axis of X into two halves, and the sum runs over each.
struct HalvedSum {
  std::size_t sum = 0;
  std::string x;
  std::vector<std::string> bounds;  // of the Clip
  bool clipped = false, keeps_dims = false;
  std::int64_t axis = 0, half = 0;
};

std::optional<HalvedSum> halved_sum(const Graph& graph, std::size_t at, const Types& types, bool clipped) {
  const Node& sum = graph.nodes[at];
  if (!is_operator(sum, "ReduceSum") || sum.inputs.size() < 2) return std::nullopt;
  HalvedSum found{at, "", {}, clipped, int_attribute(sum, "keepdims", 1) != 0};
  const Node* inner = producer_of(graph, sum.inputs[0]);
  if (clipped) {
    if (!inner || !is_operator(*inner, "Clip") || reads_of(graph, inner->outputs[0]) != 1) return std::nullopt;
    found.bounds.assign(inner->inputs.begin() + 1, inner->inputs.end());
    for (const std::string& bound : found.bounds)
      if (!bound.empty() && rank_of(types, bound) != 0) return std::nullopt;
    inner = producer_of(graph, inner->inputs[0]);
  }
  if (!inner || !is_operator(*inner, "Reshape") || reads_of(graph, inner->outputs[0]) != 1) return std::nullopt;
  found.x = inner->inputs[0];
  const auto from = static_dims(types, found.x), to = static_dims(types, inner->outputs[0]);
  const auto axes = constant_ints(graph, sum.inputs[1]);
  if (!from || !to || from->empty() || to->size() != from->size() + 1 || !axes || axes->size() != 1) return std::nullopt;
  const auto last = static_cast<std::int64_t>(from->size());
  if (((*axes)[0] + last + 1) % (last + 1) != last) return std::nullopt;
  found.axis = last - 1;
  found.half = to->back();
  const bool halves =
      std::equal(from->begin(), from->end() - 1, to->begin()) && (*to)[from->size() - 1] == 2 && from->back() == 2 * found.half;
  return halves ? std::optional(found) : std::nullopt;
}

std::vector<Node> sum_in_parts(Work& work, const HalvedSum& s, const std::string& y) {
  const std::string axis = add_ints(work, y + "_axis", {s.axis});
  std::vector<Node> nodes;
  std::vector<std::string> parts;
  for (const std::int64_t part : {0, 1}) {
    std::string value = work.fresh(fmt::format("{}_slice_{}", y, part));
    nodes.push_back(make_node(
        "Slice", {s.x, add_ints(work, value + "_starts", {part * s.half}), add_ints(work, value + "_ends", {(part + 1) * s.half}), axis},
        value));
    if (s.clipped) {
      std::vector<std::string> inputs{value};
      inputs.insert(inputs.end(), s.bounds.begin(), s.bounds.end());
      value = work.fresh(fmt::format("{}_clip_{}", y, part));
      nodes.push_back(make_node("Clip", inputs, value));
    }
    parts.push_back(work.fresh(fmt::format("{}_sum_{}", y, part)));
    nodes.push_back(make_node("ReduceSum", {value, axis}, parts.back(), {Attribute::of("keepdims", std::int64_t{1})}));
  }
  const std::string joined = s.keeps_dims ? work.fresh(y + "_joined") : y;
  nodes.push_back(make_node("Concat", parts, joined, {Attribute::of("axis", s.axis)}));
  if (s.keeps_dims) nodes.push_back(make_node("Unsqueeze", {joined, add_ints(work, y + "_kept", {s.axis + 1})}, y));
  return nodes;
}

}  // namespace

absl::Status reshape_results(Work& work, const Arguments& args) {
  const std::string op = args.text("operator");
  const Extents shape = args.wholes("shape");
  if (std::count(shape.begin(), shape.end(), -1) > 1 || std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d == 0; }))
    return args.wrong("shape", fmt::format("{}", fmt::join(shape, ",")), "give dims above 0, and -1 once");
  ensure_standard_opset(work.model);
  auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  Reshaper reshaper(work, shape, *std::move(types));
  std::vector<std::string> values;
  for (const Node& node : work.graph().nodes)
    if (is_operator(node, op) && !node.outputs[0].empty()) values.push_back(node.outputs[0]);
  for (const std::string& value : values) {
    const auto& nodes = work.graph().nodes;
    const auto at = static_cast<std::size_t>(producer_of(work.graph(), value) - nodes.data());
    if (absl::Status s = reshaper.reshape(at, args); !s.ok()) return s;
  }
  drop_unread_nodes(work);
  work.notes.push_back(
      fmt::format("{} {} give this shape; {} values are read in their old one as well", values.size(), op, reshaper.restored()));
  return absl::OkStatus();
}

absl::Status split_sums(Work& work, const Arguments& args) {
  if (work.model.opset("") < kFirstWithAxesAsInput) return absl::OkStatus();  // axes are attributes there: no such sum
  const auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  std::vector<Node> nodes;
  std::size_t count = 0;
  const Graph before = work.graph();
  for (std::size_t i = 0; i < before.nodes.size(); ++i) {
    const auto found = halved_sum(before, i, *types, args.flag("clipped"));
    if (!found) {
      nodes.push_back(before.nodes[i]);
      continue;
    }
    for (Node& made : sum_in_parts(work, *found, before.nodes[i].outputs[0])) nodes.push_back(std::move(made));
    ++count;
  }
  work.graph().nodes = std::move(nodes);
  drop_unread_nodes(work);
  work.notes.push_back(fmt::format("{} sums are made in two parts", count));
  return absl::OkStatus();
}

}  // namespace saturate::passes
