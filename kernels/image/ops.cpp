// The image family, and AffineGrid (ONNX Operators: AffineGrid).
#include "kernels/image/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

// Coordinate of sample i of n in [-1, 1]: corners on the samples or half a sample outside.
double unit_coordinate(std::int64_t i, std::int64_t n, bool align_corners) {
  const auto at = static_cast<double>(i), count = static_cast<double>(n);
  if (align_corners) return n > 1 ? -1.0 + 2.0 * at / (count - 1) : -1.0;
  return (2.0 * at + 1.0) / count - 1.0;
}

Outputs affine_grid(KernelContext& ctx) {
  const Tensor& theta = ctx.tensor(0);
  const auto size = int_values(ctx, ctx.tensor(1));
  if (!size.ok()) return size.status();
  if (size->size() != 4 && size->size() != 5) return ctx.invalid("size must name four or five dims");
  const std::int64_t axes = static_cast<std::int64_t>(size->size()) - 2;
  if (theta.dims() != Shape{(*size)[0], axes, axes + 1}) return ctx.invalid("theta has the wrong shape");
  const bool align_corners = ctx.attr_i("align_corners", 0) != 0;
  const auto t = to_doubles(ctx, theta);
  if (!t.ok()) return t.status();
  Shape dims = {(*size)[0]};
  dims.insert(dims.end(), size->begin() + 2, size->end());
  const Shape space(dims.begin() + 1, dims.end());
  dims.push_back(axes);
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<double> grid(static_cast<std::size_t>(product(dims)));
  const std::int64_t points = product(space);
  for (std::int64_t n = 0; n < dims[0]; ++n) {
    const double* m = t->data() + n * axes * (axes + 1);
    for (std::int64_t p = 0; p < points; ++p) {
      double at[4] = {0, 0, 0, 0};  // x, y(, z), 1
      std::int64_t rest = p;
      for (std::int64_t k = axes - 1; k >= 0; --k) {
        at[axes - 1 - k] = unit_coordinate(rest % space[k], space[k], align_corners);
        rest /= space[k];
      }
      at[axes] = 1;
      for (std::int64_t r = 0; r < axes; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c <= axes; ++c) sum += m[r * (axes + 1) + c] * at[c];
        grid[static_cast<std::size_t>((n * points + p) * axes + r)] = sum;
      }
    }
  }
  return one_output(from_doubles(ctx, theta.dtype(), dims, grid));
}

}  // namespace

void register_image(Registry& registry) {
  registry.add("", "AffineGrid", affine_grid);
  register_image_resize(registry);
  register_image_sample(registry);
  register_image_region(registry);
  register_image_boxes(registry);
  register_image_columns(registry);
  register_image_decode(registry);
}

}  // namespace saturate
