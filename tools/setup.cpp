#include "tools/cli.h"

namespace saturate {

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
