#include "tools/transform/cache/cache_remove.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "onnx_bridge/model/subgraphs.h"
#include "tools/transform/cache/cache.h"
#include "tools/transform/cache/cache_buffers.h"
#include "tools/transform/cache/cache_dtype.h"
#include "tools/transform/cache/cache_sizes.h"
#include "tools/transform/cache/cache_window.h"
#include "tools/transform/edit.h"
#include "tools/transform/opset.h"

namespace saturate {
namespace {

constexpr std::int64_t kFirstRange = 11;

class CacheRemover {
 public:
  CacheRemover(const Model& model, const Decoder& decoder)
      : before_(model), decoder_(decoder), made_(model), fresh_(model.graph), writer_(front_, fresh_) {}

  absl::StatusOr<Model> run() && {
    for (const CachePair& pair : decoder_.cache) {
      computed_.insert(input(pair.past).name);
      presents_.insert(before_.graph.outputs[pair.present].name);
      if (decoder_.kind != CacheKind::kGrowing) continue;
      if (absl::Status s = empty(pair); !s.ok()) return s;
    }
    if (decoder_.cache_position) count_from_zero(input(*decoder_.cache_position));
    if (decoder_.past_length) number(input(*decoder_.past_length), writer_.ints({0}));
    if (decoder_.total_length) number(input(*decoder_.total_length), size_of_ids(1));
    Graph& graph = made_.graph;
    std::erase_if(graph.inputs, [&](const ValueInfo& info) { return computed_.contains(info.name); });
    std::erase_if(graph.outputs, [&](const ValueInfo& info) { return presents_.contains(info.name); });
    if (decoder_.attention_mask) {
      ValueInfo& mask = *find_named(graph.inputs, input(*decoder_.attention_mask).name);
      (*mask.type.shape)[1] = (*ids().type.shape)[1];
      mask.origin = nullptr;
    }
    for (ValueInfo& output : graph.outputs) forget_past(output);
    for (Node& node : graph.nodes) front_.nodes.push_back(without_past(std::move(node)));
    graph.nodes = std::move(front_.nodes);
    std::move(front_.initializers.begin(), front_.initializers.end(), std::back_inserter(graph.initializers));
    graph.value_info.clear();
    erase_unread(graph, {});
    return std::move(made_);
  }

 private:
  const ValueInfo& input(std::size_t place) const { return before_.graph.inputs[place]; }
  const ValueInfo& ids() const { return input(decoder_.input_ids); }

  // One size of the tokens, [1].
  std::string size_of_ids(int axis) {
    const DimSpec& dim = (*ids().type.shape)[static_cast<std::size_t>(axis)];
    if (const auto* size = std::get_if<std::int64_t>(&dim)) return writer_.ints({*size});
    return writer_.node("Gather", {writer_.node("Shape", {ids().name}, "ids_shape"), writer_.ints({axis})}, "size_of_ids");
  }

  // The past before the first token, in the place of the input.
  absl::Status empty(const CachePair& pair) {
    const ValueInfo& past = input(pair.past);
    const DimSpec& batch = (*ids().type.shape)[0];
    if (pair.axis < 0 || std::holds_alternative<std::int64_t>((*past.type.shape)[static_cast<std::size_t>(pair.axis)]))
      return absl::UnimplementedError(fmt::format("input '{}' is of a fixed size, and only a cache that grows can be empty", past.name));
    std::vector<std::int64_t> numbers;
    std::optional<std::size_t> batch_axis;
    for (std::size_t k = 0; k < past.type.shape->size(); ++k) {
      const DimSpec& dim = (*past.type.shape)[k];
      const auto* size = std::get_if<std::int64_t>(&dim);
      const bool counts_batch = std::holds_alternative<std::string>(dim) && dim == batch;
      if (!size && static_cast<int>(k) != pair.axis) {
        if (batch_axis || (!counts_batch && k != 0))
          return absl::UnimplementedError(
              fmt::format("input '{}': the size of its dim {} is not known; set_dims or set_shapes gives it", past.name, k));
        batch_axis = k;
      }
      numbers.push_back(static_cast<int>(k) == pair.axis ? 0 : size ? *size : 1);
    }
    axes_[past.name] = pair.axis;
    if (!batch_axis) {
      front_.initializers.push_back({past.name, Tensor(past.type.dtype, numbers), nullptr, false});
      return absl::OkStatus();
    }
    std::vector<std::string> parts;
    const auto at = numbers.begin() + static_cast<std::ptrdiff_t>(*batch_axis);
    if (at != numbers.begin()) parts.push_back(writer_.ints({numbers.begin(), at}));
    parts.push_back(size_of_ids(0));
    if (at + 1 != numbers.end()) parts.push_back(writer_.ints({at + 1, numbers.end()}));
    const std::string shape = writer_.node("Concat", parts, "empty_shape", {Attribute::of("axis", std::int64_t{0})});
    writer_.node("ConstantOfShape", {shape}, "", {Attribute::of("value", Tensor(past.type.dtype, {1}))}, past.name);
    return absl::OkStatus();
  }

  std::string as(const ValueInfo& like, const std::string& value, const std::string& name) {
    return writer_.node("Cast", {value}, like.name, {Attribute::of("to", static_cast<std::int64_t>(like.type.dtype))}, name);
  }

  // 0, 1, 2, ... for the tokens.
  void count_from_zero(const ValueInfo& positions) {
    const std::string end = writer_.node("Squeeze", {size_of_ids(1)}, "tokens");
    std::string range = writer_.node("Range", {writer_.scalar(0), end, writer_.scalar(1)}, "places");
    const std::vector<DimSpec>& dims = *positions.type.shape;
    if (dims.size() == 2) {
      const std::string shape =
          writer_.node("Concat", {size_of_ids(0), size_of_ids(1)}, "places_shape", {Attribute::of("axis", std::int64_t{0})});
      range = writer_.node("Expand", {range, shape}, "places");
    }
    as(positions, range, positions.name);
    computed_.insert(positions.name);
  }

  // One number in the input's shape, whose first dim may be the batch.
  void number(const ValueInfo& like, const std::string& value) {
    const std::vector<DimSpec> dims = like.type.shape.value_or(std::vector<DimSpec>());
    std::string at = writer_.node("Reshape", {value, writer_.ints(std::vector<std::int64_t>(dims.size(), 1))}, like.name);
    if (!dims.empty() && !std::holds_alternative<std::int64_t>(dims[0])) {
      std::vector<std::string> sizes{size_of_ids(0)};
      if (dims.size() > 1) sizes.push_back(writer_.ints(std::vector<std::int64_t>(dims.size() - 1, 1)));
      at = writer_.node("Expand", {at, writer_.node("Concat", sizes, "number_shape", {Attribute::of("axis", std::int64_t{0})})}, like.name);
    }
    as(like, at, like.name);
    computed_.insert(like.name);
  }

  // Dims that count the past have no name any more.
  void forget_past(ValueInfo& output) {
    output.origin = nullptr;
    if (!output.type.shape) return;
    for (DimSpec& dim : *output.type.shape)
      if (const auto* text = std::get_if<std::string>(&dim); text && counts_past(*text)) dim = DimSpec();
  }
  bool counts_past(const std::string& text) const {
    for (const CachePair& pair : decoder_.cache) {
      if (pair.axis < 0) continue;
      const auto* past = std::get_if<std::string>(&(*input(pair.past).type.shape)[static_cast<std::size_t>(pair.axis)]);
      const std::vector<std::string> names = dim_names(text);
      if (past && std::find(names.begin(), names.end(), *past) != names.end()) return true;
    }
    return false;
  }

  // A Concat of nothing and new tokens gives these.
  Node without_past(Node node) const {
    if (!is_operator(node, "Concat") || node.inputs.size() < 2) return node;
    const auto past = std::find_if(node.inputs.begin(), node.inputs.end(), [&](const std::string& name) { return axes_.contains(name); });
    if (past == node.inputs.end()) return node;
    const std::int64_t along = int_attribute(node, "axis", 0);
    const auto rank = static_cast<std::int64_t>(input_named(*past).type.shape->size());
    if ((along < 0 ? along + rank : along) != axes_.at(*past)) return node;
    node.inputs.erase(past);
    node.origin = nullptr;
    if (node.inputs.size() > 1) return node;
    node.op_type = "Identity";
    node.attributes.clear();
    return node;
  }
  const ValueInfo& input_named(const std::string& name) const { return *find_named(before_.graph.inputs, name); }

  const Model& before_;
  const Decoder& decoder_;
  Model made_;
  FreshNames fresh_;
  Graph front_;
  GraphWriter writer_;
  std::set<std::string> computed_, presents_;
  std::map<std::string, int> axes_;  // of tokens, by past
};

// What has an entry for each place of the buffers has one for each token.
absl::StatusOr<Model> of_tokens_alone(const Model& model, const Decoder& decoder) {
  const Graph& graph = model.graph;
  std::vector<CacheBuffer> buffers;
  for (const CachePair& pair : decoder.cache) {
    const ValueInfo& past = graph.inputs[pair.past];
    if (!past.type.shape || past.type.shape->size() != 4)
      return absl::UnimplementedError(fmt::format("input '{}' has not the dims of batch, heads, tokens and size", past.name));
    buffers.push_back({past.name, graph.outputs[pair.present].name, layout_of(model, pair) == CacheLayout::kHeadsFirst ? 2 : 1});
  }
  std::vector<std::string> masks;
  if (decoder.mask_length) masks.push_back(graph.inputs[*decoder.attention_mask].name);
  return without_buffers(model, graph.inputs[decoder.input_ids].name, buffers, masks);
}

// What has an entry for each token of a window has one for each token of all.
absl::StatusOr<Model> of_all_tokens(const Model& model, const Decoder& decoder, const std::set<std::string>& avoided) {
  const std::vector<ValueInfo>& given = model.graph.inputs;
  WindowInputs inputs;
  inputs.ids = given[decoder.input_ids].name;
  if (decoder.position_ids) inputs.positions.push_back({given[*decoder.position_ids].name, 1});
  if (decoder.cache_position) inputs.positions.push_back({given[*decoder.cache_position].name, 0});
  if (decoder.attention_mask) inputs.mask = given[*decoder.attention_mask].name;
  if (decoder.past_length) inputs.before = given[*decoder.past_length].name;
  for (const CachePair& pair : decoder.cache) inputs.pasts.push_back(given[pair.past].name);
  const absl::StatusOr<Model> fused = rewritten(model, kCacheOpset, avoided);
  return fused.ok() ? without_window(*fused, inputs) : fused;
}

// Without what has an entry for each place of a cache of a fixed size.
absl::StatusOr<Model> of_open_size(const Model& model, const Decoder& decoder, const std::set<std::string>& avoided) {
  switch (decoder.kind) {
    case CacheKind::kSliding:
      return of_all_tokens(model, decoder, avoided);
    case CacheKind::kInPlace:
      return of_tokens_alone(model, decoder);
    default:
      return model;
  }
}

// `avoided`: operators to do without on the way. kOutOfRange: what was made can't be written in the model's opset.
absl::StatusOr<Model> removed(const Model& model, const Decoder& decoder, const std::set<std::string>& avoided) {
  const absl::StatusOr<Model> without = of_open_size(model, decoder, avoided);
  if (!without.ok()) return without;
  absl::StatusOr<Model> made = CacheRemover(*without, decoder).run();
  if (!made.ok()) return made;
  const std::int64_t opset = model.opset("");
  if (made->opset("") == opset) return at_opset(*made, opset);
  absl::StatusOr<Model> written = rewritten(*made, opset);
  return written.ok() ? written : absl::OutOfRangeError(written.status().message());
}

}  // namespace

absl::StatusOr<Model> without_cache(const Model& model, const Decoder& decoder) {
  if (absl::Status s = wants_opset(model, kFirstRange); !s.ok()) return s;
  absl::StatusOr<Model> made = removed(model, decoder, {});
  // An attention that can't be written in this opset stays as it is spelled.
  if (made.status().code() == absl::StatusCode::kOutOfRange) made = removed(model, decoder, {"Attention"});
  return made;
}

}  // namespace saturate
