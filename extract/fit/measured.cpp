#include "extract/fit/measured.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "egraph/once.h"
#include "egraph/text/read_json.h"
#include "extract/fit/gaussian.h"
#include "extract/fit/time_fit.h"
#include "extract/sizes/blocks.h"
#include "extract/sizes/op_features.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/model/words.h"

namespace saturate {
namespace {

constexpr double kNoise = 0.01;  // variance of a row to that of the fit's errors
constexpr double kLeastMeasured = 1e-9;
constexpr double kCache = 1 << 20;
constexpr std::string_view kGemm = "Gemm", kFusedConv = "com.microsoft::FusedConv";
constexpr const char* kGemmBias = "Gemm/bias";
constexpr const char *kQuantizer = "DynamicQuantizeLinear", *kIntegerProduct = "com.microsoft::MatMulIntegerToFloat";
constexpr std::string_view kDynamicProduct = "com.microsoft::DynamicQuantizeMatMul";
constexpr double kFitsInCache = 200e3;  // elements
constexpr double kReorder = 1e-6;       // one operator more

// An operator within `use`, with the same result, of these inputs of it.
OpUse part_of(const OpUse& use, std::string op, const std::vector<std::size_t>& inputs) {
  OpUse part;
  part.op = std::move(op);
  for (std::size_t i : inputs) part.inputs.push_back(use.inputs[i]), part.constant.push_back(use.constant[i]);
  part.outputs = use.outputs;
  part.element_bytes = use.element_bytes;
  part.dtype = use.dtype;
  return part;
}

std::vector<std::size_t> first_inputs(const OpUse& use, std::size_t most) {
  std::vector<std::size_t> all(std::min(use.inputs.size(), most));
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

// Whether a FusedConv adds a tensor to its result: its last input, which has the result's rank (a bias is a vector, and may be absent).
bool has_summand(const OpUse& use) {
  return use.op == kFusedConv && use.inputs.size() > 2 && !use.outputs.empty() && use.inputs.back().size() == use.outputs[0].size();
}

double usual_ratio(const std::vector<TimedUse>& rows, const Roofline& roofline) {
  std::vector<double> ratios;
  for (const TimedUse& row : rows)
    if (!is_view(row.use.op)) ratios.push_back(row.seconds / roofline.seconds(sizes_of(row.use)));
  return median(std::move(ratios), 1);
}

}  // namespace

struct MeasuredTable::Family {
  std::vector<TimedUse> rows;  // not fitted yet
  std::string_view bytes;      // of a fitted one, not loaded yet
  mutable Once once;
  // Fitted: the features of all rows one after the other, where those of each begin, and the pull of each on the prediction:
  // K^-1 (log measured - log fit).
  struct Fit {
    TimeWeights weights{};
    std::vector<std::uint32_t> first_log{0}, first_kind{0};
    std::vector<float> logs;
    std::vector<int> kinds;
    std::vector<double> pull;

    void add(const OpFeatures& f) {
      logs.insert(logs.end(), f.logs.begin(), f.logs.end());
      kinds.insert(kinds.end(), f.kinds.begin(), f.kinds.end());
      first_log.push_back(static_cast<std::uint32_t>(logs.size()));
      first_kind.push_back(static_cast<std::uint32_t>(kinds.size()));
    }
    FeatureRow row(std::size_t i) const {
      const std::uint32_t *log = first_log.data() + i, *kind = first_kind.data() + i;
      return {{logs.data() + log[0], log[1] - log[0]}, {kinds.data() + kind[0], kind[1] - kind[0]}};
    }
    // All of it but the weights, in the order in which it stands in the bytes.
    template <class Self, class Visit>
    static void each(Self& fit, Visit&& visit) {
      visit(fit.first_log), visit(fit.first_kind), visit(fit.logs), visit(fit.kinds), visit(fit.pull);
    }
  };
  mutable Fit fit;

  void make() const {
    if (rows.empty()) return load();
    std::vector<std::pair<OpSizes, double>> sizes;
    for (const TimedUse& row : rows) sizes.emplace_back(sizes_of(row.use), row.seconds);
    fit.weights = fit_time_weights(sizes, kCache);
    const std::size_t n = rows.size();
    for (std::size_t i = 0; i < n; ++i) {
      fit.add(features_of(rows[i].use));
      fit.pull.push_back(std::log(std::max(rows[i].seconds, kLeastMeasured) / weighted_seconds(fit.weights, sizes[i].first, kCache)));
    }
    std::vector<double> k(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) k[i * n + j] = correlation(fit.row(i), fit.row(j));
      k[i * n + i] = 1 + kNoise;
    }
    cholesky_solve(k, fit.pull);
  }

  // The numbers as they stand in memory: bytes are made and loaded by builds for one machine.
  std::string to_bytes() const {
    std::string out;
    const auto put = [&out](const void* from, std::size_t size) { out.append(static_cast<const char*>(from), size); };
    put(fit.weights.data(), sizeof fit.weights);
    Fit::each(fit, [&](const auto& numbers) {
      const std::uint32_t count = static_cast<std::uint32_t>(numbers.size());
      put(&count, sizeof count);
      put(numbers.data(), numbers.size() * sizeof numbers[0]);
    });
    return out;
  }

  void load() const {
    std::size_t from = 0;
    const auto take = [&](void* to, std::size_t size) { from += bytes.copy(static_cast<char*>(to), size, from); };
    take(fit.weights.data(), sizeof fit.weights);
    Fit::each(fit, [&](auto& numbers) {
      std::uint32_t count = 0;
      take(&count, sizeof count);
      numbers.resize(count);
      take(numbers.data(), numbers.size() * sizeof numbers[0]);
    });
  }

  double seconds(const OpFeatures& features, const OpSizes& sizes) const {
    once.call([&] { make(); });
    const FeatureRow at(features);
    double error = 0;
    for (std::size_t i = 0; i < fit.pull.size(); ++i) error += fit.pull[i] * correlation(at, fit.row(i));
    return weighted_seconds(fit.weights, sizes, kCache) * std::exp(error);
  }
};

// All rows of an operator: a family of each kind and dtype.
struct MeasuredTable::Group {
  std::map<std::string, Family> families;
  double least = 0;  // seconds

  void add(TimedUse row) {
    least = least > 0 ? std::min(least, row.seconds) : row.seconds;
    families[features_of(row.use).family].rows.push_back(std::move(row));
  }
};

namespace {

constexpr std::string_view kFittedFormat = "saturate-times-3";

}  // namespace

absl::StatusOr<MeasuredTable> MeasuredTable::parse(const std::string& text, const std::string& place) {
  auto rows = read_timed_rows(text, place);
  if (!rows.ok()) return rows.status();
  return MeasuredTable(*std::move(rows));
}

MeasuredTable::MeasuredTable(TimedRows timed)
    : roofline_(fit_roofline(timed.rows)), machine_(std::move(timed.machine)), num_rows_(timed.rows.size()) {
  usual_ratio_ = usual_ratio(timed.rows, roofline_);
  for (TimedUse& row : timed.rows) {
    auto& group = groups_[comparable_op(row.use.op)];
    if (!group) group = std::make_shared<Group>();
    group->add(std::move(row));
  }
}

std::string MeasuredTable::to_text(const TimedRows& rows) {
  nlohmann::ordered_json head = rows.machine.empty() ? nlohmann::ordered_json::object() : *read_json<nlohmann::ordered_json>(rows.machine);
  std::multimap<std::string, std::string> sorted;
  for (const std::string& line : rows.lines) {
    const auto row = *read_json<nlohmann::ordered_json>(line);
    nlohmann::ordered_json out{{"op", row["op"]}};
    for (const char* key : {"dtype", "in", "out", "const", "attrs", "seconds", "noise"})
      if (row.contains(key)) out[key] = row[key];
    sorted.emplace(row["op"], out.dump());
  }
  std::string text = head.dump() + "\n";
  for (const auto& [op, line] : sorted) text += line + "\n";
  return text;
}

// A line about the table; then of each family the operator, its least seconds, the family's name, the size of its bytes, and these. Words
// have a blank behind them; numbers are written so that the same are read again.
std::string MeasuredTable::to_fitted() const {
  std::string out = fmt::format("{} {} {} {} {}\n", kFittedFormat, num_rows_, usual_ratio_, roofline_.to_json(), machine_);
  for (const auto& [op, group] : groups_)
    for (const auto& [name, family] : group->families) {
      family.once.call([&of = family] { of.make(); });
      const std::string bytes = family.to_bytes();
      out += fmt::format("{} {} {} {} ", op, group->least, name, bytes.size()) + bytes;
    }
  return out;
}

absl::StatusOr<MeasuredTable> MeasuredTable::parse_fitted(std::string_view text, const std::string& place) {
  MeasuredTable table;
  std::string_view head = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(head.size() + 1, text.size()));
  if (take_word(head) != kFittedFormat) return absl::InvalidArgumentError(fmt::format("{}: not a fitted table", place));
  table.num_rows_ = to_number<std::size_t>(take_word(head));
  table.usual_ratio_ = to_number<double>(take_word(head));
  auto roofline = Roofline::parse(std::string(take_word(head)));
  if (!roofline.ok()) return roofline.status();
  table.roofline_ = *std::move(roofline);
  table.machine_ = head;
  while (!text.empty()) {
    auto& group = table.groups_[std::string(take_word(text))];
    if (!group) group = std::make_shared<Group>();
    group->least = to_number<double>(take_word(text));
    Family& family = group->families[std::string(take_word(text))];
    const auto size = to_number<std::size_t>(take_word(text));
    family.bytes = text.substr(0, size);
    text.remove_prefix(std::min(size, text.size()));
  }
  return table;
}

const MeasuredTable::Group* MeasuredTable::group(const std::string& comparable) const {
  const auto it = groups_.find(comparable);
  return it == groups_.end() ? nullptr : it->second.get();
}

double MeasuredTable::gemm_seconds(const OpUse& use, bool* estimated) const {
  OpUse product = part_of(use, "MatMul", first_inputs(use, 2));
  product.attributes = use.attributes;
  const double without = seconds(product, estimated);
  return use.inputs.size() < 3 ? without : without + seconds(part_of(use, kGemmBias, {2}));
}

double MeasuredTable::dynamic_product_seconds(const OpUse& use, bool* estimated) const {
  OpUse quantizer = part_of(use, kQuantizer, {0}), product = part_of(use, kIntegerProduct, first_inputs(use, use.inputs.size()));
  quantizer.outputs = {use.inputs[0], {}, {}};
  product.dtype = "uint8", product.element_bytes = 1;
  return seconds(quantizer) + seconds(product, estimated);
}

double MeasuredTable::conv_with_summand_seconds(const OpUse& use, bool* estimated) const {
  const Sizes1D& result = use.outputs[0];
  OpUse conv = part_of(use, "Conv", first_inputs(use, use.inputs.size() - 1)), add = part_of(use, "Add", {}), activation = add;
  conv.attributes = use.attributes;
  add.inputs = {result, result};
  add.constant = {0, 0};
  double sum = seconds(conv, estimated) + 2 * (seconds(add) + kReorder);
  if (const std::string name = string_attribute(use, "activation"); !name.empty()) {
    activation.op = name;
    activation.inputs = {result};
    activation.constant = {0};
    sum += seconds(activation);
  }
  return sum;
}

// The activation of a FusedConv goes over its result while that is in a cache: as long as over so many elements of a tensor that fits.
double MeasuredTable::activation_seconds(const OpUse& use) const {
  const std::string name = string_attribute(use, "activation");
  const double share = share_in_convolution(name);
  if (share == 0 || use.outputs.empty()) return 0;
  double elements = 1;
  for (const double d : use.outputs[0]) elements *= d;
  const double fits = std::min(elements, kFitsInCache);
  OpUse alone = part_of(use, name, {});
  alone.inputs = alone.outputs = {{1, fits}};
  alone.constant = {0};
  return elements > 0 ? share * seconds(alone) * elements / fits : 0;
}

double MeasuredTable::seconds(const OpUse& use, bool* estimated) const {
  if (use.op == kFusedConv && !has_summand(use) && !use.outputs.empty()) {
    OpUse plain = use;
    std::erase_if(plain.attributes, [](const Attribute& a) { return a.name == "activation"; });
    if (plain.attributes.size() != use.attributes.size()) return seconds(plain, estimated) + activation_seconds(use);
  }
  if (has_summand(use)) return conv_with_summand_seconds(use, estimated);
  if (const double times = times_of_image(use); times > 1) return times * seconds(over_image(use), estimated);
  const std::string op = comparable_op(use.op);
  if (op == kGemm && groups_.contains(kGemmBias)) return gemm_seconds(use, estimated);
  if (use.op == kDynamicProduct && !use.inputs.empty() && groups_.contains(kQuantizer) && groups_.contains(kIntegerProduct))
    return dynamic_product_seconds(use, estimated);
  const OpSizes s = sizes_of(use);
  const Group* of = group(op);
  if (estimated) *estimated = !of;
  if (is_view(use.op)) return of ? of->least : roofline_.launch;  // the least: others were copies, because their input must stay
  if (!of) return roofline_.seconds(s) * usual_ratio_;
  const OpFeatures at = features_of(use);
  auto it = of->families.find(at.family);
  if (it == of->families.end())  // never measured in this dtype
    it = of->families.find(at.family.substr(0, at.family.rfind('/')));
  if (it == of->families.end()) it = of->families.begin();
  return it->second.seconds(at, s);
}

std::vector<Compared> cross_validated(const TimedRows& rows, std::size_t folds, std::vector<std::size_t>& row_of) {
  constexpr std::size_t kScatter = 2654435761u;  // neighbours in the file go to different folds
  const auto fold_of = [folds](std::size_t row) { return (row * kScatter >> 16) % folds; };
  std::vector<Compared> out;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    TimedRows others;
    for (std::size_t i = 0; i < rows.rows.size(); ++i)
      if (fold_of(i) != fold) others.rows.push_back(rows.rows[i]);
    const MeasuredTable table(std::move(others));
    for (std::size_t i = 0; i < rows.rows.size(); ++i)
      if (fold_of(i) == fold && !is_view(rows.rows[i].use.op)) {
        out.push_back({rows.rows[i].use.op, table.seconds(rows.rows[i].use), rows.rows[i].seconds, 0});
        row_of.push_back(i);
      }
  }
  return out;
}

}  // namespace saturate
