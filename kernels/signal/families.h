// The parts of the signal, string, image, ml and quantization families: one function per source file.
#pragma once

#include "kernels/core/registry.h"

namespace saturate {

void register_signal_window(Registry& registry);
void register_signal_dft(Registry& registry);

}  // namespace saturate
