// Values of rule expressions and their evaluation. A result is a value, or none with a reason (why the rule does not apply here).
// Three-valued: a comparison of symbolic dims that nothing decides has no value, and the rule does not apply.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "onnx_bridge/facts.h"
#include "onnx_bridge/onnx_egraph.h"
#include "rules/fills.h"
#include "rules/magnitudes.h"
#include "rules/masks.h"
#include "rules/rule.h"
#include "rules/triangles.h"

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
  virtual bool holds_attention(Id) const { return false; }
  virtual bool attention_is_made(Id) const { return false; }
  virtual bool is_count(Id) const { return false; }
};

// A value of the model, named by what stands for it.
struct ClassRef {
  Id id = kNone;
};

struct Val;
using List = std::vector<Val>;

struct Val {
  // A dim that is a number is an int. Lists hold ints, dims, reals or strings.
  std::variant<bool, std::int64_t, double, std::string, Dim, DType, ClassRef, std::shared_ptr<const List>, std::shared_ptr<const Tensor>,
               std::shared_ptr<const Attribute>>
      v;

  Val() : v(false) {}
  explicit Val(bool b) : v(b) {}
  explicit Val(std::int64_t i) : v(i) {}
  explicit Val(int i) : v(static_cast<std::int64_t>(i)) {}
  explicit Val(double d) : v(d) {}
  explicit Val(std::string s) : v(std::move(s)) {}
  explicit Val(DType d) : v(d) {}
  explicit Val(ClassRef r) : v(r) {}
  explicit Val(List list) : v(std::make_shared<const List>(std::move(list))) {}
  explicit Val(Tensor t) : v(std::make_shared<const Tensor>(std::move(t))) {}
  explicit Val(const Attribute& a);
  static Val of(Dim d, const DimTable& dims);
  static Val ints(std::span<const std::int64_t> values);
  static Val dims(std::span<const Dim> dims, const DimTable& table);

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&v);
  }
  const List* list() const { return get<std::shared_ptr<const List>>() ? std::get<std::shared_ptr<const List>>(v).get() : nullptr; }
  const Tensor* tensor() const { return get<std::shared_ptr<const Tensor>>() ? std::get<std::shared_ptr<const Tensor>>(v).get() : nullptr; }
  // A number as a real; nullopt for all else.
  std::optional<double> real() const;
  // A list of ints; nullopt if it is none, or has other members.
  std::optional<std::vector<std::int64_t>> int_list() const;
};

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

class EvalContext {
 public:
  EvalContext(const FactSource& source, const Environment& environment, bool explain)
      : source_(source), environment_(environment), explain_(explain) {}
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
  bool explain_;
  std::string reason_;
};

// An e-graph as a source of facts.
class EGraphFacts : public FactSource {
 public:
  explicit EGraphFacts(const OnnxEGraph& g) : g_(g) {}
  const Facts& facts(Id id) const override { return g_.facts(id); }
  std::optional<Tensor> value(Id id, std::size_t max_bytes) const override { return g_.value(id, max_bytes); }
  DimTable& dims() const override { return g_.dims(); }
  std::optional<Dim> lower_triangle(Id id) const override { return saturate::lower_triangle(g_, id); }
  bool may_be_mask(Id id) const override { return saturate::may_be_mask(g_, id); }
  bool hides_by_infinity(Id id) const override { return saturate::hides_by_infinity(g_, id); }
  std::optional<Magnitudes> magnitudes(Id id) const override { return saturate::magnitudes(g_, id); }
  std::optional<Fills> fills(Id id) const override { return fills_of(g_, id); }
  bool is_above_lowest(Id id) const override { return saturate::is_above_lowest(g_, id); }
  bool hides_by_numbers(Id id) const override { return saturate::hides_by_numbers(g_, id); }
  bool reaches_scores(Id id) const override { return saturate::reaches_scores(g_, id); }
  bool told_as_nan(Id id) const override { return saturate::told_as_nan(g_, id); }
  bool holds_attention(Id) const override { return saturate::holds_attention(g_); }
  bool attention_is_made(Id) const override { return saturate::attention_is_made(g_); }
  bool is_count(Id id) const override { return saturate::is_count(g_, id); }

 private:
  const OnnxEGraph& g_;
};

}  // namespace saturate
