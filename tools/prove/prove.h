// Are two models the same? Both are lowered into one e-graph over the same inputs and weights and rewritten there: outputs in one class
// are equal by the rules' laws, whatever the inputs. docs/prove.md.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/optimize/optimize.h"
#include "kernels/verify/verify.h"
#include "nlohmann/json_fwd.hpp"
#include "onnx_bridge/model/model.h"
#include "tools/pipeline/setup.h"

namespace saturate {

struct ProveOptions {
  Budgets limits;
  bool compares_numbers = true;  // where no proof is found, both models are run on drawn inputs
  VerifyOptions run;             // of that
};

// A law that the proof uses, in however many places.
struct UsedLaw {
  std::string rule;
  Effect effect = Effect::kExact;
  std::vector<std::string> assumes;
  std::size_t times = 0;
};

// Nodes of both models between values that are proven equal, the last of which are not. What follows was proven as if they were equal.
struct OpenRegion {
  std::string outputs[2];                 // the value of each model that it ends in
  std::vector<std::string> operators[2];  // of its nodes, in the models' order
  std::vector<std::string> nodes[2];      // their names, likewise
};

struct ModelProof {
  enum class Verdict {
    kProven,
    kDifferent,  // numbers differ: `numbers` has the case
    kOpen,       // neither proven nor seen to differ
  };
  struct Output {
    std::string name, partner;  // partner: in the second model; "" where it has none
    bool proven = false;
  };
  Verdict verdict = Verdict::kOpen;
  std::vector<Output> outputs;           // of the first model
  std::vector<std::string> interface;    // what their inputs and outputs lack of one another, a line each
  std::size_t nodes[2] = {0, 0};         // of the main graphs
  std::size_t proven_nodes[2] = {0, 0};  // whose values are all values of the other model, too
  std::size_t bodies = 0;                // of If, Loop and Scan in both, whose outputs are equal by laws of their own, which are counted
  std::vector<UsedLaw> laws;             // the most used first
  std::size_t computed = 0;              // steps that are computed constants and known shapes
  std::vector<std::string> rounded;      // constants that differ in their last bits, and were taken as equal
  std::vector<std::string> sizes;        // taken as equal, as a model fails where they are not: "seq = 128"
  bool declares_types = false;           // of some inner values nothing is known but what a model declares
  bool believes_types = false;           // and that was taken for true
  std::vector<OpenRegion> regions;
  std::string stop;  // why rewriting ended, where there is no proof
  std::optional<VerifyReport> numbers;
};

// By the rules of `setup`, its target telling which operators stand on the way between others.
// An error is about the models: they can't be read as graphs, or rules contradict one another on them.
absl::StatusOr<ModelProof> prove(const Model& first, const Model& second, const Setup& setup, const ProveOptions& options);

std::string format_proof(const ModelProof& proof, const std::string& first, const std::string& second, bool all);
nlohmann::json to_json(const ModelProof& proof);
std::string_view to_string(ModelProof::Verdict verdict);

}  // namespace saturate
