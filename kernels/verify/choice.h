// Which runtimes judge: what --judge, --onnxruntime and the surroundings say.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/verify/verify.h"

namespace saturate {

struct JudgeWords {
  std::vector<std::string> judges;  // "saturate", "onnxruntime", "onnxruntime=PATH"; none: saturate, and onnxruntime where there is one
  std::string library;              // of --onnxruntime: a file or a folder (onnxruntime_library)
  bool in_python = false;           // what is not installed can be installed beside this
};

// The folder of the Python package onnxruntime beside ours, "" where there is none: a fact of this process, told before anything runs.
void tell_installed_onnxruntime(std::string folder);
struct NamedLibrary {
  std::string path;  // a file or a folder; "" where none is named
  std::string by;    // "--onnxruntime", the variable; "" where it is the installed one
};
// The first that is named: by the option, by the variable, by the package.
NamedLibrary named_onnxruntime(const std::string& library);

// Puts the judges into `check`, which has threads, memory and `cancel` already. One that was asked for and can't be had is an error of one
// line (kNotFound, kFailedPrecondition; wrong usage for words that mean nothing); where none was asked for, check.no_judge tells why there
// is none.
absl::Status choose_judges(const JudgeWords& words, VerifyOptions& check);
// The one ONNX Runtime that the words name, ready; the default one where they name none. Errors as above, and wrong usage where a word
// names another than it.
absl::StatusOr<std::shared_ptr<Judge>> the_onnxruntime(const JudgeWords& words, int threads, const std::atomic<bool>* cancel);
// The first of the judges as the runtime that alone runs models, without its optimizations; the others stay.
void take_runtime(std::vector<std::shared_ptr<Judge>>& judges, OtherRuntime& runtime);

}  // namespace saturate
