// Sizes of the open dims of a model's inputs where the user gives none: what costs are predicted for (docs/sizes.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct AssumedSize {
  std::int64_t size = 1;
  std::string_view what;  // "tokens", "pixels"; "" of a batch, which needs no word
};
// By symbol; dims without a name are "x[1]", as for --dim.
using AssumedSizes = std::map<std::string, AssumedSize>;

// By the types, ranks and fixed dims of the inputs, and by what reads them; names count for nothing. `given`: sizes of the user, which are
// in no answer. `lowered`: of this model; where its operators can't run at a size of the table, another is taken at which they can.
AssumedSizes assumed_sizes(const Model& model, const OnnxEGraph& g, const Lowered& lowered,
                           const std::map<std::string, std::int64_t>& given = {});
// The same of a model that is lowered for it.
AssumedSizes assumed_sizes(const Model& model, const std::map<std::string, std::int64_t>& given = {});
// Of the table alone: what operators take is not asked.
AssumedSizes sizes_of_table(const Model& model);

std::map<std::string, std::int64_t> numbers_of(const AssumedSizes& sizes);

}  // namespace saturate
