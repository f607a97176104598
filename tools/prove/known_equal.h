// What is equal in an e-graph of two models by what is known of it, and by no law: constants, and arithmetic on sizes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

class KnownEqual {
 public:
  KnownEqual(OnnxEGraph& g, const Lowered (&models)[2]) : g_(g), sides_(models) {}

  // Each unites what it finds, and says whether it found any.
  // What laws compute of constants, and what the other model holds: equal bits are equal; nearly equal numbers are taken so where
  // `rounded`.
  bool constants(bool rounded);
  // Arithmetic on sizes, in whatever operators: vectors and numbers of which the same is known, element by element, are equal.
  bool sizes();
  // Reshapes of one tensor whose sizes differ at one place alone: all its elements are in both, so that there, too, they are the same.
  bool reshapes();

  // Constants that were taken as equal.
  const std::vector<std::string>& rounded() const { return rounded_; }
  // "seq = 128": what was taken as equal by uniting these two, since a model fails where it is not; "" where it was known.
  std::string taken(NodeId left, NodeId right) const {
    const auto it = sizes_taken_.find({left, right});
    return it == sizes_taken_.end() ? "" : it->second;
  }

 private:
  using Constants = std::map<std::pair<DType, Shape>, std::vector<std::pair<Id, Tensor>>>;
  bool are_equal(Id a, Id b) const { return g_.egraph().find(a) == g_.egraph().find(b); }
  bool is_held(Id c) const;
  bool unite_given(const Constants& held);
  bool unite_with_first(Id a, const Tensor& x, const std::vector<std::pair<Id, Tensor>>& others, bool rounded);
  std::string size_text(Dim a, Dim b) const;
  std::string name_of(Id c) const;

  OnnxEGraph& g_;
  const Lowered (&sides_)[2];
  std::vector<std::string> rounded_;
  std::map<std::pair<NodeId, NodeId>, std::string> sizes_taken_;
};

}  // namespace saturate
