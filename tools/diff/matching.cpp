#include "tools/diff/matching.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <unordered_set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/convert/node_text.h"

namespace saturate {
namespace {

constexpr std::size_t kMostConstant = std::size_t{64} << 20;  // bytes of a constant that is computed for its content
constexpr std::size_t kMostOfAKind = 300;                     // values of one type and size that are compared each with each

}  // namespace

std::optional<Id> LoweredGraph::find(const std::string& value) const {
  const auto it = lowered.values.find(value);
  return it == lowered.values.end() ? std::nullopt : std::optional(g->egraph().find(it->second));
}

absl::StatusOr<LoweredGraph> lowered_graph(const Model& model, const Evaluator& evaluator, const LoweredGraph* outside) {
  LoweredGraph out{&model, std::make_unique<OnnxEGraph>(evaluator), {}};
  LowerOptions options;
  if (outside) options.captured = capture(model.graph, *outside->g, outside->lowered, out.g->dims());
  auto lowered = lower(model, *out.g, options);
  if (!lowered.ok()) return lowered.status();
  out.lowered = *std::move(lowered);
  return out;
}

Matching::Matching(const LoweredGraph& first, const LoweredGraph& second, const std::map<std::string, std::string>& inputs)
    : side_{&first, &second} {
  offset_[0] = 0;
  offset_[1] = static_cast<std::uint32_t>(first.g->egraph().num_ids());
  const std::size_t all = offset_[1] + second.g->egraph().num_ids();
  parent_.resize(all);
  std::iota(parent_.begin(), parent_.end(), 0);
  has_.resize(all);
  constant_.resize(all);
  names_.resize(all);
  std::map<std::string, std::string> second_to_first;
  for (const auto& [a, b] : inputs) second_to_first[b] = a;
  for (int graph : {0, 1}) read(graph, second_to_first);
  close();
}

std::uint32_t Matching::find(std::uint32_t v) const {
  while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
  return v;
}

bool Matching::unite(std::uint32_t a, std::uint32_t b) {
  a = find(a), b = find(b);
  if (a == b) return false;
  if (b < a) std::swap(a, b);
  parent_[b] = a;
  has_[a] |= has_[b];
  return true;
}

std::optional<Matching::Class> Matching::of(int graph, const std::string& value) const {
  const auto id = side_[graph]->find(value);
  return id ? std::optional(of(graph, *id)) : std::nullopt;
}

std::string Matching::leaf_text(int graph, const OpKey& key, OpId op, const std::map<std::string, std::string>& second_to_first) const {
  if (key.op_type == kConstantOp) return tensor_text(side_[graph]->g->constant_tensor(op));
  if (key.op_type != kInputOp) return fmt::format("{}{}{}", key.op_type, graph, attributes_text(key.attributes));
  const std::string& name = key.attributes[0].s();
  const auto it = graph == 1 ? second_to_first.find(name) : second_to_first.end();
  return "input " + (it == second_to_first.end() ? name : it->second);
}

void Matching::read(int graph, const std::map<std::string, std::string>& second_to_first) {
  const OnnxEGraph& g = *side_[graph]->g;
  const EGraph& e = g.egraph();
  std::map<std::string, std::string> functions;  // a call is that of this body
  for (const Function& f : side_[graph]->model->functions)
    functions[fmt::format("{}.{}.{}", f.domain, f.name, f.overload)] = function_text(f);
  texts_[graph].resize(e.num_ops());
  for (OpId op = 0; op < e.num_ops(); ++op) {
    const OpKey& key = g.key(op);
    if (key.op_type == kAbsentOp) {
      texts_[graph][op] = "absent";
    } else if (key.domain == "#" && key.op_type != kProjOp) {
      texts_[graph][op] = leaf_text(graph, key, op, second_to_first);
    } else {
      texts_[graph][op] = operator_text(key);
      if (const auto f = functions.find(fmt::format("{}.{}.{}", key.domain, key.op_type, key.overload)); f != functions.end())
        texts_[graph][op] += f->second;
    }
  }
  for (const Id id : e.classes()) {
    const std::uint32_t vertex = offset_[graph] + id;
    const Facts& facts = g.facts(id);
    constant_[vertex] = facts.kind == Facts::Kind::kTensor && facts.constant;
    const std::vector<NodeId> members = e.class_nodes(id);
    const bool stored = std::any_of(members.begin(), members.end(), [&](NodeId n) { return g.key(e.node(n).op).op_type == kConstantOp; });
    if (constant_[vertex] && !stored)
      if (const auto value = g.value(id, kMostConstant)) made_.push_back({vertex, {tensor_text(*value), {}, false, graph}});
    for (const NodeId n : members) {
      const ENode node = e.node(n);
      const auto add = [&](std::string text, const ENode& of) {
        std::vector<std::uint32_t> children;
        for (const Id child : of.children) children.push_back(offset_[graph] + e.find(child));
        made_.push_back({vertex, {std::move(text), std::move(children), e.op(of.op).commutative, graph}});
      };
      const OpKey& key = g.key(node.op);
      if (key.op_type != kProjOp) {
        if (key.outputs == 1 || key.domain == "#") add(key.domain == "#" ? texts_[graph][node.op] : "0 of " + texts_[graph][node.op], node);
        continue;
      }
      for (const NodeId tuple : e.class_nodes(e.find(node.children[0])))
        add(fmt::format("{} of {}", key.attributes[0].i(), texts_[graph][e.node(tuple).op]), e.node(tuple));
    }
  }
  for (const auto& [name, id] : side_[graph]->lowered.values) {
    const std::uint32_t vertex = offset_[graph] + e.find(id);
    names_[vertex].push_back(name);
    has_[vertex] |= static_cast<std::uint8_t>(1 << graph);
  }
  for (std::vector<std::string>& names : names_) std::sort(names.begin(), names.end());
}

// Equal operators of equal inputs are equal, again and again.
void Matching::close() {
  for (bool grows = true; grows;) {
    grows = false;
    std::unordered_map<std::string, std::uint32_t> seen;
    for (const auto& [vertex, made] : made_) {
      std::vector<std::uint32_t> children;
      for (const std::uint32_t child : made.children) children.push_back(find(child));
      if (made.commutative) std::sort(children.begin(), children.end());
      const auto [it, added] = seen.try_emplace(fmt::format("{}({})", made.text, fmt::join(children, ",")), vertex);
      if (!added) grows = unite(vertex, it->second) || grows;
    }
  }
}

bool Matching::agree(const Evidence& evidence, std::uint32_t a, std::uint32_t b) const {
  for (const std::string& first : names_[a])
    for (const std::string& second : names_[b])
      if (const auto same = evidence.same(first, second)) return *same;
  return false;
}

void Matching::join(const std::string& first, const std::string& second) {
  const auto a = of(0, first), b = of(1, second);
  if (a && b && unite(*a, *b)) close();
}

void Matching::match_names(const Evidence& evidence) {
  for (const auto& [name, id] : side_[0]->lowered.values)
    if (const auto other = side_[1]->find(name); other && evidence.same(name, name).value_or(false))
      unite(offset_[0] + side_[0]->g->egraph().find(id), offset_[1] + *other);
  close();
}

// What two equal values are computed from by the same operator is equal where the evidence says so. Without evidence inputs at one place
// count as equal; of operators whose inputs may change places, where one pair is equal already, or where the operators behind them tell.
void Matching::match_backwards(const Evidence& evidence) {
  for (bool grows = true; grows;) {
    grows = false;
    std::unordered_map<std::uint32_t, std::vector<const Made*>> makers[2];
    for (const auto& [vertex, made] : made_)
      if (!made.children.empty()) makers[made.graph][find(vertex)].push_back(&made);
    const auto alike = [&](std::uint32_t a, std::uint32_t b) {
      const auto first = makers[0].find(find(a)), second = makers[1].find(find(b));
      if (first == makers[0].end() || second == makers[1].end()) return false;
      return std::any_of(first->second.begin(), first->second.end(), [&](const Made* x) {
        return std::any_of(second->second.begin(), second->second.end(), [&](const Made* y) { return x->text == y->text; });
      });
    };
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    // Of an operator with more than two inputs, in any order: those that have no partner yet, where they are few.
    const auto propose_left = [&](const Made& a, const Made& b) {
      std::vector<std::uint32_t> left[2];
      std::unordered_set<std::uint32_t> there[2];
      for (const std::uint32_t v : a.children) there[0].insert(find(v));
      for (const std::uint32_t v : b.children) there[1].insert(find(v));
      for (const std::uint32_t v : a.children)
        if (!there[1].contains(find(v))) left[0].push_back(v);
      for (const std::uint32_t v : b.children)
        if (!there[0].contains(find(v))) left[1].push_back(v);
      const bool few = left[0].size() * left[1].size() <= kMostOfAKind * kMostOfAKind;
      if (!few && left[0].size() != left[1].size()) return;
      for (std::size_t i = 0; i < left[0].size(); ++i)
        for (std::size_t j = few ? 0 : i; j < (few ? left[1].size() : i + 1); ++j)
          if (evidence.ran() || left[0].size() * left[1].size() == 1) pairs.emplace(left[0][i], left[1][j]);
    };
    const auto propose = [&](const Made& a, const Made& b) {
      const std::vector<std::uint32_t>&x = a.children, &y = b.children;
      if (a.commutative && x.size() != 2) return propose_left(a, b);
      if (!a.commutative) {
        for (std::size_t i = 0; i < x.size(); ++i) pairs.emplace(x[i], y[i]);
        return;
      }
      for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t j = 0; j < x.size(); ++j) {
          if (!evidence.ran() && (find(x[1 - i]) == find(y[1 - j]) || (alike(x[i], y[j]) && !alike(x[i], y[1 - j]))))
            pairs.emplace(x[i], y[j]);
          if (evidence.ran()) pairs.emplace(x[i], y[j]);
        }
    };
    for (const auto& [c, first] : makers[0])
      if (const auto second = makers[1].find(c); second != makers[1].end())
        for (const Made* a : first)
          for (const Made* b : second->second)
            if (a->text == b->text && a->children.size() == b->children.size()) propose(*a, *b);
    for (const auto& [a, b] : pairs) {
      if (find(a) == find(b) || is_constant(a) || is_constant(b) || names_[a].empty() || names_[b].empty()) continue;
      const bool same = evidence.ran() ? agree(evidence, a, b) : !(common(a) && common(b));
      if (same) grows = unite(a, b) || grows;
    }
    if (grows) close();
  }
}

// Values without a partner that are the same numbers.
void Matching::match_contents(const Evidence& evidence) {
  std::map<std::string, std::vector<std::uint32_t>> by_kind[2];
  for (int graph : {0, 1})
    for (const auto& [name, id] : side_[graph]->lowered.values) {
      const std::uint32_t vertex = offset_[graph] + side_[graph]->g->egraph().find(id);
      if (common(vertex) || is_constant(vertex) || !evidence.is_telling(graph, name)) continue;
      std::vector<std::uint32_t>& of_kind = by_kind[graph][evidence.kind(graph, name)];
      if (std::find(of_kind.begin(), of_kind.end(), vertex) == of_kind.end()) of_kind.push_back(vertex);
    }
  for (auto& [kind, first] : by_kind[0]) {
    std::vector<std::uint32_t>& second = by_kind[1][kind];
    if (first.size() * second.size() > kMostOfAKind * kMostOfAKind) continue;
    for (const std::uint32_t a : first)
      for (const std::uint32_t b : second)
        if (agree(evidence, a, b)) unite(a, b);
  }
  close();
}

void Matching::match(const Evidence& evidence) {
  const Graph &first = side_[0]->model->graph, &second = side_[1]->model->graph;
  if (evidence.ran()) {
    for (std::size_t i = 0; i < std::min(first.outputs.size(), second.outputs.size()); ++i)
      if (evidence.same(first.outputs[i].name, second.outputs[i].name).value_or(false)) join(first.outputs[i].name, second.outputs[i].name);
    match_names(evidence);
    match_backwards(evidence);
    match_contents(evidence);
    match_backwards(evidence);
    return;
  }
  for (std::size_t i = 0; i < first.outputs.size(); ++i) {
    const auto same =
        std::find_if(second.outputs.begin(), second.outputs.end(), [&](const ValueInfo& o) { return o.name == first.outputs[i].name; });
    if (same != second.outputs.end())
      join(first.outputs[i].name, same->name);
    else if (first.outputs.size() == second.outputs.size())
      join(first.outputs[i].name, second.outputs[i].name);
  }
  match_backwards(evidence);
}

}  // namespace saturate
