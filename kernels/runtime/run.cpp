#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "fmt/format.h"
#include "kernels/runtime/plan.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

constexpr int kMaxRunDepth = 128;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Serves the kernels of one step: its subgraphs see the values of the frame.
class StepHost : public KernelHost {
 public:
  StepHost(const Step& step, const std::vector<Value>& frame, RunContext& context) : step_(step), frame_(frame), context_(context) {}

  Outputs run_graph(const Graph& graph, const std::vector<Value>& inputs) override {
    for (const auto& [known, plan] : step_.graphs) {
      if (known != &graph) continue;
      if (inputs.size() > plan->inputs.size())
        return absl::InvalidArgumentError(fmt::format("graph '{}' is given too many inputs", graph.name));
      if (++context_.counter() > context_.most_graph_runs) {
        return absl::ResourceExhaustedError(
            fmt::format("{} '{}': more than {} turns of loops in one run; the loop may never end, check its condition", step_.node->op_type,
                        step_.node->name, context_.most_graph_runs));
      }
      std::vector<Value> captured;
      for (const auto& [outside, own] : plan->captures) captured.push_back(frame_[outside]);
      RunContext inner = context_.inside();
      return run_plan(*plan, inputs, std::move(captured), inner);
    }
    return absl::InternalError(fmt::format("graph '{}' is not an attribute of the node that runs it", graph.name));
  }

  Outputs run_node(const Node& node, std::int64_t opset, const std::vector<Value>& inputs) override {
    const KernelFn kernel = Registry::standard().find(node.domain, node.op_type);
    if (kernel == nullptr) return absl::UnimplementedError(fmt::format("no kernel for {} (opset {})", node.op_type, opset));
    KernelContext ctx{node, opset, inputs, static_cast<int>(node.outputs.size()), context_.options, *this};
    return invoke(kernel, ctx);
  }

  std::shared_ptr<std::byte> buffer(std::size_t bytes) override {
    std::shared_ptr<std::byte> data = context_.memory.scratch(bytes);
    if (data == nullptr) throw std::bad_alloc();  // invoke() makes a status of it
    return data;
  }
  std::shared_ptr<std::byte> tensor_buffer(std::size_t bytes) override {
    return makes_result() ? context_.memory.result(bytes) : context_.memory.tensor(bytes);
  }
  std::shared_ptr<const void> hold(std::size_t bytes) override { return context_.memory.hold(bytes); }
  bool owns(const std::byte* data) const override {
    const auto& given = context_.given;
    return (!makes_result() && context_.memory.owns(data)) || std::find(given.begin(), given.end(), data) != given.end();
  }

 private:
  // Of the model: it outlives the run, and should not stand in the way of the next one.
  bool makes_result() const { return step_.makes_result && context_.depth == 0; }

  const Step& step_;
  const std::vector<Value>& frame_;
  RunContext& context_;
};

template <typename T>
bool all_finite(const Tensor& t) {
  for (const T& x : t.span<T>()) {
    if (!std::isfinite(static_cast<double>(x))) return false;
  }
  return true;
}

bool finite(const Value& value) {
  if (!value.is_tensor()) return true;
  const Tensor& t = value.tensor();
  switch (t.dtype()) {
    case DType::kFloat:
      return all_finite<float>(t);
    case DType::kDouble:
      return all_finite<double>(t);
    case DType::kFloat16:
      return all_finite<Half>(t);
    case DType::kBfloat16:
      return all_finite<BFloat16>(t);
    default:
      return true;
  }
}

// A 0 where the function itself is never 0.
bool underflows(const Node& node, const std::vector<Value>& values) {
  if (!has(Trait::kPositive, node)) return false;
  if (values.empty() || !values[0].is_tensor()) return false;
  const Tensor& t = values[0].tensor();
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (element_as_double(t, i) == 0.0) return true;
  return false;
}

bool finite(const std::vector<Value>& values) {
  for (const Value& v : values) {
    if (!finite(v)) return false;
  }
  return true;
}

Outputs run_step(const Step& step, const std::vector<Value>& inputs, const std::vector<Value>& frame, RunContext& context) {
  if (step.kernel == nullptr) {
    RunContext inner = context.inside();
    Outputs out = run_plan(*step.function, inputs, {}, inner);
    if (!out.ok())
      return absl::Status(out.status().code(), fmt::format("in function {}: {}", step.node->op_type, std::string(out.status().message())));
    return out;
  }
  for (std::size_t i = 0; i < inputs.size() && i < 64; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    const bool missing = !inputs[i].present() && (step.required_inputs & bit) != 0;
    if (missing || (inputs[i].present() && !inputs[i].is_tensor() && (step.tensor_inputs & bit) != 0)) {
      return absl::InvalidArgumentError(
          fmt::format("{} '{}': input {} {}", step.node->op_type, step.node->name, i, missing ? "has no value" : "must be a tensor"));
    }
  }
  StepHost host(step, frame, context);
  KernelContext ctx{*step.node,
                    step.opset,
                    inputs,
                    static_cast<int>(step.outputs.size()),
                    context.options,
                    host,
                    step.state.get(),
                    step.constant_inputs,
                    context.check_finite ? 0 : step.last_uses};
  return invoke(step.kernel, ctx);
}

}  // namespace

Outputs invoke(KernelFn kernel, KernelContext& context) {
  // The one place where exceptions of the libraries underneath (out of memory above all) become values.
  try {
    return kernel(context);
  } catch (const Stopped&) {
    const absl::Status status = stop_status();
    return status.ok() ? absl::CancelledError("interrupted") : status;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(fmt::format("{} '{}': out of memory", context.node.op_type, context.node.name));
  } catch (const std::exception& e) {
    return absl::InternalError(fmt::format("{} '{}': {}", context.node.op_type, context.node.name, e.what()));
  }
}

Outputs run_plan(const Plan& plan, std::vector<Value> inputs, std::vector<Value> captured, RunContext& context) {
  if (context.depth > kMaxRunDepth) return absl::InvalidArgumentError("subgraphs are nested too deeply");
  std::vector<Value> frame(static_cast<std::size_t>(plan.slots));
  for (const auto& [slot, value] : plan.constants) frame[slot] = value;
  for (std::size_t i = 0; i < inputs.size() && i < plan.inputs.size(); ++i) {
    if (inputs[i].present()) frame[plan.inputs[i].second] = std::move(inputs[i]);
  }
  for (std::size_t i = 0; i < plan.captures.size(); ++i) frame[plan.captures[i].second] = std::move(captured[i]);
  std::vector<Value> arguments;
  for (const Step& step : plan.steps) {
    if (absl::Status stopped = stop_status(); !stopped.ok()) return stopped;
    arguments.clear();
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const int slot = step.inputs[i];
      if (slot < 0)
        arguments.emplace_back();
      else if (i < 64 && ((step.last_uses >> i) & 1u) != 0)
        arguments.push_back(std::move(frame[slot]));
      else
        arguments.push_back(frame[slot]);
    }
    for (int i : step.realigned) arguments[static_cast<std::size_t>(i)] = aligned(arguments[static_cast<std::size_t>(i)].tensor());
    const double start = context.timings == nullptr ? 0 : now();
    Outputs out = run_step(step, arguments, frame, context);
    if (!out.ok()) return out.status();
    if (context.timings != nullptr) context.timings->push_back({step.node->name, step.node->op_type, start - context.epoch, now() - start});
    if (out->size() < step.outputs.size()) out->resize(step.outputs.size());
    if (context.check_finite && !finite(*out) && finite(arguments)) {
      return absl::OutOfRangeError(fmt::format("{} '{}' makes a NaN or infinity from finite inputs", step.node->op_type, step.node->name));
    }
    if (context.check_underflow && underflows(*step.node, *out))
      return absl::OutOfRangeError(fmt::format("{} '{}' underflows", step.node->op_type, step.node->name));
    if (context.after_node != nullptr) (*context.after_node)(*step.node, *out);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] >= 0) frame[step.outputs[i]] = std::move((*out)[i]);
    }
    arguments.clear();
    for (int slot : step.release) frame[slot] = Value();
  }
  std::vector<Value> results;
  for (const auto& [name, slot] : plan.outputs) results.push_back(frame[slot]);
  return results;
}

}  // namespace saturate
