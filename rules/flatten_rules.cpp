// flatten_rules OUT.cpp: reads and checks the built-in rule files, when saturate is built, and writes what came of them as bytes.
#include <fmt/format.h>

#include <fstream>
#include <iostream>

#include "rules/flat.h"
#include "rules/rule_set.h"

namespace {

std::string source(std::string_view bytes) {
  std::string out = "#include \"rules/rule_set.h\"\n\nnamespace saturate {\nnamespace {\n\nconstexpr char kFlatRules[] =";
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at % 1000 == 0) out += at == 0 ? "\n    \"" : "\"\n    \"";
    out += fmt::format("\\{:03o}", static_cast<unsigned char>(bytes[at]));
  }
  return out + "\";\n\n}  // namespace\n\nstd::string_view flat_rules() { return {kFlatRules, sizeof kFlatRules - 1}; }\n\n}  // namespace saturate\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "flatten_rules OUT.cpp\n";
    return 2;
  }
  saturate::RuleSet set;
  for (const saturate::EmbeddedRules& file : saturate::embedded_rules())
    if (const auto status = set.load_text(file.text, std::string(file.name)); !status.ok()) {
      std::cerr << status.message() << "\n";
      return 1;
    }
  std::ofstream out(argv[1]);
  out << source(saturate::flatten(set.rules()));
  return out.flush() ? 0 : 1;
}
