#include "rules/native/views.h"

namespace saturate {

std::vector<NativeRule> native_rules() {
  std::vector<NativeRule> out = native_view_rules();
  for (auto rules : {native_transpose_rules(), native_product_rules(), native_rope_rules(), native_einsum_rules(), native_mask_rules(),
                     native_sequence_rules(), native_part_rules(), native_gather_rules(), native_head_rules(),
                     native_heads_together_rules(), native_quantized_rules(), native_rank_rules(), native_rank_product_rules(),
                     native_image_rules(), native_recurrence_rules(), native_expert_rules()})
    for (NativeRule& rule : rules) out.push_back(std::move(rule));
  return out;
}

}  // namespace saturate
