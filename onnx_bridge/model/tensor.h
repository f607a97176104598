// Element types and immutable tensors. Data is shared, never copied: it lies in a model's message, a mapped file or a buffer of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace saturate {

// Values of onnx.TensorProto.DataType (onnx.proto3, IR 14).
enum class DType : std::int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8e4m3fn = 17,
  kFloat8e4m3fnuz = 18,
  kFloat8e5m2 = 19,
  kFloat8e5m2fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4e2m1 = 23,
  kFloat8e8m0 = 24,
  kUint2 = 25,
  kInt2 = 26,
  kFloat6e2m3 = 27,
  kFloat6e3m2 = 28,
};

// Bits of one element as it lies in raw_data (sub-byte types are packed, low bits first); 0 for strings and unknown types.
int bit_width(DType dtype);
// "float", "int64", ... as in ONNX text; "type 99" for an unknown number.
std::string dtype_name(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
bool is_floating(DType dtype);  // every float format
bool is_integer(DType dtype);   // signed and unsigned, not bool
bool has_sign(DType dtype);     // signed integers and floats

using Shape = std::vector<std::int64_t>;

// Product of dims; nullopt on overflow or a negative dim.
std::optional<std::int64_t> checked_elements(std::span<const std::int64_t> dims);

// Whether a number that a file states is at most so far from 0; of the lowest one std::abs has no answer.
constexpr bool is_within(std::int64_t x, std::int64_t most) { return x >= -most && x <= most; }
// Bytes of a tensor's data; nullopt on overflow.
std::optional<std::size_t> checked_bytes(DType dtype, std::span<const std::int64_t> dims);

// A file range that a tensor's data comes from (external data): copied file to file where the tensor is not changed.
struct FileRange {
  std::string path;  // as opened
  std::uint64_t offset = 0, length = 0;
  int fd = -1;  // open as long as `file` lives
  std::shared_ptr<const void> file;
};

class Tensor {
 public:
  Tensor() = default;
  // Made once, in tensor.cpp, instead of in every file that holds a tensor: a copy counts three owners.
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;
  ~Tensor();
  // Zero-initialized buffer of its own. Dims must have passed checked_bytes.
  Tensor(DType dtype, Shape dims);
  // A view of `bytes` kept alive by `owner`. Little-endian, packed, as raw_data.
  Tensor(DType dtype, Shape dims, std::shared_ptr<const void> owner, std::span<const std::byte> bytes);
  static Tensor strings(Shape dims, std::vector<std::string> values);
  template <typename T>
  static Tensor of(DType dtype, Shape dims, std::span<const T> values) {
    Tensor t(dtype, std::move(dims));
    if (!values.empty()) std::memcpy(t.mutable_data(), values.data(), values.size_bytes());
    return t;
  }
  static Tensor scalar_int64(std::int64_t value) { return of<std::int64_t>(DType::kInt64, {}, std::span(&value, 1)); }
  static Tensor vector_int64(std::span<const std::int64_t> v) {
    return of<std::int64_t>(DType::kInt64, {static_cast<std::int64_t>(v.size())}, v);
  }

  DType dtype() const { return dtype_; }
  const Shape& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  std::int64_t size() const { return elements_; }  // elements
  std::span<const std::byte> bytes() const { return bytes_; }
  // Buffers are 64-byte aligned; of views see is_aligned().
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }  // buffers are 64-byte aligned unless views
  template <typename T>
  std::span<const T> span() const {
    return {data<T>(), static_cast<std::size_t>(elements_)};
  }
  std::span<const std::string> string_data() const {
    return strings_ ? std::span<const std::string>(*strings_) : std::span<const std::string>();
  }
  // Only on a tensor that was just made with its own buffer and is not shared yet.
  std::byte* mutable_data();
  template <typename T>
  T* mutable_as() {
    return reinterpret_cast<T*>(mutable_data());
  }
  std::vector<std::string>& mutable_strings();
  // The same data under other dims of the same product.
  Tensor reshaped(Shape dims) const;
  // Where the data comes from, if from a file.
  const std::shared_ptr<const FileRange>& file_range() const { return file_range_; }
  void set_file_range(std::shared_ptr<const FileRange> range) { file_range_ = std::move(range); }
  // Whether the bytes are those of a file mapped for reading: its pages can be given back, and are read again when touched.
  bool mapped() const { return mapped_; }
  void set_mapped(bool mapped) { mapped_ = mapped; }
  bool unique() const { return owner_.use_count() <= 1; }

 private:
  DType dtype_ = DType::kUndefined;
  Shape dims_;
  std::int64_t elements_ = 0;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<std::vector<std::string>> strings_;
  std::shared_ptr<const FileRange> file_range_;
  bool mapped_ = false;
};

// Tells the system that the tensor's data will not be needed soon: of tensors that view a mapped file, the pages are given back (they are
// read again from the file when touched). Call it after walking through big weights. Nothing happens to other tensors.
void release_pages(const Tensor& t);
// Whether the elements lie where C++ may read them as numbers. Data that is mapped from a file begins anywhere; `bytes()` is always right.
bool is_aligned(const Tensor& t);
// The tensor itself, or a copy that is aligned.
Tensor aligned(const Tensor& t);
// The tensor itself; of bools a copy, where some byte is neither 0 nor 1. C++ may read no other, but a file or a caller may hold any: they
// are 1.
Tensor with_plain_bools(Tensor t);
// Same dtype, dims and bits of all elements.
bool identical(const Tensor& a, const Tensor& b);
// Element i as double / int64 (any numeric dtype, sub-byte and float8 too); nullopt for strings and complex.
std::optional<double> element_as_double(const Tensor& t, std::int64_t i);
std::optional<std::int64_t> element_as_int(const Tensor& t, std::int64_t i);
// Stores a number as element i of a tensor that was just made (all dtypes but strings and complex): floats rounded to nearest, ties to
// even, too large ones to infinity where the dtype has it. False, and nothing stored, where the dtype cannot hold the number.
bool store_double(Tensor& t, std::int64_t i, double value);
bool store_int(Tensor& t, std::int64_t i, std::int64_t value);
// The bits of element i, for dtypes of at most 64 bits.
std::uint64_t element_bits(const Tensor& t, std::int64_t i);
void store_bits(Tensor& t, std::int64_t i, std::uint64_t bits);

}  // namespace saturate
