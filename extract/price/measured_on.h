// The machine and the runtime that times of operators are of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace saturate {

struct Machine {
  std::string processor;                // as the system names it; "": not known
  std::string architecture;             // "x86_64", "aarch64"; "": not known
  std::vector<std::string> extensions;  // "avx512f": those that pick other kernels
  int cores = 0;
  std::string system;
};
Machine this_machine();
nlohmann::json to_json(const Machine& machine);
// "2026-11-28"
std::string today();
// "AMD EPYC (AVX2)", "Intel Xeon (AVX2, AVX-512, VNNI, AMX)".
std::string machine_text(const Machine& machine);
// The instructions that decide which kernels run, by their usual names: "AVX2", "AVX-512", "VNNI", "AMX".
std::vector<std::string> instruction_sets(const Machine& machine);
// Whether kernels of one machine are other ones than those of the other. The model of a processor does not matter; of a machine that
// tells nothing, false.
bool is_another(const Machine& a, const Machine& b);

struct MeasuredOn {
  Machine machine;
  std::string runtime;  // "onnxruntime 1.31.1"
  int threads = 1;
  std::string date;         // "2026-11-25"; "": not known
  std::string fitted = {};  // of a calibration: the name of the table that was fitted to the machine
};
// What the first line of measured times says, as bench/runtime/gather_ort.py writes it; nullopt where it names no machine.
std::optional<MeasuredOn> measured_on(const nlohmann::json& head);
// "Intel Xeon (AVX-512, VNNI, AMX), ONNX Runtime 1.31, 1 thread".
std::string measured_on_text(const MeasuredOn& on);
// "1.31" of "onnxruntime 1.31.1"; "" of another runtime.
std::string onnxruntime_release(std::string_view runtime);

// The same beside the machine that this runs on, and the release of ONNX Runtime that costs are asked for ("1.23"; "": any).
struct MeasuredBesideHere {
  MeasuredOn on;
  Machine here;
  bool other_machine = false, other_release = false;
  std::string nearer = {};  // where it is another machine: the built-in table of one that runs the same kernels; "": none
};
MeasuredBesideHere beside_here(const MeasuredOn& on, std::string_view release);
// "Intel Xeon (AVX-512), ONNX Runtime 1.31, 1 thread; this machine is another: AMD EPYC (AVX2); --cost measured-avx2 is of its kind".
std::string to_text(const MeasuredBesideHere& both);
nlohmann::json to_json(const MeasuredBesideHere& both);

}  // namespace saturate
