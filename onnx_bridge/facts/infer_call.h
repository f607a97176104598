// Private to infer_*.cpp: one question to inference, and the helpers by which a rule answers it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "onnx_bridge/facts/facts.h"

namespace saturate::inference {

inline constexpr std::int64_t kMaxContent = 64;
using DimVector = std::vector<Dim>;

// A rule fills `out` (one per output; dtypes that follow from the schema may be left to the caller) or calls fail().
class Call {
 public:
  Call(const Node& node, std::span<const Facts* const> inputs, int num_outputs, InferContext& context);

  const Node& node;
  std::span<const Facts* const> inputs;
  InferContext& context;
  DimTable& dims;
  std::vector<Facts> out;
  absl::Status status;

  void fail(std::string_view what);        // kFailedPrecondition: no sizes of the inputs fit
  void fail_dtype(std::string_view what);  // kInvalidArgument
  bool ok() const { return status.ok(); }

  // Inputs. Absent ones, and ones beyond the last, are of kind kAbsent.
  const Facts& in(std::size_t i) const;
  bool has(std::size_t i) const { return in(i).kind != Facts::Kind::kAbsent; }
  bool has_rank(std::size_t i) const { return in(i).kind == Facts::Kind::kTensor && in(i).shape.has_value(); }
  int rank(std::size_t i) const { return in(i).rank(); }
  // The node fails where the input has no such axis; what is returned then means nothing.
  Dim dim(std::size_t i, int axis);
  const DimVector& shape(std::size_t i) const;  // empty where the rank is not known
  // Elements of a small integer tensor of rank 0 or 1, symbolically.
  std::optional<DimVector> content(std::size_t i);
  // The only element of a tensor of one element.
  std::optional<Dim> scalar(std::size_t i);
  // Known integers (any rank).
  std::optional<std::vector<std::int64_t>> ints(std::size_t i) const;
  std::optional<std::vector<double>> numbers(std::size_t i) const;
  std::optional<std::vector<bool>> bools(std::size_t i) const;
  // Number of elements of a rank-1 input.
  std::optional<std::int64_t> length(std::size_t i) const;

  // Attributes.
  const Attribute* attribute(std::string_view name) const;
  std::int64_t int_attribute(std::string_view name, std::int64_t otherwise) const;
  std::string string_attribute(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> ints_attribute(std::string_view name) const;

  // Dims.
  Dim constant(std::int64_t v) { return dims.constant(v); }
  std::optional<std::int64_t> value(Dim d) const { return dims.value(d); }
  Dim fresh(int output, int axis) { return context.fresh(output, axis); }
  DimVector fresh_shape(int output, int rank);
  Dim product(std::span<const Dim> all);
  // An axis of a tensor of this rank as a number in [0, rank); fails if out of range.
  std::optional<int> normal_axis(std::int64_t axis, int rank);
  // Axes from an attribute or input: sorted as given, normalized. nullopt: not known, or failed.
  std::optional<std::vector<int>> normal_axes(const std::vector<std::int64_t>& axes, int rank);
  // Numpy broadcasting of two shapes; fails where two numbers cannot broadcast.
  std::optional<DimVector> broadcast(const DimVector& a, const DimVector& b);
  std::optional<DimVector> broadcast_inputs(std::span<const std::size_t> which);
  // Dims that the operator wants equal: it would fail otherwise.
  bool require_equal(Dim a, Dim b, std::string_view what);
  bool require_rank(std::size_t i, int rank);

  // Outputs.
  int num_outputs() const { return static_cast<int>(out.size()); }
  bool wants(int o) const { return o < num_outputs(); }
  void set(int o, DType dtype, std::optional<DimVector> shape);
  void set_shape(int o, std::optional<DimVector> shape);
  void set_like(int o, std::size_t i);
  void set_dtype(int o, DType dtype);
  // Known elements of an integer output of rank 0 or 1 (dropped where they do not fit its dtype or are too many).
  void set_content(int o, DimVector content);
};

// Output 0 is as the first input: shape, and dtype where the schema leaves it open.
inline void same_as_first(Call& c) { c.set_like(0, 0); }

using Rule = void (*)(Call&);
using Rules = absl::flat_hash_map<std::string, Rule>;  // "domain:op"

// What output 0 counts from (Facts::counts_from), once its dtype and shape are known.
std::optional<Dim> infer_counts_from(Call& c);
std::optional<std::int64_t> counted_from(const Tensor& tensor);  // of int32 or int64

void add_elementwise_rules(Rules& rules);
void add_view_rules(Rules& rules);     // Reshape, Transpose, Squeeze, Expand, ...
void add_index_rules(Rules& rules);    // Slice, Gather, Scatter, Concat, Split, ...
void add_content_rules(Rules& rules);  // Shape, Size, Range, ConstantOfShape, ...
void add_reduce_rules(Rules& rules);
void add_linear_rules(Rules& rules);     // MatMul, Gemm, Einsum, quantized ones
void add_window_rules(Rules& rules);     // Conv, pools, Resize, ...
void add_attention_rules(Rules& rules);  // norms, attention, com.microsoft, saturate
void add_other_rules(Rules& rules);      // recurrent, sequences, random, signal, ...

}  // namespace saturate::inference
