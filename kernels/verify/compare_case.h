// One case of a verification: what two models made of the same inputs, compared, with what rounding, steps of quantized values and ties
// excuse.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/compare/half_paths.h"
#include "kernels/compare/noise.h"
#include "kernels/verify/verify.h"
#include "kernels/verify/verify_notes.h"

namespace saturate {

bool is_beyond(CaseKind kind);  // neither usual nor given
bool all_ok(const VerifyCase& c);
// Whether all that are compared are floats of which none is finite.
bool gives_no_number(const VerifyCase& c);
// What is made of nothing is what it is: a logarithm of no sum, the largest of no number.
bool has_an_empty_one(const Inputs& inputs);
// Whether outputs have the sizes that their declared dims say. Where not, the inputs only happened to run, by broadcasting.
bool has_declared_sizes(const Model& model, const std::vector<Value>& outputs, const Sizes& sizes);

// The first case may take so many times the time of all, where the user gave none: no case at all says nothing.
inline constexpr double kTimesForFirstCase = 5;

// What runs the models of one verification, and how long it may.
struct VerifyRun {
  VerifyRun(const Model& original, const Model& optimized, const VerifyOptions& options);
  SessionOptions session_options() const;
  // `any_yet`: a case was compared. `has_smaller`: where it ends too late, a smaller one is tried.
  RunLimits limits(CaseKind kind, bool any_yet, bool has_smaller = false) const;
  // Of all cases together, from the beginning: the first may take as long as none was compared.
  double seconds(bool any_yet, bool has_smaller) const;
  bool cancelled() const { return options.cancel != nullptr && *options.cancel; }

  const Model& original;
  const Model& optimized;
  const VerifyOptions& options;
  double started;
  OpenModel open;
  RunOnce first, second;
};

// What both made.
struct CaseRun {
  const Inputs& inputs;
  const std::vector<Value>& wanted;
  const std::vector<Value>& got;
  const Sizes& sizes;
  CaseKind kind;
};

class CaseComparer {
 public:
  CaseComparer(const VerifyRun& run, VerifyNotes& notes);

  // With everything that is excused.
  VerifyCase judged(const CaseRun& one);
  // As the tolerances say alone; elements that are NaN or infinite in the original may be anything.
  VerifyCase finite_ones(const CaseRun& one) const { return compared(one, {.only_finite = true}); }
  // Outputs that depend on random operators.
  const std::set<std::string>& random() const { return random_; }
  // Whether no time is left to learn what rounding makes.
  bool is_out_of_time() const { return seconds_of_noise_ <= 0; }
  // kBeyondQuantizers where the user's inputs turned out to be.
  unsigned cut_off() const { return cut_off_; }

 private:
  struct How {
    const std::vector<Noise>* noise = nullptr;
    bool only_finite = false, in_steps = false;
  };
  VerifyCase compared(const CaseRun& one, const How& how) const;
  bool differ_by_chance(std::size_t output, const Value& wanted, const Value& other) const;
  OutputComparison compared_output(const CaseRun& one, const How& how, std::size_t output) const;
  Tolerances tolerances_of(const std::string& output) const;
  const Value& of_same_name(const std::vector<Value>& values, const std::string& name) const;
  void allow_for_peer(const CaseRun& one, VerifyCase& result);
  void allow_for_noise(const CaseRun& one, VerifyCase& result);
  void measure_and_allow(const CaseRun& one, VerifyCase& result);
  bool allow_for_steps(const NoiseOf& original, const CaseRun& one, bool measured, std::vector<Noise>& noise, VerifyCase& result);
  void allow_for_ties(const CaseRun& one, VerifyCase& result);
  bool has_much_cut_off(const NoiseOf& original, CaseKind kind);
  void note_allowed(const VerifyCase& before, const VerifyCase& after, std::string_view why);
  bool tolerances_are_given() const { return run_.options.tolerances.rtol || run_.options.tolerances.atol; }
  bool allows_steps() const { return run_.options.steps > 0 || moves_ != StepMoves::kNone; }
  StepRule step_rule(const std::string& output) const;
  RunLimits limits_of_noise(CaseKind kind) const;

  const VerifyRun& run_;
  VerifyNotes& notes_;
  std::set<std::string> random_, names_of_inputs_;       // names: of their dims
  std::unordered_map<std::string, std::size_t> places_;  // of the second model's outputs, by name
  std::map<std::string, HalfPath> half_paths_;           // of outputs; empty: none is computed in 16 bits
  StepMoves moves_ = StepMoves::kNone;
  std::map<std::string, double> steps_;  // of outputs that hold quantized values
  bool floats_given_ = false;            // some input is of floats
  unsigned cut_off_ = kExcludesNothing;
  bool told_of_cut_off_ = false;
  double seconds_of_noise_;  // left to measure it
};

}  // namespace saturate
