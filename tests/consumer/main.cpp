// Optimizes a model by the library, as the command does: consumer IN.onnx OUT.onnx
#include <iostream>

#include "onnx_bridge/io.h"
#include "tools/optimize.h"
#include "tools/verify.h"

int main(int argc, char** argv) {
  using namespace saturate;
  if (argc != 3) return 2;
  const auto model = load_model(argv[1]);
  const auto rules = RuleSet::builtin();
  const auto target = load_target("ort-cpu");
  const auto cost = load_cost_model("nodes");
  if (!model.ok() || !rules.ok() || !target.ok() || !cost.ok()) return 1;
  const auto result = optimize(*model, *rules, *target, **cost, {});
  if (!result.ok()) {
    std::cerr << result.status() << "\n";
    return 1;
  }
  if (verify(*model, result->model).status != VerifyStatus::kEqual) return 3;
  std::cout << result->report.before.nodes << " -> " << result->report.after.nodes << " nodes\n";
  return save_model(result->model, argv[2]).ok() ? 0 : 1;
}
