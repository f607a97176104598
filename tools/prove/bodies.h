// Bodies of If, Loop and Scan that stand in two models. Such nodes are equal where their inputs are and their bodies are proven equal, as
// models are: with one value for what both take from outside, and one for inputs of one place.
// Of a Loop and a Scan that is a proof by turns: what comes into the first turn is equal, and each turn makes of the same the same.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct ModelProof;

// Two bodies at one place of two nodes, as models. Inputs and outputs of one place have one name, and so has what is captured of one class.
struct BodyPair {
  const OnnxEGraph& outside;
  const Lowered (&sides)[2];  // of the graphs around them
  const Source* nodes[2];
  Model bodies[2];                     // as they stand
  Model models[2];                     // under names of both
  std::map<std::string, Id> captured;  // classes outside, by the name in both
};

class EqualBodies {
 public:
  using Prove = std::function<absl::StatusOr<ModelProof>(const BodyPair&)>;
  EqualBodies(OnnxEGraph& g, const Lowered (&models)[2], Prove prove) : g_(g), sides_(models), prove_(std::move(prove)) {}

  // Unites the outputs of nodes that are equal as far as is known now, and says whether there were any. Pairs of which all that they read
  // is the same as at the last time are not tried again.
  bool unite();

  // Of the bodies of nodes that were united.
  const std::vector<ModelProof>& proofs() const { return proofs_; }

 private:
  using Tried = std::tuple<const Source*, const Source*, std::vector<Id>>;
  std::vector<const Source*> with_bodies(int side) const;
  std::vector<Id> read(const Source& source) const;  // classes
  std::string signature(const Source& source) const;
  bool are_united(const Source& a, const Source& b) const;
  bool try_pair(const Source& a, const Source& b);  // of one signature; whether any outputs were united
  BodyPair pair_of(const Source& a, const Source& b, const Graph& first, const Graph& second) const;

  OnnxEGraph& g_;
  const Lowered (&sides_)[2];
  Prove prove_;
  std::set<Tried> tried_;
  std::vector<ModelProof> proofs_;
};

}  // namespace saturate
