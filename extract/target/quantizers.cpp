#include "extract/target/quantizers.h"

#include "egraph/text/read_json.h"
#include "extract/runtimes/builtin.h"

namespace saturate {

std::vector<KnownOperators> known_to_quantizers() {
  std::vector<KnownOperators> out;
  const nlohmann::json table = *read_json(kQuantizers);
  for (const auto& [name, operators] : table.at("quantizers").items()) {
    KnownOperators& known = out.emplace_back();
    for (const auto& op : operators) known.insert(op.get<std::string>());
  }
  return out;
}

void leave_to_quantizers(Target& target) {
  target.for_quantizers = true;
  target.fuses_at_load = false;
  target.load_time_fusions.clear();
  target.quantizes_weights = {};
}

}  // namespace saturate
