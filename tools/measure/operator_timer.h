// Single operators timed in ONNX Runtime: as the difference between a graph with many copies of one and a graph with few, both without
// graph optimization, so that what a call takes drops out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/judge/judge.h"
#include "nlohmann/json_fwd.hpp"
#include "onnx_bridge/model/model.h"

namespace saturate {

// A node, and what it reads. What is a weight has a constant of its own for each copy; what is none is shared by all.
struct TimedOperator {
  std::string op_type, domain;
  std::int64_t opset = 23;  // of ai.onnx
  std::vector<Attribute> attributes;
  std::vector<std::optional<Tensor>> inputs;  // nullopt: absent
  std::vector<bool> weight;                   // by input
  std::size_t outputs = 1;
};
// As a line of bench/runtime/calibration_rows.py has it by "node" and "inputs". Errors are one line.
absl::StatusOr<TimedOperator> timed_operator(const nlohmann::json& line);

class OperatorTimer {
 public:
  // The runtime is ready; its threads are those that are measured: of one its processor time counts, of several the clock on the wall.
  OperatorTimer(std::shared_ptr<Judge> runtime, int threads) : runtime_(std::move(runtime)), threads_(threads) {}
  // Seconds of one run of it, the least of what was seen in about `seconds`. Errors as of Judge, one line.
  absl::StatusOr<double> seconds(const TimedOperator& op, double seconds);

 private:
  absl::StatusOr<double> difference(const TimedOperator& op, bool readers, double seconds);

  std::shared_ptr<Judge> runtime_;
  int threads_;
  std::optional<double> reader_;  // seconds of a Shape, which reads each output
};

}  // namespace saturate
