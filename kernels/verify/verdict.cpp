#include "kernels/verify/verdict.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "kernels/judge/given_model.h"
#include "kernels/verify/compare_case.h"

namespace saturate {
namespace {

// A result hangs that takes longer than so many times what the original took there, and Judge::hang_seconds().
constexpr double kHangs = 20;
// Models with more weights are never loaded beside each other.
constexpr std::size_t kAlone = std::size_t{256} << 20;

// What lies far from 0, on an edge or is no number comes out otherwise where a runtime sums in another order.
constexpr CaseKind kJudged[] = {CaseKind::kUsual,     CaseKind::kGiven,    CaseKind::kQuiet,  CaseKind::kEmpty,
                                CaseKind::kQuantized, CaseKind::kSwitched, CaseKind::kVaried, CaseKind::kLong};
bool is_judged(CaseKind kind) { return std::find(std::begin(kJudged), std::end(kJudged), kind) != std::end(kJudged); }

std::string_view said_of(JudgeLevel level) { return level == JudgeLevel::kNone ? "without its optimizations" : "with its optimizations"; }

// An opset or a format that came after the release.
bool is_too_new(const absl::Status& status) {
  for (const char* words : {"is under development", "Unsupported model IR version"})
    if (status.message().find(words) != std::string_view::npos) return true;
  return false;
}

// What neither the result nor the judge is to be blamed for.
bool says_nothing(const absl::Status& status, bool kernels_may_be_missing) {
  return absl::IsCancelled(status) || absl::IsFailedPrecondition(status) || is_too_new(status) ||
         (absl::IsUnimplemented(status) && kernels_may_be_missing);
}

std::string why(const absl::Status& status, const Model& result) {
  if (!is_too_new(status)) return std::string(status.message());
  return fmt::format("the result needs a release that loads opset {} and IR version {}", result.opset(""), result.ir_version);
}

std::string does_not_load(const absl::Status& status) {
  return fmt::format("the result does not load, and the original does: {}", std::string(status.message()));
}

// A model for all levels, handed over when it is first asked for.
class Handed {
 public:
  Handed(Judge& judge, const Model& model) : judge_(judge), model_(model) {}
  absl::StatusOr<RunOnce> open(JudgeLevel level) {
    if (!given_) {
      auto given = give_model(model_);
      if (!given.ok()) return given.status();
      given_ = *std::move(given);
    }
    return judge_.open(given_, level);
  }

 private:
  Judge& judge_;
  const Model& model_;
  std::shared_ptr<const GivenModel> given_;
};

// It at a level, loaded when it is first run. `drop` unloads it.
class Loaded {
 public:
  Loaded(Handed& model, JudgeLevel level) : model_(model), level_(level) {}
  absl::Status load() {
    if (run_) return absl::OkStatus();
    absl::StatusOr<RunOnce> made = model_.open(level_);
    if (!made.ok()) return made.status();
    run_ = *std::move(made);
    return absl::OkStatus();
  }
  absl::StatusOr<Ran> run(const Inputs& inputs, const RunLimits& limits) {
    if (absl::Status s = load(); !s.ok()) return s;
    return run_(inputs, limits);
  }
  void drop() { run_ = nullptr; }

 private:
  Handed& model_;
  JudgeLevel level_;
  RunOnce run_;
};

class Hearing {
 public:
  Hearing(Judge& judge, const Model& original, const Model& result, const VerifyOptions& options)
      : judge_(judge),
        original_(original),
        result_(result),
        asked_(options),
        handed_original_(judge, original),
        handed_result_(judge, result),
        reference_(handed_original_, JudgeLevel::kNone),
        alone_(initializer_bytes(original.graph) + initializer_bytes(result.graph) > kAlone) {
    asked_.judges.clear();
    asked_.keep_inputs = false;
    asked_.progress = nullptr;
  }

  VerifyReport::Judged run(VerifyReport& report) {
    verdict_.name = judge_.name();
    verdict_.version = judge_.version();
    if (asked_.ends_in_time) until_ = std::min(asked_.judges_until, steady_seconds() + asked_.seconds + kTimeOfJudges);
    judge_.set_patience(patience());
    if (hear(report)) verdict_.verdict = JudgeVerdict::kEqual;
    return std::move(verdict_);
  }

  // Of a fault.
  std::optional<Inputs> failed_on;
  CaseKind failed_kind = CaseKind::kUsual;
  unsigned breaks = kExcludesNothing;
  bool cancelled = false;
  VerifyStatus searched = VerifyStatus::kUnsupported;  // where inputs were looked for and nothing was compared

 private:
  // Whether all that was compared is equal.
  bool hear(VerifyReport& report) {
    if (const absl::Status s = reference_.load(); !s.ok())
      return is_over() ? out_of_time() : not_judged(s, "it refuses the original: " + std::string(s.message()));
    return take_inputs(report) && run_original(report) && compare_at(JudgeLevel::kNone) && compare_at(JudgeLevel::kAll);
  }

  bool not_judged(const absl::Status& status, std::string message) {
    cancelled = absl::IsCancelled(status);
    verdict_.message = std::move(message);
    return false;
  }

  bool fault(JudgeLevel level, std::string message) {
    verdict_.verdict = JudgeVerdict::kFault;
    verdict_.message = fmt::format("in {}, {}: {}", judge_.name(), said_of(level), message);
    if (!failed_on && !inputs_.empty()) {
      failed_on = inputs_.front();
      failed_kind = given_.front().kind;
    }
    return false;
  }

  // The inputs of the cases that were compared here; else those that a search there finds.
  bool take_inputs(VerifyReport& report) {
    if (report.around.empty())
      for (std::size_t i = 0; i < report.inputs.size(); ++i)
        if (is_judged(report.cases[i].kind)) keep(report.inputs[i], report.cases[i]);
    if (!inputs_.empty()) return true;
    VerifyReport found = search_there();
    if (found.status == VerifyStatus::kDifferent) return differs(found);
    if (found.status != VerifyStatus::kEqual) {
      cancelled = found.status == VerifyStatus::kCancelled;
      verdict_.message = found.message;
      searched = found.status;
      return false;
    }
    keep_all(found);
    if (report.status != VerifyStatus::kEqual) {  // nothing was compared here
      found.inputs.clear();
      report = std::move(found);
    }
    return true;
  }

  VerifyReport search_there() {
    VerifyOptions search = asked_;
    search.keep_inputs = true;
    search.runtime = {"onnxruntime", [this](const Model& model) { return opened(model); }};
    return saturate::verify(original_, result_, search);
  }

  bool differs(const VerifyReport& found) {
    failed_on = found.failed_on;
    failed_kind = found.failed_kind;
    breaks = found.breaks;
    return fault(JudgeLevel::kNone, found.message);
  }

  void keep_all(VerifyReport& found) {
    for (std::size_t i = 0; i < found.inputs.size(); ++i) keep(std::move(found.inputs[i]), found.cases[i]);
  }

  absl::StatusOr<RunOnce> opened(const Model& model) {
    if (&model != &original_) return judge_.opener(JudgeLevel::kNone)(model);
    return RunOnce([this](const Inputs& inputs, const RunLimits& limits) { return reference_.run(inputs, limits); });
  }

  void keep(Inputs inputs, const VerifyCase& of) {
    inputs_.push_back(std::move(inputs));
    given_.push_back({of.sizes, of.kind});
  }

  // Where the user gave a time, it bounds what is asked of one judge; then the judge has no answer.
  double deadline(double seconds) const { return std::min(steady_seconds() + seconds, until_); }
  double patience() const { return std::min(std::max(judge_.hang_seconds(), asked_.seconds), std::max(0.1, until_ - steady_seconds())); }
  bool is_over() const { return steady_seconds() >= until_; }
  bool out_of_time() {
    return not_judged(absl::OkStatus(), fmt::format("it had no answer within {:.6g} s; --time-limit gives more", asked_.seconds));
  }

  // What is compared with. Inputs that the original does not take there are left out; where none is taken, others are looked for there: a
  // runtime may want sizes to fit that nothing here asks of them.
  bool run_original(VerifyReport& report) {
    const absl::Status refusal = run_taken();
    if (absl::IsCancelled(refusal)) return not_judged(refusal, "");
    if (inputs_.empty() && is_over()) return out_of_time();
    if (!inputs_.empty()) return true;
    if (report.status == VerifyStatus::kEqual && asked_.inputs.empty() && report.around.empty()) {
      VerifyReport found = search_there();
      if (found.status == VerifyStatus::kDifferent) return differs(found);
      if (found.status == VerifyStatus::kEqual) keep_all(found);
      if (!inputs_.empty() && !absl::IsCancelled(run_taken()) && !inputs_.empty()) return true;
    }
    return not_judged(refusal, "it does not run the original: " + std::string(refusal.message()));
  }

  // The first refusal.
  absl::Status run_taken() {
    std::vector<Inputs> taken;
    std::vector<GivenCase> given;
    absl::Status first_refusal;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      absl::StatusOr<Ran> ran = reference_.run(inputs_[i], {asked_.memory, deadline(asked_.seconds + judge_.hang_seconds())});
      if (absl::IsCancelled(ran.status())) return ran.status();
      if (!ran.ok()) {
        if (first_refusal.ok()) first_refusal = ran.status();
        continue;
      }
      if (given_[i].kind == CaseKind::kEmpty && !is_as_here(inputs_[i], *ran)) continue;
      taken.push_back(std::move(inputs_[i]));
      given.push_back(std::move(given_[i]));
      slowest_ = std::max(slowest_, ran->seconds);
      wanted_.push_back(*std::move(ran));
    }
    inputs_ = std::move(taken);
    given_ = std::move(given);
    verdict_.cases = inputs_.size();
    if (alone_) reference_.drop();
    return first_refusal;
  }

  // Whether the original gives there what it gives here: of a size of 0 the runtime may leave an output as the memory was (the last state
  // of an LSTM without steps), and then says nothing.
  bool is_as_here(const Inputs& inputs, const Ran& there) {
    const VerifyRun run(original_, original_, asked_);
    if (!here_) here_ = run.open(original_);
    if (!here_->ok()) return true;
    const absl::StatusOr<Ran> here = (**here_)(inputs, run.limits(CaseKind::kEmpty, true));
    if (!here.ok()) return true;
    for (std::size_t i = 0; i < here->outputs.size(); ++i)
      if (!compare_values("", here->outputs[i], there.outputs[i], asked_.tolerances).ok) return false;
    return true;
  }

  bool compare_at(JudgeLevel level) {
    Loaded second(handed_result_, level), peer(handed_original_, level);
    judge_.set_patience(patience());
    if (const absl::Status s = second.load(); !s.ok()) return is_over() ? out_of_time() : loads_neither(s, level, peer);
    VerifyOptions options = asked_;
    options.inputs = inputs_;
    options.given = given_;
    const auto known = [&](const Inputs& inputs) -> const Ran* {
      for (std::size_t i = 0; i < options.inputs.size(); ++i)
        if (&inputs == &options.inputs[i]) return &wanted_[i];
      return nullptr;
    };
    options.runtime.name = "onnxruntime";
    options.runtime.open = [&](const Model& model) -> absl::StatusOr<RunOnce> {
      if (&model != &original_) return judge_.opener(JudgeLevel::kNone)(model);
      return RunOnce([&](const Inputs& inputs, const RunLimits& limits) -> absl::StatusOr<Ran> {
        if (const Ran* ran = known(inputs)) return *ran;
        return reference_.run(inputs, limits);
      });
    };
    options.runtime.open_second = [&](const Model&) -> absl::StatusOr<RunOnce> {
      return RunOnce([&](const Inputs& inputs, const RunLimits&) { return bounded(second, inputs); });
    };
    if (level != JudgeLevel::kNone) options.runtime.peer = [&](const Inputs& inputs) { return bounded(peer, inputs); };
    const VerifyReport report = saturate::verify(original_, result_, options);
    for (const std::string& note : report.notes)
      for (const std::string_view told : {kByItsOptimizations, kFailsWhereEmpty})
        if (note.find(told) != std::string::npos) verdict_.notes.push_back(fmt::format("in {}: {}", judge_.name(), note));
    if (alone_) reference_.drop();
    cancelled = cancelled || report.status == VerifyStatus::kCancelled;
    const bool differs = report.status == VerifyStatus::kDifferent;
    if (!cancelled && !differs && is_over()) return out_of_time();
    if (report.status == VerifyStatus::kEqual || report.status == VerifyStatus::kNotRun) return !cancelled;
    if (cancelled) return false;
    failed_on = report.failed_on;
    failed_kind = report.failed_kind;
    breaks = report.breaks;
    return fault(level, report.message);
  }

  // A hang and a lack of memory are faults where the original has none.
  absl::StatusOr<Ran> bounded(Loaded& model, const Inputs& inputs) {
    absl::StatusOr<Ran> ran = model.run(inputs, {asked_.memory, deadline(kHangs * slowest_ + judge_.hang_seconds())});
    const bool ended = absl::IsDeadlineExceeded(ran.status()) || absl::IsResourceExhausted(ran.status());
    return ended && !is_over() ? absl::AbortedError(ran.status().message()) : std::move(ran);
  }

  // Whether that of a result that does not load is no fault of it, and what else there is can be compared.
  bool loads_neither(const absl::Status& status, JudgeLevel level, Loaded& peer) {
    if (says_nothing(status, asked_.kernels_may_be_missing)) return not_judged(status, why(status, result_));
    if (level != JudgeLevel::kNone && !peer.load().ok()) {
      verdict_.notes.push_back(
          fmt::format("{} loads neither of the models {}: {}", judge_.name(), said_of(level), std::string(status.message())));
      return true;
    }
    return fault(level, does_not_load(status));
  }

  Judge& judge_;
  const Model& original_;
  const Model& result_;
  VerifyOptions asked_;
  Handed handed_original_, handed_result_;
  Loaded reference_;
  bool alone_;
  std::vector<Inputs> inputs_;
  std::vector<GivenCase> given_;                 // of the inputs
  std::vector<Ran> wanted_;                      // the original's outputs of them, without optimizations
  std::optional<absl::StatusOr<RunOnce>> here_;  // the original in our runtime, once it is asked for
  double slowest_ = 0;
  double until_ = kNoDeadline;
  VerifyReport::Judged verdict_;
};

}  // namespace

absl::Status loads_there(Judge& judge, const Model& original, const Model& result, bool kernels_may_be_missing, std::string* told) {
  Handed handed_result(judge, result), handed_original(judge, original);
  for (const JudgeLevel level : {JudgeLevel::kNone, JudgeLevel::kAll}) {
    const absl::Status loaded = handed_result.open(level).status();
    if (loaded.ok()) continue;
    const bool unclear = says_nothing(loaded, kernels_may_be_missing);
    const absl::Status before = unclear ? absl::OkStatus() : handed_original.open(level).status();
    if (!unclear && before.ok())
      return absl::DataLossError(fmt::format("in {}, {}: {}", judge.name(), said_of(level), does_not_load(loaded)));
    if (told) *told = unclear ? why(loaded, result) : fmt::format("it refuses the original: {}", std::string(before.message()));
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

void ask_judge(Judge& judge, const Model& original, const Model& result, const VerifyOptions& options, VerifyReport& report) {
  const double start = steady_seconds();
  Hearing hearing(judge, original, result, options);
  VerifyReport::Judged verdict = hearing.run(report);
  verdict.seconds = steady_seconds() - start;
  if (hearing.cancelled) {
    report.status = VerifyStatus::kCancelled;
    report.message = "interrupted";
  } else if (verdict.verdict == JudgeVerdict::kFault && report.status != VerifyStatus::kDifferent) {
    report.status = VerifyStatus::kDifferent;
    report.message = verdict.message;
    report.failed_on = hearing.failed_on;
    report.failed_kind = hearing.failed_kind;
    report.breaks = hearing.breaks;
  }
  if (report.status == VerifyStatus::kNotRun && report.message.empty()) {  // nobody else was asked
    report.status = hearing.searched;
    report.message = verdict.message;
  }
  for (const std::string& note : verdict.notes)
    if (std::find(report.notes.begin(), report.notes.end(), note) == report.notes.end()) report.notes.push_back(note);
  report.judged.push_back(std::move(verdict));
}

}  // namespace saturate
