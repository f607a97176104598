// The token side of a decoder: along its tokens it computes each alone, but for attention.
#include <algorithm>
#include <limits>
#include <set>

#include "fmt/format.h"
#include "onnx_bridge/model/node_order.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/cache_parts.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

class TokenFlow {
 public:
  TokenFlow(const Model& model, const CacheOptions& options, const DecoderFacts& facts, bool own_indices)
      : model_(model),
        fresh_(model.graph),
        writer_(result_.graph, fresh_),
        work_{facts, options, writer_, own_indices},
        positions_(work_),
        whole_(work_, positions_),
        given_(work_) {}

  absl::StatusOr<CachedModel> run() && {
    result_ = model_;
    result_.graph.nodes.clear();
    result_.graph.value_info.clear();
    for (const std::string& name : work_.options.tokens) {
      Axes& axes = work_.tokens[name];
      axes.resize(work_.facts.rank(name), Axis::kNone);
      axes[1] = Axis::kNew;
    }
    for (const Node& node : model_.graph.nodes)
      if (absl::Status s = see(node); !s.ok()) return s;
    std::vector<CacheSlot> slots = std::move(whole_).take_slots();
    if (slots.empty()) return absl::UnimplementedError("no cache: no attention was found that puts tokens beside each other");
    const CacheDims dims = cache_dims(result_.graph, work_.options);
    declare_outputs(dims);
    absl::StatusOr<Model> once = given_.once(model_);
    if (!once.ok()) return once.status();
    given_.finish(result_.graph, positions_.given());
    CachedModel made{.model = std::move(result_), .slots = std::move(slots), .given = given_.slots(), .once = *std::move(once)};
    made.counted = positions_.counted();
    declare_caches(made, work_.options, dims);
    erase_unread(made.model.graph, {});
    drop_unread_given(made.model.graph);
    for (const ValueInfo& output : model_.graph.outputs) {
      int& axis = made.outputs[output.name] = -1;
      if (token(output.name))
        for (int i = 0; i < rank(output.name); ++i)
          if (axes(output.name)[i] == Axis::kNew) axis = i;
    }
    return made;
  }

 private:
  using Handler = absl::Status (TokenFlow::*)(const Node& node);

  const DecoderFacts& facts() const { return work_.facts; }
  bool token(const std::string& value) const { return work_.is_token(value); }
  const Axes& axes(const std::string& value) const { return work_.tokens.at(value); }
  int rank(const std::string& value) const { return facts().rank(value); }
  // Whether axis `i` of a value of the position side has entries of positions.
  bool spans(const std::string& value, int i) const { return facts().spans(value, i).value_or(true); }
  bool spans(const std::string& value) const { return facts().spans(value); }

  absl::Status see(const Node& node) {
    const std::vector<std::string> read = names_read(node);
    if (node.domain.empty() && node.op_type == "Shape" && (token(node.inputs[0]) || given_.has(node.inputs[0]))) return shape(node);
    if (is_mask(node)) return mask(node);
    if (std::none_of(read.begin(), read.end(), [&](const std::string& name) { return token(name); })) {
      if (std::any_of(read.begin(), read.end(), [&](const std::string& name) { return given_.has(name); })) given_.take(node);
      writer_.graph().nodes.push_back(node);
      return absl::OkStatus();
    }
    for (const std::string& name : read)
      if (!name.empty() && !facts().shape(name))
        return cannot_cache(node, fmt::format("the rank of '{}', which it reads, is not known", name));
    for (const std::string& name : node.outputs)
      if (!name.empty() && !facts().shape(name)) return cannot_cache(node, fmt::format("the rank of its result '{}' is not known", name));
    const Handler handler = handler_of(node);
    if (!handler) return cannot_cache(node, "nothing is known of what it does along the tokens");
    return (this->*handler)(node);
  }

  static Handler handler_of(const Node& node) {
    if (is_elementwise(node)) return &TokenFlow::elementwise;
    if (!node.domain.empty()) return nullptr;
    if (has(Trait::kReduction, node)) return &TokenFlow::reduction;
    static const std::map<std::string_view, Handler> by_name{
        {"MatMul", &TokenFlow::product},
        {"Gemm", &TokenFlow::gemm},
        {"Attention", &TokenFlow::attention},
        {"RotaryEmbedding", &TokenFlow::rotary},
        {"Gather", &TokenFlow::gather},
        {"GatherElements", &TokenFlow::gather_elements},
        {"GatherND", &TokenFlow::gather_nd},
        {"Slice", &TokenFlow::slice},
        {"Split", &TokenFlow::along_axis},
        {"Concat", &TokenFlow::concat},
        {"Softmax", &TokenFlow::along_axis},
        {"LogSoftmax", &TokenFlow::along_axis},
        {"Hardmax", &TokenFlow::along_axis},
        {"LpNormalization", &TokenFlow::along_axis},
        {"TopK", &TokenFlow::along_axis},
        {"ArgMax", &TokenFlow::arg},
        {"ArgMin", &TokenFlow::arg},
        {"LayerNormalization", &TokenFlow::norm},
        {"RMSNormalization", &TokenFlow::norm},
        {"CumSum", &TokenFlow::cumulative},
        {"Transpose", &TokenFlow::transpose},
        {"Reshape", &TokenFlow::reshape},
        {"Flatten", &TokenFlow::view},
        {"Squeeze", &TokenFlow::view},
        {"Unsqueeze", &TokenFlow::view},
        {"Expand", &TokenFlow::expand},
        {"Tile", &TokenFlow::tile},
    };
    const auto it = by_name.find(node.op_type);
    return it == by_name.end() ? nullptr : it->second;
  }

  // Writes the node with other inputs; all its results have these axes.
  absl::Status made(const Node& node, std::vector<std::string> inputs, const Axes& result) {
    const bool sized = node.domain.empty() && one_of(node.op_type, {"Reshape", "Expand", "Slice"});
    const auto tells_position = [&](const std::string& input) {
      if (token(input)) return work_.positional.contains(input);
      const bool sizes = sized && &input != node.inputs.data();
      return !input.empty() && !sizes && positions_.tells_index(input);
    };
    return made(node, std::move(inputs), result, std::any_of(node.inputs.begin(), node.inputs.end(), tells_position));
  }
  // `positional`: whether results depend on where the tokens stand.
  absl::Status made(const Node& node, std::vector<std::string> inputs, const Axes& result, bool positional) {
    Node changed = node;
    if (inputs != node.inputs) changed.origin = nullptr;
    changed.inputs = std::move(inputs);
    writer_.graph().nodes.push_back(std::move(changed));
    mark(node, result, positional);
    return absl::OkStatus();
  }
  void mark(const Node& node, const Axes& result, bool positional) {
    for (const std::string& output : node.outputs)
      if (!output.empty()) {
        work_.tokens[output] = result;
        if (positional) work_.positional.insert(output);
      }
  }

  bool is_mask(const Node& node) const {
    const auto& masks = work_.options.masks;
    return node.op_type == "Identity" && std::find(masks.begin(), masks.end(), node.inputs[0]) != masks.end();
  }
  // Says what its name can't: it is as long as the cache and the new tokens together.
  absl::Status mask(const Node& node) {
    const std::string sizes =
        writer_.node("Concat", {writer_.ints({0}), positions_.all_tokens()}, "mask_sizes", {Attribute::of("axis", std::int64_t{0})});
    writer_.node("Reshape", {node.inputs[0], sizes}, "", {}, node.outputs[0]);
    return absl::OkStatus();
  }

  // A size of the token side is one of the whole length, as all numbers of the position side.
  absl::Status shape(const Node& node) {
    const std::vector<Dim>* dims = facts().shape(node.inputs[0]);
    if (!dims) return cannot_cache(node, fmt::format("the rank of '{}' is not known", node.inputs[0]));
    const auto rank = static_cast<std::int64_t>(dims->size());
    const auto at = [&](const char* name, std::int64_t otherwise) {
      const std::int64_t i = int_attribute(node, name, otherwise);
      return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank);
    };
    const std::int64_t first = at("start", 0), last = std::max(at("end", rank), first);
    const std::vector<Dim> part(dims->begin() + first, dims->begin() + last);
    const absl::StatusOr<std::string> made = positions_.sizes(node, part, Axes(part.size(), Axis::kAll), nullptr, {});
    if (!made.ok() && !given_.has(node.inputs[0])) return made.status();
    if (made.ok())
      writer_.node("Identity", {*made}, "", {}, node.outputs[0]);
    else
      writer_.graph().nodes.push_back(node);
    return absl::OkStatus();
  }

  // Keys and values of cross attention are computed once; anything else of what is given is computed in each step.
  void drop_unread_given(Graph& graph) const {
    std::erase_if(graph.inputs, [&](const ValueInfo& input) {
      const auto& given = work_.options.given;
      return std::find(given.begin(), given.end(), input.name) != given.end() && reads_of(graph, input.name) == 0;
    });
  }

  // What an operator reads of a value whose last axes stand on those of its result.
  absl::StatusOr<std::string> beside(const Node& node, const std::string& value, const Axes& result) {
    if (value.empty() || token(value)) return value;
    std::string at = value;
    const int shift = static_cast<int>(result.size()) - rank(value);
    // Beside all positions a token stands at its place among them.
    const bool scores = std::find(result.begin(), result.end(), Axis::kAll) != result.end();
    for (int i = 0; i < rank(value); ++i)
      if (spans(value, i) && result[i + shift] == Axis::kNew) {
        absl::StatusOr<std::string> rows = positions_.rows(node, value, i, scores ? RowIndex::kOfPlace : RowIndex::kOfToken);
        if (!rows.ok()) return rows;
        if (at != value) return cannot_cache(node, fmt::format("'{}' has two axes of new tokens", value));
        at = *std::move(rows);
      } else if (result[i + shift] == Axis::kNew && facts().along_given(value, i)) {
        return cannot_cache(node, fmt::format("tokens stand beside the entries of '{}', which is given", value));
      }
    return at;
  }

  // The axes of a result on which those of the inputs stand; an error where new tokens meet all positions.
  absl::StatusOr<Axes> joined(const Node& node, const std::vector<std::string>& inputs, int result_rank) {
    Axes result(result_rank, Axis::kNone);
    const auto put = [&](Axis& into, Axis axis) {
      const bool clash = into != Axis::kNone && axis != Axis::kNone && into != axis;
      if (axis != Axis::kNone) into = axis;
      return !clash;
    };
    for (const std::string& input : inputs) {
      if (input.empty() || !token(input)) continue;
      const int shift = result_rank - rank(input);
      for (int i = 0; i < rank(input); ++i)
        if (!put(result[i + shift], axes(input)[i]))
          return cannot_cache(node,
                              fmt::format("'{}' stands along all positions for one input and along the new tokens for another", input));
    }
    for (const std::string& input : inputs) {
      if (input.empty() || token(input)) continue;
      const int shift = result_rank - rank(input);
      for (int i = 0; i < rank(input); ++i)
        if (spans(input, i) && result[i + shift] == Axis::kNone) result[i + shift] = Axis::kAll;
    }
    return result;
  }

  absl::Status elementwise(const Node& node) {
    const absl::StatusOr<Axes> result = joined(node, node.inputs, rank(node.outputs[0]));
    if (!result.ok()) return result.status();
    std::vector<std::string> inputs;
    for (const std::string& input : node.inputs) {
      absl::StatusOr<std::string> read = beside(node, input, *result);
      if (!read.ok()) return read.status();
      inputs.push_back(*std::move(read));
    }
    return made(node, std::move(inputs), *result);
  }

  absl::Status mixes(const Node& node) {
    const std::string_view help =
        is_operator(node, "CumSum") ? "; where it counts tokens that are no padding, put padding_by_mask before" : "";
    return cannot_cache(node, fmt::format("it mixes tokens, so that a new one changes what was computed of earlier ones{}", help));
  }

  // A normalization or choice along one axis, a Split: each of the others is apart.
  absl::Status along(const Node& node, std::int64_t axis) {
    if (!token(node.inputs[0])) return cannot_cache(node, "its parameters depend on tokens");
    Axes result = axes(node.inputs[0]);
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(result.size()) : axis);
    if (result[at] == Axis::kNew) return mixes(node);
    if (result[at] == Axis::kAll && one_of(node.op_type, {"Split", "TopK"})) return mixes(node);
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty() && (token(node.inputs[i]) || spans(node.inputs[i])))
        return cannot_cache(node, fmt::format("its input '{}' depends on tokens", node.inputs[i]));
    return made(node, node.inputs, result);
  }
  absl::Status along_axis(const Node& node) { return along(node, int_attribute(node, "axis", node.op_type == "Split" ? 0 : -1)); }
  absl::Status cumulative(const Node& node) {
    const auto axis = facts().ints(node.inputs[1]);
    if (!axis || axis->size() != 1) return cannot_cache(node, "its axis is no constant");
    return along(node, (*axis)[0]);
  }
  absl::Status norm(const Node& node) {
    const std::int64_t given = int_attribute(node, "axis", -1);
    const int rank = this->rank(node.inputs[0]);
    for (auto i = static_cast<int>(given < 0 ? given + rank : given); i < rank; ++i)
      if (token(node.inputs[0]) && axes(node.inputs[0])[i] != Axis::kNone) return mixes(node);
    return along(node, -1);
  }

  absl::Status reduced(const Node& node, std::vector<std::int64_t> over, bool keep) {
    const Axes& from = axes(node.inputs[0]);
    const auto rank = static_cast<std::int64_t>(from.size());
    for (std::int64_t& axis : over) axis = axis < 0 ? axis + rank : axis;
    Axes result;
    for (std::int64_t i = 0; i < rank; ++i) {
      const bool gone = std::find(over.begin(), over.end(), i) != over.end();
      if (gone && from[i] == Axis::kNew) return mixes(node);
      if (!gone)
        result.push_back(from[i]);
      else if (keep)
        result.push_back(Axis::kNone);
    }
    return made(node, node.inputs, result);
  }
  absl::Status reduction(const Node& node) {
    std::vector<std::int64_t> over;
    if (!token(node.inputs[0])) return cannot_cache(node, "its axes depend on tokens");
    if (node.inputs.size() > 1 && !node.inputs[1].empty()) {
      const auto given = facts().ints(node.inputs[1]);
      if (!given) return cannot_cache(node, "its axes are no constants");
      over = *given;
    }
    if (over.empty() && int_attribute(node, "noop_with_empty_axes", 0) == 0)
      for (int i = 0; i < rank(node.inputs[0]); ++i) over.push_back(i);
    return reduced(node, over, int_attribute(node, "keepdims", 1) != 0);
  }
  absl::Status arg(const Node& node) { return reduced(node, {int_attribute(node, "axis", 0)}, int_attribute(node, "keepdims", 1) != 0); }

  absl::Status tile(const Node& node) {
    const auto repeats = facts().ints(node.inputs[1]);
    if (!token(node.inputs[0]) || !repeats) return cannot_cache(node, "its repeats are no constants");
    const Axes& from = axes(node.inputs[0]);
    for (std::size_t i = 0; i < from.size(); ++i)
      if (from[i] != Axis::kNone && (*repeats)[i] != 1) return cannot_cache(node, "it repeats the tokens");
    return made(node, node.inputs, from);
  }

  // Scores, sums of values by weights, and products with weights.
  absl::Status product(const Node& node) {
    const std::string &a = node.inputs[0], &b = node.inputs[1];
    const int ra = rank(a), rb = rank(b);
    if (ra < 2 || rb < 2) return cannot_cache(node, "an operand has less than two dims");
    const auto kind = [&](const std::string& v, int i) { return token(v) ? axes(v)[i] : spans(v, i) ? Axis::kAll : Axis::kNone; };
    std::vector<std::string> inputs = node.inputs;
    const Axis summed_a = kind(a, ra - 1), summed_b = kind(b, rb - 2);
    if (token(a) && summed_a == Axis::kNew) return mixes(node);
    Axis row = kind(a, ra - 2), column = kind(b, rb - 1);
    const auto whole_b = [&](const char* part) -> absl::Status {
      absl::StatusOr<std::string> all = whole_.whole(node, b, part);
      if (!all.ok()) return all.status();
      inputs[1] = *std::move(all);
      return absl::OkStatus();
    };
    if (given_.has(b))
      if (absl::Status s = given_.attended(node, b, facts().along_given(b, rb - 1) ? "key" : "value"); !s.ok()) return s;
    if (token(b) && summed_b == Axis::kNew) {
      if (summed_a != Axis::kAll) return mixes(node);
      if (absl::Status s = whole_b("value"); !s.ok()) return s;
      if (!token(a) && row == Axis::kAll) {  // sums over positions by weights that depend on positions alone
        absl::StatusOr<std::string> rows = positions_.rows(node, a, ra - 2, RowIndex::kOfPlace);
        if (!rows.ok()) return rows.status();
        inputs[0] = *std::move(rows);
        row = Axis::kNew;
      }
    } else if (summed_a != summed_b) {
      return mixes(node);
    } else if (token(b) && column == Axis::kNew && row != Axis::kNone) {
      if (row == Axis::kAll) return cannot_cache(node, "keys stand before queries");
      if (absl::Status s = whole_b("key"); !s.ok()) return s;
      column = Axis::kAll;
    }
    return batched(node, std::move(inputs), row, column);
  }
  // The axes in front of the last two broadcast.
  absl::Status batched(const Node& node, std::vector<std::string> inputs, Axis row, Axis column) {
    const int r = rank(node.outputs[0]);
    Axes result(r, Axis::kNone);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string& value = node.inputs[i];
      for (int at = 0; at < rank(value) - 2; ++at) {
        const Axis axis = token(value) ? axes(value)[at] : spans(value, at) ? Axis::kAll : Axis::kNone;
        if (axis == Axis::kNone) continue;
        Axis& into = result[at + r - rank(value)];
        if (!token(value) || (into != Axis::kNone && into != axis) || inputs[i] != value)
          return cannot_cache(node, "new tokens stand beside all positions");
        into = axis;
      }
    }
    result[r - 2] = row;
    result[r - 1] = column;
    if (inputs[1] == node.inputs[1]) return made(node, std::move(inputs), result);
    const bool scores = column == Axis::kAll;  // of queries and keys, which tell how far two tokens are from each other
    return made(node, std::move(inputs), result, !scores && work_.positional.contains(node.inputs[1]));
  }
  absl::Status gemm(const Node& node) {
    if (!token(node.inputs[0]) || int_attribute(node, "transA", 0) != 0 || axes(node.inputs[0])[1] != Axis::kNone) return mixes(node);
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty() && (token(node.inputs[i]) || spans(node.inputs[i])))
        return cannot_cache(node, fmt::format("its input '{}' depends on tokens", node.inputs[i]));
    return made(node, node.inputs, {axes(node.inputs[0])[0], Axis::kNone});
  }

  absl::Status attention(const Node& node) {
    std::vector<std::string> inputs = node.inputs;
    inputs.resize(std::max<std::size_t>(inputs.size(), 4));
    for (std::size_t i = 4; i < inputs.size(); ++i)
      if (!inputs[i].empty()) return cannot_cache(node, "it has a cache already");
    for (std::size_t i = 1; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) return cannot_cache(node, fmt::format("its output '{}' is read", node.outputs[i]));
    const Axes heads{Axis::kNone, Axis::kNone, Axis::kNew, Axis::kNone};
    if (!token(inputs[0]) || axes(inputs[0]) != heads) return cannot_cache(node, "its queries are not of new tokens");
    if (given_.has(inputs[1]) && given_.has(inputs[2])) return cross_attention(node, std::move(inputs));
    for (const std::size_t i : {1, 2}) {
      if (!token(inputs[i]) || axes(inputs[i]) != heads)
        return cannot_cache(node, "it attends to something else than the tokens themselves, and than what is given");
      if (work_.options.group_query()) continue;
      absl::StatusOr<std::string> all = whole_.whole(node, inputs[i], i == 1 ? "key" : "value");
      if (!all.ok()) return all.status();
      inputs[i] = *std::move(all);
    }
    if (!inputs[3].empty()) {
      absl::StatusOr<std::string> mask = beside(node, inputs[3], {Axis::kNone, Axis::kNone, Axis::kNew, Axis::kAll});
      if (!mask.ok()) return mask.status();
      if (token(inputs[3]))
        for (int i = 1; i <= std::min(2, rank(inputs[3])); ++i)
          if (const Axis axis = axes(inputs[3])[rank(inputs[3]) - i]; axis != Axis::kNone && axis != (i == 1 ? Axis::kAll : Axis::kNew))
            return cannot_cache(node, "its mask depends on what the tokens are; give the mask as an input");
      inputs[3] = *std::move(mask);
    }
    // Queries and keys tell how far two tokens are from each other; what is taken of a token is its value.
    const bool positional = work_.positional.contains(node.inputs[2]);
    if (work_.options.group_query()) {
      mark(node, heads, positional);
      return whole_.attend_in_group(node, inputs[3]);  // which is causal by itself
    }
    Node changed = node;
    if (int_attribute(node, "is_causal", 0) != 0) {
      inputs[3] = positions_.with_causal(node, inputs[3]);
      std::erase_if(changed.attributes, [](const Attribute& a) { return a.name == "is_causal"; });
      changed.origin = nullptr;
    }
    if (inputs[3].empty()) inputs.resize(3);
    return made(changed, std::move(inputs), heads, positional);
  }
  // Of new tokens, to what is given.
  absl::Status cross_attention(const Node& node, std::vector<std::string> inputs) {
    if (int_attribute(node, "is_causal", 0) != 0) return cannot_cache(node, "it hides some of what is given by the index of a token");
    for (const std::size_t i : {1, 2})
      if (absl::Status s = given_.attended(node, inputs[i], i == 1 ? "key" : "value"); !s.ok()) return s;
    const Axes heads = axes(inputs[0]);
    if (inputs[3].empty()) {
      inputs.resize(3);
    } else if (token(inputs[3])) {
      return cannot_cache(node, "its mask depends on what the tokens are; give the mask as an input");
    } else {
      absl::StatusOr<std::string> mask = beside(node, inputs[3], {Axis::kNone, Axis::kNone, Axis::kNew, Axis::kNone});
      if (!mask.ok()) return mask.status();
      inputs[3] = *std::move(mask);
    }
    const bool positional = work_.positional.contains(inputs[0]);
    return made(node, std::move(inputs), heads, positional);
  }
  absl::Status rotary(const Node& node) {
    std::vector<std::string> inputs = node.inputs;
    if (!token(inputs[0])) return cannot_cache(node, "it turns something else than tokens");
    const Axes result = axes(inputs[0]);
    const int at = result.size() == 3 ? 1 : 2;
    for (int i = 0; i < static_cast<int>(result.size()); ++i)
      if (result[i] != (i == at ? Axis::kNew : Axis::kNone)) return mixes(node);
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i].empty()) continue;
      if (token(inputs[i])) {
        if (axes(inputs[i])[1] != Axis::kNew) return mixes(node);
        continue;
      }
      if (!spans(inputs[i])) continue;
      absl::StatusOr<std::string> rows = positions_.rows(node, inputs[i], 1, RowIndex::kOfToken);
      if (!rows.ok()) return rows.status();
      inputs[i] = *std::move(rows);
    }
    return made(node, std::move(inputs), result);
  }

  absl::Status gather(const Node& node) {
    const std::string &data = node.inputs[0], &indices = node.inputs[1];
    const std::int64_t given = int_attribute(node, "axis", 0);
    const auto axis = static_cast<int>(given < 0 ? given + rank(data) : given);
    Axes result;
    const auto put = [&](const std::string& value, int from, int to) {
      for (int i = from; i < to; ++i) result.push_back(token(value) ? axes(value)[i] : spans(value, i) ? Axis::kAll : Axis::kNone);
    };
    put(data, 0, axis);
    put(indices, 0, rank(indices));
    put(data, axis + 1, rank(data));
    if (token(data) && axes(data)[axis] == Axis::kNew) {
      const auto at = facts().ints(indices);
      if (!at || std::any_of(at->begin(), at->end(), [](std::int64_t i) { return i != -1; }))
        return cannot_cache(node, "it takes tokens out of all; only the last one is sure to be a new one");
    } else if (token(data) && axes(data)[axis] == Axis::kAll) {
      return cannot_cache(node, "it takes scores of some positions out of all");
    } else if (!token(data) && spans(data)) {
      return cannot_cache(node, fmt::format("tokens choose rows of '{}', which depends on positions", data));
    }
    return made(node, node.inputs, result);
  }
  absl::Status gather_elements(const Node& node) {
    const std::int64_t given = int_attribute(node, "axis", 0);
    const auto axis = static_cast<std::size_t>(given < 0 ? given + rank(node.inputs[0]) : given);
    if (!token(node.inputs[0]) || !token(node.inputs[1]) || axes(node.inputs[0]) != axes(node.inputs[1]) ||
        axes(node.inputs[0])[axis] != Axis::kNone)
      return mixes(node);
    return made(node, node.inputs, axes(node.inputs[0]));
  }

  absl::Status gather_nd(const Node& node) {
    const std::string &data = node.inputs[0], &indices = node.inputs[1];
    const auto depth = facts().shape(indices) ? facts().extents().of(facts().shape(indices)->back()) : std::nullopt;
    if (!token(data) || token(indices) || spans(indices) || int_attribute(node, "batch_dims", 0) != 0 || !depth || !depth->is_number())
      return cannot_cache(node, "which entries it takes depends on tokens");
    Axes result(rank(indices) - 1, Axis::kNone);
    for (int i = 0; i < rank(data); ++i)
      if (i >= depth->factor)
        result.push_back(axes(data)[i]);
      else if (axes(data)[i] != Axis::kNone)
        return cannot_cache(node, "it takes tokens out of all");
    return made(node, node.inputs, result);
  }

  absl::Status slice(const Node& node) {
    if (!token(node.inputs[0])) return cannot_cache(node, "where it cuts depends on tokens");
    Axes result = axes(node.inputs[0]);
    std::vector<std::optional<std::vector<std::int64_t>>> given;
    for (std::size_t i = 1; i < 5; ++i)
      given.push_back(i < node.inputs.size() && !node.inputs[i].empty() ? facts().ints(node.inputs[i]) : std::nullopt);
    const auto &from = *facts().shape(node.inputs[0]), &to = *facts().shape(node.outputs[0]);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] == Axis::kNone || facts().dims().equal(from[i], to[i])) continue;
      const auto extent = facts().extents().of(to[i]);
      const auto& axes_given = given[2];
      const auto at =
          axes_given ? std::find_if(axes_given->begin(), axes_given->end(),
                                    [&](std::int64_t a) {
                                      return (a < 0 ? a + static_cast<std::int64_t>(result.size()) : a) == static_cast<std::int64_t>(i);
                                    })
                     : std::vector<std::int64_t>::const_iterator();
      const bool last = axes_given && at != axes_given->end() && given[0] && (*given[0])[at - axes_given->begin()] == -1;
      if (result[i] != Axis::kNew || !last || (extent && !(*extent == Extent{}) && extent->tokens > 0))
        return cannot_cache(node, "it takes tokens out of all; only the last one is sure to be a new one");
      result[i] = Axis::kNone;
    }
    // Cuts that keep all tokens may count on how many there were.
    std::vector<std::string> inputs = node.inputs;
    for (std::size_t i = 1; i < inputs.size(); ++i)
      if (!inputs[i].empty() && !given[i - 1]) {
        if (!whole_cut(node, inputs)) return cannot_cache(node, "where it cuts is no constant");
        break;
      }
    return made(node, std::move(inputs), result);
  }
  // Ends that are sizes of the axes become "to the end".
  bool whole_cut(const Node& node, std::vector<std::string>& inputs) {
    const auto starts = facts().ints(inputs[1]);
    if (!starts || inputs.size() < 4 || !facts().ints(inputs[3]) || (inputs.size() > 4 && !facts().ints(inputs[4]))) return false;
    const auto &from = *facts().shape(node.inputs[0]), &to = *facts().shape(node.outputs[0]);
    for (const std::int64_t axis : *facts().ints(inputs[3])) {
      const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(from.size()) : axis);
      if (!facts().dims().equal(from[at], to[at])) return false;
    }
    inputs[2] = writer_.ints(std::vector<std::int64_t>(starts->size(), std::numeric_limits<std::int64_t>::max()));
    return true;
  }

  absl::Status concat(const Node& node) {
    const std::int64_t given = int_attribute(node, "axis", 0);
    const auto axis = static_cast<std::size_t>(given < 0 ? given + rank(node.outputs[0]) : given);
    for (const std::string& input : node.inputs)
      if (token(input) ? axes(input)[axis] != Axis::kNone : spans(input, static_cast<int>(axis))) return mixes(node);
    return elementwise(node);
  }

  absl::Status transpose(const Node& node) {
    const Axes& from = axes(node.inputs[0]);
    const Attribute* perm = find_attribute(node.attributes, "perm");
    Axes result(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) result[i] = from[perm ? perm->ints()[i] : from.size() - 1 - i];
    return made(node, node.inputs, result);
  }

  // The axes of a result of the same entries in the same order.
  absl::StatusOr<Axes> viewed(const Node& node) {
    if (!token(node.inputs[0])) return cannot_cache(node, "its shape depends on tokens");
    const auto &from = *facts().shape(node.inputs[0]), &to = *facts().shape(node.outputs[0]);
    Axes result(to.size(), Axis::kNone);
    for (int i = 0; i < static_cast<int>(from.size()); ++i) {
      const Axis axis = axes(node.inputs[0])[i];
      if (axis == Axis::kNone) continue;
      const auto at = reshaped_axis(facts(), from, to, i);
      if (!at || result[*at] != Axis::kNone)
        return cannot_cache(node, fmt::format("tokens, along axis {} of '{}', don't stay apart", i, node.inputs[0]));
      result[*at] = axis;
    }
    return result;
  }
  absl::Status view(const Node& node) {
    const absl::StatusOr<Axes> result = viewed(node);
    return result.ok() ? made(node, node.inputs, *result) : result.status();
  }
  absl::Status reshape(const Node& node) {
    const absl::StatusOr<Axes> result = viewed(node);
    if (!result.ok()) return result.status();
    return resized(node, *result, facts().shape(node.inputs[0]), axes(node.inputs[0]));
  }
  absl::Status expand(const Node& node) {
    const absl::StatusOr<Axes> result = joined(node, {node.inputs[0]}, rank(node.outputs[0]));
    if (!result.ok()) return result.status();
    Axes axes = *result;
    for (int i = 0; i < static_cast<int>(axes.size()); ++i)
      if (axes[i] == Axis::kNone && spans(node.outputs[0], i)) axes[i] = Axis::kAll;
    return resized(node, axes, nullptr, {});
  }
  // With sizes of its own, unless they are constants, which count no tokens.
  absl::Status resized(const Node& node, const Axes& result, const std::vector<Dim>* like, const Axes& like_axes) {
    std::vector<std::string> inputs = node.inputs;
    if (!facts().constant(inputs[1])) {
      absl::StatusOr<std::string> sizes = positions_.sizes(node, *facts().shape(node.outputs[0]), result, like, like_axes);
      if (!sizes.ok()) return sizes.status();
      inputs[1] = *std::move(sizes);
    }
    return made(node, std::move(inputs), result);
  }

  // Dims of outputs that count tokens.
  void declare_outputs(const CacheDims& dims) {
    for (ValueInfo& output : result_.graph.outputs) {
      output.origin = nullptr;
      if (!token(output.name) || !output.type.shape) continue;
      if (output.type.shape->size() != axes(output.name).size()) output.type.shape.emplace(axes(output.name).size());  // wrongly declared
      for (std::size_t i = 0; i < output.type.shape->size(); ++i)
        if (const Axis axis = axes(output.name)[i]; axis != Axis::kNone) {
          const auto extent = facts().extents().of((*facts().shape(output.name))[i]);
          (*output.type.shape)[i] = extent && extent->is_tokens() ? (axis == Axis::kNew ? dims.fresh : dims.all) : DimSpec();
        }
    }
  }

  const Model& model_;
  Model result_;
  FreshNames fresh_;
  GraphWriter writer_;
  CacheWork work_;
  PositionSide positions_;
  WholeTokens whole_;
  GivenSide given_;
};

}  // namespace

absl::StatusOr<CachedModel> with_cache(const Model& model, const CacheOptions& options) {
  if (absl::Status s = check_inputs(model, options); !s.ok()) return s;
  const Model apart = with_masks_apart(model, options);
  const auto facts = DecoderFacts::of(apart, options);
  if (!facts.ok()) return facts.status();
  absl::StatusOr<CachedModel> made = TokenFlow(apart, options, **facts, false).run();
  return absl::IsFailedPrecondition(made.status()) ? TokenFlow(apart, options, **facts, true).run() : made;
}

}  // namespace saturate
