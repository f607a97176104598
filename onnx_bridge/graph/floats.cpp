#include "onnx_bridge/graph/floats.h"

#include <algorithm>

namespace saturate {
namespace {

template <typename T>
std::optional<Tensor> replaced_of(const Tensor& any, const std::function<bool(double)>& is_meant, double by) {
  const Tensor tensor = aligned(any);
  const auto numbers = tensor.span<T>();
  const auto meant = [&](T x) { return is_meant(static_cast<double>(x)); };
  if (std::none_of(numbers.begin(), numbers.end(), meant)) return std::nullopt;
  Tensor out(tensor.dtype(), tensor.dims());
  std::transform(numbers.begin(), numbers.end(), out.mutable_as<T>(), [&](T x) { return meant(x) ? static_cast<T>(by) : x; });
  return out;
}

}  // namespace

std::optional<Tensor> replaced(const Tensor& tensor, const std::function<bool(double)>& is_meant, double by) {
  if (tensor.dtype() == DType::kFloat) return replaced_of<float>(tensor, is_meant, by);
  if (tensor.dtype() == DType::kDouble) return replaced_of<double>(tensor, is_meant, by);
  return std::nullopt;
}

}  // namespace saturate
