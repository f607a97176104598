#include <cstdio>
#include <optional>
#include <set>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/save_files.h"
#include "tools/cli/cli.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"
#include "tools/transform/split.h"
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
  if (const absl::Status s = args.output == kPipe ? absl::OkStatus() : check_writable(args.output); !s.ok()) return s;
  if (const absl::Status s = args.report.empty() ? absl::OkStatus() : check_writable(args.report, Into::kAnything); !s.ok()) return s;
  std::vector<NamedPath> inputs{{"the model", args.input}};
  for (const std::string& file : args.files) inputs.push_back({"--passes", file});
  for (const std::string& file : args.check.inputs) inputs.push_back({"--inputs", file});
  std::vector<NamedPath> outputs{{"the result", args.output}, {"--report", args.report}};
  if (args.output == args.input || args.output == kPipe) outputs.erase(outputs.begin());
  return check_distinct(outputs, inputs);
}

absl::Status check_data_files(const TransformArgs& args, const Model& model) {
  std::set<std::string> files;
  for_each_file_range(model, [&](const FileRange& range) { files.insert(range.path); });
  std::vector<NamedPath> inputs;
  for (const std::string& file : files) inputs.push_back({"data of the model", file});
  return check_distinct({{"the result", args.output}, {"--report", args.report}}, inputs);
}

int save(const TransformArgs& args, const Model& model, const std::string& path, const ResultToStdout* pipe = nullptr) {
  if (pipe) {
    const absl::Status status = pipe->write(model);
    return status.ok() ? kExitOk : fail(status, path, "write it to a file");
  }
  SaveOptions options;
  options.force_external = args.external_data;
  options.data_format = args.data_format;
  options.cancel = args.common.cancel;
  const absl::Status status = save_model(model, path, options);
  if (absl::IsCancelled(status)) return fail(kExitInterrupted, path, "interrupted", "nothing was written");
  return status.ok() ? kExitOk : fail(kExitFile, path, std::string(status.message()), write_advice(status));
}

// All parts are there before the first is written.
int save_parts(const TransformArgs& args, const Model& model, TransformOptions options) {
  options.check.inputs.clear();
  const absl::StatusOr<std::vector<PassCall>> cuts = split_at(model, args.split_at);
  if (!cuts.ok()) return fail(cuts.status(), args.input, "");
  std::vector<Model> parts;
  for (const PassCall& cut : *cuts) {
    TransformResult part = transform(model, {cut}, options);
    if (part.failure) return fail(part.failure->code, args.input, part.failure->message, part.failure->advice);
    parts.push_back(std::move(part.model));
  }
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (const int code = save(args, parts[i], path_beside(args.output, fmt::format(".{}.onnx", i + 1))); code != kExitOk) return code;
  return kExitOk;
}

}  // namespace

int transform_command(const TransformArgs& given) {
  if (given.list) return list_passes(given);
  TransformArgs args = given;
  if (args.output.empty()) args.output = args.input == kPipe ? args.input : path_beside(args.input, ".out.onnx");
  if (args.output == kPipe && !args.split_at.empty())
    return fail(kExitUsage, "--split-at", "several models don't go through a pipe", "name the output");
  std::optional<ResultToStdout> pipe;
  if (args.output == kPipe) pipe.emplace();
  absl::StatusOr<std::vector<PassCall>> steps = steps_of(args);
  if (!steps.ok())
    return fail(absl::IsUnimplemented(steps.status()) ? kExitUnsupported : kExitUsage, "", std::string(steps.status().message()), "");
  if (const absl::Status status = check_outputs(args); !status.ok()) return fail(status, "", "");
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  if (const absl::Status status = check_data_files(args, *model); !status.ok()) return fail(status, "", "");
  absl::StatusOr<VerifyOptions> check = verify_options(args.check, {}, args.common, *model);
  if (!check.ok()) return fail(check.status(), "", "");
  const TransformOptions options{args.verify, *std::move(check), args.output == kPipe ? "" : args.output};
  TransformResult result = transform(*model, *steps, options);
  if (result.failure) return fail(result.failure->code, args.input, result.failure->message, result.failure->advice);
  if (const int code =
          args.split_at.empty() ? save(args, result.model, args.output, pipe ? &*pipe : nullptr) : save_parts(args, result.model, options);
      code != kExitOk)
    return code;
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
