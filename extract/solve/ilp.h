// Exact extraction as an integer linear program. One variable per node; a node needs a chosen node in each child
// class (one row per pair of classes). A class needs what all its ways need (from presolve). Order variables stand only where a cycle is
// possible. Where operators are refused, two programs: the fewest of them first, then the least cost among choices with no more.
#pragma once

#include "extract/solve/integer_program.h"
#include "extract/solve/presolve.h"
#include "extract/solve/problem.h"

namespace saturate {

struct IlpResult {
  NodeChoice choice;  // the best known, at worst the warm start
  Price cost;
  bool proved = false;  // no choice costs less
};

// Whether a solver is there. Without it solve_ilp returns the warm start.
bool ilp_available();
// Rows of the program, a measure of its size.
std::size_t ilp_rows(const Presolved& presolved);
// `warm` is a complete acyclic choice for presolved.problem. Stops after about `seconds`. Without `solver` the first that is there is
// taken.
IlpResult solve_ilp(const Presolved& presolved, const NodeChoice& warm, double seconds, const IntegerSolver* solver = nullptr);

}  // namespace saturate
