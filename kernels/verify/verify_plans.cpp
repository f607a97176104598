#include "kernels/verify/verify_plans.h"

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

std::vector<DrawStyle> styles_of_integers(const InputDrawer& drawer) {
  std::vector<DrawStyle> out{{IntStyle::kMask, true}};
  for (std::int64_t phase = 0; phase < drawer.compared_ints(); ++phase) {
    out.push_back({IntStyle::kCompared, true});
    out.back().phase = phase;
  }
  return out;
}

std::vector<VerifyPlan> plans(const InputDrawer& drawer) {
  const std::vector<std::string>& symbols = drawer.symbols();
  const Twins& twins = drawer.twins();
  std::vector<DrawStyle> likely = {{IntStyle::kMask, true}, {IntStyle::kMask, false}};
  if (drawer.tells_lengths()) likely.insert(likely.begin(), {IntStyle::kLength, true});
  for (const DrawStyle& style : styles_of_integers(drawer))
    if (style.ints == IntStyle::kCompared) likely.push_back(style);
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

namespace {

// The first sizes of a plan, with each of the first symbols at 0.
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

// About what each position of an input costs: multiplications, counted as weights, and something for each node.
double work_of_position(const Model& model) {
  double weights = 1000 * static_cast<double>(model.graph.nodes.size());
  for (const Initializer& i : model.graph.initializers) weights += static_cast<double>(std::max<std::int64_t>(i.tensor.size(), 0));
  return weights;
}

double elements_of(const ValueInfo& input, const Sizes& sizes, double unknown) {
  double elements = 1;
  for (const DimSpec& dim : input.type.shape.value_or(std::vector<DimSpec>())) {
    const auto size = dim_size(dim, sizes);
    elements *= size ? static_cast<double>(*size) : unknown;
  }
  return elements;
}

// Sizes beyond the blocks of rows and columns in which kernels work, `length` of one symbol, where the model is small enough.
std::optional<Sizes> long_sizes(const BeyondUsual& from, std::size_t symbol, std::int64_t length, double most_work) {
  constexpr double kMostElements = 1e4;  // of an input: images of a fixed size are many positions
  const std::vector<std::string>& symbols = from.drawer.symbols();
  if (symbol >= symbols.size() || from.taken->spacious || takes_images_of_any_size(from.original)) return std::nullopt;
  if (work_of_position(from.original) * static_cast<double>(length) > most_work) return std::nullopt;
  Base base = {{1, 1, 1, 1}};
  if (symbol >= std::size(base.row)) return std::nullopt;
  base.row[symbol] = length;
  Sizes sizes = assign(symbols, base, from.taken->relation, from.taken->twins);
  for (const ValueInfo& input : from.original.graph.inputs)
    if (elements_of(input, sizes, static_cast<double>(length)) > kMostElements * static_cast<double>(length) / 133) return std::nullopt;
  return sizes;
}

// Whether a case costs next to nothing.
bool is_cheap(const BeyondUsual& from) {
  constexpr double kMostWork = 1e7;
  double rows = 1;
  for (const ValueInfo& input : from.original.graph.inputs) {
    const auto last = input.type.shape && !input.type.shape->empty() ? std::get_if<std::int64_t>(&input.type.shape->back()) : nullptr;
    rows = std::max(rows, elements_of(input, from.sizes, 8) / static_cast<double>(last ? std::max<std::int64_t>(*last, 1) : 1));
  }
  return rows * work_of_position(from.original) <= kMostWork;
}

class BeyondCases {
 public:
  explicit BeyondCases(const BeyondUsual& from) : from_(from), cheap_(is_cheap(from)) {}

  std::vector<BeyondCase> run() {
    if (from_.here) of_numbers();
    of_switches();
    of_what_may_be_left_out();
    if (from_.here && from_.taken && !excludes(kEmptySizes))
      for (const Sizes& empty : sizes_with_zero(from_.drawer.symbols(), *from_.taken)) add(CaseKind::kEmpty, empty, from_.style);
    if (from_.taken) of_length();
    return std::move(out_);
  }

 private:
  bool excludes(Excluded what) const { return (from_.excluded & what) != 0; }

  void add(CaseKind kind, const Sizes& sizes, const DrawStyle& style) { out_.push_back({kind, sizes, style}); }

  // What lies far from 0 and near it. Integers may turn out to be sizes, which the original refuses.
  void add_reach(CaseKind kind, Reach reach, std::int64_t phase) {
    DrawStyle style = from_.style;
    style.reach = reach;
    style.phase = phase;
    style.usual_ints = excludes(kLargeIntegers);
    style.negative_ids = from_.negative_ids;
    out_.push_back({kind, from_.sizes, style, from_.drawer.has_floats() || from_.drawer.has_ids()});
  }

  // One switch is off, and beyond 1 or as it falls; of several, each is off and on in some case.
  void of_switches() {
    const std::size_t switches = from_.drawer.switches(), ways = switches > 1 ? 4 : switches == 1 ? 2 : from_.drawer.has_masks() ? 1 : 0;
    for (std::size_t way = 0; way < ways; ++way) {
      DrawStyle style = from_.style;
      style.reach = Reach::kSwitched;
      style.phase = static_cast<std::int64_t>(way);
      add(CaseKind::kSwitched, from_.sizes, style);
    }
  }

  void of_what_may_be_left_out() {
    const auto vary = [&](auto change) {
      DrawStyle style = from_.style;
      change(style);
      add(CaseKind::kVaried, from_.sizes, style);
    };
    if (from_.drawer.has_defaults()) vary([](DrawStyle& s) { s.other_defaults = true; });
    if (from_.drawer.has_optionals()) vary([](DrawStyle& s) { s.absent = true; });
    if (from_.drawer.has_sequences())
      for (const int items : {1, 3, 0}) vary([&](DrawStyle& s) { s.items = items; });
  }

  void of_numbers() {
    // No calibrated quantizer holds what lies far from 0, and a part of it lies near 0.
    if (from_.drawer.has_reach() && !excludes(kBeyondQuantizers) && !excludes(kShortRows)) {
      add_reach(CaseKind::kFar, Reach::kScaled, 0);
      if (!excludes(kNotFinite)) add_reach(CaseKind::kSpecial, Reach::kSpecial, 0);
      if (from_.drawer.has_floats()) add_reach(CaseKind::kQuiet, Reach::kQuiet, 0);
      if (cheap_ || !from_.drawer.has_floats()) add_reach(CaseKind::kFar, Reach::kScaled, 2);
      if (cheap_ && from_.drawer.has_floats())
        for (const std::int64_t phase : {1, 2, 3}) add_reach(CaseKind::kQuiet, Reach::kQuiet, phase);
    }
    if (!excludes(kBeyondQuantizers) && !excludes(kShortRows) && (from_.drawer.has_reach() || from_.drawer.has_ids())) {
      if (cheap_ || from_.drawer.has_landmarks()) add_reach(CaseKind::kEdges, Reach::kEdges, 0);
      if (cheap_) add_reach(CaseKind::kEdges, Reach::kEdges, 1);
    }
    if (!from_.drawer.has_quantizers()) return;
    DrawStyle at_edges = from_.style;
    at_edges.reach = Reach::kQuantized;
    add(CaseKind::kQuantized, from_.sizes, at_edges);
  }

  // The second size is most often that of positions; in small models each is long once.
  void of_length() {
    constexpr std::int64_t kLong = 133, kLongest = 2051;
    constexpr double kMostWork = 1e7, kMostOfLongest = 2e7;
    const std::size_t symbols = from_.drawer.symbols().size(), second = std::min<std::size_t>(symbols - 1, 1);
    if (symbols == 0) return;
    const auto sizes = long_sizes(from_, second, kLong, kMostWork);
    if (!sizes) return;
    add(CaseKind::kLong, *sizes, from_.style);
    if (!from_.here) return;
    for (std::size_t symbol = 0; symbol < symbols; ++symbol)
      if (const auto longest = long_sizes(from_, symbol, kLongest, kMostOfLongest)) add(CaseKind::kLong, *longest, from_.style);
  }

  const BeyondUsual& from_;
  bool cheap_;
  std::vector<BeyondCase> out_;
};

}  // namespace

std::vector<BeyondCase> cases_beyond(const BeyondUsual& from) { return BeyondCases(from).run(); }

}  // namespace saturate
