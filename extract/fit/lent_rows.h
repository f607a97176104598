// Operators that one machine was asked about and another was not.
#pragma once

#include "extract/sizes/op_sizes.h"

namespace saturate {

// `own`, and the rows of `other` whose operator has none there. Their times are those of `other`, times the median of what rows of both
// take here and there: of those that compute more operations than they move bytes, or of the rest. Rows of both that take less than a
// microsecond do not count.
TimedRows with_lent(TimedRows own, const TimedRows& other);

}  // namespace saturate
