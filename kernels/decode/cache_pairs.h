// Which inputs of a decoder are pasts, which output each of them is the next run's past of, and along which axis tokens stand in it.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode/decoder.h"
#include "onnx_bridge/graph/graph_view.h"

namespace saturate {

struct CacheQuestion {
  const Graph& graph;
  const DecoderNames& names;
  std::size_t input_ids, logits;  // places of an input and an output
};

// By the patterns of `names`, by what names have in common, or in order. `left`: inputs without a role so far; pasts are taken from them.
absl::StatusOr<std::vector<CachePair>> cache_pairs(const CacheQuestion& question, std::vector<std::size_t>& left);
// kInvalidArgument where it is not clear.
absl::Status find_token_axes(const CacheQuestion& question, std::vector<CachePair>& pairs);
// Whether what the present is made of writes into the past, rather than appending to it.
bool writes_into_past(const Graph& graph, const GraphView& view, const CachePair& pair);

}  // namespace saturate
