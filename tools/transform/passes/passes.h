// The functions behind the passes; registry.cpp declares their fields.
#pragma once

#include "tools/transform/pass.h"
#include "tools/transform/precision/ranges.h"

namespace saturate::passes {

// An error for a value that is none of these; it names the nearest.
absl::Status no_value(const std::unordered_set<std::string>& names, const char* field, const std::string& name, const Arguments& args);

// Of inputs, in their order.
std::vector<std::string> input_names(const std::vector<ValueInfo>& infos);

// passes_interface.cpp
absl::Status rename_inputs(Work& work, const Arguments& args);
absl::Status rename_outputs(Work& work, const Arguments& args);
absl::Status reorder_inputs(Work& work, const Arguments& args);
absl::Status reorder_outputs(Work& work, const Arguments& args);
absl::Status remove_inputs(Work& work, const Arguments& args);
absl::Status remove_outputs(Work& work, const Arguments& args);
absl::Status add_inputs(Work& work, const Arguments& args);
absl::Status expose(Work& work, const Arguments& args);
absl::Status expose_nodes(Work& work, const Arguments& args);
absl::Status expose_all(Work& work, const Arguments& args);
absl::Status expose_quantized(Work& work, const Arguments& args);
absl::Status zero_inputs(Work& work, const Arguments& args);
absl::Status zero_node_input(Work& work, const Arguments& args);
absl::Status initializers_to_inputs(Work& work, const Arguments& args);
absl::Status freeze(Work& work, const Arguments& args);
// passes_types.cpp
absl::Status cast_inputs(Work& work, const Arguments& args);
absl::Status cast_outputs(Work& work, const Arguments& args);
absl::Status int32_inputs(Work& work, const Arguments& args);
absl::Status layout(Work& work, const Arguments& args);
absl::Status set_dims(Work& work, const Arguments& args);
absl::Status rename_dims(Work& work, const Arguments& args);
absl::Status set_shapes(Work& work, const Arguments& args);
absl::Status io_rank(Work& work, const Arguments& args);
// passes_batch.cpp
absl::Status open_batch(Work& work, const Arguments& args);
// passes_precision.cpp
absl::Status precision(Work& work, const Arguments& args);
// passes_cache.cpp
absl::Status kv_cache(Work& work, const Arguments& args);
// passes_cache_change.cpp
absl::Status last_logits(Work& work, const Arguments& args);
absl::Status cache_dtype(Work& work, const Arguments& args);
absl::Status remove_cache(Work& work, const Arguments& args);
absl::Status cache_layout(Work& work, const Arguments& args);
absl::Status padding_by_mask(Work& work, const Arguments& args);
// How far results may lie from the float model's: a share of each number's own size, and as much of the largest of its output.
void allow(Work& work, const Ranges& ranges, double rtol);
// passes_graph.cpp
absl::Status constants_to_initializers(Work& work, const Arguments& args);
absl::Status initializers_to_constants(Work& work, const Arguments& args);
absl::Status drop_uncalled_functions(Work& work, const Arguments& args);
absl::Status infer_shapes(Work& work, const Arguments& args);
absl::Status remove_shapes(Work& work, const Arguments& args);
absl::Status strip_metadata(Work& work, const Arguments& args);
absl::Status replace_mask_value(Work& work, const Arguments& args);
absl::Status remove_memcpy(Work& work, const Arguments& args);
// passes_parts.cpp
absl::Status cut(Work& work, const Arguments& args);
absl::Status merge(Work& work, const Arguments& args);
// passes_shapes.cpp
absl::Status reshape_results(Work& work, const Arguments& args);
absl::Status split_sums(Work& work, const Arguments& args);
// passes_weights.cpp
absl::Status tie_weights(Work& work, const Arguments& args);
absl::Status share_quantized_weights(Work& work, const Arguments& args);
absl::Status quantize_tables(Work& work, const Arguments& args);
absl::Status drop_group_indices(Work& work, const Arguments& args);
// passes_attention.cpp
absl::Status lengths_as_inputs(Work& work, const Arguments& args);
absl::Status choose_branch(Work& work, const Arguments& args);
absl::Status packed_attention_as_loop(Work& work, const Arguments& args);
absl::Status packed_attention_as_operator(Work& work, const Arguments& args);
// passes_optimize.cpp
absl::Status optimize(Work& work, const Arguments& args);
absl::Status inner_rank(Work& work, const Arguments& args);
absl::Status rewrite(Work& work, const Arguments& args);

}  // namespace saturate::passes
