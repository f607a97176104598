// Half precision in the place of float.
#include <algorithm>
#include <functional>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/inputs/types.h"
#include "onnx_bridge/graph/constant_nodes.h"
#include "onnx_bridge/graph/floats.h"
#include "tools/transform/clamp_values.h"
#include "tools/transform/named_files.h"
#include "tools/transform/passes/passes.h"
#include "tools/transform/precision/calibration.h"
#include "tools/transform/precision/clamp.h"
#include "tools/transform/precision/mask_fills.h"
#include "tools/transform/precision/mixed.h"
#include "tools/transform/precision/precision.h"
#include "tools/transform/precision/ranges.h"

namespace saturate::passes {
namespace {

constexpr double kRoom = 0.5;  // share of the largest number of a type that others than the measured inputs may still need
constexpr std::size_t kShown = 5;

std::string some(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(kShown, names.size());
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     names.size() > shown ? ", ..." : "");
}

// What the values of the model are like on inputs of the user or drawn ones; empty where it was not measured.
absl::StatusOr<Ranges> ranges_of(Work& work, const Arguments& args) {
  const std::string path = args.text("calibrate");
  const bool keep = args.number("max_error") > 0;  // inputs, to measure the error on
  if (path.empty()) {
    auto ranges = measure_ranges(work.model, {}, keep);
    if (ranges.ok()) {
      if (!ranges->zeros.empty())
        work.notes.push_back(
            fmt::format("drawn inputs would take more than 256 MiB, so these were zeros: {}; the range of what is made of "
                        "them is not known, and 'calibrate' measures it",
                        some(ranges->zeros)));
      return ranges;
    }
    work.notes.push_back(fmt::format("the range of values was not measured: {}", std::string(ranges.status().message())));
    return Ranges();
  }
  if (absl::Status s = check_named_file(args, "calibrate", path, kMostNamedData); !s.ok()) return s;
  const absl::StatusOr<Inputs> inputs = load_inputs(path);
  auto ranges = inputs.ok() ? ranges_on(*inputs, work.model, keep) : inputs.status();
  return ranges.ok() ? std::move(ranges) : args.wrong("calibrate", path, std::string(ranges.status().message()));
}

std::set<std::string> where(const std::map<std::string, double>& sizes, const std::function<bool(double)>& is_meant) {
  std::set<std::string> out;
  for (const auto& [value, most] : sizes)
    if (is_meant(most)) out.insert(value);
  return out;
}

// What is too large for the type, and what is so near to 0 that all of it loses bits.
void find_beyond(const Ranges& ranges, PrecisionOptions& options) {
  const double most = largest_number(options.to) * kRoom, least = least_number(options.to);
  options.large = where(ranges.largest, [&](double x) { return x > most; });
  options.large_inside = where(ranges.scores, [&](double x) { return x > most; });
  options.tiny = where(ranges.largest, [&](double x) { return x > 0 && x < least; });
}

void tell(const Precision& made, const std::string& dtype, Work& work) {
  work.notes.push_back(fmt::format("{} operators work in {}, with {} Casts", made.converted.size(), dtype, made.casts));
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [node, why] : made.kept) by_reason[why].push_back(node);
  for (const auto& [why, nodes] : by_reason)
    work.notes.push_back(
        fmt::format("{} {} in float ({}): {}", nodes.size(), nodes.size() == 1 ? "operator stays" : "operators stay", why, some(nodes)));
}

// What the result's inputs and outputs are of the original's.
void tie_halves(const Precision& made, const std::map<std::string, ValueType>& before, DType dtype, Work& work) {
  for (const auto& [value, half] : made.halves)
    if (made.singles.contains(half) || !before.contains(half)) work.ties.values[half] = "";  // else a half that there was
  for (const auto& [value, single] : made.singles) {
    work.ties.values[single] = value;
    if (const auto it = work.ties.outputs.find(value); it != work.ties.outputs.end())
      it->second.views.push_back({View::Kind::kCast, dtype});
    const auto input = work.ties.inputs.find(value);
    if (input == work.ties.inputs.end()) continue;
    input->second.views.push_back({View::Kind::kCast, dtype});
    work.ties.held[input->second.original] = {{View::Kind::kCast, dtype}, {View::Kind::kCast, DType::kFloat}};
  }
}

// Values beyond the type that halves are made of: their names are told, and tied to the original's, which are clamped as well. Whether
// there are any.
bool clamp(Work& work, const std::map<std::string, ValueType>& types, PrecisionOptions& options, HalfWeights& weights) {
  std::map<std::string, double> most;
  std::vector<std::string> names;
  const ToClamp found = values_to_clamp(work.model, types, options, weights);
  for (const std::string& value : found.within) options.large.erase(value);
  for (const std::string& value : found.values) {
    names.push_back(value);
    most[value] = largest_number(options.to);
    options.large.erase(value);
    if (const std::string original = work.ties.value_of(value); !original.empty()) work.ties.clamped[original] = most[value];
  }
  if (names.empty()) return false;
  clamp_values(work.model, most);
  work.notes.push_back(fmt::format("{} {} clamped to {:.6g}: {}", names.size(), names.size() == 1 ? "value is" : "values are",
                                   largest_number(options.to), fmt::join(names, ", ")));
  return true;
}

absl::Status keep_for_error(const MixedRequest& request, const Arguments& args, PrecisionOptions& options, HalfWeights& weights,
                            Work& work) {
  const auto wrong = [&](std::string_view what) { return args.wrong("max_error", fmt::format("{}", request.max_error), what); };
  if (request.ranges.inputs.empty()) return wrong("the error can't be measured, for no inputs are known that the model accepts");
  auto found = floats_for_error(request, options, weights);
  if (absl::IsCancelled(found.status())) return found.status();
  if (!found.ok()) return wrong(std::string(found.status().message()));
  work.notes.push_back(
      fmt::format("measured error {:.2g}, at most {} is allowed: {} operators stay in float for that, with {:.2g} % of the "
                  "bytes that operators read and write; without them it is {:.2g} ({} choices were run on {} inputs)",
                  found->error, request.max_error, found->floats.size(), 100 * found->share, found->without, found->measured,
                  request.ranges.inputs.size()));
  options.floats = std::move(found->floats);
  return absl::OkStatus();
}

// Constants hold floats in one way.
void write_as_tensors(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (!is_constant(node) || !one_of(node.attributes[0].name, {"value_float", "value_floats"})) continue;
    node.attributes[0] = Attribute::of("value", *value_of(node));
    node.origin = nullptr;
  }
}

std::set<std::string> set_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

absl::StatusOr<PrecisionOptions> options_of(Work& work, const Arguments& args) {
  PrecisionOptions options;
  options.to = *parse_dtype(args.text("dtype"));
  options.keep = set_of(args.texts("keep"));
  for (const std::string& name : args.texts("also_keep")) options.keep.insert(name);
  options.interface = args.flag("interface");
  if (options.interface)
    for (const ValueInfo& input : work.graph().inputs)
      if (work.output(input.name) && input.type.dtype == DType::kFloat)
        return args.wrong("interface", input.name,
                          "it is an input and an output, so that one name can't have two types; put an Identity between");
  for (const std::string& name : args.texts("also_keep"))
    if (!names_something(work.model, name)) return args.wrong("also_keep", name, "no operator and no node of the model has this name");
  if (!(args.number("max_error") >= 0)) return args.wrong("max_error", args.all().at("max_error").dump(), "give a number from 0 on");
  return options;
}

}  // namespace

void allow(Work& work, const Ranges& ranges, double rtol) {
  Tolerances& allowed = work.allowed.tolerances;
  allowed.rtol = std::max(rtol, allowed.rtol.value_or(0));
  std::optional<double> scale;
  for (const ValueInfo& output : work.graph().outputs)
    if (const auto it = ranges.largest.find(output.name); it != ranges.largest.end() && it->second > 0)
      scale = std::min(it->second, scale.value_or(it->second));
  if (scale) allowed.atol = std::max(rtol * *scale, allowed.atol.value_or(0));
}

absl::Status precision(Work& work, const Arguments& args) {
  auto options = options_of(work, args);
  if (!options.ok()) return options.status();
  ensure_standard_opset(work.model);
  const double max_error = args.number("max_error");
  const Model original = max_error > 0 ? work.model : Model();  // what the error is measured against
  HalfWeights weights(options->to, work.beside);
  write_as_tensors(work.graph());
  auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  if (const std::size_t fills = fill_masks(work.model, options->to, weights, *types); fills > 0)
    work.notes.push_back(fmt::format("constants with numbers below the least {1}: {0}; these became {2}, which hides a key as well", fills,
                                     args.text("dtype"), kMaskFill));
  const auto ranges = ranges_of(work, args);
  if (!ranges.ok()) return ranges.status();
  find_beyond(*ranges, *options);
  if (args.flag("clamp") && clamp(work, *types, *options, weights)) types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  if (max_error > 0)
    if (absl::Status s =
            keep_for_error({original, work.model, *types, *ranges, max_error, work.check.cancel}, args, *options, weights, work);
        !s.ok())
      return s;
  allow(work, *ranges, std::max(max_error, rtol_of_layers(options->to)));
  Precision made = with_precision(work.model, *types, *options, weights);
  tell(made, args.text("dtype"), work);
  tie_halves(made, *types, options->to, work);
  work.model = std::move(made.model);
  work.fresh = FreshNames(work.model.graph);
  work.allowed.excluded |= kBeyondQuantizers;  // numbers far from what was measured
  return absl::OkStatus();
}

}  // namespace saturate::passes
