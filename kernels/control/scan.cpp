// Scan (ONNX Operators: Scan, versions 8 with a batch axis, 9 and later without).
#include <algorithm>

#include "kernels/control/util.h"
#include "kernels/tensor/util.h"

namespace saturate {

ScanOutputs::ScanOutputs(const KernelContext& ctx, const Graph& body, std::size_t first) : ctx_(ctx), body_(body), first_(first) {
  parts_.resize(body.outputs.size() > first ? body.outputs.size() - first : 0);
}

absl::Status ScanOutputs::add(const std::vector<Value>& outputs) {
  if (outputs.size() < first_ + parts_.size()) return ctx_.invalid("the body gave fewer outputs than declared");
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const Value& value = outputs[first_ + k];
    if (!value.is_tensor()) return ctx_.invalid("a scan output of the body is not a tensor");
    bytes_ += value.tensor().bytes().size() + sizeof(Tensor);
    if (bytes_ > ctx_.options.memory_limit) return absl::ResourceExhaustedError("the scan outputs of a loop are above the memory limit");
    parts_[k].push_back(value.tensor());
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ScanOutputs::stacked(std::size_t k, std::int64_t axis, bool reversed) const {
  std::vector<Tensor> parts = parts_[k];
  if (reversed) std::reverse(parts.begin(), parts.end());
  if (!parts.empty()) return stack(ctx_, parts, axis);
  const ValueType& type = body_.outputs[first_ + k].type;
  Shape dims;
  if (type.shape) {
    for (const DimSpec& d : *type.shape) {
      const auto* value = std::get_if<std::int64_t>(&d);
      dims.push_back(value == nullptr ? 0 : *value);
    }
  }
  const std::optional<int> at = normalize_axis(axis, static_cast<int>(dims.size()) + 1);
  if (!at || type.dtype == DType::kUndefined) return ctx_.invalid("a loop without turns has an output of undeclared type");
  dims.insert(dims.begin() + *at, 0);
  return ctx_.allocate(type.dtype, dims);
}

namespace {

struct ScanPlan {
  const Graph* body = nullptr;
  std::size_t states = 0, scans = 0;
  std::vector<int> in_axes;  // one per scan input
  std::vector<bool> in_reversed;
  std::vector<std::int64_t> out_axes;  // one per scan output
  std::vector<bool> out_reversed;
};

std::vector<bool> directions(const KernelContext& ctx, std::string_view name, std::size_t n) {
  const std::vector<std::int64_t> given = ctx.attr_ints(name);
  std::vector<bool> out(n, false);
  for (std::size_t i = 0; i < std::min(n, given.size()); ++i) out[i] = given[i] != 0;
  return out;
}

// One pass over `length` elements of the scan inputs; returns final states and stacked outputs.
Outputs run_scan(KernelContext& ctx, const ScanPlan& plan, std::vector<Value> states, const std::vector<Tensor>& scanned,
                 std::int64_t length) {
  ScanOutputs results(ctx, *plan.body, plan.states);
  for (std::int64_t turn = 0; turn < length; ++turn) {
    std::vector<Value> inputs = states;
    for (std::size_t i = 0; i < plan.scans; ++i) {
      auto slice = select(ctx, scanned[i], plan.in_axes[i], plan.in_reversed[i] ? length - 1 - turn : turn);
      if (!slice.ok()) return slice.status();
      inputs.emplace_back(*std::move(slice));
    }
    Outputs out = ctx.host.run_graph(*plan.body, inputs);
    if (!out.ok()) return out;
    if (const absl::Status added = results.add(*out); !added.ok()) return added;
    states.assign(out->begin(), out->begin() + static_cast<std::ptrdiff_t>(plan.states));
  }
  for (std::size_t k = 0; k < results.size(); ++k) {
    auto stacked = results.stacked(k, plan.out_axes[k], plan.out_reversed[k]);
    if (!stacked.ok()) return stacked.status();
    states.emplace_back(*std::move(stacked));
  }
  return states;
}

absl::Status fill_plan(const KernelContext& ctx, ScanPlan& plan, std::size_t first) {
  plan.body = ctx.attr_g("body");
  const std::int64_t scans = ctx.attr_i("num_scan_inputs", 0);
  if (plan.body == nullptr) return ctx.invalid("the body is missing");
  if (scans <= 0 || first + static_cast<std::size_t>(scans) > ctx.inputs.size())
    return ctx.invalid("num_scan_inputs does not fit the inputs");
  plan.scans = static_cast<std::size_t>(scans);
  plan.states = ctx.inputs.size() - first - plan.scans;
  if (plan.body->inputs.size() != plan.states + plan.scans || plan.body->outputs.size() < plan.states)
    return ctx.invalid("the body does not fit the inputs");
  for (std::size_t i = first + plan.states; i < ctx.inputs.size(); ++i) {
    if (!ctx.is_tensor(i)) return ctx.invalid("a scan input is not a tensor");
  }
  const std::size_t results = plan.body->outputs.size() - plan.states;
  plan.in_axes.assign(plan.scans, 0);
  plan.out_axes.assign(results, 0);
  plan.in_reversed = directions(ctx, first == 1 ? "directions" : "scan_input_directions", plan.scans);
  plan.out_reversed = directions(ctx, "scan_output_directions", results);
  return absl::OkStatus();
}

// Version 8: every input has a batch axis in front; inputs[0] may say how long each batch's sequence is.
Outputs scan_batched(KernelContext& ctx) {
  ScanPlan plan;
  if (const absl::Status s = fill_plan(ctx, plan, 1); !s.ok()) return s;
  const Tensor& lead = ctx.tensor(1 + plan.states);
  if (lead.rank() < 2) return ctx.invalid("a scan input lacks its batch or sequence axis");
  const std::int64_t batch = lead.dims()[0], length = lead.dims()[1];
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), length);
  if (ctx.has_input(0)) {
    auto given = int_values(ctx, ctx.tensor(0));
    if (!given.ok()) return given.status();
    if (given->size() != lengths.size()) return ctx.invalid("sequence_lens has another length than the batch");
    lengths = *std::move(given);
  }
  std::vector<std::vector<Tensor>> results(plan.body->outputs.size());
  for (std::int64_t b = 0; b < batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > length) return ctx.invalid("a sequence length is out of range");
    std::vector<Value> states;
    std::vector<Tensor> scanned;
    for (std::size_t i = 1; i < ctx.inputs.size(); ++i) {
      const Tensor& t = ctx.tensor(i);
      const bool is_scan = i > plan.states;
      if (t.rank() < (is_scan ? 2 : 1) || t.dims()[0] != batch || (is_scan && t.dims()[1] != length))
        return ctx.invalid("the inputs differ in batch or length");
      auto one = select(ctx, t, 0, b);
      if (!one.ok()) return one.status();
      if (is_scan)
        scanned.push_back(*std::move(one));
      else
        states.emplace_back(*std::move(one));
    }
    Outputs out = run_scan(ctx, plan, std::move(states), scanned, lengths[b]);
    if (!out.ok()) return out;
    for (std::size_t k = 0; k < out->size(); ++k) {
      Tensor t = (*out)[k].tensor();
      if (k >= plan.states && lengths[b] < length) {  // shorter sequences are filled up with zeros
        Shape dims = t.dims();
        dims[0] = length;
        Moving moving(ctx, t.dtype());
        auto to = moving.make(dims);
        if (!to.ok()) return to.status();
        std::fill_n(*to, product(dims) * moving.unit(), std::byte{0});
        copy_strided(ctx, moving.unit(), t.dims(), {moving.units(t), strides_of(t.dims())}, {*to, strides_of(dims)});
        auto filled = moving.take();
        if (!filled.ok()) return filled.status();
        t = *std::move(filled);
      }
      results[k].push_back(std::move(t));
    }
  }
  std::vector<Value> out;
  for (const auto& parts : results) {
    auto whole = stack(ctx, parts, 0);
    if (!whole.ok()) return whole.status();
    out.emplace_back(*std::move(whole));
  }
  return out;
}

}  // namespace

Outputs scan(KernelContext& ctx) {
  if (ctx.opset < 9) return scan_batched(ctx);
  ScanPlan plan;
  if (const absl::Status s = fill_plan(ctx, plan, 0); !s.ok()) return s;
  const std::vector<std::int64_t> in_axes = ctx.attr_ints("scan_input_axes"), out_axes = ctx.attr_ints("scan_output_axes");
  for (std::size_t k = 0; k < std::min(out_axes.size(), plan.out_axes.size()); ++k) plan.out_axes[k] = out_axes[k];
  std::vector<Tensor> scanned;
  std::optional<std::int64_t> length;
  for (std::size_t i = 0; i < plan.scans; ++i) {
    const Tensor& t = ctx.tensor(plan.states + i);
    const std::optional<int> axis = normalize_axis(i < in_axes.size() ? in_axes[i] : 0, t.rank());
    if (!axis) return ctx.invalid("a scan axis is out of range");
    plan.in_axes[i] = *axis;
    if (length && *length != t.dims()[*axis]) return ctx.invalid("the scan inputs differ in length");
    length = t.dims()[*axis];
    scanned.push_back(t);
  }
  std::vector<Value> states(ctx.inputs.begin(), ctx.inputs.begin() + static_cast<std::ptrdiff_t>(plan.states));
  return run_scan(ctx, plan, std::move(states), scanned, *length);
}

}  // namespace saturate
