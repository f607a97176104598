#include "onnx_bridge/model/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <new>

#include "fmt/format.h"
#include "onnx_bridge/model/bytes.h"
#include "onnx_bridge/model/dtype_rows.h"

namespace saturate {
namespace {

const DtypeRow* row_of(DType dtype) {
  const auto i = static_cast<std::int32_t>(dtype);
  return i >= 0 && i < static_cast<std::int32_t>(kDtypes.size()) ? &kDtypes[static_cast<std::size_t>(i)] : nullptr;
}

// How a small float format spends its codes (ONNX docs, technical/float8.md, float4.md; OCP MX v1.0).
struct Minifloat {
  int exponent_bits, mantissa_bits, bias;
  enum class Special { kNone, kIeee, kAllOnesNan, kNegativeZeroNan } special;
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
};

// Of the floats with a sign, below 32 bits; float8e8m0 has none.
std::optional<Minifloat> minifloat(DType dtype) {
  using S = Minifloat::Special;
  switch (dtype) {
    case DType::kFloat16:
      return Minifloat{5, 10, 15, S::kIeee};
    case DType::kBfloat16:
      return Minifloat{8, 7, 127, S::kIeee};
    case DType::kFloat8e4m3fn:
      return Minifloat{4, 3, 7, S::kAllOnesNan};
    case DType::kFloat8e4m3fnuz:
      return Minifloat{4, 3, 8, S::kNegativeZeroNan};
    case DType::kFloat8e5m2:
      return Minifloat{5, 2, 15, S::kIeee};
    case DType::kFloat8e5m2fnuz:
      return Minifloat{5, 2, 16, S::kNegativeZeroNan};
    case DType::kFloat4e2m1:
      return Minifloat{2, 1, 1, S::kNone};
    case DType::kFloat6e2m3:
      return Minifloat{2, 3, 1, S::kNone};
    case DType::kFloat6e3m2:
      return Minifloat{3, 2, 3, S::kNone};
    default:
      return std::nullopt;
  }
}

double decode(std::uint32_t code, const Minifloat& f) {
  const int sign_at = f.exponent_bits + f.mantissa_bits;
  const std::uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1), max_exponent = (1u << f.exponent_bits) - 1;
  const std::uint32_t exponent = (code >> f.mantissa_bits) & max_exponent;
  const double sign = (code >> sign_at) & 1 ? -1.0 : 1.0;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (f.special == Minifloat::Special::kNegativeZeroNan && code == 1u << sign_at) return nan;
  if (exponent == max_exponent && f.special == Minifloat::Special::kIeee)
    return mantissa ? nan : sign * std::numeric_limits<double>::infinity();
  if (exponent == max_exponent && f.special == Minifloat::Special::kAllOnesNan && mantissa == (1u << f.mantissa_bits) - 1) return nan;
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(mantissa), 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp(static_cast<double>(mantissa | (1u << f.mantissa_bits)), static_cast<int>(exponent) - f.bias - f.mantissa_bits);
}

template <typename T>
T read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// `width` (< 8) bits of element i of a stream packed low bits first.
std::uint32_t packed_bits(std::span<const std::byte> bytes, std::int64_t i, int width) {
  const std::size_t bit = static_cast<std::size_t>(i) * static_cast<std::size_t>(width), byte = bit / 8;
  std::uint32_t both = static_cast<std::uint32_t>(bytes[byte]);
  if (byte + 1 < bytes.size()) both |= static_cast<std::uint32_t>(bytes[byte + 1]) << 8;
  return (both >> (bit % 8)) & ((1u << width) - 1);
}

std::int64_t sign_extend(std::uint32_t code, int width) {
  return code >> (width - 1) & 1 ? static_cast<std::int64_t>(code) - (1 << width) : code;
}

double float_element(const Tensor& t, std::int64_t i) {
  const std::byte* at = t.bytes().data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(bit_width(t.dtype())) / 8;
  if (t.dtype() == DType::kFloat) return read_as<float>(at);
  if (t.dtype() == DType::kDouble) return read_as<double>(at);
  const auto code = static_cast<std::uint32_t>(element_bits(t, i));
  if (const auto format = minifloat(t.dtype())) return decode(code, *format);
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(code) - 127);  // float8e8m0
}

// The code of the nearest number, ties to even; codes of one sign are in the order of their numbers. nullopt: too large, or NaN without a
// code.
std::optional<std::uint32_t> encode(double value, const Minifloat& f) {
  using S = Minifloat::Special;
  const std::uint32_t sign_bit = 1u << (f.bits() - 1);
  if (std::isnan(value)) {
    if (f.special == S::kNone) return std::nullopt;
    if (f.special == S::kNegativeZeroNan) return sign_bit;
    const std::uint32_t exponent = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
    return exponent | (f.special == S::kIeee ? 1u << (f.mantissa_bits - 1) : (1u << f.mantissa_bits) - 1);
  }
  std::uint32_t largest = sign_bit - 1;
  if (f.special == S::kAllOnesNan) --largest;
  if (f.special == S::kIeee) largest -= 1u << f.mantissa_bits;
  const double magnitude = std::fabs(value), top = decode(largest, f), step = top - decode(largest - 1, f);
  const std::uint32_t sign = std::signbit(value) ? sign_bit : 0;
  if (magnitude >= top + step / 2 || (magnitude > top && std::isinf(magnitude))) {
    if (f.special != S::kIeee) return std::nullopt;
    return sign | (largest + 1);
  }
  std::uint32_t low = 0, high = largest;  // decode(low) <= magnitude, the largest such
  while (low < high) {
    const std::uint32_t middle = (low + high + 1) / 2;
    if (decode(middle, f) <= magnitude)
      low = middle;
    else
      high = middle - 1;
  }
  if (low < largest) {
    const double below = magnitude - decode(low, f), above = decode(low + 1, f) - magnitude;
    if (above < below || (above == below && (low & 1))) ++low;
  }
  if (low == 0 && f.special == S::kNegativeZeroNan) return 0;
  return sign | low;
}

std::int64_t integer_element(const Tensor& t, std::int64_t i) {
  const std::byte* at = t.bytes().data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(bit_width(t.dtype())) / 8;
  switch (t.dtype()) {
    case DType::kUint8:
      return read_as<std::uint8_t>(at);
    case DType::kBool:
      return read_as<std::uint8_t>(at) != 0;
    case DType::kInt8:
      return read_as<std::int8_t>(at);
    case DType::kUint16:
      return read_as<std::uint16_t>(at);
    case DType::kInt16:
      return read_as<std::int16_t>(at);
    case DType::kInt32:
      return read_as<std::int32_t>(at);
    case DType::kUint32:
      return read_as<std::uint32_t>(at);
    case DType::kUint4:
      return packed_bits(t.bytes(), i, 4);
    case DType::kInt4:
      return sign_extend(packed_bits(t.bytes(), i, 4), 4);
    case DType::kUint2:
      return packed_bits(t.bytes(), i, 2);
    case DType::kInt2:
      return sign_extend(packed_bits(t.bytes(), i, 2), 2);
    default:
      return read_as<std::int64_t>(at);  // int64 and, as bits, uint64
  }
}

bool holds(const Tensor& t, std::int64_t i) {
  const int bits = bit_width(t.dtype());
  return i >= 0 && i < t.size() && bits > 0 &&
         (static_cast<std::size_t>(i + 1) * static_cast<std::size_t>(bits) + 7) / 8 <= t.bytes().size();
}

void release_part(const Tensor& t, std::size_t at, std::size_t length) {
  if (!t.mapped()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)), base = reinterpret_cast<std::uintptr_t>(t.bytes().data()) + at;
  const std::uintptr_t begin = (base + page - 1) / page * page, end = (base + length) / page * page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

bool fits(DType dtype, std::int64_t value) {
  const int bits = bit_width(dtype);
  switch (dtype) {
    case DType::kBool:
      return value == 0 || value == 1;
    case DType::kUint64:
      return value >= 0;
    case DType::kInt64:
      return true;
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint4:
    case DType::kUint2:
      return value >= 0 && value < (std::int64_t{1} << bits);
    default:
      return bits > 0 && value >= -(std::int64_t{1} << (bits - 1)) && value < (std::int64_t{1} << (bits - 1));
  }
}

}  // namespace

std::uint64_t element_bits(const Tensor& t, std::int64_t i) {
  const int bits = bit_width(t.dtype());
  if (bits < 8) return packed_bits(t.bytes(), i, bits);
  std::uint64_t value = 0;
  std::memcpy(&value, t.bytes().data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(bits) / 8,
              static_cast<std::size_t>(std::min(bits, 64)) / 8);
  return value;
}

void store_bits(Tensor& t, std::int64_t i, std::uint64_t value) {
  const int bits = bit_width(t.dtype());
  std::byte* base = t.mutable_data();
  if (bits >= 8) {
    std::memcpy(base + static_cast<std::size_t>(i) * static_cast<std::size_t>(bits) / 8, &value,
                static_cast<std::size_t>(std::min(bits, 64)) / 8);
    return;
  }
  for (int b = 0; b < bits; ++b) {
    const std::size_t at = static_cast<std::size_t>(i) * static_cast<std::size_t>(bits) + static_cast<std::size_t>(b);
    const std::byte mask = std::byte{1} << (at % 8);
    base[at / 8] = value >> b & 1 ? base[at / 8] | mask : base[at / 8] & ~mask;
  }
}

bool store_int(Tensor& t, std::int64_t i, std::int64_t value) {
  if (is_floating(t.dtype())) return store_double(t, i, static_cast<double>(value));
  if (!holds(t, i) || !(is_integer(t.dtype()) || t.dtype() == DType::kBool) || !fits(t.dtype(), value)) return false;
  store_bits(t, i, static_cast<std::uint64_t>(value));
  return true;
}

bool store_double(Tensor& t, std::int64_t i, double value) {
  if (!holds(t, i)) return false;
  if (t.dtype() == DType::kFloat) return store_bits(t, i, std::bit_cast<std::uint32_t>(static_cast<float>(value))), true;
  if (t.dtype() == DType::kDouble) return store_bits(t, i, std::bit_cast<std::uint64_t>(value)), true;
  if (const auto format = minifloat(t.dtype())) {
    const auto code = encode(value, *format);
    if (code) store_bits(t, i, *code);
    return code.has_value();
  }
  if (t.dtype() == DType::kFloat8e8m0) {
    if (!std::isnan(value) && (value < std::ldexp(1.0, -127) || value > std::ldexp(1.0, 127))) return false;
    store_bits(t, i, std::isnan(value) ? 255 : static_cast<std::uint64_t>(std::lround(std::log2(value)) + 127));
    return true;
  }
  if (value != std::trunc(value)) return false;
  if (t.dtype() == DType::kUint64 && value >= 9223372036854775808.0 && value < 18446744073709551616.0)
    return store_bits(t, i, static_cast<std::uint64_t>(value)), true;
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return false;
  return store_int(t, i, static_cast<std::int64_t>(value));
}

int bit_width(DType dtype) {
  const DtypeRow* row = row_of(dtype);
  return row ? row->bits : 0;
}

std::string dtype_name(DType dtype) {
  const DtypeRow* row = row_of(dtype);
  return row ? std::string(row->name) : fmt::format("type {}", static_cast<std::int32_t>(dtype));
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 1; i < kDtypes.size(); ++i)
    if (kDtypes[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kDouble:
    case DType::kFloat16:
    case DType::kBfloat16:
    case DType::kFloat8e4m3fn:
    case DType::kFloat8e4m3fnuz:
    case DType::kFloat8e5m2:
    case DType::kFloat8e5m2fnuz:
    case DType::kFloat8e8m0:
    case DType::kFloat4e2m1:
    case DType::kFloat6e2m3:
    case DType::kFloat6e3m2:
      return true;
    default:
      return false;
  }
}

bool has_sign(DType dtype) {
  for (const DType s : {DType::kInt2, DType::kInt4, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64})
    if (dtype == s) return true;
  return is_floating(dtype);
}

bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kUint16:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint32:
    case DType::kUint64:
    case DType::kUint4:
    case DType::kInt4:
    case DType::kUint2:
    case DType::kInt2:
      return true;
    default:
      return false;
  }
}

std::optional<std::int64_t> checked_elements(std::span<const std::int64_t> dims) {
  std::int64_t product = 1;
  bool zero = false;
  for (std::int64_t d : dims) {
    if (d < 0) return std::nullopt;
    if (d == 0) zero = true;
    if (d != 0 && __builtin_mul_overflow(product, d, &product)) return std::nullopt;
  }
  return zero ? 0 : product;
}

std::optional<std::size_t> checked_bytes(DType dtype, std::span<const std::int64_t> dims) {
  const auto elements = checked_elements(dims);
  std::int64_t bits = 0;
  if (!elements || __builtin_mul_overflow(*elements, static_cast<std::int64_t>(bit_width(dtype)), &bits)) return std::nullopt;
  return static_cast<std::size_t>(bits / 8) + (bits % 8 ? 1 : 0);
}

Tensor::Tensor(const Tensor&) = default;
Tensor::Tensor(Tensor&&) noexcept = default;
Tensor& Tensor::operator=(const Tensor&) = default;
Tensor& Tensor::operator=(Tensor&&) noexcept = default;
Tensor::~Tensor() = default;

Tensor::Tensor(DType dtype, Shape dims) : dtype_(dtype), dims_(std::move(dims)) {
  const auto size = checked_bytes(dtype_, dims_);
  assert(size && "dims of a new tensor overflow");
  elements_ = checked_elements(dims_).value_or(0);
  if (dtype_ == DType::kString) {
    strings_ = std::make_shared<std::vector<std::string>>(static_cast<std::size_t>(elements_));
    return;
  }
  const std::size_t bytes = size.value_or(0);
  if (bytes == 0) return;
  std::byte* const data = take_bytes(bytes, true);
  if (!data) throw std::bad_alloc();
  owner_ = std::shared_ptr<const void>(data, [data, bytes](const void*) { give_bytes(data, bytes); });
  bytes_ = {data, bytes};
}

Tensor::Tensor(DType dtype, Shape dims, std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
    : dtype_(dtype), dims_(std::move(dims)), elements_(checked_elements(dims_).value_or(0)), owner_(std::move(owner)), bytes_(bytes) {}

Tensor Tensor::strings(Shape dims, std::vector<std::string> values) {
  Tensor t;
  t.dtype_ = DType::kString;
  t.dims_ = std::move(dims);
  t.elements_ = checked_elements(t.dims_).value_or(0);
  t.strings_ = std::make_shared<std::vector<std::string>>(std::move(values));
  return t;
}

std::byte* Tensor::mutable_data() {
  file_range_.reset();
  mapped_ = false;
  return const_cast<std::byte*>(bytes_.data());
}

std::vector<std::string>& Tensor::mutable_strings() {
  if (!strings_) strings_ = std::make_shared<std::vector<std::string>>();
  return *strings_;
}

Tensor Tensor::reshaped(Shape dims) const {
  Tensor t = *this;
  t.dims_ = std::move(dims);
  assert(checked_elements(t.dims_) == elements_ && "reshaped() must keep the number of elements");
  return t;
}

void release_pages(const Tensor& t) { release_part(t, 0, t.bytes().size()); }

bool is_aligned(const Tensor& t) {
  const std::size_t element = std::clamp<std::size_t>(static_cast<std::size_t>(bit_width(t.dtype())) / 8, 1, 8);
  return reinterpret_cast<std::uintptr_t>(t.bytes().data()) % element == 0;
}

Tensor aligned(const Tensor& t) {
  if (is_aligned(t)) return t;
  Tensor copy(t.dtype(), t.dims());
  std::memcpy(copy.mutable_data(), t.bytes().data(), t.bytes().size());
  release_pages(t);
  return copy;
}

Tensor with_plain_bools(Tensor t) {
  const std::span<const std::byte> bytes = t.bytes();
  if (t.dtype() != DType::kBool || std::ranges::all_of(bytes, [](std::byte b) { return b <= std::byte{1}; })) return t;
  Tensor plain(DType::kBool, t.dims());
  std::ranges::transform(bytes, plain.mutable_data(), [](std::byte b) { return std::min(b, std::byte{1}); });
  return plain;
}

bool identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims() || a.bytes().size() != b.bytes().size()) return false;
  const auto x = a.string_data(), y = b.string_data();
  if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
  if (a.bytes().data() == b.bytes().data()) return true;
  const FileRange *from = a.file_range().get(), *to = b.file_range().get();
  if (from && to && from->fd >= 0 && from->fd == to->fd && from->offset == to->offset) return true;
  // In steps, so that weights of any size are never in memory as a whole.
  constexpr std::size_t kStep = 8u << 20;
  std::size_t size = a.bytes().size();
  if (const int used = static_cast<int>(a.size() % 8) * bit_width(a.dtype()) % 8; used != 0 && size > 0) {
    --size;  // bits after the last element do not count
    if (((a.bytes()[size] ^ b.bytes()[size]) << (8 - used)) != std::byte{0}) return false;
  }
  for (std::size_t at = 0; at < size; at += kStep) {
    const std::size_t n = std::min(kStep, size - at);
    if (std::memcmp(a.bytes().data() + at, b.bytes().data() + at, n) != 0) return false;
    if (size <= kStep) break;
    release_part(a, at, n);
    release_part(b, at, n);
  }
  return true;
}

std::optional<double> element_as_double(const Tensor& t, std::int64_t i) {
  if (!holds(t, i)) return std::nullopt;
  if (is_floating(t.dtype())) return float_element(t, i);
  if (t.dtype() == DType::kUint64) return static_cast<double>(static_cast<std::uint64_t>(integer_element(t, i)));
  if (is_integer(t.dtype()) || t.dtype() == DType::kBool) return static_cast<double>(integer_element(t, i));
  return std::nullopt;
}

std::optional<std::int64_t> element_as_int(const Tensor& t, std::int64_t i) {
  if (!holds(t, i)) return std::nullopt;
  if (is_integer(t.dtype()) || t.dtype() == DType::kBool) {
    const std::int64_t value = integer_element(t, i);
    if (t.dtype() == DType::kUint64 && value < 0) return std::nullopt;
    return value;
  }
  if (!is_floating(t.dtype())) return std::nullopt;
  const double value = float_element(t, i);
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0) || value != std::trunc(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace saturate
