// What a session does to a graph before it plans it: work that needs no input is done once, images are laid out with channels last where
// convolutions run, and element-by-element neighbours become one pass. The graph computes what it did, up to the rounding of sums.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/core/kernel.h"
#include "onnx_bridge/model/evaluator.h"

namespace saturate {

// A graph under change: who uses what, and which values are constant.
class SessionGraph {
 public:
  SessionGraph(const Graph& graph, const std::map<std::string, std::int64_t>& opset_imports);

  Graph graph;
  std::int64_t opset = 0;  // of ai.onnx

  // The tensor of a value that no run changes; null: not constant.
  const Tensor* constant(const std::string& name) const;
  void add_constant(const std::string& name, Tensor tensor);
  // How often nodes read the value; outputs of the graph and what subgraphs capture count as many.
  int uses(const std::string& name) const;
  bool is_protected(const std::string& name) const { return uses(name) >= kMany; }  // an output of the graph, or captured
  void count_uses();                                                                // after nodes changed
  std::string fresh(const std::string& base);
  const Node* producer(const std::string& name) const;  // as of the last count_uses(); null: none

 private:
  static constexpr int kMany = 1 << 20;
  std::unordered_map<std::string, Tensor> constants_;
  std::unordered_map<std::string, int> uses_;
  std::unordered_map<std::string, std::size_t> producers_;
  std::set<std::string> names_;
};

bool is_standard(const Node& node, std::string_view op_type);  // of ai.onnx

void expand_fused(SessionGraph& graph);
void fold_constants(SessionGraph& graph, const Evaluator& evaluator);
void fuse_small_patterns(SessionGraph& graph);
void fuse_transposed_weights(SessionGraph& graph);
void lay_out_channels_last(SessionGraph& graph);
void drop_casts(SessionGraph& graph);
void fuse_attention(SessionGraph& graph);
void fuse_elementwise(SessionGraph& graph);

// All of the above; `evaluator` computes what needs no input. Nothing is done where a local function goes by the name of one of ai.onnx's
// operators.
Graph prepare_graph(const Graph& graph, const std::map<std::string, std::int64_t>& opset_imports, const std::vector<Function>& functions,
                    const Evaluator& evaluator);

}  // namespace saturate
