#include <cmath>
#include <cstdio>

#include "fmt/format.h"
#include "kernels/compare/known_operators.h"
#include "kernels/decode/stepping.h"
#include "kernels/verify/choice.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/io/npz.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/page/page.h"
#include "tools/pipeline/report.h"

namespace saturate {
namespace {

std::string within_steps(const OutputComparison& output) {
  const auto steps = static_cast<std::int64_t>(std::ceil(output.steps - 0.02));
  return fmt::format("within {} step{}", steps, steps == 1 ? "" : "s");
}

// Per output: the worst of all cases.
std::string output_table(const VerifyReport& report) {
  std::vector<std::vector<std::string>> rows{{"output", "type", "verdict", "max abs diff", "allowed", "scale"}};
  if (report.cases.empty()) return "";
  for (std::size_t i = 0; i < report.cases[0].outputs.size(); ++i) {
    const OutputComparison* worst = nullptr;
    for (const VerifyCase& c : report.cases)
      if (i < c.outputs.size() && (!worst || !c.outputs[i].ok || (worst->ok && c.outputs[i].max_abs > worst->max_abs)))
        worst = &c.outputs[i];
    const bool in_steps = worst->step > 0;
    const std::string verdict = worst->random ? "random" : !worst->ok ? "DIFFERENT" : in_steps ? within_steps(*worst) : "equal";
    const std::string difference =
        in_steps ? fmt::format("{:.3g} ({:.3g} steps)", worst->max_abs, worst->steps) : fmt::format("{:.3g}", worst->max_abs);
    rows.push_back(
        {worst->name, worst->dtype, verdict, difference, fmt::format("{:.3g}", worst->tolerance), fmt::format("{:.3g}", worst->scale)});
  }
  return format_table(rows, 3);
}

SteppingOptions stepping_options(const VerifyCommandArgs& args, const VerifyOptions& options, const DecoderNames& names) {
  SteppingOptions out;
  out.whole = names;
  out.whole.past = out.whole.present = {};
  out.whole.cache = std::nullopt;
  out.cached = names;
  out.lengths = args.lengths;
  out.windows = args.windows;
  out.rtol = options.tolerances.rtol;
  out.atol = options.tolerances.atol;
  out.seed = options.seed;
  out.threads = options.threads;
  out.seconds = options.seconds;
  out.memory = options.memory;
  out.cancel = options.cancel;
  out.runtime = options.runtime;
  out.judges = options.judges;
  out.no_judge = options.no_judge;
  if (!options.here) take_runtime(out.judges, out.runtime);
  return out;
}

absl::StatusOr<VerifyReport> verify_steps(const VerifyCommandArgs& args, const VerifyOptions& options, const Model (&models)[2]) {
  const absl::StatusOr<DecoderNames> names = decoder_names(args.decoder, args.shapes);
  if (!names.ok()) return names.status();
  SteppingOptions stepping = stepping_options(args, options, *names);
  for (const std::string& path : args.check.inputs) {
    absl::StatusOr<NamedTensors> arrays = load_npz(path, kMostUnpacked, within_memory(path, options.memory));
    if (!arrays.ok()) return arrays.status();
    for (auto& [name, tensor] : *arrays) stepping.arrays.insert_or_assign(name, std::move(tensor));
  }
  const absl::StatusOr<std::vector<Model>> encoders = load_encoders(args.decoder);
  if (!encoders.ok()) return encoders.status();
  for (const Model& encoder : *encoders) stepping.encoders.push_back(&encoder);
  return verify_by_stepping(models[0], models[1], stepping);
}

// The models are shown where they can be read as graphs, which verifying does not ask for.
absl::Status write_verify_page(const VerifyCommandArgs& args, const Model (&models)[2], const VerifyOptions& options,
                               const VerifyReport& report) {
  if (args.page.html.empty()) return absl::OkStatus();
  Page page("verify", output_table(report) + (report.status == VerifyStatus::kEqual ? "equal: " : "NOT EQUAL: ") + summary(report),
            args.page.command);
  DiffOptions compared;
  compared.run = options;
  if (!options.here) take_runtime(compared.run.judges, compared.run.runtime);
  compared.run.judges.clear();
  compared.knows_nodes = true;
  if (!args.stepping)
    if (const auto diff = diff_models(models[0], models[1], compared); diff.ok())
      page.add_models(models[0], models[1], args.original, args.optimized, *diff, RuleSet());
  page.add_verification(report);
  return write_file(args.page.html, page.text());
}

std::vector<NamedPath> inputs_of(const VerifyCommandArgs& args) {
  std::vector<NamedPath> out{{"the original", args.original}, {"the other model", args.optimized}};
  for (const std::string& path : args.check.inputs) out.push_back({"--inputs", path});
  return out;
}

}  // namespace

int verify_command(const VerifyCommandArgs& args) {
  if (const absl::Status status = check_page(args.page.html, inputs_of(args)); !status.ok()) return fail(status, "", "");
  Model models[2];
  if (const auto status = load_two(args.original, args.optimized, models, check_operators)) return *status;
  VerifyArgs check = args.check;
  if (args.stepping) check.inputs.clear();
  absl::StatusOr<VerifyOptions> options = verify_options(check, args.shapes, args.common, models[0]);
  if (!options.ok()) return fail(options.status(), "", "");
  const absl::StatusOr<VerifyReport> done =
      args.stepping ? verify_steps(args, *options, models) : absl::StatusOr<VerifyReport>(verify(models[0], models[1], *options));
  if (!done.ok()) return fail(done.status(), "", "");
  const VerifyReport& report = *done;
  if (report.status == VerifyStatus::kEqual || report.status == VerifyStatus::kDifferent)
    if (const absl::Status status = write_verify_page(args, models, *options, report); !status.ok())
      return fail(status, args.page.html, "");
  if (args.common.json) {
    auto out = to_json(report);
    out["original"] = args.original;
    out["compared"] = args.optimized;
    print_json(out);
  } else if (!args.common.quiet()) {
    print_text(output_table(report));
    for (const std::string& note : report.notes) print_text(fmt::format("note: {}\n", note));
    if (report.status == VerifyStatus::kEqual) print_text(fmt::format("equal: {}\n", summary(report)));
  }
  switch (report.status) {
    case VerifyStatus::kEqual:
      return kExitOk;
    case VerifyStatus::kDifferent:
      return fail(kExitDifferent, args.optimized, report.message, fmt::format("{} was taken for the original", args.original));
    case VerifyStatus::kUnsupported:
      return fail(kExitUnsupported, args.original, report.message, options->runtime ? "" : kElsewhereAdvice);
    case VerifyStatus::kNotRun:
      return fail(options->inputs.empty() ? kExitUnsupported : kExitFile, args.original, report.message,
                  args.stepping             ? ""
                  : options->inputs.empty() ? "give inputs by --inputs"
                                            : "check the inputs");
    case VerifyStatus::kCancelled:
      return fail(kExitInterrupted, "", "interrupted", "");
  }
  return kExitFile;
}

}  // namespace saturate
