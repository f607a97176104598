// What a runtime computes when it loads a model, and which shapes it knows then (loaded_graph.h).
#include <algorithm>
#include <numeric>
#include <tuple>

#include "extract/loaded_graph.h"
#include "extract/sizes/op_features.h"
#include "extract/sizes/op_sizes.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
// What is known makes more to be computed, and that more to be known.
void LoadedGraph::settle(const Model& model) {
  constexpr int kMostRounds = 8;
  opset_ = model.opset("");
  std::size_t before = nodes_.size() + 1;
  for (int round = 0; round < kMostRounds && before != count_gone(); ++round) {
    before = count_gone();
    note_known_shapes(model);
    drop_what_is_computed();
    join_equal();
    join_shapes();
  }
  note_known_shapes(model);
  move_transposes();
  join_pieces();
}

std::size_t LoadedGraph::count_gone() const {
  return static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const LoadedNode& node) { return node.gone; }));
}

// What hangs on constants alone and on shapes that are known, but for weights that stay quantized.
bool LoadedGraph::is_computed(const LoadedNode& node, const std::vector<bool>& constant) const {
  if (stays_quantized(node.key) || node.key.unique != 0) return false;
  if (has_body(node.key.attributes) || is_of_standard(node.key, "CastLike")) return false;
  if (is_of_standard(node.key, "Shape") || is_of_standard(node.key, "Size")) {
    const int of = node.inputs.front();
    const auto& shape = facts(of).shape;
    const auto is_number = [&](Dim d) { return g_.dims().value(d).has_value(); };
    if (shape && shape_known_[at(of)] && std::all_of(shape->begin(), shape->end(), is_number)) return true;
  }
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](int v) { return constant[at(v)]; });
}

// Then what nothing reads any more.
void LoadedGraph::drop_what_is_computed() {
  std::vector<bool> constant(classes_.size());
  for (int v = 0; v < static_cast<int>(classes_.size()); ++v)
    constant[at(v)] = nodes_of(v).empty() && (facts(v).constant || facts(v).kind == Facts::Kind::kAbsent || makers_[at(v)] >= 0);
  for (LoadedNode& node : nodes_) {
    if (node.gone) continue;
    node.gone = is_computed(node, constant);
    for (const int v : node.outputs) constant[at(v)] = node.gone;
  }
  readers_.assign(classes_.size(), 0);
  for (const int v : outputs_) ++readers_[at(v)];
  for (const LoadedNode& node : nodes_)
    if (!node.gone)
      for (const int v : node.inputs) ++readers_[at(v)];
  for (std::size_t n = nodes_.size(); n-- > 0;) drop_if_unread(static_cast<int>(n));
  for (std::vector<int>& users : users_) users.clear();
  for (std::size_t n = 0; n < nodes_.size(); ++n)
    for (const int v : nodes_[n].inputs) users_[at(v)].push_back(static_cast<int>(n));
}

// Constants of one content have one key; "": it is none that is small.
std::string LoadedGraph::constant_key(int v) const {
  constexpr std::size_t kMost = 64;  // elements
  if (!nodes_of(v).empty()) return "";
  const Facts& f = facts(v);
  if (f.constant) {
    const auto value = g_.value(classes_[at(v)], kMost * sizeof(std::int64_t));
    if (!value) return "";
    const auto bytes = value->bytes();
    return fmt::format("{}[{}]", dtype_name(value->dtype()), fmt::join(value->dims(), ",")) +
           std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (!f.content || !f.shape) return "";
  std::string out = fmt::format("{}[{}]", dtype_name(f.dtype), f.rank());
  for (const Dim d : *f.content) {
    const auto size = g_.dims().value(d);
    if (!size) return "";
    out += fmt::format(" {}", *size);
  }
  return out;
}

// Equal nodes are computed once, also where what they read has turned out to be one constant.
void LoadedGraph::join_equal() {
  std::map<std::vector<int>, int> known;
  std::map<std::string, int> constants;
  const auto same = [&](int v) {
    const std::string key = constant_key(v);
    return key.empty() ? v : constants.try_emplace(key, v).first->second;
  };
  std::vector<int> instead(classes_.size());  // what is read in place of each value: one node may read very many
  std::iota(instead.begin(), instead.end(), 0);
  const auto read_instead = [&](std::vector<int>& values) {
    for (int& v : values) v = instead[at(v)];
  };
  for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
    LoadedNode& node = nodes_[at(n)];
    read_instead(node.inputs);
    if (node.gone || node.op == kNone || node.key.unique != 0 || node.source) continue;
    std::vector<int> signature;
    for (const int v : node.inputs) signature.push_back(same(v));
    if (e_.op(node.op).commutative) std::sort(signature.begin(), signature.end());
    signature.push_back(static_cast<int>(node.op));
    const auto [it, is_new] = known.try_emplace(std::move(signature), n);
    if (is_new || nodes_[at(it->second)].outputs.size() != node.outputs.size()) continue;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const int was = node.outputs[o], now = nodes_[at(it->second)].outputs[o];
      instead[at(was)] = now;
      hand_over_readers(was, now);
    }
    drop_if_unread(n);
  }
  for (LoadedNode& node : nodes_) read_instead(node.inputs);
  read_instead(outputs_);
}

// Whether the file tells as much of a shape as we know.
bool LoadedGraph::is_told(int v, const ValueInfo& info) const {
  const auto& told = info.type.shape;
  const auto& known = facts(v).shape;
  if (!told || !known || told->size() != known->size()) return false;
  for (std::size_t i = 0; i < told->size(); ++i)
    if (g_.dims().value((*known)[i]) && !std::holds_alternative<std::int64_t>((*told)[i])) return false;
  return true;
}

// The runtime knows the shapes that the file tells, and those that follow from them without looking into values.
void LoadedGraph::note_known_shapes(const Model& model) {
  for (std::size_t v = 0; v < classes_.size(); ++v) shape_known_[v] = rank_known_[v] = makers_[v] < 0;
  std::vector<bool> told(classes_.size()), ranked(classes_.size());
  for (const ValueInfo& info : model.graph.value_info)
    if (const auto it = names_.find(info.name); it != names_.end() && info.type.shape)
      ranked[at(it->second)] = true, told[at(it->second)] = is_told(it->second, info);
  for (const LoadedNode& node : nodes_) {
    const std::string_view op = node.key.domain.empty() ? std::string_view(node.key.op_type) : std::string_view();
    const bool makes_rank = one_of(op, {"Reshape", "ConstantOfShape"});
    const bool by_values = makes_rank || one_of(op, {"Tile", "Slice", "Range", "Resize", "Pad"});
    const std::vector<int> of = nodes_of(node.inputs.empty() ? node.outputs[0] : node.inputs[0]);
    const bool is_size = op == "Gather" && !of.empty() && is_of_standard(nodes_[at(of[0])].key, "Shape");
    bool known = !node.guesses_size, rank = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int v = node.inputs[i];
      if (i == 0 && is_size) continue;  // whatever the rank is
      const bool is_shape = by_values && (i > 0 || op == "ConstantOfShape"), is_there = !is_shape || nodes_of(v).empty();
      known = known && shape_known_[at(v)] && is_there;
      rank = rank && (is_shape && makes_rank ? shape_known_[at(v)] : rank_known_[at(v)]);  // as many as numbers
    }
    if (has_body(node.key.attributes)) known = rank = false;
    if (op == "Shape") known = rank_known_[at(node.inputs[0])], rank = true;
    for (const int v : node.outputs) shape_known_[at(v)] = known || told[at(v)], rank_known_[at(v)] = rank || ranked[at(v)];
  }
}

// Reshape(x,Concat(...)): sizes of x at their own places, constants, and at most one other size are a constant shape.
void LoadedGraph::join_shapes() {
  for (LoadedNode& node : nodes_)
    if (!node.gone && is_of_standard(node.key, "Reshape") && node.inputs.size() == 2) joins_shape(node);
}

bool LoadedGraph::joins_shape(LoadedNode& node) {
  const int shape = node.inputs[1];
  const std::vector<int> maker = nodes_of(shape);
  if (maker.empty() || !is_of_standard(nodes_[at(maker[0])].key, "Concat") || readers_[at(shape)] != 1) return false;
  std::int64_t place = 0;
  int others = 0;
  for (const int part : nodes_[at(maker[0])].inputs) {
    const std::optional<std::int64_t> elements = length_of(part);
    if (!elements) break;
    if (is_known(part)) {
      const std::optional<double> size = number(part);
      others += size && *size == -1 ? 1 : 0;
    } else if (!is_size_of(part, node.inputs[0], place)) {
      others += *elements == 1 ? 1 : 2;
    }
    place += *elements;
  }
  if (others > 1 || place != length_of(shape)) return false;
  --readers_[at(shape)];
  node.guesses_size = others > 0;
  node.inputs[1] = value_of_class(classes_[at(shape)]);
  ++readers_[at(node.inputs[1])];
  drop_with_makers(maker[0]);
  return true;
}

std::optional<std::int64_t> LoadedGraph::length_of(int v) const {
  const auto& shape = facts(v).shape;
  return !shape || shape->size() > 1 ? std::nullopt : shape->empty() ? std::optional<std::int64_t>(1) : g_.dims().value((*shape)[0]);
}

// Unsqueeze(Gather(Shape(x),place)).
bool LoadedGraph::is_size_of(int v, int x, std::int64_t place) const {
  const auto maker = [&](int of, std::string_view op) {
    const std::vector<int> n = nodes_of(of);
    return n.empty() || !is_of_standard(nodes_[at(n[0])].key, op) ? nullptr : &nodes_[at(n[0])];
  };
  const LoadedNode* unsqueeze = maker(v, "Unsqueeze");
  const LoadedNode* gather = unsqueeze ? maker(unsqueeze->inputs[0], "Gather") : nullptr;
  const LoadedNode* shape = gather ? maker(gather->inputs[0], "Shape") : nullptr;
  if (!shape || number(gather->inputs[1]) != static_cast<double>(place)) return false;
  const auto is_it = [&](int of) { return of == shape->inputs[0]; };
  if (is_it(x)) return true;
  const LoadedNode* sum = maker(x, "Add");  // of a linear layer: the sizes of what goes in
  return sum && std::any_of(sum->inputs.begin(), sum->inputs.end(), [&](int of) {
           const LoadedNode* product = maker(of, "MatMul");
           return product && is_it(product->inputs[0]);
         });
}

// A Slice of one axis with constant bounds and steps of 1, or a Gather of one index.
std::optional<LoadedGraph::Cut> LoadedGraph::cut_of(int n) const {
  const LoadedNode& node = nodes_[at(n)];
  const bool slices = is_of_standard(node.key, "Slice") && node.inputs.size() >= 4;
  if (node.gone || !(slices || is_of_standard(node.key, "Gather")) || !facts(node.inputs[0]).shape) return std::nullopt;
  if (const auto of = nodes_of(node.inputs[0]); of.empty()) {
    if (!is_input_[at(node.inputs[0])]) return std::nullopt;  // of the graph around it
  } else if (const LoadedNode& maker = nodes_[at(of[0])]; is_of_standard(maker.key, "Shape") || maker.outputs.size() > 1) {
    return std::nullopt;
  }
  const Attribute* given = find_attribute(node.key.attributes, "axis");
  const auto axis = slices ? number(node.inputs[3]) : std::optional<double>(given ? static_cast<double>(given->i()) : 0);
  const std::optional<double> begin = number(node.inputs[1]), end = slices  ? number(node.inputs[2])
                                                                    : begin ? std::optional(*begin + 1)
                                                                            : begin;
  if (!begin || !end || !axis || *begin < 0 || *end < 0 || (slices && node.inputs.size() > 4 && number(node.inputs[4]) != 1))
    return std::nullopt;
  constexpr double kFar = 1e15;
  const double rank = facts(node.inputs[0]).rank();
  if (*axis < -rank || *axis >= rank) return std::nullopt;  // a file may say so where nothing declares the type of the result
  return Cut{static_cast<std::int64_t>(*axis < 0 ? *axis + rank : *axis), static_cast<std::int64_t>(std::min(*begin, kFar)),
             static_cast<std::int64_t>(std::min(*end, kFar))};
}

// Slices that cut a value into pieces of one axis are one Split, and so is a Gather of each of its indices, or both together.
void LoadedGraph::join_pieces() {
  std::map<std::pair<int, std::int64_t>, std::vector<std::pair<std::int64_t, int>>> cuts;  // of value and axis: begin and node of each
  std::map<int, Cut> of_node;
  for (int n = 0; n < static_cast<int>(nodes_.size()); ++n)
    if (const auto cut = cut_of(n)) {
      cuts[{nodes_[at(n)].inputs[0], cut->axis}].emplace_back(cut->begin, n);
      of_node[n] = *cut;
    }
  const auto squeezes = [&](int n) {
    const LoadedNode& node = nodes_[at(n)];
    const auto& index = facts(node.inputs[1]).shape;
    return is_of_standard(node.key, "Gather") && index && index->empty();
  };
  for (auto& [what, pieces] : cuts) {
    const auto& [of, axis] = what;
    const auto& shape = facts(of).shape;
    const auto size = shape && shape_known_[at(of)] ? g_.dims().value((*shape)[static_cast<std::size_t>(axis)]) : std::nullopt;
    std::sort(pieces.begin(), pieces.end());
    std::int64_t next = 0;
    for (const auto& [begin, n] : pieces) next = begin == next ? std::min(of_node[n].end, size.value_or(0)) : -1;
    if (pieces.size() < 2 || !size || next != *size) continue;
    const auto squeezed = std::count_if(pieces.begin(), pieces.end(), [&](const auto& piece) { return squeezes(piece.second); });
    LoadedNode& first = nodes_[at(pieces[0].second)];
    first.key = make_key("", "Split", {}, static_cast<int>(pieces.size()), facts(of).rank()), first.op = kNone;
    if (squeezed > 0) first.beside["Squeeze"] = static_cast<int>(squeezed);
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      LoadedNode& other = nodes_[at(pieces[i].second)];
      for (const int v : other.outputs) makers_[at(v)] = pieces[0].second;
      first.outputs.insert(first.outputs.end(), other.outputs.begin(), other.outputs.end());
      for (const int v : other.inputs) --readers_[at(v)];
      other.gone = true;
    }
  }
}

}  // namespace saturate
