// What holds of a clean e-graph; for tests and debug builds.
#pragma once

#include <string>

#include "egraph/egraph.h"

namespace saturate {

// Empty, or the first thing that is wrong: children canonical (and sorted where commutative), no two live e-nodes equal, hash table = live
// e-nodes, every live e-node in the parent list of each child, counts right, every class with a live e-node.
std::string check_invariants(const EGraph& egraph);

}  // namespace saturate
