#include "rules/check/check_run.h"
#include "rules/terms/literals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace saturate {
namespace {

std::vector<double> reals_of(const RuleConstant& c) {
  std::vector<double> reals;
  for (std::size_t i = 0; i < c.size(); ++i) reals.push_back(c.real(i));
  return reals;
}

absl::StatusOr<Tensor> tensor_of(const RuleConstant& c, DType dtype) {
  return tensor_of_reals(dtype, c.list ? Shape{static_cast<std::int64_t>(c.size())} : Shape{}, reals_of(c));
}

}  // namespace

Id InstanceFacts::add(const Tensor& t, bool constant) {
  values_.emplace_back(t);
  Facts f = facts_of_tensor(t, dims_);
  if (!constant) {
    f.constant = false;
    f.value.reset();
    f.content.reset();
    f.counts_from.reset();
  }
  facts_.push_back(std::move(f));
  return static_cast<Id>(facts_.size() - 1);
}

Id InstanceFacts::add_absent() {
  values_.emplace_back();
  facts_.emplace_back().kind = Facts::Kind::kAbsent;
  return static_cast<Id>(facts_.size() - 1);
}

std::optional<Tensor> InstanceFacts::value(Id id, std::size_t max_bytes) const {
  const auto& v = facts_[id].value;
  return v && v->bytes().size() <= std::max<std::size_t>(max_bytes, 1 << 16) ? v : std::nullopt;
}

std::optional<Dim> InstanceFacts::lower_triangle(Id id) const {
  const auto& value = values_[id];
  const auto n = value ? saturate::lower_triangle(*value) : std::nullopt;
  return n ? std::optional(dims_.constant(*n)) : std::nullopt;
}

bool InstanceFacts::is_zero_or_one(Id id) const { return values_[id] && holds_zeros_and_ones(*values_[id]); }

bool InstanceFacts::may_be_mask(Id id) const { return is_zero_or_one(id); }

bool InstanceFacts::hides_by_infinity(Id id) const { return values_[id] && holds_minus_infinity(*values_[id]); }

std::optional<Magnitudes> InstanceFacts::magnitudes(Id id) const {
  return values_[id] ? std::optional(magnitudes_of(*values_[id])) : std::nullopt;
}

std::optional<Fills> InstanceFacts::fills(Id id) const { return values_[id] ? std::optional(fills_of_tensor(*values_[id])) : std::nullopt; }

bool InstanceFacts::is_above_lowest(Id id) const { return values_[id] && saturate::is_above_lowest(fills(id), values_[id]->dtype()); }

bool InstanceFacts::hides_by_numbers(Id id) const { return values_[id] && saturate::hides_by_numbers(fills(id), values_[id]->dtype()); }

bool InstanceFacts::is_count(Id id) const {
  const auto found = values_[id] && is_integer(values_[id]->dtype()) ? fills(id) : std::nullopt;
  return found && found->largest <= kMostCounted;
}

namespace {

double tolerance_of_floats(const Rule& rule, DType dtype) {
  if (rule.effect == Effect::kExact && !rule.tolerance) return 0;
  const double declared = rule.tolerance.value_or(0);
  if (dtype == DType::kFloat16) return std::max(declared, 2e-2);
  if (dtype == DType::kBfloat16) return std::max(declared, 1e-1);
  if (dtype != DType::kFloat && dtype != DType::kDouble) return std::max(declared, 0.5);
  if (declared > 0) return declared;
  return rule.effect == Effect::kApproximates                                        ? 1e-2
         : rule.effect == Effect::kWithinOneStep || rule.effect == Effect::kRescales ? 1e-5
                                                                                     : 1e-4;
}

}  // namespace

Allowed allowed_by(const Rule& rule, DType dtype) {
  if (!is_floating(dtype)) {  // in steps
    if (rule.effect == Effect::kWithinOneStep) return {1, rule.share.value_or(kMostMoved)};
    if (rule.effect == Effect::kRescales) return {1};
    return {rule.effect == Effect::kApproximates ? rule.tolerance.value_or(0) : 0};
  }
  return {tolerance_of_floats(rule, dtype)};
}

absl::StatusOr<std::vector<Value>> RuleRunner::run_node(const RuleNode& node, const Values& values,
                                                        const std::map<std::string, RuleConstant>& constants,
                                                        const Environment& environment) const {
  const OpSchema* schema = schema_for_rule(defined_, node.domain, node.op_type);
  Node call;
  call.op_type = node.op_type;
  call.domain = node.domain;
  call.inputs = node.inputs;
  call.outputs = node.outputs;
  for (std::string& name : call.outputs)
    if (name.empty()) name = "unused";
  for (const RuleAttribute& a : node.attributes) {
    if (a.kind == RuleAttribute::Kind::kAny) continue;
    auto made = attribute_from(a, environment);
    if (absl::IsNotFound(made.status())) continue;
    if (!made.ok()) return made.status();
    call.attributes.push_back(*std::move(made));
  }
  std::vector<Value> inputs(node.inputs.size());
  std::vector<DType> dtypes(node.inputs.size(), DType::kUndefined);
  for (bool numbers : {false, true})
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = node.inputs[i];
      const auto constant = constants.find(name);
      if (name.empty() || (constant != constants.end()) != numbers) continue;
      if (numbers) {
        const auto wanted = wanted_dtype(schema, i, dtypes, constant->second.integers ? DType::kInt64 : DType::kFloat);
        if (!wanted) return absl::FailedPreconditionError(fmt::format("no dtype fits the constant {} of {}", name, node.op_type));
        auto t = tensor_of(constant->second, *wanted);
        if (!t.ok()) return absl::FailedPreconditionError(t.status().message());
        inputs[i] = Value(*std::move(t));
      } else if (const auto it = values.find(name); it != values.end()) {
        inputs[i] = it->second;
      }
      if (inputs[i].is_tensor()) dtypes[i] = inputs[i].tensor().dtype();
    }
  // A list that the rule computes is the literal of a shape: a 0 is a size of 0.
  const auto shape = node.op_type == "Reshape" && node.domain.empty() ? constants.find(node.inputs[1]) : constants.end();
  if (shape != constants.end() && environment.find(node.inputs[1]) && !node.attribute("allowzero") &&
      !std::count(shape->second.ints.begin(), shape->second.ints.end(), -1))
    call.attributes.push_back(Attribute::of("allowzero", std::int64_t{1}));
  std::string why;
  if (schema && !dtypes_fit(*schema, dtypes, &why)) return absl::FailedPreconditionError(why);
  auto outputs = run_operator_of_rule(evaluator_, defined_, call, inputs);
  if (!outputs.ok())
    return absl::Status(outputs.status().code(), fmt::format("{}: {}", node.op_type, std::string(outputs.status().message())));
  return outputs;
}

absl::StatusOr<RuleRunner::Values> RuleRunner::run_side(const std::vector<RuleNode>& nodes, Values values, const Environment& environment,
                                                        const std::map<std::string, DType>& output_dtypes) const {
  std::map<std::string, RuleConstant> constants;
  for (const auto& [name, value] : environment.entries())
    if (auto c = constant_of(value); c && !values.contains(std::string(name))) constants[std::string(name)] = *c;
  const auto output_dtype = [&](const std::string& name, const RuleConstant& c) {
    const auto it = output_dtypes.find(name);
    return it != output_dtypes.end() ? it->second : c.integers ? DType::kInt64 : DType::kFloat;
  };
  for (const RuleNode& node : nodes) {
    if (node.is_constant()) {
      constants[node.outputs[0]] = *rule_constant(node);
      continue;
    }
    std::vector<Value> outputs;
    if (node.domain.empty() && node.op_type == "Identity" && constants.contains(node.inputs[0])) {
      const RuleConstant& c = constants.at(node.inputs[0]);
      auto t = tensor_of(c, output_dtype(node.outputs[0], c));
      if (!t.ok()) return absl::FailedPreconditionError(t.status().message());
      outputs.emplace_back(*std::move(t));
    } else {
      auto made = run_node(node, values, constants, environment);
      if (!made.ok()) return made.status();
      outputs = *std::move(made);
    }
    for (std::size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
      if (!node.outputs[i].empty()) values[node.outputs[i]] = outputs[i];
  }
  for (const std::string& name : rule_.outputs)
    if (const auto it = constants.find(name); it != constants.end()) {
      auto t = tensor_of(it->second, output_dtype(name, it->second));
      if (!t.ok()) return absl::FailedPreconditionError(t.status().message());
      values[name] = Value(*std::move(t));
    }
  return values;
}

namespace {

double largest_magnitude(const Tensor& t) {
  double largest = 0;
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (const double x = std::fabs(element_as_double(t, i).value_or(0)); x < kFillOfMasks) largest = std::max(largest, x);
  return largest;
}

}  // namespace

double cancellation_scale(const Tensor& t) { return is_floating(t.dtype()) ? 0.05 * largest_magnitude(t) : 0; }

Outcome compare_tensors(const std::string& name, const Tensor& a, const Tensor& b, double smallest_scale, Allowed allowed) {
  if (a.dtype() != b.dtype())
    return {Outcome::Kind::kDifferent,
            fmt::format("{} is {} on the left and {} on the right", name, dtype_name(a.dtype()), dtype_name(b.dtype())), 1};
  if (a.dims() != b.dims())
    return {Outcome::Kind::kDifferent,
            fmt::format("{} has dims [{}] on the left and [{}] on the right", name, fmt::join(a.dims(), ","), fmt::join(b.dims(), ",")), 1};
  const double scale = std::max(smallest_scale, largest_magnitude(a));
  const std::size_t whole_bytes = static_cast<std::size_t>(bit_width(a.dtype()) / 8);
  double relative = 0;
  std::int64_t at = -1, moved = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    if (whole_bytes > 0 && std::memcmp(a.bytes().data() + i * whole_bytes, b.bytes().data() + i * whole_bytes, whole_bytes) == 0) continue;
    const double x = element_as_double(a, i).value_or(0), y = element_as_double(b, i).value_or(0);
    if ((x == y && (is_floating(a.dtype()) || whole_bytes == 0)) || (std::isnan(x) && std::isnan(y))) continue;
    const double gap = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : HUGE_VAL, size = std::max(scale, std::fabs(x));
    const double error = !is_floating(a.dtype()) ? std::max(gap, 1.0) : size > 0 && std::isfinite(size) ? gap / size : gap;
    ++moved;
    if (error > relative || at < 0) {
      relative = error;
      at = i;
    }
  }
  const bool may_move = !is_floating(a.dtype()) && allowed.tolerance > 0;
  const bool few = !may_move || static_cast<double>(moved) <= 1 + allowed.share * static_cast<double>(a.size());
  if (at < 0 || (relative <= allowed.tolerance && few))
    return {Outcome::Kind::kEqual, "", relative, may_move ? moved : 0, may_move ? a.size() : 0};
  return {Outcome::Kind::kDifferent,
          fmt::format("{}: element {} is {:.9g} on the left and {:.9g} on the right{}", name, at, *element_as_double(a, at),
                      *element_as_double(b, at), few ? "" : fmt::format("; {} of {} elements differ", moved, a.size())),
          relative};
}

Outcome RuleRunner::compare(const Values& left, const Values& right) const {
  double smallest_scale = 0;
  for (const std::string& name : rule_.inputs)
    if (const auto it = left.find(name); it != left.end() && it->second.is_tensor())
      smallest_scale = std::max(smallest_scale, cancellation_scale(it->second.tensor()));
  Outcome out;
  for (const std::string& name : rule_.outputs) {
    const auto l = left.find(name), r = right.find(name);
    if (l == left.end() || r == right.end() || !l->second.is_tensor() || !r->second.is_tensor())
      return {Outcome::Kind::kDifferent, name + " is not made", 0};
    const Tensor &a = l->second.tensor(), &b = r->second.tensor();
    const Outcome one = compare_tensors(name, a, b, smallest_scale, allowed_by(rule_, a.dtype()));
    if (one.kind != Outcome::Kind::kEqual) return one;
    out.difference = std::max(out.difference, one.difference);
    out.moved += one.moved;
    out.compared += one.compared;
  }
  return out;
}

RuleRunner::Sides RuleRunner::sides(const Instance& instance, const RunOptionsOfRule& options) const {
  Sides out;
  const auto failed = [&out](const absl::Status& s, Outcome::Kind kind) {
    out.outcome = {absl::IsUnimplemented(s) ? Outcome::Kind::kCannotRun : kind, std::string(s.message()), 0};
    return std::move(out);
  };
  const auto refused = [&out](std::string why) {
    out.outcome = {Outcome::Kind::kNotApplicable, std::move(why), 0};
    return std::move(out);
  };
  for (const auto& [name, tensor] : instance.tensors) out.given.emplace(name, tensor);
  Values values = out.given;
  Environment& environment = out.environment;
  for (const auto& [name, attribute] : instance.attributes) environment.set(name, Val(attribute));
  auto left = run_side(rule_.left, values, environment, {});
  if (!left.ok()) return failed(left.status(), Outcome::Kind::kLeftFails);
  out.left = *std::move(left);

  InstanceFacts facts;
  const std::set<std::string> variable = non_constant_names(rule_);
  for (const std::string& name : rule_.inputs)
    if (!values.contains(name)) environment.set(name, Val(ClassRef{facts.add_absent()}));
  for (const auto& [name, value] : out.left) {
    if (!value.is_tensor()) continue;
    const auto entry = out.left.find(name);
    environment.set(entry->first, Val(ClassRef{facts.add(value.tensor(), !variable.contains(name))}));
    out.output_dtypes[name] = value.tensor().dtype();
  }
  EvalContext context(facts, environment, true);
  for (std::size_t i = 0; i < rule_.where.size() && options.guards; ++i)
    if (static_cast<int>(i) != options.dropped_guard && !context.holds(*rule_.where[i])) return refused(context.reason());
  for (const auto& [name, expr] : rule_.lets) {
    const Result r = context.evaluate(*expr);
    if (!r) return refused(fmt::format("`{}` has no value: {}", name, context.reason()));
    if (const Tensor* t = r->tensor()) values[name] = Value(*t);
    environment.set(name, *r);
  }
  out.known = out.left;
  for (const std::string& name : rule_.outputs) out.known.erase(name);
  for (const auto& [name, value] : values) out.known[name] = value;
  auto right = run_side(rule_.right, out.known, environment, out.output_dtypes);
  if (!right.ok() && absl::IsFailedPrecondition(right.status())) return refused(std::string(right.status().message()));
  // Fused operators may refuse empty tensors that the primitives take: no runtime has a use for them.
  const bool empty =
      std::any_of(out.left.begin(), out.left.end(), [](const auto& v) { return v.second.is_tensor() && v.second.tensor().size() == 0; });
  if (!right.ok() && empty) return failed(right.status(), Outcome::Kind::kNotApplicable);
  if (!right.ok())
    return failed(absl::Status(right.status().code(),
                               fmt::format("the right side cannot run where the left does: {}", std::string(right.status().message()))),
                  Outcome::Kind::kDifferent);
  out.right = *std::move(right);
  return out;
}

absl::StatusOr<RuleRunner::Values> RuleRunner::again(const Sides& sides, bool right) const {
  return right ? run_side(rule_.right, sides.known, sides.environment, sides.output_dtypes)
               : run_side(rule_.left, sides.given, sides.environment, {});
}

Outcome RuleRunner::run(const Instance& instance, const RunOptionsOfRule& options) const {
  const Sides both = sides(instance, options);
  return both.outcome.kind == Outcome::Kind::kEqual ? compare(both.left, both.right) : both.outcome;
}

}  // namespace saturate
