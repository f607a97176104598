// The parts that without_window() (cache_window.h) is made of.
//
// Values that depend on what the tokens are get an entry for each token where they had one for each of the window, or for each place. The
// others, of masks, sizes and constants, are made again where they meet such a value: their axes mean nothing before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/cache/cache_window.h"

namespace saturate {

struct WindowWork {
  const Model& model;
  const DecoderFacts& facts;
  const WindowInputs& inputs;
  GraphWriter& writer;
  std::int64_t window = 1;  // tokens
  std::int64_t places = 1;  // that tokens attend to
  std::string tokens = {};  // how many there are, [1]

  std::int64_t size(const std::string& value, int axis) const;  // -1: no number
};

// Axes of a value: of the window's tokens (or, beside places, of all places), and of places. A `row` below 0 stands in front of all axes.
struct Placed {
  std::optional<int> row, column;
  auto operator<=>(const Placed&) const = default;
};

// Values that don't depend on what the tokens are, with an entry for each token.
class WindowSide {
 public:
  explicit WindowSide(WindowWork& work);
  // `value` as `reader` reads it, which takes its axes `at` for those.
  absl::StatusOr<std::string> at_tokens(const Node& reader, const std::string& value, Placed at);
  // [tokens, tokens]: whether a token may see another one that stands `most` - 1 in front of it at most.
  std::string visible(std::optional<std::int64_t> most);
  // Scores, or a mask that is added to them, where this is true.
  std::string hidden(const std::string& seen, const std::string& scores);
  // The shape that `node` is given (its input `shape`) with other entries at some axes of its result.
  enum class Entry : std::uint8_t {
    kTokens,  // how many there are
    kRest,    // what is left over, of a Reshape
    kOne,     // as many as there are, of an Expand
  };
  std::string resized(const Node& node, std::size_t shape, const std::map<int, Entry>& entries);
  const Tensor* constant(const std::string& value) const;

 private:
  absl::StatusOr<std::string> made(const Node& reader, const std::string& value, Placed at);
  absl::StatusOr<std::string> through(const Node& node, const std::string& value, Placed at);
  absl::StatusOr<std::string> elementwise(const Node& node, Placed at);
  absl::StatusOr<std::string> viewed(const Node& node, const std::string& value, Placed at);
  absl::StatusOr<std::string> sliced(const Node& node, const std::string& value, Placed at);
  std::optional<std::vector<Placed>> placed_inputs(const Node& node, const std::string& value, Placed at) const;
  absl::StatusOr<std::string> placed(const Node& node, const std::string& value, const std::vector<Placed>& read);
  absl::StatusOr<std::string> summed(const Node& node, Placed at);
  absl::StatusOr<std::string> largest(const Node& node, const std::string& value, Placed at);
  absl::StatusOr<std::string> expanded(const Node& node, const std::string& value, Placed at);
  absl::StatusOr<std::string> rows_of_constant(const Node& reader, const std::string& value, const Tensor& tensor, int row);
  std::string columns_of_constant(const std::string& value, const Tensor& tensor, int column);
  absl::StatusOr<std::string> by_distance(const Node& reader, const std::string& value, const Tensor& tensor, int row, int column);
  std::optional<std::string> table_behind(const std::string& value, const Tensor& tensor, int row);
  std::string counted(const std::string& value, const Tensor& tensor, int axis);
  std::string of_mask(const std::string& value, Placed at);
  absl::StatusOr<std::string> spread(const Node& reader, const std::string& value);
  bool depends_on_before(const std::string& value);
  const std::string& distance();
  std::string shaped(const std::string& value, const std::string& like, int tokens);
  std::string initializer(const std::string& like, Tensor tensor);

  WindowWork& work_;
  std::map<std::string, Tensor> constants_;
  std::map<std::tuple<std::string, Placed>, std::string> made_;
  std::map<std::string, bool> depends_;
  std::string distance_, keys_, queries_;
  std::map<std::optional<std::int64_t>, std::string> visible_;
};

// Of a view, the axis of its input whose entries are those of an axis of its result.
std::optional<int> axis_in_front_of_view(const WindowWork& work, const Node& node, int axis);
bool is_view_of_axes(const Node& node);
// Of axes of one entry it is not known which one is of the one token of a window. Attention has it in front of the last one of four.
inline bool is_row_of_heads(int rank, int axis) { return rank == 4 && axis == 2; }

}  // namespace saturate
