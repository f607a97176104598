#include "tools/pipeline/report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "extract/optimize/fused.h"
#include "extract/optimize/prediction.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "tools/io/dims.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/screen.h"

namespace saturate {
namespace {

constexpr std::size_t kMostNames = 8;  // in a line

using Rows = std::vector<std::vector<std::string>>;
using nlohmann::json;

std::vector<std::string> change_row(const std::string& name, std::uint64_t before, std::uint64_t after) {
  return {name, fmt::format("{}", before), fmt::format("{}", after),
          signed_difference(static_cast<std::int64_t>(before), static_cast<std::int64_t>(after))};
}

std::string operator_table(const GraphStats& before, const GraphStats& after) {
  std::set<std::string> names;
  for (const auto& [name, count] : before.operators) names.insert(name);
  for (const auto& [name, count] : after.operators) names.insert(name);
  Rows rows{{"operator", "before", "after", "change"}};
  std::size_t unchanged = 0;
  for (const std::string& name : names) {
    const std::size_t a = before.count(name), b = after.count(name);
    if (a == b)
      ++unchanged;
    else
      rows.push_back(change_row(name, a, b));
  }
  rows.push_back(change_row("all", before.nodes, after.nodes));
  std::string out = format_table(rows);
  if (unchanged > 0) out += fmt::format("{} unchanged\n", unchanged);
  return out;
}

std::string fused_table(const GraphStats& before, const GraphStats& after) {
  Rows rows{{"fused", "before", "after", "change"}};
  const auto first = fused_counts(before), second = fused_counts(after);
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i].second + second[i].second > 0) rows.push_back(change_row(first[i].first, first[i].second, second[i].second));
  return rows.size() == 1 ? std::string() : format_table(rows);
}

std::string percent(double before, double after) {
  return before > 0 && before != after ? fmt::format("{:+.1f} %", 100 * (after - before) / before) : std::string();
}

std::string model_table(const OptimizeReport& r) {
  Rows rows{{"model", "before", "after", "change"}};
  const auto number = [&](const char* name, std::uint64_t a, std::uint64_t b, auto&& text) {
    rows.push_back({name, text(a), text(b), percent(static_cast<double>(a), static_cast<double>(b))});
  };
  number("parameters", r.before.parameters, r.after.parameters, human_count);
  number("parameter bytes", r.before.parameter_bytes, r.after.parameter_bytes, human_bytes);
  rows.push_back(
      {"opset", fmt::format("{}", r.before.opset), fmt::format("{}", r.after.opset), signed_difference(r.before.opset, r.after.opset)});
  if (r.refused_before && r.refused_after && *r.refused_before + *r.refused_after > 0)
    rows.push_back(change_row(fmt::format("refused by {}", r.target), *r.refused_before, *r.refused_after));
  const auto [before, after] = cost_texts(r.cost_before, r.cost_after, r.cost_unit);
  rows.push_back({fmt::format("predicted ({})", r.cost_model), before, after, percent(r.cost_before, r.cost_after)});
  return format_table(rows);
}

std::string stage_table(const WholeReport& report) {
  Rows rows{{"stage", "time"}};
  double total = 0;
  for (const auto& [stage, seconds] : report.stage_seconds) {
    rows.push_back({stage, human_seconds(seconds)});
    total += seconds;
  }
  rows.push_back({"all", human_seconds(total)});
  return format_table(rows);
}

std::string rule_table(const RunReport& run) {
  Rows rows{{"rule", "applied", "e-nodes", "time"}};
  for (const RuleStats& rule : fired_rules(run))
    rows.push_back({rule.name, applied_text(rule), fmt::format("{}", rule.nodes_made), human_seconds(rule.search_s + rule.apply_s)});
  return rows.size() == 1 ? std::string("no rule fired\n") : format_table(rows);
}

std::string declared_dims(const ValueType& type) {
  std::vector<std::string> dims;
  std::transform(type.shape->begin(), type.shape->end(), std::back_inserter(dims), dim_text);
  return fmt::format("[{}]", fmt::join(dims, ","));
}

}  // namespace

std::string io_rank_text(const IoRank& io) {
  std::string out;
  const auto tell = [&](const char* what, const std::vector<IoRank::Changed>& changed) {
    for (const IoRank::Changed& c : changed)
      out += fmt::format("changed as asked (--io-rank {}): {} '{}' {} -> {}\n", io.rank, what, c.name, declared_dims(c.before),
                         declared_dims(c.after));
  };
  tell("input", io.inputs);
  tell("output", io.outputs);
  std::map<std::string, std::vector<std::string>> kept;  // by reason
  for (const IoRank::Kept& k : io.kept) kept[k.because].push_back(fmt::format("'{}'", k.name));
  for (auto& [because, names] : kept) {
    const std::size_t more = names.size() - std::min(names.size(), kMostNames);
    names.resize(names.size() - more);
    out += fmt::format("not changed: {}{} ({})\n", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "", because);
  }
  return out;
}

namespace {

json io_rank_json(const IoRank& io) {
  const auto list = [](const std::vector<IoRank::Changed>& changed) {
    json out = json::array();
    for (const IoRank::Changed& c : changed)
      out.push_back({{"name", c.name}, {"before", dims_json(*c.before.shape)}, {"after", dims_json(*c.after.shape)}});
    return out;
  };
  json kept = json::array();
  for (const IoRank::Kept& k : io.kept) kept.push_back({{"name", k.name}, {"because", k.because}});
  return {{"rank", io.rank}, {"inputs", list(io.inputs)}, {"outputs", list(io.outputs)}, {"kept", kept}};
}

json sizes_json(const Sizes& sizes) {
  json out = json::object();
  for (const auto& [symbol, size] : sizes) out[symbol] = size;
  return out;
}

// Of the first sizes that the user gave, and of those that were assumed.
Sizes cost_sizes(const OptimizeReport& r) {
  Sizes out = r.cost_points.empty() ? Sizes() : r.cost_points.front().symbols;
  for (const auto& [symbol, size] : r.assumed_sizes) out.emplace(symbol, size.size);
  return out;
}

// What each is a count of.
json assumed_json(const AssumedSizes& sizes) {
  json out = json::object();
  for (const auto& [symbol, size] : sizes) out[symbol] = size.what;
  return out;
}

json nodes_json(const std::vector<NodeCost>& nodes) {
  json out = json::array();
  for (const NodeCost& node : nodes) out.push_back({{"op_type", node.op_type}, {"output", node.output}, {"cost", node.cost}});
  return out;
}

// Of the nodes that stand for others.
json provenance_json(const std::vector<Provenance>& nodes) {
  json out = json::array();
  for (const Provenance& node : nodes) {
    if (node.replaces.empty() && node.rules.empty()) continue;
    json replaces = json::array();
    for (const auto& gone : node.replaces) replaces.push_back({{"name", gone->name}, {"op_type", gone->op_type}, {"output", gone->output}});
    out.push_back(
        {{"where", node.where}, {"op_type", node.op_type}, {"output", node.output}, {"replaces", replaces}, {"rules", node.rules}});
  }
  return out;
}

// What few runs leave open is null.
json ratio_json(const MeasuredRatio& ratio) {
  if (!std::isfinite(ratio.high)) return nullptr;
  return {{"median", ratio.median}, {"low", ratio.low}, {"high", ratio.high}};
}

json measured_json(const Measured& m) {
  json graphs = json::array();
  for (const Measured::Graph& g : m.graphs)
    graphs.push_back({{"graph", g.name},
                      {"nodes", g.nodes},
                      {"runs", g.runs},
                      {"seconds", g.seconds},
                      {"of_original", g.runs > 0 ? ratio_json(g.original) : json(nullptr)},
                      {"why_not", g.why_not.empty() ? json(nullptr) : json(g.why_not)}});
  return {{"runtime", m.runtime},       {"version", m.version},
          {"processor", m.processor},   {"threads", m.threads},
          {"sizes", m.sizes},           {"graphs", graphs},
          {"taken", m.taken},           {"unchanged", m.unchanged},
          {"remembered", m.remembered}, {"of_original", ratio_json(m.ratio)},
          {"seconds", m.seconds},       {"budget", m.budget}};
}

json needs_json(const OptimizeReport& r) {
  json newer = nullptr;
  if (r.newer) newer = {{"release", r.newer->release}, {"cost_after", r.newer->cost}};
  return {{"runtime", r.needs.runtime}, {"release", r.needs.release.empty() ? json(nullptr) : json(r.needs.release)}, {"newer", newer}};
}

json run_json(const RunReport& run) {
  json rules = json::array(), iterations = json::array();
  for (const RuleStats& rule : fired_rules(run))
    rules.push_back({{"rule", rule.name},
                     {"matches", rule.matches},
                     {"applied", rule.applied},
                     {"enodes_made", rule.nodes_made},
                     {"unions", rule.unions},
                     {"search_s", rule.search_s},
                     {"apply_s", rule.apply_s}});
  for (const IterationStats& i : run.iterations)
    iterations.push_back({{"iteration", i.iteration},
                          {"enodes", i.nodes},
                          {"eclasses", i.classes},
                          {"matches", i.matches},
                          {"search_s", i.search_s},
                          {"apply_s", i.apply_s},
                          {"rebuild_s", i.rebuild_s}});
  return {{"stop_reason", std::string(to_string(run.stop))},
          {"seconds", run.seconds},
          {"peak_memory_bytes", run.peak_memory_bytes},
          {"rules", rules},
          {"iterations", iterations}};
}

}  // namespace

namespace {

std::string place_text(const Measured& m) {
  return fmt::format("in {}, {} thread{}", m.runtime, m.threads == 0 ? "all cores'" : std::to_string(m.threads), m.threads == 1 ? "" : "s");
}

}  // namespace

std::string brief_measured(const Measured& m) {
  if (m.unchanged) return fmt::format("nothing is faster than the original {}: unchanged", place_text(m));
  if (!std::isfinite(m.ratio.high)) return fmt::format("too few runs to tell {}", place_text(m));
  return fmt::format("{:.2f} [{:.2f}, {:.2f}] of the original {}", m.ratio.median, m.ratio.low, m.ratio.high, place_text(m));
}

std::string measured_text(const Measured& m) {
  const std::string place = place_text(m);
  const std::string how = m.remembered
                              ? std::string("(measured before)")
                              : fmt::format("({} graph{} timed in {})", m.timed, m.timed == 1 ? "" : "s", human_seconds(m.seconds));
  if (m.unchanged) return fmt::format("nothing is faster than the original {} {}: it is returned unchanged", place, how);
  if (!std::isfinite(m.ratio.high)) return fmt::format("too few runs to tell {} {}", place, how);
  return fmt::format("{:.2f} [{:.2f}, {:.2f}] of the original {} {}", m.ratio.median, m.ratio.low, m.ratio.high, place, how);
}

std::string applied_text(const RuleStats& rule) {
  return rule.applied == rule.matches ? fmt::format("{}", rule.applied) : fmt::format("{} of {}", rule.applied, rule.matches);
}

std::vector<RuleStats> fired_rules(const RunReport& run) {
  std::vector<RuleStats> fired;
  for (const RuleStats& rule : run.rules)
    if (rule.applied > 0) fired.push_back(rule);
  std::stable_sort(fired.begin(), fired.end(), [](const RuleStats& a, const RuleStats& b) { return a.applied > b.applied; });
  return fired;
}

std::string_view to_string(VerifyStatus status) {
  switch (status) {
    case VerifyStatus::kEqual:
      return "equal";
    case VerifyStatus::kDifferent:
      return "different";
    case VerifyStatus::kUnsupported:
      return "unsupported";
    case VerifyStatus::kNotRun:
      return "not run";
    case VerifyStatus::kCancelled:
      return "interrupted";
  }
  return "?";
}

std::string summary(const VerifyReport& report) {
  if (report.status != VerifyStatus::kEqual) return report.message;
  std::string sizes, beyond;
  for (const VerifyCase& c : report.cases) {
    const bool usual = c.kind == CaseKind::kUsual || c.kind == CaseKind::kGiven;
    if (usual && !c.sizes.empty()) sizes += fmt::format("{}{}", sizes.empty() ? " at " : "; ", to_string(c.sizes));
    if (const std::string kind(to_string(c.kind)); !usual && beyond.find(kind) == std::string::npos)
      beyond += fmt::format("{}{}", beyond.empty() ? ", also " : ", ", kind);
  }
  std::string out = fmt::format("{} case{}{}{}", report.cases.size(), report.cases.size() == 1 ? "" : "s", sizes, beyond);
  out += ", " + difference_text(report);
  if (!report.around.empty()) out += fmt::format(", in parts around {}", fmt::join(report.around, ", "));
  return fmt::format("{}, {}", judged_by(report), out);
}

namespace {

// What the screen has no room for.
std::string in_full(const WholeReport& report) {
  const OptimizeReport& r = report.optimize;
  std::string out;
  const auto tell = [&](std::string_view what, const std::string& text) {
    if (!text.empty()) out += fmt::format("{}: {}\n", what, text);
  };
  if (!report.input.empty() && !report.output.empty()) tell("files", fmt::format("{} -> {}", report.input, report.output));
  if (report.verify) tell("verified", summary(*report.verify));
  tell("cost", predicted_text(prediction_of(r)));
  if (r.proved) tell("choice", "proved: none of the e-graph's others costs less by the prices of operators");
  tell("needs", needs_text(r));
  if (r.measured) tell("measured", measured_text(*r.measured));
  if (!r.settled.release.empty())
    tell("target", fmt::format("for {}{}{}", r.settled.release, r.settled.older.empty() ? "" : "; ", r.settled.older));
  if (r.cost_of && r.cost_unit == "s") tell("prices", to_text(*r.cost_of));
  for (const std::string& warning : r.warnings) tell("warning", warning);
  if (report.verify)
    for (const std::string& note : report.verify->notes) tell("note", note);
  for (const OptimizeReport::Unwanted& u : r.unwanted)
    tell("unwanted", fmt::format("{} {} ({}): cheaper than another form or without one", u.count, u.op, u.wish));
  return r.io_rank ? out + io_rank_text(*r.io_rank) : out;
}

}  // namespace

std::string format_report(const WholeReport& report, int verbosity, const Look& look) {
  const OptimizeReport& r = report.optimize;
  std::string out =
      screen(report, look) + "\n" + wrapped_lines(printable(in_full(report)), look.width) + "\n" + operator_table(r.before, r.after) + "\n";
  if (const std::string fused = fused_table(r.before, r.after); !fused.empty()) out += fused + "\n";
  out += model_table(r) + "\n";
  std::string rest;
  for (const OptimizeReport::Assumed& a : r.assumed) {
    const Assumption* known = find_assumption(a.assumption);
    rest += fmt::format("assumed: {} ({}; by {}; --no-assume {} forbids it)\n", a.assumption, known ? known->what : "",
                        fmt::join(a.rules, ", "), a.assumption);
  }
  if (r.cut_metadata > 0)
    rest += fmt::format("note: {} node{} for others with more than 4 kB of metadata_props; the rest was left out\n", r.cut_metadata,
                        r.cut_metadata == 1 ? " stands" : "s stand");
  if (report.verify) rest += fmt::format("verified: {}\n", summary(*report.verify));
  if (verbosity > 1) {
    out += stage_table(report) + "\n" + rule_table(r.run) + "\n";
    const std::size_t steps = r.run.iterations.size();
    rest += fmt::format("stopped: {} after {} iteration{}; {} e-nodes in {} e-classes\n", to_string(r.run.stop), steps,
                        steps == 1 ? "" : "s", r.egraph_nodes, r.egraph_classes);
  }
  return out + wrapped_lines(printable(rest), look.width);
}

json to_json(const GraphStats& stats) {
  json fused = json::object();
  for (const auto& [family, count] : fused_counts(stats)) fused[family] = count;
  return {{"operators", stats.operators},
          {"fused", fused},
          {"nodes", stats.nodes},
          {"constants", stats.constants},
          {"initializers", stats.initializers},
          {"parameters", stats.parameters},
          {"parameter_bytes", stats.parameter_bytes},
          {"opset", stats.opset},
          {"ir_version", stats.ir_version}};
}

json to_json(const VerifyReport::Judged& judged) {
  constexpr const char* kVerdicts[] = {"not judged", "equal", "at fault"};
  return {{"name", judged.name},       {"version", judged.version}, {"verdict", kVerdicts[static_cast<int>(judged.verdict)]},
          {"message", judged.message}, {"cases", judged.cases},     {"seconds", judged.seconds}};
}

json to_json(const VerifyReport& report) {
  json cases = json::array(), judges = json::array();
  for (const VerifyReport::Judged& judged : report.judged) judges.push_back(to_json(judged));
  for (const VerifyCase& c : report.cases) {
    json outputs = json::array();
    for (const OutputComparison& o : c.outputs)
      outputs.push_back({{"name", o.name},
                         {"dtype", o.dtype},
                         {"max_abs_diff", o.max_abs},
                         {"nearest_diff", o.nearest},
                         {"scale", o.scale},
                         {"tolerance", o.tolerance},
                         {"elements", o.elements},
                         {"mismatches", o.mismatches},
                         {"step", o.step > 0 ? json(o.step) : json(nullptr)},
                         {"steps_diff", o.step > 0 ? json(o.steps) : json(nullptr)},
                         {"moved", o.step > 0 ? json(o.moved) : json(nullptr)},
                         {"compared", !o.random},
                         {"ok", o.ok},
                         {"why", o.why}});
    cases.push_back({{"sizes", sizes_json(c.sizes)}, {"values", std::string(to_string(c.kind))}, {"outputs", outputs}});
  }
  return {{"status", std::string(to_string(report.status))},
          {"message", report.message},
          {"cases", cases},
          {"notes", report.notes},
          {"parts_around", report.around},
          {"runtime", report.runtime.empty() ? json("saturate") : json(report.runtime)},
          {"judges", judges},
          {"no_judge", report.no_judge.empty() ? json(nullptr) : json(report.no_judge)},
          {"refused_inputs", report.refused},
          {"max_abs_diff", report.max_abs()},
          {"seconds", report.seconds}};
}

json to_json(const WholeReport& report) {
  const OptimizeReport& r = report.optimize;
  json stages = json::object(), made = json::array(), assumed = json::array(), left_out = json::array(), unwanted = json::array();
  for (const OptimizeReport::Unwanted& u : r.unwanted) unwanted.push_back({{"operator", u.op}, {"wish", u.wish}, {"count", u.count}});
  for (const OptimizeReport::LeftOut& l : r.left_out)
    left_out.push_back({{"rule", l.rule.empty() ? json(nullptr) : json(l.rule)},
                        {"assumption", l.assumption.empty() ? json(nullptr) : json(l.assumption)},
                        {"because", l.because},
                        {"built_in", l.built_in}});
  for (const OptimizeReport::Assumed& a : r.assumed) {
    const Assumption* known = find_assumption(a.assumption);
    assumed.push_back({{"assumption", a.assumption}, {"class", known ? to_string(known->kind) : ""}, {"rules", a.rules}});
  }
  json effects = json::array();
  for (const OptimizeReport::Effected& e : r.effects) effects.push_back({{"effect", std::string(to_string(e.effect))}, {"rules", e.rules}});
  for (const auto& [stage, seconds] : report.stage_seconds) stages[stage] = seconds;
  for (const OptimizeReport::Made& m : r.made) made.push_back({{"op_type", m.op_type}, {"output", m.output}, {"rule", m.rule}});
  return {{"schema", kReportSchema},
          {"saturate", SATURATE_VERSION},
          {"input", report.input},
          {"output", report.output},
          {"target", r.target},
          {"settled", r.settled.release.empty() ? json(nullptr) : json(r.settled.release)},
          {"cost_model", r.cost_model},
          {"cost_unit", r.cost_unit},
          {"cost_of", r.cost_of ? to_json(*r.cost_of) : json(nullptr)},
          {"cost_sizes", sizes_json(cost_sizes(r))},
          {"cost_assumed", assumed_json(r.assumed_sizes)},
          {"predicted", predicted_text(prediction_of(r))},
          {"cost_before", r.cost_before},
          {"cost_after", r.cost_after},
          {"proved", r.proved},
          {"cost_ratio", r.cost_ratio ? json::array({r.cost_ratio->first, r.cost_ratio->second}) : json(nullptr)},
          {"at_load", {{"before", r.before_at_load}, {"after", r.after_at_load}}},
          {"refused_before", r.refused_before ? json(*r.refused_before) : json(nullptr)},
          {"unwanted", unwanted},
          {"refused_after", r.refused_after ? json(*r.refused_after) : json(nullptr)},
          {"before", to_json(r.before)},
          {"after", to_json(r.after)},
          {"seconds", stages},
          {"egraph", {{"enodes", r.egraph_nodes}, {"eclasses", r.egraph_classes}}},
          {"saturation", run_json(r.run)},
          {"made_by_rules", made},
          {"metadata_cut", r.cut_metadata},
          {"nodes_before", nodes_json(r.nodes_before)},
          {"nodes_after", nodes_json(r.nodes_after)},
          {"vanished", r.vanished},
          {"provenance", provenance_json(r.provenance)},
          {"assumed", assumed},
          {"effects", effects},
          {"risks", r.risks},
          {"left_out", left_out},
          {"measured", r.measured ? measured_json(*r.measured) : json(nullptr)},
          {"io_rank", r.io_rank ? io_rank_json(*r.io_rank) : json(nullptr)},
          {"needs", needs_json(r)},
          {"verified", report.verify && report.verify->status == VerifyStatus::kEqual},
          {"warnings", r.warnings},
          {"verify", report.verify ? to_json(*report.verify) : json(nullptr)}};
}

}  // namespace saturate
