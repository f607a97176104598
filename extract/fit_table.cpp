// fit_table ROWS.jsonl OUT.h: the table of measured times that the library brings along, fitted when it is built.
#include <fstream>
#include <iostream>

#include "extract/measured.h"
#include "fmt/format.h"

namespace {

constexpr std::size_t kLiteral = 16000;  // a string literal is at most 64 KB on some compilers

std::string header(const std::string& text) {
  std::string out = "#pragma once\n#include <string_view>\nnamespace saturate {\ninline constexpr char kMeasuredOrtCpuText[] =\n";
  for (std::size_t at = 0; at < text.size(); at += kLiteral) out += fmt::format("    R\"times({})times\"\n", text.substr(at, kLiteral));
  return out + ";\ninline constexpr std::string_view kMeasuredOrtCpu{kMeasuredOrtCpuText, sizeof kMeasuredOrtCpuText - 1};\n}\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "fit_table ROWS.jsonl OUT.h\n";
    return 2;
  }
  std::ifstream in(argv[1]);
  const auto table = saturate::MeasuredTable::parse(std::string(std::istreambuf_iterator<char>(in), {}), argv[1]);
  if (!table.ok()) {
    std::cerr << table.status().message() << "\n";
    return 1;
  }
  std::ofstream out(argv[2]);
  out << header(table->to_fitted());
  return out.flush() ? 0 : 1;
}
