// What differs between two models, region by region: a region is what lies between values that both have.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/optimize/optimize.h"
#include "extract/optimize/prediction.h"
#include "extract/price/cost.h"
#include "kernels/verify/verify.h"
#include "nlohmann/json_fwd.hpp"
#include "onnx_bridge/model/model.h"
#include "tools/pipeline/setup.h"

namespace saturate {

struct DiffNode {
  std::string op_type, name, output;  // op_type with its domain
  std::string attributes;             // as people read them: "axis -1, num_heads 4"
  double cost = 0;                    // predicted
};

// Nodes of both models between values that both have. A part that several regions need is a region of its own, without outputs.
struct DiffRegion {
  std::string where;                 // "" in the main graph, else "then_branch of 'If_3'"
  std::string scope;                 // what names of its nodes or values have in common
  std::vector<std::string> outputs;  // values of the first model that are computed otherwise in the second
  bool shared = false;
  bool unproven = false;                // an output of the models that was not shown to be equal
  std::vector<DiffNode> before, after;  // of each model, in its order
  std::vector<std::string> why;         // rules that led to it
  std::vector<std::string> inside[2];   // values that only one model has
  std::string shape;                    // the same text for regions that are alike
  std::size_t graph = 0;                // of ModelDiff::graphs
  std::vector<std::size_t> nodes[2];    // positions in that graph, of `before` and `after`
};
// A graph that was compared, and what is known of its nodes: the main one, and bodies of nodes that both models have.
struct DiffGraph {
  std::string where;                          // as in DiffRegion
  std::size_t parent = 0, owner[2] = {0, 0};  // of a body: the graph and the node of each model that hold it,
  std::string attribute;                      // as this attribute
  struct Known {
    double cost = 0, bytes = 0;                // predicted, and of the outputs, both at the sizes assumed
    std::string type;                          // of the first output
    std::vector<std::string> rules, replaces;  // of the second model: what led to it, and values of the first that it stands for
  };
  std::vector<Known> nodes[2];
};
// Regions that are alike.
struct DiffGroup {
  std::vector<std::size_t> regions;
  std::string label;
};

struct DiffWeights {
  std::size_t equal = 0;
  std::vector<std::string> changed, removed, added;  // changed: of one name, type and size
  std::uint64_t removed_bytes = 0, added_bytes = 0;
};

struct ModelDiff {
  std::size_t nodes[2] = {0, 0};        // of the graphs that were compared: the main one, and bodies of nodes that both have
  std::size_t equal_nodes[2] = {0, 0};  // of each model: those that stand in no region
  std::optional<Prediction> predicted;
  std::vector<std::string> interface, imports, functions, types;  // a line each; types: of values that both have
  DiffWeights weights;
  std::vector<DiffGraph> graphs;  // the main one first; filled where DiffOptions::knows_nodes
  std::vector<DiffRegion> regions;
  std::vector<DiffGroup> groups;
  bool proven = false;  // values of one name were compared by running both models
  std::string why_not_proven;
  std::string runtime;  // that both were run by, where it isn't ours
  bool equal() const;
};

struct DiffOptions {
  VerifyOptions run;                 // sizes, seed, threads, seconds, memory, cancel, runtime
  const Setup* setup = nullptr;      // whose costs are predicted; null: nothing is
  std::vector<CostPoint> points;     // that its cost model was given
  bool knows_nodes = false;          // ModelDiff::graphs tells of each node
  std::span<const Provenance> made;  // of the second model's nodes, where it is the result of optimizing the first
};

absl::StatusOr<ModelDiff> diff_models(const Model& first, const Model& second, const DiffOptions& options);

// What is known of the nodes of one model, as the first: nothing is compared, and bodies are not looked into.
absl::StatusOr<ModelDiff> known_of(const Model& model, const DiffOptions& options);

// `first` and `second`: what the models are called.
// `all`: however long it becomes; else at most 40 lines.
std::string format_diff(const ModelDiff& diff, const std::string& first, const std::string& second, bool all);
nlohmann::json to_json(const ModelDiff& diff);

}  // namespace saturate
