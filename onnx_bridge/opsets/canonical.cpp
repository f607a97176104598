#include "onnx_bridge/opsets/canonical.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "onnx_bridge/operators/attribute_values.h"
#include "onnx_bridge/opsets/canonical_util.h"

namespace saturate {

using canonical::Job;

namespace {

constexpr std::int64_t kOldestOpset = 7;

bool is_standard(const Node& node) { return node.domain.empty() || node.domain == "ai.onnx"; }

const OpSchema* schema_of(const Node& node, std::int64_t opset) {
  return find_schema(is_standard(node) ? "" : node.domain, node.op_type, opset);
}

// Attributes that the schema knows, of the types it says, and as many inputs and outputs as it allows.
bool fits(const Node& node, const OpSchema& schema) {
  const auto count = [](const std::vector<std::string>& names) {
    std::size_t n = names.size();
    while (n > 0 && names[n - 1].empty()) --n;
    return static_cast<int>(n);
  };
  if (node.outputs.empty() || count(node.inputs) > schema.max_inputs || count(node.outputs) > schema.max_outputs) return false;
  for (int i = 0; i < static_cast<int>(schema.inputs.size()); ++i) {
    const auto& formal = schema.inputs[static_cast<std::size_t>(i)];
    if (!formal.optional && !formal.variadic &&
        (i >= static_cast<int>(node.inputs.size()) || node.inputs[static_cast<std::size_t>(i)].empty()))
      return false;
  }
  for (const Attribute& a : node.attributes) {
    const OpAttribute* known = schema.attribute(a.name);
    if (!known || !a.ref.empty() || a.type != known->type) return false;
  }
  if (unknown_value(node, schema, ValueUse::kRead)) return false;
  return std::all_of(schema.attributes.begin(), schema.attributes.end(),
                     [&](const OpAttribute& a) { return !a.required || find_attribute(node.attributes, a.name) != nullptr; });
}

// The schema by which runtimes read the node. ONNX Runtime has LayerNormalization in every opset, and exporters wrote it before opset 17.
const OpSchema* schema_in_use(const Node& node, std::int64_t opset) {
  if (const OpSchema* schema = schema_of(node, opset)) return schema;
  return is_standard(node) && node.op_type == "LayerNormalization" ? schema_of(node, kNewestOpset) : nullptr;
}

// Attributes that the operator has in no version mean nothing: no runtime reads them.
void drop_unknown_attributes(Node& node, const OpSchema& schema) {
  const auto versions = schema_versions(schema.domain, schema.name);
  std::erase_if(node.attributes, [&](const Attribute& a) {
    return a.ref.empty() &&
           std::none_of(versions.begin(), versions.end(), [&](const OpSchema* s) { return s->attribute(a.name) != nullptr; });
  });
}

Job job_of(const Node& node, std::int64_t opset, std::span<const Facts* const> inputs, const DimTable* dims, const std::string& prefix) {
  Job job;
  job.node = node;
  job.node.origin = nullptr;
  if (is_standard(node)) job.node.domain.clear();
  job.opset = opset;
  job.inputs = inputs;
  job.original_inputs = node.inputs;
  job.dims = dims;
  job.prefix = prefix;
  return job;
}

// The node in its place among what was put before and after it.
void place(Job& job) {
  canonical::drop_trailing_absent(job.node);
  auto& nodes = job.result.nodes;
  // Nodes that make an input of it come first; convert_up leaves the others behind it.
  auto at = std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) {
    return std::any_of(n.inputs.begin(), n.inputs.end(), [&](const std::string& i) {
      return !i.empty() && std::find(job.node.outputs.begin(), job.node.outputs.end(), i) != job.node.outputs.end();
    });
  });
  nodes.insert(at, job.node);
}

bool dtype_allowed(const OpSchema& schema, std::string_view type, DType dtype) {
  if (dtype == DType::kUndefined) return true;
  if (type.starts_with("tensor(")) return dtype_of_tensor(type) == dtype;
  for (const auto& c : schema.constraints)
    if (c.name == type) return c.types.empty() || c.allows(dtype);
  return true;
}

// Inputs that `schema` wants of one dtype may have several in later versions.
bool dtypes_allowed(const Job& job, const OpSchema& schema) {
  std::map<std::string_view, DType> bound;
  for (std::size_t i = 0; i < job.node.inputs.size() && !schema.inputs.empty(); ++i) {
    const bool beyond = i >= schema.inputs.size();
    if (beyond && !schema.inputs.back().variadic) break;
    const OpSchema::Formal& formal = schema.inputs[beyond ? schema.inputs.size() - 1 : i];
    const DType dtype = job.dtype(i);
    if (!dtype_allowed(schema, formal.type, dtype)) return false;
    if (formal.variadic || dtype == DType::kUndefined || job.node.inputs[i].empty()) continue;
    if (bound.try_emplace(formal.type, dtype).first->second != dtype) return false;
  }
  for (std::string_view name : {"to", "dtype", "output_dtype"}) {
    const OpAttribute* known = schema.attribute(name);
    if (known && known->type == AttributeType::kInt && !schema.outputs.empty() &&
        !dtype_allowed(schema, schema.outputs[0].type, static_cast<DType>(job.int_attribute(name, 0))))
      return false;
  }
  const Attribute* value = find_attribute(job.node.attributes, "value");
  if (value && std::holds_alternative<Tensor>(value->value) && !schema.outputs.empty() &&
      !dtype_allowed(schema, schema.outputs[0].type, value->t().dtype()))
    return false;
  return true;
}

// Attributes that `schema` does not have must say what it always does; those that say its default go.
bool fit_attributes(Job& job, const OpSchema& schema, const OpSchema& newest) {
  std::vector<Attribute> kept;
  for (Attribute& a : job.node.attributes) {
    const OpAttribute* there = schema.attribute(a.name);
    if (!there) {
      const OpAttribute* here = newest.attribute(a.name);
      if (!here || !here->default_value || !canonical::same_value(a, *here->default_value))
        return job.fail(absl::StrCat("attribute '", a.name, "'"));
      continue;
    }
    if (there->default_value && canonical::same_value(a, *there->default_value)) continue;
    kept.push_back(std::move(a));
  }
  job.node.attributes = std::move(kept);
  return true;
}

// The node in the form of `opset`; false with the reason in `why`.
bool write(Job& job) {
  const OpSchema* newest = schema_of(job.node, is_standard(job.node) ? kNewestOpset : INT_MAX);
  if (!newest && is_of_own_domain(job.node.domain)) {  // it has one form
    canonical::sort_attributes(job.node);
    place(job);
    return true;
  }
  if (!newest) return job.fail("an operator that is not known");
  if (!canonical::convert_down(job)) return false;
  const OpSchema* schema = schema_of(job.node, job.opset);
  if (!schema || schema->deprecated) return job.fail("the operator");
  if (schema->name == newest->name && !fit_attributes(job, *schema, *newest)) return false;
  canonical::sort_attributes(job.node);
  canonical::drop_trailing_absent(job.node);
  if (const Attribute* strange = unknown_value(job.node, *schema, ValueUse::kWritten))
    return job.fail(absl::StrCat(strange->name, " '", strange->s(), "'"));
  if (!fits(job.node, *schema)) return job.fail("its inputs, outputs or attributes");
  if (!dtypes_allowed(job, *schema)) return job.fail("its dtypes");
  place(job);
  return true;
}

}  // namespace

std::optional<Canonical> to_canonical(const Node& node, std::int64_t opset, std::span<const Facts* const> inputs, const DimTable& dims,
                                      const std::string& prefix) {
  if (!node.overload.empty()) return std::nullopt;
  const bool standard = is_standard(node);
  const OpSchema* schema = schema_in_use(node, opset);
  if (!schema) return std::nullopt;
  Node known = node;
  drop_unknown_attributes(known, *schema);
  if (!fits(known, *schema)) return std::nullopt;
  if (standard && (opset > kNewestOpset || (opset < kOldestOpset && schema != schema_of(node, kOldestOpset)))) return std::nullopt;
  Job job = job_of(known, opset, inputs, &dims, prefix);
  add_defaults(*schema, job.node.attributes);
  if (standard && !canonical::convert_up(job)) return std::nullopt;
  const OpSchema* newest = schema_of(job.node, standard ? kNewestOpset : INT_MAX);
  if (!newest || newest->deprecated) return std::nullopt;
  add_defaults(*newest, job.node.attributes);
  canonical::normalize(job);
  canonical::sort_attributes(job.node);
  canonical::drop_trailing_absent(job.node);
  if (!fits(job.node, *newest)) return std::nullopt;
  place(job);
  return std::move(job.result);
}

std::optional<std::int64_t> lowest_opset(const Node& node, std::span<const Facts* const> inputs) {
  if (!is_standard(node)) {
    const auto versions = schema_versions(node.domain, node.op_type);
    if (versions.empty() || node.domain == "saturate") return std::nullopt;
    return versions.back()->since_version;
  }
  std::set<std::int64_t> candidates{kOldestOpset};
  for (const OpSchema* s : schema_versions("", node.op_type))
    if (s->since_version > kOldestOpset) candidates.insert(s->since_version);
  if (node.op_type == "ScatterElements") candidates.insert(9);
  if (node.op_type == "Resize") candidates.insert({11, 13});
  for (std::int64_t opset : candidates) {
    Job job = job_of(node, opset, inputs, nullptr, "");
    if (write(job)) return opset;
  }
  return std::nullopt;
}

absl::StatusOr<Canonical> from_canonical(const Node& node, std::int64_t opset, std::span<const Facts* const> inputs, const DimTable& dims,
                                         const std::string& prefix) {
  Job job = job_of(node, is_standard(node) ? opset : INT_MAX, inputs, &dims, prefix);
  if (write(job)) return std::move(job.result);
  const auto lowest = lowest_opset(node, inputs);
  return absl::FailedPreconditionError(
      absl::StrCat(node.op_type, ": opset ", opset, " does not have ", job.why,
                   lowest ? absl::StrCat("; the lowest that can express it is opset ", *lowest) : std::string("; no opset has it")));
}

}  // namespace saturate
