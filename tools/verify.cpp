#include "tools/verify.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/runtime.h"
#include "tools/empty_rows.h"
#include "tools/model_sizes.h"
#include "tools/wall_clock.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxTries = 1000;
constexpr std::size_t kEnoughTries = 30;    // where there is a case already
constexpr std::size_t kModelSizes = 256;    // of those that stand in the model
constexpr std::size_t kEnoughHarmless = 3;  // refused tries whose integers are zeros, or masks and rows of tables: none can be out of range
constexpr std::size_t kMemoryLimit = std::size_t{4} << 30;

bool unsupported(const absl::Status& status) { return status.code() == absl::StatusCode::kUnimplemented; }

// "Expand making 'y'" of "Expand making 'y': the input does not broadcast".
std::string_view place_of(std::string_view message) { return message.substr(0, message.find(':')); }

// A symbol that is the sum of two others ("total" = "past" + "seq"), or the same as another.
struct Relation {
  std::string symbol, first, second;  // all empty: every symbol for itself; second empty: symbol = first
  std::string single;                 // this symbol has the size 1 (a decoder that takes one token at a time), empty: none
};

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

// Base b gives symbol i the size row[(i + shift) % 4].
struct Base {
  std::int64_t row[4];
};
constexpr Base kBases[] = {{{2, 3, 7, 5}}, {{1, 1, 1, 1}}, {{3, 7, 2, 1}}, {{1, 2, 3, 7}}};
// For models that need room (convolutions, windows), or one size for all.
constexpr Base kSpacious[] = {{{7, 7, 7, 7}},    {{2, 2, 2, 2}},     {{1, 1, 1, 1}},    {{1, 2, 3, 7}},      {{1, 16, 16, 16}},
                              {{2, 32, 32, 32}}, {{32, 32, 32, 32}}, {{1, 64, 64, 64}}, {{1, 224, 224, 224}}};

// Small images leave nothing for the later convolutions to see.
constexpr Base kImage = {{1, 64, 64, 64}};

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

// A way to draw inputs; the likely ones come first.
struct CasePlan {
  Relation relation;
  DrawStyle style;
  bool spacious = false;
  bool likely = false;  // tried until there are cases enough; the others only until there is one
  Twins twins = {};     // symbols that are the same as another
};

std::vector<CasePlan> plans(const std::vector<std::string>& symbols, const Twins& twins) {
  const std::vector<DrawStyle> likely = {{IntStyle::kMask, true}, {IntStyle::kMask, false}};
  const std::vector<DrawStyle> others = {
      {IntStyle::kOnes, true}, {IntStyle::kZeros, true}, {IntStyle::kSmall, true}, {IntStyle::kCount, true}, {IntStyle::kMask, true, true}};
  std::vector<CasePlan> out;
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

// Coarsest float format among inputs, initializers and casts.
DType coarsest_float(const Model& model) {
  DType coarsest = DType::kDouble;
  const auto see = [&](DType dtype) {
    if (is_floating(dtype) && bit_width(dtype) >= 16 && dtype_tolerance(dtype) > dtype_tolerance(coarsest)) coarsest = dtype;
  };
  for (const ValueInfo& input : model.graph.inputs) see(input.type.dtype);
  for (const Initializer& initializer : model.graph.initializers) see(initializer.tensor.dtype());
  for (const Node& node : model.graph.nodes)
    if (const Attribute* to = find_attribute(node.attributes, "to"); to && to->type == AttributeType::kInt)
      see(static_cast<DType>(to->i()));
  return coarsest;
}

// Floats moved by up to one unit in the last place.
template <typename T>
Tensor moved(const Tensor& t, std::uint32_t seed) {
  Tensor out(t.dtype(), t.dims());
  T* to = reinterpret_cast<T*>(out.mutable_data());
  std::minstd_rand random(seed + 1);
  const T* from = t.data<T>();
  for (std::int64_t i = 0; i < t.size(); ++i)
    to[i] = from[i] * (1 + (static_cast<int>(random() % 3) - 1) * std::numeric_limits<T>::epsilon());
  return out;
}

Inputs nudged(Inputs inputs, int run) {
  for (auto& [name, value] : inputs) {
    if (!value.is_tensor()) continue;
    const auto seed = static_cast<std::uint32_t>(run);
    if (value.tensor().dtype() == DType::kFloat) value = moved<float>(value.tensor(), seed);
    if (value.tensor().dtype() == DType::kDouble) value = moved<double>(value.tensor(), seed);
  }
  return inputs;
}

// The model with its weights moved alike. Single numbers stay (an exponent, a limit, a shape's factor), and large weights, so that they are
// not held twice.
Model nudged(const Model& model, int run) {
  constexpr std::int64_t kMost = 1 << 16;
  Model out = model;
  for (Initializer& weight : out.graph.initializers) {
    Tensor& t = weight.tensor;
    const bool moves = !weight.sparse && t.size() > 1 && t.size() <= kMost;
    if (!moves || (t.dtype() != DType::kFloat && t.dtype() != DType::kDouble)) continue;
    const auto seed = static_cast<std::uint32_t>(run) + static_cast<std::uint32_t>(t.size());
    t = t.dtype() == DType::kFloat ? moved<float>(t, seed) : moved<double>(t, seed);
    weight.origin = nullptr;
  }
  return out;
}

bool all_ok(const VerifyCase& c) {
  return std::all_of(c.outputs.begin(), c.outputs.end(), [](const OutputComparison& o) { return o.ok; });
}

class Verifier {
 public:
  Verifier(const Model& original, const Model& optimized, const VerifyOptions& options)
      : original_(original), optimized_(optimized), options_(options), tolerances_(options.tolerances), started_(wall_seconds()) {
    const std::vector<std::string> names = random_outputs(original);
    random_ = {names.begin(), names.end()};
    tolerances_.coarsest = coarsest_float(original);
  }

  VerifyReport run() {
    if (prepare()) options_.inputs ? given() : search();
    for (const std::string& name : random_)
      report_.notes.push_back(fmt::format("output '{}' depends on random operators without a seed and was not compared", name));
    std::set<std::string> nan;
    for (const VerifyCase& c : report_.cases)
      for (const OutputComparison& o : c.outputs)
        if (o.all_nan && nan.insert(o.name).second)
          report_.notes.push_back(fmt::format("output '{}' was NaN throughout in the original ({})", o.name, to_string(c.sizes)));
    note_small_outputs();
    report_.seconds = wall_seconds() - started_;
    return std::move(report_);
  }

 private:
  bool fail(VerifyStatus status, std::string message) {
    report_.status = status;
    report_.message = std::move(message);
    return false;
  }

  // Outputs that were never larger than the difference allowed.
  void note_small_outputs() {
    std::map<std::string, double> small;
    for (const VerifyCase& c : report_.cases)
      for (const OutputComparison& o : c.outputs)
        if (o.tolerance > 0 && o.elements > o.nans) small[o.name] = std::max(small[o.name], o.largest / o.tolerance);
    for (const auto& [name, share] : small)
      if (share <= 1)
        report_.notes.push_back(
            fmt::format("output '{}' was never larger than what may differ: this verifies little; --inputs gives inputs", name));
  }

  SessionOptions session_options() const {
    SessionOptions options;
    options.threads = options_.threads;
    options.memory_limit = kMemoryLimit;
    options.cancel = options_.cancel;
    options.prepare = false;  // nothing is run often, and both models' weights would be held a second time
    return options;
  }

  bool open(const Model& model, const char* which, std::optional<Session>& session) {
    absl::StatusOr<Session> made = Session::create(model, session_options());
    if (made.ok()) {
      session.emplace(*std::move(made));
      return true;
    }
    const std::string what = fmt::format("the {} model: {}", which, std::string(made.status().message()));
    return fail(unsupported(made.status()) ? VerifyStatus::kUnsupported : VerifyStatus::kNotRun, what);
  }

  bool prepare() {
    if (!open(original_, "original", first_)) return false;
    if (!open(optimized_, "optimized", second_)) {
      if (report_.status == VerifyStatus::kNotRun) report_.status = VerifyStatus::kDifferent;
      return false;
    }
    std::set<std::string> have;
    for (const ValueInfo& output : optimized_.graph.outputs) have.insert(output.name);
    for (const ValueInfo& output : original_.graph.outputs)
      if (!have.contains(output.name))
        return fail(VerifyStatus::kDifferent, fmt::format("the optimized model has no output '{}'", output.name));
    return true;
  }

  // What one try came to: whether the original took the inputs.
  enum class Try { kRefused, kCompared, kStop };

  Try attempt(const Inputs& inputs, const Sizes& sizes) {
    const absl::StatusOr<std::vector<Value>> wanted = first_->run(inputs);
    if (cancelled()) return Try::kStop;
    if (!wanted.ok()) {
      if (unsupported(wanted.status())) {
        fail(VerifyStatus::kUnsupported, fmt::format("the original model: {}", std::string(wanted.status().message())));
        return Try::kStop;
      }
      const std::string refusal(wanted.status().message());
      if (refusal_.empty()) refusal_ = refusal;
      if (harmless_) {
        ++harmless_refused_;
        one_place_ = one_place_ && absl::IsInvalidArgument(wanted.status()) && place_of(refusal) == place_of(refusal_);
      }
      ++report_.refused;
      return Try::kRefused;
    }
    if (as_declared_ && !has_declared_sizes(*wanted, sizes)) {
      ++misdeclared_;
      ++report_.refused;
      return Try::kRefused;
    }
    const absl::StatusOr<std::vector<Value>> got = second_->run(inputs);
    if (cancelled()) return Try::kStop;
    if (!got.ok() && !unsupported(got.status()) && gives_nothing(*wanted)) {
      report_.notes.push_back(fmt::format("at {} an output of the original is empty, and the optimized model fails: {}", to_string(sizes),
                                          std::string(got.status().message())));
      ++report_.refused;
      return Try::kRefused;
    }
    if (!got.ok()) {
      fail(unsupported(got.status()) ? VerifyStatus::kUnsupported : VerifyStatus::kDifferent,
           fmt::format("the optimized model{} {}: {}", sizes.empty() ? "" : " at " + to_string(sizes),
                       unsupported(got.status()) ? "can't be run" : "fails where the original runs", std::string(got.status().message())));
      return Try::kStop;
    }
    VerifyCase result = compared(*wanted, *got, sizes);
    allow_for_noise(inputs, *wanted, *got, result);
    if (cancelled()) return Try::kStop;
    const bool outside = full_rows_ && !all_ok(result) && hides_rows(inputs, result);
    if (outside && !options_.inputs) {
      ++avoided_;
      ++report_.refused;
      return Try::kRefused;
    }
    for (const OutputComparison& o : result.outputs)
      if (!o.ok && report_.status == VerifyStatus::kEqual)
        fail(
            VerifyStatus::kDifferent,
            fmt::format("output '{}'{}: {}{}", o.name, sizes.empty() ? "" : " at " + to_string(sizes), o.why,
                        outside ? " (the inputs mask a row of scores as a whole; --no-assume no_empty_row keeps what becomes of it)" : ""));
    report_.cases.push_back(std::move(result));
    return report_.status == VerifyStatus::kEqual ? Try::kCompared : Try::kStop;
  }

  // Whether the original has a row of scores that is masked as a whole: a NaN in the end, or seen where it is.
  bool hides_rows(const Inputs& inputs, const VerifyCase& result) const {
    const auto has_nan = [](const OutputComparison& o) { return o.nans > 0; };
    return std::any_of(result.outputs.begin(), result.outputs.end(), has_nan) || has_empty_row(original_, inputs, session_options());
  }

  const Value& of_same_name(const std::vector<Value>& values, const std::string& name) const {
    const auto same = [&](const ValueInfo& o) { return o.name == name; };
    const auto& outputs = optimized_.graph.outputs;
    return values[static_cast<std::size_t>(std::find_if(outputs.begin(), outputs.end(), same) - outputs.begin())];
  }

  // A model may make much of a rounding (a softmax of scores of 10^5). Where outputs differ by no more than a few times what the original
  // differs from itself when it is computed in double precision, or when its inputs or weights move by one unit in the last place, nothing
  // is wrong. Where floats are rounded to few steps (quantization) most moves change nothing and some change much: hence up to twelve.
  void allow_for_noise(const Inputs& inputs, const std::vector<Value>& wanted, const std::vector<Value>& got, VerifyCase& result) {
    if (tolerances_.rtol || tolerances_.atol) return;
    constexpr int kMoves = 12;
    std::vector<double> noise(wanted.size(), 0);
    const auto learn = [&](const absl::StatusOr<std::vector<Value>>& values) {
      for (std::size_t i = 0; values.ok() && i < wanted.size(); ++i)
        noise[i] = std::max(noise[i], compare_values("", wanted[i], (*values)[i], tolerances_).max_abs);
    };
    const auto run_once = [&](const Model& model, bool reference) {
      SessionOptions options = session_options();
      options.reference = reference;
      if (const auto session = Session::create(model, options); session.ok()) learn(session->run(inputs));
    };
    for (int move = 0; move < kMoves && !all_ok(result) && !cancelled(); ++move) {
      if (move == 0) run_once(original_, true);
      if (move < 2)
        learn(first_->run(nudged(inputs, move)));
      else
        run_once(nudged(original_, move), false);
      excuse(noise, wanted, got, result);
    }
  }

  void excuse(const std::vector<double>& noise, const std::vector<Value>& wanted, const std::vector<Value>& got, VerifyCase& result) {
    constexpr double kTimes = 4;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      OutputComparison& o = result.outputs[i];
      if (o.ok || o.tolerance == 0 || noise[i] == 0) continue;
      Tolerances wider = tolerances_;
      wider.noise = kTimes * noise[i];
      const OutputComparison again = compare_values(o.name, wanted[i], of_same_name(got, o.name), wider);
      if (!again.ok) continue;
      o = again;
      report_.notes.push_back(
          fmt::format("output '{}' differs by up to {:.2e}: by rounding, for the original computed more exactly or beside its inputs "
                      "differs from itself by {:.2e}",
                      o.name, o.max_abs, noise[i]));
    }
  }

  VerifyCase compared(const std::vector<Value>& wanted, const std::vector<Value>& got, const Sizes& sizes) const {
    VerifyCase result;
    result.sizes = sizes;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::string& name = original_.graph.outputs[i].name;
      OutputComparison comparison = compare_values(name, wanted[i], of_same_name(got, name), tolerances_);
      comparison.random = random_.contains(name);
      if (comparison.random) comparison.ok = true;
      result.outputs.push_back(std::move(comparison));
    }
    return result;
  }

  // Inputs are never empty when they are drawn: sizes of 0 come from convolutions and the like that find no room.
  bool gives_nothing(const std::vector<Value>& outputs) const {
    return !options_.inputs &&
           std::any_of(outputs.begin(), outputs.end(), [](const Value& v) { return v.is_tensor() && v.tensor().size() == 0; });
  }

  // Whether outputs have the sizes that their declared dims say. Where not, the inputs only happened to run, by broadcasting.
  bool has_declared_sizes(const std::vector<Value>& outputs, const Sizes& sizes) const {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const ValueType& type = original_.graph.outputs[i].type;
      if (!outputs[i].is_tensor() || !type.shape || type.kind != ValueType::Kind::kTensor) continue;
      const Shape& dims = outputs[i].tensor().dims();
      for (std::size_t d = 0; d < std::min(dims.size(), type.shape->size()); ++d) {
        const auto* name = std::get_if<std::string>(&(*type.shape)[d]);
        const auto size = name ? evaluate_dim(*name, sizes) : std::nullopt;
        if (size && *size != dims[d]) return false;
      }
    }
    return true;
  }

  void given() {
    if (attempt(*options_.inputs, {}) == Try::kRefused)
      fail(VerifyStatus::kNotRun, fmt::format("the original model refuses the given inputs: {}", refusal_));
  }

  bool cancelled() {
    if (options_.cancel == nullptr || !*options_.cancel) return false;
    fail(VerifyStatus::kCancelled, "interrupted");
    return true;
  }

  bool over() { return cancelled() || wall_seconds() - started_ > options_.seconds; }

  // One case at these sizes. Cases differ in their random numbers; the second has positive floats and masks without zeros.
  Try one_case(const InputDrawer& drawer, const Sizes& sizes, DrawStyle style) {
    style.positive = style.positive || report_.cases.size() == 1;
    style.full_masks = style.full_masks || report_.cases.size() == 1;
    style.float_masks = options_.float_masks;
    harmless_ = (style.ints == IntStyle::kMask && style.whole_tables) || style.ints == IntStyle::kZeros;
    const std::uint64_t seed = options_.seed * 1000003 + report_.cases.size() + 1;
    absl::StatusOr<Inputs> inputs = drawer.draw(sizes, style, seed);
    if (inputs.ok()) {
      const std::size_t avoided = avoided_;
      const Try result = attempt(*inputs, sizes);
      if (avoided_ == avoided) return result;
      style.hiding = true;
      inputs = drawer.draw(sizes, style, seed);
      if (inputs.ok()) return attempt(*inputs, sizes);
    }
    ++report_.refused;
    one_place_ = false;
    if (refusal_.empty()) refusal_ = std::string(inputs.status().message());
    if (!unsupported(inputs.status())) return Try::kRefused;
    fail(VerifyStatus::kNotRun, std::string(inputs.status().message()));
    return Try::kStop;
  }

  void search() {
    InputDrawer drawer(original_, options_.sizes);
    for (const auto& [input, dims] : options_.input_shapes)
      if (const auto problem = drawer.fix(input, dims)) {
        fail(VerifyStatus::kNotRun, *problem);
        return;
      }
    try_plans(drawer);
    if (report_.cases.empty() && report_.status == VerifyStatus::kEqual && (misdeclared_ > 0 || avoided_ > 0)) {
      as_declared_ = as_declared_ && misdeclared_ == 0;  // its own outputs never have the declared sizes
      full_rows_ = full_rows_ && avoided_ == 0;
      report_.refused = 0;
      try_plans(drawer);
    }
    if (report_.cases.empty() && report_.status == VerifyStatus::kEqual) try_model_sizes(drawer);
    if (report_.cases.empty() && report_.status == VerifyStatus::kEqual) {
      report_.refuses_all = one_place_ && misdeclared_ == 0 && harmless_refused_ >= kEnoughHarmless;
      fail(VerifyStatus::kNotRun,
           fmt::format("no random inputs found that the original model accepts ({} tries); the first was refused: {}", report_.refused,
                       refusal_));
    }
  }

  void try_plans(const InputDrawer& drawer) {
    const std::size_t wanted = drawer.symbols().empty() ? 2 : std::size(kBases);
    for (const CasePlan& plan : plans(drawer.symbols(), drawer.twins())) {
      if (!report_.cases.empty() && (!plan.likely || report_.refused > kEnoughTries))
        break;  // something to compare, at fewer sizes than wished for
      follow(drawer, plan);
      if (report_.cases.size() >= wanted || report_.status != VerifyStatus::kEqual || over() || report_.refused > kMaxTries) break;
    }
    if (taken_ && !taken_->spacious && report_.status == VerifyStatus::kEqual && takes_images_of_any_size(original_) && !over())
      one_case(drawer, assign(drawer.symbols(), kImage, taken_->relation, taken_->twins), taken_->style);
  }

  // Sizes that were written into the model when it was traced, though its inputs leave them open.
  void try_model_sizes(const InputDrawer& drawer) {
    for (const Sizes& sizes : sizes_in_model(original_, drawer.symbols(), kModelSizes)) {
      if (over()) return;
      if (one_case(drawer, sizes, {}) == Try::kRefused) continue;
      if (report_.status == VerifyStatus::kEqual) one_case(drawer, sizes, {});  // of other numbers
      return;
    }
  }

  void follow(const InputDrawer& drawer, const CasePlan& plan) {
    const std::span<const Base> bases = plan.spacious ? std::span<const Base>(kSpacious) : std::span<const Base>(kBases);
    const std::size_t rounds = drawer.symbols().empty() ? 2 : bases.size();
    const std::size_t enough = plan.spacious ? 2 : rounds;
    for (std::size_t b = 0; b < rounds && report_.cases.size() < enough; ++b) {
      const Sizes sizes = assign(drawer.symbols(), bases[b], plan.relation, plan.twins);
      const auto same = [&](const VerifyCase& c) { return !sizes.empty() && c.sizes == sizes; };
      if (std::any_of(report_.cases.begin(), report_.cases.end(), same)) continue;
      const Try result = one_case(drawer, sizes, plan.style);
      if (result == Try::kCompared && !taken_) taken_ = plan;
      if (result == Try::kStop || over()) return;
      // Size 1 fits by broadcasting where the relation is wrong: it counts only where other sizes fit too.
      if (!plan.spacious && result == Try::kRefused && b == 0) return;
    }
  }

  const Model& original_;
  const Model& optimized_;
  const VerifyOptions& options_;
  Tolerances tolerances_;
  double started_;
  std::optional<Session> first_, second_;
  std::set<std::string> random_;
  std::string refusal_;
  bool one_place_ = true, harmless_ = false;
  std::size_t harmless_refused_ = 0;
  bool as_declared_ = true;
  bool full_rows_ = options_.full_rows;
  std::optional<CasePlan> taken_;  // the first that gave a case
  std::size_t misdeclared_ = 0, avoided_ = 0;
  VerifyReport report_;
};

}  // namespace

double VerifyReport::max_abs() const {
  double largest = 0;
  for (const VerifyCase& c : cases)
    for (const OutputComparison& o : c.outputs)
      if (!o.random) largest = std::max(largest, o.max_abs);
  return largest;
}

std::string to_string(const Sizes& sizes) {
  std::vector<std::string> parts;
  for (const auto& [symbol, size] : sizes) parts.push_back(fmt::format("{}={}", symbol, size));
  return fmt::format("{}", fmt::join(parts, ", "));
}

VerifyReport verify(const Model& original, const Model& optimized, const VerifyOptions& options) {
  return Verifier(original, optimized, options).run();
}

}  // namespace saturate
