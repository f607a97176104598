// Values of rule expressions and their evaluation. A result is a value, or none with a reason (why the rule does not apply here).
// Three-valued: a comparison of symbolic dims that nothing decides has no value, and the rule does not apply.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/convert/refusals.h"
#include "onnx_bridge/facts/facts.h"
#include "rules/terms/rule.h"
#include "rules/values/bounds.h"
#include "rules/values/constants_in_a_row.h"
#include "rules/values/fills.h"
#include "rules/values/magnitudes.h"
#include "rules/values/masks.h"
#include "rules/values/quantizers.h"
#include "rules/values/triangles.h"

namespace saturate {

// What expressions ask about the values that a rule has matched: of an e-graph's classes, or of an example's tensors.
class FactSource {
 public:
  virtual ~FactSource() = default;
  virtual const Facts& facts(Id id) const = 0;
  // As OnnxEGraph::value.
  virtual std::optional<Tensor> value(Id id, std::size_t max_bytes) const = 0;
  virtual DimTable& dims() const = 0;
  // As lower_triangle of triangles.h.
  virtual std::optional<Dim> lower_triangle(Id) const { return std::nullopt; }
  // As is_zero_or_one of masks.h.
  virtual bool is_zero_or_one(Id) const { return false; }
  // As may_be_mask of masks.h.
  virtual bool may_be_mask(Id) const { return false; }
  // As hides_by_infinity of masks.h.
  virtual bool hides_by_infinity(Id) const { return false; }
  // As magnitudes of magnitudes.h.
  virtual std::optional<Magnitudes> magnitudes(Id) const { return std::nullopt; }
  // As in fills.h; of an example's tensor, what its elements say.
  virtual std::optional<Fills> fills(Id) const { return std::nullopt; }
  virtual bool is_above_lowest(Id) const { return false; }
  virtual bool hides_by_numbers(Id) const { return false; }
  virtual bool reaches_scores(Id) const { return true; }
  virtual bool told_as_nan(Id) const { return false; }
  virtual bool is_multiplied(Id) const { return false; }  // as in magnitudes.h
  // As in constants_in_a_row.h.
  virtual bool are_joined_past(Id, Id, Id) const { return false; }
  virtual bool holds_attention(Id) const { return false; }
  // Of an example, which has no target: an empty batch is for one that takes it, anything else for one that doesn't.
  virtual bool attends_to_nothing(Id id) const {
    const Facts& f = facts(id);
    return f.shape && !f.shape->empty() && dims().value(f.shape->front()) == 0;
  }
  virtual bool attention_is_made(Id) const { return false; }
  virtual bool is_count(Id) const { return false; }
  virtual bool quantizes_one(Id) const { return true; }                          // as in quantizers.h
  virtual std::optional<bool> hands_on_input(Id) const { return std::nullopt; }  // as in quantizers.h
  virtual Bounds bounds(Id) const { return {}; }                                 // as bounds_of of bounds.h
};

// A value of the model, named by what stands for it.
struct ClassRef {
  Id id = kNone;
};

class Val;
using List = std::vector<Val>;

// A value of an expression. Most are numbers, dims and classes, which stand in it; what needs memory is shared.
class Val {
 public:
  Val() {}
  explicit Val(bool b) { bool_ = b; }
  explicit Val(std::int64_t i) : kind_(Kind::kInt), int_(i) {}
  explicit Val(int i) : Val(static_cast<std::int64_t>(i)) {}
  explicit Val(double d) : kind_(Kind::kReal), real_(d) {}
  explicit Val(DType d) : kind_(Kind::kDType) { dtype_ = d; }
  explicit Val(ClassRef r) : kind_(Kind::kClass) { class_ = r; }
  explicit Val(std::string s);
  explicit Val(List list);
  explicit Val(Tensor t);
  explicit Val(const Attribute& a);
  static Val of(Dim d, const DimTable& dims);  // a dim that is a number is an int
  static Val ints(std::span<const std::int64_t> values);
  static Val dims(std::span<const Dim> dims, const DimTable& table);

  Val(const Val& other) noexcept : kind_(other.kind_), bits_(other.bits_) {
    if (kind_ == Kind::kHeld) keep();
  }
  Val(Val&& other) noexcept : kind_(other.kind_), bits_(other.bits_) { other.kind_ = Kind::kBool; }
  Val& operator=(Val other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~Val() {
    if (kind_ == Kind::kHeld) drop();
  }

  // What it is, null where it is of another kind: bool, std::int64_t, double, Dim, DType, ClassRef, std::string.
  template <typename T>
  const T* get() const;
  const List* list() const { return held<List>(); }  // of ints, dims, reals or strings
  const Tensor* tensor() const { return held<Tensor>(); }
  // A number as a real; nullopt for all else.
  std::optional<double> real() const;
  // A list of ints; nullopt if it is none, or has other members.
  std::optional<std::vector<std::int64_t>> int_list() const;

 private:
  enum class Kind : std::uint8_t { kBool, kInt, kReal, kDim, kDType, kClass, kHeld };
  struct Held;
  template <typename T>
  const T* held() const;
  template <typename T>
  void hold(T value);
  void keep() const;
  void drop() const;

  Kind kind_ = Kind::kBool;
  union {
    std::uint64_t bits_ = 0;  // of whichever it is
    bool bool_;
    std::int64_t int_;
    double real_;
    Dim dim_;
    DType dtype_;
    ClassRef class_;
    const Held* held_;
  };
};

struct Val::Held {
  mutable std::atomic<std::uint32_t> owners = 1;
  std::variant<std::string, List, Tensor, Attribute> value;
};

inline void Val::keep() const { held_->owners.fetch_add(1, std::memory_order_relaxed); }

template <typename T>
const T* Val::held() const {
  return kind_ == Kind::kHeld ? std::get_if<T>(&held_->value) : nullptr;
}

template <typename T>
const T* Val::get() const {
  const auto if_kind = [this](Kind kind, const T& value) { return kind_ == kind ? &value : nullptr; };
  if constexpr (std::is_same_v<T, bool>) return if_kind(Kind::kBool, bool_);
  if constexpr (std::is_same_v<T, std::int64_t>) return if_kind(Kind::kInt, int_);
  if constexpr (std::is_same_v<T, double>) return if_kind(Kind::kReal, real_);
  if constexpr (std::is_same_v<T, Dim>) return if_kind(Kind::kDim, dim_);
  if constexpr (std::is_same_v<T, DType>) return if_kind(Kind::kDType, dtype_);
  if constexpr (std::is_same_v<T, ClassRef>) return if_kind(Kind::kClass, class_);
  if constexpr (std::is_same_v<T, std::string>) return held<std::string>();
}

using Result = std::optional<Val>;

// Names and what they stand for.
class Environment {
 public:
  void set(std::string_view name, Val value) { entries_.emplace_back(name, std::move(value)); }
  const Val* find(std::string_view name) const;
  void clear() { entries_.clear(); }
  void reserve(std::size_t n) { entries_.reserve(n); }
  std::span<const std::pair<std::string_view, Val>> entries() const { return entries_; }

 private:
  absl::InlinedVector<std::pair<std::string_view, Val>, 6> entries_;  // few: searched in order; the rule owns the names
};

// What a match binds, by place (Expr::bound).
class BoundNames {
 public:
  virtual ~BoundNames() = default;
  virtual std::optional<Val> value(std::int32_t place) const = 0;
};

class EvalContext {
 public:
  EvalContext(const FactSource& source, const Environment& environment, bool explain, const BoundNames* bound = nullptr)
      : source_(source), environment_(environment), bound_(bound), explain_(explain) {}
  const FactSource& source() const { return source_; }
  DimTable& dims() const { return source_.dims(); }
  const Environment& environment() const { return environment_; }

  Result evaluate(const Expr& expr);
  std::optional<bool> attribute_absence(const Expr& call) const;
  // Whether a condition is known to hold; if not, reason() tells why.
  bool holds(const Expr& condition);

  // No value. The text is made only when someone wants to read it.
  template <typename F>
  std::nullopt_t fail(F&& text) {
    if (explain_ && reason_.empty()) reason_ = text();
    return std::nullopt;
  }
  const std::string& reason() const { return reason_; }
  std::string show(const Val& value) const;

  // Arguments of functions, with a reason where they are of another kind. `number` is its place, for the reason.
  std::optional<Id> as_class(const Val& v);
  const Facts* as_facts(const Val& v) {
    auto id = as_class(v);
    return id ? &source_.facts(*id) : nullptr;
  }
  const Facts* as_ranked(const Val& v);  // a tensor of known rank
  std::optional<std::int64_t> as_int(const Val& v);
  std::optional<double> as_real(const Val& v);  // of an int, real or single-element constant
  std::optional<Dim> as_dim(const Val& v);
  std::optional<std::vector<Dim>> as_dims(const Val& v);           // a list, or the content of a shape value
  std::optional<std::vector<std::int64_t>> as_ints(const Val& v);  // a list of numbers, or a constant integer vector
  std::optional<Tensor> as_tensor(const Val& v, std::size_t max_bytes);

  // Proven equal / different / unknown.
  std::optional<bool> equal(const Val& a, const Val& b);
  std::optional<bool> equal_dims(std::span<const Dim> a, std::span<const Dim> b);
  Result elements_of(Id id);  // `value(x)`: see functions_facts.cpp

 private:
  // What a name stands for; nothing where it is bound to nothing.
  std::optional<Val> named(const Expr& name) const;
  Result evaluate_binary(const Expr& expr);
  Result logical(const Expr& expr);
  Result compare(const Expr& expr, const Val& a, const Val& b);
  Result arithmetic(const Expr& expr, const Val& a, const Val& b);
  Result integer_arithmetic(const Expr& expr, std::int64_t a, std::int64_t b);
  Result dim_arithmetic(const Expr& expr, Dim a, Dim b);
  Result index(const Expr& expr);
  Result slice(const Expr& expr);
  std::string values_in(const Expr& expr) const;

  const FactSource& source_;
  const Environment& environment_;
  const BoundNames* bound_;
  bool explain_;
  std::string reason_;
};

// A number or list of numbers that an expression gave, as a constant of a rule.
std::optional<RuleConstant> constant_of(const Val& v);
// An attribute of a rule's node with what its variable stands for; kNotFound: for nothing.
absl::StatusOr<Attribute> attribute_from(const RuleAttribute& a, const Environment& environment);

// An e-graph as a source of facts.
class EGraphFacts : public FactSource {
 public:
  explicit EGraphFacts(const OnnxEGraph& g) : g_(g) {}
  const Facts& facts(Id id) const override { return g_.facts(id); }
  std::optional<Tensor> value(Id id, std::size_t max_bytes) const override { return g_.value(id, max_bytes); }
  DimTable& dims() const override { return g_.dims(); }
  std::optional<Dim> lower_triangle(Id id) const override { return saturate::lower_triangle(g_, id); }
  bool is_zero_or_one(Id id) const override { return saturate::is_zero_or_one(g_, id); }
  bool may_be_mask(Id id) const override { return saturate::may_be_mask(g_, id); }
  bool hides_by_infinity(Id id) const override { return saturate::hides_by_infinity(g_, id); }
  std::optional<Magnitudes> magnitudes(Id id) const override { return saturate::magnitudes(g_, id); }
  std::optional<Fills> fills(Id id) const override { return fills_of(g_, id); }
  bool is_above_lowest(Id id) const override { return saturate::is_above_lowest(g_, id); }
  bool hides_by_numbers(Id id) const override { return saturate::hides_by_numbers(g_, id); }
  bool reaches_scores(Id id) const override { return saturate::reaches_scores(g_, id); }
  bool told_as_nan(Id id) const override { return saturate::told_as_nan(g_, id); }
  bool is_multiplied(Id id) const override { return saturate::is_multiplied(g_, id); }
  bool are_joined_past(Id x, Id middle, Id y) const override { return saturate::are_joined_past(g_, x, middle, y); }
  bool holds_attention(Id) const override { return saturate::holds_attention(g_); }
  bool attends_to_nothing(Id id) const override {
    OpKey key;
    key.domain = "com.microsoft", key.op_type = "MultiHeadAttention";
    return g_.refusals() ? g_.refusals()->takes_empty(key) : FactSource::attends_to_nothing(id);
  }
  bool attention_is_made(Id) const override { return saturate::attention_is_made(g_); }
  bool is_count(Id id) const override { return saturate::is_count(g_, id); }
  bool quantizes_one(Id id) const override { return saturate::quantizes_one(g_, id); }
  std::optional<bool> hands_on_input(Id id) const override { return saturate::hands_on_input(g_, id); }
  Bounds bounds(Id id) const override { return bounds_of(g_, id); }

 private:
  const OnnxEGraph& g_;
};

}  // namespace saturate
