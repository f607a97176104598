#include "extract/price/fit_source.h"

#include "extract/price/measured.h"
#include "onnx_bridge/file/byte_literal.h"

namespace saturate {

bool fit_source(const std::string& rows, const std::string& name, const std::string& constant, std::string& source, std::string& error) {
  const auto table = MeasuredTable::parse(rows, name);
  if (!table.ok()) {
    error = std::string(table.status().message());
    return false;
  }
  source = "#pragma once\n#include <string_view>\nnamespace saturate {\ninline constexpr char " + constant +
           "Bytes[] =" + byte_literal(table->to_fitted()) + ";\ninline constexpr std::string_view " + constant + "{" + constant +
           "Bytes, sizeof " + constant + "Bytes - 1};\n}\n";
  return true;
}

}  // namespace saturate
