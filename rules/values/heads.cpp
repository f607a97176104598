#include "rules/values/heads.h"

#include <algorithm>

#include "onnx_bridge/operators/op_traits.h"

namespace saturate {

const HeadsApart* HeadNotes::find(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  const std::lock_guard lock(mutex_);
  if (e.clean() && version_ != e.version()) {  // classes have joined since
    version_ = e.version();
    std::vector<std::pair<Id, const HeadsApart*>> moved;
    for (const auto& [known, heads] : known_)
      if (e.find(known) != known) moved.emplace_back(known, heads);
    std::sort(moved.begin(), moved.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [known, heads] : moved) {
      known_.erase(known);
      known_.try_emplace(e.find(known), heads);
    }
  }
  const auto it = known_.find(e.find(id));
  return it == known_.end() ? nullptr : it->second;
}

void HeadNotes::add(const OnnxEGraph& g, Id id, HeadsApart heads) {
  const std::lock_guard lock(mutex_);
  known_.try_emplace(g.egraph().find(id), &kept_.emplace_back(std::move(heads)));
}

namespace {

// All dims but the first and the last two, or the first where there is no other; 1 where one of these is not known.
std::int64_t matrices(const OnnxEGraph& g, Id id) {
  const Facts& f = g.facts(id);
  if (f.kind != Facts::Kind::kTensor || !f.shape || f.rank() < 3) return 1;
  std::int64_t out = 1;
  for (int a = f.rank() == 3 ? 0 : 1; a + 2 < f.rank(); ++a) out *= g.dims().value((*f.shape)[static_cast<std::size_t>(a)]).value_or(1);
  return std::max<std::int64_t>(out, 1);
}

}  // namespace

std::int64_t heads_at_once(const OnnxEGraph& g, const ENode& node) {
  const OpKey& key = g.key(node.op);
  const bool product = key.op_type == "MatMul" && key.domain.empty();
  std::int64_t heads = 1;
  if (product && node.children.size() == 2)
    for (const Id factor : node.children) {
      const Facts& f = g.facts(factor);
      if (f.kind != Facts::Kind::kTensor || !f.shape || f.rank() < 3) return 1;  // one matrix for all rows
      heads = std::max(heads, matrices(g, factor));
    }
  if (key.op_type == "Softmax" && key.domain.empty() && !node.children.empty()) {
    const Attribute* axis = find_attribute(key.attributes, "axis");
    const Facts& f = g.facts(node.children[0]);
    if (axis && f.shape && (axis->i() == -1 || axis->i() == f.rank() - 1)) heads = matrices(g, node.children[0]);
  }
  auto& notes = g.notes<HeadNotes>();
  for (const Id child : node.children) {
    const HeadsApart* apart = notes.find(g, child);
    const Facts& f = g.facts(child);
    if (apart && f.shape && apart->axis + 1 < f.shape->size()) heads = std::max(heads, std::ssize(apart->parts));
  }
  return heads;
}

}  // namespace saturate
