#include <cstdio>
#include <memory>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/compare/known_operators.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"
#include "tools/cli/profile.h"
#include "tools/io/files.h"
#include "tools/io/npz.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"

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

struct Made {
  std::vector<Value> outputs;
  std::vector<NodeTiming> timings;  // of --profile
};

// The model, ready in the runtime that was asked for: puts what it makes of inputs into `made`.
absl::StatusOr<TryRun> open_model(const RunArgs& args, const OtherRuntime& runtime, const Model& model, Made& made) {
  if (runtime) {
    absl::StatusOr<RunOnce> run = runtime.open(model);
    if (!run.ok()) return run.status();
    return TryRun([&args, &made, run = *std::move(run)](const Inputs& inputs) {
      absl::StatusOr<Ran> ran = run(inputs, run_limits(args.bounds));
      if (ran.ok()) made.outputs = std::move(ran->outputs);
      return ran.status();
    });
  }
  SessionOptions options;
  options.threads = args.common.threads;
  options.check_finite = args.check_finite;
  options.cancel = args.common.cancel;
  absl::StatusOr<Session> opened = Session::create(model, options);
  if (!opened.ok()) return opened.status();
  return TryRun([&args, &made, session = std::make_shared<const Session>(*std::move(opened))](const Inputs& inputs) {
    made.timings.clear();
    absl::StatusOr<std::vector<Value>> outputs = session->run(inputs, args.profile ? &made.timings : nullptr, run_limits(args.bounds));
    if (!outputs.ok()) return outputs.status();
    made.outputs = *std::move(outputs);
    return absl::OkStatus();
  });
}

constexpr const char* kInputsAdvice = "--inputs X.npz gives inputs, --random draws some; --dim and --input-shapes say their sizes";

nlohmann::json run_json(const RunArgs& args, const NamedTensors& outputs, const std::vector<NodeTiming>& timings, const Trial& drawn) {
  nlohmann::json out{{"model", args.input}, {"runtime", args.runtime.name()}, {"outputs", nlohmann::json::array()}};
  for (const auto& [name, tensor] : outputs)
    out["outputs"].push_back({{"name", name}, {"type", dtype_name(tensor.dtype())}, {"shape", tensor.dims()}});
  if (args.random) out["random"] = {{"seed", args.seed}, {"size_1", drawn.ones}, {"by_trial", drawn.taken}};
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
  Made made;
  const absl::StatusOr<TryRun> run = open_model(args, *runtime, *model, made);
  if (!run.ok()) return fail(run.status(), args.input, *runtime ? "" : kElsewhereAdvice);
  Trial drawn;
  absl::Status status;
  if (args.random) {
    absl::StatusOr<Trial> tried = inputs_for(*model, "", args.shapes, args.seed, *run);
    status = tried.status();
    if (is_wrong_usage(status)) return fail(status, "", "give sizes by --dim or --input-shapes, or inputs by --inputs");
    if (tried.ok()) drawn = *std::move(tried);
  } else {
    absl::StatusOr<Inputs> given = args.inputs.empty() ? Inputs() : load_inputs(args.inputs, *model, run_limits(args.bounds).memory);
    if (!given.ok()) return fail(given.status(), "", "");
    status = (*run)(*given);
  }
  if (!status.ok()) {
    const bool none_given = absl::IsInvalidArgument(status) && args.inputs.empty();
    return fail(status, args.input, none_given ? kInputsAdvice : run_advice(status));
  }
  NamedTensors flat;
  for (std::size_t i = 0; i < made.outputs.size(); ++i) flatten(model->graph.outputs[i].name, made.outputs[i], flat);
  if (!args.output.empty())
    if (const absl::Status status = save_npz(flat, args.output); !status.ok()) return fail(status, args.output, "");
  if (args.common.json) print_json(run_json(args, flat, made.timings, drawn));
  if (args.common.json || args.common.quiet()) return kExitOk;
  std::vector<std::vector<std::string>> rows{{"output", "type", "shape"}};
  for (const auto& [name, tensor] : flat)
    rows.push_back({name, dtype_name(tensor.dtype()), fmt::format("[{}]", fmt::join(tensor.dims(), ", "))});
  print_text(format_table(rows, 3));
  if (const std::string said = said_of(drawn); !said.empty()) print_text(fmt::format("note: {}\n", said));
  if (args.profile) print_text("\n" + profile_table(operator_times(made.timings)));
  return kExitOk;
}

}  // namespace saturate
