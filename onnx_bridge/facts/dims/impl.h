// Private to dims*.cpp: polynomials, atoms and the substitutions that unifications leave behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "onnx_bridge/facts/dims/dims.h"

namespace saturate::dims {

using AtomId = std::uint32_t;
using Monomial = absl::InlinedVector<AtomId, 3>;  // ascending, repeated for powers; empty: the constant term
struct Term {
  Monomial atoms;
  std::int64_t coefficient = 0;
  friend bool operator==(const Term&, const Term&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Term& t) {
    return H::combine(std::move(h), t.atoms, t.coefficient);
  }
};
// Terms in descending graded lexicographic order, no zero coefficients; empty: zero.
using Poly = std::vector<Term>;

enum class AtomKind : std::uint8_t { kSymbol, kFloorDiv, kTruncDiv, kMod, kMin, kMax, kBroadcast, kPlace, kAdd, kMul };
// Dims are walked as trees, though they share their parts: what would be larger gets a symbol of its own, equal to nothing else.
inline constexpr std::uint32_t kLargestExpression = 2048;

struct Atom {
  AtomKind kind = AtomKind::kSymbol;
  bool non_negative = false;
  bool fresh = false;
  std::string name;             // symbols
  std::optional<AtomId> group;  // declared symbols: the first one of that name
  Dim a, b;                     // opaque expressions: their arguments
  std::uint32_t size = 1;       // atoms in it, written out as a tree; at most kLargestExpression
  std::optional<Dim> replaced;  // by this dim, after a unification
};

enum class Op : std::uint8_t { kAdd, kSub, kMul, kFloorDiv, kTruncDiv, kCeilDiv, kMod, kMin, kMax, kBroadcast, kPlace };

// -1, 0, 1 as a is smaller, equal or greater in graded lexicographic order (an admissible order: polynomial division needs one).
int compare(const Monomial& a, const Monomial& b);
// nullopt: a coefficient does not fit.
std::optional<Poly> add(const Poly& a, const Poly& b, std::int64_t factor_of_b);
std::optional<Poly> mul(const Poly& a, const Poly& b);
// The quotient where b divides a with integer coefficients.
std::optional<Poly> exact_div(Poly a, const Poly& b);
std::optional<std::int64_t> constant_value(const Poly& p);
std::int64_t floor_div(std::int64_t a, std::int64_t b);
// What an opaque expression of two numbers is; nullopt where it overflows, divides by 0 or does not broadcast.
std::optional<std::int64_t> run(AtomKind kind, std::int64_t x, std::int64_t y);

// All without locks; the public class takes them.
class Table {
 public:
  Table();
  Dim intern(Poly poly);
  Dim constant(std::int64_t value);
  Dim symbol(std::string_view name);
  Dim declared(std::string_view name, std::string_view where);
  Dim fresh(std::string_view hint);
  Dim imported(const Table& from, Dim d);
  // Whether the two would be equal if declared names meant equal sizes.
  bool equal_by_name(Dim a, Dim b);
  // Unifies symbols of one declared name that stand in a and in b, where the two would have to be broadcast to one of them then.
  bool join_symbols_by_name(Dim a, Dim b);
  // Whether `drop`, what is left behind a place of a Slice, is 1 where the sum `keep` is: broadcast against each other, the two are `keep`.
  bool one_where_sum_is_one(Dim keep, Dim drop);
  // Where `wide` is what two dims broadcast to and must be `d`: unifies the one with d that has d's declared names.
  void join_broadcast_by_name(Dim wide, Dim d);
  // Whether m is min(a, c) with a number c >= 2: broadcast against a, it is a (the operator fails where a > c).
  bool is_clipped(Dim m, Dim a);
  // What that proves: m = a, and a is at most c.
  bool unify_clipped(Dim m, Dim a);
  Dim apply(Op op, Dim a, Dim b);
  Dim canonical(Dim d) const { return Dim{canonical_[d.id]}; }
  const Poly& poly(Dim d) const { return polys_[canonical_[d.id]]; }
  const Poly& poly_as_made(Dim d) const { return polys_[d.id]; }
  const Atom& atom(AtomId id) const { return atoms_[id]; }
  // The atom that d is, if it is one plain symbol.
  const Atom* plain_symbol(Dim d) const {
    const Poly& p = poly(d);
    if (p.size() != 1 || p[0].coefficient != 1 || p[0].atoms.size() != 1) return nullptr;
    const Atom& only = atom(p[0].atoms[0]);
    return only.kind == AtomKind::kSymbol ? &only : nullptr;
  }
  std::size_t num_atoms() const { return atoms_.size(); }
  std::optional<std::int64_t> value(Dim d) const { return numbers_[canonical_[d.id]]; }
  bool equal(Dim a, Dim b) const;
  bool differ(Dim a, Dim b) const;
  // Proven p >= 0.
  bool non_negative(const Poly& p, int depth = 3) const;
  bool at_least(Dim d, std::int64_t bound) const;
  // Proven d >= 1, also as a product of such.
  bool positive(Dim d) const;
  void assume_non_negative(Dim d);
  bool unify(Dim a, Dim b);
  std::uint64_t generation() const { return generation_; }
  std::uint64_t knowledge() const { return generation_ + assumed_; }
  std::string to_string(const Poly& p) const;
  std::string to_string(AtomId atom) const;
  std::optional<std::int64_t> evaluate(const Poly& p, const std::map<std::string, std::int64_t>& symbols, int depth = 0) const;

 private:
  // A dim of `from`, perhaps this table, with each symbol replaced.
  Dim rewritten(const Table& from, Dim d, const std::function<Dim(AtomId)>& leaf);
  struct AtomKey {
    AtomKind kind;
    std::uint32_t a, b;
    friend bool operator==(const AtomKey&, const AtomKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const AtomKey& k) {
      return H::combine(std::move(h), k.kind, k.a, k.b);
    }
  };
  struct OpKey {
    Op op;
    std::uint32_t a, b;
    friend bool operator==(const OpKey&, const OpKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const OpKey& k) {
      return H::combine(std::move(h), k.op, k.a, k.b);
    }
  };
  Dim compute(Op op, Dim a, Dim b);
  Dim floor_div_dims(Dim a, Dim b);
  // p as floor(dividend / divisor) + plus.
  struct FloorOfConstant {
    Dim dividend;
    std::int64_t divisor, plus;
  };
  std::optional<FloorOfConstant> floor_of_constant(const Poly& p) const;
  Dim floor_div_by_constant(Poly p, std::int64_t k);
  Dim trunc_div_dims(Dim a, Dim b);
  Dim mod_dims(Dim a, Dim b);
  Dim lattice(AtomKind kind, Dim a, Dim b);
  Dim place(Dim at, Dim size);
  // Proven: keep == 1 has drop == 1 in its wake. So where the two broadcast at all, they give keep.
  bool one_where_one(Dim keep, Dim drop) const;
  std::optional<std::int64_t> at_ones(const Poly& p, std::span<const AtomId> ones, int depth) const;
  Dim atom_dim(AtomKind kind, Dim a, Dim b);
  Dim of_atom(AtomId id);
  bool atom_non_negative(AtomKind kind, Dim a, Dim b) const;
  void leaves(AtomKind kind, Dim d, std::vector<Dim>& out) const;
  Op op_of(AtomKind kind) const;
  AtomId add_symbol(std::string name, bool fresh);
  AtomId fresh_symbol(std::string_view hint);
  Dim by_name(Dim d);
  void refresh_bounds();
  std::uint32_t size_of(const Poly& p) const;
  void forget() {
    memo_.clear();
    by_name_.clear();
  }

  // solve.cpp
  struct Solution {
    AtomId atom;
    Poly rest;
  };
  std::optional<Solution> solve(const Poly& zero) const;
  bool occurs(AtomId atom, const Poly& p) const;
  bool assume_zero(Poly p);
  void substitute(AtomId atom, Dim by);
  void refresh(std::vector<AtomId> dirty);
  Dim rewrite(const Poly& p);
  static bool normalize_equation(Poly& p);

  std::deque<Poly> polys_;
  absl::flat_hash_map<Poly, std::uint32_t> ids_;
  std::vector<std::optional<std::int64_t>> numbers_;                 // by poly id: what a constant one is
  absl::flat_hash_map<std::int64_t, std::uint32_t> ids_of_numbers_;  // of ids_ those
  std::vector<std::uint32_t> canonical_;                             // by poly id
  std::vector<std::vector<std::uint32_t>> members_;                  // poly ids that are canonically this one (others than itself)
  std::vector<std::vector<AtomId>> arguments_of_;                    // atoms that have this poly as an argument
  std::deque<Atom> atoms_;
  std::vector<std::vector<std::uint32_t>> users_;  // by atom: polys that mention it
  absl::flat_hash_map<AtomKey, AtomId> atom_ids_;
  absl::flat_hash_map<std::string, AtomId> names_;
  absl::flat_hash_map<std::string, std::pair<AtomId, std::string>> first_declared_;  // by declared name: atom, and who declared it
  absl::flat_hash_map<OpKey, std::uint32_t> memo_;                                   // of this generation
  absl::flat_hash_map<std::uint32_t, std::uint32_t> by_name_;                        // likewise
  absl::flat_hash_set<std::uint32_t> zero_;  // polys known to be zero that could not be solved for an atom
  absl::flat_hash_set<std::uint32_t> known_non_negative_;
  std::vector<std::pair<Dim, Dim>> pending_;  // equations found while substituting
  std::uint64_t generation_ = 0, assumed_ = 0;
  std::uint64_t next_fresh_ = 0;
};

// As std::shared_mutex, for what takes less time than going to sleep: one atomic step where nobody is in the way.
class Lock {
 public:
  void lock() { take(0, kWriting, false); }
  void unlock() { state_.store(0, std::memory_order_release); }
  void lock_shared() {
    const int seen = state_.load(std::memory_order_relaxed);
    take(seen, seen + 1, true);
  }
  void unlock_shared() { state_.fetch_sub(1, std::memory_order_release); }

 private:
  static constexpr int kWriting = -1;
  void take(int seen, int then, bool for_reading) {
    if (seen < 0 || !state_.compare_exchange_strong(seen, then, std::memory_order_acquire)) wait_until_free(for_reading);
  }
  void wait_until_free(bool for_reading);
  std::atomic<int> state_ = 0;  // readers, or kWriting
};

}  // namespace saturate::dims

namespace saturate {
struct DimTable::Impl {
  mutable dims::Lock mutex;
  dims::Table table;
};
}  // namespace saturate
