// The kinds of blocks that people ask for, in their words, and what became of a model's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "extract/optimize/optimize.h"
#include "tools/pipeline/report.h"
#include "tools/pipeline/setup.h"

namespace saturate {

struct BlockKind {
  std::string_view name;                   // "attention"
  std::string_view one;                    // of one that is missing: "attention"
  std::vector<std::string_view> asked;     // operators whose places are those of the kind, as in WhyQuery::op
  std::vector<std::string_view> synonyms;  // in small letters, without anything between words
};
std::span<const BlockKind> known_kinds();
// By a word as people write it: "SDPA", "Flash-Attention", "layer_norm"; null: none.
const BlockKind* find_kind(std::string_view word);
// All words that mean a kind.
std::vector<std::string> words_of_kinds();

// What the result does without that a graph might have: a look without the rules that come near. Of the main graph, which begins the list
// anew, and then of each body.
void see_unfused(const FinishedRun& run, const Setup& setup, const OptimizeOptions& options, std::vector<Unfused>& into);
// The option that lets a result have an opset: "--target ort-cpu@1.23"; "" where none does.
std::string option_for_opset(const Setup& setup, const OptimizeOptions& options, std::int64_t opset);

}  // namespace saturate
