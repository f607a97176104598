#include "onnx_bridge/convert/zero_dims.h"

#include <algorithm>

namespace saturate {

bool may_make_empty(const OnnxEGraph& g, Id x, Id target, Id result) {
  const auto& given = g.facts(target).content;
  const auto& made = g.facts(result).shape;
  const auto& from = g.facts(x).shape;
  const auto equal = [&](Dim a, Dim b) { return g.dims().equal(a, b); };
  if (!given || !made || !std::equal(given->begin(), given->end(), made->begin(), made->end(), equal)) return false;
  for (std::size_t i = 0; i < made->size(); ++i)
    if (!g.dims().positive((*made)[i]) && !(from && i < from->size() && equal((*from)[i], (*made)[i]))) return true;
  return false;
}

}  // namespace saturate
