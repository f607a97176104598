// How a run fails: the exit status and the sentence that a user reads.
#pragma once

#include <string>
#include <string_view>

namespace saturate {

enum ExitCode : int {
  kExitOk = 0,
  kExitFile = 1,  // a model, rule or other file can't be read, is invalid or can't be written
  kExitUsage = 2,
  kExitDifferent = 3,    // verification failed; no output file
  kExitBudget = 4,       // --strict-budget and a budget was exhausted; the best valid result is written
  kExitUnsupported = 5,  // something that our runtime can't run, so nothing can be verified
  kExitNotShown = 6,     // reduce: the model does not show the failure
  kExitInterrupted = 130,
};

struct Failure {
  ExitCode code = kExitFile;
  std::string message, advice;
};

// Advice where a model makes no sense and the message has none of its own.
inline constexpr const char* kModelAdvice = "mend the model there, or export it again";

// `<place>: <what>; <what to do>` as one line. `place` is put in front unless the message begins with it, `advice` at the end unless the
// message has some already.
std::string error_line(std::string_view place, std::string_view message, std::string_view advice);

}  // namespace saturate
