#include <optional>

#include "extract/optimize/settle.h"
#include "nlohmann/json.hpp"
#include "tools/cli/cli.h"
#include "tools/explain/inspect.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/report.h"

namespace saturate {

using nlohmann::json;

int inspect_command(const InspectArgs& args) {
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  const absl::StatusOr<SettledTarget> settled = settle_target(args.target, args.check.onnxruntime);
  if (!settled.ok()) return fail(settled.status(), "", "");
  if (const auto target = load_target(settled->given); !target.ok()) return fail(target.status(), "", "");
  std::optional<AfterLoad> loaded;
  if (args.after_load) {
    const auto runtime = the_onnxruntime(judge_words(args.check), 1, args.common.cancel);
    if (!runtime.ok()) return fail(runtime.status(), "", "");
    absl::StatusOr<AfterLoad> made = after_load(**runtime, *model);
    if (!made.ok()) return fail(made.status(), args.input, "");
    loaded = *std::move(made);
  }
  if (args.common.json) {
    json out = inspect_json(args.input, *model, settled->given);
    if (loaded) out["after_load"] = to_json(*loaded);
    print_json(out);
    return kExitOk;
  }
  if (args.common.quiet()) return kExitOk;
  print_text(inspect_text(args.input, *model, graph_stats(*model)));
  if (const auto quantized = quantization_of(*model, settled->given); quantized.ok() && quantized->any())
    print_text("\n" + format_quantization(*quantized));
  if (loaded) print_text("\n" + after_load_table(graph_stats(*model), *loaded));
  return kExitOk;
}

}  // namespace saturate
