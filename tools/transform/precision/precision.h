// Numbers of half precision in the place of float: which operators work in them, and where a Cast stands between the two.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "onnx_bridge/model/model.h"
#include "tools/transform/precision/half_weights.h"

namespace saturate {

// Operators that stay in float unless told otherwise, as a list in JSON. By line: sums and exponentials of many terms; norms that don't say
// in what they add up (those of the standard with a stash_type do); positions, angles and coordinates; what names the type of its result,
// or takes it from what it reads; scales of quantized numbers.
inline constexpr std::string_view kKeptInFloat =
    R"(["Softmax", "LogSoftmax", "Exp", "Log", "Pow", "Sqrt", "Reciprocal", "CumSum", "ReduceMean", "ReduceSum", "ReduceSumSquare",
        "ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "LpNormalization", "MeanVarianceNormalization",
        "InstanceNormalization", "GroupNormalization", "LRN", "LpPool", "GlobalLpPool", "DFT", "STFT", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss",
        "com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization",
        "com.microsoft.EmbedLayerNormalization", "com.microsoft.GroupNorm", "com.microsoft.SkipGroupNorm",
        "Sin", "Cos", "Range", "Resize", "GridSample", "RoiAlign", "NonMaxSuppression", "AffineGrid",
        "QuantizeLinear", "DynamicQuantizeLinear", "QLinearMatMul", "com.microsoft.QuantizeLinear",
        "com.microsoft.DequantizeLinear", "com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeMatMul",
        "com.microsoft.QAttention", "com.microsoft.QGemm"])";

struct PrecisionOptions {
  DType to = DType::kFloat16;  // or kBfloat16
  std::set<std::string>
      keep;  // operators ("Gemm", "com.microsoft.Gelu") and names of nodes that stay in float, beside those that do anyway
  std::set<std::string> convert;       // operators that would stay in float, and shall not
  std::set<std::string> floats;        // nodes that stay in float, by name of their first output
  std::set<std::string> large;         // values whose numbers are beyond the type: what makes or reads them stays in float
  std::set<std::string> tiny;          // ... so near to 0 that all of them lose bits
  std::set<std::string> large_inside;  // nodes, by name of their first output, that compute with numbers beyond the type
  bool any_size = false;               // constants beyond the type keep nothing in float
  bool interface = false;              // float inputs and outputs of the model become halves, too
};

struct Precision {
  Model model;                                 // names mean what they meant, but for those of inputs and outputs that became halves
  std::map<std::string, std::string> halves;   // new names, or those of inputs and outputs: by value, its half
  std::map<std::string, std::string> singles;  // by input or output that became a half, its value in float
  std::vector<std::string> converted;          // nodes that work in half precision, by name of their first output
  std::map<std::string, std::string> kept;     // nodes with floats that stay, by name of their first output, and why
  std::size_t casts = 0;                       // of the model
};

// The model's own functions, bodies of If, Loop and Scan, and operators that no schema describes stay in float.
// `types`: of the model's values, `inferred_types`. `weights`: of `options.to`.
Precision with_precision(const Model& model, const std::map<std::string, ValueType>& types, const PrecisionOptions& options,
                         HalfWeights& weights);

// Whether an operator or a node of the model has this name.
bool names_something(const Model& model, const std::string& name);
// The name by which reports and fields of passes know a node: that of its first output.
std::string label(const Node& node);
// Names of values that are compared, or bounds of other values: another number there is another result.
std::unordered_set<std::string> compared_values(const Graph& graph);

}  // namespace saturate
