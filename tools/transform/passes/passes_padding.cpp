// Positions that are counted from which tokens are padding.
#include <algorithm>
#include <optional>
#include <set>

#include "fmt/format.h"
#include "kernels/inputs/draw_inputs.h"
#include "kernels/verify/verify.h"
#include "onnx_bridge/model/subgraphs.h"
#include "tools/transform/edit.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

// Whether the value is counted along something, as it is or as other numbers.
bool is_counted(const Graph& graph, const std::string& value) {
  std::set<std::string> same{value};
  for (const Node& node : graph.nodes) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& input) { return same.contains(input); })) continue;
    if (is_operator(node, "CumSum")) return true;
    if (is_operator(node, "Not") || is_operator(node, "Cast") || is_operator(node, "Identity")) same.insert(node.outputs[0]);
  }
  return false;
}

std::optional<std::int64_t> token_number(const Graph& graph, const std::string& value) {
  if (const Initializer* constant = find_named(graph.initializers, value); constant && constant->tensor.size() == 1)
    return element_as_int(constant->tensor, 0);
  for (const Node& node : graph.nodes)
    if (is_operator(node, "Constant") && node.outputs[0] == value)
      if (const Attribute* a = find_attribute(node.attributes, "value");
          a && std::holds_alternative<Tensor>(a->value) && a->t().size() == 1)
        return element_as_int(a->t(), 0);
  return std::nullopt;
}

struct Padding {
  std::vector<std::size_t> nodes;  // that ask whether a token is this one
  std::int64_t token = 0;
};

absl::StatusOr<Padding> counted_padding(const Graph& graph, const std::string& tokens, const Arguments& args) {
  Padding out;
  std::set<std::string> ids{tokens};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_operator(node, "Cast") && ids.contains(node.inputs[0])) ids.insert(node.outputs[0]);
    if (!is_operator(node, "Equal") || ids.contains(node.inputs[0]) == ids.contains(node.inputs[1]) || !is_counted(graph, node.outputs[0]))
      continue;
    const auto token = token_number(graph, node.inputs[ids.contains(node.inputs[0]) ? 1 : 0]);
    if (!token) continue;
    if (!out.nodes.empty() && *token != out.token)
      return args.wrong("tokens", tokens, fmt::format("those that are not {} are counted, and those that are not {}", out.token, *token));
    out.token = *token;
    out.nodes.push_back(i);
  }
  if (out.nodes.empty()) return args.wrong("tokens", tokens, "nothing counts those of its tokens that are no padding");
  return out;
}

// Tokens that are padding exactly where the mask hides them.
absl::StatusOr<Inputs> padded_inputs(const Model& model, const ValueInfo& tokens, const std::string& mask, std::int64_t padding,
                                     std::int64_t batch) {
  const InputDrawer drawer(model);
  const DimSpec& rows = (*tokens.type.shape)[0];
  Sizes sizes;
  for (const std::string& symbol : drawer.symbols()) sizes[symbol] = rows == DimSpec(symbol) ? batch : 4 + batch;
  DrawStyle style;
  style.masks = {mask};
  absl::StatusOr<Inputs> out = drawer.draw(sizes, style, static_cast<std::uint64_t>(batch));
  if (!out.ok()) return out;
  const Tensor shown = out->at(mask).tensor(), drawn = out->at(tokens.name).tensor();
  Tensor ids(drawn.dtype(), drawn.dims());
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    const std::int64_t token = element_as_int(drawn, i).value_or(0), other = padding > 0 ? padding - 1 : 1;
    store_int(ids, i, element_as_double(shown, i).value_or(0) == 0 ? padding : token == padding ? other : token);
  }
  out->insert_or_assign(tokens.name, std::move(ids));
  return out;
}

absl::Status same_with_padding(Work& work, const Model& before, const ValueInfo& tokens, const std::string& mask, std::int64_t padding) {
  std::size_t cases = 0;
  for (const std::int64_t batch : {1, 2, 5}) {
    VerifyOptions check = work.check;
    check.input_shapes.clear();
    check.sizes.clear();
    auto inputs = padded_inputs(before, tokens, mask, padding, batch);
    if (!inputs.ok()) return inputs.status();
    check.inputs = {*std::move(inputs)};
    check.given = {{{}, CaseKind::kUsual}};
    const VerifyReport report = saturate::verify(before, work.model, check);
    if (report.status == VerifyStatus::kDifferent) return absl::DataLossError(report.message);
    if (report.status == VerifyStatus::kCancelled) return absl::CancelledError(report.message);
    if (report.status == VerifyStatus::kUnsupported) return absl::UnimplementedError("can't verify: " + report.message);
    cases += report.status == VerifyStatus::kEqual ? 1 : 0;
  }
  if (cases == 0) return absl::UnimplementedError("can't verify: no inputs were found that the model accepts");
  work.notes.push_back(fmt::format("as before in {} cases, in which tokens are {} exactly where '{}' is 0", cases, padding, mask));
  return absl::OkStatus();
}

}  // namespace

absl::Status padding_by_mask(Work& work, const Arguments& args) {
  const std::string tokens = args.text("tokens"), mask = args.text("mask");
  const ValueInfo *ids = work.input(tokens), *shown = work.input(mask);
  if (!ids) return args.wrong("tokens", tokens, "no such input");
  if (!shown) return args.wrong("mask", mask, "no such input; without a mask nothing else tells what is padding");
  if (!ids->type.shape || !shown->type.shape || ids->type.shape->size() != 2 || *ids->type.shape != *shown->type.shape)
    return args.wrong("mask", mask, fmt::format("its dims are not those of '{}', batch and tokens", tokens));
  const absl::StatusOr<Padding> padding = counted_padding(work.graph(), tokens, args);
  if (!padding.ok()) return padding.status();
  const Model before = work.model;
  const std::string seen = work.fresh(mask + "_seen");
  for (const std::size_t i : padding->nodes) {
    Node& node = work.graph().nodes[i];
    Node hidden;
    hidden.op_type = "Not";
    hidden.name = node.name;
    hidden.inputs = {seen};
    hidden.outputs = {node.outputs[0]};
    node = std::move(hidden);
  }
  Node cast;
  cast.op_type = "Cast";
  cast.inputs = {mask};
  cast.outputs = {seen};
  cast.attributes = {Attribute::of("to", static_cast<std::int64_t>(DType::kBool))};
  work.graph().nodes.insert(work.graph().nodes.begin(), std::move(cast));
  erase_unread(work.graph(), {});
  return work.verify ? same_with_padding(work, before, *find_named(before.graph.inputs, tokens), mask, padding->token) : absl::OkStatus();
}

}  // namespace saturate::passes
