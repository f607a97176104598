// Sequences whose parts are known: their elements and concatenation are tensors without them.
#include <array>
#include <numeric>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace native;

constexpr std::int64_t kLargest = std::int64_t{1} << 31;

Id slice(const Views& v, Id x, std::int64_t first, std::int64_t last, std::int64_t axis) {
  DimTable& dims = v.g.dims();
  return v.slice(x, std::array{dims.constant(first)}, std::array{dims.constant(last)}, {axis});
}

// Part `at` (counted from 0) of SplitToSequence; kNone where its place is not known.
Id part_of_split(const Views& v, const ENode& split, std::int64_t at) {
  const Dims* shape = v.shape(split.children[0]);
  const auto place = v.axis(split.op, split.children[0]);
  if (!place || at < 0) return kNone;
  const auto axis = static_cast<std::int64_t>(*place);
  const bool keep = v.int_attribute(split.op, "keepdims", 1) != 0;
  const auto single = [&] {
    if (keep) return slice(v, split.children[0], at, at + 1, axis);
    const int rank = static_cast<int>(shape->size());
    return v.g.add(make_key("", "Gather", {Attribute::of("axis", axis)}, 1, rank),
                   std::array{split.children[0], v.g.constant(Tensor::scalar_int64(at))});
  };
  if (split.children.size() == 1) return single();
  const Dims* listed = v.shape(split.children[1]);
  const auto sizes = v.ints(split.children[1]);
  if (listed && listed->empty() && sizes && sizes->size() == 1 && sizes->front() == 1) return single();
  if (!listed || !sizes || sizes->empty()) return kNone;
  for (std::int64_t size : *sizes)
    if (size < 0 || size >= kLargest) return kNone;
  if (listed->empty()) return slice(v, split.children[0], at * sizes->front(), (at + 1) * sizes->front(), axis);
  if (at >= std::ssize(*sizes)) return kNone;
  const std::int64_t first = std::accumulate(sizes->begin(), sizes->begin() + at, std::int64_t{0});
  return slice(v, split.children[0], first, first + (*sizes)[static_cast<std::size_t>(at)], axis);
}

template <typename F>
void each_maker(const Views& v, Id sequence, F&& f) {
  for (NodeId n : v.g.egraph().class_nodes(sequence)) {
    const ENode node = v.g.egraph().node(n);
    const OpKey& key = v.g.key(node.op);
    if (!key.domain.empty() || node.children.empty()) continue;
    const std::vector<Id> children(node.children.begin(), node.children.end());  // nodes move when others are added
    f(key.op_type, ENode{node.op, children});
  }
}

// Classes: 0 the sequence, 1 the place, 2 the element.
void element_of_sequence(const Views& v, const Match& m, Unions& unions) {
  const auto at = v.ints(m.classes[1]);
  if (!at || at->size() != 1 || at->front() >= kLargest || at->front() < -kLargest) return;
  each_maker(v, m.classes[0], [&](const std::string& op, const ENode& maker) {
    if (op == "SequenceConstruct") {
      const std::int64_t place = at->front() < 0 ? at->front() + std::ssize(maker.children) : at->front();
      if (place >= 0 && place < std::ssize(maker.children)) unions.emplace_back(m.root(), maker.children[static_cast<std::size_t>(place)]);
    } else if (op == "SplitToSequence") {
      if (const Id part = part_of_split(v, maker, at->front()); part != kNone) unions.emplace_back(m.root(), part);
    }
  });
}

// Classes: 0 the sequence, 1 the tensor.
void joined_sequence(const Views& v, const Match& m, Unions& unions) {
  const std::int64_t axis = v.int_attribute(m.ops[1], "axis", 0);
  const bool stacked = v.int_attribute(m.ops[1], "new_axis", 0) != 0;
  each_maker(v, m.classes[0], [&](const std::string& op, const ENode& maker) {
    const Dims* first = op == "SequenceConstruct" ? v.shape(maker.children[0]) : nullptr;
    if (!first) return;
    const int rank = static_cast<int>(first->size()) + (stacked ? 1 : 0);
    const Id place = v.g.constant(Tensor::vector_int64(std::array{axis < 0 ? axis + rank : axis}));
    std::vector<Id> parts(maker.children.begin(), maker.children.end());
    for (Id& part : parts)
      if (stacked) part = v.g.add(make_key("", "Unsqueeze", {}, 1, std::nullopt), std::array{part, place});
    unions.emplace_back(m.root(), v.g.add(make_key("", "Concat", {Attribute::of("axis", axis)}, 1, rank), parts));
  });
}

}  // namespace

std::vector<NativeRule> native_sequence_rules() {
  const auto of_one = [](std::string_view op) { return [op](OnnxEGraph& g) { return Pattern{{variable(), node(g, op, {0})}}; }; };
  return to_native({
      {"element_of_sequence", "SequenceAt of a sequence that is written out, or split off a tensor, is that tensor or a Slice",
       Effect::kExact, [](OnnxEGraph& g) { return over_two(g, "SequenceAt"); }, element_of_sequence, true},
      {"joined_sequence", "ConcatFromSequence of a sequence that is written out is Concat", Effect::kExact, of_one("ConcatFromSequence"),
       joined_sequence, true},
  });
}

}  // namespace saturate
