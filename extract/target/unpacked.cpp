#include "extract/target/unpacked.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>

#include "extract/target/load_pattern.h"
#include "onnx_bridge/facts/facts.h"

namespace saturate {
namespace {

constexpr double kSmaller = 1.5;       // times as much is made
constexpr int kMostDepth = 64;         // of what is computed
constexpr std::size_t kLeast = 65536;  // bytes below which a constant is stored as it is read

// The runtime folds what hangs on constants, but keeps weights quantized.
bool is_folded(const OpKey& key) { return key.domain.empty() && key.role == UnitRole::kNone && key.outputs == 1 && !stays_quantized(key); }

}  // namespace

bool UnpackedAtLoad::has(const ENode& node, Id id) {
  const Facts& f = g_.facts(id);
  if (!runs_ || !f.constant || node.children.empty() || !is_folded(g_.key(node.op))) return false;
  const auto bytes = known_bytes(f, g_.dims());
  return bytes && *bytes >= kLeast && bytes_below(g_.egraph().find(id)) * kSmaller <= static_cast<double>(*bytes);
}

// Of the constants that it can be computed of, the fewest.
double UnpackedAtLoad::bytes_below(Id id, int depth) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const EGraph& e = g_.egraph();
  if (depth > kMostDepth) return kNever;
  if (const auto [it, is_new] = below_.try_emplace(id, kNever); !is_new)
    return it->second;  // one that hangs on itself is computed of nothing
  double least = kNever;
  for (const NodeId n : e.class_nodes(id)) {
    const ENode node = e.node(n);
    const OpKey& key = g_.key(node.op);
    if (key.op_type == kConstantOp) {
      least = std::min(least, static_cast<double>(g_.constant_tensor(node.op).bytes().size()));
    } else if (key.op_type == kAbsentOp) {
      least = 0;
    } else if (!node.children.empty() && is_folded(key)) {
      double sum = 0;
      for (const Id child : std::set<Id>(node.children.begin(), node.children.end())) sum += bytes_below(e.find(child), depth + 1);
      least = std::min(least, sum);
    }
  }
  return below_[id] = least;
}

}  // namespace saturate
