#include "extract/solve/extractors.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "extract/solve/greedy.h"
#include "extract/solve/ilp.h"
#include "extract/solve/large_neighbourhood.h"
#include "extract/solve/local_search.h"
#include "extract/solve/presolve.h"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr int kAmortizedRounds = 6, kSweeps = 12;
constexpr std::size_t kExactNodes = 400;        // up to so many nodes the heuristic asks the exact solver
constexpr std::size_t kSearchedNodes = 30'000;  // up to so many it searches locally
constexpr double kHeuristicSeconds = 0.1;
constexpr std::size_t kIdleKicks = 1000, kIdleKicksANode = 4;  // of the iterated local search, one behind the other
constexpr double kUsedShare = 0.9;                             // of the time limit: the solver looks at the clock between its steps only
constexpr double kLeastSolverSeconds = 0.05;

class Clock {
 public:
  explicit Clock(double seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  double left() const { return seconds_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point start_;
};

absl::Status no_term(std::uint32_t root) {
  return absl::InvalidArgumentError(fmt::format("root class {} has no finite acyclic term", root));
}

absl::StatusOr<Extraction> finish(const ExtractionProblem& p, NodeChoice choice, bool proved) {
  const ChoiceValue value = evaluate_choice(p, choice);
  if (!value.wrong.empty()) return absl::InternalError("extraction: " + value.wrong);
  return Extraction{std::move(choice), value.dag, proved};
}

template <NodeChoice (*Greedy)(const ExtractionProblem&, const ParentIndex&)>
absl::StatusOr<Extraction> run_greedy(const ExtractionProblem& p, const ExtractorLimits&) {
  if (std::string wrong = check_problem(p); !wrong.empty()) return absl::InvalidArgumentError(wrong);
  NodeChoice choice = Greedy(p, ParentIndex(p));
  for (std::uint32_t r : p.roots)
    if (choice[r] == kUnchosen) return no_term(r);
  return finish(p, std::move(choice), false);
}

NodeChoice tree_greedy(const ExtractionProblem& p, const ParentIndex& parents) { return bottom_up(p, parents); }
NodeChoice dag_greedy(const ExtractionProblem& p, const ParentIndex& parents) {
  return greedy_dag_fits(p) ? greedy_dag(p, parents) : bottom_up(p, parents);
}

// The best of the greedy choices for a presolved problem.
NodeChoice best_greedy(const ExtractionProblem& p) {
  const ParentIndex parents(p);
  NodeChoice best = bottom_up(p, parents);
  Price cost = evaluate_choice(p, best).dag;
  auto offer = [&](NodeChoice other) {
    if (const Price value = evaluate_choice(p, other).dag; value < cost) best = std::move(other), cost = value;
  };
  if (greedy_dag_fits(p)) offer(greedy_dag(p, parents));
  offer(amortized(p, parents, best, kAmortizedRounds));
  return needed_only(p, best);
}

// A presolved problem with the best choice so far.
struct State {
  Presolved presolved;
  NodeChoice choice;
  bool proved = false;

  const ExtractionProblem& problem() const { return presolved.problem; }
  Price cost() const { return evaluate_choice(presolved.problem, choice).dag; }
  bool decided() const { return presolved.problem.num_nodes() == presolved.problem.num_classes(); }
};

State start(const ExtractionProblem& p) {
  State s;
  s.presolved = presolve(p);
  if (s.presolved.unreachable_root != kUnchosen) return s;
  s.choice = best_greedy(s.problem());
  s.proved = s.decided();
  return s;
}

// A bounded number of sweeps, so that the result doesn't depend on the machine.
void search(State& s) {
  if (s.proved || s.problem().num_nodes() > kSearchedNodes) return;
  LocalSearch search(s.problem(), s.choice);
  for (int sweep = 0; sweep < kSweeps && search.sweep(); ++sweep) {
  }
  s.choice = search.choice();
}

absl::StatusOr<State> start_and_search(const ExtractionProblem& p) {
  if (std::string wrong = check_problem(p); !wrong.empty()) return absl::InvalidArgumentError(wrong);
  State s = start(p);
  if (s.presolved.unreachable_root != kUnchosen) return no_term(s.presolved.unreachable_root);
  search(s);
  return s;
}

absl::StatusOr<Extraction> plain_search(const ExtractionProblem& p, const ExtractorLimits&) {
  auto s = start_and_search(p);
  if (!s.ok()) return s.status();
  return finish(p, s->presolved.restore(s->choice), s->proved);
}

absl::StatusOr<Extraction> heuristic(const ExtractionProblem& p, const ExtractorLimits&) {
  auto s = start_and_search(p);
  if (!s.ok()) return s.status();
  if (!s->proved && s->problem().num_nodes() <= kExactNodes) {
    IlpResult exact = solve_ilp(s->presolved, s->choice, kHeuristicSeconds);
    s->choice = std::move(exact.choice);
    s->proved = exact.proved;
  }
  return finish(p, s->presolved.restore(s->choice), s->proved);
}

// Iterated local search: kicks, then repairs; the better state is kept. It ends where the last kicks have gained nothing, so that a small
// problem does not take all of the time.
absl::StatusOr<Extraction> local(const ExtractionProblem& p, const ExtractorLimits& limits) {
  const Clock clock(limits.seconds);
  auto s = start_and_search(p);
  if (!s.ok()) return s.status();
  Price cost = s->cost();
  std::mt19937_64 random(limits.seed);
  const std::size_t most_idle = kIdleKicks + kIdleKicksANode * s->problem().num_nodes();
  for (std::size_t idle = 0; !s->proved && idle < most_idle && clock.left() > 0; ++idle) {
    LocalSearch next(s->problem(), s->choice);
    next.kick(random, 1 + static_cast<int>(random() % 6));
    while (clock.left() > 0 && next.sweep()) {
    }
    if (next.cost() < cost) idle = 0;
    if (next.cost() <= cost) cost = next.cost(), s->choice = next.choice();
  }
  return finish(p, s->presolved.restore(s->choice), s->proved);
}

// Each part by the integer program, small ones first; what is not proved then by neighbourhoods, in the time that is left.
void solve_parts(State& s, double share, bool neighbourhoods, const Clock& clock, std::uint64_t seed) {
  std::vector<State> parts;
  for (Presolved& part : split(s.presolved)) {
    State state{std::move(part), {}, false};
    state.choice = state.presolved.restrict_choice(s.choice);
    state.proved = state.decided();
    parts.push_back(std::move(state));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const State& a, const State& b) { return a.problem().num_nodes() < b.problem().num_nodes(); });
  std::size_t open = 0;
  for (State& part : parts) {
    if (part.proved || clock.left() <= 0) continue;
    IlpResult result = solve_ilp(part.presolved, part.choice, std::max(kLeastSolverSeconds, clock.left() * share));
    part.choice = std::move(result.choice);
    part.proved = result.proved;
  }
  for (const State& part : parts) open += !part.proved;
  s.proved = open == 0;
  NodeChoice all(s.problem().num_classes(), kUnchosen);
  for (State& part : parts) {
    if (!part.proved && neighbourhoods)
      part.choice = large_neighbourhood_search(part.presolved, part.choice, clock.left() / static_cast<double>(open--), seed);
    for (std::uint32_t c = 0; c < part.problem().num_classes(); ++c)
      if (part.choice[c] != kUnchosen) all[part.presolved.class_origin[c]] = part.presolved.node_origin[part.choice[c]];
  }
  s.choice = std::move(all);
}

absl::StatusOr<Extraction> exact(const ExtractionProblem& p, double share, bool neighbourhoods, const ExtractorLimits& limits) {
  const Clock clock(limits.seconds * kUsedShare);
  auto started = start_and_search(p);
  if (!started.ok()) return started.status();
  const State& first = *started;
  State s;
  s.presolved = presolve(first.problem(), {.cost_to_beat = first.cost()});
  s.choice = s.presolved.restrict_choice(first.choice);
  if (!evaluate_choice(s.problem(), s.choice).wrong.empty()) s.choice = best_greedy(s.problem());
  s.proved = first.proved || s.decided();
  if (!s.proved) solve_parts(s, share, neighbourhoods, clock, limits.seed);
  NodeChoice choice = s.presolved.restore(s.choice);
  if (evaluate_choice(first.problem(), choice).dag > first.cost()) choice = first.choice;
  return finish(p, first.presolved.restore(choice), s.proved);
}

absl::StatusOr<Extraction> ilp(const ExtractionProblem& p, const ExtractorLimits& limits) { return exact(p, 1, false, limits); }
absl::StatusOr<Extraction> portfolio(const ExtractionProblem& p, const ExtractorLimits& limits) { return exact(p, 0.5, true, limits); }

constexpr std::array<Extractor, 7> kExtractors{{
    {"bottom-up", "least tree cost, exactly", &run_greedy<tree_greedy>},
    {"greedy-dag", "one pass, each class ranked by the set of classes below it", &run_greedy<dag_greedy>},
    {"search", "presolve, the best of the greedy ones, local search", &plain_search},
    {"heuristic", "search, then the integer program for 0.1 s where few nodes are left", &heuristic},
    {"local", "iterated local search until many kicks gain nothing, or the time is over", &local},
    {"ilp", "integer linear program (HiGHS or CBC), warm-started by the heuristics; says when it is optimal", &ilp},
    {"portfolio", "heuristics, then the integer program, then large neighbourhoods of it", &portfolio},
}};

}  // namespace

std::uint32_t root_without_term(const ExtractionProblem& p) {
  const NodeChoice choice = bottom_up(p, ParentIndex(p));
  for (std::uint32_t r : p.roots)
    if (choice[r] == kUnchosen) return r;
  return kUnchosen;
}

std::span<const Extractor> extractors() { return kExtractors; }

const Extractor* find_extractor(std::string_view name) {
  for (const Extractor& e : kExtractors)
    if (e.name == name) return &e;
  return nullptr;
}

}  // namespace saturate
