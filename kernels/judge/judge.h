// ONNX Runtime as the judge: a child process that loads and runs models there. It may refuse them, hang or die of them, and this process
// learns of it. One child serves all models of a command; where it died, the next model gets a new one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/compare/other_runtime.h"
#include "kernels/inputs/draw_inputs.h"
#include "kernels/judge/wire.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

using JudgeLevel = wire::Level;
struct GivenModel;

struct JudgeSetup {
  std::string library;       // ONNX Runtime's shared library. It is code, and trusted
  std::string program = {};  // the child; "": looked up beside this program
  int threads = 1;
  double hang_seconds = 30;  // beyond what a run may take, see verdict.cpp
  std::size_t memory = 0;    // bytes that a run may take, beside what the process and the models do; 0: no limit of its own
  const std::atomic<bool>* cancel = nullptr;
};

// Inputs that models are timed on, and how much they count.
struct TimedInputs {
  Inputs inputs;
  double weight = 1;
};

struct TurnsSetup {
  JudgeLevel level = JudgeLevel::kAll;
  bool wall = false;  // where there are several threads: what the clock on the wall tells of them, instead of their processor time
};

// Models that are loaded as users load them, and run in turns.
class Turns {
 public:
  Turns(Turns&&) noexcept;
  ~Turns();
  // Loads one; it takes and gives what the others do. Its number, from 0 on. Errors as of Judge::open.
  absl::StatusOr<std::size_t> add(const Model& model);
  // Loads it anew: where its weights and tensors lie then makes about a percent of its time.
  absl::Status reload(std::size_t number);
  // Unloads it; its number is not given again.
  void drop(std::size_t number);
  // Of each whole round the seconds of processor time (or TurnsSetup::wall) of each of these, in their order: of the thread where there is
  // one, else of the process; of several inputs the weighted sum. Ends after so many rounds or seconds, and the run that was begun then.
  absl::StatusOr<std::vector<std::vector<double>>> run(std::span<const std::size_t> numbers, std::span<const TimedInputs> inputs,
                                                       std::size_t rounds, double seconds);

  struct Impl;

 private:
  friend class Judge;
  explicit Turns(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What a run or a load came to, where it isn't well:
//   kInvalidArgument    the runtime refuses the model or the inputs
//   kUnimplemented      it has no kernel for a node of the model
//   kAborted            it ended the process: a signal
//   kDeadlineExceeded   it took longer than it may, and was ended
//   kResourceExhausted  not enough memory
//   kFailedPrecondition a value of a kind that is not sent between processes
//   kCancelled
// A message is one line.
class Judge : public std::enable_shared_from_this<Judge> {
 public:
  // Starts the child, which loads the library while this process goes on. kNotFound, kFailedPrecondition with one line where that can't be.
  static absl::StatusOr<std::shared_ptr<Judge>> start(JudgeSetup setup);
  ~Judge();
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  // Waits until the library is loaded. kFailedPrecondition with one line where it can't be.
  absl::Status ready();
  // "1.31.1"; "" before it is ready.
  const std::string& version() const;
  // "ONNX Runtime 1.31"
  std::string name() const;
  // Loads a model, which may be opened at several levels, within the seconds that `set_patience` allows.
  absl::StatusOr<RunOnce> open(std::shared_ptr<const GivenModel> model, JudgeLevel level);
  // The same of models that are opened once.
  OpenModel opener(JudgeLevel level);
  // What the runtime makes of a model when it loads it at this level, as it saves it: above kExtended it also has what is for this machine
  // alone. kResourceExhausted: with its weights it is larger than what is saved (wire::kMostSaved). kFailedPrecondition: what was saved is
  // no model to our loader.
  absl::StatusOr<Model> after_load(const Model& model, JudgeLevel level = JudgeLevel::kExtended);
  // No models yet. The threads are the judge's.
  Turns turns(const TurnsSetup& setup = {});
  // What loading may take.
  void set_patience(double seconds);
  double hang_seconds() const;

  struct Impl;

 private:
  explicit Judge(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// Where the child's program lies; "" where it is not found.
std::string judge_program();
// The shared library of ONNX Runtime that a folder or a file of this name holds: the file itself, or a folder that has
// libonnxruntime.so*, capi/libonnxruntime.so* (the package's) or lib/libonnxruntime.so*. kNotFound with one line.
absl::StatusOr<std::string> onnxruntime_library(const std::string& path);
// The environment variable that names it for the bare command.
inline constexpr const char* kOnnxruntimeVariable = "SATURATE_ONNXRUNTIME";

}  // namespace saturate
