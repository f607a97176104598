#include "onnx_bridge/facts/dims/dims.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "onnx_bridge/facts/dims/impl.h"

namespace saturate {

using dims::Atom;
using dims::AtomId;
using dims::AtomKind;
using dims::Op;
using dims::Poly;
using dims::Table;
using dims::Term;
using ReadLock = std::shared_lock<dims::Lock>;
using WriteLock = std::unique_lock<dims::Lock>;

std::string Table::to_string(AtomId id) const {
  const Atom& atom = atoms_[id];
  if (atom.kind == AtomKind::kSymbol) return atom.name;
  const std::string a = to_string(poly(atom.a)), b = to_string(poly(atom.b));
  auto grouped = [](const std::string& text) { return text.find(' ') == std::string::npos ? text : absl::StrCat("(", text, ")"); };
  switch (atom.kind) {
    case AtomKind::kFloorDiv:
      return absl::StrCat("floor(", grouped(a), " / ", grouped(b), ")");
    case AtomKind::kTruncDiv:
      return absl::StrCat("trunc(", grouped(a), " / ", grouped(b), ")");
    case AtomKind::kMod:
      return absl::StrCat("mod(", a, ", ", b, ")");
    case AtomKind::kMin:
      return absl::StrCat("min(", a, ", ", b, ")");
    case AtomKind::kMax:
      return absl::StrCat("max(", a, ", ", b, ")");
    case AtomKind::kBroadcast:
      return absl::StrCat("broadcast(", a, ", ", b, ")");
    case AtomKind::kPlace:
      return absl::StrCat("place(", a, ", ", b, ")");
    case AtomKind::kMul:
      return absl::StrCat("(", grouped(a), "*", grouped(b), ")");
    default:
      return absl::StrCat("(", a, " + ", b, ")");
  }
}

std::string Table::to_string(const Poly& p) const {
  if (p.empty()) return "0";
  std::string out;
  for (const Term& t : p) {
    const bool negative = t.coefficient < 0;
    absl::StrAppend(&out, out.empty() ? (negative ? "-" : "") : (negative ? " - " : " + "));
    const bool number = t.atoms.empty() || (t.coefficient != 1 && t.coefficient != -1);
    if (number) absl::StrAppend(&out, negative ? 0 - static_cast<std::uint64_t>(t.coefficient) : static_cast<std::uint64_t>(t.coefficient));
    for (std::size_t i = 0; i < t.atoms.size(); ++i) absl::StrAppend(&out, i > 0 || number ? "*" : "", to_string(t.atoms[i]));
  }
  return out;
}

std::optional<std::int64_t> dims::run(AtomKind kind, std::int64_t x, std::int64_t y) {
  std::int64_t r;
  const bool division = kind == AtomKind::kFloorDiv || kind == AtomKind::kTruncDiv || kind == AtomKind::kMod;
  if (division && (y == 0 || y == -1))
    return y == 0 ? std::nullopt : std::optional(kind == AtomKind::kMod || __builtin_sub_overflow(0, x, &r) ? 0 : r);
  switch (kind) {
    case AtomKind::kFloorDiv:
      return dims::floor_div(x, y);
    case AtomKind::kTruncDiv:
      return x / y;
    case AtomKind::kMod:
      return x - dims::floor_div(x, y) * y;
    case AtomKind::kMin:
      return std::min(x, y);
    case AtomKind::kMax:
      return std::max(x, y);
    case AtomKind::kBroadcast:
      return x == 1 ? std::optional(y) : y == 1 || x == y ? std::optional(x) : std::nullopt;
    case AtomKind::kPlace:
      if (x < 0 && __builtin_add_overflow(x, y, &x)) return std::nullopt;
      return std::max<std::int64_t>(std::min(x, y), 0);
    case AtomKind::kMul:
      return __builtin_mul_overflow(x, y, &r) ? std::nullopt : std::optional(r);
    default:
      return __builtin_add_overflow(x, y, &r) ? std::nullopt : std::optional(r);
  }
}

std::optional<std::int64_t> Table::evaluate(const Poly& p, const std::map<std::string, std::int64_t>& symbols, int depth) const {
  std::int64_t sum = 0;
  if (depth > 200) return std::nullopt;
  for (const Term& t : p) {
    std::int64_t product = t.coefficient;
    for (AtomId id : t.atoms) {
      const Atom& atom = atoms_[id];
      std::optional<std::int64_t> factor;
      if (atom.kind == AtomKind::kSymbol) {
        auto it = symbols.find(atom.name);
        if (it == symbols.end() && atom.group) it = symbols.find(atoms_[*atom.group].name);
        if (it != symbols.end()) factor = it->second;
      } else {
        auto x = evaluate(poly_as_made(atom.a), symbols, depth + 1), y = evaluate(poly_as_made(atom.b), symbols, depth + 1);
        if (x && y) factor = dims::run(atom.kind, *x, *y);
      }
      if (!factor && atom.replaced) factor = evaluate(poly(*atom.replaced), symbols, depth + 1);
      if (!factor || __builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

void dims::Lock::wait_until_free(bool for_reading) {
  for (;;) {
    int seen = state_.load(std::memory_order_relaxed);
    const bool free = for_reading ? seen >= 0 : seen == 0;
    if (free && state_.compare_exchange_weak(seen, for_reading ? seen + 1 : kWriting, std::memory_order_acquire)) return;
    if (!free) std::this_thread::yield();
  }
}

DimTable::DimTable() : impl_(std::make_unique<Impl>()) {}
DimTable::~DimTable() = default;

Dim DimTable::constant(std::int64_t value) {
  WriteLock lock(impl_->mutex);
  return impl_->table.constant(value);
}
Dim DimTable::symbol(std::string_view name) {
  WriteLock lock(impl_->mutex);
  return impl_->table.symbol(name);
}
Dim DimTable::declared(std::string_view name, std::string_view where) {
  WriteLock lock(impl_->mutex);
  return impl_->table.declared(name, where);
}
Dim DimTable::fresh(std::string_view hint) {
  WriteLock lock(impl_->mutex);
  return impl_->table.fresh(hint);
}
Dim DimTable::imported(const DimTable& from, Dim d) {
  WriteLock lock(impl_->mutex);
  const ReadLock other(from.impl_->mutex);
  return impl_->table.imported(from.impl_->table, d);
}

Dim DimTable::add(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kAdd, a, b);
}
Dim DimTable::sub(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kSub, a, b);
}
Dim DimTable::mul(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kMul, a, b);
}
std::optional<Dim> DimTable::exact_div(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  Table& table = impl_->table;
  auto q = dims::exact_div(table.poly(a), table.poly(b));
  if (!q) return std::nullopt;
  return table.canonical(table.intern(*std::move(q)));
}
Dim DimTable::floor_div(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kFloorDiv, a, b);
}
Dim DimTable::trunc_div(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kTruncDiv, a, b);
}
Dim DimTable::ceil_div(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kCeilDiv, a, b);
}
Dim DimTable::mod(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kMod, a, b);
}
Dim DimTable::min(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kMin, a, b);
}
Dim DimTable::max(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kMax, a, b);
}
Dim DimTable::place(Dim at, Dim size) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kPlace, at, size);
}
Dim DimTable::neg(Dim a) {
  WriteLock lock(impl_->mutex);
  return impl_->table.apply(Op::kSub, Dim{0}, a);
}
std::optional<Dim> DimTable::broadcast(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  Table& table = impl_->table;
  const auto x = table.value(a), y = table.value(b);
  if (x && y && *x != *y && *x != 1 && *y != 1) return std::nullopt;
  if (!x && !y && !table.equal(a, b) && table.equal_by_name(a, b) && table.unify(a, b)) return table.canonical(a);
  if (table.is_clipped(a, b) && table.unify_clipped(a, b)) return table.canonical(a);
  if (table.is_clipped(b, a) && table.unify_clipped(b, a)) return table.canonical(a);
  if (!x && !y) table.join_symbols_by_name(a, b);
  if (!x && !y && table.one_where_sum_is_one(a, b)) return table.canonical(a);
  if (!x && !y && table.one_where_sum_is_one(b, a)) return table.canonical(b);
  return table.apply(Op::kBroadcast, a, b);
}
bool DimTable::join_named(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  Table& table = impl_->table;
  return table.equal(a, b) || (table.equal_by_name(a, b) && table.unify(a, b));
}

std::optional<std::int64_t> DimTable::value(Dim d) const {
  ReadLock lock(impl_->mutex);
  return impl_->table.value(d);
}
bool DimTable::equal(Dim a, Dim b) const {
  if (a == b) return true;  // most are, and the lock is dear
  ReadLock lock(impl_->mutex);
  return impl_->table.equal(a, b);
}
bool DimTable::differ(Dim a, Dim b) const {
  if (a == b) return false;
  ReadLock lock(impl_->mutex);
  return impl_->table.differ(a, b);
}
bool DimTable::non_negative(Dim d) const {
  ReadLock lock(impl_->mutex);
  return impl_->table.at_least(d, 0);
}
bool DimTable::positive(Dim d) const {
  ReadLock lock(impl_->mutex);
  return impl_->table.positive(d);
}
bool DimTable::unify(Dim a, Dim b) {
  WriteLock lock(impl_->mutex);
  impl_->table.join_broadcast_by_name(a, b);
  impl_->table.join_broadcast_by_name(b, a);
  return impl_->table.unify(a, b);
}
void DimTable::assume_non_negative(Dim d) {
  WriteLock lock(impl_->mutex);
  impl_->table.assume_non_negative(d);
}
Dim DimTable::canonical(Dim d) const {
  ReadLock lock(impl_->mutex);
  return impl_->table.canonical(d);
}
std::uint64_t DimTable::generation() const {
  ReadLock lock(impl_->mutex);
  return impl_->table.generation();
}

std::uint64_t DimTable::knowledge() const {
  ReadLock lock(impl_->mutex);
  return impl_->table.knowledge();
}

std::string declared_name(const std::string& symbol) {
  const std::size_t unnamed = symbol.rfind("]__");
  return symbol.substr(0, unnamed == std::string::npos ? symbol.find('@') : unnamed + 1);
}

std::optional<std::string> DimTable::symbol_name(Dim d) const {
  ReadLock lock(impl_->mutex);
  const Atom* atom = impl_->table.plain_symbol(d);
  return atom ? std::optional(atom->name) : std::nullopt;
}
std::optional<std::string> DimTable::name_apart(Dim d) const {
  ReadLock lock(impl_->mutex);
  const dims::Table& table = impl_->table;
  const Atom* atom = table.plain_symbol(d);
  if (!atom || !atom->group || &table.atom(*atom->group) == atom) return std::nullopt;
  const Atom& first = table.atom(*atom->group);
  if (first.replaced && table.canonical(*first.replaced) == table.canonical(d)) return std::nullopt;
  return atom->name;
}
std::string DimTable::to_string(Dim d) const {
  ReadLock lock(impl_->mutex);
  return impl_->table.to_string(impl_->table.poly(d));
}
std::optional<std::int64_t> DimTable::evaluate(Dim d, const std::map<std::string, std::int64_t>& symbols) const {
  ReadLock lock(impl_->mutex);
  if (auto made = impl_->table.evaluate(impl_->table.poly_as_made(d), symbols)) return made;
  return impl_->table.evaluate(impl_->table.poly(d), symbols);
}
std::vector<std::string> DimTable::symbols() const {
  ReadLock lock(impl_->mutex);
  std::vector<std::string> names;
  for (AtomId id = 0; id < impl_->table.num_atoms(); ++id)
    if (impl_->table.atom(id).kind == AtomKind::kSymbol) names.push_back(impl_->table.atom(id).name);
  return names;
}

}  // namespace saturate
