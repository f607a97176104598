#include "tools/pipeline/screen.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "extract/optimize/fused.h"
#include "extract/optimize/prediction.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/screen_lines.h"

namespace saturate {
namespace {

using ScreenTexts = std::vector<std::string>;  // the fullest first: the first that fits into a line is shown

std::string plural(std::size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

// "2e-06" of 0.0000021: a size, not digits.
std::string order_text(double x) { return fmt::format("{:.0e}", x); }

// ---- is it right

// Of the element that comes nearest to what is allowed: its error in its own scale.
ScreenTexts error_texts(const VerifyReport& report) {
  const std::string whole = difference_text(report);
  const OutputComparison* worst = worst_output(report);
  if (!worst || worst->step > 0 || worst->tolerance <= 0 || worst->scale <= 0) return {whole};
  const std::string error = order_text(worst->nearest / worst->scale), allowed = order_text(worst->tolerance / worst->scale);
  return {fmt::format("relative error {}, allowed {}", error, allowed), fmt::format("error {} of {} allowed", error, allowed)};
}

void add_verdict(const WholeReport& report, ScreenLines& lines) {
  const VerifyReport& v = *report.verify;
  const std::string inputs = plural(v.cases.size(), "input"), parts = v.around.empty() ? "" : ", in parts";
  ScreenTexts texts;
  for (const std::string& by : {judged_by(v), judges_of(v)})
    for (const std::string& error : error_texts(v)) texts.push_back(fmt::format("{}{}, {}, {}", by, parts, inputs, error));
  const std::string said = lines.fitting("verified", texts);
  lines.add(ScreenLines::kMust, "verified", {said}, Tone::kGood);
  if (const std::string why = why_not_judged(v); !why.empty() && said.find(why) == std::string::npos)
    lines.add(ScreenLines::kDetail, "note", {why + "; judged by saturate alone"});
}

// ---- what changed

double seconds_of(const WholeReport& report) {
  double seconds = 0;
  for (const auto& [stage, s] : report.stage_seconds) seconds += s;
  return seconds;
}

std::string counts_of(const OptimizeReport& r) {
  return r.before.nodes == r.after.nodes ? plural(r.after.nodes, "operator")
                                         : fmt::format("{} -> {} operators", r.before.nodes, r.after.nodes);
}

void add_header(const WholeReport& report, ScreenLines& lines) {
  const OptimizeReport& r = report.optimize;
  const std::string end =
      report.stage_seconds.empty() ? counts_of(r) : fmt::format("{}, {}", counts_of(r), human_seconds(seconds_of(report)));
  lines.files(report.input, report.output, {fmt::format(" for {}: {}", r.target, end), ": " + end});
}

// "batch=1, seq=128".
std::string brief_sizes(const OptimizeReport& r) {
  if (r.cost_points.size() > 1) return "";
  Sizes sizes = r.cost_points.empty() ? Sizes() : r.cost_points.front().symbols;
  for (const auto& [symbol, size] : r.assumed_sizes) sizes.emplace(symbol, size.size);
  return to_string(sizes);
}

void add_prediction(const OptimizeReport& r, ScreenLines& lines) {
  const Prediction p = prediction_of(r);
  if (p.unit == "operators") {
    lines.add(ScreenLines::kUsual, "time",
              {fmt::format("no times predicted: {} counts operators (--cost {})", p.target, p.cost_model), "no times predicted"});
    return;
  }
  const std::string costs = brief_prediction(p), sizes = brief_sizes(r);
  const bool assumed = !r.assumed_sizes.empty(), same = p.original_runs && p.before == p.after;
  const auto at = [&](const std::string& what) { return fmt::format("{} at {}{}", costs, what, same ? ", as before" : ""); };
  ScreenTexts texts;
  if (!sizes.empty())
    texts = {at(fmt::format("{}{}", sizes, assumed ? " (assumed; --cost-at sets it)" : "")),
             at(fmt::format("{}{}", sizes, assumed ? " (assumed)" : "")), at(sizes), at(assumed ? "assumed sizes" : "given sizes")};
  texts.push_back(costs + (same ? ", as before" : ""));
  lines.add(ScreenLines::kUsual, p.unit == "s" ? "time" : "cost", texts);
}

// Weights that change by a tenth of the model.
void add_weights(const OptimizeReport& r, ScreenLines& lines) {
  constexpr std::uint64_t kLeast = 64 << 10;  // bytes that no user looks for
  const std::uint64_t before = r.before.parameter_bytes, after = r.after.parameter_bytes;
  const std::string both = fmt::format("{} -> {}", human_bytes(before), human_bytes(after));
  if (before > after + std::max(after / 10, kLeast)) lines.add(ScreenLines::kExtra, "weights", {both});
  if (after <= before + std::max(before / 10, kLeast)) return;
  if (before < kLeast) {
    lines.add(ScreenLines::kWarning, "weights",
              {fmt::format("{} more, of constants that are computed once; --max-growth 0% keeps them out", human_bytes(after - before)),
               fmt::format("{} more; --max-growth 0% keeps them out", human_bytes(after - before))},
              Tone::kBad);
    return;
  }
  const double times = static_cast<double>(after) / static_cast<double>(before);
  lines.add(ScreenLines::kWarning, "weights",
            {fmt::format("grow to {:.2g} times: {}; --max-growth 10% keeps them below 1.1", times, both),
             fmt::format("grow to {:.2g} times, {}; --max-growth 10% keeps them below 1.1", times, human_bytes(after))},
            Tone::kBad);
}

using Counts = std::map<std::string, std::size_t>;

// What users look for first.
int place_of_family(const std::string& op_type) {
  const std::string_view family = fused_family(op_type);
  for (int i = 0; const std::string_view known : {"attention", "normalization", "GELU", "SiLU", "rotary embedding"})
    if (++i; family == known) return i;
  return 100;
}

// Names without domains, but where two of one name differ in nothing else.
std::vector<std::string> named(const Counts& counts, const Counts& others) {
  std::map<std::string, std::set<std::string>> meant;
  for (const Counts* all : {&counts, &others})
    for (const auto& [op, n] : *all) meant[without_domain(op)].insert(op);
  std::vector<std::pair<std::string, std::size_t>> ordered(counts.begin(), counts.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return place_of_family(a.first) < place_of_family(b.first); });
  std::vector<std::string> out;
  for (const auto& [op, n] : ordered)
    out.push_back(meant[without_domain(op)].size() == 1 ? fmt::format("{} {}", n, without_domain(op))
                                                        : fmt::format("{} {} ({})", n, without_domain(op),
                                                                      op == without_domain(op) ? "ai.onnx" : op.substr(0, op.rfind('.'))));
  return out;
}

// The list, and then as much of it as leaves `n` out.
std::string first_of(const std::vector<std::string>& list, std::size_t n) {
  const std::vector<std::string> shown(list.begin(), list.end() - static_cast<std::ptrdiff_t>(n));
  return fmt::format("{}{}", fmt::join(shown, ", "), n == 0 ? "" : fmt::format(", {} more", plural(n, "kind")));
}

// As people call them.
std::string shorter(std::string text) {
  constexpr std::string_view kLong = "Normalization", kShort = "Norm";
  for (std::size_t at = 0; (at = text.find(kLong, at)) != std::string::npos; at += kShort.size()) text.replace(at, kLong.size(), kShort);
  return text;
}

// What became more or less, where nothing was fused: "12 Cast, 3 Reshape less; 2 Gemm more".
std::string other_changes(const OptimizeReport& r, std::size_t most) {
  std::vector<std::pair<std::size_t, std::string>> less, more;
  for (const auto* stats : {&r.before, &r.after})
    for (const auto& [op, n] : stats->operators) {
      const std::size_t rest = (stats == &r.before ? r.after : r.before).count(op);
      if (n > rest && op != "Constant") (stats == &r.before ? less : more).emplace_back(n - rest, without_domain(op));
    }
  const auto told = [most](auto& list, std::string_view word) {
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < std::min(most, list.size()); ++i) parts.push_back(fmt::format("{} {}", list[i].first, list[i].second));
    if (list.size() > most) parts.emplace_back("others");
    return parts.empty() ? std::string() : fmt::format("{} {}", fmt::join(parts, ", "), word);
  };
  const std::string a = told(less, "less"), b = told(more, "more");
  return a + (a.empty() || b.empty() ? "" : "; ") + b;
}

// "3 Attention, 1 Gelu (2 LayerNormalization were there)".
void add_found(const OptimizeReport& r, ScreenLines& lines) {
  Counts made, there;
  for (const OptimizeReport::Made& m : r.made)
    if (!m.rule.empty() && !fused_family(m.op_type).empty()) ++made[m.op_type];
  for (const auto& [op_type, count] : r.after.operators)
    if (!fused_family(op_type).empty() && count > (made.contains(op_type) ? made.at(op_type) : 0))
      there[op_type] = count - (made.contains(op_type) ? made.at(op_type) : 0);
  const std::vector<std::string> first = named(made, there), second = named(there, made);
  const bool one = there.size() == 1 && there.begin()->second == 1;
  const auto behind = [&](std::size_t n) {
    return second.empty() ? "" : fmt::format(" ({} {} there)", first_of(second, n), one ? "was" : "were");
  };
  ScreenTexts texts;
  if (!first.empty()) {
    texts = {first_of(first, 0) + behind(0), first_of(first, 0), shorter(first_of(first, 0))};
    for (std::size_t n = 1; n < first.size(); ++n) texts.push_back(shorter(first_of(first, n)));
    lines.add(ScreenLines::kUsual, "found", texts);
    return;
  }
  std::string changes = other_changes(r, 4);
  if (changes.empty() && r.before.nodes == r.after.nodes) changes = "nothing to fuse";
  if (changes.empty())
    changes = fmt::format("{} fewer, which were computed twice or not needed", plural(r.before.nodes - r.after.nodes, "operator"));
  for (std::size_t n = 0; n < std::max<std::size_t>(second.size(), 1); ++n)
    for (const std::string& text : {changes + behind(n), shorter(changes + behind(n))}) texts.push_back(text);
  texts.push_back(changes);
  for (const std::size_t most : {3U, 2U, 1U}) texts.push_back(other_changes(r, most));
  lines.add(ScreenLines::kUsual, changes == "nothing to fuse" ? "found" : "changed", texts);
}

// ---- what was left, and the flag that helps

std::string saving(const OptimizeReport& r) {
  if (!r.newer || r.newer->cost >= r.cost_after || r.cost_after <= 0) return "";
  return fmt::format("would save {:.0f} % more", std::max(1.0, 100 * (r.cost_after - r.newer->cost) / r.cost_after));
}

void add_left(const WholeReport& report, ScreenLines& lines) {
  const OptimizeReport& r = report.optimize;
  using Why = Unfused::Why;
  const auto list = [&](Why why) {
    Counts counts;
    for (const Unfused& u : report.unfused)
      if (u.why == why && (why != Why::kOpset || !u.better.empty())) counts[u.op_type] += u.count;  // else no user can have them
    std::vector<std::string> parts;
    for (const auto& [op, n] : counts) parts.push_back(fmt::format("{} {}", n, without_domain(op)));
    return fmt::format("{}", fmt::join(parts, ", "));
  };
  bool told_newer = false;
  if (const std::string what = list(Why::kOpset); !what.empty()) {
    const auto& first = *std::ranges::find_if(report.unfused, [](const Unfused& u) { return u.why == Why::kOpset && !u.better.empty(); });
    const std::string need = fmt::format("{}: opset {} has it", what, first.opset), more = saving(r);
    const std::string flag = ": " + first.better;
    lines.add(ScreenLines::kLeft, "missing", {more.empty() ? need + flag : fmt::format("{}{} ({})", need, flag, more), need + flag, need});
    told_newer = !more.empty();
  }
  if (!told_newer && !saving(r).empty())
    lines.add(ScreenLines::kLeft, "newer",
              {fmt::format("{} {} {} (--target {}@{})", r.needs.runtime, r.newer->release, saving(r),
                           r.target.substr(0, r.target.rfind('@')), r.newer->release)});
  const std::string m = lines.path_for("saturate explain {}");
  if (const std::string what = list(Why::kTarget); !what.empty())
    lines.add(ScreenLines::kLeft, "missing",
              {fmt::format("{}: {} does not take them as they would be", what, r.target), what + ": not for this target"});
  if (const std::string what = list(Why::kDearer); !what.empty())
    lines.add(ScreenLines::kLeft, "left", {fmt::format("{}: no faster here than spelled out", what), what + ": no faster here"});
  if (const std::string what = list(Why::kQuantized); !what.empty())
    lines.add(ScreenLines::kLeft, "left",
              {fmt::format("{}: quantizers stand between (--approximate may drop them)", what), what + ": quantizers stand between",
               what + ": quantized"});
  if (const std::string what = list(Why::kMissed); !what.empty())
    lines.add(ScreenLines::kLeft, "missing", {fmt::format("{}: no rule fits ({})", what, m), what + ": no rule fits"});
}

// ---- what it needs and takes for granted

// The fullest first.
ScreenTexts needs_texts(const OptimizeReport& r) {
  const auto change = [](std::string_view what, std::int64_t before, std::int64_t after) {
    return before == after || before == 0 ? fmt::format("{} {}", what, after) : fmt::format("{} {} -> {}", what, before, after);
  };
  // Others may load operators of com.microsoft and compute something else.
  const auto is_its_own = [](const auto& op) { return op.first.starts_with("com.microsoft"); };
  const bool alone = std::ranges::any_of(r.after.operators, is_its_own), higher = 0 < r.before.opset && r.before.opset < r.after.opset;
  const std::string release = r.needs.release.empty() ? fmt::format("a newer {} than is known", r.needs.runtime)
                                                      : fmt::format("{} {} or newer", r.needs.runtime, r.needs.release);
  const std::string opset = r.after.opset > 0 ? change("opset", r.before.opset, r.after.opset) : "";  // ai.onnx.ml alone imports no ai.onnx
  const std::string ir = (opset.empty() ? "" : ", ") + change("IR", r.before.ir_version, r.after.ir_version);
  const auto text = [&](std::string_view only, const std::string& versions, const std::string& keep) {
    const std::string inside = versions + (keep.empty() ? "" : "; " + keep);
    return fmt::format("{}{}{}", release, alone ? only : "", inside.empty() ? "" : fmt::format(" ({})", inside));
  };
  const std::string keep = higher ? fmt::format("--keep-opset stays at {}", r.before.opset) : "";
  const std::string brief = higher ? fmt::format("--keep-opset: {}", r.before.opset) : "";
  return {text(", no other runtime", opset + ir, keep),
          text(", no other runtime", opset, keep),
          text(" only", opset, keep),
          text(" only", opset, brief),
          text(" only", opset, ""),
          release};
}

void add_assumes(const OptimizeReport& r, ScreenLines& lines) {
  std::vector<std::string> all;
  for (const OptimizeReport::Assumed& a : r.assumed)
    if (const Assumption* known = find_assumption(a.assumption)) all.emplace_back(known->brief);
  if (all.empty()) {
    lines.add(ScreenLines::kDetail, "assumes", {"nothing"});
    return;
  }
  ScreenTexts texts{fmt::format("{} (-v in full; --no-assume forbids)", fmt::join(all, ", ")),
                    fmt::format("{} (-v: in full)", fmt::join(all, ", "))};
  for (std::size_t n = 1; n < all.size(); ++n)
    texts.push_back(fmt::format("{}, {} more (-v: in full)", fmt::join(all.begin(), all.end() - static_cast<std::ptrdiff_t>(n), ", "), n));
  lines.add(ScreenLines::kAssumes, "assumes", texts);
}

// What a search that ended at a bound may have missed, and what gives it more.
void add_stop(const OptimizeReport& r, ScreenLines& lines) {
  const std::string_view flag = r.run.stop == StopReason::kIterationLimit ? "--iterations"
                                : r.run.stop == StopReason::kNodeLimit    ? "--node-limit"
                                : r.run.stop == StopReason::kMemoryLimit  ? "--memory-limit"
                                : r.run.stop == StopReason::kTimeLimit    ? "--time-limit"
                                                                          : "";
  if (r.run.stop == StopReason::kSaturated) return;
  if (flag.empty()) {
    lines.add(ScreenLines::kWarning, "search",
              {fmt::format("stopped early: {}; what was found until then is in the result", to_string(r.run.stop))});
    return;
  }
  lines.add(ScreenLines::kUsual, "search", {fmt::format("stopped at the {}; a larger {} may find more", to_string(r.run.stop), flag)});
}

void add_asked_for(const OptimizeReport& r, ScreenLines& lines) {
  // A release that nobody named and that is not the one which is here.
  if (r.settled.is_other)
    lines.add(ScreenLines::kExtra, "target", {fmt::format("for {}; {}", r.settled.release, r.settled.older), "for " + r.settled.release});
  if (r.measured) lines.add(ScreenLines::kUsual, "measured", {measured_text(*r.measured), brief_measured(*r.measured)});
  if (r.refused_after && *r.refused_before + *r.refused_after > 0)
    lines.add(ScreenLines::kUsual, "refused",
              {fmt::format("{} -> {} operators that {} can't express", *r.refused_before, *r.refused_after, r.target)});
  for (const OptimizeReport::Unwanted& u : r.unwanted)
    lines.add(ScreenLines::kExtra, "unwanted",
              {fmt::format("{} {} ({}): cheaper than another form or without one", u.count, u.op, u.wish),
               fmt::format("{} {} ({})", u.count, u.op, u.wish)});
  if (!r.io_rank) return;
  const IoRank& io = *r.io_rank;
  if (!io.inputs.empty() || !io.outputs.empty())
    lines.add(ScreenLines::kUsual, "rank",
              {fmt::format("{} and {} changed as asked (--io-rank {}; -v: which)", plural(io.inputs.size(), "input"),
                           plural(io.outputs.size(), "output"), io.rank)});
  if (!io.kept.empty())
    lines.add(ScreenLines::kWarning, "rank",
              {fmt::format("not changed: '{}' ({}){}", io.kept.front().name, io.kept.front().because,
                           io.kept.size() > 1 ? fmt::format(", {} more: -v", io.kept.size() - 1) : "")});
}

void add_next(const WholeReport& report, ScreenLines& lines) {
  const std::string m = report.input.empty() ? "MODEL" : report.input, out = report.output;
  const bool files = !out.empty() && out != "-" && m != "-";
  const auto diff = [&](const std::string& a, const std::string& b) {
    return fmt::format("saturate explain {}: why; saturate diff {} {}", a, a, b);
  };
  ScreenTexts texts;
  if (files) texts = {diff(m, out) + "; -v: more", diff(m, out)};
  texts.push_back(fmt::format("saturate explain {}: what was fused, what not, and why", m));
  texts.emplace_back("saturate explain MODEL: what was fused, what not, and why");
  lines.add(ScreenLines::kMust, "next", texts);
}

}  // namespace

std::string needs_text(const OptimizeReport& report) { return needs_texts(report).front(); }

std::string screen(const WholeReport& report, const Look& look) {
  const OptimizeReport& r = report.optimize;
  ScreenLines lines(look);
  if (!r.risks.empty())
    lines.bad(fmt::format("taking risks as asked: {} (may change numbers; --no-assume all forbids it)", fmt::join(r.risks, ", ")));
  const bool good = report.verify && report.verify->status == VerifyStatus::kEqual;
  if (!report.verify && !r.late) lines.bad("NOT VERIFIED: --no-verify was given");
  if (report.verify && !good) lines.bad("NOT VERIFIED: " + summary(*report.verify));
  add_header(report, lines);
  if (good) add_verdict(report, lines);
  if (!report.verify && r.late) lines.add(ScreenLines::kMust, "verified", {"as it came: nothing to verify"});
  add_prediction(r, lines);
  add_asked_for(r, lines);
  add_weights(r, lines);
  std::vector<std::string> warnings = r.warnings;  // first of what verification found
  std::stable_partition(warnings.begin(), warnings.end(),
                        [](const std::string& w) { return w.starts_with("rule ") || w.starts_with("assumption "); });
  lines.several(ScreenLines::kWarning, "warning", warnings, Tone::kBad);
  add_stop(r, lines);
  if (report.verify) lines.several(ScreenLines::kNote, "note", report.verify->notes, Tone::kLabel);
  add_found(r, lines);
  add_left(report, lines);
  lines.add(ScreenLines::kUsual, "needs", needs_texts(r));
  add_assumes(r, lines);
  add_next(report, lines);
  return std::move(lines).text();
}

std::string screen_line(const WholeReport& report) {
  const OptimizeReport& r = report.optimize;
  const bool good = report.verify && report.verify->status == VerifyStatus::kEqual;
  const std::string verdict = good ? "verified" : !report.verify && r.late ? "as it came" : "NOT VERIFIED";
  const std::string warned = r.warnings.empty() ? "" : fmt::format(", {} (-v)", plural(r.warnings.size(), "warning"));
  return printable(
      fmt::format("{} -> {}: {}, {}, {}{}", report.input, report.output, counts_of(r), verdict, human_seconds(seconds_of(report)), warned));
}

}  // namespace saturate
