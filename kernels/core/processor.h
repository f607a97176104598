// Which instructions of x86 the processor has, by GCC's names for them. On others the answer is a constant no, and what hangs on it is left
// out: files that CMake compiles for x86 alone (*_avx2.cpp, *_avx512.cpp, *_x86.cpp) may be called behind such a question.
#pragma once

#include <cstdlib>

namespace saturate {

// Whether the variable SATURATE_SCALAR_KERNELS asks for none of them, so that counts of instructions are those of any processor.
inline bool only_scalar_kernels() {
  static const bool asked = std::getenv("SATURATE_SCALAR_KERNELS") != nullptr;
  return asked;
}

}  // namespace saturate

#ifdef __x86_64__
#define SATURATE_X86_HAS(feature) (!::saturate::only_scalar_kernels() && __builtin_cpu_supports(feature) != 0)
#else
#define SATURATE_X86_HAS(feature) false
#endif
