#include "extract/price/cost.h"

#include <algorithm>
#include <cmath>

#include "egraph/text/read_json.h"
#include "extract/price/op_times.h"
#include "extract/price/plugin_cost.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/target.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {
namespace {

// Below one operator, above any sum of rounding: the standard's operators first, then fewer attributes.
constexpr double kForeignDomain = 1e-4, kPerAttribute = 1e-6;
constexpr double kIntegers = 1e-5;         // of as many operators, those that move ids instead of the rows they stand for
constexpr double kShapeArithmetic = 0.25;  // what a handful of integers that hold a shape costs, against an operator on tensors
constexpr double kBytesPerNode = 65536;    // a folded constant of so many bytes weighs as much as an operator

double tie_break(bool standard, std::size_t attributes) {
  return (standard ? 0 : kForeignDomain) + kPerAttribute * static_cast<double>(std::min<std::size_t>(attributes, 50));
}
double tie_break(const OpKey& key) { return tie_break(is_standard(key), key.attributes.size()); }
double tie_break(const OtherOperator& op) { return tie_break(op.name.find("::") == std::string::npos, op.attributes.size()); }

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
  std::string unit() const override { return "operators"; }
  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const OpKey& key = g.key(node.op);
    const Facts& facts = g.facts(id);
    return count_nodes(key) * (facts.content ? kShapeArithmetic : 1) + tie_break(key) - (is_integer(facts.dtype) ? kIntegers : 0);
  }
  double cost_as(const OnnxEGraph& g, const OtherOperator& op, std::span<const Id>, Id output) const override {
    return 1 + tie_break(op) - (is_integer(g.facts(output).dtype) ? kIntegers : 0);
  }
  double constant_cost(std::size_t bytes) const override { return static_cast<double>(bytes) / kBytesPerNode; }
};

// Floating-point operations, or bytes that are read and written: what a machine without limits on the other side would see.
class SizeCost : public CostModel {
 public:
  enum class What : std::uint8_t { kFlops, kBytes };
  SizeCost(What what, CostOptions options) : what_(what), options_(std::move(options)) {}
  std::string name() const override { return what_ == What::kFlops ? "flops" : "bytes"; }
  std::string unit() const override { return what_ == What::kFlops ? "operations" : "bytes"; }
  std::unique_ptr<CostModel> for_graph(const OnnxEGraph& g, const std::map<std::string, std::int64_t>& usual) const override {
    return std::make_unique<SizeCost>(what_, with_all_symbols(options_, g, usual));
  }
  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    return of(use_of(g, node, id, options_)) + count_nodes(g.key(node.op)) +
           tie_break(g.key(node.op));  // of two equal ones the one with fewer operators
  }
  double cost_as(const OnnxEGraph& g, const OtherOperator& op, std::span<const Id> inputs, Id output) const override {
    return of(use_of(g, op, inputs, output, options_)) + 1;
  }
  double constant_cost(std::size_t bytes) const override { return static_cast<double>(bytes) / kBytesPerNode; }

 private:
  double of(const OpUse& use) const {
    const OpSizes s = sizes_of(use);
    return is_view(s.key) ? 0 : what_ == What::kFlops ? s.flops : s.bytes;
  }
  What what_;
  CostOptions options_;
};

class TableCost : public CostModel {
 public:
  TableCost(std::string name, std::map<std::string, double> costs, double otherwise)
      : name_(std::move(name)), costs_(std::move(costs)), otherwise_(otherwise) {}
  std::string name() const override { return name_; }
  double cost(const OnnxEGraph& g, const ENode& node, Id) const override {
    const OpKey& key = g.key(node.op);
    auto it = costs_.find(operator_name(key.domain, key.op_type));
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
  std::string unit() const override { return parts_[0].second->unit(); }
  double relative_error() const override { return parts_[0].second->relative_error(); }
  std::optional<MeasuredOn> measured_on() const override { return parts_[0].second->measured_on(); }
  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    return mean([&](const CostModel& m) { return m.cost(g, node, id); });
  }
  double cost_as(const OnnxEGraph& g, const OtherOperator& op, std::span<const Id> inputs, Id output) const override {
    return mean([&](const CostModel& m) { return m.cost_as(g, op, inputs, output); });
  }
  double cost_of_reorder(const OnnxEGraph& g, Id value, bool into_blocks) const override {
    return mean([&](const CostModel& m) { return m.cost_of_reorder(g, value, into_blocks); });
  }
  double cost_of_layout(const OnnxEGraph& g, const ENode& node, Id id) const override {
    return mean([&](const CostModel& m) { return m.cost_of_layout(g, node, id); });
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
  const absl::StatusOr<std::string> bytes = read_data_file(path);
  if (absl::IsNotFound(bytes.status()))
    return no_name_or_file(path, fmt::format("{}: no such cost model or file; {}", path, what_instead(path, builtin_cost_models())));
  if (!bytes.ok()) return bytes.status();
  const std::string& text = *bytes;
  const auto read = read_json(text);
  if (!read.ok()) return absl::InvalidArgumentError(fmt::format("{}: not JSON: {}", path, std::string(read.status().message())));
  const nlohmann::json& json = *read;
  if (!json.is_object() || !json.contains("costs") || !json["costs"].is_object())
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

}  // namespace

CostOptions with_all_symbols(CostOptions options, const OnnxEGraph& g, const std::map<std::string, std::int64_t>& usual) {
  for (const auto& [symbol, size] : usual) options.symbols.try_emplace(symbol, size);
  for (const std::string& s : g.dims().symbols()) {
    const auto named = options.symbols.find(declared_name(s));
    const std::int64_t size = named == options.symbols.end() ? options.default_symbol : named->second;
    options.symbols.try_emplace(s, size);
  }
  return options;
}

std::vector<std::string> builtin_cost_models() {
  std::vector<std::string> out{"nodes", "flops", "bytes", "roofline"};
  for (std::string& table : measured_tables()) out.push_back(std::move(table));
  return out;
}

bool is_cost_data(const std::string& name_or_path) {
  const auto built_in = builtin_cost_models();
  return name_or_path.ends_with(".json") || name_or_path.ends_with(".jsonl") ||
         std::find(built_in.begin(), built_in.end(), name_or_path) != built_in.end();
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
  if (name_or_path == "flops") return std::make_unique<SizeCost>(SizeCost::What::kFlops, options);
  if (name_or_path == "bytes") return std::make_unique<SizeCost>(SizeCost::What::kBytes, options);
  if (name_or_path.ends_with(".so") || name_or_path.ends_with(".dylib")) return load_plugin_cost(name_or_path, options);
  auto times = load_op_times(name_or_path);
  if (!times.ok()) return times.status();
  if (*times) return make_times_cost(name_or_path, *std::move(times), options);
  return load_table(name_or_path);
}

}  // namespace saturate
