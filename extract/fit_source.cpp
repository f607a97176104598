#include "extract/fit_source.h"

#include "extract/measured.h"
#include "fmt/format.h"

namespace saturate {

bool fit_source(const std::string& rows, const std::string& name, std::string& source, std::string& error) {
  constexpr std::size_t kLiteral = 16000;  // a string literal is at most 64 KB on some compilers
  const auto table = MeasuredTable::parse(rows, name);
  if (!table.ok()) {
    error = std::string(table.status().message());
    return false;
  }
  const std::string text = table->to_fitted();
  source = "#pragma once\n#include <string_view>\nnamespace saturate {\ninline constexpr char kMeasuredOrtCpuText[] =\n";
  for (std::size_t at = 0; at < text.size(); at += kLiteral) source += fmt::format("    R\"times({})times\"\n", text.substr(at, kLiteral));
  source += ";\ninline constexpr std::string_view kMeasuredOrtCpu{kMeasuredOrtCpuText, sizeof kMeasuredOrtCpuText - 1};\n}\n";
  return true;
}

}  // namespace saturate
