#include "extract/measured.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

#include "extract/op_features.h"
#include "extract/time_fit.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

constexpr double kReach = 4;         // doublings over which errors of the fit are alike
constexpr double kKindDistance = 2;  // what another kernel counts, in doublings
constexpr double kNoise = 0.01;      // variance of a row to that of the fit's errors
constexpr double kLeastMeasured = 1e-9;
constexpr double kCache = 1 << 20;
constexpr std::string_view kGemm = "Gemm", kFusedConv = "com.microsoft::FusedConv";
constexpr const char* kGemmBias = "Gemm/bias";
constexpr double kReorder = 1e-6;  // one operator more

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

// Correlation of two rows' errors: exponential (Matern 1/2), which follows the steps that kernels take.
double correlation(const OpFeatures& a, const OpFeatures& b) {
  double square = 0;
  const float *x = a.logs.data(), *y = b.logs.data();
  for (const float* const end = x + std::min(a.logs.size(), b.logs.size()); x != end; ++x, ++y) square += (*x - *y) * (*x - *y);
  const int *k = a.kinds.data(), *l = b.kinds.data();
  for (const int* const end = k + std::min(a.kinds.size(), b.kinds.size()); k != end; ++k, ++l)
    if (*k != *l) square += kKindDistance * kKindDistance;
  return std::exp(-std::sqrt(square) / kReach);
}

// Four sums at once: one alone waits for each addition.
double dot(const double* a, const double* b, std::size_t n) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

// Solves K x = y in place for a positive definite K (its lower half, by rows).
void cholesky_solve(std::vector<double>& k, std::vector<double>& y) {
  const std::size_t n = y.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const double sum = k[i * n + j] - dot(&k[i * n], &k[j * n], j);
      k[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / k[j * n + j];
    }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t m = 0; m < i; ++m) y[i] -= k[i * n + m] * y[m];
    y[i] /= k[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t m = i + 1; m < n; ++m) y[i] -= k[m * n + i] * y[m];
    y[i] /= k[i * n + i];
  }
}

double usual_ratio(const std::vector<TimedUse>& rows, const Roofline& roofline) {
  std::vector<double> ratios;
  for (const TimedUse& row : rows)
    if (!is_view(row.use.op)) ratios.push_back(row.seconds / roofline.seconds(sizes_of(row.use)));
  if (ratios.empty()) return 1;
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  return ratios[ratios.size() / 2];
}

}  // namespace

struct MeasuredTable::Family {
  std::vector<TimedUse> rows;  // not fitted yet
  std::string_view words;      // of a fitted one, not read yet: weights, and of each row its features and pull
  mutable std::once_flag once;
  mutable TimeWeights weights{};
  mutable std::vector<OpFeatures> features;
  mutable std::vector<double> pull;  // of each row on the prediction: K^-1 (log measured - log fit)

  void fit() const {
    if (rows.empty()) return read();
    std::vector<std::pair<OpSizes, double>> sizes;
    for (const TimedUse& row : rows) sizes.emplace_back(sizes_of(row.use), row.seconds);
    weights = fit_time_weights(sizes, kCache);
    const std::size_t n = rows.size();
    for (std::size_t i = 0; i < n; ++i) {
      features.push_back(features_of(rows[i].use));
      pull.push_back(std::log(std::max(rows[i].seconds, kLeastMeasured) / weighted_seconds(weights, sizes[i].first, kCache)));
    }
    std::vector<double> k(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) k[i * n + j] = correlation(features[i], features[j]);
      k[i * n + i] = 1 + kNoise;
    }
    cholesky_solve(k, pull);
  }

  void read() const;

  double seconds(const OpFeatures& at, const OpSizes& sizes) const {
    std::call_once(once, [&] { fit(); });
    double error = 0;
    for (std::size_t i = 0; i < features.size(); ++i) error += pull[i] * correlation(at, features[i]);
    return weighted_seconds(weights, sizes, kCache) * std::exp(error);
  }
};

// All rows of an operator: a family of each kind and dtype.
struct MeasuredTable::Group {
  std::vector<std::string_view> lines;  // of fitted families, not read yet
  std::once_flag once;
  std::map<std::string, Family> families;
  double least = 0;  // seconds

  void add(TimedUse row) {
    least = least > 0 ? std::min(least, row.seconds) : row.seconds;
    families[features_of(row.use).family].rows.push_back(std::move(row));
  }
  void read();
};

namespace {

constexpr std::string_view kFittedFormat = "saturate-times-2";

// Words with a blank after each. Numbers are the digits of their bits: they are the same when they are read again, and quickly read.
class WordWriter {
 public:
  void word(std::string_view w) { text_.append(w).push_back(' '); }
  void number(double v) { word(fmt::format("{:016x}", std::bit_cast<std::uint64_t>(v))); }
  void number(float v) { word(fmt::format("{:08x}", std::bit_cast<std::uint32_t>(v))); }
  void count(std::size_t n) { word(fmt::format_int(n).c_str()); }
  void end_line() { text_.push_back('\n'); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}
  std::string_view word() {
    const std::size_t end = std::min(text_.find(' '), text_.size());
    const std::string_view w = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return w;
  }
  double number() { return std::bit_cast<double>(bits<std::uint64_t>()); }
  float single() { return std::bit_cast<float>(bits<std::uint32_t>()); }
  std::size_t count() {
    std::size_t n = 0;
    const std::string_view w = word();
    std::from_chars(w.data(), w.data() + w.size(), n);
    return n;
  }
  bool empty() const { return text_.empty(); }
  std::string_view rest() const { return text_; }

 private:
  template <class T>
  T bits() {
    std::uint64_t v = 0;
    const std::string_view w = word();
    for (std::size_t at = 0; at + 8 <= w.size(); at += 8) v = v << 32 | eight_digits(w.data() + at);
    return static_cast<T>(v);
  }

  // Digits are 0 to 9 and a to f, which have the bit of 64: all eight at once.
  static std::uint64_t eight_digits(const char* digits) {
    std::uint64_t v = 0;
    std::memcpy(&v, digits, sizeof v);
    if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap64(v);
    v = (v & 0x0f0f0f0f0f0f0f0full) + 9 * (v >> 6 & 0x0101010101010101ull);
    v = (v | v >> 4) & 0x00ff00ff00ff00ffull;
    v = (v | v >> 8) & 0x0000ffff0000ffffull;
    return (v | v >> 16) & 0xffffffffull;
  }

  std::string_view text_;
};

}  // namespace

void MeasuredTable::Family::read() const {
  WordReader reader(words);
  for (double& w : weights) w = reader.number();
  while (!reader.empty()) {
    OpFeatures f;
    f.logs.resize(reader.count());
    for (float& v : f.logs) v = reader.single();
    f.kinds.resize(reader.count());
    for (int& v : f.kinds) v = static_cast<int>(reader.count());
    features.push_back(std::move(f));
    pull.push_back(reader.number());
  }
}

// operator, least seconds, family, and what the family reads
void MeasuredTable::Group::read() {
  for (const std::string_view line : lines) {
    WordReader words(line);
    words.word();
    least = words.number();
    const std::string_view name = words.word();
    families[std::string(name)].words = words.rest();
  }
}

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
  nlohmann::ordered_json head = rows.machine.empty() ? nlohmann::ordered_json::object() : nlohmann::ordered_json::parse(rows.machine);
  std::multimap<std::string, std::string> sorted;
  for (const std::string& line : rows.lines) {
    const auto row = nlohmann::ordered_json::parse(line);
    nlohmann::ordered_json out{{"op", row["op"]}};
    for (const char* key : {"dtype", "in", "out", "const", "attrs", "seconds", "noise"})
      if (row.contains(key)) out[key] = row[key];
    sorted.emplace(row["op"], out.dump());
  }
  std::string text = head.dump() + "\n";
  for (const auto& [op, line] : sorted) text += line + "\n";
  return text;
}

std::string MeasuredTable::to_fitted() const {
  WordWriter out;
  out.word(kFittedFormat);
  out.count(num_rows_);
  out.number(usual_ratio_);
  out.word(roofline_.to_json());
  out.word(machine_);
  out.end_line();
  for (const auto& [op, group] : groups_)
    for (const auto& [name, family] : group->families) {
      std::call_once(family.once, [&of = family] { of.fit(); });
      out.word(op);
      out.number(group->least);
      out.word(name);
      for (const double w : family.weights) out.number(w);
      for (std::size_t i = 0; i < family.features.size(); ++i) {
        out.count(family.features[i].logs.size());
        for (const float v : family.features[i].logs) out.number(v);
        out.count(family.features[i].kinds.size());
        for (const int v : family.features[i].kinds) out.count(static_cast<std::size_t>(v));
        out.number(family.pull[i]);
      }
      out.end_line();
    }
  return out.take();
}

absl::StatusOr<MeasuredTable> MeasuredTable::parse_fitted(std::string_view text, const std::string& place) {
  MeasuredTable table;
  WordReader head(text.substr(0, text.find('\n')));
  if (head.word() != kFittedFormat) return absl::InvalidArgumentError(fmt::format("{}: not a fitted table", place));
  table.num_rows_ = head.count();
  table.usual_ratio_ = head.number();
  auto roofline = Roofline::parse(std::string(head.word()));
  if (!roofline.ok()) return roofline.status();
  table.roofline_ = *std::move(roofline);
  table.machine_ = head.rest().substr(0, head.rest().find_last_not_of(' ') + 1);
  for (std::size_t at = text.find('\n') + 1; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    auto& group = table.groups_[std::string(WordReader(line).word())];
    if (!group) group = std::make_shared<Group>();
    group->lines.push_back(line);
  }
  return table;
}

const MeasuredTable::Group* MeasuredTable::group(const std::string& comparable) const {
  const auto it = groups_.find(comparable);
  if (it == groups_.end()) return nullptr;
  std::call_once(it->second->once, [&] { it->second->read(); });
  return it->second.get();
}

double MeasuredTable::gemm_seconds(const OpUse& use, bool* estimated) const {
  OpUse product = part_of(use, "MatMul", first_inputs(use, 2));
  product.attributes = use.attributes;
  const double without = seconds(product, estimated);
  return use.inputs.size() < 3 ? without : without + seconds(part_of(use, kGemmBias, {2}));
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

double MeasuredTable::seconds(const OpUse& use, bool* estimated) const {
  if (has_summand(use)) return conv_with_summand_seconds(use, estimated);
  const std::string op = comparable_op(use.op);
  if (op == kGemm && groups_.contains(kGemmBias)) return gemm_seconds(use, estimated);
  const OpSizes s = sizes_of(use);
  const Group* of = group(op);
  if (estimated) *estimated = !of;
  if (is_view(use.op)) return of ? of->least : roofline_.launch;  // the least: others were copies, because their input must stay
  if (!of) return roofline_.seconds(s) * usual_ratio_;
  const OpFeatures at = features_of(use);
  auto it = of->families.find(at.family);
  if (it == of->families.end())  // never measured in this dtype
    it = of->families.find(at.family.substr(0, at.family.find('/')));
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
