#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rules/check_run.h"

namespace saturate {
namespace {

enum class Fill : std::uint8_t { kNormal, kSpecial, kNotFinite };

// What integers are, by what a rule assumes of them.
enum class Ints : std::uint8_t { kAny, kIndices, kMask };

// The ends of a type, and what wraps where it is squared.
double end_of_type(DType dtype, std::mt19937_64& random) {
  const bool has_sign = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 || dtype == DType::kInt64;
  const int bits = bit_width(dtype) - (has_sign ? 1 : 0);
  const double end = std::ldexp(1, std::min(bits, 53)), root = std::floor(std::sqrt(end)) + 1;
  const double choices[] = {end - 1, has_sign ? -end : 0, has_sign ? 1 - end : 1, root, has_sign ? -root : root, end / 2};
  return choices[random() % 6];
}

double draw(Fill fill, DType dtype, Ints ints, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0.0, 1.0);
  if (dtype == DType::kBool || (is_integer(dtype) && ints == Ints::kMask)) return static_cast<double>(random() % 2);
  if (is_integer(dtype)) {
    const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 || dtype == DType::kInt64;
    return static_cast<double>(random() % 9) - (is_signed && ints == Ints::kAny ? 4 : 0);
  }
  if (fill == Fill::kNormal || random() % 3 != 0) return normal(random);
  static constexpr double special[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, -1e-3, 20.0, -20.0};
  static constexpr double not_finite[] = {HUGE_VAL, -HUGE_VAL, NAN};
  if (fill == Fill::kNotFinite && random() % 2 == 0) return not_finite[random() % 3];
  return special[random() % 9];
}

struct Variation {
  std::map<std::int64_t, std::int64_t> dims;  // of the example -> of the instance
  DType floats = DType::kFloat;               // what float inputs become
  Fill fill = Fill::kNormal;
  Ints ints = Ints::kAny;
  bool collapse = false;  // each tensor by itself: some dims become 1, some leading ones go
  bool odd = false;       // attributes take other values: strides, pads, axes, keepdims
  bool ends = false;      // integers are at the ends of their type, too
};

void make_odd(Attribute& a, std::mt19937_64& random) {
  const auto other = [&random](std::int64_t n) { return random() % 2 == 0 ? n : static_cast<std::int64_t>(random() % 3); };
  if (auto* n = std::get_if<std::int64_t>(&a.value)) *n = other(*n);
  if (auto* list = std::get_if<std::vector<std::int64_t>>(&a.value)) std::transform(list->begin(), list->end(), list->begin(), other);
}

std::optional<Tensor> tensor_for(const ExampleValue& value, const Variation& variation, std::mt19937_64& random) {
  Shape dims = value.dims;
  const bool uniform =
      !value.values || value.values->empty() || std::equal(value.values->begin() + 1, value.values->end(), value.values->begin());
  if (uniform && value.dtype != DType::kInt64)
    for (std::int64_t& d : dims)
      if (const auto it = variation.dims.find(d); it != variation.dims.end()) d = it->second;
  if (variation.collapse && uniform && value.dtype != DType::kInt64) {
    if (!dims.empty() && random() % 3 == 0) dims.erase(dims.begin());
    for (std::int64_t& d : dims)
      if (random() % 3 == 0) d = 1;
  }
  const DType dtype = value.dtype == DType::kFloat ? variation.floats : value.dtype;
  std::vector<double> values(static_cast<std::size_t>(checked_elements(dims).value_or(0)));
  const bool ends = variation.ends && is_integer(dtype) && value.dtype == DType::kFloat && variation.ints == Ints::kAny;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (value.values && !value.values->empty())
      values[i] = (*value.values)[std::min(i, value.values->size() - 1)];
    else if (ends && random() % 3 == 0)
      values[i] = end_of_type(dtype, random);
    else
      values[i] = draw(variation.fill, dtype, variation.ints, random);
  }
  auto t = tensor_of_reals(dtype, dims, values);
  if (!t.ok()) return std::nullopt;
  return *std::move(t);
}

std::optional<Instance> vary(const Rule& rule, const RuleExample& example, const Variation& variation, std::mt19937_64& random) {
  Instance out;
  for (const ExampleValue& v : example.values) {
    if (v.attribute) {
      const auto it = out.attributes.emplace(v.name, *v.attribute).first;
      if (variation.odd) make_odd(it->second, random);
      continue;
    }
    auto t = tensor_for(v, variation, random);
    if (!t) return std::nullopt;
    out.what += fmt::format("{}{} = {}[{}]", out.what.empty() ? "" : ", ", v.name, dtype_name(t->dtype()), fmt::join(t->dims(), ","));
    out.tensors.emplace(v.name, *std::move(t));
  }
  // Literals of attributes take the type that the attribute they stand for has.
  for (const RuleNode& n : rule.left)
    for (const RuleAttribute& a : n.attributes) {
      const auto it = a.kind == RuleAttribute::Kind::kVariable ? out.attributes.find(a.variable) : out.attributes.end();
      if (it == out.attributes.end()) continue;
      RuleAttribute typed;
      typed.literal = it->second;
      typed.literal.name = a.literal.name;
      typed.literal.type = AttributeType::kUndefined;
      if (a.literal.type == AttributeType::kFloat && std::holds_alternative<std::int64_t>(typed.literal.value))
        typed.literal.value = static_cast<float>(typed.literal.i());
      if (complete_attribute_type(n.domain, n.op_type, typed).empty()) it->second = typed.literal;
    }
  return out;
}

Ints assumed_ints(const Rule& rule) {
  const auto assumes = [&](std::string_view name) {
    return std::find(rule.assumes.begin(), rule.assumes.end(), name) != rule.assumes.end();
  };
  return assumes("mask_of_zeros_and_ones") ? Ints::kMask : assumes("ids_in_range") ? Ints::kIndices : Ints::kAny;
}

}  // namespace

std::set<std::string> non_constant_names(const Rule& rule) {
  std::set<std::string> names;
  std::vector<std::pair<const Expr*, bool>> todo;
  for (const ExprPtr& e : rule.where) todo.emplace_back(e.get(), false);
  while (!todo.empty()) {
    const auto [e, negated] = todo.back();
    todo.pop_back();
    const bool flipped = negated != (e->kind == Expr::Kind::kNot);
    for (const ExprPtr& a : e->arguments) {
      if (!a) continue;
      if (e->kind == Expr::Kind::kCall && e->text == "const" && negated && a->kind == Expr::Kind::kName) names.insert(a->text);
      todo.emplace_back(a.get(), flipped);
    }
  }
  // What they feed is not constant either.
  for (const RuleNode& n : rule.left)
    if (std::any_of(n.inputs.begin(), n.inputs.end(), [&](const std::string& i) { return names.contains(i); }))
      names.insert(n.outputs.begin(), n.outputs.end());
  return names;
}

Instance instance_of(const Rule& rule, const RuleExample& example, std::mt19937_64& random) {
  Variation v;
  v.ints = assumed_ints(rule);
  return vary(rule, example, v, random).value_or(Instance{});
}

std::vector<Instance> random_instances(const Rule& rule, const RuleExample& example, int count, std::mt19937_64& random) {
  static constexpr DType dtypes[] = {DType::kFloat, DType::kDouble, DType::kFloat16, DType::kInt32, DType::kBfloat16, DType::kUint8};
  std::vector<Instance> out;
  for (int k = 0; k < count; ++k) {
    Variation v;
    v.ints = assumed_ints(rule);
    if (k % 2 == 1) v.floats = dtypes[static_cast<std::size_t>(k / 2) % std::size(dtypes)];
    if (k % 3 == 1) v.fill = Fill::kSpecial;
    if (k % 6 == 4 && rule.effect == Effect::kExact) v.fill = Fill::kNotFinite;
    v.collapse = k % 4 == 3;
    if (k >= 4 && !v.collapse)
      for (const ExampleValue& value : example.values)
        for (std::int64_t d : value.dims)
          if (d > 1) v.dims.try_emplace(d, static_cast<std::int64_t>(random() % 7));
    if (auto instance = vary(rule, example, v, random)) out.push_back(*std::move(instance));
  }
  std::mt19937_64 harsh(static_cast<std::uint64_t>(count));  // of their own, so that those above stay as they were
  for (int k = 0; k < count / 2; ++k) {
    static constexpr DType integers[] = {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8};
    Variation v;
    v.ints = assumed_ints(rule);
    v.ends = k % 3 != 2;
    if (v.ends) v.floats = integers[static_cast<std::size_t>(k) % std::size(integers)];
    v.odd = !v.ends && rule.assumes.empty();  // along another axis a mask may hide a row as a whole
    if (auto instance = vary(rule, example, v, harsh)) out.push_back(*std::move(instance));
  }
  return out;
}

}  // namespace saturate
