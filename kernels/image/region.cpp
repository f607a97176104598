// Pooling over regions of interest (ONNX Operators: RoiAlign, MaxRoiPool).
#include <algorithm>
#include <cmath>

#include "kernels/image/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

struct Bilinear {
  std::int64_t at[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};
};

Bilinear bilinear(double y, double x, std::int64_t height, std::int64_t width) {
  Bilinear b;
  if (!(y >= -1.0 && y <= static_cast<double>(height) && x >= -1.0 && x <= static_cast<double>(width))) return b;  // outside counts 0
  const auto split = [](double v, std::int64_t n, std::int64_t& low, std::int64_t& high) {
    v = std::max(v, 0.0);
    low = std::min(static_cast<std::int64_t>(v), n - 1);
    high = std::min(low + 1, n - 1);
    return low >= n - 1 ? 0.0 : v - static_cast<double>(low);
  };
  std::int64_t y0, y1, x0, x1;
  const double fy = split(y, height, y0, y1), fx = split(x, width, x0, x1);
  b = {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1}, {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
  return b;
}

struct Region {
  double top, left, bin_height, bin_width;
  std::int64_t grid_height, grid_width;  // samples per bin
};

struct RoiAlign {
  std::int64_t output_height, output_width, sampling;
  double scale;
  bool half_pixel, average;
};

// The region of a box [x1, y1, x2, y2]; one that takes more than `most` samples a bin is refused.
absl::StatusOr<Region> region_of(const KernelContext& ctx, const RoiAlign& o, const double* box, double most) {
  const double shift = o.half_pixel ? 0.5 : 0.0;
  Region r{box[1] * o.scale - shift, box[0] * o.scale - shift, box[3] * o.scale - shift, box[2] * o.scale - shift, o.sampling, o.sampling};
  r.bin_height -= r.top;
  r.bin_width -= r.left;
  if (!o.half_pixel) {  // malformed regions count as 1 x 1
    r.bin_height = std::max(r.bin_height, 1.0);
    r.bin_width = std::max(r.bin_width, 1.0);
  }
  r.bin_height /= static_cast<double>(o.output_height);
  r.bin_width /= static_cast<double>(o.output_width);
  if (o.sampling <= 0) {
    if (!(r.bin_height < 1e6 && r.bin_width < 1e6)) return ctx.invalid("a region is too large");
    r.grid_height = static_cast<std::int64_t>(std::ceil(r.bin_height));
    r.grid_width = static_cast<std::int64_t>(std::ceil(r.bin_width));
  }
  r.grid_height = std::max<std::int64_t>(r.grid_height, 0);
  r.grid_width = std::max<std::int64_t>(r.grid_width, 0);
  if (static_cast<double>(r.grid_height) * static_cast<double>(r.grid_width) > most) return ctx.invalid("a region takes too many samples");
  return r;
}

// The samples of one bin, evenly spread.
void taps_of(const Region& r, double bin_y, double bin_x, std::int64_t height, std::int64_t width, std::vector<Bilinear>& taps) {
  taps.clear();
  for (std::int64_t s = 0; s < r.grid_height * r.grid_width; ++s) {
    const double in_y = (static_cast<double>(s / r.grid_width) + 0.5) / static_cast<double>(r.grid_height);
    const double in_x = (static_cast<double>(s % r.grid_width) + 0.5) / static_cast<double>(r.grid_width);
    taps.push_back(bilinear(r.top + r.bin_height * (bin_y + in_y), r.left + r.bin_width * (bin_x + in_x), height, width));
  }
}

double pooled_taps(const std::vector<Bilinear>& taps, const double* image, bool average) {
  double value = 0;
  for (std::size_t s = 0; s < taps.size(); ++s) {
    const Bilinear& t = taps[s];
    const double part[4] = {t.weight[0] * image[t.at[0]], t.weight[1] * image[t.at[1]], t.weight[2] * image[t.at[2]],
                            t.weight[3] * image[t.at[3]]};
    if (average) {
      value += part[0] + part[1] + part[2] + part[3];
    } else {  // the largest weighted neighbour, not the largest interpolated value
      const double largest = *std::max_element(part, part + 4);
      value = s == 0 ? largest : std::max(value, largest);
    }
  }
  return average ? value / static_cast<double>(std::max<std::size_t>(taps.size(), 1)) : value;
}

Outputs roi_align(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &rois = ctx.tensor(1);
  if (x.rank() != 4 || rois.rank() != 2 || rois.dims()[1] != 4) return ctx.invalid("an image batch and rois of shape [n, 4] are expected");
  const auto data = to_doubles(ctx, x), boxes = to_doubles(ctx, rois);
  const auto batch = int_values(ctx, ctx.tensor(2));
  if (!data.ok()) return data.status();
  if (!boxes.ok()) return boxes.status();
  if (!batch.ok()) return batch.status();
  const std::string default_mode = ctx.opset < 16 ? "output_half_pixel" : "half_pixel";
  const RoiAlign o{.output_height = ctx.attr_i("output_height", 1),
                   .output_width = ctx.attr_i("output_width", 1),
                   .sampling = ctx.attr_i("sampling_ratio", 0),
                   .scale = ctx.attr_f("spatial_scale", 1.0f),
                   .half_pixel = ctx.attr_s("coordinate_transformation_mode", default_mode) == "half_pixel",
                   .average = ctx.attr_s("mode", "avg") == "avg"};
  const std::int64_t n = rois.dims()[0], channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3];
  if (static_cast<std::int64_t>(batch->size()) != n || o.output_height <= 0 || o.output_width <= 0 || height * width == 0)
    return ctx.invalid("the inputs or output sizes do not fit");
  const Shape dims = {n, channels, o.output_height, o.output_width};
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  const std::int64_t bins = o.output_height * o.output_width;
  std::vector<double> out(static_cast<std::size_t>(product(dims)), 0.0);
  std::vector<Bilinear> taps;
  for (std::int64_t r = 0; r < n; ++r) {
    const std::int64_t b = (*batch)[static_cast<std::size_t>(r)];
    if (b < 0 || b >= x.dims()[0]) return ctx.invalid("a batch index is out of range");
    const auto region = region_of(ctx, o, boxes->data() + r * 4, static_cast<double>(ctx.options.memory_limit / 1024));
    if (!region.ok()) return region.status();
    for (std::int64_t p = 0; p < bins; ++p) {
      taps_of(*region, static_cast<double>(p / o.output_width), static_cast<double>(p % o.output_width), height, width, taps);
      for (std::int64_t c = 0; c < channels; ++c)
        out[static_cast<std::size_t>((r * channels + c) * bins + p)] =
            pooled_taps(taps, data->data() + (b * channels + c) * height * width, o.average);
    }
  }
  return one_output(from_doubles(ctx, x.dtype(), dims, out));
}

Outputs max_roi_pool(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &rois = ctx.tensor(1);
  const std::vector<std::int64_t> pooled = ctx.attr_ints("pooled_shape");
  if (x.rank() != 4 || rois.rank() != 2 || rois.dims()[1] != 5 || pooled.size() != 2 || pooled[0] <= 0 || pooled[1] <= 0)
    return ctx.invalid("the inputs or pooled_shape do not fit");
  const auto data = to_doubles(ctx, x), boxes = to_doubles(ctx, rois);
  if (!data.ok()) return data.status();
  if (!boxes.ok()) return boxes.status();
  const double scale = ctx.attr_f("spatial_scale", 1.0f);
  const std::int64_t n = rois.dims()[0], channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3];
  const Shape dims = {n, channels, pooled[0], pooled[1]};
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<double> out(static_cast<std::size_t>(product(dims)), 0.0);
  // Bin p of `bins` over [start, start + size), clipped to the image.
  const auto bin = [](double start, double size, std::int64_t p, std::int64_t bins, std::int64_t limit) {
    const double each = size / static_cast<double>(bins);
    const auto clip = [&](double v) { return static_cast<std::int64_t>(std::clamp(v + start, 0.0, static_cast<double>(limit))); };
    return std::pair(clip(std::floor(static_cast<double>(p) * each)), clip(std::ceil(static_cast<double>(p + 1) * each)));
  };
  for (std::int64_t r = 0; r < n; ++r) {
    const double* box = boxes->data() + r * 5;
    if (!(box[0] >= 0 && box[0] < static_cast<double>(x.dims()[0]))) return ctx.invalid("a batch index is out of range");
    const auto b = static_cast<std::int64_t>(box[0]);
    const double left = std::round(box[1] * scale), top = std::round(box[2] * scale), right = std::round(box[3] * scale),
                 bottom = std::round(box[4] * scale);
    const double h = std::max(bottom - top + 1, 1.0), w = std::max(right - left + 1, 1.0);
    if (!(h < 1e9 && w < 1e9)) return ctx.invalid("a region is too large");
    for (std::int64_t c = 0; c < channels; ++c) {
      const double* image = data->data() + (b * channels + c) * height * width;
      for (std::int64_t p = 0; p < pooled[0] * pooled[1]; ++p) {
        const auto [y0, y1] = bin(top, h, p / pooled[1], pooled[0], height);
        const auto [x0, x1] = bin(left, w, p % pooled[1], pooled[1], width);
        if (y0 >= y1 || x0 >= x1) continue;  // empty bins are 0
        double largest = image[y0 * width + x0];
        for (std::int64_t i = y0; i < y1; ++i)
          largest = std::max(largest, *std::max_element(image + i * width + x0, image + i * width + x1));
        out[static_cast<std::size_t>((r * channels + c) * pooled[0] * pooled[1] + p)] = largest;
      }
    }
  }
  return one_output(from_doubles(ctx, x.dtype(), dims, out));
}

}  // namespace

void register_image_region(Registry& registry) {
  registry.add("", "RoiAlign", roi_align);
  registry.add("", "MaxRoiPool", max_roi_pool);
}

}  // namespace saturate
