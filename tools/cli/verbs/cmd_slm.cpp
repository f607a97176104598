// `saturate slm`: a language model's export made ready for an accelerator, by a list of passes, verified by stepping.
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "kernels/decode/decoder.h"
#include "kernels/decode/stepping.h"
#include "kernels/verify/choice.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/report.h"
#include "tools/transform/decoder/slm.h"
#include "tools/transform/transform.h"

namespace saturate {
namespace {

// Bytes of inputs with which what passes make is verified on drawn ones, which holds a dozen times as much: of models of this size, and a
// share of what larger ones weigh.
constexpr std::size_t kLargeModel = std::size_t{1} << 30, kRoom = std::size_t{128} << 20, kRoomShare = 128;

std::size_t room_of(const Model& model) {
  const std::size_t weights = initializer_bytes(model.graph);
  return weights < kLargeModel ? kRoom : weights / kRoomShare;
}

absl::StatusOr<SlmOptions> slm_options(const SlmArgs& args) {
  absl::StatusOr<Sizes> dims = parse_sizes(args.shapes.dims);
  if (!dims.ok()) return dims.status();
  for (const auto& [option, given] :
       {std::pair("--max-error", args.max_error > 0), std::pair("--calibrate", !args.calibrate.empty()), std::pair("--clamp", args.clamp)})
    if (given && args.dtype.ends_with("32"))
      return absl::InvalidArgumentError(fmt::format("{}: nothing works in half precision; give --dtype fp16 or bf16, too", option));
  SlmOptions out{args.cache,  args.window,      args.sequence,  args.max_context, "",        args.opset,
                 args.target, *std::move(dims), args.max_error, args.calibrate,   args.clamp};
  if (args.dtype == "fp16" || args.dtype == "float16") out.dtype = "float16";
  if (args.dtype == "bf16" || args.dtype == "bfloat16") out.dtype = "bfloat16";
  return out;
}

absl::Status make_folder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::exists(folder)) std::filesystem::create_directory(folder, error);
  if (error) return absl::InternalError(fmt::format("{}: can't be made ({}); make the folder", folder.string(), error.message()));
  return absl::OkStatus();
}

VerifyReport step(const SlmArgs& args, const VerifyOptions& check, const Model& original, const Model& made) {
  SteppingOptions options;
  options.rtol = args.check.rtol;
  options.atol = args.check.atol;
  options.seed = args.check.seed;
  options.threads = args.common.threads;
  options.runtime = check.runtime;
  options.judges = check.judges;
  options.no_judge = check.no_judge;
  if (!check.here) take_runtime(options.judges, options.runtime);
  options.cancel = args.common.cancel;
  if (args.check.max_memory) options.memory = *args.check.max_memory << 20;
  if (args.check.seconds) options.seconds = *args.check.seconds;
  return verify_by_stepping(original, made, options);
}

int judge(const SlmArgs& args, const VerifyReport& stepping) {
  const std::string what = fmt::format("step by step: {}", stepping.message);
  switch (stepping.status) {
    case VerifyStatus::kEqual:
      return kExitOk;
    case VerifyStatus::kDifferent:
      return fail(kExitDifferent, args.input, what, "nothing was written; --no-verify goes on without");
    case VerifyStatus::kCancelled:
      return fail(kExitInterrupted, "", "interrupted", "nothing was written");
    default:
      return fail(kExitUnsupported, args.input, what, advice_unverified(stepping));
  }
}

int tell(const SlmArgs& args, const TransformReport& report, const std::optional<VerifyReport>& stepping) {
  nlohmann::json told = to_json(report);
  if (stepping) told["stepping"] = to_json(*stepping);
  if (!args.report.empty())
    if (const absl::Status s = write_file(args.report, json_text(told) + "\n"); !s.ok()) return fail(s, args.report, "");
  if (args.common.json) {
    print_json(told);
  } else if (!args.common.quiet()) {
    print_text(format_report(report));
    if (!stepping) return kExitOk;
    for (const std::string& note : stepping->notes) print_text(fmt::format("note: {}\n", note));
    print_text(fmt::format("step by step as the whole model: {}\n", summary(*stepping)));
  }
  return kExitOk;
}

absl::Status check_slm_outputs(const SlmArgs& args) {
  if (absl::Status s = make_folder(args.output); !s.ok()) return s;
  if (absl::Status s = check_writable(args.output); !s.ok()) return s;
  if (absl::Status s = args.report.empty() ? absl::OkStatus() : check_writable(args.report, Into::kAnything); !s.ok()) return s;
  return check_distinct({{"the result", args.output}, {"--report", args.report}}, {{"the model", args.input}});
}

}  // namespace

int slm_command(const SlmArgs& given) {
  SlmArgs args = given;
  if (args.output.empty()) args.output = path_beside(args.input, ".slm.onnx");
  const absl::StatusOr<SlmOptions> slm = slm_options(args);
  if (!slm.ok()) return fail(kExitUsage, "", std::string(slm.status().message()), "");
  const nlohmann::json list = slm_passes(*slm);
  if (args.print_passes) {
    print_json(list);
    return kExitOk;
  }
  absl::StatusOr<std::vector<PassCall>> passes = parse_steps(list.dump());
  if (!passes.ok()) return fail(kExitUsage, "", std::string(passes.status().message()), "");
  if (const absl::Status status = check_slm_outputs(args); !status.ok()) return fail(status, "", "");
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  absl::StatusOr<VerifyOptions> check = verify_options(args.check, {}, args.common, *model);
  if (!check.ok()) return fail(check.status(), "", "");
  TransformResult result = transform(*model, *passes, {args.verify, *check, args.output, room_of(*model)});
  if (result.failure) return fail(result.failure->code, args.input, result.failure->message, result.failure->advice);
  std::optional<VerifyReport> stepping;
  if (args.verify) {
    stepping = step(args, *check, *model, result.model);
    if (const int code = judge(args, *stepping); code != kExitOk) return code;
  }
  if (!args.external_data) result.model.external.reset();  // what lies in no file stays inside
  SaveOptions save;
  save.force_external = args.external_data;
  save.data_format = args.data_format;
  save.cancel = args.common.cancel;
  const absl::Status saved = save_model(result.model, args.output, save);
  if (absl::IsCancelled(saved)) return fail(kExitInterrupted, args.output, "interrupted", "nothing was written");
  if (!saved.ok()) return fail(kExitFile, args.output, std::string(saved.message()), write_advice(saved));
  result.report.input = args.input;
  result.report.output = args.output;
  return tell(args, result.report, stepping);
}

}  // namespace saturate
