#include "tools/io/dims.h"

#include "fmt/format.h"

namespace saturate {

std::set<std::string> symbols_of(const Graph& graph) {
  std::set<std::string> names;
  for (const auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (const ValueInfo& info : *infos)
      if (info.type.shape)
        for (const DimSpec& dim : *info.type.shape)
          if (const auto* name = std::get_if<std::string>(&dim)) names.insert(*name);
  return names;
}

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
