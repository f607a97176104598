// What kernels that move elements without computing share: elements of every type as units of 1, 2, 4, 8 or 16 bytes, and strided copies.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/kernel.h"

namespace saturate {

struct Unit16 {
  std::uint64_t low = 0, high = 0;
};

// Calls f(std::type_identity<U>()) with a trivially copyable U of `size` bytes (1, 2, 4, 8, 16).
template <typename F>
void with_unit(int size, F&& f) {
  switch (size) {
    case 1:
      return f(std::type_identity<std::uint8_t>());
    case 2:
      return f(std::type_identity<std::uint16_t>());
    case 4:
      return f(std::type_identity<std::uint32_t>());
    case 8:
      return f(std::type_identity<std::uint64_t>());
    default:
      return f(std::type_identity<Unit16>());
  }
}

// Elements of one dtype as units: sub-byte elements are widened to a byte each, strings become positions in a pool (unit 0 of which
// is the empty string), everything else is taken as it lies. Unit zero is the dtype's zero (false, "").
class Moving {
 public:
  Moving(const KernelContext& ctx, DType dtype);
  // kUnimplemented for dtypes that have no elements to move.
  absl::Status status() const { return status_; }
  int unit() const { return unit_; }
  // The units of a tensor of this dtype, alive as long as this object and the tensor.
  const std::byte* units(const Tensor& tensor);
  // Units to be written; at most as much as the context allows.
  absl::StatusOr<std::byte*> make(const Shape& dims);
  // Units that are those of `tensor`, an input of this dtype, until they are written over: in its place where nothing else needs it.
  absl::StatusOr<std::byte*> make_of(const Tensor& tensor);
  // The k-th made tensor (in order of make), packed.
  absl::StatusOr<Tensor> take(std::size_t k = 0);

 private:
  const KernelContext& ctx_;
  DType dtype_;
  int unit_ = 0;
  bool packed_ = false;
  absl::Status status_;
  std::deque<std::vector<std::uint64_t>> positions_;
  std::deque<std::vector<std::uint8_t>> widened_;
  std::vector<const std::string*> pool_;
  std::vector<std::pair<Tensor, Shape>> made_;
};

// Sub-byte elements one per byte (raw code, not sign-extended), and back.
void unpack_bits(const Tensor& tensor, std::uint8_t* codes);
void pack_bits(std::span<const std::uint8_t> codes, int bits, std::byte* packed);

// An array that lies in memory with these strides.
template <typename B>
struct Strided {
  B* data;
  const Shape& strides;
};
// Copies an array of `dims` from one layout to another; strides in units. Parallel where the context allows.
void copy_strided(const KernelContext& ctx, int unit, const Shape& dims, Strided<const std::byte> from, Strided<std::byte> to);

// One tensor, rearranged: element at index i of `dims` is taken from offset + sum(i * strides) of `input`.
Outputs rearrange(const KernelContext& ctx, const Tensor& input, const Shape& dims, const Shape& strides, std::int64_t offset = 0);

// Elements of any real dtype (sub-byte and 8-bit floats too) as doubles, and back: integers round to nearest even and saturate.
absl::StatusOr<std::vector<double>> to_doubles(const KernelContext& ctx, const Tensor& tensor);
absl::StatusOr<Tensor> from_doubles(const KernelContext& ctx, DType dtype, const Shape& dims, std::span<const double> values);
// Elements of any integer or bool dtype.
absl::StatusOr<std::vector<std::int64_t>> to_integers(const KernelContext& ctx, const Tensor& tensor);

// The axes of attribute or input `name` (whichever the version has), normalized; kInvalidArgument where out of range or doubled.
absl::StatusOr<std::vector<int>> axes_of(const KernelContext& ctx, std::span<const std::int64_t> axes, int rank);

// The tensors, all of one shape and dtype, along a new axis; the axis may be negative, counted in the result.
absl::StatusOr<Tensor> stack(const KernelContext& ctx, std::span<const Tensor> parts, std::int64_t axis);
// The slice at `index` of an axis, without that axis.
absl::StatusOr<Tensor> select(const KernelContext& ctx, const Tensor& tensor, int axis, std::int64_t index);
// A single number or bool given as a tensor of one element.
absl::StatusOr<std::int64_t> one_integer(const KernelContext& ctx, const Tensor& tensor);

template <typename T>
Outputs one_output(absl::StatusOr<T> value) {
  if (!value.ok()) return value.status();
  return outputs_of(*std::move(value));
}

}  // namespace saturate
