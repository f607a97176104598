// Rules about views (Reshape, Transpose, Expand) that no pattern can state: they compute with symbolic shapes.
#pragma once

#include <vector>

#include "egraph/rewrite.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "rules/compile/rule_set.h"

namespace saturate {

// A run of dims of one shape and the run of dims of another with the same product.
struct DimGroup {
  std::size_t from_begin, from_end, to_begin, to_end;
};
// The finest partition of two shapes into runs of provably equal product; nullopt where none is proven.
std::optional<std::vector<DimGroup>> group_dims(DimTable& dims, std::span<const Dim> from, std::span<const Dim> to);

// Operators are brought to ranks that the target takes when all else is found, heads taken apart among it. Reshapes then cancel, and
// nothing more is made of what came so.
inline constexpr int kRankPhase = Rewrite::kAlonePhase + 1;

std::vector<NativeRule> native_view_rules();            // views.cpp
std::vector<NativeRule> native_transpose_rules();       // transposes.cpp: Reshapes around Transposes
std::vector<NativeRule> native_product_rules();         // products.cpp: Reshapes of batched products and Softmax
std::vector<NativeRule> native_rank_rules();            // rank.cpp: operators at a rank that the target takes
std::vector<NativeRule> native_rank_product_rules();    // rank_products.cpp: the same of Transpose, products, and what has channels
std::vector<NativeRule> native_image_rules();           // images.cpp: operators along one axis of places as those over images
std::vector<NativeRule> native_einsum_rules();          // einsum.cpp
std::vector<NativeRule> native_rope_rules();            // rope.cpp: parts of the last axis, and the rotary embedding spelled with them
std::vector<NativeRule> native_mask_rules();            // masks.cpp
std::vector<NativeRule> native_sequence_rules();        // sequences.cpp
std::vector<NativeRule> native_part_rules();            // parts.cpp: Slices and Split
std::vector<NativeRule> native_gather_rules();          // gathers.cpp: reading by indices that count
std::vector<NativeRule> native_head_rules();            // heads.cpp: attention one head at a time
std::vector<NativeRule> native_heads_together_rules();  // heads_together.cpp: attention of all heads from one of each
std::vector<NativeRule> native_recurrence_rules();      // rules/recurrence/: what exporters unroll token by token, or chunk by chunk
std::vector<NativeRule> native_expert_rules();          // rules/experts/: experts that exporters spell out
std::vector<NativeRule> native_quantized_rules();       // quantized.cpp: Concat and Split around QuantizeLinear and DequantizeLinear

// views.cpp. After saturation: Reshape(X, computed shape) = Reshape(X, [0, -1, n]) where that says the same. As a rule it would
// double the ways in which views of views are found.
void spell_reshapes(OnnxEGraph& egraph);
// spell_shapes.cpp. After saturation: gives every shape literal that nothing computes a spelling by Shape of values that have its dims; and
// those that something computes one by Shape of graph inputs, where these have all the dims, so that no value is kept for its size alone.
void spell_literals(OnnxEGraph& egraph);

}  // namespace saturate
