// Operators in the canonical form of the e-graph: attributes complete with the schema's defaults, sorted by name, axes >= 0 where
// the rank is known. Rules build and compare operators by it, so that equal operators are one OpId.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/facts/facts.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {

// Whether it is an operator of the standard itself: no part of a unit, no older version, and none that is like no other (a random one).
bool is_plain(const OpKey& key);
bool is_operator(const OpKey& key, std::string_view op_type);
// The same of any version, as a part of a unit, too. Operators of another domain may have the name and other inputs.
inline bool is_of_standard(const OpKey& key, std::string_view op_type) { return key.domain.empty() && key.op_type == op_type; }
// QuantizeLinear or DequantizeLinear, which com.microsoft has for more types.
inline bool is_quantizer(const OpKey& key, std::string_view op_type) {
  return key.op_type == op_type && (key.domain.empty() || key.domain == "com.microsoft");
}

// The newest schema; null where the operator is unknown.
const OpSchema* newest_schema(std::string_view domain, std::string_view op_type);

// `rank` of the operator's first input, nullopt where unknown (then negative axes stay).
OpKey make_key(std::string_view domain, std::string_view op_type, std::vector<Attribute> attributes, int outputs, std::optional<int> rank);
// The same with the newest schema at hand.
OpKey make_key(const OpSchema* schema, std::string_view domain, std::string_view op_type, std::vector<Attribute> attributes, int outputs,
               std::optional<int> rank);

// Whether `axis` and `axes` of a domain's operators count along their first input; of domains of their own nobody knows.
bool counts_along_first_input(std::string_view domain);
// The rank by which this attribute counts negative axes, from that of the first input; nullopt: it holds no axes.
std::optional<int> axis_rank(std::string_view op_type, std::string_view attribute, int first_input_rank);
// Whether it holds axes that are counted from behind.
bool negative_axis(const Attribute& attribute);
// Counts such axes from the front.
void count_axes_from_front(Attribute& attribute, std::string_view op_type, int first_input_rank);
// What a Transpose of this rank makes of the axes; nullopt where its `perm` is no permutation of them, as in a wrong model whose types are
// declared.
std::optional<std::vector<std::int64_t>> permutation_of(const OpKey& key, std::size_t rank);

bool same_value(const Attribute& a, const Attribute& b);

// The formal input or output that number `i` belongs to (the last one if variadic); null where there is none.
const OpSchema::Formal* formal_at(std::span<const OpSchema::Formal> formals, std::size_t i);
// The dtype that the schema asks of input `i` when the others have these dtypes (kUndefined: unknown): `fallback` where nothing asks;
// nullopt where neither can be.
std::optional<DType> wanted_dtype(const OpSchema* schema, std::size_t input, std::span<const DType> dtypes, DType fallback);
// Whether inputs of these dtypes fit the schema's type constraints; unknown ones fit. Says what does not in `why`.
bool dtypes_fit(const OpSchema& schema, std::span<const DType> dtypes, std::string* why);

}  // namespace saturate
