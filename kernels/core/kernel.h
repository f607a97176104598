// What an operator's kernel sees and gives back. A kernel is a plain function: it reads the context's inputs and attributes, and
// returns one Value per output (absent ones may be left off at the end). It never throws past itself and keeps no state.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/core/numeric.h"
#include "onnx_bridge/model/evaluator.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

using Outputs = absl::StatusOr<std::vector<Value>>;

// What the runtime offers to a kernel that runs further operators or subgraphs.
class KernelHost {
 public:
  virtual ~KernelHost() = default;
  // Runs a graph attribute of the current node: inputs in the graph's order, captured outer names bound to the current values.
  virtual Outputs run_graph(const Graph& graph, const std::vector<Value>& inputs) = 0;
  // Runs one operator of the registry as of `opset` of its domain.
  virtual Outputs run_node(const Node& node, std::int64_t opset, const std::vector<Value>& inputs) = 0;
  // A buffer of this many bytes, 64-byte aligned, not initialized. Throws std::bad_alloc where there is no memory for it.
  virtual std::shared_ptr<std::byte> buffer(std::size_t bytes) = 0;
  // The same for a tensor that the kernel makes; on the thread that the kernel was called on. Null where there is no memory for it.
  virtual std::shared_ptr<std::byte> tensor_buffer(std::size_t bytes) { return buffer(bytes); }
  // Counts memory that is no such buffer, as long as what comes back lives. Null where the run may not take it.
  virtual std::shared_ptr<const void> hold(std::size_t bytes) = 0;
  // Whether the data lies in such a buffer.
  virtual bool owns(const std::byte*) const { return false; }
};

struct KernelOptions {
  bool reference = false;  // simple kernels only, double accumulation
  int threads = 1;
  std::size_t memory_limit = ~std::size_t{0};  // bytes a single tensor may take
  std::size_t run_memory = ~std::size_t{0};    // bytes that all tensors of a run may take; for messages, the memory itself keeps to it
};

// What a kernel prepares once of a node's attributes and constant inputs in a session, e.g. packed weights. Nodes may share it.
struct NodeState {
  std::mutex mutex;
  std::shared_ptr<const void> value;
};

// What a string takes: short ones lie in the object itself.
constexpr std::size_t string_bytes(std::size_t characters) { return sizeof(std::string) + (characters > 15 ? characters + 1 : 0); }
std::size_t string_bytes(const Tensor& strings);

struct KernelContext {
  const Node& node;
  std::int64_t opset;                // of the node's domain
  const std::vector<Value>& inputs;  // absent ones are monostate; trailing absent ones may be missing
  int num_outputs;
  const KernelOptions& options;
  KernelHost& host;
  NodeState* state = nullptr;         // null outside sessions
  std::uint64_t constant_inputs = 0;  // bit i: input i is an initializer that no run overrides
  std::uint64_t last_uses = 0;        // bit i: nothing needs the value of input i after this node

  bool has_input(std::size_t i) const { return i < inputs.size() && inputs[i].present(); }
  bool is_tensor(std::size_t i) const { return i < inputs.size() && inputs[i].is_tensor(); }
  // Input i; an empty tensor of undefined type where it is absent or not a tensor.
  const Tensor& tensor(std::size_t i) const;
  bool wants(int output) const { return output < static_cast<int>(node.outputs.size()) && !node.outputs[output].empty(); }

  bool has_attr(std::string_view name) const { return find_attribute(node.attributes, name) != nullptr; }
  // Attributes with defaults; one of another type counts as missing.
  std::int64_t attr_i(std::string_view name, std::int64_t fallback) const;
  float attr_f(std::string_view name, float fallback) const;
  std::string attr_s(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> attr_ints(std::string_view name, std::vector<std::int64_t> fallback = {}) const;
  std::vector<float> attr_floats(std::string_view name, std::vector<float> fallback = {}) const;
  std::vector<std::string> attr_strings(std::string_view name, std::vector<std::string> fallback = {}) const;
  const Tensor* attr_t(std::string_view name) const;
  const Graph* attr_g(std::string_view name) const;

  // What `make` gives, made once per node where the state is kept; null where it is not.
  template <typename T, typename F>
  std::shared_ptr<const T> prepared(F&& make) const {
    if (state == nullptr) return nullptr;
    std::lock_guard lock(state->mutex);
    if (state->value == nullptr) state->value = std::make_shared<const T>(make());
    return std::static_pointer_cast<const T>(state->value);
  }
  bool is_constant(std::size_t i) const { return i < 64 && ((constant_inputs >> i) & 1u) != 0; }

  // A tensor to be written through `write<T>()`: checked against the memory limit, not initialized.
  absl::StatusOr<Tensor> allocate(DType dtype, const Shape& dims) const;
  absl::StatusOr<Tensor> allocate_zeroed(DType dtype, const Shape& dims) const;
  // The same, in the place of one of these tensors where that is an input of this type and these dims that nothing else needs: for kernels
  // that read no element of it after they wrote the output's element of the same index.
  absl::StatusOr<Tensor> allocate_over(std::span<const Tensor* const> over, DType dtype, const Shape& dims) const;
  absl::StatusOr<Tensor> allocate_over(std::initializer_list<const Tensor*> over, DType dtype, const Shape& dims) const {
    return allocate_over(std::span(over.begin(), over.size()), dtype, dims);
  }

  // Strings of an output, as text(i) gives them by reference: they are measured before one is copied.
  template <typename Text>
  absl::StatusOr<Tensor> copies(const Shape& dims, std::size_t count, const Text& text) const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) bytes += string_bytes(text(i).size());
    absl::StatusOr<std::shared_ptr<const void>> room = room_for_strings(bytes);
    if (!room.ok()) return room.status();
    std::vector<std::string> values;
    values.reserve(count);
    for (std::size_t i = 0; i < count; ++i) values.emplace_back(text(i));
    return held_strings(dims, std::move(values), *std::move(room));
  }
  // Room for strings that are made next, and the tensor of them that gives it back.
  absl::StatusOr<std::shared_ptr<const void>> room_for_strings(std::size_t bytes) const;
  static Tensor held_strings(const Shape& dims, std::vector<std::string> values, std::shared_ptr<const void> room);

  // kInvalidArgument / kUnimplemented naming operator and node.
  absl::Status invalid(std::string_view what) const;
  absl::Status unsupported(std::string_view what) const;
  absl::Status unsupported_dtype(DType dtype) const;
};

using KernelFn = Outputs (*)(KernelContext&);

// The data of a tensor that allocate() gave and nobody else holds yet.
template <typename T>
T* write(Tensor& tensor) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(tensor.bytes().data()));
}

template <typename... V>
std::vector<Value> outputs_of(V&&... values) {
  std::vector<Value> out;
  out.reserve(sizeof...(values));
  (out.emplace_back(std::forward<V>(values)), ...);
  return out;
}

// What f(std::type_identity<T>()) gives for the T of the list that `dtype` names, as a loop over elements of that type; nullopt where there
// is none.
template <typename... Ts, typename F>
auto of_type(Types<Ts...>, DType dtype, F&& f) {
  std::optional<std::common_type_t<decltype(f(std::type_identity<Ts>()))...>> result;
  (void)((dtype == dtype_of<Ts>() && (result.emplace(f(std::type_identity<Ts>())), true)) || ...);
  return result;
}

template <typename T, typename F>
Outputs call_for(F& f) {
  return f(std::type_identity<T>());
}
// The same of whole kernels; kUnimplemented naming the dtype where there is none. (One call for all types: compilers are quicker with
// that.)
template <typename... Ts, typename F>
Outputs dispatch(Types<Ts...>, const KernelContext& ctx, DType dtype, F&& f) {
  Outputs (*call)(std::remove_reference_t<F>&) = nullptr;
  (void)((dtype == dtype_of<Ts>() && (call = call_for<Ts, std::remove_reference_t<F>>, true)) || ...);
  return call == nullptr ? ctx.unsupported_dtype(dtype) : call(f);
}

// Multidirectional broadcasting (ONNX docs/Broadcasting.md); nullopt where the shapes don't fit.
std::optional<Shape> broadcast_shape(std::span<const std::int64_t> a, std::span<const std::int64_t> b);
std::optional<Shape> broadcast_shape(std::span<const Tensor* const> tensors);
// Row-major strides in elements.
Shape strides_of(std::span<const std::int64_t> dims);
// Strides that walk a tensor of `from` as if broadcast to `to` (0 along broadcast dims).
Shape broadcast_strides(std::span<const std::int64_t> from, std::span<const std::int64_t> to);
std::int64_t product(std::span<const std::int64_t> dims);  // of dims already checked
// Negative axes counted from the end; nullopt where out of [-rank, rank).
std::optional<int> normalize_axis(std::int64_t axis, int rank);
// The elements of an int32 or int64 tensor.
absl::StatusOr<std::vector<std::int64_t>> int_values(const KernelContext& ctx, const Tensor& tensor);

// What a walk calls for a run of elements: where it begins in each operand, how many they are, and the way from one to the next.
template <std::size_t N>
using RunBody = absl::FunctionRef<void(const std::array<std::int64_t, N>& at, std::int64_t n, const std::array<std::int64_t, N>& step)>;

// Walks `dims` in row-major order with N operands (1 to 4) of given strides; calls f for each innermost run. Neighbouring dims are merged
// where all strides allow.
template <std::size_t N>
void for_each_run(const Shape& dims, const std::array<Shape, N>& strides, RunBody<N> f);

// f(begin, end) over [0, n) in pieces of at least `grain`; serial where the context has one thread or a reference run is asked for.
void parallel_for(const KernelContext& ctx, std::int64_t n, std::int64_t grain, absl::FunctionRef<void(std::int64_t, std::int64_t)> f);

}  // namespace saturate
