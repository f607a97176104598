// Cast, CastLike, BitCast (ONNX Operators: Cast, with its tables of special values).
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "kernels/core/codec.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

struct CastOptions {
  DType to = DType::kUndefined;
  bool saturate = true;
  Round8e8m0 round = Round8e8m0::kUp;
};

// Out of range: integers wrap, floats become infinite; a float outside an integer's range is undefined in ONNX: it saturates here (wraps
// for integers below 8 bits), NaN is 0.
template <typename D, typename S>
D convert(S s) {
  if constexpr (std::is_same_v<D, bool>) {
    return static_cast<Compute<S>>(s) != 0;
  } else if constexpr (is_float_v<S> && std::is_integral_v<D>) {
    const auto v = static_cast<std::conditional_t<std::is_same_v<S, double>, double, float>>(s);
    using V = decltype(v + v);
    if (std::isnan(v)) return D{0};
    // As V these bounds are exact powers of two (or exact small numbers).
    constexpr V kLow = static_cast<V>(std::numeric_limits<D>::min()), kHigh = static_cast<V>(std::numeric_limits<D>::max());
    if (v <= kLow) return std::numeric_limits<D>::min();
    if (v >= kHigh) return std::numeric_limits<D>::max();
    return static_cast<D>(v);
  } else {
    return static_cast<D>(static_cast<Compute<S>>(s));
  }
}

template <typename D>
struct ConvertTo {
  template <typename S>
  D operator()(S s) const {
    return convert<D>(s);
  }
};

}  // namespace

MapLoop cast_loop(DType from, DType to) {
  const auto loop = of_type(NumericAndBoolTypes{}, from, [to]<typename S>(std::type_identity<S>) -> MapLoop {
    const auto into =
        of_type(NumericAndBoolTypes{}, to, []<typename D>(std::type_identity<D>) -> MapLoop { return map_loop<S, D, ConvertTo<D>>; });
    return into.value_or(nullptr);
  });
  return loop.value_or(nullptr);
}

namespace {

// f(i, value) for elements of type `from` at `x`, as W.
template <typename W, typename F>
void for_each_widened(DType from, const std::byte* x, std::size_t size, F f) {
  std::array<W, 512> part;
  const MapLoop loop = cast_loop(from, dtype_of<W>());
  const auto width = static_cast<std::size_t>(bit_width(from) / 8);
  for (std::size_t begin = 0; begin < size; begin += part.size()) {
    const std::size_t n = std::min(part.size(), size - begin);
    loop(x + begin * width, part.data(), static_cast<std::int64_t>(n));
    for (std::size_t i = 0; i < n; ++i) f(begin + i, part[i]);
  }
}

Outputs cast_to_tiny(const KernelContext& ctx, DType from, const std::byte* x, const Shape& dims, const CastOptions& o) {
  auto out = ctx.allocate(o.to, dims);
  if (!out.ok()) return out.status();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(out->size()));
  if (is_tiny_integer(o.to)) {
    for_each_widened<std::int64_t>(from, x, codes.size(), [&](std::size_t i, std::int64_t v) {
      codes[i] = static_cast<std::uint8_t>(v & 0xff);  // discards higher bits
    });
  } else {
    for_each_widened<double>(from, x, codes.size(), [&](std::size_t i, double wide) {
      const float v = narrow_round_to_odd(wide);
      codes[i] = o.to == DType::kFloat8e8m0 ? encode_float8e8m0(v, o.saturate, o.round) : encode_tiny_float(o.to, v, o.saturate);
    });
  }
  pack_bits(codes, bit_width(o.to), write<std::byte>(*out));
  return outputs_of(*std::move(out));
}

Outputs cast_from(const KernelContext& ctx, DType from, const void* values, const Shape& dims, const CastOptions& o) {
  const std::byte* x = static_cast<const std::byte*>(values);
  if (!names(NumericAndBoolTypes{}, from)) return ctx.unsupported_dtype(from);
  if (is_tiny_float(o.to) || is_tiny_integer(o.to)) return cast_to_tiny(ctx, from, x, dims, o);
  auto out = ctx.allocate(o.to, dims);
  if (!out.ok()) return out.status();
  const MapLoop loop = cast_loop(from, o.to);
  if (loop == nullptr) return ctx.unsupported_dtype(o.to);
  std::byte* y = write<std::byte>(*out);
  const std::int64_t from_width = bit_width(from) / 8, to_width = bit_width(o.to) / 8;
  parallel_for(ctx, out->size(), 1 << 16,
               [&](std::int64_t begin, std::int64_t end) { loop(x + begin * from_width, y + begin * to_width, end - begin); });
  return outputs_of(*std::move(out));
}

// Shortest text that reads back as the same number; integers of floats without a point, as in C.
template <typename T>
std::string text_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  }
  return fmt::format("{}", value);
}

Outputs cast_to_strings(const KernelContext& ctx, const Tensor& x) {
  constexpr std::size_t kMostDigits = 32;
  const auto count = static_cast<std::size_t>(x.size());
  if (count > ctx.options.memory_limit / string_bytes(kMostDigits)) return ctx.room_for_strings(~std::size_t{0}).status();
  absl::StatusOr<std::shared_ptr<const void>> held = ctx.room_for_strings(count * string_bytes(kMostDigits));
  if (!held.ok()) return held.status();
  const auto made = [&](std::vector<std::string> texts) {
    return outputs_of(KernelContext::held_strings(x.dims(), std::move(texts), *std::move(held)));
  };
  std::vector<std::string> out(count);
  if (is_tiny_float(x.dtype()) || is_tiny_integer(x.dtype())) {
    const auto values = to_doubles(ctx, x);
    if (!values.ok()) return values.status();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = text_of(static_cast<float>((*values)[i]));
    return made(std::move(out));
  }
  if (!names(NumericAndBoolTypes{}, x.dtype())) return ctx.unsupported_dtype(x.dtype());
  const auto text = [&](std::size_t i, auto value) { out[i] = text_of(value); };
  if (x.dtype() == DType::kDouble)
    for_each_widened<double>(x.dtype(), x.bytes().data(), out.size(), text);
  else if (names(FloatTypes{}, x.dtype()))
    for_each_widened<float>(x.dtype(), x.bytes().data(), out.size(), text);
  else if (names(SignedTypes{}, x.dtype()))
    for_each_widened<std::int64_t>(x.dtype(), x.bytes().data(), out.size(), text);
  else
    for_each_widened<std::uint64_t>(x.dtype(), x.bytes().data(), out.size(), text);
  return made(std::move(out));
}

std::optional<double> number_of(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;  // from_chars reads inf, infinity and nan in any case
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return text.starts_with('-') ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Outputs cast_strings(const KernelContext& ctx, const Tensor& x, const CastOptions& o) {
  std::vector<double> numbers;
  std::vector<std::int64_t> wholes;  // 64-bit integers are not all doubles
  for (const std::string& s : x.string_data()) {
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), whole);
    if (error == std::errc() && end == s.data() + s.size()) wholes.push_back(whole);
    const std::optional<double> number = number_of(s);
    if (!number) return ctx.invalid(fmt::format("'{}' is not a number", s.substr(0, 40)));
    numbers.push_back(*number);
  }
  if (is_integer(o.to) && wholes.size() == numbers.size()) return cast_from(ctx, DType::kInt64, wholes.data(), x.dims(), o);
  return cast_from(ctx, DType::kDouble, numbers.data(), x.dims(), o);
}

Outputs cast_tensor(const KernelContext& ctx, const Tensor& x, const CastOptions& o) {
  if (x.dtype() == o.to) return outputs_of(x);
  if (o.to == DType::kString) return cast_to_strings(ctx, x);
  if (x.dtype() == DType::kString) return cast_strings(ctx, x, o);
  if (is_tiny_float(x.dtype()) || is_tiny_integer(x.dtype())) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(x.size()));
    unpack_bits(x, codes.data());
    if (is_tiny_float(x.dtype())) {
      std::vector<float> values(codes.size());
      for (std::size_t i = 0; i < codes.size(); ++i) values[i] = decode_tiny_float(x.dtype(), codes[i]);
      return cast_from(ctx, DType::kFloat, values.data(), x.dims(), o);
    }
    std::vector<std::int8_t> values(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) values[i] = decode_tiny_integer(x.dtype(), codes[i]);
    return cast_from(ctx, DType::kInt8, values.data(), x.dims(), o);
  }
  return cast_from(ctx, x.dtype(), x.bytes().data(), x.dims(), o);
}

absl::StatusOr<CastOptions> options_of(const KernelContext& ctx) {
  CastOptions o;
  o.saturate = ctx.attr_i("saturate", 1) != 0;
  const std::string round = ctx.attr_s("round_mode", "up");
  if (round == "down")
    o.round = Round8e8m0::kDown;
  else if (round == "nearest")
    o.round = Round8e8m0::kNearest;
  else if (round != "up")
    return ctx.invalid("the round_mode is not known");
  return o;
}

Outputs cast(KernelContext& ctx) {
  auto o = options_of(ctx);
  if (!o.ok()) return o.status();
  o->to = static_cast<DType>(ctx.attr_i("to", 0));
  if (ctx.opset < 6 && !ctx.has_attr("to")) return ctx.invalid("no type is given");
  if (o->to == DType::kUndefined) {  // version 1 names the type
    const std::optional<DType> named = parse_dtype(ctx.attr_s("to", ""));
    if (!named) return ctx.invalid("no type is given");
    o->to = *named;
  }
  return cast_tensor(ctx, ctx.tensor(0), *o);
}

Outputs cast_like(KernelContext& ctx) {
  auto o = options_of(ctx);
  if (!o.ok()) return o.status();
  if (!ctx.is_tensor(1)) return ctx.invalid("the second input is not a tensor");
  o->to = ctx.tensor(1).dtype();
  return cast_tensor(ctx, ctx.tensor(0), *o);
}

Outputs bit_cast(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto to = static_cast<DType>(ctx.attr_i("to", 0));
  if (bit_width(to) == 0 || bit_width(to) != bit_width(x.dtype())) return ctx.invalid("the types differ in width");
  auto out = ctx.allocate(to, x.dims());
  if (!out.ok()) return out.status();
  std::copy(x.bytes().begin(), x.bytes().end(), write<std::byte>(*out));
  return outputs_of(*std::move(out));
}

}  // namespace

void register_data_cast(Registry& registry) {
  registry.add("", "Cast", cast);
  registry.add("", "CastLike", cast_like);
  registry.add("", "BitCast", bit_cast);
}

}  // namespace saturate
