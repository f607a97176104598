// Older operator versions in newest form. Sources: the operator changelogs of onnx 1.23 (docs/Changelog.md), attribute for attribute.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx_bridge/file/sparse.h"
#include "onnx_bridge/opsets/canonical_util.h"

namespace saturate::canonical {

namespace {

bool is_reduction(std::string_view op) { return op.starts_with("Reduce"); }

// Axes that were an attribute become an input, normalized where the rank is known.
void axes_to_input(Job& job, std::size_t position, int more_axes = 0) {
  auto axes = job.ints_attribute("axes");
  erase(job.node, "axes");
  if (!axes || axes->empty()) return;
  if (const auto rank = job.rank(0))
    for (std::int64_t& a : *axes)
      if (a < 0 && a >= -(*rank + more_axes)) a += *rank + more_axes;
  job.set_input(position, job.constant("axes", *axes));
}

bool slice_up(Job& job) {
  auto starts = job.ints_attribute("starts"), ends = job.ints_attribute("ends"), axes = job.ints_attribute("axes");
  if (!starts || !ends || starts->size() != ends->size()) return false;
  if (!axes) {
    axes.emplace();
    for (std::size_t a = 0; a < starts->size(); ++a) axes->push_back(static_cast<std::int64_t>(a));
  }
  set(job.node, Attribute::of("axes", *axes));
  for (const char* name : {"starts", "ends"}) erase(job.node, name);
  job.set_input(1, job.constant("starts", *starts));
  job.set_input(2, job.constant("ends", *ends));
  axes_to_input(job, 3);
  return true;
}

// The defaults of opset 6 are the largest finite floats, which cut infinities: they are written out.
bool clip_up(Job& job) {
  const DType dtype = job.dtype(0);
  const auto low = find(job.node, "min"), high = find(job.node, "max");
  const float lowest = std::numeric_limits<float>::lowest(), highest = std::numeric_limits<float>::max();
  const float min = low ? low->f() : lowest, max = high ? high->f() : highest;
  erase(job.node, "min");
  erase(job.node, "max");
  for (auto [position, value, label] : {std::tuple{1, min, "min"}, std::tuple{2, max, "max"}}) {
    auto bound = scalar_of(dtype, value);
    if (!bound) return false;
    job.set_input(static_cast<std::size_t>(position), job.constant(label, *std::move(bound)));
  }
  return true;
}

bool pad_up(Job& job) {
  const auto pads = job.ints_attribute("pads");
  if (!pads) return false;
  const Attribute* value = find(job.node, "value");
  const float fill = value ? value->f() : 0.0f;
  const bool used = job.string_attribute("mode", "constant") == "constant" && (fill != 0.0f || std::signbit(fill));
  erase(job.node, "pads");
  erase(job.node, "value");
  job.set_input(1, job.constant("pads", *pads));
  if (!used) return true;
  auto scalar = scalar_of(job.dtype(0), fill);
  if (!scalar) return false;
  job.set_input(2, job.constant("value", *std::move(scalar)));
  return true;
}

bool split_up(Job& job) {
  if (job.opset < 13) {
    const auto sizes = job.ints_attribute("split");
    erase(job.node, "split");
    if (sizes) job.set_input(1, job.constant("split", *sizes));
  }
  if (job.opset < 18 && !job.has(1)) set(job.node, Attribute::of("num_outputs", static_cast<std::int64_t>(job.node.outputs.size())));
  return true;
}

bool dropout_up(Job& job) {
  // Before opset 12 it only ever ran as inference: the ratio says nothing, and what the mask holds was left open.
  if (job.node.outputs.size() > 1 && !job.node.outputs[1].empty()) return false;
  erase(job.node, "ratio");
  return true;
}

// Before opset 13: softmax of the input flattened to two dims at `axis`.
bool softmax_up(Job& job) {
  const std::int64_t axis = job.int_attribute("axis", 1);
  const auto rank = job.rank(0);
  if (axis == -1 || (rank && axis == *rank - 1)) return true;
  if (axis < 0 && !rank) return false;
  const std::string x = job.input(0), flat = job.fresh("flat"), done = job.fresh("softmax"), shape = job.fresh("shape"),
                    y = job.node.outputs[0];
  Node flatten, shape_of, reshape;
  flatten.op_type = "Flatten";
  flatten.inputs = {x};
  flatten.outputs = {flat};
  flatten.attributes = {Attribute::of("axis", axis < 0 ? axis + *rank : axis)};
  shape_of.op_type = "Shape";
  shape_of.inputs = {x};
  shape_of.outputs = {shape};
  shape_of.attributes = {Attribute::of("start", std::int64_t{0})};
  reshape.op_type = "Reshape";
  reshape.inputs = {done, shape};
  reshape.outputs = {y};
  reshape.attributes = {Attribute::of("allowzero", std::int64_t{1})};  // the shape of x is meant as it is
  job.node.inputs = {flat};
  job.node.outputs = {done};
  set(job.node, Attribute::of("axis", std::int64_t{1}));
  job.result.nodes = {std::move(flatten), std::move(shape_of), std::move(reshape)};
  return true;
}

bool upsample_up(Job& job) {
  const std::string mode = job.string_attribute("mode", "nearest");
  if (!one_of(mode, {"nearest", "linear", "bilinear"})) return false;
  std::string scales = job.input(1);
  if (job.opset < 9) {
    const Attribute* given = find(job.node, "scales");
    if (!given) return false;
    const std::vector<float> values = given->floats();
    erase(job.node, "scales");
    scales = job.constant("scales",
                          Tensor::of<float>(DType::kFloat, {static_cast<std::int64_t>(values.size())}, std::span<const float>(values)));
  }
  job.node.op_type = "Resize";
  job.node.inputs = {job.input(0), "", scales};
  set(job.node, Attribute::of("mode", std::string(mode == "nearest" ? "nearest" : "linear")));
  set(job.node, Attribute::of("coordinate_transformation_mode", std::string("asymmetric")));
  set(job.node, Attribute::of("nearest_mode", std::string("floor")));
  return true;
}

bool resize_up(Job& job) {
  if (job.opset < 11) {
    // Nearest of opset 10 rounded up where it shrank and down where it grew (onnx's own reference gives floor for both).
    const Facts* f = job.facts(1);
    bool grows = job.string_attribute("mode", "nearest") != "nearest";
    if (!grows && f && f->value) {
      grows = true;
      for (std::int64_t i = 0; i < f->value->size(); ++i) grows = grows && element_as_double(*f->value, i).value_or(0) >= 1;
    }
    if (!grows) return false;
    job.node.inputs = {job.input(0), "", job.input(1)};
    set(job.node, Attribute::of("coordinate_transformation_mode", std::string("asymmetric")));
    set(job.node, Attribute::of("nearest_mode", std::string("floor")));
    return true;
  }
  const std::string transform = job.string_attribute("coordinate_transformation_mode", "half_pixel");
  if (transform == "tf_half_pixel_for_nn") return false;
  if (transform != "tf_crop_and_resize" && job.has(1)) job.set_input(1, "");
  if (job.has(3)) {
    job.set_input(2, "");
  } else if (job.opset < 13 && job.has(2)) {
    const Facts* f = job.facts(2);
    if (f && f->value && f->value->size() == 0) return false;
  }
  return true;
}

bool batch_normalization_up(Job& job) {
  if (job.opset < 9 && job.int_attribute("spatial", 1) != 1) return false;
  erase(job.node, "spatial");
  return job.opset >= 14 ||
         std::all_of(job.node.outputs.begin() + 1, job.node.outputs.end(), [](const std::string& o) { return o.empty(); });
}

bool top_k_up(Job& job) {
  const std::int64_t k = job.int_attribute("k", -1);
  erase(job.node, "k");
  if (k < 0) return false;
  job.set_input(1, job.constant("k", std::vector<std::int64_t>{k}));
  return true;
}

// Scale and bias per group (opset 18) become scale and bias per channel (opset 21).
bool group_normalization_up(Job& job) {
  const std::int64_t groups = job.int_attribute("num_groups", 0);
  const auto channels = job.dim(0, 1);
  if (groups <= 0 || !channels || *channels % groups != 0) return false;
  std::vector<Node> nodes;
  for (std::size_t i = 1; i < 3; ++i) {
    const std::string label = i == 1 ? "scale" : "bias";
    auto make = [&](const char* op, std::string from, const std::vector<std::int64_t>& shape, const std::string& suffix) {
      Node n;
      n.op_type = op;
      n.outputs = {job.fresh(label + suffix)};
      n.inputs = {std::move(from), job.constant(label + suffix + "_shape", shape)};
      if (n.op_type == "Reshape") n.attributes = {Attribute::of("allowzero", std::int64_t{0})};
      nodes.push_back(n);
      return n.outputs[0];
    };
    const std::string column = make("Reshape", job.input(i), {groups, 1}, "_column");
    const std::string wide = make("Expand", column, {groups, *channels / groups}, "_wide");
    job.set_input(i, make("Reshape", wide, {*channels}, "_all"));
  }
  job.result.nodes = std::move(nodes);
  return true;
}

bool dft_up(Job& job) {
  const std::int64_t axis = job.int_attribute("axis", 1);
  erase(job.node, "axis");
  job.set_input(2, job.constant("axis", Tensor::scalar_int64(axis)));
  return true;
}

bool grid_sample_up(Job& job) {
  const std::string mode = job.string_attribute("mode", "bilinear");
  if (mode == "bilinear") set(job.node, Attribute::of("mode", std::string("linear")));
  if (mode == "bicubic") set(job.node, Attribute::of("mode", std::string("cubic")));
  return true;
}

bool constant_up(Job& job) {
  if (job.node.attributes.size() != 1) return false;
  const Attribute a = job.node.attributes.front();
  std::optional<Tensor> t;
  if (a.name == "value" && std::holds_alternative<Tensor>(a.value)) return true;
  if (a.name == "value_int") t = Tensor::scalar_int64(a.i());
  if (a.name == "value_ints") t = Tensor::vector_int64(a.ints());
  if (a.name == "value_float") t = scalar_of(DType::kFloat, a.f());
  if (a.name == "value_floats")
    t = Tensor::of<float>(DType::kFloat, {static_cast<std::int64_t>(a.floats().size())}, std::span<const float>(a.floats()));
  if (a.name == "value_string") t = Tensor::strings({}, {a.s()});
  if (a.name == "value_strings") t = Tensor::strings({static_cast<std::int64_t>(a.strings().size())}, a.strings());
  if (const auto sparse = sparse_of(a)) {
    constexpr std::size_t kMostWritten = std::size_t{1} << 20;  // bytes; a larger one stays sparse
    if (auto dense = dense_tensor(*sparse, kMostWritten); dense.ok()) t = *std::move(dense);
    if (!t) return true;
  }
  if (!t) return false;
  job.node.attributes = {Attribute::of("value", *std::move(t))};
  return true;
}

}  // namespace

bool convert_up(Job& job) {
  const std::string op = job.node.op_type;
  const std::int64_t v = job.opset;
  if (op == "Squeeze" && v < 13)
    axes_to_input(job, 1);
  else if (op == "Unsqueeze" && v < 13)
    axes_to_input(job, 1, static_cast<int>(job.ints_attribute("axes").value_or(std::vector<std::int64_t>{}).size()));
  else if (is_reduction(op) && v < (op == "ReduceSum" ? 13 : 18))
    axes_to_input(job, 1);
  else if (op == "Slice" && v < 10)
    return slice_up(job);
  else if (op == "Clip" && v < 11)
    return clip_up(job);
  else if (op == "Pad" && v < 11)
    return pad_up(job);
  else if (op == "Split" && v < 18)
    return split_up(job);
  else if (op == "Dropout" && v < 12)
    return dropout_up(job);
  else if (took_rows_from_axis(op) && v < 13)
    return softmax_up(job);
  else if (op == "Upsample")
    return upsample_up(job);
  else if (op == "Resize" && v < 19)
    return resize_up(job);
  else if (op == "BatchNormalization" && v < 14)
    return batch_normalization_up(job);
  else if (op == "TopK" && v < 10)
    return top_k_up(job);
  else if (op == "GroupNormalization" && v < 21)
    return group_normalization_up(job);
  else if (op == "DFT" && v < 20)
    return dft_up(job);
  else if (op == "GridSample" && v < 20)
    return grid_sample_up(job);
  else if (op == "Scatter")
    job.node.op_type = "ScatterElements";
  else if (op == "RoiAlign" && v < 16 && job.string_attribute("mode", "avg") == "max")
    return false;  // runtimes differ on what the maximum is taken of
  else if (op == "RoiAlign" && v < 16)
    set(job.node, Attribute::of("coordinate_transformation_mode", std::string("output_half_pixel")));
  else if (op == "Scan" && v < 9)
    return false;
  else if (op == "Constant")
    return constant_up(job);
  return true;
}

namespace {

void normalize_axis(Job& job, const char* name, int rank) {
  Attribute* a = find(job.node, name);
  if (!a || !std::holds_alternative<std::int64_t>(a->value)) return;
  const std::int64_t axis = a->i();
  if (axis < 0 && axis >= -rank) a->value = axis + rank;
}

void normalize_axes_input(Job& job, int rank) {
  const OpSchema* schema = find_schema("", job.node.op_type, kNewestOpset);
  for (std::size_t i = 1; schema && i < job.node.inputs.size(); ++i) {
    const Facts* f = is_axes_input(*schema, i) ? job.facts(i) : nullptr;
    if (!f || !f->value) continue;
    if (auto axes = axes_from_front(*f->value, rank + (job.node.op_type == "Unsqueeze" ? f->value->size() : 0)))
      job.set_input(i, job.constant("axes", *std::move(axes)));
  }
}

// The range of Shape as [start, end) in order; no end where it is the rank.
void normalize_shape(Job& job, std::int64_t rank) {
  std::int64_t start = job.int_attribute("start", 0), end = job.int_attribute("end", rank);
  start = place_within(start, rank);
  end = std::max(start, place_within(end, rank));
  set(job.node, Attribute::of("start", start));
  erase(job.node, "end");
  if (end < rank) set(job.node, Attribute::of("end", end));
}

// Windows: strides, dilations and pads of every spatial axis; kernel_shape from the weights; VALID is no padding.
void normalize_window(Job& job, int rank) {
  const auto spatial = static_cast<std::size_t>(std::max(rank - 2, 0));
  const OpSchema* schema = find_schema("", job.node.op_type, kNewestOpset);
  auto missing = [&](const char* name) { return schema->attribute(name) && !find(job.node, name); };
  if (job.string_attribute("auto_pad", "NOTSET") == "VALID" && !job.ints_attribute("output_shape")) {
    set(job.node, Attribute::of("auto_pad", std::string("NOTSET")));
    set(job.node, Attribute::of("pads", std::vector<std::int64_t>(2 * spatial, 0)));
  }
  if (missing("strides")) set(job.node, Attribute::of("strides", std::vector<std::int64_t>(spatial, 1)));
  if (missing("dilations")) set(job.node, Attribute::of("dilations", std::vector<std::int64_t>(spatial, 1)));
  if (missing("pads") && job.string_attribute("auto_pad", "NOTSET") == "NOTSET" && !job.ints_attribute("output_shape"))
    set(job.node, Attribute::of("pads", std::vector<std::int64_t>(2 * spatial, 0)));
  const std::size_t weights = job.node.op_type == "QLinearConv" ? 3 : 1;
  if (!missing("kernel_shape") || job.rank(weights) != rank) return;
  std::vector<std::int64_t> kernel;
  for (std::size_t k = 0; k < spatial; ++k) {
    const auto d = job.dim(weights, static_cast<int>(k) + 2);
    if (!d) return;
    kernel.push_back(*d);
  }
  set(job.node, Attribute::of("kernel_shape", std::move(kernel)));
}

}  // namespace

void normalize(Job& job) {
  const std::string op = job.node.op_type;
  if (job.node.domain == "com.microsoft") {
    if (const auto rank = job.rank(0); rank && op.find("LayerNormalization") != std::string::npos) normalize_axis(job, "axis", *rank);
    return;
  }
  if (!job.node.domain.empty()) return;
  if (op == "ConstantOfShape" && !find(job.node, "value")) {
    const float zero = 0;
    set(job.node, Attribute::of("value", Tensor::of<float>(DType::kFloat, {1}, std::span(&zero, 1))));
  }
  if (op == "Einsum")
    if (Attribute* a = find(job.node, "equation"); a && std::holds_alternative<std::string>(a->value)) {
      std::string equation = a->s();
      std::erase(equation, ' ');
      a->value = std::move(equation);
    }
  const auto rank = job.rank(0);
  if (!rank) return;
  if (op == "OneHot") return normalize_axis(job, "axis", *rank + 1);
  normalize_axis(job, "axis", *rank);
  if (op == "Slice") normalize_slice(job, *rank);  // before its axes are new values
  normalize_axes_input(job, *rank);
  if (op == "Shape") normalize_shape(job, *rank);
  if (op == "Gather") normalize_gather(job);
  if (op == "Split") normalize_split(job);
  if (op == "Transpose" && !find(job.node, "perm")) {
    std::vector<std::int64_t> perm;
    for (int a = *rank; a-- > 0;) perm.push_back(a);
    set(job.node, Attribute::of("perm", std::move(perm)));
  }
  if (one_of(op, {"Resize", "CenterCropPad"}))
    if (auto axes = job.ints_attribute("axes")) {
      for (std::int64_t& a : *axes)
        if (a < 0 && a >= -*rank) a += *rank;
      set(job.node, Attribute::of("axes", *std::move(axes)));
    }
  if (const OpSchema* s = find_schema("", op, kNewestOpset); s && s->attribute("auto_pad") && *rank >= 2) normalize_window(job, *rank);
}

}  // namespace saturate::canonical
