// Mixtures of experts, found by what they compute: what follows from rows of stacked weights that a choice of experts picks, its borders,
// and the proof on drawn numbers that it is a weighted sum of what the experts make of a token.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx_bridge/convert/onnx_egraph.h"
#include "rules/recurrence/recurrence.h"

namespace saturate::experts {
using namespace native;

// Weights of experts, matrices or biases.
struct Picked {
  Id id = kNone;     // of the chosen ones: a Gather of a stack, [tokens * chosen, ..]; where experts stand apart, of the first
  Id stack = kNone;  // the constant that is gathered, its first axis the experts
  std::vector<std::int64_t> of_one;  // its other axes
  std::vector<Id> apart;             // where experts stand apart: the constants, by expert
};

// What follows from a choice of experts.
struct ExpertRegion {
  Id choice = kNone;  // int, [tokens, chosen]
  std::int64_t experts = 0, chosen = 0, hidden = 0;
  Dim tokens;
  std::vector<Picked> picked;
  Id input = kNone;         // [.., hidden], of `tokens` rows
  Id weights = kNone;       // [tokens, chosen]
  Id scores = kNone;        // where experts stand apart, in place of weights and choice, or none: [.., experts], of `tokens` rows
  std::vector<Id> results;  // what may be the sum, [.., hidden], of `tokens` rows
  std::vector<Id> inside;
  bool stands_apart() const { return !picked.empty() && !picked.front().apart.empty(); }
};
// The region behind the choice that picks these rows; nullopt: there is none.
std::optional<ExpertRegion> experts_around(const OnnxEGraph& g, Id gather);
// The region behind this TopK, where each expert has operators of its own, in the order of these; and where its scores may be had, the
// furthest from it first.
std::optional<ExpertRegion> experts_apart(const OnnxEGraph& g, Id top, Id scores);
// The same behind the choice that it makes, or that a OneHot spreads, and weights of whatever function: for each place where these may be
// had.
std::vector<ExpertRegion> experts_apart_by_choice(const OnnxEGraph& g, Id at);
// Puts experts that stand apart in the router's order, by running the region; false: it cannot be told, or is so already.
bool order_experts(const OnnxEGraph& g, ExpertRegion& region);
std::vector<Id> scores_before(const OnnxEGraph& g, Id top);
// A class and those that it is a view of, the furthest last. `with_repeats`: through what repeats rows, or moves axes, too.
std::vector<Id> back_through_views(const OnnxEGraph& g, Id id, bool with_repeats);
// The choice by which a class picks rows of a stack; nullopt: it does no such thing.
std::optional<Id> choice_of(const OnnxEGraph& g, Id gather);

enum class Gate : std::uint8_t { kNone, kHalves, kInterleaved, kApart };

// One product of an expert.
struct Layer {
  Id picked = kNone, bias = kNone;
  bool transposed = false;  // [columns, rows] of what is stacked
};
// A region that is a mixture of experts: y = sum of weight * (down (act (up x)).
struct Mixture {
  Layer up, linear, down;  // linear: where gates stand apart
  Gate gate = Gate::kNone;
  bool linear_first = false;  // of halves, and of what is interleaved
  std::string activation = "swiglu";
  double alpha = 1, beta = 0, limit = 0;  // of swiglu; limit 0: none
  bool normalized = false;                // where experts stand apart: of the weights
  Id result = kNone;
};
// Numbers of one run.
struct Drawn {
  Run run;
  std::int64_t tokens = 0;
  std::vector<double> weights;        // of each pair of a token and an expert
  std::vector<std::int64_t> experts;  // of pairs, where experts stand apart
};
// Single numbers in a region, which may be limits and factors of gates.
std::vector<double> numbers_within(const OnnxEGraph& g, const ExpertRegion& region);
// Runs of a region, in which all experts are met and tokens are long enough for such numbers to matter; none: it cannot be run.
std::vector<Drawn> runs_of(const OnnxEGraph& g, const ExpertRegion& region, std::span<const double> numbers);
inline std::int64_t elements_of(const Picked& p) { return p.of_one.size() == 2 ? p.of_one[0] * p.of_one[1] : p.of_one[0]; }
// Fills a tensor of doubles with numbers that look random, of about this size.
void draw_over(Tensor& t, double scale, std::size_t seed);
// Sizes of symbols that are worth a run: few tokens first.
std::vector<std::map<std::string, std::int64_t>> sizes_to_draw(const OnnxEGraph& g, Dim tokens);
std::optional<Mixture> mixture_of(const OnnxEGraph& g, const ExpertRegion& region, std::string* why = nullptr);

// The largest scores of a token, the first of equal ones first, by the number of the expert; and the softmax of all.
struct Choice {
  std::vector<std::int64_t> experts;
  std::vector<double> softmax;
};
Choice choice_among(std::span<const double> scores, std::int64_t chosen);

// A router: weights are the softmax of the scores at the places of the largest, times a factor; or, without scores, whatever is not
// negative.
struct Router {
  Id scores = kNone;  // [tokens, experts]
  bool normalized = false;
  double factor = 1;
  bool by_scores() const { return scores != kNone; }
};
std::optional<Router> router_of(const OnnxEGraph& g, const ExpertRegion& region);
// Whether what made a class shows that none of its numbers is negative: exponentials, and sums, products and quotients of such.
bool is_never_negative(const OnnxEGraph& g, Id id);

}  // namespace saturate::experts
