// COIN-OR CBC, opened when it is first asked for: a process that never solves an integer program doesn't load it, and a machine without it
// does without exact extraction.
#pragma once

#include "extract/solve/integer_program.h"

namespace saturate {

bool has_cbc();
IntegerSolution solve_by_cbc(const IntegerProgram& program, double seconds);

}  // namespace saturate
