#include "rules/values/triangles.h"

#include <algorithm>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/values/answers.h"
#include "rules/values/counting.h"
#include "rules/values/masks.h"

namespace saturate {
namespace {

constexpr std::size_t kMostClasses = 64;

std::optional<std::int64_t> triangle_of_matrix(const Tensor& t, std::int64_t first, std::int64_t rows, std::int64_t columns) {
  std::optional<std::int64_t> offset;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t ones = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto x = element_as_double(t, first + i * columns + j);
      if (!x || (*x != 0 && *x != 1) || (*x == 1 && ones < j)) return std::nullopt;
      ones += *x == 1;
    }
    if (offset && std::clamp<std::int64_t>(i + *offset + 1, 0, columns) != ones) return std::nullopt;
    if (offset || ones == 0) continue;
    if (i > 0 && ones != 1) return std::nullopt;  // after rows without any
    offset = ones - 1 - i;
  }
  return offset;  // none where there are only zeros, which say nothing
}

class TriangleSearch {
 public:
  explicit TriangleSearch(Look& look) : look_(look), g_(look.graph()), e_(g_.egraph()), dims_(g_.dims()) {}

  std::optional<Dim> triangle(Id id) {
    id = e_.find(id);
    return found_.of(id, [&] { return look_at(id); });
  }

 private:
  std::optional<Dim> look_at(Id id) {
    const Facts& f = look_.facts(id);
    if (f.kind != Facts::Kind::kTensor || !f.shape || f.rank() < 2) return std::nullopt;
    if (f.constant) {
      const auto value = g_.value(id, kMostMaskBytes);
      const auto n = value ? lower_triangle(*value) : std::nullopt;
      return n ? std::optional(dims_.constant(*n)) : std::nullopt;
    }
    for (NodeId n : look_.nodes(id))
      if (const auto found = of_node(e_.node(n), f)) return found;
    return std::nullopt;
  }

  std::optional<Dim> of_node(const ENode& node, const Facts& out) {
    const OpKey& key = g_.key(node.op);
    if (!key.domain.empty() || node.children.empty()) return std::nullopt;
    const std::string& op = key.op_type;
    if (op == "Cast") return triangle(node.children[0]);
    if (op == "Reshape" || op == "Expand") return same_matrices(node.children[0], out) ? triangle(node.children[0]) : std::nullopt;
    if (op == "Slice") return sliced(node);
    if (op == "Trilu") return kept_part(node, key);
    if (op == "GreaterOrEqual") return compared(node.children[0], node.children[1], out, 0);
    if (op == "LessOrEqual") return compared(node.children[1], node.children[0], out, 0);
    if (op == "Greater") return compared(node.children[0], node.children[1], out, 1);
    if (op == "Less") return compared(node.children[1], node.children[0], out, 1);
    return std::nullopt;
  }

  bool same_matrices(Id x, const Facts& out) {
    const Facts& f = look_.facts(x);
    if (!f.shape || f.rank() < 2) return false;
    for (std::size_t back = 1; back <= 2; ++back)
      if (!dims_.equal((*f.shape)[f.shape->size() - back], (*out.shape)[out.shape->size() - back])) return false;
    return true;
  }

  // Rows from s on: n + s; columns from s on: n - s. What a Slice leaves at the end does not matter.
  std::optional<Dim> sliced(const ENode& node) {
    const Facts& x = look_.facts(node.children[0]);
    const auto starts = content(node.children[1]), axes = node.children.size() > 3 ? content(node.children[3]) : std::nullopt;
    if (!x.shape || !starts || !axes || starts->size() != axes->size()) return std::nullopt;
    if (node.children.size() > 4) {
      const auto steps = content(node.children[4]);
      if (!steps || !std::all_of(steps->begin(), steps->end(), [&](Dim d) { return dims_.value(d) == 1; })) return std::nullopt;
    }
    auto offset = triangle(node.children[0]);
    for (std::size_t k = 0; offset && k < axes->size(); ++k) {
      const auto axis = dims_.value((*axes)[k]);
      if (!axis || !dims_.non_negative((*starts)[k])) return std::nullopt;
      const std::int64_t back = *axis < 0 ? -*axis : x.rank() - *axis;
      if (back == 2) offset = dims_.add(*offset, (*starts)[k]);
      if (back == 1) offset = dims_.sub(*offset, (*starts)[k]);
    }
    return offset;
  }

  // Trilu(ones, upper = 0, k)
  std::optional<Dim> kept_part(const ENode& node, const OpKey& key) {
    const Attribute* upper = find_attribute(key.attributes, "upper");
    if (!upper || upper->i() != 0 || !is_ones(node.children[0], 4)) return std::nullopt;
    if (node.children.size() < 2) return dims_.constant(0);
    const auto k = content(node.children[1]);
    return k && k->size() == 1 ? std::optional(k->front()) : std::nullopt;
  }

  bool is_ones(Id id, int depth) {
    const Facts& f = look_.facts(id);
    if (f.constant) {
      const auto value = g_.value(id, kMostMaskBytes);
      for (std::int64_t i = 0; value && i < value->size(); ++i)
        if (element_as_double(*value, i) != 1) return false;
      return value && value->size() > 0;
    }
    for (NodeId n : look_.nodes(id)) {
      const ENode node = e_.node(n);
      const OpKey& key = g_.key(node.op);
      if (key.domain.empty() && key.op_type == "ConstantOfShape") {
        const Attribute* value = find_attribute(key.attributes, "value");
        if (value && element_as_double(value->t(), 0) == 1) return true;
      } else if (key.domain.empty() && depth > 0 && (key.op_type == "Cast" || has(Trait::kMovement, key))) {
        if (is_ones(node.children[0], depth - 1)) return true;
      }
    }
    return false;
  }

  // rows >= columns (+ gap): both count, rows along the axis before the last, columns along the last.
  std::optional<Dim> compared(Id rows, Id columns, const Facts& out, std::int64_t gap) {
    const auto r = counts_down(rows);
    const Facts& c = look_.facts(columns);
    if (!r || !c.counts_from || !c.shape || c.shape->empty()) return std::nullopt;
    const auto& down = *look_.facts(rows).shape;  // one row that broadcasts to many does not count down them
    if (!dims_.equal(down[down.size() - 2], (*out.shape)[out.shape->size() - 2])) return std::nullopt;
    return dims_.sub(dims_.sub(*r, *c.counts_from), dims_.constant(gap));
  }

  // Where element [..., i, 0] is n + i.
  std::optional<Dim> counts_down(Id id) {
    const Facts& f = look_.facts(id);
    if (!f.shape || f.rank() < 2 || dims_.value(f.shape->back()) != 1) return std::nullopt;
    const auto counting = counts_along(look_, id);
    if (!counting || !counting->axis) return std::nullopt;
    const std::size_t back = f.shape->size() - *counting->axis;
    const bool single = back == 1 && dims_.value((*f.shape)[f.shape->size() - 2]) == 1;  // one element counts along any axis
    return back == 2 || single ? std::optional(counting->from) : std::nullopt;
  }

  std::optional<std::vector<Dim>> content(Id id) { return look_.facts(id).content; }

  Look& look_;
  const OnnxEGraph& g_;
  const EGraph& e_;
  DimTable& dims_;
  FoundOnce<Dim, kMostClasses> found_;
};

}  // namespace

std::optional<std::int64_t> lower_triangle(const Tensor& t) {
  if (t.rank() < 2 || t.size() == 0) return std::nullopt;
  const std::int64_t columns = t.dims().back(), rows = t.dims()[t.dims().size() - 2];
  std::optional<std::int64_t> found;
  for (std::int64_t first = 0; first < t.size(); first += rows * columns) {
    const auto n = triangle_of_matrix(t, first, rows, columns);
    if (!n || (found && *found != *n)) return std::nullopt;
    found = n;
  }
  return found;
}

std::optional<Dim> lower_triangle(const OnnxEGraph& g, Id id) {
  return Answers<TriangleSearch, Dim>::of(g, id, [id](Look& look) { return TriangleSearch(look).triangle(id); });
}

}  // namespace saturate
