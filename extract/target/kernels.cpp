#include "extract/target/kernels.h"

#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "egraph/text/read_json.h"
#include "extract/runtimes/builtin.h"
#include "extract/target/runtime.h"

namespace saturate {
namespace {

struct Kernels {
  std::string oldest;
  std::unordered_map<std::string, std::string> since;
  std::unordered_map<std::string, std::vector<std::pair<std::string, std::set<std::string>>>>
      dtypes;  // by release, oldest first; empty: all
};

Kernels read_kernels() {
  Kernels out;
  const nlohmann::ordered_json table = *read_json<nlohmann::ordered_json>(kKernels);
  out.oldest = table.at("releases").at(0);
  for (const auto& [op, release] : table.at("since").items()) out.since.emplace(op, release);
  for (const auto& [op, known] : table.at("dtypes").items())
    for (const auto& [release, text] : known.items()) {
      std::istringstream words(text.get<std::string>());
      std::set<std::string> types;
      for (std::string type; words >> type;)
        if (type != "any") types.insert(type);
      out.dtypes[op].emplace_back(release, std::move(types));
    }
  return out;
}

const Kernels& kernels() {
  static const Kernels all = read_kernels();
  return all;
}

}  // namespace

bool has_kernel_of(const std::string& op, std::string_view release) {
  const auto it = kernels().since.find(op);
  return it != kernels().since.end() && (release.empty() || it->second.empty() || !is_before(release, it->second));
}

const std::set<std::string>* kernel_dtypes(const std::string& op, std::string_view release) {
  const auto it = kernels().dtypes.find(op);
  if (it == kernels().dtypes.end()) return nullptr;
  const std::set<std::string>* types = nullptr;
  for (const auto& [since, of_release] : it->second)
    if (release.empty() || !is_before(release, since)) types = &of_release;
  return types && types->empty() ? nullptr : types;
}

std::string_view oldest_release_of_kernels() { return kernels().oldest; }

}  // namespace saturate
