// At which sizes operators are priced, operators that are priced beside e-nodes, and what names a cost model (extract/price/cost.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

// An operator that no e-node is: its name ("com.microsoft::BiasGelu") and its attributes.
struct OtherOperator {
  std::string name;
  std::vector<Attribute> attributes = {};
};

// Sizes of symbolic dims at which costs are computed, and how much they count.
struct CostPoint {
  std::map<std::string, std::int64_t> symbols;
  double weight = 1;
};

struct CostOptions {
  std::map<std::string, std::int64_t> symbols;  // sizes of symbolic dims for models that need numbers
  std::int64_t default_symbol = 64;             // size of the others
  std::vector<CostPoint> points;                // several: the weighted mean of the costs at each, sizes beyond `symbols`
};

std::vector<std::string> builtin_cost_models();
// Built in, or named as a file of data: no library, which would run code.
bool is_cost_data(const std::string& name_or_path);

}  // namespace saturate
