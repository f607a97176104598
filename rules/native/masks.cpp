// Masks with fills that runtimes take.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"
#include "rules/terms/literals.h"
#include "rules/values/fills.h"
#include "rules/values/masks.h"

namespace saturate {
namespace {

using namespace native;

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

// Classes: 0 the truth value, 1 and 2 what it chooses, 3 the choice, 4 its Softmax. `at`: where the scores are.
void infinite_choice_as_sum(const Views& v, const Match& m, Unions& unions, std::size_t at) {
  const Id scores = m.classes[at], mask = m.classes[3 - at], choice = m.classes[3];
  const auto fill = number_of(v.g, mask);
  const DType dtype = v.g.facts(scores).dtype;
  if (!v.shape(scores) || !v.shape(choice) || !fill || !is_floating(dtype)) return;
  if (!useful(v.equal(*v.shape(scores), *v.shape(choice)) && !told_as_nan(v.g, m.root()) && v.refused(m, 3))) return;
  const auto held = fills_of(v.g, scores);
  if (!v.guard("the scores hold no mask", held && !held->infinite && held->sum <= kNearZero)) return;
  if (!v.guard("the fill is minus infinity", *fill == -std::numeric_limits<double>::infinity())) return;
  const auto number = [&](double x) { return v.g.constant(*tensor_of_reals(dtype, Shape{}, std::array{x})); };
  const Id zero = number(0), hidden = number(lowest_fill(dtype));
  const Id sum = v.g.add(v.g.key(m.ops[3]), at == 1 ? std::array{m.classes[0], zero, hidden} : std::array{m.classes[0], hidden, zero});
  const Id masked = v.g.add(make_key("", "Add", {}, 1, std::nullopt), std::array{scores, sum});
  unions.emplace_back(m.root(), v.g.add(v.g.key(m.ops[4]), std::array{masked}));
}

ViewRule infinite_choice(std::string name, std::size_t at) {
  return {std::move(name),
          "Softmax of scores or -inf = Softmax of scores and a mask of numbers, where the target refuses the choice",
          Effect::kReassociates,
          [](OnnxEGraph& g) {
            return Pattern{{variable(), variable(), variable(), node(g, "Where", {0, 1, 2}), node(g, "Softmax", {3})}};
          },
          [at](const Views& v, const Match& m, Unions& u) { infinite_choice_as_sum(v, m, u, at); },
          true,
          {},
          true,
          1};
}

}  // namespace

std::vector<NativeRule> native_mask_rules() {
  std::vector<NativeRule> out = to_native(
      {raising("raised_mask_of_sdpa", "sdpa(Q, K, V, M) = sdpa(Q, K, V, M with fills of at least -1e30), which hides the same", false),
       raising("bounded_mask_of_sdpa", "sdpa(Q, K, V, M) = sdpa(Q, K, V, Max(M, -1e30)), of parts of M of which nothing is known", true)});
  out[1].assumes = {"finite_scores", "no_empty_row"};
  for (NativeRule& rule :
       to_native({infinite_choice("hidden_by_infinity_is_sum", 1), infinite_choice("hidden_by_infinity_is_sum_mirrored", 2)})) {
    rule.assumes = {"finite_scores", "no_empty_row"};
    out.push_back(std::move(rule));
  }
  return out;
}

}  // namespace saturate
