#include "tools/transform/precision/half_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/core/numeric.h"

namespace saturate {
namespace {

constexpr std::size_t kLarge = 64 * 1024;              // bytes from which on a tensor goes into the file
constexpr std::int64_t kPart = std::int64_t{1} << 20;  // elements that are converted at once

// Bytes that are mapped from a file begin anywhere.
float number_at(const std::byte* bytes, std::int64_t i) {
  float number = 0;
  std::memcpy(&number, bytes + static_cast<std::size_t>(i) * sizeof number, sizeof number);
  return number;
}

// The bits of a float without its sign are ordered as its magnitude is.
HalfWeights::Reach reach(const Tensor& tensor) {
  constexpr std::uint32_t kSign = 0x80000000u, kInfinity = 0x7f800000u;
  std::uint32_t above = 0, below = 0;
  const std::byte* const bytes = tensor.bytes().data();
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(number_at(bytes, i));
    const std::uint32_t magnitude = bits & ~kSign, finite = magnitude < kInfinity ? magnitude : 0;
    above = std::max(above, (bits & kSign) == 0 ? finite : 0);
    below = std::max(below, (bits & kSign) == 0 ? 0 : finite);
  }
  return {std::bit_cast<float>(above), std::bit_cast<float>(below)};
}

}  // namespace

double largest_number(DType dtype) { return dtype == DType::kFloat16 ? 65504.0 : 3.3895313892515355e38; }

double least_number(DType dtype) { return dtype == DType::kFloat16 ? 6.103515625e-5 : 1.1754943508222875e-38; }

HalfWeights::Known& HalfWeights::known(const Tensor& tensor) {
  return known_.try_emplace({tensor.bytes().data(), tensor.bytes().size()}, Known{tensor, {}, {}}).first->second;
}

void HalfWeights::convert(const Tensor& tensor, std::int64_t begin, std::span<std::uint16_t> halves) const {
  const auto* from = reinterpret_cast<const float*>(tensor.bytes().data()) + begin;  // at any address
  const auto n = static_cast<std::int64_t>(halves.size());
  if (to_ == DType::kFloat16)
    from_floats(from, n, reinterpret_cast<Half*>(halves.data()));
  else
    from_floats(from, n, reinterpret_cast<BFloat16*>(halves.data()));
}

std::optional<Tensor> HalfWeights::in_file(const Tensor& tensor) {
  part_.resize(kPart);  // one buffer for all, for the C library does not find the room of one again that was freed
  for (std::int64_t at = 0; at < tensor.size(); at += kPart) {
    const std::span<std::uint16_t> part(part_.data(), static_cast<std::size_t>(std::min(kPart, tensor.size() - at)));
    convert(tensor, at, part);
    if (!file_->append(std::as_bytes(part)).ok()) {
      file_->drop();
      return std::nullopt;
    }
  }
  auto made = file_->tensor(to_, tensor.dims(), tensor.file_range() != nullptr);
  return made.ok() ? std::optional(*std::move(made)) : std::nullopt;
}

Tensor HalfWeights::half_of(const Tensor& tensor) {
  std::optional<Tensor>& half = known(tensor).half;
  if (!half) {
    if (file_ && tensor.bytes().size() >= kLarge) half = in_file(tensor);
    if (!half) {
      half.emplace(to_, tensor.dims());
      convert(tensor, 0, {half->mutable_as<std::uint16_t>(), static_cast<std::size_t>(tensor.size())});
    }
    if (tensor.bytes().size() >= kLarge) release_pages(tensor);
  }
  return half->reshaped(tensor.dims());
}

bool HalfWeights::holds(const Tensor& tensor) const {
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const float number = number_at(tensor.bytes().data(), i);
    const float there = to_ == DType::kFloat16 ? static_cast<float>(Half(number)) : static_cast<float>(BFloat16(number));
    if (there != number && !std::isnan(number)) return false;
  }
  return true;
}

HalfWeights::Reach HalfWeights::reach_of(const Tensor& tensor) {
  std::optional<Reach>& found = known(tensor).reach;
  if (!found) {
    found = reach(tensor);
    if (tensor.bytes().size() >= kLarge) release_pages(tensor);
  }
  return *found;
}

}  // namespace saturate
