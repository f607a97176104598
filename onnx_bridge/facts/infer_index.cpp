// Operators that select, join and scatter: Slice, Gather, Concat, Split, Pad, ...
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "onnx_bridge/facts/infer_call.h"

namespace saturate::inference {

namespace {

constexpr std::int64_t kToTheEnd = std::numeric_limits<std::int32_t>::max();

// A start or end of Slice as a position in [0, size] (for step > 0) or [-1, size - 1] (step < 0). nullopt: backwards, and its sign is open.
std::optional<Dim> clamp(Call& c, Dim at, Dim size, bool forward) {
  const auto v = c.value(at);
  const Dim low = c.constant(forward ? 0 : -1), high = forward ? size : c.dims.sub(size, c.constant(1));
  if (v && *v >= kToTheEnd) return high;
  if (v && *v <= -kToTheEnd) return low;
  if (forward && c.dims.equal(at, c.dims.neg(size))) return low;  // whether or not the size is 0
  if (c.dims.non_negative(at)) return c.dims.min(at, high);
  if (c.dims.positive(c.dims.neg(at))) return c.dims.max(c.dims.add(at, size), low);
  if (forward) return c.dims.place(at, size);
  return std::nullopt;
}

std::optional<Dim> slice_length(Call& c, Dim size, Dim start, Dim end, std::int64_t step) {
  auto from = clamp(c, start, size, step > 0), to = clamp(c, end, size, step > 0);
  if (!from || !to) return std::nullopt;
  const Dim distance = step > 0 ? c.dims.sub(*to, *from) : c.dims.sub(*from, *to);
  return c.dims.max(c.dims.ceil_div(distance, c.constant(step > 0 ? step : -step)), c.constant(0));
}

void slice_content(Call& c, std::int64_t start, std::int64_t end, std::int64_t step) {
  auto elements = c.content(0);
  if (!elements) return;
  const auto n = static_cast<std::int64_t>(elements->size());
  auto place = [&](std::int64_t v) {
    return std::clamp<std::int64_t>(v < 0 ? std::max<std::int64_t>(v, -n - 1) + n : v, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
  };
  DimVector part;
  step = std::clamp(step, -kToTheEnd, kToTheEnd);  // a content has few elements
  for (std::int64_t k = place(start); step > 0 ? k < place(end) : k > place(end); k += step)
    part.push_back((*elements)[static_cast<std::size_t>(k)]);
  c.set_content(0, std::move(part));
}

void slice(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  const int rank = c.rank(0);
  DimVector shape = c.shape(0);
  auto count = c.length(1);
  std::optional<std::vector<std::int64_t>> axes;
  if (c.has(3)) {
    axes = c.ints(3);
  } else if (count) {
    axes.emplace();
    for (std::int64_t a = 0; a < *count; ++a) axes->push_back(a);
  }
  if (!axes) return c.set_shape(0, c.fresh_shape(0, rank));
  auto normal = c.normal_axes(*axes, rank);
  if (!normal) return;
  auto starts = c.content(1), ends = c.content(2);
  std::optional<std::vector<std::int64_t>> steps = c.has(4) ? c.ints(4) : std::optional(std::vector<std::int64_t>(axes->size(), 1));
  for (std::size_t k = 0; k < normal->size(); ++k) {
    Dim& d = shape[static_cast<std::size_t>((*normal)[k])];
    std::optional<Dim> length;
    if (starts && ends && steps && k < starts->size() && k < ends->size() && k < steps->size()) {
      if ((*steps)[k] == 0) return c.fail("a step of 0");
      length = slice_length(c, d, (*starts)[k], (*ends)[k], std::clamp((*steps)[k], -kToTheEnd, kToTheEnd));
    }
    d = length ? *length : c.fresh(0, (*normal)[k]);
  }
  c.set_shape(0, std::move(shape));
  if (rank != 1 || !starts || !ends || !steps || normal->size() != 1) return;
  if (starts->size() != 1 || ends->size() != 1 || steps->size() != 1) return;
  const auto start = c.value(starts->front()), end = c.value(ends->front());
  if (start && end) slice_content(c, *start, *end, steps->front());
}

void gather(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  auto axis = c.normal_axis(c.int_attribute("axis", 0), c.rank(0));
  if (!axis || !c.has_rank(1)) return;
  DimVector shape(c.shape(0).begin(), c.shape(0).begin() + *axis);
  shape.insert(shape.end(), c.shape(1).begin(), c.shape(1).end());
  shape.insert(shape.end(), c.shape(0).begin() + *axis + 1, c.shape(0).end());
  c.set_shape(0, std::move(shape));
  auto elements = c.content(0);
  auto indices = c.ints(1);
  if (!elements || !indices || c.rank(0) != 1) return;
  const auto n = static_cast<std::int64_t>(elements->size());
  DimVector part;
  for (std::int64_t i : *indices) {
    if (i < -n || i >= n) return c.fail(absl::StrCat("index ", i, " into ", n, " elements"));
    part.push_back((*elements)[static_cast<std::size_t>(i < 0 ? i + n : i)]);
  }
  c.set_content(0, std::move(part));
}

void gather_elements(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (c.has_rank(1)) c.set_shape(0, c.shape(1));
}

void gather_nd(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || !c.has_rank(1) || c.rank(1) == 0) return;
  const std::int64_t batch = c.int_attribute("batch_dims", 0);
  const auto depth = c.value(c.dim(1, -1));
  if (!depth || *depth < 0 || batch < 0 || batch > c.rank(0) || *depth > c.rank(0) - batch) return;
  DimVector shape(c.shape(1).begin(), c.shape(1).end() - 1);
  shape.insert(shape.end(), c.shape(0).begin() + batch + *depth, c.shape(0).end());
  c.set_shape(0, std::move(shape));
}

void concat(Call& c) {
  DType dtype = DType::kUndefined;
  bool ranks = !c.inputs.empty();
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (dtype == DType::kUndefined) dtype = c.in(i).dtype;
    ranks = ranks && c.has_rank(i);
  }
  c.set_dtype(0, dtype);
  if (!ranks) {  // one known rank is the rank of all
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      if (c.has_rank(i)) return c.set_shape(0, c.fresh_shape(0, c.rank(i)));
    return;
  }
  auto axis = c.normal_axis(c.int_attribute("axis", 0), c.rank(0));
  if (!axis) return;
  DimVector shape = c.shape(0);
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.require_rank(i, c.rank(0))) return;
    for (int a = 0; a < c.rank(0); ++a) {
      auto& d = shape[static_cast<std::size_t>(a)];
      if (a == *axis)
        d = c.dims.add(d, c.dim(i, a));
      else if (!c.require_equal(d, c.dim(i, a), absl::StrCat("dim ", a, " of the inputs")))
        return;
    }
  }
  c.set_shape(0, std::move(shape));
  if (c.rank(0) != 1) return;
  DimVector all;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    auto part = c.content(i);
    if (!part) return;
    all.insert(all.end(), part->begin(), part->end());
  }
  c.set_content(0, std::move(all));
}

void split(Call& c) {
  for (int o = 0; o < c.num_outputs(); ++o) c.set_dtype(o, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  auto axis = c.normal_axis(c.int_attribute("axis", 0), c.rank(0));
  if (!axis) return;
  const Dim size = c.dim(0, *axis);
  const std::int64_t parts = c.int_attribute("num_outputs", c.num_outputs());
  std::optional<DimVector> sizes;
  std::optional<Dim> part;
  if (c.has(1)) {
    sizes = c.content(1);
    if (sizes && sizes->size() != c.out.size()) return c.fail("as many sizes as outputs are wanted");
    Dim sum = c.constant(0);
    if (sizes)
      for (Dim d : *sizes) sum = c.dims.add(sum, d);
    if (sizes && !c.require_equal(sum, size, "the parts do not make up the dim")) return;
  } else if (parts > 0) {
    // Equal parts, the last one smaller where it does not come out even.
    part = c.dims.ceil_div(size, c.constant(parts));
  }
  const auto size_of = [&](int o) {
    const auto k = static_cast<std::size_t>(o);
    if (sizes) return k < sizes->size() ? (*sizes)[k] : c.fresh(o, *axis);
    if (!part || o >= parts) return c.fresh(o, *axis);
    return o + 1 < parts ? *part : c.dims.sub(size, c.dims.mul(*part, c.constant(parts - 1)));
  };
  auto elements = c.content(0);
  std::int64_t at = 0;
  for (int o = 0; o < c.num_outputs(); ++o) {
    DimVector shape = c.shape(0);
    shape[static_cast<std::size_t>(*axis)] = size_of(o);
    const auto n = c.value(shape[static_cast<std::size_t>(*axis)]);
    c.set_shape(o, std::move(shape));
    if (!elements || c.rank(0) != 1 || !n || *n < 0 || *n > static_cast<std::int64_t>(elements->size()) - at) {
      elements.reset();
      continue;
    }
    c.set_content(o, DimVector(elements->begin() + at, elements->begin() + at + *n));
    at += *n;
  }
}

void pad(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  const int rank = c.rank(0);
  auto pads = c.content(1);
  std::vector<int> axes;
  if (c.has(3)) {
    auto given = c.ints(3);
    if (!given) return c.set_shape(0, c.fresh_shape(0, rank));
    auto normal = c.normal_axes(*given, rank);
    if (!normal) return;
    axes = *normal;
  } else {
    for (int a = 0; a < rank; ++a) axes.push_back(a);
  }
  DimVector shape = c.shape(0);
  if (pads && pads->size() != 2 * axes.size()) return c.fail("two pads an axis are wanted");
  for (std::size_t k = 0; k < axes.size(); ++k) {
    Dim& d = shape[static_cast<std::size_t>(axes[k])];
    d = pads ? c.dims.add(d, c.dims.add((*pads)[k], (*pads)[k + axes.size()])) : c.fresh(0, axes[k]);
  }
  c.set_shape(0, std::move(shape));
}

void one_hot(Call& c) {
  c.set_dtype(0, c.in(2).dtype);
  if (!c.has_rank(0)) return;
  auto axis = c.normal_axis(c.int_attribute("axis", -1), c.rank(0) + 1);
  if (!axis) return;
  DimVector shape = c.shape(0);
  auto depth = c.scalar(1);
  shape.insert(shape.begin() + *axis, depth && c.dims.non_negative(*depth) ? *depth : c.fresh(0, *axis));
  c.set_shape(0, std::move(shape));
}

void non_zero(Call& c) {
  c.set_dtype(0, DType::kInt64);
  if (c.has_rank(0))
    c.set_shape(0, DimVector{c.constant(c.rank(0)), c.fresh(0, 1)});
  else
    c.set_shape(0, c.fresh_shape(0, 2));
}

void compress(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.attribute("axis")) return c.set_shape(0, c.fresh_shape(0, 1));
  if (!c.has_rank(0)) return;
  auto axis = c.normal_axis(c.int_attribute("axis", 0), c.rank(0));
  if (!axis) return;
  DimVector shape = c.shape(0);
  shape[static_cast<std::size_t>(*axis)] = c.fresh(0, *axis);
  c.set_shape(0, std::move(shape));
}

void unique(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.attribute("axis")) {
    c.set_shape(0, c.fresh_shape(0, 1));
  } else if (c.has_rank(0)) {
    auto axis = c.normal_axis(c.int_attribute("axis", 0), c.rank(0));
    if (!axis) return;
    DimVector shape = c.shape(0);
    shape[static_cast<std::size_t>(*axis)] = c.fresh(0, *axis);
    c.set_shape(0, std::move(shape));
  }
  for (int o = 1; o < 4; ++o) c.set(o, DType::kInt64, c.wants(o) ? std::optional(c.fresh_shape(o, 1)) : std::nullopt);
}

void top_k(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  c.set_dtype(1, DType::kInt64);
  if (!c.has_rank(0)) return;
  auto axis = c.normal_axis(c.int_attribute("axis", -1), c.rank(0));
  if (!axis) return;
  auto k = c.scalar(1);
  DimVector shape = c.shape(0);
  shape[static_cast<std::size_t>(*axis)] = k && c.dims.non_negative(*k) ? *k : c.fresh(0, *axis);
  c.set_shape(0, shape);
  c.set_shape(1, shape);
}

void center_crop_pad(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  std::vector<std::int64_t> axes;
  if (auto given = c.ints_attribute("axes"))
    axes = *given;
  else
    for (int a = 0; a < c.rank(0); ++a) axes.push_back(a);
  auto normal = c.normal_axes(axes, c.rank(0));
  auto target = c.content(1);
  if (!normal) return;
  DimVector shape = c.shape(0);
  for (std::size_t k = 0; k < normal->size(); ++k) {
    const bool known = target && target->size() == normal->size() && c.dims.non_negative((*target)[k]);
    shape[static_cast<std::size_t>((*normal)[k])] = known ? (*target)[k] : c.fresh(0, (*normal)[k]);
  }
  c.set_shape(0, std::move(shape));
}

}  // namespace

void add_index_rules(Rules& rules) {
  rules[":Slice"] = slice;
  rules[":Gather"] = gather;
  rules[":GatherElements"] = gather_elements;
  rules[":GatherND"] = gather_nd;
  rules[":Concat"] = concat;
  rules[":Split"] = split;
  rules[":Pad"] = pad;
  rules[":OneHot"] = one_hot;
  rules[":NonZero"] = non_zero;
  rules[":Compress"] = compress;
  rules[":Unique"] = unique;
  rules[":TopK"] = top_k;
  rules[":CenterCropPad"] = center_crop_pad;
}

}  // namespace saturate::inference
