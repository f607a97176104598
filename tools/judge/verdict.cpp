#include "tools/judge/verdict.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kernels/runtime/stop.h"

namespace saturate {
namespace {

// A result hangs that takes longer than so many times what the original took there, and Judge::hang_seconds().
constexpr double kHangs = 20;
// Models with more weights are never loaded beside each other.
constexpr std::size_t kAlone = std::size_t{256} << 20;

// What lies far from 0, on an edge or is no number comes out otherwise where a runtime sums in another order.
constexpr CaseKind kJudged[] = {CaseKind::kUsual, CaseKind::kGiven,     CaseKind::kQuiet,
                                CaseKind::kEmpty, CaseKind::kQuantized, CaseKind::kLong};
bool is_judged(CaseKind kind) { return std::find(std::begin(kJudged), std::end(kJudged), kind) != std::end(kJudged); }

std::size_t weight_bytes(const Model& model) {
  std::size_t bytes = 0;
  for (const Initializer& i : model.graph.initializers) bytes += i.tensor.bytes().size();
  return bytes;
}

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

// A model at a level, loaded when it is first run. `drop` unloads it.
class Loaded {
 public:
  Loaded(OpenModel open, const Model& model) : open_(std::move(open)), model_(model) {}
  absl::Status load() {
    if (run_) return absl::OkStatus();
    absl::StatusOr<RunOnce> made = open_(model_);
    if (made.ok()) run_ = *std::move(made);
    return made.status();
  }
  absl::StatusOr<Ran> run(const Inputs& inputs, const RunLimits& limits) {
    if (absl::Status s = load(); !s.ok()) return s;
    return run_(inputs, limits);
  }
  void drop() { run_ = nullptr; }

 private:
  OpenModel open_;
  const Model& model_;
  RunOnce run_;
};

class Hearing {
 public:
  Hearing(Judge& judge, const Model& original, const Model& result, const VerifyOptions& options)
      : judge_(judge),
        original_(original),
        result_(result),
        asked_(options),
        reference_(judge.opener(JudgeLevel::kNone), original),
        alone_(weight_bytes(original) + weight_bytes(result) > kAlone) {
    asked_.judges.clear();
    asked_.keep_inputs = false;
    asked_.progress = nullptr;
  }

  VerifyReport::Judged run(VerifyReport& report) {
    verdict_.name = judge_.name();
    verdict_.version = judge_.version();
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
    if (const absl::Status s = reference_.load(); !s.ok()) return not_judged("it refuses the original: ", s);
    return take_inputs(report) && run_original() && compare_at(JudgeLevel::kNone) && compare_at(JudgeLevel::kAll);
  }

  bool not_judged(std::string_view why, const absl::Status& status) {
    cancelled = absl::IsCancelled(status);
    verdict_.verdict = JudgeVerdict::kNotJudged;
    verdict_.message = std::string(why) + std::string(status.message());
    return false;
  }

  bool fault(JudgeLevel level, std::string message) {
    verdict_.verdict = JudgeVerdict::kFault;
    verdict_.message = fmt::format("in {}, {}: {}", judge_.name(), said_of(level), message);
    if (!failed_on && !inputs_.empty()) {
      failed_on = inputs_.front();
      failed_kind = kinds_.front();
    }
    return false;
  }

  // The inputs of the cases that were compared here; else those that a search there finds.
  bool take_inputs(VerifyReport& report) {
    if (report.around.empty())
      for (std::size_t i = 0; i < report.inputs.size(); ++i)
        if (is_judged(report.cases[i].kind)) keep(report.inputs[i], report.cases[i]);
    if (!inputs_.empty()) return true;
    VerifyOptions search = asked_;
    search.keep_inputs = true;
    search.runtime = {"onnxruntime", [this](const Model& model) { return opened(model); }};
    VerifyReport found = saturate::verify(original_, result_, search);
    if (found.status != VerifyStatus::kEqual) {
      cancelled = found.status == VerifyStatus::kCancelled;
      if (found.status == VerifyStatus::kDifferent) {
        failed_on = found.failed_on;
        failed_kind = found.failed_kind;
        breaks = found.breaks;
        return fault(JudgeLevel::kNone, found.message);
      }
      verdict_.message = found.message;
      searched = found.status;
      return false;
    }
    for (std::size_t i = 0; i < found.inputs.size(); ++i) keep(std::move(found.inputs[i]), found.cases[i]);
    if (report.status != VerifyStatus::kEqual) {  // nothing was compared here
      found.inputs.clear();
      report = std::move(found);
    }
    return true;
  }

  absl::StatusOr<RunOnce> opened(const Model& model) {
    if (&model != &original_) return judge_.opener(JudgeLevel::kNone)(model);
    return RunOnce([this](const Inputs& inputs, const RunLimits& limits) { return reference_.run(inputs, limits); });
  }

  void keep(Inputs inputs, const VerifyCase& of) {
    inputs_.push_back(std::move(inputs));
    kinds_.push_back(of.kind);
    sizes_.push_back(of.sizes);
  }

  double deadline(double seconds) const { return steady_seconds() + seconds; }

  // What is compared with. Inputs that the original does not take there are left out.
  bool run_original() {
    std::vector<Inputs> taken;
    std::vector<CaseKind> kinds;
    std::vector<Sizes> sizes;
    absl::Status first_refusal;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      absl::StatusOr<Ran> ran = reference_.run(inputs_[i], {asked_.memory, deadline(asked_.seconds + judge_.hang_seconds())});
      if (absl::IsCancelled(ran.status())) return not_judged("", ran.status());
      if (!ran.ok()) {
        if (first_refusal.ok()) first_refusal = ran.status();
        continue;
      }
      taken.push_back(std::move(inputs_[i]));
      kinds.push_back(kinds_[i]);
      sizes.push_back(sizes_[i]);
      slowest_ = std::max(slowest_, ran->seconds);
      wanted_.push_back(*std::move(ran));
    }
    inputs_ = std::move(taken);
    kinds_ = std::move(kinds);
    sizes_ = std::move(sizes);
    verdict_.cases = inputs_.size();
    if (alone_) reference_.drop();
    return !inputs_.empty() || not_judged("it does not run the original: ", first_refusal);
  }

  bool compare_at(JudgeLevel level) {
    Loaded second(judge_.opener(level), result_), peer(judge_.opener(level), original_);
    judge_.set_patience(std::max(judge_.hang_seconds(), asked_.seconds));
    if (const absl::Status s = second.load(); !s.ok()) return does_not_load(s, level, peer);
    for (const CaseKind kind : kJudged) {
      VerifyOptions at_level = asked_;
      at_level.given = kind;
      at_level.inputs.clear();
      std::vector<std::size_t> numbers;
      for (std::size_t i = 0; i < inputs_.size(); ++i)
        if (kinds_[i] == kind) numbers.push_back(i);
      if (numbers.empty()) continue;
      at_level.sizes_of_inputs.clear();
      for (const std::size_t i : numbers) {
        at_level.inputs.push_back(inputs_[i]);
        at_level.sizes_of_inputs.push_back(sizes_[i]);
      }
      if (!compare_cases(at_level, numbers, level, second, peer)) return false;
    }
    return true;
  }

  bool compare_cases(VerifyOptions& options, const std::vector<std::size_t>& numbers, JudgeLevel level, Loaded& second, Loaded& peer) {
    const auto known = [&](const Inputs& inputs) -> const Ran* {
      for (std::size_t i = 0; i < numbers.size(); ++i)
        if (&inputs == &options.inputs[i]) return &wanted_[numbers[i]];
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
    return ended ? absl::AbortedError(ran.status().message()) : std::move(ran);
  }

  bool does_not_load(const absl::Status& status, JudgeLevel level, Loaded& peer) {
    if (says_nothing(status, asked_.kernels_may_be_missing))
      return not_judged(is_too_new(status) ? "it is too old for the result: " : "", status);
    if (level != JudgeLevel::kNone && !peer.load().ok()) {
      verdict_.notes.push_back(
          fmt::format("{} loads neither of the models {}: {}", judge_.name(), said_of(level), std::string(status.message())));
      return true;
    }
    return fault(level, fmt::format("the result does not load, and the original does: {}", std::string(status.message())));
  }

  Judge& judge_;
  const Model& original_;
  const Model& result_;
  VerifyOptions asked_;
  Loaded reference_;
  bool alone_;
  std::vector<Inputs> inputs_;
  std::vector<CaseKind> kinds_;
  std::vector<Sizes> sizes_;
  std::vector<Ran> wanted_;
  double slowest_ = 0;
  VerifyReport::Judged verdict_;
};

std::string why(const absl::Status& status) {
  return fmt::format("{}{}", is_too_new(status) ? "it is too old for the result: " : "", std::string(status.message()));
}

}  // namespace

absl::Status loads_there(Judge& judge, const Model& original, const Model& result, bool kernels_may_be_missing, std::string* told) {
  for (const JudgeLevel level : {JudgeLevel::kNone, JudgeLevel::kAll}) {
    const absl::Status loaded = judge.opener(level)(result).status();
    if (loaded.ok()) continue;
    const bool unclear = says_nothing(loaded, kernels_may_be_missing);
    const absl::Status before = unclear ? absl::OkStatus() : judge.opener(level)(original).status();
    if (!unclear && before.ok())
      return absl::DataLossError(fmt::format("in {}, {}: the result does not load, and the original does: {}", judge.name(), said_of(level),
                                             std::string(loaded.message())));
    if (told) *told = unclear ? why(loaded) : fmt::format("it refuses the original: {}", std::string(before.message()));
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

void ask_judge_by_stepping(Judge& judge, const Model& whole, const Model& cached, const SteppingOptions& options, VerifyReport& report) {
  const double start = steady_seconds();
  VerifyReport::Judged verdict;
  std::string why_not;
  const absl::Status ready = judge.ready();
  const absl::Status loads = ready.ok() ? loads_there(judge, whole, cached, false, &why_not) : ready;
  verdict.name = judge.name();
  verdict.version = judge.version();
  if (absl::IsDataLoss(loads)) {
    verdict.verdict = JudgeVerdict::kFault;
    verdict.message = std::string(loads.message());
  } else if (!loads.ok() || !why_not.empty()) {
    verdict.message = loads.ok() ? why_not : std::string(loads.message());
  } else {
    SteppingOptions there = options;
    there.judges.clear();
    there.runtime = {"onnxruntime", judge.opener(JudgeLevel::kAll)};
    const VerifyReport steps = verify_by_stepping(whole, cached, there);
    verdict.cases = steps.cases.size();
    verdict.verdict = steps.status == VerifyStatus::kEqual       ? JudgeVerdict::kEqual
                      : steps.status == VerifyStatus::kDifferent ? JudgeVerdict::kFault
                                                                 : JudgeVerdict::kNotJudged;
    if (!steps.message.empty()) verdict.message = fmt::format("in {}, with its optimizations: {}", judge.name(), steps.message);
  }
  verdict.seconds = steady_seconds() - start;
  if (verdict.verdict == JudgeVerdict::kFault) {
    report.status = VerifyStatus::kDifferent;
    report.message = verdict.message;
  }
  report.judged.push_back(std::move(verdict));
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
