// Large-neighbourhood search: most classes keep their node, a few related ones are free again, and that small problem is solved exactly.
#pragma once

#include <random>

#include "extract/solve/simplify.h"

namespace saturate {

// Improves a complete acyclic choice for simplified.problem until `seconds` have passed.
NodeChoice neighbourhood_search(const Simplified& simplified, NodeChoice choice, double seconds, std::uint64_t seed);

}  // namespace saturate
