// The one interface by which folding, guards and the rule checker run operators; kernels/ implements it.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct Value;
struct Sequence {
  std::vector<Value> items;
  DType dtype = DType::kUndefined;  // element type, for the empty ones
};
struct Optional {
  std::shared_ptr<const Value> value;  // null: empty
};
// What flows along an edge when a model runs. monostate: absent. A map is a sequence of two tensors, keys and values.
struct Value {
  std::variant<std::monostate, Tensor, Sequence, Optional> v;
  Value() = default;
  Value(const Value&);  // made in model.cpp, as those of Attribute
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  Value(Tensor t) : v(std::move(t)) {}
  Value(Sequence s) : v(std::move(s)) {}
  Value(Optional o) : v(std::move(o)) {}
  bool present() const { return !std::holds_alternative<std::monostate>(v); }
  bool is_tensor() const { return std::holds_alternative<Tensor>(v); }
  const Tensor& tensor() const { return std::get<Tensor>(v); }
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // Runs one operator as of `opset` of its domain. Attributes as in the node, defaults may be left out.
  // kUnimplemented: no such operator or dtype here; kInvalidArgument: the operator refuses these inputs.
  virtual absl::StatusOr<std::vector<Value>> evaluate(const Node& node, std::int64_t opset, const std::vector<Value>& inputs) const = 0;
};

}  // namespace saturate
