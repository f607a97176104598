// HiGHS (Huangfu, Hall, Math. Prog. Comp. 2018), an exact solver that a package can carry.
#pragma once

#include "extract/solve/integer_program.h"

namespace saturate {

IntegerSolution solve_by_highs(const IntegerProgram& program, double seconds);

}  // namespace saturate
