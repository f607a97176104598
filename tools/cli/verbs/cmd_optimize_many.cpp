// Many models: each in a process of its own, so that one that fails, crashes or runs out of memory does not keep the others.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "onnx_bridge/file/output_file.h"
#include "tools/cli/cli.h"
#include "tools/cli/optimize_many.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"
#include "tools/reduce/pool.h"

namespace saturate {
namespace {

namespace fs = std::filesystem;

std::string in_folder(const std::string& folder, const std::string& input, const char* ending = "") {
  return (fs::path(folder) / (fs::path(input).filename().string() + ending)).string();
}

// What is wrong with where results would go; kExitOk where nothing is.
int check_places(const OptimizeArgs& given, const std::vector<std::string>& inputs) {
  std::map<std::string, std::string> outputs;  // and of which input each is
  for (const std::string& input : inputs) {
    const std::string output = in_folder(given.output_dir, input);
    const auto [other, is_new] = outputs.try_emplace(output, input);
    if (!is_new)
      return fail(kExitUsage, input, fmt::format("{} has the same name, and one file can't be both", other->second), "rename one");
    if (same_place(output, input) && !given.force)
      return fail(kExitUsage, input, "it would be replaced", "name another folder, or give --force");
  }
  for (const std::string& folder : {given.output_dir, given.report_dir}) {
    std::error_code error;
    if (!folder.empty()) fs::create_directories(folder, error);
    if (error) return fail(kExitFile, folder, error.message(), "name a folder that can be written");
  }
  return kExitOk;
}

OptimizeArgs args_of(const OptimizeArgs& given, const std::string& input, bool of_several) {
  OptimizeArgs one = given;
  one.input = input;
  one.output = in_folder(given.output_dir, input);
  one.output_dir.clear();
  if (!given.report_dir.empty()) one.report = in_folder(given.report_dir, input, ".json");
  one.output_by_place = true;
  one.in_a_line = given.common.verbosity == 0 && !given.common.json;
  one.of_many = true;
  one.shapes.of_several_models = of_several;
  return one;
}

// How many are done, on a terminal.
class Count {
 public:
  Count(const CommonArgs& args, std::size_t all)
      : shown_(!args.quiet() && !args.json && isatty(STDERR_FILENO) == 1), all_(all), started_(steady_seconds()) {}
  ~Count() { clear(); }
  void show(std::size_t done) {
    constexpr double kPatience = 1, kEach = 0.5;
    const double now = steady_seconds();
    if (!shown_ || now - started_ < kPatience || now - last_ < kEach) return;
    std::fprintf(stderr, "\r\x1b[K%zu of %zu models, %.0f s", done, all_, now - started_);
    std::fflush(stderr);
    last_ = now;
    stands_ = true;
  }
  void clear() {
    if (stands_) std::fprintf(stderr, "\r\x1b[K");
    std::fflush(stderr);
    stands_ = false;
  }

 private:
  bool shown_, stands_ = false;
  std::size_t all_;
  double started_, last_ = 0;
};

// What the pieces printed, passed on: JSON in the order of the models, the rest as it comes.
class Passed {
 public:
  Passed(bool in_order, const std::vector<std::string>& inputs)
      : in_order_(in_order), inputs_(inputs), ends_(inputs.size()), codes_(inputs.size(), -1) {}

  void take(const PieceEnd& end) {
    codes_[end.piece] = end.signal != 0 || !end.error.empty() ? kExitFile : end.status;
    ends_[end.piece] = end;
    if (!in_order_) return pass(end);
    for (; next_ < ends_.size() && codes_[next_] >= 0; ++next_) pass(ends_[next_]);
  }
  void finish() {
    for (; in_order_ && next_ < ends_.size(); ++next_)
      if (codes_[next_] >= 0) pass(ends_[next_]);
  }
  std::size_t count(int code) const { return static_cast<std::size_t>(std::count(codes_.begin(), codes_.end(), code)); }
  std::size_t not_begun() const { return count(-1); }
  // The worst of all; without those that were never begun.
  int worst() const { return std::max(0, *std::max_element(codes_.begin(), codes_.end())); }
  std::string first_failed() const {
    const auto it = std::find_if(codes_.begin(), codes_.end(), [](int code) { return code > 0; });
    return it == codes_.end() ? "" : inputs_[static_cast<std::size_t>(it - codes_.begin())];
  }

 private:
  void pass(const PieceEnd& end) const {
    std::fwrite(end.out.data(), 1, end.out.size(), stdout);
    std::fflush(stdout);
    std::fwrite(end.err.data(), 1, end.err.size(), stderr);
    if (!end.error.empty()) fail(kExitFile, inputs_[end.piece], end.error, "give more memory or fewer --jobs");
    if (end.signal != 0)
      fail(kExitFile, inputs_[end.piece], fmt::format("its process was ended by signal {}", end.signal),
           "give more memory or fewer --jobs; where that is not it, this is a bug in saturate: please report it with the model");
  }

  bool in_order_;
  const std::vector<std::string>& inputs_;
  std::vector<PieceEnd> ends_;
  std::vector<int> codes_;  // -1: not ended
  std::size_t next_ = 0;
};

void print_sum(const OptimizeArgs& given, const Passed& passed, std::size_t all) {
  if (given.common.quiet() || given.common.json || all == 1) return;
  const std::size_t written = passed.count(kExitOk) + passed.count(kExitBudget), left = passed.not_begun();
  std::string text = fmt::format("{} of {} models written to {}", written, all, given.output_dir);
  if (const std::size_t failed = all - written - left; failed > 0)
    text += fmt::format("; {} failed, the first is {}", failed, passed.first_failed());
  if (left > 0) text += fmt::format("; {} not begun", left);
  print_safe_text(printable(text) + "\n");
}

}  // namespace

int optimize_many(const OptimizeArgs& given, const std::vector<std::string>& inputs) {
  if (const int code = check_places(given, inputs); code != kExitOk) return code;
  Count count(given.common, inputs.size());
  Passed passed(given.common.json, inputs);
  PoolOptions options;
  options.jobs = given.jobs > 0 ? static_cast<std::size_t>(given.jobs) : std::max(1U, std::thread::hardware_concurrency());
  options.cancel = given.common.cancel;
  options.waits = [&](std::size_t done) { count.show(done); };
  const auto work = [&](std::size_t piece) { return optimize_command(args_of(given, inputs[piece], inputs.size() > 1)); };
  const auto ended = [&](const PieceEnd& end) {
    count.clear();
    passed.take(end);
  };
  run_pieces(inputs.size(), work, ended, options);
  count.clear();
  passed.finish();
  print_sum(given, passed, inputs.size());
  return given.common.cancel && *given.common.cancel ? kExitInterrupted : passed.worst();
}

}  // namespace saturate
