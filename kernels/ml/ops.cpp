#include "kernels/ml/util.h"

namespace saturate {

void register_ml(Registry& registry) {
  register_ml_encode(registry);
  register_ml_linear(registry);
  register_ml_tree(registry);
  register_ml_svm(registry);
  register_ml_training(registry);
  register_random(registry);
}

}  // namespace saturate
