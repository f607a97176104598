// flatten_rules OUT.cpp: reads and checks the built-in rule files, when saturate is built, and writes what came of them as bytes.
// Little is included here: saturate waits for this program when it is built.
#include <fstream>
#include <iostream>
#include <string_view>

#include "rules/compile/flat_source.h"

// The library loads these; here they are still to be made.
namespace saturate {
std::string_view flat_rules() { return {}; }
}  // namespace saturate

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "flatten_rules OUT.cpp\n";
    return 2;
  }
  std::string source, error;
  if (!saturate::flat_source(source, error)) {
    std::cerr << error << "\n";
    return 1;
  }
  std::ofstream out(argv[1]);
  out << source;
  return out.flush() ? 0 : 1;
}
