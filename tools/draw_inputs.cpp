#include "tools/draw_inputs.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "fmt/format.h"

namespace saturate {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;

std::string dim_symbol(const std::string& input, std::size_t axis) { return fmt::format("{}[{}]", input, axis); }

// Operators that hand on the values of their first input as they are.
bool forwards(const Node& node) {
  static constexpr std::string_view kForward[] = {"Identity", "Cast",   "Reshape", "Unsqueeze", "Squeeze",
                                                  "Flatten",  "Expand", "Slice",   "Transpose"};
  return node.domain.empty() && std::find(std::begin(kForward), std::end(kForward), node.op_type) != std::end(kForward);
}

bool is_one(const Tensor& t) { return t.size() == 1 && element_as_double(t, 0) == 1.0; }

// What values of the graph are for, through operators that hand them on.
class UseFinder {
 public:
  explicit UseFinder(const Graph& graph) {
    for (const Initializer& initializer : graph.initializers) see_constant(initializer.name, initializer.tensor);
    for (const Node& node : graph.nodes) {
      if (node.op_type != "Constant") continue;
      if (const Attribute* value = find_attribute(node.attributes, "value"); value && value->type == AttributeType::kTensor)
        see_constant(node.outputs[0], value->t());
      if (const Attribute* number = find_attribute(node.attributes, "value_float"); number && number->type == AttributeType::kFloat)
        see_constant(node.outputs[0], Tensor::of<float>(DType::kFloat, {}, std::vector{number->f()}));
    }
    for (const Node& node : graph.nodes)
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (!node.inputs[i].empty()) uses_[node.inputs[i]].push_back({&node, i});
  }
  // Whether it is taken from 1, as masks are.
  bool taken_from_one(const std::string& value, int depth = 0) const {
    const auto it = uses_.find(value);
    return it != uses_.end() && depth <= 16 && std::any_of(it->second.begin(), it->second.end(), [&](const auto& use) {
             const auto& [node, position] = use;
             if (position == 0 && forwards(*node) && !node->outputs.empty()) return taken_from_one(node->outputs[0], depth + 1);
             return position == 1 && node->domain.empty() && node->op_type == "Sub" && ones_.contains(node->inputs[0]);
           });
  }
  // Rows of the smallest table that it indexes.
  std::optional<std::int64_t> rows(const std::string& value, int depth = 0) const {
    std::optional<std::int64_t> least;
    const auto it = uses_.find(value);
    if (it == uses_.end() || depth > 16) return least;
    for (const auto& [node, position] : it->second) {
      std::optional<std::int64_t> here;
      if (position == 0 && forwards(*node) && !node->outputs.empty()) here = rows(node->outputs[0], depth + 1);
      if (position == 1 && node->domain.empty() && node->op_type == "Gather") here = gather_rows(*node);
      if (node->op_type == "EmbedLayerNormalization" && position < 2)
        here = table_rows(node->inputs.size() > position + 2 ? node->inputs[position + 2] : "", 0);
      if (here) least = least ? std::min(*least, *here) : *here;
    }
    return least;
  }

 private:
  void see_constant(const std::string& name, const Tensor& tensor) {
    shapes_[name] = tensor.dims();
    if (is_one(tensor)) ones_.insert(name);
  }
  std::optional<std::int64_t> gather_rows(const Node& node) const {
    const Attribute* axis = find_attribute(node.attributes, "axis");
    return table_rows(node.inputs[0], axis ? axis->i() : 0);
  }
  std::optional<std::int64_t> table_rows(const std::string& table, std::int64_t axis) const {
    const auto shape = shapes_.find(table);
    if (shape == shapes_.end()) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(shape->second.size());
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
    const std::int64_t n = shape->second[static_cast<std::size_t>(axis)];
    return n > 0 ? std::optional(n) : std::nullopt;
  }
  std::map<std::string, Shape> shapes_;
  std::set<std::string> ones_;
  std::map<std::string, std::vector<std::pair<const Node*, std::size_t>>> uses_;
};

std::uint16_t to_half(float value) {
  // Inputs are normal or in [0,1): rounding towards zero and flushing subnormals serves.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const int exponent = static_cast<int>((bits >> 23) & 255) - 127 + 15;
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

bool fill_floats(Tensor& tensor, const DrawStyle& style, bool mask, std::int64_t row, Random& random) {
  const auto one = [&](std::int64_t i) {
    if (mask) return draw_int(style, i, i % row == 0, random) != 0 ? 1.0 : 0.0;
    return style.positive ? random.uniform() : random.normal();
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
  std::set<std::string> defaults, seen;
  std::map<std::pair<std::size_t, std::size_t>, std::string> first;  // by rank and axis
  for (const Initializer& initializer : model.graph.initializers) defaults.insert(initializer.name);
  const UseFinder uses(model.graph);
  for (const ValueInfo& info : model.graph.inputs) {
    Input input{info, std::nullopt, false, defaults.contains(info.name)};
    if (info.type.kind == ValueType::Kind::kTensor && is_integer(info.type.dtype)) input.table = uses.rows(info.name);
    if (info.type.kind == ValueType::Kind::kTensor && is_floating(info.type.dtype)) input.mask = uses.taken_from_one(info.name);
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
    inputs_.push_back(std::move(input));
  }
  for (const Node& node : model.graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kStrings && node.domain == "ai.onnx.ml")
        words_.insert(words_.end(), a.strings().begin(), a.strings().end());
}

std::optional<std::string> InputDrawer::fix(const std::string& input, const std::vector<std::int64_t>& dims) {
  const auto it = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.info.name == input; });
  if (it == inputs_.end()) return fmt::format("the model has no input '{}'", input);
  const ValueType& type = it->info.type;
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
    std::erase(symbols_, symbol);
  }
  return std::nullopt;
}

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
  if (type.dtype == DType::kString) {
    std::vector<std::string> texts;
    for (std::int64_t i = 0; i < *count; ++i) {
      const auto word = static_cast<std::size_t>(words_.empty() ? 0 : random.below(static_cast<std::int64_t>(words_.size())));
      texts.push_back(words_.empty() ? std::string(1, static_cast<char>('a' + random.below(26))) : words_[word]);
    }
    return Value(Tensor::strings(dims, std::move(texts)));
  }
  if (bit_width(type.dtype) == 0)
    return absl::UnimplementedError(fmt::format("input '{}': inputs of {} can't be drawn", name, dtype_name(type.dtype)));
  Tensor tensor(type.dtype, dims);
  const std::int64_t row = dims.empty() ? 1 : std::max<std::int64_t>(dims.back(), 1);
  if (fill_floats(tensor, style, style.float_masks && input.mask, row, random)) return Value(std::move(tensor));
  const std::int64_t limit = input.table ? (style.whole_tables ? *input.table : std::min<std::int64_t>(*input.table, 2)) : 0;
  const auto element = [&](std::int64_t i) -> std::int64_t {
    if (limit > 0 && style.ints == IntStyle::kMask) return random.below(limit);
    return draw_int(style, i, i % row == 0, random);
  };
  const auto boolean = [&](std::int64_t i) -> std::int64_t { return element(i) != 0; };
  if (type.dtype == DType::kBool ? fill_ints(tensor, boolean) : fill_ints(tensor, element)) return Value(std::move(tensor));
  // Sub-byte and float8 formats: any bits with a clear top bit of each byte are a value of theirs.
  const std::size_t bytes = tensor.bytes().size();
  for (std::size_t i = 0; i < bytes; ++i) tensor.mutable_data()[i] = static_cast<std::byte>(random.below(0x70) & 0x77);
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
  return out;
}

}  // namespace saturate
