// A decoder with a cache, run over a whole sequence in parts.
#include <limits>

#include "fmt/format.h"
#include "tools/transform/cache/cache_parts.h"

namespace saturate {
namespace {

constexpr std::int64_t kToTheEnd = std::numeric_limits<std::int64_t>::max();

class Steps {
 public:
  Steps(const CachedModel& cached, const Model& original, const CacheOptions& options, StepCache handed_on)
      : cached_(cached),
        original_(original),
        options_(options),
        handed_on_(handed_on),
        model_(cached.model),
        fresh_(cached.model.graph),
        writer_(model_.graph, fresh_) {
    Graph& graph = model_.graph;
    graph.nodes.clear();
    graph.value_info.clear();
    graph.outputs.clear();
    graph.inputs = original.graph.inputs;
    for (const CacheSlot& slot : cached.slots) caches_[slot.past] = empty(slot);
    if (!cached.given.empty()) compute_given();
  }

  Model run(const std::vector<std::int64_t>& behind) && {
    std::int64_t left = 0;
    for (const std::int64_t count : behind) left += count;
    std::int64_t start = 0;
    for (std::size_t i = 0; i <= behind.size(); ++i) {
      part(start, left == 0 ? kToTheEnd : -left);
      start = -left;
      if (i < behind.size()) left -= behind[i];
    }
    for (const ValueInfo& output : original_.graph.outputs) {
      const int axis = cached_.outputs.at(output.name);
      const auto& made = parts_.at(output.name);
      if (axis < 0)
        writer_.node("Identity", {made.back()}, "", {}, output.name);
      else
        writer_.node("Concat", made, "", {Attribute::of("axis", std::int64_t{axis})}, output.name);
      ValueInfo info = output;
      info.origin = nullptr;
      model_.graph.outputs.push_back(std::move(info));
    }
    return std::move(model_);
  }

 private:
  // Nodes of another graph, with these names for some of its values and new ones for the others.
  void inlined(Graph copy, Renaming& names) {
    for (const std::string& name : defined_names(copy))
      if (!names.contains(name) && !find_named(copy.initializers, name)) names[name] = fresh_(name);
    rename_values(copy, names, fresh_);
    for (Node& node : copy.nodes) {
      node.name = "";
      node.origin = nullptr;
      model_.graph.nodes.push_back(std::move(node));
    }
  }

  // Keys and values of what is given, before the first part.
  void compute_given() {
    Graph copy = cached_.once.graph;
    Renaming names;
    for (const ValueInfo& input : copy.inputs) names[input.name] = input.name;
    for (Initializer& weight : copy.initializers) {
      const std::string name = fresh_(weight.name);
      names[weight.name] = name;
      model_.graph.initializers.push_back({name, weight.tensor, nullptr, false});
    }
    model_.opset_imports.insert(cached_.once.opset_imports.begin(), cached_.once.opset_imports.end());
    inlined(std::move(copy), names);
    for (const CacheSlot& slot : cached_.given) {
      std::string& value = given_[slot.past] = names.at(slot.present);
      if (handed_on_ == StepCache::kGivenEmptied) value = writer_.node("Sub", {value, value}, "emptied");
    }
  }

  // The cache before the first token.
  std::string empty(const CacheSlot& slot) {
    const std::string batch = writer_.node(
        "Slice", {writer_.node("Shape", {options_.tokens[0]}, "ids_shape"), writer_.ints({0}), writer_.ints({1})}, "batch_of_ids");
    const std::int64_t past = options_.fixed ? options_.fixed->max_context - options_.fixed->window : options_.buffer.value_or(0);
    const std::string shape = writer_.node("Concat", {batch, writer_.ints({slot.heads, past, slot.size})}, "cache_shape",
                                           {Attribute::of("axis", std::int64_t{0})});
    return writer_.node("ConstantOfShape", {shape}, "empty_cache", {Attribute::of("value", Tensor(slot.dtype, {1}))});
  }

  std::string cut(const std::string& value, std::int64_t from, std::int64_t to) {
    return writer_.node("Slice", {value, writer_.ints({from}), writer_.ints({to}), writer_.ints({1})}, value + "_part");
  }

  // The positions up to `to`, of fixed number: those before the first token are hidden.
  std::string mask(const std::string& name, std::int64_t to) {
    std::string seen = cut(name, 0, to);
    if (!options_.fixed && !options_.positions_of_buffer()) return seen;
    const std::int64_t length = options_.fixed ? options_.fixed->sequence : *options_.buffer;
    const std::string shape = writer_.node(
        "Concat",
        {writer_.node("Slice", {writer_.node("Shape", {name}, "mask_shape"), writer_.ints({0}), writer_.ints({1})}, "batch_of_mask"),
         writer_.ints({length})},
        "padding_shape", {Attribute::of("axis", std::int64_t{0})});
    const ValueInfo* info = find_named(original_.graph.inputs, name);
    const std::string padding =
        writer_.node("ConstantOfShape", {shape}, "padding", {Attribute::of("value", Tensor(info->type.dtype, {1}))});
    if (options_.buffer) {  // what is behind the new tokens is not filled yet
      seen = writer_.node("Concat", {seen, padding}, "mask_of_buffer", {Attribute::of("axis", std::int64_t{1})});
      return cut(seen, 0, length);
    }
    seen = writer_.node("Concat", {padding, seen}, "padded_mask", {Attribute::of("axis", std::int64_t{1})});
    return cut(seen, -length, kToTheEnd);
  }

  // How many tokens stand in front of one that is counted from the end.
  std::string filled(std::int64_t from) {
    if (cached_.counted == CacheOptions::Counted::kShown) {
      const std::string shown =
          writer_.node("Cast", {cut(options_.masks[0], 0, from)}, "shown", {Attribute::of("to", static_cast<std::int64_t>(DType::kInt64))});
      return writer_.node("ReduceSum", {shown, writer_.ints({1})}, "filled", {Attribute::of("keepdims", std::int64_t{0})});
    }
    if (from == 0) return writer_.ints({0});
    const std::string count =
        writer_.node("Slice", {writer_.node("Shape", {options_.tokens[0]}, "ids_shape"), writer_.ints({1}), writer_.ints({2})}, "tokens");
    return writer_.node("Add", {count, writer_.ints({from})}, "filled");
  }

  void part(std::int64_t from, std::int64_t to) {
    Graph copy = cached_.model.graph;
    Renaming names;
    for (const std::string& name : options_.tokens) names[name] = cut(name, from, to);
    for (const std::string& name : options_.masks) names[name] = mask(name, to);
    for (const auto* inputs : {&options_.given, &options_.given_masks})
      for (const std::string& name : *inputs) names[name] = name;
    for (const auto* values : {&caches_, &given_})
      for (const auto& [past, value] : *values) names[past] = value;
    if (cached_.counted) names[options_.filled] = filled(from);
    inlined(std::move(copy), names);
    for (const ValueInfo& output : original_.graph.outputs) parts_[output.name].push_back(names.at(output.name));
    for (const CacheSlot& slot : cached_.slots) {
      const std::string& present = names.at(slot.present);
      caches_[slot.past] =
          options_.fixed
              ? writer_.node("Slice", {present, writer_.ints({options_.fixed->window}), writer_.ints({kToTheEnd}), writer_.ints({2})},
                             "handed_on")
              : present;
      if (handed_on_ == StepCache::kEmptied) caches_[slot.past] = writer_.node("Sub", {caches_[slot.past], caches_[slot.past]}, "emptied");
    }
  }

  const CachedModel& cached_;
  const Model& original_;
  const CacheOptions& options_;
  StepCache handed_on_;
  Model model_;
  FreshNames fresh_;
  GraphWriter writer_;
  std::map<std::string, std::string> caches_, given_;      // values by past input
  std::map<std::string, std::vector<std::string>> parts_;  // by output
};

}  // namespace

Model stepped(const CachedModel& cached, const Model& original, const CacheOptions& options, const std::vector<std::int64_t>& behind,
              StepCache handed_on) {
  return Steps(cached, original, options, handed_on).run(behind);
}

}  // namespace saturate
