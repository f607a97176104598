// What is said of a model before anything is done.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "extract/optimize/stages.h"
#include "extract/prepare/assumed_sizes.h"
#include "fmt/format.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {

std::vector<UnknownSymbol> unknown_symbols(const Model& model, const std::vector<CostPoint>& points) {
  std::vector<UnknownSymbol> out;
  std::vector<std::string> names;
  std::set<std::string> given;
  for (const CostPoint& point : points)
    for (const auto& [name, size] : point.symbols) given.insert(name);
  if (given.empty()) return out;
  const auto known = sizes_of_table(model);
  for (const auto& [symbol, size] : known) names.push_back(symbol);
  for (const std::string& name : given) {
    const auto has = [&](const auto& symbol) { return symbol.first.find(name) != std::string::npos; };  // "past + 1" has past
    if (std::any_of(known.begin(), known.end(), has)) continue;
    out.push_back({fmt::format("--cost-at {}: no input has a dim of this name; {}", name,
                               names.empty() ? "all sizes of the model's inputs are numbers" : what_instead(name, names)),
                   !nearest(name, names).empty()});
  }
  return out;
}

namespace {

void warn_of_unknown_symbols(const Model& model, const OptimizeOptions& options, OptimizeReport& report) {
  for (UnknownSymbol& unknown : unknown_symbols(model, options.cost_points)) report.warnings.push_back(std::move(unknown.text));
}

// So far as they are changed.
std::size_t count_bodies(const Graph& graph, int depth) {
  std::size_t sum = 0;
  if (depth >= kMaxBodyDepth) return sum;
  for (const Node& node : graph.nodes) for_each_body(node, [&](const Graph& body) { sum += 1 + count_bodies(body, depth + 1); });
  return sum;
}

}  // namespace

void warn_of_the_model(const Model& model, const OptimizeOptions& options, OptimizeReport& report) {
  if (opset_was_assumed(model))
    report.warnings.push_back(
        fmt::format("opset_import names no version of ai.onnx: taken as the newest ({}), as ONNX Runtime does", model.opset("")));
  if (const std::vector<std::string> twice = names_of_repeated_constants(model); !twice.empty())
    report.warnings.push_back(
        fmt::format("{} value{} defined by more than one Constant, the first is '{}': the last holds, as in ONNX Runtime", twice.size(),
                    twice.size() == 1 ? " is" : "s are", twice[0]));
  warn_of_unknown_symbols(model, options, report);
  if (const std::size_t bodies = count_bodies(model.graph, 0); bodies > kMostBodies)
    report.warnings.push_back(
        fmt::format("of {} bodies of control flow the first {} are optimized; the others stay as they are", bodies, kMostBodies));
}

}  // namespace saturate
