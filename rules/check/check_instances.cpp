#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rules/check/check_run.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

enum class Fill : std::uint8_t { kNormal, kSpecial, kNotFinite };

// What integers are, by what a rule assumes of them.
enum class Ints : std::uint8_t { kAny, kIndices, kMask };

// The smallest and the largest number of an integer type; of 64 bits the largest that a double holds.
std::pair<double, double> ends_of(DType dtype) {
  const int bits = bit_width(dtype) - (has_sign(dtype) ? 1 : 0);
  const double end = std::ldexp(1, bits);
  return {has_sign(dtype) ? -end : 0, bits > 53 ? std::nextafter(end, 0.0) : end - 1};
}

// The ends of a type, and what wraps where it is squared.
double end_of_type(DType dtype, std::mt19937_64& random) {
  const auto [low, high] = ends_of(dtype);
  const double root = std::floor(std::sqrt(high)) + 1;
  const double choices[] = {high, low, has_sign(dtype) ? -high : 1, root, has_sign(dtype) ? -root : root, std::ceil(high / 2)};
  return choices[random() % 6];
}

// A number that an example writes out, in a type that may not hold it: guards decide what may be done with it.
double fitted(double x, DType dtype) {
  if (!is_integer(dtype) || std::isnan(x)) return x;
  const auto [low, high] = ends_of(dtype);
  return std::clamp(std::nearbyint(x), low, high);
}

double draw(Fill fill, DType dtype, Ints ints, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0.0, 1.0);
  if (dtype == DType::kBool || (is_integer(dtype) && ints == Ints::kMask)) return static_cast<double>(random() % 2);
  if (is_integer(dtype)) {
    return static_cast<double>(random() % 9) - (has_sign(dtype) && ints == Ints::kAny ? 4 : 0);
  }
  if (fill == Fill::kNormal || random() % 3 != 0) return normal(random);
  static constexpr double special[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, -1e-3, 20.0, -20.0};
  static constexpr double extreme[] = {HUGE_VAL, -HUGE_VAL, NAN, 3e38, -3e38, 1e-45};
  if (fill == Fill::kNotFinite && random() % 2 == 0) return extreme[random() % std::size(extreme)];
  return special[random() % 9];
}

struct Variation {
  std::map<std::int64_t, std::int64_t> dims;  // of the example -> of the instance
  DType from = DType::kFloat, to = from;      // what inputs of one type become
  Fill fill = Fill::kNormal;
  Ints ints = Ints::kAny;
  double near = 0;        // not 0: numbers lie about this one, of either sign
  bool collapse = false;  // each tensor by itself: some dims become 1, some leading ones go
  bool odd = false;       // attributes and written lists of numbers take other values: strides, pads, axes, keepdims
  bool turn = false;      // attributes of 0 and 1 are the other one
  bool ends = false;      // integers are at the ends of their type, too
  bool anew = false;      // floats that an example writes out are drawn, too: guards say which of them are instances
};

std::int64_t odd_number(std::int64_t n, std::mt19937_64& random) {
  return random() % 2 == 0 ? n : static_cast<std::int64_t>(random() % 4) - 1;
}

void turn(Attribute& a) {
  if (auto* n = std::get_if<std::int64_t>(&a.value); n && (*n == 0 || *n == 1)) *n = 1 - *n;
}

void make_odd(Attribute& a, std::mt19937_64& random) {
  const auto other = [&random](std::int64_t n) { return odd_number(n, random); };
  if (auto* n = std::get_if<std::int64_t>(&a.value)) *n = other(*n);
  auto* list = std::get_if<std::vector<std::int64_t>>(&a.value);
  for (std::size_t i = 0; list && i < list->size(); ++i) (*list)[i] = std::max<std::int64_t>(other((*list)[i]), 0);
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
  const DType dtype = value.dtype == variation.from ? variation.to : value.dtype;
  std::vector<double> values(static_cast<std::size_t>(checked_elements(dims).value_or(0)));
  const bool ends = variation.ends && is_integer(dtype) && value.dtype == variation.from && variation.ints == Ints::kAny;
  const double near = variation.near == 0 || !is_floating(dtype) ? 0 : random() % 2 == 0 ? variation.near : -variation.near;
  const bool written = value.values && !value.values->empty() && !(variation.anew && is_floating(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (written) {
      values[i] = fitted((*value.values)[std::min(i, value.values->size() - 1)], dtype);
      if (variation.odd && value.dtype == DType::kInt64)
        values[i] = static_cast<double>(odd_number(static_cast<std::int64_t>(values[i]), random));
    } else if (ends && random() % 3 == 0) {
      values[i] = end_of_type(dtype, random);
    } else if (near != 0) {
      values[i] = near * (1 + std::normal_distribution<double>(0.0, 0x1p-10)(random));
    } else {
      values[i] = fitted(draw(variation.fill, dtype, variation.ints, random), dtype);
    }
  }
  auto t = tensor_of_reals(dtype, dims, values);
  if (!t.ok()) return std::nullopt;
  return *std::move(t);
}

// Of `..a`, what the example does not say: the default, or near it.
void vary_rest(const Rule& rule, const RuleNode& node, const Variation& variation, std::mt19937_64& random, Instance& out) {
  const OpSchema* schema = schema_for_rule(rule.operators.get(), node.domain, node.op_type);
  for (const RuleAttribute& a : node.attributes) {
    const OpAttribute* known = schema ? schema->attribute(a.literal.name) : nullptr;
    const bool rest = a.kind == RuleAttribute::Kind::kVariable && a.variable.find('.') != std::string::npos;
    if (!rest || !known || !known->default_value || out.attributes.contains(a.variable)) continue;
    Attribute& value = out.attributes.emplace(a.variable, *known->default_value).first->second;
    if (variation.odd) make_odd(value, random);
    if (variation.turn) turn(value);
  }
}

std::optional<Instance> vary(const Rule& rule, const RuleExample& example, const Variation& variation, std::mt19937_64& random) {
  Instance out;
  for (const ExampleValue& v : example.values) {
    if (v.attribute) {
      const auto it = out.attributes.emplace(v.name, *v.attribute).first;
      if (variation.odd) make_odd(it->second, random);
      if (variation.turn) turn(it->second);
      continue;
    }
    auto t = tensor_for(v, variation, random);
    if (!t) return std::nullopt;
    out.what += fmt::format("{}{} = {}[{}]", out.what.empty() ? "" : ", ", v.name, dtype_name(t->dtype()), fmt::join(t->dims(), ","));
    out.tensors.emplace(v.name, *std::move(t));
  }
  if (variation.odd || variation.turn)
    for (const RuleNode& n : rule.left) vary_rest(rule, n, variation, random, out);
  // Literals of attributes take the type that the attribute they stand for has.
  for (const RuleNode& n : rule.left)
    for (const RuleAttribute& a : n.attributes) {
      const auto it = a.kind == RuleAttribute::Kind::kVariable ? out.attributes.find(a.variable) : out.attributes.end();
      if (it == out.attributes.end()) continue;
      // As in an e-graph: axes count from the front.
      if (auto* axis = std::get_if<std::int64_t>(&it->second.value); variation.odd && axis && a.literal.name == "axis")
        *axis = std::max<std::int64_t>(*axis, 0);
      RuleAttribute typed;
      typed.literal = it->second;
      typed.literal.name = a.literal.name;
      typed.literal.type = AttributeType::kUndefined;
      if (a.literal.type == AttributeType::kFloat && std::holds_alternative<std::int64_t>(typed.literal.value))
        typed.literal.value = static_cast<float>(typed.literal.i());
      const OpSchema* schema = schema_for_rule(rule.operators.get(), n.domain, n.op_type);
      if (complete_attribute_type(schema, n.op_type, typed).empty()) it->second = typed.literal;
    }
  return out;
}

bool assumes(const Rule& rule, std::string_view name) {
  return std::find(rule.assumes.begin(), rule.assumes.end(), name) != rule.assumes.end();
}

Ints assumed_ints(const Rule& rule) {
  return assumes(rule, "mask_of_zeros_and_ones") ? Ints::kMask : assumes(rule, "ids_in_range") ? Ints::kIndices : Ints::kAny;
}

// The inputs of each type in each other type: guards and the types of operators decide which of them are instances of the rule.
void add_each_dtype(const Rule& rule, const RuleExample& example, std::mt19937_64& random, std::vector<Instance>& out) {
  static constexpr DType dtypes[] = {DType::kFloat,  DType::kDouble, DType::kFloat16,      DType::kBfloat16,  DType::kInt8,
                                     DType::kInt16,  DType::kInt32,  DType::kInt64,        DType::kUint8,     DType::kUint16,
                                     DType::kUint32, DType::kUint64, DType::kBool,         DType::kInt4,      DType::kUint4,
                                     DType::kInt2,   DType::kUint2,  DType::kFloat8e4m3fn, DType::kFloat8e5m2};
  std::set<DType> written;
  for (const ExampleValue& value : example.values)
    if (!value.attribute) written.insert(value.dtype);
  Variation v;
  v.ints = assumed_ints(rule);
  v.ends = true;
  for (const DType from : written)
    for (const DType to : dtypes) {
      if (from == to && !is_integer(from)) continue;
      v.from = from;
      v.to = to;
      if (auto instance = vary(rule, example, v, random)) out.push_back(*std::move(instance));
    }
}

}  // namespace

std::vector<Instance> near_instances(const Rule& rule, const RuleExample& example, int count, std::mt19937_64& random) {
  static constexpr double about[] = {0, 100, 1, 0.01, 7};
  std::vector<Instance> out;
  for (int k = 0; k < count; ++k) {
    Variation v;
    v.ints = assumed_ints(rule);
    v.near = about[static_cast<std::size_t>(k) % std::size(about)];
    if (auto instance = vary(rule, example, v, random)) out.push_back(*std::move(instance));
  }
  return out;
}

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
  const bool in_range = assumes(rule, "quantizer_holds_values");  // of the example's quantizer
  const bool usual = in_range || assumes(rule, "rows_not_near_zero");
  for (int k = 0; k < count; ++k) {
    Variation v;
    v.ints = assumed_ints(rule);
    if (k % 2 == 1 && !in_range) v.to = dtypes[static_cast<std::size_t>(k / 2) % std::size(dtypes)];
    if (k % 3 == 1 && !usual) v.fill = Fill::kSpecial;
    if (k % 6 == 4 && rule.effect == Effect::kExact) v.fill = Fill::kNotFinite;
    v.collapse = k % 4 == 3;
    if (k >= 4 && !v.collapse)
      for (const ExampleValue& value : example.values)
        for (std::int64_t d : value.dims)
          if (d > 1) v.dims.try_emplace(d, static_cast<std::int64_t>(random() % 7));
    if (auto instance = vary(rule, example, v, random)) out.push_back(*std::move(instance));
  }
  if (in_range) return out;
  std::mt19937_64 harsh(random());
  for (int k = 0; k < 2 * count / 3; ++k) {
    static constexpr DType integers[] = {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8};
    Variation v;
    v.ints = assumed_ints(rule);
    v.ends = k % 2 == 0;
    if (v.ends) v.to = integers[static_cast<std::size_t>(k / 2) % std::size(integers)];
    const bool other = !v.ends && rule.assumes.empty();  // along another axis a mask may hide a row as a whole
    v.turn = other && k % 8 == 1;
    v.odd = other && !v.turn;
    if (auto instance = vary(rule, example, v, harsh)) out.push_back(*std::move(instance));
  }
  if (count > 0) add_each_dtype(rule, example, harsh, out);
  const auto writes_floats = [](const ExampleValue& v) { return !v.attribute && v.values && is_floating(v.dtype); };
  if (!rule.assumes.empty() || rule.effect == Effect::kApproximates ||
      std::none_of(example.values.begin(), example.values.end(), writes_floats))
    return out;
  for (int k = 0; k < count / 2; ++k) {
    Variation v;
    v.anew = true;
    if (k % 2 == 1) v.fill = rule.effect == Effect::kExact ? Fill::kNotFinite : Fill::kSpecial;
    if (auto instance = vary(rule, example, v, harsh)) out.push_back(*std::move(instance));
  }
  return out;
}

}  // namespace saturate
