// What is known of the inputs of the body of a Loop or a Scan. Its declared types prove nothing: ONNX Runtime compares them with nothing,
// and what a turn hands to the next may have another shape each time. A shape is known where the first turn gets it and each turn that gets
// it hands it on, so that the body itself is the proof.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "onnx_bridge/convert/lower.h"

namespace saturate {

// How bodies are lowered: an e-graph as they get one, and options without what is known of the values around them.
struct BodyLowering {
  std::function<std::unique_ptr<OnnxEGraph>()> make_graph;
  LowerOptions options;
};

// Of each input of `body`, the graph of a body of `node`, by name; `values` holds the node, `dims` are the body's.
// Where nothing is known outside, declared ranks and numbers are believed, as those of a graph's inner values are.
std::map<std::string, Facts> body_input_facts(const Node& node, const Model& body, const OnnxEGraph& outside, const Lowered& values,
                                              const BodyLowering& lowering, DimTable& dims);

// What is declared of an output of a Loop or a Scan, without numbers that its inputs do not bear out: sizes of what the first turn gets,
// and the number of turns.
Facts believed_output(const Node& node, std::size_t output, Facts declared, std::span<const Facts* const> inputs, DimTable& dims);

}  // namespace saturate
