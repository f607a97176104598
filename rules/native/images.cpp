// Operators along one axis of places as the same over images of one row, for a target that runs these faster (Refusals::prefers_image): a
// Conv first, and what stands behind it as far as it keeps channels and places apart.
#include <algorithm>
#include <array>
#include <optional>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/native/regroup.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace native;

constexpr std::size_t kRow = 3;  // axes: the batch, the channels, the places

bool wanted(const OnnxEGraph& g) { return g.refusals() == nullptr || g.refusals()->prefers_images(); }

// The value of four dims that `x` is a Reshape of, where these are those of an image of one row. Its places are as many, being what is
// left, though the facts may count them in another way.
std::optional<Id> image_of(const Views& v, Id x) {
  const Dims* own = v.shape(x);
  if (!own || own->size() != kRow) return std::nullopt;
  const auto number = [&](Dim d) { return v.g.dims().value(d); };
  const auto is_image = [&](const Dims& d) {
    if (d.size() != kRow + 1) return false;
    const bool other_places = number(d.back()) && number(own->back()) && !v.equal(d.back(), own->back());  // of an empty batch alone
    return v.guard("batch and channels stay, and there is one row",
                   v.equal(d[0], (*own)[0]) && v.equal(d[1], (*own)[1]) && v.is_one(d[kPlaces]) && useful(!other_places));
  };
  const EGraph& e = v.g.egraph();
  for (const NodeId n : e.class_nodes(e.find(x))) {
    const ENode made = e.node(n);
    const OpKey& key = v.g.key(made.op);
    if (key.op_type != "Reshape" || !key.domain.empty()) continue;
    if (const Dims* from = v.shape(made.children[0]); from && is_image(*from)) return e.find(made.children[0]);
  }
  return std::nullopt;
}

Id as_image(const Views& v, Id x) {
  const auto known = image_of(v, x);
  return known ? *known : with_dims(v, x, with_places(v, *v.shape(x), 1));
}

// The result of an operator that was made over images. All that are seen as one row are one image.
void unite_images(const Operation& op, Id made, Unions& unions) {
  if (const auto known = image_of(op.v, op.result))
    unions.emplace_back(*known, made);
  else
    unite(op, made, unions);
}

// ---- Conv

void image_convolved(const Views& v, const Match& m, Unions& unions) {
  const NodeId found = m.matched.back();
  if (const Refusals* target = v.g.refusals(); target && !target->prefers_image(v.g, v.g.egraph().node(found), m.root())) return;
  const Operation op = operation_of(v, m);
  const Dims *x = op.shape(0), *weights = op.shape(1);
  if (!x || !weights || x->size() != kRow || weights->size() != kRow) return;
  std::vector<Id> inputs = op.inputs;
  inputs[0] = as_image(v, inputs[0]);
  inputs[1] = with_dims(v, inputs[1], with_places(v, *v.shape(inputs[1]), 1));
  if (op.has(3)) {  // FusedConv adds it to the result
    const Dims* added = v.shape(inputs[3]);
    if (!added || added->size() != kRow) return;
    inputs[3] = as_image(v, inputs[3]);
  }
  unite_images(op, v.g.add(with_places(op.key, 1), inputs), unions);
}

// ---- behind it

// An operand beside images: those of one element or along the last axis broadcast as they are.
std::optional<Id> image_operand(const Views& v, Id x) {
  const Dims* own = v.shape(x);
  if (!own || own->size() > kRow) return std::nullopt;
  if (own->size() < kPlaces) return x;
  if (const auto known = image_of(v, x)) return known;
  return with_dims(v, x, with_places(v, padded(v.g.dims(), *own, kRow), 1));
}

void images_elementwise(const Views& v, const Match& m, Unions& unions) {
  const Operation op = operation_of(v, m);
  const Dims* to = v.shape(op.result);
  if (!to || to->size() != kRow || std::ranges::none_of(op.inputs, [&](Id x) { return image_of(v, x).has_value(); })) return;
  std::vector<Id> inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const auto made = op.has(i) ? image_operand(v, op.inputs[i]) : op.inputs[i];
    if (!made) return;
    inputs.push_back(*made);
  }
  unite_images(op, v.g.add(op.key, inputs), unions);
}

void image_pooled(const Views& v, const Match& m, Unions& unions) {
  const Operation op = operation_of(v, m);
  if (const auto x = image_of(v, op.inputs[0])) unite_images(op, v.g.add(with_places(op.key, 1), std::array{*x}), unions);
}

void images_joined(const Views& v, const Match& m, Unions& unions) {
  const Operation op = operation_of(v, m);
  const auto axis = op.axis("axis", 0, kRow);
  if (!axis) return;
  std::vector<Id> inputs;
  for (const Id x : op.inputs) {
    const auto image = image_of(v, x);
    if (!image) return;
    inputs.push_back(*image);
  }
  const auto place = static_cast<std::int64_t>(*axis < kPlaces ? *axis : *axis + 1);
  unite_images(op, v.g.add(with_attribute(op.key, Attribute::of("axis", place)), inputs), unions);
}

// ----

ViewRule image_rule(std::string name, std::string doc, Effect effect, std::vector<Taken> taken,
                    void (*make)(const Views&, const Match&, Unions&)) {
  ViewRule rule{std::move(name), std::move(doc), effect, nullptr, make};
  rule.patterns = [taken = std::move(taken)](OnnxEGraph& g) { return wanted(g) ? patterns_of(g, taken) : std::vector<Pattern>{}; };
  rule.looks_around = true;
  rule.phase = kRankPhase;
  return rule;
}

std::vector<Taken> over_elementwise() {
  std::vector<Taken> out;
  for (const OperatorTraits& t : all_op_traits())
    if (const auto taken = elementwise_of_fixed_arity(t); taken && t.op_type() != "Identity") out.push_back(*taken);
  out.insert(out.end(), {{"Clip", 1, 3}, {"PRelu", 2, 2}});
  return out;
}

constexpr std::size_t kMostJoined = 8;  // of a Concat

std::vector<ViewRule> image_rules() {
  return {
      image_rule("row_as_image",
                 "Conv(X, W) = Reshape(Conv(Reshape(X), Reshape(W))) over images of one row, where the target runs these faster",
                 Effect::kReassociates, {{"Conv", 2, 3}, {"FusedConv", 2, 4, 1, "com.microsoft"}}, image_convolved),
      image_rule("elementwise_of_image", "op(Reshape(X)) = Reshape(op(X)) of an image of one row", Effect::kExact, over_elementwise(),
                 images_elementwise),
      image_rule("pool_of_image", "MaxPool(Reshape(X)) = Reshape(MaxPool(X)) of an image of one row", Effect::kReassociates,
                 {{"MaxPool", 1, 1}, {"AveragePool", 1, 1}, {"GlobalAveragePool", 1, 1}, {"GlobalMaxPool", 1, 1}}, image_pooled),
      image_rule("concat_of_images", "Concat(Reshape(X), Reshape(Y)) = Reshape(Concat(X, Y)) of images of one row", Effect::kExact,
                 {{"Concat", 2, kMostJoined}}, images_joined),
  };
}

}  // namespace

std::vector<NativeRule> native_image_rules() { return to_native(image_rules()); }

}  // namespace saturate
