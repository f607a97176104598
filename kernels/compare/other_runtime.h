// Other runtimes than ours, brought by whoever calls: the Python package has ONNX Runtime.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/inputs/draw_inputs.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/evaluator.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct Ran {
  std::vector<Value> outputs;  // in the graph's order
  double seconds = 0;          // that the runtime itself took
};
// Runs a model once. Of `limits` it holds the deadline alone. Inputs that it refuses are kInvalidArgument.
using RunOnce = std::function<absl::StatusOr<Ran>(const Inputs& inputs, const RunLimits& limits)>;
// Makes a model ready to be run. kUnimplemented: the runtime can't run it.
using OpenModel = std::function<absl::StatusOr<RunOnce>(const Model& model)>;

struct OtherRuntime {
  std::string name = {};
  OpenModel open = {};         // empty: our own runtime
  OpenModel open_second = {};  // of the second model, where it is to be run in another way than the first
  // Runs the first model as the second one is run: what it differs by from itself then is no difference of the second.
  std::function<absl::StatusOr<Ran>(const Inputs& inputs)> peer = {};
  explicit operator bool() const { return open != nullptr; }
};

// By name: makes one with so many threads (0: all cores) and these libraries of custom operators.
using RuntimeMaker = std::function<OpenModel(int threads, const std::vector<std::string>& custom_op_libraries)>;
struct OtherRuntimes {
  std::map<std::string, RuntimeMaker> makers = {};
  std::string onnxruntime = {};  // the folder of that package, which holds its shared library; "" where there is none
};

// Our own runtime, seen in the same way.
OpenModel open_here(const SessionOptions& options);

}  // namespace saturate
