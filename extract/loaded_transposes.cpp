// Transposes, which a runtime moves towards each other when it loads a model (loaded_graph.h): two of them with operators between that do
// not mind are one, operators of several that are alike leave one behind them, and shapes are those of what was transposed.
#include <algorithm>
#include <utility>

#include "extract/loaded_graph.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

using Perm = std::vector<std::int64_t>;

// Between two Transposes that are told to be one: the search of a chain of Transposes would else take the square of its length.
constexpr int kMostLinks = 256;

// Empty where it is no Transpose, or a wrong one.
Perm perm_of(const OpKey& key) {
  const Attribute* perm = key.op_type == "Transpose" && key.domain.empty() ? find_attribute(key.attributes, "perm") : nullptr;
  return perm ? permutation_of(key, perm->ints().size()).value_or(Perm()) : Perm();
}

OpKey transpose_by(const Perm& perm) { return make_key("", "Transpose", {Attribute::of("perm", perm)}, 1, static_cast<int>(perm.size())); }

bool changes_nothing(const Perm& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

// Operators that the runtime has no other form of for a transposed input are a wall; the others let what stands beside them be moved.
bool lets_pass(const OpKey& key) {
  return has(Trait::kElementwise, key) || has(Trait::kReduction, key) ||
         one_of(key.op_type, {"Transpose", "Shape", "Reshape", "Slice", "Concat", "Split", "Softmax", "LogSoftmax", "Squeeze", "Unsqueeze",
                              "Gather", "Pad", "Cast", "Clip", "ArgMax", "ArgMin", "QuantizeLinear", "DequantizeLinear"});
}

}  // namespace

void LoadedGraph::move_transposes() {
  bool any = true;
  for (int round = 0; any && round < 8; ++round) {
    any = false;
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      if (nodes_[at(n)].gone) continue;
      any = joins_transposes(n) || any;
      any = leaves_transpose(n) || any;
    }
  }
  for (int n = 0; n < static_cast<int>(nodes_.size()); ++n)
    if (!nodes_[at(n)].gone && is_of_standard(nodes_[at(n)].key, "Shape")) pass_transpose(n);
}

// The node that makes a value by a Transpose; -1: none.
int LoadedGraph::transpose_of(int v) const {
  const std::vector<int> maker = nodes_of(v);
  return maker.empty() || perm_of(nodes_[at(maker[0])].key).empty() ? -1 : maker[0];
}

// Of one value that moves; all else that it reads is one number.
bool LoadedGraph::is_link(const LoadedNode& node) const {
  if (node.outputs.size() != 1 || node.key.unique != 0 || !node.key.domain.empty()) return false;
  if (is_of_standard(node.key, "Concat")) return node.inputs.size() == 1;
  // Before opset 13 a Softmax takes all axes behind its own together, so that none can be moved.
  const bool of_one_axis = opset_ >= 13 && one_of(node.key.op_type, {"Softmax", "LogSoftmax"});
  if (has(Trait::kUnaryElementwise, node.key) || of_one_axis) return true;
  const auto is_number = [&](int v) { return nodes_of(v).empty() && (number(v) || facts(v).kind == Facts::Kind::kAbsent); };
  return (has(Trait::kBinaryElementwise, node.key) || is_of_standard(node.key, "Clip")) &&
         static_cast<std::size_t>(std::count_if(node.inputs.begin(), node.inputs.end(), is_number)) + 1 == node.inputs.size();
}

void LoadedGraph::read_in_place_of(int n, int was, int now) {
  for (int& v : nodes_[at(n)].inputs)
    if (v == was) v = now, --readers_[at(was)], ++readers_[at(now)];
  users_[at(now)].push_back(n);
}

// Transpose(f(Transpose(x))): f(x) and one Transpose, or none.
bool LoadedGraph::joins_transposes(int n) {
  const Perm last = perm_of(nodes_[at(n)].key);
  if (last.empty()) return false;
  int reader = n, v = nodes_[at(n)].inputs[0];
  for (int links = 0; transpose_of(v) < 0; ++links) {
    if (links == kMostLinks) return false;
    const std::vector<int> maker = nodes_of(v);
    if (maker.empty() || readers_[at(v)] != 1 || !is_link(nodes_[at(maker[0])])) return false;
    reader = maker[0];
    const auto& inputs = nodes_[at(reader)].inputs;
    const auto moving = std::find_if(inputs.begin(), inputs.end(), [&](int i) { return !nodes_of(i).empty(); });
    if (moving == inputs.end()) return false;
    v = *moving;
  }
  const int first = transpose_of(v);
  const Perm before = perm_of(nodes_[at(first)].key);
  if (before.size() != last.size()) return false;
  Perm both;
  for (const std::int64_t axis : last) both.push_back(before[static_cast<std::size_t>(axis)]);
  read_in_place_of(reader, v, nodes_[at(first)].inputs[0]);
  drop_with_makers(first);
  LoadedNode& node = nodes_[at(n)];
  node.key = transpose_by(both), node.op = kNone;
  if (changes_nothing(both)) bypass(n);
  return true;
}

// What reads the node's value reads its first input.
void LoadedGraph::bypass(int n) {
  read_everywhere(value_of(n), nodes_[at(n)].inputs[0]);
  drop_if_unread(n);
}

// f(Transpose(x),Transpose(y)) of one permutation is Transpose(f(x,y)).
bool LoadedGraph::leaves_transpose(int n) {
  const LoadedNode& node = nodes_[at(n)];
  if (node.inputs.size() < 2 || node.outputs.size() != 1 || !has(Trait::kBinaryElementwise, node.key) || node.inputs[0] == node.inputs[1])
    return false;
  Perm perm;
  for (const int v : node.inputs) {
    const int transpose = transpose_of(v);
    if (transpose < 0 || readers_[at(v)] != 1) return false;
    const Perm own = perm_of(nodes_[at(transpose)].key);
    if (!perm.empty() && own != perm) return false;
    perm = own;
  }
  const std::vector<int> inputs = node.inputs;
  for (const int v : inputs) {
    const int transpose = transpose_of(v);
    read_in_place_of(n, v, nodes_[at(transpose)].inputs[0]);
    drop_if_unread(transpose);
  }
  const int made = value_of(n), inner = new_value(classes_[at(made)], n), last = static_cast<int>(nodes_.size());
  shape_known_[at(inner)] = shape_known_[at(made)];
  nodes_[at(n)].outputs[0] = inner;
  nodes_.push_back({transpose_by(perm), kNone, {}, {inner}, {made}, {}});
  makers_[at(made)] = last, readers_[at(inner)] = 1, users_[at(inner)].push_back(last);
  return true;
}

// Shape(Transpose(x)) is Gather(Shape(x),perm), where nothing that reads the Transpose keeps it where it is.
void LoadedGraph::pass_transpose(int n) {
  const int v = nodes_[at(n)].inputs[0], transpose = transpose_of(v);
  if (transpose < 0 || std::find(outputs_.begin(), outputs_.end(), v) != outputs_.end()) return;
  for (const int user : users_[at(v)]) {
    const LoadedNode& other = nodes_[at(user)];
    const bool reads = !other.gone && std::find(other.inputs.begin(), other.inputs.end(), v) != other.inputs.end();
    if (reads && !lets_pass(other.key)) return;
  }
  const int made = value_of(n), sizes = new_value(classes_[at(made)], n), last = static_cast<int>(nodes_.size());
  read_in_place_of(n, v, nodes_[at(transpose)].inputs[0]);
  drop_if_unread(transpose);
  shape_known_[at(sizes)] = shape_known_[at(made)], shape_known_[at(made)] = true;
  nodes_[at(n)].outputs[0] = sizes;
  nodes_.push_back(
      {make_key("", "Gather", {Attribute::of("axis", std::int64_t{0})}, 1, 1), kNone, {}, {sizes}, {made}, {}});  // and the indices
  makers_[at(made)] = last, readers_[at(sizes)] = 1, users_[at(sizes)].push_back(last);
}

}  // namespace saturate
