#include "extract/optimize/fused.h"

#include <algorithm>

namespace saturate {
namespace {

constexpr std::size_t kGelu = 2, kSilu = 3;
constexpr std::string_view kFamilies[] = {"attention", "normalization", "GELU", "SiLU", "rotary embedding", "other fused"};

struct FamilyMember {
  std::string_view op_type;
  int family;
};
// com.microsoft's operators are those of ONNX Runtime 1.31 (docs/ContribOperators.md).
constexpr FamilyMember kMembers[] = {{"Attention", 0},
                                     {"com.microsoft.Attention", 0},
                                     {"com.microsoft.MultiHeadAttention", 0},
                                     {"com.microsoft.GroupQueryAttention", 0},
                                     {"com.microsoft.PackedAttention", 0},
                                     {"com.microsoft.PackedMultiHeadAttention", 0},
                                     {"com.microsoft.DecoderMaskedMultiHeadAttention", 0},
                                     {"com.microsoft.DecoderMaskedSelfAttention", 0},
                                     {"com.microsoft.DecoderAttention", 0},
                                     {"com.microsoft.QAttention", 0},
                                     {"com.microsoft.SparseAttention", 0},
                                     {"com.microsoft.PagedAttention", 0},
                                     {"LinearAttention", 0},
                                     {"com.microsoft.LinearAttention", 0},
                                     {"LayerNormalization", 1},
                                     {"com.microsoft.SkipLayerNormalization", 1},
                                     {"com.microsoft.EmbedLayerNormalization", 1},
                                     {"RMSNormalization", 1},
                                     {"SimplifiedLayerNormalization", 1},
                                     {"com.microsoft.SimplifiedLayerNormalization", 1},
                                     {"com.microsoft.SkipSimplifiedLayerNormalization", 1},
                                     {"GroupNormalization", 1},
                                     {"com.microsoft.GroupNorm", 1},
                                     {"com.microsoft.SkipGroupNorm", 1},
                                     {"Gelu", 2},
                                     {"com.microsoft.Gelu", 2},
                                     {"com.microsoft.FastGelu", 2},
                                     {"com.microsoft.BiasGelu", 2},
                                     {"com.microsoft.QuickGelu", 2},
                                     {"com.microsoft.GemmFastGelu", 2},
                                     {"com.microsoft.BiasSplitGelu", 2},
                                     {"Swish", 3},
                                     {"com.microsoft.SwiGLU", 3},
                                     {"RotaryEmbedding", 4},
                                     {"com.microsoft.RotaryEmbedding", 4},
                                     {"com.microsoft.GemmaRotaryEmbedding", 4},
                                     {"com.microsoft.FusedMatMul", 5},
                                     {"com.microsoft.FusedGemm", 5},
                                     {"com.microsoft.FusedConv", 5},
                                     {"com.microsoft.BiasSoftmax", 5},
                                     {"com.microsoft.BiasAdd", 5},
                                     {"com.microsoft.BiasDropout", 5},
                                     {"com.microsoft.NhwcConv", 5},
                                     {"com.microsoft.TransposeMatMul", 5},
                                     {"com.microsoft.DynamicQuantizeMatMul", 5},
                                     {"com.microsoft.MatMulIntegerToFloat", 5},
                                     {"com.microsoft.QLinearAdd", 5},
                                     {"com.microsoft.QLinearMul", 5},
                                     {"com.microsoft.MatMulNBits", 5},
                                     {"com.microsoft.MoE", 5},
                                     {"com.microsoft.QMoE", 5}};

const FamilyMember* find_member(std::string_view op_type) {
  const auto it = std::find_if(std::begin(kMembers), std::end(kMembers), [&](const FamilyMember& m) { return m.op_type == op_type; });
  return it == std::end(kMembers) ? nullptr : it;
}

}  // namespace

std::string_view fused_family(std::string_view op_type) {
  const FamilyMember* member = find_member(op_type);
  return member ? kFamilies[member->family] : std::string_view();
}

std::vector<std::pair<std::string, std::size_t>> fused_counts(const GraphStats& stats) {
  std::vector<std::pair<std::string, std::size_t>> out;
  for (std::string_view family : kFamilies) out.emplace_back(family, 0);
  for (const auto& [op_type, count] : stats.operators)
    if (const FamilyMember* member = find_member(op_type)) out[static_cast<std::size_t>(member->family)].second += count;
  out[kGelu].second -= stats.unit_quick_gelus;
  out[kSilu].second += stats.unit_quick_gelus;
  return out;
}

}  // namespace saturate
