#include "tools/pipeline/screen.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/fused.h"
#include "tools/pipeline/prediction.h"

namespace saturate {
namespace {

constexpr std::string_view kNoBreak = "\u00a0";
constexpr std::size_t kLabel = 13;  // columns before what a label says

std::string plural(std::size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string_view without_domain(std::string_view op_type) { return op_type.substr(op_type.rfind('.') + 1); }

std::string verdict(const WholeReport& report) {
  if (!report.verify && report.optimize.late) return "as it came: nothing to verify";
  if (!report.verify) return "NOT VERIFIED: --no-verify was given";
  if (report.verify->status != VerifyStatus::kEqual) return fmt::format("NOT VERIFIED: {}", summary(*report.verify));
  return fmt::format("verified {}{}, {}, {}", judged_by(*report.verify), report.verify->around.empty() ? "" : ", in parts",
                     plural(report.verify->cases.size(), "input"), difference_text(*report.verify));
}

std::string sizes_line(const OptimizeReport& r) {
  const std::string weights = r.before.parameter_bytes == r.after.parameter_bytes
                                  ? human_bytes(r.after.parameter_bytes)
                                  : fmt::format("{} -> {}", human_bytes(r.before.parameter_bytes), human_bytes(r.after.parameter_bytes));
  return fmt::format("{} -> {} operators   weights {}   {}", r.before.nodes, r.after.nodes, weights,
                     predicted_text(prediction_of(r), kNoBreak));
}

// Weights that are more by a tenth of the model, in words; else nothing.
std::string growth(const OptimizeReport& r) {
  constexpr std::uint64_t kLeast = 64 << 10;  // bytes that no user looks for
  const std::uint64_t before = r.before.parameter_bytes, after = r.after.parameter_bytes;
  if (after <= before + std::max(before / 10, kLeast)) return "";
  return fmt::format("grow to {:.2g} times: {} -> {}; --max-growth 10% keeps them below 1.1 times",
                     static_cast<double>(after) / static_cast<double>(std::max<std::uint64_t>(before, 1)), human_bytes(before),
                     human_bytes(after));
}

// "3 Attention   1 Gelu   (2 LayerNormalization were there)".
std::string found(const OptimizeReport& r) {
  std::map<std::string_view, std::size_t> made, there;
  for (const OptimizeReport::Made& m : r.made)
    if (!m.rule.empty() && !fused_family(m.op_type).empty()) ++made[m.op_type];
  for (const auto& [op_type, count] : r.after.operators)
    if (!fused_family(op_type).empty() && count > made[op_type]) there[op_type] = count - made[op_type];
  const auto list = [](const std::map<std::string_view, std::size_t>& counts, std::string_view between) {
    std::string out;
    for (const auto& [op_type, count] : counts)
      if (count > 0) out += fmt::format("{}{}{}{}", out.empty() ? "" : between, count, kNoBreak, without_domain(op_type));
    return out;
  };
  std::string out = list(made, "   ");
  if (out.empty()) out = "nothing to fuse";
  const bool one = there.size() == 1 && there.begin()->second == 1;
  if (!there.empty()) out += fmt::format("   ({} {} there)", list(there, ", "), one ? "was" : "were");
  return out;
}

// "ONNX Runtime 1.23 or newer (opset 18 -> 23, IR 10 -> 11; --keep-opset stays at 18)".
std::string needs(const OptimizeReport& r) {
  const auto change = [](std::string_view what, std::int64_t before, std::int64_t after) {
    return before == after ? fmt::format("{} {}", what, after) : fmt::format("{} {} -> {}", what, before, after);
  };
  const bool imports = r.before.opset > 0 || r.after.opset > 0;  // a model of ai.onnx.ml alone need not import ai.onnx
  std::string versions = imports ? change("opset", r.before.opset, r.after.opset) + ", " : "";
  versions += change("IR", r.before.ir_version, r.after.ir_version);
  if (r.before.opset < r.after.opset) versions += fmt::format("; --keep-opset stays at {}", r.before.opset);
  // Others may load operators of com.microsoft and compute something else.
  const auto is_its_own = [](const auto& op) { return op.first.starts_with("com.microsoft"); };
  const std::string_view only = std::ranges::any_of(r.after.operators, is_its_own) ? "; for ONNX Runtime only" : "";
  if (r.needs.release.empty()) return fmt::format("a newer {} than is known ({}){}", r.needs.runtime, versions, only);
  std::string out = fmt::format("{} {} or newer ({}){}", r.needs.runtime, r.needs.release, versions, only);
  if (r.newer && r.newer->cost < r.cost_after)
    out += fmt::format("; {} {} would save {:.0f} % more (predicted; --target {}@{})", r.needs.runtime, r.newer->release,
                       std::max(1.0, 100 * (r.cost_after - r.newer->cost) / r.cost_after), r.target.substr(0, r.target.rfind('@')),
                       r.newer->release);
  return out;
}

std::string assumes(const OptimizeReport& r) {
  if (r.assumed.empty()) return "nothing";
  std::vector<std::string_view> names;
  std::string first;
  for (const OptimizeReport::Assumed& a : r.assumed) {
    names.push_back(a.assumption);
    const Assumption* known = find_assumption(a.assumption);
    if (first.empty() && known) first = std::string(known->what);
  }
  if (names.size() == 1) return fmt::format("{} ({}; --no-assume forbids it)", first, names[0]);
  return fmt::format("{}; and {} more ({}; -v tells them, --no-assume forbids them)", first, names.size() - 1, fmt::join(names, ", "));
}

class Lines {
 public:
  explicit Lines(const Look& look) : look_(look) {}

  void header(const WholeReport& report) {
    const bool good = report.verify && report.verify->status == VerifyStatus::kEqual;
    const std::string files = printable(report.output.empty() ? report.input : fmt::format("{} -> {}", report.input, report.output));
    double seconds = 0;
    for (const auto& [stage, s] : report.stage_seconds) seconds += s;
    const std::string said = printable(verdict(report)), time = human_seconds(seconds);
    if (!good) {
      add(toned(wrapped(said, look_.width, 2), Tone::kBad, look_));
      add(wrapped(fmt::format("{}   {}", files, time), look_.width, 2));
    } else if (columns_of(files) + columns_of(said) + columns_of(time) + 6 <= look_.width) {
      add(fmt::format("{}{}{}   {}", files, files.empty() ? "" : "   ", toned(said, Tone::kGood, look_), time));
    } else {
      add(wrapped(files, look_.width, 2));
      add(toned(wrapped(fmt::format("  {}   {}", said, time), look_.width, 2), Tone::kGood, look_));
    }
  }

  void first(const std::string& text) { add(toned(wrapped(printable(text), look_.width, 2), Tone::kBad, look_)); }

  void block(const std::string& text) { text_ += wrapped_lines(printable(text), look_.width); }

  void plain(const std::string& text) { add(wrapped("  " + printable(text), look_.width, 4)); }

  void row(std::string_view label, const std::string& text, Tone tone = Tone::kLabel) {
    const std::string whole = wrapped(fmt::format("  {:<{}}{}", label, kLabel - 2, printable(text)), look_.width, kLabel);
    const std::size_t end = 2 + label.size();
    add("  " + toned(std::string_view(whole).substr(2, end - 2), tone, look_) + whole.substr(end));
  }

  std::string text() && { return std::move(text_); }

 private:
  // What belongs together in a line has spaces of its own.
  void add(std::string_view line) {
    for (std::size_t at; (at = line.find(kNoBreak)) != std::string_view::npos; line.remove_prefix(at + kNoBreak.size()))
      text_.append(line.substr(0, at)) += ' ';
    text_.append(line) += '\n';
  }
  const Look& look_;
  std::string text_;
};

}  // namespace

std::string screen(const WholeReport& report, const Look& look) {
  const OptimizeReport& r = report.optimize;
  Lines lines(look);
  if (!r.risks.empty())
    lines.first(fmt::format("taking risks as asked: {} (may change numbers; docs/assumptions.md; --no-assume all forbids it)",
                            fmt::join(r.risks, ", ")));
  lines.header(report);
  lines.plain(sizes_line(r));
  if (r.measured) lines.row("measured", measured_text(*r.measured));
  if (const std::string more = growth(r); !more.empty()) lines.row("weights", more, Tone::kBad);
  for (const std::string& warning : r.warnings) lines.row("warning", warning, Tone::kBad);
  if (r.run.stop != StopReason::kSaturated)
    lines.row("stopped", fmt::format("early: {}; what was found until then was used", to_string(r.run.stop)));
  if (report.verify)
    for (const std::string& note : report.verify->notes) lines.row("note", note);
  lines.row("found", found(r));
  if (r.refused_after && *r.refused_before + *r.refused_after > 0)
    lines.row("refused", fmt::format("{} -> {} operators that {} can't express", *r.refused_before, *r.refused_after, r.target));
  for (const OptimizeReport::Unwanted& u : r.unwanted)
    lines.row("unwanted", fmt::format("{} {} ({}): cheaper than another form or without one", u.count, u.op, u.wish));
  if (r.io_rank) lines.block(io_rank_text(*r.io_rank));
  if (!r.settled.release.empty())
    lines.row("target", fmt::format("for {}{}{}", r.settled.release, r.settled.older.empty() ? "" : "; ", r.settled.older));
  if (r.cost_of && r.cost_unit == "s") lines.row("prices", to_text(*r.cost_of));
  lines.row("needs", needs(r));
  lines.row("assumes", assumes(r));
  lines.row("more", fmt::format("-v: all operators; saturate explain {}: what was fused, and why not",
                                report.input.empty() ? "MODEL" : report.input));
  return std::move(lines).text();
}

}  // namespace saturate
