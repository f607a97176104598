#include <algorithm>
#include <deque>
#include <numeric>

#include "egraph/apply.h"
#include "egraph/matcher.h"
#include "egraph/parallel.h"
#include "egraph/rewrite.h"

namespace saturate {

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kSaturated:
      return "saturated";
    case StopReason::kIterationLimit:
      return "iteration limit";
    case StopReason::kNodeLimit:
      return "node limit";
    case StopReason::kTimeLimit:
      return "time limit";
    case StopReason::kMemoryLimit:
      return "memory limit";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kContradiction:
      return "contradiction";
  }
  return "unknown";
}

namespace {

// Rows to start from, over all rules, below which one thread searches faster than several.
constexpr std::size_t kWorthThreads = 120'000;

// Matches of one search, in words: a product of many large classes ends the run as a memory limit does.
constexpr std::size_t kMostWords = std::size_t{1} << 27;

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct RuleState {
  RuleState(const Rewrite& given, bool reasons) : rule(&given), matcher(given.left), budget_left(given.budget) { look_at_rule(reasons); }
  void look_at_rule(bool reasons) {
    layout = layout_of(*rule, reasons);
    guarded = matcher.has_guards() || rule->applier != nullptr;
    matches.stride = layout.stride();
  }
  void make(bool reasons) {
    made = std::make_unique<const Rewrite>(rule->make());
    rule = made.get();
    matcher = Matcher(rule->left);
    look_at_rule(reasons);
  }
  const Rewrite* rule;
  std::unique_ptr<const Rewrite> made;  // of a rule that was made when it was wanted
  Matcher matcher;
  MatchLayout layout;
  std::uint64_t budget_left;
  bool exhausted = false;  // the budget is used up and a match was left
  bool guarded = false;
  std::uint32_t last = 0;               // matches older than this stamp have been applied
  std::size_t last_ids = 0;             // number of ids then
  std::vector<std::uint32_t> deferred;  // matches that the scheduler left for later
  // Of the present search.
  bool searched = false;
  std::span<const std::uint32_t> rows;  // to start from
  std::uint64_t found = 0;
  std::size_t first_word = 0;  // of its matches, in the words of all rules
  MatchList matches;
};

// How many operators on end a pattern must have to see something newer than `last` from a row: 0 where the row or its class is new itself.
struct Sight {
  static constexpr std::uint32_t kNever = ~0u;
  std::uint32_t last;
  bool of_facts;                     // Rewrite::of_facts_alone
  std::vector<std::uint32_t> depth;  // by row
};
// Rows of a kind from which a pattern of `depth` operators on end can see it.
struct NewRows {
  std::uint32_t depth, last;
  bool of_facts;
  std::vector<std::uint32_t> rows;
};

// Which kinds of e-nodes have a child in whose class another kind is; of the kinds that rules ask about.
class KindPairs {
 public:
  void ask_about(Kind kind) {
    if (number_.size() <= kind) number_.resize(kind + std::size_t{1}, kNone);
    if (number_[kind] == kNone) number_[kind] = static_cast<std::uint32_t>(asked_.size()), asked_.push_back(kind);
  }
  void look(const EGraph::Impl& g, const Index& index) {
    seen_.assign(asked_.size() * asked_.size(), false);
    for (std::size_t of = 0; of < asked_.size(); ++of)
      for (const std::uint32_t row : index.of_kind(asked_[of]))
        for (const Id child : index.rows[row].children(g.pool.data()))
          for (std::uint32_t below = index.start[child]; below < index.start[child + 1]; ++below) {
            const Kind kind = g.ops[index.rows[below].op].kind;
            if (kind < number_.size() && number_[kind] != kNone) seen_[of * asked_.size() + number_[kind]] = true;
          }
  }
  bool is_there(const std::pair<Kind, Kind>& pair) const { return seen_[number_[pair.first] * asked_.size() + number_[pair.second]]; }

 private:
  std::vector<std::uint32_t> number_;  // by kind, of those asked about; kNone
  std::vector<Kind> asked_;
  std::vector<char> seen_;
};

// A stretch of one rule's starts; what it finds is put together in the order of the tasks.
struct Task {
  std::size_t rule, first, last;
  std::uint64_t found = 0;
  double seconds = 0;
  std::size_t worker = 0, begin = 0, end = 0;  // where its matches stand
};

class Runner {
 public:
  Runner(EGraph& egraph, std::span<const Rewrite> rules, const RunOptions& options)
      : egraph_(egraph), g_(egraph.impl()), options_(options), check_(options.limits), scheduler_(options.scheduler) {
    if (!scheduler_) scheduler_ = make_simple_scheduler();
    scheduler_->start(rules.size(), g_.live_nodes);
    if (const int threads = thread_count(options.limits.threads); threads > 1) g_.team = std::make_unique<Team>(threads);
    g_.team_from = options.limits.threads_from;
    if (g_.analysis != nullptr) knowledge_ = g_.analysis->knowledge();
    g_.rule_names.clear();
    for (const Rewrite& rule : rules) {
      rules_.emplace_back(rule, g_.proof != nullptr);
      report_.rules.push_back({.name = rule.name});
      g_.rule_names.push_back(rule.name);
      if (rule.phase != Rewrite::kLastPhase) phases_.push_back(rule.phase);
      wait_or_live(static_cast<std::uint32_t>(rules_.size() - 1), nullptr);
    }
    if (g_.proof) tell_proof();
    std::sort(phases_.begin(), phases_.end());
    phases_.erase(std::unique(phases_.begin(), phases_.end()), phases_.end());
  }

  RunReport run() {
    report_.stop = loop();
    if (report_.stop == StopReason::kSaturated || report_.stop == StopReason::kIterationLimit) finish();
    g_.team = nullptr;
    g_.current_rule = kNone;
    g_.rebuild();
    if (g_.contradiction) report_.stop = StopReason::kContradiction;
    if (report_.stop == StopReason::kSaturated && report_.budget_exhausted) report_.stop = StopReason::kIterationLimit;
    report_.seconds = check_.seconds();
    note_memory();
    return std::move(report_);
  }

 private:
  void tell_proof() {
    g_.proof->rule_base = static_cast<std::uint32_t>(g_.proof->rules.size());
    for (RuleState& state : rules_) {
      if (state.rule->make) state.make(true);
      g_.proof->rules.push_back({state.rule->name, state.rule->left, state.rule->right});
      for (PatternNode& node : g_.proof->rules.back().left.nodes) node.accepts_op = nullptr, node.accepts = nullptr;
    }
  }

  StopReason loop() {
    g_.rebuild();
    for (std::size_t iteration = 0;; ++iteration) {
      if (auto stop = check_.now(g_, words_.bytes() + 2 * sizeof(std::uint32_t) * g_.recs.size() + g_.index_growth())) return *stop;
      if (iteration >= options_.limits.iterations + begun_) {
        cut_short_ = true;
        if (!begin_alone(iteration)) return StopReason::kIterationLimit;
      }
      const std::uint64_t before = changes();
      const bool deferred =
          std::any_of(live_.begin(), live_.end(), [this](std::uint32_t r) { return active(rules_[r]) && !rules_[r].deferred.empty(); });
      if (const auto stop = reported_iteration(iteration)) return *stop;
      if (changes() != before || deferred || scheduler_->resume(iteration)) continue;
      if (phase_ + 1 >= phases_.size()) return cut_short_ ? StopReason::kIterationLimit : StopReason::kSaturated;
      if (phases_[++phase_] >= Rewrite::kAlonePhase) begun_ = iteration + 1;
    }
  }

  // Goes on to the next phase of rules that run without others, which has iterations of its own.
  bool begin_alone(std::size_t iteration) {
    const auto next = std::find_if(phases_.begin() + static_cast<std::ptrdiff_t>(std::min(phase_ + 1, phases_.size())), phases_.end(),
                                   [](int phase) { return phase >= Rewrite::kAlonePhase; });
    if (next == phases_.end()) return false;
    phase_ = static_cast<std::size_t>(next - phases_.begin());
    begun_ = iteration;
    return true;
  }

  // One iteration of the rules that are active now, told to the report and to whoever looks on.
  std::optional<StopReason> reported_iteration(std::size_t iteration) {
    IterationStats stats{.iteration = iteration + 1};
    const auto stop = iterate(iteration, stats);
    stats.nodes = g_.live_nodes;
    stats.classes = g_.live_classes;
    report_.iterations.push_back(stats);
    note_memory();
    if (options_.on_iteration) options_.on_iteration(stats);
    if (g_.contradiction) return StopReason::kContradiction;
    return stop;
  }

  // The rules of the last phase, once.
  void finish() {
    finishing_ = true;
    if (std::none_of(rules_.begin(), rules_.end(), [this](const RuleState& rule) { return active(rule); })) return;
    if (const auto stop = reported_iteration(report_.iterations.size())) report_.stop = *stop;
  }

  std::uint64_t changes() const { return g_.nodes_created + g_.unions + g_.fact_changes; }

  void note_memory() {
    const std::size_t bytes = g_.memory_bytes() + side_bytes();
    report_.peak_memory_bytes = std::max(report_.peak_memory_bytes, bytes);
  }

  bool active(const RuleState& rule) const {
    if (finishing_ || phases_.empty()) return finishing_ && rule.rule->phase == Rewrite::kLastPhase;
    const int now = phases_[phase_];
    return now < Rewrite::kAlonePhase ? rule.rule->phase <= now : rule.rule->phase == now || rule.rule->also_in_phase == now;
  }

  std::optional<StopReason> iterate(std::size_t iteration, IterationStats& stats) {
    auto begin = Clock::now();
    const bool complete = search(iteration);
    stats.search_s = since(begin);
    for (const std::uint32_t r : live_) stats.matches += rules_[r].found;
    note_memory();
    if (!complete) {
      if (memory_stop_) return StopReason::kMemoryLimit;
      const auto stop = check_.now(g_);
      return stop ? stop : StopReason::kTimeLimit;
    }
    begin = Clock::now();
    const std::size_t ids = g_.recs.size();
    const std::uint32_t searched_at = g_.stamp++;
    std::optional<StopReason> stop;
    reserve();
    for (const std::uint32_t r : live_) {
      if (stop) break;
      RuleState& rule = rules_[r];
      if (rule.searched) {
        rule.last = searched_at;
        rule.last_ids = ids;
      }
      if (rule.matches.size() != 0) stop = apply(r);
    }
    stats.apply_s = since(begin);
    begin = Clock::now();
    g_.current_rule = kNone;
    g_.rebuild();
    stats.rebuild_s = since(begin);
    return stop;
  }

  // Makes room in the table for what is to be expected, so that it does not grow step by step: each rule makes as many e-nodes of a match
  // as before.
  void reserve() {
    if (check_.limits().memory_bytes != ~std::size_t{0}) return;
    double expected = 0;
    for (const std::uint32_t r : live_) {
      const RuleStats& stats = report_.rules[r];
      if (stats.applied == 0) continue;
      const std::uint64_t applied =
          std::min<std::uint64_t>(rules_[r].matches.size(), std::min(rules_[r].budget_left, scheduler_->quota(r)));
      expected += static_cast<double>(applied) * static_cast<double>(stats.nodes_made) / static_cast<double>(stats.applied);
    }
    constexpr double kSure = 0.7;  // of what is expected
    const std::size_t room = check_.limits().nodes - std::min(check_.limits().nodes, g_.live_nodes);
    g_.table.reserve(std::min(room, static_cast<std::size_t>(kSure * expected)), g_.team.get());
  }

  std::optional<StopReason> apply(std::size_t r) {
    RuleState& rule = rules_[r];
    RuleStats& stats = report_.rules[r];
    const auto begin = Clock::now();
    const std::uint64_t nodes = g_.nodes_created, unions = g_.unions;
    g_.current_rule = static_cast<std::uint32_t>(r);
    const std::uint64_t most = std::min(rule.budget_left, scheduler_->quota(r));
    const ApplyResult result = apply_matches(egraph_, *rule.rule, rule.layout, rule.matches, most, check_);
    g_.current_rule = kNone;
    rule.budget_left -= result.effective;
    if (result.left && rule.budget_left == 0) report_.budget_exhausted = rule.exhausted = true;
    defer(rule, result.left && rule.budget_left > 0 ? rule.matches.size() - result.applied : 0);
    scheduler_->applied(r, {.effective = result.effective, .left = rule.deferred.size() / std::max<std::uint32_t>(1, rule.matches.stride)});
    stats.applied += result.applied;
    stats.nodes_made += g_.nodes_created - nodes;
    stats.unions += g_.unions - unions;
    stats.apply_s += since(begin);
    return result.stop;
  }

  // Keeps the last `count` of a rule's matches.
  static void defer(RuleState& rule, std::size_t count) {
    const std::uint32_t* end = rule.matches.words + rule.matches.size() * rule.matches.stride;
    rule.deferred = std::vector<std::uint32_t>(end - count * rule.matches.stride, end);
  }

  // ---- search ----

  // Most rules were searched last in one iteration: they share what is new since then.
  const Sight& sight(std::uint32_t last, bool of_facts, const Index& index) {
    for (const Sight& known : sights_)
      if (known.last == last && known.of_facts == of_facts) return known;
    const auto below = spread_news(last, of_facts ? g_.facts_stamp : g_.class_stamp, index);
    Sight& made = sights_.emplace_back(Sight{last, of_facts, std::vector<std::uint32_t>(index.rows.size(), Sight::kNever)});
    for (std::size_t r = 0; r < index.rows.size(); ++r) {
      std::uint32_t& depth = made.depth[r];
      if ((of_facts ? index.touched : index.seen_anew)[r] > last || below[index.cls[r]] == 0) depth = 0;
      if (depth == 0) continue;
      for (const Id child : index.rows[r].children(g_.pool.data())) depth = std::min(depth, below[child]);
      if (depth != Sight::kNever) ++depth;
    }
    return made;
  }

  // By class: how many operators below it something newer than `last` lies. 0: its facts are new; 1: one of its rows is.
  std::vector<std::uint32_t> spread_news(std::uint32_t last, const ReservedArray<std::uint32_t>& stamps, const Index& index) const {
    std::vector<std::uint32_t> below(g_.recs.size(), Sight::kNever);
    std::vector<Id> level, next;
    for (std::size_t c = 0; c < stamps.size(); ++c)
      if (stamps[c] > last && index.start[c] != index.start[c + 1]) below[c] = 0, level.push_back(static_cast<Id>(c));
    const auto reach = [&](Id c, std::uint32_t depth) {
      if (below[c] == Sight::kNever) below[c] = depth, next.push_back(c);
    };
    for (std::size_t r = 0; r < index.rows.size(); ++r)
      if (index.seen_anew[r] > last) reach(index.cls[r], 1);
    for (std::uint32_t depth = 1; depth <= deepest_ && !(level.empty() && next.empty()); ++depth) {
      for (const Id c : level)
        for (std::uint32_t cell = g_.uses[c].head; cell != kNone; cell = g_.cells[cell].next) reach(g_.find(g_.cells[cell].node), depth);
      std::swap(level, next);
      next.clear();
    }
    return below;
  }

  // Whether matches change by themselves and their facts alone. Not once more is known than at the start: what was not decided may be now,
  // of any match.
  bool is_of_facts(const RuleState& rule) const { return rule.rule->of_facts_alone && !has_learnt_; }

  std::span<const std::uint32_t> new_rows(const RuleState& rule, Kind kind, const Index& index) {
    const std::uint32_t depth = rule.matcher.depth(), last = rule.last;
    const bool of_facts = is_of_facts(rule);
    if (new_rows_.size() <= kind) new_rows_.resize(kind + std::size_t{1});
    for (const NewRows& known : new_rows_[kind])
      if (known.depth == depth && known.last == last && known.of_facts == of_facts) return known.rows;
    const Sight& seen = sight(last, of_facts, index);
    NewRows& made = new_rows_[kind].emplace_back(NewRows{.depth = depth, .last = last, .of_facts = of_facts, .rows = {}});
    for (const std::uint32_t row : index.of_kind(kind))
      if (seen.depth[row] <= depth) made.rows.push_back(row);
    return made.rows;
  }

  // Rows of the root's kind that may start a match which counts.
  std::span<const std::uint32_t> start_rows(const RuleState& rule, const Index& index) {
    if (rule.matcher.has_variable_root()) return {};
    const Kind kind = rule.matcher.root_kind();
    const std::span<const std::uint32_t> all = index.of_kind(kind);
    if (all.empty() || options_.count_stale_matches || rule.last == 0 || !rule.matcher.connected()) return all;
    return new_rows(rule, kind, index);
  }

  // A rule that could not match before is made as if it had been there: what it matches is fresh, since an e-node of it is.
  void make_wanted(const Index& index) {
    const std::size_t before = live_.size();
    for (Kind kind = 0; kind < waiting_.size(); ++kind) {
      if (waiting_[kind].empty() || index.of_kind(kind).empty()) continue;
      for (const std::uint32_t r : std::exchange(waiting_[kind], {})) wait_or_live(r, &index);
    }
    if (!later_.empty()) pairs_.look(g_, index);
    std::erase_if(later_, [&](std::uint32_t r) {
      const auto& below = rules_[r].rule->wants_below;
      const auto there = [&](const auto& pair) { return pairs_.is_there(pair); };
      if (!active(rules_[r]) || !std::all_of(below.begin(), below.end(), there)) return false;
      rules_[r].make(g_.proof != nullptr);
      live_.push_back(r);
      return true;
    });
    if (live_.size() != before) std::sort(live_.begin(), live_.end());
  }

  // A rule that is made when it is wanted waits for a kind which has no e-nodes: for one at a time, so that the others are not asked about.
  // `index` is null at the start, where nothing is known of any.
  void wait_or_live(std::uint32_t r, const Index* index) {
    const RuleState& rule = rules_[r];
    if (!rule.rule->make) return live_.push_back(r);
    const auto absent = std::find_if(rule.rule->wants.begin(), rule.rule->wants.end(),
                                     [&](Kind kind) { return index == nullptr || index->of_kind(kind).empty(); });
    if (absent == rule.rule->wants.end()) {
      for (const auto& [above, below] : rule.rule->wants_below) pairs_.ask_about(above), pairs_.ask_about(below);
      return later_.push_back(r);
    }
    if (waiting_.size() <= *absent) waiting_.resize(*absent + std::size_t{1});
    waiting_[*absent].push_back(r);
  }

  // Fills found and matches of every rule that may run. False: stopped before its end.
  bool search(std::size_t iteration) {
    const Index& index = g_.sorted_index();
    make_wanted(index);
    has_learnt_ = has_learnt_ || (g_.analysis != nullptr && g_.analysis->knowledge() != knowledge_);
    for (auto& of_kind : new_rows_) of_kind.clear();
    sights_.clear();
    deepest_ = 0;
    for (const std::uint32_t r : live_) deepest_ = std::max(deepest_, rules_[r].matcher.depth());
    std::vector<Task> tasks;
    const std::size_t held = side_bytes();
    for (const std::uint32_t r : live_) {
      RuleState& rule = rules_[r];
      rule.found = 0;
      rule.matches.count = 0;
      if (!rule.deferred.empty()) {
        rule.searched = false;
        rule.matches.words = rule.deferred.data();
        rule.matches.count = rule.deferred.size() / rule.matches.stride;
        rule.matches.bytes = held;
        continue;
      }
      rule.searched =
          active(rule) && scheduler_->searches(r, iteration) && (rule.budget_left > 0 || !rule.exhausted || options_.count_stale_matches);
      if (!rule.searched) continue;
      rule.matcher.prepare(egraph_);
      rule.matcher.ignore_moves_of_root(is_of_facts(rule));
      rule.rows = start_rows(rule, index);
      const std::size_t starts = rule.matcher.num_starts(g_, rule.rows);
      constexpr std::size_t kStretch = 4096;
      for (std::size_t first = 0; first < starts; first += kStretch) tasks.push_back({r, first, std::min(starts, first + kStretch)});
    }
    std::vector<std::atomic<std::uint64_t>> totals(rules_.size());
    std::atomic<bool> stopped = false;
    words_.clear();
    // A few thousand rows are searched before the threads have woken up.
    const std::size_t starts =
        std::accumulate(tasks.begin(), tasks.end(), std::size_t{0}, [](std::size_t n, const Task& t) { return n + t.last - t.first; });
    search_bytes_ = 0;
    if (!g_.team || starts < kWorthThreads) {
      for (Task& task : tasks) {
        task.begin = words_.size();
        search_task(task, index, words_, totals[task.rule], stopped);
        task.end = words_.size();
      }
    } else {
      search_parallel(tasks, index, totals, stopped);
    }
    if (stopped) return false;
    for (const Task& task : tasks) close_task(task);
    const std::size_t found = side_bytes();
    for (const std::uint32_t r : live_) finish_search(r, iteration, found);
    return true;
  }

  // Each worker writes the matches of its tasks into a store of its own; then they are put together in the order of the tasks.
  void search_parallel(std::vector<Task>& tasks, const Index& index, std::vector<std::atomic<std::uint64_t>>& totals,
                       std::atomic<bool>& stopped) {
    std::vector<ReservedArray<std::uint32_t>> found(g_.team->threads());
    g_.team->run(tasks.size(), [&](std::size_t i, std::size_t worker) {
      Task& task = tasks[i];
      task.worker = worker;
      task.begin = found[worker].size();
      search_task(task, index, found[worker], totals[task.rule], stopped);
      task.end = found[worker].size();
    });
    std::vector<std::size_t> from;
    std::size_t total = 0;
    for (Task& task : tasks) {
      from.push_back(task.begin);
      total += task.end - task.begin;
      task.begin = total - (task.end - task.begin);
      task.end = total;
    }
    words_.resize(total);
    g_.team->run(tasks.size(), [&](std::size_t i, std::size_t) {
      const std::uint32_t* source = found[tasks[i].worker].data() + from[i];
      std::copy(source, source + (tasks[i].end - tasks[i].begin), words_.begin() + tasks[i].begin);
    });
  }

  // Tasks of a rule follow one another, and so do the words of its matches.
  void close_task(const Task& task) {
    RuleState& rule = rules_[task.rule];
    if (task.first == 0) rule.first_word = task.begin;
    rule.found += task.found;
    rule.matches.count = (task.end - rule.first_word) / std::max<std::size_t>(1, rule.matches.stride);
    report_.rules[task.rule].search_s += task.seconds;
  }

  void finish_search(std::size_t r, std::size_t iteration, std::size_t bytes) {
    RuleState& rule = rules_[r];
    if (!rule.searched) return;
    RuleStats& stats = report_.rules[r];
    if (rule.found > scheduler_->match_limit(r)) {
      scheduler_->passed(r, iteration);
      ++stats.bans;
      rule.found = 0;
      rule.matches.count = 0;
      rule.searched = false;  // its matches stay fresh
      return;
    }
    stats.matches += rule.found;
    stats.fresh += rule.matches.size();
    rule.matches.words = words_.data() + rule.first_word;
    rule.matches.bytes = bytes;
  }

  void search_task(Task& task, const Index& index, ReservedArray<std::uint32_t>& words, std::atomic<std::uint64_t>& total,
                   std::atomic<bool>& stopped) const {
    const auto begin = Clock::now();
    const RuleState& rule = rules_[task.rule];
    const std::uint64_t limit = scheduler_->match_limit(task.rule);
    if (stopped.load(std::memory_order_relaxed) || total.load(std::memory_order_relaxed) > limit) return;
    std::uint64_t seen = 0, counted = 0;
    const auto flush = [&] {
      const std::uint64_t sum = total.fetch_add(task.found - counted, std::memory_order_relaxed) + (task.found - counted);
      counted = task.found;
      return sum <= limit;
    };
    const bool limited_memory = check_.limits().memory_bytes != ~std::size_t{0};
    std::uint64_t starts = 0;
    // Time is looked at here too: a pattern may try much and find nothing.
    const auto halt = [&] {
      if ((++starts & 0x3f) == 0 && check_.now(g_)) stopped = true;
      return stopped.load(std::memory_order_relaxed);
    };
    const auto visit = [&](const Matcher::Found& found) __attribute__((always_inline)) {
      if ((++seen & 0xfff) == 0 && check_.now(g_)) {
        stopped = true;
        return false;
      }
      const bool fresh = is_fresh(rule, found);
      if (!fresh && !options_.count_stale_matches) return true;
      if (rule.rule->applier != nullptr && !rule.rule->applier->holds(egraph_, {found.classes, found.matched, found.ops})) return true;
      ++task.found;
      if (fresh) {
        if ((words.size() & 0xff) < rule.matches.stride && (words.size() > kMostWords || (limited_memory && full(rule)))) {
          memory_stop_ = stopped = true;
          return false;
        }
        keep(rule, found, words);
      }
      return (task.found & 0xff) != 0 || flush();
    };
    rule.matcher.match(egraph_, index, {rule.rows, task.first, task.last}, visit, halt);
    flush();
    task.seconds = since(begin);
    if (check_.seconds() > check_.limits().seconds) stopped = true;
  }

  // Whether the next 256 words of matches would pass the memory limit; what several threads find is held twice for a moment.
  bool full(const RuleState& rule) const {
    const std::size_t more = 4 * (256 + rule.matches.stride) * (g_.team ? 2 : 1);
    const std::size_t matches = search_bytes_.fetch_add(more, std::memory_order_relaxed) + more;
    const std::size_t beyond = matches > words_.bytes() ? matches - words_.bytes() : 0;
    return g_.memory_bytes() + side_bytes() + beyond > check_.limits().memory_bytes;
  }

  // What the runner holds beside the e-graph.
  std::size_t side_bytes() const {
    std::size_t deferred = 0;
    for (const std::uint32_t r : live_) deferred += rules_[r].deferred.capacity() * sizeof(std::uint32_t);
    std::size_t fresh = 0;
    for (const auto& of_kind : new_rows_)
      for (const NewRows& made : of_kind) fresh += made.rows.capacity() * sizeof(std::uint32_t);
    for (const Sight& sight : sights_) fresh += sight.depth.capacity() * sizeof(std::uint32_t);
    return words_.bytes() + fresh + deferred;
  }

  bool is_fresh(const RuleState& rule, const Matcher::Found& found) const {
    if (rule.last == 0) return true;
    if (found.touched == kNone) {  // a pattern of one variable
      if (found.classes[0] >= rule.last_ids) return true;
    } else if (found.touched > rule.last) {
      return true;
    }
    if (!rule.guarded || g_.analysis == nullptr) return false;
    const ReservedArray<std::uint32_t>& stamps = is_of_facts(rule) ? g_.facts_stamp : g_.class_stamp;
    return std::any_of(found.classes.begin(), found.classes.end(), [&](Id id) { return stamps[id] > rule.last; });
  }

  static void keep(const RuleState& rule, const Matcher::Found& found, ReservedArray<std::uint32_t>& words) {
    words.ensure(rule.matches.stride);
    if (rule.layout.by_node) {
      for (const std::uint32_t slot : rule.layout.slots)
        words.append(found.matched[slot] == kNone ? found.classes[slot] : found.matched[slot]);
      return;
    }
    for (const std::uint32_t slot : rule.layout.slots) words.append(found.classes[slot]);
    if (!rule.layout.with_nodes) return;
    for (const std::uint32_t slot : rule.layout.slots) words.append(found.matched[slot]);
  }

  EGraph& egraph_;
  EGraph::Impl& g_;
  const RunOptions& options_;
  StopCheck check_;
  std::shared_ptr<Scheduler> scheduler_;
  std::vector<RuleState> rules_;
  std::vector<std::uint32_t> live_;                  // rules that may match, in order
  std::vector<std::vector<std::uint32_t>> waiting_;  // by kind: rules that wait for an e-node of it
  std::vector<std::uint32_t> later_;                 // rules whose kinds are there: they wait for their phase, or for pairs of kinds
  KindPairs pairs_;
  mutable std::atomic<std::size_t> search_bytes_ = 0;  // of matches, while they are searched
  mutable std::atomic<bool> memory_stop_ = false;      // the matches alone would pass the memory limit
  ReservedArray<std::uint32_t> words_;                 // of all matches that are to be applied
  std::uint32_t deepest_ = 0;                          // most operators on end that a pattern has
  std::deque<Sight> sights_;                           // of the present search; they stay where they are
  std::vector<std::vector<NewRows>> new_rows_;         // likewise, by kind; what they hold stays where it is
  std::vector<int> phases_;
  std::size_t phase_ = 0;
  std::size_t begun_ = 0;   // the iteration in which a phase of rules that run alone has begun
  bool cut_short_ = false;  // an earlier phase ran out of iterations
  bool finishing_ = false;
  std::uint64_t knowledge_ = 0;  // of the analysis at the start
  bool has_learnt_ = false;
  RunReport report_;
};

}  // namespace

RunReport run(EGraph& egraph, std::span<const Rewrite> rules, const RunOptions& options) {
  if (rules.empty()) {
    egraph.rebuild();
    RunReport report;
    report.stop = egraph.contradiction() ? StopReason::kContradiction : StopReason::kSaturated;
    return report;
  }
  return Runner(egraph, rules, options).run();
}

}  // namespace saturate
