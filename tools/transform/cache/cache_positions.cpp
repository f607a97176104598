// What a decoder computes of positions alone, for the whole length.
#include <algorithm>
#include <limits>

#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/cache/node_axes.h"
#include "tools/transform/edit.h"

namespace saturate {

namespace {

std::string about(const Node& node, std::string_view why) {
  const std::string& name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
  return fmt::format("node '{}' ({}): {}", name, qualified_name(node.domain, node.op_type), why);
}

}  // namespace

absl::Status cannot_cache(const Node& node, std::string_view why) { return absl::UnimplementedError("no cache: " + about(node, why)); }
absl::Status cannot_remove(const Node& node, std::string_view why) { return absl::UnimplementedError(about(node, why)); }

bool is_elementwise(const Node& node) { return has(Trait::kElementwise, node) || has(Trait::kUnaryElementwise, node) || broadcasts(node); }

bool is_view(const Node& node) { return has(Trait::kView, node) || is_operator(node, "Transpose") || is_operator(node, "Expand"); }

namespace {

// The dims of what is given get one name, too.
absl::Status name_given(Model& model, const CacheOptions& options, DimNames& names) {
  for (const auto* inputs : {&options.given, &options.given_masks})
    for (const std::string& name : *inputs) {
      ValueInfo* info = find_named(model.graph.inputs, name);
      if (!info->type.shape || info->type.shape->size() < 2)
        return absl::UnimplementedError(fmt::format("no cache: input '{}': it has no dims of batch and states; declare them", name));
      DimSpec &b = (*info->type.shape)[0], &s = (*info->type.shape)[1];
      if (!names.batch.empty() && !std::holds_alternative<std::int64_t>(b)) b = names.batch;
      if (std::holds_alternative<std::int64_t>(s)) continue;
      if (names.given.empty()) names.given = std::holds_alternative<std::string>(s) ? std::get<std::string>(s) : "encoder_sequence_length";
      if (names.given == names.tokens || names.given == names.batch)
        return absl::UnimplementedError(fmt::format(
            "no cache: input '{}': its dim 1 is '{}', as that of tokens or batches; give it a name of its own, or no name (pass "
            "set_shapes)",
            name, names.given));
      s = names.given;
    }
  return absl::OkStatus();
}

// The dims that tell batch and tokens get one name each in all inputs; that of the batch is "" where it is a number.
absl::StatusOr<DimNames> with_one_name_each(Model& model, const CacheOptions& options) {
  std::string batch, tokens;
  bool first = true;
  FreshNames fresh(model.graph);
  for (const auto* names : {&options.tokens, &options.masks})
    for (const std::string& name : *names) {
      ValueInfo* info = find_named(model.graph.inputs, name);
      if (!info || !info->type.shape || info->type.shape->size() < 2)
        return absl::UnimplementedError(fmt::format("no cache: input '{}': it has no dims of batch and tokens; declare them", name));
      DimSpec &b = (*info->type.shape)[0], &t = (*info->type.shape)[1];
      if (std::holds_alternative<std::int64_t>(t))
        return absl::UnimplementedError(
            fmt::format("no cache: input '{}': the number of its tokens is fixed to {}; export the model with that dim open", name,
                        std::get<std::int64_t>(t)));
      if (first) {
        tokens = std::holds_alternative<std::string>(t) ? std::get<std::string>(t) : "sequence_length";
        batch = std::holds_alternative<std::string>(b)    ? std::get<std::string>(b)
                : std::holds_alternative<std::int64_t>(b) ? ""
                                                          : "batch_size";
        if (batch == tokens) return absl::UnimplementedError(fmt::format("no cache: input '{}': batch and tokens have one name", name));
        first = false;
      }
      if (!batch.empty() && !std::holds_alternative<std::int64_t>(b)) b = batch;
      t = tokens;
    }
  DimNames names{batch, tokens, ""};
  if (absl::Status s = name_given(model, options, names); !s.ok()) return s;
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DecoderFacts>> DecoderFacts::of(const Model& model, const CacheOptions& options) {
  Model named = model;
  const auto names = with_one_name_each(named, options);
  if (!names.ok()) return names.status();
  auto made = of_named(named, model, *names);
  if (made.ok() && !options.given.empty()) (*made)->given_dim_ = (*(*made)->shape(options.given[0]))[1];
  return made;
}

absl::StatusOr<std::unique_ptr<DecoderFacts>> DecoderFacts::as_declared(const Model& model) { return of_named(model, model, {}); }

absl::StatusOr<std::unique_ptr<DecoderFacts>> DecoderFacts::of_named(const Model& named, const Model& model, const DimNames& names) {
  auto made = std::unique_ptr<DecoderFacts>(new DecoderFacts);
  made->evaluator_ = make_evaluator();
  made->graph_ = std::make_unique<OnnxEGraph>(*made->evaluator_);
  absl::StatusOr<Lowered> lowered = lower(named, *made->graph_);
  if (!lowered.ok()) return lowered.status();
  made->lowered_ = *std::move(lowered);
  made->extents_.emplace(made->graph_->dims(), names);
  made->view_.emplace(model.graph);
  made->opsets_.insert(model.opset_imports.begin(), model.opset_imports.end());
  return made;
}

std::int64_t DecoderFacts::opset(const std::string& domain) const {
  const auto it = opsets_.find(domain);
  return it == opsets_.end() ? 1 : it->second;
}

const Facts* DecoderFacts::facts(const std::string& value) const {
  const auto it = lowered_.values.find(value);
  return it == lowered_.values.end() ? nullptr : &graph_->facts(it->second);
}

const std::vector<Dim>* DecoderFacts::shape(const std::string& value) const {
  const Facts* f = facts(value);
  return f && f->shape ? &*f->shape : nullptr;
}

int DecoderFacts::rank(const std::string& value) const {
  const auto* dims = shape(value);
  return dims ? static_cast<int>(dims->size()) : 0;
}

DType DecoderFacts::dtype(const std::string& value) const {
  const Facts* f = facts(value);
  return f ? f->dtype : DType::kUndefined;
}

bool DecoderFacts::constant(const std::string& value) const {
  const Facts* f = facts(value);
  return f && f->constant;
}

std::optional<std::vector<std::int64_t>> DecoderFacts::ints(const std::string& value) const {
  const auto it = lowered_.values.find(value);
  if (it == lowered_.values.end()) return std::nullopt;
  const auto tensor = graph_->value(it->second);
  if (!tensor) return std::nullopt;
  if (tensor->dtype() == DType::kInt64) return std::vector(tensor->span<std::int64_t>().begin(), tensor->span<std::int64_t>().end());
  if (tensor->dtype() == DType::kInt32)
    return std::vector<std::int64_t>(tensor->span<std::int32_t>().begin(), tensor->span<std::int32_t>().end());
  return std::nullopt;
}

const Node* DecoderFacts::producer(const std::string& value) const { return view_->producer(value); }

std::size_t DecoderFacts::place(const std::string& value) const {
  const Node* node = producer(value);
  return node ? view_->place_of(*node) + 1 : 0;
}

std::optional<int> reshaped_axis(const DecoderFacts& facts, const std::vector<Dim>& from, const std::vector<Dim>& to, int axis,
                                 bool in_runs) {
  DimTable& dims = facts.dims();
  const Dim behind = dims.product(std::span(from).subspan(axis + 1));
  // A token's entries stand beside each other, some along the axis and the others behind it.
  const auto of_token = [&](const std::vector<Dim>& shape, int at) -> std::optional<Dim> {
    const auto extent = facts.extents().of(shape[at]);
    if (!extent || extent->tokens != 1 || extent->given != 0) return std::nullopt;
    return dims.mul(dims.constant(extent->factor), dims.product(std::span(shape).subspan(at + 1)));
  };
  const auto run = in_runs ? of_token(from, axis) : std::nullopt;
  for (int i = 0; i < static_cast<int>(to.size()); ++i) {
    if (!facts.extents().spans(to[i]).value_or(false)) continue;
    if (dims.equal(behind, dims.product(std::span(to).subspan(i + 1)))) return i;
    const auto other = run ? of_token(to, i) : std::nullopt;
    if (other && dims.equal(*run, *other)) return i;
  }
  return std::nullopt;
}

std::string size_of(GraphWriter& writer, const std::string& value, std::int64_t axis, const std::string& hint) {
  return writer.node("Shape", {value}, hint, {Attribute::of("start", axis), Attribute::of("end", axis + 1)});
}

const std::string& PositionSide::batch() {
  const std::string& of = sizes_of_ == SizesOf::kGiven ? work_.options.given[0] : work_.options.tokens[0];
  if (batch_.empty()) batch_ = size_of(work_.writer, of, 0, "batch_size");
  return batch_;
}

const std::string& PositionSide::given() {
  if (!given_.empty()) return given_;
  if (sizes_of_ == SizesOf::kGiven) return given_ = size_of(work_.writer, work_.options.given[0], 1, "states");
  return given_ = work_.writer.fresh()("given_length");
}

const std::string& PositionSide::fresh_tokens() {
  if (!new_.empty()) return new_;
  if (work_.options.fixed) return new_ = work_.writer.ints({work_.options.fixed->window});
  return new_ = size_of(work_.writer, work_.options.tokens[0], 1, "new_tokens");
}

namespace {

std::string with_word(std::string pattern, const std::string& word, const std::string& by) {
  for (std::size_t at = pattern.find(word); at != std::string::npos; at = pattern.find(word, at + by.size()))
    pattern.replace(at, word.size(), by);
  return pattern;
}

}  // namespace

std::string slot_name(const std::string& pattern, int layer, const std::string& part) {
  return with_word(with_word(pattern, "{layer}", fmt::format("{}", layer)), "{part}", part);
}

const std::string& PositionSide::past_tokens() {
  if (!past_.empty()) return past_;
  if (const auto& fixed = work_.options.fixed) return past_ = work_.writer.ints({fixed->sequence - fixed->window});
  if (work_.options.group_query() && !work_.options.masks.empty()) {
    const std::string all = all_tokens();
    return past_ = work_.writer.node("Sub", {all, fresh_tokens()}, "past_tokens");
  }
  if (work_.options.buffer) {
    counted_ = CacheOptions::Counted::kPlaces;
    return past_ = work_.options.filled;
  }
  return past_ = size_of(work_.writer, slot_name(work_.options.past, 0, work_.options.part("key")), 2, "past_tokens");
}

const std::string& PositionSide::all_tokens() {
  if (!all_.empty()) return all_;
  if (const auto& fixed = work_.options.fixed) return all_ = work_.writer.ints({fixed->sequence});
  if (work_.options.positions_of_buffer()) return all_ = work_.writer.ints({*work_.options.buffer});
  if (work_.options.group_query() && !work_.options.masks.empty())
    return all_ = size_of(work_.writer, work_.options.masks[0], 1, "all_tokens");
  const std::string past = past_tokens();
  return all_ = work_.writer.node("Add", {past, fresh_tokens()}, "all_tokens");
}

const std::string& PositionSide::end_of_tokens() {
  if (!work_.options.positions_of_buffer()) return all_tokens();
  if (!end_.empty()) return end_;
  const std::string past = past_tokens();
  return end_ = work_.writer.node("Add", {past, fresh_tokens()}, "end_of_tokens");
}

const std::string& PositionSide::places_in_buffer(std::int64_t heads) {
  std::string& made = places_[heads];
  if (!made.empty()) return made;
  GraphWriter& w = work_.writer;
  const auto along = [&](const std::string& first, const std::string& end, const std::vector<std::int64_t>& shape) {
    const std::string from = w.node("Squeeze", {first}, "first_place"), to = w.node("Squeeze", {end}, "last_place");
    return w.node("Reshape", {w.node("Range", {from, to, w.scalar(1)}, "places"), w.ints(shape)}, "places");
  };
  const std::string whole =
      w.node("Concat", {batch(), w.ints({heads}), fresh_tokens(), w.ints({1})}, "places_shape", {Attribute::of("axis", std::int64_t{0})});
  std::vector<std::string> parts;
  for (const std::string& one : {along(w.ints({0}), batch(), {-1, 1, 1, 1}), along(w.ints({0}), w.ints({heads}), {1, -1, 1, 1}),
                                 along(past_tokens(), end_of_tokens(), {1, 1, -1, 1})})
    parts.push_back(w.node("Expand", {one, whole}, "places_of_all"));
  return made = w.node("Concat", parts, "places_in_buffer", {Attribute::of("axis", std::int64_t{-1})});
}

const std::string& PositionSide::place_of_rows() {
  if (!row_places_.empty()) return row_places_;
  const std::string past = past_tokens();
  return row_places_ = work_.writer.node("Expand", {past, batch()}, "place_of_rows");
}

absl::StatusOr<std::string> PositionSide::element(const Node& node, Dim dim, Axis axis) {
  const auto extent = work_.facts.extents().of(dim);
  if (!extent || (sizes_of_ == SizesOf::kGiven && extent->tokens > 0))
    return cannot_cache(node, fmt::format("a size of its result, {}, is no product of {}", work_.facts.dims().to_string(dim),
                                          sizes_of_ == SizesOf::kGiven ? "batch and states" : "batch and tokens"));
  std::string value;
  const auto times = [&](const std::string& by) { value = value.empty() ? by : work_.writer.node("Mul", {value, by}, "sizes_product"); };
  if (extent->factor != 1 || extent->is_number()) times(work_.writer.ints({extent->factor}));
  for (int i = 0; i < extent->batches; ++i) times(batch());
  for (int i = 0; i < extent->tokens; ++i) times(axis == Axis::kNew ? fresh_tokens() : all_tokens());
  for (int i = 0; i < extent->given; ++i) times(given());
  return value;
}

absl::StatusOr<std::string> PositionSide::sizes(const Node& node, const std::vector<Dim>& dims, const Axes& axes,
                                                const std::vector<Dim>* like, const Axes& like_axes) {
  std::vector<std::int64_t> numbers;
  std::vector<std::string> parts;
  const auto flush = [&] {
    if (!numbers.empty()) parts.push_back(work_.writer.ints(numbers));
    numbers.clear();
  };
  if (int_attribute(node, "allowzero", 0) != 0) like = nullptr;  // a 0 copies no size there
  bool open = like != nullptr;                                   // whether a -1 may still stand
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto extent = work_.facts.extents().of(dims[i]);
    const bool same = like && i < like->size() && work_.facts.dims().equal((*like)[i], dims[i]) && like_axes[i] == axes[i];
    if (extent && extent->is_number() && extent->factor != 0) {
      numbers.push_back(extent->factor);
    } else if (same) {
      numbers.push_back(0);
    } else if (open) {
      numbers.push_back(-1);
      open = false;
    } else {
      flush();
      absl::StatusOr<std::string> one = element(node, dims[i], axes[i]);
      if (!one.ok()) return one;
      parts.push_back(*std::move(one));
    }
  }
  flush();
  if (parts.empty()) return work_.writer.ints({});
  return parts.size() == 1 ? parts[0] : work_.writer.node("Concat", parts, "sizes", {Attribute::of("axis", std::int64_t{0})});
}

const std::string& PositionSide::causal() {
  if (!causal_.empty()) return causal_;
  GraphWriter& w = work_.writer;
  const auto number = [&](const std::string& one) { return w.node("Squeeze", {one}, "number_of_tokens"); };
  const std::string zero = w.scalar(0), one = w.scalar(1), all = number(all_tokens());
  const std::string keys = w.node("Range", {zero, all, one}, "key_positions");
  const std::string queries = w.node("Range", {number(past_tokens()), number(end_of_tokens()), one}, "query_positions");
  return causal_ = w.node("LessOrEqual", {keys, w.node("Unsqueeze", {queries, w.ints({1})}, "query_rows")}, "causal_mask");
}

std::string PositionSide::with_causal(const Node& node, const std::string& mask) {
  const std::string& causal = this->causal();
  if (mask.empty()) return causal;
  GraphWriter& w = work_.writer;
  if (work_.facts.dtype(node.inputs[3]) == DType::kBool) return w.node("And", {mask, causal}, "causal_mask_and");
  const std::string lowest = w.node("Constant", {}, "hidden", {Attribute::of("value_float", -std::numeric_limits<float>::infinity())});
  return w.node("Where", {causal, mask, w.node("CastLike", {lowest, mask}, "hidden_like")}, "causal_mask_where");
}

namespace {

// Of a view, the axis of its input whose entries are those of an axis of its result.
std::optional<int> axis_before_view(const DecoderFacts& facts, const Node& node, const std::string& value, int axis) {
  const auto &from = *facts.shape(node.inputs[0]), &to = *facts.shape(value);
  const auto shift = static_cast<int>(to.size()) - static_cast<int>(from.size());
  for (int i = 0; i < static_cast<int>(from.size()); ++i)
    if (facts.extents().of(from[i]).value_or(Extent()).is_tokens() &&
        (node.op_type == "Expand" ? i + shift == axis : reshaped_axis(facts, from, to, i) == axis))
      return i;
  return std::nullopt;
}

// By input, the axis whose entries make those along an axis of the result, each alone. Empty: not known.
std::vector<std::optional<int>> axes_behind(const DecoderFacts& facts, const Node& node, const std::string& value, int axis) {
  if (is_view(node) && !is_operator(node, "Transpose")) return {axis_before_view(facts, node, value, axis)};
  const auto axes = axes_of(ViewOfFacts(facts, node));
  const AxisLink* link = axes && !axes->sizes && value == node.outputs[0] ? axes->apart({0, true}, axis) : nullptr;
  if (!link) return {};
  std::vector<std::optional<int>> behind(node.inputs.size());
  for (const AxisAt& at : link->inputs)
    if (!at.one) behind[static_cast<std::size_t>(at.port.index)] = at.axis;
  return behind;
}

}  // namespace

std::string PositionSide::rows_of_place(const std::string& value, int axis) {
  const std::string to =
      work_.options.positions_of_buffer() ? end_of_tokens() : work_.writer.ints({std::numeric_limits<std::int64_t>::max()});
  return work_.writer.node("Slice", {value, past_tokens(), to, work_.writer.ints({axis})}, value + "_rows");
}

absl::StatusOr<std::string> PositionSide::rows(const Node& reader, const std::string& value, int axis, RowIndex index) {
  if (!work_.own_indices || !tells_index(value)) index = RowIndex::kOfPlace;
  if (const auto it = rows_.find({value, axis, index}); it != rows_.end()) return it->second;
  const auto extent = work_.facts.extents().of((*work_.facts.shape(value))[axis]);
  absl::StatusOr<std::string> repeated = rows_of_repeated(value, axis);
  if (!repeated.ok() || !repeated->empty()) return repeated.ok() ? rows_[{value, axis, index}] = *std::move(repeated) : repeated;
  if (!extent || !extent->is_tokens())
    return cannot_cache(reader, fmt::format("axis {} of '{}', of size {}, has not one entry a position", axis, value,
                                            work_.facts.dims().to_string((*work_.facts.shape(value))[axis])));
  std::string made;
  const Node* node = work_.facts.producer(value);
  if (node && node->outputs.size() == 1) {
    absl::StatusOr<std::string> cut = index == RowIndex::kOfToken ? rows_of_token(reader, *node, axis) : "";
    if (cut.ok() && cut->empty()) cut = rows_through(*node, value, axis, index);
    if (!cut.ok()) return cut;
    made = *std::move(cut);
  }
  if (made.empty() && node && index == RowIndex::kOfToken)
    return cannot_cache(*node, fmt::format("node '{}' ({}) reads it by the index of its token, and nothing is known of what it makes at an "
                                           "index beyond the window",
                                           reader.name, reader.op_type));
  if (made.empty()) made = rows_of_place(value, axis);
  return rows_[{value, axis, index}] = made;
}

// Of rows that are all alike, and of batches beside each other, as many as there are new tokens. "": they are not known to be.
absl::StatusOr<std::string> PositionSide::rows_of_repeated(const std::string& value, int axis) {
  const DecoderFacts& facts = work_.facts;
  const auto extent = facts.extents().of((*facts.shape(value))[axis]);
  const Node* node = facts.producer(value);
  if (!node || !extent || extent->tokens != 1 || extent->is_tokens() || !node->domain.empty()) return "";
  const bool filled = node->op_type == "ConstantOfShape";
  if (!filled && node->op_type != "Expand") return "";
  const int before = filled ? -1 : axis - facts.rank(value) + facts.rank(node->inputs[0]);
  if (before >= 0 && facts.dims().value((*facts.shape(node->inputs[0]))[before]) != 1) return "";
  Axes all(facts.rank(value), Axis::kAll);
  all[axis] = Axis::kNew;
  absl::StatusOr<std::string> shape = sizes(*node, *facts.shape(value), all, nullptr, {});
  if (!shape.ok()) return shape;
  Node copy = *node;
  copy.inputs.back() = *std::move(shape);
  return work_.writer.copy(std::move(copy)).outputs[0];
}

// The rows of what an operator makes are what it makes of rows, where it treats each alone. "": it is not known to.
absl::StatusOr<std::string> PositionSide::rows_through(const Node& node, const std::string& value, int axis, RowIndex index) {
  for (const std::string& input : node.inputs)
    if (!input.empty() && (!work_.facts.shape(input) || work_.is_token(input))) return "";
  std::vector<std::optional<int>> axes;
  if (is_elementwise(node))
    for (const std::string& input : node.inputs) axes.emplace_back(axis - work_.facts.rank(value) + work_.facts.rank(input));
  else
    axes = axes_behind(work_.facts, node, value, axis);
  Node copy = node;
  bool cut = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string& input = node.inputs[i];
    if (input.empty() || !axes[i] || *axes[i] < 0) continue;
    const auto extent = work_.facts.extents().of((*work_.facts.shape(input))[*axes[i]]);
    if (!extent || (extent->tokens > 0 && !extent->is_tokens())) return "";
    if (extent->tokens == 0) continue;
    absl::StatusOr<std::string> part = rows(node, input, *axes[i], index);
    if (!part.ok()) return part;
    copy.inputs[i] = *std::move(part);
    cut = true;
  }
  if (!cut) return "";
  if (index == RowIndex::kOfToken)
    if (absl::Status s = within_table(node); !s.ok()) return s;
  if (node.domain.empty() && one_of(node.op_type, {"Reshape", "Expand"}) && !work_.facts.constant(node.inputs[1])) {
    Axes sizes_of(work_.facts.rank(value), Axis::kAll);
    sizes_of[axis] = Axis::kNew;
    absl::StatusOr<std::string> shape = sizes(node, *work_.facts.shape(value), sizes_of, nullptr, {});
    if (!shape.ok()) return shape;
    copy.inputs[1] = *std::move(shape);
  }
  return work_.writer.copy(std::move(copy)).outputs[0];
}

}  // namespace saturate
