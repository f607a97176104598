#include "extract/solve/integer_program.h"

#include "extract/solve/cbc_solver.h"
#if SATURATE_HIGHS
#include "extract/solve/highs_solver.h"
#endif

namespace saturate {

std::span<const IntegerSolver> integer_solvers() {
  static const std::vector<IntegerSolver> there = [] {
    std::vector<IntegerSolver> out;
#if SATURATE_HIGHS
    out.push_back({"HiGHS", solve_by_highs});
#endif
    if (has_cbc()) out.push_back({"CBC", solve_by_cbc});
    return out;
  }();
  return there;
}

}  // namespace saturate
