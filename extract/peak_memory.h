// How much memory the values of a graph take at the worst moment.
#pragma once

#include "extract/extract.h"

namespace saturate {

// Bytes of the values that are alive at once, at most. Nodes run in order of depth-first search from the outputs. A value lives from the
// node that makes it to its last reader; constants and graph inputs count throughout. Views and projections share their input. Symbolic
// dims have the usual sizes.
double peak_bytes(const OnnxEGraph& egraph, const Lowered& lowered, const Selection& selection, const ExtractOptions& options);

}  // namespace saturate
