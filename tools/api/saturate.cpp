#include "tools/api/saturate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "extract/optimize/settle.h"
#include "extract/solve/extractors.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/compare/known_operators.h"
#include "kernels/verify/choice.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "onnx_bridge/operators/op_table.h"
#include "tools/api/saturate_impl.h"
#include "tools/diff/diff.h"
#include "tools/explain/explain_json.h"
#include "tools/explain/inspect.h"
#include "tools/io/files.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/pipeline.h"
#include "tools/prove/prove.h"
#include "tools/transform/split.h"
#include "tools/transform/transform.h"

namespace saturate::api {
namespace {

Expected<Model> model_of(absl::StatusOr<saturate::Model> model, const std::string& place) {
  if (!model.ok()) return error_of(model.status(), place, kModelAdvice);
  return Model(std::make_shared<const Model::Impl>(Model::Impl{*std::move(model)}));
}

RuleSet rules_of(saturate::RuleSet rules) { return RuleSet(std::make_shared<const RuleSet::Impl>(RuleSet::Impl{std::move(rules)})); }

Error usage(std::string message) { return {Code::kUsage, std::move(message)}; }

std::optional<Error> check_options(const Options& o) {
  if (o.time_limit && !(*o.time_limit >= 0)) return usage(fmt::format("time_limit {}: negative; give seconds", *o.time_limit));
  if (o.node_limit == 0) return usage("node_limit 0: nothing fits; give a number of e-nodes");
  if (o.threads < 0) return usage(fmt::format("threads {}: negative; 0 takes all cores", o.threads));
  if (o.keep_opset && o.opset) return usage("opset and keep_opset: only one of them can hold; leave one out");
  if (o.opset && (*o.opset < 1 || *o.opset > kNewestOpset))
    return usage(fmt::format("opset {}: not one that saturate knows; give a number from 1 to {}", *o.opset, kNewestOpset));
  if (!find_extractor(o.extractor)) {
    std::vector<std::string> names;
    for (const Extractor& e : extractors()) names.emplace_back(e.name);
    return usage(fmt::format("extractor {}: no such one; {}", o.extractor, saturate::what_instead(o.extractor, names)));
  }
  if (o.io_rank && (*o.io_rank < 1 || *o.io_rank > kMostIoRank))
    return usage(fmt::format("io_rank {}: no rank that can be had; give a number from 1 to {}", *o.io_rank, kMostIoRank));
  if (!(o.memory_slack >= 0 && o.memory_slack <= 10))
    return usage(fmt::format("memory_slack {}: no share of the cost; give a number from 0 to 10", o.memory_slack));
  if (o.measure && !(*o.measure >= 0.001 && *o.measure <= 1e6))
    return usage(fmt::format("measure {}: no budget in seconds; give a number from 0.001 to 1000000", *o.measure));
  if (!o.measured.empty() && !o.measure) return usage("measured: it keeps what measure finds; give measure, or leave it out");
  if (o.max_growth && !(*o.max_growth >= 1 && std::isfinite(*o.max_growth)))
    return usage(fmt::format("max_growth {}: no factor of the weights; give a number from 1", *o.max_growth));
  for (const CostAt& at : o.cost_at)
    if (!(at.weight > 0) || !std::isfinite(at.weight))
      return usage(fmt::format("cost_at: {} is no weight; give a number above 0", at.weight));
  if (o.cost_model && !o.cost.empty()) return usage("cost and cost_model: only one of them can hold; leave one out");
  if (!(o.constant_cost >= 0) || !std::isfinite(o.constant_cost)) return usage("constant_cost: give a finite number of at least 0");
  return std::nullopt;
}

GivenShapes shapes_of(const Options& o) {
  return {Sizes(o.dims.begin(), o.dims.end()), InputShapes(o.input_shapes.begin(), o.input_shapes.end()), o.allow_empty};
}

// Those that are given, one case each.
std::optional<Error> add_inputs(const Options& o, std::vector<Inputs>& out) {
  const auto add = [&](const Values& values) -> std::optional<Error> {
    Expected<Inputs> inputs = to_internal(values);
    if (!inputs) return inputs.error();
    out.push_back(*std::move(inputs));
    return std::nullopt;
  };
  if (o.inputs)
    if (auto error = add(*o.inputs)) return error;
  for (const Values& more : o.more_inputs)
    if (auto error = add(more)) return error;
  return std::nullopt;
}

Expected<VerifyOptions> check_of(const Options& o, const GivenShapes& shapes) {
  if (const absl::Status s = check_not_empty(shapes); !s.ok()) return error_of(s, "", "");
  VerifyOptions options;
  options.tolerances.rtol = o.rtol;
  options.tolerances.atol = o.atol;
  options.steps = o.steps;
  options.seed = o.seed;
  options.threads = o.threads;
  options.cancel = o.abort;
  options.sizes = shapes.dims;
  options.input_shapes = shapes.input_shapes;
  options.ends_in_time = o.time_limit.has_value();
  if (o.time_limit) options.seconds = std::max(1.0, *o.time_limit);
  if (o.runtime) options.runtime = to_internal(*o.runtime);
  if (o.max_memory) options.memory = *o.max_memory;
  if (auto error = add_inputs(o, options.inputs)) return *std::move(error);
  if (options.runtime) return options;
  const absl::Status judged = choose_judges({o.judges, o.onnxruntime, true}, options);
  if (!judged.ok()) return error_of(judged, "", "");
  return options;
}

std::vector<CostPoint> cost_points_of(const Options& o) {
  std::vector<CostPoint> out;
  for (const CostAt& at : o.cost_at) out.push_back({at.dims, at.weight});
  return out;
}

Expected<Setup> setup_of(const Options& o, const GivenShapes& shapes) {
  SetupOptions options{o.target, o.prefer, o.cost, {}, {"none"}, {}};
  options.cost_options.symbols = shapes.dims;
  options.cost_options.points = cost_points_of(o);
  options.keep_functions = o.keep_functions;
  options.onnxruntime = o.onnxruntime;
  absl::StatusOr<Setup> setup = set_up(options);
  if (!setup.ok()) return error_of(setup.status(), "", "");
  absl::StatusOr<saturate::RuleSet> rules = o.rules ? o.rules->impl().rules : saturate::RuleSet::builtin(false);
  RuleFilter filter;
  filter.effects = {o.within_one_step, o.rescale, o.approximate};
  filter.assumptions = {o.assumed, o.not_assumed};
  filter.not_made = o.skip_fusions;
  if (const auto unknown = filter.assumptions.unknown()) return usage(*unknown);
  fit_to_target(filter, setup->target);
  if (rules.ok()) rules = filter_rules(*std::move(rules), filter);
  if (!rules.ok()) return error_of(rules.status(), "", "");
  setup->rules = *std::move(rules);
  setup->risks = filter.assumptions.risks();
  if (o.cost_model) setup->cost = make_cost_model(o.cost_model, o.constant_cost);
  return *std::move(setup);
}

// What the options say, and the model with the shapes that they fix.
struct Prepared {
  Setup setup;
  saturate::Model input;
};

Expected<Prepared> prepare(const Model& model, const Options& o) {
  if (const auto error = check_options(o)) return *error;
  const GivenShapes shapes = shapes_of(o);
  Expected<Setup> setup = setup_of(o, shapes);
  if (!setup) return setup.error();
  saturate::Model input = model.impl().model;
  if (const absl::Status status = fix_shapes(input, shapes); !status.ok()) return error_of(status, input.path, "");
  return Prepared{*std::move(setup), std::move(input)};
}

const char* advice_of(Code code, bool inputs_given) {
  if (code == Code::kDifferent) return "leave out rules (RuleSet::without) to find the wrong one, and report it";
  if (code == Code::kUnsupported) return "`verify` off goes on without, `inputs` gives inputs";
  if (code == Code::kInterrupted) return "";
  return inputs_given ? "give inputs that it takes" : kModelAdvice;
}

OptimizeOptions optimize_options_of(const Options& o) {
  OptimizeOptions options;
  options.annotate = options.reasons = o.annotate;
  options.limits.iterations = o.iterations;
  options.limits.nodes = o.node_limit;
  options.limits.memory_bytes = o.memory_limit;
  options.limits.seconds = o.time_limit;
  options.limits.threads = o.threads;
  options.limits.cancel = o.stop;
  options.opset = o.opset;
  options.keep_opset = o.keep_opset;
  options.extractor = o.extractor;
  options.memory_slack = o.memory_slack;
  options.max_growth = o.max_growth;
  options.cost_points = cost_points_of(o);
  options.max_memory = o.max_memory;
  if (o.progress)
    options.progress = [&progress = o.progress](const std::string& stage, const IterationStats* i) {
      progress({stage, i ? i->iteration : 0, i ? i->nodes : 0});
    };
  return options;
}

}  // namespace

Error error_of(const absl::Status& status, const std::string& place, const std::string& advice) {
  const Code code = is_wrong_usage(status)                              ? Code::kUsage
                    : status.code() == absl::StatusCode::kUnimplemented ? Code::kUnsupported
                                                                        : Code::kFile;
  return {code, error_line(place, std::string(status.message()), advice)};
}

std::string Report::table(int verbosity) const { return format_report(impl_->report, verbosity + 1); }
std::string Report::json() const {
  nlohmann::json out = to_json(impl_->report);
  if (impl_->not_fused) out["not_fused"] = to_json(*impl_->not_fused);
  return json_text(out);
}

Expected<Model> Model::load(const std::string& path) {
  return guarded([&]() -> Expected<Model> { return model_of(load_model(path), path); });
}

Expected<Model> Model::parse(std::string_view bytes, const std::string& folder, std::vector<Weight> weights) {
  return guarded([&]() -> Expected<Model> {
    std::vector<DetachedData> detached;
    for (Weight& w : weights) detached.push_back({w.index, w.data, std::move(w.owner)});
    return model_of(parse_model(bytes, folder, std::move(detached)), "");
  });
}

Done Model::save(const std::string& path, const SaveOptions& given) const {
  return guarded([&]() -> Done {
    saturate::SaveOptions options;
    options.force_external = given.external_data;
    options.external_threshold = given.external_threshold;
    std::vector<std::string_view> words;
    for (const auto& [name, format] : kDataFormats) {
      words.push_back(name);
      if (given.external_format == name) options.data_format = format;
    }
    if (!given.external_format.empty() && !options.data_format)
      return Error{Code::kUsage, fmt::format("external_data_format: \"{}\": give {}", given.external_format, fmt::join(words, " or "))};
    if (const absl::Status status = save_model(impl_->model, path, options); !status.ok())
      return error_of(status, path, write_advice(status));
    return std::monostate();
  });
}

Expected<std::string> Model::serialize() const {
  return guarded([&]() -> Expected<std::string> {
    absl::StatusOr<std::string> bytes = serialize_model(impl_->model);
    if (!bytes.ok()) return error_of(bytes.status(), impl_->model.path, "");
    return *std::move(bytes);
  });
}

Expected<std::string> Model::serialize(std::size_t threshold, std::vector<Weight>* weights) const {
  return guarded([&]() -> Expected<std::string> {
    std::vector<DetachedData> detached;
    absl::StatusOr<std::string> bytes = serialize_model(impl_->model, threshold, detached);
    if (!bytes.ok()) return error_of(bytes.status(), impl_->model.path, "");
    for (DetachedData& d : detached) weights->push_back({d.index, d.bytes, std::move(d.owner)});
    return *std::move(bytes);
  });
}

std::string Model::inspect() const { return json_text(inspect_json(impl_->model.path, impl_->model)); }
std::string Model::text() const { return print_model_text(impl_->model); }

Expected<RuleSet> RuleSet::builtin() {
  return guarded([&]() -> Expected<RuleSet> {
    absl::StatusOr<saturate::RuleSet> rules = saturate::RuleSet::builtin();
    if (!rules.ok()) return error_of(rules.status(), "", "");
    return rules_of(*std::move(rules));
  });
}

RuleSet RuleSet::none() { return rules_of({}); }

Expected<RuleSet> RuleSet::with_file(const std::string& path) const {
  return guarded([&]() -> Expected<RuleSet> {
    saturate::RuleSet rules = impl_->rules;
    if (const absl::Status status = rules.load_file(path); !status.ok()) return error_of(status, "", "");
    return rules_of(std::move(rules));
  });
}

Expected<RuleSet> RuleSet::with_text(std::string_view text, const std::string& name) const {
  return guarded([&]() -> Expected<RuleSet> {
    saturate::RuleSet rules = impl_->rules;
    if (const absl::Status status = rules.load_text(text, name); !status.ok()) return error_of(status, "", "");
    return rules_of(std::move(rules));
  });
}

Expected<RuleSet> RuleSet::without(const std::vector<std::string>& names) const {
  return guarded([&]() -> Expected<RuleSet> {
    RuleFilter filter;
    filter.effects = kAllEffects;
    filter.except = names;
    absl::StatusOr<saturate::RuleSet> rules = filter_rules(impl_->rules, filter);
    if (!rules.ok()) return error_of(rules.status(), "", "");
    return rules_of(*std::move(rules));
  });
}

std::vector<std::string> RuleSet::names() const {
  std::vector<std::string> names;
  for (const auto& rule : impl_->rules.stored()) names.emplace_back(rule->head().name);
  for (const NativeRule& rule : impl_->rules.native_rules()) names.push_back(rule.name);
  return names;
}

std::string RuleSet::show(std::string_view name) const { return impl_->rules.show(name); }

namespace {

Expected<MeasureOptions> measure_of(const Options& o) {
  MeasureOptions options;
  options.seconds = *o.measure;
  options.threads = o.threads;
  options.seed = o.seed;
  options.stop = o.stop;
  auto answers = Answers::open(o.measured);
  if (!answers.ok()) return error_of(answers.status(), "", "");
  options.answers = *std::move(answers);
  options.points = cost_points_of(o);
  if (auto error = add_inputs(o, options.inputs)) return *std::move(error);
  auto runtime = the_onnxruntime({o.judges, o.onnxruntime, true}, o.threads, o.abort);
  if (!runtime.ok()) return error_of(runtime.status(), "", "");
  options.runtime = *std::move(runtime);
  return options;
}

Expected<Result> run_optimize(const Model& model, const Options& o) {
  const double began = steady_seconds();
  Expected<Prepared> prepared = prepare(model, o);
  if (!prepared) return prepared.error();
  auto& [setup, input] = *prepared;
  if (const absl::Status s = o.verify ? check_operators(input) : absl::OkStatus(); !s.ok()) return error_of(s, input.path, "");
  PipelineOptions options;
  options.optimize = optimize_options_of(o);
  options.optimize.limits.began = began;
  options.io_rank = o.io_rank;
  options.verify = o.verify;
  options.strict_verify = o.strict_verify;
  options.debug_rules = o.debug_rules;
  options.details = options.optimize.provenance = options.optimize.newer_release = true;
  options.abort = o.abort;
  if (o.verify) {
    Expected<VerifyOptions> check = check_of(o, {});
    if (!check) return check.error();
    options.check = *std::move(check);
  }
  if (o.measure) {
    Expected<MeasureOptions> measure = measure_of(o);
    if (!measure) return measure.error();
    options.measure = *std::move(measure);
  }
  std::optional<std::vector<NotFused>> not_fused;
  if (o.not_fused)
    options.optimize.observe = [&setup = setup, &into = not_fused.emplace()](const FinishedRun& run) { see_not_fused(run, setup, into); };
  PipelineResult result = run_pipeline(input, setup, options);
  if (const std::string wrong = cost_model_error(*setup.cost); !wrong.empty()) return usage(wrong);
  if (options.measure && !result.failure)
    if (const absl::Status s = options.measure->answers->save(); !s.ok()) return error_of(s, "", "");
  const bool verified = result.report.verify.has_value();
  result.report.input = input.path;
  Report report(std::make_shared<const Report::Impl>(Report::Impl{std::move(result.report), std::move(not_fused)}));
  if (result.failure) {
    const auto code = static_cast<Code>(result.failure->code);
    Error error{code, error_line(input.path, result.failure->message,
                                 advice_of(code, o.inputs && result.failure->message.starts_with("can't verify")))};
    if (verified) error.report = std::move(report);
    return error;
  }
  return Result{Model(std::make_shared<const Model::Impl>(Model::Impl{std::move(result.model)})), std::move(report)};
}

Expected<Transformed> run_transform(const Model& model, std::string_view passes, const Options& o) {
  if (const auto error = check_options(o)) return *error;
  const absl::StatusOr<std::vector<PassCall>> steps = parse_steps(passes);
  if (!steps.ok())
    return Error{absl::IsUnimplemented(steps.status()) ? Code::kUnsupported : Code::kUsage, std::string(steps.status().message())};
  Expected<VerifyOptions> check = check_of(o, {});
  if (!check) return check.error();
  const saturate::Model& input = model.impl().model;
  TransformResult result = saturate::transform(input, *steps, {o.verify, *std::move(check)});
  if (result.failure) return Error{static_cast<Code>(result.failure->code), error_line(input.path, result.failure->message, "")};
  result.report.input = input.path;
  return Transformed{Model(std::make_shared<const Model::Impl>(Model::Impl{std::move(result.model)})),
                     printable(format_report(result.report)), json_text(to_json(result.report))};
}

Expected<std::vector<std::string>> run_split_passes(const Model& model, const std::vector<std::string>& values) {
  const absl::StatusOr<std::vector<PassCall>> cuts = split_at(model.impl().model, values);
  if (!cuts.ok()) return Error{Code::kUsage, std::string(cuts.status().message())};
  std::vector<std::string> parts;
  for (const PassCall& cut : *cuts) {
    nlohmann::json step = cut.args.all();
    step["pass"] = cut.pass->name;
    parts.push_back(json_text(nlohmann::json::array({std::move(step)})));
  }
  return parts;
}

Expected<Verification> run_verify(const Model& original, const Model& other, const Options& o) {
  if (const auto error = check_options(o)) return *error;
  const absl::StatusOr<GivenShapes> shapes = fitting(shapes_of(o), original.impl().model);
  if (!shapes.ok()) return error_of(shapes.status(), "", "");
  Expected<VerifyOptions> options = check_of(o, *shapes);
  if (!options) return options.error();
  const VerifyReport report = saturate::verify(original.impl().model, other.impl().model, *options);
  if (report.status == VerifyStatus::kCancelled) return Error{Code::kInterrupted, "interrupted"};
  if (report.status == VerifyStatus::kUnsupported) return Error{Code::kUnsupported, fmt::format("can't verify: {}", report.message)};
  if (report.status == VerifyStatus::kNotRun)
    return Error{o.inputs ? Code::kFile : Code::kUnsupported, fmt::format("can't verify: {}; give inputs that it takes", report.message)};
  return Verification{report.status == VerifyStatus::kEqual, summary(report), json_text(to_json(report))};
}

// What two models are compared with.
struct Comparison {
  Setup setup;
  VerifyOptions run;
};
Expected<Comparison> comparison_of(const Options& o) {
  if (const auto error = check_options(o)) return *error;
  const GivenShapes shapes = shapes_of(o);
  Expected<Setup> setup = setup_of(o, shapes);
  if (!setup) return setup.error();
  Expected<VerifyOptions> run = check_of(o, shapes);
  if (!run) return run.error();
  return Comparison{*std::move(setup), *std::move(run)};
}

std::string named(const saturate::Model& model, const char* otherwise) { return model.path.empty() ? otherwise : model.path; }

Expected<Difference> run_diff(const Model& first, const Model& second, const Options& o) {
  Expected<Comparison> with = comparison_of(o);
  if (!with) return with.error();
  DiffOptions options;
  options.run = std::move(with->run);
  options.setup = &with->setup;
  options.points = cost_points_of(o);
  const saturate::Model &a = first.impl().model, &b = second.impl().model;
  const absl::StatusOr<ModelDiff> diff = diff_models(a, b, options);
  if (o.abort && *o.abort) return Error{Code::kInterrupted, "interrupted"};
  if (!diff.ok()) return error_of(diff.status(), b.path, "");
  return Difference{diff->equal(), printable(format_diff(*diff, named(a, "first"), named(b, "second"), false)), json_text(to_json(*diff))};
}

Expected<Proof> run_prove(const Model& first, const Model& second, const Options& o) {
  Expected<Comparison> with = comparison_of(o);
  if (!with) return with.error();
  ProveOptions options;
  options.run = std::move(with->run);
  options.limits = optimize_options_of(o).limits;
  options.limits.cancel = o.abort;
  const saturate::Model &a = first.impl().model, &b = second.impl().model;
  const absl::StatusOr<ModelProof> proof = saturate::prove(a, b, with->setup, options);
  if (o.abort && *o.abort) return Error{Code::kInterrupted, "interrupted"};
  if (!proof.ok()) return error_of(proof.status(), b.path, "");
  return Proof{std::string(to_string(proof->verdict)), printable(format_proof(*proof, named(a, "first"), named(b, "second"), false)),
               json_text(to_json(*proof))};
}

Expected<std::string> run_explain(const Model& model, const Question& question, const Options& o) {
  Expected<Prepared> prepared = prepare(model, o);
  if (!prepared) return prepared.error();
  auto& [setup, input] = *prepared;
  if (o.io_rank) {
    auto asked = with_io_rank(input, *o.io_rank);
    if (!asked.ok()) return error_of(asked.status(), input.path, "");
    input = *std::move(asked);
  }
  const auto text = explain_json(input.path, input, setup, optimize_options_of(o), {question.op, question.rule, question.value});
  if (!text.ok()) return error_of(text.status(), input.path, kModelAdvice);
  if (const std::string wrong = cost_model_error(*setup.cost); !wrong.empty()) return usage(wrong);
  if (o.abort && *o.abort) return Error{Code::kInterrupted, "interrupted"};
  return json_text(*text);
}

}  // namespace

Expected<Result> optimize(const Model& model, const Options& o) {
  return guarded([&] { return run_optimize(model, o); });
}
Expected<Transformed> transform(const Model& model, std::string_view passes, const Options& o) {
  return guarded([&] { return run_transform(model, passes, o); });
}
Expected<std::vector<std::string>> split_passes(const Model& model, const std::vector<std::string>& values) {
  return guarded([&] { return run_split_passes(model, values); });
}
std::string passes() { return json_text(pass_list_json()); }
Expected<Verification> verify(const Model& original, const Model& other, const Options& o) {
  return guarded([&] { return run_verify(original, other, o); });
}
Expected<Difference> diff(const Model& first, const Model& second, const Options& o) {
  return guarded([&] { return run_diff(first, second, o); });
}
Expected<Proof> prove(const Model& first, const Model& second, const Options& o) {
  return guarded([&] { return run_prove(first, second, o); });
}
Expected<std::string> inspect_after_load(const Model& model, const Options& o) {
  return guarded([&]() -> Expected<std::string> {
    const saturate::Model& given = model.impl().model;
    const auto runtime = the_onnxruntime({o.judges, o.onnxruntime, true}, o.threads, o.abort);
    if (!runtime.ok()) return error_of(runtime.status(), "", "");
    const auto loaded = after_load(**runtime, given);
    if (!loaded.ok()) return error_of(loaded.status(), given.path, "");
    const auto settled = settle_target(o.target, o.onnxruntime);
    if (!settled.ok()) return error_of(settled.status(), "", "");
    nlohmann::json out = inspect_json(given.path, given, settled->given);
    out["after_load"] = to_json(*loaded);
    return json_text(out);
  });
}

Expected<std::string> explain(const Model& model, const Question& question, const Options& o) {
  return guarded([&] { return run_explain(model, question, o); });
}

std::vector<std::string> targets() { return builtin_targets(); }
std::string what_instead(std::string_view name, const std::vector<std::string>& known) { return saturate::what_instead(name, known); }

std::string version() { return SATURATE_VERSION; }

}  // namespace saturate::api
