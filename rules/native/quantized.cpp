// Concat and Split of any number of tensors that are quantized alike: what joins and divides numbers joins and divides integers.
#include <algorithm>
#include <array>
#include <optional>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace native;

constexpr int kMostParts = 32;

// A QuantizeLinear or DequantizeLinear: `of` with a scale and a zero point (kNone: none).
struct Quantizer {
  OpId op = kNone;
  Id of = kNone, scale = kNone, zero = kNone;
};

bool is_quantizer(const OpKey& key) { return key.domain.empty() && (key.op_type == "QuantizeLinear" || key.op_type == "DequantizeLinear"); }

std::optional<Quantizer> quantizer_of(const Views& v, OpId op, std::span<const Id> children) {
  if (!is_quantizer(v.g.key(op)) || children.size() < 2) return std::nullopt;
  const bool point = children.size() > 2 && v.g.facts(children[2]).kind == Facts::Kind::kTensor;
  return Quantizer{op, children[0], children[1], point ? children[2] : kNone};
}

std::vector<Quantizer> quantizers_in(const Views& v, Id value) {
  std::vector<Quantizer> out;
  for (NodeId n : v.g.egraph().class_nodes(value)) {
    const ENode node = v.g.egraph().node(n);
    if (auto q = quantizer_of(v, node.op, node.children)) out.push_back(*q);
  }
  return out;
}

// The same operator on something else.
Id quantize(const Views& v, const Quantizer& q, Id of, Id scale, Id zero) {
  std::vector<Id> children{of, scale};
  if (zero != kNone) children.push_back(zero);
  return v.g.add(v.g.key(q.op), children);
}

// How the parameters of a quantizer lie to an axis of what it is for.
enum class Along : std::uint8_t { kSame, kParts, kUnknown };  // one for all parts; each part has its own; neither is proven

// What becomes of the parameters where this operator divides the tensor along its axis, or joins such tensors.
Along parameters_along(const Views& v, const Quantizer& q, OpId op, Id tensor, bool whole_blocks) {
  const Dims* scale = v.shape(q.scale);
  if (!scale) return Along::kUnknown;
  if (scale->empty()) return Along::kSame;
  const auto axis = v.axis(op, tensor), own = v.axis(q.op, tensor, 1);
  if (!axis || !own) return Along::kUnknown;
  // One scale in a list is for the whole tensor, but where its axis is one long.
  if (scale->size() == 1 && v.g.dims().value((*scale)[0]) == 1) {
    const auto length = v.g.dims().value((*v.shape(tensor))[*own]);
    if (length != 1) return length ? Along::kSame : Along::kUnknown;
  }
  const bool of_axis = *own == *axis, blocked = v.int_attribute(q.op, "block_size", 0) > 0;
  if (!blocked) return v.guard("one scale for each index goes with the axis", !of_axis) ? Along::kSame : Along::kParts;
  return v.guard("blocks stay whole", !of_axis || whole_blocks) ? Along::kParts : Along::kUnknown;
}

bool are_whole_blocks(const Views& v, const Quantizer& q, Id part, OpId op) {
  const std::int64_t size = v.int_attribute(q.op, "block_size", 0);
  const auto axis = v.axis(op, part);
  const auto n = axis ? v.g.dims().value((*v.shape(part))[*axis]) : std::nullopt;
  return size > 0 && n && *n % size == 0;
}

// Whether a list of scales has one for each index of the tensor along the operator's axis.
bool has_scale_for_each(const Views& v, const Dims& scale, Id tensor, OpId op) {
  const auto axis = v.axis(op, tensor);
  return axis && v.equal(scale[0], (*v.shape(tensor))[*axis]);
}

// The axis of scales that goes with this one of the tensor: those of blocks have all axes.
std::int64_t axis_of_scales(const Views& v, const Quantizer& q, std::int64_t axis) {
  return v.int_attribute(q.op, "block_size", 0) > 0 ? axis : 0;
}

// Whether an operator of any number of tensors takes them: Concat and Split know no integers of 4 bits.
bool takes(std::string_view op, DType dtype) {
  const OpSchema* schema = newest_schema("", op);
  return schema != nullptr && dtypes_fit(*schema, std::array{dtype}, nullptr);
}

// One quantizer of each part that is like the first one; empty where a part has none. `same`: with its very scale and zero point.
std::vector<Quantizer> alike(const Views& v, const Quantizer& first, std::span<const Id> parts, bool same) {
  std::vector<Quantizer> out{first};
  for (const Id part : parts.subspan(1)) {
    const auto all = quantizers_in(v, part);
    const auto it = std::find_if(all.begin(), all.end(), [&](const Quantizer& q) {
      if (q.op != first.op || (q.zero == kNone) != (first.zero == kNone)) return false;
      if (v.g.facts(q.of).dtype != v.g.facts(first.of).dtype || v.g.facts(q.scale).dtype != v.g.facts(first.scale).dtype) return false;
      const auto& g = v.g.egraph();
      const bool equal = g.find(q.scale) == g.find(first.scale) && (q.zero == kNone || g.find(q.zero) == g.find(first.zero));
      return same ? v.guard("the parts have one scale and zero point", equal) : true;
    });
    if (it == all.end()) return {};
    out.push_back(*it);
  }
  return out;
}

// Concat of what is quantized alike. Classes: the parts, and the result.
void concat_of_quantized(const Views& v, const Match& m, Unions& unions) {
  const std::vector<Id> parts(m.classes.begin(), m.classes.end() - 1);
  const OpId op = m.ops.back();
  const std::int64_t axis = v.int_attribute(op, "axis", 0);  // joined() counts it from the front
  for (const Quantizer& first : quantizers_in(v, parts[0])) {
    const bool whole = std::all_of(parts.begin(), parts.end() - 1, [&](Id part) { return are_whole_blocks(v, first, part, op); });
    const Along along = parameters_along(v, first, op, parts[0], whole);
    if (along == Along::kUnknown || !takes("Concat", v.g.facts(first.of).dtype)) continue;
    const auto all = alike(v, first, parts, along == Along::kSame);
    if (all.empty()) continue;
    std::vector<Id> of, scales, zeros;
    const bool own = along == Along::kParts, blocked = v.int_attribute(first.op, "block_size", 0) > 0;
    const std::size_t rank = v.shape(first.scale)->size();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Quantizer& q = all[i];
      const Dims* scale = v.shape(q.scale);
      if (!scale || scale->size() != rank) break;
      if (own && !blocked && !v.guard("each index of a part has a scale", has_scale_for_each(v, *scale, parts[i], op))) break;
      of.push_back(q.of);
      scales.push_back(q.scale);
      if (q.zero != kNone) zeros.push_back(q.zero);
    }
    if (of.size() != all.size()) continue;
    const Id inside = v.concat(of, axis);
    const std::int64_t at = axis_of_scales(v, first, axis);
    const Id scale = own ? v.concat(scales, at) : first.scale;
    const Id zero = own && first.zero != kNone ? v.concat(zeros, at) : first.zero;
    unions.emplace_back(m.root(), quantize(v, first, inside, scale, zero));
  }
}

// A quantizer of a Concat. Classes: the joined value, the scale, the zero point where there is one.
void quantizer_of_concat(const Views& v, const Match& m, Unions& unions) {
  const auto q = quantizer_of(v, m.ops.back(), m.classes.first(m.classes.size() - 1));
  if (!q || !takes("Concat", v.g.facts(m.root()).dtype)) return;
  std::vector<ENode> joins;
  std::vector<std::vector<Id>> children;
  for (NodeId n : v.g.egraph().class_nodes(m.classes[0])) {
    const ENode node = v.g.egraph().node(n);
    if (!v.g.key(node.op).domain.empty() || v.g.key(node.op).op_type != "Concat") continue;
    children.emplace_back(node.children.begin(), node.children.end());
    joins.push_back({node.op, {}});
  }
  for (std::size_t i = 0; i < joins.size(); ++i) {
    if (parameters_along(v, *q, joins[i].op, m.classes[0], false) != Along::kSame) continue;
    const std::int64_t axis = v.int_attribute(joins[i].op, "axis", 0);
    for (Id& part : children[i]) part = quantize(v, *q, part, q->scale, q->zero);
    unions.emplace_back(m.root(), v.concat(children[i], axis));
  }
}

// Split of what is quantized. Classes: the value, the sizes where they are given, the tuple.
void split_of_quantized(const Views& v, const Match& m, Unions& unions) {
  const OpKey key = v.g.key(m.ops.back());
  const std::int64_t axis = v.axis(m.ops.back(), m.classes[0]).value_or(v.int_attribute(m.ops.back(), "axis", 0));
  const auto divided = [&](Id value, std::int64_t along) {
    OpKey of = key;
    for (Attribute& a : of.attributes)
      if (a.name == "axis") a = Attribute::of("axis", along);
    std::vector<Id> children(m.classes.begin(), m.classes.end() - 1);
    children[0] = value;
    return v.g.add(of, children);
  };
  for (const Quantizer& q : quantizers_in(v, m.classes[0])) {
    const Along along = parameters_along(v, q, m.ops.back(), m.classes[0], false);
    if (along == Along::kUnknown || !takes("Split", v.g.facts(q.of).dtype)) continue;
    const std::int64_t at = axis_of_scales(v, q, axis);
    const Id inside = divided(q.of, axis), scales = along == Along::kParts ? divided(q.scale, at) : kNone;
    const Id zeros = along == Along::kParts && q.zero != kNone ? divided(q.zero, at) : kNone;
    for (int i = 0; i < key.outputs; ++i) {
      const Id scale = scales == kNone ? q.scale : v.g.project(scales, i);
      const Id zero = zeros == kNone ? q.zero : v.g.project(zeros, i);
      unions.emplace_back(v.g.project(m.root(), i), quantize(v, q, v.g.project(inside, i), scale, zero));
    }
  }
}

// A quantizer of a part of a Split. Classes as of quantizer_of_concat.
void quantized_part(const Views& v, const Match& m, Unions& unions) {
  const auto q = quantizer_of(v, m.ops.back(), m.classes.first(m.classes.size() - 1));
  if (!q || !takes("Split", v.g.facts(m.root()).dtype)) return;
  struct Part {
    Id tuple;
    int index;
  };
  std::vector<Part> parts;
  for (NodeId n : v.g.egraph().class_nodes(m.classes[0])) {
    const ENode node = v.g.egraph().node(n);
    const OpKey& key = v.g.key(node.op);
    if (key.domain == "#" && key.op_type == kProjOp) parts.push_back({node.children[0], static_cast<int>(key.attributes[0].i())});
  }
  for (const Part& part : parts) {
    std::vector<std::pair<OpId, std::vector<Id>>> splits;
    for (NodeId n : v.g.egraph().class_nodes(part.tuple)) {
      const ENode node = v.g.egraph().node(n);
      if (v.g.key(node.op).domain.empty() && v.g.key(node.op).op_type == "Split")
        splits.emplace_back(node.op, std::vector<Id>(node.children.begin(), node.children.end()));
    }
    for (auto& [op, children] : splits) {
      if (parameters_along(v, *q, op, m.classes[0], false) != Along::kSame) continue;
      children[0] = quantize(v, *q, children[0], q->scale, q->zero);
      unions.emplace_back(m.root(), v.g.project(v.g.add(v.g.key(op), children), part.index));
    }
  }
}

std::vector<Pattern> joins_of_any_number(OnnxEGraph& g) {
  std::vector<Pattern> out;
  for (std::uint32_t n = 2; n <= kMostParts; ++n) {
    Pattern p;
    std::vector<std::uint32_t> children;
    for (std::uint32_t i = 0; i < n; ++i) {
      p.nodes.push_back(variable());
      children.push_back(i);
    }
    p.nodes.push_back(node(g, "Concat", children));
    out.push_back(std::move(p));
  }
  return out;
}

std::vector<Pattern> splits_of_any_number(OnnxEGraph& g) {
  std::vector<Pattern> out;
  for (int n = 2; n <= kMostParts; ++n)
    for (const bool sizes : {false, true}) {
      PatternNode split = sizes ? node(g, "Split", {0, 1}) : node(g, "Split", {0});
      split.kind = g.kind("", "Split", n);
      out.push_back(sizes ? Pattern{{variable(), variable(), split}} : Pattern{{variable(), split}});
    }
  return out;
}

std::vector<Pattern> quantizers(OnnxEGraph& g) {
  std::vector<Pattern> out;
  for (const std::string_view op : {"QuantizeLinear", "DequantizeLinear"}) {
    out.push_back({{variable(), variable(), node(g, op, {0, 1})}});
    out.push_back({{variable(), variable(), variable(), node(g, op, {0, 1, 2})}});
  }
  return out;
}

}  // namespace

std::vector<NativeRule> native_quantized_rules() {
  return to_native({
      {"concat_of_quantized",
       "Concat of what is quantized or dequantized alike = that of the Concat; scales of an axis are joined with it",
       Effect::kExact,
       {},
       concat_of_quantized,
       true,
       joins_of_any_number},
      {"quantizer_of_concat",
       "QuantizeLinear or DequantizeLinear of a Concat = the Concat of each part's",
       Effect::kExact,
       {},
       quantizer_of_concat,
       true,
       quantizers},
      {"split_of_quantized",
       "Split of what is quantized or dequantized = that of each part; scales of an axis are divided with it",
       Effect::kExact,
       {},
       split_of_quantized,
       true,
       splits_of_any_number},
      {"quantized_part",
       "QuantizeLinear or DequantizeLinear of a part of a Split = that part of the whole's",
       Effect::kExact,
       {},
       quantized_part,
       true,
       quantizers},
  });
}

}  // namespace saturate
