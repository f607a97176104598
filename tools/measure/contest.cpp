#include "tools/measure/contest.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "egraph/stop.h"
#include "extract/prepare/assumed_sizes.h"
#include "extract/prepare/graph_stats.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/judge/given_model.h"
#include "kernels/verify/trial.h"
#include "kernels/verify/verify.h"
#include "onnx_bridge/file/io.h"
#include "tools/io/sha256.h"

namespace saturate {
namespace {

constexpr double kSlice = 0.5;                               // seconds between two looks at what came of it
constexpr std::size_t kMostRounds = 400, kClearRounds = 30;  // rounds after which it ends, and where all is clear
constexpr double kLeastOfPart = 1;                           // of a part: what disturbs the machine lasts longer than a few runs
constexpr double kClear = 0.01;                              // width of an interval
constexpr std::size_t kRoundsToLeave = 10;
constexpr std::size_t kMostWeights = std::size_t{4} << 30;  // of all graphs that are loaded at once
constexpr std::size_t kMostContestants = 24;
constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

// Sizes of all symbols of the inputs: those of the point, else the usual ones, else as predictions have them.
Sizes sizes_of(const Model& model, const InputDrawer& drawer, const CostPoint& point) {
  const CostOptions otherwise;
  const auto usual = numbers_of(assumed_sizes(model, point.symbols));
  Sizes sizes;
  for (const std::string& symbol : drawer.symbols()) {
    const auto given = point.symbols.find(symbol);
    const auto known = usual.find(symbol);
    sizes[symbol] = given != point.symbols.end() ? given->second : known != usual.end() ? known->second : otherwise.default_symbol;
    Sizes parts(usual.begin(), usual.end());
    for (const auto& [name, size] : point.symbols) parts[name] = size;
    if (given == point.symbols.end() && dim_names(symbol).size() > 1)
      if (const auto sum = evaluate_dim(symbol, parts)) sizes[symbol] = *sum;
  }
  return sizes;
}

// Those above 1; false where none is.
bool halve(Sizes& sizes) {
  bool any = false;
  for (auto& [symbol, size] : sizes)
    if (size > 1) size = (size + 1) / 2, any = true;
  return any;
}

}  // namespace

std::string sum_of(const Model& model) {
  std::vector<DetachedData> apart;
  const auto message = serialize_model(model, kLargeWeight, apart);
  return message.ok() ? sha256(*message) : "";
}

Contest::Contest(Variants& variants, const MeasureOptions& options)
    : variants_(variants), options_(options), start_(steady_seconds()), turns_(options.runtime->turns()) {
  all_.push_back({.name = "original", .variant = {.original = true}});
}

double Contest::left() const {
  const bool stopped = options_.stop && *options_.stop;
  return stopped ? 0 : std::max(0.0, start_ + options_.seconds - steady_seconds());
}

bool Contest::is_over(double share) const { return left() <= (1 - share) * options_.seconds; }

bool Contest::takes_more() const {
  const auto running = static_cast<double>(std::count_if(all_.begin(), all_.end(), [](const Contestant& c) { return c.runs; }));
  const double each = running > 0 ? round_seconds_ / running : 0;
  return all_.size() < kMostContestants && left() > 2 * variants_.seconds_to_make() + 2 * kFewestRounds * (round_seconds_ + each);
}

absl::Status Contest::begin() {
  const Model& original = variants_.original();
  Contestant& first = all_[0];
  first.sum = sum_of(original);
  first.nodes = graph_stats(original).nodes;
  bytes_ = initializer_bytes(original.graph);
  auto number = turns_.add(original);
  if (!number.ok()) return number.status();
  first.number = *number;
  tell();
  if (absl::Status s = take_inputs(); !s.ok()) return s;
  return first_run(first);
}

absl::Status Contest::take_inputs() {
  if (!options_.inputs.empty()) {
    for (const Inputs& inputs : options_.inputs) inputs_.push_back({inputs, 1});
    sizes_ = "those of --inputs";
    return absl::OkStatus();
  }
  const std::vector<CostPoint> points = options_.points.empty() ? std::vector<CostPoint>(1) : options_.points;
  for (const CostPoint& point : points)
    if (absl::Status s = draw_inputs(point); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status Contest::draw_inputs(const CostPoint& point) {
  const Model& original = variants_.original();
  Sizes sizes = sizes_of(original, InputDrawer(original), point);
  const std::size_t number[] = {all_[0].number};
  const auto run = [&](const Inputs& inputs) {
    const TimedInputs one[] = {{inputs, 1}};
    return turns_.run(number, one, 1, 0).status();
  };
  absl::StatusOr<Trial> trial = try_shapes(original, InputDrawer(original, sizes), options_.seed, run);
  const absl::Status first = trial.status();
  // Sizes that nobody asked for may be too large: of positions there may be fewer.
  while (absl::IsInvalidArgument(trial.status()) && options_.points.empty() && halve(sizes))
    trial = try_shapes(original, InputDrawer(original, sizes), options_.seed, run);
  if (absl::IsInvalidArgument(trial.status()) && options_.points.empty())
    trial = try_shapes(original, InputDrawer(original), options_.seed, run);
  if (!trial.ok()) return absl::IsCancelled(trial.status()) ? trial.status() : first;
  std::string told = trial->taken.empty() ? to_string(sizes) : fmt::format("{}", fmt::join(trial->taken, ", "));
  if (options_.points.size() > 1) told += fmt::format(" (weight {:g})", point.weight);
  sizes_ += fmt::format("{}{}", sizes_.empty() ? "" : "; ", told);
  inputs_.push_back({std::move(trial->inputs), point.weight});
  return absl::OkStatus();
}

absl::Status Contest::first_run(Contestant& contestant) {
  const std::size_t number[] = {contestant.number};
  const double begin = steady_seconds();
  if (absl::Status s = turns_.run(number, inputs_, 1, 0).status(); !s.ok()) return s;
  round_seconds_ += steady_seconds() - begin;
  contestant.runs = true;
  contestant.seconds.assign(rounds_, kNever);
  return absl::OkStatus();
}

std::size_t Contest::add(Contestant contestant) {
  const auto ends = [&](std::string why) {
    contestant.why_not = std::move(why);
    all_.push_back(std::move(contestant));
    return all_.size() - 1;
  };
  const absl::StatusOr<Model> made = variants_.make(contestant.variant);
  if (!made.ok()) return ends(std::string(made.status().message()));
  contestant.sum = sum_of(*made);
  contestant.nodes = graph_stats(*made).nodes;
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i].sum == contestant.sum && all_[i].why_not.empty()) return ends(fmt::format("the same as {}", all_[i].name));
  contestant.bytes = initializer_bytes(made->graph);
  if (bytes_ + contestant.bytes > kMostWeights && all_.size() > 1) return ends("weights of all graphs together would take more than 4 GB");
  const absl::StatusOr<std::size_t> number = turns_.add(*made);
  if (!number.ok()) return ends(std::string(number.status().message()));
  contestant.number = *number;
  if (absl::Status s = first_run(contestant); !s.ok()) {
    turns_.drop(*number);
    return ends(std::string(s.message()));
  }
  bytes_ += contestant.bytes;
  tell();
  all_.push_back(std::move(contestant));
  return all_.size() - 1;
}

void Contest::leave(std::size_t place) {
  Contestant& one = all_[place];
  if (!one.runs) return;
  one.runs = false;
  turns_.drop(one.number);
  bytes_ -= one.bytes;
}

absl::Status Contest::reload() {
  for (const Contestant& one : all_) {
    if (!one.runs) continue;
    if (absl::Status s = turns_.reload(one.number); !s.ok()) return s;
    const std::size_t number[] = {one.number};
    if (absl::Status s = turns_.run(number, inputs_, 1, 0).status(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

MeasuredRatio Contest::ratio(std::size_t place, std::size_t over, std::size_t from) const {
  const auto rest = [&](std::size_t i) { return std::span<const double>(all_[i].seconds).subspan(std::min(from, all_[i].seconds.size())); };
  return ratio_of(rest(place), rest(over));
}

bool Contest::is_clear(std::size_t base) const {
  for (std::size_t i = 1; i < all_.size(); ++i) {
    if (!all_[i].runs) continue;
    for (const std::size_t over : {std::size_t{0}, base})
      if (const MeasuredRatio r = ratio(i, over); i != over && r.high - r.low > kClear * r.median) return false;
  }
  return true;
}

void Contest::drop_slower(std::size_t base) {
  for (std::size_t i = 1; i < all_.size(); ++i)
    if (i != base && all_[i].runs && ratio(i, base).low > 1) leave(i);
}

void Contest::tell() const {
  if (!options_.progress) return;
  const auto running = std::count_if(all_.begin(), all_.end(), [](const Contestant& c) { return c.runs; });
  options_.progress(fmt::format("{} graph{} in turns, {} rounds", running, running == 1 ? "" : "s", rounds_), left());
}

absl::Status Contest::run(double share, std::size_t base) {
  const std::size_t begun = rounds_;
  const double since = steady_seconds();
  const auto took = [&] { return steady_seconds() - since >= kLeastOfPart; };
  while (!is_over(share) && (rounds_ < begun + kMostRounds || !took())) {
    std::vector<std::size_t> numbers, places;
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i].runs) numbers.push_back(all_[i].number), places.push_back(i);
    const double slice = std::min(std::max(kSlice, 2 * round_seconds_), left());
    const double begin = steady_seconds();
    const auto made = turns_.run(numbers, inputs_, kMostRounds, slice);
    if (!made.ok()) return made.status();
    if (!made->empty()) round_seconds_ = (steady_seconds() - begin) / static_cast<double>(made->size());
    for (const std::vector<double>& round : *made) {
      for (Contestant& c : all_) c.seconds.resize(rounds_ + 1, kNever);
      for (std::size_t i = 0; i < places.size(); ++i) all_[places[i]].seconds[rounds_] = round[i];
      ++rounds_;
    }
    tell();
    if (made->empty()) break;
    if (rounds_ - begun >= kRoundsToLeave) drop_slower(base);
    if (took() && rounds_ - begun >= kClearRounds && is_clear(base)) break;
  }
  return absl::OkStatus();
}

}  // namespace saturate
