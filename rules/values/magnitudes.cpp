#include "rules/values/magnitudes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "onnx_bridge/operators/op_traits.h"
#include "rules/values/answers.h"

namespace saturate {
namespace {

constexpr std::size_t kMostComputed = std::size_t{1} << 26;  // bytes of a constant that is computed for the question
constexpr std::size_t kLarge = std::size_t{1} << 20;         // bytes from which on a weight's pages are given back
constexpr std::size_t kSmall = std::size_t{1} << 16;
constexpr std::size_t kMostProducts = 200;

// The bits of an IEEE float without its sign are ordered as its magnitude is.
template <typename Bits>
Magnitudes by_bits(const Tensor& t) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const std::byte* bytes = t.bytes().data();
  Bits most = 0, least = std::numeric_limits<Bits>::max();  // least: of bits - 1, so that 0 comes last
  for (std::int64_t i = 0; i < t.size(); ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + static_cast<std::size_t>(i) * sizeof bits, sizeof bits);
    bits &= static_cast<Bits>(~kSign);
    most = std::max(most, bits);
    least = std::min(least, static_cast<Bits>(bits - 1));
  }
  const auto number = [&](Bits bits) {
    Tensor one(t.dtype(), {1});
    store_bits(one, 0, bits);
    const double value = element_as_double(one, 0).value_or(HUGE_VAL);
    return std::isfinite(value) ? value : HUGE_VAL;
  };
  return {most == 0 ? HUGE_VAL : number(static_cast<Bits>(least + 1)), number(most)};
}

std::optional<Magnitudes> by_bits(const Tensor& t) {
  switch (t.dtype()) {
    case DType::kFloat16:
    case DType::kBfloat16:
      return by_bits<std::uint16_t>(t);
    case DType::kFloat:
      return by_bits<std::uint32_t>(t);
    case DType::kDouble:
      return by_bits<std::uint64_t>(t);
    default:
      return std::nullopt;
  }
}

// Operators whose result holds each element of the first input, once or more, with its own sign or another.
bool keeps_magnitudes(const OpKey& key) { return has(Trait::kPermutation, key) || has(Trait::kKeepsMagnitude, key); }

using Known = FoundOnce<Magnitudes, kMostProducts>;
std::optional<Magnitudes> of_class(Look& look, Known& known, Id id);

// The size that all elements of a small constant have, be they scalars or channels.
std::optional<double> one_size(const OnnxEGraph& g, Id id) {
  const auto value = g.facts(id).constant ? g.value(id, kSmall) : std::nullopt;
  const auto sizes = value && value->size() > 0 ? by_bits(*value) : std::nullopt;
  if (!sizes || sizes->least != sizes->most || !std::isfinite(sizes->most)) return std::nullopt;
  for (std::int64_t i = 0; i < value->size(); ++i)
    if (element_as_double(*value, i) == 0) return std::nullopt;
  return sizes->most;
}

// A product of floats by numbers of one size scales the others, so that it need not be computed: a weight that is scaled again and again
// would be, from the start, for each of its spellings. What falls below the normal numbers may become 0: `least` is then a bound.
std::optional<Magnitudes> of_product(Look& look, Known& known, const ENode& node) {
  const auto range = float_range(DType::kFloat);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto scale = one_size(look.graph(), node.children[i]);
    const auto of = scale ? of_class(look, known, node.children[1 - i]) : std::nullopt;
    if (!of) continue;
    const double least = of->least * *scale, most = of->most * *scale;
    if (most < range->least || most > range->highest) continue;
    return Magnitudes{std::max<double>(static_cast<float>(least), std::numeric_limits<float>::denorm_min()), static_cast<float>(most)};
  }
  return std::nullopt;
}

std::optional<Magnitudes> of_class(Look& look, Known& known, Id id) {
  const OnnxEGraph& g = look.graph();
  const Facts& f = look.facts(id);
  if (f.kind != Facts::Kind::kTensor || !f.constant) return std::nullopt;
  if (f.value) return magnitudes_of(*f.value);
  return known.of(g.egraph().find(id), [&]() -> std::optional<Magnitudes> {
    for (NodeId n : look.nodes(id)) {
      const ENode node = g.egraph().node(n);
      const OpKey& key = g.key(node.op);
      if (key.op_type == kConstantOp) return magnitudes_of(g.constant_tensor(node.op));
      std::optional<Magnitudes> found;
      if (f.dtype == DType::kFloat && key.domain.empty() && key.op_type == "Mul")
        found = of_product(look, known, node);
      else if (keeps_magnitudes(key) && !node.children.empty())
        found = of_class(look, known, node.children[0]);
      if (found) return found;
    }
    return std::nullopt;
  });
}

}  // namespace

Magnitudes magnitudes_of(const Tensor& t) {
  if (const auto found = by_bits(t)) {
    if (t.bytes().size() > kLarge) release_pages(t);
    return *found;
  }
  Magnitudes out;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const auto x = element_as_double(t, i);
    const double size = x && std::isfinite(*x) ? std::fabs(*x) : HUGE_VAL;
    out.most = std::max(out.most, size);
    if (size != 0) out.least = std::min(out.least, size);
  }
  return out;
}

std::optional<Magnitudes> magnitudes(const OnnxEGraph& g, Id id) {
  if (!g.facts(id).constant) return std::nullopt;
  return Answers<Magnitudes, Magnitudes>::of(g, id, [&](Look& look) {
    Known known;
    std::optional<Magnitudes> found = of_class(look, known, id);
    if (!found)
      if (const auto value = g.value(id, kMostComputed)) found = magnitudes_of(*value);
    return found;
  });
}

bool is_multiplied(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  const auto users = e.class_users(e.find(id));
  return std::any_of(users.begin(), users.end(), [&](NodeId user) {
    const ENode node = e.node(user);
    const OpKey& key = g.key(node.op);
    return key.domain.empty() && key.op_type == "Mul" && std::any_of(node.children.begin(), node.children.end(), [&](Id child) {
             return g.facts(child).value && g.facts(child).value->size() == 1;
           });
  });
}

std::optional<FloatRange> float_range(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return FloatRange{0x1p-14, 65504, 11};
    case DType::kBfloat16:
      return FloatRange{0x1p-126, 0x1.fep127, 8};
    case DType::kFloat:
      return FloatRange{0x1p-126, std::numeric_limits<float>::max(), 24};
    case DType::kDouble:
      return FloatRange{0x1p-1022, std::numeric_limits<double>::max(), 53};
    default:
      return std::nullopt;
  }
}

}  // namespace saturate
