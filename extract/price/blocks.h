// ONNX Runtime's CPU provider runs convolutions of images in a layout of blocks of channels ("NCHWc", MLAS), and those along a single axis
// of places in the plain one. Which are run so, and how many times as long the plain kernel takes.
#pragma once

#include <cstdint>

#include "extract/price/op_sizes.h"

namespace saturate {

struct ConvChannels {
  std::int64_t filters, of_filter, groups;  // of_filter: channels that one filter reads
};
// Whether the runtime runs a convolution of images with so many channels in blocks, of 8 (AVX2) and of 16 (AVX-512, NEON). True of floats
// and constant weights; tests/python/test_images_of_rows.py asks the runtime.
bool runs_in_blocks(const ConvChannels& channels);

// A Conv or FusedConv along one axis that would run in blocks as one of images: how many times as long as that it takes; 1 of any other
// operator.
double times_of_image(const OpUse& use);
// The same operator over images of one row.
OpUse over_image(OpUse use);
// Whether an e-node of class `id` reads an image of one row that lies in blocks, and does not work in them: it sees the image along its one
// axis of places, or is an operator of one input that has no kernel for them.
bool leaves_blocks(const OnnxEGraph& egraph, const ENode& node, Id id);

}  // namespace saturate
