#include "rules/compile/flat_source.h"

#include "onnx_bridge/file/byte_literal.h"
#include "rules/compile/rule_set.h"
#include "rules/stored/flat.h"

namespace saturate {

bool flat_source(std::string& source, std::string& error) {
  RuleSet set;
  for (const EmbeddedRules& file : embedded_rules())
    if (const auto status = set.load_text(file.text, std::string(file.name)); !status.ok()) {
      error = std::string(status.message());
      return false;
    }
  source =
      "#include <string_view>\n\nnamespace saturate {\n\nstatic constexpr char kFlatRules[] =" + byte_literal(flatten(set.all_stored())) +
      ";\n\nstd::string_view flat_rules() { return {kFlatRules, sizeof kFlatRules - 1}; }\n\n}  // namespace saturate\n";
  return true;
}

}  // namespace saturate
