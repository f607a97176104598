#include "extract/fit/lent_rows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "egraph/text/read_json.h"
#include "extract/fit/time_fit.h"
#include "extract/sizes/op_features.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr double kLeastTold = 1e-6;  // seconds: shorter times are mostly what a call takes

// What is timed, apart from the time.
std::string case_of(const std::string& line) {
  const auto row = *read_json(line);
  nlohmann::json of;
  for (const char* key : {"op", "dtype", "in", "const", "attrs"})
    if (row.contains(key)) of[key] = row[key];
  return of.dump();
}

std::size_t computes(const OpUse& use) {
  const OpSizes s = sizes_of(use);
  return s.flops > s.bytes ? 1 : 0;
}

// Here to there, by what computes() says.
std::array<double, 2> ratios(const TimedRows& own, const TimedRows& other) {
  std::map<std::string, double> there;
  for (std::size_t i = 0; i < other.rows.size(); ++i) there.emplace(case_of(other.lines[i]), other.rows[i].seconds);
  std::array<std::vector<double>, 2> found;
  for (std::size_t i = 0; i < own.rows.size(); ++i) {
    const auto it = there.find(case_of(own.lines[i]));
    if (it == there.end() || std::min(it->second, own.rows[i].seconds) < kLeastTold) continue;
    found[computes(own.rows[i].use)].push_back(own.rows[i].seconds / it->second);
  }
  return {median(std::move(found[0]), 1), median(std::move(found[1]), 1)};
}

}  // namespace

TimedRows with_lent(TimedRows own, const TimedRows& other) {
  std::set<std::string> known;
  for (const TimedUse& row : own.rows) known.insert(comparable_op(row.use.op));
  const std::array<double, 2> ratio = ratios(own, other);
  for (std::size_t i = 0; i < other.rows.size(); ++i) {
    const TimedUse& row = other.rows[i];
    if (known.contains(comparable_op(row.use.op))) continue;
    own.rows.push_back({row.use, row.seconds * ratio[computes(row.use)]});
    own.lines.push_back(other.lines[i]);
  }
  return own;
}

}  // namespace saturate
