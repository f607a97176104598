#pragma once

#include <string>

namespace saturate {

// The built-in rules as bytes (flat.h) in C++; false with what is wrong in one of their files.
bool flat_source(std::string& source, std::string& error);

}  // namespace saturate
