// Operators that find elements (ONNX Operators: TopK, NonZero, Unique).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

// Total order: by value, NaN above everything (as numpy sorts), ties by position.
template <typename T>
bool less_value(const T& a, const T& b) {
  if constexpr (is_float_v<T>) {
    const auto x = static_cast<Compute<T>>(a), y = static_cast<Compute<T>>(b);
    return std::isnan(x) ? false : std::isnan(y) || x < y;
  } else {
    return a < b;
  }
}

template <typename T>
void top_k_line(const T* x, std::int64_t stride, std::int64_t n, std::int64_t k, bool largest, std::vector<std::int64_t>& order) {
  order.resize(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const T &u = x[a * stride], &v = x[b * stride];
    if (largest ? less_value(v, u) : less_value(u, v)) return true;
    if (largest ? less_value(u, v) : less_value(v, u)) return false;
    return a < b;
  };
  const auto middle = order.begin() + k;
  if (k < n) std::nth_element(order.begin(), middle, order.end(), before);
  std::sort(order.begin(), middle, before);
}

Outputs top_k(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", -1), x.rank());
  if (!axis) return ctx.invalid("the axis is out of range");
  std::int64_t k = ctx.attr_i("k", -1);
  if (ctx.has_input(1)) {
    const auto given = one_integer(ctx, ctx.tensor(1));
    if (!given.ok()) return given.status();
    k = *given;
  }
  const std::int64_t n = x.dims()[*axis];
  if (k < 0 || k > n) return ctx.invalid("k is out of range");
  const bool largest = ctx.attr_i("largest", 1) != 0;
  Shape dims = x.dims();
  dims[*axis] = k;
  auto values = ctx.allocate(x.dtype(), dims), positions = ctx.allocate(DType::kInt64, dims);
  if (!values.ok()) return values.status();
  if (!positions.ok()) return positions.status();
  const std::int64_t inner = strides_of(x.dims())[*axis], lines = n == 0 ? 0 : x.size() / n;
  return dispatch(NumericTypes(), ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const T* source = x.data<T>();
    T* v = write<T>(*values);
    auto* p = write<std::int64_t>(*positions);
    parallel_for(ctx, lines, 1 + (1 << 12) / std::max<std::int64_t>(1, n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> order;
      for (std::int64_t line = begin; line < end; ++line) {
        const T* from = source + line / inner * n * inner + line % inner;
        top_k_line(from, inner, n, k, largest, order);
        const std::int64_t to = line / inner * k * inner + line % inner;
        for (std::int64_t i = 0; i < k; ++i) {
          v[to + i * inner] = from[order[static_cast<std::size_t>(i)] * inner];
          p[to + i * inner] = order[static_cast<std::size_t>(i)];
        }
      }
    });
    return outputs_of(*std::move(values), *std::move(positions));
  });
}

Outputs non_zero(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  std::vector<std::int64_t> found;
  const auto collect = [&](auto&& nonzero) {
    for (std::int64_t i = 0; i < x.size(); ++i) {
      if (nonzero(static_cast<std::size_t>(i))) found.push_back(i);
    }
  };
  if (x.dtype() == DType::kString) {
    collect([&](std::size_t i) { return !x.string_data()[i].empty(); });
  } else {
    const Outputs done = dispatch(NumericAndBoolTypes(), ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
      collect([&](std::size_t i) { return static_cast<Compute<T>>(x.data<T>()[i]) != 0; });
      return std::vector<Value>();
    });
    if (!done.ok()) return done;
  }
  // A scalar counts as a vector of one element.
  const Shape dims = x.rank() == 0 ? Shape{1} : x.dims();
  const Shape strides = strides_of(dims);
  const auto n = static_cast<std::int64_t>(found.size()), rank = static_cast<std::int64_t>(dims.size());
  auto out = ctx.allocate(DType::kInt64, {rank, n});
  if (!out.ok()) return out.status();
  auto* y = write<std::int64_t>(*out);
  for (std::int64_t k = 0; k < rank; ++k) {
    for (std::int64_t i = 0; i < n; ++i) y[k * n + i] = found[static_cast<std::size_t>(i)] / strides[k] % dims[k];
  }
  return outputs_of(*std::move(out));
}

struct Groups {
  std::vector<std::int64_t> first, inverse, counts;  // per group, per item, per group
};

// Items 0..n-1 in groups of equals; groups in ascending order or in order of first occurrence.
template <typename Less>
Groups group(std::int64_t n, bool sorted, Less&& less) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  Groups g;
  g.inverse.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || less(order[i - 1], order[i])) {
      g.first.push_back(order[i]);
      g.counts.push_back(0);
    }
    ++g.counts.back();
    g.inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(g.first.size()) - 1;
  }
  if (sorted) return g;
  std::vector<std::size_t> by_first(g.first.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::sort(by_first.begin(), by_first.end(), [&](std::size_t a, std::size_t b) { return g.first[a] < g.first[b]; });
  Groups out;
  std::vector<std::int64_t> place(by_first.size());
  for (std::size_t k = 0; k < by_first.size(); ++k) {
    out.first.push_back(g.first[by_first[k]]);
    out.counts.push_back(g.counts[by_first[k]]);
    place[by_first[k]] = static_cast<std::int64_t>(k);
  }
  for (std::int64_t i : g.inverse) out.inverse.push_back(place[static_cast<std::size_t>(i)]);
  return out;
}

// Items are the slices along the axis: element j of item i lies at (j / inner) * n * inner + i * inner + j % inner.
template <typename T>
Groups group_slices(std::span<const T> x, std::int64_t n, std::int64_t inner, bool sorted) {
  const std::int64_t length = n == 0 ? 0 : static_cast<std::int64_t>(x.size()) / n;
  return group(n, sorted, [&](std::int64_t a, std::int64_t b) {
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t base = j / inner * n * inner + j % inner;
      const T &u = x[static_cast<std::size_t>(base + a * inner)], &v = x[static_cast<std::size_t>(base + b * inner)];
      if (less_value(u, v)) return true;
      if (less_value(v, u)) return false;
    }
    return false;
  });
}

Outputs unique(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const bool sorted = ctx.attr_i("sorted", 1) != 0;
  Shape dims = {x.size()};
  int axis = 0;
  if (ctx.has_attr("axis")) {
    const std::optional<int> at = normalize_axis(ctx.attr_i("axis", 0), x.rank());
    if (!at) return ctx.invalid("the axis is out of range");
    dims = x.dims();
    axis = *at;
  }
  const std::int64_t n = dims[axis], inner = strides_of(dims)[axis];
  Groups g;
  if (x.dtype() == DType::kString) {
    g = group_slices(x.string_data(), n, std::max<std::int64_t>(inner, 1), sorted);
  } else {
    const Outputs done = dispatch(NumericAndBoolTypes(), ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
      g = group_slices(x.span<T>(), n, std::max<std::int64_t>(inner, 1), sorted);
      return std::vector<Value>();
    });
    if (!done.ok()) return done;
  }
  Shape out_dims = dims;
  out_dims[axis] = static_cast<std::int64_t>(g.first.size());
  Moving moving(ctx, x.dtype());
  auto to = moving.make(out_dims);
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(x);
  const std::int64_t run = inner * moving.unit(), outer = n * inner == 0 ? 0 : x.size() / (n * inner);
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::size_t k = 0; k < g.first.size(); ++k) {
      std::memcpy(*to + (o * out_dims[axis] + static_cast<std::int64_t>(k)) * run, from + (o * n + g.first[k]) * run,
                  static_cast<std::size_t>(run));
    }
  }
  auto y = moving.take();
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y), Tensor::vector_int64(g.first), Tensor::vector_int64(g.inverse), Tensor::vector_int64(g.counts));
}

}  // namespace

void register_data_search(Registry& registry) {
  registry.add("", "TopK", top_k);
  registry.add("", "NonZero", non_zero);
  registry.add("", "Unique", unique);
  registry.add(kMicrosoft, "Unique", unique);
}

}  // namespace saturate
