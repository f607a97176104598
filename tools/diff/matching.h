// Which values of two graphs are the same: by structure from the inputs on, by names and by structure from the outputs on where both models
// made the same of the same inputs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "tools/diff/evidence.h"

namespace saturate {

// A graph as an e-graph of its own: operators in one form whatever the opset, constants computed, congruence closed.
struct LoweredGraph {
  const Model* model = nullptr;
  std::unique_ptr<OnnxEGraph> g;
  Lowered lowered;
  std::optional<Id> find(const std::string& value) const;  // nullopt: no value of the graph
};
absl::StatusOr<LoweredGraph> lowered_graph(const Model& model, const Evaluator& evaluator, const LoweredGraph* outside);

class Matching {
 public:
  using Class = std::uint32_t;

  // `inputs`: of the second graph, by the names of the first's.
  Matching(const LoweredGraph& first, const LoweredGraph& second, const std::map<std::string, std::string>& inputs);

  // Joins values that have one name in both graphs, and outputs at one place, if the evidence says so; then what follows. Without evidence:
  // outputs, and what only one pair of operators computes them from.
  void match(const Evidence& evidence);
  // Joins two values, and what follows.
  void join(const std::string& first, const std::string& second);

  Class of(int graph, Id id) const { return find(offset_[graph] + side_[graph]->g->egraph().find(id)); }
  std::optional<Class> of(int graph, const std::string& value) const;
  // Whether both graphs have a value of this class.
  bool common(Class c) const { return (has_[find(c)] & 3) == 3; }
  // The text of an e-node's operator, the same in both graphs.
  const std::string& text(int graph, OpId op) const { return texts_[graph][op]; }

 private:
  struct Made {
    std::string text;
    std::vector<std::uint32_t> children;
    bool commutative = false;
    int graph = 0;
  };

  std::uint32_t find(std::uint32_t v) const;
  bool unite(std::uint32_t a, std::uint32_t b);
  void read(int graph, const std::map<std::string, std::string>& second_to_first);
  std::string leaf_text(int graph, const OpKey& key, OpId op, const std::map<std::string, std::string>& second_to_first) const;
  void close();
  void match_names(const Evidence& evidence);
  void match_backwards(const Evidence& evidence);
  void match_contents(const Evidence& evidence);
  bool agree(const Evidence& evidence, std::uint32_t a, std::uint32_t b) const;
  bool is_constant(std::uint32_t vertex) const { return constant_[vertex]; }

  const LoweredGraph* side_[2];
  std::uint32_t offset_[2];
  mutable std::vector<std::uint32_t> parent_;
  std::vector<std::uint8_t> has_;
  std::vector<bool> constant_;
  std::vector<std::vector<std::string>> names_;  // by vertex
  std::vector<std::pair<std::uint32_t, Made>> made_;
  std::vector<std::string> texts_[2];
};

}  // namespace saturate
