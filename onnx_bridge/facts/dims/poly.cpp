// Polynomial arithmetic over interned atoms.
#include <algorithm>
#include <limits>
#include <numeric>

#include "onnx_bridge/facts/dims/impl.h"

namespace saturate::dims {

int compare(const Monomial& a, const Monomial& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return a[i] < b[i] ? 1 : -1;
  return 0;
}

std::optional<Poly> add(const Poly& a, const Poly& b, std::int64_t factor_of_b) {
  Poly sum;
  sum.reserve(a.size() + b.size());
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const int order = i == a.size() ? -1 : j == b.size() ? 1 : compare(a[i].atoms, b[j].atoms);
    if (order > 0) {
      sum.push_back(a[i++]);
      continue;
    }
    std::int64_t c;
    if (__builtin_mul_overflow(b[j].coefficient, factor_of_b, &c)) return std::nullopt;
    if (order == 0 && __builtin_add_overflow(c, a[i++].coefficient, &c)) return std::nullopt;
    if (c != 0) sum.push_back({b[j].atoms, c});
    ++j;
  }
  return sum;
}

namespace {

Monomial product(const Monomial& a, const Monomial& b) {
  Monomial m;
  m.resize(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), m.begin());
  return m;
}

std::optional<Monomial> quotient(const Monomial& a, const Monomial& b) {
  Monomial m;
  std::size_t j = 0;
  for (AtomId atom : a) {
    if (j < b.size() && b[j] == atom)
      ++j;
    else
      m.push_back(atom);
  }
  if (j != b.size()) return std::nullopt;
  return m;
}

}  // namespace

std::optional<Poly> mul(const Poly& a, const Poly& b) {
  Poly terms;
  terms.reserve(a.size() * b.size());
  for (const Term& x : a)
    for (const Term& y : b) {
      std::int64_t c;
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &c)) return std::nullopt;
      terms.push_back({product(x.atoms, y.atoms), c});
    }
  if (a.size() <= 1 || b.size() <= 1) return terms;  // one factor is a monomial: order is kept, nothing collides
  std::stable_sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) { return compare(x.atoms, y.atoms) > 0; });
  Poly sum;
  for (Term& t : terms) {
    if (!sum.empty() && sum.back().atoms == t.atoms) {
      if (__builtin_add_overflow(sum.back().coefficient, t.coefficient, &sum.back().coefficient)) return std::nullopt;
      if (sum.back().coefficient == 0) sum.pop_back();
    } else {
      sum.push_back(std::move(t));
    }
  }
  return sum;
}

std::optional<Poly> exact_div(Poly a, const Poly& b) {
  if (b.empty()) return std::nullopt;
  Poly result;
  const Term& lead = b.front();
  for (int step = 0; !a.empty(); ++step) {
    const Term& top = a.front();
    if (step > 256 || (top.coefficient == std::numeric_limits<std::int64_t>::min() && lead.coefficient == -1)) return std::nullopt;
    if (top.coefficient % lead.coefficient != 0) return std::nullopt;
    auto atoms = quotient(top.atoms, lead.atoms);
    if (!atoms) return std::nullopt;
    Poly piece{{*std::move(atoms), top.coefficient / lead.coefficient}};
    auto part = mul(piece, b);
    if (!part) return std::nullopt;
    auto rest = add(a, *part, -1);
    if (!rest) return std::nullopt;
    result.push_back(std::move(piece.front()));
    a = *std::move(rest);
  }
  return result;
}

std::optional<std::int64_t> constant_value(const Poly& p) {
  if (p.empty()) return 0;
  if (p.size() == 1 && p[0].atoms.empty()) return p[0].coefficient;
  return std::nullopt;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

}  // namespace saturate::dims
