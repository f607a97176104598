// ONNX text: the standard's syntax (onnx/docs/Syntax.md as of onnx 1.23) and a little more. Read beyond it: quoted names everywhere
// (domains and operators too), `<>`, `[]` without a type, dtypes `type_N`, `undefined` and `opaque`, literals of every dtype,
// 0x... as the bits of a float, or as the bytes of a message that text has no syntax for (sparse tensors, lists of types, dtypes from the
// future). Numbers in tensors of float16, bfloat16 and smaller floats: with a point or an exponent they are values, without they are bits,
// as in the standard.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct TextToken {
  enum class Kind : std::uint8_t { kEnd, kName, kString, kInt, kFloat, kHex, kPunct };
  Kind kind = Kind::kEnd;
  std::string text;  // a string without its quotes and escapes; "=>", "<=>" and "==" are one token
  int line = 1, column = 1;
};

// Errors of all of these: "NAME:LINE:COLUMN: what is wrong".
absl::StatusOr<std::vector<TextToken>> tokenize_text(std::string_view text, const std::string& name_for_errors);
// `{ Y = Op <a = 1> (X) ... }`, also without the braces.
absl::StatusOr<std::vector<Node>> parse_text_nodes(std::string_view text, const std::string& name_for_errors);
// `<a: int = 1, b = @c>`, also without the angles.
absl::StatusOr<std::vector<Attribute>> parse_text_attributes(std::string_view text, const std::string& name_for_errors);
// `float[2,N,?]`, `float[]` (unknown rank), `float` (rank 0), `seq(int64[N])`, ...
absl::StatusOr<ValueType> parse_text_type(std::string_view text, const std::string& name_for_errors);
// `float[2] {1, 2.5}`
absl::StatusOr<Tensor> parse_text_tensor(std::string_view text, const std::string& name_for_errors);

// The printer's pieces: what the functions above read back.
std::string print_text(const ValueType& type);
std::string print_text(const Tensor& tensor);
std::string print_text(const Attribute& attribute);
std::string print_text(const Node& node);
std::string print_text(const Graph& graph);

}  // namespace saturate
