#include "extract/fit/fit_source.h"

#include <utility>

#include "extract/fit/lent_rows.h"
#include "extract/fit/measured.h"
#include "extract/sizes/op_sizes.h"
#include "onnx_bridge/file/byte_literal.h"

namespace saturate {

bool fit_source(const std::vector<RowsFile>& files, const std::string& constant, std::string& source, std::string& error) {
  TimedRows rows;
  for (const RowsFile& file : files) {
    auto read = read_timed_rows(file.text, file.name);
    if (!read.ok()) {
      error = std::string(read.status().message());
      return false;
    }
    rows = rows.rows.empty() ? *std::move(read) : with_lent(std::move(rows), *read);
  }
  const MeasuredTable table(std::move(rows));
  source = "#pragma once\n#include <string_view>\nnamespace saturate {\ninline constexpr char " + constant +
           "Bytes[] =" + byte_literal(table.to_fitted()) + ";\ninline constexpr std::string_view " + constant + "{" + constant +
           "Bytes, sizeof " + constant + "Bytes - 1};\n}\n";
  return true;
}

}  // namespace saturate
