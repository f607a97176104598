// Decoders with caches.
#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "fmt/format.h"
#include "kernels/compare/noise.h"
#include "kernels/inputs/widened.h"
#include "tools/transform/cache/cache.h"
#include "tools/transform/cache/cache_sizes.h"
#include "tools/transform/opset.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

constexpr std::int64_t kLeastOpset = 14;
// Of what the verifier compares, by the scale of each output: sums over positions are made in other orders.
constexpr double kRtolOfSteps = 1e-3;
constexpr std::int64_t kPadding = 2;
constexpr std::int64_t kSingleSteps = 8;  // of the case that begins with as little as there can be
constexpr std::int64_t kStates = 9;       // of an encoder: as many as there are tokens in no case

std::vector<std::string> inputs_of(const Model& model, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const ValueInfo& input : model.graph.inputs)
    if (std::find(names.begin(), names.end(), input.name) != names.end()) found.push_back(input.name);
  return found;
}

absl::StatusOr<CacheOptions> options_of(const Work& work, const Arguments& args) {
  CacheOptions options;
  options.tokens = inputs_of(work.model, args.texts("tokens"));
  options.masks = inputs_of(work.model, args.texts("masks"));
  if (options.tokens.empty())
    return args.wrong("tokens", fmt::format("{}", fmt::join(args.texts("tokens"), ", ")),
                      fmt::format("no input has such a name; the model's are {}: name those of tokens",
                                  fmt::join(input_names(work.model.graph.inputs), ", ")));
  options.given = inputs_of(work.model, args.texts("given"));
  options.given_masks = inputs_of(work.model, args.texts("given_masks"));
  options.past = args.text("past");
  options.present = args.text("present");
  options.past_dim = args.text("past_dim");
  for (const char* field : {"past", "present"})
    if (const std::string name = args.text(field); name.find("{layer}") == std::string::npos || name.find("{part}") == std::string::npos)
      return args.wrong(field, name, "give a name with {layer} and {part}, as \"past_key_values.{layer}.{part}\"");
  if (args.text("mode") == "growing") return options;
  options.filled = args.text("filled");
  if (work.fresh.taken(options.filled)) return args.wrong("filled", options.filled, "a value has this name; give another one");
  if (args.text("mode") == "buffer") {
    if (args.whole("max_context") == 0) return args.wrong("max_context", "0", "give the number of tokens that the buffers hold");
    options.buffer = args.whole("max_context");
    if (args.text("write") == "tensor_scatter") options.write = CacheOptions::Write::kTensorScatter;
    if (args.text("write") == "group_query_attention") options.write = CacheOptions::Write::kGroupQuery;
    return options;
  }
  if (options.masks.empty())
    return args.wrong("masks", fmt::format("{}", fmt::join(args.texts("masks"), ", ")),
                      "no input has such a name, and nothing else could hide the padding of a window");
  CacheOptions::Fixed fixed{args.whole("window"), args.whole("sequence"), args.whole("max_context")};
  if (fixed.max_context == 0) fixed.max_context = fixed.sequence;
  if (fixed.sequence < fixed.window) return args.wrong("sequence", fmt::format("{}", fixed.sequence), "give the window at least");
  if (fixed.max_context < fixed.sequence)
    return args.wrong("max_context", fmt::format("{}", fixed.max_context), "give the sequence at least");
  options.fixed = fixed;
  return options;
}

// Inputs of `batch` rows; all but the first row begin with padding, where there is a mask, and what is given ends with it.
absl::StatusOr<Inputs> drawn(const Model& model, const CacheOptions& options, std::int64_t batch, std::int64_t tokens, std::uint64_t seed) {
  const InputDrawer drawer(model);
  Sizes sizes;
  for (const std::string& symbol : drawer.symbols()) sizes[symbol] = batch;
  const auto set = [&](const std::vector<std::string>& names, std::int64_t size) {
    for (const std::string& name : names) {
      const DimSpec& dim = (*find_named(model.graph.inputs, name)->type.shape)[1];
      sizes[std::holds_alternative<std::string>(dim) ? std::get<std::string>(dim) : name + "[1]"] = size;
    }
  };
  for (const auto* names : {&options.tokens, &options.masks}) set(*names, tokens);
  for (const auto* names : {&options.given, &options.given_masks}) set(*names, kStates);
  DrawStyle style;
  style.full_masks = true;
  style.masks = {options.masks.begin(), options.masks.end()};
  style.masks.insert(options.given_masks.begin(), options.given_masks.end());
  absl::StatusOr<Inputs> inputs = drawer.draw(sizes, style, seed);
  if (!inputs.ok()) return inputs;
  const auto hide = [&](const std::string& name, bool at_end) {
    Tensor mask = (*inputs)[name].tensor();
    const std::size_t row = mask.bytes().size() / static_cast<std::size_t>(batch);
    const std::size_t hidden = row / static_cast<std::size_t>(mask.dims()[1]) * kPadding;
    for (std::int64_t i = 1; i < batch; ++i)
      std::memset(static_cast<std::byte*>(mask.mutable_data()) + row * static_cast<std::size_t>(i) + (at_end ? row - hidden : 0), 0,
                  hidden);
    (*inputs)[name] = std::move(mask);
  };
  for (const std::string& name : options.masks) hide(name, false);
  for (const std::string& name : options.given_masks) hide(name, true);
  return inputs;
}

// Outputs without the rows of padding, which attend to nothing.
Model behind_padding(Model model, const std::map<std::string, int>& axes) {
  Graph& graph = model.graph;
  FreshNames fresh(graph);
  GraphWriter writer(graph, fresh);
  for (ValueInfo& output : graph.outputs) {
    const int axis = axes.at(output.name);
    if (axis < 0) continue;
    const std::string inside = fresh(output.name + "_all");
    rename_values(graph, {{output.name, inside}}, fresh);
    const std::string to = writer.ints({std::numeric_limits<std::int64_t>::max()});
    output.name = writer.node("Slice", {inside, writer.ints({kPadding}), to, writer.ints({axis})}, output.name);
    output.origin = nullptr;
    output.type.shape = std::nullopt;
  }
  return model;
}

struct StepCase {
  std::int64_t batch, tokens;
  std::vector<std::int64_t> behind;  // tokens of each part but the first
};

// So many parts of the same size.
StepCase even(std::int64_t batch, std::int64_t size, std::int64_t parts) {
  return {batch, size * parts, std::vector<std::int64_t>(static_cast<std::size_t>(parts - 1), size)};
}

// One of them begins with the fewest tokens that a step takes, before an empty cache, and goes on with as few: a token that sees later ones
// of a prefix has none to see there.
std::vector<StepCase> cases_of(const CacheOptions& options) {
  if (!options.fixed) {
    const std::int64_t most = options.buffer.value_or(std::numeric_limits<std::int64_t>::max());
    std::vector<StepCase> all{{2, 7, {1, 1}}, {2, 24, {3, 1, 1, 5, 1}}, {1, 45, {1}}};
    std::erase_if(all, [&](const StepCase& one) { return one.tokens > most; });
    all.push_back(even(1, 1, std::min(kSingleSteps, most)));
    return all;
  }
  const std::int64_t window = options.fixed->window, parts = options.fixed->sequence / window;
  return {even(2, window, std::min<std::int64_t>(parts, 12)), even(1, window, std::min(parts, kSingleSteps))};
}

class StepVerifier {
 public:
  StepVerifier(Work& work, const CachedModel& cached, const CacheOptions& options)
      : work_(work), cached_(cached), options_(options), behind_padding_(behind_padding(work.model, cached.outputs)) {}

  // The result, run step by step, gives what the original gives for the whole sequence.
  absl::Status run() {
    for (const StepCase& one : cases_of(options_))
      if (absl::Status s = compare(one); !s.ok()) return s;
    if (lengths_.empty()) return absl::UnimplementedError("can't verify: no inputs were found that the model accepts");
    work_.notes.push_back(fmt::format("step by step as at once, for {} tokens; largest difference {:.2e}", lengths_, most_));
    return absl::OkStatus();
  }

 private:
  // With the largest batch that the model takes: exports exist that take one row alone.
  absl::StatusOr<VerifyReport> report_of(StepCase& one, StepCache handed_on) {
    const Model steps = stepped(cached_, work_.model, options_, one.behind, handed_on);
    for (;; --one.batch) {
      VerifyOptions check = work_.check;
      check.input_shapes.clear();
      check.sizes.clear();
      // 16 bits cost what they cost this model, which the verifier measures.
      if (!check.tolerances.rtol && !is_16_bit_float(coarsest_float(work_.model))) check.tolerances.rtol = kRtolOfSteps;
      auto inputs = drawn(work_.model, options_, one.batch, one.tokens, 17 + static_cast<std::uint64_t>(one.tokens));
      if (!inputs.ok()) return inputs.status();
      check.inputs = {*std::move(inputs)};
      check.given = {{{}, CaseKind::kUsual}};
      // One row alone is not padded, and its first tokens count.
      VerifyReport report = one.batch > 1 ? saturate::verify(behind_padding_, behind_padding(steps, cached_.outputs), check)
                                          : saturate::verify(work_.model, steps, check);
      if (report.status != VerifyStatus::kNotRun || one.batch == 1) return report;
    }
  }

  absl::Status compare(StepCase one) {
    const absl::StatusOr<VerifyReport> report = report_of(one, StepCache::kKept);
    if (!report.ok()) return report.status();
    switch (report->status) {
      case VerifyStatus::kDifferent:
        return absl::DataLossError(
            fmt::format("the model may look at later tokens{}, as an encoder does, which can have no cache: step by step, {} tokens give "
                        "something else than at once: {}",
                        options_.fixed ? ", or at those that its mask hides" : "", one.tokens, report->message));
      case VerifyStatus::kUnsupported:
        return absl::UnimplementedError("can't verify: " + report->message);
      case VerifyStatus::kCancelled:
        return absl::CancelledError(report->message);
      case VerifyStatus::kNotRun:
        work_.notes.push_back(fmt::format("{} tokens were not compared: {}", one.tokens, report->message));
        return absl::OkStatus();
      case VerifyStatus::kEqual:
        break;
    }
    if (lengths_.empty()) {
      if (absl::Status s = see_without(one, StepCache::kEmptied, "the caches"); !s.ok()) return s;
      if (!cached_.given.empty())
        if (absl::Status s = see_without(one, StepCache::kGivenEmptied, "keys and values of cross attention"); !s.ok()) return s;
    }
    most_ = std::max(most_, report->max_abs());
    for (const std::string& note : report->notes)
      if (std::find(work_.notes.begin(), work_.notes.end(), note) == work_.notes.end()) work_.notes.push_back(note);
    lengths_ += fmt::format("{}{} x {}", lengths_.empty() ? "" : ", ", one.batch, one.tokens);
    return absl::OkStatus();
  }

  // A note where a broken version is not noticed.
  absl::Status see_without(StepCase one, StepCache handed_on, std::string_view what) {
    const absl::StatusOr<VerifyReport> without = report_of(one, handed_on);
    if (!without.ok()) return without.status();
    if (without->status == VerifyStatus::kEqual)
      work_.notes.push_back(fmt::format("{} were not tested: with zeros in their place the drawn tokens give the same", what));
    return absl::OkStatus();
  }

  Work& work_;
  const CachedModel& cached_;
  const CacheOptions& options_;
  const Model behind_padding_;
  double most_ = 0;
  std::string lengths_;
};

// kOutOfRange: what was made can't be written in this opset.
absl::StatusOr<CachedModel> cached_at(const Model& model, const CacheOptions& options, std::int64_t opset,
                                      const std::set<std::string>& avoided) {
  absl::StatusOr<Model> fused = rewritten(model, kCacheOpset, avoided);
  if (!fused.ok()) return fused.status();
  if (absl::Status s = unpack_heads(*fused); !s.ok()) return s;
  absl::StatusOr<CachedModel> cached = with_cache(*fused, options);
  if (!cached.ok()) return cached;
  absl::StatusOr<Model> result = rewritten(cached->model, opset);
  if (!result.ok()) return absl::OutOfRangeError(result.status().message());
  cached->model = *std::move(result);
  if (cached->given.empty()) return cached;
  absl::StatusOr<Model> once = rewritten(cached->once, opset);
  if (!once.ok()) return absl::OutOfRangeError(once.status().message());
  cached->once = *std::move(once);
  return cached;
}

}  // namespace

absl::Status kv_cache(Work& work, const Arguments& args) {
  const absl::StatusOr<CacheOptions> options = options_of(work, args);
  if (!options.ok()) return options.status();
  const bool by_operator = options->buffer && options->write == CacheOptions::Write::kTensorScatter;
  const std::int64_t least = by_operator ? kTensorScatterOpset : kLeastOpset;
  const std::int64_t opset = args.whole("opset") > 0 ? args.whole("opset") : std::max(work.model.opset(""), least);
  if (by_operator && opset < least)
    return args.wrong("opset", fmt::format("{}", opset), "TensorScatter is of opset 24; give 24 at least, or write=scatter_nd");
  absl::StatusOr<CachedModel> cached = cached_at(work.model, *options, opset, {});
  // An attention that can't be written in this opset stays as it is spelled.
  if (cached.status().code() == absl::StatusCode::kOutOfRange) cached = cached_at(work.model, *options, opset, {"Attention"});
  if (!cached.ok()) return cached.status();
  if (work.verifies(cached->model))
    if (absl::Status s = StepVerifier(work, *cached, *options).run(); !s.ok()) return s;
  const bool once = args.text("model") == "cross";
  if (once && cached->given.empty())
    return args.wrong("model", "cross",
                      "nothing attends to what is made of the inputs in 'given'; the decoder takes no such keys and values");
  const auto tell = [&](const CacheSlot& slot, const std::string& name) {
    work.notes.push_back(fmt::format("{} of {} heads of {}, for node {}", name, slot.heads, slot.size, slot.node));
  };
  if (!once)
    for (const CacheSlot& slot : cached->slots) tell(slot, slot.past);
  for (const CacheSlot& slot : cached->given) tell(slot, once ? slot.present : slot.past);
  for (const std::string& name : options->given)
    if (!once && find_named(cached->model.graph.inputs, name))
      work.notes.push_back(
          fmt::format("the decoder still reads '{}' in each step, for more than keys and values of cross attention", name));
  work.model = std::move(once ? cached->once : cached->model);
  work.fresh = FreshNames(work.model.graph);
  return absl::OkStatus();
}

}  // namespace saturate::passes
