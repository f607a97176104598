#include <algorithm>

#include "fmt/format.h"
#include "tools/cli.h"

namespace saturate {
namespace {

bool has_rule(const RuleSet& rules, const std::string& name) {
  const auto native = rules.native_rules();
  return rules.find(name) || std::any_of(native.begin(), native.end(), [&](const NativeRule& rule) { return rule.name == name; });
}

}  // namespace

absl::StatusOr<RuleSet> load_rules(const std::vector<std::string>& files, const std::vector<std::string>& skip, bool approximate) {
  const bool none = std::find(files.begin(), files.end(), "none") != files.end();
  absl::StatusOr<RuleSet> rules = none ? RuleSet() : RuleSet::builtin();
  if (!rules.ok()) return rules;
  for (const std::string& file : files)
    if (file != "none")
      if (const absl::Status status = rules->load_file(file); !status.ok()) return status;
  return filter_rules(*rules, skip, approximate);
}

absl::StatusOr<RuleSet> filter_rules(const RuleSet& rules, const std::vector<std::string>& skip, bool approximate) {
  for (const std::string& name : skip)
    if (!has_rule(rules, name))
      return absl::InvalidArgumentError(fmt::format("{}: no such rule to leave out; `saturate rules list` names them", name));
  RuleFilter filter;
  filter.approximates = approximate;
  filter.except = skip;
  return rules.filtered(filter);
}

absl::StatusOr<Setup> set_up(const SaturateArgs& args, const ShapeArgs& shapes) {
  absl::StatusOr<RuleSet> rules = load_rules(args.rules, args.skip_rules, args.approximate);
  if (!rules.ok()) return rules.status();
  absl::StatusOr<Target> target = load_target(args.target);
  if (!target.ok()) return target.status();
  absl::StatusOr<Sizes> sizes = parse_sizes(shapes.dims);
  if (!sizes.ok()) return sizes.status();
  CostOptions options;
  options.symbols = *std::move(sizes);
  absl::StatusOr<std::unique_ptr<CostModel>> cost = load_cost_model(args.cost.empty() ? target->cost_model : args.cost, options);
  if (!cost.ok()) return cost.status();
  return Setup{*std::move(rules), *std::move(target), *std::move(cost)};
}

OptimizeOptions optimize_options(const SaturateArgs& args, const CommonArgs& common) {
  OptimizeOptions options;
  options.limits = args.limits;
  options.limits.threads = common.threads;
  options.limits.cancel = common.cancel;
  options.opset = args.opset;
  options.keep_opset = args.keep_opset;
  return options;
}

}  // namespace saturate
