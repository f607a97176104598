#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "fmt/format.h"
#include "kernels/runtime/stop.h"
#include "tools/cli/cli.h"
#include "tools/cli/option_checks.h"
#include "tools/io/npz.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

absl::Status bad(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

void replace_symbol(std::vector<ValueInfo>& infos, const std::string& symbol, std::int64_t size) {
  for (ValueInfo& info : infos) {
    if (!info.type.shape) continue;
    for (DimSpec& dim : *info.type.shape) {
      if (dim != DimSpec(symbol)) continue;
      dim = size;
      info.origin = nullptr;
    }
  }
}

absl::Status fix_dim(Model& model, ValueInfo& input, std::size_t axis, std::int64_t size) {
  DimSpec& dim = (*input.type.shape)[axis];
  if (const auto* number = std::get_if<std::int64_t>(&dim)) {
    if (*number == size) return absl::OkStatus();
    return bad(fmt::format("input '{}': dim {} is {} in the model and can't become {}; export the model with a dynamic dim", input.name,
                           axis, *number, size));
  }
  if (const auto* name = std::get_if<std::string>(&dim)) {
    const std::string symbol = *name;
    for (auto* infos : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info}) replace_symbol(*infos, symbol, size);
    return absl::OkStatus();
  }
  dim = size;
  input.origin = nullptr;
  return absl::OkStatus();
}

}  // namespace

std::string error_line(std::string_view place, std::string_view message, std::string_view advice) {
  std::string line;
  if (!place.empty() && !message.starts_with(place)) line = fmt::format("{}: ", place);
  line += message;
  if (!advice.empty() && message.find(';') == std::string_view::npos) line += fmt::format("; {}", advice);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return printable(line);
}

int fail(ExitCode code, std::string_view place, std::string_view message, std::string_view advice) {
  std::fprintf(stderr, "saturate: error: %s\n", error_line(place, message, advice).c_str());
  return code;
}

int fail(const absl::Status& status, std::string_view place, std::string_view advice) {
  if (absl::IsCancelled(status)) return fail(kExitInterrupted, place, std::string(status.message()), "");
  return fail(absl::IsUnimplemented(status) ? kExitUnsupported : kExitFile, place, std::string(status.message()), advice);
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
    if (!size || *size < 0 || equals == 0) return bad(fmt::format("--dim {}: not SYMBOL=SIZE; write e.g. --dim batch=4", item));
    const auto [it, is_new] = sizes.try_emplace(item.substr(0, equals), *size);
    if (!is_new && it->second != *size) return bad(fmt::format("--dim {}: {} is {} already; give one size", item, it->first, it->second));
  }
  return sizes;
}

// NAME:1,3,224,224, NAME:[1,3,224,224] and NAME:1x3x224x224; -1, ? or a name leave a dim as it is.
absl::StatusOr<std::vector<std::pair<std::string, std::vector<std::int64_t>>>> parse_shapes(const std::vector<std::string>& shapes) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> out;
  for (const std::string& item : shapes) {
    const std::size_t colon = item.rfind(':');
    if (colon == std::string::npos || colon == 0) return bad(fmt::format("--input-shapes {}: not NAME:1,3,224,224", item));
    std::string text = item.substr(colon + 1);
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
    out.emplace_back(item.substr(0, colon), std::move(dims));
  }
  return out;
}

namespace {

// A size of 0 makes a model of nothing, mostly by mistake.
absl::Status refuse_empty(const Sizes& sizes, const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& shapes) {
  const char* advice = "a size of 0 leaves nothing to compute; --allow-empty takes it all the same";
  for (const auto& [symbol, size] : sizes)
    if (size == 0) return bad(fmt::format("--dim {}=0: {}", symbol, advice));
  for (const auto& [name, dims] : shapes)
    if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return bad(fmt::format("--input-shapes {}: {}", name, advice));
  return absl::OkStatus();
}

// An input whose rank the model leaves open gets the user's.
void give_rank(ValueInfo& input, std::size_t rank) {
  if (input.type.kind != ValueType::Kind::kTensor || input.type.shape) return;
  input.type.shape.emplace(rank);
  input.origin = nullptr;
}

}  // namespace

absl::Status fix_shapes(Model& model, const ShapeArgs& args) {
  absl::StatusOr<Sizes> sizes = parse_sizes(args.dims);
  if (!sizes.ok()) return sizes.status();
  absl::StatusOr<std::vector<std::pair<std::string, std::vector<std::int64_t>>>> shapes = parse_shapes(args.input_shapes);
  if (!shapes.ok()) return shapes.status();
  if (absl::Status s = args.allow_empty ? absl::OkStatus() : refuse_empty(*sizes, *shapes); !s.ok()) return s;
  for (const auto& [symbol, size] : *sizes)
    for (auto* infos : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info}) replace_symbol(*infos, symbol, size);
  for (const auto& [name, dims] : *shapes) {
    const auto input =
        std::find_if(model.graph.inputs.begin(), model.graph.inputs.end(), [&](const ValueInfo& v) { return v.name == name; });
    if (input == model.graph.inputs.end()) return bad(fmt::format("the model has no input '{}'; `saturate inspect` lists them", name));
    give_rank(*input, dims.size());
    if (!input->type.shape || input->type.shape->size() != dims.size())
      return bad(fmt::format("input '{}' has rank {}, not {}; `saturate inspect` shows its shape", name,
                             input->type.shape ? fmt::format("{}", input->type.shape->size()) : "unknown", dims.size()));
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] < 0) continue;
      if (absl::Status status = fix_dim(model, *input, axis, dims[axis]); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Inputs> load_inputs(const std::string& path, const Model& model) {
  absl::StatusOr<NamedTensors> tensors = load_npz(path);
  if (!tensors.ok()) return tensors.status();
  Inputs inputs;
  for (auto& [name, tensor] : *tensors) {
    const auto& declared = model.graph.inputs;
    const auto info = std::find_if(declared.begin(), declared.end(), [&, &wanted = name](const ValueInfo& v) { return v.name == wanted; });
    if (info == declared.end())
      return bad(fmt::format("{}({}): the model has no input of this name; name arrays after the model's inputs", path, name));
    if (info->type.kind == ValueType::Kind::kTensor && info->type.dtype != tensor.dtype())
      return bad(fmt::format("{}({}): type {}, the model wants {}; convert the array", path, name, dtype_name(tensor.dtype()),
                             dtype_name(info->type.dtype)));
    inputs[name] = std::move(tensor);
  }
  for (const ValueInfo& info : model.graph.inputs) {
    const auto& defaults = model.graph.initializers;
    const bool has_default = std::any_of(defaults.begin(), defaults.end(), [&](const Initializer& i) { return i.name == info.name; });
    if (!has_default && !inputs.contains(info.name))
      return bad(fmt::format("{}: the model's input '{}' is missing; add an array of this name", path, info.name));
  }
  return inputs;
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

absl::StatusOr<VerifyOptions> verify_options(const VerifyArgs& args, const ShapeArgs& shapes, const CommonArgs& common,
                                             const Model& original) {
  VerifyOptions options;
  options.tolerances.rtol = args.rtol;
  options.tolerances.atol = args.atol;
  options.seed = args.seed;
  options.threads = common.threads;
  options.cancel = common.cancel;
  absl::StatusOr<Sizes> sizes = parse_sizes(shapes.dims);
  if (!sizes.ok()) return sizes.status();
  options.sizes = *std::move(sizes);
  absl::StatusOr<std::vector<std::pair<std::string, std::vector<std::int64_t>>>> input_shapes = parse_shapes(shapes.input_shapes);
  if (!input_shapes.ok()) return input_shapes.status();
  options.input_shapes = *std::move(input_shapes);
  if (absl::Status s = shapes.allow_empty ? absl::OkStatus() : refuse_empty(options.sizes, options.input_shapes); !s.ok()) return s;
  if (args.max_memory) options.memory = *args.max_memory << 20;
  if (args.seconds) options.seconds = std::max(1.0, *args.seconds);
  for (const std::string& path : args.inputs) {
    absl::StatusOr<Inputs> inputs = load_inputs(path, original);
    if (!inputs.ok()) return inputs.status();
    options.inputs.push_back(*std::move(inputs));
  }
  return options;
}

}  // namespace saturate
