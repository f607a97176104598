// What ties the values of a result to those of the model it was made of. Passes add to it as they change a model; at its end the verifier
// is given two models with one interface: the original that computes what the result should, and the result that takes the original's
// inputs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/verify/verify.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// A small function of one tensor that stands at the border of a model.
struct View {
  enum class Kind : std::uint8_t { kCast, kTranspose, kUnsqueeze, kSqueeze, kReshape, kLast, kZeros };
  Kind kind = Kind::kCast;
  DType dtype = DType::kUndefined;      // kCast, kZeros
  std::vector<std::int64_t> dims = {};  // kTranspose: perm; kUnsqueeze and kSqueeze: axes from 0; kReshape; kLast: an axis, and how many
};
// Nodes that make `to` of `from`, an Identity where there is no view. `fresh` gives names.
class FreshNames;
void add_views(const Model& model, const std::vector<View>& views, const std::string& from, const std::string& to, FreshNames& fresh,
               std::vector<Node>& nodes);
// A model of operators of other domains alone gets a version of ai.onnx for them.
void ensure_standard_opset(Model& model);

struct Tie {
  std::string original;     // a value of the original
  std::vector<View> views;  // what makes the result's value of it
};

struct Ties {
  std::map<std::string, Tie> inputs, outputs;               // by name in the result
  std::map<std::string, std::string> values;                // of the result -> of the original
  std::map<std::string, std::vector<View>> held;            // inputs of the original that go through these first
  std::set<std::string> frozen;                             // inputs of the original that are their initializers
  std::map<std::string, bool> chosen;                       // values that an If of the original makes: whether by its then_branch
  std::map<std::string, double> clamped;                    // values of the original that are no larger, and no less than minus that
  std::map<std::string, std::set<std::string>> symbols;     // dims of the result -> of the original, where not of the same name
  Sizes sizes;                                              // dims of the original that the result fixes
  std::map<std::string, std::vector<std::int64_t>> shapes;  // likewise of its inputs; -1: free
  std::vector<ValueInfo> added;                             // inputs that the original has not

  static Ties identity(const Model& model);
  // The original's value that a value of the result is; "" where it is none.
  std::string value_of(const std::string& result) const;
  std::set<std::string> symbols_of(const std::string& result) const;
};

bool same_name(const Function& a, const Function& b);  // by domain, name and overload

// The pair for the verifier.
struct Comparable {
  Model original, result;
};
Comparable comparable(const Model& original, const Model& result, const Ties& ties);

}  // namespace saturate
