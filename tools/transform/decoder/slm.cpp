#include "tools/transform/decoder/slm.h"

#include <algorithm>

#include "nlohmann/json.hpp"

namespace saturate {
namespace {

using nlohmann::json;

// Of norms and attention as one operator each.
constexpr std::int64_t kFusedOpset = 23;
// The oldest that kv_cache writes.
constexpr std::int64_t kLeastCacheOpset = 14;

json cache_pass(const SlmOptions& options) {
  json pass{{"pass", "kv_cache"}, {"opset", kFusedOpset}};
  const bool sized = options.window || options.sequence || options.max_context;
  pass["mode"] = !options.cache.empty() ? options.cache : sized ? "window" : "growing";
  // Where sizes are open, kv_cache alone knows that masks are as long as keys, so it takes attention apart itself where the opset lacks it.
  if (pass["mode"] != "window" && options.opset) pass["opset"] = std::clamp(*options.opset, kLeastCacheOpset, kFusedOpset);
  if (pass["mode"] == "buffer" && options.max_context) pass["max_context"] = *options.max_context;
  if (pass["mode"] != "window") return pass;
  pass["window"] = options.window.value_or(1);
  const std::int64_t sequence = options.sequence.value_or(options.max_context.value_or(256));
  pass["sequence"] = sequence;
  pass["max_context"] = options.max_context.value_or(sequence);
  return pass;
}

json precision_pass(const SlmOptions& options) {
  json pass{{"pass", "precision"}, {"dtype", options.dtype}, {"interface", true}};
  if (options.max_error > 0) pass["max_error"] = options.max_error;
  if (!options.calibrate.empty()) pass["calibrate"] = options.calibrate;
  if (options.clamp) pass["clamp"] = true;
  return pass;
}

}  // namespace

json slm_passes(const SlmOptions& options) {
  json passes = json::array();
  passes.push_back(cache_pass(options));
  // Norms are operators while precision is decided, for their sums are float inside. So is attention, unless an older opset takes it apart:
  // then products are of half precision, and Softmax of float.
  if (!options.dtype.empty() && options.opset.value_or(kFusedOpset) < kFusedOpset)
    passes.push_back({{"pass", "optimize"}, {"target", "onnx"}, {"avoid", {"Attention", "RotaryEmbedding"}}});
  if (!options.dtype.empty()) passes.push_back(precision_pass(options));
  json last{{"pass", "optimize"}, {"target", options.target}};
  if (options.opset) last["opset"] = *options.opset;
  if (!options.dtype.empty()) last["skip_rules"] = {"softmax_in_float"};  // its sum stays in float
  passes.push_back(std::move(last));
  if (!options.dims.empty()) passes.push_back({{"pass", "set_dims"}, {"sizes", options.dims}});
  return passes;
}

}  // namespace saturate
