// What schedulers are worth: runs text workloads under each, extracts after every iteration, and prints how many e-nodes the e-graph had
// when the best cost (every operator 1, leaves 0, shared once) was first reached, and at the end. usage: egraph_schedulers FILE...
// [--iterations 30] [--extractor NAME] [--nodes N]
#include <fstream>
#include <iostream>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "egraph/text/text_workload.h"
#include "extract/solve/extractors.h"

namespace {

using namespace saturate;

double best_cost(const Workload& w, const Extractor& extractor) {
  const EGraph& egraph = *w.egraph;
  ExtractionProblem problem;
  const std::vector<Id> classes = egraph.classes();
  std::vector<std::uint32_t> number(egraph.num_ids());
  for (std::uint32_t i = 0; i < classes.size(); ++i) number[classes[i]] = i;
  std::vector<std::uint32_t> children;
  for (const Id c : classes) {
    for (const NodeId n : egraph.class_nodes(c)) {
      const ENode node = egraph.node(n);
      children.clear();
      for (const Id child : node.children) children.push_back(number[egraph.find(child)]);
      problem.add_node(children.empty() ? 0 : 1, children);
    }
    problem.end_class();
  }
  for (const Id root : w.roots) problem.roots.push_back(number[egraph.find(root)]);
  const auto result = extractor.run(problem, {.seconds = 5, .seed = 1});
  return result.ok() ? result->cost.cost : -1;
}

struct Point {
  std::size_t iteration, nodes;
  double cost;
};

void compare(const std::string& file, const std::string& text, std::size_t iterations, std::size_t nodes, const Extractor& extractor,
             double share, std::uint64_t least) {
  std::vector<std::shared_ptr<Scheduler>> schedulers = {make_simple_scheduler(), make_backoff_scheduler(),
                                                        make_quota_scheduler(share, least)};
  for (const auto& scheduler : schedulers) {
    auto w = Workload::parse(text);
    if (!w.ok()) {
      std::cerr << file << ": " << w.status().message() << "\n";
      std::exit(1);
    }
    std::vector<Point> points{{0, w->egraph->num_nodes(), best_cost(*w, extractor)}};
    RunOptions options;
    options.scheduler = scheduler;
    options.limits.iterations = iterations;
    options.limits.nodes = nodes;
    options.limits.seconds = 3600;
    options.on_iteration = [&](const IterationStats& it) { points.push_back({it.iteration, it.nodes, best_cost(*w, extractor)}); };
    const RunReport report = run(*w->egraph, w->rules, options);
    const Point best = *std::min_element(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.cost < b.cost; });
    double seconds = 0;
    for (const IterationStats& it : report.iterations) seconds += it.search_s + it.apply_s + it.rebuild_s;
    fmt::print(
        "{:24} {:8} start {:6} cost {:6}   best {:6} at iteration {:3} with {:8} e-nodes   end {:3} iterations {:8} e-nodes  {:.3f} s  "
        "{}\n",
        file.substr(file.find_last_of('/') + 1), scheduler->name(), points[0].nodes, points[0].cost, best.cost, best.iteration, best.nodes,
        report.iterations.size(), w->egraph->num_nodes(), seconds, to_string(report.stop));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Compares schedulers on text workloads"};
  std::vector<std::string> files;
  std::size_t iterations = 30, nodes = 200'000;
  double share = 0.25;
  std::uint64_t least = 32;
  std::string extractor = "heuristic";
  app.add_option("files", files, "Workloads")->required();
  app.add_option("--iterations", iterations);
  app.add_option("--nodes", nodes, "Node limit");
  app.add_option("--extractor", extractor);
  app.add_option("--share", share, "of the quota scheduler");
  app.add_option("--least", least, "of the quota scheduler");
  CLI11_PARSE(app, argc, argv);
  const Extractor* found = find_extractor(extractor);
  if (found == nullptr) {
    std::cerr << "no extractor " << extractor << "\n";
    return 2;
  }
  for (const std::string& file : files) {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    compare(file, text.str(), iterations, nodes, *found, share, least);
  }
}
