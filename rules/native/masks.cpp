// Masks that are multiplied: S * b + (1 - b) * f, where b holds nothing but 0 and 1, is Where(b, S, f).
// Masks with fills that runtimes take.
#include <algorithm>
#include <array>
#include <cmath>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"
#include "rules/values/fills.h"
#include "rules/values/masks.h"

namespace saturate {
namespace {

using namespace native;

// Classes: 0 S, 1 b, 2 S * b, 3 one, 4 one - b, 5 f, 6 (one - b) * f, 7 the sum or difference.
void masked_by_product(const Views& v, const Match& m, Unions& unions, bool minus) {
  const Facts &scores = v.g.facts(m.classes[0]), &fill = v.g.facts(m.classes[5]);
  const Dims* shape = v.shape(m.classes[5]);
  if (!useful(is_floating(scores.dtype)) || !fill.constant || !shape || !v.shape(m.classes[0])) return;
  const auto is_scalar = [&](Id id) {
    return v.shape(id) && std::all_of(v.shape(id)->begin(), v.shape(id)->end(), [&](Dim d) { return v.g.dims().value(d) == 1; });
  };
  if (!v.guard("f is one number", is_scalar(m.classes[5])) || !v.guard("one is one number", is_scalar(m.classes[3]))) return;
  const std::size_t rank = v.shape(m.classes[0])->size();
  if (!useful(shape->size() <= rank) || !v.guard("one does not widen the scores", v.shape(m.classes[3])->size() <= rank)) return;
  const auto one = v.g.value(m.classes[3], 64), f = v.g.value(m.classes[5], 64);
  if (!one || !f || !element_as_double(*f, 0) || !v.guard("one is 1", element_as_double(*one, 0) == 1)) return;
  if (!v.guard("f is finite", std::isfinite(*element_as_double(*f, 0)))) return;
  if (!v.guard("b is 0 or 1 everywhere", is_zero_or_one(v.g, m.classes[1]))) return;
  const Id number = minus ? v.g.add(make_key("", "Neg", {}, 1, std::nullopt), std::array{m.classes[5]}) : m.classes[5];
  const Id kept = v.g.add(make_key("", "Cast", {Attribute::of("to", std::int64_t{9})}, 1, std::nullopt), std::array{m.classes[1]});
  unions.emplace_back(m.root(), v.g.add(make_key("", "Where", {}, 1, std::nullopt), std::array{kept, m.classes[0], number}));
}

// Classes: 0 to 2 Q, K, V, 3 the mask, 4 saturate.sdpa.
void raised_mask(const Views& v, const Match& m, Unions& unions, bool of_any) {
  const Id mask = m.classes[3];
  if (v.g.facts(mask).kind != Facts::Kind::kTensor || !is_floating(v.g.facts(mask).dtype)) return;
  std::optional<Id> raised = with_raised_fills(v.g, mask, UnknownFills::kRefused);
  if (raised.has_value() == of_any) return;
  if (of_any) {
    const bool keep_infinity = told_as_nan(v.g, m.root()) || holds_attention(v.g);
    raised = with_raised_fills(v.g, mask, keep_infinity ? UnknownFills::kHalved : UnknownFills::kBounded);
  }
  if (!raised || *raised == v.g.egraph().find(mask)) return;
  const OpKey key = v.g.key(m.ops[4]);
  unions.emplace_back(m.root(), v.g.add(key, std::array{m.classes[0], m.classes[1], m.classes[2], *raised}));
}

ViewRule raising(std::string name, std::string doc, bool of_any) {
  return {std::move(name),
          std::move(doc),
          Effect::kReassociates,
          [](OnnxEGraph& g) {
            return Pattern{{variable(), variable(), variable(), variable(), node(g, "sdpa", {0, 1, 2, 3}, "saturate")}};
          },
          [of_any](const Views& v, const Match& m, Unions& u) { raised_mask(v, m, u, of_any); },
          true};
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
  std::vector<NativeRule> out = to_native(
      {rule_of("masked_by_sum_of_products", "S * b + (1 - b) * f = Where(b, S, f) where b is 0 or 1 everywhere", "Add", false),
       rule_of("masked_by_difference_of_products", "S * b - (1 - b) * f = Where(b, S, -f) where b is 0 or 1 everywhere", "Sub", true),
       raising("raised_mask_of_sdpa", "sdpa(Q, K, V, M) = sdpa(Q, K, V, M with fills of at least -1e30), which hides the same", false),
       raising("bounded_mask_of_sdpa", "sdpa(Q, K, V, M) = sdpa(Q, K, V, Max(M, -1e30)), of parts of M of which nothing is known", true)});
  out[0].assumes = out[1].assumes = {"finite_values"};
  out[3].assumes = {"finite_scores", "no_empty_row"};
  return out;
}

}  // namespace saturate
