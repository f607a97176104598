// Reduce* (ONNX spec, operators of the same names): axes are an attribute at first and an input from opset 13 (ReduceSum) or 18.
#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/wrapping.h"
#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

// An output element is a walk over the reduced dims from its own offset.
struct ReductionPlan {
  Shape out_dims;
  Shape kept_dims, kept_strides, reduced_dims, reduced_strides;
  std::int64_t count = 1;  // elements reduced into one
};

absl::StatusOr<std::vector<bool>> reduced_axes(const KernelContext& ctx, int rank) {
  const bool as_input = ctx.opset >= 18 || (ctx.node.op_type == "ReduceSum" && ctx.opset >= 13);
  std::vector<std::int64_t> axes;
  if (as_input && ctx.has_input(1)) {
    absl::StatusOr<std::vector<std::int64_t>> given = int_values(ctx, ctx.tensor(1));
    if (!given.ok()) return given.status();
    axes = *std::move(given);
  } else if (!as_input) {
    axes = ctx.attr_ints("axes");
  }
  std::vector<bool> reduced(static_cast<std::size_t>(rank), false);
  if (axes.empty()) {
    if (!as_input || ctx.attr_i("noop_with_empty_axes", 0) == 0) reduced.assign(static_cast<std::size_t>(rank), true);
    return reduced;
  }
  for (std::int64_t a : axes) {
    const std::optional<int> axis = normalize_axis(a, rank);
    if (!axis) return ctx.invalid("an axis is out of range");
    reduced[static_cast<std::size_t>(*axis)] = true;
  }
  return reduced;
}

absl::StatusOr<ReductionPlan> plan(const KernelContext& ctx, const Tensor& x) {
  absl::StatusOr<std::vector<bool>> reduced = reduced_axes(ctx, x.rank());
  if (!reduced.ok()) return reduced.status();
  const bool keep = ctx.attr_i("keepdims", 1) == 1;
  const Shape strides = strides_of(x.dims());
  ReductionPlan r;
  for (std::size_t k = 0; k < x.dims().size(); ++k) {
    const bool gone = (*reduced)[k];
    if (!gone || keep) r.out_dims.push_back(gone ? 1 : x.dims()[k]);
    (gone ? r.reduced_dims : r.kept_dims).push_back(x.dims()[k]);
    (gone ? r.reduced_strides : r.kept_strides).push_back(strides[k]);
    if (gone) r.count *= x.dims()[k];
  }
  return r;
}

// Each operator: `start`, `add` per element, `finish`. A is the accumulator's type.
struct ReduceSumOp {
  template <typename A>
  static A start() {
    return 0;
  }
  template <typename A>
  static A add(A a, A x) {
    return added(a, x);
  }
  template <typename A>
  static A finish(A a, std::int64_t) {
    return a;
  }
};
struct MeanOp : ReduceSumOp {
  template <typename A>
  static A finish(A a, std::int64_t n) {
    if constexpr (std::is_floating_point_v<A>)
      return a / static_cast<A>(n);
    else
      return n == 0 ? A(0) : static_cast<A>(a / static_cast<A>(n));
  }
};
struct ProdOp : ReduceSumOp {
  template <typename A>
  static A start() {
    return 1;
  }
  template <typename A>
  static A add(A a, A x) {
    return multiplied(a, x);
  }
};
struct SumSquareOp : ReduceSumOp {
  template <typename A>
  static A add(A a, A x) {
    return added(a, multiplied(x, x));
  }
};
struct L1Op : ReduceSumOp {
  template <typename A>
  static A add(A a, A x) {
    return added(a, x < 0 ? subtracted(A(0), x) : x);
  }
};
struct L2Op : SumSquareOp {
  template <typename A>
  static A finish(A a, std::int64_t) {
    return static_cast<A>(std::sqrt(static_cast<double>(a)));
  }
};
struct LogSumOp : ReduceSumOp {
  template <typename A>
  static A finish(A a, std::int64_t) {
    return static_cast<A>(std::log(static_cast<double>(a)));
  }
};
struct ReduceMaxOp : ReduceSumOp {
  template <typename A>
  static A start() {
    return std::is_floating_point_v<A> ? -std::numeric_limits<A>::infinity() : std::numeric_limits<A>::lowest();
  }
  template <typename A>
  static A add(A a, A x) {
    return x > a || x != x ? x : a;
  }
};
struct ReduceMinOp : ReduceSumOp {
  template <typename A>
  static A start() {
    return std::is_floating_point_v<A> ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
  }
  template <typename A>
  static A add(A a, A x) {
    return x < a || x != x ? x : a;
  }
};

// Float rows that lie together take the vectorised sums; nullopt where the operator has none.
template <typename Op>
std::optional<double> contiguous_row(const float* x, std::int64_t n) {
  if constexpr (std::is_same_v<Op, ReduceSumOp> || std::is_same_v<Op, MeanOp> || std::is_same_v<Op, LogSumOp>)
    return sum_floats(x, n);
  else if constexpr (std::is_same_v<Op, SumSquareOp> || std::is_same_v<Op, L2Op>)
    return sum_squares_floats(x, n);
  else
    return std::nullopt;
}

template <typename Op, typename T, typename A>
A reduce_one(const T* x, const ReductionPlan& r) {
  A a = Op::template start<A>();
  for_each_run<1>(r.reduced_dims, {r.reduced_strides}, [&](const auto& at, std::int64_t n, const auto& step) {
    const T* p = x + at[0];
    if constexpr (std::is_same_v<T, float>) {
      if (step[0] == 1) {
        if (const std::optional<double> row = contiguous_row<Op>(p, n)) {
          a += static_cast<A>(*row);
          return;
        }
      }
    }
    A here = a;
    for (std::int64_t i = 0; i < n; ++i) here = Op::add(here, static_cast<A>(p[i * step[0]]));
    a = here;
  });
  return Op::finish(a, r.count);
}

// log(sum(exp(x))) about the largest element, which must be finite to be subtracted.
template <typename T>
double log_sum_exp(const T* x, const ReductionPlan& r) {
  const double top = reduce_one<ReduceMaxOp, T, double>(x, r);
  if (!std::isfinite(top)) return top;
  double sum = 0;
  for_each_run<1>(r.reduced_dims, {r.reduced_strides}, [&](const auto& at, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[at[0] + i * step[0]]) - top);
  });
  return top + std::log(sum);
}

// Writes the reduction of what begins at `x` to `out`, both of a type that the function knows.
using ReduceOne = void (*)(const void* x, const ReductionPlan& r, void* out);
template <typename Op, typename T, typename A>
void write_reduced(const void* x, const ReductionPlan& r, void* out) {
  *static_cast<T*>(out) = static_cast<T>(reduce_one<Op, T, A>(static_cast<const T*>(x), r));
}
template <typename T>
void write_log_sum_exp(const void* x, const ReductionPlan& r, void* out) {
  *static_cast<T*>(out) = static_cast<T>(log_sum_exp<T>(static_cast<const T*>(x), r));
}

Outputs reduce_with(const KernelContext& ctx, const Tensor& x, const ReductionPlan& r, ReduceOne one) {
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), r.out_dims);
  if (!y.ok()) return y.status();
  const std::int64_t size = bit_width(x.dtype()) / 8;
  std::byte* out = write<std::byte>(*y);
  const std::byte* in = x.bytes().data();
  const Shape kept = strides_of(r.kept_dims);
  parallel_for(ctx, y->size(), std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, r.count)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   std::int64_t offset = 0, rest = i;
                   for (std::size_t k = 0; k < kept.size(); ++k) {
                     offset += rest / kept[k] * r.kept_strides[k];
                     rest %= kept[k];
                   }
                   one(in + offset * size, r, out + i * size);
                 }
               });
  return outputs_of(*std::move(y));
}

template <typename Op, typename List>
Outputs reduce(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  absl::StatusOr<ReductionPlan> r = plan(ctx, x);
  if (!r.ok()) return r.status();
  const auto one = of_type(List{}, x.dtype(), []<typename T>(std::type_identity<T>) -> ReduceOne {
    // Maxima compare in the type itself, so that an empty one gives that type's lowest value.
    using Own = std::conditional_t<std::is_same_v<Op, ReduceMaxOp> || std::is_same_v<Op, ReduceMinOp>, Compute<T>, Accumulator<T>>;
    return write_reduced<Op, T, Own>;
  });
  return one ? reduce_with(ctx, x, *r, *one) : ctx.unsupported_dtype(x.dtype());
}

Outputs reduce_log_sum_exp(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  absl::StatusOr<ReductionPlan> r = plan(ctx, x);
  if (!r.ok()) return r.status();
  const auto one = of_type(NumericTypes{}, x.dtype(), []<typename T>(std::type_identity<T>) -> ReduceOne { return write_log_sum_exp<T>; });
  return one ? reduce_with(ctx, x, *r, *one) : ctx.unsupported_dtype(x.dtype());
}

}  // namespace

void register_reduce(Registry& registry) {
  registry.add("", "ReduceSum", reduce<ReduceSumOp, NumericTypes>);
  registry.add("", "ReduceMean", reduce<MeanOp, NumericTypes>);
  registry.add("", "ReduceProd", reduce<ProdOp, NumericTypes>);
  registry.add("", "ReduceSumSquare", reduce<SumSquareOp, NumericTypes>);
  registry.add("", "ReduceL1", reduce<L1Op, NumericTypes>);
  registry.add("", "ReduceL2", reduce<L2Op, NumericTypes>);
  registry.add("", "ReduceLogSum", reduce<LogSumOp, NumericTypes>);
  registry.add("", "ReduceLogSumExp", reduce_log_sum_exp);
  registry.add("", "ReduceMax", reduce<ReduceMaxOp, NumericAndBoolTypes>);
  registry.add("", "ReduceMin", reduce<ReduceMinOp, NumericAndBoolTypes>);
  register_reduce_arg(registry);
}

}  // namespace saturate
