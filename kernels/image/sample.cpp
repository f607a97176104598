// GridSample in any number of spatial dims (ONNX Operators: GridSample).
#include <algorithm>
#include <cmath>

#include "kernels/image/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

enum class Padding { kZeros, kBorder, kReflection };
enum class Method { kNearest, kLinear, kCubic };

struct Sampler {
  Method method;
  Padding padding;
  bool align_corners;

  // From [-1, 1] to positions of elements. In single precision: ties of rounding depend on it.
  float position(float n, std::int64_t size) const {
    const auto length = static_cast<float>(size);
    return align_corners ? (n + 1) / 2.0f * (length - 1) : ((n + 1) * length - 1) / 2.0f;
  }

  double reflect(double x, std::int64_t size) const {
    const double low = align_corners ? 0.0 : -0.5, high = static_cast<double>(size) - (align_corners ? 1.0 : 0.5), range = high - low;
    if (range <= 0) return 0;
    if (x >= low && x <= high) return x;
    const double distance = x < low ? low - x : x - high, turns = std::floor(distance / range), rest = distance - turns * range;
    const bool from_low = (x < low) == (std::fmod(turns, 2.0) == 0);
    return from_low ? low + rest : high - rest;
  }

  // Element that stands at a whole position; -1: zero.
  std::int64_t element(double at, std::int64_t size) const {
    if (at >= 0 && at < static_cast<double>(size)) return static_cast<std::int64_t>(at);
    if (padding == Padding::kZeros) return -1;
    if (padding == Padding::kReflection) at = std::trunc(reflect(at, size));
    return static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(size - 1)));
  }

  struct Tap {
    std::int64_t index = -1;
    double weight = 0;
  };
  // Up to four taps along one axis; returns how many.
  int taps(float normalized, std::int64_t size, Tap out[4]) const {
    double x = position(normalized, size);
    if (!(std::fabs(x) < 1e9)) x = std::isnan(x) ? -1e9 : std::copysign(1e9, x);
    if (method == Method::kNearest) x = std::nearbyint(x);
    const double low = align_corners ? 0.0 : -0.5, high = static_cast<double>(size) - (align_corners ? 1.0 : 0.5);
    if (method != Method::kCubic && (x < low || x > high)) {  // cubic taps are brought back one by one
      if (padding == Padding::kBorder) x = std::clamp(x, 0.0, static_cast<double>(size - 1));
      if (padding == Padding::kReflection) x = reflect(x, size);
    }
    if (method == Method::kNearest) {
      out[0] = {element(std::trunc(x), size), 1.0};
      return 1;
    }
    const double base = std::floor(x), r = x - base;
    if (method == Method::kLinear) {
      out[0] = {element(base, size), 1 - r};
      out[1] = {element(base + 1, size), r};
      return 2;
    }
    constexpr double kA = -0.75;
    const double s = 1 - r, far = r + 1, farther = 2 - r;
    const double w[4] = {((kA * far - 5 * kA) * far + 8 * kA) * far - 4 * kA, ((kA + 2) * r - (kA + 3)) * r * r + 1,
                         ((kA + 2) * s - (kA + 3)) * s * s + 1, ((kA * farther - 5 * kA) * farther + 8 * kA) * farther - 4 * kA};
    for (int k = 0; k < 4; ++k) out[k] = {element(base - 1 + k, size), w[k]};
    return 4;
  }
};

struct Contribution {
  std::int64_t offset;
  double weight;
};

// All elements of one image that make a point: the product of the axes' taps. The grid names the last axis first.
void contributions(const Sampler& sampler, const double* grid, std::span<const std::int64_t> space, std::vector<Contribution>& out) {
  out.assign(1, {0, 1.0});
  std::vector<Contribution> next;
  for (std::size_t d = 0; d < space.size(); ++d) {
    Sampler::Tap taps[4];
    const int n = sampler.taps(static_cast<float>(grid[space.size() - 1 - d]), space[d], taps);
    next.clear();
    for (const Contribution& c : out) {
      for (int k = 0; k < n; ++k) {
        if (taps[k].index >= 0) next.push_back({c.offset * space[d] + taps[k].index, c.weight * taps[k].weight});
      }
    }
    out.swap(next);
  }
}

Outputs grid_sample(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &grid = ctx.tensor(1);
  const std::string mode = ctx.attr_s("mode", "linear"), padding = ctx.attr_s("padding_mode", "zeros");
  Sampler sampler{mode == "nearest"                      ? Method::kNearest
                  : mode == "cubic" || mode == "bicubic" ? Method::kCubic
                                                         : Method::kLinear,
                  padding == "border"       ? Padding::kBorder
                  : padding == "reflection" ? Padding::kReflection
                                            : Padding::kZeros,
                  ctx.attr_i("align_corners", 0) != 0};
  if (x.rank() < 3 || x.rank() > 8 || grid.rank() != x.rank() || grid.dims()[0] != x.dims()[0] || grid.dims().back() != x.rank() - 2)
    return ctx.invalid("input and grid do not fit");
  const std::span<const std::int64_t> space = std::span(x.dims()).subspan(2);
  Shape dims = {x.dims()[0], x.dims()[1]};
  dims.insert(dims.end(), grid.dims().begin() + 1, grid.dims().end() - 1);
  const auto values = to_doubles(ctx, x), points = to_doubles(ctx, grid);
  if (!values.ok()) return values.status();
  if (!points.ok()) return points.status();
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<double> y(static_cast<std::size_t>(product(dims)), 0.0);
  const std::int64_t channels = dims[1], count = product(std::span(dims).subspan(2)), size = product(space),
                     axes = static_cast<std::int64_t>(space.size());
  if (size > 0) {
    parallel_for(ctx, dims[0] * count, 256, [&](std::int64_t begin, std::int64_t end) {
      std::vector<Contribution> parts;
      for (std::int64_t k = begin; k < end; ++k) {
        contributions(sampler, points->data() + k * axes, space, parts);
        for (std::int64_t c = 0; c < channels; ++c) {
          const double* image = values->data() + (k / count * channels + c) * size;
          double sum = 0;
          for (const Contribution& p : parts) sum += p.weight * image[p.offset];
          y[static_cast<std::size_t>((k / count * channels + c) * count + k % count)] = sum;
        }
      }
    });
  }
  return one_output(from_doubles(ctx, x.dtype(), dims, y));
}

}  // namespace

void register_image_sample(Registry& registry) {
  registry.add("", "GridSample", grid_sample);
  registry.add(kMicrosoft, "GridSample", grid_sample);
}

}  // namespace saturate
