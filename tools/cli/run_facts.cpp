#include "tools/cli/run_facts.h"

#include <sys/resource.h>
#include <sys/utsname.h>

#include <filesystem>
#include <thread>

#include "egraph/text/read_json.h"
#include "extract/target/target.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/cli/repro.h"
#include "tools/io/sha256.h"

namespace saturate {
namespace {

using nlohmann::json;

json options_json(const OptimizeArgs& args) {
  json out = json::array();
  for (const GivenOption& option : args.given)
    out.push_back({{"name", option.name}, {"value", option.value ? json(*option.value) : json(nullptr)}});
  return out;
}

// Files that the run read and wrote: those of models without the files in which their weights lie.
json files_json(const OptimizeArgs& args) {
  json out = json::array();
  const auto add = [&](const char* role, const std::string& path) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return;  // a built-in one, a pipe, or none
    const auto sum = sha256_of_file(path);
    out.push_back({{"role", role},
                   {"path", path},
                   {"bytes", std::filesystem::file_size(path, ignored)},
                   {"sha256", sum.ok() ? json(*sum) : json(nullptr)}});
  };
  add("input", args.input);
  add("output", args.output);
  for (const std::string& rules : args.saturate.rules) add("rules", rules);
  add("target", split_release(args.saturate.target).name_or_path);
  add("cost", args.saturate.cost);
  for (const std::string& inputs : args.check.inputs) add("inputs", inputs);
  for (const auto* passes : {&args.before, &args.after})
    for (const std::string& file : *passes) add("passes", file);
  return out;
}

json machine_json() {
  utsname machine{};
  ::uname(&machine);
  return {{"system", machine.sysname}, {"processor", machine.machine}, {"processors", std::thread::hardware_concurrency()}};
}

std::uint64_t peak_memory() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_maxrss) << 10;
}

}  // namespace

json run_facts(const OptimizeArgs& args, const Target& target) {
  return {{"options", options_json(args)},
          {"files", files_json(args)},
          {"target_contents", *read_json(target_text(target))},
          {"target_release", target.release ? json(target.release->version) : json(nullptr)},
          {"machine", machine_json()},
          {"peak_memory_bytes", peak_memory()},
          {"explain", fmt::format("saturate explain {} --json", shell_word(args.input))}};
}

}  // namespace saturate
