// Lists: permutations, axes, sums and products.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "rules/evaluate/functions.h"

namespace saturate {
namespace {

using IntList = std::vector<std::int64_t>;

bool permutes(const IntList& p) {
  std::vector<bool> seen(p.size());
  for (std::int64_t i : p) {
    if (i < 0 || i >= static_cast<std::int64_t>(p.size()) || seen[static_cast<std::size_t>(i)]) return false;
    seen[static_cast<std::size_t>(i)] = true;
  }
  return true;
}

std::optional<IntList> permutation(EvalContext& c, const Val& v) {
  auto p = c.as_ints(v);
  if (p && !permutes(*p)) return c.fail([&] { return fmt::format("{} is no permutation", c.show(v)); });
  return p;
}

Result len(EvalContext& c, Args a) {
  if (const List* list = a[0].list()) return Val(static_cast<std::int64_t>(list->size()));
  const auto dims = c.as_dims(a[0]);
  if (dims) return Val(static_cast<std::int64_t>(dims->size()));
  const auto ints = c.as_ints(a[0]);
  if (!ints) return std::nullopt;
  return Val(static_cast<std::int64_t>(ints->size()));
}

Result is_permutation(EvalContext& c, Args a) {
  const auto p = c.as_ints(a[0]);
  if (!p) return std::nullopt;
  return Val(permutes(*p));
}

Result compose(EvalContext& c, Args a) {
  const auto p = permutation(c, a[0]);
  const auto q = p ? permutation(c, a[1]) : std::nullopt;
  if (!q) return std::nullopt;
  if (p->size() != q->size())
    return c.fail([&] { return fmt::format("{} and {} permute different numbers of axes", c.show(a[0]), c.show(a[1])); });
  IntList r;
  for (std::int64_t i : *q) r.push_back((*p)[static_cast<std::size_t>(i)]);
  return Val::ints(r);
}

Result inverse(EvalContext& c, Args a) {
  const auto p = permutation(c, a[0]);
  if (!p) return std::nullopt;
  IntList r(p->size());
  for (std::size_t i = 0; i < p->size(); ++i) r[static_cast<std::size_t>((*p)[i])] = static_cast<std::int64_t>(i);
  return Val::ints(r);
}

Result identity_perm(EvalContext& c, Args a) {
  const auto p = permutation(c, a[0]);
  if (!p) return std::nullopt;
  return Val(std::is_sorted(p->begin(), p->end()));
}

Result swaps_last_two(EvalContext& c, Args a) {
  auto p = permutation(c, a[0]);
  if (!p) return std::nullopt;
  if (p->size() < 2) return Val(false);
  std::swap((*p)[p->size() - 1], (*p)[p->size() - 2]);
  return Val(std::is_sorted(p->begin(), p->end()));
}

// Whether the elements other than 1 keep their order.
Result moves_only_ones(EvalContext& c, Args a) {
  const auto shape = c.as_dims(a[0]);
  const auto p = shape ? permutation(c, a[1]) : std::nullopt;
  if (!p) return std::nullopt;
  if (p->size() != shape->size()) return c.fail([&] { return fmt::format("{} does not permute {}", c.show(a[1]), c.show(a[0])); });
  std::int64_t last = -1;
  bool known = true;
  for (std::int64_t axis : *p) {
    const auto size = c.dims().value((*shape)[static_cast<std::size_t>(axis)]);
    if (size == 1) continue;
    if (axis < last && known && size) return Val(false);
    if (axis < last) return c.fail([&] { return fmt::format("nothing decides whether dims of {} are 1", c.show(a[0])); });
    last = axis;
    known = size.has_value();
  }
  return Val(true);
}

Result swap_last_two(EvalContext& c, Args a) {
  const auto n = c.as_int(a[0]);
  if (!n) return std::nullopt;
  if (*n < 2 || *n > 64) return c.fail([&] { return fmt::format("{} axes have no last two", *n); });
  IntList p(static_cast<std::size_t>(*n));
  std::iota(p.begin(), p.end(), 0);
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  return Val::ints(p);
}

Result range(EvalContext& c, Args a) {
  const auto first = a.size() > 1 ? c.as_int(a[0]) : std::optional<std::int64_t>(0);
  const auto last = first ? c.as_int(a.back()) : std::nullopt;
  if (!last) return std::nullopt;
  if (*last - *first > 64) return c.fail([&] { return std::string("a range of more than 64 numbers"); });
  IntList r;
  for (std::int64_t i = *first; i < *last; ++i) r.push_back(i);
  return Val::ints(r);
}

// The axes of a list, each in 0..rank-1, ascending.
std::optional<IntList> normalized(EvalContext& c, const Val& v, std::int64_t rank) {
  auto axes = c.as_ints(v);
  if (!axes) return std::nullopt;
  for (std::int64_t& axis : *axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return c.fail([&] { return fmt::format("{} are no axes of rank {}", c.show(v), rank); });
  }
  std::sort(axes->begin(), axes->end());
  if (std::adjacent_find(axes->begin(), axes->end()) != axes->end())
    return c.fail([&] { return fmt::format("{} name an axis twice", c.show(v)); });
  return axes;
}

// A value stands for its rank.
std::optional<std::int64_t> rank_of(EvalContext& c, const Val& v) {
  if (v.get<std::int64_t>()) return *v.get<std::int64_t>();
  const Facts* f = c.as_ranked(v);
  if (f == nullptr) return std::nullopt;
  return f->rank();
}

Result axes_of(EvalContext& c, Args a) {
  const auto rank = rank_of(c, a[1]);
  if (!rank) return std::nullopt;
  if (const auto* ref = a[0].get<ClassRef>(); ref && c.source().facts(ref->id).kind == Facts::Kind::kAbsent) {
    IntList all(static_cast<std::size_t>(*rank));
    std::iota(all.begin(), all.end(), 0);
    return Val::ints(all);
  }
  const auto axes = normalized(c, a[0], *rank);
  if (!axes) return std::nullopt;
  return Val::ints(*axes);
}

Result trailing(EvalContext& c, Args a) {
  const auto rank = rank_of(c, a[1]);
  const auto axes = rank ? normalized(c, a[0], *rank) : std::nullopt;
  if (!axes) return std::nullopt;
  if (axes->empty()) return Val(false);
  return Val(axes->front() + static_cast<std::int64_t>(axes->size()) == *rank);
}

Result product(EvalContext& c, Args a) {
  const auto dims = c.as_dims(a[0]);
  if (!dims) return std::nullopt;
  return Val::of(c.dims().product(*dims), c.dims());
}

Result sum(EvalContext& c, Args a) {
  const auto dims = c.as_dims(a[0]);
  if (!dims) return std::nullopt;
  Dim n = c.dims().constant(0);
  for (Dim d : *dims) n = c.dims().add(n, d);
  return Val::of(n, c.dims());
}

Result contains(EvalContext& c, Args a) {
  const List* list = a[0].list();
  if (list == nullptr) return c.fail([&] { return fmt::format("{} is no list", c.show(a[0])); });
  bool unknown = false;
  for (const Val& item : *list) {
    const auto same = c.equal(item, a[1]);
    if (same && *same) return Val(true);
    unknown |= !same;
  }
  if (unknown) return c.fail([&] { return fmt::format("nothing decides whether {} contains {}", c.show(a[0]), c.show(a[1])); });
  return Val(false);
}

Result permute(EvalContext& c, Args a) {
  const List* list = a[0].list();
  const auto p = permutation(c, a[1]);
  if (!p) return std::nullopt;
  if (list == nullptr || list->size() != p->size())
    return c.fail([&] { return fmt::format("{} does not permute {}", c.show(a[1]), c.show(a[0])); });
  List out;
  for (std::int64_t i : *p) out.push_back((*list)[static_cast<std::size_t>(i)]);
  return Val(std::move(out));
}

Result select(EvalContext& c, Args a) {
  const List* list = a[0].list();
  const auto indices = c.as_ints(a[1]);
  if (!indices) return std::nullopt;
  List out;
  for (std::int64_t i : *indices) {
    const auto n = list ? static_cast<std::int64_t>(list->size()) : 0;
    const std::int64_t at = i < 0 ? i + n : i;
    if (at < 0 || at >= n) return c.fail([&] { return fmt::format("{} has no element {}", c.show(a[0]), i); });
    out.push_back((*list)[static_cast<std::size_t>(at)]);
  }
  return Val(std::move(out));
}

Result without(EvalContext& c, Args a) {
  const List* list = a[0].list();
  auto indices = c.as_ints(a[1]);
  if (!indices) return std::nullopt;
  const auto n = list ? static_cast<std::int64_t>(list->size()) : 0;
  std::vector<bool> dropped(static_cast<std::size_t>(n));
  for (std::int64_t i : *indices) {
    const std::int64_t at = i < 0 ? i + n : i;
    if (at < 0 || at >= n) return c.fail([&] { return fmt::format("{} has no element {}", c.show(a[0]), i); });
    dropped[static_cast<std::size_t>(at)] = true;
  }
  List out;
  for (std::size_t i = 0; i < dropped.size(); ++i)
    if (!dropped[i]) out.push_back((*list)[i]);
  return Val(std::move(out));
}

Result replace_at(EvalContext& c, Args a) {
  const List* list = a[0].list();
  const auto i = c.as_int(a[1]);
  if (!i) return std::nullopt;
  const auto n = list ? static_cast<std::int64_t>(list->size()) : 0;
  const std::int64_t at = *i < 0 ? *i + n : *i;
  if (at < 0 || at >= n) return c.fail([&] { return fmt::format("{} has no element {}", c.show(a[0]), *i); });
  List out = *list;
  out[static_cast<std::size_t>(at)] = a[2];
  return Val(std::move(out));
}

Result repeat(EvalContext& c, Args a) {
  const auto n = c.as_int(a[1]);
  if (!n) return std::nullopt;
  if (*n < 0 || *n > 64) return c.fail([&] { return fmt::format("a list of {} elements", *n); });
  return Val(List(static_cast<std::size_t>(*n), a[0]));
}

// Two lists of numbers of one length; nullopt, with a reason, where they are not.
std::optional<std::pair<IntList, IntList>> number_lists(EvalContext& c, Args a) {
  auto p = c.as_ints(a[0]);
  auto q = p ? c.as_ints(a[1]) : std::nullopt;
  if (!q) return std::nullopt;
  if (p->size() != q->size()) return c.fail([&] { return fmt::format("{} and {} differ in length", c.show(a[0]), c.show(a[1])); });
  return std::pair(*std::move(p), *std::move(q));
}

Result plus(EvalContext& c, Args a) {
  auto lists = number_lists(c, a);
  if (!lists) return std::nullopt;
  for (std::size_t i = 0; i < lists->first.size(); ++i)
    if (__builtin_add_overflow(lists->first[i], lists->second[i], &lists->first[i]))
      return c.fail([] { return std::string("a sum out of range"); });
  return Val::ints(lists->first);
}

Result alternating(EvalContext& c, Args a) {
  const auto lists = number_lists(c, a);
  if (!lists) return std::nullopt;
  IntList out;
  for (std::size_t i = 0; i < lists->first.size(); ++i) out.insert(out.end(), {lists->first[i], lists->second[i]});
  return Val::ints(out);
}

Result each_below(EvalContext& c, Args a) {
  const auto lists = number_lists(c, a);
  if (!lists) return std::nullopt;
  return Val(std::equal(lists->first.begin(), lists->first.end(), lists->second.begin(), std::less<>()));
}

constexpr RuleFunction kListFunctions[] = {
    {"plus", 2, 2, "(p, q) -> list", "The sums of the numbers of two lists, place by place.", "plus(pads, [1, 0])", plus},
    {"each_below", 2, 2, "(p, q) -> bool", "Whether each number of a list is below the one at its place in the other.",
     "each_below(pads, kernel)", each_below},
    {"len", 1, 1, "(list) -> int", "The number of elements of a list, or of a vector of known content.", "len(value(axes)) == 2", len},
    {"is_permutation", 1, 1, "(list) -> bool", "Whether the list holds 0 to n-1, each once.", "is_permutation(p)", is_permutation},
    {"compose", 2, 2, "(p, q) -> list", "The permutation of a Transpose by p and then by q.", "compose(p, q)", compose},
    {"inverse", 1, 1, "(p) -> list", "The permutation that undoes p.", "inverse(p) == q", inverse},
    {"identity_perm", 1, 1, "(p) -> bool", "Whether p moves no axis.", "identity_perm(p)", identity_perm},
    {"swaps_last_two", 1, 1, "(p) -> bool", "Whether p swaps the last two axes and moves no other.", "swaps_last_two(p)", swaps_last_two},
    {"moves_only_ones", 2, 2, "(shape, p) -> bool", "Whether p keeps the order of all dims but those of size 1.",
     "moves_only_ones(shape(X), p)", moves_only_ones},
    {"swap_last_two", 1, 1, "(rank) -> list", "The permutation that swaps the last two axes.", "swap_last_two(rank(X))", swap_last_two},
    {"range", 1, 2, "([first,] last) -> list", "The numbers from first (0) to last - 1.", "range(rank(X))", range},
    {"axes_of", 2, 2, "(axes, x or rank) -> list", "Axes as ascending numbers >= 0; all of them where `axes` is absent.",
     "axes_of(axes, X) == [2]", axes_of},
    {"trailing", 2, 2, "(axes, x or rank) -> bool", "Whether the axes are the last ones.", "trailing(value(axes), rank(X))", trailing},
    {"last_axes", 2, 2, "(axes, x or rank) -> bool", "The same as trailing.", "last_axes(axes, X)", trailing},
    {"product", 1, 1, "(dims) -> dim", "The product of a list of dims.", "product(shape(X)[:2])", product},
    {"sum", 1, 1, "(dims) -> dim", "The sum of a list of dims.", "sum(value(split)) == dim(X, 1)", sum},
    {"contains", 2, 2, "(list, x) -> bool", "Whether a list has an element.", "contains(axes_of(axes, X), 0)", contains},
    {"permute", 2, 2, "(list, p) -> list", "The list in the order of a permutation.", "permute(shape(X), p)", permute},
    {"select", 2, 2, "(list, indices) -> list", "The elements at these places.", "product(select(shape(X), axes_of(axes, X)))", select},
    {"without", 2, 2, "(list, indices) -> list", "The list without the elements at these places.", "without(shape(X), [0])", without},
    {"replace_at", 3, 3, "(list, i, x) -> list", "The list with one element replaced.", "replace_at(shape(X), -1, 1)", replace_at},
    {"repeat", 2, 2, "(x, n) -> list", "A list of n times x.", "repeat(1, rank(X))", repeat},
    {"alternating", 2, 2, "(p, q) -> list", "The numbers of two lists in turns.", "alternating([0, 1], [2, 3])", alternating},
};

}  // namespace

std::span<const RuleFunction> list_functions() { return kListFunctions; }

}  // namespace saturate
