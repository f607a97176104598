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

absl::StatusOr<RuleSet> load_rules(const std::vector<std::string>& files, const RuleFilter& filter) {
  const bool none = std::find(files.begin(), files.end(), "none") != files.end();
  absl::StatusOr<RuleSet> rules = none ? RuleSet() : RuleSet::builtin();
  if (!rules.ok()) return rules;
  for (const std::string& file : files)
    if (file != "none")
      if (const absl::Status status = rules->load_file(file); !status.ok()) return status;
  return filter_rules(*rules, filter);
}

absl::StatusOr<RuleSet> filter_rules(const RuleSet& rules, const RuleFilter& filter) {
  for (const std::string& name : filter.except)
    if (!has_rule(rules, name))
      return absl::InvalidArgumentError(fmt::format("{}: no such rule to leave out; `saturate rules list` names them", name));
  const auto known = known_assumptions();
  for (const std::string& name : filter.not_assumed)
    if (name != "all" && std::none_of(known.begin(), known.end(), [&](const Assumption& a) { return a.name == name; }))
      return absl::InvalidArgumentError(fmt::format("{}: no such assumption; `saturate optimize --help` names them", name));
  return rules.filtered(filter);
}

absl::StatusOr<Setup> set_up(const SaturateArgs& args, const ShapeArgs& shapes) {
  RuleFilter filter;
  filter.approximates = args.approximate;
  filter.except = args.skip_rules;
  filter.not_assumed = args.not_assumed;
  absl::StatusOr<RuleSet> rules = load_rules(args.rules, filter);
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
  options.extractor = args.extractor;
  return options;
}

}  // namespace saturate
