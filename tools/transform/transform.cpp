#include "tools/transform/transform.h"

#include <algorithm>

#include "egraph/stop.h"
#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "kernels/verify/verdict.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/written.h"
#include "tools/io/table.h"
#include "tools/pipeline/report.h"

namespace saturate {
namespace {

using nlohmann::json;

// What was made must be a model that the loader takes. Weights are not copied for that.
absl::Status check_structure(const Model& model, const Model& before) {
  if (const auto fault = value_fault(model, before))
    return absl::InternalError(fmt::format("internal error: {}; please report it with the model", fault->what));
  std::vector<DetachedData> weights;
  const absl::StatusOr<std::string> bytes = serialize_model(model, 1024, weights);
  if (!bytes.ok()) return bytes.status();
  return parse_model(*bytes, "", std::move(weights)).status();
}

VerifyOptions check_of(const Work& work, const VerifyOptions& given) {
  VerifyOptions check = given;
  for (const auto& [symbol, size] : work.ties.sizes) check.sizes[symbol] = size;
  for (const auto& [input, dims] : work.ties.shapes) check.input_shapes.emplace_back(input, dims);
  check.excluded |= work.allowed.excluded;
  check.moves = std::max(check.moves, work.allowed.moves);
  if (!check.tolerances.rtol) check.tolerances.rtol = work.allowed.tolerances.rtol;
  if (!check.tolerances.atol) check.tolerances.atol = work.allowed.tolerances.atol;
  return check;
}

VerifyReport left_out(std::size_t bytes) {
  VerifyReport report;
  report.status = VerifyStatus::kNotRun;
  report.message = fmt::format("left out, for inputs take {} MiB; the result as a whole is verified", bytes >> 20);
  return report;
}

Failure failure_of(const VerifyReport& report, const std::string& passes) {
  const std::string what = fmt::format("after {}: {}", passes, report.message);
  switch (report.status) {
    case VerifyStatus::kDifferent:
      return {kExitDifferent, "verification failed " + what, "nothing was written; --no-verify goes on without"};
    case VerifyStatus::kCancelled:
      return {kExitInterrupted, "interrupted", "nothing was written"};
    default:
      return {kExitUnsupported, "can't verify " + what, std::string(advice_unverified(report))};
  }
}

ExitCode code_of(const absl::Status& status) {
  return absl::IsDataLoss(status)        ? kExitDifferent
         : absl::IsUnimplemented(status) ? kExitUnsupported
         : absl::IsCancelled(status)     ? kExitInterrupted
                                         : kExitFile;
}

bool takes_the_same(const std::vector<ValueInfo>& one, const std::vector<ValueInfo>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](const ValueInfo& a, const ValueInfo& b) {
    return a.name == b.name && a.type.kind == b.type.kind && a.type.dtype == b.type.dtype && a.type.shape == b.type.shape;
  });
}

class Runner {
 public:
  Runner(const Model& model, const TransformOptions& options)
      : options_(options), given_(model), start_(model), given_for_(model.graph.inputs), work_(std::make_unique<Work>(model)) {
    begin();
    result_.report.before = graph_stats(model);
  }

  TransformResult run(const std::vector<PassCall>& steps) && {
    const double start = steady_seconds();
    for (const PassCall& step : steps) {
      if (result_.failure) break;
      apply(step);
    }
    if (!result_.failure) mend_for_writing();
    if (!result_.failure) verify();
    if (!result_.failure && options_.verify) ask_whether_it_loads();
    if (!result_.failure) {
      result_.model = std::move(work_->model);
      result_.report.after = graph_stats(result_.model);
    }
    result_.report.seconds = steady_seconds() - start;
    return std::move(result_);
  }

 private:
  void begin() {
    work_->verify = options_.verify;
    work_->check = options_.check;
    work_->check.inputs.clear();
    work_->check.judges.clear();  // they see what is written
    work_->beside = options_.beside;
    work_->room = options_.room;
  }

  void apply(const PassCall& step) {
    const Pass& pass = *step.pass;
    if (pass.compared == PassCheck::kRuns && !names_.empty()) verify();
    if (result_.failure) return;
    absl::Status status = pass.apply(*work_, step.args);
    if (status.ok()) status = check_structure(work_->model, start_);
    if (!status.ok()) {
      const std::string message(status.message());
      const std::string place = message.starts_with("pass ") || message.starts_with("surgeon ") ? "" : fmt::format("pass {}: ", pass.name);
      result_.failure = Failure{code_of(status), place + message, "nothing was written"};
      return;
    }
    names_ += fmt::format("{}{}", names_.empty() ? "" : ", ", pass.name);
    const Graph& graph = work_->model.graph;
    result_.report.passes.push_back({std::string(pass.name), step.args.all(), std::string(to_string(pass.compared)),
                                     std::string(pass.verified), std::move(work_->notes), graph.nodes.size(), graph.inputs.size(),
                                     graph.outputs.size()});
    work_->notes.clear();
    if (pass.compared == PassCheck::kRuns) begin_anew();
  }

  // The passes so far are not compared with those that follow.
  void begin_anew() {
    start_ = work_->model;
    work_ = std::make_unique<Work>(start_);
    begin();
  }

  void verify() {
    if (!options_.verify) return;
    if (const std::size_t bytes = std::max(input_bytes(start_, {}), input_bytes(work_->model, {})); bytes > options_.room) {
      result_.report.checks.push_back(left_out(bytes));
      return;
    }
    VerifyOptions check = check_of(*work_, options_.check);
    if (!takes_the_same(start_.graph.inputs, given_for_)) check.inputs.clear();
    const Comparable pair = comparable(start_, work_->model, work_->ties);
    VerifyReport report = saturate::verify(pair.original, pair.result, check);
    if (report.status != VerifyStatus::kEqual) result_.failure = failure_of(report, names_.empty() ? "no pass" : names_);
    result_.report.checks.push_back(std::move(report));
    names_ = "";
  }

  // What is verified and judged is what is written. (What can't be mended was refused behind its pass.)
  void mend_for_writing() {
    absl::StatusOr<std::optional<Model>> ready = ready_to_write(work_->model);
    if (ready.ok() && *ready) work_->model = **std::move(ready);
  }

  // The result as it is written; what verify() compares has the original's inputs and outputs.
  void ask_whether_it_loads() {
    for (const std::shared_ptr<Judge>& judge : options_.check.judges) {
      if (!judge->ready().ok()) continue;
      const absl::Status loads = loads_there(*judge, given_, work_->model, true);
      if (!loads.ok()) result_.failure = Failure{kExitDifferent, std::string(loads.message()), "nothing was written"};
    }
  }

  const TransformOptions& options_;
  const Model& given_;
  Model start_;
  std::vector<ValueInfo> given_for_;  // inputs of the model that `--inputs` is for
  std::unique_ptr<Work> work_;
  std::string names_;  // of the passes since `start_`
  TransformResult result_;
};

}  // namespace

TransformResult transform(const Model& model, const std::vector<PassCall>& steps, const TransformOptions& options) {
  return Runner(model, options).run(steps);
}

std::string format_report(const TransformReport& report) {
  std::string out = report.output.empty() ? "" : fmt::format("{} -> {}\n\n", report.input, report.output);
  std::vector<std::vector<std::string>> rows{{"pass", "compared", "inputs", "outputs", "nodes"}};
  for (const auto& p : report.passes)
    rows.push_back({p.pass, p.compared, fmt::format("{}", p.inputs), fmt::format("{}", p.outputs), fmt::format("{}", p.nodes)});
  out += format_table(rows) + "\n";
  for (const auto& p : report.passes)
    for (const std::string& note : p.notes) out += fmt::format("{}: {}\n", p.pass, note);
  if (report.checks.empty()) return out + "not verified (--no-verify)\n";
  for (const VerifyReport& check : report.checks) {
    for (const std::string& note : check.notes) out += fmt::format("note: {}\n", note);
    out += fmt::format("{}: {}\n", check.status == VerifyStatus::kEqual ? "verified" : "NOT verified", summary(check));
  }
  return out;
}

json to_json(const TransformReport& report) {
  json passes = json::array(), checks = json::array();
  for (const auto& p : report.passes)
    passes.push_back({{"pass", p.pass},
                      {"fields", p.fields},
                      {"compared", p.compared},
                      {"verified", p.verified},
                      {"notes", p.notes},
                      {"nodes", p.nodes},
                      {"inputs", p.inputs},
                      {"outputs", p.outputs}});
  for (const VerifyReport& check : report.checks) checks.push_back(to_json(check));
  return {{"saturate", SATURATE_VERSION},
          {"input", report.input},
          {"output", report.output},
          {"passes", passes},
          {"verify", checks},
          {"before", to_json(report.before)},
          {"after", to_json(report.after)},
          {"seconds", report.seconds}};
}

std::string pass_list() {
  std::string out;
  for (const Pass& pass : all_passes()) {
    out += fmt::format("{}\n  {}\n  {}: {}\n", pass.name, pass.does, to_string(pass.compared), pass.verified);
    for (const Field& f : pass.fields)
      out +=
          fmt::format("    {}: {} {}{}\n", f.name, f.says, allowed_text(f), f.required() ? "" : fmt::format(" (default {})", f.otherwise));
  }
  return out;
}

json pass_list_json() {
  json out = json::array();
  for (const Pass& pass : all_passes()) {
    json fields = json::array();
    for (const Field& f : pass.fields)
      fields.push_back({{"name", f.name},
                        {"says", f.says},
                        {"allowed", allowed_text(f)},
                        {"required", f.required()},
                        {"default", f.required() ? json(nullptr) : *read_json(f.otherwise)}});
    out.push_back({{"pass", pass.name},
                   {"does", pass.does},
                   {"compared", to_string(pass.compared)},
                   {"verified", pass.verified},
                   {"fields", fields}});
  }
  return out;
}

}  // namespace saturate
