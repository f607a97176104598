#include "tools/prove/known_equal.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "fmt/format.h"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

constexpr std::size_t kMostBytesOfConstants = std::size_t{1} << 30;

// Of a dtype: what the order of a few additions and another rounding may move.
double last_bits(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return 4 * 0x1p-23;
    case DType::kDouble:
      return 4 * 0x1p-52;
    case DType::kFloat16:
      return 2 * 0x1p-10;
    case DType::kBfloat16:
      return 2 * 0x1p-7;
    default:
      return 0;
  }
}

// Whether two constants of floats are the same but for their last bits: of each element's own size, or of the largest where it is a
// difference of such.
bool differ_by_rounding(const Tensor& a, const Tensor& b) {
  const double share = last_bits(a.dtype());
  if (share == 0 || a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  const std::int64_t n = a.size();
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (const auto x = element_as_double(a, i); x && std::isfinite(*x)) largest = std::max(largest, std::abs(*x));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = element_as_double(a, i), y = element_as_double(b, i);
    if (!x || !y || std::isnan(*x) != std::isnan(*y)) return false;
    if (std::isnan(*x) || *x == *y) continue;
    const double allowed = n == 1 ? share * std::abs(*x) : std::max(share * std::abs(*x), share / 8 * largest);
    if (!(std::abs(*x - *y) <= allowed)) return false;
  }
  return true;
}

}  // namespace

bool KnownEqual::sizes() {
  std::map<std::tuple<DType, int, std::vector<Dim>>, Id> known;
  bool any = false;
  for (const Id c : g_.egraph().classes()) {
    const Facts& f = g_.facts(c);
    if (f.kind != Facts::Kind::kTensor || !f.content || !f.shape) continue;
    std::vector<Dim> elements;
    for (const Dim d : *f.content) elements.push_back(g_.dims().canonical(d));
    const auto [it, is_first] = known.emplace(std::tuple(f.dtype, f.rank(), std::move(elements)), c);
    if (is_first || are_equal(it->second, c)) continue;
    g_.egraph().merge(it->second, c);
    any = true;
  }
  if (any) g_.egraph().rebuild();
  return any;
}

bool KnownEqual::reshapes() {
  std::map<std::tuple<Id, std::size_t, std::vector<Dim>>, Id> known;
  std::vector<std::tuple<Id, Id, std::string>> to_unite;
  for (const Id c : g_.egraph().classes()) {
    const Facts& f = g_.facts(c);
    if (f.kind != Facts::Kind::kTensor || !f.shape) continue;
    for (const NodeId n : g_.egraph().class_nodes(c)) {
      const ENode node = g_.egraph().node(n);
      if (const OpKey& key = g_.key(node.op); key.op_type != "Reshape" || !key.domain.empty()) continue;
      for (std::size_t at = 0; at < f.shape->size(); ++at) {
        std::vector<Dim> others;
        for (std::size_t i = 0; i < f.shape->size(); ++i)
          others.push_back(i == at ? g_.dims().constant(-1) : g_.dims().canonical((*f.shape)[i]));
        const auto [it, is_first] = known.emplace(std::tuple(g_.egraph().find(node.children[0]), at, std::move(others)), c);
        if (is_first || are_equal(it->second, c) || g_.dims().differ((*g_.facts(it->second).shape)[at], (*f.shape)[at])) continue;
        to_unite.push_back({it->second, c, size_text((*g_.facts(it->second).shape)[at], (*f.shape)[at])});
      }
    }
  }
  for (const auto& [a, b, sizes] : to_unite)
    if (g_.egraph().merge(a, b)) sizes_taken_.emplace(std::pair(a, b), sizes);
  if (!to_unite.empty()) g_.egraph().rebuild();
  return !to_unite.empty();
}

std::string KnownEqual::size_text(Dim a, Dim b) const {
  const DimTable& dims = g_.dims();
  return dims.equal(a, b) ? "" : fmt::format("{} = {}", dims.to_string(a), dims.to_string(b));
}

bool KnownEqual::constants(bool rounded) {
  Constants held, computed;
  std::size_t bytes = 0;
  for (const Id c : g_.egraph().classes()) {
    if (!g_.facts(c).constant || bytes > kMostBytesOfConstants) continue;
    const auto value = g_.value(c, kMostBytesOfConstants);
    if (!value) continue;
    bytes += value->bytes().size();
    (is_held(c) ? held : computed)[{value->dtype(), value->dims()}].emplace_back(c, *value);
  }
  bool any = false;
  for (const auto& [kind, made] : computed)
    for (const auto& [a, x] : made) any = unite_with_first(a, x, held[kind], rounded) || any;
  if (rounded) any = unite_given(held) || any;
  if (any) g_.egraph().rebuild();
  return any;
}

bool KnownEqual::is_held(Id c) const {
  return std::ranges::any_of(g_.egraph().class_nodes(c), [&](NodeId n) { return g_.key(g_.egraph().node(n).op).op_type == kConstantOp; });
}

// Constants that one model alone holds, and those that the other alone holds.

bool KnownEqual::unite_given(const Constants& held) {
  std::set<Id> of[2];
  for (int side : {0, 1})
    for (const auto& [name, id] : sides_[side].values) of[side].insert(g_.egraph().find(id));
  bool any = false;
  for (const auto& [kind, given] : held) {
    std::vector<std::pair<Id, Tensor>> others;
    for (const auto& c : given)
      if (of[1].contains(c.first) && !of[0].contains(c.first)) others.push_back(c);
    for (const auto& [a, x] : given)
      if (of[0].contains(a) && !of[1].contains(a)) any = unite_with_first(a, x, others, true) || any;
  }
  return any;
}

bool KnownEqual::unite_with_first(Id a, const Tensor& x, const std::vector<std::pair<Id, Tensor>>& others, bool rounded) {
  for (const auto& [b, y] : others) {
    if (a == b || are_equal(a, b)) continue;
    if (!(rounded ? differ_by_rounding(x, y) : identical(x, y))) continue;
    g_.egraph().merge(a, b);
    if (rounded) rounded_.push_back(name_of(b));
    return true;
  }
  return false;
}

std::string KnownEqual::name_of(Id c) const {
  for (const Lowered& side : sides_)
    for (const auto& [id, names] : side.names)
      if (are_equal(id, c) && !names.empty()) return names.front();
  return "a computed one";
}

}  // namespace saturate
