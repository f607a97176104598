#include "rules/values/counting.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/values/answers.h"
#include "rules/values/masks.h"

namespace saturate {
namespace {

constexpr std::size_t kMostCountingClasses = 64;

// A tensor, or what is at one place of its last axis: element e is `first + e * step` of the tensor.
struct Part {
  std::span<const std::int64_t> dims;
  std::int64_t first = 0, step = 1;
};

// Element e is `from + e / below % size`.
bool counts(const Tensor& t, const Part& part, std::int64_t from, std::int64_t below, std::int64_t size) {
  const std::int64_t all = std::accumulate(part.dims.begin(), part.dims.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t e = 0; e < all; ++e)
    if (element_as_int(t, part.first + e * part.step) != from + e / below % size) return false;
  return true;
}

std::optional<Counting> counts_along(DimTable& dims, const Tensor& t, const Part& part) {
  const auto from = t.size() > 0 ? element_as_int(t, part.first) : std::nullopt;
  if (!from) return std::nullopt;
  std::int64_t below = 1;
  for (std::size_t axis = part.dims.size(); axis-- > 0; below *= part.dims[axis])
    if (counts(t, part, *from, below, part.dims[axis])) return Counting{axis, dims.constant(*from)};
  return counts(t, part, *from, 1, 1) ? std::optional(Counting{std::nullopt, dims.constant(*from)}) : std::nullopt;
}

class CountingSearch {
 public:
  explicit CountingSearch(Look& look) : look_(look), g_(look.graph()), e_(g_.egraph()), dims_(g_.dims()) {}

  std::optional<Counting> along(Id id) {
    id = e_.find(id);
    return found_.of(id, [&] { return look_at(id); });
  }

  std::vector<Counting> parts(Id id) {
    const Facts& f = look_.facts(id);
    if (!is_table(f) || !dims_.value(f.shape->back())) return {};
    const std::int64_t count = *dims_.value(f.shape->back());
    if (f.constant) return parts_of_constant(id, count);
    for (NodeId n : look_.nodes(id)) {
      const ENode node = e_.node(n);
      if (std::ssize(node.children) == count && joins_last(node, f)) return all_of(node.children, f);
    }
    return count == 1 ? all_of(std::array{id}, f) : std::vector<Counting>{};
  }

 private:
  static bool is_table(const Facts& f) {
    return f.kind == Facts::Kind::kTensor && (f.dtype == DType::kInt64 || f.dtype == DType::kInt32) && f.shape && !f.shape->empty();
  }

  std::optional<Counting> look_at(Id id) {
    const Facts& f = look_.facts(id);
    if (!is_table(f)) return std::nullopt;
    if (f.counts_from) return Counting{f.shape->size() - 1, *f.counts_from};
    if (f.constant) {
      const auto value = g_.value(id, kMostMaskBytes);
      return value ? counts_along(dims_, *value, Part{value->dims()}) : std::nullopt;
    }
    for (NodeId n : look_.nodes(id))
      if (const auto found = of_node(e_.node(n), *f.shape)) return found;
    return std::nullopt;
  }

  std::optional<Counting> of_node(const ENode& node, const std::vector<Dim>& out) {
    const OpKey& key = g_.key(node.op);
    if (!key.domain.empty() || node.children.empty()) return std::nullopt;
    const bool view = has(Trait::kView, key), turns = key.op_type == "Transpose";
    if (!view && !turns && key.op_type != "Expand" && key.op_type != "Cast") return std::nullopt;
    const Facts& x = look_.facts(node.children[0]);
    const auto inner = is_table(x) ? along(node.children[0]) : std::nullopt;
    if (!inner || !inner->axis) return inner;
    const std::size_t at = *inner->axis;
    const auto axis = turns ? turned(key, at) : view ? viewed(*x.shape, at, out) : kept_at_the_end(*x.shape, at, out);
    return axis ? std::optional(Counting{axis, inner->from}) : std::nullopt;
  }

  static std::optional<std::size_t> turned(const OpKey& key, std::size_t axis) {
    const Attribute* perm = find_attribute(key.attributes, "perm");
    if (!perm) return std::nullopt;
    const std::vector<std::int64_t> axes = perm->ints();
    const auto it = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis));
    return it == axes.end() ? std::nullopt : std::optional(static_cast<std::size_t>(it - axes.begin()));
  }

  // Elements in the same order: the axis stays where it and all dims before it are the same, but for ones.
  std::optional<std::size_t> viewed(const std::vector<Dim>& from, std::size_t axis, const std::vector<Dim>& to) {
    const auto skip_ones = [&](std::size_t at) {
      while (at < to.size() && dims_.value(to[at]) == 1) ++at;
      return at;
    };
    std::size_t at = 0;
    for (std::size_t i = 0; i <= axis; ++i) {
      if (dims_.value(from[i]) == 1) continue;
      at = skip_ones(at);
      if (at == to.size() || !dims_.equal(from[i], to[at])) return std::nullopt;
      if (i == axis) return at;
      ++at;
    }
    return std::nullopt;
  }

  // An axis of one element that is widened counts no more.
  std::optional<std::size_t> kept_at_the_end(const std::vector<Dim>& from, std::size_t axis, const std::vector<Dim>& to) {
    if (to.size() < from.size()) return std::nullopt;
    const std::size_t place = axis + to.size() - from.size();
    return dims_.equal(from[axis], to[place]) ? std::optional(place) : std::nullopt;
  }

  std::vector<Counting> parts_of_constant(Id id, std::int64_t count) {
    const auto value = g_.value(id, kMostMaskBytes);
    std::vector<Counting> out;
    for (std::int64_t k = 0; value && k < count; ++k) {
      const auto part = counts_along(dims_, *value, Part{std::span(value->dims()).first(value->dims().size() - 1), k, count});
      if (!part) return {};
      out.push_back(*part);
    }
    return out;
  }

  bool joins_last(const ENode& node, const Facts& out) {
    const OpKey& key = g_.key(node.op);
    const Attribute* axis = key.domain.empty() && key.op_type == "Concat" ? find_attribute(key.attributes, "axis") : nullptr;
    return axis && (axis->i() == -1 || axis->i() == out.rank() - 1);
  }

  // Of parts of one element along the last axis of the table.
  std::vector<Counting> all_of(std::span<const Id> parts, const Facts& table) {
    std::vector<Counting> out;
    for (const Id id : parts) {
      const auto part = along(id);
      if (!part || part->axis == table.shape->size() - 1) return {};
      out.push_back(*part);
    }
    return out;
  }

  Look& look_;
  const OnnxEGraph& g_;
  const EGraph& e_;
  DimTable& dims_;
  FoundOnce<Counting, kMostCountingClasses> found_;
};

}  // namespace

std::optional<Counting> counts_along(Look& look, Id id) { return CountingSearch(look).along(id); }

std::optional<Counting> counting(const OnnxEGraph& g, Id id) {
  return Answers<CountingSearch, Counting>::of(g, id, [id](Look& look) { return CountingSearch(look).along(id); });
}

std::vector<Counting> counting_parts(const OnnxEGraph& g, Id id) {
  const auto found = Answers<CountingSearch, std::vector<Counting>>::of(g, id, [id](Look& look) {
    std::vector<Counting> parts = CountingSearch(look).parts(id);
    return parts.empty() ? std::nullopt : std::optional(std::move(parts));
  });
  return found.value_or(std::vector<Counting>{});
}

}  // namespace saturate
