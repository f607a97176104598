// Convolutions of bytes over images: windows gathered from channels that lie last, times packed weights; one filter a channel directly.
#pragma once

#include <functional>
#include <optional>

#include "kernels/conv/conv.h"
#include "kernels/gemm/byte_gemm.h"
#include "kernels/quantized/util.h"

namespace saturate {

class ByteConv {
 public:
  // `weight`: the number of W's input. Empty where this form is not covered: other ranks and groups, other zero points than one for X and
  // one or one a filter for W, reference runs.
  static absl::StatusOr<std::optional<ByteConv>> make(const KernelContext& ctx, const Tensor& x, const Tensor* x_zero, std::size_t weight,
                                                      const Tensor* w_zero);
  const Shape& dims() const { return dims_; }  // of the result
  // Sums of `filters` filters from `filter` on at `rows` positions of one image from `position` on: `values` has 64 from one position to
  // the next.
  struct Sums {
    std::int64_t image, position, filter;
    int rows, filters;
    const std::int32_t* values;
  };
  void run(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const;

 private:
  void run_product(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const;
  void run_depthwise(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const;
  std::shared_ptr<std::byte> images_channels_last(const KernelContext& ctx) const;
  template <typename F>
  void for_each_tap(std::int64_t position, const std::uint8_t* image, F&& f) const;
  struct Depthwise;
  Depthwise depthwise_weights() const;

  Window window_;
  Shape dims_;
  const Tensor *x_ = nullptr, *w_ = nullptr;
  std::int64_t channels_ = 0;
  std::int32_t x_zero_ = 0;                    // of X made unsigned
  std::vector<std::int32_t> w_zero_;           // of W made signed
  std::shared_ptr<const PackedBytes> packed_;  // one of the two
  std::shared_ptr<const Depthwise> depthwise_;
};

}  // namespace saturate
