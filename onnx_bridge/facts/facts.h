// What is known of a value before any run: type, symbolic shape, constancy, and for small integer tensors the symbolic content.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/facts/dims/dims.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct OpSchema;  // op_table.h

struct Facts {
  enum class Kind : std::uint8_t { kUnknown, kTensor, kTuple, kSequence, kOptional, kAbsent, kOther };
  Kind kind = Kind::kUnknown;
  DType dtype = DType::kUndefined;          // tensor (sequence/optional: of the element where it is a tensor)
  std::optional<std::vector<Dim>> shape;    // tensor; nullopt: unknown rank
  bool constant = false;                    // an expression over constants: could be evaluated
  std::optional<Tensor> value;              // known value (initializers, and small results that were folded)
  std::optional<std::vector<Dim>> content;  // int32/int64 of rank 0 or 1, at most 64 elements: the elements, symbolically
  std::optional<Dim> counts_from;           // int32/int64 of rank >= 1: element [..., i] is this + i
  bool never_negative = false;              // floats: no element lies below +0 (signs.h)
  std::vector<Facts> elements;              // tuple: one per output
  bool has_rank() const { return shape.has_value(); }
  int rank() const { return static_cast<int>(shape->size()); }
};

// Facts of the outputs of one operator in canonical (newest opset) form from the facts of its inputs (ONNX spec, per operator; absent
// inputs have kind kAbsent). Never fails for want of knowledge: unknown stays unknown; dims that the operator makes up (NonZero, ...) are
// fresh symbols named after `hint`. kInvalidArgument: the operator cannot run on such inputs (ill-typed). `fresh` gives the symbol for
// output `o`, axis `a`: the same node must get the same symbol each time it is asked.
class DefinedOperators;
struct InferContext {
  DimTable& dims;
  std::function<Dim(int output, int axis)> fresh;
  const std::map<std::string, std::int64_t>* opset_imports = nullptr;
  const DefinedOperators* defined = nullptr;
};
absl::StatusOr<std::vector<Facts>> infer(const Node& node, std::span<const Facts* const> inputs, int num_outputs, InferContext& context);
// Operators that are no part of ONNX nor of com.microsoft, and that somebody else knows.
class DefinedOperators {
 public:
  virtual ~DefinedOperators() = default;
  // Null: no such operator.
  virtual const OpSchema* schema(std::string_view domain, std::string_view op_type) const = 0;
  // As infer(); nullopt: no such operator.
  virtual std::optional<absl::StatusOr<std::vector<Facts>>> infer(const Node& node, std::span<const Facts* const> inputs, int num_outputs,
                                                                  InferContext& context) const = 0;
};
// Two things are taken for granted, as every exporter does. A symbolic element of a Reshape target is not zero at run time where zero would
// mean "copy". Dims of tensors stay below 2^31 - 1 (the "to the end" of a Slice).

// Joins what two sources say of one value; false: contradiction, told in `why`.
bool join_facts(Facts& into, const Facts& other, DimTable& dims, bool& changed, std::string& why);
// Names of dims are declared names (see DimTable::declared) of `value_name`.
Facts facts_of_type(const ValueType& type, DimTable& dims, std::string_view value_name);
// A known tensor: constant, with value, and with content if it is a small integer one.
Facts facts_of_tensor(const Tensor& tensor, DimTable& dims);
// Bytes of a tensor all of whose dims are numbers; nullopt: not known, or no tensor.
std::optional<std::size_t> known_bytes(const Facts& facts, const DimTable& dims);
std::string to_string(const Facts& facts, const DimTable& dims);

}  // namespace saturate
