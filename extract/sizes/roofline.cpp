#include <algorithm>
#include <cmath>

#include "egraph/text/read_json.h"
#include "extract/sizes/op_sizes.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr double kOverLaunch = 8;   // a rate counts where the launch cost is a small part of the time
constexpr double kBeyondCache = 4;  // sizes of the cache from which on a tensor surely lies in memory

}  // namespace

double Roofline::seconds(const OpSizes& s) const {
  if (is_view(s.key)) return launch;
  const auto peak = flops_of.find(s.dtype);
  const double rate = s.bytes <= cache_bytes && cache_bandwidth > 0 ? cache_bandwidth : bandwidth;
  return launch + std::max(s.flops / (peak == flops_of.end() ? flops : peak->second), s.bytes / rate);
}

// The launch cost is the least time of any row, the peaks are the best rates of all rows.
Roofline fit_roofline(const std::vector<TimedUse>& rows, double cache_bytes) {
  Roofline defaults, fitted;
  fitted.launch = 1;
  fitted.flops = fitted.bandwidth = 0;
  fitted.cache_bytes = cache_bytes;
  for (const TimedUse& row : rows) fitted.launch = std::min(fitted.launch, std::max(row.seconds, kLeastSeconds));
  for (const TimedUse& row : rows) {
    const OpSizes s = sizes_of(row.use);
    if (is_view(s.key) || row.seconds < kOverLaunch * fitted.launch) continue;
    double& peak = fitted.flops_of[s.dtype];
    peak = std::max(peak, s.flops / row.seconds);
    fitted.flops = std::max(fitted.flops, peak);
    const bool cached = cache_bytes > 0 && s.bytes <= cache_bytes;
    double& rate = cached ? fitted.cache_bandwidth : fitted.bandwidth;
    if (cache_bytes <= 0 || cached || s.bytes > kBeyondCache * cache_bytes) rate = std::max(rate, s.bytes / row.seconds);
  }
  std::erase_if(fitted.flops_of, [](const auto& p) { return p.second <= 0; });
  if (fitted.flops <= 0) fitted.flops = defaults.flops;
  if (fitted.bandwidth <= 0) fitted.bandwidth = fitted.cache_bandwidth > 0 ? fitted.cache_bandwidth : defaults.bandwidth;
  return fitted;
}

std::string Roofline::to_json() const {
  nlohmann::ordered_json out{{"launch", launch}, {"flops", flops}, {"bandwidth", bandwidth}};
  if (!flops_of.empty()) out["flops_of"] = flops_of;
  if (cache_bytes > 0) out["cache_bytes"] = cache_bytes;
  if (cache_bandwidth > 0) out["cache_bandwidth"] = cache_bandwidth;
  return out.dump();
}

absl::StatusOr<Roofline> Roofline::parse(const std::string& text) {
  Roofline out;
  try {
    const auto json = read_json(text);
    if (!json.ok()) return absl::InvalidArgumentError(fmt::format("roofline: {}", std::string(json.status().message())));
    for (const auto& [key, value] : json->items()) {
      if (key == "launch")
        out.launch = value.get<double>();
      else if (key == "flops")
        out.flops = value.get<double>();
      else if (key == "bandwidth")
        out.bandwidth = value.get<double>();
      else if (key == "flops_of")
        out.flops_of = value.get<std::map<std::string, double>>();
      else if (key == "cache_bytes")
        out.cache_bytes = value.get<double>();
      else if (key == "cache_bandwidth")
        out.cache_bandwidth = value.get<double>();
      else
        return absl::InvalidArgumentError(
            fmt::format("roofline: unknown key '{}'; known are launch, flops, flops_of, bandwidth, cache_bytes, cache_bandwidth", key));
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("roofline: {}", error.what()));
  }
  bool sound = out.launch >= 0 && out.flops > 0 && out.bandwidth > 0 && out.cache_bytes >= 0 && out.cache_bandwidth >= 0;
  for (const auto& [dtype, rate] : out.flops_of) sound = sound && rate > 0;
  if (!sound) return absl::InvalidArgumentError("roofline: launch must not be negative, rates must be above 0");
  return out;
}

}  // namespace saturate
