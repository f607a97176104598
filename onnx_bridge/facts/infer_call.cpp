#include "onnx_bridge/facts/infer_call.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "onnx_bridge/model/max_rank.h"

namespace saturate::inference {

namespace {
const Facts& absent_facts() {
  static const Facts absent = [] {
    Facts f;
    f.kind = Facts::Kind::kAbsent;
    return f;
  }();
  return absent;
}
}  // namespace

Call::Call(const Node& node_in, std::span<const Facts* const> inputs_in, int num_outputs, InferContext& context_in)
    : node(node_in), inputs(inputs_in), context(context_in), dims(context_in.dims), out(static_cast<std::size_t>(num_outputs)) {}

void Call::fail(std::string_view what) {
  if (status.ok()) status = absl::FailedPreconditionError(absl::StrCat(node.op_type, ": ", std::string(what)));
}

void Call::fail_dtype(std::string_view what) {
  if (status.ok()) status = absl::InvalidArgumentError(absl::StrCat(node.op_type, ": ", std::string(what)));
}

const Facts& Call::in(std::size_t i) const { return i < inputs.size() && inputs[i] ? *inputs[i] : absent_facts(); }

Dim Call::dim(std::size_t i, int axis) {
  const DimVector& all = shape(i);
  const auto rank = static_cast<std::int64_t>(all.size()), at = axis < 0 ? axis + rank : axis;
  if (at >= 0 && at < rank) return all[static_cast<std::size_t>(at)];
  fail(absl::StrCat("input ", i, " has rank ", rank, ", without an axis ", axis));
  return Dim{};
}

const DimVector& Call::shape(std::size_t i) const {
  static const DimVector none;
  return in(i).shape ? *in(i).shape : none;
}

std::optional<DimVector> Call::content(std::size_t i) {
  const Facts& f = in(i);
  if (f.content) return f.content;
  if (!f.value || f.value->rank() > 1 || f.value->size() > kMaxContent) return std::nullopt;
  if (f.value->dtype() != DType::kInt64 && f.value->dtype() != DType::kInt32) return std::nullopt;
  DimVector all;
  for (std::int64_t k = 0; k < f.value->size(); ++k) all.push_back(constant(*element_as_int(*f.value, k)));
  return all;
}

std::optional<Dim> Call::scalar(std::size_t i) {
  if (auto c = content(i); c && c->size() == 1) return c->front();
  if (auto v = ints(i); v && v->size() == 1) return constant(v->front());
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> Call::ints(std::size_t i) const {
  const Facts& f = in(i);
  std::vector<std::int64_t> all;
  if (f.value && is_integer(f.value->dtype()) && f.value->size() <= 1 << 16) {
    for (std::int64_t k = 0; k < f.value->size(); ++k) {
      auto v = element_as_int(*f.value, k);
      if (!v) return std::nullopt;
      all.push_back(*v);
    }
    return all;
  }
  if (!f.content) return std::nullopt;
  for (Dim d : *f.content) {
    auto v = dims.value(d);
    if (!v) return std::nullopt;
    all.push_back(*v);
  }
  return all;
}

std::optional<std::vector<double>> Call::numbers(std::size_t i) const {
  const Facts& f = in(i);
  std::vector<double> all;
  if (f.value && f.value->size() <= kMaxContent) {
    for (std::int64_t k = 0; k < f.value->size(); ++k) {
      auto v = element_as_double(*f.value, k);
      if (!v) return std::nullopt;
      all.push_back(*v);
    }
    return all;
  }
  auto whole = ints(i);
  if (!whole) return std::nullopt;
  all.assign(whole->begin(), whole->end());
  return all;
}

std::optional<std::vector<bool>> Call::bools(std::size_t i) const {
  const Facts& f = in(i);
  if (!f.value || f.value->dtype() != DType::kBool || f.value->size() > kMaxContent) return std::nullopt;
  std::vector<bool> all;
  for (bool b : f.value->span<bool>()) all.push_back(b);
  return all;
}

std::optional<std::int64_t> Call::length(std::size_t i) const {
  if (in(i).content) return static_cast<std::int64_t>(in(i).content->size());
  if (!has_rank(i) || rank(i) != 1) return std::nullopt;
  return dims.value(shape(i).front());
}

const Attribute* Call::attribute(std::string_view name) const { return find_attribute(node.attributes, name); }

std::int64_t Call::int_attribute(std::string_view name, std::int64_t otherwise) const {
  const Attribute* a = attribute(name);
  const auto* v = a ? std::get_if<std::int64_t>(&a->value) : nullptr;
  return v ? *v : otherwise;
}

std::string Call::string_attribute(std::string_view name, std::string_view otherwise) const {
  const Attribute* a = attribute(name);
  const auto* v = a ? std::get_if<std::string>(&a->value) : nullptr;
  return v ? *v : std::string(otherwise);
}

std::optional<std::vector<std::int64_t>> Call::ints_attribute(std::string_view name) const {
  const Attribute* a = attribute(name);
  const auto* v = a ? std::get_if<std::vector<std::int64_t>>(&a->value) : nullptr;
  return v ? std::optional(*v) : std::nullopt;
}

DimVector Call::fresh_shape(int output, int rank) {
  DimVector shape;
  for (int a = 0; a < rank; ++a) shape.push_back(fresh(output, a));
  return shape;
}

Dim Call::product(std::span<const Dim> all) { return dims.product(all); }

std::optional<int> Call::normal_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    fail(absl::StrCat("axis ", axis, " is outside a tensor of rank ", rank));
    return std::nullopt;
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::optional<std::vector<int>> Call::normal_axes(const std::vector<std::int64_t>& axes, int rank) {
  std::vector<int> all;
  for (std::int64_t a : axes) {
    auto n = normal_axis(a, rank);
    if (!n) return std::nullopt;
    all.push_back(*n);
  }
  return all;
}

std::optional<DimVector> Call::broadcast(const DimVector& a, const DimVector& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  DimVector shape(rank);
  for (std::size_t k = 0; k < rank; ++k) {
    const bool in_a = k + a.size() >= rank, in_b = k + b.size() >= rank;
    if (!in_a || !in_b) {
      shape[k] = in_a ? a[k + a.size() - rank] : b[k + b.size() - rank];
      continue;
    }
    const Dim x = a[k + a.size() - rank], y = b[k + b.size() - rank];
    auto d = dims.broadcast(x, y);
    if (!d) {
      fail(absl::StrCat("dims ", dims.to_string(x), " and ", dims.to_string(y), " do not broadcast"));
      return std::nullopt;
    }
    shape[k] = *d;
  }
  return shape;
}

std::optional<DimVector> Call::broadcast_inputs(std::span<const std::size_t> which) {
  DimVector shape;
  for (std::size_t i : which) {
    if (!has_rank(i)) return std::nullopt;
    auto next = broadcast(shape, this->shape(i));
    if (!next) return std::nullopt;
    shape = *std::move(next);
  }
  return shape;
}

bool Call::require_equal(Dim a, Dim b, std::string_view what) {
  if (dims.equal(a, b)) return true;
  if (dims.differ(a, b) || !dims.unify(a, b)) {
    fail(absl::StrCat(std::string(what), ": ", dims.to_string(a), " and ", dims.to_string(b)));
    return false;
  }
  return true;
}

bool Call::require_rank(std::size_t i, int rank) {
  if (!has_rank(i)) return false;
  if (this->rank(i) != rank) fail(absl::StrCat("input ", i, " has rank ", this->rank(i), ", not ", rank));
  return this->rank(i) == rank;
}

void Call::set_shape(int o, std::optional<DimVector> shape) {
  if (!wants(o)) return;
  Facts& f = out[static_cast<std::size_t>(o)];
  f.kind = Facts::Kind::kTensor;
  if (shape && shape->size() > kMaxRank) return fail(absl::StrCat("an output of rank ", shape->size()));
  if (shape)
    for (Dim d : *shape) {
      if (auto v = value(d); v && *v < 0) {
        fail(absl::StrCat("an output of ", *v, " elements along an axis"));
        return;
      }
    }
  f.shape = std::move(shape);
}

void Call::set_dtype(int o, DType dtype) {
  if (!wants(o)) return;
  out[static_cast<std::size_t>(o)].kind = Facts::Kind::kTensor;
  out[static_cast<std::size_t>(o)].dtype = dtype;
}

void Call::set(int o, DType dtype, std::optional<DimVector> shape) {
  set_shape(o, std::move(shape));
  set_dtype(o, dtype);
}

void Call::set_like(int o, std::size_t i) {
  if (in(i).kind == Facts::Kind::kTensor) set(o, in(i).dtype, in(i).shape);
}

void Call::set_content(int o, DimVector content) {
  if (!wants(o) || content.size() > static_cast<std::size_t>(kMaxContent)) return;
  Facts& f = out[static_cast<std::size_t>(o)];
  if (f.dtype != DType::kInt64 && f.dtype != DType::kInt32) return;
  if (!f.shape || f.shape->size() > 1) return;
  if (f.shape->empty() ? content.size() != 1 : value(f.shape->front()) != static_cast<std::int64_t>(content.size())) return;
  if (f.dtype == DType::kInt32)
    for (Dim d : content)
      if (auto v = value(d); v && (*v > std::numeric_limits<std::int32_t>::max() || *v < std::numeric_limits<std::int32_t>::min())) return;
  f.content = std::move(content);
}

}  // namespace saturate::inference
