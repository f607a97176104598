// A target: what can run, and what it costs. Readable JSON; built-in ones are embedded, a user's own is a file.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/onnx_egraph.h"

namespace saturate {

// Whether the ONNX standard has the operator. ONNX Runtime registers one of its own in the standard's domain (tools/generate_op_table.py).
inline bool is_standard(const OpKey& key) { return key.domain.empty() && key.op_type != "SimplifiedLayerNormalization"; }

// What the target's runtime does to a pair of operators when it loads the model, like it or not: `consumer` reads, as its first input, a value that
// `producer` makes and nobody else reads. Extraction prices the pair as `becomes`; a producer of another name escapes it.
struct ForcedRewrite {
  std::string producer, consumer, becomes;
  bool constant_operand = false;  // only where one input of the producer is a constant
  std::string versions;           // of the runtime, as text
};

struct Target {
  std::string name, description;
  std::int64_t min_opset = 7, max_opset = 23;              // of ai.onnx; extraction may raise the model's opset up to max_opset
  std::string cost_model = "roofline";                     // default of `--cost`
  std::map<std::string, std::set<std::string>> operators;  // operators beyond the standard by domain ("*": all)
  std::set<std::string> forbidden;                         // "domain::Op" or "Op"
  std::map<std::string, std::vector<std::string>> dtypes;  // "domain::Op" -> element types of the first input that have a kernel
  std::vector<ForcedRewrite> forced;
  // Whether an operator made by a rule may be emitted; `why` gets the reason if not. Operators of the input model always may stay.
  bool allows(const OpKey& key, const Facts& first_input, std::int64_t opset_limit, std::string* why = nullptr) const;
};

// Name of a built-in target ("onnx", "ort-cpu") or path of a JSON file.
absl::StatusOr<Target> load_target(const std::string& name_or_path);
std::vector<std::string> builtin_targets();

}  // namespace saturate
