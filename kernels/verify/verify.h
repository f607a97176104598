// Do two models compute the same? Both are run on the same inputs, several sizes of every symbolic dim: by our own runtime, unless another
// is named.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "egraph/stop.h"
#include "kernels/compare/compare.h"
#include "kernels/compare/other_runtime.h"
#include "kernels/compare/steps.h"
#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/model.h"
#include "onnx_bridge/operators/assumptions.h"

namespace saturate {

// What the inputs of a case are like. Of the ones beyond the usual, those that the original refuses are passed over.
enum class CaseKind : std::uint8_t {
  kUsual,
  kFar,      // numbers far from 0, very small ones, large integers of both signs; one in which the original over- or underflows is passed
             // over where the models differ
  kSpecial,  // with NaN, infinities, -0.0 and denormals; floats that are finite in the original are compared, and integers if no input is a
             // float
  kEmpty,    // a size is 0
  kQuiet,    // smooth numbers, silence and numbers near 0; passed over as those far from it
  kEdges,    // on and beside constants that inputs are compared with, and ties; passed over as those far from 0
  kQuantized,  // on and beside the edges between steps of the quantizers that read inputs, and beyond their range
  kSwitched,   // flags and counts of one element are others than 1, and rows of masks begin with 0
  kVaried,     // inputs that have a default have other numbers, those that may be absent are, and sequences have other lengths
  kLong,       // a size goes beyond the blocks in which kernels work
  kGiven,      // by the user
};
std::string_view to_string(CaseKind kind);

class Judge;

struct GivenCase {
  Sizes sizes;  // told in messages
  CaseKind kind = CaseKind::kGiven;
};

inline constexpr double kTimeOfJudges = 2;  // seconds beyond those of verifying, for those who begin last

struct VerifyOptions {
  Tolerances tolerances;
  int steps = 0;                                                                // given by the user: quantized values may differ by so many
  StepMoves moves = StepMoves::kNone;                                           // by effects of rules: what may become of quantized values
  std::vector<Inputs> inputs;                                                   // these, one case each, instead of random ones
  std::vector<GivenCase> given;                                                 // what each of `inputs` is like; none: as given by the user
  Sizes sizes;                                                                  // sizes of symbols that the user gave
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> input_shapes;  // dims of inputs that the user gave, -1: free
  std::uint64_t seed = 0;
  int threads = 1;
  unsigned excluded = kExcludesNothing;       // by assumptions that were made, flags of Excluded: not drawn, or no difference where met
  bool knows_assumptions = false;             // `excluded` is all that was assumed: what lies outside of conventions is drawn, too
  double seconds = 60;                        // after so long no new case is begun, and the one that runs is given up
  bool ends_in_time = false;                  // `seconds` bound the first case, too, and the judges have little more: the user gave them
  double judges_until = kNoDeadline;          // of steady_seconds(), where it ends in time; kNoDeadline: kTimeOfJudges after `seconds`
  std::size_t memory = std::size_t{4} << 30;  // bytes of all tensors of a run that are alive at once
  const std::atomic<bool>* cancel = nullptr;
  // Runs the models instead of our runtime. It keeps to no bounds of memory, so there are no cases beyond the usual but long ones.
  OtherRuntime runtime;
  std::vector<std::shared_ptr<Judge>> judges;      // runtimes that both are run by, too (tools/judge)
  bool here = true;                                // false: the judges alone run the models
  std::string no_judge;                            // why there is none, where one could be; told in the report
  bool kernels_may_be_missing = false;             // a judge that has no kernel for a node of the second model is passed over
  bool keep_inputs = false;                        // VerifyReport::inputs
  std::function<void(std::size_t done)> progress;  // after each case
};

enum class VerifyStatus {
  kEqual,
  kDifferent,    // some output differs, or the second model fails where the first runs
  kUnsupported,  // one of the models holds something that our runtime can't run, and they can't be compared in parts around it
  kNotRun,       // nothing was compared: no inputs were found that the first model accepts, or the given ones are refused, or time is over
  kCancelled,
};

struct VerifyCase {
  Sizes sizes;  // of the symbols, empty with given inputs
  CaseKind kind = CaseKind::kUsual;
  std::vector<OutputComparison> outputs;  // in the first model's order
};

enum class JudgeVerdict : std::uint8_t { kNotJudged, kEqual, kFault };

// Of outputs that the runtime's own optimizations move in the original, too.
inline constexpr std::string_view kByItsOptimizations = "the runtime's own optimizations";
inline constexpr std::string_view kFailsWhereEmpty = "the optimized model fails";

struct VerifyReport {
  // By another runtime, beside ours.
  struct Judged {
    std::string name, version;  // "ONNX Runtime 1.31", "1.31.1"
    JudgeVerdict verdict = JudgeVerdict::kNotJudged;
    std::string message;  // one line; why, unless equal
    std::size_t cases = 0;
    std::vector<std::string> notes;
    double seconds = 0;
  };
  VerifyStatus status = VerifyStatus::kEqual;
  std::string message;              // one line; why, unless equal
  std::string runtime;              // that both were run by, where it isn't ours
  std::vector<std::string> around;  // operators that can't be run and were cut out: the parts around them were compared
  std::vector<VerifyCase> cases;
  std::vector<Inputs>
      inputs;  // of the cases, one each, where VerifyOptions::keep_inputs asks for them; of the parts, where `around` is told
  std::vector<std::string> notes;  // outputs that weren't compared, and why
  std::vector<Judged> judged;      // one for each of VerifyOptions::judges
  std::string no_judge;            // why there is none
  std::size_t refused = 0;         // tries that the first model refused
  // Where the models differ: the inputs, and which of VerifyOptions::excluded they turn out to be.
  std::optional<Inputs> failed_on;
  CaseKind failed_kind = CaseKind::kUsual;
  unsigned breaks = kExcludesNothing;
  double seconds = 0;
  double max_abs() const;  // over all outputs of all cases
};

// Who ran both models: "in ONNX Runtime 1.31 and here", "here only (onnxruntime is not installed)".
std::string judged_by(const VerifyReport& report);
// The same in two: "in ONNX Runtime 1.31 and here", "here only"; and why there is no other judge, "" where there is one.
std::string judges_of(const VerifyReport& report);
std::string why_not_judged(const VerifyReport& report);
// "no difference", "largest difference 1.3e-06 of 4.2, allowed 4.2e-04": of the element that comes nearest to what is allowed, with the
// size that its allowance is a share of.
std::string difference_text(const VerifyReport& report);
// That element's output; null where nothing differs.
const OutputComparison* worst_output(const VerifyReport& report);

VerifyReport verify(const Model& original, const Model& optimized, const VerifyOptions& options = {});

// What to do where models could not be compared, `status` kUnsupported or kNotRun.
std::string_view advice_unverified(const VerifyReport& report);
// Outputs (by name) that depend on random operators without a fixed seed.
std::vector<std::string> random_outputs(const Model& model);
// "batch=2, seq=3"; of many the first, and how many more there are.
std::string to_string(const Sizes& sizes);

}  // namespace saturate
