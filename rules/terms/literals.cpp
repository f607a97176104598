#include "rules/terms/literals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

std::string_view type_word(AttributeType type) {
  switch (type) {
    case AttributeType::kFloat:
      return "a float";
    case AttributeType::kInt:
      return "an int";
    case AttributeType::kString:
      return "a string";
    case AttributeType::kTensor:
      return "a tensor";
    case AttributeType::kFloats:
      return "a list of floats";
    case AttributeType::kInts:
      return "a list of ints";
    case AttributeType::kStrings:
      return "a list of strings";
    default:
      return "something that rules cannot write";
  }
}

AttributeType written_type(const Attribute& a) {
  constexpr std::array types = {AttributeType::kUndefined, AttributeType::kFloat,   AttributeType::kInt,    AttributeType::kString,
                                AttributeType::kTensor,    AttributeType::kGraph,   AttributeType::kFloats, AttributeType::kInts,
                                AttributeType::kStrings,   AttributeType::kTensors, AttributeType::kGraphs};
  return types[a.value.index()];
}

// Ints stand for floats of the same value, a number for a tensor of it, an empty list for any empty list.
bool convert(Attribute& a, AttributeType to) {
  const AttributeType from = written_type(a);
  if (from == AttributeType::kInt && to == AttributeType::kFloat) {
    a.value = static_cast<float>(a.i());
  } else if (from == AttributeType::kInts && to == AttributeType::kFloats) {
    a.value = std::vector<float>(a.ints().begin(), a.ints().end());
  } else if (from == AttributeType::kInts && to == AttributeType::kStrings && a.ints().empty()) {
    a.value = std::vector<std::string>();
  } else if (from == AttributeType::kInt && to == AttributeType::kTensor) {
    a.value = Tensor::vector_int64(std::vector{a.i()});
  } else if (from == AttributeType::kFloat && to == AttributeType::kTensor) {
    const float number = a.f();
    a.value = Tensor::of<float>(DType::kFloat, {1}, std::span(&number, 1));
  } else if (from != to) {
    return false;
  }
  a.type = to;
  return true;
}

}  // namespace

std::string complete_attribute_type(const OpSchema* schema, std::string_view op_type, RuleAttribute& attribute) {
  Attribute& a = attribute.literal;
  AttributeType want = a.type;
  if (schema != nullptr) {
    const OpAttribute* known = schema->attribute(a.name);
    if (known == nullptr) {
      std::string names;
      for (const OpAttribute& k : schema->attributes) names += (names.empty() ? "" : ", ") + std::string(k.name);
      return fmt::format("{} has no attribute `{}`; it has: {}", op_type, a.name, names.empty() ? "none" : names);
    }
    if (want != AttributeType::kUndefined && want != known->type)
      return fmt::format("attribute `{}` of {} is {}, not {}", a.name, op_type, type_word(known->type), type_word(want));
    want = known->type;
  }
  if (attribute.kind != RuleAttribute::Kind::kLiteral) {
    a.type = want;
    return {};
  }
  if (want == AttributeType::kUndefined) want = written_type(a);
  const AttributeType written = written_type(a);
  if (!convert(a, want)) return fmt::format("attribute `{}` of {} is {}, not {}", a.name, op_type, type_word(want), type_word(written));
  return {};
}

double match_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kDouble:
      return 1e-5;  // exporters write numbers rounded to float into doubles too
    case DType::kFloat16:
      return 4 * 0x1p-10;
    case DType::kBfloat16:
      return 4 * 0x1p-7;
    default:
      return is_floating(dtype) ? 0.125 : 0;
  }
}

bool matches_number(double found, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(found);
  if (found == wanted) return true;
  return std::isfinite(found) && std::fabs(found - wanted) <= tolerance * std::fabs(wanted);
}

}  // namespace saturate
