// A table of prices fitted to this machine: few of its rows, timed in ONNX Runtime.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/judge/judge.h"

namespace saturate {

inline constexpr std::size_t kMostCalibrationRows = 300;
inline constexpr double kMostCalibrationSeconds = 600;

struct CalibrateOptions {
  std::shared_ptr<Judge> runtime;  // ready; its threads are those that are measured
  int threads = 1;
  std::string table = "measured";           // that is fitted: the name of a built-in one
  std::size_t rows = kMostCalibrationRows;  // at most
  double seconds = 120;                     // after which no row is begun
  const std::atomic<bool>* stop = nullptr;
  std::function<void(std::size_t done, std::size_t all)> progress;  // may be empty
};

struct Calibration {
  std::string text;  // the file that --cost takes
  std::size_t rows = 0;
  double seconds = 0;               // that it took
  double ratio = 1;                 // the median of what rows take here to what the table says
  std::vector<std::string> failed;  // rows that the runtime does not run: the operator, and why
};

// Errors are one line: kCancelled; kUnavailable where too few rows run.
absl::StatusOr<Calibration> calibrate(const CalibrateOptions& options);

}  // namespace saturate
