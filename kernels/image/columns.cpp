// Col2Im (ONNX Operators): sums overlapping blocks back into an image of any number of dims.
#include "kernels/image/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

Outputs col2im(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto image = int_values(ctx, ctx.tensor(1)), block = int_values(ctx, ctx.tensor(2));
  if (!image.ok()) return image.status();
  if (!block.ok()) return block.status();
  const std::size_t axes = image->size();
  const std::vector<std::int64_t> dilations = ctx.attr_ints("dilations", std::vector<std::int64_t>(axes, 1)),
                                  strides = ctx.attr_ints("strides", std::vector<std::int64_t>(axes, 1)),
                                  pads = ctx.attr_ints("pads", std::vector<std::int64_t>(2 * axes, 0));
  if (x.rank() != 3 || axes == 0 || block->size() != axes || dilations.size() != axes || strides.size() != axes || pads.size() != 2 * axes)
    return ctx.invalid("inputs and attributes do not fit");
  Shape positions;  // of blocks, per axis
  for (std::size_t k = 0; k < axes; ++k) {
    constexpr std::int64_t kFar = std::int64_t{1} << 31;
    for (std::int64_t v : {(*image)[k], (*block)[k], dilations[k], strides[k]}) {
      if (v <= 0 || v > kFar) return ctx.invalid("a size, stride or dilation is out of range");
    }
    if (!is_within(pads[k], kFar) || !is_within(pads[k + axes], kFar)) return ctx.invalid("a pad is out of range");
    const std::int64_t room = (*image)[k] + pads[k] + pads[k + axes] - dilations[k] * ((*block)[k] - 1) - 1;
    if (room < 0) return ctx.invalid("the block is larger than the image");
    positions.push_back(room / strides[k] + 1);
  }
  const auto block_size = checked_elements(*block), count = checked_elements(positions), pixels = checked_elements(*image);
  if (!block_size || !count || !pixels || x.dims()[1] % *block_size != 0 || x.dims()[2] != *count)
    return ctx.invalid("the columns do not fit the image");
  const std::int64_t planes = x.dims()[0] * (x.dims()[1] / *block_size);
  const auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  Shape dims = {x.dims()[0], x.dims()[1] / *block_size};
  dims.insert(dims.end(), image->begin(), image->end());
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<double> y(static_cast<std::size_t>(planes * *pixels), 0.0);
  for (std::int64_t e = 0; e < *block_size; ++e) {
    for (std::int64_t p = 0; p < *count; ++p) {
      std::int64_t at = 0, step = 1, element = e, place = p;
      bool inside = true;
      for (std::size_t k = axes; k-- > 0;) {
        const std::int64_t i = place % positions[k] * strides[k] - pads[k] + element % (*block)[k] * dilations[k];
        place /= positions[k];
        element /= (*block)[k];
        inside = inside && i >= 0 && i < (*image)[k];
        at += i * step;
        step *= (*image)[k];
      }
      for (std::int64_t plane = 0; inside && plane < planes; ++plane) {
        y[static_cast<std::size_t>(plane * *pixels + at)] += (*values)[static_cast<std::size_t>((plane * *block_size + e) * *count + p)];
      }
    }
  }
  return one_output(from_doubles(ctx, x.dtype(), dims, y));
}

}  // namespace

void register_image_columns(Registry& registry) { registry.add("", "Col2Im", col2im); }

}  // namespace saturate
