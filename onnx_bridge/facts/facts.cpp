#include "onnx_bridge/facts/facts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx_bridge/facts/infer_call.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"
#include "onnx_bridge/operators/random_nodes.h"

namespace saturate {

using inference::Call;
using inference::Rule;
using inference::Rules;
namespace {

const Rules& all_rules() {
  static const Rules rules = [] {
    Rules r;
    inference::add_elementwise_rules(r);
    inference::add_view_rules(r);
    inference::add_index_rules(r);
    inference::add_content_rules(r);
    inference::add_reduce_rules(r);
    inference::add_linear_rules(r);
    inference::add_window_rules(r);
    inference::add_attention_rules(r);
    inference::add_other_rules(r);
    return r;
  }();
  return rules;
}

// The same inputs give the same outputs, and a run has no other effect.
bool pure(const Call& call, bool known) {
  const Node& node = call.node;
  if (!known || has_body(node.attributes)) return false;
  if (!has(Trait::kRandom, node)) return true;
  const auto place = training_place(node);
  if (!place || !call.has(*place)) return place.has_value();
  const auto training = call.bools(*place);
  return training && training->size() == 1 && !training->front();
}

// "tensor(T)" spellings: the dtype of a formal that is one tensor type.
DType dtype_of_formal(std::string_view type) {
  if (!type.starts_with("tensor(") || !type.ends_with(")")) return DType::kUndefined;
  return parse_dtype(type.substr(7, type.size() - 8)).value_or(DType::kUndefined);
}

const OpSchema::TypeConstraint* constraint(const OpSchema& schema, std::string_view name) {
  for (const auto& c : schema.constraints)
    if (c.name == name) return &c;
  return nullptr;
}

bool only_tensors(const OpSchema& schema, std::string_view type) {
  if (type.starts_with("tensor(")) return true;
  const auto* c = constraint(schema, type);
  return c && !c->types.empty() &&
         std::all_of(c->types.begin(), c->types.end(), [](std::string_view t) { return t.starts_with("tensor("); });
}

// Dtypes by the schema's type variables: clashes among inputs are errors, outputs take what their variable is bound to.
void apply_schema(Call& call, const OpSchema& schema) {
  absl::flat_hash_map<std::string, DType> bound;
  auto formal_of = [](const std::vector<OpSchema::Formal>& formals, std::size_t i) -> const OpSchema::Formal* {
    if (i < formals.size()) return &formals[i];
    return !formals.empty() && formals.back().variadic ? &formals.back() : nullptr;
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const OpSchema::Formal* formal = formal_of(schema.inputs, i);
    const Facts& f = call.in(i);
    if (!formal || f.kind != Facts::Kind::kTensor || f.dtype == DType::kUndefined) continue;
    const DType fixed = dtype_of_formal(formal->type);
    if (fixed != DType::kUndefined && fixed != f.dtype)
      return call.fail_dtype(absl::StrCat("input ", i, " is ", dtype_name(f.dtype), ", not ", dtype_name(fixed)));
    if (fixed != DType::kUndefined || !only_tensors(schema, formal->type)) continue;
    auto [it, added] = bound.try_emplace(std::string(formal->type), f.dtype);
    if (!added && it->second != f.dtype)
      return call.fail_dtype(
          absl::StrCat("inputs of dtypes ", dtype_name(it->second), " and ", dtype_name(f.dtype), " where they must agree"));
  }
  for (std::size_t o = 0; o < call.out.size(); ++o) {
    const OpSchema::Formal* formal = formal_of(schema.outputs, o);
    Facts& f = call.out[o];
    if (!formal || (f.kind != Facts::Kind::kUnknown && f.kind != Facts::Kind::kTensor)) continue;
    if (f.kind == Facts::Kind::kUnknown && only_tensors(schema, formal->type)) f.kind = Facts::Kind::kTensor;
    if (f.kind != Facts::Kind::kTensor || f.dtype != DType::kUndefined) continue;
    f.dtype = dtype_of_formal(formal->type);
    if (auto it = bound.find(std::string(formal->type)); it != bound.end()) f.dtype = it->second;
    if (const auto* c = constraint(schema, formal->type); c && c->types.size() == 1 && f.dtype == DType::kUndefined)
      f.dtype = dtype_of_formal(c->types[0]);
  }
}

std::string domain_of(const Node& node) { return node.domain == "ai.onnx" ? std::string() : node.domain; }

}  // namespace

absl::StatusOr<std::vector<Facts>> infer(const Node& node, std::span<const Facts* const> inputs, int num_outputs, InferContext& context) {
  Call call(node, inputs, num_outputs, context);
  const std::string domain = domain_of(node);
  auto rule = all_rules().find(absl::StrCat(domain, ":", node.op_type));
  const OpSchema* schema = has_body(node.attributes) ? nullptr : find_schema(domain, node.op_type, domain.empty() ? kNewestOpset : 1);
  if (!schema && context.defined) {
    if (rule == all_rules().end())
      if (auto known = context.defined->infer(node, inputs, num_outputs, context)) return *std::move(known);
    schema = context.defined->schema(domain, node.op_type);
  }
  if (rule != all_rules().end()) rule->second(call);
  if (call.ok() && schema) apply_schema(call, *schema);
  if (!call.ok()) return call.status;
  if (!call.out.empty() && !call.out[0].counts_from) call.out[0].counts_from = inference::infer_counts_from(call);
  bool constant = pure(call, rule != all_rules().end() || schema);
  bool any = false;
  for (const Facts* f : inputs) {
    if (!f || f->kind == Facts::Kind::kAbsent) continue;
    any = true;
    constant = constant && f->kind == Facts::Kind::kTensor && f->constant;
  }
  for (Facts& f : call.out) {
    f.constant = f.constant || (constant && any && f.kind == Facts::Kind::kTensor);
    // Content is of integers only: a rule may have run before the dtype was known.
    if (f.content && f.dtype != DType::kInt64 && f.dtype != DType::kInt32) f.content.reset();
    if (f.kind == Facts::Kind::kTensor && f.shape)
      for (Dim d : *f.shape)
        if (!context.dims.non_negative(d)) context.dims.assume_non_negative(d);
  }
  return std::move(call.out);
}

namespace {

bool join_dims(std::vector<Dim>& into, const std::vector<Dim>& other, DimTable& dims, bool& changed, std::string& why,
               const std::string& what) {
  if (into.size() != other.size()) {
    why = absl::StrCat(what, " of ", into.size(), " and of ", other.size());
    return false;
  }
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (!dims.equal(into[i], other[i])) {
      if (dims.differ(into[i], other[i])) {
        why = absl::StrCat(what, " ", i, " is ", dims.to_string(into[i]), " and ", dims.to_string(other[i]));
        return false;
      }
      const auto before = dims.generation();
      if (!dims.unify(into[i], other[i])) {
        why = absl::StrCat(what, " ", i, " is ", dims.to_string(into[i]), " and ", dims.to_string(other[i]));
        return false;
      }
      changed = changed || dims.generation() != before;
    }
    into[i] = dims.canonical(into[i]);
  }
  return true;
}

}  // namespace

bool join_facts(Facts& into, const Facts& other, DimTable& dims, bool& changed, std::string& why) {
  if (other.kind == Facts::Kind::kUnknown) return true;
  if (into.kind == Facts::Kind::kUnknown) {
    into = other;
    changed = true;
    return true;
  }
  if (into.kind != other.kind) {
    why = "a tensor and something else";
    return false;
  }
  if (other.dtype != DType::kUndefined && into.dtype != other.dtype) {
    if (into.dtype != DType::kUndefined) {
      why = absl::StrCat("dtype ", dtype_name(into.dtype), " and ", dtype_name(other.dtype));
      return false;
    }
    into.dtype = other.dtype;
    changed = true;
  }
  if (other.shape) {
    if (!into.shape) {
      into.shape = other.shape;
      changed = true;
    } else if (!join_dims(*into.shape, *other.shape, dims, changed, why, into.shape->size() == other.shape->size() ? "dim" : "ranks")) {
      return false;
    }
  }
  if (other.constant && !into.constant) into.constant = changed = true;
  if (other.never_negative && !into.never_negative) into.never_negative = changed = true;
  if (other.value && !into.value) {
    into.value = other.value;
    changed = true;
  }
  if (other.content) {
    if (!into.content) {
      into.content = other.content;
      changed = true;
    } else if (!join_dims(*into.content, *other.content, dims, changed, why, "element")) {
      return false;
    }
  }
  if (other.counts_from && !into.counts_from) {  // two of them may differ where there is no element
    into.counts_from = other.counts_from;
    changed = true;
  }
  if (into.elements.size() != other.elements.size()) {
    if (into.kind == Facts::Kind::kTuple) {
      why = absl::StrCat("tuples of ", into.elements.size(), " and of ", other.elements.size());
      return false;
    }
    if (into.elements.empty()) {
      into.elements = other.elements;
      changed = true;
    }
    return true;
  }
  for (std::size_t i = 0; i < into.elements.size(); ++i)
    if (!join_facts(into.elements[i], other.elements[i], dims, changed, why)) return false;
  return true;
}

Facts facts_of_type(const ValueType& type, DimTable& dims, std::string_view value_name) {
  Facts f;
  switch (type.kind) {
    case ValueType::Kind::kUnknown:
      return f;
    case ValueType::Kind::kTensor:
      f.kind = Facts::Kind::kTensor;
      break;
    case ValueType::Kind::kSequence:
      f.kind = Facts::Kind::kSequence;
      break;
    case ValueType::Kind::kOptional:
      f.kind = Facts::Kind::kOptional;
      break;
    default:
      f.kind = Facts::Kind::kOther;
      return f;
  }
  if (f.kind != Facts::Kind::kTensor) {
    if (type.element && type.element->kind == ValueType::Kind::kTensor) f.dtype = type.element->dtype;
    return f;
  }
  f.dtype = type.dtype;
  if (!type.shape) return f;
  f.shape.emplace();
  for (const DimSpec& d : *type.shape) {
    if (const auto* n = std::get_if<std::int64_t>(&d); n && *n >= 0)
      f.shape->push_back(dims.constant(*n));
    else if (const auto* name = std::get_if<std::string>(&d); name && !name->empty())
      f.shape->push_back(dims.declared(*name, value_name));
    else
      f.shape->push_back(dims.fresh(absl::StrCat(std::string(value_name), "[", f.shape->size(), "]")));
  }
  return f;
}

constexpr std::size_t kMostSignBytes = 4096;  // of a constant that is looked at: what is added to squares is small

// No element is negative, neither -0 nor -inf; NaN may be.
static bool holds_no_negatives(const Tensor& t) {
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (const auto x = element_as_double(t, i); !x || (std::signbit(*x) && !std::isnan(*x))) return false;
  return true;
}

Facts facts_of_tensor(const Tensor& tensor, DimTable& dims) {
  Facts f;
  f.kind = Facts::Kind::kTensor;
  f.dtype = tensor.dtype();
  f.shape.emplace();
  for (std::int64_t d : tensor.dims()) f.shape->push_back(dims.constant(d));
  f.constant = true;
  f.value = tensor;
  f.never_negative = is_floating(f.dtype) && tensor.bytes().size() <= kMostSignBytes && holds_no_negatives(tensor);
  if (f.dtype != DType::kInt64 && f.dtype != DType::kInt32) return f;
  if (const auto from = inference::counted_from(tensor)) f.counts_from = dims.constant(*from);
  if (tensor.rank() <= 1 && tensor.size() <= inference::kMaxContent) {
    f.content.emplace();
    for (std::int64_t i = 0; i < tensor.size(); ++i) f.content->push_back(dims.constant(*element_as_int(tensor, i)));
  }
  return f;
}

std::optional<std::size_t> known_bytes(const Facts& facts, const DimTable& dims) {
  if (facts.kind != Facts::Kind::kTensor || !facts.shape) return std::nullopt;
  Shape shape;
  for (Dim d : *facts.shape) {
    const auto v = dims.value(d);
    if (!v) return std::nullopt;
    shape.push_back(*v);
  }
  return checked_bytes(facts.dtype, shape);
}

std::string to_string(const Facts& facts, const DimTable& dims) {
  auto list = [&](const std::vector<Dim>& all) {
    return absl::StrJoin(all, ", ", [&](std::string* out, Dim d) { out->append(dims.to_string(d)); });
  };
  switch (facts.kind) {
    case Facts::Kind::kUnknown:
      return "unknown";
    case Facts::Kind::kAbsent:
      return "absent";
    case Facts::Kind::kOther:
      return "other";
    case Facts::Kind::kTuple: {
      auto element = [&](std::string* out, const Facts& f) { out->append(to_string(f, dims)); };
      return absl::StrCat("(", absl::StrJoin(facts.elements, "; ", element), ")");
    }
    case Facts::Kind::kSequence:
      return absl::StrCat("sequence(", dtype_name(facts.dtype), ")");
    case Facts::Kind::kOptional:
      return absl::StrCat("optional(", dtype_name(facts.dtype), ")");
    case Facts::Kind::kTensor:
      break;
  }
  std::string text = absl::StrCat(facts.dtype == DType::kUndefined ? "?" : dtype_name(facts.dtype),
                                  facts.shape ? absl::StrCat("[", list(*facts.shape), "]") : "[...]");
  if (facts.content) absl::StrAppend(&text, " = {", list(*facts.content), "}");
  if (facts.counts_from && !facts.content) absl::StrAppend(&text, " counts from ", dims.to_string(*facts.counts_from));
  if (facts.constant) absl::StrAppend(&text, " constant");
  return text;
}

}  // namespace saturate
