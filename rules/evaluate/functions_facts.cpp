// What is known of matched values: type, shape, constancy.
#include <fmt/format.h>

#include <algorithm>

#include "rules/evaluate/functions.h"

namespace saturate {
namespace {

Result rank(EvalContext& c, Args a) {
  const Facts* f = c.as_ranked(a[0]);
  if (f == nullptr) return std::nullopt;
  return Val(f->rank());
}

Result shape(EvalContext& c, Args a) {
  const Facts* f = c.as_ranked(a[0]);
  if (f == nullptr) return std::nullopt;
  return Val::dims(*f->shape, c.dims());
}

Result dim(EvalContext& c, Args a) {
  const Facts* f = c.as_ranked(a[0]);
  const auto i = f ? c.as_int(a[1]) : std::nullopt;
  if (!i) return std::nullopt;
  const std::int64_t at = *i < 0 ? *i + f->rank() : *i;
  if (at < 0 || at >= f->rank()) return c.fail([&] { return fmt::format("there is no dim {} in {}", *i, c.show(a[0])); });
  return Val::of((*f->shape)[static_cast<std::size_t>(at)], c.dims());
}

Result size(EvalContext& c, Args a) {
  const Facts* f = c.as_ranked(a[0]);
  if (f == nullptr) return std::nullopt;
  return Val::of(c.dims().product(*f->shape), c.dims());
}

Result dtype(EvalContext& c, Args a) {
  const Facts* f = c.as_facts(a[0]);
  if (f == nullptr) return std::nullopt;
  if (f->kind == Facts::Kind::kTensor && f->dtype != DType::kUndefined) return Val(f->dtype);
  return c.fail([&] { return fmt::format("the dtype of {} is unknown", c.show(a[0])); });
}

Result same_dtype(EvalContext& c, Args a) {
  const Result first = dtype(c, a.first(1));
  if (!first) return first;
  for (std::size_t i = 1; i < a.size(); ++i) {
    const Result other = dtype(c, a.subspan(i, 1));
    if (!other) return other;
    if (*other->get<DType>() != *first->get<DType>()) return Val(false);
  }
  return Val(true);
}

// Classes of a match are canonical.
Result same_value(EvalContext& c, Args a) {
  const ClassRef *x = a[0].get<ClassRef>(), *y = a[1].get<ClassRef>();
  if (!x || !y) return c.fail([&] { return std::string("same_value takes two values"); });
  return Val(x->id == y->id);
}

template <bool (*test)(DType)>
Result dtype_is(EvalContext& c, Args a) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Result d = a[i].get<DType>() ? Result(a[i]) : dtype(c, a.subspan(i, 1));
    if (!d) return d;
    if (!test(*d->get<DType>())) return Val(false);
  }
  return Val(true);
}

bool is_wide_float(DType d) { return d == DType::kFloat || d == DType::kDouble; }
bool is_bool(DType d) { return d == DType::kBool; }
bool is_number(DType d) { return is_floating(d) || is_integer(d); }

Result is_constant(EvalContext& c, Args a) {
  for (const Val& v : a) {
    const Facts* f = c.as_facts(v);
    if (f == nullptr) return std::nullopt;
    if (!f->constant) return Val(false);
  }
  return Val(true);
}

Result as_given(EvalContext&, Args a) { return a[0]; }

Result proven_equal(EvalContext& c, Args a) { return Val(c.equal(a[0], a[1]).value_or(false)); }

Result never_negative(EvalContext& c, Args a) {
  const Facts* f = c.as_facts(a[0]);
  return f != nullptr ? Result(Val(f->never_negative)) : std::nullopt;
}

Result absent(EvalContext& c, Args a) {
  const Facts* f = c.as_facts(a[0]);
  if (f == nullptr) return std::nullopt;
  return Val(f->kind == Facts::Kind::kAbsent);
}

Result present(EvalContext& c, Args a) {
  const Facts* f = c.as_facts(a[0]);
  if (f == nullptr) return std::nullopt;
  return Val(f->kind == Facts::Kind::kTensor);
}

Result single(const Facts& f, const DimTable& dims) {
  for (Dim d : *f.shape) {
    const auto n = dims.value(d);
    if (!n || *n != 1) return Val(false);
  }
  return Val(true);
}

Result scalar(EvalContext& c, Args a) {
  const Facts* f = c.as_ranked(a[0]);
  if (f == nullptr) return std::nullopt;
  Result one = single(*f, c.dims());
  if (!*one->get<bool>() || a.size() == 1 || f->rank() == 0) return one;
  const Facts* other = c.as_ranked(a[1]);
  if (other == nullptr) return std::nullopt;
  return Val(f->rank() <= other->rank());
}

Result value(EvalContext& c, Args a) {
  const auto id = c.as_class(a[0]);
  if (!id) return std::nullopt;
  return c.elements_of(*id);
}

Result item(EvalContext& c, Args a) {
  const auto t = c.as_tensor(a[0], 1 << 16);
  if (!t) return std::nullopt;
  if (t->size() != 1) return c.fail([&] { return fmt::format("{} has {} elements, not one", c.show(a[0]), t->size()); });
  if (is_integer(t->dtype()))
    if (const auto i = element_as_int(*t, 0)) return Val(*i);
  if (const auto r = element_as_double(*t, 0)) return Val(*r);
  return c.fail([&] { return fmt::format("the element of {} is no number", c.show(a[0])); });
}

Result known_content(EvalContext& c, Args a) {
  const Facts* f = c.as_facts(a[0]);
  if (f == nullptr) return std::nullopt;
  return Val(f->content.has_value());
}

Result counts_from(EvalContext& c, Args a) {
  const Facts* f = c.as_facts(a[0]);
  if (f == nullptr) return std::nullopt;
  if (f->counts_from) return Val::of(*f->counts_from, c.dims());
  return c.fail([&] { return fmt::format("{} is not known to count upwards along its last axis", c.show(a[0])); });
}

Result lower_triangle(EvalContext& c, Args a) {
  const auto id = c.as_class(a[0]);
  if (!id) return std::nullopt;
  if (const auto n = c.source().lower_triangle(*id)) return Val::of(*n, c.dims());
  return c.fail([&] { return fmt::format("{} is not known to be a causal mask", c.show(a[0])); });
}

Result fills(EvalContext& c, Args a) {
  const auto id = c.as_class(a[0]);
  if (!id) return std::nullopt;
  const auto found = c.source().fills(*id);
  if (found && !found->infinite) return Val(found->sum);
  return c.fail([&] { return fmt::format("{} may hide by -inf, or by any number", c.show(a[0])); });
}

template <bool (FactSource::*test)(Id) const>
Result told_by_source(EvalContext& c, Args a) {
  const auto id = c.as_class(a[0]);
  if (!id) return std::nullopt;
  return Val((c.source().*test)(*id));
}

Result joined_past(EvalContext& c, Args a) {
  const auto x = c.as_class(a[0]), middle = c.as_class(a[1]), y = c.as_class(a[2]);
  if (!x || !middle || !y) return std::nullopt;
  return Val(c.source().are_joined_past(*x, *middle, *y));
}

Result hands_on_input(EvalContext& c, Args a) {
  const auto id = c.as_class(a[0]);
  const auto answer = id ? c.source().hands_on_input(*id) : std::nullopt;
  if (!answer) return c.fail([&] { return fmt::format("nothing says whether {} is an input", c.show(a[0])); });
  return Val(*answer);
}

template <double Bounds::*side>
Result bound(EvalContext& c, Args a) {
  const auto id = c.as_class(a[0]);
  if (!id) return std::nullopt;
  return Val(c.source().bounds(*id).*side);
}

Result hides_by_infinity(EvalContext& c, Args a) {
  const auto id = c.as_class(a[0]);
  if (!id) return std::nullopt;
  return Val(c.source().hides_by_infinity(*id));
}

constexpr RuleFunction kFactFunctions[] = {
    {"rank", 1, 1, "(x) -> int", "The number of dims of a value.", "rank(X) == 4", rank},
    {"shape", 1, 1, "(x) -> dims", "The dims of a value, as a list.", "shape(A) == shape(B)", shape},
    {"dim", 2, 2, "(x, i) -> dim", "One dim of a value; negative i counts from the end.", "dim(X, -1) == 64", dim},
    {"size", 1, 1, "(x) -> dim", "The number of elements.", "size(c) == 1", size},
    {"dtype", 1, 1, "(x) -> dtype", "The element type; compares with names of types and with Cast's `to`.", "dtype(X) == @to", dtype},
    {"same_dtype", 2, 8, "(x, y, ...) -> bool", "Whether all values have one element type.", "same_dtype(A, B)", same_dtype},
    {"same_value", 2, 2, "(x, y) -> bool", "Whether two values are known to be one, as x and x + 0. For `useful`.",
     "useful(not same_value(A, B))", same_value},
    {"float", 1, 8, "(x, ...) -> bool", "Whether the element types are floating.", "float(X)", dtype_is<is_floating>},
    {"wide_float", 1, 8, "(x, ...) -> bool", "Whether the element types are float or double.", "wide_float(X)", dtype_is<is_wide_float>},
    {"integer", 1, 8, "(x, ...) -> bool", "Whether the element types are integers.", "integer(X)", dtype_is<is_integer>},
    {"signed", 1, 8, "(x, ...) -> bool", "Whether the element types have negative numbers.", "signed(X)", dtype_is<has_sign>},
    {"boolean", 1, 8, "(x, ...) -> bool", "Whether the element types are bool.", "boolean(M)", dtype_is<is_bool>},
    {"numeric", 1, 8, "(x, ...) -> bool", "Whether the element types are numbers.", "numeric(X)", dtype_is<is_number>},
    {"const", 1, 16, "(x, ...) -> bool", "Whether the values are constant expressions.", "const(W)", is_constant},
    {"useful", 1, 1, "(condition) -> bool",
     "The condition, which only keeps the rule to the direction that helps or to what runtimes take: the equality holds without it.",
     "useful(a != 1)", as_given},
    {"unproven", 1, 1, "(condition) -> bool", "Whether a condition does not hold or nothing decides it. For `useful`.",
     "useful(unproven(fills(M) > -1000))", as_given},  // asked by EvalContext::evaluate(),
    {"proven_equal", 2, 2, "(x, y) -> bool", "Whether == is proven: `false` where nothing decides. For `useful`.",
     "useful(not proven_equal(dim(Q, 0), dim(K, 0)))", proven_equal},
    {"absent", 1, 1, "(x) -> bool", "Whether an optional input or attribute is left out; lets the name match an absent input.",
     "absent(bias)", absent},
    {"present", 1, 1, "(x) -> bool", "Whether a tensor is there.", "present(mask)", present},
    {"scalar", 1, 2, "(x[, y]) -> bool",
     "Whether x has one element; with y also that its rank is not above y's, so that it widens nothing.", "scalar(s, X)", scalar},
    {"value", 1, 1, "(x) -> int, list or tensor",
     "The elements of a vector (dims where symbolic), the number of a rank-0 value, else the tensor.", "value(shape)[2] == 12", value},
    {"item", 1, 1, "(x) -> number", "The number in a single-element constant.", "item(eps) < 0.001", item},
    {"known", 1, 1, "(x) -> bool", "Whether the content of a shape value is known, be it symbolically.", "known(shape)", known_content},
    {"counts_from", 1, 1, "(x) -> dim", "The number n such that the elements along x's last axis are n, n + 1, n + 2, ... in every row.",
     "counts_from(positions) == 0", counts_from},
    {"lower_triangle", 1, 1, "(x) -> dim", "The number n such that element [..., i, j] of x is 1 where j <= i + n, and 0 elsewhere.",
     "lower_triangle(mask) == 0", lower_triangle},
    {"zero_or_one", 1, 1, "(x) -> bool", "Whether x is known to be 0 or 1 everywhere, as what is cast from bool.", "zero_or_one(M)",
     told_by_source<&FactSource::is_zero_or_one>, true},
    {"may_be_mask", 1, 1, "(x) -> bool",
     "Whether x is 0 or 1 everywhere, or handed on from an input that the model uses as a truth value elsewhere. For rules that assume "
     "mask_of_zeros_and_ones.",
     "may_be_mask(M)", told_by_source<&FactSource::may_be_mask>, true},
    {"reaches_scores", 1, 1, "(x) -> bool",
     "Whether a Softmax or an attention operator reads x as scores or as their mask, through sums, choices, views and scales.",
     "useful(reaches_scores(M))", told_by_source<&FactSource::reaches_scores>, true},
    {"fills", 1, 1, "(x) -> real",
     "What the constants in x add up to at most, in magnitude: of scores without a mask a small number. None where one may be infinite.",
     "fills(S) <= 1000", fills},
    {"above_lowest", 1, 1, "(x) -> bool", "Whether a mask hides by no finite number below -1e30, which runtimes take for \"no result\".",
     "above_lowest(M)", told_by_source<&FactSource::is_above_lowest>},
    {"hides_by_numbers", 1, 1, "(x) -> bool",
     "Whether a mask of floats is finite everywhere, also where several of them add up: Softmax makes no NaN of it.", "hides_by_numbers(M)",
     told_by_source<&FactSource::hides_by_numbers>},
    {"told_as_nan", 1, 1, "(x) -> bool", "Whether the model asks somewhere behind x whether it is NaN.", "not told_as_nan(Y)",
     told_by_source<&FactSource::told_as_nan>, true},
    {"is_multiplied", 1, 1, "(x) -> bool", "Whether a product of x with a number is read. For `useful`.", "useful(not is_multiplied(Y))",
     told_by_source<&FactSource::is_multiplied>, true},
    {"joined_past", 3, 3, "(x, m, y) -> bool",
     "Whether y, made of m and a constant, is told in several ways by what stands in front of x, of which m is made. For `useful`: long "
     "rows of constants are then not put together in every order.",
     "useful(not joined_past(X, M, Y))", joined_past},  // what is refused once stays so: no match is worth a second look
    {"attends_to_nothing", 1, 1, "(x) -> bool",
     "Whether the target of x takes com.microsoft's MultiHeadAttention of a batch, queries or keys of size 0.", "attends_to_nothing(Q)",
     told_by_source<&FactSource::attends_to_nothing>},
    {"holds_attention", 1, 1, "(x) -> bool",
     "Whether the model of x holds ONNX's Attention with a mask, whose rows are zero where all is hidden by -inf.",
     "not holds_attention(Q)", told_by_source<&FactSource::holds_attention>},
    {"attention_is_made", 1, 1, "(x) -> bool",
     "Whether the model of x holds no attention operator: one that a rule made says nothing of rows where all is hidden by -inf.",
     "not attention_is_made(Q)", told_by_source<&FactSource::attention_is_made>},
    {"never_negative", 1, 1, "(x) -> bool", "Whether every element is proven to lie at or above +0 (or to be NaN).", "never_negative(X)",
     never_negative},
    {"counts", 1, 1, "(x) -> bool", "Whether a whole number is made of dims and positions alone.", "counts(A)",
     told_by_source<&FactSource::is_count>},
    {"lower_bound", 1, 1, "(x) -> real",
     "A number that no element of x lies below, but for rounding, as its operators tell: 0 of a Softmax. Minus infinity where none is "
     "known.",
     "lower_bound(X) >= 0", bound<&Bounds::low>, true},
    {"upper_bound", 1, 1, "(x) -> real",
     "A number that no element of x lies above, but for rounding, as its operators tell: 1 of a Softmax. Infinity where none is known.",
     "upper_bound(X) <= 1", bound<&Bounds::high>, true},
    {"quantizes_one", 1, 1, "(x) -> bool",
     "Whether all QuantizeLinear that make x read one value: of several, such as y and Clip(y), the quantizer's range makes one.",
     "useful(quantizes_one(Q))", told_by_source<&FactSource::quantizes_one>, true},
    {"hands_on_input", 1, 1, "(x) -> bool", "Whether x is an input of the model, or a view or copy of one. For `useful`.",
     "useful(not hands_on_input(X))", hands_on_input, true},
    {"hides_by_infinity", 1, 1, "(x) -> bool", "Whether a mask of constants that lies over scores x has a -inf.",
     "not hides_by_infinity(X)", hides_by_infinity},
};

}  // namespace

std::span<const RuleFunction> fact_functions() { return kFactFunctions; }

}  // namespace saturate
