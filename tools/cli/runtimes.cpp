// What --runtime names.
#include <filesystem>

#include "fmt/format.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"

namespace saturate {

absl::StatusOr<OtherRuntime> runtime_of(const RuntimeArgs& args, const CommonArgs& common, OfOurs of_ours) {
  if (args.name() == kOurRuntime) {
    if (args.custom_op_libraries.empty()) return OtherRuntime{};
    return wrong_usage("--custom-op-library: saturate's own runtime takes no libraries; add --runtime onnxruntime");
  }
  for (const auto& [option, given] : of_ours)
    if (given) return wrong_usage(fmt::format("{}: of saturate's own runtime alone; leave it or --runtime out", option));
  for (const std::string& library : args.custom_op_libraries) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(library, ignored))
      return absl::NotFoundError(fmt::format("--custom-op-library {}: there is no such file; name a shared library", library));
  }
  const auto maker = args.others ? args.others->makers.find(args.name()) : decltype(args.others->makers.end())();
  if (!args.others || maker == args.others->makers.end())
    return absl::UnimplementedError(
        fmt::format("--runtime {0}: this command has saturate's own runtime alone; `pip install onnx-saturate {0}` brings a command "
                    "`saturate` that has it (`python -m onnx_saturate` is the same)",
                    args.name()));
  return OtherRuntime{args.name(), maker->second(common.threads, args.custom_op_libraries)};
}

}  // namespace saturate
