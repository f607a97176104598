// The parts that with_cache() (cache.h) is made of: what is known of the model, its position side, its keys and values.
//
// Tensors are of two sides. Those of the token side depend on what the tokens are: they are computed of the new ones alone. Those of the
// position side depend on sizes and masks alone: they are computed at the whole length, as the original does, and where the two sides meet,
// the rows of the new tokens are taken. Of an encoder-decoder there is a third side, of what is given: what is made of the encoder's states
// alone stays the same in all steps.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/graph/graph_view.h"
#include "tools/transform/cache/cache.h"
#include "tools/transform/cache/cache_sizes.h"

namespace saturate {

// "node 'x' (ReduceMean): WHY".
absl::Status cannot_cache(const Node& node, std::string_view why);
// Of taking a cache out: "node 'x' (Slice): WHY".
absl::Status cannot_remove(const Node& node, std::string_view why);

// What is known of the values of a model before it is changed.
class DecoderFacts {
 public:
  static absl::StatusOr<std::unique_ptr<DecoderFacts>> of(const Model& model, const CacheOptions& options);
  // Of dims as they are declared.
  static absl::StatusOr<std::unique_ptr<DecoderFacts>> as_declared(const Model& model);

  // nullptr: its rank is not known.
  const std::vector<Dim>* shape(const std::string& value) const;
  int rank(const std::string& value) const;  // 0 where it is not known
  DType dtype(const std::string& value) const;
  std::optional<std::vector<std::int64_t>> ints(const std::string& value) const;  // of a constant
  bool constant(const std::string& value) const;
  const Node* producer(const std::string& value) const;
  std::size_t place(const std::string& value) const;  // of its producer among the nodes; inputs have 0, nodes begin at 1
  const Extents& extents() const { return *extents_; }
  // Whether an axis has an entry for each state that is given.
  bool along_given(const std::string& value, int axis) const {
    return given_dim_ && graph_->dims().equal((*shape(value))[axis], *given_dim_);
  }
  std::int64_t opset(const std::string& domain) const;
  DimTable& dims() const { return graph_->dims(); }
  std::optional<bool> spans(const std::string& value, int axis) const { return extents_->spans((*shape(value))[axis]); }
  // Whether an axis has entries of positions, or may have.
  bool spans(const std::string& value) const {
    for (int i = 0; i < rank(value); ++i)
      if (spans(value, i).value_or(true)) return true;
    return false;
  }

 private:
  DecoderFacts() = default;
  static absl::StatusOr<std::unique_ptr<DecoderFacts>> of_named(const Model& named, const Model& model, const DimNames& names);
  const Facts* facts(const std::string& value) const;

  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<OnnxEGraph> graph_;
  Lowered lowered_;
  std::optional<Extents> extents_;
  std::optional<Dim> given_dim_;
  std::optional<GraphView> view_;
  std::map<std::string, std::int64_t> opsets_;
};

// That each input is one of tokens or masks.
absl::Status check_inputs(const Model& model, const CacheOptions& options);
// Masks behind an Identity each.
Model with_masks_apart(Model model, const CacheOptions& options);

// The dims of a decoder with a cache, as its inputs and outputs declare them.
struct CacheDims {
  DimSpec batch, fresh, past, all, present, given;
};
// Of a cache, or of a part of one, that holds so many tokens.
ValueType type_of(const CacheSlot& slot, const DimSpec& batch, const DimSpec& tokens);
CacheDims cache_dims(const Graph& graph, const CacheOptions& options);
// Inputs with these dims, and the caches among inputs and outputs.
void declare_caches(CachedModel& made, const CacheOptions& options, const CacheDims& dims);

// What compares the index of a token with a number, which is another one in each window; comparisons of two indices say how far they are
// from each other.
class IndexComparisons {
 public:
  explicit IndexComparisons(const DecoderFacts& facts) : facts_(facts) {}
  // Whether a value of the position side is made of such a comparison. What is not known of is left to verification.
  bool in(const std::string& value);

 private:
  // How much the value grows where all indices grow by one; nullopt: not known.
  std::optional<int> growth(const std::string& value);
  std::optional<int> growth(const Node& node);
  bool holds_anywhere(const Node& node) const;
  std::optional<std::int64_t> first_index(const std::string& value) const;
  const DecoderFacts& facts_;
  std::map<std::string, bool> in_;
  std::map<std::string, std::optional<int>> growth_;
};

// Which index a row of the position side has: that of its place in what is attended to, or that of its token among all that came. The two
// differ in a window.
enum class RowIndex : std::uint8_t { kOfPlace, kOfToken };

// What all parts share.
struct CacheWork {
  const DecoderFacts& facts;
  const CacheOptions& options;
  GraphWriter& writer;
  bool own_indices = false;                 // in a window: tokens keep the index that they had among all that came
  std::map<std::string, Axes> tokens = {};  // of values of the token side
  std::set<std::string> positional = {};    // those of them that depend on where their token stands
  std::set<std::string> scattered =
      {};  // those in which the entries of a token may stand apart along one axis: all tokens, again and again
  bool is_token(const std::string& value) const { return tokens.contains(value); }
};

// Keys or values as a cache could hold them.
struct HeadLayout {
  std::vector<std::int64_t> ones;   // axes of one entry, which are taken out first
  std::vector<std::int64_t> order;  // of the others: as batch, heads, tokens, size; three where there are no heads
  bool in_order() const { return std::is_sorted(order.begin(), order.end()); }
  bool has_heads() const { return order.size() == 4; }
  std::int64_t heads = 1, size = 1;
};
// Of a value with tokens, or what is given, along this axis; nullopt: it has not the dims that a cache could have.
std::optional<HeadLayout> head_layout(const DecoderFacts& facts, const std::string& value, int along);
// From this layout to [batch, heads, tokens, size], and back. `name`: of the result; "": one that is made of `like`.
std::string in_cache_order(GraphWriter& writer, const HeadLayout& layout, const std::string& value, const std::string& like,
                           const std::string& name = "");
std::string out_of_cache_order(GraphWriter& writer, const HeadLayout& layout, const std::string& value, const std::string& like,
                               const std::string& name = "");

// Among a value and what it is a view of, the smallest that has a layout; of equal ones that with heads, and in the cache's order. "":
// none.
std::string smallest_view(const DecoderFacts& facts, const std::string& value, const std::function<bool(const std::string&)>& on_side,
                          const std::function<std::optional<HeadLayout>(const std::string&)>& layout);

// Names of caches, by part in the order of their layers.
class SlotNames {
 public:
  explicit SlotNames(CacheWork& work) : work_(work) {}
  absl::StatusOr<CacheSlot> next(const Node& reader, const std::string& value, const std::string& part, std::int64_t heads,
                                 std::int64_t size);

 private:
  CacheWork& work_;
  std::map<std::string, int> layers_;  // so far, by part
};

// Where sizes are read: of the inputs of a step, or of what is given.
enum class SizesOf : std::uint8_t { kStep, kGiven };

// Numbers and rows of the position side.
class PositionSide {
 public:
  explicit PositionSide(CacheWork& work, SizesOf sizes_of = SizesOf::kStep) : work_(work), sizes_of_(sizes_of), comparisons_(work.facts) {}
  // The number of new tokens, of earlier ones, of both, of batches: tensors of one element.
  const std::string& fresh_tokens();
  const std::string& past_tokens();
  const std::string& all_tokens();
  const std::string& end_of_tokens();  // the position behind the last new one
  const std::string& given();          // how many there are of what is given; in a step GivenSide::finish makes it
  // Indices of the new tokens in a buffer of so many heads: [batch, heads, new tokens, 3].
  const std::string& places_in_buffer(std::int64_t heads);
  // Where each row of a batch begins in a buffer: [batch].
  const std::string& place_of_rows();
  // What GroupQueryAttention reads: the index of the last key of each row, int32 of [batch], and the number of keys, int32 of [].
  const std::string& keys_of_rows();
  const std::string& number_of_keys();
  // A mask that this attention reads, as what is added to its scores.
  std::string as_bias(const std::string& mask, const Node& node);
  const std::string& batch();
  // int64 of rank 1: the sizes of these dims, where an axis is of new tokens or of all positions. `like`: of what a Reshape is given, whose
  // equal dims may be copied; null: plain sizes.
  absl::StatusOr<std::string> sizes(const Node& node, const std::vector<Dim>& dims, const Axes& axes, const std::vector<Dim>* like,
                                    const Axes& like_axes);
  // The rows of the new tokens along an axis of one entry a position.
  absl::StatusOr<std::string> rows(const Node& reader, const std::string& value, int axis, RowIndex index);
  // [new, all]: whether a token may see a position.
  const std::string& causal();
  // A mask that this attention reads, "" where there is none, and the causal one.
  std::string with_causal(const Node& node, const std::string& mask);
  std::optional<CacheOptions::Counted> counted() const { return counted_; }
  // Whether its entries depend on the index of a place, and not only on how places stand to each other.
  bool tells_index(const std::string& value);

 private:
  absl::StatusOr<std::string> element(const Node& node, Dim dim, Axis axis);
  absl::StatusOr<std::string> rows_through(const Node& node, const std::string& value, int axis, RowIndex index);
  std::string rows_of_place(const std::string& value, int axis);
  absl::StatusOr<std::string> rows_of_repeated(const std::string& value, int axis);
  // Of what makes indices: what it makes at those of the new tokens. "": it makes none that are known.
  absl::StatusOr<std::string> rows_of_token(const Node& reader, const Node& node, int axis);
  absl::StatusOr<std::string> range_of_token(const Node& reader, const Node& node);
  absl::StatusOr<std::string> sum_of_token(const Node& reader, const Node& node, int axis);
  absl::StatusOr<std::string> cut_of_token(const Node& reader, const Node& node, int axis);
  absl::Status within_table(const Node& node) const;
  std::optional<std::int64_t> last_index(const std::string& value, std::int64_t tokens) const;
  std::optional<std::pair<std::int64_t, std::int64_t>> range_of_constant(const std::string& value) const;
  bool shows_mask(const std::string& value) const;
  absl::StatusOr<std::string> before(const Node& reader, CacheOptions::Counted counted);
  CacheWork& work_;
  SizesOf sizes_of_;
  IndexComparisons comparisons_;
  std::string given_, new_, past_, all_, end_, batch_, causal_, row_places_, keys_, number_of_keys_;
  std::map<std::int64_t, std::string> places_;  // by heads
  std::map<std::tuple<std::string, int, RowIndex>, std::string> rows_;
  std::optional<CacheOptions::Counted> counted_;
};

// Keys and values at all positions.
class WholeTokens {
 public:
  WholeTokens(CacheWork& work, PositionSide& positions) : work_(work), positions_(positions), names_(work) {}
  // `value`, which has an entry for each new token, with one for each position: earlier ones come from a cache.
  absl::StatusOr<std::string> whole(const Node& reader, const std::string& value, const std::string& part);
  // Attention by GroupQueryAttention, which takes the caches and gives them back. `mask`: of its rows; "": none.
  absl::Status attend_in_group(const Node& node, const std::string& mask);
  std::vector<CacheSlot> take_slots() && { return std::move(slots_); }

 private:
  std::optional<HeadLayout> layout(const std::string& value) const;
  absl::StatusOr<std::string> place(const Node& reader, const std::string& value) const;
  absl::StatusOr<std::string> above_positions(const Node& reader, const std::string& value) const;
  absl::Status positional_sources(const std::string& value, std::map<std::size_t, std::string>& found) const;
  absl::StatusOr<std::string> cached(const Node& reader, const std::string& value, const std::string& part);
  std::string joined(const CacheSlot& slot, const std::string& now);
  absl::StatusOr<std::string> remade(const Node& reader, const std::string& value);
  CacheWork& work_;
  PositionSide& positions_;
  SlotNames names_;
  std::map<std::string, std::string> whole_;  // by value
  std::vector<CacheSlot> slots_;
};

// What is made of CacheOptions::given alone.
class GivenSide {
 public:
  explicit GivenSide(CacheWork& work);
  bool has(const std::string& value) const { return values_.contains(value); }
  // Of a node that reads such values, and nothing of the tokens.
  void take(const Node& node) { values_.insert(node.outputs.begin(), node.outputs.end()); }
  // Keys or values that `reader` attends to become an input of the step.
  absl::Status attended(const Node& reader, const std::string& value, const std::string& part);
  // At the end: what takes the inputs in a step, `length`, which tells how many there are, and the model that computes the inputs.
  void finish(Graph& step, const std::string& length) const;
  absl::StatusOr<Model> once(const Model& model) const;
  const std::vector<CacheSlot>& slots() const { return slots_; }

 private:
  absl::StatusOr<std::set<const Node*>> needed(const Model& model, std::set<std::string>& inputs) const;
  CacheWork& work_;
  SlotNames names_;
  std::set<std::string> values_;
  std::vector<CacheSlot> slots_;
  std::vector<std::pair<std::string, HeadLayout>> cached_;  // the value of each slot
};

// Where a Reshape puts the entries of an axis; nullopt: they don't stay apart. `in_runs`: several that a token has stand beside each other.
std::optional<int> reshaped_axis(const DecoderFacts& facts, const std::vector<Dim>& from, const std::vector<Dim>& to, int axis,
                                 bool in_runs = true);
bool is_elementwise(const Node& node);
// Whether it changes nothing but where axes are: a view, Transpose, Expand.
bool is_view(const Node& node);
// One size of a value, [1].
std::string size_of(GraphWriter& writer, const std::string& value, std::int64_t axis, const std::string& hint);
// A pattern of CacheOptions as a name.
std::string slot_name(const std::string& pattern, int layer, const std::string& part);

}  // namespace saturate
