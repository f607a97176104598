#include "kernels/inputs/draw_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "egraph/stop.h"

namespace saturate {
namespace {

std::uint16_t to_half(float value) {
  // Rounding towards zero and flushing subnormals serves.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const int exponent = static_cast<int>((bits >> 23) & 255) - 127 + 15;
  if (((bits >> 23) & 255) == 255) return static_cast<std::uint16_t>(((bits >> 16) & 0x8000) | 0x7c00 | (std::isnan(value) ? 0x200 : 0));
  if (exponent <= 0) return static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000) | static_cast<std::uint32_t>(std::min(exponent, 30) << 10) |
                                    ((bits >> 13) & 0x3ff));
}

std::int64_t draw_int(const DrawStyle& style, std::int64_t i, bool first_of_row, Random& random) {
  switch (style.ints) {
    case IntStyle::kMask:
    case IntStyle::kCompared:
    case IntStyle::kLength:
      return (first_of_row || style.full_masks || random.below(4) != 0) != style.hiding;
    case IntStyle::kOnes:
      return 1;
    case IntStyle::kZeros:
      return 0;
    case IntStyle::kSmall:
      return 1 + random.below(3);
    case IntStyle::kCount:
      return i % 100;
  }
  return 0;
}

template <typename T>
void fill(Tensor& tensor, auto&& element) {
  T* data = tensor.mutable_as<T>();
  for (std::int64_t i = 0; i < tensor.size(); ++i) data[i] = static_cast<T>(element(i));
}

// False where the dtype is no float (of 16 bits or more) or complex number.
bool fill_with(Tensor& tensor, auto&& one) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      fill<float>(tensor, one);
      return true;
    case DType::kDouble:
      fill<double>(tensor, one);
      return true;
    case DType::kFloat16:
      fill<std::uint16_t>(tensor, [&](std::int64_t i) { return to_half(static_cast<float>(one(i))); });
      return true;
    case DType::kBfloat16:
      fill<std::uint16_t>(tensor, [&](std::int64_t i) { return std::bit_cast<std::uint32_t>(static_cast<float>(one(i))) >> 16; });
      return true;
    case DType::kComplex64:
      for (std::int64_t i = 0; i < 2 * tensor.size(); ++i) tensor.mutable_as<float>()[i] = static_cast<float>(one(i));
      return true;
    case DType::kComplex128:
      for (std::int64_t i = 0; i < 2 * tensor.size(); ++i) tensor.mutable_as<double>()[i] = one(i);
      return true;
    default:
      return false;
  }
}

// Numbers of one row that are far from what is usual.
class FarFloats {
 public:
  FarFloats(const DrawStyle& style, DType dtype)
      : reach_(style.reach), phase_(style.phase), narrow_(bit_width(dtype) <= 16), wide_(dtype == DType::kDouble) {}

  double of(std::int64_t row, std::int64_t i, double usual, Random& random) const {
    if (reach_ == Reach::kScaled) {
      const double large = narrow_ ? 100 : 1e4;
      switch ((row + phase_) % 4) {
        case 0:
          return (wide_ ? 1.7e9 : large) + usual;
        case 1:
          return usual / large;
        case 2:
          return usual * large;
        default:
          return usual;
      }
    }
    if (reach_ != Reach::kSpecial || i != row % 3) return usual;  // one in a row
    static constexpr double kSpecials[] = {-HUGE_VAL, -0.0, NAN, HUGE_VAL, 1e-40, -HUGE_VAL};
    return kSpecials[static_cast<std::size_t>(row + random.below(2)) % std::size(kSpecials)];
  }

 private:
  Reach reach_;
  std::int64_t phase_;
  bool narrow_, wide_;
};

// Elements that are far from 0 in the same way: those of a row, or each of a vector.
std::int64_t far_row(const Tensor& tensor) { return tensor.rank() < 2 ? 1 : std::max<std::int64_t>(tensor.dims().back(), 1); }

// On the edge between two steps of a quantizer, beside it, anywhere in its range, or beyond. `held`: edges near a usual number alone, since
// later quantizers may not hold what a whole range of large ones makes.
double at_quantizer(const QuantizerHint& quantizer, bool held, Random& random) {
  const double range = quantizer.high - quantizer.low;
  const double inside =
      held ? std::clamp(random.normal(), quantizer.low, quantizer.high - quantizer.step) : quantizer.low + range * random.uniform();
  const double edge = quantizer.low + (std::floor((inside - quantizer.low) / quantizer.step) + 0.5) * quantizer.step;
  const double beyond = quantizer.step * 0.6 + range * random.uniform();
  switch (random.below(held ? 4 : 6)) {
    case 0:
      return edge;
    case 1:
      return edge + quantizer.step * 1e-6 * (static_cast<double>(random.below(2)) * 2 - 1);
    case 4:
      return quantizer.low - beyond;
    case 5:
      return quantizer.high + beyond;
    default:
      return inside;
  }
}

// As sound and pictures are: smooth, of falling loudness, and silent at the end.
double smooth(double at, double row, double length) {
  const double loudness = at < 0.5 ? 1 : at < 0.625 ? 1e-3 : at < 0.75 ? 1e-6 : 0;
  const double most = std::clamp(length / 16, 1.0, 64.0), first = 1 + 0.37 * std::fmod(row, 7);
  return loudness * std::sin(2 * std::numbers::pi * (first * at + most * at * at) + 0.3);
}

// Numbers near 0, where epsilons count, by rows: smooth ones, small ones, smaller ones, zeros. Many rows lie together in quarters, so that
// windows see them apart.
class QuietFloats {
 public:
  QuietFloats(const DrawStyle& style, const Tensor& tensor) : phase_(style.phase) {
    constexpr std::int64_t kSmooth = 16, kApart = 16;
    const std::int64_t size = std::max<std::int64_t>(tensor.size(), 1), last = tensor.dims().empty() ? 1 : tensor.dims().back();
    length_ = tensor.rank() == 1 && last < kSmooth ? 1 : std::max<std::int64_t>(last, 1);
    is_smooth_ = length_ >= kSmooth;
    rows_ = size / length_;
    apart_ = rows_ >= kApart;
  }

  double of(std::int64_t i, double usual) const {
    const std::int64_t row = i / length_;
    switch (((apart_ ? row * 4 / rows_ : row) + phase_) % 4) {
      case 0:
        return is_smooth_ ? smooth(static_cast<double>(i % length_) / static_cast<double>(length_), static_cast<double>(row),
                                   static_cast<double>(length_))
                          : usual;
      case 1:
        return usual * 1e-3;
      case 2:
        return usual * 1e-6;
      default:
        return 0;
    }
  }

 private:
  std::int64_t phase_, length_ = 1, rows_ = 1;
  bool is_smooth_ = false, apart_ = false;
};

// The least by which a number of this type differs from 1.
double unit_of(DType dtype) {
  return dtype == DType::kDouble ? 0x1p-52 : dtype == DType::kFloat16 ? 0x1p-10 : dtype == DType::kBfloat16 ? 0x1p-7 : 0x1p-23;
}

// Numbers that comparisons, rounding and ties hang on, by turns: halves of small whole numbers, and what the model compares with, as it is,
// beyond and beside it.
double at_landmark(const NumbersOf& of, DType dtype, std::int64_t i, Random& random) {
  constexpr std::int64_t kSkipped = 3;  // so that small tensors of another phase go on
  const auto own = static_cast<std::int64_t>(of.compared.size()), count = own + static_cast<std::int64_t>(of.landmarks.size());
  if (count == 0 || (i + of.style.phase) % 2 == 0) return 0.5 * static_cast<double>(random.below(13) - 6);
  const std::int64_t k = i / 2 + kSkipped * of.style.phase, at = k % count;
  const double c = at < own ? of.compared[static_cast<std::size_t>(at)] : of.landmarks[static_cast<std::size_t>(at - own)];
  switch (k / count % 5) {
    case 0:
      return c;
    case 1:
      return c * 1.5;
    case 2:
      return c * (1 + unit_of(dtype));
    case 3:
      return c * (1 - unit_of(dtype));
    default:
      return -c;
  }
}

std::int64_t int_at_landmark(const NumbersOf& of, DType dtype, Random& random) {
  const bool is_signed = has_sign(dtype);
  if (of.limit > 0) {
    const std::int64_t ends[] = {0, of.limit - 1, is_signed && of.style.negative_ids && !of.style.usual_ints ? -1 : 0,
                                 is_signed && of.style.negative_ids && !of.style.usual_ints ? -of.limit : of.limit - 1};
    return random.below(3) == 0 ? random.below(of.limit) : ends[random.below(4)];
  }
  const auto count = static_cast<std::int64_t>(of.compared.size());
  const double most = bit_width(dtype) >= 64 ? 0x1p62 : std::exp2(bit_width(dtype) - (is_signed ? 1 : 0)) - 2;
  if (count > 0 && random.below(3) > 0)
    if (const double c = of.compared[static_cast<std::size_t>(random.below(count))]; std::abs(c) < most && (c >= 1 || is_signed))
      return std::max(static_cast<std::int64_t>(c) + random.below(3) - 1,
                      of.style.negative_ids ? static_cast<std::int64_t>(c) - 1 : std::int64_t{0});
  return random.below(7) - (is_signed && of.style.negative_ids ? 3 : 0);  // it may be an id whose table is not known
}

}  // namespace

bool fill_steps(Tensor& tensor, Random& random) {
  constexpr double kUsual = 1.0 / 32;  // floats of a usual size fill a part of a byte's range
  return fill_with(tensor, [&](std::int64_t) { return kUsual * (0.5 + random.uniform()); });
}

bool fill_floats(Tensor& tensor, const NumbersOf& of, Random& random) {
  const DrawStyle& style = of.style;
  const std::optional<QuantizerHint>& quantizer = of.quantizer;
  const std::int64_t row = tensor.dims().empty() ? 1 : std::max<std::int64_t>(tensor.dims().back(), 1);
  const FarFloats far(style, tensor.dtype());
  const QuietFloats quiet(style, tensor);
  const std::int64_t alike = far_row(tensor);
  const auto one = [&](std::int64_t i) {
    if (i % 0x10000 == 0) heed_stop();
    if (of.mask) return draw_int(style, i, i % row == 0, random) != 0 ? 1.0 : 0.0;
    if (style.reach == Reach::kQuantized && quantizer) return at_quantizer(*quantizer, style.held, random);
    const double usual = style.scale * (style.positive ? random.uniform() : random.normal());
    const double drawn = style.reach == Reach::kUsual || style.reach == Reach::kSwitched ? usual
                         : style.reach == Reach::kQuiet                                  ? quiet.of(i, usual)
                         : style.reach == Reach::kEdges                                  ? at_landmark(of, tensor.dtype(), i, random)
                                                                                         : far.of(i / alike, i % alike, usual, random);
    return style.held && quantizer ? std::clamp(drawn, quantizer->low, quantizer->high) : drawn;
  };
  return fill_with(tensor, one);
}

namespace {

// Integers far from those that masks, counts and indices are.
std::int64_t far_int(Reach reach, DType dtype, std::int64_t row, Random& random) {
  const int bits = bit_width(dtype);
  const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 || dtype == DType::kInt64;
  if (reach == Reach::kQuantized && bits <= 16) {  // the ends now and then
    const std::int64_t least = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0, values = std::int64_t{1} << bits;
    const std::int64_t at = random.below(values + values / 4);
    return at < values ? least + at : least + (at % 2) * (values - 1);
  }
  const std::int64_t most = bits >= 64 ? std::int64_t{1} << 40 : (std::int64_t{1} << (bits - (is_signed ? 1 : 0))) - 1;
  if (reach == Reach::kSpecial) {
    const std::int64_t top = bits >= 64 ? std::numeric_limits<std::int64_t>::max() : most;
    const std::int64_t ends[] = {0, top, is_signed || bits >= 64 ? -1 : 1, is_signed ? -top - 1 : 2};
    return ends[random.below(4)];
  }
  switch (row % 4) {
    case 0:  // close together, far from 0
      return (bits >= 32 ? 1'700'000'000 : most / 5 * 4) + random.below(bits >= 32 ? 200 : 8);
    case 1:
      return is_signed ? random.below(most) - most / 2 : random.below(most);
    case 3:  // beyond what a float of as many bits holds
      return bits < 32 ? most - random.below(8) : (std::int64_t{1} << (bits >= 64 ? 53 : 24)) + 1 + random.below(1 << 12);
    default:
      return random.below(21) - (is_signed ? 10 : 0);
  }
}

// An integer of this place.
std::int64_t one_int(const Tensor& tensor, const NumbersOf& of, std::int64_t i, Random& random) {
  const DrawStyle& style = of.style;
  const std::int64_t row = tensor.dims().empty() ? 1 : std::max<std::int64_t>(tensor.dims().back(), 1);
  if (of.length) return *of.length;
  if (style.reach == Reach::kSwitched && of.limit == 0) {
    const bool is_switch = tensor.size() == 1 && tensor.dims().size() <= 1;
    if (style.phase == 0) return !is_switch && i % row >= (row + 2) / 3;
    if (is_switch) return tensor.dtype() == DType::kBool ? random.below(2) : style.phase + 1;
  }
  if (style.reach == Reach::kEdges && tensor.dtype() != DType::kBool && (of.limit > 0 || !style.usual_ints))
    return int_at_landmark(of, tensor.dtype(), random);
  if (of.limit > 0 && (style.ints == IntStyle::kMask || style.ints == IntStyle::kLength)) return random.below(of.limit);
  const bool is_far = style.reach == Reach::kQuantized
                          ? of.dequantized
                          : (style.reach == Reach::kScaled || style.reach == Reach::kSpecial) && !style.usual_ints;
  if (is_far && of.limit == 0 && tensor.dtype() != DType::kBool)
    return far_int(style.reach, tensor.dtype(), i / far_row(tensor) + style.phase, random);
  if (style.ints == IntStyle::kCompared && !of.compared.empty()) {
    const std::size_t count = of.compared.size(), at = static_cast<std::size_t>(style.phase) % (count + 1);
    return static_cast<std::int64_t>(at < count ? of.compared[at] : of.compared.front() + 1);
  }
  return draw_int(style, i, i % row == 0, random);
}

}  // namespace

bool fill_ints(Tensor& tensor, const NumbersOf& of, Random& random) {
  const auto element = [&](std::int64_t i) { return one_int(tensor, of, i, random); };
  switch (tensor.dtype()) {
    case DType::kBool:
      fill<std::uint8_t>(tensor, [&](std::int64_t i) { return element(i) != 0; });
      return true;
    case DType::kUint8:
      fill<std::uint8_t>(tensor, element);
      return true;
    case DType::kInt8:
      fill<std::int8_t>(tensor, element);
      return true;
    case DType::kUint16:
      fill<std::uint16_t>(tensor, element);
      return true;
    case DType::kInt16:
      fill<std::int16_t>(tensor, element);
      return true;
    case DType::kUint32:
      fill<std::uint32_t>(tensor, element);
      return true;
    case DType::kInt32:
      fill<std::int32_t>(tensor, element);
      return true;
    case DType::kUint64:
      fill<std::uint64_t>(tensor, element);
      return true;
    case DType::kInt64:
      fill<std::int64_t>(tensor, element);
      return true;
    default:
      return false;
  }
}

Tensor other_numbers(const Tensor& given) {
  const DType dtype = given.dtype();
  const std::int64_t size = given.size();
  const std::size_t width = static_cast<std::size_t>(bit_width(dtype)) / 8;
  const bool counts = dtype == DType::kBool || (is_integer(dtype) && width > 0);
  if (size == 0 || !(counts || is_floating(dtype))) return given;
  Tensor out(dtype, given.dims());
  if (!counts) {
    const auto smaller = [&](std::int64_t i) {
      const double value = element_as_double(given, (i + 1) % size).value_or(0);
      return value == 0 ? 0.5 : 0.75 * value;
    };
    return fill_with(out, smaller) ? out : given;
  }
  std::byte* data = out.mutable_data();
  const std::span<const std::byte> bytes = given.bytes();
  std::ranges::rotate_copy(bytes, bytes.begin() + static_cast<std::ptrdiff_t>(width), data);
  if (std::ranges::equal(bytes, out.bytes()))  // all are the same
    for (std::size_t i = 0; i < bytes.size(); i += width) data[i] = static_cast<std::byte>(std::to_integer<unsigned>(data[i]) ^ 1u);
  return out;
}

}  // namespace saturate
