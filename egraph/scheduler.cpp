#include "egraph/scheduler.h"

#include <algorithm>
#include <vector>

namespace saturate {
namespace {

class Backoff : public Scheduler {
 public:
  Backoff(std::uint64_t match_limit, std::uint64_t ban_length) : limit_(match_limit), length_(ban_length) {}
  std::string_view name() const override { return "backoff"; }
  void start(std::size_t rules, std::size_t) override { rules_.assign(rules, {}); }
  bool searches(std::size_t rule, std::size_t iteration) const override { return iteration >= rules_[rule].banned_until; }
  std::uint64_t match_limit(std::size_t rule) const override { return doubled(limit_, rules_[rule].bans); }
  void passed(std::size_t rule, std::size_t iteration) override {
    const std::uint64_t length = doubled(length_, rules_[rule].bans++);
    rules_[rule].banned_until = length < kAll - 1 - iteration ? iteration + length : kAll - 1;
  }
  bool resume(std::size_t iteration) override {
    std::size_t first = ~std::size_t{0};
    for (const State& rule : rules_) {
      if (rule.banned_until > iteration) first = std::min(first, rule.banned_until);
    }
    if (first == ~std::size_t{0}) return false;
    for (State& rule : rules_) {
      if (rule.banned_until > iteration) rule.banned_until -= first - iteration;
    }
    return true;
  }

 private:
  // kAll where it grows beyond all numbers.
  static std::uint64_t doubled(std::uint64_t n, std::uint32_t times) { return times >= 64 || n > (kAll >> times) ? kAll : n << times; }

  struct State {
    std::size_t banned_until = 0;
    std::uint32_t bans = 0;
  };
  std::uint64_t limit_, length_;
  std::vector<State> rules_;
};

class Quota : public Scheduler {
 public:
  Quota(double share, std::uint64_t least) : share_(share), least_(std::max<std::uint64_t>(1, least)) {}
  std::string_view name() const override { return "quota"; }
  void start(std::size_t rules, std::size_t nodes) override {
    most_ = std::max(least_, static_cast<std::uint64_t>(share_ * static_cast<double>(nodes)));
    quota_.assign(rules, most_);
  }
  std::uint64_t quota(std::size_t rule) const override { return quota_[rule]; }
  void applied(std::size_t rule, const Applied& what) override {
    quota_[rule] = what.left > 0 ? std::max(least_, quota_[rule] / 2) : std::min(most_, quota_[rule] * 2);
  }

 private:
  double share_;
  std::uint64_t least_, most_ = 1;
  std::vector<std::uint64_t> quota_;
};

}  // namespace

std::unique_ptr<Scheduler> make_simple_scheduler() { return std::make_unique<Scheduler>(); }
std::unique_ptr<Scheduler> make_backoff_scheduler(std::uint64_t match_limit, std::uint64_t ban_length) {
  return std::make_unique<Backoff>(match_limit, ban_length);
}
std::unique_ptr<Scheduler> make_quota_scheduler(double share, std::uint64_t least) { return std::make_unique<Quota>(share, least); }

}  // namespace saturate
