// What a report tells of the run itself: options, files, target and machine.
#pragma once

#include "nlohmann/json_fwd.hpp"
#include "tools/cli/cli.h"

namespace saturate {

// Keys of the report (docs/report.schema.json): options, files, target_contents, machine, peak_memory_bytes, explain.
nlohmann::json run_facts(const OptimizeArgs& args, const Target& target);

}  // namespace saturate
