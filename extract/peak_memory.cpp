#include "extract/peak_memory.h"

#include <algorithm>

#include "extract/sizes/op_sizes.h"

namespace saturate {
namespace {

double bytes_of(const OnnxEGraph& g, const Facts& f, const CostOptions& sizes) {
  if (f.kind != Facts::Kind::kTensor || !f.shape || bit_width(f.dtype) == 0) return 0;
  double n = bit_width(f.dtype) / 8.0;
  for (const Dim d : *f.shape) {
    const auto v = g.dims().value(d);
    const auto e = v ? v : g.dims().evaluate(d, sizes.symbols);
    n *= e ? std::max(0.0, static_cast<double>(*e)) : static_cast<double>(sizes.default_symbol);
  }
  return n;
}

}  // namespace

double peak_bytes(const OnnxEGraph& g, const Lowered& lowered, const Selection& selection, const ExtractOptions& options) {
  const EGraph& e = g.egraph();
  const CostOptions sizes = with_all_symbols({}, g, options.usual_sizes);
  std::vector<char> state(selection.by_class.size(), 0);
  std::vector<Id> order, holder(selection.by_class.size(), kNone);
  const auto children_of = [&](Id id) {
    const Choice& c = selection.by_class[id];
    return c.folded || c.node == kNone ? std::span<const Id>() : e.node(c.node).children;
  };
  std::vector<std::pair<Id, std::size_t>> stack;
  for (const Id r : lowered.roots) stack.emplace_back(e.find(r), 0);
  std::reverse(stack.begin(), stack.end());
  while (!stack.empty()) {
    auto& [id, next] = stack.back();
    const auto children = children_of(id);
    if (state[id] == 2 || next == children.size()) {
      if (state[id] != 2) order.push_back(id), state[id] = 2;
      stack.pop_back();
      continue;
    }
    const Id child = e.find(children[next++]);
    if (state[child] == 0) stack.emplace_back(child, 0);
  }
  std::vector<std::size_t> last(selection.by_class.size(), 0);
  double always = 0, now = 0, peak = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Id id = order[i];
    const Choice& c = selection.by_class[id];
    const bool leaf = children_of(id).empty();
    const std::string& op = c.node == kNone ? std::string() : g.key(e.node(c.node).op).op_type;
    const bool shares = !leaf && (op == kProjOp || is_view(op)) && op != "Shape" && op != "Size";
    holder[id] = shares ? holder[e.find(children_of(id)[0])] : id;
    if (leaf) always += bytes_of(g, g.facts(id), sizes);
    for (const Id child : children_of(id)) last[holder[e.find(child)]] = i;
  }
  for (const Id r : lowered.roots) last[holder[e.find(r)]] = order.size();
  std::vector<std::vector<Id>> ends(order.size() + 1);
  for (const Id id : order)
    if (holder[id] == id && !children_of(id).empty()) ends[last[id]].push_back(id);
  const auto size = [&](Id id) {
    const Facts& f = g.facts(id);
    double n = bytes_of(g, f, sizes);
    for (const Facts& element : f.elements) n += bytes_of(g, element, sizes);
    return n;
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Id id = order[i];
    if (holder[id] == id && !children_of(id).empty()) now += size(id);
    peak = std::max(peak, now);
    for (const Id gone : ends[i]) now -= size(gone);
  }
  return always + peak;
}

}  // namespace saturate
