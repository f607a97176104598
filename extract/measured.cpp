#include "extract/measured.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "extract/target.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr std::size_t kNeighbours = 3;
constexpr double kNear = 0.02;            // added to a squared distance in doublings
constexpr double kArityDistance = 2;      // what another number of inputs counts, in doublings
constexpr double kStoreBandwidth = 1e12;  // of a new constant: loading it once is not part of a run
constexpr double kStandardFirst = 1e-10, kPerAttribute = 1e-12, kShapeOperator = 0.25;

// An operator in the standard's domain that the standard lacks fails ONNX's checker: only where nothing near is to be had.
constexpr double kUnchecked = 1.5;

double log2_of(double v) { return std::log2(std::max(v, 1.0)); }

class MeasuredCost : public CostModel {
 public:
  MeasuredCost(std::string name, std::shared_ptr<const MeasuredTable> table, CostOptions options)
      : name_(std::move(name)), table_(std::move(table)), options_(std::move(options)) {}
  std::string name() const override { return name_; }

  std::unique_ptr<CostModel> for_graph(const OnnxEGraph& g, const std::map<std::string, std::int64_t>& usual) const override {
    return std::make_unique<MeasuredCost>(name_, table_, with_all_symbols(options_, g, usual));
  }

  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const OpKey& key = g.key(node.op);
    const double tie =
        (is_standard(key) ? 0 : kStandardFirst) + kPerAttribute * static_cast<double>(std::min<std::size_t>(key.attributes.size(), 50));
    if (g.facts(id).content) return table_->roofline().launch * kShapeOperator + tie;
    const double unchecked = key.domain.empty() && !is_standard(key) ? kUnchecked : 1;
    return unchecked * table_->seconds(use_of(g, node, id, options_)) + tie;
  }

  double cost_as(const OnnxEGraph& g, const std::string& op, std::span<const Id> inputs, Id output) const override {
    return table_->seconds(use_of(g, op, inputs, output, options_));
  }

  double constant_cost(std::size_t bytes) const override { return static_cast<double>(bytes) / kStoreBandwidth; }

 private:
  std::string name_;
  std::shared_ptr<const MeasuredTable> table_;
  CostOptions options_;
};

}  // namespace

absl::StatusOr<MeasuredTable> MeasuredTable::parse(const std::string& text, const std::string& place) {
  MeasuredTable table;
  std::vector<std::pair<OpUse, double>> rows;
  std::istringstream lines(text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("machine")) {
      table.machine_ = row.dump();
      continue;
    }
    try {
      auto use = use_of(row);
      const double seconds = use ? row.at("seconds").get<double>() : -1;
      if (!use || !std::isfinite(seconds) || seconds < 0)
        return absl::InvalidArgumentError(
            fmt::format("{}:{}: not a row of measured times; wanted {{\"op\", \"in\", \"out\", \"seconds\"}}", place, number));
      rows.emplace_back(*std::move(use), seconds);
    } catch (const nlohmann::json::exception& error) {
      return absl::InvalidArgumentError(fmt::format("{}:{}: {}", place, number, error.what()));
    }
  }
  if (rows.empty()) return absl::InvalidArgumentError(fmt::format("{}: no measured times; `saturate cost gather` makes some", place));
  table.fit_roofline(rows);
  table.num_rows_ = rows.size();
  for (const auto& [use, seconds] : rows) {
    const OpSizes s = sizes_of(use);
    if (is_view(s.key)) continue;  // timed as copies where the input must stay
    table.points_[s.key].push_back(
        {log2_of(s.flops), log2_of(s.bytes), log2_of(s.last), std::log(std::max(seconds, 1e-9) / table.roofline_.seconds(s)), s.arity});
  }
  std::vector<double> ratios;
  for (const auto& [key, points] : table.points_)
    for (const Point& p : points) ratios.push_back(p.log_ratio);
  if (!ratios.empty()) {
    std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
    table.usual_ratio_ = std::exp(ratios[ratios.size() / 2]);
  }
  return table;
}

// The launch cost is the least time of any row, the peaks are the best rates of all rows.
void MeasuredTable::fit_roofline(const std::vector<std::pair<OpUse, double>>& rows) {
  Roofline fitted{1, 0, 0};
  for (const auto& [use, seconds] : rows) fitted.launch = std::min(fitted.launch, std::max(seconds, 1e-8));
  for (const auto& [use, seconds] : rows) {
    const OpSizes s = sizes_of(use);
    if (is_view(s.key) || seconds < 8 * fitted.launch) continue;
    fitted.flops = std::max(fitted.flops, s.flops / seconds);
    fitted.bandwidth = std::max(fitted.bandwidth, s.bytes / seconds);
  }
  if (fitted.flops > 0) roofline_.flops = fitted.flops;
  if (fitted.bandwidth > 0) roofline_.bandwidth = fitted.bandwidth;
  roofline_.launch = fitted.launch;
}

double MeasuredTable::seconds(const OpUse& use, bool* estimated) const {
  const OpSizes s = sizes_of(use);
  auto it = points_.find(s.key);
  if (constexpr std::string_view kFused = "com.microsoft::Fused"; it == points_.end() && s.key.starts_with(kFused))
    it = points_.find(s.key.substr(kFused.size()));  // FusedGemm, FusedConv: the plain one with an activation on its output
  if (estimated) *estimated = it == points_.end();
  if (it == points_.end()) return roofline_.seconds(s) * (is_view(s.key) ? 1 : usual_ratio_);
  std::vector<std::pair<double, double>> near;  // squared distance, log ratio
  for (const Point& p : it->second) {
    const double a = p.log_flops - log2_of(s.flops), b = p.log_bytes - log2_of(s.bytes), c = p.log_last - log2_of(s.last);
    const double d = p.arity == s.arity ? 0 : kArityDistance;
    near.emplace_back(a * a + b * b + 0.25 * c * c + d * d, p.log_ratio);
  }
  const std::size_t count = std::min(kNeighbours, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  double weights = 0, sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double w = 1 / (near[i].first + kNear);
    weights += w;
    sum += w * near[i].second;
  }
  return roofline_.seconds(s) * std::exp(sum / weights);
}

std::unique_ptr<CostModel> make_measured_cost(std::string name, std::shared_ptr<const MeasuredTable> table, CostOptions options) {
  return std::make_unique<MeasuredCost>(std::move(name), std::move(table), std::move(options));
}

}  // namespace saturate
