#include "tools/explain/kinds.h"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"
#include "tools/explain/run_index.h"
#include "tools/explain/why_not.h"

namespace saturate {
namespace {

// What the field calls them.
const BlockKind kBlockKinds[] = {
    {"attention",
     "attention",
     {"Attention"},
     {"attentions",
      "sdpa",
      "scaleddotproductattention",
      "dotproductattention",
      "flashattention",
      "flashattention2",
      "fmha",
      "mha",
      "multihead",
      "multiheadattention",
      "selfattention",
      "crossattention",
      "causalattention",
      "gqa",
      "groupqueryattention",
      "groupedqueryattention",
      "mqa",
      "multiqueryattention",
      "pagedattention",
      "windowattention",
      "slidingwindow",
      "attn"}},
    {"norms",
     "norm",
     {"LayerNormalization", "RMSNormalization"},
     {"norm", "normalization", "normalizations", "layernorm", "layernorms", "layernormalization", "rmsnorm", "rmsnormalization", "ln",
      "rms", "skiplayernorm", "skiplayernormalization", "simplifiedlayernormalization", "embedlayernorm", "groupnorm", "addnorm",
      "t5layernorm"}},
    {"gelu", "GELU", {"Gelu"}, {"gelus", "geluexact", "gelutanh", "gelunew", "fastgelu", "biasgelu", "geluapproximation"}},
    {"silu", "SiLU", {"Swish"}, {"swish", "quickgelu", "swiglu", "hardswish"}},
    {"rotary",
     "rotary embedding",
     {"RotaryEmbedding"},
     {"rope", "rotaryembedding", "rotaryembeddings", "rotarypositionembedding", "rotarypositionalembedding", "rotate", "ropes"}},
    {"activations", "activation", {"Gelu", "Swish"}, {"activation", "activationfunctions", "nonlinearities"}},
    {"convolutions",
     "convolution",
     {"FusedConv"},
     {"conv", "convs", "convolution", "convbn", "convrelu", "fusedconv", "batchnorm", "batchnormalization"}},
    {"experts", "experts", {}, {"moe", "qmoe", "expert", "mixtureofexperts", "router", "routers", "gating", "sparsemoe"}},
    {"quantized", "quantized unit", {}, {"quantization", "quantizedunits", "qdq", "int8", "integers", "units", "quant"}},
};

// One look for each of those that share no places.
constexpr std::string_view kGlanced[] = {"attention", "norms", "gelu", "silu", "rotary"};

}  // namespace

std::span<const BlockKind> known_kinds() { return kBlockKinds; }

const BlockKind* find_kind(std::string_view word) {
  std::string plain;
  for (const char c : word)
    if (std::isalnum(static_cast<unsigned char>(c))) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const BlockKind& kind : kBlockKinds)
    if (plain == kind.name || std::find(kind.synonyms.begin(), kind.synonyms.end(), plain) != kind.synonyms.end()) return &kind;
  return nullptr;
}

std::vector<std::string> words_of_kinds() {
  std::vector<std::string> out;
  for (const BlockKind& kind : kBlockKinds) {
    out.emplace_back(kind.name);
    out.insert(out.end(), kind.synonyms.begin(), kind.synonyms.end());
  }
  return out;
}

std::string option_for_opset(const Setup& setup, const OptimizeOptions& options, std::int64_t opset) {
  if (opset > setup.target.max_opset) return "";
  if (options.keep_opset) return "without --keep-opset";
  if (options.opset) return "without --opset";
  for (const RuntimeRelease& release : setup.target.runtime.releases)
    if (release.opset >= opset)
      return fmt::format("--target {}@{}", setup.target.name.substr(0, setup.target.name.rfind('@')), release.version);
  return "";
}

void see_unfused(const FinishedRun& run, const Setup& setup, const OptimizeOptions& options, std::vector<Unfused>& into) {
  if (run.where.empty()) into.clear();
  const RunIndex index(run);
  for (const std::string_view name : kGlanced) {
    const BlockKind& kind = *find_kind(name);
    WhyQuery query;
    query.op = std::string(kind.asked.front());
    query.brief = query.family = query.glance = true;
    WhyReport report;
    ask_places(run, index, setup, query, report);
    for (const WhyPlace& place : report.places) {
      using Because = WhyPlace::Because;
      const bool found = place.status == WhyPlace::Status::kNotChosen;
      if (!found && place.status != WhyPlace::Status::kMissed) continue;
      Unfused unfused{found ? place.fused : std::string(kind.one), Unfused::Why::kMissed, 0, "", 1};
      if (place.quantized) unfused.why = Unfused::Why::kQuantized;
      if (found)
        unfused.why = place.because == Because::kOpset    ? Unfused::Why::kOpset
                      : place.because == Because::kTarget ? Unfused::Why::kTarget
                                                          : Unfused::Why::kDearer;
      unfused.opset = place.opset;
      if (place.opset > 0) unfused.better = option_for_opset(setup, options, place.opset);
      const auto same = [&](const Unfused& u) { return u.op_type == unfused.op_type && u.why == unfused.why && u.opset == unfused.opset; };
      const auto it = std::find_if(into.begin(), into.end(), same);
      if (it == into.end())
        into.push_back(std::move(unfused));
      else
        ++it->count;
    }
  }
}

}  // namespace saturate
