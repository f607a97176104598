// fit_table ROWS.jsonl OUT.h CONSTANT: a table of measured times that the library brings along, fitted when it is built.
// Little is included here: saturate waits for this program when it is built.
#include <fstream>
#include <iostream>

#include "extract/price/fit_source.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "fit_table ROWS.jsonl OUT.h CONSTANT\n";
    return 2;
  }
  std::ifstream in(argv[1]);
  std::string source, error;
  if (!saturate::fit_source(std::string(std::istreambuf_iterator<char>(in), {}), argv[1], argv[3], source, error)) {
    std::cerr << error << "\n";
    return 1;
  }
  std::ofstream out(argv[2]);
  out << source;
  return out.flush() ? 0 : 1;
}
