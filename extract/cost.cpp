#include "extract/cost.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "extract/builtin_costs.h"
#include "extract/measured.h"
#include "extract/op_sizes.h"
#include "extract/target.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

// Below one operator, above any sum of rounding: the standard's operators first, then fewer attributes.
constexpr double kForeignDomain = 1e-4, kPerAttribute = 1e-6;
constexpr double kIntegers = 1e-5;  // of as many operators, those that move ids instead of the rows they stand for
constexpr double kShapeArithmetic = 0.25;  // what a handful of integers that hold a shape costs, against an operator on tensors
constexpr double kBytesPerNode = 65536;    // a folded constant of so many bytes weighs as much as an operator

double tie_break(const OpKey& key) {
  return (is_standard(key) ? 0 : kForeignDomain) + kPerAttribute * static_cast<double>(std::min<std::size_t>(key.attributes.size(), 50));
}

// Operators of a node, those inside its subgraphs too.
double count_nodes(const OpKey& key);
double count_nodes(const Graph& graph, int depth) {
  double n = 0;
  for (const Node& node : graph.nodes) {
    if (node.op_type != "Constant" && node.op_type != "Identity") n += 1;
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph && depth < 64) n += count_nodes(a.g(), depth + 1);
  }
  return n;
}
double count_nodes(const OpKey& key) {
  double n = 1;
  for (const Attribute& a : key.attributes)
    if (a.type == AttributeType::kGraph) n += count_nodes(a.g(), 0);
  return n;
}

class NodesCost : public CostModel {
 public:
  std::string name() const override { return "nodes"; }
  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const OpKey& key = g.key(node.op);
    const Facts& facts = g.facts(id);
    return count_nodes(key) * (facts.content ? kShapeArithmetic : 1) + tie_break(key) - (is_integer(facts.dtype) ? kIntegers : 0);
  }
  double constant_cost(std::size_t bytes) const override { return static_cast<double>(bytes) / kBytesPerNode; }
};

// Constants of a current desktop core; `--cost measured` has measured ones.
class RooflineCost : public CostModel {
 public:
  explicit RooflineCost(CostOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "roofline"; }

  std::unique_ptr<CostModel> for_graph(const OnnxEGraph& g, const std::map<std::string, std::int64_t>& usual) const override {
    return std::make_unique<RooflineCost>(with_all_symbols(options_, g, usual));
  }

  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const OpKey& key = g.key(node.op);
    OpSizes sizes = sizes_of(use_of(g, node, id, options_));
    sizes.flops *= flops_per_element(key.op_type);
    const double seconds = kLaunch * (count_nodes(key) - 1) + Roofline{kLaunch, kFlops, kBandwidth}.seconds(sizes);
    return seconds * (1 + forced_penalty(key.op_type)) + kLaunch * tie_break(key);
  }
  double constant_cost(std::size_t bytes) const override { return kLaunch * static_cast<double>(bytes) / kBytesPerNode * 0.01; }

 private:
  static constexpr double kLaunch = 2e-6, kFlops = 1e11, kBandwidth = 1e10;

  static double flops_per_element(std::string_view op) {
    for (std::string_view v : {"Erf", "Tanh", "Sigmoid", "Exp", "Log", "Pow", "Gelu", "FastGelu", "BiasGelu", "QuickGelu", "Softmax", "Sin",
                               "Cos", "Sqrt", "Div"})
      if (op == v) return 12;
    return 2;
  }
  // SkipLayerNormalization takes 5 to 7 times as long as Add + LayerNormalization in ONNX Runtime's CPU provider (measured, version 1.31).
  static double forced_penalty(std::string_view op) {
    if (op == "SkipLayerNormalization" || op == "EmbedLayerNormalization") return 8;
    return op == "SkipSimplifiedLayerNormalization" ? 2 : 0;
  }

  CostOptions options_;
};

class TableCost : public CostModel {
 public:
  TableCost(std::string name, std::map<std::string, double> costs, double otherwise)
      : name_(std::move(name)), costs_(std::move(costs)), otherwise_(otherwise) {}
  std::string name() const override { return name_; }
  double cost(const OnnxEGraph& g, const ENode& node, Id) const override {
    const OpKey& key = g.key(node.op);
    auto it = costs_.find(key.domain.empty() ? key.op_type : key.domain + "::" + key.op_type);
    return (it == costs_.end() ? otherwise_ : it->second) + tie_break(key);
  }
  double constant_cost(std::size_t bytes) const override { return otherwise_ * static_cast<double>(bytes) / kBytesPerNode; }

 private:
  std::string name_;
  std::map<std::string, double> costs_;
  double otherwise_;
};

// The weighted mean of a model's costs at several sizes.
class WeightedCost : public CostModel {
 public:
  using Part = std::pair<double, std::unique_ptr<CostModel>>;
  explicit WeightedCost(std::vector<Part> parts) : parts_(std::move(parts)) {
    double sum = 0;
    for (const Part& p : parts_) sum += p.first;
    for (Part& p : parts_) p.first /= sum;
  }
  std::string name() const override { return parts_[0].second->name(); }
  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    return mean([&](const CostModel& m) { return m.cost(g, node, id); });
  }
  double cost_as(const OnnxEGraph& g, const std::string& op, std::span<const Id> inputs, Id output) const override {
    return mean([&](const CostModel& m) { return m.cost_as(g, op, inputs, output); });
  }
  double constant_cost(std::size_t bytes) const override { return parts_[0].second->constant_cost(bytes); }
  std::unique_ptr<CostModel> for_graph(const OnnxEGraph& g, const std::map<std::string, std::int64_t>& usual) const override {
    std::vector<Part> prepared;
    for (const Part& p : parts_) {
      auto m = p.second->for_graph(g, usual);
      if (!m) return nullptr;
      prepared.emplace_back(p.first, std::move(m));
    }
    return std::make_unique<WeightedCost>(std::move(prepared));
  }

 private:
  template <typename Cost>
  double mean(Cost cost) const {
    double sum = 0;
    for (const Part& p : parts_) sum += p.first * cost(*p.second);
    return sum;
  }
  std::vector<Part> parts_;
};

absl::StatusOr<std::unique_ptr<CostModel>> load_table(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(fmt::format("{}: no such cost model or file; built in are nodes, roofline, measured", path));
  const auto json = nlohmann::json::parse(file, nullptr, false, true);
  if (json.is_discarded() || !json.is_object() || !json.contains("costs") || !json["costs"].is_object())
    return absl::InvalidArgumentError(
        fmt::format("{}: not a cost table; wanted {{\"costs\": {{\"Op\": number, \"domain::Op\": number}}, \"default\": number}}", path));
  std::map<std::string, double> costs;
  for (const auto& [op, cost] : json["costs"].items()) {
    if (!cost.is_number() || cost.get<double>() < 0 || !std::isfinite(cost.get<double>()))
      return absl::InvalidArgumentError(fmt::format("{}: the cost of {} is not a number >= 0", path, op));
    costs[op] = cost.get<double>();
  }
  const auto otherwise = json.value("default", nlohmann::json(1.0));
  if (!otherwise.is_number() || otherwise.get<double>() < 0)
    return absl::InvalidArgumentError(fmt::format("{}: \"default\" is not a number >= 0", path));
  return std::make_unique<TableCost>(path, std::move(costs), otherwise.get<double>());
}

absl::StatusOr<std::unique_ptr<CostModel>> load_measured(const std::string& name, const std::string& text, const CostOptions& options) {
  auto table = MeasuredTable::parse(text, name);
  if (!table.ok()) return table.status();
  return make_measured_cost(name, std::make_shared<const MeasuredTable>(*std::move(table)), options);
}

}  // namespace

CostOptions with_all_symbols(CostOptions options, const OnnxEGraph& g, const std::map<std::string, std::int64_t>& usual) {
  for (const auto& [symbol, size] : usual) options.symbols.try_emplace(symbol, size);
  for (const std::string& s : g.dims().symbols()) options.symbols.try_emplace(s, options.default_symbol);
  return options;
}

absl::StatusOr<std::unique_ptr<CostModel>> load_cost_model(const std::string& name_or_path, const CostOptions& options) {
  if (!options.points.empty()) {
    std::vector<WeightedCost::Part> parts;
    for (const CostPoint& point : options.points) {
      CostOptions at = options;
      at.points.clear();
      at.symbols = point.symbols;
      at.symbols.insert(options.symbols.begin(), options.symbols.end());
      auto part = load_cost_model(name_or_path, at);
      if (!part.ok()) return part;
      parts.emplace_back(point.weight, *std::move(part));
    }
    return std::make_unique<WeightedCost>(std::move(parts));
  }
  if (name_or_path == "nodes") return std::make_unique<NodesCost>();
  if (name_or_path == "roofline") return std::make_unique<RooflineCost>(options);
  if (name_or_path == "measured") return load_measured(name_or_path, std::string(kMeasuredOrtCpu), options);
  if (name_or_path.ends_with(".jsonl")) {
    std::ifstream file(name_or_path);
    if (!file) return absl::NotFoundError(fmt::format("{}: no such file of measured times", name_or_path));
    return load_measured(name_or_path, std::string(std::istreambuf_iterator<char>(file), {}), options);
  }
  return load_table(name_or_path);
}

}  // namespace saturate
