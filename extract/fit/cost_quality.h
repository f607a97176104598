// How good a cost model is: predicted against measured.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace saturate {

struct Compared {
  std::string key;  // kind of operator, or group of graphs
  double predicted = 0, measured = 0;
  double noise = 0;  // of the measurement, as a share
};

struct ErrorSummary {
  std::string key;
  std::size_t count = 0;
  double mape = 0;          // mean of |predicted - measured| / measured
  double within_tenth = 0;  // share of rows within 10 %
};
// By key in alphabetical order, then all rows as "".
std::vector<ErrorSummary> errors_by_key(std::span<const Compared> rows);

// Kendall's tau-b (M. Kendall, "The treatment of ties in ranking problems", 1945); 0 where one side is all ties. Pairs whose measured
// values differ by no more than the noise of their difference (the root of the sum of squares) don't count.
double kendall_tau(std::span<const Compared> rows);
// How many pairs that are.
std::size_t pairs_told_apart(std::span<const Compared> rows);
// What the one that is predicted to be the cheapest takes beyond the fastest, as a share; 0 for none.
double top1_regret(std::span<const Compared> rows);

}  // namespace saturate
