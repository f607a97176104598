// What of a model a target can't express, and why.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/target/target.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct OptimizeReport;

struct Inexpressible {
  std::string node;    // its name, or that of its first output
  std::string op;      // "domain.Op"
  std::string reason;  // begins with the target's name
  std::string output;  // its first output
  // Filled by check_target_with_forms(): the operators of an equal form that the target takes, or why there is none.
  std::vector<std::string> instead = {};
  std::string obstacle = {};
};

// Every node of the graph and of the subgraphs in it, in their order. Calls of local functions are judged by the nodes of their bodies.
absl::StatusOr<std::vector<Inexpressible>> check_target(const Model& model, const Target& target);

// Counts them in the model as it came and in the result; those of the result. Nothing where the target takes all there is.
std::vector<Inexpressible> count_refused(const Model& original, const Model& result, const Target& target, OptimizeReport& report);

}  // namespace saturate
