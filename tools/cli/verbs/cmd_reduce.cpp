#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/output_file.h"
#include "tools/cli/cli.h"
#include "tools/cli/command_line.h"
#include "tools/cli/repro.h"
#include "tools/explain/why_not.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"
#include "tools/reduce/child.h"
#include "tools/reduce/reduce.h"
#include "tools/reduce/symptom.h"
#include "tools/reduce/value_types.h"

namespace saturate {
namespace {

namespace fs = std::filesystem;

constexpr double kFirstSeconds = 3600;  // the run on the whole model, where --trial-limit says nothing
constexpr double kHangSeconds = 20, kLeastSeconds = 10, kTimesTheFirst = 10;

// A folder for models to try, removed at the end.
class TrialFolder {
 public:
  TrialFolder() {
    std::error_code ignored;
    std::string name = (fs::temp_directory_path(ignored) / "saturate-reduce-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;
  ~TrialFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string in(const std::string& name) const { return path_ + "/" + name; }
  void clear() const {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored)) fs::remove_all(entry.path(), ignored);
  }

 private:
  std::string path_;
};

// Not onto the disk: the file is gone soon.
absl::Status write_trial(const Model& model, const std::string& path) {
  const absl::StatusOr<std::string> bytes = serialize_model(model);
  if (!bytes.ok()) return save_model(model, path);  // too big for one message
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return absl::InvalidArgumentError(fmt::format("{}: can't be written; set TMPDIR to a folder with space", path));
  const absl::Status status = write_fully(fd, *bytes, path);
  ::close(fd);
  return status;
}

// The nearest miss of `explain --op OP` in words that hold for a part of the model, too; those of one model.
std::string misses_of(const Model& model, const Setup& setup, const OptimizeOptions& options, const std::string& op) {
  const absl::StatusOr<WhyReport> why = why_not(model, setup, options, {op, "", ""});
  if (!why.ok()) return "";
  std::vector<std::pair<std::uint32_t, std::string>> lines;
  for (const WhyPlace& place : why->places) {
    if (place.status == WhyPlace::Status::kNotChosen)
      lines.emplace_back(0, fmt::format("{} is not chosen at {}: {}", place.fused, place.op_type, place.reason));
    if (place.status != WhyPlace::Status::kMissed) continue;
    for (const WhyMiss& miss : place.nearest)
      lines.emplace_back(miss.matched, fmt::format("at {}, rule {} finds {} of {} operators: {}", place.op_type, miss.rule, miss.matched,
                                                   miss.total, miss.reason));
    if (place.nearest.empty() && !place.reason.empty()) lines.emplace_back(0, fmt::format("at {}: {}", place.op_type, place.reason));
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out;
  for (const auto& [matched, line] : lines) out += line + "\n";
  return out;
}

// Tries models: the run that fails, and what must stay of the model beside.
class Trials {
 public:
  Trials(const ReduceArgs& args, Symptom symptom, std::vector<KeptOperator> kept, const Setup& setup)
      : args_(args), symptom_(std::move(symptom)), kept_(std::move(kept)), setup_(setup) {
    limits_.cancel = args.common.cancel;
    limits_.seconds = args.trial_seconds.value_or(symptom_.kind == Symptom::Kind::kHang ? kHangSeconds : kFirstSeconds);
    for (const GivenOption& option : args.optimize.given) {
      const bool shape = one_of(option.name, {"--dim", "--input-shapes"}) || one_of(option.name, {"IN.onnx", "OUT.onnx"});
      if (!shape && option.name != "--seed" && option.name != "--strict-verify")
        options_.push_back(option.value ? fmt::format("{}={}", option.name, *option.value) : option.name);
    }
    const std::uint64_t seed = args.seed.value_or(args.optimize.check.seed);
    if (seed != 0) options_.push_back(fmt::format("--seed={}", seed));
    if (args.strict_verify || args.optimize.strict_verify || symptom_.kind == Symptom::Kind::kWrong) options_.push_back("--strict-verify");
    if (symptom_.kind == Symptom::Kind::kWarning) options_.push_back("--quiet");  // warnings as lines of stderr, each whole
  }

  // Runs the whole model; a sentence where it does not show the failure.
  std::string begin(const Model& model) {
    if (folder_.path().empty()) return "no folder for models to try; set TMPDIR to one that can be written";
    first_ = run(args_.command, model);
    if (!first_.error.empty()) return fmt::format("{}: {}", args_.command, first_.error);
    if (!args_.trial_seconds && symptom_.kind != Symptom::Kind::kHang)
      limits_.seconds = std::max(kLeastSeconds, kTimesTheFirst * first_.seconds);
    if (!shows(symptom_, first_, first_)) return how_it_ended(first_);
    if (symptom_.kind == Symptom::Kind::kMissing) {
      if (const std::string why = missing(); !why.empty()) return why;
      if (!kept_.empty() && !feed_one_output(model, kept_)) return "no output of it is computed from all operators of --keep";
      if (kept_.empty() && args_.good.empty()) {
        const std::string misses = ask_misses(model);
        miss_ = misses.substr(0, misses.find('\n'));
        if (miss_.empty())
          return fmt::format("nothing in it comes near {0} (`saturate explain --op {0}`); --keep names operators that must stay",
                             symptom_.text);
      }
    }
    if (!args_.good.empty() && !is_good(model)) return fmt::format("{} fails on it, too, or finds no {}", args_.good, symptom_.text);
    return "";
  }

  bool fails(const Model& model) {
    if (symptom_.kind == Symptom::Kind::kMissing && !kept_.empty() && !feed_one_output(model, kept_)) return false;
    const ChildEnd end = run(args_.command, model);
    if (end.cancelled || !shows(symptom_, end, first_)) return false;
    if (symptom_.kind == Symptom::Kind::kMissing && !missing().empty()) return false;
    if (!miss_.empty() && !still_misses(model)) return false;
    return args_.good.empty() || is_good(model);
  }

  // In a process of its own: inference may be what fails. Where it does, of as many of the first nodes as it can do.
  ValueTypes types(const Model& model) {
    if (auto all = types_of_first(model, model.graph.nodes.size()); !all.empty()) return all;
    std::size_t good = 0, bad = model.graph.nodes.size();
    ValueTypes best = types_of_first(model, 0);
    while (good + 1 < bad) {
      const std::size_t middle = (good + bad) / 2;
      ValueTypes some = types_of_first(model, middle);
      (some.empty() ? bad : good) = middle;
      if (!some.empty()) best = std::move(some);
    }
    return best;
  }

  const std::vector<std::string>& options() const { return options_; }
  const std::string& miss() const { return miss_; }
  const std::string& failure() const { return failure_; }  // of trying itself

 private:
  ChildEnd run(const std::string& program, const Model& model) {
    folder_.clear();
    if (const absl::Status s = write_trial(model, folder_.in("model.onnx")); !s.ok()) {
      failure_ = std::string(s.message());
      return {};
    }
    std::vector<std::string> words{program.empty() ? "saturate" : program, "optimize", folder_.in("model.onnx"), "-o",
                                   folder_.in("result.onnx")};
    words.insert(words.end(), options_.begin(), options_.end());
    if (!program.empty()) return run_program(words, limits_);
    const std::function<int()> work = [&] { return run_this_command(words); };
    return run_apart(work, limits_);
  }

  // In a copy of this process.
  static int run_this_command(const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    return command_line(static_cast<int>(arguments.size()), arguments.data());
  }

  // Why the last result is not one without the operator.
  std::string missing() const {
    const absl::StatusOr<Model> result = load_given(folder_.in("result.onnx"));
    if (!result.ok()) return fmt::format("the result can't be read: {}", std::string(result.status().message()));
    std::size_t count = 0;
    for (const auto& [op, n] : graph_stats(*result).operators)
      if (op == symptom_.text || op.ends_with("." + symptom_.text)) count += n;
    return count == 0 ? "" : fmt::format("the result holds {} {}", count, symptom_.text);
  }

  bool is_good(const Model& model) {
    const ChildEnd end = run(args_.good, model);
    if (symptom_.kind == Symptom::Kind::kMissing) return end.exited() && end.status == 0 && !missing().empty();
    return end.exited() && end.error.empty() && !shows(symptom_, end, first_) && end.status != kExitUsage;
  }

  std::string ask_misses(const Model& model) const {
    const std::function<std::string()> work = [&] {
      return misses_of(model, setup_, optimize_options(args_.optimize.saturate, args_.optimize.common), symptom_.text);
    };
    return run_apart(work, limits_).output;
  }

  bool still_misses(const Model& model) const {
    const std::string misses = "\n" + without_names(ask_misses(model)), wanted = without_names(miss_);
    return misses.find("\n" + wanted + "\n") != std::string::npos;
  }

  ValueTypes types_of_first(const Model& model, std::size_t count) const {
    Model part = model;
    part.graph.nodes.resize(count);
    part.graph.outputs.clear();
    const std::function<std::string()> work = [&] { return pack_types(value_types(part)); };
    const ChildEnd end = run_apart(work, limits_);
    return end.exited() && end.status == 0 ? unpack_types(end.output) : ValueTypes();
  }

  const ReduceArgs& args_;
  Symptom symptom_;
  std::vector<KeptOperator> kept_;
  const Setup& setup_;
  TrialFolder folder_;
  ChildLimits limits_;
  std::string miss_, failure_;
  std::vector<std::string> options_;
  ChildEnd first_;
};

absl::Status check_reduced(const ReduceArgs& args) {
  if (const absl::Status s = check_writable(args.output); !s.ok()) return s;
  std::vector<NamedPath> inputs{{"the model", args.input},
                                {"--target", args.optimize.saturate.target},
                                {"--cost", args.optimize.saturate.cost},
                                {"--command", args.command},
                                {"--good", args.good}};
  for (const std::string& rules : args.optimize.saturate.rules) inputs.push_back({"--rules", rules});
  return check_distinct({{"the small model", args.output}}, inputs);
}

void tell(const ReduceArgs& args, const Trials& trials, const Model& before, const Reduced& reduced, double seconds) {
  std::vector<std::string> command{args.command.empty() ? "saturate" : args.command, "optimize", args.output};
  command.insert(command.end(), trials.options().begin(), trials.options().end());
  if (args.common.json) {
    print_json(nlohmann::json{{"input", args.input},
                              {"output", args.output},
                              {"because", args.because},
                              {"miss", trials.miss()},
                              {"nodes_before", count_nodes(before)},
                              {"nodes_after", count_nodes(reduced.model)},
                              {"trials", reduced.trials},
                              {"seconds", seconds},
                              {"complete", reduced.complete},
                              {"command", command}});
    return;
  }
  if (args.common.quiet()) return;
  std::string text = fmt::format("{}: {} nodes -> {}: {} nodes, {} trials in {:.1f} s{}\n", args.input, count_nodes(before), args.output,
                                 count_nodes(reduced.model), reduced.trials, seconds,
                                 reduced.complete ? "" : "; stopped by --time-limit, more may be possible");
  if (!trials.miss().empty()) text += fmt::format("still missed: {}\n", trials.miss());
  for (std::string& word : command) word = shell_word(word);
  print_text(text + fmt::format("repeat it: {}\n", fmt::join(command, " ")));
}

// What goes on, on a terminal.
class ReduceProgress {
 public:
  explicit ReduceProgress(const CommonArgs& args) : shown_(!args.quiet() && !args.json && isatty(STDERR_FILENO)) {}
  ~ReduceProgress() {
    if (shown_) std::fprintf(stderr, "\r\x1b[K");
  }
  void show(const std::string& step, std::size_t nodes, std::size_t trials) const {
    if (shown_) std::fprintf(stderr, "\r\x1b[Kreduce: %zu nodes, %zu trials, %s ...", nodes, trials, step.c_str());
  }

 private:
  bool shown_;
};

Reduced reduce_with(const ReduceArgs& args, const Model& model, Trials& trials) {
  const double end = steady_seconds() + args.seconds;
  const ReduceProgress progress(args.common);
  ReduceOptions options;
  options.fails = [&](const Model& m) { return trials.fails(m); };
  options.types = [&](const Model& m) { return trials.types(m); };
  options.stop = [&] { return steady_seconds() > end || (args.common.cancel && *args.common.cancel) || !trials.failure().empty(); };
  options.progress = [&](const std::string& step, std::size_t nodes, std::size_t tried) { progress.show(step, nodes, tried); };
  return reduce_model(model, options);
}

}  // namespace

int reduce_command(const ReduceArgs& given) {
  ReduceArgs args = given;
  if (args.output.empty()) args.output = path_beside(args.input, ".reduced.onnx");
  const absl::StatusOr<Symptom> symptom = parse_symptom(args.because);
  if (!symptom.ok()) return fail(kExitUsage, "command line", std::string(symptom.status().message()), "see `saturate reduce --help`");
  std::vector<KeptOperator> kept;
  for (const std::string& text : args.keep) {
    const absl::StatusOr<KeptOperator> one = parse_kept(text);
    if (!one.ok()) return fail(kExitUsage, "command line", std::string(one.status().message()), "");
    kept.push_back(*one);
  }
  if (symptom->kind == Symptom::Kind::kWrong && !args.optimize.verify)
    return fail(kExitUsage, "command line", "--because wrong needs verification", "leave --no-verify out");
  if (const absl::Status status = check_reduced(args); !status.ok()) return fail(status, "", "");
  absl::StatusOr<Setup> setup = set_up(args.optimize.saturate, args.optimize.shapes, args.optimize.check.onnxruntime);
  if (!setup.ok()) return fail(setup.status(), "", "");
  name_target(setup->settled, args.optimize);
  absl::StatusOr<Model> model = load_given(args.input);
  if (!model.ok()) return fail(kExitFile, args.input, std::string(model.status().message()), kModelAdvice);
  if (const absl::Status status = fix_shapes(*model, args.optimize.shapes); !status.ok()) return fail(status, args.input, "");

  const double start = steady_seconds();
  Trials trials(args, *symptom, std::move(kept), *setup);
  const auto interrupted = [&] { return args.common.cancel && *args.common.cancel; };
  const std::string not_shown = trials.begin(*model);
  if (interrupted()) return fail(kExitInterrupted, args.input, "interrupted", "nothing was written");
  if (!trials.failure().empty()) return fail(kExitFile, "", trials.failure(), "");
  if (!not_shown.empty())
    return fail(kExitNotShown, args.input, fmt::format("does not show the failure '{}': {}", args.because, not_shown),
                "check --because and the options behind --");
  const Reduced reduced = reduce_with(args, *model, trials);
  if (interrupted()) return fail(kExitInterrupted, args.input, "interrupted", "nothing was written");
  if (!trials.failure().empty()) return fail(kExitFile, "", trials.failure(), "");
  if (const absl::Status status = save_model(reduced.model, args.output); !status.ok()) return fail(status, args.output, "");
  tell(args, trials, *model, reduced, steady_seconds() - start);
  return kExitOk;
}

}  // namespace saturate
