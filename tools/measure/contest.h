// Graphs that are timed in turns, and what came of it.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "tools/measure/measure.h"
#include "tools/measure/ratio.h"

namespace saturate {

struct Contestant {
  std::string name;
  Variant variant = {};
  nlohmann::json question = nullptr;  // of its region, for later runs; null: of none
  std::string sum = {};               // of its message
  std::size_t nodes = 0, bytes = 0;   // bytes: of its weights
  std::size_t number = 0;             // in the turns
  bool runs = false;                  // it still takes part
  std::string why_not = {};           // it never did
  std::vector<double> seconds = {};   // by round; NaN where it took no part
};

// What tells graphs apart: of the message without large weights.
std::string sum_of(const Model& model);

class Contest {
 public:
  // The original is the first to take part.
  explicit Contest(Variants& variants, const MeasureOptions& options);
  // Loads and runs the original. Errors as of measured_choice().
  absl::Status begin();
  // Makes a graph and lets it take part, unless it is like one that does, or can't be made, loaded or run: its place among all.
  std::size_t add(Contestant contestant);
  void leave(std::size_t place);
  // Loads anew what takes part.
  absl::Status reload();
  // Runs those that take part in turns until `share` of the budget is over, or all is clear. Which are clearly slower than `base` leave.
  absl::Status run(double share, std::size_t base);
  bool is_over(double share = 1) const;
  double left() const;
  // Whether another would still get enough rounds.
  bool takes_more() const;
  const std::vector<Contestant>& all() const { return all_; }
  Contestant& at(std::size_t place) { return all_[place]; }
  std::size_t rounds() const { return rounds_; }
  // Times from a round on.
  MeasuredRatio ratio(std::size_t place, std::size_t over, std::size_t from = 0) const;
  std::string sizes() const { return sizes_; }

 private:
  absl::Status take_inputs();
  absl::Status draw_inputs(const CostPoint& point);
  absl::Status first_run(Contestant& contestant);
  bool is_clear(std::size_t base) const;
  void drop_slower(std::size_t base);
  void tell() const;

  Variants& variants_;
  const MeasureOptions& options_;
  double start_;
  Turns turns_;
  std::vector<TimedInputs> inputs_;
  std::string sizes_;
  std::vector<Contestant> all_;
  double round_seconds_ = 0;  // of one run of each that takes part
  std::size_t rounds_ = 0, bytes_ = 0;
};

}  // namespace saturate
