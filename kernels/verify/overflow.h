// Models that give nothing finite, compared by their values on the way.
#pragma once

#include <string>

#include "kernels/verify/compare_case.h"

namespace saturate {

struct OverflowCheck {
  std::size_t values = 0;  // that were compared, where the original's hold something finite
  std::string difference;  // of the first that differs
};

// Values that both models have by name are compared. Where the original's is not finite, both go on with the same finite numbers in its
// place, so that what is behind it is compared, too.
OverflowCheck compare_around_overflow(const VerifyRun& run, const Inputs& inputs);

}  // namespace saturate
