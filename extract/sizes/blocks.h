// ONNX Runtime's CPU provider runs convolutions of images in a layout of blocks of channels ("NCHWc", MLAS), and those along a single axis
// of places in the plain one. Which are run so, and how many times as long the plain kernel takes.
#pragma once

#include <cstdint>
#include <string_view>

#include "extract/sizes/op_sizes.h"

namespace saturate {

// What the runtime asks of an operator before it runs it in blocks: of filters what `runs_in_blocks` says, of channels that they are whole
// blocks; of one, that its input lies so; of several, that all of them do. "": it never does (tests/python/targets/test_images_of_rows.py).
inline constexpr std::string_view kBlocksOfFilters = "filters", kBlocksOfChannels = "channels", kBlocksOfOne = "one",
                                  kBlocksOfSeveral = "several";
std::string_view role_in_blocks(std::string_view op);
inline constexpr std::int64_t kSmallestBlock = 8, kLargestBlock = 16;  // channels: of AVX2; of AVX-512 and NEON

struct ConvChannels {
  std::int64_t filters, of_filter, groups;  // of_filter: channels that one filter reads
};
// Whether the runtime runs a convolution of images with so many channels in blocks, of 8 (AVX2) and of 16 (AVX-512, NEON). True of floats
// and constant weights; tests/python/targets/test_images_of_rows.py asks the runtime.
bool runs_in_blocks(const ConvChannels& channels);

// The activation of a FusedConv: what share of its own kernel's time, in a cache, it takes within the convolution's; 0 of none.
double share_in_convolution(std::string_view activation);

// A Conv or FusedConv along one axis that would run in blocks as one of images: how many times as long as that it takes; 1 of any other
// operator.
double times_of_image(const OpUse& use);
// The same operator over images of one row.
OpUse over_image(OpUse use);
// Whether an e-node of class `id` reads an image of one row that lies in blocks, and does not work in them: it sees the image along its one
// axis of places, or is an operator of one input that has no kernel for them.
bool leaves_blocks(const OnnxEGraph& egraph, const ENode& node, Id id);

}  // namespace saturate
