// Attention whose operator writes new keys and values into its buffers itself: GroupQueryAttention.
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

const std::vector<std::int64_t> kHeadsBehindRows{0, 2, 1, 3};

// What is added to scores that are hidden: lost beside any other, and finite where all of a row are.
float hidden_score(DType dtype) {
  return dtype == DType::kFloat16 ? -32752.0f : std::numeric_limits<float>::lowest() / 2;  // half of the lowest
}

}  // namespace

const std::string& PositionSide::keys_of_rows() {
  if (!keys_.empty()) return keys_;
  GraphWriter& w = work_.writer;
  const auto as_int = [&](const std::string& value, const char* hint) {
    return w.node("Cast", {value}, hint, {Attribute::of("to", static_cast<std::int64_t>(DType::kInt32))});
  };
  const std::string all = all_tokens();
  const std::string last = as_int(w.node("Sub", {all, w.ints({1})}, "last_key"), "last_key_int32");
  return keys_ = w.node("Expand", {last, batch()}, "last_key_of_rows");
}

const std::string& PositionSide::number_of_keys() {
  if (!number_of_keys_.empty()) return number_of_keys_;
  GraphWriter& w = work_.writer;
  const std::string all = all_tokens();
  return number_of_keys_ = w.node("Cast", {w.node("Squeeze", {all}, "number_of_keys")}, "number_of_keys_int32",
                                  {Attribute::of("to", static_cast<std::int64_t>(DType::kInt32))});
}

// [1 or batch, 1 or heads, new tokens, keys], to be added to scores.
std::string PositionSide::as_bias(const std::string& mask, const Node& node) {
  GraphWriter& w = work_.writer;
  const DType dtype = work_.facts.dtype(node.inputs[0]);
  const std::string& given = node.inputs[3];
  std::string made = mask;
  if (work_.facts.dtype(given) == DType::kBool) {
    const auto number = [&](float value) {
      const std::string one = w.node("Constant", {}, "score", {Attribute::of("value_float", value)});
      return dtype == DType::kFloat ? one : w.node("Cast", {one}, "score", {Attribute::of("to", static_cast<std::int64_t>(dtype))});
    };
    const std::string shown = number(0), hidden = number(hidden_score(dtype));
    made = w.node("Where", {made, shown, hidden}, "bias");
  }
  std::vector<std::int64_t> in_front;
  for (int i = work_.facts.rank(given); i < 4; ++i) in_front.push_back(static_cast<std::int64_t>(in_front.size()));
  if (!in_front.empty()) made = w.node("Unsqueeze", {made, w.ints(in_front)}, "bias");
  const std::string ones = w.ints({1, 1}), rows = fresh_tokens(), keys = all_tokens();
  const std::string shape = w.node("Concat", {ones, rows, keys}, "bias_shape", {Attribute::of("axis", std::int64_t{0})});
  return w.node("Expand", {made, shape}, "bias");
}

absl::Status WholeTokens::attend_in_group(const Node& node, const std::string& mask) {
  struct Heads {
    std::int64_t count = 0, size = 0;
  };
  std::vector<Heads> heads;
  for (const std::size_t i : {0, 1, 2}) {
    const std::vector<Dim>& dims = *work_.facts.shape(node.inputs[i]);
    const auto count = work_.facts.extents().of(dims[1]), size = work_.facts.extents().of(dims[3]);
    if (!count || !size || !count->is_number() || !size->is_number())
      return cannot_cache(node, fmt::format("the number or size of the heads of '{}' is not known", node.inputs[i]));
    heads.push_back({count->factor, size->factor});
  }
  if (heads[1].size != heads[2].size || heads[1].size % 8 != 0)
    return cannot_cache(node,
                        fmt::format("GroupQueryAttention takes heads of one size, a multiple of 8; its keys have {} and its values {}; "
                                    "write=scatter_nd takes any",
                                    heads[1].size, heads[2].size));
  std::vector<std::string> inputs;
  GraphWriter& w = work_.writer;
  for (const std::size_t i : {0, 1, 2}) {
    const std::string behind = w.node("Transpose", {node.inputs[i]}, node.inputs[i] + "_behind", {Attribute::of("perm", kHeadsBehindRows)});
    inputs.push_back(w.node("Reshape", {behind, w.ints({0, 0, heads[i].count * heads[i].size})}, node.inputs[i] + "_packed"));
  }
  std::vector<std::string> outputs{w.fresh()(node.outputs[0] + "_packed")};
  for (const std::size_t i : {1, 2}) {
    absl::StatusOr<CacheSlot> slot =
        names_.next(node, node.inputs[i], work_.options.part(i == 1 ? "key" : "value"), heads[i].count, heads[i].size);
    if (!slot.ok()) return slot.status();
    inputs.push_back(slot->past);
    outputs.push_back(slot->present);
    slots_.push_back(*std::move(slot));
  }
  inputs.push_back(positions_.keys_of_rows());
  inputs.push_back(positions_.number_of_keys());
  if (!mask.empty()) {
    inputs.insert(inputs.end(), 3, "");  // rotary tables, positions
    inputs.push_back(positions_.as_bias(mask, node));
  }
  std::vector<Attribute> attributes{Attribute::of("num_heads", heads[0].count), Attribute::of("kv_num_heads", heads[1].count)};
  for (const char* name : {"scale", "softcap"})
    if (const Attribute* a = find_attribute(node.attributes, name)) attributes.push_back(*a);
  const std::string packed = outputs[0];
  Node made = make_node("GroupQueryAttention", std::move(inputs), packed, std::move(attributes), kMicrosoftDomain);
  made.outputs = std::move(outputs);
  w.graph().nodes.push_back(std::move(made));
  const std::string apart = w.node("Reshape", {packed, w.ints({0, 0, heads[0].count, heads[0].size})}, node.outputs[0] + "_rows");
  w.node("Transpose", {apart}, "", {Attribute::of("perm", kHeadsBehindRows)}, node.outputs[0]);
  return absl::OkStatus();
}

}  // namespace saturate
