#include "tools/transform/cache/cache_dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kernels/inputs/types.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/subgraphs.h"
#include "tools/transform/cache/cache_sizes.h"
#include "tools/transform/edit.h"
#include "tools/transform/precision/calibration.h"

namespace saturate {
namespace {

constexpr std::size_t kRank = 4;
constexpr float kLargestCode = 127;

// 0 where it is no number.
std::int64_t number_of(const Model& model, const CachePair& pair, int axis) {
  for (const ValueInfo* info : {&model.graph.inputs[pair.past], &model.graph.outputs[pair.present]})
    if (info->type.shape && info->type.shape->size() == kRank)
      if (const auto* number = std::get_if<std::int64_t>(&(*info->type.shape)[static_cast<std::size_t>(axis)])) return *number;
  return 0;
}

void see(const Tensor& present, CacheRange& range) {
  for (std::int64_t i = 0; i < present.size(); ++i) {
    const auto value = static_cast<float>(std::abs(element_as_double(present, i).value_or(0)));
    float& largest = range.largest[range.place(present.dims(), i)];
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
}

// Of one cache: the nodes that bring its tokens into fewer bits, and back.
class Coder {
 public:
  Coder(GraphWriter& writer, const CacheCode& code, const CacheRange* range, DType before) : writer_(writer), code_(code), before_(before) {
    if (range) make_scales(*range);
  }

  std::string encode(const std::string& value, const std::string& name = "") {
    if (scale_.empty())
      return writer_.node("Cast", {value}, value + "_coded", {Attribute::of("to", static_cast<std::int64_t>(code_.dtype))}, name);
    std::string at = as_float(value);
    if (!entries_.empty()) at = writer_.node("Div", {at, entries_}, value + "_scaled");
    return writer_.node("QuantizeLinear", {at, scale_, zero_}, value + "_coded", {Attribute::of("axis", axis_)}, name);
  }

  void decode(const std::string& value, const std::string& name) {
    const bool scaled = !entries_.empty(), last_cast = before_ != DType::kFloat;
    std::string at = value;
    const auto step = [&](const char* op, std::vector<std::string> inputs, std::vector<Attribute> attributes, bool is_last) {
      at = writer_.node(op, std::move(inputs), value + "_decoded", std::move(attributes), is_last ? name : "");
    };
    if (!scale_.empty()) step("DequantizeLinear", {at, scale_, zero_}, {Attribute::of("axis", axis_)}, !scaled && !last_cast);
    if (scaled) step("Mul", {at, entries_}, {}, !last_cast);
    if (scale_.empty() || last_cast) step("Cast", {at}, {Attribute::of("to", static_cast<std::int64_t>(before_))}, true);
  }

 private:
  std::string as_float(const std::string& value) {
    if (before_ == DType::kFloat) return value;
    return writer_.node("Cast", {value}, value + "_float", {Attribute::of("to", static_cast<std::int64_t>(DType::kFloat))});
  }
  std::string constant(const char* hint, Tensor tensor) {
    const std::string name = writer_.fresh()(hint);
    writer_.graph().initializers.push_back({name, std::move(tensor), nullptr, false});
    return name;
  }

  // A head has one scale, or its entries have one each, and the operator has 1.
  void make_scales(const CacheRange& range) {
    const bool by_head = code_.scales == CacheScales::kHead;
    std::vector<float> scales = scales_of(range, code_.scales);
    axis_ = range.heads_axis;
    const Shape dims = by_head ? Shape{range.heads} : Shape{};
    if (!by_head) {
      Shape entries{1, 1, 1, range.size};
      entries[static_cast<std::size_t>(axis_)] = range.heads;
      entries_ = constant("cache_scales", Tensor::of<float>(DType::kFloat, entries, std::span<const float>(scales)));
      scales = {1};
    }
    scale_ = constant("cache_scales", Tensor::of<float>(DType::kFloat, dims, std::span<const float>(scales)));
    zero_ = constant("cache_zero", Tensor(DType::kInt8, dims));
  }

  GraphWriter& writer_;
  const CacheCode& code_;
  DType before_;
  std::string scale_, zero_, entries_;  // "" where they are not needed
  std::int64_t axis_ = 1;
};

// The inputs by which an operator takes new tokens into the cache `past`; none: it does something else, too.
std::vector<std::size_t> new_operands(const Node& node, const std::string& past) {
  const Attribute* reduction = find_attribute(node.attributes, "reduction");
  if (!node.domain.empty() || (reduction && reduction->s() != "none")) return {};
  if (one_of(node.op_type, {"ScatterND", "ScatterElements"}) && node.inputs[0] == past) return {2};
  if (node.op_type == "TensorScatter" && node.inputs[0] == past) return {1};
  if (node.op_type != "Concat" || std::count(node.inputs.begin(), node.inputs.end(), past) != 1) return {};
  std::vector<std::size_t> out;
  for (std::size_t k = 0; k < node.inputs.size(); ++k)
    if (node.inputs[k] != past) out.push_back(k);
  return out;
}

class CacheCoder {
 public:
  CacheCoder(const Model& model, const Decoder& decoder, const CacheCode& code)
      : before_(model), code_(code), done_{model}, fresh_(model.graph), writer_(made_, fresh_) {
    for (const CachePair& pair : decoder.cache) slots_.push_back(apart(pair));
  }

  absl::StatusOr<CodedCache> run() && {
    const auto types = inferred_types(before_);
    if (!types.ok()) return types.status();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      slot.coder.emplace(writer_, code_, code_.ranges.empty() ? nullptr : &code_.ranges[i], slot.before);
      slot.coder->decode(slot.past, slot.past_inside);
    }
    Graph& graph = done_.model.graph;
    for (Node& node : graph.nodes) add(std::move(node), *types);
    for (Slot& slot : slots_)
      if (!slot.is_written) slot.coder->encode(slot.present_inside, slot.present);
    graph.nodes = std::move(made_.nodes);
    std::move(made_.initializers.begin(), made_.initializers.end(), std::back_inserter(graph.initializers));
    graph.value_info.clear();
    erase_unread(graph, {});
    done_.written = static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.is_written; }));
    done_.whole = slots_.size() - done_.written;
    return std::move(done_);
  }

 private:
  struct Slot {
    std::string past, present;                // as inputs and outputs
    std::string past_inside, present_inside;  // in the dtype that they had
    DType before = DType::kFloat;
    std::optional<Coder> coder = {};
    bool is_written = false;
  };

  // The cache's input and output in the new dtype, and other names for the values inside.
  Slot apart(const CachePair& pair) {
    Graph& graph = done_.model.graph;
    ValueInfo &past = graph.inputs[pair.past], &present = graph.outputs[pair.present];
    Slot slot{past.name, present.name, fresh_(past.name + "_inside"), fresh_(present.name + "_inside"), past.type.dtype};
    rename_values(graph, {{slot.past, slot.past_inside}, {slot.present, slot.present_inside}}, fresh_);
    past.name = slot.past;
    present.name = slot.present;
    for (ValueInfo* info : {&past, &present}) {
      info->type.dtype = code_.dtype;
      info->origin = nullptr;
    }
    return slot;
  }

  void add(Node node, const std::map<std::string, ValueType>& types) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (is_operator(node, "Shape")) {
        if (node.inputs[0] == slot.past_inside) node.inputs[0] = slot.past;
      } else if (node.outputs[0] == slot.present_inside) {
        const std::vector<std::size_t> operands = new_operands(node, slot.past_inside);
        const bool apart =
            std::all_of(operands.begin(), operands.end(), [&](std::size_t k) { return has_scales(types, node.inputs[k], i); });
        if (operands.empty() || !apart) continue;
        for (const std::size_t k : operands) node.inputs[k] = slot.coder->encode(node.inputs[k]);
        std::replace(node.inputs.begin(), node.inputs.end(), slot.past_inside, slot.past);
        node.outputs[0] = slot.present;
        node.origin = nullptr;
        made_.nodes.push_back(std::move(node));
        slot.coder->decode(slot.present, slot.present_inside);
        slot.is_written = true;
        return;
      }
    }
    made_.nodes.push_back(std::move(node));
  }

  // Whether new tokens have the heads and entries of the cache on the same axes.
  bool has_scales(const std::map<std::string, ValueType>& types, const std::string& value, std::size_t i) const {
    if (code_.ranges.empty()) return true;
    const CacheRange& range = code_.ranges[i];
    const auto it = types.find(value);
    if (it == types.end() || !it->second.shape || it->second.shape->size() != kRank) return false;
    const std::vector<DimSpec>& dims = *it->second.shape;
    return dims[static_cast<std::size_t>(range.heads_axis)] == DimSpec(range.heads) && dims.back() == DimSpec(range.size);
  }

  const Model& before_;
  const CacheCode& code_;
  CodedCache done_;
  FreshNames fresh_;
  Graph made_;
  GraphWriter writer_;
  std::vector<Slot> slots_;
};

}  // namespace

CacheLayout layout_of(const Model& model, const CachePair& pair) {
  if (pair.axis >= 0) return pair.axis == 1 ? CacheLayout::kTokensFirst : CacheLayout::kHeadsFirst;
  return number_of(model, pair, 1) > number_of(model, pair, 2) ? CacheLayout::kTokensFirst : CacheLayout::kHeadsFirst;
}

std::size_t CacheRange::place(const Shape& dims, std::int64_t i) const {
  std::int64_t behind = 1;
  for (std::size_t axis = static_cast<std::size_t>(heads_axis) + 1; axis < dims.size(); ++axis) behind *= dims[axis];
  return static_cast<std::size_t>(i / behind % heads * size + i % size);
}

std::vector<float> scales_of(const CacheRange& range, CacheScales scales) {
  const std::int64_t together = scales == CacheScales::kHead ? range.size : 1;
  std::vector<float> out;
  for (auto at = range.largest.begin(); at != range.largest.end(); at += together) {
    const float largest = *std::max_element(at, at + together);
    out.push_back(largest > kLargestCode * std::numeric_limits<float>::min() ? largest / kLargestCode : 1);
  }
  return out;
}

absl::StatusOr<std::vector<CacheRange>> cache_sizes(const Model& model, const Decoder& decoder) {
  std::vector<CacheRange> out;
  for (const CachePair& pair : decoder.cache) {
    const ValueInfo& past = model.graph.inputs[pair.past];
    const auto unknown = [&](const char* why) { return absl::UnimplementedError(fmt::format("input '{}': {}", past.name, why)); };
    if (!past.type.shape || past.type.shape->size() != kRank) return unknown("scales need its dims of batch, heads, tokens and size");
    CacheRange range;
    range.heads_axis = layout_of(model, pair) == CacheLayout::kTokensFirst ? 2 : 1;
    range.heads = number_of(model, pair, range.heads_axis);
    range.size = number_of(model, pair, 3);
    if (range.heads < 1 || range.size < 1) return unknown("how many heads it has, and of what size, is not known; set_dims gives numbers");
    range.largest.assign(static_cast<std::size_t>(range.heads * range.size), 0);
    out.push_back(std::move(range));
  }
  return out;
}

absl::Status measure_cache(const Model& model, const Decoder& decoder, const Texts& texts, int threads, std::vector<CacheRange>& ranges) {
  SessionOptions options;
  options.threads = threads;
  const auto session = Session::create(model, options);
  if (!session.ok()) return session.status();
  const RunModel run = run_by(*session);
  Stepper stepper(model, decoder, {}, [&](Inputs inputs) {
    auto outputs = run(std::move(inputs));
    for (std::size_t i = 0; i < decoder.cache.size() && outputs.ok(); ++i) see((*outputs)[decoder.cache[i].present].tensor(), ranges[i]);
    return outputs;
  });
  return step_through(stepper, texts);
}

absl::StatusOr<CodedCache> with_cache_dtype(const Model& model, const Decoder& decoder, const CacheCode& code) {
  return CacheCoder(model, decoder, code).run();
}

}  // namespace saturate
