#include "extract/fitted.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr std::size_t kFewestRows = 3;
constexpr int kRounds = 2000;
constexpr double kLeastSeconds = 1e-8;
constexpr double kDefaultCache = 1 << 20;

using Features = std::array<double, FittedTimes::kFeatures>;

// In units that make a weight of 1 a time of about a second.
Features features(const OpSizes& s, double cache) {
  if (is_view(s.key)) return {1e-6, 0, 0, 0, 0};
  const double rows = s.last > 0 ? s.outputs / s.last : 0;
  return {1e-6, s.flops * 1e-9, s.bytes * 1e-9, std::max(0.0, s.bytes - cache) * 1e-9, rows * 1e-6};
}

// min |A w - 1|^2, w >= 0, rows of A divided by their measured times.
FittedTimes::Weights solve(const std::vector<Features>& a) {
  constexpr std::size_t n = FittedTimes::kFeatures;
  double gram[n][n] = {}, right[n] = {};
  for (const Features& f : a)
    for (std::size_t i = 0; i < n; ++i) {
      right[i] += f[i];
      for (std::size_t j = 0; j < n; ++j) gram[i][j] += f[i] * f[j];
    }
  FittedTimes::Weights w{};
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < n; ++i) {
      if (gram[i][i] <= 0) continue;
      double r = right[i];
      for (std::size_t j = 0; j < n; ++j)
        if (j != i) r -= gram[i][j] * w[j];
      w[i] = std::max(0.0, r / gram[i][i]);
    }
  return w;
}

}  // namespace

FittedTimes FittedTimes::fit(const std::vector<TimedUse>& rows, std::string machine) {
  FittedTimes out;
  out.machine_ = std::move(machine);
  out.roofline_ = fit_roofline(rows);
  if (out.roofline_.cache_bytes <= 0) out.roofline_.cache_bytes = kDefaultCache;
  std::map<std::string, std::vector<Features>> by_key;
  std::vector<double> ratios;
  for (const TimedUse& row : rows) {
    const OpSizes s = sizes_of(row.use);
    const double seconds = std::max(row.seconds, kLeastSeconds);
    Features f = features(s, out.roofline_.cache_bytes);
    for (double& v : f) v /= seconds;
    by_key[s.key].push_back(f);
    ratios.push_back(seconds / out.roofline_.seconds(s));
  }
  for (const auto& [key, a] : by_key)
    if (a.size() >= kFewestRows) out.weights_[key] = solve(a);
  std::sort(ratios.begin(), ratios.end());
  if (!ratios.empty()) out.usual_ratio_ = ratios[ratios.size() / 2];
  return out;
}

double FittedTimes::seconds(const OpUse& use) const {
  const OpSizes s = sizes_of(use);
  const auto it = find_kind(weights_, s.key);
  if (it == weights_.end()) return roofline_.seconds(s) * (is_view(s.key) ? 1 : usual_ratio_);
  const Features f = features(s, roofline_.cache_bytes);
  double sum = 0;
  for (std::size_t i = 0; i < kFeatures; ++i) sum += it->second[i] * f[i];
  return std::max(sum, kLeastSeconds);
}

std::string FittedTimes::to_json() const {
  nlohmann::ordered_json out;
  if (!machine_.empty()) out = nlohmann::ordered_json::parse(machine_, nullptr, false);
  if (!out.is_object()) out = nlohmann::ordered_json::object();
  out["roofline"] = nlohmann::ordered_json::parse(roofline_.to_json());
  out["fitted"] = {{"usual_ratio", usual_ratio_}, {"operators", nlohmann::ordered_json::object()}};
  for (const auto& [key, w] : weights_) out["fitted"]["operators"][key] = w;
  return out.dump(1) + "\n";
}

absl::StatusOr<FittedTimes> FittedTimes::parse(const std::string& text, const std::string& place) {
  FittedTimes out;
  try {
    const auto json = nlohmann::json::parse(text);
    auto roofline = Roofline::parse(json.at("roofline").dump());
    if (!roofline.ok()) return absl::InvalidArgumentError(fmt::format("{}: {}", place, std::string(roofline.status().message())));
    out.roofline_ = *roofline;
    out.usual_ratio_ = json.at("fitted").value("usual_ratio", 1.0);
    for (const auto& [key, w] : json.at("fitted").at("operators").items()) {
      out.weights_[key] = w.get<Weights>();
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
