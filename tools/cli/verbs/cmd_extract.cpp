// `saturate extract`: several equal graphs from one e-graph, for experiments with costs.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "absl/status/status.h"
#include "egraph/stop.h"
#include "extract/optimize/prediction.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/io/files.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/pipeline.h"
#include "tools/pipeline/report.h"

namespace saturate {
namespace {

using nlohmann::json;

struct Listed {
  std::string path;
  const Model* model = nullptr;
  double cost = 0;
  std::optional<VerifyReport> verified;
};

// Stands in its row of the report.
std::string verdict(const Listed& graph) { return graph.verified ? std::string(to_string(graph.verified->status)) : "not verified"; }

// Nothing that is read is written over.
absl::Status check_dump(const ExtractArgs& args) {
  if (!args.dump_egraph.empty())
    if (absl::Status s = check_writable(args.dump_egraph, Into::kAnything); !s.ok()) return s;
  std::vector<NamedPath> read{{"the model", args.input}};
  for (const std::string& inputs : args.check.inputs) read.push_back({"--inputs", inputs});
  return check_distinct({{"--dump-egraph", args.dump_egraph}}, read);
}

// The chosen graph first.
std::vector<Listed> list_graphs(const OptimizeResult& result, const ExtractArgs& args) {
  namespace fs = std::filesystem;
  std::vector<Listed> graphs{{"", &result.model, result.report.cost_after, {}}};
  for (const OptimizeResult::Sample& s : result.samples) graphs.push_back({"", &s.model, s.cost, {}});
  const std::string stem = fs::path(args.input).stem().string();
  for (std::size_t i = 0; i < graphs.size(); ++i)
    graphs[i].path =
        args.output.empty() ? fmt::format("{}.{:04}", stem, i) : (fs::path(args.output) / fmt::format("{}.{:04}.onnx", stem, i)).string();
  return graphs;
}

std::string sizes_line(const OptimizeReport& report) {
  const std::string sizes = sizes_text(report.assumed_sizes, report.cost_points);
  return sizes.empty() ? "" : sizes + "\n";
}

void print_graphs(const std::vector<Listed>& graphs, const ExtractArgs& args, const OptimizeReport& report) {
  json rows = json::array();
  std::vector<std::vector<std::string>> table{{"graph", "nodes", fmt::format("predicted ({})", report.cost_model), "verified"}};
  for (const Listed& g : graphs) {
    const GraphStats stats = graph_stats(*g.model);
    rows.push_back({{"graph", g.path},
                    {"chosen", &g == &graphs.front()},
                    {"nodes", stats.nodes},
                    {"operators", stats.operators},
                    {"cost", g.cost},
                    {"cost_model", report.cost_model},
                    {"cost_unit", report.cost_unit},
                    {"verified", verdict(g)}});
    table.push_back({g.path, fmt::format("{}", stats.nodes), cost_text(g.cost, report.cost_unit), verdict(g)});
  }
  if (args.common.json)
    print_json(rows);
  else if (!args.common.quiet())
    print_text(format_table(table) + sizes_line(report));
}

int save_all(const std::vector<Listed>& graphs, const std::string& folder, const CommonArgs& common) {
  SaveOptions options;
  options.cancel = common.cancel;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(kExitFile, folder, error.message(), "name a folder that can be written");
  for (const Listed& g : graphs)
    if (const absl::Status s = save_model(*g.model, g.path, options); !s.ok()) return fail(s, g.path, write_advice(s));
  return kExitOk;
}

}  // namespace

int extract_command(const ExtractArgs& args) {
  if (const absl::Status s = check_dump(args); !s.ok()) return fail(s, args.dump_egraph, "");
  const double began = steady_seconds();
  absl::StatusOr<Setup> setup = set_up(args.saturate, args.shapes, args.check.onnxruntime);
  if (!setup.ok()) return fail(setup.status(), "", "");
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  if (const absl::Status status = fix_shapes(*model, args.shapes); !status.ok()) return fail(status, args.input, "");
  VerifyArgs check_args = args.check;
  check_args.seconds = args.saturate.limits.seconds;
  absl::StatusOr<VerifyOptions> check = verify_options(check_args, {}, args.common, *model);
  if (!check.ok()) return fail(check.status(), "", "");
  OptimizeOptions options = optimize_options(args.saturate, args.common);
  options.limits.began = began;
  options.samples = args.samples;
  options.sample_seed = args.check.seed;
  options.dump_egraph = !args.dump_egraph.empty();
  if (args.check.max_memory) options.max_memory = *args.check.max_memory << 20;
  absl::StatusOr<OptimizeResult> result = optimize(*model, setup->rules, setup->target, *setup->cost, options);
  if (!result.ok()) {
    const bool late = absl::IsDeadlineExceeded(result.status());
    return fail(kExitFile, args.input, std::string(result.status().message()), late ? "--time-limit gives more time" : kModelAdvice);
  }
  if (options.dump_egraph)
    if (const absl::Status s = write_file(args.dump_egraph, result->egraph); !s.ok()) return fail(s, args.dump_egraph, "");

  allow_for_rules(result->report, *check);
  if (!result->unchanged) note_maker(*setup, result->model);
  for (OptimizeResult::Sample& sample : result->samples) note_maker(*setup, sample.model);
  std::vector<Listed> graphs = list_graphs(*result, args);
  for (Listed& g : graphs) {
    if (args.common.cancel && *args.common.cancel) return fail(kExitInterrupted, args.input, "interrupted", "nothing was written");
    if (args.verify) {
      give_time(time_given(options.limits), *check);
      g.verified = verify(*model, *g.model, *check);
    }
    if (g.verified && g.verified->status != VerifyStatus::kEqual)
      return g.verified->status == VerifyStatus::kDifferent
                 ? fail(kExitDifferent, g.path, g.verified->message, "nothing was written")
                 : fail(kExitUnsupported, g.path, g.verified->message, advice_unverified(*g.verified));
  }
  if (!args.output.empty())
    if (const int code = save_all(graphs, args.output, args.common); code != kExitOk) return code;
  print_graphs(graphs, args, result->report);
  return kExitOk;
}

}  // namespace saturate
