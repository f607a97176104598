// `saturate cost gather|fit|eval`: measured times in, cost models and their quality out.
#include <cstdio>
#include <filesystem>

#include "egraph/text/read_json.h"
#include "extract/extract.h"
#include "extract/fit/cost_quality.h"
#include "extract/fit/fitted.h"
#include "extract/fit/measured.h"
#include "extract/price/npu_times.h"
#include "extract/price/op_times.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/cli/cost_gather.h"
#include "tools/io/files.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/page/page.h"

namespace saturate {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

void tell(const CostArgs& args, const ordered_json& told, const std::string& text) {
  if (args.common.json)
    print_json(told);
  else if (!args.common.quiet())
    print_text(text);
}

absl::Status check_output(const CostArgs& args) {
  std::vector<NamedPath> inputs;
  for (const std::string& path : args.inputs) inputs.push_back({"an input", path});
  if (const absl::Status s = check_writable(args.output, Into::kAnything); !s.ok()) return s;
  return check_distinct({{"the output", args.output}}, inputs);
}

constexpr double kSecondsOfARow = 0.05;  // of gather

int gather(const CostArgs& args) {
  if (args.output.empty()) return fail(kExitUsage, "cost gather", "no -o FILE.jsonl", "name the file that the rows go to");
  if (const absl::Status s = check_output(args); !s.ok()) return fail(s, args.output, "");
  absl::StatusOr<Sizes> sizes = parse_sizes(args.shapes.dims);
  if (!sizes.ok()) return fail(sizes.status(), "", "");
  const GatherOptions options{*sizes, args.seconds.value_or(kSecondsOfARow), args.common.threads, 0, args.common.cancel};
  std::string lines = json_text(machine_row(args.common.threads), -1) + "\n";
  std::size_t rows = 0;
  const auto emit = [&](const json& row) {
    lines += json_text(row, -1) + "\n";
    ++rows;
    if (args.common.verbosity > 0 && !args.common.json) print_text(json_text(row, -1) + "\n");
  };
  for (const std::string& path : args.inputs) {
    absl::StatusOr<Model> model = load_given(path);
    if (!model.ok()) return fail(kExitFile, path, std::string(model.status().message()), kModelAdvice);
    if (const absl::Status s = fix_shapes(*model, args.shapes); !s.ok()) return fail(s, path, "");
    absl::Status done;
    if (args.graphs) {
      absl::StatusOr<json> row = time_graph(*model, path, options);
      done = row.status();
      if (row.ok()) emit(*row);
    } else {
      done = gather_operators(*model, options, emit);
    }
    if (args.common.cancel && *args.common.cancel) return fail(kExitInterrupted, path, "interrupted", "nothing was written");
    if (!done.ok()) return fail(done, path, "leave this model out");
  }
  if (const absl::Status s = write_file(args.output, lines); !s.ok()) return fail(s, args.output, "");
  tell(args, {{"output", args.output}, {"rows", rows}}, fmt::format("{} rows in {}\n", rows, args.output));
  return kExitOk;
}

absl::StatusOr<TimedRows> read_rows(const std::vector<std::string>& paths) {
  TimedRows all;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = read_data_file(path, kMostNamedData);
    if (!text.ok()) return text.status();
    absl::StatusOr<TimedRows> rows = read_timed_rows(*text, path);
    if (!rows.ok()) return rows;
    if (!all.machine.empty() && !rows->machine.empty() && (*read_json(all.machine))["machine"] != (*read_json(rows->machine))["machine"])
      return absl::InvalidArgumentError(fmt::format("{}: gathered on another machine than {}; fit each by itself", path, paths[0]));
    if (all.machine.empty()) all.machine = rows->machine;
    all.rows.insert(all.rows.end(), rows->rows.begin(), rows->rows.end());
    all.lines.insert(all.lines.end(), rows->lines.begin(), rows->lines.end());
  }
  return all;
}

// What `ask` says of a model's own graph, lowered and as the choice that it is.
template <typename Ask>
auto ask_own_graph(const std::string& path, const ShapeArgs& shapes, const Target* target, const CostModel& cost, const Ask& ask)
    -> absl::StatusOr<decltype(ask(std::declval<const OnnxEGraph&>(), std::declval<const Selection&>()))> {
  absl::StatusOr<Model> model = load_given(path);
  if (!model.ok()) return model.status();
  if (const absl::Status s = fix_shapes(*model, shapes); !s.ok()) return s;
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const auto lowered = lower(*model, g);
  if (!lowered.ok()) return lowered.status();
  const auto selection = original_selection(g, *lowered, target, cost);
  if (!selection.ok()) return selection.status();
  return ask(g, *selection);
}

absl::StatusOr<std::vector<OpUse>> operators_of(const std::string& path, const ShapeArgs& shapes) {
  const auto cost = load_cost_model("nodes");
  if (!cost.ok()) return cost.status();
  return ask_own_graph(path, shapes, nullptr, **cost, [](const OnnxEGraph& g, const Selection& selection) {
    std::vector<OpUse> out;
    for (Id id = 0; id < selection.by_class.size(); ++id) {
      const Choice& chosen = selection.by_class[id];
      if (chosen.node == kNone || g.facts(id).content) continue;
      const ENode node = g.egraph().node(chosen.node);
      if (g.key(node.op).domain != "#") out.push_back(use_of(g, node, id, {}));
    }
    return out;
  });
}

// Lines of {"graph", "machine", "precision", "activation_bytes", "weight_bytes", "seconds"}; what is named only once may be left out.
absl::StatusOr<std::vector<NpuFigure>> read_figures(const CostArgs& args) {
  std::vector<NpuFigure> out;
  std::map<std::string, std::vector<OpUse>> known;
  for (const std::string& path : args.inputs) {
    absl::StatusOr<std::string> text = read_data_file(path, kMostNamedData);
    if (!text.ok()) return text.status();
    const auto take = [&](const json& row, std::size_t number, std::string_view) {
      if (!row.is_object() || !row.contains("graph") || !row["graph"].is_string() || !row.contains("seconds") ||
          !row["seconds"].is_number())
        return absl::InvalidArgumentError(fmt::format("{}:{}: wanted {{\"graph\": path, \"seconds\": number}}", path, number));
      const std::string graph = row["graph"];
      if (!known.contains(graph)) {
        auto operators = operators_of(graph, args.shapes);
        if (!operators.ok())
          return absl::Status(operators.status().code(), fmt::format("{}: {}", graph, std::string(operators.status().message())));
        known[graph] = *std::move(operators);
      }
      out.push_back({row.value("machine", std::string("machine")), row.value("precision", std::string("as the model")),
                     row.value("activation_bytes", 0.0), row.value("weight_bytes", 0.0), known[graph], row["seconds"]});
      return absl::OkStatus();
    };
    if (absl::Status read = each_json_line(*text, path, take); !read.ok()) return read;
  }
  return out;
}

absl::StatusOr<std::string> fit_figures(const CostArgs& args, std::size_t& count) {
  const auto figures = read_figures(args);
  if (!figures.ok()) return figures.status();
  count = figures->size();
  auto fitted = fit_npu(*figures);
  if (!fitted.ok()) return fitted.status();
  if (!args.machine.empty()) fitted->machine = args.machine;
  if (!args.precision.empty()) fitted->precision = args.precision;
  const std::string text = fitted->to_json();
  if (const auto read = NpuTimes::parse(text, args.output); !read.ok()) return read.status();  // names what has no figure
  return text;
}

int fit(const CostArgs& args) {
  if (args.output.empty()) return fail(kExitUsage, "cost fit", "no -o FILE.json", "name the file that the model goes to");
  if (const absl::Status s = check_output(args); !s.ok()) return fail(s, args.output, "");
  if (args.kind == "npu") {
    std::size_t count = 0;
    const auto text = fit_figures(args, count);
    if (!text.ok()) return fail(kExitFile, "", std::string(text.status().message()), "");
    if (const absl::Status s = write_file(args.output, *text); !s.ok()) return fail(s, args.output, "");
    tell(args, {{"output", args.output}, {"kind", args.kind}, {"figures", count}},
         fmt::format("npu of {} figures in {}; use it by --cost\n", count, args.output));
    return kExitOk;
  }
  absl::StatusOr<TimedRows> rows = read_rows(args.inputs);
  if (!rows.ok()) return fail(kExitFile, "", std::string(rows.status().message()), "");
  std::string text;
  if (args.kind == "roofline") {
    ordered_json out = rows->machine.empty() ? ordered_json::object() : *read_json<ordered_json>(rows->machine);
    const auto cache = out.value("cache_bytes", 0.0);
    out["roofline"] = *read_json<ordered_json>(fit_roofline(rows->rows, cache).to_json());
    text = json_text(out, 1) + "\n";
  } else if (args.kind == "measured") {
    text = MeasuredTable::to_text(*rows);
  } else {
    text = FittedTimes::fit(rows->rows, rows->machine).to_json();
  }
  if (const absl::Status s = write_file(args.output, text); !s.ok()) return fail(s, args.output, "");
  tell(args, {{"output", args.output}, {"kind", args.kind}, {"rows", rows->rows.size()}},
       fmt::format("{} of {} rows in {}; use it by --cost\n", args.kind, rows->rows.size(), args.output));
  return kExitOk;
}

absl::StatusOr<double> graph_cost(const std::string& path, const Setup& setup, const ShapeArgs& shapes) {
  return ask_own_graph(path, shapes, &setup.target, *setup.cost, [](const OnnxEGraph&, const Selection& own) { return own.cost; });
}

// "graphs/bart.0007.onnx" belongs to "graphs/bart".
std::string group_of(const std::string& path) {
  std::string stem = (std::filesystem::path(path).parent_path() / std::filesystem::path(path).stem()).string();
  const std::size_t dot = stem.rfind('.');
  if (dot != std::string::npos && stem.find_first_not_of("0123456789", dot + 1) == std::string::npos) stem.resize(dot);
  return stem;
}

struct Graphs {
  std::map<std::string, std::vector<Compared>> groups;
  std::vector<double> additivity;  // |sum of operators / whole - 1|
};

absl::StatusOr<Graphs> read_graphs(const CostArgs& args, const Setup& setup) {
  Graphs out;
  for (const std::string& path : args.inputs) {
    absl::StatusOr<std::string> text = read_data_file(path, kMostNamedData);
    if (!text.ok()) return text.status();
    const auto take = [&](const json& row, std::size_t number, std::string_view) {
      if (row.is_object() && !row.contains("graph")) return absl::OkStatus();
      if (!row.is_object() || !row["graph"].is_string() || !row.contains("seconds") || !row["seconds"].is_number())
        return absl::InvalidArgumentError(fmt::format("{}:{}: wanted {{\"graph\": path, \"seconds\": number}}", path, number));
      const std::string graph = row["graph"];
      const double seconds = row["seconds"];
      const auto cost = graph_cost(graph, setup, args.shapes);
      if (!cost.ok()) return absl::Status(cost.status().code(), fmt::format("{}: {}", graph, std::string(cost.status().message())));
      out.groups[group_of(graph)].push_back({group_of(graph), *cost, seconds, row.value("noise", 0.0)});
      if (row.contains("operators_seconds") && seconds > 0)
        out.additivity.push_back(std::abs(row["operators_seconds"].get<double>() / seconds - 1));
      return absl::OkStatus();
    };
    if (absl::Status read = each_json_line(*text, path, take); !read.ok()) return read;
  }
  return out;
}

double mean(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / static_cast<double>(v.size());
}

// The rows that are off by more than a quarter, the worst first.
std::string worst_rows(const TimedRows& rows, const std::vector<Compared>& compared, const std::vector<std::size_t>& row_of) {
  constexpr double kFar = 0.25;
  std::vector<std::pair<double, std::string>> lines;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const double ratio = compared[i].predicted / compared[i].measured;
    if (std::abs(ratio - 1) <= kFar) continue;
    std::string shapes;
    for (const Sizes1D& in : rows.rows[row_of[i]].use.inputs) shapes += fmt::format(" [{}]", fmt::join(in, ","));
    lines.emplace_back(-std::abs(std::log(ratio)), fmt::format("{:.3f} {}{}: {:.3g} s, measured {:.3g} s\n", ratio, compared[i].key, shapes,
                                                               compared[i].predicted, compared[i].measured));
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const auto& [distance, line] : lines) out += line;
  return out;
}

// How far predicted times of operators are from measured ones.
int eval_rows(const CostArgs& args, const std::string& model, ordered_json& out, std::string& text) {
  absl::StatusOr<TimedRows> rows = read_rows({args.rows});
  if (!rows.ok()) return fail(kExitFile, "", std::string(rows.status().message()), "");
  std::vector<Compared> compared;
  std::vector<std::size_t> row_of;
  if (args.folds > 0) compared = cross_validated(*rows, args.folds, row_of);
  const auto times = load_op_times(model);
  if (!times.ok()) return fail(times.status(), "", "");
  if (!*times && args.folds == 0)
    return fail(kExitUsage, "cost eval", fmt::format("{} has no times of operators, so that --rows can't be compared", model),
                "leave --rows out");
  for (std::size_t i = 0; i < rows->rows.size() && args.folds == 0; ++i) {
    const TimedUse& row = rows->rows[i];
    if (is_view(row.use.op)) continue;
    compared.push_back({row.use.op, (*times)->seconds(row.use), row.seconds, 0});
    row_of.push_back(i);
  }
  std::vector<std::vector<std::string>> table{{"operator", "rows", "MAPE", "within 10 %"}};
  out["operators"] = ordered_json::array();
  for (const ErrorSummary& s : errors_by_key(compared)) {
    table.push_back({s.key.empty() ? "all" : s.key, fmt::format("{}", s.count), fmt::format("{:.1f} %", 100 * s.mape),
                     fmt::format("{:.0f} %", 100 * s.within_tenth)});
    ordered_json row{{"operator", s.key}, {"rows", s.count}, {"mape", s.mape}, {"within_10_percent", s.within_tenth}};
    if (s.key.empty())
      out["all_operators"] = std::move(row);
    else
      out["operators"].push_back(std::move(row));
  }
  out["rows"] = ordered_json::array();
  for (std::size_t i = 0; i < compared.size(); ++i)
    out["rows"].push_back(
        {{"row", row_of[i]}, {"operator", compared[i].key}, {"predicted", compared[i].predicted}, {"measured", compared[i].measured}});
  text += format_table(table);
  if (args.common.verbosity > 0) text += worst_rows(*rows, compared, row_of);
  return kExitOk;
}

// Whether predicted costs put equal graphs into the order of their measured times.
int eval_graphs(const CostArgs& args, const Setup& setup, ordered_json& out, std::string& text) {
  absl::StatusOr<Graphs> graphs = read_graphs(args, setup);
  if (!graphs.ok()) return fail(kExitFile, "", std::string(graphs.status().message()), "");
  std::vector<std::vector<std::string>> table{{"graphs of", "count", "pairs", "Kendall's tau", "top-1 regret", "predicted / measured"}};
  std::vector<double> taus, regrets;
  out["graphs"] = ordered_json::array();
  for (const auto& [group, rows] : graphs->groups) {
    std::vector<double> scale;
    ordered_json points = ordered_json::array();
    for (const Compared& c : rows) scale.push_back(c.predicted / c.measured), points.push_back({c.predicted, c.measured});
    taus.push_back(kendall_tau(rows));
    regrets.push_back(top1_regret(rows));
    table.push_back({group, fmt::format("{}", rows.size()), fmt::format("{}", pairs_told_apart(rows)), fmt::format("{:.3f}", taus.back()),
                     fmt::format("{:.2f} %", 100 * regrets.back()), fmt::format("{:.3g}", mean(scale))});
    out["graphs"].push_back({{"model", group},
                             {"count", rows.size()},
                             {"pairs", pairs_told_apart(rows)},
                             {"tau", taus.back()},
                             {"regret", regrets.back()},
                             {"scale", mean(scale)},
                             {"points", std::move(points)}});
  }
  table.push_back({"mean", "", "", fmt::format("{:.3f}", mean(taus)), fmt::format("{:.2f} %", 100 * mean(regrets)), ""});
  out["tau"] = mean(taus);
  out["regret"] = mean(regrets);
  text += format_table(table);
  if (!graphs->additivity.empty()) {
    out["additivity_error"] = mean(graphs->additivity);
    text += fmt::format("additivity error: {:.1f} % (the sum of the operators against the whole graph, {} graphs)\n",
                        100 * mean(graphs->additivity), graphs->additivity.size());
  }
  return kExitOk;
}

// Predicted against measured, of operators and of graphs.
absl::Status write_eval_page(const CostArgs& args, const ordered_json& told, const std::string& text) {
  if (args.page.html.empty()) return absl::OkStatus();
  Page page("cost eval", text, args.page.command);
  std::vector<Page::Point> points;
  for (const ordered_json& row : told.value("rows", ordered_json::array()))
    points.push_back({row["operator"], fmt::format("row {}", row["row"].get<std::size_t>()), row["predicted"], row["measured"]});
  for (const ordered_json& graph : told.value("graphs", ordered_json::array()))
    for (const ordered_json& point : graph["points"]) points.push_back({graph["model"], "a graph", point[0], point[1]});
  page.add_predictions(points);
  return write_file(args.page.html, page.text());
}

absl::Status check_eval_page(const CostArgs& args) {
  std::vector<NamedPath> inputs{{"--rows", args.rows}, {"--cost", args.saturate.cost}};
  for (const std::string& path : args.inputs) inputs.push_back({"times", path});
  return check_page(args.page.html, inputs);
}

int eval(const CostArgs& args) {
  if (const absl::Status status = check_eval_page(args); !status.ok()) return fail(status, "", "");
  absl::StatusOr<Setup> setup = set_up(args.saturate, args.shapes);
  if (!setup.ok()) return fail(setup.status(), "", "");
  const std::string name = setup->cost->name();
  ordered_json out{{"cost_model", args.folds > 0 ? "the rows of the other folds" : name}};
  std::string text = fmt::format("cost model: {}\n", out["cost_model"].get<std::string>());
  if (!args.rows.empty())
    if (const int code = eval_rows(args, name, out, text); code != kExitOk) return code;
  if (!args.inputs.empty())
    if (const int code = eval_graphs(args, *setup, out, text); code != kExitOk) return code;
  if (const absl::Status status = write_eval_page(args, out, text); !status.ok()) return fail(status, args.page.html, "");
  tell(args, out, text);
  return kExitOk;
}

}  // namespace

int cost_command(const CostArgs& args) {
  if (args.action == "gather") return gather(args);
  if (args.action == "fit") return fit(args);
  if (args.action == "calibrate") return calibrate_command(args);
  return eval(args);
}

}  // namespace saturate
