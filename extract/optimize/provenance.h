// What the nodes of a result stand for: which nodes of the model, and by which rules.
#pragma once

#include <string>
#include <vector>

#include "extract/optimize/stages.h"

namespace saturate {

// Of each e-node that was written, in the order of the result. See Provenance in extract/optimize/optimize.h.
std::vector<Provenance> provenance(const Grown& grown, std::span<const WrittenNode> written);

// Whether a node has metadata_props, also in a body, and in functions that may be inlined.
bool has_metadata(const Model& model);

// Bytes of keys and values that a node takes over from those that it stands for, with its own.
inline constexpr std::size_t kMostMetadata = 4096;
inline constexpr std::string_view kRulesKey = "saturate.rules", kReplacesKey = "saturate.replaces", kCutKey = "saturate.metadata_cut";

// Gives the nodes of a result the metadata_props of the nodes that they stand for: of each key the different values, in the order of the
// model's nodes, with a line break between them. What does not fit is left out, value by value, and kCutKey says of how many nodes; what a
// kept node had itself stays. `annotate`: also kRulesKey and kReplacesKey. A new node has the devices on which all of those nodes ran.
// Returns how many nodes had to leave something out.
std::size_t merge_metadata(std::span<const Provenance> provenance, bool annotate, Graph& result);

}  // namespace saturate
