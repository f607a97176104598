// How far rounding moves the sides of a rule that is an identity of real numbers (docs/decisions.md, "The float error of a rule").
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rules/check/check_run.h"

namespace saturate {
namespace {

constexpr double kUnit = 0x1p-24;  // by how much numbers are moved
constexpr int kDraws = 4;
constexpr double kSmallest = 0x1p-126;  // below it no unit bounds what rounding does in float

// Half of a unit in the last place of 1.
double unit_of(DType dtype) {
  switch (dtype) {
    case DType::kDouble:
      return 0x1p-53;
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBfloat16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

// The coarsest unit of what a side holds.
double unit_of(const RuleRunner::Values& values) {
  double unit = 0;
  for (const auto& [name, value] : values)
    if (value.is_tensor() && is_floating(value.tensor().dtype())) unit = std::max(unit, unit_of(value.tensor().dtype()));
  return unit;
}

// Whether it holds a number so small that no unit bounds its rounding.
bool underflows(const RuleRunner::Values& values) {
  for (const auto& [name, value] : values) {
    if (!value.is_tensor() || !is_floating(value.tensor().dtype())) continue;
    const Tensor& t = value.tensor();
    const double smallest = t.dtype() == DType::kFloat16 ? 0x1p-14 : t.dtype() == DType::kDouble ? 0 : kSmallest;
    for (std::int64_t i = 0; i < t.size(); ++i)
      if (const double x = std::fabs(*element_as_double(t, i)); x > 0 && x < smallest) return true;
  }
  return false;
}

// Numbers of the bodies are floats: what has more digits than these is a decimal or a root that float rounds.
bool has_many_digits(double x) { return std::isfinite(x) && std::ldexp(x, 10) != std::nearbyint(std::ldexp(x, 10)); }

bool holds_float_attribute(const RuleNode& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [&](const RuleAttribute& a) {
    if (a.kind != RuleAttribute::Kind::kLiteral) return a.literal.type == AttributeType::kFloat || a.literal.type == AttributeType::kFloats;
    if (const auto* f = std::get_if<float>(&a.literal.value)) return has_many_digits(*f);
    const auto* list = std::get_if<std::vector<float>>(&a.literal.value);
    return list && std::any_of(list->begin(), list->end(), has_many_digits);
  });
}

// Runs operators with every number that comes in and goes out moved a little, as rounding does. Whole numbers stay: they do not round, and
// exponents, masks and numbers of elements are such.
class MovingEvaluator : public Evaluator {
 public:
  MovingEvaluator(const Evaluator& runs, std::uint64_t seed) : runs_(runs), random_(seed) {}

  absl::StatusOr<std::vector<Value>> evaluate(const Node& node, std::int64_t opset, const std::vector<Value>& inputs) const override {
    std::vector<Value> moved = inputs;
    for (Value& v : moved) move(v);
    auto outputs = runs_.evaluate(node, opset, moved);
    if (outputs.ok())
      for (Value& v : *outputs) move(v);
    return outputs;
  }

 private:
  void move(Value& v) const {
    if (!v.is_tensor() || v.tensor().dtype() != DType::kDouble) return;
    const Tensor& from = v.tensor();
    Tensor to(DType::kDouble, from.dims());
    std::uniform_real_distribution<double> by(-kUnit, kUnit);
    for (std::int64_t i = 0; i < from.size(); ++i) {
      const double x = *element_as_double(from, i);
      to.mutable_as<double>()[i] = x == std::nearbyint(x) || !std::isfinite(x) ? x : x * (1 + by(random_));
    }
    v = Value(std::move(to));
  }

  const Evaluator& runs_;
  mutable std::mt19937_64 random_;
};

Instance in_double(const Instance& instance) {
  Instance out = instance;
  for (auto& [name, tensor] : out.tensors) {
    if (tensor.dtype() != DType::kFloat) continue;
    Tensor wide(DType::kDouble, tensor.dims());
    for (std::int64_t i = 0; i < tensor.size(); ++i) wide.mutable_as<double>()[i] = *element_as_double(tensor, i);
    tensor = std::move(wide);
  }
  return out;
}

std::vector<double> reals_of_value(const RuleRunner::Values& values, const std::string& name) {
  std::vector<double> out;
  const auto it = values.find(name);
  if (it == values.end() || !it->second.is_tensor() || !is_floating(it->second.tensor().dtype())) return out;
  for (std::int64_t i = 0; i < it->second.tensor().size(); ++i) out.push_back(*element_as_double(it->second.tensor(), i));
  return out;
}

// Of one side: what its outputs are in double, and how far they move at most, in units of the movement of what they are made of.
struct Condition {
  std::vector<std::vector<double>> exact, moves;  // for each output
};

Condition condition_of(const RuleRunner& moving, const RuleRunner::Sides& wide, bool right, const std::vector<std::string>& outputs) {
  Condition out;
  for (const std::string& name : outputs) {
    out.exact.push_back(reals_of_value(right ? wide.right : wide.left, name));
    double largest = 0;
    for (const double x : out.exact.back())
      if (std::fabs(x) < kFillOfMasks) largest = std::max(largest, std::fabs(x));
    out.moves.emplace_back();
    for (const double x : out.exact.back()) out.moves.back().push_back(std::max(std::fabs(x), largest));
  }
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto moved = moving.again(wide, right);
    if (!moved.ok()) continue;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const std::vector<double> values = reals_of_value(*moved, outputs[o]);
      for (std::size_t i = 0; i < values.size() && i < out.exact[o].size(); ++i) {
        const double by = std::fabs(values[i] - out.exact[o][i]);
        out.moves[o][i] = std::isfinite(by) ? std::max(out.moves[o][i], by / kUnit) : HUGE_VAL;
      }
    }
  }
  return out;
}

// Guards that take a number for another one beside it.
bool asks_for_nearness(const Expr& e) {
  if (e.kind == Expr::Kind::kCall && (e.text == "approx" || e.text == "near" || e.text == "all_near")) return true;
  return std::any_of(e.arguments.begin(), e.arguments.end(), [](const ExprPtr& a) { return a && asks_for_nearness(*a); });
}

bool all_finite(const RuleRunner::Values& values) {
  return std::all_of(values.begin(), values.end(), [](const auto& v) {
    if (!v.second.is_tensor() || !is_floating(v.second.tensor().dtype())) return true;
    for (std::int64_t i = 0; i < v.second.tensor().size(); ++i)
      if (!std::isfinite(*element_as_double(v.second.tensor(), i))) return false;
    return true;
  });
}

// Whether every output is a floating tensor on both sides, of the same type and dims.
bool have_same_types(const RuleRunner::Sides& sides, const std::vector<std::string>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [&](const std::string& name) {
    const auto l = sides.left.find(name), r = sides.right.find(name);
    if (l == sides.left.end() || r == sides.right.end() || !l->second.is_tensor() || !r->second.is_tensor()) return false;
    const Tensor &a = l->second.tensor(), &b = r->second.tensor();
    return is_floating(a.dtype()) && a.dtype() == b.dtype() && a.dims() == b.dims();
  });
}

}  // namespace

bool is_identity_within_float(const Rule& rule) {
  return std::any_of(rule.where.begin(), rule.where.end(), [](const ExprPtr& e) { return asks_for_nearness(*e); }) ||
         std::any_of(rule.left.begin(), rule.left.end(), holds_float_attribute) ||
         std::any_of(rule.right.begin(), rule.right.end(), holds_float_attribute);
}

void Distance::take(const std::string& name, std::span<const double> from, std::span<const double> to, std::span<const double> scale,
                    double unit, std::string_view what) {
  for (std::size_t i = 0; i < from.size() && i < to.size(); ++i) {
    if (!std::isfinite(from[i]) || !std::isfinite(to[i])) continue;
    const double gap = std::fabs(from[i] - to[i]), k = gap / (unit * scale[i]);
    if (gap < kSmallest || !(k > units)) continue;
    units = k;
    why = fmt::format("element {} of {} is {:.9g} there and {:.9g} {}: {:.3g} eps M with M = {:.3g}", i, name, from[i], to[i], what, k,
                      scale[i]);
  }
}

std::optional<Rounding> rounding_of(const Rule& rule, const Evaluator& evaluator, const Instance& instance) {
  const RuleRunner runner(rule, evaluator);
  const RuleRunner::Sides narrow = runner.sides(instance);
  if (narrow.outcome.kind != Outcome::Kind::kEqual) return std::nullopt;
  if (underflows(narrow.left) || underflows(narrow.right)) return std::nullopt;
  RunOptionsOfRule same_rule;
  same_rule.guards = false;                      // they hold in the type that the rule is used in
  const Instance doubled = in_double(instance);  // the sides look at its attributes
  const RuleRunner::Sides wide = runner.sides(doubled, same_rule);
  if (wide.outcome.kind != Outcome::Kind::kEqual) return std::nullopt;
  const MovingEvaluator moves(evaluator, 1);
  const RuleRunner moving(rule, moves);
  const double unit = std::max(unit_of(narrow.left), unit_of(narrow.right));
  const double unit_of_reals = std::max(unit_of(wide.left), unit_of(wide.right));
  Rounding out;
  out.finite = all_finite(narrow.left) && all_finite(narrow.right) && have_same_types(narrow, rule.outputs);
  for (const bool back : {false, true}) {
    if (back && !rule.both_ways) break;
    const Condition of = condition_of(moving, wide, back, rule.outputs);
    for (std::size_t o = 0; o < rule.outputs.size(); ++o) {
      const std::string& name = rule.outputs[o];
      const auto rounded = reals_of_value(back ? narrow.left : narrow.right, name);
      const auto real = reals_of_value(back ? wide.left : wide.right, name);
      out.rounded.take(name, of.exact[o], rounded, of.moves[o], unit, "in the instance's type");
      out.real.take(name, of.exact[o], real, of.moves[o], unit_of_reals, "on the other side");
    }
  }
  return out;
}

}  // namespace saturate
