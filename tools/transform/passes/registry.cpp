// The table of passes, and how they are asked for.
#include <algorithm>

#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/transform/passes/olive.h"
#include "tools/transform/passes/passes.h"
#include "tools/transform/precision/precision.h"

namespace saturate {
namespace {

using nlohmann::json;
using enum FieldType;

constexpr std::string_view kSameValues = "Each input and output of the result is tied to that of the original, and values are compared.";
constexpr std::string_view kNothingMoves = "All outputs are compared.";

const std::vector<std::string_view> kDtypes{"float16", "bfloat16", "float",  "double", "int8",   "int16", "int32",
                                            "int64",   "uint8",    "uint16", "uint32", "uint64", "bool"};

// Names, order and number of inputs and outputs.
std::vector<Pass> interface_passes() {
  return {
      {"rename_inputs",
       "Gives inputs other names.",
       PassCheck::kTied,
       kSameValues,
       {{"names", kPairs, "New names by the old ones."}},
       passes::rename_inputs},
      {"rename_outputs",
       "Gives outputs other names.",
       PassCheck::kTied,
       kSameValues,
       {{"names", kPairs, "New names by the old ones."}},
       passes::rename_outputs},
      {"reorder_inputs",
       "Puts the inputs into another order.",
       PassCheck::kTied,
       kSameValues,
       {{"order", kTexts, "The names of all inputs, each once."}},
       passes::reorder_inputs},
      {"reorder_outputs",
       "Puts the outputs into another order.",
       PassCheck::kTied,
       kSameValues,
       {{"order", kTexts, "The names of all outputs, each once."}},
       passes::reorder_outputs},
      {"remove_inputs",
       "Removes inputs that nothing reads.",
       PassCheck::kTied,
       kNothingMoves,
       {{"names", kTexts, "The inputs."}},
       passes::remove_inputs},
      {"remove_outputs",
       "Removes outputs, and the nodes that only they need.",
       PassCheck::kTied,
       "The outputs that stay are compared.",
       {{"names", kTexts, "The outputs."}},
       passes::remove_outputs},
      {"add_inputs",
       "Adds inputs that nothing reads.",
       PassCheck::kTied,
       kNothingMoves,
       {{"shapes", kShapes, "Their dims by their names."}, {"dtype", kText, "Their type.", "\"float\"", kDtypes}},
       passes::add_inputs},
  };
}

// Values that become outputs, inputs or constants.
std::vector<Pass> value_passes() {
  return {
      {"expose",
       "Makes values of the main graph outputs.",
       PassCheck::kTied,
       "The new outputs are compared with the original's values.",
       {{"values", kTexts, "The values."}},
       passes::expose},
      {"expose_nodes",
       "Makes what nodes give outputs.",
       PassCheck::kTied,
       "The new outputs are compared with the original's values.",
       {{"names", kTexts, "The names of the nodes."}},
       passes::expose_nodes},
      {"expose_all",
       "Makes all values of the main graph outputs.",
       PassCheck::kTied,
       "The new outputs are compared with the original's values.",
       {},
       passes::expose_all},
      {"expose_quantized",
       "Gives, in the place of an output, the integers it is dequantized from, and behind all their scale and zero point.",
       PassCheck::kTied,
       "The new outputs are compared with the original's values.",
       {{"output", kText, "An output that a DequantizeLinear makes."}},
       passes::expose_quantized},
      {"zero_inputs",
       "Takes zeros in the place of inputs; one whose dims are numbers is no input any more.",
       PassCheck::kTied,
       "The original is given zeros for these inputs, and all outputs are compared.",
       {{"names", kTexts, "The inputs."}},
       passes::zero_inputs},
      {"zero_node_input",
       "Takes zeros in the place of what one node reads.",
       PassCheck::kRuns,
       "The result computes something else: it is only run.",
       {{"node", kText, "The name of the node."}, {"input", kWhole, "Which of its inputs, counted from 0.", "0", {}, 0}},
       passes::zero_node_input},
      {"initializers_to_inputs",
       "Makes constants inputs of the model.",
       PassCheck::kTied,
       "The result is given the original's constants, and all outputs are compared.",
       {{"names", kTexts, "The initializers."}, {"default", kFlag, "Whether their values stay as defaults.", "false"}},
       passes::initializers_to_inputs},
      {"freeze",
       "Makes inputs that have a default constants.",
       PassCheck::kTied,
       "All outputs are compared, at the defaults.",
       {{"names", kTexts, "The inputs; none: all that have a default.", "[]"}},
       passes::freeze},
  };
}

std::vector<Pass> precision_passes() {
  return {
      {"precision",
       "Lets operators work in half precision where their sums and angles don't need more, with Casts between.",
       PassCheck::kApproximate,
       "All outputs are compared on usual inputs, within what half precision makes.",
       {{"dtype", kText, "The type.", R"("float16")", {"float16", "bfloat16"}},
        {"keep", kTexts, "Operators that stay in float.", kKeptInFloat},
        {"also_keep", kTexts, "Further operators (Gemm, com.microsoft.Gelu) and nodes that stay in float.", "[]"},
        {"interface", kFlag, "Inputs and outputs of the model are of the type, too.", "false"},
        {"calibrate", kText, "A .npz of inputs: values that are too large for the type on them stay in float; none: drawn inputs.",
         R"("")"},
        {"max_error", kNumber,
         "The largest error of results on these inputs, relative to the largest number of an output: further operators "
         "stay in float until it is reached, by few bytes; 0: any.",
         "0"},
        {"clamp", kFlag, "Values that are too large for the type are clamped to it, and nothing stays in float for them.", "false"}},
       passes::precision},
  };
}

// Types and layout.
std::vector<Pass> type_passes() {
  return {
      {"cast_inputs",
       "Gives inputs another type, with a Cast behind them.",
       PassCheck::kTied,
       "The original is given only numbers that the new type holds, and all outputs are compared.",
       {{"dtypes", kPairs, "Types by inputs.", "", kDtypes}},
       passes::cast_inputs},
      {"cast_outputs",
       "Gives outputs another type, with a Cast before them.",
       PassCheck::kTied,
       "Outputs are compared with the original's, cast.",
       {{"dtypes", kPairs, "Types by outputs.", "", kDtypes}},
       passes::cast_outputs},
      {"int32_inputs",
       "Gives inputs of int64 the type int32, with a Cast behind them.",
       PassCheck::kTied,
       "The original is given only numbers that int32 holds, and all outputs are compared.",
       {{"names", kTexts, "The inputs; none: all of int64 that have no default.", "[]"}},
       passes::int32_inputs},
      {"layout",
       "Puts the channels of inputs and outputs last or behind the batch, with a Transpose.",
       PassCheck::kTied,
       "Inputs and outputs are those of the original, transposed.",
       {{"inputs", kTexts, "Inputs, which have the other layout now.", "[]"},
        {"outputs", kTexts, "Outputs, which have the other layout now.", "[]"},
        {"to", kText, "The layout that they shall have.", "\"nhwc\"", {"nhwc", "nchw"}}},
       passes::layout},
  };
}

// Dims and ranks.
std::vector<Pass> dim_passes() {
  return {
      {"set_dims",
       "Gives symbolic dims a size.",
       PassCheck::kTied,
       "All outputs are compared, at these sizes.",
       {{"sizes", kSizes, "Sizes by names of dims.", "", {}, 0}},
       passes::set_dims},
      {"open_batch",
       "Makes a batch that is a number symbolic; sizes that Reshapes and constants hold of it follow.",
       PassCheck::kTied,
       "At the model's own batch all outputs are compared; two batches at once must give what each gives alone.",
       {{"name", kText, "The dim's name.", "\"batch\""},
        {"axes", kSizes, "The dims by inputs that have a batch; none: the first of each.", "{}", {}, 0}},
       passes::open_batch},
      {"rename_dims",
       "Gives symbolic dims other names.",
       PassCheck::kTied,
       kNothingMoves,
       {{"names", kPairs, "New names by the old ones."}},
       passes::rename_dims},
      {"set_shapes",
       "Gives inputs dims: a rank to one that has none, sizes and names to dims that have none.",
       PassCheck::kTied,
       "All outputs are compared, at these sizes.",
       {{"shapes", kShapes, "Dims by inputs."}},
       passes::set_shapes},
      {"io_rank",
       "Gives inputs and outputs this rank, with ones in front of their dims.",
       PassCheck::kTied,
       "Inputs and outputs are those of the original with ones in front.",
       {{"rank", kWhole, "The rank.", "", {}, 1}, {"of", kText, "Which are changed.", "\"both\"", {"both", "inputs", "outputs"}}},
       passes::io_rank},
  };
}

// What a file says beside its interface.
std::vector<Pass> graph_passes() {
  return {
      {"constants_to_initializers",
       "Makes initializers of Constant nodes.",
       PassCheck::kTied,
       kNothingMoves,
       {{"bodies", kFlag, "Also in the bodies of If, Loop and Scan.", "true"}},
       passes::constants_to_initializers},
      {"initializers_to_constants",
       "Makes Constant nodes of small initializers.",
       PassCheck::kTied,
       kNothingMoves,
       {{"most_bytes", kWhole, "Of one initializer.", "1024", {}, 0}},
       passes::initializers_to_constants},
      {"drop_uncalled_functions",
       "Removes local functions that nothing calls.",
       PassCheck::kTied,
       kNothingMoves,
       {},
       passes::drop_uncalled_functions},
      {"infer_shapes",
       "Writes the types and shapes of all values of the main graph that can be inferred.",
       PassCheck::kTied,
       kNothingMoves,
       {},
       passes::infer_shapes},
      {"remove_shapes",
       "Removes what is written of the types and shapes of values.",
       PassCheck::kTied,
       kNothingMoves,
       {{"keep", kText, "What stays of values between nodes.", "\"nothing\"", {"nothing", "types"}},
        {"outputs", kFlag, "Also the dims of outputs, whose ranks stay.", "false"}},
       passes::remove_shapes},
      {"strip_metadata",
       "Removes doc strings, metadata, producer, training information and quantization annotations.",
       PassCheck::kTied,
       kNothingMoves,
       {},
       passes::strip_metadata},
      {"replace_mask_value",
       "Gives very low float constants, as masks hold them, another value.",
       PassCheck::kTied,
       "All outputs are compared, on masks that leave each row something to see.",
       {{"threshold", kNumber, "Constants below it are changed.", "-3e30"}, {"replacement", kNumber, "What they become.", "-1e4"}},
       passes::replace_mask_value},
      {"remove_memcpy",
       "Makes Identity of MemcpyToHost and MemcpyFromHost.",
       PassCheck::kRuns,
       "The original can't be run without a device: the result is only run.",
       {},
       passes::remove_memcpy},
  };
}

// Parts, and rules between passes.
std::vector<Pass> part_passes() {
  return {
      {"cut",
       "Cuts out a part of the model.",
       PassCheck::kTied,
       "The part is given the original's values, and gives values that are compared with the original's.",
       {{"inputs", kTexts, "Values that become inputs, in this order.", "[]"},
        {"outputs", kTexts, "Values that become the outputs; none: those of the model.", "[]"}},
       passes::cut},
      {"merge",
       "Puts a second model behind this one.",
       PassCheck::kRuns,
       "Either part is cut out of the merged model again and compared with the model that it was; the whole is run.",
       {{"joins", kPairs, "Inputs of the second by outputs of the first."},
        {"model", kText, "The file of the second model."},
        {"prefix", kText, "Stands before the names of the second's values that stay inputs or outputs.", "\"\""},
        {"keep", kFlag, "Whether joined outputs stay outputs.", "false"}},
       passes::merge},
      {"optimize",
       "Does what `saturate optimize` does.",
       PassCheck::kTied,
       "It verifies by itself; all outputs are compared again with the original's.",
       {{"target", kText, "A built-in target or a file.", "\"ort-cpu\""},
        {"cost", kText, "A cost model; none: the target's.", "\"\""},
        {"rules", kTexts, "Files of rules beside the built-in ones.", "[]"},
        {"skip_rules", kTexts, "Rules to leave out.", "[]"},
        {"avoid", kTexts, "Operators to do without, \"Op\" or \"domain::Op\", beside those that the target does not run.", "[]"},
        {"approximate", kFlag, "Also rules that approximate.", "false"},
        {"opset", kWhole, "The opset to be written; 0: as needed.", "0", {}, 0}},
       passes::optimize},
      {"inner_rank",
       "Lets what the model computes have tensors of this rank alone, with Reshapes at its inputs and outputs.",
       PassCheck::kTied,
       "It verifies by itself; all outputs are compared again with the original's.",
       {{"rank", kWhole, "The rank.", "4", {}, 1}},
       passes::inner_rank},
      {"rewrite",
       "Applies some rules, to do without some operators where they can.",
       PassCheck::kTied,
       "It verifies by itself; all outputs are compared again with the original's.",
       {{"rules", kTexts, "Names of built-in rules.", "[]"},
        {"avoid", kTexts, "Operators to do without, \"Op\" or \"domain::Op\".", "[]"},
        {"approximate", kFlag, "Whether the rules may approximate.", "false"},
        {"assume", kTexts, "Risky assumptions that the rules may make.", "[]"}},
       passes::rewrite},
  };
}

// Shapes and weights as some devices and runtimes want them.
std::vector<Pass> device_passes() {
  return {
      {"reshape_results",
       "Gives what operators make another shape, by a Reshape behind them; what takes no such shape reads the old one.",
       PassCheck::kTied,
       "Outputs are those of the original in the shape that they have now.",
       {{"operator", kText, "The operator; a Flatten becomes the Reshape."},
        {"shape", kWholes, "The dims, of which one may be -1.", "[1, 1, 1, -1]", {}, -1}},
       passes::reshape_results},
      {"split_sums",
       "Makes sums over each half of the last axis of two Slices, where a Reshape has cut it into halves.",
       PassCheck::kTied,
       kNothingMoves,
       {{"clipped", kFlag, "Those with a Clip between Reshape and sum, and no others.", "false"}},
       passes::split_sums},
      {"tie_weights",
       "Lets products read the weights of a look-up, where their own are the same, transposed, or in the same blocks of few bits.",
       PassCheck::kTied,
       kNothingMoves,
       {},
       passes::tie_weights},
      {"share_quantized_weights",
       "Lets MatMulNBits read the 8-bit table of a GatherBlockQuantized, where all its weights are those, a step apart at most.",
       PassCheck::kRuns,
       "All weights are compared, within a step of either; the result is only run.",
       {},
       passes::share_quantized_weights},
      {"quantize_tables",
       "Makes GatherBlockQuantized of 8 bits of look-ups in tables of floats.",
       PassCheck::kApproximate,
       "All outputs are compared, within what 8 bits a block make.",
       {{"block_size", kWhole, "Elements of a row that have one scale: a power of two.", "32", {}, 16}},
       passes::quantize_tables},
      {"drop_group_indices",
       "Leaves out the g_idx of MatMulNBits whose columns are in order.",
       PassCheck::kTied,
       kNothingMoves,
       {},
       passes::drop_group_indices},
  };
}

// Decoders.
std::vector<Pass> decoder_passes() {
  return {
      {"kv_cache",
       "Lets a decoder take the keys and values of earlier tokens, and compute new tokens alone.",
       PassCheck::kRuns,
       "The result is run step by step over sequences of several lengths, and compared with the original over the whole; then it is run.",
       {{"mode",
         kText,
         "How caches grow: by each token, by a window of fixed sizes, or not, where new tokens are written into buffers.",
         "\"growing\"",
         {"growing", "window", "buffer"}},
        {"window", kWhole, "Of mode window: the number of new tokens.", "1", {}, 1},
        {"sequence", kWhole, "Of mode window: the number of positions, past and new.", "256", {}, 1},
        {"max_context", kWhole, "Of modes window and buffer: the positions that caches hold; 0: those of the sequence.", "0", {}, 0},
        {"filled", kText,
         "Of mode buffer, and of mode window where positions are learned: the name of the input that tells how many tokens came before.",
         "\"past_length\""},
        {"write",
         kText,
         "Of mode buffer: how new tokens are written into buffers: by ScatterND, by TensorScatter of opset 24, or by com.microsoft's "
         "GroupQueryAttention, which attends, too.",
         "\"scatter_nd\"",
         {"scatter_nd", "tensor_scatter", "group_query_attention"}},
        {"tokens", kTexts, "Inputs with an entry for each new token.",
         "[\"input_ids\", \"decoder_input_ids\", \"position_ids\", \"token_type_ids\", \"inputs_embeds\", \"decoder_inputs_embeds\"]"},
        {"masks", kTexts, "Inputs with an entry for each position, past and new.", "[\"attention_mask\", \"decoder_attention_mask\"]"},
        {"given", kTexts,
         "Inputs that stay as they are while tokens go on: an encoder's states. Keys and values of cross attention are made of them.",
         "[\"encoder_hidden_states\"]"},
        {"given_masks", kTexts, "Their masks, which each step reads.", "[\"encoder_attention_mask\"]"},
        {"model",
         kText,
         "Which model is written: the decoder, or, of an encoder-decoder, the one that makes the keys and values of cross attention once.",
         "\"decoder\"",
         {"decoder", "cross"}},
        {"past", kText,
         "Names of inputs, with {layer} and {part}, which is key or value; of an encoder-decoder decoder.key, encoder.key and so on.",
         "\"past_key_values.{layer}.{part}\""},
        {"present", kText, "Names of outputs, likewise.", "\"present.{layer}.{part}\""},
        {"past_dim", kText, "The name of the dim of earlier tokens.", "\"past_sequence_length\""},
        {"opset", kWhole, "The opset to be written; 0: that of the model, 14 at least.", "0", {}, 0}},
       passes::kv_cache},
      {"padding_by_mask",
       "Counts positions of the tokens that a mask shows, where a model counts those that are not its padding token.",
       PassCheck::kRuns,
       "All outputs are compared on tokens that are padding exactly where the mask hides them; on others the two differ.",
       {{"tokens", kText, "The input of tokens.", "\"input_ids\""}, {"mask", kText, "The mask, 0 for padding.", "\"attention_mask\""}},
       passes::padding_by_mask},
      {"last_logits",
       "Lets a decoder give the logits of its last tokens alone, and compute no others.",
       PassCheck::kTied,
       "The logits are the last of the original's; all outputs are compared.",
       {{"window", kWhole, "Of how many tokens; where a run has fewer, of all of them.", "1", {}, 1},
        {"output", kText, "The output of logits, [batch, tokens, vocabulary]; none: as `saturate generate` finds it.", "\"\""}},
       passes::last_logits},
  };
}

// What a decoder's cache is like.
std::vector<Pass> cache_passes() {
  return {
      {"cache_dtype",
       "Gives a decoder's cache another dtype: tokens are brought into it where they are written, and back where they are read.",
       PassCheck::kRuns,
       "The result is run step by step beside the model with the cache that it had, and logits are compared; then it is run.",
       {{"dtype", kText, "Of past and present.", "", {"float16", "bfloat16", "int8"}},
        {"scales", kText, "Of int8: symmetric scales, one for each head, or for each channel of a head.", "\"head\"", {"head", "channel"}},
        {"calibrate", kText, "Of int8: an npz file with tokens by the name of their input, on which scales are measured; none: drawn ones.",
         "\"\""},
        {"rtol", kNumber,
         "How far logits may move, by what is usual in a row; 0: by a few times what such rounding makes of the model, measured.", "0"}},
       passes::cache_dtype},
      {"remove_cache",
       "Takes a growing cache, buffers or a window out of a decoder, which computes the whole sequence then.",
       PassCheck::kRuns,
       "The model with its cache, empty at first, is run in one step and step by step, and gives the logits of the result; then it is run.",
       {{"rtol", kNumber, "How far logits may lie apart, by what is usual in a row; 0: 1e-3, and 0.02 where weights are halves.", "0"}},
       passes::remove_cache},
      {"cache_layout",
       "Gives a decoder's cache another order of dims, with a Transpose at past and present.",
       PassCheck::kTied,
       "Past and present are those of the original, transposed; all outputs are compared.",
       {{"layout", kText, "bnsh: [batch, heads, tokens, size]; bsnh: [batch, tokens, heads, size].", "\"bsnh\"", {"bsnh", "bnsh"}}},
       passes::cache_layout},
      {"lengths_as_inputs",
       "Makes the lengths that GroupQueryAttention reads inputs, and leaves out inputs that only they were computed of.",
       PassCheck::kTied,
       "The result is given the lengths that the original computes, and all outputs are compared.",
       {{"past", kText, "The name of seqlens_k.", "\"past_seq_len\""},
        {"total", kText, "The name of total_sequence_length.", "\"total_seq_len\""}},
       passes::lengths_as_inputs},
  };
}

// What is written for a runtime or a run alone.
std::vector<Pass> attention_passes() {
  return {
      {"choose_branch",
       "Takes one branch of an If, whatever its condition is.",
       PassCheck::kTied,
       "The original's If takes this branch, and all outputs are compared.",
       {{"value", kText, "A value that the If makes."}, {"branch", kText, "Which branch.", "", {"then", "else"}}},
       passes::choose_branch},
      {"packed_attention_as_loop",
       "Makes a Loop over MultiHeadAttention of PackedAttention, a segment at a time.",
       PassCheck::kRuns,
       "No runtime has the operator: the result is only run.",
       {{"domain", kText, "Of the operator.", "\"custom\""}},
       passes::packed_attention_as_loop},
      {"packed_attention_as_operator",
       "Makes com.microsoft's PackedMultiHeadAttention of PackedAttention, which ONNX Runtime has for CUDA.",
       PassCheck::kRuns,
       "No runtime has the operator: the result is only run.",
       {{"domain", kText, "Of the operator.", "\"custom\""}},
       passes::packed_attention_as_operator},
  };
}

std::vector<Pass> make_passes() {
  std::vector<Pass> all;
  for (const auto make : {interface_passes, value_passes, type_passes, dim_passes, precision_passes, graph_passes, part_passes,
                          device_passes, decoder_passes, cache_passes, attention_passes})
    for (Pass& pass : make()) all.push_back(std::move(pass));
  return all;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const auto* list : {&all_passes(), &surgeons()})
    for (const Pass& pass : *list) names.emplace_back(pass.name);
  return names;
}

absl::Status unknown(std::string_view name) {
  if (const std::size_t equals = name.find('='); equals != std::string_view::npos && find_pass(name.substr(0, equals)))
    return wrong_usage(fmt::format("pass {}: no such pass; did you mean '{}:{}'?", name, name.substr(0, equals), name.substr(equals + 1)));
  return wrong_usage(
      fmt::format("pass {}: no such pass; {}", name, what_instead(name, known_names(), "`saturate transform --list-passes` lists them")));
}

absl::StatusOr<const Pass*> asked_for(std::string_view name) {
  const Pass* pass = find_pass(name);
  if (!pass) return unknown(name);
  return pass;
}

absl::StatusOr<PassCall> step_of(std::string_view name, const json& fields) {
  const absl::StatusOr<const Pass*> pass = asked_for(name);
  if (!pass.ok()) return pass.status();
  absl::StatusOr<Arguments> args = Arguments::from_json((*pass)->name, (*pass)->fields, fields);
  if (!args.ok()) return args.status();
  return PassCall{*pass, *std::move(args)};
}

absl::StatusOr<PassCall> step_of(const json& item) {
  if (item.is_string()) return step_of(item.get<std::string>(), json::object());
  for (const char* key : {"pass", "surgeon"}) {
    if (!item.is_object() || !item.contains(key) || !item[key].is_string()) continue;
    json fields = item;
    fields.erase(key);
    return step_of(item[key].get<std::string>(), fields);
  }
  return absl::InvalidArgumentError(
      fmt::format("passes: {}: no pass; give {{\"pass\": NAME, FIELD: VALUE}} or {{\"surgeon\": NAME, ...}}", item.dump().substr(0, 80)));
}

}  // namespace

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = make_passes();
  return passes;
}

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : all_passes())
    if (pass.name == name) return &pass;
  return find_surgeon(name);
}

absl::StatusOr<PassCall> parse_step(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const absl::StatusOr<const Pass*> pass = asked_for(text.substr(0, colon));
  if (!pass.ok()) return pass.status();
  absl::StatusOr<Arguments> args = Arguments::from_text((*pass)->name, (*pass)->fields, text.substr(std::min(colon + 1, text.size())));
  if (!args.ok()) return args.status();
  return PassCall{*pass, *std::move(args)};
}

absl::StatusOr<std::vector<PassCall>> parse_steps(std::string_view json_text) {
  const absl::StatusOr<json> parsed = read_json(json_text);
  if (!parsed.ok())
    return absl::InvalidArgumentError(
        fmt::format("passes: no JSON ({}); give a list of {{\"pass\": NAME, FIELD: VALUE}}", std::string(parsed.status().message())));
  absl::StatusOr<std::vector<json>> items = pass_items(*parsed);
  if (!items.ok()) return items.status();
  std::vector<PassCall> steps;
  for (const json& item : *items) {
    absl::StatusOr<PassCall> step = step_of(item);
    if (!step.ok()) return step.status();
    steps.push_back(*std::move(step));
  }
  return steps;
}

}  // namespace saturate
