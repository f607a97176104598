#pragma once

#include <string>

namespace saturate {

// The C++ header with the table of measured times that the library brings along: `rows` are the lines of the file `name`, fitted;
// `constant` is its name there. False with `error` where a line cannot be read.
bool fit_source(const std::string& rows, const std::string& name, const std::string& constant, std::string& source, std::string& error);

}  // namespace saturate
