// The last entries along an axis, cut as early as what is computed lets them stay apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// The last `count` entries along `axis` of a value, all of them where there are fewer.
struct LastRows {
  std::string value;
  int axis = 1;
  std::int64_t count = 1;
};

struct RowsCut {
  std::vector<std::string> moved;  // values of which the last entries alone are computed now, under their own names
  std::vector<std::string> cut;    // values of which all are computed, and the last are read
};

// Lets `rows.value` have its last entries alone. A node that makes each entry of entries of its inputs at one place alone, and whose
// results are read nowhere else, computes the last ones alone; the Slices stand before such nodes. kUnimplemented, with the node and the
// reason: the value itself is made by another node. `types`: of the model's values.
absl::StatusOr<RowsCut> keep_last_rows(Model& model, const std::map<std::string, ValueType>& types, const LastRows& rows,
                                       FreshNames& fresh);

// What a node needs of an input for entries along an axis of its results alone: entries along an axis of it (nullopt: all of it).
using InputRows = std::vector<std::optional<int>>;
struct RowsPlan {
  InputRows inputs;
  std::optional<std::vector<std::int64_t>> shape = std::nullopt;  // of a Reshape, in the place of its own
  bool of_first_output = false;                                   // the further results do not depend on these entries at all
};
// By what is known of the operators; nullopt: an entry may depend on others. `axis` is that of the results.
std::optional<RowsPlan> rows_behind(const Model& model, const std::map<std::string, ValueType>& types, const Node& node, int axis);

}  // namespace saturate
