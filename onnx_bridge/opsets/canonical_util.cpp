#include "onnx_bridge/opsets/canonical_util.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace saturate::canonical {

bool same_value(const Attribute& a, const Attribute& b) {
  if (a.value.index() != b.value.index()) return false;
  if (a.value.index() != b.value.index()) return false;
  if (const auto* x = std::get_if<float>(&a.value)) return std::bit_cast<std::uint32_t>(*x) == std::bit_cast<std::uint32_t>(b.f());
  if (const auto* x = std::get_if<std::int64_t>(&a.value)) return *x == b.i();
  if (const auto* x = std::get_if<std::string>(&a.value)) return *x == b.s();
  if (const auto* x = std::get_if<std::vector<std::int64_t>>(&a.value)) return *x == b.ints();
  if (const auto* x = std::get_if<std::vector<float>>(&a.value)) return *x == b.floats();
  if (const auto* x = std::get_if<std::vector<std::string>>(&a.value)) return *x == b.strings();
  if (const auto* x = std::get_if<Tensor>(&a.value)) return identical(*x, b.t());
  return false;
}

Attribute* find(Node& node, std::string_view name) {
  for (Attribute& a : node.attributes)
    if (a.name == name) return &a;
  return nullptr;
}

bool erase(Node& node, std::string_view name) {
  return std::erase_if(node.attributes, [&](const Attribute& a) { return a.name == name; }) > 0;
}

void set(Node& node, Attribute attribute) {
  if (Attribute* old = find(node, attribute.name))
    *old = std::move(attribute);
  else
    node.attributes.push_back(std::move(attribute));
}

void sort_attributes(Node& node) {
  std::stable_sort(node.attributes.begin(), node.attributes.end(), [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
}

void drop_trailing_absent(Node& node) {
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
}

void Job::set_input(std::size_t i, std::string name) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = std::move(name);
}

const Facts* Job::facts(std::size_t i) const {
  if (!has(i)) return nullptr;
  if (i < original_inputs.size() && i < inputs.size() && original_inputs[i] == node.inputs[i]) return inputs[i];  // where it was
  for (std::size_t k = 0; k < original_inputs.size() && k < inputs.size(); ++k)
    if (original_inputs[k] == node.inputs[i]) return inputs[k];
  return nullptr;
}

std::optional<int> Job::rank(std::size_t i) const {
  const Facts* f = facts(i);
  return f && f->kind == Facts::Kind::kTensor && f->shape ? std::optional(f->rank()) : std::nullopt;
}

std::optional<std::int64_t> Job::dim(std::size_t i, int axis) const {
  const auto r = rank(i);
  if (!dims || !r || axis < 0 || axis >= *r) return std::nullopt;
  return dims->value((*facts(i)->shape)[static_cast<std::size_t>(axis)]);
}

DType Job::dtype(std::size_t i) const {
  const Facts* f = facts(i);
  return f && f->kind == Facts::Kind::kTensor ? f->dtype : DType::kUndefined;
}

std::optional<std::vector<std::int64_t>> Job::ints(std::size_t i) const {
  const Facts* f = facts(i);
  if (!f) return std::nullopt;
  std::vector<std::int64_t> all;
  if (f->value && is_integer(f->value->dtype())) {
    if (f->value->size() > 4096) return std::nullopt;
    for (std::int64_t k = 0; k < f->value->size(); ++k) all.push_back(*element_as_int(*f->value, k));
    return all;
  }
  if (!f->content || !dims) return std::nullopt;
  for (Dim d : *f->content) {
    const auto v = dims->value(d);
    if (!v) return std::nullopt;
    all.push_back(*v);
  }
  return all;
}

std::optional<double> Job::number(std::size_t i) const {
  const Facts* f = facts(i);
  if (!f || !f->value || f->value->size() != 1) return std::nullopt;
  return element_as_double(*f->value, 0);
}

std::int64_t Job::int_attribute(std::string_view name, std::int64_t otherwise) const {
  const Attribute* a = find_attribute(node.attributes, name);
  const auto* v = a ? std::get_if<std::int64_t>(&a->value) : nullptr;
  return v ? *v : otherwise;
}

std::string Job::string_attribute(std::string_view name, std::string_view otherwise) const {
  const Attribute* a = find_attribute(node.attributes, name);
  const auto* v = a ? std::get_if<std::string>(&a->value) : nullptr;
  return v ? *v : std::string(otherwise);
}

std::optional<std::vector<std::int64_t>> Job::ints_attribute(std::string_view name) const {
  const Attribute* a = find_attribute(node.attributes, name);
  const auto* v = a ? std::get_if<std::vector<std::int64_t>>(&a->value) : nullptr;
  return v ? std::optional(*v) : std::nullopt;
}

std::string Job::constant(std::string_view label, Tensor tensor) {
  Initializer i;
  i.name = fresh(label);
  i.tensor = std::move(tensor);
  result.constants.push_back(std::move(i));
  return result.constants.back().name;
}

namespace {
// Round to nearest even into an IEEE-like format of 16 bits; the value must be one that a float holds.
std::uint16_t to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), sign = (bits >> 16) & 0x8000u;
  const float size = std::abs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (size >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  int exponent = 0;
  std::frexp(size, &exponent);
  exponent = std::max(exponent - 1, -14);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));  // in [0, 2048]
  const std::uint32_t biased = static_cast<std::uint32_t>(exponent + 14) << 10;  // the leading bit of units adds one to it
  return static_cast<std::uint16_t>(sign | (size == 0 ? 0u : biased + units));
}
}  // namespace

std::optional<Tensor> scalar_of(DType dtype, double value) {
  const auto f = static_cast<float>(value);
  switch (dtype) {
    case DType::kFloat:
      return Tensor::of<float>(dtype, {}, std::span(&f, 1));
    case DType::kDouble:
      return Tensor::of<double>(dtype, {}, std::span(&value, 1));
    case DType::kFloat16: {
      const std::uint16_t h = to_half(f);
      return Tensor::of<std::uint16_t>(dtype, {}, std::span(&h, 1));
    }
    case DType::kBfloat16: {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
      const auto b = static_cast<std::uint16_t>(std::isnan(f) ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
      return Tensor::of<std::uint16_t>(dtype, {}, std::span(&b, 1));
    }
    default:
      return std::nullopt;
  }
}

bool took_rows_from_axis(std::string_view op_type) {
  const auto versions = schema_versions("", op_type);
  const auto default_is = [](const OpSchema& schema, std::int64_t wanted) {
    const OpAttribute* axis = schema.attribute("axis");
    return axis && axis->default_value && axis->default_value->i() == wanted;
  };
  return !versions.empty() && default_is(*versions.front(), 1) && default_is(*versions.back(), -1);
}

}  // namespace saturate::canonical

namespace saturate {

bool is_axes_input(const OpSchema& schema, std::size_t input) {
  if (input == 0 || !schema.domain.empty() || input >= schema.inputs.size()) return false;
  const std::string_view name = schema.inputs[input].name;
  return name == "axes" || name == "axis";
}

std::optional<Tensor> axes_from_front(const Tensor& axes, std::int64_t rank) {
  if (axes.dtype() != DType::kInt64) return std::nullopt;
  std::vector<std::int64_t> values(axes.span<std::int64_t>().begin(), axes.span<std::int64_t>().end());
  bool negative = false;
  for (std::int64_t& a : values) {
    if (a < -rank || a >= rank) return std::nullopt;
    negative = negative || a < 0;
    if (a < 0) a += rank;
  }
  return negative ? std::optional(Tensor::of<std::int64_t>(DType::kInt64, axes.dims(), values)) : std::nullopt;
}

}  // namespace saturate
