// Integers of few bits, several a byte: as a tensor of such integers, and back.
#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "rules/evaluate/functions.h"

namespace saturate {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 31;  // of a weight

std::optional<DType> unsigned_of(std::int64_t bits) {
  switch (bits) {
    case 2:
      return DType::kUint2;
    case 4:
      return DType::kUint4;
    case 8:
      return DType::kUint8;
    default:
      return std::nullopt;
  }
}

struct PackedShape {
  DType dtype = DType::kUndefined;
  Shape dims;
  std::int64_t rows = 0, columns = 0;  // of which each begins with a byte
};

std::optional<PackedShape> shape_of(EvalContext& c, const Val& of_bits, const Val& of_dims) {
  const auto bits = c.as_int(of_bits);
  const auto dims = bits ? c.as_ints(of_dims) : std::nullopt;
  if (!dims) return std::nullopt;
  const auto dtype = unsigned_of(*bits);
  const auto elements = checked_elements(*dims);
  if (!dtype || !elements || *elements == 0 || dims->empty())
    return c.fail([&] { return fmt::format("there are no packed integers of {} bits and dims {}", *bits, c.show(of_dims)); });
  return PackedShape{*dtype, *dims, *elements / dims->back(), dims->back()};
}

std::int64_t bytes_of_row(const PackedShape& p) { return (p.columns * bit_width(p.dtype) + 7) / 8; }

// from_bytes(B, bits, dims)
Result from_bytes(EvalContext& c, Args a) {
  const auto p = shape_of(c, a[1], a[2]);
  const auto t = p ? c.as_tensor(a[0], kMostBytes) : std::nullopt;
  if (!t) return std::nullopt;
  const auto size = static_cast<std::int64_t>(t->bytes().size());
  if (t->dtype() != DType::kUint8 || size % p->rows != 0 || size / p->rows < bytes_of_row(*p))
    return c.fail([&] { return fmt::format("{} does not hold these integers", c.show(a[0])); });
  const std::int64_t row = size / p->rows;
  if (row * 8 == p->columns * bit_width(p->dtype)) {  // the same bytes
    auto owner = std::make_shared<const Tensor>(*t);
    const auto bytes = owner->bytes();
    return Val(Tensor(p->dtype, p->dims, std::move(owner), bytes));
  }
  Tensor out(p->dtype, p->dims);
  const int bits = bit_width(p->dtype);
  for (std::int64_t r = 0; r < p->rows; ++r)
    for (std::int64_t i = 0; i < p->columns; ++i) {
      const auto byte = static_cast<unsigned>(t->bytes()[static_cast<std::size_t>(r * row + i * bits / 8)]);
      store_int(out, r * p->columns + i, (byte >> (i * bits % 8)) & ((1u << bits) - 1));
    }
  return Val(std::move(out));
}

// to_bytes(W, axis, dims): of a matrix; signed integers by half of their range above what they are.
Result to_bytes(EvalContext& c, Args a) {
  const auto axis = c.as_int(a[1]);
  const auto dims = axis ? c.as_ints(a[2]) : std::nullopt;
  const auto t = dims ? c.as_tensor(a[0], kMostBytes) : std::nullopt;
  if (!t) return std::nullopt;
  const int bits = bit_width(t->dtype());
  const auto elements = checked_elements(*dims);
  if (t->rank() != 2 || *axis < 0 || *axis > 1 || !is_integer(t->dtype()) || bits > 8 || bits == 0 || !elements)
    return c.fail([&] { return fmt::format("{} is no matrix of integers of few bits", c.show(a[0])); });
  const std::int64_t rows = t->dims()[1 - *axis], columns = t->dims()[*axis], row = rows == 0 ? 0 : *elements / rows;
  if (row * rows != *elements || row < (columns * bits + 7) / 8)
    return c.fail([&] { return fmt::format("{} has no room in dims {}", c.show(a[0]), c.show(a[2])); });
  const unsigned middle = has_sign(t->dtype()) ? 1u << (bits - 1) : 0, mask = (1u << bits) - 1;
  const auto* from = t->data<std::uint8_t>();
  const auto code = [&](std::int64_t at) { return ((from[at * bits / 8] >> (at * bits % 8)) ^ middle) & mask; };
  Tensor out(DType::kUint8, *dims);
  auto* to = out.mutable_as<std::uint8_t>();
  const std::int64_t along = *axis == 1 ? 1 : rows, across = *axis == 1 ? columns : 1;
  // In the order in which the matrix lies.
  for (std::int64_t outer = 0; outer < (*axis == 1 ? rows : columns); ++outer)
    for (std::int64_t inner = 0; inner < (*axis == 1 ? columns : rows); ++inner) {
      const std::int64_t r = *axis == 1 ? outer : inner, i = *axis == 1 ? inner : outer;
      std::uint8_t& byte = to[r * row + i * bits / 8];
      byte = static_cast<std::uint8_t>(byte | code(r * across + i * along) << (i * bits % 8));
    }
  return Val(std::move(out));
}

// middle(bits, dims)
Result middle(EvalContext& c, Args a) {
  const auto p = shape_of(c, a[0], a[1]);
  if (!p) return std::nullopt;
  Tensor out(p->dtype, p->dims);
  const int bits = bit_width(p->dtype);
  std::memset(out.mutable_data(), bits == 8 ? 0x80 : bits == 4 ? 0x88 : 0xaa, out.bytes().size());
  for (std::int64_t i = out.size(); bits < 8 && i * bits < 8 * static_cast<std::int64_t>(out.bytes().size()); ++i)
    out.mutable_as<std::uint8_t>()[i * bits / 8] &= static_cast<std::uint8_t>((1u << (i * bits % 8)) - 1);
  return Val(std::move(out));
}

constexpr RuleFunction kPackedFunctions[] = {
    {"from_bytes", 3, 3, "(c, bits, dims) -> tensor",
     "The unsigned integers of 2, 4 or 8 bits in a constant of bytes, whose rows along the last axis begin with a byte each.",
     "from_bytes(B, 4, [n, k])", from_bytes},
    {"to_bytes", 3, 3, "(c, axis, dims) -> tensor",
     "The bytes of a constant matrix of integers of few bits, of these dims, its rows along an axis; signed ones are moved up by half.",
     "to_bytes(W, 0, [n, m, 16])", to_bytes},
    {"middle", 2, 2, "(bits, dims) -> tensor", "Unsigned integers of 2, 4 or 8 bits, all in the middle of their range.",
     "middle(4, [n, m])", middle},
};

}  // namespace

std::span<const RuleFunction> packed_functions() { return kPackedFunctions; }

}  // namespace saturate
