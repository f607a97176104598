// Unification: an equation is solved for an atom, which is then replaced everywhere. Canonical forms are kept up to date eagerly,
// so that reading them never writes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "onnx_bridge/facts/dims/impl.h"

namespace saturate::dims {

// Divides by the content and makes the leading coefficient positive. False: no integers can solve p = 0.
bool Table::normalize_equation(Poly& p) {
  std::int64_t g = 0;
  for (const Term& t : p) {
    if (t.coefficient == std::numeric_limits<std::int64_t>::min()) return true;
    if (!t.atoms.empty()) g = std::gcd(g, t.coefficient);
  }
  if (g == 0) return p.empty();
  if (p.back().atoms.empty() && p.back().coefficient % g != 0) return false;
  if (p.front().coefficient < 0) g = -g;
  for (Term& t : p) t.coefficient /= g;
  return true;
}

bool Table::occurs(AtomId atom, const Poly& p) const {
  for (const Term& t : p)
    for (AtomId other : t.atoms) {
      if (other == atom) return true;
      const Atom& a = atoms_[other];
      if (a.kind != AtomKind::kSymbol && (occurs(atom, poly(a.a)) || occurs(atom, poly(a.b)))) return true;
    }
  return false;
}

std::optional<Table::Solution> Table::solve(const Poly& zero) const {
  std::optional<Solution> best;
  int best_rank = -1;
  for (const Term& t : zero) {
    if (t.atoms.size() != 1 || (t.coefficient != 1 && t.coefficient != -1)) continue;
    const AtomId atom = t.atoms[0];
    auto without = dims::add(zero, Poly{t}, -1);
    auto rest = without ? dims::add({}, *without, -t.coefficient) : std::nullopt;
    if (!rest || occurs(atom, *rest)) continue;
    const Atom& a = atoms_[atom];
    // Keep signs visible, keep the model's own names, and of two alike keep the older.
    const int rank = (!a.non_negative || non_negative(*rest) ? 4 : 0) + (a.kind == AtomKind::kSymbol ? (a.fresh ? 2 : 0) : 1);
    if (rank > best_rank || (rank == best_rank && atom > best->atom)) {
      best = Solution{atom, *std::move(rest)};
      best_rank = rank;
    }
  }
  return best;
}

bool Table::unify(Dim a, Dim b) {
  pending_.emplace_back(a, b);
  bool ok = true;
  while (!pending_.empty()) {
    auto [x, y] = pending_.back();
    pending_.pop_back();
    if (equal(x, y)) continue;
    if (differ(x, y)) {
      ok = false;
      continue;
    }
    auto difference = dims::add(poly(x), poly(y), -1);
    if (!difference) continue;
    ok = assume_zero(*std::move(difference)) && ok;
  }
  return ok;
}

bool Table::assume_zero(Poly p) {
  if (!normalize_equation(p)) return false;
  // A product of sizes that is 1: so is each of them.
  const auto size = [&](AtomId id) { return atoms_[id].non_negative; };
  if (p.size() == 2 && p[0].coefficient == 1 && p[1].atoms.empty() && p[1].coefficient == -1 && p[0].atoms.size() > 1 &&
      std::all_of(p[0].atoms.begin(), p[0].atoms.end(), size)) {
    for (AtomId id : p[0].atoms) pending_.emplace_back(of_atom(id), constant(1));
    return true;
  }
  auto solution = solve(p);
  if (!solution) {
    zero_.insert(intern(std::move(p)).id);
    ++generation_;
    forget();
    return true;
  }
  if (atoms_[solution->atom].non_negative) {
    // A size that comes out negative: no such size exists.
    auto negative = dims::add({}, solution->rest, -1);
    auto below = negative ? dims::add(*negative, Poly{{{}, 1}}, -1) : std::nullopt;
    if (below && non_negative(*below)) return false;
    if (!non_negative(solution->rest)) known_non_negative_.insert(intern(solution->rest).id);
  }
  substitute(solution->atom, intern(std::move(solution->rest)));
  return true;
}

void Table::substitute(AtomId atom, Dim by) {
  ++generation_;
  forget();
  atoms_[atom].replaced = by;
  refresh({atom});
  // Equations and bounds that were known speak of the new forms now.
  std::vector<std::uint32_t> old(zero_.begin(), zero_.end());
  std::sort(old.begin(), old.end());
  zero_.clear();
  for (std::uint32_t id : old) pending_.emplace_back(Dim{id}, Dim{0});
  std::vector<std::uint32_t> bounds(known_non_negative_.begin(), known_non_negative_.end());
  for (std::uint32_t id : bounds) known_non_negative_.insert(canonical_[id]);
}

Dim Table::rewrite(const Poly& p) {
  Dim sum = constant(0);
  for (const Term& t : p) {
    Dim product = constant(t.coefficient);
    for (AtomId id : t.atoms) {
      const Dim factor = atoms_[id].replaced ? canonical(*atoms_[id].replaced) : intern({{{id}, 1}});
      product = compute(Op::kMul, product, factor);
    }
    sum = compute(Op::kAdd, canonical(sum), canonical(product));
  }
  return sum;
}

void Table::refresh(std::vector<AtomId> dirty) {
  for (int guard = 0; !dirty.empty() && guard < 1'000'000; ++guard) {
    const AtomId atom = dirty.back();
    dirty.pop_back();
    const std::vector<std::uint32_t> users = users_[atom];
    for (std::uint32_t id : users) {
      if (canonical_[id] != id) continue;
      const Dim now = canonical(rewrite(Poly(polys_[id])));
      if (now.id == id) continue;
      std::vector<std::uint32_t> moved = std::move(members_[id]);
      members_[id].clear();
      moved.push_back(id);
      for (std::uint32_t m : moved) {
        canonical_[m] = now.id;
        members_[now.id].push_back(m);
        for (AtomId expression : std::vector<AtomId>(arguments_of_[m])) {
          const Atom e = atoms_[expression];
          const Dim rebuilt = apply(op_of(e.kind), e.a, e.b);
          const Poly& form = poly(rebuilt);
          if (e.replaced) {
            pending_.emplace_back(rebuilt, *e.replaced);
          } else if (occurs(expression, form)) {
            if (form != Poly{{{expression}, 1}}) pending_.emplace_back(intern({{{expression}, 1}}), rebuilt);
          } else {
            atoms_[expression].replaced = rebuilt;
            dirty.push_back(expression);
          }
        }
      }
    }
  }
  forget();
}

}  // namespace saturate::dims
