#include "tools/cli/profile.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/io/table.h"

namespace saturate {

std::vector<OperatorTime> operator_times(const std::vector<NodeTiming>& timings, std::size_t runs) {
  std::map<std::string, OperatorTime> by_type;
  for (const NodeTiming& t : timings) {
    OperatorTime& sum = by_type[t.op_type];
    sum.op_type = t.op_type;
    ++sum.nodes;
    sum.seconds += t.seconds;
  }
  std::vector<OperatorTime> out;
  for (auto& [type, sum] : by_type) {
    sum.nodes /= std::max<std::size_t>(1, runs);
    sum.seconds /= static_cast<double>(std::max<std::size_t>(1, runs));
    out.push_back(std::move(sum));
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return out;
}

std::string profile_table(const std::vector<OperatorTime>& times) {
  double total = 0;
  std::size_t nodes = 0;
  for (const OperatorTime& t : times) {
    total += t.seconds;
    nodes += t.nodes;
  }
  std::vector<std::vector<std::string>> rows{{"operator", "nodes", "time", "share"}};
  for (const OperatorTime& t : times) {
    rows.push_back({t.op_type, fmt::format("{}", t.nodes), human_seconds(t.seconds),
                    fmt::format("{:.1f} %", total > 0 ? 100 * t.seconds / total : 0)});
  }
  rows.push_back({"all", fmt::format("{}", nodes), human_seconds(total), ""});
  return format_table(rows);
}

nlohmann::json trace_events(const std::vector<NodeTiming>& timings, const std::string& model, int process) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"tid", 0}, {"args", {{"name", model}}}});
  for (const NodeTiming& t : timings) {
    events.push_back({{"name", t.op_type},
                      {"cat", "node"},
                      {"ph", "X"},
                      {"ts", t.start_s * 1e6},
                      {"dur", t.seconds * 1e6},
                      {"pid", process},
                      {"tid", 0},
                      {"args", {{"node", t.node}}}});
  }
  return events;
}

std::size_t peak_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<std::size_t>(usage.ru_maxrss) * 1024 : 0;
}

}  // namespace saturate
