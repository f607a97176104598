// Masks that are multiplied: S * b + (1 - b) * f, where b holds nothing but 0 and 1, is Where(b, S, f).
#include <algorithm>
#include <array>
#include <cmath>

#include "rules/masks.h"
#include "rules/native_kit.h"
#include "rules/native_views.h"
#include "rules/opkey.h"

namespace saturate {
namespace {

using namespace native;

// Classes: 0 S, 1 b, 2 S * b, 3 one, 4 one - b, 5 f, 6 (one - b) * f, 7 the sum or difference.
void masked_by_product(const Views& v, const Match& m, Unions& unions, bool minus) {
  const Facts &scores = v.g.facts(m.classes[0]), &fill = v.g.facts(m.classes[5]);
  const Dims* shape = v.shape(m.classes[5]);
  if (!is_floating(scores.dtype) || !fill.constant || !shape || !v.shape(m.classes[0])) return;
  const auto is_scalar = [&](Id id) {
    return v.shape(id) && std::all_of(v.shape(id)->begin(), v.shape(id)->end(), [&](Dim d) { return v.g.dims().value(d) == 1; });
  };
  if (!is_scalar(m.classes[5]) || !is_scalar(m.classes[3]) || shape->size() > v.shape(m.classes[0])->size()) return;
  const auto one = v.g.value(m.classes[3], 64), f = v.g.value(m.classes[5], 64);
  if (!one || !f || element_as_double(*one, 0) != 1 || !element_as_double(*f, 0)) return;
  if (!std::isfinite(*element_as_double(*f, 0)) || !is_zero_or_one(v.g, m.classes[1])) return;
  const Id number = minus ? v.g.add(make_key("", "Neg", {}, 1, std::nullopt), std::array{m.classes[5]}) : m.classes[5];
  const Id kept = v.g.add(make_key("", "Cast", {Attribute::of("to", std::int64_t{9})}, 1, std::nullopt), std::array{m.classes[1]});
  unions.emplace_back(m.root(), v.g.add(make_key("", "Where", {}, 1, std::nullopt), std::array{kept, m.classes[0], number}));
}

ViewRule rule_of(std::string name, std::string doc, const char* last, bool minus) {
  return {std::move(name), std::move(doc), Effect::kReassociates,
          [last](OnnxEGraph& g) {
            return Pattern{{variable(), variable(), node(g, "Mul", {0, 1}), variable(), node(g, "Sub", {3, 1}), variable(),
                            node(g, "Mul", {4, 5}), node(g, last, {2, 6})}};
          },
          [minus](const Views& v, const Match& m, Unions& u) { masked_by_product(v, m, u, minus); }};
}

}  // namespace

std::vector<NativeRule> native_mask_rules() {
  return to_native(
      {rule_of("masked_by_sum_of_products", "S * b + (1 - b) * f = Where(b, S, f) where b is 0 or 1 everywhere", "Add", false),
       rule_of("masked_by_difference_of_products", "S * b - (1 - b) * f = Where(b, S, -f) where b is 0 or 1 everywhere", "Sub", true)});
}

}  // namespace saturate
