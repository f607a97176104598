#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/io/terminal.h"
#include "tools/page/page.h"
#include "tools/prove/prove.h"

namespace saturate {
namespace {

absl::Status write_proof_page(const ProveArgs& args, const Model (&models)[2], const Setup& setup, const ProveOptions& options,
                              const ModelProof& proof) {
  if (args.page.html.empty()) return absl::OkStatus();
  Page page("prove", format_proof(proof, args.first, args.second, false), args.page.command);
  DiffOptions compared;
  compared.run = options.run;
  compared.run.judges.clear();
  compared.setup = &setup;
  compared.knows_nodes = true;
  if (const auto diff = diff_models(models[0], models[1], compared); diff.ok())
    page.add_models(models[0], models[1], args.first, args.second, *diff, setup.rules);
  std::vector<std::vector<std::string>> outputs, laws;
  for (const ModelProof::Output& o : proof.outputs) outputs.push_back({o.name, o.partner, o.proven ? "proven equal" : "open"});
  for (const UsedLaw& law : proof.laws)
    laws.push_back(
        {law.rule, fmt::format("{}", law.times), std::string(to_string(law.effect)), fmt::format("{}", fmt::join(law.assumes, ", "))});
  page.add_table("Outputs", "", {"output", "of the second model", ""}, outputs);
  page.add_table("Laws", "Laws that the proof uses, the most used first.", {"law", "times", "effect", "assumes"}, laws);
  if (proof.numbers) page.add_verification(*proof.numbers);
  return write_file(args.page.html, page.text());
}

}  // namespace

int prove_command(const ProveArgs& args) {
  const absl::Status page = check_page(args.page.html, {{"the first model", args.first}, {"the second model", args.second}});
  if (!page.ok()) return fail(page, "", "");
  Model models[2];
  if (const auto status = load_two(args.first, args.second, models)) return *status;
  absl::StatusOr<Setup> setup = set_up(args.saturate, {}, args.check.onnxruntime);
  if (!setup.ok()) return fail(setup.status(), "", "");
  ProveOptions options;
  options.limits = args.saturate.limits;
  options.limits.threads = args.common.threads;
  options.limits.cancel = args.common.cancel;
  options.compares_numbers = args.compares_numbers;
  absl::StatusOr<VerifyOptions> run = verify_options(args.check, args.shapes, args.common, models[0]);
  if (!run.ok()) return fail(run.status(), "", "");
  options.run = *std::move(run);
  const absl::StatusOr<ModelProof> proof = prove(models[0], models[1], *setup, options);
  if (args.common.cancel && *args.common.cancel) return fail(kExitInterrupted, "", "interrupted", "");
  if (!proof.ok()) return fail(kExitFile, args.first + ", " + args.second, std::string(proof.status().message()), "");
  if (const absl::Status s = write_proof_page(args, models, *setup, options, *proof); !s.ok()) return fail(s, args.page.html, "");
  if (args.common.json)
    print_json(to_json(*proof));
  else if (!args.common.quiet())
    print_text(format_proof(*proof, args.first, args.second, args.common.verbosity > 0));
  switch (proof->verdict) {
    case ModelProof::Verdict::kProven:
      return kExitOk;
    case ModelProof::Verdict::kDifferent:
      return kExitDifferent;
    default:
      return kExitUnsupported;
  }
}

}  // namespace saturate
