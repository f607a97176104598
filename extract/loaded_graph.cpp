// A lowered model as the target's runtime loads it (load_as_it_is in extract/onnx_problem.h): node by node, since equal values of a model
// are one class, and the runtime computes each.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "extract/onnx_problem.h"
#include "extract/price/op_features.h"
#include "extract/price/op_sizes.h"
#include "extract/target/load_match.h"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

constexpr std::size_t kStepsOfNode = 50;  // for a fusion: a value has one maker, so that there are few ways

struct LoadedNode {
  OpKey key;
  OpId op = kNone;          // of its e-node; kNone where the runtime made it
  std::vector<Id> classes;  // children of that
  std::vector<int> inputs, outputs;
  std::map<std::string, int> beside;
  bool gone = false, guesses_size = false;  // a Reshape to a shape with -1, which was a size that the runtime knew by its name
};

class LoadedGraph {
 public:
  using Value = int;
  using Node = int;

  LoadedGraph(const OnnxEGraph& g, const Lowered& lowered) : g_(g), e_(g.egraph()) {
    for (const Source& s : lowered.sources) add(s);
    for (const ValueInfo& output : lowered.model->graph.outputs)
      if (const auto it = names_.find(output.name); it != names_.end()) outputs_.push_back(it->second);
    drop_what_is_computed();
    join_shapes();
    note_known_shapes(*lowered.model);
    join_pieces();
  }

  void fuse(const LoadFusion& fusion) {
    const LoadMatcher<LoadedGraph> matcher(*this, kStepsOfNode * nodes_.size());
    const LoadGuards<LoadedGraph> guards(*this, g_.dims(), fusion);
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n)
      while (!nodes_[at(n)].gone && matcher.is_one_of(fusion.pattern, n) && fuse_at(n, fusion, matcher, guards)) {
      }
  }

  // Reshape(x,Concat(...)): sizes of x at their own places, constants, and at most one other size are a constant shape.
  void join_shapes() {
    for (LoadedNode& node : nodes_) {
      if (node.gone || node.key.op_type != "Reshape" || node.inputs.size() != 2) continue;
      const int shape = node.inputs[1];
      const std::vector<int> maker = nodes_of(shape);
      if (maker.empty() || nodes_[at(maker[0])].key.op_type != "Concat" || readers_[at(shape)] != 1) continue;
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
      if (others > 1 || place != length_of(shape)) continue;
      --readers_[at(shape)];
      node.guesses_size = others > 0;
      node.inputs[1] = value_of_class(classes_[at(shape)]);
      ++readers_[at(node.inputs[1])];
      drop_with_makers(maker[0]);
    }
  }

  // Slices that cut a value into pieces of one axis are one Split, and so is a Gather of each of its indices.
  void join_pieces() {
    std::map<std::tuple<std::string, int, std::int64_t>, std::vector<std::pair<std::int64_t, int>>> cuts;  // begin and node of each
    std::map<int, Cut> of_node;
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n)
      if (const auto cut = cut_of(n)) {
        cuts[{nodes_[at(n)].key.op_type, nodes_[at(n)].inputs[0], cut->axis}].emplace_back(cut->begin, n);
        of_node[n] = *cut;
      }
    for (auto& [what, pieces] : cuts) {
      const auto& [op, of, axis] = what;
      const auto& shape = facts(of).shape;
      const auto size = shape && axis < facts(of).rank() && shape_known_[at(of)] ? g_.dims().value((*shape)[static_cast<std::size_t>(axis)])
                                                                                 : std::nullopt;
      std::sort(pieces.begin(), pieces.end());
      std::int64_t next = 0;
      for (const auto& [begin, n] : pieces) next = begin == next ? std::min(of_node[n].end, size.value_or(0)) : -1;
      if (pieces.size() < 2 || !size || next != *size) continue;
      LoadedNode& first = nodes_[at(pieces[0].second)];
      const bool squeezes = op == "Gather" && facts(first.inputs[1]).shape && facts(first.inputs[1]).shape->empty();
      first.key = make_key("", "Split", {}, static_cast<int>(pieces.size()), facts(of).rank()), first.op = kNone;
      if (squeezes) first.beside["Squeeze"] = static_cast<int>(pieces.size());
      for (std::size_t i = 1; i < pieces.size(); ++i) {
        LoadedNode& other = nodes_[at(pieces[i].second)];
        first.outputs.insert(first.outputs.end(), other.outputs.begin(), other.outputs.end());
        for (const int v : other.inputs) --readers_[at(v)];
        other.gone = true;
      }
    }
  }

  AtLoad sum(const CostModel& cost) const {
    AtLoad out;
    for (const LoadedNode& node : nodes_) {
      if (node.gone) continue;
      const std::string name = operator_name(node.key.domain, node.key.op_type);
      ++out.operators[name];
      const double alone = price(node, cost);
      out.price += alone;
      out.cost[comparable_op(name)] += alone;
      for (const auto& [op, count] : node.beside) {
        out.operators[op] += static_cast<std::size_t>(count);
        const Id made = classes_[at(node.outputs.front())];
        const double beside = count * cost.cost_as(g_, {op}, std::array{made}, made);
        out.price += beside;
        out.cost[op] += beside;
      }
    }
    return out;
  }

  // As a view of LoadMatcher.
  std::vector<int> nodes_of(int v) const {
    const int maker = makers_[at(v)];
    return maker < 0 || nodes_[at(maker)].gone ? std::vector<int>() : std::vector<int>{maker};
  }
  std::uint64_t bits_of(int v) const {
    const std::vector<int> maker = nodes_of(v);
    return maker.empty() ? 0 : operator_bit(key(maker[0]).domain, key(maker[0]).op_type);
  }
  const OpKey& key(int n) const { return nodes_[at(n)].key; }
  const std::vector<int>& inputs(int n) const { return nodes_[at(n)].inputs; }
  int value_of(int n) const { return nodes_[at(n)].outputs.front(); }
  const Facts& facts(int v) const { return g_.facts(classes_[at(v)]); }
  // Of what the runtime has as a constant, not of what we can prove.
  std::optional<double> number(int v) const { return nodes_of(v).empty() ? number_of(g_, classes_[at(v)]) : std::nullopt; }
  bool is_commutative(int n) const { return nodes_[at(n)].op != kNone && e_.op(nodes_[at(n)].op).commutative; }
  bool is_shape_known(int v) const { return shape_known_[at(v)]; }
  static void add_node(int n, LoadMatch<LoadedGraph>& m) { m.nodes.push_back(n); }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  int new_value(Id id, int maker) {
    classes_.push_back(e_.find(id));
    makers_.push_back(maker);
    readers_.push_back(0);
    users_.emplace_back();
    return static_cast<int>(classes_.size()) - 1;
  }

  // Of the small constants with one content the runtime keeps one.
  int value_named(const std::string& name, Id id) {
    const auto [it, is_new] = names_.try_emplace(name, 0);
    if (is_new) it->second = g_.facts(id).constant ? value_of_class(id) : new_value(id, -1);
    return it->second;
  }

  // A child that is none of the node's inputs: what was an attribute of it.
  int value_of_class(Id id) {
    const auto [it, is_new] = others_.try_emplace(e_.find(id), 0);
    if (is_new) it->second = new_value(id, -1);
    return it->second;
  }

  static std::string name_of_input(const Source& s, std::size_t i) {
    const auto& inputs = s.node->inputs;
    return i < inputs.size() ? inputs[i] : i - inputs.size() < s.captures.size() ? s.captures[i - inputs.size()] : std::string();
  }

  std::vector<int> inputs_of(const Source& s) {
    std::vector<int> out;
    std::vector<bool> used(s.inputs.size());
    const auto is = [&](std::size_t i, Id child) { return i < s.inputs.size() && !used[i] && e_.find(s.inputs[i]) == e_.find(child); };
    for (std::size_t j = 0; j < s.children.size(); ++j) {
      std::size_t i = j;
      if (!is(i, s.children[j])) {
        for (i = 0; i < s.inputs.size() && !is(i, s.children[j]); ++i) {
        }
      }
      const std::string name = i < s.inputs.size() ? name_of_input(s, i) : "";
      if (i < s.inputs.size()) used[i] = true;
      out.push_back(name.empty() ? value_of_class(s.children[j]) : value_named(name, s.children[j]));
    }
    return out;
  }

  void add(const Source& s) {
    if (!s.node) return;
    const auto& names = s.node->outputs;
    if (s.op == kNone) {  // an Identity, or a constant
      for (std::size_t o = 0; o < names.size() && o < s.outputs.size(); ++o)
        if (!names[o].empty() && s.outputs[o] != kNone)
          names_[names[o]] = s.node->op_type == "Identity" && !s.node->inputs.empty() ? value_named(s.node->inputs[0], s.outputs[o])
                                                                                      : value_of_class(s.outputs[o]);
      return;
    }
    LoadedNode node{g_.key(s.op), s.op, s.children, inputs_of(s), {}, {}};
    // The runtime computes equal nodes once.
    std::vector<int> signature = node.inputs;
    if (e_.op(s.op).commutative) std::sort(signature.begin(), signature.end());
    signature.push_back(static_cast<int>(s.op));
    const auto [same, is_new] =
        node.key.unique == 0 ? equal_.try_emplace(std::move(signature), static_cast<int>(nodes_.size())) : std::pair(equal_.end(), true);
    const std::vector<int>* known = is_new ? nullptr : &nodes_[at(same->second)].outputs;
    for (std::size_t o = 0; o < names.size(); ++o) {
      const Id id = o < s.outputs.size() ? s.outputs[o] : kNone;
      if (id == kNone) continue;
      const int v = known ? (o < known->size() ? (*known)[o] : -1) : new_value(id, static_cast<int>(nodes_.size()));
      if (!known) node.outputs.push_back(v);
      if (!names[o].empty() && v >= 0) names_[names[o]] = v;
    }
    if (is_new && !node.outputs.empty()) nodes_.push_back(std::move(node));
  }

  // What hangs on constants alone and on shapes that are known, but for weights that stay quantized; then what nothing reads any more.
  void drop_what_is_computed() {
    std::vector<bool> constant(classes_.size());
    for (int v = 0; v < static_cast<int>(classes_.size()); ++v)
      constant[at(v)] = makers_[at(v)] < 0 && (facts(v).constant || facts(v).kind == Facts::Kind::kAbsent);
    const auto is_number = [&](Dim d) { return g_.dims().value(d).has_value(); };
    const auto is_computed = [&](const LoadedNode& node) {
      if (stays_quantized(node.key) || node.key.unique != 0) return false;
      if (one_of(node.key.op_type, {"If", "Loop", "Scan", "CastLike"})) return false;
      if (node.key.op_type == "Shape" || node.key.op_type == "Size") {
        const auto& shape = facts(node.inputs.front()).shape;
        if (shape && std::all_of(shape->begin(), shape->end(), is_number)) return true;
      }
      return std::all_of(node.inputs.begin(), node.inputs.end(), [&](int v) { return constant[at(v)]; });
    };
    for (LoadedNode& node : nodes_) {
      node.gone = is_computed(node);
      for (const int v : node.outputs) constant[at(v)] = node.gone;
    }
    readers_.assign(classes_.size(), 0);
    for (const int v : outputs_) ++readers_[at(v)];
    for (const LoadedNode& node : nodes_)
      if (!node.gone)
        for (const int v : node.inputs) ++readers_[at(v)];
    for (std::size_t n = nodes_.size(); n-- > 0;) drop_if_unread(static_cast<int>(n));
    for (std::size_t n = 0; n < nodes_.size(); ++n)
      for (const int v : nodes_[n].inputs) users_[at(v)].push_back(static_cast<int>(n));
  }

  // The runtime knows the shapes that the file tells, and those that follow from them without looking into values.
  void note_known_shapes(const Model& model) {
    shape_known_.assign(classes_.size(), false);
    for (std::size_t v = 0; v < classes_.size(); ++v) shape_known_[v] = makers_[v] < 0;
    for (const LoadedNode& node : nodes_) {
      const bool by_values = one_of(node.key.op_type, {"Tile", "Slice", "Range", "Resize", "Pad"});
      bool known = !node.guesses_size;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const int v = node.inputs[i];
        known = known && shape_known_[at(v)] && (!by_values || i == 0 || makers_[at(v)] < 0 || nodes_[at(makers_[at(v)])].gone);
      }
      for (const int v : node.outputs) shape_known_[at(v)] = known;
    }
    for (const ValueInfo& told : model.graph.value_info)
      if (const auto it = names_.find(told.name); it != names_.end() && told.type.shape) shape_known_[at(it->second)] = true;
  }

  bool is_known(int v) const { return facts(v).constant && nodes_of(v).empty(); }

  std::optional<std::int64_t> length_of(int v) const {
    const auto& shape = facts(v).shape;
    return !shape || shape->size() > 1 ? std::nullopt : shape->empty() ? std::optional<std::int64_t>(1) : g_.dims().value((*shape)[0]);
  }

  // Unsqueeze(Gather(Shape(x),place)).
  bool is_size_of(int v, int x, std::int64_t place) const {
    const auto maker = [&](int of, std::string_view op) {
      const std::vector<int> n = nodes_of(of);
      return n.empty() || nodes_[at(n[0])].key.op_type != op ? nullptr : &nodes_[at(n[0])];
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

  struct Cut {
    std::int64_t axis, begin, end;
  };
  // A Slice of one axis with constant bounds and steps of 1, or a Gather of one index.
  std::optional<Cut> cut_of(int n) const {
    const LoadedNode& node = nodes_[at(n)];
    const bool slices = node.key.op_type == "Slice" && node.inputs.size() >= 4;
    if (node.gone || !(slices || node.key.op_type == "Gather") || !node.key.domain.empty() || !facts(node.inputs[0]).shape)
      return std::nullopt;
    if (const auto of = nodes_of(node.inputs[0]); !of.empty() && nodes_[at(of[0])].key.op_type == "Shape") return std::nullopt;
    const Attribute* given = find_attribute(node.key.attributes, "axis");
    const auto axis = slices ? number(node.inputs[3]) : std::optional<double>(given ? static_cast<double>(given->i()) : 0);
    const std::optional<double> begin = number(node.inputs[1]), end = slices  ? number(node.inputs[2])
                                                                      : begin ? std::optional(*begin + 1)
                                                                              : begin;
    if (!begin || !end || !axis || *begin < 0 || *end < 0 || (slices && node.inputs.size() > 4 && number(node.inputs[4]) != 1))
      return std::nullopt;
    constexpr double kFar = 1e15;
    const double rank = facts(node.inputs[0]).rank();
    return Cut{static_cast<std::int64_t>(*axis < 0 ? *axis + rank : *axis), static_cast<std::int64_t>(*begin),
               static_cast<std::int64_t>(std::min(*end, kFar))};
  }

  // A node that nothing reads, and then what made its inputs.
  void drop_with_makers(int n) {
    std::vector<int> open{n};
    while (!open.empty()) {
      const int next = open.back();
      open.pop_back();
      if (!drop_if_unread(next)) continue;
      for (const int v : nodes_[at(next)].inputs)
        if (makers_[at(v)] >= 0) open.push_back(makers_[at(v)]);
    }
  }

  bool drop_if_unread(int n) {
    LoadedNode& node = nodes_[at(n)];
    if (node.gone || std::any_of(node.outputs.begin(), node.outputs.end(), [&](int v) { return readers_[at(v)] > 0; })) return false;
    node.gone = true;
    for (const int v : node.inputs) --readers_[at(v)];
    return true;
  }

  // A spelling is fused where nothing else reads a value in it.
  bool is_alone(const LoadMatch<LoadedGraph>& m) const {
    std::map<int, int> inside;
    for (const int n : m.nodes)
      for (const int v : nodes_[at(n)].inputs) ++inside[v];
    return std::all_of(m.nodes.begin() + 1, m.nodes.end(), [&](int n) {
      const LoadedNode& node = nodes_[at(n)];
      return n != m.nodes.front() && node.outputs.size() == 1 && inside[node.outputs[0]] == readers_[at(node.outputs[0])];
    });
  }

  bool fuse_at(int n, const LoadFusion& fusion, const LoadMatcher<LoadedGraph>& matcher, const LoadGuards<LoadedGraph>& guards) {
    constexpr std::size_t kMost = 4;
    for (const LoadMatch<LoadedGraph>& found : matcher.of_node(fusion.pattern, n, kMost)) {
      LoadMatch<LoadedGraph> m = found;
      std::sort(m.nodes.begin() + 1, m.nodes.end());  // a named one stands there for each place
      m.nodes.erase(std::unique(m.nodes.begin() + 1, m.nodes.end()), m.nodes.end());
      if (!guards.hold(m) || !is_alone(m)) continue;
      if (fusion.becomes.what == LoadPattern::What::kValue) return replace(m, m.values.at(fusion.becomes.name));
      MadeAtLoad<LoadedGraph> made = made_at_load(*this, fusion.becomes, m);
      for (const int of : m.nodes) {
        for (const int v : nodes_[at(of)].inputs) --readers_[at(v)];
        nodes_[at(of)].gone = true;
      }
      LoadedNode& node = nodes_[at(n)];
      node.gone = false;
      node.beside = fusion.beside;
      node.key = std::move(made.key), node.op = kNone, node.classes.clear(), node.inputs = std::move(made.inputs);
      for (const int v : node.inputs) ++readers_[at(v)], users_[at(v)].push_back(n);
      return true;
    }
    return false;
  }

  // What reads the result of a spelling reads this value from now on.
  bool replace(const LoadMatch<LoadedGraph>& m, int by) {
    const int result = value_of(m.nodes.front());
    for (const int of : m.nodes) {
      for (const int v : nodes_[at(of)].inputs) --readers_[at(v)];
      nodes_[at(of)].gone = true;
    }
    for (const int reader : std::exchange(users_[at(result)], {})) {
      std::replace(nodes_[at(reader)].inputs.begin(), nodes_[at(reader)].inputs.end(), result, by);
      users_[at(by)].push_back(reader);
    }
    std::replace(outputs_.begin(), outputs_.end(), result, by);
    readers_[at(by)] += std::exchange(readers_[at(result)], 0);
    return true;
  }

  double price(const LoadedNode& node, const CostModel& cost) const {
    const Id made = classes_[at(node.outputs.front())];
    if (node.op != kNone) {
      const Id id = e_.lookup(node.op, node.classes);
      return cost.cost(g_, ENode{node.op, node.classes}, id == kNone ? made : id);
    }
    std::vector<Id> inputs;
    for (const int v : node.inputs) inputs.push_back(classes_[at(v)]);
    return cost_as_made(g_, cost, node.key, inputs, made);
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  std::vector<LoadedNode> nodes_;
  std::vector<Id> classes_;  // by value, as are these
  std::vector<int> makers_, readers_;
  std::vector<bool> shape_known_;
  std::vector<std::vector<int>> users_;  // nodes; also such as are gone
  std::vector<int> outputs_;
  std::unordered_map<std::string, int> names_;
  std::map<Id, int> others_;
  std::map<std::vector<int>, int> equal_;
};

}  // namespace

AtLoad load_as_it_is(const OnnxEGraph& g, const Lowered& lowered, const Target& target, const CostModel& cost,
                     const std::map<std::string, std::int64_t>& usual_sizes) {
  LoadedGraph graph(g, lowered);
  for (const LoadFusion* fusion : load_fusions_of(target)) graph.fuse(*fusion);
  const std::unique_ptr<CostModel> prepared = cost.for_graph(g, usual_sizes);
  return graph.sum(prepared ? *prepared : cost);
}

}  // namespace saturate
