#include "kernels/tensor/families.h"

namespace saturate {

void register_data(Registry& registry) {
  register_data_shape(registry);
  register_data_generate(registry);
  register_data_move(registry);
  register_data_slice(registry);
  register_data_pad(registry);
  register_data_gather(registry);
  register_data_scatter(registry);
  register_data_cast(registry);
  register_data_search(registry);
  register_data_scan(registry);
}

}  // namespace saturate
