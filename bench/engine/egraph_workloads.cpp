// Runs a text workload of equality saturation and prints counts and times per iteration.
#include <chrono>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "egraph/dump.h"
#include "egraph/explain.h"
#include "egraph/text/text_workload.h"

namespace {

void print(const saturate::IterationStats& it, bool json) {
  if (json) {
    fmt::print(
        "{{\"iteration\":{},\"nodes\":{},\"classes\":{},\"matches\":{},\"search_s\":{:.6f},\"apply_s\":{:.6f},\"rebuild_s\":{:.6f}}}\n",
        it.iteration, it.nodes, it.classes, it.matches, it.search_s, it.apply_s, it.rebuild_s);
  } else {
    fmt::print("{:>4} nodes {:>9} classes {:>9} matches {:>10} search {:8.4f} apply {:8.4f} rebuild {:8.4f}\n", it.iteration, it.nodes,
               it.classes, it.matches, it.search_s, it.apply_s, it.rebuild_s);
  }
}

void print_total(const saturate::RunReport& report, const saturate::EGraph& egraph, bool json) {
  const std::string sizes = saturate::class_sizes_fnv1a64(egraph);
  if (json) {
    fmt::print("{{\"class_sizes_fnv1a64\":\"{}\",\"wall_s\":{:.6f},\"stop\":\"{}\",\"peak_memory_bytes\":{}}}\n", sizes, report.seconds,
               to_string(report.stop), report.peak_memory_bytes);
  } else {
    fmt::print("class sizes {}  wall {:.4f} s  stopped: {}  memory {} MB\n", sizes, report.seconds, to_string(report.stop),
               report.peak_memory_bytes >> 20);
  }
}

// Explains 200 pairs of equal e-nodes, says how long that took at most, and replays the answers.
bool explain_pairs(const saturate::EGraph& egraph) {
  std::mt19937 random(1);
  std::uniform_int_distribution<saturate::Id> any(0, static_cast<saturate::Id>(egraph.num_ids() - 1));
  double longest = 0;
  std::size_t most_steps = 0;
  for (int i = 0; i < 200; ++i) {
    const saturate::Id a = any(random), b = egraph.find(a);
    const auto begin = std::chrono::steady_clock::now();
    const auto why = explain(egraph, a, b);
    longest = std::max(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (!why) return false;
    most_steps = std::max(most_steps, why->replay.size());
    if (const std::string wrong = check_explanation(egraph, *why, a, b); !wrong.empty()) {
      fmt::print("explanation of {} = {}: {}\n", a, b, wrong);
      return false;
    }
  }
  fmt::print("200 explanations checked, longest {:.4f} s, at most {} steps\n", longest, most_steps);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs a text workload of equality saturation"};
  std::string file, scheduler = "simple";
  std::size_t iterations = 0;
  int threads = 1;
  bool json = false, reverse = false, commutative = false, fresh_only = false, stats = false, explain = false, reasons = false,
       text_summary = false;
  app.add_option("file", file, "Workload")->required();
  app.add_option("--scheduler", scheduler, "simple, backoff or quota")->check(CLI::IsMember({"simple", "backoff", "quota"}));
  auto* asked = app.add_option("--iterations", iterations, "Instead of the file's number; 30 under backoff and quota");
  app.add_option("--threads", threads, "0: as many as there are cores");
  app.add_flag("--json", json, "One object a line");
  app.add_flag("--reverse-rules", reverse, "Rules in the opposite order: the counts stay");
  app.add_flag("--commutative-matching", commutative, "Commutativity in the matcher instead of as rules");
  app.add_flag("--fresh-only", fresh_only, "Count fresh matches only");
  app.add_flag("--rule-stats", stats, "Statistics per rule");
  app.add_flag("--explain", explain, "Keep reasons; at the end, explain and check random pairs");
  app.add_flag("--reasons", reasons, "Keep reasons, explain nothing: what that costs");
  app.add_flag("--summary", text_summary, "A summary of the e-graph at the end");
  CLI11_PARSE(app, argc, argv);

  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) {
    std::cerr << file << ": cannot be read\n";
    return 1;
  }
  auto workload = saturate::Workload::parse(text.str(), {.reverse_rules = reverse, .commutative_matching = commutative});
  if (!workload.ok()) {
    std::cerr << file << ": " << workload.status().message() << "\n";
    return 1;
  }
  saturate::RunOptions options;
  options.scheduler = scheduler == "backoff" ? saturate::make_backoff_scheduler()
                      : scheduler == "quota" ? saturate::make_quota_scheduler()
                                             : saturate::make_simple_scheduler();
  options.limits.iterations = asked->count() > 0 ? iterations : scheduler != "simple" ? 30 : workload->iterations;
  options.limits.nodes = 100'000'000;
  options.limits.seconds = 3600;
  options.limits.threads = threads;
  options.count_stale_matches = !fresh_only;
  if ((explain || reasons) && !saturate::record_explanations(*workload->egraph)) return 1;
  const auto report = saturate::run(*workload->egraph, workload->rules, options);
  for (const auto& it : report.iterations) print(it, json);
  print_total(report, *workload->egraph, json);
  if (stats) {
    for (const auto& r : report.rules) {
      fmt::print("{:>20} matches {:>10} fresh {:>9} nodes {:>9} unions {:>9} bans {} search {:.4f} apply {:.4f}\n", r.name, r.matches,
                 r.fresh, r.nodes_made, r.unions, r.bans, r.search_s, r.apply_s);
    }
  }
  if (text_summary) fmt::print("{}", summary(*workload->egraph, [&](saturate::OpId op) { return workload->op_names[op]; }));
  return explain && !explain_pairs(*workload->egraph) ? 1 : 0;
}
