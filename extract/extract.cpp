#include "extract/extract.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "extract/onnx_problem.h"
#include "extract/peak_memory.h"
#include "extract/sample.h"
#include "extract/solve/extractors.h"
#include "extract/solve/local_search.h"
#include "extract/units/node_units.h"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr double kLeastGain = 1e-9;  // relative; below it another extractor changes nothing
constexpr std::size_t kMemoryCandidates = 64;

// Of the cheapest choice and others near it that cost at most the slack more: the one with the lowest peak.
NodeChoice least_memory(const OnnxEGraph& g, const Lowered& lowered, const OnnxProblem& p, const NodeChoice& cheapest,
                        const ExtractOptions& options) {
  Price limit = evaluate_choice(p.plain, cheapest).dag;
  limit.cost *= 1 + options.memory_slack;
  NodeChoice best = cheapest;
  double least = peak_bytes(g, lowered, to_selection(p, cheapest), options);
  for (const NodeChoice& c : sample_choices(p.plain, cheapest, kMemoryCandidates, 1)) {
    if (evaluate_choice(p.plain, c).dag > limit || !spelled_out(p, c)) continue;
    if (const double peak = peak_bytes(g, lowered, to_selection(p, c), options); peak < least) best = c, least = peak;
  }
  return best;
}

// Spelled out, what the runtime makes of a few nodes may come to need itself. The options of a choice without what is chosen of these;
// nullopt where nothing is.
std::optional<ExtractOptions> without_fused(const OnnxProblem& p, const NodeChoice& choice, ExtractOptions options) {
  const std::size_t before = options.left_out.size();
  for (const std::uint32_t n : needed_only(p.plain, choice))
    if (n != kUnchosen && p.spelled.contains(n)) options.left_out.insert(p.node_id[n]);
  return options.left_out.size() == before ? std::nullopt : std::optional(std::move(options));
}

}  // namespace

absl::StatusOr<Selection> original_selection(const OnnxEGraph& g, const Lowered& lowered, const Target* target, const CostModel& cost,
                                             const ExtractOptions& options) {
  const OnnxProblem p = onnx_problem(g, lowered, target, cost, options);
  const auto choice = original_choice(g, lowered, p);
  if (!choice.ok()) return choice.status();
  Selection result = without_units(g, lowered.roots, to_selection(p, *choice));
  const AtLoad loaded = at_load(g, prices_fusions(cost) ? target : nullptr, p, *choice);
  result.cost_before = result.cost = loaded.price.cost;
  return result;
}

absl::StatusOr<Selection> extract(const OnnxEGraph& g, const Lowered& lowered, const Target& target, const CostModel& cost,
                                  const ExtractOptions& options) {
  const OnnxProblem p = onnx_problem(g, lowered, &target, cost, options);
  if (std::string wrong = check_problem(p.plain); !wrong.empty()) return absl::InternalError("extraction: " + wrong);
  auto original = original_choice(g, lowered, p);
  if (!original.ok()) return original.status();
  const NodeChoice own = *original;
  // A call is as dear as what it runs, which the result is compared with.
  const auto inside = lowered.inlined.empty() ? absl::StatusOr<NodeChoice>(*original) : original_choice(g, lowered, p, true);
  LocalSearch search(p.plain, *std::move(original));
  for (int round = 0; round < options.improvement_rounds && search.sweep(); ++round) {
  }
  const Extractor* extractor = find_extractor(options.extractor);
  if (!extractor) return absl::InvalidArgumentError(fmt::format("{}: no such extractor", options.extractor));
  const auto other = extractor->run(p.plain, {.seconds = options.extractor_seconds, .seed = 1});
  if (!other.ok()) return other.status();
  NodeChoice choice = clearly_less(other->cost, search.cost(), kLeastGain) ? other->choice : search.choice();
  bool proved = other->proved;
  if (options.memory_slack > 0) {
    NodeChoice less = least_memory(g, lowered, p, choice, options);
    // What the runtime fuses by itself may cost more than the share that is given away.
    const auto cost_of = [&](const NodeChoice& of) { return at_load(g, prices_fusions(cost) ? &target : nullptr, p, of).price.cost; };
    if (cost_of(less) <= cost_of(choice) * (1 + options.memory_slack)) {
      proved = proved && less == choice;
      choice = std::move(less);
    }
  }
  const Target* loading = prices_fusions(cost) ? &target : nullptr;
  AtLoad was = at_load(g, loading, p, inside.ok() ? *inside : own), now = at_load(g, loading, p, choice);
  // What the runtime makes of the model as it came may be cheaper than all that extraction looks at.
  const Price own_loaded = lowered.inlined.empty() ? was.price : at_load(g, loading, p, own).price;
  if (const double most = own_loaded.cost * (1 + options.memory_slack); now.price > Price(own_loaded.refused, most * (1 + kLeastGain))) {
    choice = own;
    proved = false;
    now = at_load(g, loading, p, own);
  }
  Selection result = without_units(g, lowered.roots, to_selection(p, choice));
  if (std::string wrong = check_selection(g.egraph(), lowered.roots, result); !wrong.empty()) {
    if (const auto others = without_fused(p, choice, options)) {
      absl::StatusOr<Selection> again = extract(g, lowered, target, cost, *others);
      if (again.ok()) again->proved = false;
      return again;
    }
    return absl::InternalError("extraction: " + wrong);
  }
  result.cost_before = was.price.cost;
  result.cost = now.price.cost;
  result.proved = proved;
  return result;
}

absl::StatusOr<double> cost_with_pinned(const OnnxEGraph& g, const Lowered& lowered, const Target& target, const CostModel& cost,
                                        const ExtractOptions& options) {
  const OnnxProblem p = onnx_problem(g, lowered, &target, cost, options);
  if (root_without_term(p.plain) != kUnchosen) return std::numeric_limits<double>::infinity();
  const Extractor* extractor = find_extractor(options.extractor);
  if (!extractor) return absl::InvalidArgumentError(fmt::format("{}: no such extractor", options.extractor));
  auto found = extractor->run(p.plain, {.seconds = options.extractor_seconds, .seed = 1});
  if (!found.ok()) return found.status();
  LocalSearch search(p.plain, std::move(found->choice));
  for (int round = 0; round < options.improvement_rounds && search.sweep(); ++round) {
  }
  Selection result = to_selection(p, search.choice());
  result.cost = at_load(g, prices_fusions(cost) ? &target : nullptr, p, search.choice()).price.cost;
  for (const auto& [id, node] : options.pinned) {
    const Choice* choice = result.find(g.egraph().find(id));
    if (!choice || choice->node != node) return std::numeric_limits<double>::infinity();
  }
  return result.cost;
}

}  // namespace saturate
