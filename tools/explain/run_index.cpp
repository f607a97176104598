#include "tools/explain/run_index.h"

#include <algorithm>

namespace saturate {

RunIndex::RunIndex(const FinishedRun& run) : tests(run.lowered.model->graph) {
  const EGraph& e = run.g.egraph();
  for (const auto& [id, given] : run.lowered.names)
    if (!given.empty()) names.try_emplace(e.find(id), given.front());
  for (const auto& [name, id] : run.lowered.values) names.try_emplace(e.find(id), name);
  for (const Node& n : run.lowered.model->graph.nodes)
    for (const std::string& o : n.outputs)
      if (const auto it = run.lowered.values.find(o); !o.empty() && it != run.lowered.values.end()) names[e.find(it->second)] = o;
  for (Id root : run.lowered.roots) needed.insert(e.find(root));
  for (auto source = run.lowered.sources.rbegin(); source != run.lowered.sources.rend(); ++source)
    if (std::any_of(source->outputs.begin(), source->outputs.end(), [&](Id o) { return o != kNone && needed.contains(e.find(o)); }))
      for (Id child : source->children) needed.insert(e.find(child));
}

}  // namespace saturate
