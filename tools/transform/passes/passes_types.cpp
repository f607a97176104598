// Dtypes, layouts, dims and ranks of inputs and outputs.
#include <algorithm>
#include <cctype>
#include <numeric>

#include "extract/prepare/io_rank.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/inputs/types.h"
#include "tools/io/dims.h"
#include "tools/pipeline/setup.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

constexpr std::size_t kLeastRankOfImages = 3;

bool is_castable(DType dtype) { return is_floating(dtype) || is_integer(dtype) || dtype == DType::kBool; }

absl::Status not_a_tensor(const char* field, const std::string& name, const char* what, const Arguments& args) {
  return args.wrong(field, name, fmt::format("the model has no such {} that is a tensor of numbers", what));
}

absl::Status cast_input(Work& work, const std::string& name, DType dtype, const char* field, const Arguments& args) {
  const ValueInfo* input = work.input(name);
  if (!input || input->type.kind != ValueType::Kind::kTensor || !is_castable(input->type.dtype))
    return not_a_tensor(field, name, "input", args);
  if (work.initializer(name)) return args.wrong(field, name, "it has a default of another type; freeze makes it a constant");
  if (input->type.dtype == dtype) return absl::OkStatus();
  const DType before = input->type.dtype;
  ValueType type = input->type;
  type.dtype = dtype;
  // Numbers that the new type does not hold can't come in any more.
  const Tie tie = work.ties.inputs.at(name);
  if (!tie.views.empty()) return args.wrong(field, name, "another pass has changed its values; cast it first");
  if (absl::Status s = work.view_input(name, type, {{View::Kind::kCast, dtype}}, {{View::Kind::kCast, before}}, field, args); !s.ok())
    return s;
  if (find_named(work.ties.added, tie.original)) return absl::OkStatus();
  std::vector<View>& held = work.ties.held[tie.original];
  held.push_back({View::Kind::kCast, dtype});
  held.push_back({View::Kind::kCast, before});
  return absl::OkStatus();
}

absl::Status cast_output(Work& work, const std::string& name, DType dtype, const char* field, const Arguments& args) {
  const ValueInfo* output = work.output(name);
  if (!output || output->type.kind != ValueType::Kind::kTensor || !is_castable(output->type.dtype))
    return not_a_tensor(field, name, "output", args);
  if (output->type.dtype == dtype) return absl::OkStatus();
  ValueType type = output->type;
  type.dtype = dtype;
  return work.view_output(name, type, {{View::Kind::kCast, dtype}}, field, args);
}

// N, the spatial dims, C; or back.
std::vector<std::int64_t> permutation(std::size_t rank, bool to_nhwc) {
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  if (to_nhwc)
    std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  else
    std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  return perm;
}

absl::Status layout_of(Work& work, const std::string& name, bool is_input, const Arguments& args) {
  const char* field = is_input ? "inputs" : "outputs";
  const ValueInfo* info = is_input ? work.input(name) : work.output(name);
  if (!info) return args.wrong(field, name, fmt::format("the model has no such {}", is_input ? "input" : "output"));
  if (is_input && work.initializer(name)) return args.wrong(field, name, "it has a default of another layout; freeze makes it a constant");
  if (!info->type.shape || info->type.shape->size() < kLeastRankOfImages)
    return args.wrong(field, name, fmt::format("its rank is not known to be at least {}; set_shapes gives a rank", kLeastRankOfImages));
  const std::size_t rank = info->type.shape->size();
  const bool to_nhwc = args.text("to") == "nhwc";
  const View there{View::Kind::kTranspose, DType::kUndefined, permutation(rank, to_nhwc)};
  const View back{View::Kind::kTranspose, DType::kUndefined, permutation(rank, !to_nhwc)};
  ValueType type = info->type;
  for (std::size_t i = 0; i < rank; ++i) (*type.shape)[i] = (*info->type.shape)[static_cast<std::size_t>(there.dims[i])];
  return is_input ? work.view_input(name, type, {there}, {back}, field, args) : work.view_output(name, type, {there}, field, args);
}

template <typename Change>
void for_each_dim(Graph& graph, Change change) {
  for (auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (ValueInfo& info : *infos)
      if (info.type.shape)
        for (DimSpec& dim : *info.type.shape) change(dim);
}

bool has_symbol(Work& work, const std::string& symbol) {
  bool found = false;
  for_each_graph(work.graph(), [&](Graph& graph) { for_each_dim(graph, [&](const DimSpec& dim) { found |= dim == DimSpec(symbol); }); });
  return found;
}

std::string symbols_text(Work& work) {
  const std::set<std::string> names = symbols_of(work.graph());
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// What `change` makes of the text of a dim, wherever it says something else; also of "past + seq".
template <typename Change>
void change_dims(Work& work, Change change) {
  for_each_graph(work.graph(), [&](Graph& graph) {
    for_each_dim(graph, [&](DimSpec& dim) {
      if (const auto* text = std::get_if<std::string>(&dim)) dim = change(std::string(*text));
    });
  });
}

// The names in a sum or product of names and numbers changed, all at once.
std::string renamed_in(const std::string& text, const std::map<std::string, std::string>& names) {
  if (const auto it = names.find(text); it != names.end()) return it->second;
  const auto inside = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && inside(text[end])) ++end;
    const std::string word = text.substr(at, std::max<std::size_t>(end - at, 1));
    const auto it = names.find(word);
    out += it == names.end() ? word : it->second;
    at += word.size();
  }
  return out;
}

}  // namespace

absl::Status cast_inputs(Work& work, const Arguments& args) {
  for (const auto& [name, dtype] : args.pairs("dtypes"))
    if (absl::Status s = cast_input(work, name, *parse_dtype(dtype), "dtypes", args); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status cast_outputs(Work& work, const Arguments& args) {
  for (const auto& [name, dtype] : args.pairs("dtypes"))
    if (absl::Status s = cast_output(work, name, *parse_dtype(dtype), "dtypes", args); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status int32_inputs(Work& work, const Arguments& args) {
  std::vector<std::string> names = args.texts("names");
  if (names.empty())
    for (const ValueInfo& input : work.graph().inputs)
      if (input.type.dtype == DType::kInt64 && input.type.kind == ValueType::Kind::kTensor && !work.initializer(input.name))
        names.push_back(input.name);
  for (const std::string& name : names) {
    const ValueInfo* input = work.input(name);
    if (!input || input->type.kind != ValueType::Kind::kTensor || !one_of(dtype_name(input->type.dtype), {"int32", "int64"}))
      return args.wrong("names", name, "the model has no such input of int64");
    if (absl::Status s = cast_input(work, name, DType::kInt32, "names", args); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status layout(Work& work, const Arguments& args) {
  if (args.texts("inputs").empty() && args.texts("outputs").empty()) return args.wrong("inputs", "", "name inputs or outputs");
  for (const bool is_input : {true, false})
    for (const std::string& name : args.texts(is_input ? "inputs" : "outputs"))
      if (absl::Status s = layout_of(work, name, is_input, args); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status set_dims(Work& work, const Arguments& args) {
  const Sizes sizes = args.sizes("sizes");
  for (const auto& [symbol, size] : sizes) {
    if (!has_symbol(work, symbol))
      return args.wrong("sizes", symbol, fmt::format("the model has no such dim; it has {}", symbols_text(work)));
    for (const std::string& of_original : work.ties.symbols_of(symbol)) work.ties.sizes[of_original] = size;
  }
  change_dims(work, [&](const std::string& text) -> DimSpec {
    if (const auto size = evaluate_dim(text, sizes); size && *size >= 0) return *size;
    return text;
  });
  return absl::OkStatus();
}

absl::Status rename_dims(Work& work, const Arguments& args) {
  std::map<std::string, std::set<std::string>> meant;
  const auto names = args.pairs("names");
  for (const auto& [from, to] : names) {
    if (!has_symbol(work, from)) return args.wrong("names", from, fmt::format("the model has no such dim; it has {}", symbols_text(work)));
    if (to.empty()) return args.wrong("names", from, "the new name is empty; give one");
    if (from != to && !names.contains(to) && has_symbol(work, to))
      return args.wrong("names", to, "another dim has this name, and nothing says that they are equal; take another");
    if (!meant.try_emplace(to, work.ties.symbols_of(from)).second)
      return args.wrong("names", to, "two dims would have this name, and nothing says that they are equal");
  }
  for (const auto& [from, to] : names) work.ties.symbols.erase(from);
  work.ties.symbols.merge(meant);
  change_dims(work, [&](const std::string& text) -> DimSpec { return renamed_in(text, names); });
  return absl::OkStatus();
}

absl::Status set_shapes(Work& work, const Arguments& args) {
  for (const auto& [name, dims] : args.all()["shapes"].items()) {
    const ValueInfo* input = work.input(name);
    if (!input || input->type.kind != ValueType::Kind::kTensor)
      return args.wrong("shapes", name, "the model has no such input that is a tensor");
    const Tie tie = work.ties.inputs.at(name);
    if (!tie.views.empty()) return args.wrong("shapes", name, "another pass has changed its values; set its shape first");
    std::vector<std::int64_t> sizes;
    for (const auto& dim : dims) sizes.push_back(dim.is_number() ? dim.get<std::int64_t>() : -1);
    const bool had_rank = input->type.shape.has_value();
    GivenShapes given{{}, {{name, sizes}}, true};
    // Symbols that get a number get it wherever they stand.
    if (had_rank && input->type.shape->size() == sizes.size())
      for (std::size_t i = 0; i < sizes.size(); ++i)
        if (const auto* symbol = std::get_if<std::string>(&(*input->type.shape)[i]); symbol && sizes[i] >= 0)
          for (const std::string& of_original : work.ties.symbols_of(*symbol)) work.ties.sizes[of_original] = sizes[i];
    if (absl::Status s = fix_shapes(work.model, given); !s.ok()) return args.wrong("shapes", name, std::string(s.message()));
    ValueInfo& info = *find_named(work.graph().inputs, name);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      DimSpec& dim = (*info.type.shape)[i];
      if (!dims[i].is_string() || dim == DimSpec(dims[i].get<std::string>())) continue;
      if (!std::holds_alternative<std::monostate>(dim))
        return args.wrong("shapes", name, fmt::format("dim {} has a size or a name already; rename_dims changes names", i));
      dim = dims[i].get<std::string>();
    }
    if (!tie.original.empty()) work.ties.shapes[tie.original] = sizes;
  }
  return absl::OkStatus();
}

absl::Status io_rank(Work& work, const Arguments& args) {
  const absl::StatusOr<IoRank> plan = plan_io_rank(work.model, args.whole("rank"));
  if (!plan.ok()) return args.wrong("rank", fmt::format("{}", args.whole("rank")), std::string(plan.status().message()));
  const auto ones = [](const IoRank::Changed& change) {
    std::vector<std::int64_t> axes(change.ones());
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  };
  const std::string of = args.text("of");
  for (const IoRank::Changed& c : of == "outputs" ? std::vector<IoRank::Changed>() : plan->inputs)
    if (absl::Status s =
            work.view_input(c.name, c.after, {{View::Kind::kUnsqueeze, {}, ones(c)}}, {{View::Kind::kSqueeze, {}, ones(c)}}, "rank", args);
        !s.ok())
      return s;
  for (const IoRank::Changed& c : of == "inputs" ? std::vector<IoRank::Changed>() : plan->outputs)
    if (absl::Status s = work.view_output(c.name, c.after, {{View::Kind::kUnsqueeze, {}, ones(c)}}, "rank", args); !s.ok()) return s;
  for (const IoRank::Kept& k : plan->kept) work.notes.push_back(fmt::format("'{}' stays: {}", k.name, k.because));
  return absl::OkStatus();
}

}  // namespace saturate::passes
