#include "rules/native/kit.h"
#include "onnx_bridge/convert/op_key.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>

namespace saturate::native {
namespace {

class LambdaApplier : public Applier {
 public:
  using Where = std::function<bool(const OnnxEGraph&, const Match&)>;
  LambdaApplier(const OnnxEGraph& g, std::function<void(const Match&, Unions&)> f, Where where)
      : g_(g), f_(std::move(f)), where_(std::move(where)) {}
  bool holds(const EGraph&, const Match& match) const override {
    return !g_.is_passed_over(match.root()) && (!where_ || where_(g_, match));
  }
  void apply(EGraph&, const Match& match, Unions& unions) const override { f_(match, unions); }

 private:
  const OnnxEGraph& g_;
  std::function<void(const Match&, Unions&)> f_;
  Where where_;
};

}  // namespace

bool GuardWatch::holds(std::string_view name, bool truth) {
  const auto it = std::find(names.begin(), names.end(), name);
  const auto number = static_cast<int>(it - names.begin());
  if (it == names.end()) names.emplace_back(name);
  return truth || number == off;
}

const Dims* Views::shape(Id id) const {
  const Facts& f = g.facts(id);
  return f.kind == Facts::Kind::kTensor && f.shape ? &*f.shape : nullptr;
}

bool Views::equal(std::span<const Dim> a, std::span<const Dim> b) const {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [this](Dim x, Dim y) { return equal(x, y); });
}

bool Views::has_zero(std::span<const Dim> dims) const {
  return std::any_of(dims.begin(), dims.end(), [this](Dim d) { return g.dims().value(d) == 0; });
}

Dims Views::without_ones(std::span<const Dim> dims) const {
  Dims out;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(out), [this](Dim d) { return !is_one(d); });
  return out;
}

std::ptrdiff_t Views::cuts(std::span<const Dim> dims) const {
  return std::count_if(dims.begin(), dims.end(), [this](Dim d) { return !is_one(d); });
}

bool Views::is_spelled_out(Id target, const Dims* to) const {
  if (!to || to->size() > 8) return true;
  const auto& content = g.facts(target).content;
  return content && equal(*content, *to);
}

Id Views::reshape(Id x, std::span<const Dim> to, int rank) const {
  const Id shape_id = g.literal(to, false);
  return g.add(make_key("", "Reshape", {Attribute::of("allowzero", std::int64_t{has_zero(to) ? 1 : 0})}, 1, rank), std::array{x, shape_id});
}

Id Views::reshape_by(Id x, std::vector<std::int64_t> to, int rank) const {
  const Id shape_id = g.constant(Tensor::vector_int64(to));
  return g.add(make_key("", "Reshape", {Attribute::of("allowzero", std::int64_t{0})}, 1, rank), std::array{x, shape_id});
}

Id Views::transpose(Id x, std::vector<std::int64_t> perm) const {
  const int rank = static_cast<int>(perm.size());
  bool identity = true;
  for (int i = 0; i < rank; ++i) identity = identity && perm[i] == i;
  return identity ? x : g.add(make_key("", "Transpose", {Attribute::of("perm", std::move(perm))}, 1, rank), std::array{x});
}

Id Views::expand(Id x, std::span<const Dim> to) const {
  const Id literal = g.literal(to, false);
  return g.add(make_key("", "Expand", {}, 1, std::nullopt), std::array{x, literal});
}

Id Views::concat(std::span<const Id> parts, std::int64_t axis) const {
  const Dims* first = shape(parts[0]);
  const auto rank = first ? std::optional(static_cast<int>(first->size())) : std::nullopt;
  return g.add(make_key("", "Concat", {Attribute::of("axis", axis)}, 1, rank), parts);
}

Id Views::slice(Id x, std::span<const Dim> first, std::span<const Dim> last, std::vector<std::int64_t> axes) const {
  return g.add(make_key("", "Slice", {}, 1, std::nullopt),
               std::array{x, g.literal(first, false), g.literal(last, false), g.constant(Tensor::vector_int64(axes))});
}

std::optional<std::vector<std::int64_t>> Views::perm(OpId op, std::size_t rank) const { return permutation_of(g.key(op), rank); }

std::int64_t Views::int_attribute(OpId op, std::string_view name, std::int64_t absent) const {
  return native::int_attribute(g.key(op), name, absent);
}

std::optional<std::size_t> Views::axis(OpId op, Id tensor, std::int64_t absent) const {
  const Dims* dims = shape(tensor);
  return dims ? from_front(int_attribute(op, "axis", absent), dims->size()) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> Views::ints(Id id) const {
  const Facts& f = g.facts(id);
  if (!f.constant || f.kind != Facts::Kind::kTensor || !is_integer(f.dtype)) return std::nullopt;
  const auto value = g.value(id);
  if (!value) return std::nullopt;
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < value->size(); ++i) {
    const auto n = element_as_int(*value, i);
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

std::optional<std::vector<std::size_t>> Views::axes(Id id, std::size_t rank) const {
  const auto listed = ints(id);
  if (!listed) return std::nullopt;
  std::vector<std::size_t> out;
  for (const std::int64_t axis : *listed) {
    const auto place = from_front(axis, rank);
    if (!place) return std::nullopt;
    out.push_back(*place);
  }
  return out;
}

std::int64_t int_attribute(const OpKey& key, std::string_view name, std::int64_t absent) {
  const Attribute* a = find_attribute(key.attributes, name);
  return a && a->type == AttributeType::kInt ? a->i() : absent;
}

std::optional<std::size_t> from_front(std::int64_t axis, std::size_t rank) {
  const std::int64_t all = static_cast<std::int64_t>(rank), place = axis < 0 ? axis + all : axis;
  return place >= 0 && place < all ? std::optional(static_cast<std::size_t>(place)) : std::nullopt;
}

PatternNode variable() { return {}; }

PatternNode node(OnnxEGraph& g, std::string_view op, std::vector<std::uint32_t> children, std::string_view domain) {
  PatternNode n;
  n.type = PatternNode::Type::kOperator;
  n.kind = g.kind(domain, op);
  n.children = std::move(children);
  return n;
}

Pattern over(OnnxEGraph& g, std::string_view op, std::size_t inputs, std::string_view domain, int outputs) {
  Pattern pattern;
  pattern.nodes.assign(inputs, variable());
  std::vector<std::uint32_t> children(inputs);
  std::iota(children.begin(), children.end(), 0U);
  pattern.nodes.push_back(node(g, op, std::move(children), domain));
  pattern.nodes.back().kind = g.kind(domain, op, outputs);
  return pattern;
}

Pattern over_two(OnnxEGraph& g, std::string_view op) { return over(g, op, 2); }

std::function<Pattern(OnnxEGraph&)> reshaped(std::string_view op) {
  return [op](OnnxEGraph& g) { return Pattern{{variable(), variable(), node(g, op, {0, 1}), variable(), node(g, "Reshape", {2, 3})}}; };
}

std::vector<NativeRule> to_native(std::vector<ViewRule> rules) {
  std::vector<NativeRule> out;
  for (ViewRule& rule : rules) {
    NativeRule native{rule.name, rule.doc, rule.doc, rule.effect, nullptr, {}, rule.if_refused};
    native.make = [rule = std::move(rule)](OnnxEGraph& g, const std::shared_ptr<RuleLog>&) {
      auto& watch = g.notes<GuardWatch>();
      const Views views{g, watch.watching ? &watch : nullptr};
      const auto apply = [views, f = rule.apply](const Match& m, Unions& unions) { f(views, m, unions); };
      const auto applier = std::make_shared<LambdaApplier>(g, apply, rule.where);
      std::vector<Rewrite> rewrites;
      for (Pattern& pattern : rule.patterns ? rule.patterns(g) : std::vector<Pattern>{rule.pattern(g)}) {
        Rewrite& rewrite = rewrites.emplace_back();
        rewrite.name = rule.name;
        rewrite.left = std::move(pattern);
        rewrite.of_facts_alone = !rule.looks_around;
        rewrite.phase = rule.phase;
        rewrite.also_in_phase = rule.also_in_phase;
        rewrite.applier = applier;
      }
      return rewrites;
    };
    out.push_back(std::move(native));
  }
  return out;
}

}  // namespace saturate::native
