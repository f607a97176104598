// A graph made ready to run. Names are resolved to slots, nodes are in order with their kernels, local functions are instantiated.
// Subgraphs are planned with the outer values they capture, and the last use of every value is known.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/core/buffer.h"
#include "kernels/core/kernel.h"
#include "kernels/core/registry.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/function_index.h"

namespace saturate {

struct Plan;

struct Step {
  const Node* node = nullptr;
  std::int64_t opset = 0;
  KernelFn kernel = nullptr;  // null: a call of a local function, `function` is its body
  std::shared_ptr<Plan> function;
  std::vector<int> inputs, outputs;  // slots; -1: absent
  std::vector<int> release;          // slots whose last use this is
  std::vector<std::pair<const Graph*, std::shared_ptr<Plan>>> graphs;
  std::shared_ptr<NodeState> state;  // shared by steps that prepare the same
  std::uint64_t constant_inputs = 0;
  std::uint64_t last_uses = 0;  // inputs whose last use this is, each in one place only
  bool makes_result = false;    // an output of it is one of the plan's
  std::vector<int> realigned;   // inputs that are copied before the kernel sees them: constants of a file, not aligned
  std::uint64_t required_inputs = 0, tensor_inputs = 0;  // by the operator's schema: must be there; must be a tensor if there
};

struct Plan {
  std::shared_ptr<const Graph> graph;  // owns the nodes that the steps point to
  std::vector<Step> steps;
  int slots = 0;
  std::vector<std::pair<int, Value>> constants;
  std::vector<std::pair<std::string, int>> inputs;  // in the graph's order
  std::vector<std::pair<std::string, int>> outputs;
  std::vector<std::pair<int, int>> captures;  // slot outside, slot here
};

struct PlanContext {
  const FunctionIndex* functions = nullptr;
  std::map<std::string, std::int64_t> opset_imports;
  std::size_t* steps_left = nullptr;  // bound on what nested functions may blow up to
  int depth = 0;
  bool keep_prepared = true;   // whether kernels keep what they make of constants (packed weights)
  bool session_nodes = false;  // whether the graph may have operators of the session's own domain
};

// `outer`: resolves a name that the graph does not define to a slot of the surrounding plan, -1 where it has none.
absl::StatusOr<std::shared_ptr<Plan>> make_plan(std::shared_ptr<const Graph> graph, const PlanContext& context,
                                                const std::function<int(const std::string&)>& outer);

struct RunContext {
  const KernelOptions& options;
  RunMemory& memory;
  bool check_finite = false, check_underflow = false;
  const std::function<void(const Node&, std::vector<Value>&)>* after_node = nullptr;
  std::vector<NodeTiming>* timings = nullptr;
  double epoch = 0;
  int depth = 0;
  std::int64_t most_graph_runs = kMostGraphRuns;
  std::int64_t graph_runs = 0;               // of subgraphs so far, where this is the outermost context
  std::int64_t* all_graph_runs = nullptr;    // of the outermost context; null: this is it
  std::vector<const std::byte*> given = {};  // data of inputs that the run may write over; of the outermost context alone

  std::int64_t& counter() { return all_graph_runs == nullptr ? graph_runs : *all_graph_runs; }
  // Of what a node of this run runs: a graph or a function.
  RunContext inside() {
    RunContext inner = *this;
    inner.timings = nullptr;
    inner.given.clear();
    inner.all_graph_runs = &counter();
    ++inner.depth;
    return inner;
  }
};

// `inputs` in the order of plan.inputs, `captured` in the order of plan.captures.
Outputs run_plan(const Plan& plan, std::vector<Value> inputs, std::vector<Value> captured, RunContext& context);
// Runs one kernel with the checks that all share: required inputs, exceptions, number of outputs.
Outputs invoke(KernelFn kernel, KernelContext& context);

}  // namespace saturate
