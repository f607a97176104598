#include "extract/optimize/prediction.h"

#include <algorithm>
#include <cmath>

#include "extract/optimize/optimize.h"
#include "extract/optimize/stages.h"
#include "extract/prepare/own_operators.h"
#include "fmt/format.h"
#include "kernels/runtime/runtime.h"

namespace saturate {
namespace {

// Three digits, as people read them.
std::string digits(double x) { return std::abs(x) >= 99.95 ? fmt::format("{:.0f}", x) : fmt::format("{:.3g}", x); }

struct Scale {
  std::string_view unit;
  double factor;
};
Scale scale_of(double cost, std::string_view unit) {
  if (unit != "s") return {unit, 1};
  return cost < 0.9995e-3 ? Scale{"us", 1e6} : cost < 0.9995 ? Scale{"ms", 1e3} : Scale{"s", 1};
}

std::string unit_after(const Scale& scale) { return scale.unit.empty() ? "" : fmt::format(" {}", scale.unit); }

std::string with_unit(double cost, const Scale& scale) { return digits(cost * scale.factor) + unit_after(scale); }

// "-33 to -43 %", "too close to predict" where the error of predictions is larger, "-38 %" of what is counted; "" where nothing changes.
std::string change_of(const Prediction& p, std::string_view space) {
  const auto percent = [](double ratio) {
    const std::string text = fmt::format("{:+.0f}", 100 * (ratio - 1));
    return text == "-0" || text == "+0" ? std::string("0") : text;
  };
  if (!p.original_runs) return "the model as it came can't run there; ";
  if (p.before <= 0 || p.after == p.before) return "";
  if (!p.ratio) return fmt::format("{}{}%; ", percent(p.after / p.before), space);
  const auto [least, most] = *p.ratio;
  if (least < 1 && most > 1) return "too close to predict; ";
  return fmt::format("{0}{2}to{2}{1}{2}%; ", percent(most < 1 ? most : least), percent(most < 1 ? least : most), space);
}

// "680 -> 374", or "374" where there is nothing to compare with.
std::string both_costs(const Prediction& p, const Scale& scale) {
  const std::string after = digits(p.after * scale.factor);
  return p.original_runs ? fmt::format("{} -> {}", digits(p.before * scale.factor), after) : after;
}

Scale scale_of(const Prediction& p) { return scale_of(p.original_runs ? p.before : p.after, p.unit); }

constexpr std::size_t kMostSizes = 4;  // symbols that are named

}  // namespace

Prediction prediction_of(const OptimizeReport& r) {
  return {r.cost_before,   r.cost_after,  r.cost_ratio,
          r.cost_model,    r.cost_unit,   r.target,
          r.assumed_sizes, r.cost_points, r.refused_before.value_or(0) <= r.refused_after.value_or(0)};
}

absl::StatusOr<AtLoad> predicted_price(const Model& model, const RuleSet& rules, const Target& target, const CostModel& cost,
                                       const AssumedSizes& assumed) {
  const auto evaluator = make_evaluator();
  const OwnOperators own = own_operators(model, rules, target);
  const OptimizeOptions options;
  std::map<std::string, double> seconds;
  AssumedSizes sizes = assumed;
  const Task task{rules, target, cost, options, *evaluator, own, target.newest_opset_with(graph_stats(model).operators), sizes, seconds};
  return load(model, task);
}

std::string cost_text(double cost, std::string_view unit) { return with_unit(cost, scale_of(cost, unit)); }

std::pair<std::string, std::string> cost_texts(double before, double after, std::string_view unit) {
  const Scale scale = scale_of(before, unit);
  return {with_unit(before, scale), with_unit(after, scale)};
}

std::string sizes_text(const AssumedSizes& assumed, const std::vector<CostPoint>& given) {
  std::string out;
  if (given.size() == 1) {
    std::size_t shown = 0;
    for (const auto& [symbol, size] : given[0].symbols)
      if (shown++ < kMostSizes) out += fmt::format("{}{}={}", shown > 1 ? ", " : "at ", symbol, size);
    if (shown > kMostSizes) out += ", ...";
  } else if (given.size() > 1) {
    out = fmt::format("{} sizes of --cost-at, weighted", given.size());
  }
  std::string rest;
  std::size_t shown = 0;
  for (const auto& [symbol, size] : assumed) {
    if (shown++ >= kMostSizes) continue;
    rest += fmt::format("{}{}={}", shown > 1 ? ", " : "", symbol, size.size);
    if (!size.what.empty()) rest += fmt::format(" ({})", size.what);
  }
  if (shown > kMostSizes) rest += ", ...";
  if (rest.empty()) return out;
  return fmt::format("{}{}sizes assumed: {}, --cost-at sets them", out, out.empty() ? "" : "; ", rest);
}

std::string brief_prediction(const Prediction& p) {
  const Scale scale = scale_of(p);
  std::string change = change_of(p, " ");
  if (change.empty()) return fmt::format("{} predicted", with_unit(p.after, scale));
  change = change.starts_with("too close") ? "too close to tell" : change.substr(0, change.size() - 2);  // without "; "
  return fmt::format("{}{} predicted ({})", both_costs(p, scale), unit_after(scale), change);
}

std::string predicted_text(const Prediction& p, std::string_view space) {
  if (p.unit == "operators") return fmt::format("no times predicted (--cost {} counts operators; {})", p.cost_model, p.target);
  const Scale scale = scale_of(p);
  const std::string sizes = sizes_text(p.assumed, p.given);
  return fmt::format("{}{} predicted ({}{}{}{})", both_costs(p, scale), unit_after(scale), change_of(p, space), p.target,
                     sizes.empty() ? "" : "; ", sizes);
}

}  // namespace saturate
