// Schedulers decide when a rule is searched and how many of its matches are applied. A scheduler is an object of a few questions; the
// runner asks them always in the same order, so a run stays the same for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace saturate {

// Applies everything: the base of all others, which change an answer or two.
class Scheduler {
 public:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  struct Applied {
    std::uint64_t effective = 0;  // applications that changed something
    std::uint64_t left = 0;       // matches that the quota left for later
  };

  virtual ~Scheduler() = default;
  virtual std::string_view name() const { return "simple"; }
  // A run begins, with so many rules on so many e-nodes.
  virtual void start(std::size_t /*rules*/, std::size_t /*nodes*/) {}
  // Whether the rule is searched in this iteration (from 0). A rule with matches left is not, until they are applied.
  virtual bool searches(std::size_t /*rule*/, std::size_t /*iteration*/) const { return true; }
  // The most matches that one search may find; if there are more, none is applied, they stay fresh, and passed() is told. Asked by several
  // threads.
  virtual std::uint64_t match_limit(std::size_t /*rule*/) const { return kAll; }
  virtual void passed(std::size_t /*rule*/, std::size_t /*iteration*/) {}
  // How many applications may change something in this iteration, at least 1. Those of the oldest e-nodes come first; the others are left
  // for the next iteration.
  virtual std::uint64_t quota(std::size_t /*rule*/) const { return kAll; }
  virtual void applied(std::size_t /*rule*/, const Applied& /*what*/) {}
  // Nothing changed in this iteration. Calls back what is put off, for the next one; false where nothing is.
  virtual bool resume(std::size_t /*iteration*/) { return false; }
};

std::unique_ptr<Scheduler> make_simple_scheduler();

// egg's: a rule with more than match_limit * 2^bans matches is left out for ban_length * 2^bans iterations.
std::unique_ptr<Scheduler> make_backoff_scheduler(std::uint64_t match_limit = 1000, std::uint64_t ban_length = 5);

// Of our own: matches are never dropped, but each rule has a quota of applications an iteration. It starts at `share` times the e-nodes of
// the start, halves (down to `least`) while matches are left, and doubles back while none are. So a rule that finds its few places
// everywhere in a big graph is done at once, and one that feeds itself gets less and less.
std::unique_ptr<Scheduler> make_quota_scheduler(double share = 0.25, std::uint64_t least = 32);

}  // namespace saturate
