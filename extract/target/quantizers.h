// What quantizers of other projects know (extract/runtimes/quantizers.json), for models that are quantized behind us.
#pragma once

#include <string_view>
#include <vector>

#include "extract/target/target.h"
#include "rules/compile/kept_known.h"

namespace saturate {

inline constexpr std::string_view kQuantizable = "quantizable";  // of --prefer
// What each quantizer knows.
std::vector<KnownOperators> known_to_quantizers();
// Says that the result is quantized next, and takes from the target what another spelling than quantizers know is made for: what its
// runtime does when it loads a model. Weights become initializers, since ONNX Runtime's quantizer fails on biases that are Constant nodes.
void leave_to_quantizers(Target& target);

}  // namespace saturate
