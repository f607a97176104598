// What the time of an operator depends on: its kind (a key), and sizes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "extract/cost.h"
#include "nlohmann/json_fwd.hpp"

namespace saturate {

using Sizes1D = std::vector<double>;

struct OpUse {
  std::string op;                               // "Add", "com.microsoft::Gelu"
  std::vector<Sizes1D> inputs, outputs;         // shapes; an absent input is skipped
  std::vector<char> constant;                   // by input: a weight
  std::vector<Attribute> attributes;
  double element_bytes = 4;
};

struct OpSizes {
  std::string key;              // operator and what else changes its kernel: "Transpose/inner", "MatMul/weights", "QuickGelu/1"
  std::size_t arity = 0;        // inputs that are there
  double flops = 0, bytes = 0;  // of inputs and outputs
  double last = 1;              // last dim of the first output
};
OpSizes sizes_of(const OpUse& use);
// An e-node with its symbolic dims at these sizes; dims that have no size count as `otherwise`.
OpUse use_of(const OnnxEGraph& egraph, const ENode& node, Id id, const CostOptions& options);
// The same operator spelled out: what `op` would cost on these inputs.
OpUse use_of(const OnnxEGraph& egraph, std::string op, std::span<const Id> inputs, Id output, const CostOptions& options);
// A row of `saturate cost gather` or bench/gather_ort.py; nullopt if it is none.
std::optional<OpUse> use_of(const nlohmann::json& row);

// Operators that only give a tensor another shape: a runtime does them in place.
bool is_view(std::string_view op);
// Roofline (Williams, Waterman, Patterson, CACM 2009): the larger of compute and memory time, plus a launch cost.
struct Roofline {
  double launch = 0.4e-6, flops = 8e10, bandwidth = 2e10;
  double seconds(const OpSizes& s) const;
};

}  // namespace saturate
