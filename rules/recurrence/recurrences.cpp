// The gated delta rule and its kin, as exporters unroll them, as one operator.
#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/views.h"
#include "rules/recurrence/recurrence.h"

namespace saturate {
namespace {

using namespace native;

// What was found in a graph, by its first Exp. A graph is looked at as it came: what rules make of it later says the same.
struct FoundRecurrences {
  std::mutex mutex;
  std::set<Id> seen;  // Exps of regions that were looked at
  std::map<Id, Recurrence> by_exp;
  FoundBySpelling<Recurrence> proven;
};

std::optional<Recurrence> recurrence_in(const OnnxEGraph& g, const Region& region, FoundRecurrences& found) {
  return found.proven.of(
      spelling_of(g, region), [&] { return recurrence_of(g, region); },
      [&](const Recurrence& r, const Spelling& from, const Spelling& to) { return moved(g, r, from, to); });
}

// Whether the region around an Exp is a recurrence that nobody has looked at.
bool is_recurrence(const OnnxEGraph& g, const Match& m) {
  if (g.facts(m.root()).constant || g.facts(m.root()).dtype != DType::kFloat) return false;
  auto& found = g.notes<FoundRecurrences>();
  const std::lock_guard lock(found.mutex);
  if (found.by_exp.contains(m.root())) return true;
  if (found.seen.contains(m.root()) || !g.egraph().clean()) return false;
  const auto region = region_around(g, m.root());
  found.seen.insert(m.root());
  if (!region) return false;
  found.seen.insert(region->exps.begin(), region->exps.end());
  auto made = recurrence_in(g, *region, found);
  if (!made) return false;
  found.by_exp.emplace(m.root(), *std::move(made));
  return true;
}

// A value as [batch, time, heads * size].
Id packed(const Views& v, Placed p, const Recurrence& r, std::optional<Dim> size) {
  const Id timed = p.layout == Layout::kTimeFirst ? p.id : size ? v.transpose(p.id, {0, 2, 1, 3}) : v.transpose(p.id, {0, 2, 1});
  return size ? v.reshape(timed, std::array{r.batch, r.time, v.g.dims().mul(r.heads, *size)}, 4) : timed;
}

void make_operator(const Views& v, const Match& m, Unions& unions) {
  if (!is_recurrence(v.g, m)) return;
  const Recurrence r = v.g.notes<FoundRecurrences>().by_exp.at(m.root());
  const std::int64_t heads = *v.g.dims().value(r.heads);
  std::vector<Id> inputs{packed(v, r.query, r, r.key_size), packed(v, r.key, r, r.key_size), packed(v, r.value, r, r.value_size),
                         r.past_state.id == kNone ? v.g.absent() : r.past_state.id, packed(v, r.decay, r, std::nullopt)};
  if (r.is_delta()) inputs.push_back(packed(v, r.beta, r, std::nullopt));
  const Id both = v.g.add(make_key("com.microsoft", "LinearAttention",
                                   {Attribute::of("kv_num_heads", heads), Attribute::of("q_num_heads", heads),
                                    Attribute::of("scale", static_cast<float>(r.query.factor)),
                                    Attribute::of("update_rule", std::string(r.is_delta() ? "gated_delta" : "gated"))},
                                   2, 3),
                          inputs);
  const Id result = v.reshape(v.g.project(both, 0), std::array{r.batch, r.time, r.heads, r.value_size}, 3);
  for (const Placed& p : r.results) unions.emplace_back(p.id, p.layout == Layout::kTimeFirst ? result : v.transpose(result, {0, 2, 1, 3}));
  for (const Id state : r.present_states) unions.emplace_back(state, v.g.project(both, 1));
}

}  // namespace

std::vector<NativeRule> native_recurrence_rules() {
  ViewRule rule{"unrolled_recurrence",
                "The gated delta rule, or a decayed sum of outer products, spelled with products and sums, is LinearAttention: a region "
                "around the Exp of a decay, without weights, that gives the same on drawn numbers",
                Effect::kReassociates,
                [](OnnxEGraph& g) { return over(g, "Exp", 1); },
                make_operator,
                true};
  rule.where = is_recurrence;
  auto rules = to_native({std::move(rule)});
  rules[0].assumes = {"finite_recurrence"};
  rules[0].makes = {"com.microsoft", "LinearAttention"};
  return rules;
}

}  // namespace saturate
