#include "onnx_bridge/convert/signs.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

// Einsum `bij,bij->b`: of one operand twice it is a sum of squares.
bool pairs_elements(const OpKey& key) {
  const Attribute* equation = find_attribute(key.attributes, "equation");
  const std::string_view text = equation != nullptr ? std::string_view(equation->s()) : std::string_view();
  const std::size_t comma = text.find(','), arrow = text.find("->");
  return comma < arrow && arrow != text.npos && text.substr(0, comma) == text.substr(comma + 1, arrow - comma - 1);
}

bool is_even_number(const Facts& facts) {
  const auto number = facts.value && facts.value->size() == 1 ? element_as_double(*facts.value, 0) : std::nullopt;
  return number && std::fmod(*number, 2.0) == 0;
}

}  // namespace

SignOf sign_of(const OpKey& key) {
  const std::string& op = key.op_type;
  if (!key.domain.empty() || key.version != 0 || key.unique != 0 || key.outputs != 1) return SignOf::kNothing;
  const OperatorTraits* traits = traits_of(key.domain, op);
  if (traits != nullptr && (traits->has(Trait::kPositive) || (traits->has(Trait::kEven) && traits->has(Trait::kKeepsMagnitude))))
    return SignOf::kAlways;
  if (traits != nullptr && traits->has(Trait::kMovement)) return SignOf::kFirst;
  if (op == "Mul") return SignOf::kSquareOrAll;
  if (op == "Einsum") return pairs_elements(key) ? SignOf::kSquare : SignOf::kNothing;
  if (op == "Pow") return SignOf::kEvenPower;
  if (op == "Add" || op == "Div") return SignOf::kAll;
  if (op == "ReduceMean" || op == "ReduceSum") return SignOf::kFirst;
  return op == "Cast" ? SignOf::kFirst : SignOf::kNothing;
}

bool never_negative(SignOf sign, std::span<const Facts* const> inputs) {
  const auto known = [](const Facts* f) { return f->never_negative; };
  const bool of_one = inputs.size() == 2 && inputs[0] == inputs[1];
  switch (sign) {
    case SignOf::kNothing:
      return false;
    case SignOf::kAlways:
      return true;
    case SignOf::kEvenPower:
      return inputs.size() == 2 && is_even_number(*inputs[1]);
    case SignOf::kFirst:
      return !inputs.empty() && known(inputs[0]);
    case SignOf::kSquare:
      return of_one;
    case SignOf::kSquareOrAll:
      if (of_one) return true;
      [[fallthrough]];
    case SignOf::kAll:
      return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), known);
  }
  return false;
}

}  // namespace saturate
