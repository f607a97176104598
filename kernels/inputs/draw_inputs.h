// Random inputs for a model of which nothing is known but its declared types: sizes for its symbolic dims, values that it is likely to
// accept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/inputs/input_uses.h"
#include "onnx_bridge/model/evaluator.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

using Sizes = std::map<std::string, std::int64_t>;  // symbol -> size
using Inputs = std::map<std::string, Value>;
using Twins = std::map<std::string, std::string>;

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): the same numbers on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  double uniform();                        // [0, 1)
  double normal();                         // mean 0, deviation 1
  std::int64_t below(std::int64_t limit);  // [0, limit)

 private:
  std::uint64_t state_;
};

// What a size that is an input says of an operator's result.
enum class SizeRole : std::uint8_t {
  kShape,   // sizes of its axes, of those in `axes` where there are any; ends of a slice
  kScales,  // result over data
  kParts,   // lengths of the parts of an axis
  kBegins,
  kAxes,
  kSteps,
  kOfAxis,  // the size of one axis
  kGrid,    // of the image that a grid samples (AffineGrid)
};
struct SizeInput {
  std::string input;
  SizeRole role = SizeRole::kShape;
  std::string data = {};  // what it is for, and its declared dims; "": nothing
  std::optional<std::vector<DimSpec>> dims = {};
  std::vector<std::optional<std::vector<DimSpec>>> results = {};  // declared dims
  std::int64_t axis = 0;
  std::vector<std::int64_t> axes = {};
};

// What integers that aren't known to be indices are drawn from.
enum class IntStyle : std::uint8_t {
  kMask,  // 0 and 1, the first of each row 1 (no row of a mask is all off)
  kOnes,
  kZeros,
  kSmall,     // 1, 2 and 3
  kCount,     // 0, 1, 2, ... along the tensor
  kCompared,  // what the model compares them with, by DrawStyle::phase; at last another number
  kLength,    // DrawStyle::length where the model reads a length of other inputs, else as kMask
};
// How far numbers lie from what is usual: integers of no known role, and floats.
enum class Reach : std::uint8_t {
  kUsual,
  kScaled,     // floats by turns times 1e4, times 1e-4, and close together far from 0; integers large of both signs, and close together
  kQuantized,  // where quantizers read them: floats on and beside the edges between steps, and beyond the range; integers of the whole
               // range
  kQuiet,      // floats near 0, by turns smooth with silence at the end, 1e-3 and 1e-6 of the usual size, and 0
  kEdges,      // on and beside what the models compare them with, halves of small whole numbers; first and last rows of tables
  kSpecial,    // floats with a NaN, an infinity, a -0.0 or a denormal now and then; integers at the ends of their range, 0 and -1
  kSwitched,   // switches all off, and masks off where rows begin (padding on the left); then flags as they fall, and counts beyond 1
};
// Floats: what sign and spread. Indices into tables are drawn over the whole table, or below 2.
struct DrawStyle {
  IntStyle ints = IntStyle::kMask;
  bool whole_tables = true;
  bool positive = false;     // floats in [0, 1) instead of normal ones
  bool full_masks = false;   // masks that hide nothing
  bool hiding = false;       // 1 hides in a mask, and the first of each row is 0
  bool float_masks = false;  // floats that the model takes from 1 are 0 and 1, too
  Reach reach = Reach::kUsual;
  std::int64_t phase = 0;                    // which of the kinds of far numbers the first row has, or which of the ways of switches
  bool usual_ints = false;                   // `reach` holds for floats alone
  bool negative_ids = false;                 // ids count from the end of their table now and then
  double scale = 1;                          // of usual floats
  std::int64_t length = 1;                   // see IntStyle::kLength
  bool told_sizes = false;                   // sizes that operators are given as inputs fit the declared shapes
  bool held = false;                         // no float lies beyond the range of the quantizer that reads it
  bool other_defaults = false;               // inputs with a default get other numbers than it has
  bool absent = false;                       // inputs that may be absent are
  int items = 2;                             // of a sequence
  std::set<std::string> masks = {};          // inputs that are masks, as whatever floats the model takes them
  std::size_t zeros_from = ~std::size_t{0};  // bytes from which on an input of floats is zeros, which take no memory
};

class InputDrawer {
 public:
  // `fixed`: sizes that the user gave; by symbol.
  explicit InputDrawer(const Model& model, Sizes fixed = {});
  // Free symbols in order of first use. Dims without a name are symbols of their own: "input[1]".
  const std::vector<std::string>& symbols() const { return symbols_; }
  // Symbols that stand on the same axis of inputs of one rank as an earlier symbol: by symbol, the first of them. Exporters name dims apart
  // that are equal whenever the model runs (batches, the lengths of all caches).
  const Twins& twins() const { return twins_; }
  // Whether `reach` changes anything that is drawn.
  bool has_reach() const;
  bool has_floats() const;
  bool has_ids() const;  // integers that index tables
  // Inputs of one element, whatever the sizes, that are flags or integers: they may choose branches and count turns. As a mask they are 1.
  std::size_t switches() const;
  // Flags and integers of more elements that nothing more is known of.
  bool has_masks() const;
  // Whether quantized values are read, or made of inputs as they are.
  bool has_quantizers() const;
  // Whether some input is compared with constants, and whether one tells a length of others.
  bool has_landmarks() const;
  bool tells_lengths() const;
  // Whether inputs have defaults that are small enough to be drawn, are optional, are sequences.
  bool has_defaults() const;
  bool has_optionals() const { return has_kind(ValueType::Kind::kOptional); }
  bool has_sequences() const { return has_kind(ValueType::Kind::kSequence); }
  // Whether sizes of operators are inputs.
  bool tells_sizes() const { return !size_inputs_.empty(); }
  // How many numbers IntStyle::kCompared may draw; 0: no integer is compared with a constant.
  std::int64_t compared_ints() const;
  // What may be the length of others at these sizes: sums of two sizes and sizes, the largest first.
  std::vector<std::int64_t> lengths(const Sizes& sizes) const;
  // Numbers of an equal model that inputs are compared with are drawn, too.
  void see_other(const Model& other);
  // For inputs without a rank: other drawers, in each of which all inputs have one, those first that the model's operators are likely to
  // take. Then one whose open dims have the sizes that operators ask for, if they ask. Empty where there is nothing to choose.
  std::vector<InputDrawer> alternatives() const;
  bool has_unknown_rank() const;
  // kUnimplemented: an input's type can't be drawn (maps and the like); kOutOfRange: dims that make no tensor.
  absl::StatusOr<Inputs> draw(const Sizes& sizes, const DrawStyle& style, std::uint64_t seed) const;
  // The user's words for one input's dims ("x" = {1,3,224,224}, -1: leave it) as sizes of symbols; a message where they clash. They are its
  // rank where it has none.
  std::optional<std::string> fix(const std::string& input, const std::vector<std::int64_t>& dims);

 private:
  struct Input {
    ValueInfo info;
    std::optional<std::int64_t> table;  // rows of the table that it indexes
    bool mask = false;                  // a float that the model takes from 1
    ShapeHint asked;                    // what the model's operators want of its shape
    bool has_default = false;
    std::optional<QuantizerHint> quantizer = {};  // of floats
    bool dequantized = false;                     // integers that are quantized values
    bool step = false;                            // floats that are scales of quantized values
    std::vector<double> compared = {};            // constants that it is compared with
    std::optional<std::int64_t> length = {};      // it is a length of other inputs less this
    std::optional<Tensor> default_value = {};     // of a few bytes, where it may be overridden
  };
  absl::StatusOr<Value> draw_value(const Input& input, const ValueType& type, const Sizes& sizes, const DrawStyle& style,
                                   Random& random) const;
  void collect_symbols();
  void add_landmarks(const std::vector<double>& constants);
  bool open(const Input& input) const;
  bool has_kind(ValueType::Kind kind) const;
  static bool is_mask(const Input& input);
  static bool is_switch(const Input& input);
  std::vector<Input> inputs_;
  std::vector<std::string> symbols_;
  Twins twins_;
  std::vector<std::string> words_;  // categories that encoders of the model know; others may be refused
  std::vector<double> landmarks_;   // single constants of the models
  std::vector<LengthInputs> lengths_;
  std::vector<SizeInput> size_inputs_;
  Sizes fixed_;
};

// Size of a dim written as a name or a sum, difference or product of names and numbers ("past + seq", "2*N"); a name that is
// missing in `sizes` (the whole text counts as one if it isn't such an expression) gives nullopt.
std::optional<std::int64_t> evaluate_dim(const std::string& text, const Sizes& sizes);
// The same of a declared dim: its number, or what its text says; nullopt where it is open.
std::optional<std::int64_t> dim_size(const DimSpec& dim, const Sizes& sizes);
// Bytes of all inputs at these sizes. Dims that are known by none of them count as 1.
std::size_t input_bytes(const Model& model, const Sizes& sizes);
// The names in it.
std::vector<std::string> dim_names(const std::string& text);

}  // namespace saturate
