// What decoders compute beside their attention: lengths, the branch of an If, segments of a packed sequence.
#include <algorithm>

#include "fmt/format.h"
#include "kernels/inputs/types.h"
#include "onnx_bridge/file/io.h"
#include "tools/transform/edit.h"
#include "tools/transform/opset.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

absl::Status call(Work& work, std::string_view name, const nlohmann::json& fields) {
  const Pass* pass = find_pass(name);
  const absl::StatusOr<Arguments> args = Arguments::from_json(name, pass->fields, fields);
  return args.ok() ? pass->apply(work, *args) : args.status();
}

// The one value that all nodes of an operator read in this place; "" where there is no node, nullopt where they read several.
std::optional<std::string> common_input(const Graph& graph, std::string_view op_type, std::size_t index) {
  std::optional<std::string> common;
  for (const Node& node : graph.nodes) {
    if (!is_operator(node, op_type, kMicrosoftDomain)) continue;
    const std::string value = node.inputs.size() > index ? node.inputs[index] : "";
    if (common && *common != value) return std::nullopt;
    common = value;
  }
  return common.value_or("");
}

// ---- choose_branch

// The nodes of a branch in the place of its If, whose values they make.
absl::Status inline_branch(Work& work, const Node& node, const std::string& branch, const Arguments& args) {
  const Attribute* held = find_attribute(node.attributes, branch + "_branch");
  if (!held || held->type != AttributeType::kGraph) return args.wrong("branch", branch, "the If has no such branch");
  Graph body = held->g();
  Renaming names;
  for (const std::string& name : defined_names(body)) names[name] = work.fresh(name);
  rename_values(body, names, work.fresh);
  std::vector<Node> nodes = std::move(body.nodes);
  for (std::size_t i = 0; i < node.outputs.size() && i < body.outputs.size(); ++i)
    if (!node.outputs[i].empty()) nodes.push_back(make_node("Identity", {body.outputs[i].name}, node.outputs[i]));
  auto& initializers = work.graph().initializers;
  std::move(body.initializers.begin(), body.initializers.end(), std::back_inserter(initializers));
  auto& all = work.graph().nodes;
  const auto at = std::find_if(all.begin(), all.end(), [&](const Node& n) { return n.outputs == node.outputs; });
  all.insert(all.erase(at), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
  return absl::OkStatus();
}

// ---- packed_attention_as_loop, packed_attention_as_operator

constexpr std::int64_t kPackedOpset = 14;  // of Reshape with allowzero

// One MultiHeadAttention a segment; the results one after another. B entries, N heads, T rows, H numbers.
constexpr std::string_view kLoop = R"(
<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
g ({type} query, {type} key, {type} value, {index} segments) => ({type} attended)
  <int64[3] flat = {{0, 0, -1}}, int64[1] first = {{0}}, int64[1] second = {{1}}, int64[4] heads = {{0, 0, {heads}, -1}}, int64 one = {{1}},
   bool always = {{1}}> {{
  bounds = Cast <to = 7> (segments)
  q_rows = Transpose <perm = [0, 2, 1, 3]> (query)
  k_rows = Transpose <perm = [0, 2, 1, 3]> (key)
  v_rows = Transpose <perm = [0, 2, 1, 3]> (value)
  q = Reshape (q_rows, flat)
  k = Reshape (k_rows, flat)
  v = Reshape (v_rows, flat)
  none = Slice (v, first, first, second)
  ends = Size (bounds)
  count = Sub (ends, one)
  rows = Loop (count, always, none) <body = each (int64 i, bool before, {type}[b, t, h] done) => (bool going, {type}[b, u, h] more) {{
    going = Identity (before)
    at = Reshape (i, second)
    next = Add (at, second)
    start = Gather (bounds, at)
    end = Gather (bounds, next)
    q_i = Slice (q, start, end, second)
    k_i = Slice (k, start, end, second)
    v_i = Slice (v, start, end, second)
    attended_i = com.microsoft.MultiHeadAttention <num_heads = {heads}, scale = {scale}> (q_i, k_i, v_i)
    more = Concat <axis = 1> (done, attended_i)
  }}>
  attended = Reshape (rows, heads)
}})";

// All segments at once. Its token_offset has a row for each segment, of places in a table that the longest one fills: first those of
// tokens, then those of padding.
constexpr std::string_view kOperator = R"(
<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
g ({type} query, {type} key, {type} value, {index} segments) => ({type} attended)
  <int64[1] first = {{0}}, int64[1] second = {{1}}, int64[1] last = {{-1}}, int64[1] end = {{9223372036854775807}},
   int64[1] all = {{-1}}, int32 zero = {{0}}, int32 one = {{1}}, int32[1] none = {{0}}> {{
  bounds = Cast <to = 6> (segments)
  q_rows = Transpose <perm = [0, 2, 1, 3]> (query)
  k_rows = Transpose <perm = [0, 2, 1, 3]> (key)
  v_rows = Transpose <perm = [0, 2, 1, 3]> (value)
  q_tokens = Squeeze (q_rows, first)
  k_tokens = Squeeze (k_rows, first)
  v_tokens = Squeeze (v_rows, first)
  q = Flatten <axis = 1> (q_tokens)
  k = Flatten <axis = 1> (k_tokens)
  v = Flatten <axis = 1> (v_tokens)
  starts = Slice (bounds, first, last)
  ends = Slice (bounds, second, end)
  lengths = Sub (ends, starts)
  longest_of_all = Concat <axis = 0> (lengths, none)
  longest = ReduceMax <keepdims = 0> (longest_of_all)
  size = Size (lengths)
  count = Cast <to = 6> (size)
  rows = Range (zero, count, one)
  columns = Range (zero, longest, one)
  row = Unsqueeze (rows, second)
  before = Mul (row, longest)
  places = Add (before, columns)
  length = Unsqueeze (lengths, second)
  is_token = Less (columns, length)
  is_padding = Not (is_token)
  every_place = Reshape (places, all)
  every_token = Reshape (is_token, all)
  every_padding = Reshape (is_padding, all)
  tokens = Compress <axis = 0> (every_place, every_token)
  padding = Compress <axis = 0> (every_place, every_padding)
  ordered = Concat <axis = 0> (tokens, padding)
  shape = Shape (places)
  offset = Reshape <allowzero = 1> (ordered, shape)
  attended_rows = com.microsoft.PackedMultiHeadAttention <num_heads = {heads}, scale = {scale}> (q, k, v, , offset, bounds)
  token_shape = Shape (v_tokens)
  attended_tokens = Reshape <allowzero = 1> (attended_rows, token_shape)
  attended = Unsqueeze (attended_tokens, first)
}})";

absl::Status expand_packed(Work& work, const Node& node, std::string_view text, const std::map<std::string, ValueType>& types,
                           const Arguments& args) {
  const Attribute* scale = find_attribute(node.attributes, "scale");
  const std::int64_t heads = int_attribute(node, "num_heads", 0);
  const auto query = types.find(node.inputs[0]), segments = node.inputs.size() == 4 ? types.find(node.inputs[3]) : types.end();
  if (heads <= 0 || !scale || scale->type != AttributeType::kFloat || query == types.end() || segments == types.end())
    return args.wrong(
        "domain", args.text("domain"),
        fmt::format("PackedAttention that makes '{}' wants query, key, value and cu_seqlens of known types, scale and num_heads",
                    node.outputs[0]));
  const absl::StatusOr<Model> parsed =
      parse_model_text(fmt::format(fmt::runtime(text), fmt::arg("opset", work.model.opset("")), fmt::arg("heads", heads),
                                   fmt::arg("scale", fmt::format("{:.9g}", scale->f())), fmt::arg("type", dtype_name(query->second.dtype)),
                                   fmt::arg("index", dtype_name(segments->second.dtype))),
                       "PackedAttention");
  if (!parsed.ok()) return parsed.status();
  Graph body = parsed->graph;
  Renaming names{{"query", node.inputs[0]},
                 {"key", node.inputs[1]},
                 {"value", node.inputs[2]},
                 {"segments", node.inputs[3]},
                 {"attended", node.outputs[0]}};
  for (const std::string& name : defined_names(body))
    if (!names.contains(name)) names[name] = work.fresh(node.outputs[0] + "_" + name);
  rename_values(body, names, work.fresh);
  auto& all = work.graph().nodes;
  const auto at = std::find_if(all.begin(), all.end(), [&](const Node& n) { return n.outputs == node.outputs; });
  all.insert(all.erase(at), body.nodes.begin(), body.nodes.end());
  auto& initializers = work.graph().initializers;
  initializers.insert(initializers.end(), body.initializers.begin(), body.initializers.end());
  return absl::OkStatus();
}

absl::Status expand_all_packed(Work& work, const Arguments& args, std::string_view text, std::string_view result) {
  const auto packed = [&](const Node& node) { return is_operator(node, "PackedAttention", args.text("domain")); };
  const auto count = std::count_if(work.graph().nodes.begin(), work.graph().nodes.end(), packed);
  if (count > 0) {
    if (work.model.opset("") < kPackedOpset) {
      absl::StatusOr<Model> raised = at_opset(work.model, kPackedOpset);
      if (!raised.ok()) return raised.status();
      work.model = *std::move(raised);
    }
    const auto types = inferred_types(work.model);
    if (!types.ok()) return types.status();
    for (const Node& node : std::vector(work.graph().nodes))
      if (packed(node))
        if (absl::Status s = expand_packed(work, node, text, *types, args); !s.ok()) return s;
    work.model.opset_imports.try_emplace(kMicrosoftDomain, 1);
    const auto& nodes = work.graph().nodes;
    const auto others = [&](const Node& node) { return node.domain == args.text("domain"); };
    if (std::none_of(nodes.begin(), nodes.end(), others)) work.model.opset_imports.erase(args.text("domain"));
  }
  work.notes.push_back(fmt::format("{} PackedAttention became {}", count, result));
  return absl::OkStatus();
}

}  // namespace

absl::Status lengths_as_inputs(Work& work, const Arguments& args) {
  constexpr std::size_t kLengths = 5, kTotal = 6;
  std::vector<std::string> values;
  std::map<std::string, std::string> renamed;
  for (const auto& [field, index] : {std::pair("past", kLengths), std::pair("total", kTotal)}) {
    const auto value = common_input(work.graph(), "GroupQueryAttention", index);
    if (!value) return args.wrong(field, args.text(field), "attention operators of the model read several lengths, not one");
    if (value->empty() || work.input(*value)) continue;
    values.push_back(*value);
    renamed[*value] = args.text(field);
  }
  work.notes.push_back(fmt::format("{} lengths became inputs", values.size()));
  if (values.empty()) return absl::OkStatus();
  std::vector<std::string> were_read;
  for (const std::string& name : input_names(work.graph().inputs))
    if (reads_of(work.graph(), name) > 0) were_read.push_back(name);
  std::vector<std::string> inputs = input_names(work.graph().inputs);
  inputs.insert(inputs.end(), values.begin(), values.end());
  if (absl::Status s = call(work, "cut", {{"inputs", inputs}}); !s.ok()) return s;
  if (absl::Status s = call(work, "rename_inputs", {{"names", renamed}}); !s.ok()) return s;
  for (const std::string& name : were_read)
    if (reads_of(work.graph(), name) == 0) {
      work.drop_input(name);
      work.notes.push_back(fmt::format("input '{}', of which only lengths were computed, is gone", name));
    }
  return absl::OkStatus();
}

absl::Status choose_branch(Work& work, const Arguments& args) {
  const std::string value = args.text("value");
  const Node* found = producer_of(work.graph(), value);
  if (!found || !is_operator(*found, "If")) return args.wrong("value", value, "no If of the main graph makes it");
  const Node node = *found;
  const std::string original = work.ties.value_of(value);
  if (original.empty()) return args.wrong("value", value, "another pass has made it; choose before that");
  if (absl::Status s = inline_branch(work, node, args.text("branch"), args); !s.ok()) return s;
  work.ties.chosen[original] = args.text("branch") == "then";
  drop_unread_nodes(work);
  return absl::OkStatus();
}

absl::Status packed_attention_as_loop(Work& work, const Arguments& args) {
  return expand_all_packed(work, args, kLoop, "a Loop over MultiHeadAttention");
}

absl::Status packed_attention_as_operator(Work& work, const Arguments& args) {
  return expand_all_packed(work, args, kOperator, "PackedMultiHeadAttention");
}

}  // namespace saturate::passes
