#include "extract/sizes/blocks.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace saturate {
namespace {

constexpr std::int64_t kAligned = 4;

// Fitted to 122 shapes on an AMD EPYC with ONNX Runtime 1.31.1 (bench/runtime/rows_as_images.py, which tells how far off they are): what
// the plain kernel does for each place and each channel, filters share; and a start of each product, which many places share.
constexpr double kOfFilters = 11, kOfPlaces = 4, kStrided = 1.2;
constexpr double kOfChannelAlone = 3.9, kOfPlacesAlone = 180, kStridedAlone = 1.5, kAloneByOne = 0.5;
constexpr double kFewestFilters = 16, kFewestPlaces = 4, kFewestPlacesAlone = 20;  // that were measured

struct InBlocks {
  std::string_view op, role;
};
constexpr InBlocks kInBlocks[] = {{"Conv", kBlocksOfFilters},
                                  {"FusedConv", kBlocksOfFilters},
                                  {"MaxPool", kBlocksOfChannels},
                                  {"AveragePool", kBlocksOfChannels},
                                  {"Relu", kBlocksOfOne},
                                  {"Sigmoid", kBlocksOfOne},
                                  {"Tanh", kBlocksOfOne},
                                  {"LeakyRelu", kBlocksOfOne},
                                  {"HardSigmoid", kBlocksOfOne},
                                  {"HardSwish", kBlocksOfOne},
                                  {"Gelu", kBlocksOfOne},
                                  {"QuickGelu", kBlocksOfOne},
                                  {"GlobalAveragePool", kBlocksOfOne},
                                  {"GlobalMaxPool", kBlocksOfOne},
                                  {"Add", kBlocksOfSeveral},
                                  {"Mul", kBlocksOfSeveral},
                                  {"Sum", kBlocksOfSeveral},
                                  {"Concat", kBlocksOfSeveral}};
// Measured beside the convolution without it (bench/runtime/attribute_times.py --convolutions); of others it is as long as the kernel
// itself.
constexpr std::pair<std::string_view, double> kShares[] = {{"", 0}, {"Relu", 0.1}, {"HardSwish", 0.5}};
constexpr int kFarthest = 8;  // operators behind the last one of channels

bool is_of_channels(std::string_view role) { return role == kBlocksOfFilters || role == kBlocksOfChannels; }

// Whether a value is made in blocks: by an operator of channels, and others behind it.
bool is_in_blocks(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  for (int farther = 0; farther <= kFarthest; ++farther) {
    std::optional<Id> before;
    for (const NodeId n : e.class_nodes(e.find(id))) {
      const ENode made = e.node(n);
      const std::string_view role = role_in_blocks(g.key(made.op).op_type);
      if (is_of_channels(role)) return true;
      if (!before && !role.empty()) before = made.children[0];
    }
    if (!before) return false;
    id = *before;
  }
  return false;
}

std::int64_t whole(double size) { return static_cast<std::int64_t>(size); }

bool is_along_one_axis(const OpUse& use) {
  return (use.op == "Conv" || use.op == "com.microsoft::FusedConv") && use.dtype == "float" && use.inputs.size() > 1 &&
         use.inputs[0].size() == 3 && use.inputs[1].size() == 3 && use.constant.size() > 1 && use.constant[1];
}

void add_place(Sizes1D& dims) {
  if (dims.size() == 3) dims.insert(dims.begin() + 2, 1);
}

}  // namespace

std::string_view role_in_blocks(std::string_view op) {
  const auto* const it = std::ranges::find(kInBlocks, op, &InBlocks::op);
  return it == std::end(kInBlocks) ? std::string_view() : it->role;
}

double share_in_convolution(std::string_view activation) {
  const auto* const it = std::ranges::find(kShares, activation, &std::pair<std::string_view, double>::first);
  return it == std::end(kShares) ? 1 : it->second;
}

bool leaves_blocks(const OnnxEGraph& g, const ENode& node, Id id) {
  const std::string_view op = g.key(node.op).op_type;
  const std::string_view role = role_in_blocks(op);
  if (node.children.empty() || role == kBlocksOfOne || is_of_channels(role)) return false;
  const auto &from = g.facts(node.children[0]).shape, &to = g.facts(id).shape;
  if (!from || !to || from->size() != 4 || to->size() < 3 || g.dims().value((*from)[2]) != 1) return false;
  if ((*from)[0] != (*to)[0] || (*from)[1] != (*to)[1]) return false;
  const bool seen_as_row = op == "Reshape" && to->size() == 3, elsewhere = to->size() == 4 && node.children.size() == 1;
  return (seen_as_row || elsewhere) && is_in_blocks(g, node.children[0]);
}

bool runs_in_blocks(const ConvChannels& c) {
  if (c.groups <= 1) return c.of_filter > 0 && (c.of_filter < kSmallestBlock || c.of_filter % kAligned == 0);
  if (c.filters % kAligned != 0) return false;
  const bool of_channel_alone = c.of_filter == 1 && c.filters == c.groups;
  return of_channel_alone || (c.of_filter % kLargestBlock == 0 && c.filters / c.groups % kLargestBlock == 0);
}

double times_of_image(const OpUse& use) {
  if (!is_along_one_axis(use)) return 1;
  const Sizes1D& weights = use.inputs[1];
  const std::int64_t groups = int_attribute(use, "group", 1);
  if (!runs_in_blocks({whole(weights[0]), whole(weights[1]), groups})) return 1;
  const std::vector<std::int64_t> strides = ints_attribute(use, "strides");
  const bool strided = std::ranges::any_of(strides, [](std::int64_t n) { return n > 1; });
  const double places = use.outputs.empty() || use.outputs[0].empty() ? 1 : use.outputs[0].back();
  if (groups > 1 && weights[1] == 1)
    return (kOfChannelAlone + kOfPlacesAlone / std::max(places, kFewestPlacesAlone)) * (strided ? kStridedAlone : 1) *
           (weights[2] == 1 ? kAloneByOne : 1);
  const double filters = std::max(weights[0], kFewestFilters);
  return (1 + kOfFilters / filters + kOfPlaces / std::max(places, kFewestPlaces)) * (strided ? kStrided : 1);
}

OpUse over_image(OpUse use) {
  for (auto* side : {&use.inputs, &use.outputs})
    for (Sizes1D& dims : *side) add_place(dims);
  return use;
}

}  // namespace saturate
