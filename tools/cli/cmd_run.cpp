#include <cstdio>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/cli/profile.h"
#include "tools/io/files.h"
#include "tools/io/npz.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/verify/known_operators.h"

namespace saturate {
namespace {

// Items of a sequence are named "name.0", "name.1", ...; an empty optional leaves nothing.
void flatten(const std::string& name, const Value& value, NamedTensors& out) {
  if (const auto* tensor = std::get_if<Tensor>(&value.v)) {
    out.emplace_back(name, *tensor);
  } else if (const auto* sequence = std::get_if<Sequence>(&value.v)) {
    for (std::size_t i = 0; i < sequence->items.size(); ++i) flatten(fmt::format("{}.{}", name, i), sequence->items[i], out);
  } else if (const auto* optional = std::get_if<Optional>(&value.v); optional && optional->value) {
    flatten(name, *optional->value, out);
  }
}

// What the model makes of the inputs, by the runtime that was asked for.
absl::StatusOr<std::vector<Value>> run_model(const RunArgs& args, const OtherRuntime& runtime, const Model& model, const Inputs& inputs,
                                             std::vector<NodeTiming>& timings) {
  if (runtime) {
    const absl::StatusOr<RunOnce> run = runtime.open(model);
    if (!run.ok()) return run.status();
    absl::StatusOr<Ran> ran = (*run)(inputs, run_limits(args.bounds));
    if (!ran.ok()) return ran.status();
    return std::move(ran->outputs);
  }
  SessionOptions options;
  options.threads = args.common.threads;
  options.check_finite = args.check_finite;
  options.cancel = args.common.cancel;
  const absl::StatusOr<Session> session = Session::create(model, options);
  return session.ok() ? session->run(inputs, args.profile ? &timings : nullptr, run_limits(args.bounds)) : session.status();
}

constexpr const char* kInputsAdvice = "--inputs X.npz gives inputs, --random draws some; --dim and --input-shapes say their sizes";

nlohmann::json run_json(const RunArgs& args, const NamedTensors& outputs, const std::vector<NodeTiming>& timings,
                        const std::vector<std::string>& ones) {
  nlohmann::json out{{"model", args.input}, {"runtime", args.runtime.name}, {"outputs", nlohmann::json::array()}};
  for (const auto& [name, tensor] : outputs)
    out["outputs"].push_back({{"name", name}, {"type", dtype_name(tensor.dtype())}, {"shape", tensor.dims()}});
  if (args.random) out["random"] = {{"seed", args.seed}, {"size_1", ones}};
  if (args.profile)
    for (const OperatorTime& time : operator_times(timings))
      out["operators"].push_back({{"op_type", time.op_type}, {"nodes", time.nodes}, {"seconds", time.seconds}});
  return out;
}

}  // namespace

int run_command(const RunArgs& args) {
  if (!args.output.empty()) {
    if (const absl::Status status = check_writable(args.output, Into::kAnything); !status.ok()) return fail(status, args.output, "");
    const absl::Status status = check_distinct({{"the output", args.output}}, {{"the model", args.input}, {"--inputs", args.inputs}});
    if (!status.ok()) return fail(status, args.output, "");
  }
  const absl::StatusOr<OtherRuntime> runtime = runtime_of(
      args.runtime, args.common,
      {{"--profile", args.profile}, {"--check-finite", args.check_finite}, {"--max-memory", args.bounds.max_memory.has_value()}});
  if (!runtime.ok()) return fail(runtime.status(), "", "");
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  if (const absl::Status status = check_operators(*model); !status.ok()) return fail(status, args.input, "");
  Drawn drawn;
  if (args.random || !args.inputs.empty()) {
    absl::StatusOr<Drawn> made = inputs_for(*model, args.inputs, args.shapes, args.seed);
    if (!made.ok()) return fail(made.status(), "", "give sizes by --dim or --input-shapes, or inputs by --inputs");
    drawn = *std::move(made);
  }
  std::vector<NodeTiming> timings;
  const absl::StatusOr<std::vector<Value>> outputs = run_model(args, *runtime, *model, drawn.inputs, timings);
  if (!outputs.ok()) {
    if (absl::IsUnimplemented(outputs.status())) return fail(outputs.status(), args.input, *runtime ? "" : kElsewhereAdvice);
    const bool none_given = absl::IsInvalidArgument(outputs.status()) && args.inputs.empty();
    return fail(outputs.status(), args.input, none_given ? kInputsAdvice : run_advice(outputs.status()));
  }
  NamedTensors flat;
  for (std::size_t i = 0; i < outputs->size(); ++i) flatten(model->graph.outputs[i].name, (*outputs)[i], flat);
  if (!args.output.empty())
    if (const absl::Status status = save_npz(flat, args.output); !status.ok()) return fail(status, args.output, "");
  if (args.common.json) print_json(run_json(args, flat, timings, drawn.ones));
  if (args.common.json || args.common.quiet()) return kExitOk;
  std::vector<std::vector<std::string>> rows{{"output", "type", "shape"}};
  for (const auto& [name, tensor] : flat)
    rows.push_back({name, dtype_name(tensor.dtype()), fmt::format("[{}]", fmt::join(tensor.dims(), ", "))});
  print_text(format_table(rows, 3));
  if (args.profile) print_text("\n" + profile_table(operator_times(timings)));
  return kExitOk;
}

}  // namespace saturate
