#include "extract/json_mistake.h"

#include "nlohmann/json.hpp"

namespace saturate {

std::string json_mistake(const std::string& text) {
  try {
    const auto parsed = nlohmann::json::parse(text, nullptr, true, true);
    return parsed.is_discarded() ? "it can't be read" : "";
  } catch (const nlohmann::json::parse_error& error) {  // "[json.exception.parse_error.101] parse error at line 2, column 15: ..."
    const std::string said = error.what();
    const std::size_t line = said.find("line ");
    return line == std::string::npos ? said : said.substr(line);
  }
}

}  // namespace saturate
