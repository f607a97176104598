// The extractors behind one interface. All return complete acyclic choices; none needs to know what the nodes mean.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "extract/solve/problem.h"

namespace saturate {

struct ExtractorLimits {
  double seconds = 10;  // of wall time, for those that can go on for ever: local, ilp, portfolio
  std::uint64_t seed = 1;
};

struct Extraction {
  NodeChoice choice;
  Price cost;           // DAG cost
  bool proved = false;  // no choice costs less
};

struct Extractor {
  std::string_view name, description;
  // Errors: a malformed problem (a negative cost, with its node), or a root without a finite term, with its class.
  absl::StatusOr<Extraction> (*run)(const ExtractionProblem& problem, const ExtractorLimits& limits);
};

// A root class from which no finite acyclic term can be built, or kUnchosen.
std::uint32_t root_without_term(const ExtractionProblem& problem);

std::span<const Extractor> extractors();
const Extractor* find_extractor(std::string_view name);

}  // namespace saturate
