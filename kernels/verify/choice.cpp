#include "kernels/verify/choice.h"

#include <cstdlib>
#include <utility>

#include "fmt/format.h"
#include "kernels/judge/judge.h"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {
namespace {

constexpr std::string_view kOurs = "saturate", kOnnxruntime = "onnxruntime";

std::string& installed_onnxruntime() {
  static std::string folder;
  return folder;
}

absl::StatusOr<std::shared_ptr<Judge>> start(const std::string& path, const VerifyOptions& check) {
  const absl::StatusOr<std::string> library = onnxruntime_library(path);
  if (!library.ok()) return library.status();
  JudgeSetup setup;
  setup.library = *library;
  setup.threads = check.threads;
  setup.memory = check.memory;
  setup.cancel = check.cancel;
  return Judge::start(std::move(setup));
}

absl::Status choose_named(const JudgeWords& words, VerifyOptions& check) {
  check.here = false;
  for (const std::string& word : words.judges) {
    if (word == kOurs) {
      check.here = true;
      continue;
    }
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    if (name != kOnnxruntime)
      return wrong_usage(fmt::format("--judge {}: it is saturate, onnxruntime or onnxruntime=PATH (of its shared library)", word));
    const std::string path = word.size() > name.size() ? word.substr(name.size() + 1) : named_onnxruntime(words.library).path;
    if (path.empty())
      return absl::UnimplementedError(
          fmt::format("{}, or name its shared library by --onnxruntime PATH or the variable {}",
                      words.in_python ? "onnxruntime is not installed; pip install onnxruntime"
                                      : "onnxruntime: this command knows of none; `pip install onnx-saturate onnxruntime` brings a command "
                                        "`saturate` that finds it",
                      kOnnxruntimeVariable));
    auto judge = start(path, check);
    if (!judge.ok()) return judge.status();
    if (absl::Status s = (*judge)->ready(); !s.ok()) return s;
    check.judges.push_back(*std::move(judge));
  }
  if (check.judges.empty()) check.no_judge = "--judge saturate";
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Judge>> the_onnxruntime(const JudgeWords& words, int threads, const std::atomic<bool>* cancel) {
  JudgeWords one = words;
  std::erase(one.judges, kOurs);
  if (one.judges.empty()) one.judges.emplace_back(kOnnxruntime);
  VerifyOptions check;
  check.threads = threads;
  check.memory = 0;
  check.cancel = cancel;
  if (absl::Status s = choose_named(one, check); !s.ok()) return s;
  return check.judges.front();
}

void tell_installed_onnxruntime(std::string folder) { installed_onnxruntime() = std::move(folder); }

NamedLibrary named_onnxruntime(const std::string& library) {
  if (!library.empty()) return {library, "--onnxruntime"};
  if (const char* named = std::getenv(kOnnxruntimeVariable); named && *named) return {named, kOnnxruntimeVariable};
  return {installed_onnxruntime(), ""};
}

void take_runtime(std::vector<std::shared_ptr<Judge>>& judges, OtherRuntime& runtime) {
  if (judges.empty()) return;
  const std::shared_ptr<Judge> judge = judges.front();
  judges.erase(judges.begin());
  runtime = {"onnxruntime", judge->opener(JudgeLevel::kNone)};
}

absl::Status choose_judges(const JudgeWords& words, VerifyOptions& check) {
  if (!words.judges.empty()) return choose_named(words, check);
  const auto [path, by] = named_onnxruntime(words.library);
  if (path.empty()) {
    check.no_judge = "onnxruntime is not installed";
    return absl::OkStatus();
  }
  auto judge = start(path, check);
  if (judge.ok())
    check.judges.push_back(*std::move(judge));
  else if (!by.empty())
    return judge.status();
  else
    check.no_judge = std::string(judge.status().message());
  return absl::OkStatus();
}

}  // namespace saturate
