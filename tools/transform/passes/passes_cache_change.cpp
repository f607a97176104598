// Decoders with caches, changed.
#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/decode/decoder.h"
#include "kernels/decode/encoder.h"
#include "kernels/decode/stepper.h"
#include "kernels/inputs/types.h"
#include "onnx_bridge/graph/floats.h"
#include "tools/transform/cache/cache_dtype.h"
#include "tools/transform/cache/cache_remove.h"
#include "tools/transform/decoder/cache_rounding.h"
#include "tools/transform/decoder/last_rows.h"
#include "tools/transform/decoder/step_check.h"
#include "tools/transform/edit.h"
#include "tools/transform/named_files.h"
#include "tools/transform/passes/passes.h"
#include "tools/transform/precision/calibration.h"

namespace saturate::passes {
namespace {

constexpr std::int64_t kFirstScalesOfAxis = 13;
constexpr std::int64_t kDrawnTokens = 32;  // of each row
constexpr std::int64_t kDrawnRows = 16;
constexpr std::int64_t kAllAtOnce = std::int64_t{1} << 30;  // a step of all tokens, however many
constexpr std::int64_t kFirstSliceOfInputs = 10;            // before, its bounds are attributes
constexpr int kTokenAxis = 1;                               // of logits

// The output of logits that was named, or that is found.
absl::StatusOr<std::string> logits_of(Work& work, const Arguments& args) {
  const std::string given = args.text("output");
  if (!given.empty()) return work.output(given) ? absl::StatusOr<std::string>(given) : args.wrong("output", given, "no such output");
  const auto decoder = find_decoder(work.model);
  if (!decoder.ok())
    return args.wrong("output", given, fmt::format("name the output of logits: {}", std::string(decoder.status().message())));
  return work.graph().outputs[decoder->logits].name;
}

// A decoder with a cache.
absl::StatusOr<Decoder> cached_decoder(const Work& work) {
  absl::StatusOr<Decoder> decoder = find_decoder(work.model);
  if (!decoder.ok()) return decoder;
  if (decoder->cache.empty()) return absl::InvalidArgumentError("the model has no cache; the pass kv_cache puts one into it");
  for (const CachePair& pair : decoder->cache)
    if (const std::string& past = work.model.graph.inputs[pair.past].name; find_named(work.model.graph.initializers, past))
      return absl::InvalidArgumentError(fmt::format("input '{}' has a default; the pass freeze makes it a constant", past));
  return decoder;
}

Tokens drawn_tokens(const Decoder& decoder, std::int64_t rows, std::uint64_t seed) {
  Random random(seed);
  const std::int64_t window = decoder.window.value_or(1),
                     length = std::min<std::int64_t>(kDrawnTokens, decoder.most_tokens.value_or(kDrawnTokens)) / window * window;
  Tokens out(static_cast<std::size_t>(decoder.batch.value_or(rows)));
  for (auto& row : out)
    for (std::int64_t i = 0; i < std::max(length, window); ++i) row.push_back(random.below(decoder.vocabulary.value_or(2)));
  return out;
}

// Drawn tokens, each row with one of `given`: what an encoder gave for some texts. That is drawn, too, where there is none.
absl::StatusOr<Texts> drawn_texts(const Work& work, const Decoder& decoder, std::int64_t rows, std::uint64_t seed,
                                  const Inputs& given = {}) {
  Texts out{drawn_tokens(decoder, rows, seed), {}};
  if (given.empty()) {
    absl::StatusOr<Inputs> drawn = drawn_given(work.model, decoder, static_cast<std::int64_t>(out.tokens.size()), {}, seed);
    if (!drawn.ok()) return drawn.status();
    out.given = *std::move(drawn);
    return out;
  }
  const auto texts = static_cast<std::size_t>(given.begin()->second.tensor().dims()[0]);
  std::vector<std::size_t> these;
  for (std::size_t i = 0; i < out.tokens.size(); ++i) these.push_back(i % texts);
  out.given = rows_of(given, these);
  return out;
}

// What scales are measured on: whole windows of tokens, as many in each row, and what an encoder gives.
absl::StatusOr<Texts> calibration(const Work& work, const Decoder& decoder, const Arguments& args) {
  const std::string path = args.text("calibrate");
  if (path.empty()) return drawn_texts(work, decoder, kDrawnRows, work.check.seed);
  if (absl::Status s = check_named_file(args, "calibrate", path, kMostNamedData); !s.ok()) return s;
  const absl::StatusOr<Inputs> arrays = load_inputs(path);
  auto texts = arrays.ok() ? texts_of(*arrays, work.model, decoder) : arrays.status();
  return texts.ok() ? std::move(texts) : args.wrong("calibrate", path, std::string(texts.status().message()));
}

// What an encoder gave is made once by another model, which would have to make it so.
void note_given(Work& work, const Decoder& decoder, const char* what) {
  const auto& inputs = work.graph().inputs;
  const auto keys = std::count_if(decoder.given.begin(), decoder.given.end(), [&](std::size_t place) {
    const ValueType& type = inputs[place].type;
    return is_floating(type.dtype) && type.shape && type.shape->size() == 4;
  });
  if (keys > 0) work.notes.push_back(fmt::format("{} keys and values that an encoder gives keep their {}", keys, what));
}

constexpr double kTimesRounding = 3;
constexpr std::int64_t kRowsOfRounding = 4;

// What a cache may lose at most, as a share of what is usual among logits: beyond that scales are of no use.
double most_of(DType dtype) { return dtype == DType::kInt8 ? 0.5 : rtol_of_layers(dtype); }

// By how much logits may differ: by a few times what such rounding makes of the model that there was, on tokens that scales have not seen.
absl::StatusOr<double> tolerance_of(const Work& work, const Decoder& decoder, const CacheCode& code, const Inputs& given) {
  const absl::StatusOr<Texts> texts = drawn_texts(work, decoder, kRowsOfRounding, work.check.seed + 1, given);
  if (!texts.ok()) return texts.status();
  const absl::StatusOr<Rounding> cost = cost_of_rounding(work.model, decoder, code, *texts, work.check.threads);
  if (!cost.ok()) return cost.status();
  return std::min(kTimesRounding * cost->moved, most_of(code.dtype) * cost->usual);
}

}  // namespace

absl::Status cache_dtype(Work& work, const Arguments& args) {
  const absl::StatusOr<Decoder> decoder = cached_decoder(work);
  if (!decoder.ok()) return decoder.status();
  SteppingOptions options;
  CacheCode code{*parse_dtype(args.text("dtype")), args.text("scales") == "head" ? CacheScales::kHead : CacheScales::kChannel};
  if (absl::Status s = wants_opset(work.model, kFirstScalesOfAxis); !s.ok()) return s;
  for (const CachePair& pair : decoder->cache)
    if (const ValueInfo& past = work.graph().inputs[pair.past]; !is_floating(past.type.dtype) || past.type.dtype == code.dtype)
      return args.wrong("dtype", args.text("dtype"), fmt::format("input '{}' is of {} already", past.name, dtype_name(past.type.dtype)));
  if (code.dtype == DType::kInt8) {
    absl::StatusOr<std::vector<CacheRange>> ranges = cache_sizes(work.model, *decoder);
    if (!ranges.ok()) return ranges.status();
    const absl::StatusOr<Texts> texts = calibration(work, *decoder, args);
    if (!texts.ok()) return texts.status();
    if (absl::Status s = measure_cache(work.model, *decoder, *texts, work.check.threads, *ranges); !s.ok())
      return args.wrong("calibrate", args.text("calibrate"), std::string(s.message()));
    code.ranges = *std::move(ranges);
    if (!args.text("calibrate").empty()) options.arrays = texts->given;
    work.notes.push_back(fmt::format("scales were measured on {} rows of {} {} tokens", texts->tokens.size(), texts->tokens[0].size(),
                                     args.text("calibrate").empty() ? "drawn" : "given"));
  }
  absl::StatusOr<CodedCache> made = with_cache_dtype(work.model, *decoder, code);
  if (!made.ok()) return made.status();
  note_given(work, *decoder, "dtype");
  if (made->whole > 0)
    work.notes.push_back(fmt::format("{} of {} caches are brought into {} as a whole in each run, for what writes them does more than that",
                                     made->whole, made->whole + made->written, args.text("dtype")));
  if (work.verify) {
    options.both_cached = true;
    if (args.number("rtol") > 0) {
      options.rtol = args.number("rtol");
    } else {
      const absl::StatusOr<double> allowed = tolerance_of(work, *decoder, code, options.arrays);
      if (!allowed.ok()) return absl::UnimplementedError(fmt::format("can't verify: {}", std::string(allowed.status().message())));
      options.atol = *allowed;
      work.notes.push_back(fmt::format("logits may differ by {:.2g}, by what rounding of the cache alone makes of the model", *allowed));
    }
    if (absl::Status s = same_steps(work, work.model, made->model, options); !s.ok()) return s;
  }
  work.model = std::move(made->model);
  work.fresh = FreshNames(work.model.graph);
  return absl::OkStatus();
}

absl::Status remove_cache(Work& work, const Arguments& args) {
  const absl::StatusOr<Decoder> decoder = cached_decoder(work);
  if (!decoder.ok()) return decoder.status();
  absl::StatusOr<Model> made = without_cache(work.model, *decoder);
  if (!made.ok()) return made.status();
  if (work.verify) {
    SteppingOptions options;
    options.rtol = args.number("rtol") > 0 ? args.number("rtol") : rtol_of_steps(work.model);
    options.windows = {1, 3, kAllAtOnce};
    if (absl::Status s = same_steps(work, *made, work.model, options); !s.ok()) return s;
  }
  work.model = *std::move(made);
  work.fresh = FreshNames(work.model.graph);
  return absl::OkStatus();
}

absl::Status cache_layout(Work& work, const Arguments& args) {
  const absl::StatusOr<Decoder> decoder = cached_decoder(work);
  if (!decoder.ok()) return decoder.status();
  const CacheLayout wanted = args.text("layout") == "bnsh" ? CacheLayout::kHeadsFirst : CacheLayout::kTokensFirst;
  const View turned{View::Kind::kTranspose, DType::kUndefined, {0, 2, 1, 3}};  // and back
  for (const CachePair& pair : decoder->cache) {
    const ValueInfo past = work.graph().inputs[pair.past], present = work.graph().outputs[pair.present];
    for (const ValueInfo* info : {&past, &present})
      if (!info->type.shape || info->type.shape->size() != 4)
        return args.wrong("layout", args.text("layout"), fmt::format("'{}' has not the dims of batch, heads, tokens and size", info->name));
    if (layout_of(work.model, pair) == wanted)
      return args.wrong("layout", args.text("layout"), fmt::format("input '{}' has this layout already", past.name));
    ValueType in = past.type, out = present.type;
    for (ValueType* type : {&in, &out}) std::swap((*type->shape)[1], (*type->shape)[2]);
    if (absl::Status s = work.view_input(past.name, in, {turned}, {turned}, "layout", args); !s.ok()) return s;
    if (absl::Status s = work.view_output(present.name, out, {turned}, "layout", args); !s.ok()) return s;
  }
  note_given(work, *decoder, "layout");
  return absl::OkStatus();
}

absl::Status last_logits(Work& work, const Arguments& args) {
  const absl::StatusOr<std::string> name = logits_of(work, args);
  if (!name.ok()) return name.status();
  if (absl::Status s = wants_opset(work.model, kFirstSliceOfInputs); !s.ok()) return s;
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
