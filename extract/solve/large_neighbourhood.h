// Large-neighbourhood search: most classes keep their node, a few related ones are free again, and that small problem is solved exactly.
#pragma once

#include <random>

#include "extract/solve/presolve.h"

namespace saturate {

// Improves a complete acyclic choice for presolved.problem until `seconds` have passed.
NodeChoice large_neighbourhood_search(const Presolved& presolved, const NodeChoice& choice, double seconds, std::uint64_t seed);

}  // namespace saturate
