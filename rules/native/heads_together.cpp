// Attention of single heads, whose results are joined, is attention of all heads. It begins where a Concat joins saturate.sdpa of one head
// each (heads_together), and goes on through what made the queries, keys and values of each head alike (parts_together).
#include <algorithm>
#include <array>
#include <optional>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/native/axes.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"
#include "rules/values/heads.h"

namespace saturate {
namespace {

using namespace native;

constexpr std::uint32_t kMostTogether = 64;

// Which Concats are wanted as one operator.
struct WantedTogether : HeadNotes {};

struct Operator {
  OpId op = kNone;
  std::vector<Id> inputs;
};

std::vector<Operator> operators_in(const Views& v, Id x) {
  std::vector<Operator> out;
  for (const NodeId n : v.g.egraph().class_nodes(x)) {
    const ENode node = v.g.egraph().node(n);
    out.push_back({node.op, {node.children.begin(), node.children.end()}});
  }
  return out;
}

bool is(const Views& v, OpId op, std::string_view domain, std::string_view name) {
  return v.g.key(op).domain == domain && v.g.key(op).op_type == name;
}

bool same_class(const Views& v, Id a, Id b) { return v.g.egraph().find(a) == v.g.egraph().find(b); }
bool all_same(const Views& v, std::span<const Id> ids) {
  return std::all_of(ids.begin(), ids.end(), [&](Id id) { return same_class(v, id, ids[0]); });
}
bool all_of_one_shape(const Views& v, std::span<const Id> ids) {
  const Dims* first = v.shape(ids[0]);
  return first && std::all_of(ids.begin(), ids.end(), [&](Id id) { return v.shape(id) && v.equal(*v.shape(id), *first); });
}
// A Concat that is to be one operator, too.
Id together(const Views& v, std::span<const Id> parts, std::size_t axis) {
  const Id joined = v.concat(parts, static_cast<std::int64_t>(axis));
  if (v.watch == nullptr) v.g.notes<WantedTogether>().add(v.g, joined, {axis, {parts.begin(), parts.end()}});
  return joined;
}

// ---- attention

// The sdpa of one head that a class is, or that it is a view of.
std::vector<Operator> heads_in(const Views& v, Id x) {
  std::vector<Operator> out;
  for (const Operator& of : operators_in(v, x)) {
    if (is(v, of.op, "saturate", "sdpa")) out.push_back(of);
    if (!is(v, of.op, "", "Reshape")) continue;
    for (const Operator& below : operators_in(v, of.inputs[0]))
      if (is(v, below.op, "saturate", "sdpa")) out.push_back(below);
  }
  return out;
}

// One of each part that is as this one but for its inputs; empty where a part has none.
std::vector<Operator> alike(const Views& v, const Operator& first, std::span<const Id> parts,
                            std::vector<Operator> (*of)(const Views&, Id)) {
  std::vector<Operator> out{first};
  for (const Id part : parts.subspan(1)) {
    const auto all = of(v, part);
    const auto it =
        std::find_if(all.begin(), all.end(), [&](const Operator& o) { return o.op == first.op && o.inputs.size() == first.inputs.size(); });
    if (it == all.end()) return {};
    out.push_back(*it);
  }
  return out;
}

std::vector<Id> inputs_at(std::span<const Operator> operators, std::size_t input) {
  std::vector<Id> out;
  for (const Operator& o : operators) out.push_back(o.inputs[input]);
  return out;
}

// Keys and values of all heads: those of neighbours that share theirs once. nullopt where these are not groups of one size.
std::optional<std::array<Id, 2>> keys_and_values(const Views& v, std::span<const Operator> heads) {
  std::vector<Id> keys, values;
  std::size_t begun = 0;
  std::optional<std::size_t> size;
  for (std::size_t i = 1; i <= heads.size(); ++i) {
    if (i < heads.size() && same_class(v, heads[i].inputs[1], heads[begun].inputs[1]) &&
        same_class(v, heads[i].inputs[2], heads[begun].inputs[2]))
      continue;
    if (!size) size = i - begun;
    if (!v.guard("as many heads share each key", i - begun == *size)) return std::nullopt;
    keys.push_back(heads[begun].inputs[1]);
    values.push_back(heads[begun].inputs[2]);
    begun = i;
  }
  if (!all_of_one_shape(v, keys) || !all_of_one_shape(v, values) || heads.size() % keys.size() != 0) return std::nullopt;
  if (keys.size() == 1) return std::array{keys[0], values[0]};
  return std::array{together(v, keys, 1), together(v, values, 1)};
}

// A mask that all heads share and that says nothing of heads, or one of each.
std::optional<Id> mask_of(const Views& v, std::span<const Id> masks) {
  const Dims* dims = v.shape(masks[0]);
  if (!dims) return std::nullopt;
  const bool one = dims->size() < 3 || v.is_one((*dims)[dims->size() - 3]);
  if (all_same(v, masks)) return one ? std::optional(masks[0]) : std::nullopt;
  return dims->size() == 4 && one && all_of_one_shape(v, masks) ? std::optional(together(v, masks, 1)) : std::nullopt;
}

std::optional<Id> attention_of(const Views& v, std::span<const Operator> heads) {
  for (const Operator& head : heads)
    for (std::size_t i = 0; i < 3; ++i) {
      const Dims* dims = v.shape(head.inputs[i]);
      if (!dims || dims->size() != 4 || !v.is_one((*dims)[1])) return std::nullopt;
    }
  const auto queries = inputs_at(heads, 0);
  if (!all_of_one_shape(v, queries)) return std::nullopt;
  std::vector<Id> inputs{together(v, queries, 1)};
  const auto shared = keys_and_values(v, heads);
  if (!shared) return std::nullopt;
  inputs.insert(inputs.end(), shared->begin(), shared->end());
  if (heads[0].inputs.size() == 4) {
    const auto mask = mask_of(v, inputs_at(heads, 3));
    if (!mask) return std::nullopt;
    inputs.push_back(*mask);
  }
  return v.g.add(v.g.key(heads[0].op), inputs);
}

// Heads [B, N, T, D] as what joins [B, T, D], [B, T, 1, D] or [B, 1, T, D] along this axis; nullopt where it joins something else.
std::optional<Id> as_joined(const Views& v, Id attention, const Dims& part, std::size_t axis, const Dims& result) {
  const Dims* heads = v.shape(attention);
  if (!heads || heads->size() != 4) return std::nullopt;
  const Dim one = v.g.dims().constant(1), b = (*heads)[0], t = (*heads)[2], d = (*heads)[3];
  if (axis == 1 && v.equal(part, Dims{b, one, t, d})) return attention;
  const Dims last_of[] = {{b, t, d}, {b, t, one, d}, {b, one, t, d}};
  const bool in_last =
      axis + 1 == part.size() && std::any_of(std::begin(last_of), std::end(last_of), [&](const Dims& x) { return v.equal(part, x); });
  if (!in_last && !v.guard("heads are joined beside one another", axis == 2 && v.equal(part, last_of[1]))) return std::nullopt;
  const Id apart = v.transpose(attention, {0, 2, 1, 3});
  return v.equal(*v.shape(apart), result) ? apart : v.reshape(apart, result, 4);
}

// Classes: the parts, and the result.
void heads_together(const Views& v, const Match& m, Unions& unions) {
  const std::vector<Id> parts(m.classes.begin(), m.classes.end() - 1);
  const auto axis = v.axis(m.ops.back(), parts[0]);
  if (!axis || !v.shape(m.root()) || !all_of_one_shape(v, parts)) return;
  for (const Operator& first : heads_in(v, parts[0])) {
    const auto heads = alike(v, first, parts, heads_in);
    if (heads.empty()) continue;
    const Dims part = *v.shape(parts[0]), result = *v.shape(m.root());
    const auto attention = attention_of(v, heads);
    const auto joined = attention ? as_joined(v, *attention, part, *axis, result) : std::nullopt;
    if (joined) return unions.emplace_back(m.root(), *joined), void();
  }
}

// ---- what made the parts

// All values of one Split along this axis, in order.
std::optional<Id> split_of(const Views& v, std::span<const Id> parts, std::size_t axis) {
  for (const Operator& first : operators_in(v, parts[0])) {
    if (!is(v, first.op, "#", kProjOp)) continue;
    for (const Operator& split : operators_in(v, first.inputs[0])) {
      if (!is(v, split.op, "", "Split") || v.g.key(split.op).outputs != static_cast<int>(parts.size())) continue;
      if (!v.guard("the Split is along the axis of the Concat", v.axis(split.op, split.inputs[0]) == axis)) continue;
      bool all = true;
      for (std::size_t i = 0; i < parts.size(); ++i)
        all = all && same_class(v, parts[i], v.g.project(first.inputs[0], static_cast<int>(i)));
      if (v.guard("the parts are in order", all)) return split.inputs[0];
    }
  }
  return std::nullopt;
}

// Operands that broadcast: what all parts share is read by all where it has nothing along the axis, others are joined there.
std::optional<Id> operand(const Views& v, std::span<const Id> parts, const Dims& result, std::size_t axis) {
  const Dims* dims = v.shape(parts[0]);
  if (!dims || dims->size() > result.size() || !all_of_one_shape(v, parts)) return std::nullopt;
  const std::size_t missing = result.size() - dims->size();
  const bool there = axis >= missing, one = !there || v.is_one((*dims)[axis - missing]);
  if (all_same(v, parts) && one) return parts[0];
  if (!there || !v.equal((*dims)[axis - missing], result[axis])) return std::nullopt;
  return together(v, parts, axis - missing);
}

// What makes each place along the axis of places of its inputs makes all of them of what is joined there.
std::optional<Id> joined_by_axes(const Views& v, const OpKey& key, std::span<const Operator> parts, const Dims& result, std::size_t axis) {
  const auto axes = key.outputs == 1 ? axes_of(ViewOfOperator(v, key, parts[0].inputs, result)) : std::nullopt;
  const AxisLink* link = axes && !axes->sizes ? axes->apart({0, true}, static_cast<int>(axis)) : nullptr;
  if (!link) return std::nullopt;
  std::vector<Id> inputs;
  for (std::size_t i = 0; i < parts[0].inputs.size(); ++i) {
    const std::vector<Id> each = inputs_at(parts, i);
    const AxisAt* at = link->of({static_cast<int>(i)});
    const bool joined = at && !at->one;
    if (joined ? !all_of_one_shape(v, each) : !v.guard("what has nothing along the axis is one for all", all_same(v, each)))
      return std::nullopt;
    inputs.push_back(joined ? together(v, each, static_cast<std::size_t>(at->axis)) : each[0]);
  }
  return v.g.add(key, inputs);
}

// The operator of all parts on operands that are joined; `result` of one part. nullopt where that is not the Concat of the parts.
std::optional<Id> joined_operator(const Views& v, std::span<const Operator> parts, const Dims& result, std::size_t axis,
                                  const Dims& whole) {
  const OpKey key = v.g.key(parts[0].op);
  const auto at = [&](std::size_t input) { return inputs_at(parts, input); };
  if (key.domain.empty() && key.op_type == "Reshape") {  // [B, T, D] to [B, 1, T, D]
    const Dims* from = v.shape(parts[0].inputs[0]);
    if (!from || from->size() != 3 || result.size() != 4 || axis != 1 || !v.is_one(result[1]) || !all_of_one_shape(v, at(0)))
      return std::nullopt;
    if (!v.guard("the Reshape adds the axis", v.equal(*from, Dims{result[0], result[2], result[3]}))) return std::nullopt;
    const Id side_by_side = together(v, at(0), 2);
    return v.transpose(v.reshape(side_by_side, Dims{whole[0], whole[2], whole[1], whole[3]}, 3), {0, 2, 1, 3});
  }
  const bool rope = key.domain == "saturate" && key.op_type == "rope";
  if (!rope && !has(Trait::kElementwise, key)) return joined_by_axes(v, key, parts, result, axis);
  if (rope && axis + 1 == result.size()) return std::nullopt;
  std::vector<Id> inputs;
  for (std::size_t i = 0; i < parts[0].inputs.size(); ++i) {
    const auto input = operand(v, at(i), result, axis);
    if (!input) return std::nullopt;
    inputs.push_back(*input);
  }
  if (inputs == parts[0].inputs) return std::nullopt;  // one part, as often as there are parts: nothing has an entry for each
  return v.g.add(key, inputs);
}

void parts_together(const Views& v, const Match& m, Unions& unions) {
  const std::vector<Id> parts(m.classes.begin(), m.classes.end() - 1);
  const auto axis = v.axis(m.ops.back(), parts[0]);
  const Dims *part = v.shape(parts[0]), *whole = v.shape(m.root());
  if (!axis || !part || !whole || !all_of_one_shape(v, parts)) return;
  if (const auto split = split_of(v, parts, *axis)) return unions.emplace_back(m.root(), *split), void();
  const Dims result = *part, all = *whole;
  for (const Operator& first : operators_in(v, parts[0])) {
    if (first.inputs.empty() || v.g.key(first.op).domain == "#") continue;
    const auto made = alike(v, first, parts, operators_in);
    const auto joined = made.empty() ? std::nullopt : joined_operator(v, made, result, *axis, all);
    if (joined) unions.emplace_back(m.root(), *joined);
  }
}

std::vector<Pattern> joins(OnnxEGraph& g) {
  std::vector<Pattern> out;
  for (std::uint32_t n = 2; n <= kMostTogether; ++n) out.push_back(over(g, "Concat", n));
  return out;
}

// Whether the model's first part may be attention: nothing is to be looked up otherwise.
bool joins_attention(const OnnxEGraph& g, const Match& m) { return !heads_in(Views{const_cast<OnnxEGraph&>(g)}, m.classes[0]).empty(); }

bool is_wanted(const OnnxEGraph& g, const Match& m) { return g.notes<WantedTogether>().find(g, m.root()) != nullptr; }

}  // namespace

std::vector<NativeRule> native_heads_together_rules() {
  std::vector<ViewRule> rules{
      {"heads_together", "a Concat of attention of single heads = attention of all heads", Effect::kExact, {}, heads_together, true, joins},
      {"parts_together",
       "a Concat of what an operator makes of the parts of heads = the operator on all heads",
       Effect::kReassociates,
       {},
       parts_together,
       true,
       joins}};
  rules[0].where = joins_attention;
  rules[1].where = is_wanted;
  return to_native(std::move(rules));
}

}  // namespace saturate
