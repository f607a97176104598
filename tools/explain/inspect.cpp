#include "tools/explain/inspect.h"

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "extract/optimize/fused.h"
#include "extract/optimize/settle.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/save_files.h"
#include "tools/io/dims.h"
#include "tools/io/files.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"
#include "tools/pipeline/report.h"

namespace saturate {
namespace {

using nlohmann::json;

std::string type_text(const ValueType& type) {
  const std::string element = type.element ? type_text(*type.element) : "?";
  switch (type.kind) {
    case ValueType::Kind::kTensor:
      return dtype_name(type.dtype);
    case ValueType::Kind::kSparseTensor:
      return fmt::format("sparse {}", dtype_name(type.dtype));
    case ValueType::Kind::kSequence:
      return fmt::format("sequence of {}", element);
    case ValueType::Kind::kOptional:
      return fmt::format("optional {}", element);
    case ValueType::Kind::kMap:
      return fmt::format("map {} -> {}", dtype_name(type.dtype), element);
    default:
      return "unknown";
  }
}

std::string shape_text(const ValueType& type) {
  const ValueType* inner = &type;
  while (inner->element) inner = inner->element.get();
  if (!inner->shape) return "?";
  std::vector<std::string> dims;
  for (const DimSpec& dim : *inner->shape) dims.push_back(dim_text(dim));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string value_table(const char* what, const std::vector<ValueInfo>& values) {
  std::vector<std::vector<std::string>> rows{{what, "type", "shape"}};
  for (const ValueInfo& v : values) rows.push_back({v.name, type_text(v.type), shape_text(v.type)});
  return format_table(rows, 3);
}

json values_json(const std::vector<ValueInfo>& values) {
  json out = json::array();
  for (const ValueInfo& v : values) {
    const json shape = v.type.shape ? dims_json(*v.type.shape) : json(nullptr);
    out.push_back({{"name", v.name}, {"type", type_text(v.type)}, {"shape", shape}});
  }
  return out;
}

struct Stored {
  std::size_t tensors = 0;
  std::uint64_t elements = 0, bytes = 0;
};

// Initializers of the graph by element type.
std::map<std::string, Stored> stored_types(const Model& model) {
  std::map<std::string, Stored> out;
  for (const Initializer& i : model.graph.initializers) {
    Stored& s = out[i.sparse ? "sparse" : dtype_name(i.tensor.dtype())];
    ++s.tensors;
    s.elements += static_cast<std::uint64_t>(i.tensor.size());
    s.bytes += i.tensor.bytes().size();
  }
  return out;
}

// What the model's files take: of each file with data beside it, how much of it is the model's.
struct StoredFiles {
  std::optional<std::uint64_t> model;  // nullopt: no file that was asked for by its path
  std::map<std::string, std::uint64_t> data;
};

StoredFiles stored_files(const std::string& path, const Model& model) {
  StoredFiles out;
  std::error_code none;
  if (const auto size = std::filesystem::file_size(path, none); !none && path != kPipe) out.model = size;
  for_each_file_range(model, [&](const FileRange& range) {
    if (range.path != path) out.data[std::filesystem::path(range.path).filename().string()] += range.length;
  });
  return out;
}

std::string format_files(const StoredFiles& files) {
  std::string out = files.model ? fmt::format("; {}", human_bytes(*files.model)) : "";
  for (const auto& [name, bytes] : files.data) out += fmt::format("{} {} in {}", out.empty() ? ";" : " +", human_bytes(bytes), name);
  return out;
}

std::string domain_name(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

}  // namespace

std::string inspect_text(const std::string& path, const Model& model, const GraphStats& stats) {
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : model.opset_imports) opsets.push_back(fmt::format("{} {}", domain_name(domain), version));
  std::string out = fmt::format("{}\nIR version {}; opsets: {}; {} nodes, {} local functions{}\n\n", path, model.ir_version,
                                fmt::join(opsets, ", "), stats.nodes, model.functions.size(), format_files(stored_files(path, model)));
  out += fmt::format("{}\n{}\n", value_table("input", model.graph.inputs), value_table("output", model.graph.outputs));
  std::vector<std::vector<std::string>> rows{{"operator", "count"}};
  for (const auto& [type, count] : stats.operators) rows.push_back({type, fmt::format("{}", count)});
  out += fmt::format("{}\n", format_table(rows));
  rows = {{"fused", "count"}};
  for (const auto& [family, count] : fused_counts(stats)) rows.push_back({family, fmt::format("{}", count)});
  out += fmt::format("{}\n", format_table(rows));
  rows = {{"initializers", "tensors", "parameters", "bytes"}};
  for (const auto& [type, s] : stored_types(model))
    rows.push_back({type, fmt::format("{}", s.tensors), human_count(s.elements), human_bytes(s.bytes)});
  rows.push_back({"all", fmt::format("{}", stats.initializers), human_count(stats.parameters), human_bytes(stats.parameter_bytes)});
  out += fmt::format("{}", format_table(rows));
  return out;
}

// The operators before and after, each that is in either.
std::string after_load_table(const GraphStats& before, const AfterLoad& after) {
  std::set<std::string> names;
  for (const auto* stats : {&before, &after.stats})
    for (const auto& [type, count] : stats->operators) names.insert(type);
  std::vector<std::vector<std::string>> rows{{"operator", "count", fmt::format("after load in {}", after.name)}};
  for (const std::string& type : names)
    rows.push_back({type, fmt::format("{}", before.count(type)), fmt::format("{}", after.stats.count(type))});
  rows.push_back({"all", fmt::format("{}", before.nodes), fmt::format("{}", after.stats.nodes)});
  return format_table(rows);
}

absl::StatusOr<Quantization> quantization_of(const Model& model, const std::string& target_name) {
  const absl::StatusOr<SettledTarget> settled = settle_target(target_name, "");
  if (!settled.ok()) return settled.status();
  const absl::StatusOr<Target> target = load_target(settled->given);
  return target.ok() ? quantization(model, *target) : target.status();
}

absl::StatusOr<AfterLoad> after_load(Judge& runtime, const Model& model) {
  const absl::StatusOr<Model> loaded = runtime.after_load(model);
  if (!loaded.ok())
    return absl::Status(loaded.status().code(), fmt::format("{}: {}", runtime.name(), std::string(loaded.status().message())));
  return AfterLoad{runtime.name(), runtime.version(), graph_stats(*loaded)};
}

json to_json(const AfterLoad& loaded) {
  json out = to_json(loaded.stats);
  out.update({{"runtime", loaded.name}, {"version", loaded.version}, {"level", "extended"}});
  return out;
}

json inspect_json(const std::string& path, const Model& model, const std::string& target_name) {
  json opsets = json::object(), types = json::object(), functions = json::array();
  for (const auto& [domain, version] : model.opset_imports) opsets[domain_name(domain)] = version;
  for (const auto& [type, s] : stored_types(model)) types[type] = {{"tensors", s.tensors}, {"parameters", s.elements}, {"bytes", s.bytes}};
  for (const Function& f : model.functions) functions.push_back(domain_name(f.domain) + "." + f.name);
  json inputs = values_json(model.graph.inputs);
  std::set<std::string_view> defaults;
  for (const Initializer& i : model.graph.initializers) defaults.insert(i.name);
  for (json& input : inputs) input["has_default"] = defaults.contains(input["name"].get<std::string>());
  const auto quantized = quantization_of(model, target_name);
  const StoredFiles files = stored_files(path, model);
  json out = to_json(graph_stats(model));
  out.update({{"path", path},
              {"file_bytes", files.model ? json(*files.model) : json(nullptr)},
              {"data_files", files.data},
              {"ir_version", model.ir_version},
              {"opsets", opsets},
              {"inputs", inputs},
              {"outputs", values_json(model.graph.outputs)},
              {"initializer_types", types},
              {"functions", functions},
              {"quantization", quantized.ok() && quantized->any() ? to_json(*quantized) : json(nullptr)}});
  return out;
}

}  // namespace saturate
