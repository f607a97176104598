#include "kernels/tensor/util.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/codec.h"

namespace saturate {

void unpack_bits(const Tensor& tensor, std::uint8_t* codes) {
  const int bits = bit_width(tensor.dtype()), mask = (1 << bits) - 1;
  const auto* packed = tensor.data<std::uint8_t>();
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const std::int64_t bit = i * bits;
    const int shift = static_cast<int>(bit & 7);
    int value = packed[bit >> 3] >> shift;
    if (shift + bits > 8) value |= packed[(bit >> 3) + 1] << (8 - shift);  // six-bit elements cross bytes
    codes[i] = static_cast<std::uint8_t>(value & mask);
  }
}

void pack_bits(std::span<const std::uint8_t> codes, int bits, std::byte* packed) {
  auto* out = reinterpret_cast<std::uint8_t*>(packed);
  std::memset(out, 0, (codes.size() * static_cast<std::size_t>(bits) + 7) / 8);
  const int mask = (1 << bits) - 1;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t bit = i * static_cast<std::size_t>(bits);
    const int shift = static_cast<int>(bit & 7);
    const int value = codes[i] & mask;
    out[bit >> 3] = static_cast<std::uint8_t>(out[bit >> 3] | (value << shift));
    if (shift + bits > 8) out[(bit >> 3) + 1] = static_cast<std::uint8_t>(out[(bit >> 3) + 1] | (value >> (8 - shift)));
  }
}

Moving::Moving(const KernelContext& ctx, DType dtype) : ctx_(ctx), dtype_(dtype) {
  static const std::string empty;
  const int bits = bit_width(dtype);
  if (dtype == DType::kString) {
    unit_ = 8;
    pool_.push_back(&empty);
  } else if (bits == 0) {
    status_ = ctx.unsupported_dtype(dtype);
    unit_ = 1;
  } else {
    packed_ = bits < 8;
    unit_ = packed_ ? 1 : bits / 8;
  }
}

const std::byte* Moving::units(const Tensor& tensor) {
  if (dtype_ == DType::kString) {
    std::vector<std::uint64_t>& at = positions_.emplace_back(static_cast<std::size_t>(tensor.size()));
    const auto strings = tensor.string_data();
    for (std::size_t i = 0; i < at.size() && i < strings.size(); ++i) {
      at[i] = pool_.size();
      pool_.push_back(&strings[i]);
    }
    return reinterpret_cast<const std::byte*>(at.data());
  }
  if (packed_) {
    std::vector<std::uint8_t>& codes = widened_.emplace_back(static_cast<std::size_t>(tensor.size()));
    unpack_bits(tensor, codes.data());
    return reinterpret_cast<const std::byte*>(codes.data());
  }
  return tensor.bytes().data();
}

absl::StatusOr<std::byte*> Moving::make(const Shape& dims) {
  if (!status_.ok()) return status_;
  const DType carrier = dtype_ == DType::kString ? DType::kUint64 : packed_ ? DType::kUint8 : dtype_;
  if (dtype_ == DType::kString) {  // what the strings themselves will take
    const auto bytes = checked_bytes(DType::kUint64, dims);
    if (!bytes || *bytes > ctx_.options.memory_limit / 4) return ctx_.invalid("an output's shape is too large");
  }
  auto tensor = ctx_.allocate(carrier, dims);
  if (!tensor.ok()) return tensor.status();
  std::byte* data = write<std::byte>(*tensor);
  made_.emplace_back(*std::move(tensor), dims);
  return data;
}

absl::StatusOr<std::byte*> Moving::make_of(const Tensor& tensor) {
  if (status_.ok() && !packed_ && dtype_ != DType::kString) {
    auto over = ctx_.allocate_over({&tensor}, dtype_, tensor.dims());
    if (!over.ok()) return over.status();
    std::byte* data = write<std::byte>(*over);
    if (data != tensor.bytes().data() && !tensor.bytes().empty()) std::memcpy(data, tensor.bytes().data(), tensor.bytes().size());
    made_.emplace_back(*std::move(over), tensor.dims());
    return data;
  }
  absl::StatusOr<std::byte*> data = make(tensor.dims());
  if (data.ok() && tensor.size() > 0) std::memcpy(*data, units(tensor), static_cast<std::size_t>(tensor.size() * unit_));
  return data;
}

absl::StatusOr<Tensor> Moving::take(std::size_t k) {
  Tensor carrier = std::move(made_[k].first);
  const Shape dims = made_[k].second;
  if (dtype_ == DType::kString) {
    return ctx_.copies(dims, static_cast<std::size_t>(carrier.size()),
                       [&](std::size_t i) -> const std::string& { return *pool_[carrier.data<std::uint64_t>()[i]]; });
  }
  if (!packed_) return carrier;
  auto packed = ctx_.allocate(dtype_, dims);
  if (packed.ok()) pack_bits(carrier.span<std::uint8_t>(), bit_width(dtype_), write<std::byte>(*packed));
  return packed;
}

namespace {

template <typename U>
void copy_run(const U* from, std::int64_t from_stride, U* to, std::int64_t to_stride, std::int64_t n) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(U));
  } else if (from_stride == 0 && to_stride == 1) {
    std::fill_n(to, n, *from);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

// Rows of so few elements that lie one after another, as the colours of an image: the compiler makes shuffles of it.
template <typename U>
void interleave_three(const U* __restrict from, std::int64_t from_row, U* __restrict to, std::int64_t rows) {
  const U *first = from, *second = from + from_row, *third = from + 2 * from_row;
  for (std::int64_t r = 0; r < rows; ++r) {
    to[3 * r] = first[r];
    to[3 * r + 1] = second[r];
    to[3 * r + 2] = third[r];
  }
}

// A matrix read along columns and written along rows: in blocks, so that every line of cache is read once.
template <typename U>
void copy_transposed(const U* from, std::int64_t from_row, U* to, std::int64_t to_row, std::int64_t rows, std::int64_t cols) {
  if (cols == 3 && to_row == 3) return interleave_three(from, from_row, to, rows);
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t i = 0; i < rows; i += kBlock) {
    const std::int64_t i_end = std::min(rows, i + kBlock);
    for (std::int64_t j = 0; j < cols; j += kBlock) {
      const std::int64_t j_end = std::min(cols, j + kBlock);
      for (std::int64_t r = i; r < i_end; ++r) {
        for (std::int64_t c = j; c < j_end; ++c) to[r * to_row + c] = from[r + c * from_row];
      }
    }
  }
}

struct RunLayout {
  Shape dims, from, to;
};

// Neighbouring dims that both sides walk as one become one; dims of 1 go.
RunLayout merged(const Shape& dims, const Shape& from, const Shape& to) {
  RunLayout m;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] == 1) continue;
    if (!m.dims.empty() && m.from.back() == from[k] * dims[k] && m.to.back() == to[k] * dims[k]) {
      m.dims.back() *= dims[k];
      m.from.back() = from[k];
      m.to.back() = to[k];
    } else {
      m.dims.push_back(dims[k]);
      m.from.push_back(from[k]);
      m.to.push_back(to[k]);
    }
  }
  return m;
}

template <typename U>
void copy_layout(const RunLayout& m, const U* from, U* to) {
  const std::size_t rank = m.dims.size();
  // The dim along which the source is contiguous becomes the row of a blocked transpose with the last one.
  if (rank >= 2 && m.from.back() > 1 && m.to.back() == 1 && m.dims.back() > 1) {
    for (std::size_t k = 0; k + 1 < rank; ++k) {
      if (m.from[k] != 1 || m.dims[k] < 4) continue;
      RunLayout rest = m;
      rest.dims[k] = rest.dims.back() = 1;
      for_each_run<2>(rest.dims, {rest.from, rest.to}, [&](const auto& offset, std::int64_t n, const auto& inner) {
        for (std::int64_t i = 0; i < n; ++i) {
          copy_transposed(from + offset[0] + i * inner[0], m.from.back(), to + offset[1] + i * inner[1], m.to[k], m.dims[k], m.dims.back());
        }
      });
      return;
    }
  }
  for_each_run<2>(m.dims, {m.from, m.to}, [&](const auto& offset, std::int64_t n, const auto& inner) {
    copy_run(from + offset[0], inner[0], to + offset[1], inner[1], n);
  });
}

}  // namespace

void copy_strided(const KernelContext& ctx, int unit, const Shape& dims, Strided<const std::byte> from, Strided<std::byte> to) {
  const std::int64_t total = product(dims);
  if (total == 0) return;
  const RunLayout m = merged(dims, from.strides, to.strides);
  with_unit(unit, [&]<typename U>(std::type_identity<U>) {
    const U* source = reinterpret_cast<const U*>(from.data);
    U* target = reinterpret_cast<U*>(to.data);
    constexpr std::int64_t kGrain = 1 << 14;  // elements a task should move
    if (ctx.options.threads == 1 || total < 2 * kGrain || m.dims.empty()) return copy_layout(m, source, target);
    const std::int64_t each = total / m.dims[0];
    parallel_for(ctx, m.dims[0], std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, each)),
                 [&](std::int64_t begin, std::int64_t end) {
                   RunLayout part = m;
                   part.dims[0] = end - begin;
                   copy_layout(part, source + begin * m.from[0], target + begin * m.to[0]);
                 });
  });
}

Outputs rearrange(const KernelContext& ctx, const Tensor& input, const Shape& dims, const Shape& strides, std::int64_t offset) {
  Moving moving(ctx, input.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(input);
  if (product(dims) != 0) copy_strided(ctx, moving.unit(), dims, {from + offset * moving.unit(), strides}, {*to, strides_of(dims)});
  return one_output(moving.take());
}

absl::StatusOr<std::vector<double>> to_doubles(const KernelContext& ctx, const Tensor& tensor) {
  const auto n = static_cast<std::size_t>(tensor.size());
  if (n > ctx.options.memory_limit / sizeof(double))
    return absl::ResourceExhaustedError("an intermediate tensor is above the memory limit");
  std::vector<double> out(n);
  const DType dtype = tensor.dtype();
  if (is_tiny_float(dtype) || is_tiny_integer(dtype)) {
    std::vector<std::uint8_t> codes(n);
    unpack_bits(tensor, codes.data());
    for (std::size_t i = 0; i < n; ++i)
      out[i] = is_tiny_float(dtype) ? decode_tiny_float(dtype, codes[i]) : decode_tiny_integer(dtype, codes[i]);
    return out;
  }
  const Outputs done = dispatch(NumericAndBoolTypes(), ctx, dtype, [&]<typename T>(std::type_identity<T>) -> Outputs {
    const T* x = tensor.data<T>();
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<double>(static_cast<Compute<T>>(x[i]));
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return out;
}

absl::StatusOr<Tensor> from_doubles(const KernelContext& ctx, DType dtype, const Shape& dims, std::span<const double> values) {
  auto tensor = ctx.allocate(dtype, dims);
  if (!tensor.ok()) return tensor;
  const std::size_t n = values.size();
  if (is_tiny_float(dtype) || is_tiny_integer(dtype)) {
    std::vector<std::uint8_t> codes(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (is_tiny_float(dtype)) {
        codes[i] = encode_tiny_float(dtype, narrow_round_to_odd(values[i]), true);
      } else {
        const double low = static_cast<double>(integer_min(dtype)), high = static_cast<double>(integer_max(dtype));
        codes[i] = static_cast<std::uint8_t>(static_cast<int>(std::clamp(std::nearbyint(values[i]), low, high)));
      }
    }
    pack_bits(codes, bit_width(dtype), write<std::byte>(*tensor));
    return tensor;
  }
  const Outputs done = dispatch(NumericAndBoolTypes(), ctx, dtype, [&]<typename T>(std::type_identity<T>) -> Outputs {
    T* y = write<T>(*tensor);
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (is_float_v<T>) {
        y[i] = static_cast<T>(values[i]);
      } else if constexpr (std::is_same_v<T, bool>) {
        y[i] = values[i] != 0;
      } else {
        const double r = std::nearbyint(values[i]);
        // The largest 64-bit integers are not doubles: compare before converting.
        if (!(r >= static_cast<double>(std::numeric_limits<T>::min())))
          y[i] = std::isnan(r) ? T{0} : std::numeric_limits<T>::min();
        else if (r >= static_cast<double>(std::numeric_limits<T>::max()))
          y[i] = std::numeric_limits<T>::max();
        else
          y[i] = static_cast<T>(r);
      }
    }
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return tensor;
}

absl::StatusOr<std::vector<std::int64_t>> to_integers(const KernelContext& ctx, const Tensor& tensor) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(tensor.size()));
  if (is_tiny_integer(tensor.dtype())) {
    std::vector<std::uint8_t> codes(out.size());
    unpack_bits(tensor, codes.data());
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): a number, whose sign is meant
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = decode_tiny_integer(tensor.dtype(), codes[i]);
    return out;
  }
  const Outputs done = dispatch(Join<IntTypes, Types<bool>>(), ctx, tensor.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): likewise
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int64_t>(tensor.data<T>()[i]);
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return out;
}

absl::StatusOr<std::vector<int>> axes_of(const KernelContext& ctx, std::span<const std::int64_t> axes, int rank) {
  std::vector<int> out;
  for (std::int64_t a : axes) {
    const std::optional<int> axis = normalize_axis(a, rank);
    if (!axis) return ctx.invalid("an axis is out of range");
    if (std::find(out.begin(), out.end(), *axis) != out.end()) return ctx.invalid("an axis is given twice");
    out.push_back(*axis);
  }
  return out;
}

absl::StatusOr<Tensor> stack(const KernelContext& ctx, std::span<const Tensor> parts, std::int64_t axis) {
  if (parts.empty()) return ctx.invalid("there is nothing to stack");
  const Tensor& first = parts.front();
  const std::optional<int> at = normalize_axis(axis, first.rank() + 1);
  if (!at) return ctx.invalid("the axis is out of range");
  Shape dims = first.dims();
  dims.insert(dims.begin() + *at, static_cast<std::int64_t>(parts.size()));
  Moving moving(ctx, first.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  Shape strides = strides_of(dims);
  const std::int64_t step = strides[*at];
  strides.erase(strides.begin() + *at);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].dtype() != first.dtype() || parts[i].dims() != first.dims())
      return ctx.invalid("tensors to be stacked differ in element type or shape");
    const std::byte* from = moving.units(parts[i]);
    copy_strided(ctx, moving.unit(), first.dims(), {from, strides_of(first.dims())},
                 {*to + static_cast<std::int64_t>(i) * step * moving.unit(), strides});
  }
  return moving.take();
}

absl::StatusOr<Tensor> select(const KernelContext& ctx, const Tensor& tensor, int axis, std::int64_t index) {
  Shape dims = tensor.dims(), strides = strides_of(dims);
  const std::int64_t offset = index * strides[axis];
  dims.erase(dims.begin() + axis);
  strides.erase(strides.begin() + axis);
  Outputs out = rearrange(ctx, tensor, dims, strides, offset);
  if (!out.ok()) return out.status();
  return out->front().tensor();
}

absl::StatusOr<std::int64_t> one_integer(const KernelContext& ctx, const Tensor& tensor) {
  if (tensor.size() != 1) return ctx.invalid("a single number is expected");
  const auto values = to_integers(ctx, tensor);
  if (!values.ok()) return values.status();
  return values->front();
}

}  // namespace saturate
