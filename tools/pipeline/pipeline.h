// What happens to a model between load and save: optimize, then verify. The command and the library (saturate.h) share it, so that both
// give the same bytes.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "extract/optimize/optimize.h"
#include "kernels/verify/verify.h"
#include "tools/measure/measure.h"
#include "tools/pipeline/failure.h"
#include "tools/pipeline/report.h"
#include "tools/pipeline/setup.h"

namespace saturate {

// Writes who made it into the metadata_props of a result that is not the model that came in: the version, and the target with its release
// where it has one. The producer stays who it was. Without rules nothing is written.
void note_maker(const Setup& setup, Model& result);

struct PipelineOptions {
  OptimizeOptions optimize;             // limits.cancel ends the rewriting early, with the best so far
  std::optional<std::int64_t> io_rank;  // of inputs and outputs of the result (io_rank.h)
  bool verify = true;
  bool details = false;                      // the report tells of single nodes and values
  bool strict_verify = false;                // where verification fails, give up; else leave the rule out that is to blame, and go on
  bool debug_rules = false;                  // strict, and find the rule (debug_rules.h)
  std::optional<MeasureOptions> measure;     // the graph is taken that is fastest there
  VerifyOptions check;                       // its `cancel` is `abort`
  const std::atomic<bool>* abort = nullptr;  // gives up: kExitInterrupted
};

struct PipelineResult {
  Model model;  // not to be used where there is a failure
  WholeReport report;
  std::string egraph;      // JSON, where options.optimize asks for it
  bool unchanged = false;  // the model is the one that came in, with the interface that was asked for
  bool stopped = false;    // after the stage that options.optimize names: there is no model
  std::optional<Failure> failure;
};

// Optimizes, verifies and, where the result differs, tries again without the rule that verification blames (debug_rules.h), up to
// kMostLeftOut times: the report tells what was left out.
PipelineResult run_pipeline(const Model& model, const Setup& setup, const PipelineOptions& options);
inline constexpr int kMostLeftOut = 5;
// What assumptions leave to be drawn: inputs that break one would only show that it was made.
void allow_for_rules(const OptimizeReport& report, VerifyOptions& check);
// Verifying has what time is left, and a second at least.
void give_time(const TimeGiven& time, VerifyOptions& check);
// One round of it. Where options.optimize asks for samples, they are verified as well: the result differs if one of them does.
PipelineResult optimize_and_verify(const Model& model, const Setup& setup, const PipelineOptions& options);

}  // namespace saturate
