#include "kernels/data_families.h"

namespace saturate {

void register_data(Registry& registry) {
  register_data_shape(registry);
  register_data_move(registry);
}

}  // namespace saturate
