// Operators that copy elements to other places by fixed strides (ONNX Operators: Transpose, Concat, Split, Expand, Tile, DepthToSpace,
// ...).
#include <algorithm>
#include <numeric>

#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

Outputs transpose(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const int rank = x.rank();
  std::vector<std::int64_t> perm = ctx.attr_ints("perm");
  if (!ctx.has_attr("perm")) {
    perm.resize(static_cast<std::size_t>(rank));
    for (int k = 0; k < rank; ++k) perm[k] = rank - 1 - k;
  }
  if (static_cast<int>(perm.size()) != rank) return ctx.invalid("perm has another length than the input's rank");
  const auto axes = axes_of(ctx, perm, rank);
  if (!axes.ok()) return axes.status();
  const Shape strides = strides_of(x.dims());
  Shape dims(perm.size()), from(perm.size());
  bool moved = false;  // dims of 1 may go anywhere
  int last = -1;
  for (int k = 0; k < rank; ++k) {
    const int a = (*axes)[k];
    dims[k] = x.dims()[a];
    from[k] = strides[a];
    if (dims[k] == 1) continue;
    moved = moved || a < last;
    last = a;
  }
  if (!moved) return outputs_of(x.reshaped(std::move(dims)));
  return rearrange(ctx, x, dims, from);
}

Outputs concat(KernelContext& ctx) {
  if (ctx.inputs.empty()) return ctx.invalid("there is no input");
  const Tensor& first = ctx.tensor(0);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 1), first.rank());
  if (!axis) return ctx.invalid("the axis is out of range");
  Shape dims = first.dims();
  dims[*axis] = 0;
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    if (!ctx.is_tensor(i)) return ctx.invalid("an input is absent");
    const Tensor& t = ctx.tensor(i);
    if (t.dtype() != first.dtype() || t.rank() != first.rank()) return ctx.invalid("the inputs differ in element type or rank");
    for (int k = 0; k < t.rank(); ++k) {
      if (k != *axis && t.dims()[k] != dims[k]) return ctx.invalid("the inputs differ in a dim other than the axis");
    }
    dims[*axis] += t.dims()[*axis];
  }
  if (ctx.inputs.size() == 1) return outputs_of(first);
  Moving moving(ctx, first.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  const Shape to_strides = strides_of(dims);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    const Tensor& t = ctx.tensor(i);
    copy_strided(ctx, moving.unit(), t.dims(), {moving.units(t), strides_of(t.dims())},
                 {*to + at * to_strides[*axis] * moving.unit(), to_strides});
    at += t.dims()[*axis];
  }
  return one_output(moving.take());
}

// Lengths of the pieces: `split` as attribute or input, else num_outputs equal pieces, the last one smaller.
absl::StatusOr<std::vector<std::int64_t>> split_lengths(const KernelContext& ctx, std::int64_t dim) {
  std::vector<std::int64_t> lengths;
  if (ctx.has_input(1)) {
    auto values = int_values(ctx, ctx.tensor(1));
    if (!values.ok()) return values.status();
    lengths = *std::move(values);
  } else if (ctx.has_attr("split")) {
    lengths = ctx.attr_ints("split");
  } else {
    const std::int64_t n = ctx.attr_i("num_outputs", ctx.num_outputs);
    if (n <= 0 || n > std::max<std::int64_t>(ctx.num_outputs, 1)) return ctx.invalid("num_outputs does not fit the outputs");
    const std::int64_t each = (dim + n - 1) / n;
    for (std::int64_t i = 0; i < n; ++i) lengths.push_back(std::clamp<std::int64_t>(dim - i * each, 0, each));
  }
  std::int64_t sum = 0;
  for (std::int64_t n : lengths) {
    if (n < 0 || n > dim) return ctx.invalid("a length of the split is out of range");
    sum += n;
  }
  if (sum != dim) return ctx.invalid("the lengths of the split do not add up to the dim");
  return lengths;
}

Outputs split(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 0), x.rank());
  if (!axis) return ctx.invalid("the axis is out of range");
  const auto lengths = split_lengths(ctx, x.dims()[*axis]);
  if (!lengths.ok()) return lengths.status();
  const Shape strides = strides_of(x.dims());
  std::vector<Value> out;
  std::int64_t at = 0;
  for (std::int64_t n : *lengths) {
    Shape dims = x.dims();
    dims[*axis] = n;
    Outputs piece = rearrange(ctx, x, dims, strides, at * strides[*axis]);
    if (!piece.ok()) return piece;
    out.push_back(std::move(piece->front()));
    at += n;
  }
  return out;
}

Outputs expand(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto wanted = int_values(ctx, ctx.tensor(1));
  if (!wanted.ok()) return wanted.status();
  const std::optional<Shape> dims = broadcast_shape(x.dims(), *wanted);
  if (!dims) return ctx.invalid("the input does not broadcast to the shape");
  if (*dims == x.dims()) return outputs_of(x);
  return rearrange(ctx, x, *dims, broadcast_strides(x.dims(), *dims));
}

// Each dim as (repeat, dim): a broadcast copy of twice the rank.
Outputs tile_by(KernelContext& ctx, std::span<const std::int64_t> repeats) {
  const Tensor& x = ctx.tensor(0);
  if (static_cast<int>(repeats.size()) != x.rank()) return ctx.invalid("repeats has another length than the input's rank");
  const Shape strides = strides_of(x.dims());
  Shape dims, walk, from;
  for (int k = 0; k < x.rank(); ++k) {
    if (repeats[k] < 0) return ctx.invalid("a repeat is negative");
    const auto d = checked_elements(std::array{repeats[k], x.dims()[k]});
    if (!d) return ctx.invalid("the output is too large");
    dims.push_back(*d);
    walk.insert(walk.end(), {repeats[k], x.dims()[k]});
    from.insert(from.end(), {0, strides[k]});
  }
  if (dims == x.dims()) return outputs_of(x);
  if (!checked_elements(dims)) return ctx.invalid("the output is too large");
  Outputs wide = rearrange(ctx, x, walk, from);
  if (!wide.ok()) return wide;
  return outputs_of(wide->front().tensor().reshaped(std::move(dims)));
}

Outputs tile(KernelContext& ctx) {
  if (ctx.opset < 6 && ctx.has_input(2)) {  // version 1: one axis, repeated `tiles` times; both may be floats
    const auto tiles = to_doubles(ctx, ctx.tensor(1)), axis = to_doubles(ctx, ctx.tensor(2));
    if (!tiles.ok() || !axis.ok() || tiles->size() != 1 || axis->size() != 1) return ctx.invalid("tiles and axis must be one number each");
    const std::optional<int> at = normalize_axis(static_cast<std::int64_t>((*axis)[0]), ctx.tensor(0).rank());
    if (!at) return ctx.invalid("the axis is out of range");
    std::vector<std::int64_t> repeats(ctx.tensor(0).dims().size(), 1);
    repeats[*at] = static_cast<std::int64_t>((*tiles)[0]);
    return tile_by(ctx, repeats);
  }
  const auto repeats = int_values(ctx, ctx.tensor(1));
  if (!repeats.ok()) return repeats.status();
  return tile_by(ctx, *repeats);
}

// View the input under `wide` dims, take them in order `perm`, and call the result `dims`.
Outputs permute_view(KernelContext& ctx, const Tensor& x, const Shape& wide, const std::vector<int>& perm, Shape dims) {
  const Shape strides = strides_of(wide);
  Shape walk, from;
  for (int a : perm) {
    walk.push_back(wide[a]);
    from.push_back(strides[a]);
  }
  Outputs out = rearrange(ctx, x, walk, from);
  if (!out.ok()) return out;
  return outputs_of(out->front().tensor().reshaped(std::move(dims)));
}

Outputs depth_to_space(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::int64_t b = ctx.attr_i("blocksize", 0);
  if (x.rank() != 4 || b <= 0 || b > (1 << 20)) return ctx.invalid("the input must have rank 4 and the block a positive size");
  const Shape& d = x.dims();
  if (d[1] % (b * b) != 0) return ctx.invalid("the channels are not a multiple of the squared block size");
  const std::int64_t c = d[1] / (b * b);
  const Shape dims = {d[0], c, d[2] * b, d[3] * b};
  if (ctx.attr_s("mode", "DCR") == "CRD") return permute_view(ctx, x, {d[0], c, b, b, d[2], d[3]}, {0, 1, 4, 2, 5, 3}, dims);
  return permute_view(ctx, x, {d[0], b, b, c, d[2], d[3]}, {0, 3, 4, 1, 5, 2}, dims);
}

Outputs space_to_depth(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::int64_t b = ctx.attr_i("blocksize", 0);
  if (x.rank() != 4 || b <= 0 || b > (1 << 20)) return ctx.invalid("the input must have rank 4 and the block a positive size");
  const Shape& d = x.dims();
  if (d[2] % b != 0 || d[3] % b != 0) return ctx.invalid("height and width are not multiples of the block size");
  const Shape dims = {d[0], d[1] * b * b, d[2] / b, d[3] / b};
  const Shape wide = {d[0], d[1], d[2] / b, b, d[3] / b, b};
  if (ctx.attr_s("mode", "DCR") == "CRD") return permute_view(ctx, x, wide, {0, 1, 3, 5, 2, 4}, dims);
  return permute_view(ctx, x, wide, {0, 3, 5, 1, 2, 4}, dims);
}

}  // namespace

void register_data_move(Registry& registry) {
  registry.add("", "Transpose", transpose);
  registry.add("", "Concat", concat);
  registry.add("", "Split", split);
  registry.add("", "Expand", expand);
  registry.add("", "Tile", tile);
  registry.add("", "DepthToSpace", depth_to_space);
  registry.add("", "SpaceToDepth", space_to_depth);
}

}  // namespace saturate
