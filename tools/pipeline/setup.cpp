#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "fmt/format.h"
#include "tools/cli/cli.h"

namespace saturate {
namespace {

bool has_rule(const RuleSet& rules, const std::string& name) {
  const auto native = rules.native_rules();
  return rules.find(name) || std::any_of(native.begin(), native.end(), [&](const NativeRule& rule) { return rule.name == name; });
}

absl::StatusOr<RuleSet> load_rules(const std::vector<std::string>& files, const RuleFilter& filter, bool examples) {
  const bool none = std::find(files.begin(), files.end(), "none") != files.end();
  absl::StatusOr<RuleSet> rules = none ? RuleSet() : RuleSet::builtin(examples);
  if (!rules.ok()) return rules;
  for (const std::string& file : files)
    if (file != "none")
      if (const absl::Status status = rules->load_file(file); !status.ok()) return status;
  return filter_rules(*std::move(rules), filter);
}

}  // namespace

absl::StatusOr<RuleSet> load_rules(const std::vector<std::string>& files, const RuleFilter& filter) {
  return load_rules(files, filter, true);
}

absl::StatusOr<RuleSet> filter_rules(RuleSet rules, const RuleFilter& filter) {
  for (const std::string& name : filter.except)
    if (!has_rule(rules, name))
      return absl::InvalidArgumentError(fmt::format("{}: no such rule to leave out; `saturate rules list` names them", name));
  if (const auto unknown = filter.assumptions.unknown()) return absl::InvalidArgumentError(*unknown);
  return std::move(rules).filtered(filter);
}

// SYMBOL=SIZE,SYMBOL=SIZE:WEIGHT.
absl::StatusOr<std::vector<CostPoint>> parse_cost_points(const std::vector<std::string>& texts) {
  std::vector<CostPoint> out;
  for (const std::string& text : texts) {
    CostPoint point;
    const std::size_t colon = text.rfind(':');
    std::vector<std::string> dims;
    for (std::size_t at = 0, end = std::min(colon, text.size()); at < end;) {
      const std::size_t comma = std::min(text.find(',', at), end);
      dims.push_back(text.substr(at, comma - at));
      at = comma + 1;
    }
    absl::StatusOr<Sizes> sizes = parse_sizes(dims);
    if (colon != std::string::npos) {
      const std::string weight = text.substr(colon + 1);
      char* end = nullptr;
      point.weight = std::strtod(weight.c_str(), &end);
      if (weight.empty() || *end != 0 || !(point.weight > 0) || !std::isfinite(point.weight))
        return absl::InvalidArgumentError(fmt::format("--cost-at {}: '{}' is no weight above 0", text, weight));
    }
    if (!sizes.ok() || sizes->empty())
      return absl::InvalidArgumentError(fmt::format("--cost-at {}: not SYMBOL=SIZE,...[:WEIGHT]; write e.g. batch=1,seq=128:0.7", text));
    point.symbols = *std::move(sizes);
    out.push_back(std::move(point));
  }
  return out;
}

absl::StatusOr<Setup> set_up(const SaturateArgs& args, const ShapeArgs& shapes) {
  RuleFilter filter;
  filter.approximates = args.approximate;
  filter.except = args.skip_rules;
  filter.assumptions = {args.assumed, args.not_assumed};
  absl::StatusOr<Target> target = load_target(args.target);
  if (!target.ok()) return target.status();
  filter.assumptions.assumed.insert(filter.assumptions.assumed.end(), target->assumes.begin(), target->assumes.end());
  absl::StatusOr<RuleSet> rules = load_rules(args.rules, filter, false);
  if (!rules.ok()) return rules.status();
  absl::StatusOr<Sizes> sizes = parse_sizes(shapes.dims);
  if (!sizes.ok()) return sizes.status();
  CostOptions options;
  options.symbols = *std::move(sizes);
  absl::StatusOr<std::vector<CostPoint>> points = parse_cost_points(args.cost_at);
  if (!points.ok()) return points.status();
  options.points = *std::move(points);
  absl::StatusOr<std::unique_ptr<CostModel>> cost = load_cost_model(args.cost.empty() ? target->cost_model : args.cost, options);
  if (!cost.ok()) return cost.status();
  return Setup{*std::move(rules), *std::move(target), *std::move(cost), filter.assumptions.risks()};
}

OptimizeOptions optimize_options(const SaturateArgs& args, const CommonArgs& common) {
  OptimizeOptions options;
  options.limits = args.limits;
  options.limits.threads = common.threads;
  options.limits.cancel = common.cancel;
  options.opset = args.opset;
  options.keep_opset = args.keep_opset;
  options.extractor = args.extractor;
  options.memory_slack = args.memory_slack;
  std::set<std::string> names;
  if (const auto points = parse_cost_points(args.cost_at); points.ok())
    for (const CostPoint& point : *points)
      for (const auto& [name, size] : point.symbols) names.insert(name);
  options.cost_symbols.assign(names.begin(), names.end());
  return options;
}

}  // namespace saturate
