#include <algorithm>
#include <cstdio>

#include "extract/optimize/prediction.h"
#include "extract/prepare/io_rank.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/explain/explain_json.h"
#include "tools/explain/not_fused.h"
#include "tools/explain/summary.h"
#include "tools/explain/why_not.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/page/page.h"
#include "tools/pipeline/report.h"

namespace saturate {
namespace {

using nlohmann::json;

std::size_t count_wanted(const GraphStats& stats, const std::string& asked) {
  std::size_t count = 0;
  for (const auto& [op_type, n] : stats.operators)
    if (wanted(op_type, asked)) count += n;
  return count;
}

void print(const ExplainArgs& args, const WhyQuery& query, const OptimizeReport& report, const SettledTarget& settled) {
  std::vector<std::vector<std::string>> rows{{"operator", "made by rule", "output"}};
  for (const OptimizeReport::Made& made : report.made)
    if (wanted(made.op_type, query.op)) rows.push_back({made.op_type, made.rule.empty() ? "(given)" : made.rule, made.output});
  if (!query.op.empty())
    print_text(fmt::format("{}: {} in {}, {} in the result, {} of them made by rules\n\n", query.op, count_wanted(report.before, query.op),
                           args.input, count_wanted(report.after, query.op), rows.size() - 1));
  const bool is_list =
      query.rule.empty() && query.value.empty() && (!query.op.empty() || args.common.verbosity > 0);  // else it is no answer
  if (is_list && rows.size() > 1) print_text(format_table(rows, 3, args.common.look().width) + "\n");
  if (is_list && query.op.empty()) {
    rows = {{"rule", "applied"}};
    for (const RuleStats& rule : fired_rules(report.run)) rows.push_back({rule.name, applied_text(rule)});
    print_text(rows.size() > 1 ? format_table(rows) : "no rule fired\n");
  }
  const std::string_view stop = to_string(report.run.stop);
  const std::string end =
      fmt::format("stopped: {} after {} iterations; {}", stop, report.run.iterations.size(), predicted_text(prediction_of(report)));
  if (args.common.verbosity > 0 || !query.op.empty()) print_text(fmt::format("\n{}\n", wrapped(end, args.common.look().width, 2)));
  if (args.common.verbosity > 0 && !settled.release.empty()) print_text(fmt::format("{}: for {}\n", settled.given, settled.release));
  for (const std::string& warning : report.warnings) print_text(fmt::format("warning: {}\n", warning));
}

// Of the model as it came. `kinds`: of a question without one; `places`: of one.
absl::Status write_explain_page(const ExplainArgs& args, const Model& model, const Setup& setup, const OptimizeReport& run,
                                const std::vector<KindSummary>& kinds, const std::vector<NotFused>& places, const std::string& head) {
  if (args.page.html.empty()) return absl::OkStatus();
  Page page("explain", fmt::format("{}: {}\n{}", args.input, predicted_text(prediction_of(run)), head), args.page.command);
  DiffOptions options;
  options.setup = &setup;
  options.points = run.cost_points;
  const absl::StatusOr<ModelDiff> known = known_of(model, options);
  if (!known.ok()) return known.status();
  page.add_model(model, args.input, *known);
  page.add_not_fused(places);
  std::vector<std::vector<std::string>> rows;
  for (const KindSummary& kind : kinds) {
    rows.push_back({kind.kind, fmt::format("{} of {}", kind.found, kind.expected), format_kind(kind), ""});
    for (const KindSummary::Rest& rest : kind.rest)
      rows.push_back({"", fmt::format("{} {}", rest.count, rest.what), rest.reason, rest.help});
  }
  if (!rows.empty())
    page.add_table("Kinds", "Blocks that were found of those that might be.", {"kind", "found", "why", "what helps"}, rows);
  std::vector<std::vector<std::string>> rules;
  for (const RuleStats& rule : fired_rules(run.run)) rules.push_back({rule.name, applied_text(rule)});
  page.add_table("Rules", "Rules that fired.", {"rule", "applied"}, rules);
  return write_file(args.page.html, page.text());
}

std::vector<NotFused> places_of(const WhyReport& why) {
  std::vector<NotFused> out;
  for (const WhyPlace& place : why.places) {
    const bool missed = place.status == WhyPlace::Status::kMissed || place.status == WhyPlace::Status::kNotChosen;
    if (!missed) continue;
    const std::string near = place.nearest.empty() ? "" : place.nearest[0].rule;
    const std::string reason = !place.reason.empty() || place.nearest.empty() ? place.reason : place.nearest[0].reason;
    out.push_back({place.op_type, place.where, place.value, place.op_type, near, reason, place.status == WhyPlace::Status::kNotChosen});
  }
  return out;
}

// What it would say is told by see_not_fused, of the same run.
OptimizeOptions explain_options(const ExplainArgs& args, const Setup& setup, std::vector<NotFused>& places) {
  OptimizeOptions options = optimize_options(args.saturate, args.common);
  if (!args.page.html.empty()) options.observe = [&](const FinishedRun& run) { see_not_fused(run, setup, places); };
  return options;
}

bool is_cancelled(const ExplainArgs& args) { return args.common.cancel && *args.common.cancel; }

// How the first fused operator that the run made is left out again; "" where it made none.
std::string undo_text(const Summary& summary, const std::string& model) {
  for (const KindSummary& kind : summary.kinds)
    for (const auto& [op, n] : kind.operators)
      if (std::ranges::any_of(summary.run.made,
                              [&](const OptimizeReport::Made& m) { return without_domain(m.op_type) == op && !m.rule.empty(); }))
        return fmt::format("  {:<13} saturate {} -o OUT --skip-fusion {}; the model itself stays as it is\n", "undo", model, op);
  return "";
}

// Without a question, or of a kind that is counted.
int explain_kinds(const ExplainArgs& args, const Model& model, const Setup& setup, const std::string& kind) {
  std::vector<NotFused> places;
  absl::StatusOr<Summary> summary = summarize(model, setup, explain_options(args, setup, places));
  if (!summary.ok()) return fail(summary.status(), args.input, "");
  if (is_cancelled(args)) return fail(kExitInterrupted, args.input, "interrupted", "");
  if (const auto s = write_explain_page(args, model, setup, summary->run, summary->kinds, places, format_summary(*summary)); !s.ok())
    return fail(s, args.page.html, "");
  if (!kind.empty()) std::erase_if(summary->kinds, [&](const KindSummary& k) { return k.kind != kind; });
  if (args.common.json) {
    json out = report_json(args.input, summary->run, "");
    out.update(to_json(WhyReport()));
    out["kinds"] = to_json(summary->kinds);
    print_json(out);
    return kExitOk;
  }
  if (args.common.quiet()) return kExitOk;
  const std::size_t width = args.common.look().width;
  if (kind.empty())
    print_text(wrapped(fmt::format("{}: {}", args.input, predicted_text(prediction_of(summary->run))), width, 2) + "\n" +
               wrapped_lines(format_summary(*summary), width));
  else
    print_text(
        wrapped_lines(summary->kinds.empty() ? fmt::format("{}: none in the model\n", kind) : format_whole(summary->kinds[0]), width));
  if (args.common.verbosity > 0)
    print(args, {}, summary->run, setup.settled);
  else if (kind.empty())
    print_text(fmt::format("  {:<13} saturate explain MODEL attention, or another kind, or a value; -v: operators, rules\n", "more") +
               undo_text(*summary, "MODEL"));
  return kExitOk;
}

}  // namespace

int explain_command(const ExplainArgs& args) {
  const absl::Status page = check_page(args.page.html, {{"the model", args.input}, {"--target", args.saturate.target}});
  if (!page.ok()) return fail(page, "", "");
  absl::StatusOr<Setup> setup = set_up(args.saturate, args.shapes);
  if (!setup.ok()) return fail(setup.status(), "", "");
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  if (const absl::Status status = fix_shapes(*model, args.shapes); !status.ok()) return fail(status, args.input, "");
  if (args.io_rank) model = with_io_rank(*std::move(model), *args.io_rank);
  if (!model.ok()) return fail(model.status(), args.input, "");
  if (const absl::Status status = check_cost_points(args.saturate, *model); !status.ok()) return fail(status, "", "");
  WhyQuery given{args.op, args.rule, args.value};
  if (!args.question.empty() && !asks_nothing(given))
    return fail(kExitUsage, "", fmt::format("{}: there is no place for this word beside a question", args.question), "");
  absl::StatusOr<WhyQuery> query = understood(given, args.question, *model, setup->rules);
  if (!query.ok()) return fail(query.status(), "", "");
  const BlockKind* kind = find_kind(query->kind);
  if (asks_nothing(*query) || (kind && kind->asked.empty())) return explain_kinds(args, *model, *setup, query->kind);
  absl::StatusOr<WhyReport> why = why_not(*model, *setup, optimize_options(args.saturate, args.common), *query);
  if (!why.ok()) return fail(why.status(), args.input, "");
  if (is_cancelled(args)) return fail(kExitInterrupted, args.input, "interrupted", "");
  if (const auto s = write_explain_page(args, *model, *setup, why->run, {}, places_of(*why), ""); !s.ok())
    return fail(s, args.page.html, "");
  if (args.common.json) {
    print_json(whole_json(args.input, *why, query->op));
    return kExitOk;
  }
  if (args.common.quiet()) return kExitOk;
  if (!why->anchors.empty()) print_text(wrapped_lines(format_why(*why), args.common.look().width) + "\n");
  print(args, *query, why->run, setup->settled);
  return kExitOk;
}

}  // namespace saturate
