// Parts of the last axis in their many spellings, and constants that hold a pattern: what the rotary embedding is spelled with.
#include <algorithm>
#include <array>
#include <cstring>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/kit.h"
#include "rules/native/views.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

using namespace native;

// A part of the last axis, as saturate.part says it.
struct Part {
  std::int64_t offset, step, count;
};

Id make_part(const Views& v, Id x, Part p) {
  return v.g.add(
      make_key("saturate", "part", {Attribute::of("count", p.count), Attribute::of("offset", p.offset), Attribute::of("step", p.step)}, 1,
               std::nullopt),
      std::array{x});
}

Id make_last(const Views& v, std::string_view op, bool interleaved, std::vector<Id> children) {
  return v.g.add(make_key("saturate", op, {Attribute::of("interleaved", std::int64_t{interleaved})}, 1, std::nullopt), children);
}

// The size of the last axis of a floating tensor of at least two dims; rotary embeddings have no others.
std::optional<std::int64_t> last_of(const Views& v, Id id) {
  const Facts& f = v.g.facts(id);
  if (f.kind != Facts::Kind::kTensor || !is_floating(f.dtype) || !f.shape || f.shape->size() < 2) return std::nullopt;
  return v.g.dims().value(f.shape->back());
}

// Slice along the last axis alone.
void slice_is_part(const Views& v, const Match& m, Unions& unions, std::size_t inputs) {
  const Id x = m.classes[0];
  const auto last = last_of(v, x), count = last_of(v, m.root());
  if (!last || !count || !useful(*count != 0 && *count != *last && !v.g.facts(x).constant)) return;
  const auto starts = v.ints(m.classes[1]);
  const auto axes = inputs > 3 ? v.ints(m.classes[3]) : std::nullopt,
             steps = inputs > 4 ? v.ints(m.classes[4]) : std::vector<std::int64_t>{1};
  const auto rank = static_cast<std::int64_t>(v.shape(x)->size());
  if (!starts || !axes || !steps || starts->empty() || axes->empty() || steps->empty()) return;
  if (!v.guard("the last axis alone is cut", axes->size() == 1 && ((*axes)[0] == rank - 1 || (*axes)[0] == -1))) return;
  if (inputs > 4 && !v.guard("the step leads forward", (*steps)[0] >= 1)) return;
  const std::int64_t start = (*starts)[0] < 0 ? std::max<std::int64_t>((*starts)[0] + *last, 0) : (*starts)[0];
  unions.emplace_back(m.root(), make_part(v, x, {start, (*steps)[0], *count}));
}

// Gather of ascending, evenly spaced places of the last axis; or of a permutation that swaps the halves, or the members of each pair:
// a rotation up to signs.
void gather_is_part(const Views& v, const Match& m, Unions& unions) {
  const Id x = m.classes[0];
  const auto last = last_of(v, x);
  if (!last || !useful(!v.g.facts(x).constant)) return;
  const auto axis = v.axis(m.ops[2], x);
  const Dims* places = v.shape(m.classes[1]);
  if (!axis || !places || !v.guard("the places are of the last axis", *axis + 1 == v.shape(x)->size())) return;
  auto index = v.guard("the places are a list", places->size() == 1) ? v.ints(m.classes[1]) : std::nullopt;
  if (!index || index->empty()) return;
  for (std::int64_t& i : *index) i += i < 0 ? *last : 0;
  if (!std::ranges::all_of(*index, [&](std::int64_t i) { return i >= 0 && i < *last; })) return;
  const auto n = static_cast<std::int64_t>(index->size());
  const std::int64_t step = n > 1 ? (*index)[1] - (*index)[0] : 1;
  bool even = step >= 1, halves = n == *last && n % 2 == 0, pairs = halves;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = (*index)[static_cast<std::size_t>(i)];
    even = even && at == (*index)[0] + i * step;
    halves = halves && at == (i + n / 2) % n;
    pairs = pairs && at == (i ^ 1);
  }
  even = v.guard("the places ascend evenly", even);
  halves = v.guard("the halves are swapped", halves);
  pairs = v.guard("the members of each pair are swapped", pairs);
  if (even && useful(n < *last)) unions.emplace_back(m.root(), make_part(v, x, {(*index)[0], step, n}));
  if (!halves && !pairs) return;
  std::vector<double> signs;
  for (std::int64_t i = 0; i < n; ++i) signs.push_back((halves ? i < n / 2 : i % 2 == 0) ? -1 : 1);
  const auto sign = tensor_of_reals(v.g.facts(x).dtype, {n}, signs);
  if (!sign.ok()) return;
  const Id rotated = make_last(v, "rotate_half", !halves, {x});
  unions.emplace_back(m.root(), v.g.add(make_key("", "Mul", {}, 1, std::nullopt), std::array{rotated, v.g.constant(*sign)}));
}

// Gather(Reshape(X, [..., k, n]), i) over the k or the n is a part of the last axis of X[..., k * n].
void gather_of_split_is_part(const Views& v, const Match& m, Unions& unions) {
  const Id x = m.classes[0];
  const Dims *from = v.shape(x), *cut = v.shape(m.classes[2]);
  const auto last = last_of(v, x);
  if (!last || !cut || !useful(!v.g.facts(x).constant) || cut->size() != from->size() + 1) return;
  if (!v.guard("the outer axes stay", v.equal(std::span(*from).first(from->size() - 1), std::span(*cut).first(from->size() - 1)))) return;
  const auto rows = v.g.dims().value((*cut)[cut->size() - 2]), columns = v.g.dims().value(cut->back());
  const Dims* place = v.shape(m.classes[3]);
  const auto index = place && v.guard("one place is taken", place->empty()) ? v.ints(m.classes[3]) : std::nullopt;
  if (!rows || !columns || !index || index->empty() || !useful(*rows >= 2 && *columns >= 2)) return;
  const auto axis = v.axis(m.ops[4], m.classes[2]);
  if (!axis || !v.guard("the place is of a new axis", *axis + 2 >= cut->size())) return;
  const bool last_place = *axis + 1 == cut->size();
  const std::int64_t size = last_place ? *columns : *rows, at = (*index)[0] < 0 ? (*index)[0] + size : (*index)[0];
  if (at < 0 || at >= size) return;
  unions.emplace_back(m.root(), make_part(v, x, last_place ? Part{at, *columns, *rows} : Part{at * *columns, 1, *columns}));
}

// Reshape(Gather(V, i)) that joins the last two axes of V, one of which is permuted by i = Gather along the joined axis.
void gather_of_pairs_joined(const Views& v, const Match& m, Unions& unions) {
  const Id x = m.classes[0];
  const Dims *from = v.shape(x), *to = v.shape(m.root());
  if (!last_of(v, x) || !last_of(v, m.root()) || !useful(!v.g.facts(x).constant) || from->size() != to->size() + 1) return;
  const std::size_t outer = to->size() - 1;
  if (!v.guard("the outer axes stay", v.equal(std::span(*from).first(outer), std::span(*to).first(outer)))) return;
  const auto rows = v.g.dims().value((*from)[outer]), columns = v.g.dims().value(from->back());
  const auto order = v.ints(m.classes[1]);
  const auto axis = v.axis(m.ops[2], x);
  if (!axis || !rows || !columns || !order || !useful(*rows * *columns <= 4096)) return;
  if (!v.guard("one of the joined axes is permuted", *axis >= outer)) return;
  const bool by_rows = *axis == outer;
  const std::int64_t size = by_rows ? *rows : *columns;
  if (static_cast<std::int64_t>(order->size()) != size || !useful(*rows == 2 || *columns == 2)) return;
  std::vector<std::int64_t> joined;
  for (std::int64_t r = 0; r < *rows; ++r)
    for (std::int64_t c = 0; c < *columns; ++c) {
      const std::int64_t at = (*order)[static_cast<std::size_t>(by_rows ? r : c)];
      if (at < -size || at >= size) return;
      const std::int64_t place = at < 0 ? at + size : at;
      joined.push_back(by_rows ? place * *columns + c : r * *columns + place);
    }
  const Dims target = *to;  // what is added moves the facts
  const Id flat = v.reshape(x, target, static_cast<int>(from->size())), index = v.g.constant(Tensor::vector_int64(joined));
  unions.emplace_back(m.root(), v.g.add(make_key("", "Gather", {Attribute::of("axis", static_cast<std::int64_t>(outer))}, 1,
                                                 static_cast<int>(target.size())),
                                        std::array{flat, index}));
}

// A row or a column of a matrix of two by two whose elements were joined and then reshaped.
void line_of_four(const Views& v, const Match& m, Unions& unions) {
  const Dims *line = v.shape(m.root()), *matrix = v.shape(m.classes[6]), *place = v.shape(m.classes[7]);
  const auto index = place && v.guard("one place is taken", place->empty()) ? v.ints(m.classes[7]) : std::nullopt;
  if (!last_of(v, m.root()) || !matrix || !index || index->empty() || matrix->size() < 3) return;
  const std::size_t rank = matrix->size();
  const auto size = [&](std::size_t i) { return v.g.dims().value((*matrix)[i]); };
  if (!v.guard("the matrix is two by two", size(rank - 1) == 2 && size(rank - 2) == 2)) return;
  for (std::size_t i = 0; i < 4; ++i) {
    const Dims* d = v.shape(m.classes[i]);
    if (!d || d->empty() || !v.guard("each part is one wide", v.g.dims().value(d->back()) == 1)) return;
  }
  const auto joined = v.axis(m.ops[4], m.classes[0]), axis = v.axis(m.ops[8], m.classes[6]);
  if (!joined || !v.guard("the parts are joined along the last axis", *joined + 1 == v.shape(m.classes[0])->size())) return;
  if (!axis || !v.guard("the line is of the matrix", *axis + 2 >= rank)) return;
  const auto at = static_cast<std::size_t>((*index)[0] < 0 ? (*index)[0] + 2 : (*index)[0]);
  if (at > 1) return;
  const auto [first, second] = *axis + 1 == rank ? std::pair{at, at + 2} : std::pair{2 * at, 2 * at + 1};
  Dims one(line->begin(), line->end());
  one.back() = v.g.dims().constant(1);
  const Id a = v.reshape(m.classes[first], one, 0), b = v.reshape(m.classes[second], one, 0);
  unions.emplace_back(m.root(), v.g.add(make_key("", "Concat", {Attribute::of("axis", std::int64_t{-1})}, 1, static_cast<int>(one.size())),
                                        std::array{a, b}));
}

// Reshape(Concat(A, B)) of A and B [..., n, 1] or [..., 1, n] to [..., 2n]: a stack of two that is flattened.
void reshape_of_stack(const Views& v, const Match& m, Unions& unions) {
  const Id a = m.classes[0], b = m.classes[1];
  const Dims *da = v.shape(a), *db = v.shape(b), *to = v.shape(m.root());
  if (!last_of(v, m.root()) || !da || !db || da->size() != to->size() + 1 || db->size() != da->size()) return;
  const std::size_t outer = to->size() - 1;
  if (!v.guard("both have one shape", v.equal(*da, *db))) return;
  if (!v.guard("the outer axes stay", v.equal(std::span(*da).first(outer), std::span(*to).first(outer)))) return;
  const auto axis = v.axis(m.ops[2], a);
  if (!axis || !v.guard("the stack is along one of the last axes", *axis >= outer)) return;
  const bool innermost = *axis == outer + 1;
  if (!v.guard("what is stacked is one thick", v.g.dims().value((*da)[*axis]) == 1)) return;
  Dims flat(to->begin(), to->end() - 1);
  flat.push_back((*da)[innermost ? outer : outer + 1]);
  const Id x = v.reshape(a, flat, 0), y = v.reshape(b, flat, 0);
  const auto key = innermost ? make_key("saturate", "interleave", {}, 1, std::nullopt)
                             : make_key("", "Concat", {Attribute::of("axis", std::int64_t{-1})}, 1, static_cast<int>(outer) + 1);
  unions.emplace_back(m.root(), v.g.add(key, std::array{x, y}));
}

// Reshape(Expand or Tile of h [..., n, 1] to [..., n, 2], [..., 2n]) repeats every element; [..., 1, n] the whole.
void reshape_of_repeat(const Views& v, const Match& m, Unions& unions) {
  const Id h = m.classes[0];
  const Dims *from = v.shape(h), *wide = v.shape(m.classes[2]), *to = v.shape(m.root());
  if (!last_of(v, m.root()) || !from || !wide || from->size() != to->size() + 1 || wide->size() != from->size()) return;
  const std::size_t outer = to->size() - 1;
  const auto kept = std::span(*to).first(outer);
  if (!v.guard("the outer axes stay", v.equal(kept, std::span(*from).first(outer)) && v.equal(kept, std::span(*wide).first(outer)))) return;
  const auto doubled = [&](std::size_t i) { return v.g.dims().value((*from)[i]) == 1 && v.g.dims().value((*wide)[i]) == 2; };
  const bool interleaved = v.guard("the last axis is doubled", doubled(outer + 1) && v.equal((*from)[outer], (*wide)[outer]));
  if (!interleaved && !v.guard("the last but one is doubled", doubled(outer) && v.equal(from->back(), wide->back()))) return;
  Dims flat(to->begin(), to->end() - 1);
  flat.push_back((*from)[interleaved ? outer : outer + 1]);
  unions.emplace_back(m.root(), make_last(v, "twice", interleaved, {v.reshape(h, flat, 0)}));
}

// MatMul by a constant that rotates the last axis.
void matmul_is_rotation(const Views& v, const Match& m, Unions& unions) {
  const auto n = last_of(v, m.classes[0]), rows = last_of(v, m.classes[1]);
  if (!n || n != rows || !useful(*n <= 512) || v.shape(m.classes[1])->size() != 2 || !v.g.facts(m.classes[1]).constant) return;
  if (!v.guard("the last axis has halves", *n % 2 == 0)) return;
  const auto value = v.g.value(m.classes[1], 1 << 21);
  if (!value || value->size() != *n * *n) return;
  bool halves = true, pairs = true;
  for (std::int64_t k = 0; k < *n && (halves || pairs); ++k)
    for (std::int64_t j = 0; j < *n && (halves || pairs); ++j) {
      const auto e = element_as_double(*value, k * *n + j);
      if (!e) return;
      halves = halves && *e == (k == (j + *n / 2) % *n ? (j < *n / 2 ? -1 : 1) : 0);
      pairs = pairs && *e == (k == (j ^ 1) ? (j % 2 == 0 ? -1 : 1) : 0);
    }
  halves = v.guard("the matrix swaps the halves", halves);
  pairs = v.guard("the matrix swaps the members of each pair", pairs);
  if (halves || pairs) unions.emplace_back(m.root(), make_last(v, "rotate_half", !halves, {m.classes[0]}));
}

// Reshape and Expand of twice(h) = twice of the Reshape or Expand of h where the last dim stays.
void view_of_twice(const Views& v, const Match& m, Unions& unions) {
  const Dims *half = v.shape(m.classes[0]), *whole = v.shape(m.classes[1]), *to = v.shape(m.root());
  if (!half || !whole || !to || half->empty() || whole->empty() || to->empty()) return;
  const bool expands = v.g.key(m.ops[3]).op_type == "Expand", stays = v.equal(whole->back(), to->back());
  if (expands ? !stays : !v.guard("the last dim stays", stays)) return;  // no Expand makes a whole of two halves longer
  Dims target = *to;
  target.back() = half->back();
  const Id viewed = expands ? v.expand(m.classes[0], target) : v.reshape(m.classes[0], target, 0);
  unions.emplace_back(m.root(), make_last(v, "twice", v.int_attribute(m.ops[1], "interleaved", 0) != 0, {viewed}));
}

// Gather of rows of twice(h) = twice(Gather of rows of h).
void rows_of_twice(const Views& v, const Match& m, Unions& unions) {
  const Dims *half = v.shape(m.classes[0]), *ids = v.shape(m.classes[2]);
  if (!half || !ids || !v.guard("the places are of the first axis", v.axis(m.ops[3], m.classes[0]) == 0)) return;
  if (!v.guard("the first axis is not the last", half->size() >= 2)) return;
  const Id rows = v.g.add(make_key("", "Gather", {Attribute::of("axis", std::int64_t{0})}, 1, static_cast<int>(half->size())),
                          std::array{m.classes[0], m.classes[2]});
  unions.emplace_back(m.root(), make_last(v, "twice", v.int_attribute(m.ops[1], "interleaved", 0) != 0, {rows}));
}

// Slice along other axes than the last.
void rows_cut_of_twice(const Views& v, const Match& m, Unions& unions, std::size_t inputs) {
  const Dims *half = v.shape(m.classes[0]), *cut = v.shape(m.root());
  const auto axes = v.ints(m.classes[4]);
  if (!half || !cut || !axes) return;
  const auto rank = static_cast<std::int64_t>(half->size());
  for (std::int64_t axis : *axes)
    if (!v.guard("the last axis is not cut", axis != rank - 1 && axis != -1)) return;
  std::vector<Id> children{m.classes[0]};
  for (std::size_t i = 1; i < inputs; ++i) children.push_back(m.classes[1 + i]);
  const Id rows = v.g.add(make_key("", "Slice", {}, 1, static_cast<int>(rank)), children);
  unions.emplace_back(m.root(), make_last(v, "twice", v.int_attribute(m.ops[1], "interleaved", 0) != 0, {rows}));
}

constexpr std::size_t kMaxScannedBytes = 1 << 20;

// A constant whose last dim holds one half twice, or every element twice, as precomputed cosines do, is twice(that half).
void constant_is_twice(const Views& v, Id c, Unions& unions) {
  const Facts& f = v.g.facts(c);
  if (!f.constant || f.kind != Facts::Kind::kTensor || !is_floating(f.dtype) || !f.shape || f.shape->size() < 2) return;
  const auto value = v.g.value(c, kMaxScannedBytes);
  const int bits = value ? bit_width(value->dtype()) : 0;
  if (!value || bits % 8 != 0 || value->size() == 0 || value->dims().back() % 2 != 0) return;
  const std::size_t element = static_cast<std::size_t>(bits / 8), half = static_cast<std::size_t>(value->dims().back() / 2) * element;
  const std::size_t rows = value->bytes().size() / (2 * half);
  const std::byte* from = value->bytes().data();
  bool halves = true, pairs = true;
  for (std::size_t r = 0; r < rows; ++r) halves = halves && std::memcmp(from + 2 * r * half, from + (2 * r + 1) * half, half) == 0;
  for (std::size_t i = 0; i < rows * half && pairs; i += element) pairs = std::memcmp(from + 2 * i, from + 2 * i + element, element) == 0;
  halves = v.guard("one half is the other", halves);
  pairs = v.guard("the members of each pair are equal", pairs);
  Shape dims = value->dims();
  dims.back() /= 2;
  for (bool interleaved : {false, true}) {
    if (interleaved ? !pairs : !halves) continue;
    Tensor part(value->dtype(), dims);
    if (interleaved)
      for (std::size_t i = 0; i < rows * half; i += element) std::memcpy(part.mutable_data() + i, from + 2 * i, element);
    else
      for (std::size_t r = 0; r < rows; ++r) std::memcpy(part.mutable_data() + r * half, from + 2 * r * half, half);
    unions.emplace_back(c, make_last(v, "twice", interleaved, {v.g.constant(part)}));
  }
}

std::function<Pattern(OnnxEGraph&)> slice_of(std::size_t inputs) {
  return [inputs](OnnxEGraph& g) {
    Pattern p{std::vector<PatternNode>(inputs)};
    std::vector<std::uint32_t> children;
    for (std::uint32_t i = 0; i < inputs; ++i) children.push_back(i);
    p.nodes.push_back(node(g, "Slice", children));
    return p;
  };
}

std::function<Pattern(OnnxEGraph&)> view_over_twice(std::string_view op) {
  return [op](OnnxEGraph& g) { return Pattern{{variable(), node(g, "twice", {0}, "saturate"), variable(), node(g, op, {1, 2})}}; };
}

std::function<Pattern(OnnxEGraph&)> slice_of_twice(std::size_t inputs) {
  return [inputs](OnnxEGraph& g) {
    Pattern p{{variable(), node(g, "twice", {0}, "saturate")}};
    std::vector<std::uint32_t> children{1};
    for (std::uint32_t i = 1; i < inputs; ++i) {
      children.push_back(static_cast<std::uint32_t>(p.nodes.size()));
      p.nodes.push_back(variable());
    }
    p.nodes.push_back(node(g, "Slice", children));
    return p;
  };
}

Pattern gathered_and_reshaped(OnnxEGraph& g) {
  return {{variable(), variable(), node(g, "Gather", {0, 1}), variable(), node(g, "Reshape", {2, 3})}};
}

Pattern four_joined(OnnxEGraph& g) {
  return {{variable(), variable(), variable(), variable(), node(g, "Concat", {0, 1, 2, 3}), variable(), node(g, "Reshape", {4, 5}),
           variable(), node(g, "Gather", {6, 7})}};
}

Pattern split_gather(OnnxEGraph& g) {
  return {{variable(), variable(), node(g, "Reshape", {0, 1}), variable(), node(g, "Gather", {2, 3})}};
}

}  // namespace

std::vector<NativeRule> native_rope_rules() {
  const auto over = [](std::string_view op) { return [op](OnnxEGraph& g) { return over_two(g, op); }; };
  const auto first_slice = [](const Views& v, const Match& m, Unions& u) { slice_is_part(v, m, u, 4); };
  const auto second_slice = [](const Views& v, const Match& m, Unions& u) { slice_is_part(v, m, u, 5); };
  const auto table = [](const Views& v, const Match& m, Unions& u) { constant_is_twice(v, m.classes[0], u); };
  const auto factor = [](const Views& v, const Match& m, Unions& u) {
    constant_is_twice(v, m.classes[0], u);
    constant_is_twice(v, m.classes[1], u);
  };
  return to_native({
      {"slice_is_part", "Slice(X) along the last axis by 1 = part(X)", Effect::kExact, slice_of(4), first_slice},
      {"slice_by_step_is_part", "Slice(X) along the last axis = part(X)", Effect::kExact, slice_of(5), second_slice},
      {"gather_is_part", "Gather(X, evenly spaced places of the last axis) = part(X); swapped halves or pairs = rotate_half(X) with signs",
       Effect::kExact, over("Gather"), gather_is_part},
      {"gather_of_split_is_part", "Gather(Reshape(X, [..., k, n]), i) over one of the two = part(X)", Effect::kExact, split_gather,
       gather_of_split_is_part},
      {"gather_of_pairs_joined", "Reshape(Gather(V, i)) that joins two axes, one permuted by i = Gather(Reshape(V))", Effect::kExact,
       gathered_and_reshaped, gather_of_pairs_joined},
      {"line_of_four", "Gather(Reshape(Concat(A, B, C, D), [..., 2, 2]), i) = Concat of two of the four", Effect::kExact, four_joined,
       line_of_four},
      {"reshape_of_stack", "Reshape(Concat(A, B)) of [..., n, 1] to [..., 2n] = interleave(A, B); of [..., 1, n] = Concat(A, B)",
       Effect::kExact, reshaped("Concat"), reshape_of_stack},
      {"reshape_of_repeat", "Reshape(Expand(h from [..., n, 1] to [..., n, 2]), [..., 2n]) = twice(h)", Effect::kExact, reshaped("Expand"),
       reshape_of_repeat},
      {"reshape_of_tile", "Reshape(Tile(h from [..., n, 1] to [..., n, 2]), [..., 2n]) = twice(h)", Effect::kExact, reshaped("Tile"),
       reshape_of_repeat},
      {"slice_of_twice", "Slice(twice(h)) = twice(Slice(h)) along other axes than the last", Effect::kExact, slice_of_twice(4),
       [](const Views& v, const Match& m, Unions& u) { rows_cut_of_twice(v, m, u, 4); }},
      {"slice_by_step_of_twice", "Slice(twice(h)) = twice(Slice(h)) along other axes than the last", Effect::kExact, slice_of_twice(5),
       [](const Views& v, const Match& m, Unions& u) { rows_cut_of_twice(v, m, u, 5); }},
      {"matmul_is_rotation", "MatMul(X, constant that rotates) = rotate_half(X)", Effect::kReassociates, over("MatMul"),
       matmul_is_rotation},
      {"factor_is_twice", "a constant factor that holds one half of its last dim twice is twice(that half)", Effect::kExact, over("Mul"),
       factor},
      {"sliced_table_is_twice", "a constant table that is cut is twice(its half) where its rows hold one half twice", Effect::kExact,
       slice_of(5), table},
      {"cut_table_is_twice", "a constant table that is cut is twice(its half) where its rows hold one half twice", Effect::kExact,
       slice_of(4), table},
      {"table_is_twice", "a constant table whose rows hold one half twice is twice(that half)", Effect::kExact, over("Gather"), table},
      {"rows_of_twice", "Gather(twice(h), i) = twice(Gather(h, i)) along axis 0", Effect::kExact, view_over_twice("Gather"), rows_of_twice},
      {"reshape_of_twice", "Reshape(twice(h)) = twice(Reshape(h)) where the last dim stays", Effect::kExact, view_over_twice("Reshape"),
       view_of_twice},
      {"expand_of_twice", "Expand(twice(h)) = twice(Expand(h)) where the last dim stays", Effect::kExact, view_over_twice("Expand"),
       view_of_twice},
  });
}

}  // namespace saturate
