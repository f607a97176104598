#include <cstdio>
#include <set>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/save_files.h"
#include "tools/cli/cli.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"
#include "tools/transform/transform.h"

namespace saturate {
namespace {

int list_passes(const TransformArgs& args) {
  if (args.common.json)
    print_json(pass_list_json());
  else
    print_text(pass_list());
  return kExitOk;
}

absl::StatusOr<std::vector<PassCall>> steps_of(const TransformArgs& args) {
  absl::StatusOr<std::vector<PassCall>> steps = load_passes(args.files);
  if (!steps.ok()) return steps;
  for (const std::string& text : args.passes) {
    absl::StatusOr<PassCall> step = parse_step(text);
    if (!step.ok()) return step.status();
    steps->push_back(*std::move(step));
  }
  if (args.cut_inputs.empty() && args.cut_outputs.empty()) return steps;
  const Pass* cut = find_pass("cut");
  absl::StatusOr<Arguments> where =
      Arguments::from_json(cut->name, cut->fields, {{"inputs", args.cut_inputs}, {"outputs", args.cut_outputs}});
  if (!where.ok()) return where.status();
  steps->push_back({cut, *std::move(where)});
  return steps;
}

// Nothing that is there is lost by mistake; a model may be written over itself.
absl::Status check_outputs(const TransformArgs& args) {
  if (const absl::Status s = check_writable(args.output); !s.ok()) return s;
  if (const absl::Status s = args.report.empty() ? absl::OkStatus() : check_writable(args.report, Into::kAnything); !s.ok()) return s;
  std::vector<NamedPath> inputs{{"the model", args.input}};
  for (const std::string& file : args.files) inputs.push_back({"--passes", file});
  for (const std::string& file : args.check.inputs) inputs.push_back({"--inputs", file});
  std::vector<NamedPath> outputs{{"the result", args.output}, {"--report", args.report}};
  if (args.output == args.input) outputs.erase(outputs.begin());
  return check_distinct(outputs, inputs);
}

absl::Status check_data_files(const TransformArgs& args, const Model& model) {
  std::set<std::string> files;
  for_each_file_range(model, [&](const FileRange& range) { files.insert(range.path); });
  std::vector<NamedPath> inputs;
  for (const std::string& file : files) inputs.push_back({"data of the model", file});
  return check_distinct({{"the result", args.output}, {"--report", args.report}}, inputs);
}

}  // namespace

int transform_command(const TransformArgs& given) {
  if (given.list) return list_passes(given);
  TransformArgs args = given;
  if (args.output.empty()) args.output = path_beside(args.input, ".out.onnx");
  absl::StatusOr<std::vector<PassCall>> steps = steps_of(args);
  if (!steps.ok())
    return fail(absl::IsUnimplemented(steps.status()) ? kExitUnsupported : kExitUsage, "", std::string(steps.status().message()), "");
  if (const absl::Status status = check_outputs(args); !status.ok()) return fail(status, "", "");
  absl::StatusOr<Model> model = load_model(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  if (const absl::Status status = check_data_files(args, *model); !status.ok()) return fail(status, "", "");
  absl::StatusOr<VerifyOptions> check = verify_options(args.check, {}, args.common, *model);
  if (!check.ok()) return fail(check.status(), "", "");
  TransformResult result = transform(*model, *steps, {args.verify, *std::move(check)});
  if (result.failure) return fail(result.failure->code, args.input, result.failure->message, result.failure->advice);
  SaveOptions save;
  save.force_external = args.external_data;
  save.cancel = args.common.cancel;
  const absl::Status status = save_model(result.model, args.output, save);
  if (absl::IsCancelled(status)) return fail(kExitInterrupted, args.output, "interrupted", "nothing was written");
  if (!status.ok()) return fail(kExitFile, args.output, std::string(status.message()), "check the folder and its rights");
  result.report.input = args.input;
  result.report.output = args.output;
  if (!args.report.empty())
    if (const absl::Status s = write_file(args.report, json_text(to_json(result.report)) + "\n"); !s.ok()) return fail(s, args.report, "");
  if (args.common.json)
    print_json(to_json(result.report));
  else if (!args.common.quiet())
    print_text(format_report(result.report));
  return kExitOk;
}

}  // namespace saturate
