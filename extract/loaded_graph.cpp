#include "extract/loaded_graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include "extract/sizes/op_features.h"
#include "extract/sizes/op_sizes.h"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

constexpr std::size_t kStepsOfNode = 50;  // for a fusion: a value has one maker, so that there are few ways

std::string name_of_input(const Source& s, std::size_t i) {
  const auto& inputs = s.node->inputs;
  return i < inputs.size() ? inputs[i] : i - inputs.size() < s.captures.size() ? s.captures[i - inputs.size()] : std::string();
}

}  // namespace

LoadedGraph::LoadedGraph(const OnnxEGraph& g, const Lowered& lowered) : g_(g), e_(g.egraph()) {
  for (const Source& s : lowered.sources) add(s);
  for (const ValueInfo& input : lowered.model->graph.inputs)
    if (const auto it = names_.find(input.name); it != names_.end()) is_input_[at(it->second)] = true;
  for (const ValueInfo& output : lowered.model->graph.outputs)
    if (const auto it = names_.find(output.name); it != names_.end()) outputs_.push_back(it->second);
  settle(*lowered.model);
}

int LoadedGraph::new_value(Id id, int maker) {
  classes_.push_back(e_.find(id));
  makers_.push_back(maker);
  readers_.push_back(0);
  users_.emplace_back();
  shape_known_.push_back(true);
  rank_known_.push_back(true);
  is_input_.push_back(false);
  return static_cast<int>(classes_.size()) - 1;
}

// Of the small constants with one content the runtime keeps one.
int LoadedGraph::value_named(const std::string& name, Id id) {
  const auto [it, is_new] = names_.try_emplace(name, 0);
  if (is_new) it->second = g_.facts(id).constant ? value_of_class(id) : new_value(id, -1);
  return it->second;
}

// A child that is none of the node's inputs: what was an attribute of it.
int LoadedGraph::value_of_class(Id id) {
  const auto [it, is_new] = others_.try_emplace(e_.find(id), 0);
  if (is_new) it->second = new_value(id, -1);
  return it->second;
}

std::vector<int> LoadedGraph::inputs_of(const Source& s) {
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

void LoadedGraph::add(const Source& s) {
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
  if (is_of_standard(node.key, "If")) node.source = s.node;
  for (std::size_t o = 0; o < names.size(); ++o) {
    const Id id = o < s.outputs.size() ? s.outputs[o] : kNone;
    if (id == kNone) continue;
    node.outputs.push_back(new_value(id, static_cast<int>(nodes_.size())));
    if (!names[o].empty()) names_[names[o]] = node.outputs.back();
  }
  if (!node.outputs.empty()) nodes_.push_back(std::move(node));
}

// A node that nothing reads, and then what made its inputs.
void LoadedGraph::drop_with_makers(int n) {
  std::vector<int> open{n};
  while (!open.empty()) {
    const int next = open.back();
    open.pop_back();
    if (!drop_if_unread(next)) continue;
    for (const int v : nodes_[at(next)].inputs)
      if (makers_[at(v)] >= 0) open.push_back(makers_[at(v)]);
  }
}

bool LoadedGraph::drop_if_unread(int n) {
  LoadedNode& node = nodes_[at(n)];
  if (node.gone || std::any_of(node.outputs.begin(), node.outputs.end(), [&](int v) { return readers_[at(v)] > 0; })) return false;
  node.gone = true;
  for (const int v : node.inputs) --readers_[at(v)];
  return true;
}

void LoadedGraph::fuse(const LoadFusion& fusion) {
  const LoadMatcher<LoadedGraph> matcher(*this, kStepsOfNode * nodes_.size());
  const LoadGuards<LoadedGraph> guards(*this, g_.dims(), fusion);
  for (int n = 0; n < static_cast<int>(nodes_.size()); ++n)
    while (!nodes_[at(n)].gone && matcher.is_one_of(fusion.pattern, n) && fuse_at(n, fusion, matcher, guards)) {
    }
}

// A spelling is fused where nothing else reads a value in it, but for those that stay where others read them.
bool LoadedGraph::is_alone(const LoadMatch<LoadedGraph>& m, const LoadFusion& fusion) const {
  std::map<int, int> inside;
  for (const int n : m.nodes)
    for (const int v : nodes_[at(n)].inputs) ++inside[v];
  const auto stays = [&](int n) {
    return std::any_of(fusion.may_stay.begin(), fusion.may_stay.end(), [&](const std::string& name) { return m.operators.at(name) == n; });
  };
  return std::all_of(m.nodes.begin() + 1, m.nodes.end(), [&](int n) {
    const auto is_read_inside = [&](int v) { return inside[v] == readers_[at(v)]; };
    const LoadedNode& node = nodes_[at(n)];
    return n != m.nodes.front() && (stays(n) || std::all_of(node.outputs.begin(), node.outputs.end(), is_read_inside));
  });
}

bool LoadedGraph::fuse_at(int n, const LoadFusion& fusion, const LoadMatcher<LoadedGraph>& matcher, const LoadGuards<LoadedGraph>& guards) {
  constexpr std::size_t kMost = 4;
  for (const LoadMatch<LoadedGraph>& found : matcher.of_node(fusion.pattern, n, kMost)) {
    LoadMatch<LoadedGraph> m = found;
    std::sort(m.nodes.begin() + 1, m.nodes.end());  // a named one stands there for each place
    m.nodes.erase(std::unique(m.nodes.begin() + 1, m.nodes.end()), m.nodes.end());
    if (!guards.hold(m) || !is_alone(m, fusion)) continue;
    if (fusion.becomes.what == LoadPattern::What::kValue) return replace(m, fusion, m.values.at(fusion.becomes.name));
    const auto nested = [&](MadeAtLoad<LoadedGraph> made) { return make(std::move(made)); };
    MadeAtLoad<LoadedGraph> made = made_at_load(*this, fusion.becomes, m, nested);
    for (const int v : made.inputs) ++readers_[at(v)], users_[at(v)].push_back(n);
    take_out(m, fusion);
    LoadedNode& node = nodes_[at(n)];
    node.gone = false;
    node.beside = fusion.beside;
    node.key = std::move(made.key), node.op = kNone, node.classes.clear(), node.inputs = std::move(made.inputs);
    return true;
  }
  return false;
}

// The nodes of a spelling; of those that may stay, what nothing reads.
void LoadedGraph::take_out(const LoadMatch<LoadedGraph>& m, const LoadFusion& fusion) {
  std::vector<int> stay;
  for (const std::string& name : fusion.may_stay) stay.push_back(m.operators.at(name));
  for (const int of : m.nodes) {
    if (std::find(stay.begin(), stay.end(), of) != stay.end()) continue;
    for (const int v : nodes_[at(of)].inputs) --readers_[at(v)];
    nodes_[at(of)].gone = true;
  }
  for (const int of : stay) drop_if_unread(of);
}

// An operator that a fusion makes beside its last one. Its value is taken to have the type and the shape of what goes in.
int LoadedGraph::make(MadeAtLoad<LoadedGraph> made) {
  const int n = static_cast<int>(nodes_.size()), out = new_value(classes_[at(made.inputs.front())], n);
  for (const int v : made.inputs) ++readers_[at(v)], users_[at(v)].push_back(n);
  shape_known_[at(out)] = shape_known_[at(made.inputs.front())];
  nodes_.push_back({std::move(made.key), kNone, {}, std::move(made.inputs), {out}, {}});
  return out;
}

void LoadedGraph::read_everywhere(int was, int now) {
  for (const int reader : users_[at(was)]) std::replace(nodes_[at(reader)].inputs.begin(), nodes_[at(reader)].inputs.end(), was, now);
  std::replace(outputs_.begin(), outputs_.end(), was, now);
  hand_over_readers(was, now);
}

void LoadedGraph::hand_over_readers(int was, int now) {
  const std::vector<int> readers = std::exchange(users_[at(was)], {});
  users_[at(now)].insert(users_[at(now)].end(), readers.begin(), readers.end());
  readers_[at(now)] += std::exchange(readers_[at(was)], 0);
}

// What reads the result of a spelling reads this value from now on.
bool LoadedGraph::replace(const LoadMatch<LoadedGraph>& m, const LoadFusion& fusion, int by) {
  read_everywhere(value_of(m.nodes.front()), by);
  take_out(m, fusion);
  return true;
}

AtLoad LoadedGraph::sum(const CostModel& cost) const {
  AtLoad out;
  for (const LoadedNode& node : nodes_) {
    if (node.gone) continue;
    if (const std::optional<bool> taken = branch_of(node)) {
      out.taken[node.source] = *taken;
      continue;
    }
    const std::string name = operator_name(node.key.domain, node.key.op_type);
    // Each reader of what is dequantized has its own (EnsureUniqueDQForNodeUnit of ONNX Runtime).
    const int times = is_quantizer(node.key, "DequantizeLinear") ? std::max(1, readers_[at(node.outputs.front())]) : 1;
    out.operators[name] += static_cast<std::size_t>(times);
    const double alone = times * price(node, cost);
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
  if (const double layouts = laid_out_anew(cost); layouts > 0) {
    out.price += layouts;
    out.cost["Reorder"] += layouts;
  }
  return out;
}

// An If whose condition is a constant then is the branch that it takes.
std::optional<bool> LoadedGraph::branch_of(const LoadedNode& node) const {
  if (!node.source || node.inputs.empty() || !is_known(node.inputs[0])) return std::nullopt;
  const auto value = g_.value(classes_[at(node.inputs[0])], 64);
  const auto truth = value && value->size() == 1 ? element_as_int(*value, 0) : std::nullopt;
  return truth ? std::optional(*truth != 0) : std::nullopt;
}

double LoadedGraph::price(const LoadedNode& node, const CostModel& cost) const {
  const Id made = classes_[at(node.outputs.front())];
  const auto as_it_is = [&] {
    const Id known = e_.lookup(node.op, node.classes), id = known == kNone ? made : known;
    const ENode e{node.op, node.classes};
    return cost.cost(g_, e, id) - cost.cost_of_layout(g_, e, id);  // laid_out_anew() tells that
  };
  if (node.op != kNone && !node.in_integers) return as_it_is();
  std::vector<Id> inputs;
  for (const int v : node.inputs) inputs.push_back(classes_[at(v)]);
  const double kernel = cost_as_made(g_, cost, node.key, inputs, made);
  return kernel <= 0 && node.op != kNone ? as_it_is() : kernel;
}

AtLoad load_as_it_is(const OnnxEGraph& g, const Lowered& lowered, const Target& target, const CostModel& cost,
                     const std::map<std::string, std::int64_t>& usual_sizes) {
  LoadedGraph graph(g, lowered);
  const std::vector<const LoadFusion*> fusions = load_fusions_of(target);
  for (const LoadFusion* fusion : fusions)
    if (fusion->basic) graph.fuse(*fusion);
  graph.join_units(target);
  for (const LoadFusion* fusion : fusions)
    if (!fusion->basic) graph.fuse(*fusion);
  const std::unique_ptr<CostModel> prepared = cost.for_graph(g, usual_sizes);
  return graph.sum(prepared ? *prepared : cost);
}

}  // namespace saturate
