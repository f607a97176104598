#include "kernels/core/numeric.h"

namespace saturate {

float narrow_round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value) || std::isinf(nearest)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const bool rounded_away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  if (rounded_away) --bits;  // the neighbour towards zero
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace saturate
