// Symbolic dims: canonical polynomials with integer coefficients over atoms. An atom is a symbol (a named or unknown dim of an input, an
// unknown output dim of an opaque node) or an opaque expression. The latter is a floordiv, mod, min or max of dims, named by its text.
// Interned: equal polynomials have equal ids. Unknown dims are distinct symbols: never equal unless proven.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saturate {

struct Dim {
  std::uint32_t id = 0;  // into a DimTable
  friend bool operator==(Dim, Dim) = default;
  friend auto operator<=>(Dim, Dim) = default;
};

// Every method may be called from any thread; ids depend on the order of the calls that make dims.
class DimTable {
 public:
  DimTable();
  ~DimTable();
  Dim constant(std::int64_t value);
  // The symbol of this name; always the same one.
  Dim symbol(std::string_view name);
  // The symbol for a dim that `where` (an input) declares under this name. Inputs that declare the same name get symbols of their own:
  // exports exist whose inputs share a name and not the size. Two of them are one as soon as an operator broadcasts them against each
  // other.
  Dim declared(std::string_view name, std::string_view where);
  // Unifies two dims that inputs declare under one name, where an operator puts one in the place of the other. Whether they are equal now.
  bool join_named(Dim a, Dim b);
  // A symbol equal to no other, with a name for people ("unk__3").
  Dim fresh(std::string_view hint);
  // A dim of another table, over symbols of the same names here.
  Dim imported(const DimTable& from, Dim d);

  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim product(std::span<const Dim> dims) {
    return std::accumulate(dims.begin(), dims.end(), constant(1), [this](Dim a, Dim b) { return mul(a, b); });
  }
  // a/b where b divides a as a polynomial; nullopt otherwise.
  std::optional<Dim> exact_div(Dim a, Dim b);
  Dim floor_div(Dim a, Dim b);  // Python's //: exact where possible, else an opaque atom
  Dim trunc_div(Dim a, Dim b);  // ONNX Div on integers; equals floor_div where both are known to be non-negative
  Dim ceil_div(Dim a, Dim b);
  Dim mod(Dim a, Dim b);
  Dim min(Dim a, Dim b);
  Dim max(Dim a, Dim b);
  Dim neg(Dim a);
  // Where a start or end of Slice falls among `size` elements: one below 0 counts from the end, both are cut to [0, size].
  Dim place(Dim at, Dim size);
  // The dim that two broadcast dims give (equal, or one of them 1), an opaque atom where it is open which; nullopt: two numbers that do not
  // broadcast.
  std::optional<Dim> broadcast(Dim a, Dim b);

  std::optional<std::int64_t> value(Dim d) const;  // the number, if constant
  bool equal(Dim a, Dim b) const;                  // proven equal (after unify)
  bool differ(Dim a, Dim b) const;                 // proven different for every size (e.g. constants, S and S+1)
  bool non_negative(Dim d) const;                  // proven >= 0 (dims of tensors are; all coefficients >= 0)
  bool positive(Dim d) const;                      // proven >= 1
  // Records that two dims are equal (from a merge of e-classes, or an operator that would fail otherwise). False: contradiction.
  bool unify(Dim a, Dim b);
  // Records that a dim is the size of a tensor, hence >= 0.
  void assume_non_negative(Dim d);
  // The canonical form of a dim after unifications.
  Dim canonical(Dim d) const;
  // Grows by every unification: facts derived before may be canonicalized again.
  std::uint64_t generation() const;
  // Grows by everything that is recorded of dims: what nothing decided before may be decided then.
  std::uint64_t knowledge() const;

  // The name of d if it is one plain symbol.
  std::optional<std::string> symbol_name(Dim d) const;
  // Its name ("batch@mask") where d is one that an input declares under a name of another input's dim, and nothing has made them one.
  std::optional<std::string> name_apart(Dim d) const;
  // "batch", "2*seq + 3", "floor(seq / 2)".
  std::string to_string(Dim d) const;
  // Number under an assignment of symbols (a declared name stands for all inputs that declare it); nullopt where one is missing.
  std::optional<std::int64_t> evaluate(Dim d, const std::map<std::string, std::int64_t>& symbols) const;
  // All symbols made so far.
  std::vector<std::string> symbols() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The name by which an input declares a symbol: without the input of a declared() one; of a dim without a name "x[1]", as facts_of_type()
// hints.
std::string declared_name(const std::string& symbol);

}  // namespace saturate
