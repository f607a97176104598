// If and Loop (ONNX Operators: If, Loop): graphs as attributes, run through the host.
#include <algorithm>

#include "kernels/control/util.h"
#include "kernels/core/registry.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

Outputs if_else(KernelContext& ctx) {
  const auto condition = one_integer(ctx, ctx.tensor(0));
  if (!condition.ok()) return condition.status();
  const Graph* graph = ctx.attr_g(*condition != 0 ? "then_branch" : "else_branch");
  if (graph == nullptr) return ctx.invalid("a branch is missing");
  return ctx.host.run_graph(*graph, {});
}

Outputs loop(KernelContext& ctx) {
  const Graph* body = ctx.attr_g("body");
  if (body == nullptr) return ctx.invalid("the body is missing");
  const std::size_t states = ctx.inputs.size() > 2 ? ctx.inputs.size() - 2 : 0;
  if (body->inputs.size() != states + 2 || body->outputs.size() < states + 1) return ctx.invalid("the body does not fit the inputs");
  std::optional<std::int64_t> trips;
  bool go = true;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!ctx.has_input(i)) continue;
    const auto value = one_integer(ctx, ctx.tensor(i));
    if (!value.ok()) return value.status();
    if (i == 0)
      trips = *value;
    else
      go = *value != 0;
  }
  std::vector<Value> carried(ctx.inputs.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, ctx.inputs.size())),
                             ctx.inputs.end());
  ScanOutputs scans(ctx, *body, states + 1);
  for (std::int64_t trip = 0; go && (!trips || trip < *trips); ++trip) {
    std::vector<Value> inputs = {Tensor::scalar_int64(trip), Tensor::of<bool>(DType::kBool, {}, std::span(&go, 1))};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Outputs out = ctx.host.run_graph(*body, inputs);
    if (!out.ok()) return out;
    if (out->size() != body->outputs.size()) return ctx.invalid("the body gave another number of outputs than declared");
    if (!(*out)[0].is_tensor()) return ctx.invalid("the condition that the body gives is not a tensor");
    const auto next = one_integer(ctx, (*out)[0].tensor());
    if (!next.ok()) return next.status();
    go = *next != 0;
    if (const absl::Status added = scans.add(*out); !added.ok()) return added;
    carried.assign(out->begin() + 1, out->begin() + 1 + static_cast<std::ptrdiff_t>(states));
  }
  for (std::size_t k = 0; k < scans.size(); ++k) {
    auto stacked = scans.stacked(k, 0, false);
    if (!stacked.ok()) return stacked.status();
    carried.emplace_back(*std::move(stacked));
  }
  return carried;
}

}  // namespace

void register_control(Registry& registry) {
  registry.add("", "If", if_else);
  registry.add("", "Loop", loop);
  registry.add("", "Scan", scan);
}

}  // namespace saturate
