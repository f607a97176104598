#pragma once

#include <string>
#include <vector>

namespace saturate {

struct RowsFile {
  std::string text, name;
};

// The C++ header with the table of measured times that the library brings along: the lines of the first file, and of the others what it has
// no row of (extract/fit/lent_rows.h), fitted; `constant` is its name there. False with `error` where a line cannot be read.
bool fit_source(const std::vector<RowsFile>& files, const std::string& constant, std::string& source, std::string& error);

}  // namespace saturate
