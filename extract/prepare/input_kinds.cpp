#include "extract/prepare/input_kinds.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

// An operator that tells what it reads at a place: the schema's name of the input, or "0" for the first.
struct Reader {
  std::string_view op_types, input;
  ReadAs as;
};
constexpr Reader kReaders[] = {
    {" Gather ", "indices", ReadAs::kRows},
    {" EmbedLayerNormalization ", "input_ids", ReadAs::kRows},
    {" LSTM GRU RNN DynamicQuantizeLSTM ", "initial_h", ReadAs::kState},
    {" LSTM GRU RNN DynamicQuantizeLSTM ", "initial_c", ReadAs::kState},
    {" LSTM GRU RNN DynamicQuantizeLSTM ", "X", ReadAs::kSteps},
    {" STFT DFT ", "0", ReadAs::kSound},
    {" Conv ConvInteger QLinearConv ConvTranspose FusedConv NhwcFusedConv NhwcMaxPool QLinearAveragePool DeformConv MaxPool AveragePool"
     " LpPool GlobalAveragePool GlobalMaxPool Resize Upsample GridSample SpaceToDepth ",
     "0", ReadAs::kWindow},
};
// Operators that only move or scale what they read: at their first place, or at any.
constexpr std::string_view kCarriesFirst =
    " Cast CastLike Identity Unsqueeze Squeeze Transpose Pad Reshape Flatten Slice Split Gather Clip BatchNormalization"
    " InstanceNormalization QuantizeLinear DequantizeLinear DynamicQuantizeLinear Sqrt Abs Neg ";
constexpr std::string_view kCarriesAny = " Add Sub Mul Div Concat Max Min ";

bool has_word(std::string_view words, const std::string& word) { return words.find(" " + word + " ") != std::string_view::npos; }

class Readings {
 public:
  explicit Readings(const Graph& graph) {
    see(graph);
    spread();
    for (const ValueInfo& input : graph.inputs)
      if (input.type.shape) of_input(input);
  }
  std::map<std::string, std::set<ReadAs>> all() && { return std::move(out_); }

 private:
  using Use = std::pair<const Node*, std::size_t>;

  void see(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (!node.inputs[i].empty()) uses_[node.inputs[i]].emplace_back(&node, i);
      for_each_body(node, [this](const Graph& body) { see(body); });
    }
  }

  static std::string_view formal(const Node& node, std::size_t place) {
    const auto versions = schema_versions(node.domain, node.op_type);
    return versions.empty() || place >= versions.back()->inputs.size() ? std::string_view() : versions.back()->inputs[place].name;
  }

  // Keys and values of earlier positions: what an attention operator reads as such, and what a Concat of two makes longer in an open dim.
  static bool is_past(const ValueInfo& input, const Node& node, std::size_t place) {
    if (one_of(formal(node, place), {"past_key", "past_value", "past"})) return true;
    const auto rank = static_cast<std::int64_t>(input.type.shape->size());
    if (node.op_type != "Concat" || place != 0 || node.inputs.size() != 2 || rank < 3) return false;
    const Attribute* given = find_attribute(node.attributes, "axis");
    if (!given || given->type != AttributeType::kInt) return false;
    const std::int64_t axis = given->i() < 0 ? given->i() + rank : given->i();
    return axis > 0 && axis < rank && !std::holds_alternative<std::int64_t>((*input.type.shape)[static_cast<std::size_t>(axis)]);
  }

  static bool carries(const Node& node, std::size_t place) {
    return (place == 0 && has_word(kCarriesFirst, node.op_type)) || has_word(kCarriesAny, node.op_type);
  }

  static std::set<ReadAs> read_by(const Node& node, std::size_t place) {
    std::set<ReadAs> out;
    for (const Reader& reader : kReaders)
      if (has_word(reader.op_types, node.op_type) && (reader.input == "0" ? place == 0 : formal(node, place) == reader.input))
        out.insert(reader.as);
    return out;
  }

  // What each value is read as, also behind operators that carry it: from the readers back, a value once for each reading that is new to
  // it.
  void spread() {
    std::map<std::string_view, std::vector<std::string_view>> carried_from;
    std::vector<std::pair<std::string_view, ReadAs>> open;
    for (const auto& [value, uses] : uses_)
      for (const auto& [node, place] : uses) {
        for (const ReadAs as : read_by(*node, place))
          if (as != ReadAs::kSteps) open.emplace_back(value, as);
        if (!carries(*node, place)) continue;
        for (const std::string& made : node->outputs)
          if (!made.empty()) carried_from[made].push_back(value);
      }
    while (!open.empty()) {
      const auto [value, as] = open.back();
      open.pop_back();
      if (!read_as_[value].insert(as).second) continue;
      if (const auto from = carried_from.find(value); from != carried_from.end())
        for (const std::string_view one : from->second) open.emplace_back(one, as);
    }
  }

  void of_input(const ValueInfo& input) {
    std::set<ReadAs>& out = out_[input.name];
    if (const auto behind = read_as_.find(input.name); behind != read_as_.end()) out.insert(behind->second.begin(), behind->second.end());
    const auto uses = uses_.find(input.name);
    if (uses == uses_.end()) return;
    for (const auto& [node, place] : uses->second) {
      if (is_past(input, *node, place)) out.insert(ReadAs::kPast);
      if (formal(*node, place) == "past_state") out.insert(ReadAs::kCarried);
      if (read_by(*node, place).contains(ReadAs::kSteps)) out.insert(ReadAs::kSteps);
    }
  }

  std::map<std::string, std::vector<Use>, std::less<>> uses_;
  std::map<std::string_view, std::set<ReadAs>> read_as_;
  std::map<std::string, std::set<ReadAs>> out_;
};

bool fits(InputKind::Types types, DType dtype) {
  const bool bytes = dtype == DType::kUint8 || dtype == DType::kInt8;
  switch (types) {
    case InputKind::Types::kFloats:
      return is_floating(dtype);
    case InputKind::Types::kPixels:
      return is_floating(dtype) || bytes;
    case InputKind::Types::kBytes:
      return bytes;
    case InputKind::Types::kIds:
      return is_integer(dtype) || dtype == DType::kBool;
    case InputKind::Types::kAll:
      return true;
  }
  return false;
}

bool fits(char sign, const DimSpec& dim) {
  const auto* number = std::get_if<std::int64_t>(&dim);
  switch (sign) {
    case '.':
      return true;
    case '?':
      return !number;
    case 'c':
      return !number || fits('d', dim);
    case 'd':
      return number && (*number == 1 || *number == 3 || *number == 4);
    default:
      return number && (sign == '#' || *number == sign - '0');
  }
}

bool fits(std::string_view signs, const std::vector<DimSpec>& dims) {
  const bool more = signs.ends_with('*');
  if (more) signs.remove_suffix(1);
  if (more ? dims.size() < signs.size() : dims.size() != signs.size()) return false;
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    if (!fits(signs[std::min(axis, signs.size() - 1)], dims[axis])) return false;
  return true;
}

}  // namespace

std::map<std::string, std::set<ReadAs>> readings_of(const Graph& graph) { return Readings(graph).all(); }

const InputKind* kind_of(const ValueType& type, const std::set<ReadAs>& readings) {
  if (!type.shape) return nullptr;
  for (const InputKind& kind : kInputKinds)
    if (fits(kind.types, type.dtype) && fits(kind.dims, *type.shape) && (kind.read == ReadAs::kAnything || readings.contains(kind.read)))
      return &kind;
  return nullptr;
}

const AxisRole& role_with(char sign) {
  return *std::find_if(std::begin(kAxisRoles), std::end(kAxisRoles), [&](const AxisRole& role) { return role.sign == sign; });
}

const AxisRole& role_of(const InputKind& kind, std::size_t axis) { return role_with(kind.roles[std::min(axis, kind.roles.size() - 1)]); }

}  // namespace saturate
