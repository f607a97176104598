#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "rules/evaluate/eval.h"

namespace saturate {

Result EvalContext::evaluate_binary(const Expr& expr) {
  if (expr.text[0] == 'a' || expr.text[0] == 'o') return logical(expr);  // and, or
  Result a = evaluate(*expr.arguments[0]);
  if (!a) return a;
  Result b = evaluate(*expr.arguments[1]);
  if (!b) return b;
  const char op = expr.text[0];
  if (op == '=' || op == '!') {
    const auto same = equal(*a, *b);
    if (same) return Val(*same == (op == '='));
    return fail([&] { return fmt::format("nothing decides whether {} equals {}", show(*a), show(*b)); });
  }
  if (op == '<' || op == '>') return compare(expr, *a, *b);
  return arithmetic(expr, *a, *b);
}

// Kleene's logic: a side without an answer does not matter where the other decides.
Result EvalContext::logical(const Expr& expr) {
  const bool decisive = expr.text[0] == 'o';  // or
  bool unknown = false;
  for (const ExprPtr& side : expr.arguments) {
    const Result r = evaluate(*side);
    const bool* b = r ? r->get<bool>() : nullptr;
    if (r && b == nullptr) return fail([&] { return fmt::format("`{}` of {}, which is not true or false", expr.text, show(*r)); });
    if (b != nullptr && *b == decisive) return Val(decisive);
    unknown |= b == nullptr;
  }
  if (unknown) return std::nullopt;
  return Val(!decisive);
}

std::optional<bool> EvalContext::equal_dims(std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() != b.size()) return false;
  bool unknown = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (dims().equal(a[i], b[i])) continue;
    if (dims().differ(a[i], b[i])) return false;
    unknown = true;
  }
  if (unknown) return std::nullopt;
  return true;
}

std::optional<bool> EvalContext::equal(const Val& a, const Val& b) {
  if (const auto x = a.real(), y = b.real(); x && y) return *x == *y;
  if (const auto* x = a.get<DType>(), *y = b.get<DType>(); x || y) {  // Cast's `to` is a dtype as an int
    const auto number = [](const Val& v) -> std::optional<std::int64_t> {
      if (const auto* t = v.get<DType>()) return static_cast<std::int64_t>(*t);
      if (const auto* i = v.get<std::int64_t>()) return *i;
      return std::nullopt;
    };
    const auto m = number(a), n = number(b);
    return m && n && *m == *n;
  }
  if (const List* x = a.list(), *y = b.list(); x && y) {
    if (x->size() != y->size()) return false;
    bool unknown = false;
    for (std::size_t i = 0; i < x->size(); ++i) {
      const auto same = equal((*x)[i], (*y)[i]);
      if (same && !*same) return false;
      unknown |= !same;
    }
    if (unknown) return std::nullopt;
    return true;
  }
  if (a.get<Dim>() || b.get<Dim>()) {
    if (a.list() || b.list() || a.get<ClassRef>() || b.get<ClassRef>()) return std::nullopt;
    const auto x = as_dim(a), y = as_dim(b);
    if (!x || !y) return false;
    const Dim left[] = {*x}, right[] = {*y};
    return equal_dims(left, right);
  }
  if (const auto* x = a.get<ClassRef>(), *y = b.get<ClassRef>(); x && y) {
    if (x->id == y->id) return true;
    const auto t = source_.value(x->id, 1 << 16), u = source_.value(y->id, 1 << 16);
    if (t && u) return identical(*t, *u);
    return std::nullopt;
  }
  if (const auto* x = a.get<ClassRef>(), *y = b.get<ClassRef>(); x || y) {  // a value against what it holds
    const Result held = elements_of((x ? x : y)->id);
    if (!held || held->get<ClassRef>()) return std::nullopt;
    return equal(*held, x ? b : a);
  }
  if (const Tensor* x = a.tensor(), *y = b.tensor(); x && y) return identical(*x, *y);
  if (const auto* x = a.get<std::string>(), *y = b.get<std::string>(); x && y) return *x == *y;
  if (const auto* x = a.get<bool>(), *y = b.get<bool>(); x && y) return *x == *y;
  return false;
}

Result EvalContext::compare(const Expr& expr, const Val& a, const Val& b) {
  const bool less = expr.text[0] == '<';
  const bool strict = expr.text.size() == 1;
  const Val& small = less ? a : b;
  const Val& large = less ? b : a;
  if (const auto x = small.real(), y = large.real(); x && y) return Val(strict ? *x < *y : *x <= *y);
  const auto x = as_dim(small), y = as_dim(large);
  if (!x || !y) return std::nullopt;
  DimTable& table = dims();
  const Dim gap = table.sub(*y, *x);  // strict: gap >= 1; otherwise gap >= 0
  if (strict ? table.positive(gap) : table.non_negative(gap)) return Val(true);
  const Dim reverse = table.neg(gap);
  if (strict ? table.non_negative(reverse) : table.positive(reverse)) return Val(false);
  return fail([&] { return fmt::format("nothing decides {} {} {}", show(a), expr.text, show(b)); });
}

Result EvalContext::arithmetic(const Expr& expr, const Val& a, const Val& b) {
  const std::string_view op = expr.text;
  if (op == "+")
    if (const List* x = a.list(), *y = b.list(); x && y) {
      List joined = *x;
      joined.insert(joined.end(), y->begin(), y->end());
      return Val(std::move(joined));
    }
  if (const auto* x = a.get<std::int64_t>(), *y = b.get<std::int64_t>(); x && y) return integer_arithmetic(expr, *x, *y);
  if (const auto x = a.real(), y = b.real(); x && y) {
    if (op == "+") return Val(*x + *y);
    if (op == "-") return Val(*x - *y);
    if (op == "*") return Val(*x * *y);
    if (op == "/") return Val(*x / *y);
    if (op == "//") return Val(std::floor(*x / *y));
    if (op == "**") return Val(std::pow(*x, *y));
    return Val(*x - std::floor(*x / *y) * *y);
  }
  const auto x = as_dim(a), y = as_dim(b);
  if (!x || !y) return std::nullopt;
  return dim_arithmetic(expr, *x, *y);
}

Result EvalContext::integer_arithmetic(const Expr& expr, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  const std::string_view op = expr.text;
  const auto overflow = [&] { return fmt::format("{} {} {} overflows", a, op, b); };
  if (op == "+" && !__builtin_add_overflow(a, b, &r)) return Val(r);
  if (op == "-" && !__builtin_sub_overflow(a, b, &r)) return Val(r);
  if (op == "*" && !__builtin_mul_overflow(a, b, &r)) return Val(r);
  if (op == "+" || op == "-" || op == "*") return fail(overflow);
  if (op == "**") {
    if (b < 0 || b > 64) return Val(std::pow(static_cast<double>(a), static_cast<double>(b)));
    r = 1;
    for (std::int64_t i = 0; i < b; ++i)
      if (__builtin_mul_overflow(r, a, &r)) return fail(overflow);
    return Val(r);
  }
  if (b == 0) return fail([&] { return fmt::format("{} {} 0 has no value", a, op); });
  if (op == "/") return Val(static_cast<double>(a) / static_cast<double>(b));
  if (a == std::numeric_limits<std::int64_t>::min() && b == -1) return fail(overflow);
  const std::int64_t floor = a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
  return Val(op == "//" ? floor : a - floor * b);
}

Result EvalContext::dim_arithmetic(const Expr& expr, Dim a, Dim b) {
  DimTable& table = dims();
  const std::string_view op = expr.text;
  if (op == "+") return Val::of(table.add(a, b), table);
  if (op == "-") return Val::of(table.sub(a, b), table);
  if (op == "*") return Val::of(table.mul(a, b), table);
  if (op == "//") return Val::of(table.floor_div(a, b), table);
  if (op == "%") return Val::of(table.mod(a, b), table);
  if (op == "/")
    if (const auto q = table.exact_div(a, b)) return Val::of(*q, table);
  return fail([&] { return fmt::format("{} {} {} is no dim", table.to_string(a), op, table.to_string(b)); });
}

namespace {

// Reads a list, the elements of a value, or a shape value's content.
Result as_list(EvalContext& context, const Result& v) {
  if (!v || v->list()) return v;
  if (const auto* ref = v->get<ClassRef>()) {
    Result elements = context.elements_of(ref->id);
    if (elements && elements->list()) return elements;
    if (!elements) return elements;
  }
  return context.fail([&] { return fmt::format("{} is no list", context.show(*v)); });
}

}  // namespace

Result EvalContext::index(const Expr& expr) {
  const Result base = as_list(*this, evaluate(*expr.arguments[0]));
  if (!base) return base;
  const Result at = evaluate(*expr.arguments[1]);
  if (!at) return at;
  const auto i = as_int(*at);
  if (!i) return std::nullopt;
  const auto n = static_cast<std::int64_t>(base->list()->size());
  const std::int64_t from_start = *i < 0 ? *i + n : *i;
  if (from_start < 0 || from_start >= n) return fail([&] { return fmt::format("{} has no element {}", show(*base), *i); });
  return (*base->list())[static_cast<std::size_t>(from_start)];
}

Result EvalContext::slice(const Expr& expr) {
  const Result base = as_list(*this, evaluate(*expr.arguments[0]));
  if (!base) return base;
  const List& list = *base->list();
  const auto n = static_cast<std::int64_t>(list.size());
  std::int64_t bounds[2] = {0, n};
  for (std::size_t k : {0u, 1u}) {
    if (!expr.arguments[k + 1]) continue;
    const Result at = evaluate(*expr.arguments[k + 1]);
    if (!at) return at;
    const auto i = as_int(*at);
    if (!i) return std::nullopt;
    bounds[k] = std::clamp<std::int64_t>(*i < 0 ? *i + n : *i, 0, n);
  }
  if (bounds[0] >= bounds[1]) return Val(List{});
  return Val(List(list.begin() + bounds[0], list.begin() + bounds[1]));
}

}  // namespace saturate
