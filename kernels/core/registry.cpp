#include "kernels/core/registry.h"

#include "absl/strings/str_cat.h"

namespace saturate {

namespace {

std::string key_of(std::string_view domain, std::string_view op_type) {
  return absl::StrCat(absl::string_view(domain.data(), domain.size()), ":", absl::string_view(op_type.data(), op_type.size()));
}

}  // namespace

void Registry::add(std::string_view domain, std::string_view op_type, KernelFn kernel, std::uint64_t any_alignment) {
  kernels_[key_of(domain, op_type)] = {kernel, any_alignment};
}

const Registry::Entry* Registry::entry(std::string_view domain, std::string_view op_type) const {
  const auto it = kernels_.find(key_of(domain, op_type));
  return it == kernels_.end() ? nullptr : &it->second;
}

KernelFn Registry::find(std::string_view domain, std::string_view op_type) const {
  const Entry* e = entry(domain, op_type);
  return e == nullptr ? nullptr : e->kernel;
}

std::uint64_t Registry::any_alignment(std::string_view domain, std::string_view op_type) const {
  const Entry* e = entry(domain, op_type);
  return e == nullptr ? 0 : e->any_alignment;
}

const Registry& Registry::standard() {
  static const Registry registry = [] {
    Registry r;
    for (auto* family : {register_elementwise,
                         register_activation,
                         register_reduce,
                         register_matmul,
                         register_conv,
                         register_pool,
                         register_norm,
                         register_softmax,
                         register_attention,
                         register_contrib,
                         register_rnn,
                         register_loss,
                         register_data,
                         register_control,
                         register_sequence,
                         register_quant,
                         register_ml,
                         register_string,
                         register_signal,
                         register_image,
                         register_channels_last,
                         register_session_attention}) {
      family(r);
    }
    return r;
  }();
  return registry;
}

}  // namespace saturate
