// Other choices for an extraction problem: for experiments with costs, and as candidates for a second objective.
#pragma once

#include <string>
#include <vector>

#include "extract/onnx_problem.h"

namespace saturate {

// Up to `count` complete acyclic choices that differ from `from` and from each other in the nodes they take. The same for the same seed.
// Half of them are `from` with a few classes changed, half are drawn from the whole problem; fewer where the problem has no more or they
// are not found.
std::vector<NodeChoice> sample_choices(const ExtractionProblem& problem, const NodeChoice& from, std::size_t count, std::uint64_t seed);

// The same for an e-graph whose extraction problem this is: selections that cover the roots and differ from `chosen`.
std::vector<Selection> sample_selections(const OnnxEGraph& egraph, const Lowered& lowered, const OnnxProblem& problem,
                                         const Selection& chosen, std::size_t count, std::uint64_t seed);

// The problem as egraph-serialize's JSON: operators, costs, classes and roots as extraction sees them, what the target can't run left out.
std::string problem_json(const OnnxEGraph& egraph, const OnnxProblem& problem);

}  // namespace saturate
