#include "extract/fit/fitted.h"

#include <cmath>

#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr std::size_t kFewestRows = 3;
constexpr double kDefaultCache = 1 << 20;

}  // namespace

FittedTimes FittedTimes::fit(const std::vector<TimedUse>& rows, std::string machine) {
  FittedTimes out;
  out.machine_ = std::move(machine);
  out.roofline_ = fit_roofline(rows);
  if (out.roofline_.cache_bytes <= 0) out.roofline_.cache_bytes = kDefaultCache;
  std::map<std::string, std::vector<std::pair<OpSizes, double>>> by_key;
  std::vector<double> ratios;
  for (const TimedUse& row : rows) {
    const OpSizes s = sizes_of(row.use);
    by_key[s.key].emplace_back(s, row.seconds);
    ratios.push_back(row.seconds / out.roofline_.seconds(s));
  }
  for (const auto& [key, some] : by_key)
    if (some.size() >= kFewestRows) out.weights_[key] = fit_time_weights(some, out.roofline_.cache_bytes);
  out.usual_ratio_ = median(std::move(ratios), 1);
  return out;
}

double FittedTimes::seconds(const OpUse& use) const {
  const OpSizes s = sizes_of(use);
  const auto it = find_kind(weights_, s.key);
  if (it == weights_.end()) return roofline_.seconds(s) * (is_view(s.key) ? 1 : usual_ratio_);
  return weighted_seconds(it->second, s, roofline_.cache_bytes);
}

std::string FittedTimes::to_json() const {
  nlohmann::ordered_json out;
  if (!machine_.empty()) out = read_json<nlohmann::ordered_json>(machine_).value_or(nlohmann::ordered_json());
  if (!out.is_object()) out = nlohmann::ordered_json::object();
  out["roofline"] = *read_json<nlohmann::ordered_json>(roofline_.to_json());
  out["fitted"] = {{"usual_ratio", usual_ratio_}, {"operators", nlohmann::ordered_json::object()}};
  for (const auto& [key, w] : weights_) out["fitted"]["operators"][key] = w;
  return out.dump(1) + "\n";
}

absl::StatusOr<FittedTimes> FittedTimes::parse(const std::string& text, const std::string& place) {
  FittedTimes out;
  nlohmann::json machine = nlohmann::json::object();
  try {
    const auto file = read_json(text);
    if (!file.ok()) return absl::InvalidArgumentError(fmt::format("{}: {}", place, std::string(file.status().message())));
    const nlohmann::json& json = *file;
    for (const char* key : {"machine", "runtime", "threads", "date"})
      if (json.contains(key)) machine[key] = json[key];
    out.machine_ = machine.dump();
    auto roofline = Roofline::parse(json.at("roofline").dump());
    if (!roofline.ok()) return absl::InvalidArgumentError(fmt::format("{}: {}", place, std::string(roofline.status().message())));
    out.roofline_ = *roofline;
    out.usual_ratio_ = json.at("fitted").value("usual_ratio", 1.0);
    for (const auto& [key, w] : json.at("fitted").at("operators").items()) {
      out.weights_[key] = w.get<TimeWeights>();
      for (const double v : out.weights_[key])
        if (!(v >= 0) || !std::isfinite(v))
          return absl::InvalidArgumentError(fmt::format("{}: a weight of {} is not a number >= 0", place, key));
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("{}: not what `saturate cost fit` writes ({})", place, error.what()));
  }
  return out;
}

}  // namespace saturate
