// Operations on dims: interning, opaque atoms and the simplifications that hold for integers.
#include <algorithm>
#include <limits>
#include <numeric>

#include "onnx_bridge/facts/dims/impl.h"

namespace saturate::dims {

namespace {
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::size_t kMostTerms = 64;      // beyond it a product stays an opaque atom
constexpr std::size_t kMostSummands = 512;  // likewise a sum
constexpr std::size_t kMostBoundsTried = 64;
}  // namespace

Table::Table() { intern({}); }

Dim Table::intern(Poly poly) {
  auto [it, added] = ids_.try_emplace(std::move(poly), static_cast<std::uint32_t>(polys_.size()));
  if (!added) return Dim{it->second};
  const std::uint32_t id = it->second;
  polys_.push_back(it->first);
  numbers_.push_back(constant_value(it->first));
  if (numbers_.back()) ids_of_numbers_.emplace(*numbers_.back(), id);
  canonical_.push_back(id);
  members_.emplace_back();
  arguments_of_.emplace_back();
  for (const Term& t : polys_.back())
    for (std::size_t i = 0; i < t.atoms.size(); ++i)
      if ((i == 0 || t.atoms[i] != t.atoms[i - 1]) && (users_[t.atoms[i]].empty() || users_[t.atoms[i]].back() != id))
        users_[t.atoms[i]].push_back(id);
  return Dim{id};
}

Dim Table::constant(std::int64_t value) {
  const auto known = ids_of_numbers_.find(value);
  return known != ids_of_numbers_.end() ? Dim{known->second} : intern({{{}, value}});
}

AtomId Table::add_symbol(std::string name, bool fresh) {
  const auto id = static_cast<AtomId>(atoms_.size());
  Atom atom;
  atom.non_negative = true;
  atom.fresh = fresh;
  atom.name = name;
  atoms_.push_back(std::move(atom));
  users_.emplace_back();
  names_[std::move(name)] = id;
  return id;
}

Dim Table::of_atom(AtomId id) { return canonical(intern({{{id}, 1}})); }

Dim Table::symbol(std::string_view name) {
  auto it = names_.find(std::string(name));
  if (it != names_.end() && !atoms_[it->second].fresh) return of_atom(it->second);
  if (it != names_.end()) {  // a made-up name that the model uses too: the made-up one gives way
    const AtomId other = it->second;
    std::string moved(name);
    do moved += '_';
    while (names_.contains(moved));
    names_.erase(it);
    atoms_[other].name = moved;
    names_[moved] = other;
  }
  return of_atom(add_symbol(std::string(name), false));
}

Dim Table::declared(std::string_view name, std::string_view where) {
  const std::string own = std::string(name) + "@" + std::string(where);
  if (auto it = names_.find(own); it != names_.end() && !atoms_[it->second].fresh) return of_atom(it->second);
  auto [first, added] = first_declared_.try_emplace(std::string(name));
  if (added) {
    const Dim plain = symbol(name);
    first->second = {names_.find(std::string(name))->second, std::string(where)};
    atoms_[first->second.first].group = first->second.first;
    return plain;
  }
  if (first->second.second == where) return of_atom(first->second.first);
  symbol(own);
  const AtomId atom = names_.find(own)->second;
  atoms_[atom].group = first->second.first;
  return of_atom(atom);
}

Dim Table::imported(const Table& from, Dim d) {
  return rewritten(from, d, [&](AtomId id) {
    const Atom& atom = from.atoms_[id];
    if (!atom.group) return symbol(atom.name);
    const std::string& name = from.atoms_[*atom.group].name;  // the others are "name@where"
    const Dim first = declared(name, from.first_declared_.at(name).second);
    return *atom.group == id ? first : declared(name, std::string_view(atom.name).substr(name.size() + 1));
  });
}

Dim Table::rewritten(const Table& from, Dim d, const std::function<Dim(AtomId)>& leaf) {
  Dim sum = constant(0);
  for (const Term& t : Poly(from.poly(d))) {
    Dim product = constant(t.coefficient);
    for (AtomId id : t.atoms) {
      const Atom atom = from.atoms_[id];
      const Dim factor =
          atom.kind != AtomKind::kSymbol ? apply(op_of(atom.kind), rewritten(from, atom.a, leaf), rewritten(from, atom.b, leaf)) : leaf(id);
      product = apply(Op::kMul, product, factor);
    }
    sum = apply(Op::kAdd, sum, product);
  }
  return sum;
}

Dim Table::by_name(Dim d) {
  d = canonical(d);
  if (const auto it = by_name_.find(d.id); it != by_name_.end()) return Dim{it->second};
  const Dim out = rewritten(*this, d, [this](AtomId id) { return of_atom(atoms_[id].group.value_or(id)); });
  by_name_[d.id] = out.id;
  return out;
}

bool Table::one_where_sum_is_one(Dim keep, Dim drop) {
  const Poly sum = poly(keep), &open = poly(drop);
  if (sum.size() < 2 || std::none_of(open.begin(), open.end(),
                                     [this](const Term& t) { return t.atoms.size() == 1 && atoms_[t.atoms[0]].kind == AtomKind::kPlace; }))
    return false;
  for (const Term& t : sum) {
    if (t.coefficient != 1 || t.atoms.size() != 1 || atoms_[t.atoms[0]].kind != AtomKind::kSymbol) continue;
    const AtomId one = t.atoms[0];
    if (std::any_of(sum.begin(), sum.end(), [&](const Term& o) { return &o != &t && std::ranges::find(o.atoms, one) != o.atoms.end(); }))
      continue;
    const Dim rest = apply(Op::kSub, of_atom(one), apply(Op::kSub, keep, constant(1)));  // what it is where the sum is 1
    return value(rewritten(*this, drop, [&](AtomId id) { return id == one ? rest : of_atom(id); })) == 1;
  }
  return false;
}

bool Table::unify_clipped(Dim m, Dim a) {
  const Atom atom = atoms_[poly(m)[0].atoms[0]];
  const Dim bound = value(atom.a) ? atom.a : atom.b;
  if (!unify(m, a)) return false;
  if (auto room = dims::add(poly(bound), poly(a), -1); room && !non_negative(*room)) {
    known_non_negative_.insert(intern(*std::move(room)).id);
    refresh_bounds();
  }
  return true;
}

// A new bound may decide minima and maxima that stood open.
void Table::refresh_bounds() {
  ++generation_;
  forget();
  for (AtomId id = 0; id < atoms_.size(); ++id) {
    const Atom atom = atoms_[id];
    if (atom.replaced ||
        (atom.kind != AtomKind::kMin && atom.kind != AtomKind::kMax && atom.kind != AtomKind::kPlace && atom.kind != AtomKind::kTruncDiv))
      continue;
    const Dim now = apply(op_of(atom.kind), atom.a, atom.b);
    if (const Dim before = of_atom(id); now != before) unify(before, now);
  }
}

bool Table::is_clipped(Dim m, Dim a) {
  const Poly& p = poly(m);
  if (p.size() != 1 || p[0].coefficient != 1 || p[0].atoms.size() != 1) return false;
  const Atom atom = atoms_[p[0].atoms[0]];
  if (atom.kind != AtomKind::kMin) return false;
  const auto same = [&](Dim x) { return equal(x, a) || equal_by_name(x, a); };
  return (value(atom.b).value_or(0) >= 2 && same(atom.a)) || (value(atom.a).value_or(0) >= 2 && same(atom.b));
}

bool Table::equal_by_name(Dim a, Dim b) { return !first_declared_.empty() && equal(by_name(a), by_name(b)); }

bool Table::join_symbols_by_name(Dim a, Dim b) {
  if (first_declared_.empty() || one_where_one(a, b) || one_where_one(b, a)) return false;
  const Dim x = by_name(a), y = by_name(b);
  if (!one_where_one(x, y) && !one_where_one(y, x)) return false;
  std::vector<std::pair<AtomId, AtomId>> pairs;
  for (const Term& s : poly(a))
    for (AtomId i : s.atoms)
      for (const Term& t : poly(b))
        for (AtomId j : t.atoms)
          if (i != j && atoms_[i].group && atoms_[i].group == atoms_[j].group) pairs.emplace_back(i, j);
  bool joined = false;
  for (const auto& [i, j] : pairs) joined = unify(of_atom(i), of_atom(j)) || joined;
  return joined;
}

void Table::join_broadcast_by_name(Dim wide, Dim d) {
  const Poly& p = poly(wide);
  if (first_declared_.empty() || value(d) || p.size() != 1 || p[0].coefficient != 1 || p[0].atoms.size() != 1) return;
  const Atom atom = atoms_[p[0].atoms[0]];
  if (atom.kind != AtomKind::kBroadcast) return;
  for (Dim side : {atom.a, atom.b})
    if (!equal(side, d) && equal_by_name(side, d)) unify(side, d);
}

AtomId Table::fresh_symbol(std::string_view hint) {
  std::string name;
  do name = std::string(hint.empty() ? "unk" : hint) + "__" + std::to_string(next_fresh_++);
  while (names_.contains(name));
  return add_symbol(std::move(name), true);
}

Dim Table::fresh(std::string_view hint) { return of_atom(fresh_symbol(hint)); }

Dim Table::apply(Op op, Dim a, Dim b) {
  a = canonical(a);
  b = canonical(b);
  const OpKey key{op, a.id, b.id};
  if (auto it = memo_.find(key); it != memo_.end()) return Dim{it->second};
  const Dim result = canonical(compute(op, a, b));
  memo_[key] = result.id;
  return result;
}

Dim Table::compute(Op op, Dim a, Dim b) {
  const Poly& pa = poly(a);
  const Poly& pb = poly(b);
  switch (op) {
    case Op::kAdd:
      if (pa.size() + pb.size() <= kMostSummands)
        if (auto p = dims::add(pa, pb, 1)) return intern(*std::move(p));
      return atom_dim(AtomKind::kAdd, std::min(a, b), std::max(a, b));
    case Op::kSub:
      if (pa.size() + pb.size() <= kMostSummands)
        if (auto p = dims::add(pa, pb, -1)) return intern(*std::move(p));
      return atom_dim(AtomKind::kAdd, a, atom_dim(AtomKind::kMul, b, constant(-1)));
    case Op::kMul:
      if (pa.size() * pb.size() <= kMostTerms)
        if (auto p = dims::mul(pa, pb)) return intern(*std::move(p));
      return atom_dim(AtomKind::kMul, std::min(a, b), std::max(a, b));
    case Op::kFloorDiv:
      return floor_div_dims(a, b);
    case Op::kTruncDiv:
      return trunc_div_dims(a, b);
    case Op::kCeilDiv: {
      // ceil(a / b) = floor((a + b - 1) / b) for positive b, -floor(-a / b) for any.
      if (const auto k = value(b); k && *k > 0) return floor_div_dims(apply(Op::kAdd, a, constant(*k - 1)), b);
      const Dim minus = apply(Op::kSub, constant(0), a);
      return apply(Op::kSub, constant(0), floor_div_dims(minus, b));
    }
    case Op::kMod:
      return mod_dims(a, b);
    case Op::kMin:
      return lattice(AtomKind::kMin, a, b);
    case Op::kMax:
      return lattice(AtomKind::kMax, a, b);
    case Op::kBroadcast:
      return lattice(AtomKind::kBroadcast, a, b);
    case Op::kPlace:
      return place(a, b);
  }
  return a;
}

std::optional<Table::FloorOfConstant> Table::floor_of_constant(const Poly& p) const {
  if (p.empty() || p.size() > 2 || p[0].coefficient != 1 || p[0].atoms.size() != 1 || (p.size() == 2 && !p[1].atoms.empty()))
    return std::nullopt;
  const Atom& atom = atoms_[p[0].atoms[0]];
  const auto m = atom.kind == AtomKind::kFloorDiv ? value(atom.b) : std::nullopt;
  if (!m || *m <= 0) return std::nullopt;
  return FloorOfConstant{atom.a, *m, p.size() == 2 ? p[1].coefficient : 0};
}

Dim Table::floor_div_by_constant(Poly p, std::int64_t k) {
  // floor((k*q + r) / k) = q + floor(r / k), with the coefficients of r in [0, k).
  Poly whole, rest;
  for (const Term& t : p) {
    const std::int64_t q = dims::floor_div(t.coefficient, k);
    if (q != 0) whole.push_back({t.atoms, q});
    if (t.coefficient - q * k != 0) rest.push_back({t.atoms, t.coefficient - q * k});
  }
  const Dim quotient = intern(std::move(whole));
  if (constant_value(rest)) return quotient;
  // floor((g*r + c) / (g*k)) = floor((r + floor(c / g)) / k).
  std::int64_t g = k;
  for (const Term& t : rest)
    if (!t.atoms.empty()) g = std::gcd(g, t.coefficient);
  Poly reduced;
  for (const Term& t : rest)
    if (t.coefficient / g != 0) reduced.push_back({t.atoms, t.coefficient / g});
  k /= g;
  if (g > 1) return apply(Op::kAdd, quotient, floor_div_by_constant(std::move(reduced), k));
  // floor((floor(x / m) + c) / k) = floor((x + c*m) / (m*k)) for positive m, k.
  if (const auto inner = floor_of_constant(reduced)) {
    std::int64_t both, shift;
    if (!__builtin_mul_overflow(inner->divisor, k, &both) && !__builtin_mul_overflow(inner->plus, inner->divisor, &shift))
      if (auto x = dims::add(poly(inner->dividend), poly(constant(shift)), 1))
        return apply(Op::kAdd, quotient, floor_div_by_constant(*std::move(x), both));
  }
  if (reduced.size() == 1 && reduced[0].coefficient == 1 && reduced[0].atoms.size() == 1) {
    const Atom inner = atoms_[reduced[0].atoms[0]];
    if (inner.kind == AtomKind::kMod) {
      const auto modulus = value(inner.b);
      if (modulus && *modulus > 0 && *modulus <= k) return quotient;
    }
  }
  const Dim opaque = atom_dim(AtomKind::kFloorDiv, intern(std::move(reduced)), constant(k));
  return apply(Op::kAdd, quotient, opaque);
}

Dim Table::floor_div_dims(Dim a, Dim b) {
  const auto x = value(a), y = value(b);
  if (y && *y == 0) return atom_dim(AtomKind::kFloorDiv, a, b);
  if (x && y && !(*x == kLowest && *y == -1)) return constant(dims::floor_div(*x, *y));
  if (y && *y > 0) return canonical(floor_div_by_constant(poly(a), *y));
  if (auto q = dims::exact_div(poly(a), poly(b))) return intern(*std::move(q));
  return atom_dim(AtomKind::kFloorDiv, a, b);
}

Dim Table::trunc_div_dims(Dim a, Dim b) {
  const auto x = value(a), y = value(b);
  if (y && *y == 0) return atom_dim(AtomKind::kTruncDiv, a, b);
  if (x && y && !(*x == kLowest && *y == -1)) return constant(*x / *y);
  if (auto q = dims::exact_div(poly(a), poly(b))) return intern(*std::move(q));
  if (non_negative(poly(a)) && non_negative(poly(b))) return floor_div_dims(a, b);
  return atom_dim(AtomKind::kTruncDiv, a, b);
}

Dim Table::mod_dims(Dim a, Dim b) {
  const auto x = value(a), y = value(b);
  if (y && *y == 0) return atom_dim(AtomKind::kMod, a, b);
  if (x && y && *y != -1) return constant(*x - dims::floor_div(*x, *y) * *y);
  if (dims::exact_div(poly(a), poly(b))) return constant(0);
  if (!y || *y < 0) return atom_dim(AtomKind::kMod, a, b);
  Poly rest;
  for (const Term& t : poly(a)) {
    const std::int64_t r = t.coefficient - dims::floor_div(t.coefficient, *y) * *y;
    if (r != 0) rest.push_back({t.atoms, r});
  }
  if (auto c = constant_value(rest)) return constant(*c);
  if (rest.size() == 1 && rest[0].coefficient == 1 && rest[0].atoms.size() == 1) {
    const Atom& inner = atoms_[rest[0].atoms[0]];
    if (inner.kind == AtomKind::kMod && value(inner.b) == y) return intern(std::move(rest));
  }
  return atom_dim(AtomKind::kMod, intern(std::move(rest)), b);
}

void Table::leaves(AtomKind kind, Dim d, std::vector<Dim>& out) const {
  const Poly& p = poly(d);
  if (p.size() == 1 && p[0].coefficient == 1 && p[0].atoms.size() == 1) {
    const Atom& atom = atoms_[p[0].atoms[0]];
    if (atom.kind == kind) {
      leaves(kind, atom.a, out);
      leaves(kind, atom.b, out);
      return;
    }
  }
  out.push_back(canonical(d));
}

Dim Table::lattice(AtomKind kind, Dim a, Dim b) {
  std::vector<Dim> all;
  leaves(kind, a, all);
  leaves(kind, b, all);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  // Of two, the one that the other makes superfluous goes.
  auto covers = [&](Dim keep, Dim drop) {
    if (kind == AtomKind::kBroadcast) return value(drop) == 1 || at_least(keep, 2) || value(keep) == 0 || one_where_one(keep, drop);
    const auto difference = kind == AtomKind::kMax ? dims::add(poly(keep), poly(drop), -1) : dims::add(poly(drop), poly(keep), -1);
    return difference && non_negative(*difference);
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size();) {
      if (i == j || !covers(all[i], all[j])) {
        ++j;
        continue;
      }
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(j));
      if (j < i) --i;
    }
  Dim result = all[0];
  for (std::size_t i = 1; i < all.size(); ++i) result = atom_dim(kind, result, all[i]);
  return result;
}

std::optional<std::int64_t> Table::at_ones(const Poly& p, std::span<const AtomId> ones, int depth) const {
  if (depth == 0) return std::nullopt;
  std::int64_t sum = 0;
  for (const Term& t : p) {
    std::int64_t product = t.coefficient;
    for (AtomId id : t.atoms) {
      if (std::find(ones.begin(), ones.end(), id) != ones.end()) continue;
      const Atom& atom = atoms_[id];
      if (atom.kind == AtomKind::kSymbol) return std::nullopt;
      const auto x = at_ones(poly(atom.a), ones, depth - 1), y = at_ones(poly(atom.b), ones, depth - 1);
      const auto factor = x && y ? run(atom.kind, *x, *y) : std::nullopt;
      if (!factor || __builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

bool Table::one_where_one(Dim keep, Dim drop) const {
  const Poly& p = poly(keep);
  if (p.size() != 1 || p[0].coefficient != 1 || p[0].atoms.empty()) return false;
  // A product of sizes is 1 only where each of them is.
  const auto size = [&](AtomId id) { return atoms_[id].non_negative; };
  if (p[0].atoms.size() > 1 && !std::all_of(p[0].atoms.begin(), p[0].atoms.end(), size)) return false;
  return at_ones(poly(drop), p[0].atoms, 8) == 1;
}

Dim Table::place(Dim at, Dim size) {
  const auto x = value(at), y = value(size);
  if (x && y)
    if (const auto known = run(AtomKind::kPlace, *x, *y)) return constant(*known);
  if (at_least(at, 0)) return apply(Op::kMin, at, size);
  if (at_least(apply(Op::kSub, constant(0), at), 1)) return apply(Op::kMax, apply(Op::kAdd, at, size), constant(0));
  return atom_dim(AtomKind::kPlace, at, size);
}

bool Table::atom_non_negative(AtomKind kind, Dim a, Dim b) const {
  const bool x = non_negative(poly(a)), y = non_negative(poly(b));
  switch (kind) {
    case AtomKind::kFloorDiv:
    case AtomKind::kTruncDiv:
    case AtomKind::kMin:
    case AtomKind::kAdd:
    case AtomKind::kMul:
      return x && y;
    case AtomKind::kMod:
      return y;
    case AtomKind::kMax:
      return x || y;
    case AtomKind::kBroadcast:
      return x && y;
    case AtomKind::kPlace:
    case AtomKind::kSymbol:
      return true;
  }
  return false;
}

std::uint32_t Table::size_of(const Poly& p) const {
  std::uint32_t sum = 0;
  for (const Term& t : p)
    for (AtomId id : t.atoms) sum = std::min(sum + atoms_[id].size, kLargestExpression + 1);
  return sum;
}

Dim Table::atom_dim(AtomKind kind, Dim a, Dim b) {
  a = canonical(a);
  b = canonical(b);
  const AtomKey key{kind, a.id, b.id};
  auto it = atom_ids_.find(key);
  const std::uint32_t size = it == atom_ids_.end() ? 1 + size_of(poly(a)) + size_of(poly(b)) : 0;
  if (size > kLargestExpression) {
    const AtomId id = fresh_symbol("unk");
    atoms_[id].non_negative = atom_non_negative(kind, a, b);
    it = atom_ids_.emplace(key, id).first;
  }
  if (it == atom_ids_.end()) {
    const auto id = static_cast<AtomId>(atoms_.size());
    Atom atom;
    atom.kind = kind;
    atom.non_negative = atom_non_negative(kind, a, b);
    atom.a = a;
    atom.b = b;
    atom.size = size;
    atoms_.push_back(std::move(atom));
    users_.emplace_back();
    arguments_of_[a.id].push_back(id);
    if (b != a) arguments_of_[b.id].push_back(id);
    it = atom_ids_.emplace(key, id).first;
  }
  return of_atom(it->second);
}

Op Table::op_of(AtomKind kind) const {
  switch (kind) {
    case AtomKind::kFloorDiv:
      return Op::kFloorDiv;
    case AtomKind::kTruncDiv:
      return Op::kTruncDiv;
    case AtomKind::kMod:
      return Op::kMod;
    case AtomKind::kMin:
      return Op::kMin;
    case AtomKind::kMax:
      return Op::kMax;
    case AtomKind::kBroadcast:
      return Op::kBroadcast;
    case AtomKind::kPlace:
      return Op::kPlace;
    case AtomKind::kMul:
      return Op::kMul;
    default:
      return Op::kAdd;
  }
}

bool Table::equal(Dim a, Dim b) const {
  a = canonical(a);
  b = canonical(b);
  if (a == b) return true;
  if (zero_.empty()) return false;
  auto difference = dims::add(poly(a), poly(b), -1);
  if (!difference || !normalize_equation(*difference)) return false;
  auto it = ids_.find(*difference);
  return it != ids_.end() && zero_.contains(it->second);
}

bool Table::differ(Dim a, Dim b) const {
  if (const auto x = value(a), y = value(b); x && y) return *x != *y;
  auto difference = dims::add(poly(a), poly(b), -1);
  if (!difference || difference->empty()) return false;
  std::int64_t g = 0, c = 0;
  for (const Term& t : *difference) {
    if (t.coefficient == kLowest) return false;
    if (t.atoms.empty())
      c = t.coefficient;
    else
      g = std::gcd(g, t.coefficient);
  }
  if (g == 0) return c != 0;
  if (c % g != 0) return true;
  const Poly one{{{}, 1}};
  auto above = dims::add(*difference, one, -1);  // a - b >= 1
  if (above && non_negative(*above)) return true;
  auto minus = dims::add({}, *difference, -1);
  auto below = minus ? dims::add(*minus, one, -1) : std::nullopt;
  return below && non_negative(*below);
}

bool Table::non_negative(const Poly& p, int depth) const {
  bool plain = true;
  for (const Term& t : p) {
    bool atoms = true;
    std::size_t odd = 0;  // an atom of unknown sign is harmless in an even power
    for (std::size_t i = 0; i < t.atoms.size(); i += odd) {
      for (odd = 1; i + odd < t.atoms.size() && t.atoms[i + odd] == t.atoms[i]; ++odd) {
      }
      if (!atoms_[t.atoms[i]].non_negative && odd % 2 == 1) atoms = false;
    }
    if (!atoms || t.coefficient < 0) plain = false;
  }
  if (plain) return true;
  if (!known_non_negative_.empty())
    if (auto it = ids_.find(p); it != ids_.end() && known_non_negative_.contains(it->second)) return true;
  if (depth == 0) return false;
  if (known_non_negative_.size() <= kMostBoundsTried)  // what is at least a number that is known to be >= 0
    for (std::uint32_t id : known_non_negative_)
      if (auto more = dims::add(p, poly(Dim{id}), -1); more && non_negative(*more, 0)) return true;
  // -min(x, y) >= -x and max(x, y) >= x: a bound by either argument will do. -place(x, n) >= -n.
  for (const Term& t : p) {
    if (t.atoms.size() != 1) continue;
    const Atom& atom = atoms_[t.atoms[0]];
    const bool useful = (atom.kind == AtomKind::kMin && t.coefficient < 0) || (atom.kind == AtomKind::kMax && t.coefficient > 0);
    const bool placed = atom.kind == AtomKind::kPlace && t.coefficient < 0;
    if (!useful && !placed) continue;
    for (Dim argument : {placed ? atom.b : atom.a, atom.b}) {
      auto without = dims::add(p, Poly{t}, -1);
      auto bound = without ? dims::add(*without, poly(argument), t.coefficient) : std::nullopt;
      if (bound && non_negative(*bound, depth - 1)) return true;
    }
  }
  return false;
}

void Table::assume_non_negative(Dim d) {
  if (non_negative(poly(d)) || value(d)) return;
  known_non_negative_.insert(canonical(d).id);
  ++assumed_;
  forget();
  // floor(x / m) + c >= 0 says x + c*m >= 0.
  if (const auto inner = floor_of_constant(poly(d))) {
    std::int64_t shift;
    if (__builtin_mul_overflow(inner->plus, inner->divisor, &shift)) return;
    if (auto x = dims::add(poly(inner->dividend), poly(constant(shift)), 1)) assume_non_negative(intern(*std::move(x)));
  }
  const auto open = [](const Atom& a) { return a.kind == AtomKind::kTruncDiv && !a.replaced; };
  if (std::any_of(atoms_.begin(), atoms_.end(), open)) refresh_bounds();
}

bool Table::positive(Dim d) const {
  if (at_least(d, 1)) return true;
  const auto at_least_one = [this](AtomId a) {
    auto above = dims::add(Poly{{{a}, 1}}, Poly{{{}, 1}}, -1);
    return above && non_negative(*above);
  };
  const auto is_positive = [&](const Term& t) { return t.coefficient > 0 && std::all_of(t.atoms.begin(), t.atoms.end(), at_least_one); };
  const auto is_size = [&](const Term& t) { return non_negative(Poly{t}); };
  const Poly& p = poly(d);
  return std::any_of(p.begin(), p.end(), is_positive) && std::all_of(p.begin(), p.end(), is_size);
}

bool Table::at_least(Dim d, std::int64_t bound) const {
  if (const auto number = value(d)) return *number >= bound;
  if (bound == 0) return non_negative(poly(d));
  auto above = dims::add(poly(d), Poly{{{}, bound}}, -1);
  return above && non_negative(*above);
}

}  // namespace saturate::dims
