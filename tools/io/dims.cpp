#include "tools/io/dims.h"

#include "fmt/format.h"

namespace saturate {

std::string dim_text(const DimSpec& dim) {
  if (const auto* number = std::get_if<std::int64_t>(&dim)) return fmt::format("{}", *number);
  if (const auto* name = std::get_if<std::string>(&dim)) return *name;
  return "?";
}

nlohmann::json dims_json(const std::vector<DimSpec>& declared) {
  nlohmann::json out = nlohmann::json::array();
  for (const DimSpec& dim : declared) {
    const auto* number = std::get_if<std::int64_t>(&dim);
    const auto* name = std::get_if<std::string>(&dim);
    out.push_back(number ? nlohmann::json(*number) : name ? nlohmann::json(*name) : nlohmann::json(nullptr));
  }
  return out;
}

}  // namespace saturate
