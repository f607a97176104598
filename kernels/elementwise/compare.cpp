// Comparisons, boolean operators and Where (ONNX spec, operators of the same names).
#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

struct EqualOp {
  template <typename T>
  static bool apply(const T& a, const T& b) {
    return a == b;
  }
};
struct LessOp {
  template <typename T>
  static bool apply(const T& a, const T& b) {
    return a < b;
  }
};
struct LessOrEqualOp {
  template <typename T>
  static bool apply(const T& a, const T& b) {
    return a <= b;
  }
};
struct AndOp {
  static bool apply(bool a, bool b) { return a && b; }
};
struct OrOp {
  static bool apply(bool a, bool b) { return a || b; }
};
struct XorOp {
  static bool apply(bool a, bool b) { return a != b; }
};

template <typename Op>
std::optional<ZipLoop> comparison(DType dtype) {
  return of_type(NumericAndBoolTypes{}, dtype, []<typename Given>(std::type_identity<Given>) -> ZipLoop {
    using T = typename SameBits<Given, std::is_integral_v<Given> && std::is_same_v<Op, EqualOp>>::type;
    const auto each = [](T x, T y) { return Op::apply(static_cast<Compute<T>>(x), static_cast<Compute<T>>(y)); };
    return zip_loop<T, T, bool, decltype(each)>;
  });
}

// `kTurned`: of the second input with the first.
template <typename Op, bool kTurned = false>
Outputs compare(KernelContext& ctx) {
  std::optional<Tensor> store;
  const absl::StatusOr<BinaryInputs> in = binary_inputs(ctx, store);
  if (!in.ok()) return in.status();
  const Tensor &a = kTurned ? in->second : in->first, &b = kTurned ? in->first : in->second;
  const std::optional<ZipLoop> loop = comparison<Op>(a.dtype());
  return loop ? zip_tensors(ctx, a, b, DType::kBool, *loop) : ctx.unsupported_dtype(a.dtype());
}

Outputs equal_strings(const KernelContext& ctx, const Tensor& a, const Tensor& b) {
  const std::optional<Shape> dims = broadcast_shape(a.dims(), b.dims());
  if (!dims) return ctx.invalid("the inputs' shapes cannot be broadcast");
  absl::StatusOr<Tensor> y = ctx.allocate(DType::kBool, *dims);
  if (!y.ok()) return y.status();
  bool* out = write<bool>(*y);
  const std::array<Shape, 3> strides{strides_of(*dims), broadcast_strides(a.dims(), *dims), broadcast_strides(b.dims(), *dims)};
  for_each_run<3>(*dims, strides, [&](const auto& at, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i) {
      out[at[0] + i * step[0]] = a.string_data()[at[1] + i * step[1]] == b.string_data()[at[2] + i * step[2]];
    }
  });
  return outputs_of(*std::move(y));
}

Outputs equal(KernelContext& ctx) {
  std::optional<Tensor> store;
  const absl::StatusOr<BinaryInputs> in = binary_inputs(ctx, store);
  if (!in.ok()) return in.status();
  if (in->first.dtype() == DType::kString) return equal_strings(ctx, in->first, in->second);
  return compare<EqualOp>(ctx);
}

template <typename Op>
Outputs logical(KernelContext& ctx) {
  std::optional<Tensor> store;
  const absl::StatusOr<BinaryInputs> in = binary_inputs(ctx, store);
  if (!in.ok()) return in.status();
  return dispatch(Types<bool>{}, ctx, in->first.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    return zip_elements<T, T, bool>(ctx, in->first, in->second, [](bool a, bool b) { return Op::apply(a, b); });
  });
}

Outputs logical_not(KernelContext& ctx) {
  if (ctx.tensor(0).dtype() != DType::kBool) return ctx.unsupported_dtype(ctx.tensor(0).dtype());
  return map_elements<bool, bool>(ctx, ctx.tensor(0), [](bool x) { return !x; });
}

template <typename Out, typename In>
void select_elements(const KernelContext& ctx, const Tensor& condition, const std::array<Tensor, 2>& from, const Shape& dims, Out* out,
                     std::array<const In*, 2> data) {
  const In *x = data[0], *y = data[1];
  const bool* c = condition.data<bool>();
  const std::array<Shape, 4> strides{strides_of(dims), broadcast_strides(condition.dims(), dims), broadcast_strides(from[0].dims(), dims),
                                     broadcast_strides(from[1].dims(), dims)};
  parallel_runs<4>(ctx, dims, strides, [&](const auto& at, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i) out[at[0] + i] = c[at[1] + i * step[1]] ? x[at[2] + i * step[2]] : y[at[3] + i * step[3]];
  });
}

Outputs where_strings(const KernelContext& ctx, const Tensor& condition, const Tensor& x, const Tensor& y, const Shape& dims) {
  if (const auto room = ctx.allocate(DType::kUint64, dims); !room.ok()) return room.status();  // as many places
  std::array<std::vector<const std::string*>, 2> texts;
  for (const std::string& s : x.string_data()) texts[0].push_back(&s);
  for (const std::string& s : y.string_data()) texts[1].push_back(&s);
  std::vector<const std::string*> chosen(static_cast<std::size_t>(product(dims)));
  select_elements<const std::string*, const std::string*>(ctx, condition, {x, y}, dims, chosen.data(), {texts[0].data(), texts[1].data()});
  absl::StatusOr<Tensor> copied = ctx.copies(dims, chosen.size(), [&](std::size_t i) -> const std::string& { return *chosen[i]; });
  if (!copied.ok()) return copied.status();
  return outputs_of(*std::move(copied));
}

// Where-9/16: every element type, sub-byte types excepted (the schema has none).
Outputs where(KernelContext& ctx) {
  const Tensor &condition = ctx.tensor(0), &x = ctx.tensor(1), &y = ctx.tensor(2);
  if (condition.dtype() != DType::kBool) return ctx.invalid("the condition must be bool");
  if (x.dtype() != y.dtype()) return ctx.invalid("the inputs differ in element type");
  const std::array<const Tensor*, 3> all{&condition, &x, &y};
  const std::optional<Shape> dims = broadcast_shape(all);
  if (!dims) return ctx.invalid("the inputs' shapes cannot be broadcast");
  if (x.dtype() == DType::kString) return where_strings(ctx, condition, x, y, *dims);
  absl::StatusOr<Tensor> out = ctx.allocate(x.dtype(), *dims);
  if (!out.ok()) return out.status();
  const auto copy = [&]<typename T>(std::type_identity<T>) {
    select_elements<T, T>(ctx, condition, {x, y}, *dims, write<T>(*out), {x.data<T>(), y.data<T>()});
    return outputs_of(*std::move(out));
  };
  switch (bit_width(x.dtype())) {
    case 8:
      return copy(std::type_identity<std::uint8_t>());
    case 16:
      return copy(std::type_identity<std::uint16_t>());
    case 32:
      return copy(std::type_identity<std::uint32_t>());
    case 64:
      return copy(std::type_identity<std::uint64_t>());
    case 128:
      return copy(std::type_identity<std::complex<double>>());
    default:
      return ctx.unsupported_dtype(x.dtype());
  }
}

}  // namespace

void register_elementwise_compare(Registry& registry) {
  registry.add("", "Equal", equal);
  registry.add("", "Less", compare<LessOp>);
  registry.add("", "LessOrEqual", compare<LessOrEqualOp>);
  registry.add("", "Greater", compare<LessOp, true>);
  registry.add("", "GreaterOrEqual", compare<LessOrEqualOp, true>);
  registry.add("", "And", logical<AndOp>);
  registry.add("", "Or", logical<OrOp>);
  registry.add("", "Xor", logical<XorOp>);
  registry.add("", "Not", logical_not);
  registry.add("", "Where", where);
}

}  // namespace saturate
