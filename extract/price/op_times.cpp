#include "extract/price/op_times.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "egraph/text/read_json.h"
#include "extract/costs/ort-cpu-avx2.h"
#include "extract/costs/ort-cpu.h"
#include "extract/fit/fitted.h"
#include "extract/fit/measured.h"
#include "extract/price/calibrated.h"
#include "extract/price/npu_times.h"
#include "extract/sizes/blocks.h"
#include "extract/target/target.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {
namespace {

constexpr double kStoreBandwidth = 1e12;  // of a new constant: loading it once is not part of a run
constexpr double kStandardFirst = 1e-10, kSecondsPerAttribute = 1e-12;

// What an operator costs beside its kernel in a model whose weights pass through the cache between two of them; rows are timed in a warm
// cache. Of forms whose kernels take as long within the error of rows, it decides for the one of fewer operators.
constexpr double kDispatch = 1.2e-6;
// Of the rows that others predict (`saturate cost eval --folds 10`: 15.5 % on average, half of them below 6 %).
constexpr double kErrorOfRows = 0.12;

// An operator in the standard's domain that the standard lacks fails ONNX's checker: only where nothing near is to be had.
constexpr double kNotStandardFactor = 1.5;

class RooflineTimes : public OpTimes {
 public:
  explicit RooflineTimes(Roofline roofline, std::optional<MeasuredOn> on = std::nullopt)
      : roofline_(std::move(roofline)), on_(std::move(on)) {}
  std::optional<MeasuredOn> measured_on() const override { return on_; }
  double launch() const override { return roofline_.launch; }
  double seconds(const OpUse& use) const override {
    OpSizes s = sizes_of(use);
    s.flops *= per_element(use.op);
    return roofline_.seconds(s) * (1 + penalty(use.op));
  }

 private:
  static double per_element(std::string_view op) {
    for (std::string_view v : {"Erf", "Tanh", "Sigmoid", "Exp", "Log", "Pow", "Gelu", "com.microsoft::Gelu", "com.microsoft::FastGelu",
                               "com.microsoft::BiasGelu", "com.microsoft::QuickGelu", "Softmax", "Sin", "Cos", "Sqrt", "Div"})
      if (op == v) return 12;
    return 2;
  }
  // SkipLayerNormalization takes 5 to 7 times as long as Add + LayerNormalization in ONNX Runtime's CPU provider (measured,
  // version 1.31).
  static double penalty(std::string_view op) {
    if (op == "com.microsoft::SkipLayerNormalization" || op == "com.microsoft::EmbedLayerNormalization") return 8;
    return op == "com.microsoft::SkipSimplifiedLayerNormalization" ? 2 : 0;
  }
  Roofline roofline_;
  std::optional<MeasuredOn> on_;
};

// A MeasuredTable or FittedTimes.
template <typename Table>
class TableTimes : public OpTimes {
 public:
  explicit TableTimes(Table table) : table_(std::move(table)) {}
  double launch() const override { return table_.roofline().launch; }
  double seconds(const OpUse& use) const override { return table_.seconds(use); }
  bool of_blocks() const override { return std::is_same_v<Table, MeasuredTable>; }
  std::optional<MeasuredOn> measured_on() const override {
    return saturate::measured_on(read_json(table_.machine()).value_or(nlohmann::json()));
  }

 private:
  Table table_;
};

class TimesCost : public CostModel {
 public:
  TimesCost(std::string name, std::shared_ptr<const OpTimes> times, CostOptions options)
      : name_(std::move(name)), times_(std::move(times)), options_(std::move(options)) {}
  std::string name() const override { return name_; }
  std::string unit() const override { return times_->in_seconds() ? "s" : ""; }

  std::unique_ptr<CostModel> for_graph(const OnnxEGraph& g, const std::map<std::string, std::int64_t>& usual) const override {
    auto own = std::make_unique<TimesCost>(name_, times_, with_all_symbols(options_, g, usual));
    own->memo_ = std::make_unique<Memo>();
    return own;
  }

  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const OpKey& key = g.key(node.op);
    const double tie_break = tie_break_of(is_standard(key), key.attributes.size());
    const double unchecked = key.domain.empty() && !is_standard(key) ? kNotStandardFactor : 1;
    return unchecked * (seconds(g, node, id) + times_->dispatch()) + tie_break + cost_of_layout(g, node, id);
  }

  double cost_as(const OnnxEGraph& g, const OtherOperator& op, std::span<const Id> inputs, Id output) const override {
    const double tie_break = tie_break_of(op.name.find("::") == std::string::npos, op.attributes.size());
    return times_->seconds(use_of(g, op, inputs, output, options_)) + times_->dispatch() + tie_break;
  }

  // What lies in blocks of channels and is seen along one axis of places, or read by an operator that knows no blocks, is laid out anew,
  // and was laid out in blocks before or is again: the runtime moves each element twice.
  double cost_of_layout(const OnnxEGraph& g, const ENode& node, Id id) const override {
    if (!times_->of_blocks() || !leaves_blocks(g, node, id)) return 0;
    return 2 * cost_as(g, {"Transpose", {Attribute::of("perm", std::vector<std::int64_t>{0, 2, 1})}}, std::array{id}, id);
  }

  double constant_cost(std::size_t bytes) const override { return static_cast<double>(bytes) / kStoreBandwidth; }
  std::optional<MeasuredOn> measured_on() const override { return times_->measured_on(); }
  double cost_of_reorder(const OnnxEGraph& g, Id value, bool into_blocks) const override {
    if (!times_->of_blocks()) return 0;
    return times_->seconds(use_of(g, {into_blocks ? "ReorderInput" : "ReorderOutput", {}}, std::array{value}, value, options_));
  }
  double relative_error() const override { return times_->in_seconds() ? times_->relative_error() : 0; }

 private:
  static double tie_break_of(bool standard, std::size_t attributes) {
    return (standard ? 0 : kStandardFirst) + kSecondsPerAttribute * static_cast<double>(std::min<std::size_t>(attributes, 50));
  }
  // Layers repeat: the same operator on the same shapes is looked up once.
  double seconds(const OnnxEGraph& g, const ENode& node, Id id) const {
    const OpUse use = use_of(g, node, id, options_);
    if (!memo_) return times_->seconds(use);
    std::string key;
    const auto put = [&key](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
    put(node.op), put(use.element_bytes);
    for (const auto* side : {&use.inputs, &use.outputs})
      for (const Sizes1D& shape : *side) {
        put(shape.size());
        for (const double d : shape) put(d);
      }
    key.append(use.constant.begin(), use.constant.end());
    const std::lock_guard lock(memo_->mutex);
    const auto [it, fresh] = memo_->seconds.try_emplace(std::move(key), 0);
    if (fresh) it->second = times_->seconds(use);
    return it->second;
  }

  struct Memo {
    std::mutex mutex;
    absl::flat_hash_map<std::string, double> seconds;
  };
  std::unique_ptr<Memo> memo_;  // of one e-graph
  std::string name_;
  std::shared_ptr<const OpTimes> times_;
  CostOptions options_;
};

// The tables of ONNX Runtime's times that the library brings along; the first is the default.
struct Shipped {
  std::string_view name, bytes;
};
constexpr Shipped kShipped[] = {{"measured", kMeasuredOrtCpu}, {"measured-avx2", kMeasuredOrtCpuAvx2}};

absl::StatusOr<std::shared_ptr<const OpTimes>> measured(absl::StatusOr<MeasuredTable> table) {
  if (!table.ok()) return table.status();
  return std::make_shared<TableTimes<MeasuredTable>>(*std::move(table));
}

}  // namespace

std::vector<std::string> measured_tables() {
  std::vector<std::string> out;
  for (const Shipped& table : kShipped) out.emplace_back(table.name);
  return out;
}

std::string fitting_table(const Machine& machine) {
  for (const Shipped& table : kShipped) {
    const auto read = MeasuredTable::parse_fitted(table.bytes, std::string(table.name));
    const auto on = read.ok() ? measured_on(read_json(read->machine()).value_or(nlohmann::json())) : std::nullopt;
    if (on && !on->machine.extensions.empty() && !machine.extensions.empty() && !is_another(on->machine, machine))
      return std::string(table.name);
  }
  return "";
}

double OpTimes::dispatch() const { return kDispatch; }
double OpTimes::relative_error() const { return kErrorOfRows; }

absl::StatusOr<std::shared_ptr<const OpTimes>> load_op_times(const std::string& name) {
  if (name == "roofline") return std::make_shared<RooflineTimes>(Roofline{});
  for (const Shipped& table : kShipped)
    if (name == table.name) return measured(MeasuredTable::parse_fitted(table.bytes, name));
  if (!name.ends_with(".jsonl") && !name.ends_with(".json")) return nullptr;
  const absl::StatusOr<std::string> read = read_data_file(name);
  if (absl::IsNotFound(read.status()))
    return no_name_or_file(name, fmt::format("{}: no such cost model or file; {}", name, what_instead(name, builtin_cost_models())));
  if (!read.ok()) return read.status();
  const std::string& text = *read;
  if (name.ends_with(".jsonl")) {
    const auto head = measured_on(read_json(text.substr(0, text.find('\n'))).value_or(nlohmann::json()));
    if (head && !head->fitted.empty()) return load_calibrated(text, name);
    return measured(MeasuredTable::parse(text, name));
  }
  const auto json = read_json(text).value_or(nlohmann::json());
  if (json.is_object() && json.contains("npu")) {
    auto npu = NpuTimes::parse(text, name);
    if (!npu.ok()) return npu.status();
    return std::make_shared<NpuTimes>(*std::move(npu));
  }
  if (!json.is_object() || !json.contains("roofline")) return nullptr;  // a table
  if (json.contains("fitted")) {
    auto fitted = FittedTimes::parse(text, name);
    if (!fitted.ok()) return fitted.status();
    return std::make_shared<TableTimes<FittedTimes>>(*std::move(fitted));
  }
  auto roofline = Roofline::parse(json["roofline"].dump());
  if (!roofline.ok()) return absl::InvalidArgumentError(fmt::format("{}: {}", name, std::string(roofline.status().message())));
  return std::make_shared<RooflineTimes>(*std::move(roofline), measured_on(json));
}

std::unique_ptr<CostModel> make_times_cost(std::string name, std::shared_ptr<const OpTimes> times, CostOptions options) {
  return std::make_unique<TimesCost>(std::move(name), std::move(times), std::move(options));
}

}  // namespace saturate
