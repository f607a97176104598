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

}  // namespace

std::vector<NativeRule> native_mask_rules() {
  std::vector<NativeRule> out = to_native(
      {raising("raised_mask_of_sdpa", "sdpa(Q, K, V, M) = sdpa(Q, K, V, M with fills of at least -1e30), which hides the same", false),
       raising("bounded_mask_of_sdpa", "sdpa(Q, K, V, M) = sdpa(Q, K, V, Max(M, -1e30)), of parts of M of which nothing is known", true)});
  out[1].assumes = {"finite_scores", "no_empty_row"};
  return out;
}

}  // namespace saturate
