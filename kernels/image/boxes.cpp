// NonMaxSuppression (ONNX Operators).
#include <algorithm>
#include <numeric>

#include "kernels/image/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

struct Box {
  float x0, y0, x1, y1;
  float area() const { return (x1 - x0) * (y1 - y0); }
};

Box box_of(const float* p, bool centred) {
  if (centred) return {p[0] - p[2] / 2, p[1] - p[3] / 2, p[0] + p[2] / 2, p[1] + p[3] / 2};
  return {std::min(p[1], p[3]), std::min(p[0], p[2]), std::max(p[1], p[3]), std::max(p[0], p[2])};
}

bool overlaps(const Box& a, const Box& b, float threshold) {
  const float w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0), h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(w > 0 && h > 0)) return false;
  const float both = w * h, either = a.area() + b.area() - both;
  return a.area() > 0 && b.area() > 0 && either > 0 && both / either > threshold;
}

Outputs non_max_suppression(KernelContext& ctx) {
  const Tensor &boxes = ctx.tensor(0), &scores = ctx.tensor(1);
  if (boxes.rank() != 3 || boxes.dims()[2] != 4 || scores.rank() != 3 || boxes.dims()[0] != scores.dims()[0] ||
      boxes.dims()[1] != scores.dims()[2] || boxes.dtype() != DType::kFloat || scores.dtype() != DType::kFloat) {
    return ctx.invalid("boxes of shape [b, n, 4] and scores of shape [b, c, n] are expected");
  }
  std::int64_t most = 0;
  double limits[2] = {0, 0};  // iou, score
  if (ctx.has_input(2) && ctx.tensor(2).size() > 0) {
    const auto given = one_integer(ctx, ctx.tensor(2));
    if (!given.ok()) return given.status();
    most = std::max<std::int64_t>(*given, 0);
  }
  const bool has_score_limit = ctx.has_input(4) && ctx.tensor(4).size() > 0;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!ctx.has_input(3 + i) || ctx.tensor(3 + i).size() == 0) continue;
    const auto given = to_doubles(ctx, ctx.tensor(3 + i));
    if (!given.ok()) return given.status();
    limits[i] = (*given)[0];
  }
  const bool centred = ctx.attr_i("center_point_box", 0) != 0;
  const std::int64_t batches = scores.dims()[0], classes = scores.dims()[1], n = scores.dims()[2];
  std::vector<std::int64_t> out;
  std::vector<std::int64_t> order;
  std::vector<Box> kept;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t c = 0; c < classes; ++c) {
      const float* score = scores.data<float>() + (b * classes + c) * n;
      order.clear();
      for (std::int64_t i = 0; i < n; ++i) {
        if (!has_score_limit || score[i] > static_cast<float>(limits[1])) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) { return score[i] > score[j]; });
      kept.clear();
      for (std::int64_t i : order) {
        if (static_cast<std::int64_t>(kept.size()) >= most) break;
        const Box box = box_of(boxes.data<float>() + (b * n + i) * 4, centred);
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& k) { return overlaps(k, box, static_cast<float>(limits[0])); })) continue;
        kept.push_back(box);
        out.insert(out.end(), {b, c, i});
      }
    }
  }
  return outputs_of(Tensor::of<std::int64_t>(DType::kInt64, {static_cast<std::int64_t>(out.size() / 3), 3}, out));
}

}  // namespace

void register_image_boxes(Registry& registry) { registry.add("", "NonMaxSuppression", non_max_suppression); }

}  // namespace saturate
