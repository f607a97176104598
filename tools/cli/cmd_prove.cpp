#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "tools/cli/cli.h"
#include "tools/io/terminal.h"
#include "tools/prove/prove.h"

namespace saturate {

int prove_command(const ProveArgs& args) {
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
