// One spelling of places along an axis whose size is known: counted from the front, within it.
#include <algorithm>
#include <limits>

#include "onnx_bridge/opsets/canonical_util.h"

namespace saturate {

std::int64_t place_within(std::int64_t at, std::int64_t size) {
  return std::clamp<std::int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
}

std::optional<std::vector<std::int64_t>> sizes_of_parts(std::int64_t size, std::int64_t parts) {
  if (parts < 1) return std::nullopt;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), (size + parts - 1) / parts);
  sizes.back() = size - sizes[0] * (parts - 1);
  return sizes.back() < 0 ? std::nullopt : std::optional(std::move(sizes));
}

}  // namespace saturate

namespace saturate::canonical {
namespace {

using Ints = std::vector<std::int64_t>;

struct Cut {
  Ints starts, ends, axes, steps;
};

std::optional<Cut> cut_of(const Job& job, std::int64_t rank) {
  const auto starts = job.ints(1), ends = job.ints(2);
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  Cut cut{*starts, *ends, {}, Ints(starts->size(), 1)};
  for (std::size_t i = 0; i < starts->size(); ++i) cut.axes.push_back(static_cast<std::int64_t>(i));
  for (const auto& [place, list] : {std::pair<std::size_t, Ints*>{3, &cut.axes}, {4, &cut.steps}}) {
    if (!job.has(place)) continue;
    const auto given = job.ints(place);
    if (!given || given->size() != list->size()) return std::nullopt;
    *list = *given;
  }
  for (std::int64_t& a : cut.axes) {
    if (a < -rank || a >= rank) return std::nullopt;
    if (a < 0) a += rank;
  }
  return cut;
}

// What ONNX Runtime leaves out at load, for it says so whatever the size.
bool takes_all(std::int64_t start, std::int64_t end) { return start == 0 && end >= std::numeric_limits<std::int32_t>::max(); }

void within_axes(Job& job, Cut& cut) {
  for (std::size_t i = 0; i < cut.axes.size(); ++i) {
    const auto size = job.dim(0, static_cast<int>(cut.axes[i]));
    if (!size || cut.steps[i] <= 0 || (cut.steps[i] == 1 && takes_all(cut.starts[i], cut.ends[i]))) continue;
    cut.starts[i] = place_within(cut.starts[i], *size);
    cut.ends[i] = std::max(cut.starts[i], place_within(cut.ends[i], *size));
  }
}

}  // namespace

void normalize_slice(Job& job, int rank) {
  auto cut = cut_of(job, rank);
  if (!cut || job.dtype(1) != DType::kInt64) return;
  const Cut given = *cut;
  within_axes(job, *cut);
  if (cut->starts != given.starts) job.set_input(1, job.constant("starts", cut->starts));
  if (cut->ends != given.ends) job.set_input(2, job.constant("ends", cut->ends));
  if (!job.has(3)) job.set_input(3, job.constant("axes", cut->axes));
  if (std::all_of(cut->steps.begin(), cut->steps.end(), [](std::int64_t s) { return s == 1; }) && job.has(4)) job.set_input(4, "");
}

void normalize_gather(Job& job) {
  const Facts* f = job.facts(1);
  const auto size = job.dim(0, static_cast<int>(job.int_attribute("axis", 0)));
  auto places = job.ints(1);
  if (!f || !f->value || !size || !places) return;
  const Ints given = *places;
  for (std::int64_t& p : *places) {
    if (p < -*size || p >= *size) return;
    if (p < 0) p += *size;
  }
  if (*places == given) return;
  job.set_input(1, job.constant("indices", Tensor::of<std::int64_t>(DType::kInt64, f->value->dims(), *places)));
}

void normalize_split(Job& job) {
  const auto size = job.dim(0, static_cast<int>(job.int_attribute("axis", 0)));
  const std::int64_t parts = job.int_attribute("num_outputs", 0);
  if (!size || job.has(1) || parts != static_cast<std::int64_t>(job.node.outputs.size())) return;
  const auto sizes = sizes_of_parts(*size, parts);
  if (!sizes) return;
  job.set_input(1, job.constant("sizes", *sizes));
  erase(job.node, "num_outputs");
}

}  // namespace saturate::canonical
