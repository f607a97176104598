#include "kernels/registry.h"

#include "absl/strings/str_cat.h"

namespace saturate {

void Registry::add(std::string_view domain, std::string_view op_type, KernelFn kernel) {
  kernels_[absl::StrCat(absl::string_view(domain.data(), domain.size()), ":", absl::string_view(op_type.data(), op_type.size()))] = kernel;
}

KernelFn Registry::find(std::string_view domain, std::string_view op_type) const {
  const auto it =
      kernels_.find(absl::StrCat(absl::string_view(domain.data(), domain.size()), ":", absl::string_view(op_type.data(), op_type.size())));
  return it == kernels_.end() ? nullptr : it->second;
}

const Registry& Registry::standard() {
  static const Registry registry = [] {
    Registry r;
    for (auto* family : {register_elementwise, register_activation, register_reduce,       register_matmul,  register_conv, register_pool,
                         register_norm,        register_softmax,    register_attention,    register_contrib, register_rnn,  register_loss,
                         register_data,        register_control,    register_sequence,     register_quant,   register_ml,   register_string,
                         register_signal,      register_image,      register_channels_last}) {
      family(r);
    }
    return r;
  }();
  return registry;
}

}  // namespace saturate
