#include "tools/verify/draw_inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "fmt/format.h"
#include "tools/verify/draw_lengths.h"

namespace saturate {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;

std::string dim_symbol(const std::string& input, std::size_t axis) { return fmt::format("{}[{}]", input, axis); }

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

// Numbers of one row that are far from what is usual. `room`: about what the type holds without loss of everything, 1e4 or 100.
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

bool fill_floats(Tensor& tensor, const DrawStyle& style, bool mask, const std::optional<QuantizerHint>& quantizer, Random& random) {
  const std::int64_t row = tensor.dims().empty() ? 1 : std::max<std::int64_t>(tensor.dims().back(), 1);
  const FarFloats far(style, tensor.dtype());
  const std::int64_t alike = far_row(tensor);
  const auto one = [&](std::int64_t i) {
    if (mask) return draw_int(style, i, i % row == 0, random) != 0 ? 1.0 : 0.0;
    if (style.reach == Reach::kQuantized && quantizer) return at_quantizer(*quantizer, style.held, random);
    const double usual = style.positive ? random.uniform() : random.normal();
    const double drawn = style.reach == Reach::kUsual ? usual : far.of(i / alike, i % alike, usual, random);
    return style.held && quantizer ? std::clamp(drawn, quantizer->low, quantizer->high) : drawn;
  };
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
    const std::int64_t ends[] = {0, top, is_signed ? -1 : 1, is_signed ? -top - 1 : 2};
    return ends[random.below(4)];
  }
  switch (row % 3) {
    case 0:  // close together, far from 0
      return (bits >= 32 ? 1'700'000'000 : most / 5 * 4) + random.below(bits >= 32 ? 200 : 8);
    case 1:
      return is_signed ? random.below(most) - most / 2 : random.below(most);
    default:
      return random.below(21) - (is_signed ? 10 : 0);
  }
}

bool fill_ints(Tensor& tensor, auto&& element) {
  switch (tensor.dtype()) {
    case DType::kBool:
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

}  // namespace

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
double Random::normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * std::numbers::pi * uniform()); }
std::int64_t Random::below(std::int64_t limit) { return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(limit)); }

InputDrawer::InputDrawer(const Model& model, Sizes fixed) : fixed_(std::move(fixed)) {
  std::set<std::string> defaults;
  for (const Initializer& initializer : model.graph.initializers) defaults.insert(initializer.name);
  const InputUses uses(model.graph);
  for (const ValueInfo& info : model.graph.inputs) {
    Input input{info, std::nullopt, false, {}, defaults.contains(info.name)};
    if (info.type.kind == ValueType::Kind::kTensor && is_integer(info.type.dtype)) input.table = uses.rows(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_floating(info.type.dtype)) input.mask = uses.taken_from_one(info.name);
    if (info.type.kind == ValueType::Kind::kTensor) input.asked = uses.shape(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_floating(info.type.dtype)) input.quantizer = uses.quantizer(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_integer(info.type.dtype)) input.dequantized = uses.is_dequantized(info.name);
    inputs_.push_back(std::move(input));
  }
  collect_symbols();
  lengths_ = length_inputs(model.graph);
  for (const Node& node : model.graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kStrings && node.domain == "ai.onnx.ml")
        words_.insert(words_.end(), a.strings().begin(), a.strings().end());
}

void InputDrawer::collect_symbols() {
  symbols_.clear();
  twins_.clear();
  std::set<std::string> seen;
  std::map<std::pair<std::size_t, std::size_t>, std::string> first;  // by rank and axis
  for (const Input& input : inputs_) {
    const ValueInfo& info = input.info;
    const ValueType* type = &info.type;
    while (type->element && type->kind != ValueType::Kind::kMap) type = type->element.get();
    if (type->shape && !input.has_default) {
      for (std::size_t axis = 0; axis < type->shape->size(); ++axis) {
        const DimSpec& dim = (*type->shape)[axis];
        if (std::holds_alternative<std::int64_t>(dim)) continue;
        const auto* name = std::get_if<std::string>(&dim);
        for (const std::string& symbol : name ? dim_names(*name) : std::vector{dim_symbol(info.name, axis)})
          if (!fixed_.contains(symbol) && seen.insert(symbol).second) {
            symbols_.push_back(symbol);
            const auto [at, is_first] = first.emplace(std::pair(type->shape->size(), axis), symbol);
            if (!is_first) twins_[symbol] = at->second;
          }
      }
    }
  }
}

bool InputDrawer::open(const Input& input) const {
  return !input.has_default && input.info.type.kind == ValueType::Kind::kTensor && !input.info.type.shape;
}

bool InputDrawer::has_unknown_rank() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) { return open(input); });
}

bool InputDrawer::has_floats() const {
  const auto is_float = [](const Input& input) { return !input.has_default && is_floating(input.info.type.dtype); };
  return std::any_of(inputs_.begin(), inputs_.end(), is_float);
}

bool InputDrawer::has_quantizers() const {
  const auto at_quantizer = [](const Input& input) { return !input.has_default && (input.quantizer || input.dequantized); };
  return std::any_of(inputs_.begin(), inputs_.end(), at_quantizer);
}

bool InputDrawer::has_reach() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) {
    const ValueType& type = input.info.type;
    if (input.has_default || type.kind != ValueType::Kind::kTensor) return false;
    return is_floating(type.dtype) || (is_integer(type.dtype) && bit_width(type.dtype) >= 8 && !input.table);
  });
}

namespace {

// Axes of a shape of this rank that operators ask sizes of; nullopt where it has no such axis.
std::optional<std::vector<DimSpec>> as_asked(const ShapeHint& hint, std::vector<DimSpec> shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  for (const auto& [axis, size] : hint.sizes) {
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) return std::nullopt;
    if (DimSpec& dim = shape[static_cast<std::size_t>(at)]; !std::holds_alternative<std::int64_t>(dim)) dim = size;
  }
  return shape;
}

}  // namespace

std::vector<InputDrawer> InputDrawer::alternatives() const {
  std::vector<InputDrawer> out;
  const auto add = [&](InputDrawer drawer) {
    drawer.collect_symbols();
    const auto same = [&](const InputDrawer& d) {
      return std::equal(d.inputs_.begin(), d.inputs_.end(), drawer.inputs_.begin(),
                        [](const Input& a, const Input& b) { return a.info.type.shape == b.info.type.shape; });
    };
    if (!same(*this) && std::none_of(out.begin(), out.end(), same)) out.push_back(std::move(drawer));
  };
  for (const bool sized : {true, false})
    for (const std::size_t usual : has_unknown_rank() ? std::vector<std::size_t>{2, 3, 4, 1, 5, 0} : std::vector<std::size_t>{0}) {
      InputDrawer drawer = *this;
      for (Input& input : drawer.inputs_) {
        if (input.has_default || input.info.type.kind != ValueType::Kind::kTensor) continue;
        if (open(input)) input.info.type.shape.emplace(input.asked.rank.value_or(std::max(usual, input.asked.least_rank)));
        if (auto shape = sized ? as_asked(input.asked, *input.info.type.shape) : std::nullopt) input.info.type.shape = *std::move(shape);
      }
      add(std::move(drawer));
    }
  return out;
}

std::optional<std::string> InputDrawer::fix(const std::string& input, const std::vector<std::int64_t>& dims) {
  const auto it = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.info.name == input; });
  if (it == inputs_.end()) return fmt::format("the model has no input '{}'", input);
  ValueType& type = it->info.type;
  if (open(*it)) {
    type.shape.emplace(dims.size());
    collect_symbols();
  }
  if (!type.shape || type.shape->size() != dims.size()) return fmt::format("input '{}' has another rank", input);
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const DimSpec& dim = (*type.shape)[axis];
    if (dims[axis] < 0) continue;
    if (const auto* number = std::get_if<std::int64_t>(&dim)) {
      if (*number != dims[axis]) return fmt::format("dim {} of input '{}' is {} in the model", axis, input, *number);
      continue;
    }
    const auto* name = std::get_if<std::string>(&dim);
    const std::string symbol = name ? *name : dim_symbol(input, axis);
    if (const auto [at, fresh] = fixed_.emplace(symbol, dims[axis]); !fresh && at->second != dims[axis])
      return fmt::format("dim '{}' is asked to be {} and {}", symbol, at->second, dims[axis]);
  }
  collect_symbols();
  return std::nullopt;
}

namespace {

absl::StatusOr<Shape> drawn_dims(const std::string& name, const ValueType& type, const Sizes& sizes) {
  Shape dims;
  const std::vector<DimSpec> unknown_rank{DimSpec(std::int64_t{2}), DimSpec(std::int64_t{3})};
  const std::vector<DimSpec>& shape = type.shape ? *type.shape : unknown_rank;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto* number = std::get_if<std::int64_t>(&shape[axis]);
    const auto* text = std::get_if<std::string>(&shape[axis]);
    const auto size = number ? std::optional(*number) : evaluate_dim(text ? *text : dim_symbol(name, axis), sizes);
    if (!size || *size < 0)
      return absl::OutOfRangeError(fmt::format("input '{}': dim {} can't have a negative or unknown size", name, axis));
    dims.push_back(*size);
  }
  const auto count = checked_elements(dims);
  if (!count || *count > kMaxElements)
    return absl::OutOfRangeError(fmt::format("input '{}': its {} dims make it too big to draw", name, dims.size()));
  return dims;
}

// Of the words that the model knows; letters where it knows none.
Tensor draw_strings(const Shape& dims, const std::vector<std::string>& words, Random& random) {
  std::vector<std::string> texts;
  for (std::int64_t count = *checked_elements(dims); count > 0; --count)
    texts.push_back(words.empty() ? std::string(1, static_cast<char>('a' + random.below(26)))
                                  : words[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(words.size())))]);
  return Tensor::strings(dims, std::move(texts));
}

}  // namespace

absl::StatusOr<Value> InputDrawer::draw_value(const Input& input, const ValueType& type, const Sizes& sizes, const DrawStyle& style,
                                              Random& random) const {
  const std::string& name = input.info.name;
  if (type.kind == ValueType::Kind::kOptional && type.element) {
    absl::StatusOr<Value> inner = draw_value(input, *type.element, sizes, style, random);
    if (!inner.ok()) return inner;
    return Value(Optional{std::make_shared<const Value>(*std::move(inner))});
  }
  if (type.kind == ValueType::Kind::kSequence && type.element) {
    Sequence sequence;
    sequence.dtype = type.element->dtype;
    for (int i = 0; i < 2; ++i) {
      absl::StatusOr<Value> item = draw_value(input, *type.element, sizes, style, random);
      if (!item.ok()) return item;
      sequence.items.push_back(*std::move(item));
    }
    return Value(std::move(sequence));
  }
  if (type.kind != ValueType::Kind::kTensor)
    return absl::UnimplementedError(fmt::format("input '{}': inputs of this type can't be drawn; give inputs by --inputs", name));
  const absl::StatusOr<Shape> dims = drawn_dims(name, type, sizes);
  if (!dims.ok()) return dims.status();
  if (type.dtype == DType::kString) return Value(draw_strings(*dims, words_, random));
  if (bit_width(type.dtype) == 0)
    return absl::UnimplementedError(fmt::format("input '{}': inputs of {} can't be drawn", name, dtype_name(type.dtype)));
  Tensor tensor(type.dtype, *dims);
  const std::int64_t row = dims->empty() ? 1 : std::max<std::int64_t>(dims->back(), 1);
  if (is_floating(type.dtype) && tensor.bytes().size() >= style.zeros_from) return Value(std::move(tensor));
  if (fill_floats(tensor, style, (style.float_masks && input.mask) || style.masks.contains(name), input.quantizer, random))
    return Value(std::move(tensor));
  const std::int64_t limit = input.table ? (style.whole_tables ? *input.table : std::min<std::int64_t>(*input.table, 2)) : 0;
  const bool quantized = style.reach == Reach::kQuantized;
  const bool far =
      style.reach != Reach::kUsual && (quantized ? input.dequantized : !style.usual_ints) && limit == 0 && type.dtype != DType::kBool;
  const auto element = [&](std::int64_t i) -> std::int64_t {
    if (limit > 0 && style.ints == IntStyle::kMask) return random.below(limit);
    if (far) return far_int(style.reach, type.dtype, i / far_row(tensor) + style.phase, random);
    return draw_int(style, i, i % row == 0, random);
  };
  const auto boolean = [&](std::int64_t i) -> std::int64_t { return element(i) != 0; };
  if (type.dtype == DType::kBool ? fill_ints(tensor, boolean) : fill_ints(tensor, element)) return Value(std::move(tensor));
  // Sub-byte and float8 formats: any bits with a clear top bit of each byte are a value of theirs.
  const std::size_t bytes = tensor.bytes().size();
  for (std::size_t i = 0; i < bytes; ++i)
    tensor.mutable_data()[i] = static_cast<std::byte>(far && quantized ? random.below(0x100) : random.below(0x70) & 0x77);
  return Value(std::move(tensor));
}

absl::StatusOr<Inputs> InputDrawer::draw(const Sizes& sizes, const DrawStyle& style, std::uint64_t seed) const {
  Sizes all = sizes;
  all.insert(fixed_.begin(), fixed_.end());
  Inputs out;
  Random random(seed);
  for (const Input& input : inputs_) {
    if (input.has_default) continue;
    absl::StatusOr<Value> value = draw_value(input, input.info.type, all, style, random);
    if (!value.ok()) return value.status();
    out[input.info.name] = *std::move(value);
  }
  fit_lengths(lengths_, out, random);
  return out;
}

}  // namespace saturate
