// What ONNX Runtime makes of a spelling when it loads a model, as text (extract/runtimes/fusions.json):
//   Mul(Div(x,Sqrt(Add(ReduceMean[keepdims:1](Pow(x,2),axes),eps!))),scale)   becomes   SimplifiedLayerNormalization(x,scale)
// A word in small letters is any value, the same one wherever it stands; with ! behind it, a constant. A number is a constant of one
// element with this value. `Relu|Tanh(x)`: one of several operators; `c=Conv(x,w,...)`: its name, and whatever further inputs it has. In
// square brackets attributes: of a pattern those that it must have, of what it becomes those that it gets, *c for those of the operator
// named c. `c.1` is the second value that it makes. What it becomes may be operators of operators, `Mul(x,HardSigmoid(x))`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/target/target.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

struct LoadPattern {
  enum class What : std::uint8_t { kValue, kNumber, kRest, kOperator };
  What what = What::kValue;
  std::string name;       // of a value, or of an operator; "" where it has none
  bool constant = false;  // the value is one
  double number = 0;
  std::size_t output = 0;                                      // of the operator that is named so; 0: its first value, or a value's name
  bool in_order = false;                                       // the inputs of a commutative operator, too
  std::vector<std::string> operators;                          // "Relu", "com.microsoft::Gelu"
  std::uint64_t operator_bits = 0;                             // of these
  std::map<std::string, std::vector<std::string>> attributes;  // each as JSON text, in a list of one
  std::string attributes_of;                                   // name of the operator whose attributes it gets
  std::vector<LoadPattern> children;
};

// A bit for an operator, which few share: values that no operator of a pattern makes are told by a look at theirs.
inline std::uint64_t operator_bit(std::string_view domain, std::string_view op_type) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const std::string_view part : {domain, std::string_view(domain.empty() ? "" : "::"), op_type})
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return std::uint64_t{1} << (hash >> 58);
}

// kInvalidArgument with what is wrong and where.
absl::StatusOr<LoadPattern> parse_load_pattern(std::string_view text);

// Spellings that the runtime fuses. Values between the operators are read by them alone, and are no outputs of the graph.
struct LoadFusion {
  std::string text, becomes_text;                                         // as they were given
  std::string json;                                                       // all of it, of a target's own
  LoadPattern pattern, becomes;                                           // `becomes`: an operator of values, or one of these
  std::map<std::string, std::vector<int>> ranks;                          // by value: what its rank may be
  std::map<std::string, std::string> last_axis;                           // by value: it is the last axis of this one
  std::vector<std::string> one_element, all_sizes_known, swaps_last_two;  // Transposes; all others are values
  std::vector<std::string> same_shape;
  std::map<std::string, std::string> same_type;   // by value or operator: it has the element type of this one
  std::map<std::string, std::string> same_rank;   // likewise
  std::map<std::string, std::string> per_filter;  // by value: it is a number for each filter of these weights
  std::vector<std::string> may_stay;              // operators that others may read, too: these then run for them
  bool basic = false;                             // made at ENABLE_BASIC, before units are looked for
  bool in_order = false;                          // inputs stand as the pattern has them
  std::map<std::string, double> at_least;         // by value: the number that it is at least
  std::map<std::string, int> beside;              // operators that it takes beside
  std::string since, before;                      // releases of the runtime; "": all
};

// The operator that `becomes` names, of UnitRole::kFused. `others`: attributes that it gets beside its own, where they are known.
OpKey fused_key(const LoadPattern& becomes, const std::vector<Attribute>* others, std::optional<int> rank);

// Whether the runtime leaves it to each run though all that it reads is constant: weights stay quantized.
inline bool stays_quantized(const OpKey& key) { return key.op_type == "DequantizeLinear" || key.op_type == "QuantizeLinear"; }

// A list of them, as files have it; what is wrong with one is an exception of JSON, or a status for its patterns.
absl::StatusOr<std::vector<LoadFusion>> parse_load_fusions(std::string_view list);
// Those of ONNX Runtime's CPU provider at ENABLE_EXTENDED, in the order in which it makes them.
const std::vector<LoadFusion>& known_load_fusions();
// Whether a choice of e-nodes can hold it: those have one value each, no order of inputs, and are made into one.
bool is_of_choices(const LoadFusion& fusion);
// The target's own; else of ONNX Runtime's those that the release makes to which a target is held; of the newest one where it is held to
// none.
std::vector<const LoadFusion*> load_fusions_of(const Target& target);

}  // namespace saturate
