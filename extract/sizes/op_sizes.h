// What the time of an operator depends on: its kind (a key), and sizes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/sizes/cost_options.h"
#include "nlohmann/json_fwd.hpp"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {

using Sizes1D = std::vector<double>;

// Scales and zero points among the inputs of an integer kernel are left out (onnx_bridge/operators/integer_kernels.h).
struct OpUse {
  std::string op;                        // "Add", "com.microsoft::Gelu"
  std::vector<Sizes1D> inputs, outputs;  // shapes; an absent input is skipped
  std::vector<char> constant;            // by input: a weight
  std::vector<Attribute> attributes;
  double element_bytes = 4;
  std::string dtype = "float";  // of the first input
};

// Attributes as the operator has them. One of another type is none: a function of the model's own may have the operator's name.
std::int64_t int_attribute(const OpUse& use, std::string_view name, std::int64_t otherwise = 0);
std::vector<std::int64_t> ints_attribute(const OpUse& use, std::string_view name);
std::string string_attribute(const OpUse& use, std::string_view name);

inline constexpr double kLeastSeconds = 1e-8;  // that a row is taken to have: shorter times are the clock's
// An operator with the seconds that it took.
struct TimedUse {
  OpUse use;
  double seconds = 0;
};

struct OpSizes {
  std::string key;              // operator and what else changes its kernel: "Transpose/inner", "MatMul/weights", "QuickGelu/1"
  std::size_t arity = 0;        // inputs that are there
  double flops = 0, bytes = 0;  // of inputs and outputs
  double last = 1;              // last dim of the first output
  double outputs = 0;           // elements of the first output
  std::string dtype = "float";  // of the first input
};
OpSizes sizes_of(const OpUse& use);
// An e-node with its symbolic dims at these sizes; dims that have no size count as `otherwise`.
OpUse use_of(const OnnxEGraph& egraph, const ENode& node, Id id, const CostOptions& options);
// Of an operator's inputs those that it computes with: all, but of an integer kernel its tensors.
std::vector<Id> tensors_of(std::string_view op, std::span<const Id> inputs);
// The same operator spelled out: what `op` would cost on these inputs (of an integer kernel: its tensors alone).
OpUse use_of(const OnnxEGraph& egraph, OtherOperator op, std::span<const Id> inputs, Id output, const CostOptions& options);
// A row of `saturate cost gather` or bench/runtime/gather_ort.py; nullopt if it is none.
std::optional<OpUse> use_of(const nlohmann::json& row);

// Of a mixture of experts: pairs of a token and an expert, how many experts some token meets (of random scores), and how many weights one
// has.
struct ExpertSizes {
  double hidden = 0, inter = 0, pairs = 0, met = 0, weights = 0;
};
std::optional<ExpertSizes> experts_of(const OpUse& use);
// Operators that only give a tensor another shape: a runtime does them in place.
bool is_view(std::string_view op);
// Sizes of dims, symbolic ones as `options` say.
Sizes1D sizes_of(const OnnxEGraph& egraph, std::span<const Dim> dims, const CostOptions& options);
// The rows of a file of measured times, as bench/runtime/gather_ort.py and `saturate cost gather` write them: JSON lines; objects with
// "machine" describe it, those with "graph" are times of whole graphs and are skipped. `place` names the file in errors.
struct TimedRows {
  std::vector<TimedUse> rows;
  std::vector<std::string> lines;  // of each row
  std::string machine;             // JSON
};
// A row with its time; nullopt if it is none.
std::optional<TimedUse> timed_row(const nlohmann::json& row);
absl::StatusOr<TimedRows> read_timed_rows(const std::string& text, const std::string& place);

// Roofline (Williams, Waterman, Patterson, CACM 2009): the larger of compute and memory time, plus a launch cost.
struct Roofline {
  double launch = 0.4e-6, flops = 8e10, bandwidth = 2e10;  // seconds, 1/s, bytes/s
  std::map<std::string, double> flops_of;                  // by dtype; `flops` for others
  double cache_bytes = 0, cache_bandwidth = 0;             // of what fits into the cache; 0: as the rest
  double seconds(const OpSizes& s) const;
  std::string to_json() const;
  static absl::StatusOr<Roofline> parse(const std::string& json);
};
// Least times and best rates. With a size of cache, bandwidth in it and beyond it apart.
Roofline fit_roofline(const std::vector<TimedUse>& rows, double cache_bytes = 0);

// The entry of a kind of operator, or of the plain one for FusedGemm and FusedConv, which only have an activation on their output.
template <typename Map>
auto find_kind(const Map& map, const std::string& key) {
  constexpr std::string_view kFused = "com.microsoft::Fused";
  const auto it = map.find(key);
  return it == map.end() && key.starts_with(kFused) ? map.find(key.substr(kFused.size())) : it;
}

}  // namespace saturate
