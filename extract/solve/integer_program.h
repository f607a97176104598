// Integer linear programs and what solves them: HiGHS where the build links it (wheels), COIN-OR CBC where its library is found.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace saturate {

// Minimizes objective * x with lower <= x <= upper and row_lower <= rows * x <= row_upper.
struct IntegerProgram {
  static constexpr double kNoBound = 1e30;
  std::vector<double> objective, lower, upper;  // of each column
  std::size_t whole = 0;                        // so many columns, the first ones, are whole numbers
  // The rows, column by column.
  std::vector<int> begin, row;
  std::vector<double> factor;
  std::vector<double> row_lower, row_upper;
  std::vector<int> start;  // of the first `whole` columns, those that are 1 in a solution that is known; the others are 0
  std::size_t columns() const { return objective.size(); }
  std::size_t rows() const { return row_lower.size(); }
};

struct IntegerSolution {
  std::vector<double> columns;  // empty where none was found
  bool proved = false;          // no solution is better than it, and none than the start
};

// Stops after about `seconds`; solvers look at the clock between their steps only.
struct IntegerSolver {
  std::string_view name;
  IntegerSolution (*solve)(const IntegerProgram& program, double seconds);
};

// Those that are there, the one to take first.
std::span<const IntegerSolver> integer_solvers();

}  // namespace saturate
