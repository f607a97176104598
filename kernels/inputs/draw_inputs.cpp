#include "kernels/inputs/draw_inputs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>

#include "fmt/format.h"
#include "kernels/inputs/draw_lengths.h"
#include "kernels/inputs/draw_numbers.h"
#include "kernels/inputs/draw_sizes.h"

namespace saturate {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;
constexpr std::size_t kMostBytesOfDefault = std::size_t{1} << 20;
constexpr std::int64_t kDefaultsMayBeOverridden = 4;  // IR version; before it each initializer is an input, too

std::string dim_symbol(const std::string& input, std::size_t axis) { return fmt::format("{}[{}]", input, axis); }

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
  std::map<std::string, const Tensor*> defaults;
  for (const Initializer& initializer : model.graph.initializers) defaults[initializer.name] = &initializer.tensor;
  const InputUses uses(model.graph);
  for (const ValueInfo& info : model.graph.inputs) {
    Input input{info, std::nullopt, false, {}, defaults.contains(info.name)};
    if (info.type.kind == ValueType::Kind::kTensor && is_integer(info.type.dtype)) input.table = uses.rows(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_floating(info.type.dtype)) input.mask = uses.taken_from_one(info.name);
    if (info.type.kind == ValueType::Kind::kTensor) input.asked = uses.shape(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_floating(info.type.dtype)) input.quantizer = uses.quantizer(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_floating(info.type.dtype)) input.step = uses.is_step(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_integer(info.type.dtype)) input.dequantized = uses.is_dequantized(info.name);
    if (info.type.kind == ValueType::Kind::kTensor) input.compared = uses.compared(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_integer(info.type.dtype)) input.length = uses.length(info.name);
    if (input.has_default && model.ir_version >= kDefaultsMayBeOverridden)
      if (const Tensor& tensor = *defaults[info.name]; tensor.bytes().size() <= kMostBytesOfDefault) input.default_value = tensor;
    inputs_.push_back(std::move(input));
  }
  collect_symbols();
  add_landmarks(uses.constants());
  lengths_ = length_inputs(model.graph);
  size_inputs_ = saturate::size_inputs(model.graph);
  for (const Node& node : model.graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kStrings && node.domain == "ai.onnx.ml")
        words_.insert(words_.end(), a.strings().begin(), a.strings().end());
}

void InputDrawer::see_other(const Model& other) {
  const InputUses uses(other.graph);
  add_landmarks(uses.constants());
  for (Input& input : inputs_)
    if (input.info.type.kind == ValueType::Kind::kTensor)
      for (const double c : uses.compared(input.info.name))
        if (std::find(input.compared.begin(), input.compared.end(), c) == input.compared.end()) input.compared.push_back(c);
}

void InputDrawer::add_landmarks(const std::vector<double>& constants) {
  constexpr std::size_t kMost = 32;
  for (const double c : constants)
    if (landmarks_.size() < kMost && std::find(landmarks_.begin(), landmarks_.end(), c) == landmarks_.end()) landmarks_.push_back(c);
}

bool InputDrawer::has_landmarks() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) { return !input.has_default && !input.compared.empty(); });
}

std::int64_t InputDrawer::compared_ints() const {
  constexpr std::size_t kMost = 8;
  std::size_t most = 0;
  for (const Input& input : inputs_)
    if (!input.has_default && is_integer(input.info.type.dtype) && !input.table) most = std::max(most, input.compared.size());
  return most == 0 ? 0 : static_cast<std::int64_t>(std::min(most, kMost)) + 1;
}

std::vector<std::int64_t> InputDrawer::lengths(const Sizes& sizes) const {
  constexpr std::size_t kMost = 100;
  constexpr std::int64_t kLongest = std::int64_t{1} << 60;  // no sum overflows
  std::set<std::int64_t, std::greater<>> dims, out;
  for (const Input& input : inputs_)
    for (const DimSpec& dim : input.info.type.shape.value_or(std::vector<DimSpec>()))
      if (const auto size = dim_size(dim, sizes); size && *size > 0) dims.insert(*size);
  for (const auto& [symbol, size] : sizes)
    if (size > 0) dims.insert(size);
  while (dims.size() > kMost) dims.erase(dims.begin());  // the shortest are taken below, and their sums are sums of these
  while (!dims.empty() && *dims.begin() > kLongest) dims.erase(dims.begin());
  out = dims;
  for (const std::int64_t a : dims)
    for (const std::int64_t b : dims) out.insert(a + b);
  std::vector<std::int64_t> list(out.begin(), out.end());
  if (list.size() > kMost) list.erase(list.begin(), list.end() - kMost);
  return list;
}

bool InputDrawer::tells_lengths() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) { return !input.has_default && input.length; });
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

bool InputDrawer::has_defaults() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) { return input.default_value.has_value(); });
}

bool InputDrawer::has_kind(ValueType::Kind kind) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) { return input.info.type.kind == kind; });
}

bool InputDrawer::has_floats() const {
  const auto is_float = [](const Input& input) { return !input.has_default && is_floating(input.info.type.dtype); };
  return std::any_of(inputs_.begin(), inputs_.end(), is_float);
}

bool InputDrawer::has_ids() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) { return !input.has_default && input.table; });
}

// Flags and integers that are no indices, lengths or quantized values.
bool InputDrawer::is_mask(const Input& input) {
  const ValueType& type = input.info.type;
  const bool counts = type.kind == ValueType::Kind::kTensor && (type.dtype == DType::kBool || is_integer(type.dtype));
  return counts && bit_width(type.dtype) >= 8 && type.shape && !(input.has_default || input.table || input.length || input.dequantized);
}

bool InputDrawer::is_switch(const Input& input) {
  const auto is_one = [](const DimSpec& dim) { return dim == DimSpec(std::int64_t{1}); };
  return is_mask(input) && input.info.type.shape->size() <= 1 && std::ranges::all_of(*input.info.type.shape, is_one);
}

std::size_t InputDrawer::switches() const { return static_cast<std::size_t>(std::ranges::count_if(inputs_, is_switch)); }

bool InputDrawer::has_masks() const {
  return std::ranges::any_of(inputs_, [](const Input& input) { return is_mask(input) && !is_switch(input); });
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
  if (type.kind == ValueType::Kind::kOptional && style.absent) return Value(Optional{});
  if (type.kind == ValueType::Kind::kOptional && type.element) {
    absl::StatusOr<Value> inner = draw_value(input, *type.element, sizes, style, random);
    if (!inner.ok()) return inner;
    return Value(Optional{std::make_shared<const Value>(*std::move(inner))});
  }
  if (type.kind == ValueType::Kind::kSequence && type.element) {
    Sequence sequence;
    sequence.dtype = type.element->dtype;
    for (int i = 0; i < style.items; ++i) {
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
  if (is_floating(type.dtype) && tensor.bytes().size() >= style.zeros_from) return Value(std::move(tensor));
  if (input.step && fill_steps(tensor, random)) return Value(std::move(tensor));
  const bool quantized = style.reach == Reach::kQuantized;
  const NumbersOf of{style,
                     (style.float_masks && input.mask) || style.masks.contains(name),
                     input.quantizer,
                     input.dequantized,
                     input.table ? (style.whole_tables ? *input.table : std::min<std::int64_t>(*input.table, 2)) : 0,
                     input.compared,
                     is_floating(type.dtype) ? landmarks_ : std::vector<double>(),
                     input.length && style.ints == IntStyle::kLength ? std::optional(style.length - *input.length) : std::nullopt};
  if (fill_floats(tensor, of, random) || fill_ints(tensor, of, random)) return Value(std::move(tensor));
  const bool far = quantized ? input.dequantized : style.reach != Reach::kUsual && !style.usual_ints;
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
    if (style.other_defaults && input.default_value) out[input.info.name] = Value(other_numbers(*input.default_value));
    if (input.has_default) continue;
    absl::StatusOr<Value> value = draw_value(input, input.info.type, all, style, random);
    if (!value.ok()) return value.status();
    out[input.info.name] = *std::move(value);
  }
  fit_lengths(lengths_, out, random);
  if (style.told_sizes) fit_sizes(size_inputs_, all, out);
  return out;
}

}  // namespace saturate
