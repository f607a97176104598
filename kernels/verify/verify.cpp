#include "kernels/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/compare/empty_rows.h"
#include "kernels/inputs/model_sizes.h"
#include "kernels/judge/judge.h"
#include "kernels/verify/compare_case.h"
#include "kernels/verify/overflow.h"
#include "kernels/verify/parts.h"
#include "kernels/verify/trial.h"
#include "kernels/verify/verdict.h"
#include "kernels/verify/verify_plans.h"

namespace saturate {
namespace {

constexpr std::size_t kMaxTries = 1000;
constexpr std::size_t kMaxTriesOfRank = 100;  // where ranks are tried, too
constexpr std::size_t kEnoughTries = 30;      // where there is a case already
constexpr std::size_t kModelSizes = 256;      // of those that stand in the model
constexpr std::string_view kUndecided = "; time was over before it was known what rounding makes there (--time-limit gives more)";

bool unsupported(const absl::Status& status) { return status.code() == absl::StatusCode::kUnimplemented; }
bool out_of_bounds(const absl::Status& status) { return absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status); }

class Verifier {
 public:
  Verifier(const Model& original, const Model& optimized, const VerifyOptions& options)
      : original_(original), optimized_(optimized), options_(options), run_(original, optimized, options), comparer_(run_, notes_) {
    report_.runtime = options.runtime.name;
  }

  VerifyReport run() {
    if (prepare()) options_.inputs.empty() ? search() : given();
    if (report_.status == VerifyStatus::kEqual) compare_what_overflows();
    if (report_.status == VerifyStatus::kEqual) ask_what_was_compared();
    for (const std::string& name : comparer_.random())
      notes_.tell(name, "depends on random operators without a seed: only type and shape were compared");
    note_outputs();
    if (!by_trial_.empty()) note("no rank is known of some inputs; taken by trial: {}", fmt::join(by_trial_, ", "));
    report_.notes = notes_.lines();
    report_.seconds = steady_seconds() - run_.started;
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
    notes_.add(fmt::format(text, std::forward<Parts>(parts)...));
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
    const bool chance = comparer_.random().size() == original_.graph.outputs.size();
    fail(VerifyStatus::kNotRun, chance ? "all outputs depend on random operators without a seed, so that nothing can be compared"
                                       : "no output had an element in any case, so that nothing was compared");
  }

  // Outputs of which little was seen.
  void note_outputs() {
    std::map<std::string, bool> seen;
    for (const VerifyCase& c : report_.cases)
      for (const OutputComparison& o : c.outputs) {
        if (o.all_nan && !is_beyond(c.kind))
          notes_.tell(o.name, fmt::format("was NaN throughout in the original ({})", to_string(c.sizes)));
        if (!o.random) seen[o.name] = seen[o.name] || o.elements > 0;
      }
    for (const auto& [name, any] : seen)
      if (!any) notes_.tell(name, "had no element in any case: only type and shape were compared");
  }

  // Where the original gives nothing finite on any inputs, not even on small ones: the values on the way, those that are finite and what
  // is made of others where these are replaced by finite ones.
  void compare_what_overflows() {
    if (options_.runtime.open_second) return;
    const auto shows = [](const VerifyCase& c) { return !is_beyond(c.kind) && !gives_no_number(c); };
    if (!last_inputs_ || std::any_of(report_.cases.begin(), report_.cases.end(), shows)) return;
    const OverflowCheck check = compare_around_overflow(run_, *last_inputs_);
    if (check.values == 0) {
      fail(VerifyStatus::kNotRun, "the original gives NaN and infinities throughout, so that nothing was compared");
    } else if (!check.difference.empty()) {
      differs(*last_inputs_, report_.cases.back().kind);
      report_.message = fmt::format("the original gives NaN and infinities throughout, and {}", check.difference);
    } else {
      note("the original gives NaN and infinities throughout: {} values on the way were compared instead", check.values);
    }
  }

  bool open(const OpenModel& open, const Model& model, const char* which, RunOnce& run) {
    absl::StatusOr<RunOnce> made = open(model);
    if (made.ok()) {
      run = *std::move(made);
      return true;
    }
    if (absl::IsCancelled(made.status())) return fail(VerifyStatus::kCancelled, "interrupted");
    const std::string what = fmt::format("the {} model: {}", which, std::string(made.status().message()));
    return fail(unsupported(made.status()) ? VerifyStatus::kUnsupported : VerifyStatus::kNotRun, what);
  }

  bool prepare() {
    const OpenModel& open_second = options_.runtime.open_second ? options_.runtime.open_second : run_.open;
    if (!open(run_.open, original_, "original", run_.first)) return false;
    if (!open(open_second, optimized_, "optimized", run_.second)) {
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

  RunLimits limits(CaseKind kind) const { return run_.limits(kind, !report_.cases.empty(), !patient_); }

  // What one try came to: whether the original took the inputs.
  enum class Try { kRefused, kCompared, kStop };

  Try refused(CaseKind kind) {
    if (!is_beyond(kind)) ++report_.refused;
    return Try::kRefused;
  }

  Try attempt(const Inputs& inputs, const Sizes& sizes, CaseKind kind) {
    const absl::StatusOr<Ran> first = run_.first(inputs, limits(kind));
    if (cancelled()) return Try::kStop;
    if (!first.ok()) return original_failed(first.status(), kind);
    const std::vector<Value>& wanted = first->outputs;
    if (as_declared_ && !has_declared_sizes(original_, wanted, sizes)) {
      misdeclared_ += !is_beyond(kind);
      return refused(kind);
    }
    const absl::StatusOr<Ran> second = run_.second(inputs, limits(kind));
    if (cancelled()) return Try::kStop;
    if (!second.ok()) return optimized_failed(second.status(), wanted, inputs, sizes, kind);
    return judge({inputs, wanted, second->outputs, sizes, kind});
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
    short_of_memory_ += absl::IsResourceExhausted(status);
    if (refusal_.empty()) refusal_ = std::string(status.message());
    return refused(kind);
  }

  static std::string at(const Sizes& sizes) { return sizes.empty() ? "" : " at " + to_string(sizes); }

  // Whether no case was refused but for want of memory.
  bool only_memory_lacks() const { return short_of_memory_ > 0 && short_of_memory_ == report_.refused; }
  std::string too_little_memory() const {
    return fmt::format("no case runs within {} MB, --max-memory gives more: {}", options_.memory >> 20, refusal_);
  }

  void out_of_time() {
    timed_out_ = true;
    if (report_.cases.empty())
      fail(VerifyStatus::kNotRun,
           fmt::format("no case was compared within {:.6g} s{}; --time-limit gives more", run_.seconds(false, tried_small_),
                       tried_small_ ? fmt::format(", nor a small one within {:.6g} s", run_.seconds(false, false)) : ""));
    else
      note("verification ended after {:.6g} s, with fewer cases than usual", steady_seconds() - run_.started);
  }

  Try optimized_failed(const absl::Status& status, const std::vector<Value>& wanted, const Inputs& inputs, const Sizes& sizes,
                       CaseKind kind) {
    const std::string message(status.message());
    if (is_beyond(kind) && (out_of_bounds(status) || unsupported(status))) return Try::kRefused;
    if (absl::IsDeadlineExceeded(status)) {
      out_of_time();
      return Try::kStop;
    }
    if (absl::IsResourceExhausted(status)) {
      ++short_of_memory_;
      note("the optimized model{} takes more memory than the original, and than a run may: {}", at(sizes), message);
      if (refusal_.empty()) refusal_ = "the optimized model: " + message;
      return refused(kind);
    }
    const bool may_be_empty = kind == CaseKind::kUsual || kind == CaseKind::kLong || options_.runtime.open_second;
    if (may_be_empty && !unsupported(status) && !absl::IsAborted(status) && gives_nothing(wanted)) {
      note("at {} an output of the original is empty, and {}: {}", to_string(sizes), kFailsWhereEmpty, message);
      return refused(kind);
    }
    if (unsupported(status)) {
      fail(VerifyStatus::kUnsupported, fmt::format("the optimized model{} can't be run: {}", at(sizes), message));
    } else {
      differs(inputs, kind);
      report_.message = fmt::format("the optimized model{} fails where the original runs: {}", at(sizes), message);
    }
    return Try::kStop;
  }

  void differs(const Inputs& inputs, CaseKind kind) {
    report_.status = VerifyStatus::kDifferent;
    report_.failed_on = inputs;
    report_.failed_kind = kind;
  }

  Try judge(const CaseRun& one) {
    const auto& [inputs, wanted, got, sizes, kind] = one;
    if (overflows(one)) {
      ++avoided_;
      met_ |= kOverflows;
      return refused(kind);
    }
    VerifyCase result = comparer_.judged(one);
    if (cancelled()) return Try::kStop;
    const unsigned outside = all_ok(result) ? kExcludesNothing : excluded_rows(one, result) | comparer_.cut_off();
    const bool undecided = !all_ok(result) && comparer_.is_out_of_time();
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
    if (!is_beyond(kind) && gives_no_number(result) && !has_an_empty_one(inputs)) last_inputs_ = inputs;
    report_.cases.push_back(std::move(result));
    if (options_.keep_inputs) report_.inputs.push_back(inputs);
    if (options_.progress) options_.progress(report_.cases.size());
    return report_.status == VerifyStatus::kEqual ? Try::kCompared : Try::kStop;
  }

  // Far from 0 and at it the original may overflow or underflow on the way, where an equal formula does not. A row that is padding alone
  // means nothing. Scores that are taken to be finite may overflow in the result alone, which spells them out in 16 bits.
  bool is_no_difference(const Inputs& inputs, CaseKind kind) const {
    if (kind == CaseKind::kSwitched) return has_hidden_row(original_, inputs, run_.session_options(), HiddenBy::kNumbers);
    const bool may_leave = kind == CaseKind::kFar || kind == CaseKind::kQuiet || kind == CaseKind::kEdges;
    if (!may_leave) return false;
    return leaves_its_range(original_, run_.session_options(), limits(kind), inputs) ||
           (excludes(kLowScores) && overflows_somewhere(optimized_, run_.session_options(), limits(kind), inputs));
  }

  static std::string said_of(unsigned excluded) {
    if (excluded & kBeyondQuantizers) return " (a quantizer that was left out cuts off much of what it reads)";
    for (const Assumption& a : known_assumptions())
      if (a.excludes & excluded)
        return fmt::format(" (the inputs mask a row of scores as a whole; --no-assume {} keeps what becomes of it)", a.name);
    return "";
  }

  // What of the excluded the rows of scores are that the original hides as a whole, where that may be why outputs differ.
  unsigned excluded_rows(const CaseRun& one, const VerifyCase& result) const {
    unsigned found = kExcludesNothing;
    if ((excluded_ & kInfiniteRows) && differs_by_nan(one, result)) found |= kInfiniteRows;
    const bool is_far = one.kind == CaseKind::kFar || one.kind == CaseKind::kEdges;
    const unsigned of_numbers = excluded_ & (kHiddenRows | (is_far ? kLowScores : kExcludesNothing));
    if (of_numbers && has_hidden_row(original_, one.inputs, run_.session_options(), HiddenBy::kNumbers)) found |= of_numbers;
    return found;
  }

  // Whether outputs differ only where the original gives NaN, or lost one of a row that is hidden as a whole on the way (ArgMax).
  bool differs_by_nan(const CaseRun& one, const VerifyCase& result) const {
    const VerifyCase finite = comparer_.finite_ones(one);
    bool lost = false;
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      if (result.outputs[i].ok) continue;
      const bool has_nan = result.outputs[i].nans > 0;
      if (has_nan && !finite.outputs[i].ok) return false;
      lost = lost || !has_nan;
    }
    return !lost || has_hidden_row(original_, one.inputs, run_.session_options(), HiddenBy::kInfinity);
  }

  // Whether the original gives NaN or infinities of usual numbers, which an assumption excludes.
  bool overflows(const CaseRun& one) const {
    if (one.kind != CaseKind::kUsual || !excludes(kOverflows)) return false;
    return std::any_of(one.wanted.begin(), one.wanted.end(), [](const Value& v) {
      if (!v.is_tensor() || !is_floating(v.tensor().dtype())) return false;
      for (std::int64_t i = 0; i < v.tensor().size(); ++i)
        if (!std::isfinite(element_as_double(v.tensor(), i).value_or(NAN))) return true;
      return false;
    });
  }

  // Inputs are never empty when they are drawn: sizes of 0 come from convolutions and the like that find no room.
  static bool gives_nothing(const std::vector<Value>& outputs) {
    return std::any_of(outputs.begin(), outputs.end(), [](const Value& v) { return v.is_tensor() && v.tensor().size() == 0; });
  }

  void given() {
    for (std::size_t i = 0; i < options_.inputs.size(); ++i) {
      const GivenCase one = i < options_.given.size() ? options_.given[i] : GivenCase();
      const Try result = attempt(options_.inputs[i], one.sizes, one.kind);
      if (result == Try::kRefused && one.kind == CaseKind::kGiven)
        fail(VerifyStatus::kNotRun,
             only_memory_lacks() ? too_little_memory() : fmt::format("the original model refuses the given inputs: {}", refusal_));
      if (result == Try::kStop || report_.status != VerifyStatus::kEqual) return;
    }
  }

  bool cancelled() {
    if (options_.cancel == nullptr || !*options_.cancel) return false;
    fail(VerifyStatus::kCancelled, "interrupted");
    return true;
  }

  bool over() { return cancelled() || steady_seconds() - run_.started > options_.seconds; }

  std::uint64_t seed() const { return options_.seed * 1000003 + report_.cases.size() + 1; }

  // One case at these sizes. Cases differ in their random numbers; the second has positive floats and masks without zeros.
  Try one_case(const InputDrawer& drawer, const Sizes& sizes, DrawStyle style) {
    style.positive = style.positive || report_.cases.size() == 1;
    style.full_masks = style.full_masks || report_.cases.size() == 1;
    style.float_masks = excludes(kOtherTruths);
    style.held = excludes(kBeyondQuantizers);
    if (style.ints != IntStyle::kLength) return one_draw(drawer, sizes, style);
    const auto known = lengths_.find(sizes);
    for (const std::int64_t length : known == lengths_.end() ? drawer.lengths(sizes) : std::vector{known->second}) {
      style.length = length;
      const Try result = one_draw(drawer, sizes, style);
      if (result != Try::kRefused) lengths_[sizes] = length;
      if (result != Try::kRefused || over()) return result;
    }
    return Try::kRefused;
  }

  // kDeadlineExceeded where the time of the case is over before all is drawn.
  absl::StatusOr<Inputs> drawn(const InputDrawer& drawer, const Sizes& sizes, const DrawStyle& style, std::uint64_t own_seed) const {
    const StopSign sign{options_.cancel, limits(CaseKind::kUsual).deadline};
    const StopScope scope(&sign);
    try {
      return drawer.draw(sizes, style, own_seed);
    } catch (const Stopped&) {
      return sign.status();
    }
  }

  Try one_draw(const InputDrawer& drawer, const Sizes& sizes, DrawStyle style) {
    const std::uint64_t own_seed = seed();
    absl::StatusOr<Inputs> inputs = drawn(drawer, sizes, style, own_seed);
    if (inputs.ok()) {
      std::size_t avoided = avoided_;
      Try result = attempt(*inputs, sizes, CaseKind::kUsual);
      if (avoided_ == avoided) return result;
      style.hiding = true;
      inputs = drawn(drawer, sizes, style, own_seed);
      if (inputs.ok() && !(met_ & kOverflows)) return attempt(*inputs, sizes, CaseKind::kUsual);
      for (int tries = 0; inputs.ok() && tries < 2; ++tries) {  // of smaller numbers
        style.scale /= 10;
        inputs = drawn(drawer, sizes, style, own_seed);
        avoided = avoided_;
        result = inputs.ok() ? attempt(*inputs, sizes, CaseKind::kUsual) : Try::kRefused;
        if (avoided_ == avoided) return result;
      }
    }
    if (cancelled()) return Try::kStop;
    if (absl::IsDeadlineExceeded(inputs.status())) {
      out_of_time();
      return Try::kStop;
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
    drawer.see_other(optimized_);
    for (const auto& [input, dims] : options_.input_shapes)
      if (const auto problem = drawer.fix(input, dims)) {
        fail(VerifyStatus::kNotRun, *problem);
        return;
      }
    patient_ = drawer.symbols().empty();  // else there is a smaller case
    if (!drawer.has_unknown_rank()) search_with(drawer);
    if (timed_out_ && report_.cases.empty() && !patient_) try_smallest(drawer);
    if (!found()) {
      most_tries_ = kMaxTriesOfRank;
      for (const InputDrawer& other : drawer.alternatives()) {
        if (found() || over()) break;
        search_with(other);
      }
    }
    if (found()) return;
    if (only_memory_lacks()) {
      fail(VerifyStatus::kNotRun, too_little_memory());
      return;
    }
    const char* ranks = drawer.has_unknown_rank() ? ", though ranks were tried for inputs that have none" : "";
    const char* text = "no random inputs found that the original model accepts ({} tries){}; the first was refused: {}";
    fail(VerifyStatus::kNotRun, fmt::format(fmt::runtime(text), report_.refused, ranks, refusal_));
  }

  // Where the first case took all the time.
  void try_smallest(const InputDrawer& drawer) {
    patient_ = tried_small_ = true;
    report_.status = VerifyStatus::kEqual;
    report_.message.clear();
    Sizes ones;
    for (const std::string& symbol : drawer.symbols()) ones[symbol] = 1;
    if (one_case(drawer, ones, styles_of_integers(drawer).front()) == Try::kRefused) out_of_time();
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
    if (drawer.tells_sizes() && report_.status == VerifyStatus::kEqual && !over() && !has_elements()) try_told_sizes(drawer);
    if (last_inputs_) try_other_numbers(drawer);
    if (!report_.cases.empty() && report_.status == VerifyStatus::kEqual && !over()) try_beyond(drawer);
  }

  std::size_t tries() const { return report_.refused - refused_before_; }

  void try_plans(const InputDrawer& drawer) {
    const std::size_t wanted = drawer.symbols().empty() ? 2 : 4;
    for (const VerifyPlan& plan : plans(drawer)) {
      if (!report_.cases.empty() && (!plan.likely || tries() > kEnoughTries))
        break;  // something to compare, at fewer sizes than wished for
      follow(drawer, plan);
      if (report_.cases.size() >= wanted || report_.status != VerifyStatus::kEqual || over() || tries() > most_tries_) break;
    }
    if (taken_ && !taken_->spacious && report_.status == VerifyStatus::kEqual && takes_images_of_any_size(original_) && !over())
      one_case(drawer, assign(drawer.symbols(), kImage, taken_->relation, taken_->twins), taken_->style);
  }

  // Sizes that were written into the model when it was traced, though its inputs leave them open; with integers of each kind that it asks
  // for, since sizes may hang on them (an If).
  void try_model_sizes(const InputDrawer& drawer) {
    const std::vector<Sizes> candidates = sizes_in_model(original_, drawer.symbols(), kModelSizes);
    for (const DrawStyle& style : styles_of_integers(drawer))
      for (const Sizes& sizes : candidates) {
        if (over() || report_.status != VerifyStatus::kEqual) return;
        if (one_case(drawer, sizes, style) == Try::kRefused) continue;
        if (!taken_) taken_ = VerifyPlan{{}, style};
        if (report_.status == VerifyStatus::kEqual) one_case(drawer, sizes, style);  // of other numbers
        break;
      }
  }

  bool has_elements() const {
    for (const VerifyCase& c : report_.cases)
      for (const OutputComparison& o : c.outputs)
        if (o.elements > 0) return true;
    return false;
  }

  // Where sizes of operators are inputs, and those that were drawn were refused or left outputs empty.
  void try_told_sizes(const InputDrawer& drawer) {
    VerifyPlan plan;
    plan.style.told_sizes = true;
    const std::size_t before = report_.cases.size();
    for (const Base& base : bases_of(plan)) {
      if (over() || report_.status != VerifyStatus::kEqual || report_.cases.size() > before + 1) return;
      const Try result = one_case(drawer, assign(drawer.symbols(), base, plan.relation, plan.twins), plan.style);
      if (result == Try::kStop) return;
      if (result == Try::kCompared) taken_ = plan;
    }
  }

  // Where all outputs of a case are NaN or infinite, the same sizes with other numbers: smaller ones, positive ones (Acosh is of those from
  // 1 on), and single integers beyond 1 (a window of one place is 0 / 0).
  void try_other_numbers(const InputDrawer& drawer) {
    const DrawStyle usual = taken_ ? taken_->style : DrawStyle{};
    const Sizes sizes = report_.cases.back().sizes;
    const auto with = [&](auto change) {
      DrawStyle style = usual;
      change(style);
      return style;
    };
    const auto smaller = [&](double scale) { return with([&](DrawStyle& s) { s.scale = scale; }); };
    const std::pair<DrawStyle, const char*> others[] = {
        {smaller(1e-1), "a tenth of it"},
        {smaller(1e-2), "a hundredth of it"},
        {smaller(1e-3), "a thousandth of it"},
        {with([](DrawStyle& s) { s.positive = true, s.scale = 10; }), "from 0 to 10"},
        {with([](DrawStyle& s) { s.reach = Reach::kSwitched, s.phase = 7; }), "integers beyond 1"}};
    for (const auto& [style, what] : others) {
      if (report_.status != VerifyStatus::kEqual || over()) return;
      if (one_case(drawer, sizes, style) != Try::kCompared || gives_no_number(report_.cases.back())) continue;
      note("inputs of the usual size give NaN and infinities alone in the original; the others are {}", what);
      if (taken_) taken_->style = style;
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
    BeyondUsual from{original_, drawer, taken_, report_.cases.front().sizes, excluded_};
    from.here = !options_.runtime;
    from.negative_ids = options_.knows_assumptions;
    for (const BeyondCase& one : cases_beyond(from)) {
      if (report_.status != VerifyStatus::kEqual || over()) return;
      if (one_beyond(drawer, one) != Try::kRefused || one.style.usual_ints || !one.may_have_usual_ints) continue;
      BeyondCase again = one;
      again.style.usual_ints = true;
      one_beyond(drawer, again);
    }
  }

  Try one_beyond(const InputDrawer& drawer, const BeyondCase& one) {
    if (report_.status != VerifyStatus::kEqual || over()) return Try::kStop;
    DrawStyle style = one.style;
    style.float_masks = excludes(kOtherTruths);
    style.held = excludes(kBeyondQuantizers);
    if (style.ints == IntStyle::kLength) {
      const auto known = lengths_.find(one.sizes);
      if (known == lengths_.end()) return Try::kRefused;
      style.length = known->second;
    }
    const absl::StatusOr<Inputs> inputs = drawn(drawer, one.sizes, style, seed());
    return inputs.ok() ? attempt(*inputs, one.sizes, one.kind) : Try::kRefused;
  }

  const Model& original_;
  const Model& optimized_;
  const VerifyOptions& options_;
  VerifyRun run_;
  VerifyNotes notes_;
  CaseComparer comparer_;
  std::optional<Inputs> last_inputs_;      // of usual or given ones
  std::map<Sizes, std::int64_t> lengths_;  // that integers of these sizes tell, where the model asks for one
  std::string refusal_;
  std::vector<std::string> by_trial_;  // shapes that the first case took for inputs without a rank
  bool as_declared_ = true;
  bool patient_ = true, timed_out_ = false;  // no smaller case is left; some case took all the time
  bool tried_small_ = false;
  unsigned excluded_ = options_.excluded;  // less what turns out to be the model's own
  unsigned met_ = kExcludesNothing;        // of the excluded, by usual inputs
  std::optional<VerifyPlan> taken_;        // the first that gave a case
  struct Avoided {
    Inputs inputs;
    Sizes sizes;
  };
  std::optional<Avoided> first_avoided_;
  std::size_t misdeclared_ = 0, avoided_ = 0, refused_before_ = 0, short_of_memory_ = 0, most_tries_ = kMaxTries;
  VerifyReport report_;
};

VerifyReport verify_with_judges(const Model& original, const Model& optimized, const VerifyOptions& options) {
  VerifyOptions here = options;
  here.judges.clear();
  here.keep_inputs = true;
  VerifyOptions there = options;
  there.judges_until = std::min(there.judges_until, steady_seconds() + options.seconds + kTimeOfJudges);
  VerifyReport report;
  report.status = VerifyStatus::kNotRun;
  if (options.here) report = verify(original, optimized, here);
  for (const std::shared_ptr<Judge>& judge : options.judges) {
    if (report.status == VerifyStatus::kDifferent || report.status == VerifyStatus::kCancelled) break;
    if (const absl::Status s = judge->ready(); s.ok())
      ask_judge(*judge, original, optimized, there, report);
    else
      report.no_judge = std::string(s.message());
  }
  if (!options.keep_inputs) report.inputs.clear();
  return report;
}

}  // namespace

VerifyReport verify(const Model& original, const Model& optimized, const VerifyOptions& options) {
  if (!options.judges.empty()) return verify_with_judges(original, optimized, options);
  const StopSign sign{options.cancel, options.ends_in_time ? steady_seconds() + options.seconds : kNoDeadline};
  const StopScope scope(sign.set() ? &sign : nullptr);
  VerifyReport report;
  try {
    report = Verifier(original, optimized, options).run();
    report.no_judge = options.no_judge;
    const bool has_gaps = report.status == VerifyStatus::kUnsupported && !options.runtime;
    return has_gaps ? verify_in_parts(original, optimized, options, std::move(report)) : report;
  } catch (const Stopped&) {  // between runs, which tell themselves
    const bool cancelled = options.cancel != nullptr && *options.cancel;
    report = {};
    report.status = cancelled ? VerifyStatus::kCancelled : VerifyStatus::kNotRun;
    report.message =
        cancelled ? "interrupted" : fmt::format("no case was compared within {:.6g} s; --time-limit gives more", options.seconds);
    return report;
  }
}

}  // namespace saturate
