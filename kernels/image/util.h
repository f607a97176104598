// The parts of the image family: one function per source file.
#pragma once

#include "kernels/core/registry.h"

namespace saturate {

void register_image_resize(Registry& registry);
void register_image_sample(Registry& registry);
void register_image_region(Registry& registry);
void register_image_boxes(Registry& registry);
void register_image_columns(Registry& registry);
void register_image_decode(Registry& registry);

}  // namespace saturate
