// The operators of ONNX in all their versions: arity, attributes with defaults, types. Generated from the standard's own
// schemas (onnx 1.23.2, opset 28) and com.microsoft's, so that every build knows the same operators whatever ONNX is installed.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

struct OpAttribute {
  std::string_view name;
  AttributeType type;
  bool required = false;
  std::optional<Attribute> default_value;
};

struct OpSchema {
  std::string_view domain, name;
  int since_version = 1;
  int min_inputs = 0, max_inputs = 0;  // max: INT_MAX for variadic
  int min_outputs = 0, max_outputs = 0;
  bool deprecated = false;
  std::vector<OpAttribute> attributes;
  // Type constraint of each formal input/output as a list of dtypes of tensors (empty: not only tensors, or unconstrained).
  struct Formal {
    std::string_view name;
    std::string_view type;
    bool optional = false, variadic = false;
  };
  std::vector<Formal> inputs, outputs;
  struct TypeConstraint {
    std::string_view name;
    std::vector<std::string_view> types;
    std::uint64_t tensors = 0;  // a bit for each dtype of whose tensors it allows
    // A file may name any number as a dtype.
    bool allows(DType dtype) const { return static_cast<unsigned>(dtype) < 64 && (tensors >> static_cast<unsigned>(dtype) & 1) != 0; }
  };  // "T" -> {"tensor(float)", ...}
  std::vector<TypeConstraint> constraints;
  const OpAttribute* attribute(std::string_view attribute_name) const;
};

// Of "tensor(float)"; nullopt of other types.
std::optional<DType> dtype_of_tensor(std::string_view type);

// The schema in force for `version` of the domain: the largest since_version not above it; null where there is none.
const OpSchema* find_schema(std::string_view domain, std::string_view name, std::int64_t version);
// All versions, ascending.
std::span<const OpSchema* const> schema_versions(std::string_view domain, std::string_view name);
// As targets, cost tables and rows of times name an operator: "MatMul", "com.microsoft::Attention".
std::string operator_name(std::string_view domain, std::string_view op_type);
// Of all operators of a domain, in order.
std::vector<std::string> operator_names(std::string_view domain);
// Whether a domain is none of the standard's, of a known runtime's or of rules': what its operators are only a model, a rule file or a
// target says.
bool is_of_own_domain(std::string_view domain);
// Appends the defaults of the attributes that are not given.
void add_defaults(const OpSchema& schema, std::vector<Attribute>& attributes);
inline constexpr int kNewestOpset = 28;
// The IR version that an opset of ai.onnx needs at least (onnx/helper.py, VERSION_TABLE).
int ir_version_for_opset(std::int64_t opset);

}  // namespace saturate
