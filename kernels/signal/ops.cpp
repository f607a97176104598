#include "kernels/signal/families.h"

namespace saturate {

void register_signal(Registry& registry) {
  register_signal_window(registry);
  register_signal_dft(registry);
}

}  // namespace saturate
