#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <unordered_set>

#include "egraph/stop.h"
#include "extract/optimize/stages.h"
#include "fmt/format.h"
#include "kernels/verify/choice.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/output_file.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"
#include "tools/io/files.h"
#include "tools/io/npz.h"
#include "tools/io/option_checks.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

std::atomic<bool> errors_are_json{false};  // of this run of the command

absl::Status bad(const std::string& message) { return wrong_usage(message); }

}  // namespace

void tell_errors_as_json(bool json) { errors_are_json = json; }

int fail(ExitCode code, std::string_view place, std::string_view message, std::string_view advice) {
  const std::string line = error_line(place, message, advice);
  if (errors_are_json)
    std::fprintf(stderr, "%s\n", json_text(nlohmann::json{{"error", {{"status", code}, {"place", place}, {"message", line}}}}, -1).c_str());
  else
    std::fprintf(stderr, "saturate: error: %s\n", line.c_str());
  return code;
}

void warn(std::string_view text) {
  if (errors_are_json)
    std::fprintf(stderr, "%s\n", json_text(nlohmann::json{{"warning", text}}, -1).c_str());
  else
    std::fprintf(stderr, "saturate: warning: %s\n", printable(text).c_str());
}

int fail(const absl::Status& status, std::string_view place, std::string_view advice) {
  if (absl::IsCancelled(status)) return fail(kExitInterrupted, place, std::string(status.message()), "");
  const ExitCode code = is_wrong_usage(status) ? kExitUsage : absl::IsUnimplemented(status) ? kExitUnsupported : kExitFile;
  return fail(code, place, std::string(status.message()), advice);
}

absl::StatusOr<Model> load_given(const std::string& path) {
  if (path != kPipe) return load_model(path);
  const absl::StatusOr<std::string> bytes = read_all(STDIN_FILENO, "standard input", kMostNamedData);
  return bytes.ok() ? parse_model(*bytes, ".") : bytes.status();
}

std::optional<int> load_two(const std::string& first, const std::string& second, Model (&models)[2], absl::Status (*check)(const Model&)) {
  const std::string* paths[2] = {&first, &second};
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<Model> model = load_given(*paths[i]);
    if (!model.ok()) return fail(kExitFile, *paths[i], std::string(model.status().message()), kModelAdvice);
    if (const absl::Status s = check ? check(*model) : absl::OkStatus(); !s.ok()) return fail(s, *paths[i], "");
    models[i] = *std::move(model);
  }
  return std::nullopt;
}

ResultToStdout::ResultToStdout() {
  std::fflush(stdout);
  out_ = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

ResultToStdout::~ResultToStdout() {
  std::fflush(stdout);
  ::dup2(out_, STDOUT_FILENO);
  ::close(out_);
}

absl::Status ResultToStdout::write(const Model& model) const {
  const absl::StatusOr<std::string> bytes = serialize_model(model);
  return bytes.ok() ? write_fully(out_, *bytes, "standard output") : bytes.status();
}

std::string path_beside(const std::string& input, const std::string& ending) {
  const std::filesystem::path path = input;
  return (path.parent_path() / (path.stem().string() + ending)).string();
}

absl::StatusOr<Sizes> parse_sizes(const std::vector<std::string>& dims) {
  Sizes sizes;
  for (const std::string& item : dims) {
    const std::size_t equals = item.rfind('=');
    const auto size = equals == std::string::npos ? std::nullopt : parse_int(std::string_view(item).substr(equals + 1));
    if (item.find('=') != item.rfind('=') && item.find(',') != std::string::npos)
      return bad(fmt::format("--dim {}: several sizes; give each its own, --dim batch=4 --dim seq=128", item));
    if (!size || *size < 0 || equals == 0) return bad(fmt::format("--dim {}: not SYMBOL=SIZE; write e.g. --dim batch=4", item));
    const auto [it, is_new] = sizes.try_emplace(item.substr(0, equals), *size);
    if (!is_new && it->second != *size) return bad(fmt::format("--dim {}: {} is {} already; give one size", item, it->first, it->second));
  }
  return sizes;
}

absl::Status check_cost_points(const SaturateArgs& args, const Model& model) {
  const absl::StatusOr<std::vector<CostPoint>> points = parse_cost_points(args.cost_at);
  if (!points.ok()) return points.status();
  for (const UnknownSymbol& unknown : unknown_symbols(model, *points))
    if (unknown.is_slip) return wrong_usage(unknown.text);
  return absl::OkStatus();
}

bool is_bare_shape(std::string_view word) {
  return word.find_first_of("0123456789") != std::string_view::npos && word.find_first_not_of("0123456789x?,-[]") == std::string_view::npos;
}

// NAME:1,3,224,224, NAME=1,3,224,224, NAME:[1,3,224,224] and NAME:1x3x224x224; -1, ? or a name leave a dim as it is. The name of a model's
// one input may be left out.
absl::StatusOr<InputShapes> parse_shapes(const std::vector<std::string>& shapes) {
  InputShapes out;
  for (const std::string& item : shapes) {
    const std::size_t colon = item.find_last_of(":=");
    const bool bare = colon == std::string::npos && is_bare_shape(item);
    if ((colon == std::string::npos && !bare) || colon == 0)
      return bad(fmt::format("--input-shapes {}: not NAME:1,3,224,224; write the input's name, a colon and its dims", item));
    std::string text = bare ? item : item.substr(colon + 1);
    if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
    std::vector<std::int64_t> dims;
    const bool crosses = text.find_first_not_of("0123456789x?-") == std::string::npos && text.find(',') == std::string::npos;
    for (std::size_t at = 0; at <= text.size() && !text.empty();) {
      const std::size_t end = std::min(text.find(crosses ? 'x' : ',', at), text.size());
      const std::string token = text.substr(at, end - at);
      const auto size = parse_int(token);
      if (token.empty() || (size && *size < -1)) return bad(fmt::format("--input-shapes {}: '{}' is no size", item, token));
      dims.push_back(size.value_or(-1));
      at = end + 1;
    }
    out.emplace_back(bare ? "" : item.substr(0, colon), std::move(dims));
  }
  return out;
}

// SYMBOL=SIZE,SYMBOL=SIZE:WEIGHT.
absl::StatusOr<std::vector<CostPoint>> parse_cost_points(const std::vector<std::string>& texts) {
  std::vector<CostPoint> out;
  for (const std::string& text : texts) {
    CostPoint point;
    const std::size_t colon = text.rfind(':');
    std::vector<std::string> dims;
    for (std::size_t at = 0, end = std::min(colon, text.size()); at < end;) {
      const std::size_t comma = std::min(text.find(',', at), end);
      dims.push_back(text.substr(at, comma - at));
      at = comma + 1;
    }
    absl::StatusOr<Sizes> sizes = parse_sizes(dims);
    if (colon != std::string::npos) {
      const std::string weight = text.substr(colon + 1);
      char* end = nullptr;
      point.weight = std::strtod(weight.c_str(), &end);
      if (weight.empty() || *end != 0 || !(point.weight > 0) || !std::isfinite(point.weight))
        return bad(fmt::format("--cost-at {}: '{}' is no weight above 0", text, weight));
    }
    if (!sizes.ok() || sizes->empty())
      return bad(fmt::format("--cost-at {}: not SYMBOL=SIZE,...[:WEIGHT]; write e.g. batch=1,seq=128:0.7", text));
    point.symbols = *std::move(sizes);
    out.push_back(std::move(point));
  }
  return out;
}

absl::StatusOr<GivenShapes> given_shapes(const ShapeArgs& args) {
  absl::StatusOr<Sizes> dims = parse_sizes(args.dims);
  if (!dims.ok()) return dims.status();
  absl::StatusOr<InputShapes> shapes = parse_shapes(args.input_shapes);
  if (!shapes.ok()) return shapes.status();
  return GivenShapes{*std::move(dims), *std::move(shapes), args.allow_empty, args.of_several_models};
}

absl::StatusOr<Setup> set_up(const SaturateArgs& args, const ShapeArgs& shapes, const std::string& onnxruntime) {
  SetupOptions options{args.target, args.prefer, args.cost, {}, args.rules, {}};
  options.keep_functions = args.keep_functions;
  options.onnxruntime = onnxruntime;
  options.filter.effects = args.effects;
  for (const std::string& name : args.skip_rules) {
    constexpr std::string_view kFusion = "Fusion";  // OnnxSlim's "FusionGelu"
    const bool fusion = name.starts_with(kFusion) && name.size() > kFusion.size();
    (fusion ? options.filter.not_made : options.filter.except).push_back(fusion ? name.substr(kFusion.size()) : name);
  }
  options.filter.not_made.insert(options.filter.not_made.end(), args.not_made.begin(), args.not_made.end());
  options.filter.assumptions = {args.assumed, args.not_assumed};
  absl::StatusOr<Sizes> sizes = parse_sizes(shapes.dims);
  if (!sizes.ok()) return sizes.status();
  options.cost_options.symbols = *std::move(sizes);
  absl::StatusOr<std::vector<CostPoint>> points = parse_cost_points(args.cost_at);
  if (!points.ok()) return points.status();
  options.cost_options.points = *std::move(points);
  return set_up(options);
}

void name_target(const SettledTarget& settled, OptimizeArgs& args) {
  if (settled.release.empty()) return;
  args.saturate.target = settled.given;
  const auto named = std::find_if(args.given.begin(), args.given.end(), [](const GivenOption& o) { return o.name == "--target"; });
  if (named == args.given.end())
    args.given.push_back({"--target", settled.given});
  else
    named->value = settled.given;
}

OptimizeOptions optimize_options(const SaturateArgs& args, const CommonArgs& common) {
  OptimizeOptions options;
  options.limits = args.limits;
  options.limits.threads = common.threads;
  options.limits.cancel = common.cancel;
  options.opset = args.opset;
  options.keep_opset = args.keep_opset;
  options.extractor = args.extractor;
  options.memory_slack = args.memory_slack;
  options.max_growth = args.max_growth;
  if (const auto points = parse_cost_points(args.cost_at); points.ok()) options.cost_points = *points;
  return options;
}

absl::Status fix_shapes(Model& model, const ShapeArgs& args) {
  const absl::StatusOr<GivenShapes> shapes = given_shapes(args);
  return shapes.ok() ? fix_shapes(model, *shapes) : shapes.status();
}

namespace {

std::vector<std::string> names_of(const std::vector<ValueInfo>& values) {
  std::vector<std::string> out;
  for (const ValueInfo& value : values) out.push_back(value.name);
  return out;
}

// Whether an array may be an input of the model, by its header.
class InputArrays {
 public:
  InputArrays(const std::string& path, const Model& model, std::uint64_t memory)
      : path_(path), model_(model), within_(within_memory(path, memory)) {
    for (const ValueInfo& info : model.graph.inputs) by_name_.emplace(info.name, &info);
  }
  absl::Status admit(const std::string& name, const NpyHead& head) {
    const auto wrong = [&](const std::string& what) { return absl::InvalidArgumentError(fmt::format("{}({}): {}", path_, name, what)); };
    const auto info = by_name_.find(name);
    if (info == by_name_.end())
      return wrong(fmt::format("the model has no input of this name; {}", what_instead(name, names_of(model_.graph.inputs))));
    const ValueType& type = info->second->type;
    const bool is_tensor = type.kind == ValueType::Kind::kTensor;
    if (is_tensor && type.dtype != head.dtype)
      return wrong(fmt::format("type {}, the model wants {}; convert the array", dtype_name(head.dtype), dtype_name(type.dtype)));
    const bool has_shape = is_tensor && type.shape;
    if (has_shape && type.shape->size() != head.dims.size())
      return wrong(fmt::format("rank {}, the model wants {}; give an array of the input's shape", head.dims.size(), type.shape->size()));
    for (std::size_t k = 0; has_shape && k < head.dims.size(); ++k)
      if (const auto* size = std::get_if<std::int64_t>(&(*type.shape)[k]); size && *size != head.dims[k])
        return wrong(fmt::format("dim {} must be {}, not {}; give an array of the input's shape", k, *size, head.dims[k]));
    return within_(name, head);
  }

 private:
  const std::string& path_;
  const Model& model_;
  AdmitArray within_;
  std::map<std::string, const ValueInfo*, std::less<>> by_name_;
};

}  // namespace

absl::StatusOr<Inputs> load_inputs(const std::string& path, const Model& model, std::uint64_t memory) {
  InputArrays arrays(path, model, memory);
  absl::StatusOr<NamedTensors> tensors =
      load_npz(path, kMostUnpacked, [&](const std::string& name, const NpyHead& head) { return arrays.admit(name, head); });
  if (!tensors.ok()) return tensors.status();
  Inputs inputs;
  for (auto& [name, tensor] : *tensors) inputs[name] = std::move(tensor);
  std::unordered_set<std::string> defaults;
  for (const Initializer& initializer : model.graph.initializers) defaults.insert(initializer.name);
  for (const ValueInfo& info : model.graph.inputs) {
    if (!defaults.contains(info.name) && !inputs.contains(info.name))
      return absl::InvalidArgumentError(fmt::format("{}: the model's input '{}' is missing; add an array of this name", path, info.name));
  }
  return inputs;
}

absl::StatusOr<std::vector<PassCall>> load_passes(const std::vector<std::string>& files) {
  std::vector<PassCall> all;
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> text = read_data_file(file);
    if (!text.ok()) return text.status();
    absl::StatusOr<std::vector<PassCall>> steps = parse_steps(*text);
    if (!steps.ok()) return absl::Status(steps.status().code(), fmt::format("{}: {}", file, std::string(steps.status().message())));
    std::move(steps->begin(), steps->end(), std::back_inserter(all));
  }
  return all;
}

std::string said_of(const Trial& trial) {
  if (trial.taken.empty()) return "";
  return fmt::format("shapes of inputs were found by trial: {}; --input-shapes gives others", fmt::join(trial.taken, ", "));
}

absl::StatusOr<Trial> inputs_for(const Model& model, const std::string& path, const ShapeArgs& given, std::uint64_t seed, const TryRun& run,
                                 std::uint64_t memory) {
  if (!path.empty()) {
    absl::StatusOr<Inputs> loaded = load_inputs(path, model, memory);
    if (!loaded.ok()) return loaded.status();
    return Trial{*std::move(loaded), {}, {}};
  }
  absl::StatusOr<GivenShapes> shapes = given_shapes(given);
  if (shapes.ok()) shapes = fitting(*std::move(shapes), model);
  if (!shapes.ok()) return shapes.status();
  InputDrawer drawer(model, shapes->dims);
  for (const auto& [name, dims] : shapes->input_shapes)
    if (const auto clash = drawer.fix(name, dims)) return wrong_usage(fmt::format("{}; `saturate inspect` lists the inputs", *clash));
  absl::StatusOr<Trial> trial = try_shapes(model, drawer, seed, run);
  if (trial.ok())
    for (const auto& given_shape : shapes->input_shapes)
      std::erase_if(trial->taken, [&](const std::string& text) { return text.starts_with(given_shape.first + " ["); });
  return trial;
}

RunLimits run_limits(const RunBounds& bounds) {
  RunLimits limits;
  if (bounds.max_memory) limits.memory = *bounds.max_memory << 20;
  if (bounds.seconds) limits.deadline = steady_seconds() + *bounds.seconds;
  return limits;
}

const char* run_advice(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status)    ? "--time-limit gives more time"
         : absl::IsResourceExhausted(status) ? "--max-memory gives more memory"
                                             : "check the inputs";
}

absl::StatusOr<DecoderNames> decoder_names(const DecoderArgs& args, const ShapeArgs& shapes) {
  absl::StatusOr<Sizes> sizes = parse_sizes(shapes.dims);
  if (!sizes.ok()) return sizes.status();
  DecoderNames out{args.input_ids,   args.attention_mask, args.position_ids, args.logits, args.past, args.present, args.given, {},
                   *std::move(sizes)};
  if (!args.cache.empty()) out.cache = parse_cache_kind(args.cache);
  return out;
}

absl::StatusOr<std::vector<Model>> load_encoders(const DecoderArgs& args) {
  std::vector<Model> out;
  for (const std::string& path : args.encoders) {
    absl::StatusOr<Model> model = load_given(path);
    if (!model.ok()) return absl::Status(model.status().code(), error_line(path, std::string(model.status().message()), kModelAdvice));
    out.push_back(*std::move(model));
  }
  return out;
}

JudgeWords judge_words(const VerifyArgs& args) {
  JudgeWords words{args.judges, args.onnxruntime, args.runtime.others != nullptr};
  if (args.runtime.asked) words.judges.push_back(*args.runtime.asked);
  return words;
}

absl::StatusOr<VerifyOptions> verify_options(const VerifyArgs& args, const ShapeArgs& shapes, const CommonArgs& common,
                                             const Model& original) {
  VerifyOptions options;
  options.tolerances.rtol = args.rtol;
  options.tolerances.atol = args.atol;
  options.steps = args.steps;
  options.seed = args.seed;
  options.threads = common.threads;
  options.cancel = common.cancel;
  absl::StatusOr<GivenShapes> given = given_shapes(shapes);
  if (!given.ok()) return given.status();
  given = fitting(*std::move(given), original);
  if (!given.ok()) return given.status();
  options.sizes = std::move(given->dims);
  options.input_shapes = std::move(given->input_shapes);
  if (args.max_memory) options.memory = *args.max_memory << 20;
  options.ends_in_time = args.seconds.has_value();
  if (args.seconds) options.seconds = std::max(1.0, *args.seconds);
  for (const std::string& path : args.inputs) {
    absl::StatusOr<Inputs> inputs = load_inputs(path, original, options.memory);
    if (!inputs.ok()) return inputs.status();
    options.inputs.push_back(*std::move(inputs));
  }
  // Libraries of custom operators may need Python, whose process the judge's is not.
  if (!args.runtime.custom_op_libraries.empty()) {
    absl::StatusOr<OtherRuntime> runtime = runtime_of(args.runtime, common);
    if (!runtime.ok()) return runtime.status();
    options.runtime = *std::move(runtime);
    return options;
  }
  if (const absl::Status s = choose_judges(judge_words(args), options); !s.ok()) return s;
  return options;
}

}  // namespace saturate
