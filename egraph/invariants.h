// What holds of a clean e-graph; for tests and debug builds.
#pragma once

#include <string>

#include "egraph/egraph.h"

namespace saturate {

// Empty, or the first thing that is wrong. Children are canonical, and sorted where the operator is commutative. No two live e-nodes are
// equal, the hash table holds the live ones, and each is in the parent list of its children. Counts are right, and every class has a live
// e-node.
std::string check_invariants(const EGraph& egraph);

}  // namespace saturate
