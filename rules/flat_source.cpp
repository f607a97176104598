#include "rules/flat_source.h"

#include "rules/flat.h"
#include "rules/rule_set.h"

namespace saturate {

bool flat_source(std::string& source, std::string& error) {
  RuleSet set;
  for (const EmbeddedRules& file : embedded_rules())
    if (const auto status = set.load_text(file.text, std::string(file.name)); !status.ok()) {
      error = std::string(status.message());
      return false;
    }
  const std::string bytes = flatten(set.stored());
  source = "#include <string_view>\n\nnamespace saturate {\n\nstatic constexpr char kFlatRules[] =";
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at % 1000 == 0) source += at == 0 ? "\n    \"" : "\"\n    \"";
    const auto byte = static_cast<unsigned char>(bytes[at]);
    for (const int shift : {6, 3, 0}) {
      if (shift == 6) source += '\\';
      source += static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  source += "\";\n\nstd::string_view flat_rules() { return {kFlatRules, sizeof kFlatRules - 1}; }\n\n}  // namespace saturate\n";
  return true;
}

}  // namespace saturate
