#include "tools/verify/verify_plans.h"

#include <algorithm>

namespace saturate {
namespace {

std::vector<Relation> relations(const std::vector<std::string>& symbols) {
  std::vector<Relation> out{Relation{}};
  if (symbols.size() > 8) return out;
  for (const std::string& s : symbols)
    for (std::size_t i = 0; i < symbols.size(); ++i)
      for (std::size_t k = i + 1; k < symbols.size(); ++k)
        if (symbols[i] != s && symbols[k] != s) out.push_back({s, symbols[i], symbols[k], ""});
  for (std::size_t i = 0; i < symbols.size(); ++i)
    for (std::size_t k = i + 1; k < symbols.size(); ++k) out.push_back({symbols[k], symbols[i], "", ""});
  return out;
}

constexpr Base kBases[] = {{{2, 3, 7, 5}}, {{1, 1, 1, 1}}, {{3, 7, 2, 1}}, {{1, 2, 3, 7}}};
// For models that need room (convolutions, windows), or one size for all.
constexpr Base kSpacious[] = {{{7, 7, 7, 7}},    {{2, 2, 2, 2}},     {{1, 1, 1, 1}},    {{1, 2, 3, 7}},      {{1, 16, 16, 16}},
                              {{2, 32, 32, 32}}, {{32, 32, 32, 32}}, {{1, 64, 64, 64}}, {{1, 224, 224, 224}}};

}  // namespace

std::span<const Base> bases_of(const VerifyPlan& plan) {
  return plan.spacious ? std::span<const Base>(kSpacious) : std::span<const Base>(kBases);
}

bool takes_images_of_any_size(const Model& model) {
  return std::any_of(model.graph.inputs.begin(), model.graph.inputs.end(),
                     [](const ValueInfo& input) {
                       const ValueType& t = input.type;
                       return t.kind == ValueType::Kind::kTensor && t.shape && t.shape->size() == 4 &&
                              !std::holds_alternative<std::int64_t>((*t.shape)[2]);
                     }) &&
         std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(), [](const Node& n) { return n.op_type == "Conv"; });
}

Sizes assign(const std::vector<std::string>& symbols, const Base& base, const Relation& relation, const Twins& twins) {
  Sizes sizes;
  for (std::size_t i = 0; i < symbols.size(); ++i) sizes[symbols[i]] = base.row[i % 4];
  for (const auto& [symbol, first] : twins) sizes[symbol] = sizes[first];
  if (!relation.single.empty()) sizes[relation.single] = 1;
  if (!relation.symbol.empty()) sizes[relation.symbol] = sizes[relation.first] + (relation.second.empty() ? 0 : sizes[relation.second]);
  return sizes;
}

std::vector<VerifyPlan> plans(const std::vector<std::string>& symbols, const Twins& twins) {
  const std::vector<DrawStyle> likely = {{IntStyle::kMask, true}, {IntStyle::kMask, false}};
  const std::vector<DrawStyle> others = {
      {IntStyle::kOnes, true}, {IntStyle::kZeros, true}, {IntStyle::kSmall, true}, {IntStyle::kCount, true}, {IntStyle::kMask, true, true}};
  std::vector<VerifyPlan> out;
  for (const Relation& relation : relations(symbols))
    for (const DrawStyle& style : likely) out.push_back({relation, style, false, true});
  if (!twins.empty())
    for (const Relation& relation : relations(symbols)) out.push_back({relation, likely[0], false, true, twins});
  if (symbols.size() <= 8)
    for (const std::string& single : symbols)
      for (Relation relation : relations(symbols)) {
        if (relation.symbol == single || (!relation.symbol.empty() && relation.second.empty())) continue;
        relation.single = single;
        out.push_back({relation, likely[0]});
      }
  if (!symbols.empty()) out.push_back({{}, likely[0], true});
  for (const DrawStyle& style : others) out.push_back({{}, style});
  for (const DrawStyle& style : others)
    if (!symbols.empty()) out.push_back({{}, style, true});
  return out;
}

std::vector<Sizes> sizes_with_zero(const std::vector<std::string>& symbols, const VerifyPlan& plan) {
  constexpr std::size_t kMost = 3;
  std::vector<Sizes> out;
  for (std::size_t i = 0; i < symbols.size() && out.size() < kMost; ++i) {
    if (symbols[i] == plan.relation.symbol || symbols[i] == plan.relation.single || plan.twins.contains(symbols[i])) continue;
    Base base = bases_of(plan)[0];
    if (i >= std::size(base.row)) break;
    base.row[i] = 0;
    out.push_back(assign(symbols, base, plan.relation, plan.twins));
  }
  return out;
}

std::optional<Sizes> long_sizes(const Model& model, const std::vector<std::string>& symbols, const VerifyPlan& plan) {
  constexpr std::int64_t kLong = 133;
  constexpr double kMostWork = 1e7;      // multiplications, counted as weights times positions
  constexpr double kMostElements = 1e4;  // of an input: images of a fixed size are many positions
  if (symbols.empty() || plan.spacious || takes_images_of_any_size(model)) return std::nullopt;
  double weights = 1000 * static_cast<double>(model.graph.nodes.size());  // each node costs something
  for (const Initializer& i : model.graph.initializers) weights += static_cast<double>(std::max<std::int64_t>(i.tensor.size(), 0));
  if (weights * static_cast<double>(kLong) > kMostWork) return std::nullopt;
  Base base = {{1, 1, 1, 1}};
  base.row[std::min<std::size_t>(symbols.size() - 1, 1)] = kLong;
  Sizes sizes = assign(symbols, base, plan.relation, plan.twins);
  for (const ValueInfo& input : model.graph.inputs) {
    double elements = 1;
    for (const DimSpec& dim : input.type.shape.value_or(std::vector<DimSpec>())) {
      const auto* number = std::get_if<std::int64_t>(&dim);
      const auto* text = std::get_if<std::string>(&dim);
      elements *= static_cast<double>(number ? *number : text ? evaluate_dim(*text, sizes).value_or(kLong) : kLong);
    }
    if (elements > kMostElements) return std::nullopt;
  }
  return sizes;
}

}  // namespace saturate
