#include "kernels/decode/stepping.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/compare/noise.h"
#include "kernels/decode/encoder.h"
#include "kernels/decode/stepper.h"
#include "kernels/verify/verdict.h"

namespace saturate {
namespace {

constexpr std::int64_t kUsualLengths[] = {2, 11, 32};
constexpr std::int64_t kLongest = 2048;                     // of a sequence that is run for the end of a table
constexpr std::int64_t kStepsThere = 4;                     // single ones before that end
constexpr std::size_t kCacheRoom = std::size_t{256} << 20;  // bytes of caches of fixed sizes, beyond which rows run one by one
constexpr double kMoves = 0.01;                             // share of their scale by which the past has to move the logits
constexpr double kFloatTolerance = 1e-3, kHalfTolerance = 2e-2;

struct Case {
  std::int64_t rows = 1, length = 0;
  std::int64_t prompt = 0;   // tokens of the first step
  std::int64_t window = 1;   // of each further one
  std::int64_t padding = 0;  // in front of the last row
  std::int64_t steps() const { return 1 + (length - prompt + window - 1) / window; }
};

// What running took so far, and so what a case will take: the whole model for each token, the cached one for each step.
class Pace {
 public:
  void saw(bool step, std::int64_t count, double seconds) {
    (step ? step_ : token_) = seconds / static_cast<double>(std::max<std::int64_t>(1, count));
  }
  double seconds(const Case& c) const { return static_cast<double>(c.rows * c.length) * token_ + static_cast<double>(c.steps()) * step_; }

 private:
  double token_ = 0, step_ = 0;
};

// The rows of logits that are compared, one after another.
class Collected {
 public:
  void add(const Tensor& logits, std::int64_t row, std::int64_t token) {
    vocabulary_ = logits.dims()[2];
    const std::int64_t at = (row * logits.dims()[1] + token) * vocabulary_;
    for (std::int64_t i = 0; i < vocabulary_; ++i)
      values_.push_back(static_cast<float>(element_as_double(logits, at + i).value_or(std::nan(""))));
  }
  Tensor take() const {
    return Tensor::of<float>(DType::kFloat, {static_cast<std::int64_t>(values_.size()) / vocabulary_, vocabulary_}, std::span(values_));
  }

 private:
  std::int64_t vocabulary_ = 1;
  std::vector<float> values_;
};

double largest_of(const Tensor& logits) {
  double largest = 0;
  for (const float x : logits.span<float>())
    if (std::isfinite(x)) largest = std::max(largest, std::abs(double{x}));
  return largest;
}

Tokens part_of(const Tokens& tokens, std::int64_t begin, std::int64_t count) {
  Tokens out;
  for (const auto& row : tokens) out.emplace_back(row.begin() + begin, row.begin() + begin + count);
  return out;
}

class Stepping {
 public:
  Stepping(const Model& whole, const Model& cached, const SteppingOptions& options)
      : models_{&whole, &cached}, options_(options), deadline_(steady_seconds() + options.seconds) {}

  VerifyReport run() {
    const double start = steady_seconds();
    report_.runtime = options_.runtime.name;
    for (int i = 0; i < 2 && good(); ++i) prepare(i);
    if (good()) prepare_encoders();
    if (good()) check_lengths();
    if (good())
      for (const Case& c : cases()) {
        if (!good()) break;
        if (one_row_alone_ && c.rows > 1) continue;
        if (steady_seconds() + pace_.seconds(c) > deadline_) {
          left_out_.push_back(text(c));
          continue;
        }
        compare(c);
        if (report_.status == VerifyStatus::kNotRun && c.rows > 1 && !whole().batch) leave_out_rows(c);
      }
    if (good() && report_.cases.empty()) stop(VerifyStatus::kNotRun, "no case was run within the time; --time-limit gives more");
    if (good()) tell();
    report_.seconds = steady_seconds() - start;
    return std::move(report_);
  }

 private:
  bool good() const { return report_.status == VerifyStatus::kEqual; }

  void stop(VerifyStatus status, std::string message) {
    report_.status = status;
    report_.message = std::move(message);
  }

  // Exports exist that take one row alone.
  void leave_out_rows(const Case& c) {
    report_.notes.push_back(fmt::format("batches of {} were not compared: {}", c.rows, report_.message));
    stop(VerifyStatus::kEqual, "");
    one_row_alone_ = true;
  }

  static const char* which(int i) { return i == 0 ? "the whole model" : "the model with a cache"; }

  void stop(int i, const absl::Status& status, const std::string& where = "") {
    const VerifyStatus kind = absl::IsCancelled(status)       ? VerifyStatus::kCancelled
                              : absl::IsUnimplemented(status) ? VerifyStatus::kUnsupported
                              : i == 1 && !where.empty()      ? VerifyStatus::kDifferent  // the other one runs
                                                              : VerifyStatus::kNotRun;
    stop(kind, fmt::format("{}{}{}: {}", which(i), where.empty() ? "" : " at ", where, std::string(status.message())));
  }

  void prepare(int i) {
    const DecoderNames& names = i == 0 ? options_.whole : options_.cached;
    absl::StatusOr<Decoder> decoder = find_decoder(*models_[i], names);
    if (!decoder.ok()) return stop(i, decoder.status());
    if ((i == 0 && !options_.both_cached) != decoder->cache.empty())
      return stop(VerifyStatus::kNotRun,
                  fmt::format("{} {}; give the model without a cache first, and that with one behind it", which(i),
                              !decoder->cache.empty() ? "has a past among its inputs" : "has no past among its inputs"));
    absl::StatusOr<RunModel> run = options_.runtime ? open_there(*models_[i]) : open_here(*models_[i]);
    if (!run.ok()) return stop(i, run.status());
    steppers_.emplace_back(*models_[i], *std::move(decoder), names.sizes, *std::move(run));
  }

  void prepare_encoders() {
    for (const auto& [name, value] : options_.arrays)
      if (std::none_of(whole().given.begin(), whole().given.end(), [&](std::size_t i) { return models_[0]->graph.inputs[i].name == name; }))
        return stop_before(
            absl::InvalidArgumentError(fmt::format("the whole model takes no '{}' from an encoder; leave the array out", name)));
    for (const Model* encoder : options_.encoders) {
      absl::StatusOr<RunModel> run = options_.runtime ? open_there(*encoder) : open_here(*encoder);
      if (!run.ok()) return stop_before(run.status());
      encoders_.push_back({encoder, *std::move(run)});
    }
  }

  void stop_before(const absl::Status& status) {
    stop(absl::IsCancelled(status)       ? VerifyStatus::kCancelled
         : absl::IsUnimplemented(status) ? VerifyStatus::kUnsupported
                                         : VerifyStatus::kNotRun,
         fmt::format("what an encoder gives: {}", std::string(status.message())));
  }

  absl::StatusOr<RunModel> open_here(const Model& model) {
    SessionOptions session_options;
    session_options.threads = options_.threads;
    session_options.cancel = options_.cancel;
    session_options.prepare = false;  // a copy of each weight would be kept, and models may be as large as memory
    session_options.keep_results = false;
    absl::StatusOr<Session> session = Session::create(model, session_options);
    if (!session.ok()) return session.status();
    sessions_.push_back(std::make_unique<Session>(*std::move(session)));
    RunLimits limits;
    limits.memory = options_.memory;
    return run_by(*sessions_.back(), limits);
  }

  absl::StatusOr<RunModel> open_there(const Model& model) const {
    absl::StatusOr<RunOnce> run = options_.runtime.open(model);
    if (!run.ok()) return run.status();
    return RunModel([run = *std::move(run)](const Inputs& inputs) -> absl::StatusOr<std::vector<Value>> {
      absl::StatusOr<Ran> ran = run(inputs, {});
      if (!ran.ok()) return ran.status();
      return std::move(ran->outputs);
    });
  }

  const Decoder& whole() const { return steppers_[0].decoder(); }
  const Decoder& cached() const { return steppers_[1].decoder(); }

  // Tokens that both hold, and that the past does not slide away from.
  std::optional<std::int64_t> most_tokens() const {
    std::optional<std::int64_t> most = whole().most_tokens;
    const auto bound = [&](std::optional<std::int64_t> n) {
      if (n) most = most ? std::min(*most, *n) : *n;
    };
    bound(cached().most_tokens);
    if (cached().kind != CacheKind::kSliding) return most;
    bound(cached().mask_length);
    if (const CachePair& pair = cached().cache[0]; pair.axis >= 0) {
      const DimSpec& past = (*models_[1]->graph.inputs[pair.past].type.shape)[static_cast<std::size_t>(pair.axis)];
      if (const auto* length = std::get_if<std::int64_t>(&past)) bound(*length + cached().window.value_or(1));
    }
    return most;
  }

  void check_lengths() {
    const std::optional<std::int64_t> most = most_tokens();
    for (const std::int64_t length : options_.lengths)
      if (most && length > *most)
        return stop(
            VerifyStatus::kNotRun,
            fmt::format("a sequence of {} tokens is more than the {} that the models hold or see; give shorter ones", length, *most));
  }

  std::vector<std::int64_t> lengths(std::optional<std::int64_t> most) const {
    if (!options_.lengths.empty()) return options_.lengths;
    std::set<std::int64_t> out;
    for (const std::int64_t n : kUsualLengths) out.insert(std::min(n, most.value_or(n)));
    if (most && *most <= kLongest) out.insert(*most);
    return {out.begin(), out.end()};
  }

  bool may_pad() const { return whole().attention_mask && cached().attention_mask && !cached().counts_tokens && !whole().counts_tokens; }

  // Bytes of the cache of so many rows before the first token: all that there will be, where sizes are fixed.
  std::size_t cache_bytes(std::int64_t rows) const {
    std::size_t bytes = 0;
    for (const CachePair& pair : cached().cache) {
      const absl::StatusOr<Shape> dims = first_past(*models_[1], cached(), pair, rows, options_.cached.sizes);
      if (dims.ok()) bytes += checked_bytes(models_[1]->graph.inputs[pair.past].type.dtype, *dims).value_or(0);
    }
    return bytes;
  }

  // Two rows, of which the second is padded in front; where one alone can be run it is padded itself.
  std::vector<Case> cases() {
    const std::optional<std::int64_t> most = most_tokens();
    const std::optional<std::int64_t> fixed = cached().batch ? cached().batch : whole().batch;
    const std::size_t of_two = fixed ? 0 : cache_bytes(2);
    const std::int64_t several = fixed.value_or(of_two > kCacheRoom ? 1 : 2);
    if (of_two > kCacheRoom) report_.notes.push_back(fmt::format("batches of 2 were not compared: their caches take {} MiB", of_two >> 20));
    std::vector<Case> out;
    for (const std::int64_t length : lengths(most)) {
      const bool far = length > kUsualLengths[2];
      const std::int64_t padding = may_pad() && length > 2 ? std::max<std::int64_t>(1, length / 3) : 0;
      for (Case c : of_length(length, far)) {
        c.rows = fixed.value_or(1);
        if (c.rows == 1) out.push_back(c);
        if (far && c.rows == 1) continue;
        if (several == 1 && padding == 0) continue;
        c.rows = several;
        c.padding = padding;
        out.push_back(c);
      }
    }
    return out;
  }

  // Ways to go through a sequence: its length is rounded down to whole steps where the model's window is fixed.
  std::vector<Case> of_length(std::int64_t length, bool far) const {
    std::vector<Case> out;
    if (cached().window) {
      const std::int64_t w = *cached().window;
      if (length >= w) out.push_back({1, length / w * w, w, w, 0});
      return out;
    }
    if (far && options_.windows.empty()) return {{1, length, std::max<std::int64_t>(1, length - kStepsThere), 1, 0}};
    std::vector<std::int64_t> windows = options_.windows.empty() ? std::vector<std::int64_t>{1, 3} : options_.windows;
    // A token that sees later ones of a prefix is noticed where it comes alone, before an empty cache.
    if (std::find(windows.begin(), windows.end(), 1) == windows.end()) windows.push_back(1);
    for (const std::int64_t w : windows) out.push_back({1, length, std::min(w, length), std::min(w, length), 0});
    if (options_.windows.empty() && length > 4) out.push_back({1, length, length / 2, 1, 0});
    return out;
  }

  Tokens draw(const Case& c) {
    const std::int64_t vocabulary = std::min(whole().vocabulary.value_or(2), cached().vocabulary.value_or(2));
    Random random(options_.seed + static_cast<std::uint64_t>(c.length) * 31 + static_cast<std::uint64_t>(c.rows));
    Tokens out(static_cast<std::size_t>(c.rows));
    for (auto& row : out)
      for (std::int64_t i = 0; i < c.length; ++i) row.push_back(random.below(vocabulary));
    return out;
  }

  static std::string text(const Case& c) {
    return fmt::format("batch {}, {} tokens, a first step of {}, then {} at a time{}", c.rows, c.length, c.prompt, c.window,
                       c.padding > 0 ? fmt::format(", {} of the last row padding", c.padding) : "");
  }

  static std::vector<std::int64_t> padding(const Case& c) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(c.rows), 0);
    out.back() = c.padding;
    return out;
  }

  // What an encoder gives the whole model: drawn, where it is no array.
  absl::StatusOr<Inputs> given_to_whole(std::int64_t rows) const {
    absl::StatusOr<Inputs> out =
        drawn_given(*models_[0], whole(), rows, options_.whole.sizes, options_.seed + static_cast<std::uint64_t>(rows));
    if (!out.ok()) return out;
    for (const auto& [name, array] : options_.arrays) out->insert_or_assign(name, first_rows(array, rows));
    return out;
  }

  static Value first_rows(const Value& value, std::int64_t count) {
    if (!value.is_tensor() || value.tensor().rank() == 0 || value.tensor().dims()[0] <= count) return value;
    std::vector<std::size_t> rows(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    return rows_of({{"", value}}, rows).at("");
  }

  // What an encoder gives both, as they take it.
  bool give(const Case& c) {
    if (whole().given.empty() && cached().given.empty()) return true;
    EncoderFeed feed;
    feed.may_be_unread = true;
    if (absl::StatusOr<Inputs> arrays = given_to_whole(c.rows); arrays.ok())
      feed.arrays = *std::move(arrays);
    else
      stop_before(arrays.status());
    const Tokens first(static_cast<std::size_t>(c.rows), {0});
    for (int i = 0; i < 2 && good(); ++i) {
      const auto place = static_cast<std::size_t>(i);
      const std::span<const EncoderModel> encoders(encoders_.data(), i == 0 ? 0 : encoders_.size());
      absl::StatusOr<Inputs> given = given_inputs(*models_[i], steppers_[place].decoder(), feed, encoders, first);
      if (!given.ok())
        stop_before(given.status());
      else
        steppers_[place].give(i == 0 ? *std::move(given) : given_ = *std::move(given));
    }
    return good();
  }

  bool begin(int i, const Case& c) {
    // Where one of them has positions of its own making, which count from the beginning, the other's do, too.
    const bool count_padding = !whole().position_ids || !cached().position_ids;
    const absl::Status status = steppers_[static_cast<std::size_t>(i)].begin(padding(c), count_padding);
    if (!status.ok()) stop(i, status, text(c));
    return status.ok();
  }

  // Logits of the next tokens; nullopt, and the report says why, where they can't be had.
  std::optional<StepLogits> step(int i, const Case& c, const Tokens& tokens) {
    const double start = steady_seconds();
    absl::StatusOr<StepLogits> logits = steppers_[static_cast<std::size_t>(i)].step(tokens);
    if (!logits.ok()) {
      stop(i, logits.status(), text(c));
      return std::nullopt;
    }
    const auto count = static_cast<std::int64_t>(tokens.size() * tokens[0].size());
    pace_.saw(i == 1, i == 1 ? 1 : count, steady_seconds() - start);
    return *std::move(logits);
  }

  void compare(const Case& c) {
    const Tokens tokens = draw(c);
    if (!give(c) || !begin(0, c) || !begin(1, c)) return;
    // A reference that has a past itself, or no logits of all tokens, goes through the same steps.
    const std::optional<StepLogits> all = options_.both_cached ? std::nullopt : step(0, c, tokens);
    if (!good()) return;
    const bool at_once = all && all->all();
    if (all && !at_once && !begin(0, c)) return;
    Collected expected, made;
    for (std::int64_t at = 0; at < c.length;) {
      const std::int64_t count = std::min(at == 0 ? c.prompt : c.window, c.length - at);
      const std::optional<StepLogits> there = at_once ? all : step(0, c, part_of(tokens, at, count));
      const std::optional<StepLogits> here = there ? step(1, c, part_of(tokens, at, count)) : std::nullopt;
      if (!good()) return;
      if (here->vocabulary() != there->vocabulary())
        return stop(VerifyStatus::kDifferent, fmt::format("logits of {} tokens instead of {}", here->vocabulary(), there->vocabulary()));
      const Tensor fresh = here->tensor(), reference = there->tensor();
      const std::int64_t before = count - here->count(), before_there = at_once ? -at : count - there->count();
      for (std::int64_t r = 0; r < c.rows; ++r)
        for (std::int64_t t = std::max({before, before_there, std::int64_t{0}}); t < count; ++t) {
          if (r + 1 == c.rows && at + t < c.padding) continue;
          made.add(fresh, r, t - before);
          expected.add(reference, r, t - before_there);
        }
      at += count;
      if (at == c.length && count < at) weigh_past(c, part_of(tokens, at - count, count), here->last(0));
    }
    judge(c, expected.take(), made.take());
  }

  void judge(const Case& c, const Tensor& expected, const Tensor& made) {
    const bool half = std::min(bit_width(coarsest_float(*models_[0])), bit_width(coarsest_float(*models_[1]))) < 32;
    Tolerances tolerances;
    tolerances.rtol = options_.rtol, tolerances.atol = options_.atol;
    // Halves round sums whose terms are as large as the largest logits, and small ones among them are no more exact.
    if (half && !options_.rtol && !options_.atol)
      tolerances.atol = kHalfTolerance * largest_of(expected);
    else if (!options_.rtol)
      tolerances.rtol = half ? kHalfTolerance : kFloatTolerance;
    const std::string& name = models_[0]->graph.outputs[whole().logits].name;
    VerifyCase done;
    done.sizes = {{"batch", c.rows}, {"first", c.prompt}, {"padding", c.padding}, {"tokens", c.length}, {"window", c.window}};
    done.outputs.push_back(compare_values(name, expected, made, tolerances));
    report_.cases.push_back(std::move(done));
    const OutputComparison& o = report_.cases.back().outputs[0];
    if (!o.ok) stop(VerifyStatus::kDifferent, fmt::format("output '{}' differs with {}: {}", o.name, text(c), o.why));
  }

  // The last token's logits where the past is zero, and where what an encoder gave is zero, too. `last` tokens gave `with`, and come again.
  void weigh_past(const Case& c, const Tokens& last, const std::vector<float>& with) {
    const auto count = static_cast<std::int64_t>(last[0].size());
    steppers_[1].forget_past(count);
    const std::optional<StepLogits> without = step(1, c, last);
    if (!without) return;
    past_moves_ = std::max(past_moves_.value_or(0), moved(with, without->last(0)));
    if (given_.empty()) return;
    steppers_[1].give(without_numbers(given_));
    steppers_[1].forget_past(count);
    if (const std::optional<StepLogits> alone = step(1, c, last))
      given_moves_ = std::max(given_moves_.value_or(0), moved(without->last(0), alone->last(0)));
  }

  // Floats are zeros; masks stay.
  static Inputs without_numbers(const Inputs& given) {
    Inputs out;
    for (const auto& [name, value] : given)
      out.emplace(name, is_floating(value.tensor().dtype()) && name.find("mask") == std::string::npos
                            ? Value(Tensor(value.tensor().dtype(), value.tensor().dims()))
                            : value);
    return out;
  }

  // As a share of their scale.
  static double moved(const std::vector<float>& from, const std::vector<float>& to) {
    double scale = 0, most = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      scale = std::max(scale, std::abs(static_cast<double>(from[i])));
      most = std::max(most, std::abs(static_cast<double>(from[i]) - static_cast<double>(to[i])));
    }
    return scale > 0 ? most / scale : 0;
  }

  void tell_moves(const std::optional<double>& moves, const char* of, const char* little) {
    if (!moves) return;
    report_.notes.push_back(*moves < kMoves ? fmt::format("zeros instead of {} move the logits by {:.2g} of their scale alone: of {} "
                                                          "little is proven; verify with weights on which {} matters",
                                                          of, *moves, little, of)
                                            : fmt::format("zeros instead of {} move the logits by {:.2g} of their scale", of, *moves));
  }

  void tell() {
    tell_moves(past_moves_, "the past", "the cache");
    tell_moves(given_moves_, "what an encoder gives", "that");
    if (!left_out_.empty())
      report_.notes.push_back(fmt::format("left out, for they would not have ended within {:g} s (--time-limit gives more): {}",
                                          options_.seconds, fmt::join(left_out_, "; ")));
  }

  const Model* models_[2];
  const SteppingOptions& options_;
  double deadline_;
  bool one_row_alone_ = false;
  Pace pace_;
  std::optional<double> past_moves_, given_moves_;  // by zeros in its place, as a share of the logits' scale; the most of all cases
  std::vector<std::string> left_out_;               // cases
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<EncoderModel> encoders_;
  Inputs given_;  // what they give the model with a cache, in the case that runs
  std::vector<Stepper> steppers_;
  VerifyReport report_;
};

// By steps as here, with the runtime's optimizations.
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

}  // namespace

VerifyReport verify_by_stepping(const Model& whole, const Model& cached, const SteppingOptions& options) {
  VerifyReport report = Stepping(whole, cached, options).run();
  report.no_judge = options.no_judge;
  for (const std::shared_ptr<Judge>& judge : options.judges)
    if (report.status == VerifyStatus::kEqual) ask_judge_by_stepping(*judge, whole, cached, options, report);
  return report;
}

}  // namespace saturate
