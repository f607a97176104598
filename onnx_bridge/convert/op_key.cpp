#include "onnx_bridge/convert/op_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>

#include "onnx_bridge/operators/op_questions.h"

namespace saturate {
namespace {

std::int64_t wrapped(std::int64_t axis, int rank) { return axis < 0 && axis >= -rank ? axis + rank : axis; }

}  // namespace

bool is_plain(const OpKey& key) { return key.domain.empty() && key.version == 0 && key.unique == 0 && key.role == UnitRole::kNone; }
bool is_operator(const OpKey& key, std::string_view op_type) { return is_plain(key) && key.op_type == op_type; }

const OpSchema* newest_schema(std::string_view domain, std::string_view op_type) {
  const OpSchema* schema = find_schema(domain, op_type, domain.empty() ? kNewestOpset : INT_MAX);
  return schema && !schema->deprecated ? schema : nullptr;
}

bool counts_along_first_input(std::string_view domain) { return !is_of_own_domain(domain); }

std::optional<int> axis_rank(std::string_view op_type, std::string_view attribute, int first_input_rank) {
  if (attribute != "axis" && attribute != "axes") return std::nullopt;
  if (op_type == "ConcatFromSequence" || op_type == "SplitToSequence") return std::nullopt;
  if (op_type == "QLinearConcat") return std::nullopt;  // its first input is a scale
  return op_type == "OneHot" ? first_input_rank + 1 : first_input_rank;
}

bool negative_axis(const Attribute& a) {
  if (a.name != "axis" && a.name != "axes") return false;
  if (a.type == AttributeType::kInt) return a.i() < 0;
  return a.type == AttributeType::kInts && std::any_of(a.ints().begin(), a.ints().end(), [](std::int64_t i) { return i < 0; });
}

void count_axes_from_front(Attribute& a, std::string_view op_type, int first_input_rank) {
  const auto rank = axis_rank(op_type, a.name, first_input_rank);
  if (!rank) return;
  if (a.type == AttributeType::kInt) a.value = wrapped(a.i(), *rank);
  if (a.type == AttributeType::kInts) {
    std::vector<std::int64_t> axes = a.ints();
    for (std::int64_t& axis : axes) axis = wrapped(axis, *rank);
    a.value = std::move(axes);
  }
}

std::optional<std::vector<std::int64_t>> permutation_of(const OpKey& key, std::size_t rank) {
  const Attribute* a = find_attribute(key.attributes, "perm");
  if (!a || a->ints().size() != rank) return std::nullopt;
  std::vector<bool> seen(rank, false);
  for (const std::int64_t axis : a->ints()) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank) || seen[static_cast<std::size_t>(axis)]) return std::nullopt;
    seen[static_cast<std::size_t>(axis)] = true;
  }
  return a->ints();
}

OpKey make_key(std::string_view domain, std::string_view op_type, std::vector<Attribute> attributes, int outputs, std::optional<int> rank) {
  return make_key(newest_schema(domain, op_type), domain, op_type, std::move(attributes), outputs, rank);
}

OpKey make_key(const OpSchema* schema, std::string_view domain, std::string_view op_type, std::vector<Attribute> attributes, int outputs,
               std::optional<int> rank) {
  if (schema != nullptr) add_defaults(*schema, attributes);
  if (rank && counts_along_first_input(domain))
    for (Attribute& a : attributes) count_axes_from_front(a, op_type, *rank);
  const auto by_name = [](const Attribute& a, const Attribute& b) { return a.name < b.name; };
  if (!std::is_sorted(attributes.begin(), attributes.end(), by_name)) std::sort(attributes.begin(), attributes.end(), by_name);
  OpKey key;
  key.domain = domain;
  key.op_type = op_type;
  key.attributes = std::move(attributes);
  key.outputs = outputs;
  return key;
}

bool same_value(const Attribute& a, const Attribute& b) {
  if (a.type != b.type || a.value.index() != b.value.index()) return false;
  if (a.type == AttributeType::kTensor) return identical(a.t(), b.t());
  if (a.type == AttributeType::kTensors || a.type == AttributeType::kGraph || a.type == AttributeType::kGraphs) return false;
  if (a.value.index() == 0) return a.raw == b.raw;
  return std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>)
          return false;
        else
          return v == std::get<T>(b.value);
      },
      a.value);
}

const OpSchema::Formal* formal_at(std::span<const OpSchema::Formal> formals, std::size_t i) {
  if (i < formals.size()) return &formals[i];
  return !formals.empty() && formals.back().variadic ? &formals.back() : nullptr;
}

namespace {

bool allows(const OpSchema& schema, std::string_view type, DType dtype) {
  const OpSchema::TypeConstraint* c = constraint_of(schema, type);
  if (c == nullptr) return dtype_of_tensor(type) == dtype || !type.starts_with("tensor(");
  return c->types.empty() || c->allows(dtype);
}

}  // namespace

std::optional<DType> wanted_dtype(const OpSchema* schema, std::size_t input, std::span<const DType> dtypes, DType fallback) {
  const OpSchema::Formal* formal = schema ? formal_at(schema->inputs, input) : nullptr;
  if (formal == nullptr) return fallback;
  if (formal->type.starts_with("tensor(") && formal->type.ends_with(")")) return dtype_of_tensor(formal->type);
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    if (i == input || dtypes[i] == DType::kUndefined) continue;
    const OpSchema::Formal* other = formal_at(schema->inputs, i);
    if (other != nullptr && other->type == formal->type) return dtypes[i];
  }
  if (allows(*schema, formal->type, fallback)) return fallback;
  const OpSchema::TypeConstraint* c = constraint_of(*schema, formal->type);
  for (DType d : dtypes)
    if (d != DType::kUndefined && allows(*schema, formal->type, d)) return d;
  if (c != nullptr && c->types.size() == 1 && c->types[0].starts_with("tensor("))
    return parse_dtype(c->types[0].substr(7, c->types[0].size() - 8));
  return std::nullopt;
}

bool dtypes_fit(const OpSchema& schema, std::span<const DType> dtypes, std::string* why) {
  std::vector<std::pair<std::string_view, DType>> bound;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    if (dtypes[i] == DType::kUndefined) continue;
    const OpSchema::Formal* formal = formal_at(schema.inputs, i);
    if (formal == nullptr) continue;
    if (!allows(schema, formal->type, dtypes[i])) {
      if (why) *why = fmt::format("{} does not take {} as its input {}", schema.name, dtype_name(dtypes[i]), formal->name);
      return false;
    }
    if (formal->variadic || constraint_of(schema, formal->type) == nullptr) continue;
    const auto known = std::find_if(bound.begin(), bound.end(), [&](const auto& b) { return b.first == formal->type; });
    if (known == bound.end()) {
      bound.emplace_back(formal->type, dtypes[i]);
    } else if (known->second != dtypes[i]) {
      if (why)
        *why = fmt::format("{} takes one dtype for {}, not {} and {}", schema.name, formal->type, dtype_name(known->second),
                           dtype_name(dtypes[i]));
      return false;
    }
  }
  return true;
}

}  // namespace saturate
