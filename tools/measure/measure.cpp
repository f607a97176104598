#include "tools/measure/measure.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "egraph/stop.h"
#include "extract/price/measured_on.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/measure/contest.h"

namespace saturate {
namespace {

using nlohmann::json;

constexpr std::size_t kOriginal = 0;
constexpr std::string_view kPredicted = "predicted";
constexpr double kFirstPart = 0.7;           // of the budget: for what may be better in one place
constexpr std::size_t kRoundsOfItsOwn = 10;  // so many rounds of the last part decide without those before it

std::string processor() {
  const std::string name = this_machine().processor;
  return name.empty() ? "unknown" : name;
}

json to_json(const Variant& v) {
  return {{"unfused", v.unfused},         {"fused", v.fused},         {"other", v.other},
          {"fewest", v.fewest_operators}, {"own_opset", v.own_opset}, {"original", v.original}};
}

// What is unknown has no number in JSON.
json to_json(const MeasuredRatio& ratio) {
  if (!std::isfinite(ratio.high)) return nullptr;
  return {ratio.median, ratio.low, ratio.high};
}

// What a file holds may be anything.
std::optional<MeasuredRatio> ratio_from(const json& answer) {
  const auto it = answer.find("ratio");
  if (it == answer.end() || !it->is_array() || it->size() != 3) return std::nullopt;
  for (const json& one : *it)
    if (!one.is_number()) return std::nullopt;
  return MeasuredRatio{(*it)[0], (*it)[1], (*it)[2]};
}

std::optional<Variant> variant_from(const json& answer) {
  try {
    const json& v = answer.at("variant");
    return Variant{v.at("unfused"), v.at("fused"), v.at("other"), v.at("fewest"), v.at("own_opset"), v.at("original")};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

Variant joined(Variant a, const Variant& b) {
  a.unfused.insert(b.unfused.begin(), b.unfused.end());
  a.fused.insert(b.fused.begin(), b.fused.end());
  a.other.insert(b.other.begin(), b.other.end());
  return a;
}

class MeasuredChoice {
 public:
  MeasuredChoice(Variants& variants, const MeasureOptions& options, Measured& told)
      : variants_(variants), options_(options), told_(told), contest_(variants, options) {
    told_.runtime = options.runtime->name();
    told_.version = options.runtime->version();
    told_.processor = processor();
    told_.threads = options.threads;
    told_.budget = options.seconds;
  }

  absl::StatusOr<Variant> made() {
    const double start = steady_seconds();
    if (is_stopped()) {
      told_.taken = kPredicted;
      return Variant{};
    }
    question_ = surroundings();
    question_.update({{"original", sum_of(variants_.original())}, {"predicted", sum_of(variants_.cheapest())}, {"at", asked_sizes()}});
    const json* answer = options_.answers->find(question_);
    const std::optional<Variant> known = answer ? variant_from(*answer) : std::nullopt;
    absl::StatusOr<Variant> taken = known ? remembered(*known, *answer) : decided();
    told_.seconds = steady_seconds() - start;
    return taken;
  }

 private:
  json surroundings() const { return {{"runtime", told_.version}, {"processor", told_.processor}, {"threads", told_.threads}}; }

  // Of what the times are.
  json asked_sizes() const {
    json out = json::array();
    for (const Inputs& inputs : options_.inputs) {
      json shapes = json::object();
      for (const auto& [name, value] : inputs)
        shapes[name] = value.is_tensor() ? json(std::vector<std::int64_t>(value.tensor().dims())) : json("no tensor");
      out.push_back(shapes);
    }
    if (out.empty())
      for (const CostPoint& point : options_.points) out.push_back({{"sizes", point.symbols}, {"weight", point.weight}});
    return out;
  }

  // Before anything could be told.
  bool is_stopped() const { return options_.stop && *options_.stop && contest_.rounds() < kFewestRounds; }

  Variant remembered(const Variant& variant, const json& answer) {
    told_.remembered = true;
    told_.unchanged = variant.original;
    told_.ratio = ratio_from(answer).value_or(MeasuredRatio{});
    const auto text = [&](const char* key) {
      return answer.contains(key) && answer[key].is_string() ? answer[key].get<std::string>() : "";
    };
    told_.taken = text("graph");
    told_.sizes = text("sizes");
    return variant;
  }

  absl::StatusOr<Variant> decided() {
    if (absl::Status s = contest_.begin(); !s.ok()) {
      if (absl::IsCancelled(s)) return s;
      return absl::UnimplementedError(fmt::format("{} does not run the model: {}", told_.runtime, std::string(s.message())));
    }
    told_.sizes = contest_.sizes();
    const std::size_t predicted = contest_.add({.name = std::string(kPredicted)});
    base_ = contest_.all()[predicted].runs ? predicted : kOriginal;
    add_alternatives();
    if (contest_.all().size() > predicted + 1)
      if (absl::Status s = contest_.run(kFirstPart, base_); !s.ok()) return s;
    const std::vector<std::size_t> finalists = last_ones();
    const std::size_t begun = contest_.rounds();
    if (begun > 0 && contest_.takes_more())
      if (absl::Status s = contest_.reload(); !s.ok()) return s;
    if (absl::Status s = contest_.run(1, base_); !s.ok()) return s;
    const std::size_t from = contest_.rounds() - begun >= kRoundsOfItsOwn ? begun : 0;
    std::size_t best = best_of(finalists, from);
    if (best == kOriginal && (is_stopped() || !variants_.may_stay())) best = predicted;
    told_.ratio = contest_.ratio(best, kOriginal, from);
    tell(best, from);
    remember(best);
    return contest_.all()[best].variant;
  }

  // Others that may stand in a region, with what is asked of later runs' file.
  struct Alternative {
    std::string how;
    Variant variant;
  };
  static std::vector<Alternative> alternatives(const Region& region) {
    if (region.taken.empty()) return {{"fused", {.fused = {region.name}}}};
    std::vector<Alternative> out{{"unfused", {.unfused = {region.name}}}};
    if (!region.others.empty())
      out.push_back({fmt::format("without {}", fmt::join(region.taken, ", ")), {.other = {{region.name, region.taken}}}});
    return out;
  }

  void add_alternatives() {
    add({.name = "fewest operators", .variant = {.fewest_operators = true}});
    if (variants_.has_other_opset()) add({.name = "own opset", .variant = {.own_opset = true}});
    std::vector<Contestant> rest;
    for (const Region& region : variants_.regions())
      for (const Alternative& alternative : alternatives(region)) {
        json question = surroundings();
        question.update({{"region", region.signature}, {"instead", alternative.how}});
        if (const json* answer = options_.answers->find(question)) {
          if (const auto ratio = ratio_from(*answer); ratio && is_less(*ratio)) known_ = joined(std::move(known_), alternative.variant);
        } else {
          rest.push_back({.name = fmt::format("{} {}", region.name, alternative.how),
                          .variant = alternative.variant,
                          .question = std::move(question)});
        }
      }
    if (!known_.is_cheapest()) add({.name = "as measured before", .variant = known_});
    for (Contestant& contestant : rest) add(std::move(contestant));
  }

  void add(Contestant contestant) {
    if (contest_.takes_more()) contest_.add(std::move(contestant));
  }

  // What is faster than the predicted graph, that of several places joined; all others leave.
  std::vector<std::size_t> last_ones() {
    std::map<std::string, std::size_t> by_region;
    std::size_t whole = base_;
    const auto& all = contest_.all();
    const auto better = [&](std::size_t a, std::size_t b) { return contest_.ratio(a, base_).median < contest_.ratio(b, base_).median; };
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (i == base_ || !all[i].runs || !is_less(contest_.ratio(i, base_))) continue;
      if (all[i].question.is_null()) {
        if (whole == base_ || better(i, whole)) whole = i;
        continue;
      }
      const auto [it, is_new] = by_region.try_emplace(all[i].question["region"].get<std::string>(), i);
      if (!is_new && better(i, it->second)) it->second = i;
    }
    std::set<std::size_t> out{base_, whole};
    Variant together = known_;
    for (const auto& [region, place] : by_region) {
      out.insert(place);
      together = joined(std::move(together), all[place].variant);
    }
    for (std::size_t i = 1; i < all.size(); ++i)
      if (!out.contains(i)) contest_.leave(i);
    if (by_region.size() + (known_.is_cheapest() ? 0 : 1) > 1 && contest_.takes_more()) {
      const std::size_t place = contest_.add({.name = "the faster places together", .variant = together});
      if (all[place].runs) out.insert(place);
    }
    return {out.begin(), out.end()};
  }

  // By the last part, and by all: where a model's memory happens to lie differs between the two.
  bool is_faster(std::size_t place, std::size_t over, std::size_t from) const {
    return is_less(contest_.ratio(place, over, from)) && is_less(contest_.ratio(place, over));
  }

  // Faster than the original, and than the predicted graph where that is, too.
  std::size_t best_of(const std::vector<std::size_t>& finalists, std::size_t from) const {
    std::size_t best = base_ != kOriginal && is_faster(base_, kOriginal, from) ? base_ : kOriginal;
    const std::size_t least = best;
    for (const std::size_t i : finalists)
      if (i != kOriginal && contest_.all()[i].runs && is_faster(i, least, from) && is_faster(i, kOriginal, from) &&
          (best == least || contest_.ratio(i, kOriginal, from).median < contest_.ratio(best, kOriginal, from).median))
        best = i;
    return best;
  }

  void tell(std::size_t best, std::size_t from) {
    for (std::size_t i = 0; i < contest_.all().size(); ++i) {
      const Contestant& c = contest_.all()[i];
      Measured::Graph graph{.name = c.name, .nodes = c.nodes, .why_not = c.why_not};
      if (c.why_not.empty()) {
        ++told_.timed;
        graph.runs = static_cast<std::size_t>(std::count_if(c.seconds.begin(), c.seconds.end(), [](double s) { return !std::isnan(s); }));
        graph.seconds = median_of(c.seconds);
        graph.original = contest_.ratio(i, kOriginal, c.runs ? from : 0);
      }
      told_.graphs.push_back(std::move(graph));
    }
    told_.taken = contest_.all()[best].name;
    told_.unchanged = best == kOriginal;
  }

  void remember(std::size_t best) {
    for (std::size_t i = 1; i < contest_.all().size(); ++i) {
      const Contestant& c = contest_.all()[i];
      if (base_ == kOriginal || c.question.is_null() || !c.why_not.empty()) continue;
      if (const MeasuredRatio ratio = contest_.ratio(i, base_); std::isfinite(ratio.high))
        options_.answers->add(c.question, {{"ratio", to_json(ratio)}});
    }
    if (contest_.rounds() < kFewestRounds) return;
    const Contestant& taken = contest_.all()[best];
    options_.answers->add(
        question_, {{"variant", to_json(taken.variant)}, {"graph", taken.name}, {"sizes", told_.sizes}, {"ratio", to_json(told_.ratio)}});
  }

  Variants& variants_;
  const MeasureOptions& options_;
  Measured& told_;
  Contest contest_;
  std::size_t base_ = kOriginal;  // what others are compared with
  Variant known_;                 // what is faster by the file
  json question_;
};

}  // namespace

absl::StatusOr<Variant> measured_choice(Variants& variants, const MeasureOptions& options, Measured& told) {
  return MeasuredChoice(variants, options, told).made();
}

}  // namespace saturate
