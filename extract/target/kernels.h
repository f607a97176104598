// What the releases of ONNX Runtime have CPU kernels for: extract/runtimes/kernels.json, by tools/ort_kernel_types.py.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace saturate {

// Whether a release has a kernel of an operator beyond the standard ("com.microsoft::Attention"); an empty one: any release.
bool has_kernel_of(const std::string& op, std::string_view release);

// The element types of the first input that is not bool, for which a release (an empty one: the newest) has a kernel of one of the
// standard's operators; null where it has them for all types, or it is not known.
const std::set<std::string>* kernel_dtypes(const std::string& op, std::string_view release);

// The oldest release asked.
std::string_view oldest_release_of_kernels();

}  // namespace saturate
