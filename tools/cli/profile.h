// Times of nodes, for people (a table by operator) and for trace viewers.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/runtime.h"
#include "nlohmann/json_fwd.hpp"

namespace saturate {

struct OperatorTime {
  std::string op_type;
  std::size_t nodes = 0;  // of one run
  double seconds = 0;     // of one run, the mean
};
// By operator, the dearest first; `timings` are those of `runs` runs of one model, one after another.
std::vector<OperatorTime> operator_times(const std::vector<NodeTiming>& timings, std::size_t runs = 1);
std::string profile_table(const std::vector<OperatorTime>& times);

// The most memory that this process has had so far.
std::size_t peak_bytes();

// Complete events of one model as one process of a trace (Google, "Trace Event Format").
nlohmann::json trace_events(const std::vector<NodeTiming>& timings, const std::string& model, int process);

}  // namespace saturate
