#include "extract/price/fit_source.h"

#include <utility>

#include "extract/price/lent_rows.h"
#include "extract/price/measured.h"
#include "extract/price/op_sizes.h"
#include "onnx_bridge/file/byte_literal.h"

namespace saturate {

bool fit_source(const RowsFile& own, const std::vector<RowsFile>& others, const std::string& constant, std::string& source,
                std::string& error) {
  auto rows = read_timed_rows(own.text, own.name);
  for (const RowsFile& file : others) {
    if (!rows.ok()) break;
    const auto other = read_timed_rows(file.text, file.name);
    if (other.ok())
      *rows = with_lent(*std::move(rows), *other);
    else
      rows = other.status();
  }
  if (!rows.ok()) {
    error = std::string(rows.status().message());
    return false;
  }
  const MeasuredTable table(*std::move(rows));
  source = "#pragma once\n#include <string_view>\nnamespace saturate {\ninline constexpr char " + constant +
           "Bytes[] =" + byte_literal(table.to_fitted()) + ";\ninline constexpr std::string_view " + constant + "{" + constant +
           "Bytes, sizeof " + constant + "Bytes - 1};\n}\n";
  return true;
}

}  // namespace saturate
