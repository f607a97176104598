// What ONNX Runtime makes of an original and its result: the verdict of a judge.
#pragma once

#include "kernels/judge/judge.h"
#include "kernels/verify/verify.h"

namespace saturate {

// OK: the result loads at both levels, or the original doesn't either, or the judge can't tell. kDataLoss with one line: it doesn't.
// `kernels_may_be_missing`: see VerifyOptions. `told`: where not null, why the judge can't tell.
absl::Status loads_there(Judge& judge, const Model& original, const Model& result, bool kernels_may_be_missing,
                         std::string* told = nullptr);

// Both models are loaded and run there, each without and with all of the runtime's optimizations, on inputs that `report` kept; where it
// has none, inputs are searched for there. The result is at fault where it does not load, ends the process or hangs, or where its numbers
// lie outside the tolerances, and the original at the same level is not as far from the original without optimizations.
//
// Adds the verdict to `report`; a fault makes it kDifferent. Where nothing was compared here, it becomes what the judge found.
void ask_judge(Judge& judge, const Model& original, const Model& result, const VerifyOptions& options, VerifyReport& report);

}  // namespace saturate
