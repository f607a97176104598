// Bytes in source code that is written when saturate is built.
#pragma once

#include <string>
#include <string_view>

namespace saturate {

// String literals, one a line, that say these bytes.
inline std::string byte_literal(std::string_view bytes) {
  constexpr std::size_t kOfALine = 1000;
  std::string out = bytes.empty() ? " \"" : "";
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at % kOfALine == 0) out += at == 0 ? "\n    \"" : "\"\n    \"";
    const auto byte = static_cast<unsigned char>(bytes[at]);
    for (const int shift : {6, 3, 0}) {
      if (shift == 6) out += '\\';
      out += static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  return out + "\"";
}

}  // namespace saturate
