// fit_table OUT.h CONSTANT ROWS.jsonl [OTHER.jsonl ...]: a table of measured times that the library brings along, fitted when it is built.
// Operators without a row have those of the other files.
// Little is included here: saturate waits for this program when it is built.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "extract/fit/fit_source.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "fit_table OUT.h CONSTANT ROWS.jsonl [OTHER.jsonl ...]\n";
    return 2;
  }
  std::vector<saturate::RowsFile> files;
  for (int i = 3; i < argc; ++i) {
    std::ifstream in(argv[i]);
    files.push_back({std::string(std::istreambuf_iterator<char>(in), {}), argv[i]});
  }
  std::string source, error;
  if (!saturate::fit_source(files, argv[2], source, error)) {
    std::cerr << error << "\n";
    return 1;
  }
  std::ofstream out(argv[1]);
  out << source;
  return out.flush() ? 0 : 1;
}
