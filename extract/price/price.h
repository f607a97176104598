// What a choice of e-nodes is worth: first how many of its operators cannot run, then what running it costs. One number never drowns in the
// other: costs are seconds or operators, and are compared only between choices of which equally much cannot run.
#pragma once

#include <compare>
#include <limits>

namespace saturate {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Price {
  double refused = 0;  // operators that the target refuses or the asked opset lacks; a whole number but for shares in heuristics
  double cost = 0;     // in the cost model's unit

  constexpr Price() = default;
  constexpr Price(double the_cost) : refused(the_cost == kInfinity ? kInfinity : 0), cost(the_cost) {}
  constexpr Price(double the_refused, double the_cost) : refused(the_refused), cost(the_cost) {}

  constexpr bool is_finite() const { return refused < kInfinity && cost < kInfinity; }
  constexpr Price& operator+=(const Price& p) { return refused += p.refused, cost += p.cost, *this; }
  constexpr Price& operator-=(const Price& p) { return refused -= p.refused, cost -= p.cost, *this; }
  friend constexpr Price operator+(Price a, const Price& b) { return a += b; }
  friend constexpr Price operator-(Price a, const Price& b) { return a -= b; }
  friend constexpr Price operator*(const Price& p, double factor) { return {p.refused * factor, p.cost * factor}; }
  constexpr std::partial_ordering operator<=>(const Price&) const = default;  // refused first
  constexpr bool operator==(const Price&) const = default;
};

// Whether a is less by more than rounding: fewer refused, or as many and a cost that is less by this share.
constexpr bool clearly_less(const Price& a, const Price& b, double share) {
  return a.refused < b.refused || (a.refused == b.refused && a.cost < b.cost - share * b.cost);
}

}  // namespace saturate
