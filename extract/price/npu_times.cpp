#include "extract/price/npu_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr double kViewLaunch = 0.01;  // of a launch: compilers drop most operators that only give another shape, none is made for nothing

double elements(const Sizes1D& shape) { return std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<>()); }

struct Moved {
  double data = 0, weights = 0;  // bytes
};

Moved bytes_moved(const OpUse& use, const NpuPrecision& stored) {
  const double data = stored.activation_bytes > 0 ? stored.activation_bytes : use.element_bytes;
  const double weight = stored.weight_bytes > 0 ? stored.weight_bytes : use.element_bytes;
  Moved out;
  for (const Sizes1D& o : use.outputs) out.data += data * elements(o);
  for (std::size_t i = 0; i < use.inputs.size(); ++i) {
    const bool is_weight = i < use.constant.size() && use.constant[i];
    const bool table = use.op == "Gather" && i == 0 && !use.outputs.empty();  // of which it reads what it takes
    const double n = table ? elements(use.outputs[0]) : elements(use.inputs[i]);
    (is_weight ? out.weights : out.data) += (is_weight ? weight : data) * n;
  }
  return out;
}

const NpuPrecision& precision_of(const NpuTimes& times) {
  static const NpuPrecision as_the_model;
  const auto it = times.precisions.find(times.precision);
  return it == times.precisions.end() ? as_the_model : it->second;
}

double dot(const TimeWeights& a, const TimeWeights& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

}  // namespace

double NpuTimes::factor() const {
  const auto it = machines.find(machine);
  return (it == machines.end() ? 1 : it->second) * precision_of(*this).factor;
}

TimeWeights NpuTimes::features(const OpUse& use) const {
  const OpSizes s = sizes_of(use);
  if (is_view(s.key)) return {kViewLaunch, 0, 0, 0, 0};
  const Moved moved = bytes_moved(use, precision_of(*this));
  const auto launches = launch_of.find(use.op);
  return {launches == launch_of.end() ? 1 : launches->second, s.flops / 2, moved.data, moved.weights,
          std::max(0.0, moved.data - on_chip_bytes)};
}

double NpuTimes::seconds(const OpUse& use) const { return factor() * dot(prices, features(use)); }

std::string NpuTimes::to_json() const {
  using nlohmann::ordered_json;
  ordered_json out{{"machine", machine}, {"precision", precision}, {"on_chip_bytes", on_chip_bytes}, {"prices", ordered_json::object()}};
  for (std::size_t i = 0; i < prices.size(); ++i) out["prices"][kNpuFeatureNames[i]] = prices[i];
  out["launch_of"] = launch_of;
  out["machines"] = machines;
  out["precisions"] = ordered_json::object();
  for (const auto& [name, p] : precisions)
    out["precisions"][name] = {{"factor", p.factor}, {"activation_bytes", p.activation_bytes}, {"weight_bytes", p.weight_bytes}};
  return ordered_json{{"npu", out}}.dump(1) + "\n";
}

absl::StatusOr<NpuTimes> NpuTimes::parse(const std::string& text, const std::string& place) {
  NpuTimes out;
  const auto bad = [&](const std::string& what) { return absl::InvalidArgumentError(fmt::format("{}: {}", place, what)); };
  try {
    const auto file = read_json(text);
    if (!file.ok()) return bad(std::string(file.status().message()));
    const nlohmann::json& json = file->at("npu");
    for (const auto& [name, price] : json.at("prices").items()) {
      const auto it = std::find(kNpuFeatureNames.begin(), kNpuFeatureNames.end(), name);
      if (it == kNpuFeatureNames.end()) return bad(fmt::format("npu: unknown price '{}'", name));
      out.prices[static_cast<std::size_t>(it - kNpuFeatureNames.begin())] = price.get<double>();
    }
    out.on_chip_bytes = json.value("on_chip_bytes", 0.0);
    out.launch_of = json.value("launch_of", out.launch_of);
    out.machines = json.value("machines", out.machines);
    const auto precisions = json.value("precisions", nlohmann::json::object());
    for (const auto& [name, p] : precisions.items())
      out.precisions[name] = {p.value("factor", 1.0), p.value("activation_bytes", 0.0), p.value("weight_bytes", 0.0)};
    out.machine = json.value("machine", std::string());
    out.precision = json.value("precision", std::string());
  } catch (const nlohmann::json::exception& error) {
    return bad(fmt::format("not what `saturate cost fit --kind npu` writes ({})", error.what()));
  }
  const auto sound = [](double v) { return v >= 0 && std::isfinite(v); };
  bool all = std::all_of(out.prices.begin(), out.prices.end(), sound) && sound(out.on_chip_bytes);
  for (const auto* factors : {&out.launch_of, &out.machines})
    for (const auto& [name, factor] : *factors) all = all && sound(factor);
  for (const auto& [name, p] : out.precisions) all = all && sound(p.factor) && sound(p.activation_bytes) && sound(p.weight_bytes);
  if (!all) return bad("npu: prices, factors and sizes are numbers >= 0");
  if (!out.machine.empty() && !out.machines.contains(out.machine)) return bad(fmt::format("npu: no machine '{}'", out.machine));
  if (!out.precision.empty() && !out.precisions.contains(out.precision)) return bad(fmt::format("npu: no precision '{}'", out.precision));
  return out;
}

}  // namespace saturate
