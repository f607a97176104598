// Runs ONNX models on the CPU: for verification, constant folding and measurement. Knows nothing of e-graphs, rules or extraction.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "egraph/stop.h"
#include "onnx_bridge/model/evaluator.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct NodeTiming {
  std::string node, op_type;
  double start_s = 0, seconds = 0;
};

// What a run may take. Where it would take more it ends with kResourceExhausted or kDeadlineExceeded.
struct RunLimits {
  std::size_t memory = ~std::size_t{0};  // bytes of all tensors that it makes and that are alive at once
  double deadline = kNoDeadline;         // of steady_seconds()
};

// Runs of subgraphs in one run of a model: a loop that goes on for longer is taken for endless.
inline constexpr std::int64_t kMostGraphRuns = 5'000'000;

struct SessionOptions {
  int threads = 1;               // 0: as many as there are cores
  bool reference = false;        // only reference kernels
  bool check_finite = false;     // a NaN or Inf made from finite inputs is an error naming the node
  bool check_underflow = false;  // so is a 0 that Exp, Sigmoid or Softmax makes
  bool prepare = true;  // fold constants, fuse and lay out for speed first; without, a step for every node as it is and no copy of a weight
  bool keep_results = true;                    // memory of results that are dropped stays for those of the next run
  std::size_t memory_limit = ~std::size_t{0};  // bytes a single tensor may take
  std::int64_t most_graph_runs = kMostGraphRuns;
  const std::atomic<bool>* cancel = nullptr;  // a run ends with kCancelled once it is true, also within a node
  // Sees what each node made, in the order of the steps, and may put other tensors there; for sessions without `prepare`, of which nodes
  // are the model's. Only the run's own thread calls it.
  std::function<void(const Node& node, std::vector<Value>& made)> after_node = {};
};

// Of the tensors that runs make; constants and what is prepared of them are not counted.
struct MemoryUse {
  std::size_t most = 0;             // bytes that were ever in use at once, gaps between them included; results of runs apart
  std::size_t system_requests = 0;  // how often a run asked the system for memory, so far
};

// Whether some version of the operator can be run; functions of models are not asked about.
bool has_kernel(std::string_view domain, std::string_view op_type);

// Runs may go on at the same time from several threads. The first run of each size of the inputs records when which tensor lives; later
// ones put them where a plan made of that says.
class Session {
 public:
  // Fails with kUnimplemented naming node and operator where something cannot be run.
  static absl::StatusOr<Session> create(const Model& model, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();
  // Inputs by name; inputs with an initializer of the same name may be left out. Outputs in the graph's order.
  absl::StatusOr<std::vector<Value>> run(const std::map<std::string, Value>& inputs, std::vector<NodeTiming>* timings = nullptr,
                                         const RunLimits& limits = {}) const;
  // The same, where tensors of `inputs` that nobody else holds may be written over: so the past of a cache becomes its present in place.
  // None of them may view memory that is not the caller's to give away.
  absl::StatusOr<std::vector<Value>> run_over(std::map<std::string, Value> inputs, const RunLimits& limits = {}) const;
  MemoryUse memory() const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The evaluator that folding, guards and the rule checker use. What passes a limit is an error of that evaluation.
inline constexpr double kMostEvaluations = 3;
struct EvaluatorOptions {
  bool reference = false;  // reference kernels only
  // Bytes of all its results that are alive, together with what makes the next one.
  std::size_t memory = std::size_t{1} << 30;
  double seconds = kNoDeadline;  // of one evaluation; all of them together may take kMostEvaluations times as long
  const std::atomic<bool>* cancel = nullptr;
};
std::unique_ptr<Evaluator> make_evaluator(const EvaluatorOptions& options = {});

}  // namespace saturate
