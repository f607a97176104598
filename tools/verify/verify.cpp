#include "tools/verify/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/runtime/runtime.h"
#include "tools/verify/empty_rows.h"
#include "tools/verify/model_sizes.h"
#include "tools/verify/noise.h"
#include "tools/verify/parts.h"
#include "tools/verify/ties.h"
#include "tools/verify/trial.h"
#include "tools/verify/verify_plans.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxTries = 1000;
constexpr std::size_t kMaxTriesOfRank = 100;  // where ranks are tried, too
constexpr std::size_t kEnoughTries = 30;      // where there is a case already
constexpr std::size_t kModelSizes = 256;      // of those that stand in the model
// Of cases beyond the usual: what a run may take, for a large integer may turn out to be a size or a number of turns.
constexpr std::size_t kMemoryBeyond = std::size_t{512} << 20;
constexpr double kSecondsBeyond = 5;
constexpr std::string_view kUndecided = "; time was over before it was known what rounding makes there (--time-limit gives more)";

bool unsupported(const absl::Status& status) { return status.code() == absl::StatusCode::kUnimplemented; }
bool out_of_bounds(const absl::Status& status) { return absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status); }
bool is_beyond(CaseKind kind) { return kind != CaseKind::kUsual && kind != CaseKind::kGiven; }

bool all_ok(const VerifyCase& c) {
  return std::all_of(c.outputs.begin(), c.outputs.end(), [](const OutputComparison& o) { return o.ok; });
}

class Verifier {
 public:
  Verifier(const Model& original, const Model& optimized, const VerifyOptions& options)
      : original_(original), optimized_(optimized), options_(options), tolerances_(options.tolerances), started_(steady_seconds()) {
    open_ = options.runtime ? options.runtime.open : open_here(session_options());
    report_.runtime = options.runtime.name;
    const std::vector<std::string> names = random_outputs(original);
    random_ = {names.begin(), names.end()};
    tolerances_.coarsest = coarsest_float(original);
    floats_given_ = InputDrawer(original).has_floats();
    if (has_quantizers(original)) moves_ = options.moves;
    if (allows_steps()) steps_ = steps_of_outputs(original);
  }

  VerifyReport run() {
    if (prepare()) options_.inputs.empty() ? search() : given();
    if (report_.status == VerifyStatus::kEqual) ask_what_was_compared();
    for (const std::string& name : random_)
      note("output '{}' depends on random operators without a seed: only its type and shape were compared", name);
    note_outputs();
    if (!by_trial_.empty()) note("no rank is known of some inputs; taken by trial: {}", fmt::join(by_trial_, ", "));
    report_.seconds = steady_seconds() - started_;
    return std::move(report_);
  }

 private:
  bool fail(VerifyStatus status, std::string message) {
    report_.status = status;
    report_.message = std::move(message);
    return false;
  }

  template <typename... Parts>
  void note(fmt::format_string<Parts...> text, Parts&&... parts) {
    report_.notes.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }

  // "Equal" is said only where a number was looked at, or where the user's own sizes leave none.
  void ask_what_was_compared() {
    const auto zero = [](const auto& size) { return size.second == 0; };
    bool any = std::any_of(options_.sizes.begin(), options_.sizes.end(), zero) || original_.graph.outputs.empty();
    for (const VerifyCase& c : report_.cases)
      for (const OutputComparison& o : c.outputs) any = any || (!o.random && o.elements > 0);
    for (const ValueInfo& output : original_.graph.outputs)
      if (output.type.shape)
        for (const DimSpec& dim : *output.type.shape) any = any || dim == DimSpec(std::int64_t{0});
    if (any || report_.cases.empty()) return;
    const bool chance = random_.size() == original_.graph.outputs.size();
    fail(VerifyStatus::kNotRun, chance ? "all outputs depend on random operators without a seed, so that nothing can be compared"
                                       : "no output had an element in any case, so that nothing was compared");
  }

  // Outputs of which little was seen.
  void note_outputs() {
    std::set<std::string> nan;
    std::map<std::string, bool> seen;
    for (const VerifyCase& c : report_.cases)
      for (const OutputComparison& o : c.outputs) {
        if (o.all_nan && !is_beyond(c.kind) && nan.insert(o.name).second)
          note("output '{}' was NaN throughout in the original ({})", o.name, to_string(c.sizes));
        if (!o.random) seen[o.name] = seen[o.name] || o.elements > 0;
      }
    for (const auto& [name, any] : seen)
      if (!any) note("output '{}' had no element in any case: nothing of it was compared but its type and shape", name);
  }

  SessionOptions session_options() const {
    SessionOptions options;
    options.threads = options_.threads;
    options.cancel = options_.cancel;
    options.prepare = false;  // nothing is run often, and both models' weights would be held a second time
    options.keep_results = false;
    return options;
  }

  RunLimits limits(CaseKind kind) const {
    const double deadline = started_ + options_.seconds;
    if (!is_beyond(kind)) return {options_.memory, deadline};
    return {std::min(options_.memory, kMemoryBeyond), std::min(deadline, steady_seconds() + kSecondsBeyond)};
  }

  // To measure noise: a model that ran once on these inputs takes as long again. All cases together get as long again as the cases
  // themselves.
  RunLimits limits_of_noise(CaseKind kind) const { return {limits(kind).memory, steady_seconds() + seconds_of_noise_}; }

  bool open(const Model& model, const char* which, RunOnce& run) {
    absl::StatusOr<RunOnce> made = open_(model);
    if (made.ok()) {
      run = *std::move(made);
      return true;
    }
    if (absl::IsCancelled(made.status())) return fail(VerifyStatus::kCancelled, "interrupted");
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

  Try refused(CaseKind kind) {
    if (!is_beyond(kind)) ++report_.refused;
    return Try::kRefused;
  }

  Try attempt(const Inputs& inputs, const Sizes& sizes, CaseKind kind) {
    const absl::StatusOr<Ran> first = first_(inputs, limits(kind));
    if (cancelled()) return Try::kStop;
    if (!first.ok()) return original_failed(first.status(), kind);
    const std::vector<Value>& wanted = first->outputs;
    if (as_declared_ && !has_declared_sizes(wanted, sizes)) {
      misdeclared_ += !is_beyond(kind);
      return refused(kind);
    }
    const absl::StatusOr<Ran> second = second_(inputs, limits(kind));
    if (cancelled()) return Try::kStop;
    if (!second.ok()) return optimized_failed(second.status(), wanted, inputs, sizes, kind);
    return judge(inputs, wanted, second->outputs, sizes, kind);
  }

  Try original_failed(const absl::Status& status, CaseKind kind) {
    if (is_beyond(kind)) return Try::kRefused;
    if (unsupported(status)) {
      fail(VerifyStatus::kUnsupported, fmt::format("the original model: {}", std::string(status.message())));
      return Try::kStop;
    }
    if (absl::IsDeadlineExceeded(status)) {
      out_of_time();
      return Try::kStop;
    }
    if (refusal_.empty()) refusal_ = std::string(status.message());
    return refused(kind);
  }

  void out_of_time() {
    if (report_.cases.empty())
      fail(VerifyStatus::kNotRun, fmt::format("no case was compared within {:.6g} s; --time-limit gives more", options_.seconds));
    else
      note("verification ended after {:.6g} s, with fewer cases than usual", steady_seconds() - started_);
  }

  Try optimized_failed(const absl::Status& status, const std::vector<Value>& wanted, const Inputs& inputs, const Sizes& sizes,
                       CaseKind kind) {
    const std::string message(status.message());
    if (is_beyond(kind) && (out_of_bounds(status) || unsupported(status))) return Try::kRefused;
    if (absl::IsDeadlineExceeded(status)) {
      out_of_time();
      return Try::kStop;
    }
    if (kind == CaseKind::kUsual && !unsupported(status) && gives_nothing(wanted)) {
      note("at {} an output of the original is empty, and the optimized model fails: {}", to_string(sizes), message);
      return refused(kind);
    }
    const std::string where = sizes.empty() ? "" : " at " + to_string(sizes);
    if (unsupported(status)) {
      fail(VerifyStatus::kUnsupported, fmt::format("the optimized model{} can't be run: {}", where, message));
    } else {
      differs(inputs, kind);
      report_.message = fmt::format("the optimized model{} fails where the original runs: {}", where, message);
    }
    return Try::kStop;
  }

  void differs(const Inputs& inputs, CaseKind kind) {
    report_.status = VerifyStatus::kDifferent;
    report_.failed_on = inputs;
    report_.failed_kind = kind;
  }

  Try judge(const Inputs& inputs, const std::vector<Value>& wanted, const std::vector<Value>& got, const Sizes& sizes, CaseKind kind) {
    VerifyCase result = compared(wanted, got, sizes, kind, {});
    allow_for_noise(inputs, wanted, got, result);
    allow_for_ties(inputs, wanted, got, result);
    if (cancelled()) return Try::kStop;
    const unsigned outside = all_ok(result) ? kExcludesNothing : excluded_rows(inputs, wanted, got, result) | cut_off_;
    const bool undecided = !all_ok(result) && seconds_of_noise_ <= 0;
    if (!all_ok(result) && is_beyond(kind)) {
      if (undecided) note("a case {} was passed over: time was over before it was known what rounding makes there", to_string(kind));
      if (undecided || outside || is_no_difference(inputs, kind)) return Try::kRefused;
    }
    if (outside && kind == CaseKind::kUsual) {
      ++avoided_;
      met_ |= outside;
      if (!first_avoided_) first_avoided_ = Avoided{inputs, sizes};
      return refused(kind);
    }
    for (const OutputComparison& o : result.outputs) {
      if (o.ok || report_.status != VerifyStatus::kEqual) continue;
      differs(inputs, kind);
      report_.breaks = outside | (options_.excluded & ~excluded_);
      const std::string of_kind = is_beyond(kind) ? ", " + std::string(to_string(kind)) : "";
      report_.message = fmt::format("output '{}'{}{}: {}{}{}", o.name, sizes.empty() ? "" : " at " + to_string(sizes), of_kind, o.why,
                                    said_of(outside), undecided ? kUndecided : std::string_view());
    }
    if (report_.cases.empty() && options_.inputs.empty())
      by_trial_ = shapes_taken(original_, inputs, [this](const ValueInfo& input) {
        const auto same = [&](const auto& given) { return given.first == input.name; };
        return has_no_rank(input) && std::none_of(options_.input_shapes.begin(), options_.input_shapes.end(), same);
      });
    report_.cases.push_back(std::move(result));
    if (options_.keep_inputs) report_.inputs.push_back(inputs);
    if (options_.progress) options_.progress(report_.cases.size());
    return report_.status == VerifyStatus::kEqual ? Try::kCompared : Try::kStop;
  }

  // Far from 0 the original may overflow or underflow on the way, where an equal formula does not.
  bool is_no_difference(const Inputs& inputs, CaseKind kind) const {
    return kind == CaseKind::kFar && leaves_its_range(original_, session_options(), limits(kind), inputs);
  }

  static std::string said_of(unsigned excluded) {
    if (excluded & kBeyondQuantizers) return " (a quantizer that was left out cuts off much of what it reads)";
    for (const Assumption& a : known_assumptions())
      if (a.excludes & excluded)
        return fmt::format(" (the inputs mask a row of scores as a whole; --no-assume {} keeps what becomes of it)", a.name);
    return "";
  }

  // What of the excluded the rows of scores are that the original hides as a whole, where that may be why outputs differ.
  unsigned excluded_rows(const Inputs& inputs, const std::vector<Value>& wanted, const std::vector<Value>& got,
                         const VerifyCase& result) const {
    unsigned found = kExcludesNothing;
    if ((excluded_ & kInfiniteRows) && differs_by_nan(inputs, wanted, got, result)) found |= kInfiniteRows;
    const unsigned of_numbers = excluded_ & (kHiddenRows | (result.kind == CaseKind::kFar ? kLowScores : kExcludesNothing));
    if (of_numbers && has_hidden_row(original_, inputs, session_options(), HiddenBy::kNumbers)) found |= of_numbers;
    return found;
  }

  // Whether outputs differ only where the original gives NaN, or lost one of a row that is hidden as a whole on the way (ArgMax).
  bool differs_by_nan(const Inputs& inputs, const std::vector<Value>& wanted, const std::vector<Value>& got,
                      const VerifyCase& result) const {
    const VerifyCase finite = compared(wanted, got, result.sizes, result.kind, {.only_finite = true});
    bool lost = false;
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      if (result.outputs[i].ok) continue;
      const bool has_nan = result.outputs[i].nans > 0;
      if (has_nan && !finite.outputs[i].ok) return false;
      lost = lost || !has_nan;
    }
    return !lost || has_hidden_row(original_, inputs, session_options(), HiddenBy::kInfinity);
  }

  const Value& of_same_name(const std::vector<Value>& values, const std::string& name) const {
    const auto same = [&](const ValueInfo& o) { return o.name == name; };
    const auto& outputs = optimized_.graph.outputs;
    return values[static_cast<std::size_t>(std::find_if(outputs.begin(), outputs.end(), same) - outputs.begin())];
  }

  // A model may make much of a rounding (a softmax of scores of 10^5). The original differs from itself when it is computed in double
  // precision, or when its inputs or weights move by one unit in the last place. Where outputs differ by no more than a few times that,
  // nothing is wrong. Where floats are rounded to few steps (quantization) most moves change nothing and some change much.
  void allow_for_noise(const Inputs& inputs, const std::vector<Value>& wanted, const std::vector<Value>& got, VerifyCase& result) {
    if (all_ok(result) || (tolerances_are_given() && options_.steps == 0)) return;
    const auto same_form = [](const OutputComparison& o) { return o.ok || o.mismatches > 0; };
    if (!std::all_of(result.outputs.begin(), result.outputs.end(), same_form)) return;
    const double start = steady_seconds();
    measure_and_allow(inputs, wanted, got, result);
    seconds_of_noise_ -= steady_seconds() - start;
  }

  // Then nothing but steps excuses what lies beyond them, and no noise is measured.
  bool tolerances_are_given() const { return tolerances_.rtol || tolerances_.atol; }

  void measure_and_allow(const Inputs& inputs, const std::vector<Value>& wanted, const std::vector<Value>& got, VerifyCase& result) {
    const bool given = tolerances_are_given();
    std::vector<Noise> noise(wanted.size());
    const NoiseOf original{
        original_, first_, open_, session_options(), limits_of_noise(result.kind), inputs, wanted, result.kind == CaseKind::kQuantized};
    const auto is_rounding = [&] {
      const VerifyCase before = result;
      result = compared(wanted, got, result.sizes, result.kind, {.noise = &noise});
      keep_what_is_ok(before, result);
      return all_ok(result) || cancelled();
    };
    const auto told = [&](const VerifyCase& before) {
      note_allowed(before, result, "by rounding, for the original computed more exactly or beside its inputs");
      return all_ok(result) || cancelled();
    };
    VerifyCase before = result;
    if (!given) measure_noise(original, noise, is_rounding);
    if (told(before)) return;
    std::vector<Noise> of_steps = noise;  // what steps make excuses no more than steps
    if (allows_steps() && allow_for_steps(original, wanted, got, given, of_steps, result)) return;
    if (given || cancelled()) return;
    before = result;
    measure_exactly(original, {&noise, &of_steps});
    is_rounding();
    if (!told(before) && allows_steps()) allow_for_steps(original, wanted, got, true, of_steps, result);
  }

  // Whether nothing is left to ask. `measured`: no further runs teach the noise.
  bool allow_for_steps(const NoiseOf& original, const std::vector<Value>& wanted, const std::vector<Value>& got, bool measured,
                       std::vector<Noise>& noise, VerifyCase& result) {
    const VerifyCase before = result;
    const auto again = [&] {
      result = compared(wanted, got, result.sizes, result.kind, {.noise = &noise, .in_steps = true});
      keep_what_is_ok(before, result);
      return all_ok(result) || cancelled();
    };
    if (!again() && !measured) measure_steps(original, std::max(moves_, StepMoves::kSome), noise, again);
    if (all_ok(result) && moves_ == StepMoves::kLeftOut && !is_beyond(result.kind) && has_much_cut_off(original, result.kind)) {
      result = before;
      return true;
    }
    note_allowed(before, result, "by steps of quantized values, for the original with such values moved by a step");
    return all_ok(result) || cancelled();
  }

  static void keep_what_is_ok(const VerifyCase& before, VerifyCase& result) {
    for (std::size_t i = 0; i < result.outputs.size(); ++i)
      if (before.outputs[i].ok) result.outputs[i] = before.outputs[i];
  }

  // Whether the user's inputs break the assumption that quantizers hold their values, where rules have left quantizers out. Of drawn inputs
  // that says little: no calibration saw them.
  bool has_much_cut_off(const NoiseOf& original, CaseKind kind) {
    const std::optional<CutOff> cut = most_cut_off(original);
    if (!cut) return false;
    if (kind == CaseKind::kGiven) cut_off_ = kBeyondQuantizers;
    if (cut_off_ == 0 && std::exchange(told_of_cut_off_, true) == false)
      note(
          "of the numbers that were drawn, quantizer '{}' cuts off {:.0f} %, and it may be left out; --inputs FILE asks with numbers of "
          "yours",
          cut->quantizer, 100 * cut->share);
    return cut_off_ != 0;
  }

  void note_allowed(const VerifyCase& before, const VerifyCase& after, std::string_view why) {
    const std::string kind = is_beyond(after.kind) ? " " + std::string(to_string(after.kind)) : "";
    for (std::size_t i = 0; i < after.outputs.size(); ++i) {
      const OutputComparison& o = after.outputs[i];
      if (before.outputs[i].ok || !o.ok) continue;
      if (o.step > 0)
        note("output '{}' differs by up to {:.3g} step{} of {:.3g}, in {} of {} elements{}", o.name, o.steps, o.steps > 1.02 ? "s" : "",
             o.step, o.moved, o.elements, kind);
      else
        note("output '{}' differs by up to {:.2e}{}: {} differs from itself as much", o.name, o.max_abs, kind, why);
    }
  }

  bool allows_steps() const { return options_.steps > 0 || moves_ != StepMoves::kNone; }

  // How an output may differ by steps of quantized values.
  StepRule step_rule(const std::string& output) const {
    const auto it = steps_.find(output);
    if (it == steps_.end()) return {};
    if (options_.steps > 0) return {it->second, static_cast<double>(options_.steps), 1};
    return {it->second, 1, kShareMoved};
  }

  // Where several elements are the largest but for rounding, ArgMax and TopK may name any of them.
  void allow_for_ties(const Inputs& inputs, const std::vector<Value>& wanted, const std::vector<Value>& got, VerifyCase& result) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      OutputComparison& o = result.outputs[i];
      if (o.ok || o.mismatches == 0 || !wanted[i].is_tensor() || !has_no_floats(wanted[i])) continue;
      const Tensor& other = of_same_name(got, o.name).tensor();
      if (!differs_by_ties(original_, o.name, inputs, session_options(), wanted[i].tensor(), other)) continue;
      o.ok = true;
      note("output '{}' names other elements than the original, as large but for rounding ({})", o.name, to_string(result.sizes));
    }
  }

  struct How {
    const std::vector<Noise>* noise = nullptr;
    bool only_finite = false, in_steps = false;
  };

  VerifyCase compared(const std::vector<Value>& wanted, const std::vector<Value>& got, const Sizes& sizes, CaseKind kind,
                      const How& how) const {
    VerifyCase result;
    result.sizes = sizes;
    result.kind = kind;
    Tolerances tolerances = tolerances_;
    tolerances.only_finite = how.only_finite || kind == CaseKind::kSpecial;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::string& name = original_.graph.outputs[i].name;
      const Value& other = of_same_name(got, name);
      const bool random = random_.contains(name);
      const bool of_specials = kind == CaseKind::kSpecial && floats_given_ && has_no_floats(wanted[i]);  // ArgMax of NaN is anything
      const StepRule steps = step_rule(name);
      result.outputs.push_back(random || of_specials
                                   ? compare_kinds(name, wanted[i], other)
                                   : compare_values(name, wanted[i], other, tolerances, how.noise ? &(*how.noise)[i] : nullptr,
                                                    how.in_steps ? &steps : nullptr));
      result.outputs.back().random = random;
    }
    return result;
  }

  static bool has_no_floats(const Value& value) { return value.is_tensor() && !is_floating(value.tensor().dtype()); }

  // Inputs are never empty when they are drawn: sizes of 0 come from convolutions and the like that find no room.
  static bool gives_nothing(const std::vector<Value>& outputs) {
    return std::any_of(outputs.begin(), outputs.end(), [](const Value& v) { return v.is_tensor() && v.tensor().size() == 0; });
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
    for (const Inputs& inputs : options_.inputs) {
      const Try result = attempt(inputs, {}, options_.given);
      if (result == Try::kRefused && options_.given == CaseKind::kGiven)
        fail(VerifyStatus::kNotRun, fmt::format("the original model refuses the given inputs: {}", refusal_));
      if (result != Try::kCompared) return;
    }
  }

  bool cancelled() {
    if (options_.cancel == nullptr || !*options_.cancel) return false;
    fail(VerifyStatus::kCancelled, "interrupted");
    return true;
  }

  bool over() { return cancelled() || steady_seconds() - started_ > options_.seconds; }

  std::uint64_t seed() const { return options_.seed * 1000003 + report_.cases.size() + 1; }

  // One case at these sizes. Cases differ in their random numbers; the second has positive floats and masks without zeros.
  Try one_case(const InputDrawer& drawer, const Sizes& sizes, DrawStyle style) {
    style.positive = style.positive || report_.cases.size() == 1;
    style.full_masks = style.full_masks || report_.cases.size() == 1;
    style.float_masks = excludes(kOtherTruths);
    style.held = excludes(kBeyondQuantizers);
    const std::uint64_t own_seed = seed();
    absl::StatusOr<Inputs> inputs = drawer.draw(sizes, style, own_seed);
    if (inputs.ok()) {
      const std::size_t avoided = avoided_;
      const Try result = attempt(*inputs, sizes, CaseKind::kUsual);
      if (avoided_ == avoided) return result;
      style.hiding = true;
      inputs = drawer.draw(sizes, style, own_seed);
      if (inputs.ok()) return attempt(*inputs, sizes, CaseKind::kUsual);
    }
    if (refusal_.empty()) refusal_ = std::string(inputs.status().message());
    if (!unsupported(inputs.status())) return refused(CaseKind::kUsual);
    fail(VerifyStatus::kNotRun, std::string(inputs.status().message()));
    return Try::kStop;
  }

  bool excludes(Excluded what) const { return (excluded_ & what) != 0; }
  bool found() const { return !report_.cases.empty() || report_.status != VerifyStatus::kEqual; }

  void search() {
    InputDrawer drawer(original_, options_.sizes);
    for (const auto& [input, dims] : options_.input_shapes)
      if (const auto problem = drawer.fix(input, dims)) {
        fail(VerifyStatus::kNotRun, *problem);
        return;
      }
    if (!drawer.has_unknown_rank()) search_with(drawer);
    if (!found()) {
      most_tries_ = kMaxTriesOfRank;
      for (const InputDrawer& other : drawer.alternatives()) {
        if (found() || over()) break;
        search_with(other);
      }
    }
    if (found()) return;
    const char* ranks = drawer.has_unknown_rank() ? ", though ranks were tried for inputs that have none" : "";
    const char* text = "no random inputs found that the original model accepts ({} tries){}; the first was refused: {}";
    fail(VerifyStatus::kNotRun, fmt::format(fmt::runtime(text), report_.refused, ranks, refusal_));
  }

  // Where the models differ at all sizes but those at which there is nothing to hide (one key), and do so with masks that hide nothing,
  // too: the model itself hides rows as a whole.
  void ask_what_was_avoided(const InputDrawer& drawer) {
    if (!first_avoided_ || report_.cases.empty() || report_.status != VerifyStatus::kEqual) return;
    for (const VerifyCase& c : report_.cases) {
      bool as_large = true;
      for (const auto& [symbol, size] : first_avoided_->sizes) as_large = as_large && (size <= 1 || c.sizes.at(symbol) > 1);
      if (as_large) return;
    }
    for (const IntStyle ints : {IntStyle::kOnes, IntStyle::kZeros})
      if (one_case(drawer, first_avoided_->sizes, {ints, true}) != Try::kRefused) return;
    excluded_ &= ~met_;
    report_.cases.clear();
    report_.inputs.clear();
    attempt(first_avoided_->inputs, first_avoided_->sizes, CaseKind::kUsual);
  }

  void search_with(const InputDrawer& drawer) {
    refused_before_ = report_.refused;
    taken_.reset();
    first_avoided_.reset();
    try_plans(drawer);
    ask_what_was_avoided(drawer);
    if (!found() && (misdeclared_ > 0 || avoided_ > 0)) {
      as_declared_ = as_declared_ && misdeclared_ == 0;  // its own outputs never have the declared sizes
      excluded_ &= ~met_;
      refused_before_ = report_.refused;
      try_plans(drawer);
    }
    if (!found()) try_model_sizes(drawer);
    if (!report_.cases.empty() && report_.status == VerifyStatus::kEqual && !over()) try_beyond(drawer);
  }

  std::size_t tries() const { return report_.refused - refused_before_; }

  void try_plans(const InputDrawer& drawer) {
    const std::size_t wanted = drawer.symbols().empty() ? 2 : 4;
    for (const VerifyPlan& plan : plans(drawer.symbols(), drawer.twins())) {
      if (!report_.cases.empty() && (!plan.likely || tries() > kEnoughTries))
        break;  // something to compare, at fewer sizes than wished for
      follow(drawer, plan);
      if (report_.cases.size() >= wanted || report_.status != VerifyStatus::kEqual || over() || tries() > most_tries_) break;
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

  void follow(const InputDrawer& drawer, const VerifyPlan& plan) {
    const std::span<const Base> bases = bases_of(plan);
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

  // Cases beyond what is usual, at sizes that the original has taken.
  void try_beyond(const InputDrawer& drawer) {
    if (!options_.runtime) try_far_and_empty(drawer);
    if (!taken_) return;
    if (const auto big = long_sizes(original_, drawer.symbols(), *taken_)) one_beyond(drawer, *big, taken_->style, CaseKind::kLong);
  }

  void try_far_and_empty(const InputDrawer& drawer) {
    const Sizes sizes = report_.cases.front().sizes;
    const DrawStyle style = taken_ ? taken_->style : DrawStyle{};
    // No calibrated quantizer holds what lies far from 0, and a part of it lies near 0.
    if (drawer.has_reach() && !excludes(kBeyondQuantizers) && !excludes(kShortRows))
      for (const std::int64_t phase : {0, 2}) {
        far_case(drawer, sizes, style, CaseKind::kFar, phase);
        if (!excludes(kNotFinite) && phase == 0) far_case(drawer, sizes, style, CaseKind::kSpecial, phase);
      }
    if (drawer.has_quantizers()) {
      DrawStyle at_edges = style;
      at_edges.reach = Reach::kQuantized;
      one_beyond(drawer, sizes, at_edges, CaseKind::kQuantized);
    }
    if (!taken_) return;
    for (const Sizes& empty : excludes(kEmptySizes) ? std::vector<Sizes>() : sizes_with_zero(drawer.symbols(), *taken_))
      one_beyond(drawer, empty, style, CaseKind::kEmpty);
  }

  void far_case(const InputDrawer& drawer, const Sizes& sizes, DrawStyle style, CaseKind kind, std::int64_t phase) {
    style.reach = kind == CaseKind::kFar ? Reach::kScaled : Reach::kSpecial;
    style.phase = phase;
    style.usual_ints = excludes(kLargeIntegers);
    if (one_beyond(drawer, sizes, style, kind) != Try::kRefused || style.usual_ints || !drawer.has_floats()) return;
    style.usual_ints = true;
    one_beyond(drawer, sizes, style, kind);
  }

  Try one_beyond(const InputDrawer& drawer, const Sizes& sizes, DrawStyle style, CaseKind kind) {
    if (report_.status != VerifyStatus::kEqual || over()) return Try::kStop;
    style.float_masks = excludes(kOtherTruths);
    style.held = excludes(kBeyondQuantizers);
    const absl::StatusOr<Inputs> inputs = drawer.draw(sizes, style, seed());
    return inputs.ok() ? attempt(*inputs, sizes, kind) : Try::kRefused;
  }

  const Model& original_;
  const Model& optimized_;
  const VerifyOptions& options_;
  Tolerances tolerances_;
  double started_;
  OpenModel open_;
  RunOnce first_, second_;
  std::set<std::string> random_;
  StepMoves moves_ = StepMoves::kNone;
  std::map<std::string, double> steps_;  // of outputs that hold quantized values
  std::string refusal_;
  std::vector<std::string> by_trial_;  // shapes that the first case took for inputs without a rank
  bool as_declared_ = true;
  bool floats_given_ = false;              // some input is of floats
  unsigned excluded_ = options_.excluded;  // less what turns out to be the model's own
  unsigned met_ = kExcludesNothing;        // of the excluded, by usual inputs
  unsigned cut_off_ = kExcludesNothing;    // kBeyondQuantizers: by the user's inputs
  bool told_of_cut_off_ = false;
  double seconds_of_noise_ = options_.seconds;  // left to measure it
  std::optional<VerifyPlan> taken_;             // the first that gave a case
  struct Avoided {
    Inputs inputs;
    Sizes sizes;
  };
  std::optional<Avoided> first_avoided_;
  std::size_t misdeclared_ = 0, avoided_ = 0, refused_before_ = 0, most_tries_ = kMaxTries;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify(const Model& original, const Model& optimized, const VerifyOptions& options) {
  VerifyReport report = Verifier(original, optimized, options).run();
  const bool has_gaps = report.status == VerifyStatus::kUnsupported && !options.runtime;
  return has_gaps ? verify_in_parts(original, optimized, options, std::move(report)) : report;
}

}  // namespace saturate
