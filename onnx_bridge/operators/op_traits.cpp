#include "onnx_bridge/operators/op_traits.h"

#include <algorithm>
#include <array>

namespace saturate {
namespace {

constexpr std::array<std::string_view, kTraits> kTraitNames{"elementwise",
                                                            "unary_elementwise",
                                                            "binary_elementwise",
                                                            "ternary_elementwise",
                                                            "variadic_elementwise",
                                                            "gives_bool",
                                                            "compares",
                                                            "like_first",
                                                            "selection",
                                                            "movement",
                                                            "permutation",
                                                            "view",
                                                            "between",
                                                            "reduction",
                                                            "random",
                                                            "control_flow",
                                                            "commutative",
                                                            "associative",
                                                            "linear",
                                                            "bilinear",
                                                            "idempotent",
                                                            "odd",
                                                            "even",
                                                            "monotone",
                                                            "keeps_magnitude",
                                                            "positive",
                                                            "commutes_with_rounding"};

// The words of op_traits.inc.
namespace words {
constexpr std::uint32_t bit(Trait trait) { return std::uint32_t{1} << static_cast<int>(trait); }
constexpr std::uint32_t elementwise = bit(Trait::kElementwise);
constexpr std::uint32_t unary = elementwise | bit(Trait::kUnaryElementwise);
constexpr std::uint32_t binary = elementwise | bit(Trait::kBinaryElementwise);
constexpr std::uint32_t ternary = elementwise | bit(Trait::kTernaryElementwise);
constexpr std::uint32_t variadic = elementwise | bit(Trait::kVariadicElementwise);
constexpr std::uint32_t gives_bool = bit(Trait::kGivesBool);
constexpr std::uint32_t compares = gives_bool | bit(Trait::kCompares);
constexpr std::uint32_t like_first = bit(Trait::kLikeFirst);
constexpr std::uint32_t selection = bit(Trait::kSelection);
constexpr std::uint32_t between = bit(Trait::kBetween);
constexpr std::uint32_t linear = bit(Trait::kLinear);
constexpr std::uint32_t movement = selection | between | linear | bit(Trait::kMovement);
constexpr std::uint32_t permutation = movement | bit(Trait::kPermutation);
constexpr std::uint32_t view = permutation | bit(Trait::kView);
constexpr std::uint32_t reduction = bit(Trait::kReduction);
constexpr std::uint32_t random = bit(Trait::kRandom);
constexpr std::uint32_t control_flow = bit(Trait::kControlFlow);
constexpr std::uint32_t commutative = bit(Trait::kCommutative);
constexpr std::uint32_t associative = bit(Trait::kAssociative);
constexpr std::uint32_t bilinear = bit(Trait::kBilinear);
constexpr std::uint32_t idempotent = bit(Trait::kIdempotent);
constexpr std::uint32_t odd = bit(Trait::kOdd);
constexpr std::uint32_t even = bit(Trait::kEven);
constexpr std::uint32_t monotone = bit(Trait::kMonotone);
constexpr std::uint32_t keeps_magnitude = bit(Trait::kKeepsMagnitude);
constexpr std::uint32_t positive = bit(Trait::kPositive);
constexpr std::uint32_t commutes_with_rounding = bit(Trait::kCommutesWithRounding);

#define OP(op_name, op_bits, ...) {.name = op_name, .bits = op_bits, __VA_ARGS__},
constexpr OperatorTraits kTable[] = {
#include "onnx_bridge/operators/op_traits.inc"
};
#undef OP
}  // namespace words

constexpr auto& kOperators = words::kTable;
constexpr std::size_t kCount = std::size(kOperators);

// Where an operator stands: by a hash of its name, at the next free place. 0: free, else one more than its index.
constexpr std::size_t kPlaces = 512;
static_assert(kCount < kPlaces / 2 && kCount < 255);

constexpr std::uint32_t hashed(std::string_view text, std::uint32_t hash = 2166136261u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

constexpr std::size_t place_of(std::uint32_t hash) { return (hash ^ (hash >> 15)) % kPlaces; }

constexpr auto kPlace = [] {
  std::array<std::uint8_t, kPlaces> out{};
  for (std::size_t i = 0; i < kCount; ++i) {
    std::size_t at = place_of(hashed(kOperators[i].name));
    while (out[at] != 0) at = (at + 1) % kPlaces;
    out[at] = static_cast<std::uint8_t>(i + 1);
  }
  return out;
}();

template <typename Same>
const OperatorTraits* found(std::uint32_t hash, Same same) {
  for (std::size_t at = place_of(hash); kPlace[at] != 0; at = (at + 1) % kPlaces)
    if (const OperatorTraits& traits = kOperators[kPlace[at] - 1]; same(traits.name)) return &traits;
  return nullptr;
}

// Names by trait: those of trait t are [kFirst[t], kFirst[t + 1]).
constexpr auto kFirst = [] {
  std::array<std::size_t, kTraits + 1> out{};
  for (int t = 0; t < kTraits; ++t) {
    out[t + 1] = out[t];
    for (const OperatorTraits& traits : kOperators) out[t + 1] += traits.has(static_cast<Trait>(t)) ? 1 : 0;
  }
  return out;
}();

constexpr auto kByTrait = [] {
  std::array<std::string_view, kFirst[kTraits]> out{};
  std::size_t at = 0;
  for (int t = 0; t < kTraits; ++t)
    for (const OperatorTraits& traits : kOperators)
      if (traits.has(static_cast<Trait>(t))) out[at++] = traits.name;
  return out;
}();

}  // namespace

std::string_view trait_name(Trait trait) { return kTraitNames[static_cast<std::size_t>(trait)]; }

std::optional<Trait> trait_named(std::string_view name) {
  const auto it = std::find(kTraitNames.begin(), kTraitNames.end(), name);
  if (it == kTraitNames.end()) return std::nullopt;
  return static_cast<Trait>(it - kTraitNames.begin());
}

const OperatorTraits* traits_of(std::string_view name) {
  return found(hashed(name), [name](std::string_view other) { return other == name; });
}

const OperatorTraits* traits_of(std::string_view domain, std::string_view op_type) {
  if (domain.empty() || domain == "ai.onnx") return op_type.find('.') == std::string_view::npos ? traits_of(op_type) : nullptr;
  return found(hashed(op_type, hashed(".", hashed(domain))), [&](std::string_view name) {
    return name.size() == domain.size() + 1 + op_type.size() && name.starts_with(domain) && name[domain.size()] == '.' &&
           name.ends_with(op_type);
  });
}

std::span<const OperatorTraits> all_op_traits() { return kOperators; }

std::span<const std::string_view> operators_with(Trait trait) {
  const auto t = static_cast<std::size_t>(trait);
  return std::span(kByTrait).subspan(kFirst[t], kFirst[t + 1] - kFirst[t]);
}

}  // namespace saturate
