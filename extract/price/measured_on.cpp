#include "extract/price/measured_on.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <thread>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace saturate {
namespace {

// What the system calls an extension, its usual name, and the architecture that has it.
struct Extension {
  std::string_view name, usual, architecture;
};
constexpr std::string_view kIntel = "x86_64", kArm = "aarch64";
constexpr std::array<Extension, 10> kExtensions{{{"avx2", "AVX2", kIntel},
                                                 {"avx512f", "AVX-512", kIntel},
                                                 {"avx_vnni", "VNNI", kIntel},
                                                 {"avx512_vnni", "VNNI", kIntel},
                                                 {"amx_tile", "AMX", kIntel},
                                                 {"asimddp", "dot product", kArm},
                                                 {"i8mm", "I8MM", kArm},
                                                 {"bf16", "BF16", kArm},
                                                 {"sve", "SVE", kArm},
                                                 {"sme", "SME", kArm}}};

const Extension* find_extension(std::string_view name) {
  const auto it = std::find_if(kExtensions.begin(), kExtensions.end(), [&](const Extension& e) { return e.name == name; });
  return it == kExtensions.end() ? nullptr : &*it;
}

// Behind the colon of "model name : AMD EPYC".
std::string value_of(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return "";
  const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
  return begin == std::string::npos ? "" : line.substr(begin);
}

std::string architecture_of(const Machine& machine) {
  if (!machine.architecture.empty()) return machine.architecture == "arm64" ? std::string(kArm) : machine.architecture;
  for (const std::string& name : machine.extensions)
    if (const Extension* known = find_extension(name)) return std::string(known->architecture);
  return "";
}

// Without what stands in every name.
std::string short_name(std::string name) {
  for (const std::string_view without : {"(R)", "(TM)", "(r)", "(tm)", " Processor", " CPU"})
    for (std::size_t at; (at = name.find(without)) != std::string::npos;) name.erase(at, without.size());
  if (const std::size_t at = name.find(" @"); at != std::string::npos) name.resize(at);
  return name;
}

std::string text_or(const nlohmann::json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}

int number_or(const nlohmann::json& json, const char* key, int otherwise) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number_integer() ? it->get<int>() : otherwise;
}

}  // namespace

Machine this_machine() {
  Machine out;
  utsname system{};
  if (uname(&system) == 0) out.system = system.sysname, out.architecture = system.machine;
  out.cores = static_cast<int>(std::thread::hardware_concurrency());
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name") && out.processor.empty()) out.processor = value_of(line);
    if ((line.starts_with("flags") || line.starts_with("Features")) && out.extensions.empty()) {
      const std::string flags = " " + value_of(line) + " ";
      for (const Extension& e : kExtensions)
        if (e.architecture == architecture_of(out) && flags.find(fmt::format(" {} ", e.name)) != std::string::npos)
          out.extensions.emplace_back(e.name);
    }
    if (!out.processor.empty() && !out.extensions.empty()) break;  // the other processors say the same
  }
#ifdef __APPLE__
  char name[256] = {};
  std::size_t size = sizeof name - 1;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0) out.processor = name;
#endif
  return out;
}

nlohmann::json to_json(const Machine& machine) {
  return {{"processor", machine.processor},
          {"architecture", machine.architecture},
          {"extensions", machine.extensions},
          {"cores", machine.cores},
          {"system", machine.system}};
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

std::vector<std::string> instruction_sets(const Machine& machine) {
  std::vector<std::string> out;
  for (const Extension& e : kExtensions) {
    const bool has = std::find(machine.extensions.begin(), machine.extensions.end(), e.name) != machine.extensions.end();
    if (has && std::find(out.begin(), out.end(), e.usual) == out.end()) out.emplace_back(e.usual);
  }
  return out;
}

bool is_another(const Machine& a, const Machine& b) {
  const std::string of_a = architecture_of(a), of_b = architecture_of(b);
  if (of_a.empty() || of_b.empty()) return false;
  if (of_a != of_b) return true;
  if (a.extensions.empty() || b.extensions.empty()) return false;
  return instruction_sets(a) != instruction_sets(b);
}

std::string machine_text(const Machine& machine) {
  const std::string name = machine.processor.empty() ? architecture_of(machine) : short_name(machine.processor);
  const auto sets = instruction_sets(machine);
  const std::string known = name.empty() ? "an unknown processor" : name;
  return sets.empty() ? known : fmt::format("{} ({})", known, fmt::join(sets, ", "));
}

std::optional<MeasuredOn> measured_on(const nlohmann::json& head) {
  if (!head.is_object() || !head.contains("machine") || !head["machine"].is_object()) return std::nullopt;
  const nlohmann::json& machine = head["machine"];
  MeasuredOn out;
  out.machine.processor = text_or(machine, "processor");
  out.machine.architecture = text_or(machine, "architecture");
  out.machine.system = text_or(machine, "system");
  out.machine.cores = number_or(machine, "cores", 0);
  if (machine.contains("extensions") && machine["extensions"].is_array())
    for (const auto& one : machine["extensions"])
      if (one.is_string()) out.machine.extensions.push_back(one);
  out.runtime = text_or(head, "runtime");
  out.threads = number_or(head, "threads", 1);
  out.date = text_or(head, "date");
  out.fitted = text_or(head, "fitted");
  return out;
}

std::string onnxruntime_release(std::string_view runtime) {
  constexpr std::string_view kName = "onnxruntime ";
  if (!runtime.starts_with(kName)) return "";
  runtime.remove_prefix(kName.size());
  const std::size_t minor = runtime.find('.');
  return std::string(runtime.substr(0, minor == std::string_view::npos ? minor : runtime.find('.', minor + 1)));
}

std::string measured_on_text(const MeasuredOn& on) {
  const std::string release = onnxruntime_release(on.runtime), runtime = release.empty() ? on.runtime : "ONNX Runtime " + release;
  return fmt::format("{}{}{}, {} thread{}", machine_text(on.machine), runtime.empty() ? "" : ", ", runtime, on.threads,
                     on.threads == 1 ? "" : "s");
}

MeasuredBesideHere beside_here(const MeasuredOn& on, std::string_view release) {
  const std::string measured = onnxruntime_release(on.runtime);
  MeasuredBesideHere out{on, this_machine()};
  out.other_machine = is_another(on.machine, out.here);
  out.other_release = !release.empty() && !measured.empty() && measured != release;
  return out;
}

std::string to_text(const MeasuredBesideHere& both) {
  std::string out = measured_on_text(both.on);
  if (both.other_machine)
    out +=
        fmt::format("; this machine is another: {}; {}", machine_text(both.here),
                    both.nearer.empty() ? "saturate cost calibrate fits them to it" : fmt::format("--cost {} is of its kind", both.nearer));
  return out;
}

nlohmann::json to_json(const MeasuredBesideHere& both) {
  const MeasuredOn& on = both.on;
  const auto text = [](const std::string& value) { return value.empty() ? nlohmann::json() : nlohmann::json(value); };
  return {{"machine", to_json(on.machine)},
          {"runtime", on.runtime},
          {"threads", on.threads},
          {"date", text(on.date)},
          {"fitted", text(on.fitted)},
          {"this_machine", to_json(both.here)},
          {"other_machine", both.other_machine},
          {"nearer", text(both.nearer)},
          {"other_release", both.other_release}};
}

}  // namespace saturate
