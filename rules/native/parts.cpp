// A tensor in parts: by one Split, or by a Slice for each.
#include <algorithm>
#include <array>
#include <map>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/opsets/canonical.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace native;

constexpr std::size_t kMostCuts = 8;

// Shapes and the like are not divided: what they hold is known anyway.
bool may_be_cut(const OnnxEGraph& g, Id x) {
  const Facts& f = g.facts(x);
  return f.kind == Facts::Kind::kTensor && f.shape && !f.constant && !f.content;
}

// What a Slice by steps of 1 takes along one axis; its class. nullopt where it is another one, or nobody knows.
struct Stretch {
  std::size_t axis;
  std::int64_t first, last;
  Id id;
};
std::optional<Stretch> part_of(const Views& v, std::span<const Id> children, Id id) {
  if (children.size() != 4) return std::nullopt;
  const Dims* dims = v.shape(children[0]);
  const auto first = v.ints(children[1]), last = v.ints(children[2]);
  const auto axes = dims ? v.axes(children[3], dims->size()) : std::nullopt;
  if (!first || !last || !axes || axes->size() != 1 || first->size() != 1 || last->size() != 1) return std::nullopt;
  const auto size = v.g.dims().value((*dims)[axes->front()]);
  if (!size) return std::nullopt;
  return Stretch{axes->front(), place_within(first->front(), *size), place_within(last->front(), *size), id};
}

// Parts that lie behind one another from the beginning to `size`, the longest first where there are several; empty where there are none.
class ChainOfCuts {
 public:
  ChainOfCuts(std::span<const Stretch> parts, std::int64_t size) : size_(size) {
    for (const Stretch& p : parts)
      if (p.first < p.last) by_place_[p.first].emplace(p.last, p.id);
  }
  // The chain that holds this part.
  std::vector<Stretch> through(const Stretch& part) {
    std::vector<Stretch> out, behind;
    if (!reach(0, part.first, part.axis, out)) return {};
    out.push_back(part);
    if (!reach(part.last, size_, part.axis, behind)) return {};
    out.insert(out.end(), behind.begin(), behind.end());
    return out.size() <= kMostCuts ? out : std::vector<Stretch>{};
  }

 private:
  bool reach(std::int64_t from, std::int64_t to, std::size_t axis, std::vector<Stretch>& out) {
    if (from == to) return true;
    const auto it = by_place_.find(from);
    if (it == by_place_.end() || ++tried_ > kMostTried) return false;
    for (const auto& [last, id] : it->second) {
      if (last > to) continue;
      out.push_back({axis, from, last, id});
      if (reach(last, to, axis, out)) return true;
      out.pop_back();
    }
    return false;
  }

  static constexpr int kMostTried = 200;
  std::int64_t size_;
  int tried_ = 0;
  std::map<std::int64_t, std::map<std::int64_t, Id, std::greater<>>> by_place_;
};

// Whether a part is cut from a part of the tensor, which is then what falls into it.
bool is_part_of_part(const Views& v, const Stretch& part, Id of) {
  const auto size = v.g.dims().value((*v.shape(of))[part.axis]);
  for (const NodeId n : v.g.egraph().class_nodes(part.id)) {
    const ENode node = v.g.egraph().node(n);
    if (!is_operator(v.g.key(node.op), "Slice")) continue;
    const auto inner = part_of(v, node.children, part.id);
    if (inner && inner->axis == part.axis && v.g.dims().value((*v.shape(node.children[0]))[part.axis]) < size) return true;
  }
  return false;
}

// Classes: the tensor, where the Slice begins and ends, its axes, the part.
void slices_are_split(const Views& v, const Match& m, Unions& unions) {
  const auto part = part_of(v, m.classes.first(4), m.root());
  if (!part || part->first >= part->last || !may_be_cut(v.g, m.classes[0]) || is_part_of_part(v, *part, m.classes[0])) return;
  std::vector<Stretch> parts;
  for (const NodeId n : v.g.egraph().class_users(m.classes[0])) {
    const ENode node = v.g.egraph().node(n);
    if (!is_operator(v.g.key(node.op), "Slice") || v.g.egraph().find(node.children[0]) != v.g.egraph().find(m.classes[0])) continue;
    const auto other = part_of(v, node.children, v.g.egraph().class_of(n));
    if (other && other->axis == part->axis && !is_part_of_part(v, *other, m.classes[0])) parts.push_back(*other);
  }
  const Dims& dims = *v.shape(m.classes[0]);
  const std::vector<Stretch> all = ChainOfCuts(parts, *v.g.dims().value(dims[part->axis])).through(*part);
  if (all.size() < 2) return;
  std::vector<std::int64_t> sizes;
  for (const Stretch& p : all) sizes.push_back(p.last - p.first);
  const OpKey key = make_key("", "Split", {Attribute::of("axis", static_cast<std::int64_t>(part->axis))}, static_cast<int>(all.size()),
                             static_cast<int>(dims.size()));
  const Id split = v.g.add(key, std::array{m.classes[0], v.g.constant(Tensor::vector_int64(sizes))});
  for (std::size_t i = 0; i < all.size(); ++i) unions.emplace_back(all[i].id, v.g.project(split, static_cast<int>(i)));
}

// The sizes of the parts of a Split.
std::optional<std::vector<std::int64_t>> sizes_of_split(const Views& v, const Match& m, std::size_t axis, int parts) {
  if (m.classes.size() == 3) return v.ints(m.classes[1]);
  const auto size = v.g.dims().value((*v.shape(m.classes[0]))[axis]);
  if (!size || v.int_attribute(m.ops.back(), "num_outputs", parts) != parts) return std::nullopt;
  return sizes_of_parts(*size, parts);
}

// Classes: the tensor, the sizes where they are given, the tuple. (Rules make a Split to have all of its parts: there a Slice for each
// would only stand in the way of the choice that takes them together.)
void split_is_slices(const Views& v, const Match& m, Unions& unions) {
  if (!useful(v.g.egraph().made_by(m.matched.back()) == kNone)) return;
  const auto axis = v.axis(m.ops.back(), m.classes[0]);
  const int parts = v.g.key(m.ops.back()).outputs;
  const auto sizes = axis ? sizes_of_split(v, m, *axis, parts) : std::nullopt;
  if (!sizes || std::ssize(*sizes) != parts || !may_be_cut(v.g, m.classes[0])) return;
  std::int64_t end = 0;
  for (const std::int64_t size : *sizes)
    if (size < 0 || __builtin_add_overflow(end, size, &end)) return;
  const auto at = static_cast<std::int64_t>(*axis);
  std::int64_t first = 0;
  for (int i = 0; i < parts; ++i) {
    const std::int64_t last = first + (*sizes)[static_cast<std::size_t>(i)];
    const auto place = [&](std::int64_t n) { return v.g.constant(Tensor::vector_int64(std::array{n})); };
    const std::array children{m.classes[0], place(first), place(last), place(at)};
    unions.emplace_back(v.g.project(m.root(), i), v.g.add(make_key("", "Slice", {}, 1, std::nullopt), children));
    first = last;
  }
}

std::vector<Pattern> cuts_by_split(OnnxEGraph& g) {
  std::vector<Pattern> out;
  for (std::size_t n = 2; n <= kMostCuts; ++n)
    for (const std::size_t inputs : {1U, 2U}) out.push_back(over(g, "Split", inputs, "", static_cast<int>(n)));
  return out;
}

}  // namespace

std::vector<NativeRule> native_part_rules() {
  return to_native({
      {"slices_are_split", "Slices that lie behind one another and hold all of a tensor = its Split", Effect::kExact,
       [](OnnxEGraph& g) { return over(g, "Slice", 4); }, slices_are_split, true},
      {"split_is_slices", "Split = a Slice for each part", Effect::kExact, {}, split_is_slices, false, cuts_by_split},
  });
}

}  // namespace saturate
