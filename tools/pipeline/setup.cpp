#include "tools/pipeline/setup.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "extract/target/quantizers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/io/dims.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/failure.h"

namespace saturate {
namespace {

absl::Status unfit(const std::string& message) { return wrong_usage(message); }

bool has_rule(const RuleSet& rules, const std::string& name) {
  const auto native = rules.native_rules();
  return rules.find(name) || std::any_of(native.begin(), native.end(), [&](const NativeRule& rule) { return rule.name == name; });
}

absl::StatusOr<RuleSet> load_rules(const std::vector<std::string>& files, const RuleFilter& filter, bool examples) {
  const bool none = std::find(files.begin(), files.end(), "none") != files.end();
  absl::StatusOr<RuleSet> rules = none ? RuleSet() : RuleSet::builtin(examples);
  if (!rules.ok()) return rules;
  for (const std::string& file : files)
    if (file != "none" && std::filesystem::is_directory(file))
      return absl::InvalidArgumentError(file + ": a folder; name its .rules files, --rules is repeated");
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

// `declared`: the dim as the model has it.
absl::Status fix_dim(Model& model, ValueInfo& input, std::size_t axis, std::int64_t size, const DimSpec& declared) {
  DimSpec& dim = (*input.type.shape)[axis];
  if (const auto* number = std::get_if<std::int64_t>(&dim)) {
    if (*number == size) return absl::OkStatus();
    if (const auto* symbol = std::get_if<std::string>(&declared))
      return unfit(fmt::format("input '{}': dim {} is '{}', which is {} by another option and can't be {}, too; give it one size",
                               input.name, axis, *symbol, *number, size));
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

// Inputs that have no default value.
std::vector<std::string> fed_inputs(const Graph& graph) {
  std::set<std::string_view> defaults;
  for (const Initializer& i : graph.initializers) defaults.insert(i.name);
  std::vector<std::string> out;
  for (const ValueInfo& input : graph.inputs)
    if (!defaults.contains(input.name)) out.push_back(input.name);
  return out;
}

std::string shape_text(const std::vector<DimSpec>& shape) {
  std::vector<std::string> dims;
  for (const DimSpec& dim : shape) dims.push_back(dim_text(dim));
  return fmt::format("[{}]", fmt::join(dims, ", "));
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

std::string no_such_rule(const RuleSet& rules, const std::string& name) {
  std::set<std::string> known;
  for (const auto& stored : rules.stored()) known.emplace(law_of(stored->head().name));
  for (const NativeRule& rule : rules.native_rules()) known.insert(rule.name);
  return fmt::format("no such rule; {}", what_instead(name, {known.begin(), known.end()}, "`saturate rules list` names them"));
}

namespace {

// The made operators that a fused one may be meant by: without domain, and without those between rules.
std::vector<std::string> fusions(const std::vector<std::string>& made) {
  std::vector<std::string> out;
  for (const std::string& name : made)
    if (!name.starts_with("saturate.")) out.push_back(without_domain(name));
  return out;
}

bool makes(const std::vector<std::string>& made, const std::string& op) {
  return std::any_of(made.begin(), made.end(), [&](const std::string& name) { return name == op || name.ends_with("." + op); });
}

}  // namespace

absl::StatusOr<RuleSet> filter_rules(RuleSet rules, const RuleFilter& filter) {
  for (const std::string& name : filter.except)
    if (!has_rule(rules, name))
      return wrong_usage(makes(rules.made_operators(), name)
                             ? fmt::format("{}: no rule, but an operator; --skip-fusion {} leaves out the rules that make it", name, name)
                             : fmt::format("{}: {}", name, no_such_rule(rules, name)));
  if (!filter.not_made.empty()) {
    const std::vector<std::string> made = rules.made_operators();
    for (const std::string& op : filter.not_made)
      if (!makes(made, op))
        return wrong_usage(fmt::format(
            "--skip-fusion {}: no rule makes such an operator; {}", op,
            has_rule(rules, op) ? fmt::format("it is a rule: --skip-rule {} leaves it out", op) : what_instead(op, fusions(made))));
  }
  if (const auto unknown = filter.assumptions.unknown()) return absl::InvalidArgumentError(*unknown);  // of a target file
  return std::move(rules).filtered(filter);
}

void fit_to_target(RuleFilter& filter, Target& target) {
  const EffectChoice& effects = filter.effects;
  if (target.keeps_quantizers == "unless_approximate" &&
      (effects.approximates || effects.rescales || effects.within_one_step.value_or(false)))
    target.keeps_quantizers.clear();
  if (!filter.effects.within_one_step) filter.effects.within_one_step = !target.node_units.empty();
  if (target.for_quantizers) filter.readers = known_to_quantizers();
  filter.assumptions.assumed.insert(filter.assumptions.assumed.end(), target.assumes.begin(), target.assumes.end());
}

absl::StatusOr<Setup> set_up(const SetupOptions& options) {
  absl::StatusOr<SettledTarget> settled = settle_target(options.target, options.onnxruntime);
  if (!settled.ok()) return settled.status();
  absl::StatusOr<Target> target = load_target(settled->given);
  if (!target.ok()) return target.status();
  for (const std::string& wish : options.prefer)
    if (absl::Status s = add_wishes(wish, *target); !s.ok()) return s;
  if (const auto unknown = options.filter.assumptions.unknown()) return wrong_usage(*unknown);
  target->keep_functions |= options.keep_functions;
  if (std::ranges::find(options.prefer, kQuantizable) != options.prefer.end()) leave_to_quantizers(*target);
  RuleFilter filter = options.filter;
  fit_to_target(filter, *target);
  absl::StatusOr<RuleSet> rules = load_rules(options.rule_files, filter, false);
  if (!rules.ok()) return rules.status();
  absl::StatusOr<std::unique_ptr<CostModel>> cost =
      load_cost_model(options.cost.empty() ? target->cost_model : options.cost, options.cost_options);
  if (!cost.ok()) return cost.status();
  return Setup{*std::move(rules), *std::move(target), *std::move(cost), filter.assumptions.risks(), *std::move(settled)};
}

absl::Status check_not_empty(const GivenShapes& shapes) {
  const auto check = [&](const std::string& option, std::int64_t size) {
    if (size == 0 && !shapes.allow_empty)
      return unfit(fmt::format("{}: a size of 0 leaves nothing to compute; --allow-empty takes it all the same", option));
    return size <= kLargestSize ? absl::OkStatus() : unfit(fmt::format("{}: {} is no size; give 1 to {}", option, size, kLargestSize));
  };
  for (const auto& [symbol, size] : shapes.dims)
    if (absl::Status s = check(fmt::format("--dim {}={}", symbol, size), size); !s.ok()) return s;
  for (const auto& [name, dims] : shapes.input_shapes)
    for (const std::int64_t size : dims)
      if (absl::Status s = check("--input-shapes " + name, size); !s.ok()) return s;
  return absl::OkStatus();
}

absl::StatusOr<GivenShapes> fitting(GivenShapes shapes, const Model& model) {
  if (absl::Status s = check_not_empty(shapes); !s.ok()) return s;
  const std::set<std::string> named = symbols_of(model.graph);
  const std::vector<std::string> symbols(named.begin(), named.end()), inputs = fed_inputs(model.graph);
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& [symbol, size] : shapes.dims)
    if (!shapes.of_several_models && !named.contains(symbol))
      return unfit(fmt::format("--dim {}={}: the model has no symbolic dim '{}'; {}", symbol, size, symbol, what_instead(symbol, symbols)));
  for (auto& [name, dims] : shapes.input_shapes) {
    if (name.empty() && inputs.size() != 1)
      return unfit(fmt::format("--input-shapes {}: of which input? Write NAME:{}; {}", fmt::join(dims, ","), fmt::join(dims, ","),
                               what_instead("", inputs)));
    if (name.empty()) name = inputs[0];
    const bool known = is_in(inputs, name) || std::any_of(model.graph.inputs.begin(), model.graph.inputs.end(),
                                                          [&, &given = name](const ValueInfo& v) { return v.name == given; });
    if (!known) return unfit(fmt::format("the model has no input '{}'; {}", name, what_instead(name, inputs)));
  }
  return shapes;
}

absl::Status fix_shapes(Model& model, const GivenShapes& given) {
  const absl::StatusOr<GivenShapes> shapes = fitting(given, model);
  if (!shapes.ok()) return shapes.status();
  const std::vector<ValueInfo> declared = model.graph.inputs;
  for (const auto& [symbol, size] : shapes->dims)
    for (auto* infos : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info}) replace_symbol(*infos, symbol, size);
  for (const auto& [name, dims] : shapes->input_shapes) {
    const auto input =
        std::find_if(model.graph.inputs.begin(), model.graph.inputs.end(), [&](const ValueInfo& v) { return v.name == name; });
    give_rank(*input, dims.size());
    if (!input->type.shape || input->type.shape->size() != dims.size())
      return unfit(fmt::format("input '{}' has rank {}, not {}; its shape is {}", name,
                               input->type.shape ? fmt::format("{}", input->type.shape->size()) : "unknown", dims.size(),
                               input->type.shape ? shape_text(*input->type.shape) : "that of no tensor"));
    const auto& before = declared[static_cast<std::size_t>(input - model.graph.inputs.begin())].type.shape;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] < 0) continue;
      const DimSpec was = before ? (*before)[axis] : DimSpec{};
      if (absl::Status status = fix_dim(model, *input, axis, dims[axis], was); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace saturate
