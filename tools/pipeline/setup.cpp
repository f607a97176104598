#include "tools/pipeline/setup.h"

#include <algorithm>

#include "fmt/format.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/failure.h"

namespace saturate {
namespace {

absl::Status unfit(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

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
  for (const auto& stored : rules->stored())
    if (const std::string better(stored->head().yields_to); !better.empty() && !has_rule(*rules, better))
      return absl::InvalidArgumentError(
          fmt::format("rule {} yields to {}, which is no rule; `saturate rules list` names them", stored->head().name, better));
  return filter_rules(*std::move(rules), filter);
}

void replace_symbol(std::vector<ValueInfo>& infos, const std::string& symbol, std::int64_t size) {
  for (ValueInfo& info : infos) {
    if (!info.type.shape) continue;
    for (DimSpec& dim : *info.type.shape) {
      if (dim != DimSpec(symbol)) continue;
      dim = size;
      info.origin = nullptr;
    }
  }
}

absl::Status fix_dim(Model& model, ValueInfo& input, std::size_t axis, std::int64_t size) {
  DimSpec& dim = (*input.type.shape)[axis];
  if (const auto* number = std::get_if<std::int64_t>(&dim)) {
    if (*number == size) return absl::OkStatus();
    return unfit(fmt::format("input '{}': dim {} is {} in the model and can't become {}; export the model with a dynamic dim", input.name,
                             axis, *number, size));
  }
  if (const auto* name = std::get_if<std::string>(&dim)) {
    const std::string symbol = *name;
    for (auto* infos : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info}) replace_symbol(*infos, symbol, size);
    return absl::OkStatus();
  }
  dim = size;
  input.origin = nullptr;
  return absl::OkStatus();
}

// An input whose rank the model leaves open gets the user's.
void give_rank(ValueInfo& input, std::size_t rank) {
  if (input.type.kind != ValueType::Kind::kTensor || input.type.shape) return;
  input.type.shape.emplace(rank);
  input.origin = nullptr;
}

}  // namespace

std::string error_line(std::string_view place, std::string_view message, std::string_view advice) {
  std::string line;
  if (!place.empty() && !message.starts_with(place)) line = fmt::format("{}: ", place);
  line += message;
  if (!advice.empty() && message.find(';') == std::string_view::npos) line += fmt::format("; {}", advice);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return printable(line);
}

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

void fit_to_target(RuleFilter& filter, const Target& target) {
  if (!filter.effects.within_one_step) filter.effects.within_one_step = !target.node_units.empty();
  filter.assumptions.assumed.insert(filter.assumptions.assumed.end(), target.assumes.begin(), target.assumes.end());
}

absl::StatusOr<Setup> set_up(const SetupOptions& options) {
  absl::StatusOr<Target> target = load_target(options.target);
  if (!target.ok()) return target.status();
  for (const std::string& wish : options.prefer)
    if (absl::Status s = add_wishes(wish, *target); !s.ok()) return s;
  RuleFilter filter = options.filter;
  fit_to_target(filter, *target);
  absl::StatusOr<RuleSet> rules = load_rules(options.rule_files, filter, false);
  if (!rules.ok()) return rules.status();
  absl::StatusOr<std::unique_ptr<CostModel>> cost =
      load_cost_model(options.cost.empty() ? target->cost_model : options.cost, options.cost_options);
  if (!cost.ok()) return cost.status();
  return Setup{*std::move(rules), *std::move(target), *std::move(cost), filter.assumptions.risks()};
}

absl::Status check_not_empty(const GivenShapes& shapes) {
  if (shapes.allow_empty) return absl::OkStatus();
  const char* advice = "a size of 0 leaves nothing to compute; --allow-empty takes it all the same";
  for (const auto& [symbol, size] : shapes.dims)
    if (size == 0) return unfit(fmt::format("--dim {}=0: {}", symbol, advice));
  for (const auto& [name, dims] : shapes.input_shapes)
    if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return unfit(fmt::format("--input-shapes {}: {}", name, advice));
  return absl::OkStatus();
}

absl::Status fix_shapes(Model& model, const GivenShapes& shapes) {
  if (absl::Status s = check_not_empty(shapes); !s.ok()) return s;
  for (const auto& [symbol, size] : shapes.dims)
    for (auto* infos : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info}) replace_symbol(*infos, symbol, size);
  for (const auto& [name, dims] : shapes.input_shapes) {
    const auto input =
        std::find_if(model.graph.inputs.begin(), model.graph.inputs.end(), [&](const ValueInfo& v) { return v.name == name; });
    if (input == model.graph.inputs.end()) return unfit(fmt::format("the model has no input '{}'; `saturate inspect` lists them", name));
    give_rank(*input, dims.size());
    if (!input->type.shape || input->type.shape->size() != dims.size())
      return unfit(fmt::format("input '{}' has rank {}, not {}; `saturate inspect` shows its shape", name,
                               input->type.shape ? fmt::format("{}", input->type.shape->size()) : "unknown", dims.size()));
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] < 0) continue;
      if (absl::Status status = fix_dim(model, *input, axis, dims[axis]); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace saturate
