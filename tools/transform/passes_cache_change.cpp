// Decoders with caches, changed.
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/generate/decoder.h"
#include "tools/transform/last_rows.h"
#include "tools/transform/passes.h"
#include "tools/transform/types.h"

namespace saturate::passes {
namespace {

constexpr std::int64_t kFirstSliceOfInputs = 10;  // before, its bounds are attributes
constexpr int kTokenAxis = 1;                     // of logits

// The output of logits that was named, or that is found.
absl::StatusOr<std::string> logits_of(Work& work, const Arguments& args) {
  const std::string given = args.text("output");
  if (!given.empty()) return work.output(given) ? absl::StatusOr<std::string>(given) : args.wrong("output", given, "no such output");
  const auto decoder = find_decoder(work.model);
  if (!decoder.ok())
    return args.wrong("output", given, fmt::format("name the output of logits: {}", std::string(decoder.status().message())));
  return work.graph().outputs[decoder->logits].name;
}

}  // namespace

absl::Status last_logits(Work& work, const Arguments& args) {
  const absl::StatusOr<std::string> name = logits_of(work, args);
  if (!name.ok()) return name.status();
  if (work.model.opset("") < kFirstSliceOfInputs)
    return absl::UnimplementedError(fmt::format("the model's opset is {}, and {} is needed; `saturate optimize --opset` writes it",
                                                work.model.opset(""), kFirstSliceOfInputs));
  const auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  const auto info = info_with_rank(work.graph(), *name, *types);
  if (!info || !info->type.shape || info->type.shape->size() != 3)
    return args.wrong("output", *name, "it has not the dims of batch, tokens and vocabulary; there is nothing to leave out");
  const std::int64_t window = args.whole("window");
  const DimSpec tokens = (*info->type.shape)[kTokenAxis];
  if (const auto* number = std::get_if<std::int64_t>(&tokens); number && *number <= window)
    return args.wrong("window", fmt::format("{}", window), fmt::format("output '{}' has logits of {} tokens already", *name, *number));
  const auto cut = keep_last_rows(work.model, *types, {*name, kTokenAxis, window}, work.fresh);
  if (!cut.ok()) return cut.status();
  for (const std::string& value : cut->moved) work.ties.values[value] = "";
  work.ties.outputs.at(*name).views.push_back({View::Kind::kLast, DType::kUndefined, {kTokenAxis, window}});
  ValueInfo& output = *find_named(work.graph().outputs, *name);
  output = *info;
  output.origin = nullptr;
  const bool known = window == 1 || std::holds_alternative<std::int64_t>(tokens);
  (*output.type.shape)[kTokenAxis] = known ? DimSpec(window) : DimSpec();
  work.notes.push_back(
      fmt::format("{} values are computed of the last tokens alone, behind {}", cut->moved.size(), fmt::join(cut->cut, ", ")));
  return absl::OkStatus();
}

}  // namespace saturate::passes
