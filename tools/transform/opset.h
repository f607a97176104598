// A model in another opset of ai.onnx, and otherwise as it is.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/target/target.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// A target that takes everything that the model and the standard have, but these operators ("Op", "domain::Op").
absl::StatusOr<Target> everything_but(const Model& model, const std::vector<std::string>& avoided);
absl::StatusOr<Model> at_opset(const Model& model, std::int64_t opset);
// By rules, which write what the opset does not have as operators that it has, and fuse what they can. `avoided`: operators to do without.
absl::StatusOr<Model> rewritten(const Model& model, std::int64_t opset, const std::set<std::string>& avoided = {});

}  // namespace saturate
