// An e-graph over ONNX: operators with canonical attributes as OpIds, leaves for inputs, constants, shape literals and absent inputs,
// facts per e-class. lower() fills one from a model, rules grow it, emit_model() writes a model back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <vector>

#include "egraph/egraph.h"
#include "onnx_bridge/convert/refusals.h"
#include "onnx_bridge/facts/facts.h"
#include "onnx_bridge/model/evaluator.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// A node of a unit that a runtime fuses when it loads the model (NodeUnit in extract/target/target.h). Such nodes are made for extraction
// alone: inference knows them, no rule matches them, they are not folded, and the unit's last node stands for the price of all.
// kFused: what the runtime makes of a spelling (load_fusions.h), of which inference knows nothing.
enum class UnitRole : std::uint8_t { kNone, kPart, kLast, kFused };

// An operator as the e-graph interns it. Attributes are complete and sorted by name (canonical form, see canonical.h).
// Operators of one value: outputs == 1. Of several: the e-node is a tuple, its values are projections (leaf operator "#proj").
struct OpKey {
  std::string domain, op_type, overload;
  std::vector<Attribute> attributes;
  int outputs = 1;
  std::int64_t version = 0;  // 0: canonical (newest) form; else an operator of this opset that has no canonical form, matched by no rule
  std::int64_t unique = 0;   // not 0: impure (random, ...), equal to nothing but itself
  UnitRole role = UnitRole::kNone;
};

// Operator types of leaves and plumbing; their domain is "#".
inline constexpr std::string_view kInputOp = "#input", kConstantOp = "#constant", kLiteralOp = "#literal", kAbsentOp = "#absent",
                                  kProjOp = "#proj";

class OnnxEGraph {
 public:
  // `evaluator` runs small constant expressions for guards and literals; it must outlive the e-graph.
  explicit OnnxEGraph(const Evaluator& evaluator);
  ~OnnxEGraph();
  EGraph& egraph();
  const EGraph& egraph() const;
  DimTable& dims() const;
  const Evaluator& evaluator() const;

  // The kind of an operator of `outputs` values; patterns name it. Commutative binary operators are known here.
  Kind kind(std::string_view domain, std::string_view op_type, int outputs = 1);
  std::string kind_name(Kind kind) const;  // "MatMul", "com.microsoft.Attention", "#proj"
  OpId op(const OpKey& key);
  std::optional<OpId> find_op(const OpKey& key) const;  // of an operator that op() was given before
  const OpKey& key(OpId op) const;

  Id input(const std::string& name, const Facts& facts);
  Id constant(const Tensor& tensor);                   // one leaf per identical tensor (bit for bit)
  Id literal(std::span<const Dim> dims, bool scalar);  // int64 tensor of rank 1 (or 0) with this content; all numbers: a constant
  Id narrowed(Id whole);                               // a literal or constant as int32
  Id absent();
  Id project(Id tuple, int index);
  Id add(const OpKey& key, std::span<const Id> children);  // trailing absent children are dropped

  // Joins facts that come from outside (a declared type) to a class that no e-node uses yet.
  void assume(Id id, const Facts& facts);
  const Facts& facts(Id id) const;
  // Whether rules pass over this class: it holds a tensor that never has elements. All such of one type and shape are equal, so that one
  // class of them is made of itself in every way that rules know, and there is nothing to gain. Rules pass over nothing until this is asked
  // for.
  bool is_passed_over(Id id) const;
  void pass_over_empty_tensors();
  // From now on this tells which operators are refused where they stand.
  void refuse_by(std::shared_ptr<const Refusals> refusals);
  const Refusals* refusals() const;  // null: nobody refuses anything
  // Whether this e-node of class `id` is refused where it stands, or wished away. Without refusals the answer is yes: rules that ask are
  // left out then (RuleSet::compile), but for the checker, to whom each place is one where they may be applied.
  bool is_refused(NodeId node, Id id) const;
  // Why the e-node that last asked for facts cannot run on its inputs (ill-typed); empty if it can. Cleared by the call.
  std::string take_type_error();
  // From now on facts of operators that nobody else knows come from here.
  void define(std::shared_ptr<const DefinedOperators> operators);
  const DefinedOperators* defined() const;
  // The value of a constant class: known, or evaluated now if it takes at most `max_bytes` (cached). nullopt: not constant, too big, cannot
  // be run.
  std::optional<Tensor> value(Id id, std::size_t max_bytes = 1 << 16) const;
  const Tensor& constant_tensor(OpId constant_op) const;  // of a #constant leaf
  std::span<const Dim> literal_dims(OpId literal_op) const;

  // What others found out about this graph and need not find out again: one T, made when it is first asked for. It is asked for by several
  // threads at a time and guards itself.
  template <typename T>
  T& notes() const {
    return *static_cast<T*>(notes_of(typeid(T), [] { return std::shared_ptr<void>(std::make_shared<T>()); }));
  }

  // From now until one of these classes changes (joins another, or has new facts): when it does, `asked` counts as a class with new facts.
  void watch_from(Id asked, std::span<const Id> classes) const;
  // How often that has happened to a class.
  std::uint32_t changes_seen_from(Id asked) const;

  struct Impl;
  Impl& impl();
  const Impl& impl() const;

 private:
  void* notes_of(std::type_index type, std::shared_ptr<void> (*make)()) const;
  std::unique_ptr<Impl> impl_;
};

// The number that a constant of one element holds; nullopt for every other class.
std::optional<double> number_of(const OnnxEGraph& g, Id id);

}  // namespace saturate
