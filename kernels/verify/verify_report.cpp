#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/verify/verify.h"

namespace saturate {

std::string_view to_string(CaseKind kind) {
  switch (kind) {
    case CaseKind::kUsual:
      return "usual";
    case CaseKind::kFar:
      return "far from 0";
    case CaseKind::kSpecial:
      return "with NaN and infinities";
    case CaseKind::kEmpty:
      return "empty";
    case CaseKind::kQuiet:
      return "near 0";
    case CaseKind::kEdges:
      return "at constants and ties";
    case CaseKind::kQuantized:
      return "at the edges of quantizers";
    case CaseKind::kSwitched:
      return "with other flags and padding";
    case CaseKind::kVaried:
      return "with other defaults, absent inputs and lengths of sequences";
    case CaseKind::kLong:
      return "long";
    case CaseKind::kGiven:
      return "given";
  }
  return "?";
}

double VerifyReport::max_abs() const {
  double largest = 0;
  for (const VerifyCase& c : cases)
    for (const OutputComparison& o : c.outputs)
      if (!o.random) largest = std::max(largest, o.max_abs);
  return largest;
}

std::string why_not_judged(const VerifyReport& report) {
  if (!report.no_judge.empty()) return report.no_judge;
  for (const VerifyReport::Judged& j : report.judged)
    if (j.verdict == JudgeVerdict::kNotJudged) return fmt::format("not judged in {}: {}", j.name, j.message);
  return "";
}

std::string judges_of(const VerifyReport& report) {
  std::vector<std::string> where;
  for (const VerifyReport::Judged& j : report.judged)
    if (j.verdict == JudgeVerdict::kEqual) where.push_back(j.name);
  if (report.runtime.empty())
    where.push_back(where.empty() && !why_not_judged(report).empty() ? "here only" : "here");
  else if (where.empty())
    where.push_back(report.runtime);
  return fmt::format("{}{}", where.front().starts_with("here") ? "" : "in ", fmt::join(where, " and "));
}

std::string judged_by(const VerifyReport& report) {
  const std::string why_not = why_not_judged(report), out = judges_of(report);
  return why_not.empty() ? out : fmt::format("{} ({})", out, why_not);
}

namespace {

// How much of what is allowed an output takes; exact ones that differ are allowed to by what the original itself does.
double share_of(const OutputComparison& o) {
  if (o.step > 0) return o.steps;
  return o.max_abs == 0 ? 0 : o.tolerance > 0 ? o.nearest / o.tolerance : 1;
}

}  // namespace

const OutputComparison* worst_output(const VerifyReport& report) {
  const OutputComparison* worst = nullptr;
  for (const VerifyCase& c : report.cases)
    for (const OutputComparison& o : c.outputs)
      if (!o.random && share_of(o) > 0 && (!worst || share_of(o) > share_of(*worst))) worst = &o;
  return worst;
}

std::string difference_text(const VerifyReport& report) {
  const OutputComparison* worst = worst_output(report);
  if (!worst) return "no difference";
  if (worst->step > 0)
    return fmt::format("largest difference {:.3g} step{} of {:.2g}", worst->steps, worst->steps > 1.02 ? "s" : "", worst->step);
  if (worst->tolerance <= 0) return fmt::format("largest difference {:.2g}, as the original from itself", worst->max_abs);
  return fmt::format("largest difference {:.1e} of {:.2g}, allowed {:.1e}", worst->nearest, worst->scale, worst->tolerance);
}

std::string to_string(const Sizes& sizes) {
  constexpr std::size_t kMost = 16;  // a model compared in parts may have thousands
  std::vector<std::string> parts;
  for (const auto& [symbol, size] : sizes) {
    parts.push_back(parts.size() < kMost ? fmt::format("{}={}", symbol, size) : fmt::format("and {} more sizes", sizes.size() - kMost));
    if (parts.size() > kMost) break;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string_view advice_unverified(const VerifyReport& report) {
  // Inputs do not make a kernel that is missing.
  if (report.status == VerifyStatus::kNotRun) return "nothing was written; --no-verify goes on without, --inputs gives inputs";
  return report.runtime.empty() ? "nothing was written; --runtime onnxruntime verifies there, --no-verify goes on without"
                                : "nothing was written; --no-verify goes on without";
}

}  // namespace saturate
