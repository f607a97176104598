// The parts of the data, quantization, image and other families: one function per source file, called by the register_* of registry.h.
#pragma once

#include "kernels/core/registry.h"

namespace saturate {

void register_data_shape(Registry& registry);
void register_data_generate(Registry& registry);
void register_data_move(Registry& registry);
void register_data_slice(Registry& registry);
void register_data_pad(Registry& registry);
void register_data_gather(Registry& registry);
void register_data_scatter(Registry& registry);
void register_data_cast(Registry& registry);
void register_data_search(Registry& registry);
void register_data_scan(Registry& registry);

}  // namespace saturate
