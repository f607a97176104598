// The heads of attention, apart. One e-node has all heads as inputs (Concat) or as outputs (Split), so that e-nodes are linear in their
// number. It begins with products and Softmax that the target refuses or wishes away (heads_begin), and goes on from there through whatever
// works on each head by itself: towards the outputs from a Concat of heads, towards the inputs to a Split (heads_go_on).
#include <algorithm>
#include <array>
#include <numeric>
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

constexpr std::int64_t kMostHeads = 128;
constexpr std::size_t kMostRank = 6;

// What hands elements on as they are, in another shape or order.
bool only_moves(const OpKey& key) { return key.domain.empty() && (key.op_type == "Reshape" || key.op_type == "Transpose"); }

// Where an operator's result is cut, and into how many parts.
struct Cut {
  std::size_t axis = 0;
  std::int64_t parts = 0;
};

// Where each input is cut for it; nullopt: it is read whole, by every part.
using InputCuts = std::vector<std::optional<std::size_t>>;

// An operator, as a match gives it.
struct Site {
  const Views& v;
  OpId op;
  std::vector<Id> inputs;
  Id result;
  const OpKey& key() const { return v.g.key(op); }
  const Dims* dims(std::size_t input) const { return input < inputs.size() ? v.shape(inputs[input]) : nullptr; }
  bool is(std::string_view name) const { return key().domain.empty() && key().op_type == name; }
  bool is_internal(std::string_view name) const { return key().domain == "saturate" && key().op_type == name; }
};

bool divides(const Views& v, std::int64_t parts, Dim dim) {
  const auto n = v.g.dims().value(dim);
  return n && *n >= parts && *n % parts == 0;
}

// ---- which axis of an input is which of the result

// Of operands that broadcast: nullopt where an operand has another size than the result there, and is not 1.
std::optional<InputCuts> of_operands(const Site& s, const Dims& result, Cut cut) {
  InputCuts out;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const Facts& f = s.v.g.facts(s.inputs[i]);
    const Dims* dims = s.dims(i);
    if (f.kind != Facts::Kind::kAbsent && !dims) return std::nullopt;
    const std::size_t missing = dims ? result.size() - dims->size() : result.size();
    if (cut.axis < missing || s.v.is_one((*dims)[cut.axis - missing])) {
      out.emplace_back(std::nullopt);
      continue;
    }
    if (!s.v.equal((*dims)[cut.axis - missing], result[cut.axis])) return std::nullopt;
    out.emplace_back(cut.axis - missing);
  }
  return out;
}

// The first input alone, at this axis.
InputCuts first_at(const Site& s, std::size_t axis) {
  InputCuts out(s.inputs.size());
  out[0] = axis;
  return out;
}

// By what is known of its axes (op_axes.inc).
std::optional<InputCuts> by_axes(const Site& s, const Dims& result, Cut cut) {
  const auto axes = s.key().outputs == 1 ? axes_of(ViewOfOperator(s.v, s.key(), s.inputs, result)) : std::nullopt;
  if (!axes || axes->sizes) return std::nullopt;
  const AxisLink* link = axes->apart({0, true}, static_cast<int>(cut.axis));
  if (!s.v.guard("each place along the heads is made by itself", link != nullptr)) return std::nullopt;
  if (!link) return first_at(s, cut.axis);
  InputCuts out(s.inputs.size());
  for (const AxisAt& at : link->inputs)
    if (!at.one) out[static_cast<std::size_t>(at.port.index)] = static_cast<std::size_t>(at.axis);
  return out;
}

// Elements before the heads stay before them, so each of these rows is cut into the same runs.
std::optional<InputCuts> of_reshape(const Site& s, const Dims& result, Cut cut) {
  const Dims* from = s.dims(0);
  if (!from || from->size() > kMostRank) return std::nullopt;
  const Dim before = s.v.g.dims().product(std::span(result).first(cut.axis));
  for (std::size_t a = 0; a < from->size(); ++a) {
    if (!divides(s.v, cut.parts, (*from)[a])) continue;
    if (s.v.guard("as much lies before the heads", s.v.equal(s.v.g.dims().product(std::span(*from).first(a)), before)))
      return first_at(s, a);
  }
  return std::nullopt;
}

std::optional<InputCuts> of_expand(const Site& s, const Dims& result, Cut cut) {
  const Dims* from = s.dims(0);
  if (!from || from->size() > result.size()) return std::nullopt;
  const std::size_t missing = result.size() - from->size();
  if (cut.axis < missing || s.v.is_one((*from)[cut.axis - missing])) return InputCuts(s.inputs.size());
  return first_at(s, cut.axis - missing);
}

// For each input where it is cut; nullopt where the operator does not work on each part by itself, or that is not known.
std::optional<InputCuts> input_cuts(const Site& s, Cut cut) {
  const Dims* result = s.v.shape(s.result);
  if (!result || result->size() > kMostRank || cut.axis >= result->size() || !divides(s.v, cut.parts, (*result)[cut.axis]) ||
      s.inputs.empty())
    return std::nullopt;
  if (has(Trait::kElementwise, s.key()) && !has(Trait::kRandom, s.key())) return of_operands(s, *result, cut);
  if (s.is("Reshape")) return of_reshape(s, *result, cut);
  if (s.is("Expand")) return of_expand(s, *result, cut);
  return by_axes(s, *result, cut);
}

// ---- parts

// (Into sizes that are given: opsets below 18 know no number of outputs.)
Id split(const Views& v, Id x, Cut cut) {
  const Dims& dims = *v.shape(x);
  const std::vector<std::int64_t> sizes(static_cast<std::size_t>(cut.parts), *v.g.dims().value(dims[cut.axis]) / cut.parts);
  const OpKey key = make_key("", "Split", {Attribute::of("axis", static_cast<std::int64_t>(cut.axis))}, static_cast<int>(cut.parts),
                             static_cast<int>(dims.size()));
  return v.g.add(key, std::array{x, v.g.constant(Tensor::vector_int64(sizes))});
}

// A class that holds a Concat of equal parts, or is divided into such by a Split. Only the checker asks: of a run's e-graph the notes tell.
std::optional<HeadsApart> seen_apart(const Views& v, Id x) {
  const EGraph& e = v.g.egraph();
  for (const NodeId n : e.class_nodes(x)) {
    const ENode node = e.node(n);
    const auto axis = v.g.key(node.op).op_type == "Concat" ? v.axis(node.op, node.children[0]) : std::nullopt;
    const auto equal = [&](Id part) { return v.shape(part) && v.equal(*v.shape(part), *v.shape(node.children[0])); };
    if (axis && std::all_of(node.children.begin(), node.children.end(), equal))
      return HeadsApart{*axis, {node.children.begin(), node.children.end()}};
  }
  for (const NodeId n : e.class_users(x)) {
    const ENode node = e.node(n);
    const OpKey& key = v.g.key(node.op);
    if (key.op_type != "Split" || node.children.size() != 1) continue;
    HeadsApart out{v.axis(node.op, x).value_or(0), {}};
    for (int i = 0; i < key.outputs; ++i) out.parts.push_back(v.g.project(e.class_of(n), i));
    return out;
  }
  return std::nullopt;
}

std::optional<HeadsApart> apart(const Views& v, Id x) {
  if (v.watch) return seen_apart(v, x);
  const HeadsApart* known = v.g.notes<HeadNotes>().find(v.g, x);
  return known ? std::optional(*known) : std::nullopt;
}

bool is_apart_at(const std::optional<HeadsApart>& heads, Cut cut) {
  return heads && heads->axis == cut.axis && std::ssize(heads->parts) == cut.parts;
}

// The parts of a value: those that it was made of, or those of a Split. A constant's are constants.
std::vector<Id> parts_of(const Views& v, Id x, Cut cut, Unions& unions) {
  const auto known = apart(v, x);
  if (is_apart_at(known, cut)) return known->parts;
  const Id tuple = split(v, x, cut);
  std::vector<Id> parts;
  for (int i = 0; i < cut.parts; ++i) parts.push_back(v.g.project(tuple, i));
  if (known || v.g.facts(x).constant) return parts;
  v.g.notes<HeadNotes>().add(v.g, x, {cut.axis, parts});
  unions.emplace_back(x, v.concat(parts, static_cast<std::int64_t>(cut.axis)));
  return parts;
}

// What a Reshape in this class reshapes, or the class itself.
Id below_reshape(const Views& v, Id x) {
  for (const NodeId n : v.g.egraph().class_nodes(x)) {
    const ENode node = v.g.egraph().node(n);
    if (v.g.key(node.op).domain.empty() && v.g.key(node.op).op_type == "Reshape") return node.children[0];
  }
  return x;
}

// X in another shape, without a Reshape of a Reshape.
Id in_shape(const Views& v, Id x, const Dims& to) {
  if (v.equal(*v.shape(x), to)) return x;
  const Id below = below_reshape(v, x);
  if (const Dims* own = v.shape(below); own && v.equal(*own, to)) return below;
  return v.reshape(below, to, 0);
}

// One part of a result: the operator on parts of its inputs. No other rules look at it, so views of it are simplified here.
Id part(const Site& s, std::span<const Id> inputs, Cut cut) {
  if (!only_moves(s.key()) && !s.is("Expand")) return s.v.g.add(s.key(), inputs);
  Dims to = *s.v.shape(s.result);
  to[cut.axis] = s.v.g.dims().constant(*s.v.g.dims().value(to[cut.axis]) / cut.parts);
  if (s.is("Expand")) return s.v.expand(inputs[0], to);
  if (s.is("Reshape")) return in_shape(s.v, inputs[0], to);
  const Dims from = *s.v.shape(inputs[0]);
  std::vector<std::int64_t> moved;
  const auto perm = s.v.perm(s.op, from.size());
  for (const std::int64_t axis : perm.value_or(std::vector<std::int64_t>()))
    if (!s.v.is_one(from[static_cast<std::size_t>(axis)])) moved.push_back(axis);
  return std::is_sorted(moved.begin(), moved.end()) ? in_shape(s.v, inputs[0], to) : s.v.g.add(s.key(), inputs);
}

// What the parts of a result are known as, or the result as their Concat.
void tell_parts(const Site& s, Cut cut, std::vector<Id> made, Unions& unions) {
  if (const auto known = apart(s.v, s.result)) {
    for (std::size_t p = 0; p < made.size() && is_apart_at(known, cut); ++p) unions.emplace_back(known->parts[p], made[p]);
    return;
  }
  unions.emplace_back(s.result, s.v.concat(made, static_cast<std::int64_t>(cut.axis)));
  s.v.g.notes<HeadNotes>().add(s.v.g, s.result, {cut.axis, std::move(made)});
}

// Each head of keys, as often as heads of queries share it.
void take_apart_repeated(const Site& s, Cut cut, Unions& unions) {
  const Dims* dims = s.dims(0);
  const auto heads = dims && dims->size() == 4 ? s.v.g.dims().value((*dims)[1]) : std::nullopt;
  const std::int64_t times = s.v.int_attribute(s.op, "times", 1);
  if (!heads || *heads < 1 || *heads * times > kMostHeads) return;
  if (!s.v.guard("the heads are cut, each by itself", cut.axis == 1 && cut.parts == *heads * times)) return;
  const std::vector<Id> each = *heads == 1 ? std::vector<Id>{s.inputs[0]} : parts_of(s.v, s.inputs[0], {1, *heads}, unions);
  std::vector<Id> made;
  for (const Id head : each) made.insert(made.end(), static_cast<std::size_t>(times), head);
  tell_parts(s, cut, std::move(made), unions);
}

// The operator's result as the Concat of the operator on parts.
void take_apart(const Site& s, Cut cut, Unions& unions) {
  if (s.is_internal("repeat_heads")) return take_apart_repeated(s, cut, unions);
  const auto cuts = input_cuts(s, cut);
  if (!cuts) return;
  const auto known = apart(s.v, s.result);
  if (known && !is_apart_at(known, cut)) return;
  for (std::size_t i = 0; i < s.inputs.size(); ++i)
    if (const auto at = (*cuts)[i]; at && (!s.dims(i) || *at >= s.dims(i)->size() || !divides(s.v, cut.parts, (*s.dims(i))[*at]))) return;
  std::vector<std::vector<Id>> parts;
  for (std::size_t i = 0; i < s.inputs.size(); ++i)
    parts.push_back((*cuts)[i] ? parts_of(s.v, s.inputs[i], {*(*cuts)[i], cut.parts}, unions)
                               : std::vector<Id>(static_cast<std::size_t>(cut.parts), s.inputs[i]));
  std::vector<Id> made, inputs(s.inputs.size());
  for (std::size_t p = 0; p < static_cast<std::size_t>(cut.parts); ++p) {
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = parts[i][p];
    made.push_back(part(s, inputs, cut));
    if (!s.v.shape(made.back())) return;  // it cannot be
  }
  tell_parts(s, cut, std::move(made), unions);
}

Site site(const Views& v, const Match& m) {
  const auto inputs = m.classes.first(m.classes.size() - 1);
  return {v, m.ops.back(), {inputs.begin(), inputs.end()}, m.root()};
}

// ---- rules

// Whether the model itself has this value. Rules make it in many views; one is enough.
bool is_given(const Views& v, Id x) {
  const EGraph& e = v.g.egraph();
  const auto nodes = e.class_nodes(x);
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) { return e.made_by(n) == kNone; });
}

// The axis of the heads of a product or of scores: the first with several of all dims but the first and the last two, then the first.
std::optional<Cut> first_cut(const Views& v, const Dims& dims) {
  for (std::size_t i = 1; i + 2 < dims.size(); ++i)
    if (const auto n = v.g.dims().value(dims[i]); n && *n > 1 && *n <= kMostHeads) return Cut{i, *n};
  const auto n = dims.size() >= 3 ? v.g.dims().value(dims[0]) : std::nullopt;
  return n && *n > 1 && *n <= kMostHeads ? std::optional(Cut{0, *n}) : std::nullopt;
}

void heads_begin(const Views& v, const Match& m, Unions& unions) {
  const Dims* result = v.shape(m.root());
  const auto cut = result ? first_cut(v, *result) : std::nullopt;
  if (!cut || v.g.facts(m.root()).constant) return;
  if (!useful(cut->axis > 0 || is_given(v, m.root()))) return;  // a batch, in a view without heads
  take_apart(site(v, m), *cut, unions);
}

// Whether a Reshape made rows of one matrix of heads: [.., N, T, D] to [.., 1, N * T, D].
bool joins_rows(const Views& v, const Dims& apart, const Dims& rows) {
  const std::size_t rank = rows.size();
  return v.equal(std::span(apart).first(rank - 3), std::span(rows).first(rank - 3)) && v.is_one(rows[rank - 3]) &&
         v.equal(v.g.dims().mul(apart[rank - 3], apart[rank - 2]), rows[rank - 2]) && v.equal(apart.back(), rows.back());
}

// Of what is read as rows: its dims with heads, where it has several.
const Dims* several_heads(const Views& v, Id apart, Id rows) {
  const Dims *wide = v.shape(apart), *narrow = v.shape(rows);
  if (!wide || !narrow || narrow->size() < 4 || wide->size() != narrow->size()) return nullptr;
  return useful(!v.is_one((*wide)[wide->size() - 3])) ? wide : nullptr;
}

// MatMul(Reshape(A), B) = Reshape(MatMul(A, B)) where the heads of A became rows beside one right factor.
void product_of_heads_in_rows(const Views& v, const Match& m, Unions& unions) {
  const Dims *apart = several_heads(v, m.classes[0], m.classes[2]), *right = v.shape(m.classes[3]), *to = v.shape(m.root());
  if (!apart || !right || right->size() < 2 || !to) return;
  if (!v.guard("the Reshape joins heads to rows", joins_rows(v, *apart, *v.shape(m.classes[2])))) return;
  const bool one = right->size() < 3 || v.is_one((*right)[right->size() - 3]);
  if (!v.guard("the right factor is one for all heads", one)) return;
  if (!useful(!v.is_one((*apart)[apart->size() - 2]))) return;  // rows that were batches are no heads
  const Dims result = *to;
  const Id product = v.g.add(make_key("", "MatMul", {}, 1, std::nullopt), std::array{m.classes[0], m.classes[3]});
  unions.emplace_back(m.root(), v.reshape(product, result, 0));
}

// Softmax(Reshape(X)) = Reshape(Softmax(X)) where the heads of X became rows.
void softmax_of_heads_in_rows(const Views& v, const Match& m, Unions& unions) {
  const Dims* apart = several_heads(v, m.classes[0], m.classes[2]);
  const auto axis = v.axis(m.ops[3], m.classes[2], -1);
  if (!apart || !axis || !v.guard("the Softmax is over the last axis", *axis + 1 == apart->size())) return;
  if (!v.guard("the Reshape joins heads to rows", joins_rows(v, *apart, *v.shape(m.classes[2])))) return;
  const Dims result = *v.shape(m.root());
  const Id inner = v.g.add(v.g.key(m.ops[3]), std::array{m.classes[0]});
  unions.emplace_back(m.root(), v.reshape(inner, result, 0));
}

// Where the result is cut so that this input is cut where its heads are.
std::optional<Cut> cut_from_input(const Site& s, std::size_t input, const HeadsApart& heads) {
  const Dims* result = s.v.shape(s.result);
  if (!result || !useful(heads.axis + 1 < s.dims(input)->size())) return std::nullopt;  // heads side by side in the last dim are one vector
  if (s.is_internal("repeat_heads")) return Cut{heads.axis, std::ssize(heads.parts) * s.v.int_attribute(s.op, "times", 1)};
  for (std::size_t axis = 0; axis < result->size(); ++axis) {
    const Cut cut{axis, std::ssize(heads.parts)};
    const auto cuts = input_cuts(s, cut);
    if (cuts && (*cuts)[input] == heads.axis) return cut;
  }
  return std::nullopt;
}

void heads_go_on(const Views& v, const Match& m, Unions& unions) {
  const Site s = site(v, m);
  if (!v.shape(s.result) || v.g.facts(s.result).constant) return;
  const auto heads = apart(v, s.result);
  if (only_moves(s.key()) && !useful(is_given(v, heads ? s.inputs[0] : s.result))) return;
  if (heads) return take_apart(s, {heads->axis, std::ssize(heads->parts)}, unions);
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const auto heads = s.dims(i) ? apart(v, s.inputs[i]) : std::nullopt;
    const auto cut = heads ? cut_from_input(s, i, *heads) : std::nullopt;
    if (cut) return take_apart(s, *cut, unions);
  }
}

// Whether heads_go_on has something to look at.
bool concerns_heads(const OnnxEGraph& g, const Match& m) {
  auto& notes = g.notes<HeadNotes>();
  return std::any_of(m.classes.begin(), m.classes.end(), [&](Id id) { return notes.find(g, id) != nullptr; });
}

// Operators that work on heads by themselves, by the number of their inputs.
std::vector<Pattern> of_heads(OnnxEGraph& g) {
  std::vector<Pattern> out;
  const auto add = [&](std::string_view op, std::uint32_t inputs, std::string_view domain = "") {
    out.push_back(over(g, op, inputs, domain));
  };
  add("repeat_heads", 1, "saturate");
  for (const std::string_view op : operators_with(Trait::kElementwise)) {
    if (op.find('.') != std::string_view::npos || op == "Identity") continue;
    const bool any = has(Trait::kVariadicElementwise, op);
    const std::uint32_t inputs = has(Trait::kUnaryElementwise, op) ? 1 : has(Trait::kTernaryElementwise, op) || op == "Clip" ? 3 : 2;
    for (std::uint32_t n = inputs; n <= (any ? 4 : inputs); ++n) add(op, n);
  }
  for (const std::string_view op : {"Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "Transpose"}) add(op, 1);
  for (const std::string_view op : {"MatMul", "Reshape", "Expand", "ReduceMean", "ReduceSum", "ReduceMax", "RMSNormalization"}) add(op, 2);
  for (const std::uint32_t inputs : {2U, 3U})
    for (const std::string_view op : {"LayerNormalization", "QuantizeLinear", "DequantizeLinear"}) add(op, inputs);
  for (const std::uint32_t inputs : {2U, 3U, 4U}) add("Concat", inputs);
  for (const std::uint32_t inputs : {3U, 4U}) add("RotaryEmbedding", inputs);
  for (const std::uint32_t inputs : {4U, 5U}) add("Slice", inputs);
  return out;
}

}  // namespace

std::vector<NativeRule> native_head_rules() {
  const auto beginnings = [](OnnxEGraph& g) { return std::vector<Pattern>{over(g, "MatMul", 2), over(g, "Softmax", 1)}; };
  const auto product_of_rows = [](OnnxEGraph& g) {
    return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), variable(), node(g, "MatMul", {2, 3})}};
  };
  const auto softmax_of_rows = [](OnnxEGraph& g) {
    return Pattern{{variable(), variable(), node(g, "Reshape", {0, 1}), node(g, "Softmax", {2})}};
  };
  std::vector<ViewRule> rules{
      {"heads_begin", "MatMul and Softmax of several heads = the Concat of each head's", Effect::kExact, {}, heads_begin, true, beginnings},
      {"heads_go_on",
       "an operator on a Concat of heads, or before a Split into heads = the Concat of the operator on each",
       Effect::kExact,
       {},
       heads_go_on,
       true,
       of_heads},
      {"product_of_heads_in_rows", "MatMul(Reshape(A), B) = Reshape(MatMul(A, B)) where heads of A became rows", Effect::kExact,
       product_of_rows, product_of_heads_in_rows},
      {"softmax_of_heads_in_rows", "Softmax(Reshape(X)) = Reshape(Softmax(X)) where heads of X became rows", Effect::kExact,
       softmax_of_rows, softmax_of_heads_in_rows}};
  // Of a target that counts no heads an operator is refused for something else. Without a target, in the checker, all is refused.
  const auto counted = [](const OnnxEGraph& g, const Match&) { return g.refusals() == nullptr || g.refusals()->counts_heads(); };
  for (ViewRule& rule : rules) rule.where = counted;
  rules[0].where = [counted](const OnnxEGraph& g, const Match& m) {
    return counted(g, m) && !concerns_heads(g, m) && g.is_refused(m.matched.back(), m.root());
  };
  rules[1].where = concerns_heads;
  for (ViewRule& rule : rules) rule.phase = Rewrite::kAlonePhase, rule.if_refused = true;
  return to_native(std::move(rules));
}

}  // namespace saturate
