#include "tools/transform/passes/olive.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "fmt/format.h"
#include "kernels/inputs/types.h"
#include "tools/transform/edit.h"
#include "tools/transform/passes/passes.h"

namespace saturate {
namespace {

using nlohmann::json;
using enum FieldType;

// One of our passes on fields made of a surgeon's parameters. What it says names both.
absl::Status call(Work& work, std::string_view surgeon, std::string_view pass, const json& fields) {
  const Pass* ours = find_pass(pass);
  const absl::StatusOr<Arguments> args = Arguments::from_json(pass, ours->fields, fields);
  const absl::Status status = args.ok() ? ours->apply(work, *args) : args.status();
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("surgeon {}: {}", surgeon, std::string(status.message())));
}

absl::Status rename(Work& work, const Arguments& args, std::string_view surgeon, std::string_view pass) {
  const auto from = args.texts("old_names"), to = args.texts("new_names");
  if (from.size() != to.size())
    return args.wrong("new_names", fmt::format("{} names", to.size()), fmt::format("old_names has {}; give as many", from.size()));
  json names = json::object();
  for (std::size_t i = 0; i < from.size(); ++i) names[from[i]] = to[i];
  return call(work, surgeon, pass, {{"names", names}});
}

absl::Status rename_inputs(Work& work, const Arguments& args) { return rename(work, args, "RenameInputs", "rename_inputs"); }
absl::Status rename_outputs(Work& work, const Arguments& args) { return rename(work, args, "RenameOutputs", "rename_outputs"); }

absl::Status reorder_inputs(Work& work, const Arguments& args) {
  const auto& inputs = work.graph().inputs;
  json order = json::array();
  for (const std::int64_t i : args.wholes("permutation")) {
    if (i >= static_cast<std::int64_t>(inputs.size()))
      return args.wrong("permutation", fmt::format("{}", i), fmt::format("the model has {} inputs, counted from 0", inputs.size()));
    order.push_back(inputs[static_cast<std::size_t>(i)].name);
  }
  return call(work, "ReorderInputs", "reorder_inputs", {{"order", order}});
}

absl::Status expose_nodes(Work& work, const Arguments& args) {
  json values = json::array();
  for (const std::string& name : args.texts("names")) {
    const Node* node = find_named(work.graph().nodes, name);
    if (!node || node->outputs.empty()) return args.wrong("names", name, "the main graph has no node of this name");
    values.push_back(node->outputs[0]);
  }
  return call(work, "ExposeOutputs", "expose", {{"values", values}});
}

absl::Status expose_tensors(Work& work, const Arguments& args) {
  const auto values = args.texts("intermediate_tensor_to_add");
  if (values.empty()) return call(work, "AddIntermediateTensorsToOutputs", "expose_all", json::object());
  return call(work, "AddIntermediateTensorsToOutputs", "expose", {{"values", values}});
}

absl::Status expose_quantized(Work& work, const Arguments& args) {
  return call(work, "ExposeQuantizedOutput", "expose_quantized", {{"output", args.text("output_name")}});
}

absl::Status remove_inputs(Work& work, const Arguments& args) {
  return call(work, "RemoveInputs", "remove_inputs", {{"names", args.texts("names")}});
}

absl::Status zero_node_input(Work& work, const Arguments& args) {
  return call(work, "ZeroOutInput", "zero_node_input", {{"node", args.text("node_name")}, {"input", args.whole("input_idx")}});
}

absl::Status freeze(Work& work, const Arguments&) { return call(work, "RemoveInitializerFromInputs", "freeze", json::object()); }

absl::Status remove_shapes(Work& work, const Arguments&) { return call(work, "RemoveShapes", "remove_shapes", json::object()); }

absl::Status remove_value_shapes(Work& work, const Arguments&) {
  return call(work, "RemoveAllTensorValueShapes", "remove_shapes", {{"keep", "types"}});
}

// The name of one dim of an input or output. A dim of another name gets it wherever it stands.
absl::Status name_dim(Work& work, const Arguments& args, const ValueInfo& info, bool is_input) {
  const std::int64_t at = args.whole("dim_idx");
  const auto rank = info.type.shape ? static_cast<std::int64_t>(info.type.shape->size()) : -1;
  if (at >= rank)
    return args.wrong(
        "dim_idx", fmt::format("{}", at),
        rank < 0 ? fmt::format("'{}' has no rank", info.name) : fmt::format("'{}' has {} dims, counted from 0", info.name, rank));
  const DimSpec dim = (*info.type.shape)[static_cast<std::size_t>(at)];
  const std::string name = args.text("dim_name");
  if (dim == DimSpec(name)) return absl::OkStatus();
  if (const auto* before = std::get_if<std::string>(&dim))
    return call(work, is_input ? "RenameInputDims" : "RenameOutputDims", "rename_dims", {{"names", {{*before, name}}}});
  if (std::holds_alternative<std::int64_t>(dim))
    return args.wrong("dim_idx", fmt::format("{}", at),
                      fmt::format("this dim of '{}' is {}, and the graph may count on it; export the model with an open dim", info.name,
                                  std::get<std::int64_t>(dim)));
  (*find_named(is_input ? work.graph().inputs : work.graph().outputs, info.name)->type.shape)[static_cast<std::size_t>(at)] = name;
  return absl::OkStatus();
}

const ValueInfo* at(const std::vector<ValueInfo>& infos, std::int64_t index) {
  return index >= 0 && index < static_cast<std::int64_t>(infos.size()) ? &infos[static_cast<std::size_t>(index)] : nullptr;
}

absl::Status rename_input_dims(Work& work, const Arguments& args) {
  const std::string name = args.text("input_name");
  if (name.empty() && args.whole("input_idx") < 0) return args.wrong("input_name", "", "give input_name or input_idx");
  const ValueInfo* input = name.empty() ? at(work.graph().inputs, args.whole("input_idx")) : work.input(name);
  if (!input)
    return args.wrong(name.empty() ? "input_idx" : "input_name", name.empty() ? fmt::format("{}", args.whole("input_idx")) : name,
                      "the model has no such input");
  return name_dim(work, args, ValueInfo(*input), true);
}

absl::Status rename_output_dims(Work& work, const Arguments& args) {
  const ValueInfo* output = at(work.graph().outputs, args.whole("output_idx"));
  if (!output) return args.wrong("output_idx", fmt::format("{}", args.whole("output_idx")), "the model has no such output");
  return name_dim(work, args, ValueInfo(*output), false);
}

absl::Status replace_mask_value(Work& work, const Arguments& args) {
  return call(work, "ReplaceAttentionMaskValue", "replace_mask_value", args.all());
}

absl::Status rewrite(Work& work, std::string_view surgeon, std::vector<std::string> rules, std::vector<std::string> avoid,
                     bool approximate = false, std::vector<std::string> assume = {}) {
  return call(work, surgeon, "rewrite",
              {{"rules", std::move(rules)}, {"avoid", std::move(avoid)}, {"approximate", approximate}, {"assume", std::move(assume)}});
}

// LpNormalization in the place of normalizations: these rules bring squares, roots and quotients to one form.
absl::Status by_lengths(Work& work, std::string_view surgeon, std::vector<std::string> rules, std::vector<std::string> avoid) {
  for (const char* rule : {"power_by_products", "root_by_hand", "by_reciprocal", "one_over", "reciprocal_of_quotient"})
    rules.emplace_back(rule);
  return rewrite(work, surgeon, std::move(rules), std::move(avoid), true, {"rows_not_near_zero"});
}

absl::Status rms_to_l2(Work& work, const Arguments&) {
  return by_lengths(work, "RMSNormToL2Norm",
                    {"rms_normalization", "rms_normalization_without_epsilon", "norm_scale", "rms_scale_of_higher_rank",
                     "norm_scale_by_number", "rms_normalization_by_length"},
                    {"ReduceMean", "RMSNormalization"});
}

absl::Status simplified_to_l2(Work& work, const Arguments&) {
  return by_lengths(work, "SimplifiedLayerNormToL2Norm",
                    {"simplified_layer_normalization", "ms_skip_rms_normalization_as_standard", "rms_normalization_by_length"},
                    {"RMSNormalization", "SimplifiedLayerNormalization", "com.microsoft::SimplifiedLayerNormalization",
                     "com.microsoft::SkipSimplifiedLayerNormalization"});
}

absl::Status sum_of_squares_to_l2(Work& work, const Arguments&) {
  return by_lengths(work, "PowReduceSumPowDiv2LpNorm",
                    {"reduce_sum_square", "reduction_by_hand", "beside_expanded", "number_beside_expanded", "function_of_expanded",
                     "lp_normalization_by_hand", "lp_normalization_beside_epsilon", "lp_normalization_beside_square_of_epsilon"},
                    {"ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2"});
}

absl::Status decompose_quick_gelu(Work& work, const Arguments&) {
  return rewrite(work, "DecomposeQuickGelu", {"swish_as_body"}, {"com.microsoft::QuickGelu"});
}

absl::Status replace_erf(Work& work, const Arguments&) { return rewrite(work, "ReplaceErfWithTanh", {"erf_by_tanh"}, {"Erf"}, true); }

absl::Status matmul_add_to_gemm(Work& work, const Arguments&) {
  return rewrite(work, "MatMulAddToGemm", {"matmul_is_gemm", "linear_is_gemm_of_rows"}, {"MatMul"});
}

absl::Status gemm_to_matmul_add(Work& work, const Arguments&) {
  return rewrite(work, "GemmToMatMulAdd", {"gemm_is_matmul", "gemm_transposed", "gemm_alpha"}, {"Gemm"});
}

absl::Status matmul_to_conv(Work& work, const Arguments&) {
  return rewrite(work, "MatMulToTransposeConvTranspose", {"matmul_as_convolution", "gemm_is_matmul", "gemm_transposed", "gemm_alpha"},
                 {"MatMul", "Gemm"});
}

absl::Status reciprocal_to_div(Work& work, const Arguments&) {
  return rewrite(work, "ReciprocalMulToDiv", {"by_reciprocal"}, {"Reciprocal"});
}

absl::Status simplified_to_rms(Work& work, const Arguments&) {
  return rewrite(
      work, "SimplifiedLayerNormToRMSNorm", {"simplified_layer_normalization", "ms_skip_rms_normalization_as_standard"},
      {"SimplifiedLayerNormalization", "com.microsoft::SimplifiedLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"});
}

absl::Status decompose_rotary(Work& work, const Arguments&) {
  return rewrite(
      work, "DecomposeRotaryEmbedding",
      {"ms_rotary_embedding_of_first_position_as_positions", "ms_rotary_embedding_as_standard", "ms_rotary_embedding_by_table_as_standard",
       "ms_rotary_embedding_of_part_as_standard", "rotary_of_heads_apart_needs_no_count", "rotary_of_positions_as_looked_up",
       "rotary_of_packed_heads_as_heads", "rotary_of_first_part_as_parts", "rotary_as_body", "rotary_of_pairs_as_body"},
      {"RotaryEmbedding", "com.microsoft::RotaryEmbedding"});
}

absl::Status remove_qdq(Work& work, const Arguments& args) {
  if (args.flag("keep_clip_after_inputs"))
    return rewrite(work, "RemoveQDQ", {"quantizer_that_bounds_is_clip", "quantized_and_back_is_clipped"},
                   {"QuantizeLinear", "DequantizeLinear"}, true);
  return rewrite(work, "RemoveQDQ", {"quantized_and_back", "quantizer_that_bounds_is_clip"}, {"QuantizeLinear", "DequantizeLinear"}, true);
}

absl::Status qdq_to_clip(Work& work, const Arguments&) {
  return rewrite(work, "QDQToClip", {"quantized_and_back_is_clipped"}, {"QuantizeLinear", "DequantizeLinear"}, true);
}

// The rule takes those whose dims are not known.
absl::Status flatten(Work& work, const Arguments&) {
  const absl::Status reshaped = call(work, "Flatten", "reshape_results", {{"operator", "Flatten"}});
  if (reshaped.ok()) return reshaped;
  work.notes.push_back(fmt::format("the shape of Flatten stays: {}", std::string(reshaped.message())));
  return rewrite(work, "Flatten", {"flatten_is_reshape"}, {"Flatten"});
}

absl::Status reduce_max(Work& work, const Arguments&) { return call(work, "ReduceMax", "reshape_results", {{"operator", "ReduceMax"}}); }

absl::Status halved_sums(Work& work, const Arguments&) { return call(work, "ReshapeReduceSum", "split_sums", json::object()); }
absl::Status halved_clipped_sums(Work& work, const Arguments&) {
  return call(work, "ReshapeClipReduceSum", "split_sums", {{"clipped", true}});
}

absl::Status tie_embeddings(Work& work, const Arguments&) { return call(work, "TieWordEmbeddings", "tie_weights", json::object()); }
absl::Status share_head(Work& work, const Arguments&) {
  return call(work, "ShareEmbeddingLmHead", "share_quantized_weights", json::object());
}
absl::Status quantize_embedding(Work& work, const Arguments&) {
  return call(work, "QuantizeEmbeddingInt8", "quantize_tables", json::object());
}
absl::Status drop_groups(Work& work, const Arguments&) {
  return call(work, "RemoveGidxFromMatMulNBits", "drop_group_indices", json::object());
}
absl::Status lengths(Work& work, const Arguments&) {
  return call(work, "AttentionMaskToSequenceLengths", "lengths_as_inputs", json::object());
}
absl::Status packed_to_loop(Work& work, const Arguments&) {
  return call(work, "PackedAttentionToLoopMHA", "packed_attention_as_loop", json::object());
}

absl::Status packed_to_operator(Work& work, const Arguments&) {
  return call(work, "PackedAttentionToPackedMHA", "packed_attention_as_operator", json::object());
}

// The values that rotary embeddings look angles up in.
std::vector<std::string> rotary_tables(const Graph& graph) {
  std::vector<std::string> tables;
  for (const Node& node : graph.nodes) {
    const bool grouped = is_operator(node, "GroupQueryAttention", "com.microsoft");
    const bool rotary = is_operator(node, "RotaryEmbedding") || is_operator(node, "RotaryEmbedding", "com.microsoft");
    if (!grouped && !rotary) continue;
    const std::size_t first = grouped ? 7 : node.domain.empty() ? 1 : 2;
    for (std::size_t i = first; i < std::min(first + 2, node.inputs.size()); ++i)
      if (!node.inputs[i].empty()) tables.push_back(node.inputs[i]);
  }
  return tables;
}

// How many rows the constant has that a branch gives as its `index`-th value; -1 where it is none.
std::int64_t rows_of_branch(const Graph& graph, const Node& node, const char* branch, std::size_t index) {
  const Attribute* body = find_attribute(node.attributes, branch);
  if (!body || body->type != AttributeType::kGraph || body->g().outputs.size() <= index) return -1;
  const std::string& value = body->g().outputs[index].name;
  const Tensor* inside = constant_tensor(body->g(), value);
  const Node* maker = producer_of(body->g(), value);
  if (!inside && maker && is_operator(*maker, "Identity")) inside = constant_tensor(graph, maker->inputs[0]);
  return inside && inside->rank() == 2 ? inside->dims()[0] : -1;
}

absl::Status one_rotary_table(Work& work, const Arguments& args) {
  const bool large = args.flag("use_large_cache");
  std::size_t count = 0;
  for (const std::string& table : rotary_tables(work.graph())) {
    const Node* maker = producer_of(work.graph(), table);
    if (!maker || !is_operator(*maker, "If")) continue;
    const auto index = static_cast<std::size_t>(std::find(maker->outputs.begin(), maker->outputs.end(), table) - maker->outputs.begin());
    const std::int64_t rows_then = rows_of_branch(work.graph(), *maker, "then_branch", index),
                       rows_else = rows_of_branch(work.graph(), *maker, "else_branch", index);
    if (rows_then < 0 || rows_else < 0 || rows_then == rows_else)
      return args.wrong("use_large_cache", large ? "true" : "false",
                        fmt::format("the branches that give '{}' are not two constants of which one has more rows", table));
    const char* branch = (rows_then > rows_else) == large ? "then" : "else";
    if (absl::Status s = call(work, "RemoveRopeMultiCache", "choose_branch", {{"value", table}, {"branch", branch}}); !s.ok()) return s;
    ++count;
  }
  work.notes.push_back(fmt::format("{} choices between tables are gone", count));
  return absl::OkStatus();
}

// Equal nodes and equal constants become one when a model goes through the e-graph.
absl::Status deduplicate(Work& work, const Arguments&) { return rewrite(work, "DeduplicateNodes", {}, {}); }
absl::Status remove_dequantized(Work& work, const Arguments&) { return rewrite(work, "RemoveDeqLin", {}, {}); }

absl::Status rank_4_inputs(Work& work, const Arguments&) {
  return call(work, "Non4DModelInputs", "io_rank", {{"rank", 4}, {"of", "inputs"}});
}
absl::Status rank_4_outputs(Work& work, const Arguments&) {
  return call(work, "Non4DModelOutputs", "io_rank", {{"rank", 4}, {"of", "outputs"}});
}

absl::Status rank_4(Work& work, const Arguments&) { return call(work, "of rank 4", "inner_rank", {{"rank", 4}}); }

constexpr std::string_view kAs = "As the pass behind it.";

std::vector<Pass> surgeons_by_passes() {
  const PassCheck tied = PassCheck::kTied;
  const std::vector<Field> old_and_new{{"old_names", kTexts, "Names."}, {"new_names", kTexts, "Names in their places."}};
  return {
      {"RenameInputs", "rename_inputs", tied, kAs, old_and_new, rename_inputs},
      {"RenameOutputs", "rename_outputs", tied, kAs, old_and_new, rename_outputs},
      {"ReorderInputs", "reorder_inputs", tied, kAs, {{"permutation", kWholes, "The old place of each input.", "", {}, 0}}, reorder_inputs},
      {"RemoveInputs", "remove_inputs", tied, kAs, {{"names", kTexts, "Inputs."}}, remove_inputs},
      {"ZeroOutInput",
       "zero_node_input",
       PassCheck::kRuns,
       kAs,
       {{"node_name", kText, "A node."}, {"input_idx", kWhole, "Which of its inputs.", "", {}, 0}},
       zero_node_input},
      {"ExposeOutputs", "expose", tied, kAs, {{"names", kTexts, "Nodes, whose first outputs are meant."}}, expose_nodes},
      {"AddIntermediateTensorsToOutputs",
       "expose",
       tied,
       kAs,
       {{"intermediate_tensor_to_add", kTexts, "Values; none: all.", "[]"}},
       expose_tensors},
      {"ExposeQuantizedOutput", "expose_quantized", tied, kAs, {{"output_name", kText, "An output."}}, expose_quantized},
      {"InferShapes", "infer_shapes", tied, kAs, {}, passes::infer_shapes},
      {"RemoveShapes", "remove_shapes", tied, kAs, {}, remove_shapes},
      {"RemoveAllTensorValueShapes", "remove_shapes that keeps types", tied, kAs, {}, remove_value_shapes},
      {"RemoveInitializerFromInputs", "freeze", tied, kAs, {}, freeze},
      {"RenameInputDims",
       "rename_dims",
       tied,
       kAs,
       {{"dim_idx", kWhole, "Which dim.", "", {}, 0},
        {"dim_name", kText, "Its name."},
        {"input_name", kText, "An input.", "\"\""},
        {"input_idx", kWhole, "Its place.", "-1", {}, -1}},
       rename_input_dims},
      {"RenameOutputDims",
       "rename_dims",
       tied,
       kAs,
       {{"output_idx", kWhole, "An output's place.", "", {}, 0},
        {"dim_idx", kWhole, "Which dim.", "", {}, 0},
        {"dim_name", kText, "Its name."}},
       rename_output_dims},
      {"ReplaceAttentionMaskValue",
       "replace_mask_value",
       tied,
       kAs,
       {{"threshold", kNumber, "Constants below it are changed.", "-3e30"}, {"replacement", kNumber, "What they become.", "-1e4"}},
       replace_mask_value},
      {"RemoveMemcpy", "remove_memcpy", PassCheck::kRuns, kAs, {}, passes::remove_memcpy},
  };
}

std::vector<Pass> surgeons_of_nodes() {
  const PassCheck tied = PassCheck::kTied;
  return {
      {"Flatten", "reshape_results", tied, kAs, {}, flatten},
      {"ReduceMax", "reshape_results", tied, kAs, {}, reduce_max},
      {"ReshapeReduceSum", "split_sums", tied, kAs, {}, halved_sums},
      {"ReshapeClipReduceSum", "split_sums", tied, kAs, {}, halved_clipped_sums},
      {"TieWordEmbeddings", "tie_weights", tied, kAs, {}, tie_embeddings},
      {"ShareEmbeddingLmHead", "share_quantized_weights", PassCheck::kRuns, kAs, {}, share_head},
      {"QuantizeEmbeddingInt8", "quantize_tables", PassCheck::kApproximate, kAs, {}, quantize_embedding},
      {"RemoveGidxFromMatMulNBits", "drop_group_indices", tied, kAs, {}, drop_groups},
      {"AttentionMaskToSequenceLengths", "lengths_as_inputs", tied, kAs, {}, lengths},
      {"RemoveRopeMultiCache",
       "choose_branch",
       tied,
       kAs,
       {{"use_large_cache", kFlag, "Whether the table of more rows stays.", "false"}},
       one_rotary_table},
      {"PackedAttentionToLoopMHA", "packed_attention_as_loop", PassCheck::kRuns, kAs, {}, packed_to_loop},
      {"PackedAttentionToPackedMHA", "packed_attention_as_operator", PassCheck::kRuns, kAs, {}, packed_to_operator},
  };
}

std::vector<Pass> surgeons_by_rules() {
  const PassCheck tied = PassCheck::kTied;
  return {
      {"DecomposeQuickGelu", "rewrite by swish_as_body", tied, kAs, {}, decompose_quick_gelu},
      {"DecomposeRotaryEmbedding", "rewrite by rotary_as_body", tied, kAs, {}, decompose_rotary},
      {"ReplaceErfWithTanh", "rewrite by erf_by_tanh", PassCheck::kApproximate, kAs, {}, replace_erf},
      {"MatMulAddToGemm", "rewrite by matmul_is_gemm and linear_is_gemm_of_rows", tied, kAs, {}, matmul_add_to_gemm},
      {"GemmToMatMulAdd", "rewrite by gemm_is_matmul", tied, kAs, {}, gemm_to_matmul_add},
      {"MatMulToTransposeConvTranspose", "rewrite by matmul_as_convolution", tied, kAs, {}, matmul_to_conv},
      {"ReciprocalMulToDiv", "rewrite by by_reciprocal", tied, kAs, {}, reciprocal_to_div},
      {"SimplifiedLayerNormToRMSNorm", "rewrite by simplified_layer_normalization", tied, kAs, {}, simplified_to_rms},
      {"RemoveQDQ",
       "rewrite by quantized_and_back",
       PassCheck::kApproximate,
       kAs,
       {{"keep_clip_after_inputs", kFlag, "Whether ranges of quantizers stay as Clip.", "false"}},
       remove_qdq},
      {"QDQToClip", "rewrite by quantized_and_back_is_clipped", PassCheck::kApproximate, kAs, {}, qdq_to_clip},
      {"RMSNormToL2Norm", "rewrite by rms_normalization_by_length", PassCheck::kApproximate, kAs, {}, rms_to_l2},
      {"SimplifiedLayerNormToL2Norm", "rewrite by rms_normalization_by_length", PassCheck::kApproximate, kAs, {}, simplified_to_l2},
      {"PowReduceSumPowDiv2LpNorm", "rewrite by lp_normalization_by_hand", PassCheck::kApproximate, kAs, {}, sum_of_squares_to_l2},
      {"DeduplicateNodes", "rewrite by no rule", tied, kAs, {}, deduplicate},
      {"DeduplicateSubgraphInitializers", "rewrite by no rule", tied, kAs, {}, deduplicate},
      {"RemoveDeqLin", "rewrite by no rule", tied, kAs, {}, remove_dequantized},
      {"Non4DModelInputs", "io_rank", tied, kAs, {}, rank_4_inputs},
      {"Non4DModelOutputs", "io_rank", tied, kAs, {}, rank_4_outputs},
  };
}

std::vector<Pass> make_surgeons() {
  std::vector<Pass> out;
  for (const auto make : {surgeons_by_passes, surgeons_of_nodes, surgeons_by_rules})
    for (Pass& pass : make()) out.push_back(std::move(pass));
  for (const char* name : {"Gather", "GatherElements", "Non4DExpand", "Non4DInitializers", "Non4DLpNorm", "Non4DReshape", "Non4DSlice",
                           "Non4DTranspose", "StandaloneReduceSum", "RemoveIntermediarySqueezeAndUnsqueeze"})
    out.push_back({name, "inner_rank", PassCheck::kTied, kAs, {}, rank_4});
  return out;
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

absl::Status not_a_list(std::string_view what, const json& given) {
  return absl::InvalidArgumentError(
      fmt::format("passes: {}: {}; give a list of {{\"pass\": NAME, FIELD: VALUE}}", given.dump().substr(0, 80), what));
}

// Of one pass of Olive, {"type": ..., "surgeries": [...]}, older ones with the options in "config".
absl::Status add_olive_pass(const json& pass, std::vector<json>& items) {
  const std::string type = pass.contains("type") && pass["type"].is_string() ? pass["type"].get<std::string>() : "";
  if (!same_word(type, "GraphSurgeries"))
    return absl::InvalidArgumentError(fmt::format("passes: type: '{}': no pass of Olive that is done here; GraphSurgeries is", type));
  const json& options = pass.contains("config") ? pass["config"] : pass;
  if (!options.contains("surgeries") || !options["surgeries"].is_array())
    return not_a_list("GraphSurgeries without a list \"surgeries\"", pass);
  items.insert(items.end(), options["surgeries"].begin(), options["surgeries"].end());
  return absl::OkStatus();
}

}  // namespace

const std::vector<Pass>& surgeons() {
  static const std::vector<Pass> all = make_surgeons();
  return all;
}

const Pass* find_surgeon(std::string_view name) {
  for (const Pass& pass : surgeons())
    if (same_word(pass.name, name)) return &pass;
  return nullptr;
}

absl::StatusOr<std::vector<json>> pass_items(const json& given) {
  if (given.is_array()) return given.get<std::vector<json>>();
  if (!given.is_object()) return not_a_list("no list of passes", given);
  std::vector<json> items;
  if (given.contains("type") || given.contains("surgeries")) {
    json pass = given;
    if (!pass.contains("type")) pass["type"] = "GraphSurgeries";
    if (absl::Status s = add_olive_pass(pass, items); !s.ok()) return s;
    return items;
  }
  if (!given.contains("passes")) return not_a_list("neither a list nor an object with \"passes\"", given);
  const json& passes = given["passes"];
  if (passes.is_array()) return passes.get<std::vector<json>>();
  if (!passes.is_object()) return not_a_list("\"passes\" is no list", given);
  for (const auto& [name, pass] : passes.items()) {
    const json one = pass.is_array() && pass.size() == 1 ? pass[0] : pass;
    if (!one.is_object()) return not_a_list(fmt::format("pass '{}' is no object", name), given);
    if (absl::Status s = add_olive_pass(one, items); !s.ok()) return s;
  }
  return items;
}

}  // namespace saturate
