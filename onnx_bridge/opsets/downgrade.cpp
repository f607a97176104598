// Newest forms as older operator versions say them.
#include <algorithm>
#include <limits>

#include "onnx_bridge/opsets/canonical_util.h"

namespace saturate::canonical {

namespace {

constexpr std::int64_t kMostParts = 1 << 16;  // of a Split

// Input i as a list of known integers; absent: an empty optional in `out`.
bool known_ints(Job& job, std::size_t i, const char* what, std::optional<std::vector<std::int64_t>>& out) {
  if (!job.has(i)) return true;
  out = job.ints(i);
  return out ? true : job.fail(std::string(what) + " that are computed");
}

// Negative axes came with opset 11.
bool plain_axes(Job& job, std::vector<std::int64_t>& axes, int more_axes = 0) {
  const auto rank = job.rank(0);
  for (std::int64_t& a : axes) {
    if (a >= 0) continue;
    if (rank)
      a += *rank + more_axes;
    else if (job.opset < 11)
      return job.fail("negative axes");
  }
  return true;
}

bool axes_to_attribute(Job& job, bool unsqueeze) {
  std::optional<std::vector<std::int64_t>> axes;
  if (!known_ints(job, 1, "axes", axes)) return false;
  if (axes && !plain_axes(job, *axes, unsqueeze ? static_cast<int>(axes->size()) : 0)) return false;
  job.node.inputs.resize(1);
  if (axes && !axes->empty()) set(job.node, Attribute::of("axes", *std::move(axes)));
  return true;
}

bool reduce_down(Job& job) {
  if (job.int_attribute("noop_with_empty_axes", 0) != 0) {
    const auto axes = job.ints(1);
    if (!axes || axes->empty()) return job.fail("noop_with_empty_axes");
  }
  erase(job.node, "noop_with_empty_axes");
  return axes_to_attribute(job, false);
}

bool slice_down(Job& job) {
  std::optional<std::vector<std::int64_t>> starts, ends, axes, steps;
  if (!known_ints(job, 1, "starts", starts) || !known_ints(job, 2, "ends", ends) || !known_ints(job, 3, "axes", axes) ||
      !known_ints(job, 4, "steps", steps))
    return false;
  if (!starts || !ends) return job.fail("its starts and ends");
  if (steps && std::any_of(steps->begin(), steps->end(), [](std::int64_t s) { return s != 1; })) return job.fail("steps other than 1");
  if (axes && !plain_axes(job, *axes)) return false;
  job.node.inputs.resize(1);
  set(job.node, Attribute::of("starts", *std::move(starts)));
  set(job.node, Attribute::of("ends", *std::move(ends)));
  if (axes) set(job.node, Attribute::of("axes", *std::move(axes)));
  return true;
}

bool clip_down(Job& job) {
  std::optional<double> bounds[2];
  for (std::size_t i = 1; i < 3; ++i) {
    if (!job.has(i)) continue;
    bounds[i - 1] = job.number(i);
    if (!bounds[i - 1] || static_cast<double>(static_cast<float>(*bounds[i - 1])) != *bounds[i - 1])
      return job.fail("bounds that are computed");
  }
  job.node.inputs.resize(1);
  if (bounds[0]) set(job.node, Attribute::of("min", static_cast<float>(*bounds[0])));
  if (bounds[1]) set(job.node, Attribute::of("max", static_cast<float>(*bounds[1])));
  // Before opset 11 an absent bound meant the largest float, so infinities were cut.
  return job.has(0) && (bounds[0] && bounds[1]) ? true : job.fail("a missing bound");
}

bool pad_down(Job& job) {
  if (job.opset < 19 && job.string_attribute("mode", "constant") == "wrap") return job.fail("mode 'wrap'");
  if (job.opset >= 18) return true;
  std::optional<std::vector<std::int64_t>> pads, axes;
  if (job.has(3)) {
    const auto rank = job.rank(0);
    if (!known_ints(job, 3, "axes", axes) || !known_ints(job, 1, "pads", pads)) return false;
    if (!rank || !pads || pads->size() != 2 * axes->size()) return job.fail("axes of a tensor of unknown rank");
    std::vector<std::int64_t> all(2 * static_cast<std::size_t>(*rank), 0);
    for (std::size_t k = 0; k < axes->size(); ++k) {
      const std::int64_t a = (*axes)[k] < 0 ? (*axes)[k] + *rank : (*axes)[k];
      if (a < 0 || a >= *rank) return job.fail("axes outside the tensor");
      all[static_cast<std::size_t>(a)] = (*pads)[k];
      all[static_cast<std::size_t>(a + *rank)] = (*pads)[k + axes->size()];
    }
    job.node.inputs.resize(3);
    job.set_input(1, job.constant("pads", all));
    pads = all;
  }
  if (job.opset >= 11) return true;
  if (!pads && !known_ints(job, 1, "pads", pads)) return false;
  const auto value = job.has(2) ? job.number(2) : std::optional(0.0);
  if (!pads || !value) return job.fail("a fill value that is computed");
  job.result.constants.clear();
  job.node.inputs.resize(1);
  set(job.node, Attribute::of("pads", *std::move(pads)));
  if (*value != 0) set(job.node, Attribute::of("value", static_cast<float>(*value)));
  return true;
}

bool split_down(Job& job) {
  if (job.opset >= 18) return true;
  const std::int64_t parts = job.int_attribute("num_outputs", 0);
  erase(job.node, "num_outputs");
  std::optional<std::vector<std::int64_t>> sizes;
  if (job.has(1)) {
    if (job.opset < 13 && !known_ints(job, 1, "sizes", sizes)) return false;
  } else {
    const auto rank = job.rank(0);
    std::int64_t axis = job.int_attribute("axis", 0);
    if (rank && axis < 0) axis += *rank;
    const auto size = job.dim(0, static_cast<int>(axis));
    if (parts <= 0 || parts > kMostParts || !size) return job.fail("num_outputs over a dim that is not known");
    const std::int64_t part = *size / parts + (*size % parts != 0 ? 1 : 0);
    if (*size % parts != 0) {
      sizes.emplace(static_cast<std::size_t>(parts), part);
      sizes->back() = *size - part * (parts - 1);
    }
    if (sizes && job.opset >= 13) job.set_input(1, job.constant("split", *sizes));
  }
  if (job.opset >= 13) return true;
  job.node.inputs.resize(1);
  if (sizes) set(job.node, Attribute::of("split", *std::move(sizes)));
  return true;
}

bool top_k_down(Job& job) {
  if (job.opset >= 10) return true;
  std::optional<std::vector<std::int64_t>> k;
  if (!known_ints(job, 1, "K", k)) return false;
  if (!k || k->size() != 1) return job.fail("its K");
  job.node.inputs.resize(1);
  set(job.node, Attribute::of("k", k->front()));
  return true;
}

bool dropout_down(Job& job) {
  if (job.opset >= 12) return true;
  if (job.has(2)) {
    const Facts* f = job.facts(2);
    if (!f || !f->value || f->value->size() != 1 || element_as_int(*f->value, 0).value_or(1) != 0) return job.fail("training_mode");
  }
  if (job.node.outputs.size() > 1 && !job.node.outputs[1].empty()) return job.fail("a mask that is sure");
  erase(job.node, "seed");
  job.node.inputs.resize(1);
  return true;
}

// The whole shape, and a slice of it.
bool shape_down(Job& job) {
  if (job.opset >= 15) return true;
  const std::int64_t start = job.int_attribute("start", 0), end = job.int_attribute("end", std::numeric_limits<std::int64_t>::max());
  erase(job.node, "start");
  erase(job.node, "end");
  if (start == 0 && end == std::numeric_limits<std::int64_t>::max()) return true;
  if (job.opset < 10) return job.fail("parts of a shape");
  Node slice;
  slice.op_type = "Slice";
  slice.inputs = {job.fresh("shape"), job.constant("start", std::vector<std::int64_t>{start}),
                  job.constant("end", std::vector<std::int64_t>{end})};
  slice.outputs = job.node.outputs;
  job.node.outputs = {slice.inputs[0]};
  job.result.nodes.push_back(std::move(slice));
  return true;
}

bool softmax_down(Job& job) {
  if (job.opset >= 13) return true;
  const auto rank = job.rank(0);
  std::int64_t axis = job.int_attribute("axis", -1);
  if (rank && axis < 0) axis += *rank;
  if (rank && axis >= 0 && axis < *rank - 1) {  // the axis is brought to the end and back
    std::vector<std::int64_t> perm;
    for (int a = 0; a < *rank; ++a) perm.push_back(a);
    std::swap(perm[static_cast<std::size_t>(axis)], perm.back());
    Node before, after;
    before.op_type = after.op_type = "Transpose";
    before.attributes = after.attributes = {Attribute::of("perm", perm)};
    before.inputs = {job.input(0)};
    before.outputs = {job.fresh("turned")};
    after.inputs = {job.fresh("softmax")};
    after.outputs = {job.node.outputs[0]};
    job.node.inputs = before.outputs;
    job.node.outputs = after.inputs;
    job.result.nodes = {std::move(before), std::move(after)};
    axis = *rank - 1;
  } else if (rank ? axis != *rank - 1 : axis != -1) {
    return job.fail("an axis other than the last of a tensor of unknown rank");
  }
  if (job.opset < 11 && axis < 0) return job.fail("negative axes");
  set(job.node, Attribute::of("axis", axis));
  return true;
}

bool resize_down(Job& job) {
  if (job.opset < 11) return job.fail("the operator in this form");
  if (job.opset < 18 && job.ints_attribute("axes")) return job.fail("attribute 'axes'");
  if (job.opset >= 13) return true;
  const bool roi = job.has(1), scales = job.has(2);
  const Tensor none(DType::kFloat, {0});
  if (!roi) job.set_input(1, job.constant("roi", none));
  if (!scales) job.set_input(2, job.constant("scales", none));
  return true;
}

bool grid_sample_down(Job& job) {
  if (job.opset >= 20) return true;
  if (job.rank(0) != 4) return job.fail("volumes");
  const std::string mode = job.string_attribute("mode", "linear");
  if (mode == "linear") set(job.node, Attribute::of("mode", std::string("bilinear")));
  if (mode == "cubic") set(job.node, Attribute::of("mode", std::string("bicubic")));
  return true;
}

bool dft_down(Job& job) {
  if (job.opset >= 20) return true;
  const auto rank = job.rank(0);
  std::optional<std::vector<std::int64_t>> axis;
  if (!known_ints(job, 2, "axes", axis)) return false;
  if (axis && axis->size() != 1) return job.fail("an axis that is no single number");
  if ((!axis || axis->front() < 0) && !rank) return job.fail("an axis from the end");
  std::int64_t a = axis ? axis->front() : -2;
  if (a < 0) a += *rank;
  if (job.node.inputs.size() > 2) job.node.inputs.resize(2);
  set(job.node, Attribute::of("axis", a));
  return true;
}

bool batch_normalization_down(Job& job) {
  if (job.opset >= 14) return true;
  if (job.int_attribute("training_mode", 0) != 0) return job.fail("training_mode");
  const bool more = std::any_of(job.node.outputs.begin() + 1, job.node.outputs.end(), [](const std::string& o) { return !o.empty(); });
  return more ? job.fail("running statistics") : true;
}

// A window without gaps needs no attribute, and before opset 10 (MaxPool), 18 (LpPool) and 19 (AveragePool) there is none.
void drop_dilations_of_one(Node& node) {
  const Attribute* dilations = find_attribute(node.attributes, "dilations");
  if (!dilations || dilations->type != AttributeType::kInts) return;
  if (std::all_of(dilations->ints().begin(), dilations->ints().end(), [](std::int64_t d) { return d == 1; })) erase(node, "dilations");
}

// Operators whose axis could be negative before opset 11 said so for all: it is by default, or the text says so.
bool old_negative_axis(const OpSchema& schema) {
  if (schema.name == "Gather" || schema.name == "Split") return true;
  const OpAttribute* axis = schema.attribute("axis");
  return axis && axis->default_value && axis->default_value->i() < 0;
}

}  // namespace

bool convert_down(Job& job) {
  Node& node = job.node;
  const std::string op = node.op_type;
  const std::int64_t v = job.opset;
  if (!node.domain.empty()) return true;
  if (v < 11 && !took_rows_from_axis(op))
    if (const OpSchema* s = find_schema("", op, v);
        s && !old_negative_axis(*s) && s->since_version < 11 && job.int_attribute("axis", 0) < 0)
      return job.fail("negative axes");
  if (one_of(op, {"Squeeze", "Unsqueeze"})) return v >= 13 || axes_to_attribute(job, op == "Unsqueeze");
  if (op.starts_with("Reduce")) return v >= (op == "ReduceSum" ? 13 : 18) || reduce_down(job);
  if (op == "Slice") return v >= 10 || slice_down(job);
  if (op == "Clip") return v >= 11 || clip_down(job);
  if (op == "Pad") return pad_down(job);
  if (op == "Split") return split_down(job);
  if (op == "TopK") return top_k_down(job);
  if (op == "Dropout") return dropout_down(job);
  if (took_rows_from_axis(op)) return softmax_down(job);
  if (op == "Shape") return shape_down(job);
  if (op == "Resize") return resize_down(job);
  if (op == "GridSample") return grid_sample_down(job);
  if (op == "DFT") return dft_down(job);
  if (op == "BatchNormalization") return batch_normalization_down(job);
  if (op.ends_with("Pool")) drop_dilations_of_one(node);
  if (op == "GroupNormalization" && v < 21) return job.fail("scale and bias per channel");
  if (op == "RoiAlign" && v < 16) {
    if (job.string_attribute("mode", "avg") == "max") return job.fail("a sure meaning of mode 'max'");
    if (job.string_attribute("coordinate_transformation_mode", "half_pixel") != "output_half_pixel") return job.fail("its coordinates");
    erase(node, "coordinate_transformation_mode");
  }
  if (op == "ScatterElements" && v < 11) {
    if (job.string_attribute("reduction", "none") != "none") return job.fail("reductions");
    erase(node, "reduction");
    node.op_type = "Scatter";
  }
  if (op == "DepthToSpace" && v < 11 && job.string_attribute("mode", "DCR") != "DCR") return job.fail("mode 'CRD'");
  return true;
}

}  // namespace saturate::canonical
