// `saturate bench`: how long a model takes in our runtime, or two models against each other, run in turns.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/compare/known_operators.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"
#include "tools/cli/profile.h"
#include "tools/io/files.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/page/page.h"

namespace saturate {
namespace {

using nlohmann::json;

constexpr std::size_t kProfiledRuns = 5;
constexpr double kNoisy = 0.1;         // spread above this share of the median is pointed out
constexpr double kMeasureSeconds = 2;  // per model, where no number of iterations is given
constexpr std::size_t kFewest = 10, kMost = 1000;

// Of all threads: what is left of a run's time where other programs take the processors away.
double cpu_now() {
  timespec t{};
  return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 ? static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec) : 0;
}

// By linear interpolation between the two neighbours in order.
double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

struct Spread {
  double median = 0, p90 = 0, least = 0, first_quarter = 0, third_quarter = 0;
  explicit Spread(const std::vector<double>& v)
      : median(quantile(v, 0.5)),
        p90(quantile(v, 0.9)),
        least(quantile(v, 0)),
        first_quarter(quantile(v, 0.25)),
        third_quarter(quantile(v, 0.75)) {}
  double spread() const { return median > 0 ? (third_quarter - first_quarter) / median : 0; }
};

struct Contestant {
  std::string path;
  std::optional<Session> session;  // of ours
  RunOnce elsewhere;               // where another runtime was asked for
  RunBounds bounds;
  Inputs inputs;
  std::vector<double> seconds, cpu_seconds;
  std::vector<NodeTiming> timings;       // of all profiled runs
  std::vector<NodeTiming> last_timings;  // of the last one

  absl::Status run(std::vector<NodeTiming>* into = nullptr) {
    const double start = steady_seconds(), cpu_start = cpu_now();
    double of_run = 0;
    if (elsewhere) {
      const absl::StatusOr<Ran> ran = elsewhere(inputs, run_limits(bounds));
      if (!ran.ok()) return ran.status();
      of_run = ran->seconds;
    } else {
      const absl::StatusOr<std::vector<Value>> out = session->run(inputs, into, run_limits(bounds));
      if (!out.ok()) return out.status();
      of_run = steady_seconds() - start;
    }
    if (into == nullptr) {
      seconds.push_back(of_run);
      cpu_seconds.push_back(cpu_now() - cpu_start);
    }
    return absl::OkStatus();
  }
};

// The same values for every model that has an input of the name; both must take the same inputs.
absl::Status share_inputs(Contestant& contestant, const Model& model, const Inputs& inputs) {
  for (const ValueInfo& info : model.graph.inputs) {
    if (const auto it = inputs.find(info.name); it != inputs.end()) {
      contestant.inputs.emplace(*it);
    } else if (std::none_of(model.graph.initializers.begin(), model.graph.initializers.end(),
                            [&](const Initializer& i) { return i.name == info.name; })) {
      return absl::InvalidArgumentError(
          fmt::format("input '{}' is none of the first model's; compare models with the same inputs", info.name));
    }
  }
  return absl::OkStatus();
}

// One run of every node as it is, before anything is measured.
absl::Status check_finite(const BenchArgs& args, const Model& model, const Inputs& inputs) {
  SessionOptions options;
  options.threads = args.common.threads;
  options.cancel = args.common.cancel;
  options.prepare = false;
  options.check_finite = true;
  absl::StatusOr<Session> session = Session::create(model, options);
  return session.ok() ? session->run(inputs, nullptr, run_limits(args.bounds)).status() : session.status();
}

bool interrupted(const BenchArgs& args) { return args.common.cancel != nullptr && *args.common.cancel; }

// All contestants in turns, so that what disturbs the machine disturbs them alike.
absl::Status measure(const BenchArgs& args, std::vector<Contestant>& contestants) {
  for (std::size_t i = 0; i < args.warmup; ++i)
    for (Contestant& c : contestants)
      if (absl::Status s = c.run(); !s.ok() || interrupted(args)) return s;
  for (Contestant& c : contestants) {
    c.seconds.clear();
    c.cpu_seconds.clear();
  }
  const double end = steady_seconds() + kMeasureSeconds * static_cast<double>(contestants.size());
  for (std::size_t i = 0; args.iterations ? i < *args.iterations : i < kMost && (i < kFewest || steady_seconds() < end); ++i)
    for (std::size_t k = 0; k < contestants.size(); ++k)
      if (absl::Status s = contestants[(i + k) % contestants.size()].run(); !s.ok() || interrupted(args)) return s;
  const bool profiled = !contestants[0].elsewhere && (args.table || !args.profile.empty());
  for (std::size_t i = 0; i < kProfiledRuns && profiled; ++i)
    for (Contestant& c : contestants) {
      c.last_timings.clear();
      if (absl::Status s = c.run(&c.last_timings); !s.ok() || interrupted(args)) return s;
      c.timings.insert(c.timings.end(), c.last_timings.begin(), c.last_timings.end());
    }
  return absl::OkStatus();
}

// Second over first, pair by pair of neighbours in time.
Spread ratios(const std::vector<Contestant>& contestants) {
  std::vector<double> out;
  for (std::size_t i = 0; i < contestants[0].seconds.size(); ++i) out.push_back(contestants[1].seconds[i] / contestants[0].seconds[i]);
  return Spread(out);
}

absl::Status pin(int threads) {
  cpu_set_t all, chosen;
  CPU_ZERO(&chosen);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return absl::InternalError("--pin: the processors can't be asked for; leave --pin out");
  for (int cpu = 0, left = threads; cpu < CPU_SETSIZE && left > 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) {
      CPU_SET(cpu, &chosen);
      --left;
    }
  if (sched_setaffinity(0, sizeof chosen, &chosen) != 0) return absl::InternalError("--pin: the system refuses; leave --pin out");
  return absl::OkStatus();
}

void print_tables(const BenchArgs& args, const std::vector<Contestant>& contestants, const Trial& drawn) {
  std::vector<std::vector<std::string>> rows{{"model", "runs", "median", "p90", "fastest", "spread", "cpu time"}};
  bool noisy = false;
  for (const Contestant& c : contestants) {
    const Spread s(c.seconds);
    noisy = noisy || s.spread() > kNoisy;
    rows.push_back({c.path, fmt::format("{}", c.seconds.size()), human_seconds(s.median), human_seconds(s.p90), human_seconds(s.least),
                    fmt::format("{:.1f} %", 100 * s.spread()), human_seconds(Spread(c.cpu_seconds).median)});
  }
  print_text(format_table(rows));
  if (contestants.size() == 2) {
    const Spread r = ratios(contestants);
    print_text(
        fmt::format("second / first: {:.3f}, half of the pairs between {:.3f} and {:.3f}\n", r.median, r.first_quarter, r.third_quarter));
  }
  std::printf("%s", fmt::format("peak memory: {}\n", human_bytes(peak_bytes())).c_str());
  if (!drawn.ones.empty())
    print_text(fmt::format("note: dims without a given size are 1: {}; give them by --dim\n", fmt::join(drawn.ones, ", ")));
  if (const std::string said = said_of(drawn); !said.empty()) print_text(fmt::format("note: {}\n", said));
  if (noisy)
    std::printf("note: the times spread widely (quartiles more than %.0f %% of the median apart): the machine is busy\n", 100 * kNoisy);
  if (!args.table || contestants[0].elsewhere) return;
  for (const Contestant& c : contestants)
    print_text(fmt::format("\n{}{}", contestants.size() > 1 ? c.path + "\n" : "", profile_table(operator_times(c.timings, kProfiledRuns))));
}

json to_json(const Spread& s) {
  return {{"median", s.median}, {"p90", s.p90}, {"min", s.least}, {"q1", s.first_quarter}, {"q3", s.third_quarter}};
}

json bench_json(const BenchArgs& args, const std::vector<Contestant>& contestants, const Trial& drawn) {
  json models = json::array();
  for (const Contestant& c : contestants) {
    json operators = json::array();
    for (const OperatorTime& t : operator_times(c.timings, kProfiledRuns))
      operators.push_back({{"op_type", t.op_type}, {"nodes", t.nodes}, {"seconds", t.seconds}});
    models.push_back({{"model", c.path},
                      {"runs", c.seconds.size()},
                      {"all_seconds", c.seconds},
                      {"cpu_seconds", to_json(Spread(c.cpu_seconds))},
                      {"seconds", to_json(Spread(c.seconds))},
                      {"operators", std::move(operators)}});
  }
  json out{{"models", std::move(models)}, {"runtime", args.runtime.name()}, {"threads", args.common.threads}, {"warmup", args.warmup},
           {"peak_bytes", peak_bytes()},  {"dims_of_one", drawn.ones},      {"shapes_by_trial", drawn.taken}};
  if (contestants.size() == 2) out["ratio"] = to_json(ratios(contestants));
  return out;
}

absl::Status write_trace(const std::string& path, const std::vector<Contestant>& contestants) {
  json events = json::array();
  for (std::size_t i = 0; i < contestants.size(); ++i)
    for (json& event : trace_events(contestants[i].last_timings, contestants[i].path, static_cast<int>(i)))
      events.push_back(std::move(event));
  return write_file(path, json_text(json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}, -1));
}

// Makes the model ready in the runtime that was asked for.
absl::Status open_contestant(const BenchArgs& args, const OtherRuntime& runtime, const Model& model, Contestant& into) {
  if (runtime) {
    absl::StatusOr<RunOnce> run = runtime.open(model);
    if (!run.ok()) return run.status();
    into.elsewhere = *std::move(run);
    return absl::OkStatus();
  }
  SessionOptions options;
  options.threads = args.common.threads;
  options.cancel = args.common.cancel;
  options.prepare = !args.as_is;
  absl::StatusOr<Session> session = Session::create(model, options);
  if (!session.ok()) return session.status();
  into.session = *std::move(session);
  return absl::OkStatus();
}

// Inputs that the first model takes.
absl::StatusOr<Trial> first_inputs(const BenchArgs& args, const Model& model, Contestant& contestant) {
  const TryRun run = [&](const Inputs& inputs) {
    contestant.inputs = inputs;
    const absl::Status status = contestant.run();
    contestant.inputs.clear();
    return status;
  };
  return inputs_for(model, args.inputs, args.shapes, args.seed, run, run_limits(args.bounds).memory);
}

const char* measure_advice(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? "give sizes by --dim or --input-shapes, or inputs by --inputs" : run_advice(status);
}

absl::Status check_bench_page(const BenchArgs& args) {
  std::vector<NamedPath> inputs{{"--inputs", args.inputs}, {"--profile", args.profile}};
  for (const std::string& path : args.models) inputs.push_back({"the model", path});
  return check_page(args.page.html, inputs);
}

absl::Status write_bench_page(const BenchArgs& args, const std::vector<Contestant>& contestants) {
  if (args.page.html.empty()) return absl::OkStatus();
  std::string head = fmt::format("in {}, {} thread{}\n", args.runtime.name(), args.common.threads, args.common.threads == 1 ? "" : "s");
  std::vector<std::pair<std::string, std::vector<double>>> runs;
  for (const Contestant& c : contestants) {
    const Spread s(c.seconds);
    head += fmt::format("{}: median {}, 90th percentile {}, least {}, {} runs\n", c.path, human_seconds(s.median), human_seconds(s.p90),
                        human_seconds(s.least), c.seconds.size());
    runs.emplace_back(c.path, c.seconds);
  }
  if (contestants.size() == 2) head += fmt::format("second / first: {:.3f} in the median of turns\n", ratios(contestants).median);
  Page page("bench", head, args.page.command);
  page.add_times(runs);
  for (const Contestant& c : contestants) {
    std::vector<std::vector<std::string>> rows;
    for (const OperatorTime& t : operator_times(c.timings, kProfiledRuns))
      rows.push_back({t.op_type, fmt::format("{}", t.nodes), human_seconds(t.seconds)});
    if (!rows.empty()) page.add_table("Operators of " + c.path, "From runs of their own.", {"operator", "nodes", "time of a run"}, rows);
  }
  return write_file(args.page.html, page.text());
}

}  // namespace

int bench_command(const BenchArgs& args) {
  if (const absl::Status status = check_bench_page(args); !status.ok()) return fail(status, "", "");
  if (!args.profile.empty()) {
    std::vector<NamedPath> inputs{{"--inputs", args.inputs}};
    for (const std::string& path : args.models) inputs.push_back({"the model", path});
    if (const absl::Status status = check_writable(args.profile, Into::kAnything); !status.ok()) return fail(status, args.profile, "");
    const absl::Status status = check_distinct({{"--profile", args.profile}}, inputs);
    if (!status.ok()) return fail(status, args.profile, "");
  }
  const absl::StatusOr<OtherRuntime> runtime = runtime_of(args.runtime, args.common,
                                                          {{"--profile", !args.profile.empty()},
                                                           {"--as-is", args.as_is},
                                                           {"--check-finite", args.check_finite},
                                                           {"--max-memory", args.bounds.max_memory.has_value()}});
  if (!runtime.ok()) return fail(runtime.status(), "", "");
  if (args.pin)
    if (const absl::Status status = pin(std::max(1, args.common.threads)); !status.ok()) return fail(status, "", "");
  std::vector<Contestant> contestants;
  Trial drawn;
  for (const std::string& path : args.models) {
    absl::StatusOr<Model> model = load_given(path);
    if (!model.ok()) return fail(kExitFile, path, std::string(model.status().message()), kModelAdvice);
    if (const absl::Status status = check_operators(*model); !status.ok()) return fail(status, path, "");
    contestants.push_back({path, {}, {}, args.bounds, {}, {}, {}, {}, {}});
    if (const absl::Status status = open_contestant(args, *runtime, *model, contestants.back()); !status.ok())
      return fail(status, path, *runtime ? "" : kElsewhereAdvice);
    if (contestants.size() == 1) {
      absl::StatusOr<Trial> made = first_inputs(args, *model, contestants.back());
      if (is_wrong_usage(made.status()) || (!made.ok() && !args.inputs.empty())) return fail(made.status(), "", "");
      if (!made.ok()) return fail(made.status(), path, measure_advice(made.status()));
      drawn = *std::move(made);
    }
    if (const absl::Status status = share_inputs(contestants.back(), *model, drawn.inputs); !status.ok()) return fail(status, path, "");
    if (!args.check_finite) continue;
    if (const absl::Status status = check_finite(args, *model, contestants.back().inputs); !status.ok())
      return fail(status, path, "look at the node's inputs with other sizes or values");
  }
  if (const absl::Status status = measure(args, contestants); !status.ok()) return fail(status, args.models[0], measure_advice(status));
  if (interrupted(args)) return fail(kExitInterrupted, "", "interrupted", "");
  if (!args.profile.empty())
    if (const absl::Status status = write_trace(args.profile, contestants); !status.ok()) return fail(status, args.profile, "");
  if (const absl::Status status = write_bench_page(args, contestants); !status.ok()) return fail(status, args.page.html, "");
  if (args.common.json)
    print_json(bench_json(args, contestants, drawn));
  else if (!args.common.quiet())
    print_tables(args, contestants, drawn);
  return kExitOk;
}

}  // namespace saturate
