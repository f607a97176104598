// Recurrences that exporters unroll, found by what they compute: a region of products and sums without weights around the Exp of a decay,
// its borders, and the proof on drawn numbers that one operator computes the same.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx_bridge/convert/onnx_egraph.h"
#include "rules/native/kit.h"

namespace saturate::native {

// What made a class of the graph as it came: its first e-node.
struct Maker {
  const OpKey* key = nullptr;  // of the operator itself where the class is one of its several outputs
  std::vector<Id> children;
  int output = 0;
};
std::optional<Maker> maker_of(const OnnxEGraph& g, Id id);

// A class that holds what enters a region, in another view, and divided by a factor.
struct Place {
  Id id = kNone;
  double factor = 1;
};
// A value that enters a region: where it can be had, the furthest from the region first.
struct Border {
  std::vector<Place> places;
  bool decays = false;  // it goes into an Exp
};

// Where a recurrence may begin and end: single tokens may be values of their own, or parts of one, and what is added to its result or
// multiplied with it, as a skip and a gate, may follow or be part of it.
struct Reading {
  std::vector<Border> borders;
  std::vector<Id> inside;  // what follows from the Exps and the borders alone, by products and sums
};

struct Region {
  std::vector<Id> exps;  // ascending
  std::vector<Reading> readings;
};
// The region around this Exp; nullopt: none, or one with more borders than a recurrence has.
std::optional<Region> region_around(const OnnxEGraph& g, Id exp);

// How the axes of a value lie: [batch, time, heads, ..] or [batch, heads, time, ..].
enum class Layout : std::uint8_t { kTimeFirst, kHeadsFirst };
struct Placed {
  Id id = kNone;
  Layout layout = Layout::kTimeFirst;
  double factor = 1;  // of queries, for others are taken as they are
};

// A region that computes the operator: its inputs, and the classes that are its outputs.
struct Recurrence {
  Dim batch, time, heads, key_size, value_size;
  Placed query, key, value, decay, beta;  // beta: of the delta rule alone
  Placed past_state;                      // [batch, heads, key size, value size], whatever its layout says
  std::vector<Placed> results;
  std::vector<Id> present_states;
  bool is_delta() const { return beta.id != kNone; }
};
// The recurrence that the region computes, proven on drawn inputs, of several sizes where sizes are open. `why` (given): what is lacking.
std::optional<Recurrence> recurrence_of(const OnnxEGraph& g, const Region& region, std::string* why = nullptr);

// How a region is spelled, and its classes in that order. Regions of one spelling compute the same.
struct Spelling {
  std::vector<std::uint64_t> text;
  std::vector<Id> ids;
};
Spelling spelling_of(const OnnxEGraph& g, const Region& region);
// What was found out of regions by running them, or that nothing was: regions of one spelling are run once. `prove` finds it out, `move`
// says what is known of one region of another.
template <typename Found>
class FoundBySpelling {
 public:
  template <typename Prove, typename Move>
  std::optional<Found> of(Spelling spelling, const Prove& prove, const Move& move) {
    if (const auto it = known_.find(spelling.text); it != known_.end())
      return it->second.second ? move(*it->second.second, it->second.first, spelling) : std::nullopt;
    auto made = prove();
    auto text = spelling.text;
    known_.emplace(std::move(text), std::pair(std::move(spelling), made));
    return made;
  }

 private:
  std::map<std::vector<std::uint64_t>, std::pair<Spelling, std::optional<Found>>> known_;
};
// What is known of one region, said of another of the same spelling.
std::optional<Recurrence> moved(const OnnxEGraph& g, Recurrence r, const Spelling& from, const Spelling& to);

// Numbers that look random, the same each time.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  double between(double low, double high) {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return low + (high - low) * static_cast<double>((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
  }

 private:
  std::uint64_t state_;
};

// One run of a region on drawn inputs, in double.
struct Run {
  std::map<std::string, std::int64_t> sizes;  // of symbols
  std::map<Id, Tensor> given;                 // doubles, by border class
  std::map<Id, Tensor> values;                // of what was asked for
};
// Runs what leads from the given classes to `wanted`; false: something is missing, or cannot be run.
bool run_region(const OnnxEGraph& g, const std::vector<Id>& wanted, Run& run);

}  // namespace saturate::native
