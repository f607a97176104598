#include "rules/values/bounds.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "onnx_bridge/operators/op_traits.h"
#include "rules/values/answers.h"

namespace saturate {
namespace {

constexpr int kOperatorsDeep = 8;
constexpr std::int64_t kMostElements = 4096;  // of a constant that is read for the question

struct OperatorBounds {
  std::string_view op;
  Bounds bounds;
};
constexpr std::array<OperatorBounds, 13> kOfOperators{{{"Abs", {0, HUGE_VAL}},
                                                       {"Cos", {-1, 1}},
                                                       {"Erf", {-1, 1}},
                                                       {"Exp", {0, HUGE_VAL}},
                                                       {"HardSigmoid", {0, 1}},
                                                       {"Relu", {0, HUGE_VAL}},
                                                       {"Sigmoid", {0, 1}},
                                                       {"Sin", {-1, 1}},
                                                       {"Softmax", {0, 1}},
                                                       {"Softplus", {0, HUGE_VAL}},
                                                       {"Softsign", {-1, 1}},
                                                       {"Sqrt", {0, HUGE_VAL}},
                                                       {"Tanh", {-1, 1}}}};

Bounds both(const Bounds& a, const Bounds& b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }
Bounds either(const Bounds& a, const Bounds& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }
bool says_nothing(const Bounds& b) { return std::isinf(b.low) && std::isinf(b.high); }

Bounds product(const Bounds& a, const Bounds& b) {
  Bounds out{HUGE_VAL, -HUGE_VAL};
  for (const double x : {a.low, a.high})
    for (const double y : {b.low, b.high}) {
      const double p = x == 0 || y == 0 ? 0 : x * y;
      out = either(out, {p, p});
    }
  return out;
}

Bounds of_tensor(const Tensor& t) {
  Bounds out{HUGE_VAL, -HUGE_VAL};
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (const auto x = element_as_double(t, i); !x)
      return {};
    else if (!std::isnan(*x))
      out = either(out, {*x, *x});
  return out.low > out.high ? Bounds{} : out;
}

class BoundsFinder {
 public:
  explicit BoundsFinder(Look& look) : look_(look), g_(look.graph()) {}

  Bounds of_class(Id id, int depth) {
    const Facts& f = look_.facts(id);
    if (f.kind != Facts::Kind::kTensor) return {};
    Bounds out;
    if (f.value && f.value->size() > 0 && f.value->size() <= kMostElements) return of_tensor(*f.value);
    if (f.never_negative) out.low = 0;
    if (depth == 0) return out;
    for (const NodeId n : look_.nodes(id)) out = both(out, of_node(n, depth - 1));
    return out.low <= out.high ? out : Bounds{};
  }

 private:
  Bounds of_node(NodeId n, int depth) {
    const ENode node = g_.egraph().node(n);
    const OpKey& key = g_.key(node.op);
    if (key.domain != "" || key.version != 0 || key.unique != 0 || key.role != UnitRole::kNone || node.children.empty()) return {};
    const std::string& op = key.op_type;
    const auto known = std::find_if(kOfOperators.begin(), kOfOperators.end(), [&](const OperatorBounds& o) { return o.op == op; });
    if (known != kOfOperators.end()) return known->bounds;
    const auto of = [&](std::size_t i) { return i < node.children.size() ? of_class(node.children[i], depth) : Bounds{}; };
    if (has(Trait::kBetween, key)) return of(0);
    if (op == "DequantizeLinear") return dequantized(node, depth);
    if (op == "Clip") return clipped(node, of(0));
    if (op == "Where") return either(of(1), of(2));
    if (node.children.size() != 2) return {};
    if (op == "Max" || op == "Min") return larger_or_smaller(of(0), of(1), op == "Max");
    if (op == "Mul")
      return g_.egraph().find(node.children[0]) == g_.egraph().find(node.children[1]) ? Bounds{0, HUGE_VAL} : with(of(0), of(1), product);
    if (op == "Add") return with(of(0), of(1), [](const Bounds& a, const Bounds& b) { return Bounds{a.low + b.low, a.high + b.high}; });
    if (op == "Sub") return with(of(0), of(1), [](const Bounds& a, const Bounds& b) { return Bounds{a.low - b.high, a.high - b.low}; });
    if (op == "Div") return divided(of(0), of(1));
    if (op == "Pow") return is_even(node.children[1]) ? Bounds{0, HUGE_VAL} : Bounds{};
    return {};
  }

  template <typename Join>
  static Bounds with(const Bounds& a, const Bounds& b, Join join) {
    return says_nothing(a) || says_nothing(b) ? Bounds{} : join(a, b);
  }

  static Bounds larger_or_smaller(const Bounds& a, const Bounds& b, bool larger) {
    if (larger) return {std::max(a.low, b.low), std::max(a.high, b.high)};
    return {std::min(a.low, b.low), std::min(a.high, b.high)};
  }

  static Bounds divided(const Bounds& a, const Bounds& b) {
    if (!(b.low > 0) || says_nothing(a)) return {};
    return product(a, {1 / b.high, 1 / b.low});
  }

  bool is_even(Id exponent) {
    const Facts& f = look_.facts(exponent);
    const auto x = f.value && f.value->size() == 1 ? element_as_double(*f.value, 0) : std::nullopt;
    return x && std::fmod(*x, 2) == 0;
  }

  Bounds clipped(const ENode& node, Bounds x) {
    const auto number = [&](std::size_t i) -> std::optional<double> {
      if (i >= node.children.size()) return std::nullopt;
      const Facts& f = look_.facts(node.children[i]);
      return f.value && f.value->size() == 1 ? element_as_double(*f.value, 0) : std::nullopt;
    };
    if (const auto low = number(1); low && !std::isnan(*low)) x.low = std::max(x.low, *low);
    if (const auto high = number(2); high && !std::isnan(*high)) x.high = std::min(x.high, *high), x.low = std::min(x.low, *high);
    return x;
  }

  // The integers between their ends, by scales that are not negative.
  Bounds dequantized(const ENode& node, int depth) {
    const auto range = integer_range(look_.facts(node.children[0]).dtype);
    if (!range || node.children.size() < 2) return {};
    const Bounds scale = of_class(node.children[1], depth);
    Bounds zero{0, 0};
    if (node.children.size() > 2 && look_.facts(node.children[2]).kind == Facts::Kind::kTensor) zero = of_class(node.children[2], depth);
    if (!(scale.low >= 0) || says_nothing(zero)) return {};
    return product({range->low - zero.high, range->high - zero.low}, scale);
  }

  static std::optional<Bounds> integer_range(DType dtype) {
    if (!is_integer(dtype) || bit_width(dtype) > 16) return std::nullopt;
    const int bits = bit_width(dtype);
    if (has_sign(dtype)) return Bounds{-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1) - 1};
    return Bounds{0, std::ldexp(1, bits) - 1};
  }

  Look& look_;
  const OnnxEGraph& g_;
};

}  // namespace

Bounds bounds_of(const OnnxEGraph& g, Id id) {
  const auto found = Answers<Bounds, Bounds>::of(g, id, [&](Look& look) -> std::optional<Bounds> {
    const Bounds bounds = BoundsFinder(look).of_class(id, kOperatorsDeep);
    return says_nothing(bounds) ? std::nullopt : std::optional(bounds);
  });
  return found.value_or(Bounds{});
}

}  // namespace saturate
