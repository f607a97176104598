#include "extract/target/target.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "egraph/once.h"
#include "extract/sizes/blocks.h"
#include "extract/sizes/cost_options.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/kernels.h"
#include "extract/target/target_json.h"
#include "extract/targets/builtin.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/file/data_file.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "onnx_bridge/operators/op_table.h"
#include "rules/values/heads.h"

namespace saturate {
namespace {

// Whether some version of the operator that can be written is in the ranges.
bool has_version(const OpSite& site, const std::vector<VersionRange>& ranges) {
  if (ranges.empty()) return true;
  const OpSchema* first = find_schema(site.key.domain, site.key.op_type, site.lowest_opset);
  if (first && in_range(first->since_version, ranges)) return true;
  const auto versions = schema_versions(site.key.domain, site.key.op_type);
  return std::any_of(versions.begin(), versions.end(), [&](const OpSchema* s) {
    return s->since_version > site.lowest_opset && s->since_version <= site.highest_opset && in_range(s->since_version, ranges);
  });
}

// Tensors of the site that carry data, with what to call them.
struct Carried {
  const Facts* facts;
  std::string name;
  const Ranks* ranks = nullptr;  // of an input that holds indices
};
void add_carried(const Facts& f, const std::string& name, const Ranks* ranks, std::vector<Carried>& out) {
  if (f.kind == Facts::Kind::kTuple) {
    for (std::size_t i = 0; i < f.elements.size(); ++i) add_carried(f.elements[i], fmt::format("output {}", i), nullptr, out);
  } else if (f.kind == Facts::Kind::kTensor && !f.constant && !f.content) {
    out.push_back({&f, name, ranks});
  }
}
std::vector<Carried> carried(const OpSite& site, const std::map<int, Ranks>& index_ranks) {
  std::vector<Carried> out;
  for (std::size_t i = 0; i < site.inputs.size(); ++i) {
    const auto it = index_ranks.find(static_cast<int>(i));
    add_carried(*site.inputs[i], fmt::format("input {}", i), it == index_ranks.end() ? nullptr : &it->second, out);
  }
  for (std::size_t i = 0; i < site.outputs.size(); ++i) add_carried(*site.outputs[i], fmt::format("output {}", i), nullptr, out);
  return out;
}

// What is wrong with one tensor; empty if nothing.
std::string refuse_tensor(const OperatorLimits& limits, const Carried& c, const DimTable& dims) {
  const Facts& f = *c.facts;
  const std::string dtype = dtype_name(f.dtype);
  if (!limits.dtypes.empty() && f.dtype != DType::kUndefined &&
      std::find(limits.dtypes.begin(), limits.dtypes.end(), dtype) == limits.dtypes.end())
    return fmt::format("{} is {}, wanted {}", c.name, dtype, fmt::join(limits.dtypes, " or "));
  if (!f.shape) return limits.static_shapes ? fmt::format("{} has no known shape", c.name) : "";
  const Ranks ranks = c.ranks != nullptr ? *c.ranks : limits.ranks();
  if (f.rank() < ranks.low) return fmt::format("{} has rank {}, wanted at least {}", c.name, f.rank(), ranks.low);
  if (f.rank() > ranks.high) return fmt::format("{} has rank {}, wanted at most {}", c.name, f.rank(), ranks.high);
  if (limits.max_batch && f.rank() > 2) {
    std::int64_t batch = 1;
    for (int a = 0; a + 2 < f.rank() && batch > 0; ++a)
      batch = dims.value((*f.shape)[static_cast<std::size_t>(a)]) ? batch * *dims.value((*f.shape)[static_cast<std::size_t>(a)]) : -1;
    if (batch < 0 || batch > *limits.max_batch)
      return fmt::format("{} holds {} matrices, wanted at most {}", c.name, batch < 0 ? "a variable number of" : std::to_string(batch),
                         *limits.max_batch);
  }
  for (const Dim d : *f.shape) {
    const auto v = dims.value(d);
    if (!v && limits.static_shapes)
      return fmt::format("{} has the dim {}, wanted a number (--dim or --input-shapes gives one)", c.name,
                         dims.to_string(dims.canonical(d)));
    if (v == 0 && limits.not_empty) return fmt::format("{} is empty", c.name);
    if (v && limits.max_dim && *v > *limits.max_dim)
      return fmt::format("{} has a dim of {}, wanted at most {}", c.name, *v, *limits.max_dim);
  }
  return "";
}

// Of a small constant of floats: the largest magnitude of its elements.
std::optional<double> largest_number(const OnnxEGraph& g, Id id) {
  const Facts& f = g.facts(id);
  if (!f.constant || f.kind != Facts::Kind::kTensor || !is_floating(f.dtype)) return std::nullopt;
  const auto value = g.value(id);
  if (!value) return std::nullopt;
  double largest = 0;
  for (std::int64_t i = 0; i < value->size(); ++i)
    if (const auto x = element_as_double(*value, i)) largest = std::max(largest, std::abs(*x));
  return largest;
}

std::string refuse_dtype(const std::vector<std::string>& allowed, const std::vector<const Facts*>& tensors, std::string_view what) {
  const auto there = [](const Facts* f) { return f->kind == Facts::Kind::kTensor; };
  const auto first = std::find_if(tensors.begin(), tensors.end(), there);
  if (allowed.empty() || first == tensors.end() || (*first)->dtype == DType::kUndefined) return "";
  const std::string dtype = dtype_name((*first)->dtype);
  if (std::find(allowed.begin(), allowed.end(), dtype) != allowed.end()) return "";
  return fmt::format("{} is {}, wanted {}", what, dtype, fmt::join(allowed, " or "));
}

std::vector<double> numbers_of(const Attribute& a) {
  if (a.type == AttributeType::kInt) return {static_cast<double>(a.i())};
  if (a.type == AttributeType::kFloat) return {a.f()};
  if (a.type == AttributeType::kInts) return {a.ints().begin(), a.ints().end()};
  if (a.type == AttributeType::kFloats) return {a.floats().begin(), a.floats().end()};
  return {};
}

std::string refuse_ranges(const std::map<std::string, std::pair<double, double>>& ranges, const OpSite& site) {
  for (const auto& [name, range] : ranges)
    if (const Attribute* a = find_attribute(site.key.attributes, name))
      for (const double v : numbers_of(*a))
        if (v < range.first || v > range.second) return fmt::format("{} is {}, wanted {} to {}", name, v, range.first, range.second);
  return "";
}

std::string refuse_axis(const std::vector<int>& allowed, const OpSite& site) {
  const Attribute* a = allowed.empty() ? nullptr : find_attribute(site.key.attributes, "axis");
  if (!a || a->type != AttributeType::kInt || site.inputs.empty() || !site.inputs[0]->shape) return "";
  const std::int64_t from_end = a->i() < 0 ? a->i() : a->i() - site.inputs[0]->rank();
  if (std::find(allowed.begin(), allowed.end(), from_end) != allowed.end()) return "";
  return fmt::format("axis is {} from the end, wanted {}", from_end, fmt::join(allowed, " or "));
}

const Facts* input_of(const OpSite& site, int i) {
  const bool there = i < static_cast<int>(site.inputs.size()) && site.inputs[static_cast<std::size_t>(i)]->kind != Facts::Kind::kAbsent;
  return there ? site.inputs[static_cast<std::size_t>(i)] : nullptr;
}

// Whether one row of a tensor [batch,heads,...] is for all heads of an instance, of which there are several.
bool shares_heads(const Facts& f, const OpSite& site) {
  const Attribute* heads = find_attribute(site.key.attributes, "num_heads");
  if (!heads || heads->i() == 1 || !f.shape || f.rank() != 4 || !site.dims) return false;
  return site.dims->value((*f.shape)[0]) != 1 && site.dims->value((*f.shape)[1]) != heads->i();
}

// Whether attention has as many keys as queries: tensors [batch,tokens,...] without a past.
bool has_as_many_keys(const OpSite& site) {
  const Facts *q = input_of(site, 0), *k = input_of(site, 1);
  if (!k) return true;  // packed with the queries
  return !input_of(site, 6) && q && q->shape && k->shape && q->rank() == 3 && k->rank() == 3 && site.dims &&
         site.dims->equal((*q->shape)[1], (*k->shape)[1]);
}

bool have_one_shape(const Facts& a, const Facts& b, const DimTable& dims) {
  return a.shape && b.shape &&
         std::equal(a.shape->begin(), a.shape->end(), b.shape->begin(), b.shape->end(), [&](Dim x, Dim y) { return dims.equal(x, y); });
}

std::string refuse_inputs(const OperatorLimits& limits, const OpSite& site) {
  for (const int i : limits.constant_inputs)
    if (const Facts* f = input_of(site, i); f && !f->constant) return fmt::format("input {} is computed, wanted a constant", i);
  for (const int i : limits.absent_inputs)
    if (input_of(site, i)) return fmt::format("input {} is there, wanted none", i);
  for (const int i : limits.own_heads)
    if (const Facts* f = input_of(site, i); f && shares_heads(*f, site))
      return fmt::format("input {} has one row for several heads, wanted one for each", i);
  for (const int i : limits.of_self_attention)
    if (input_of(site, i) && !has_as_many_keys(site))
      return fmt::format("input {} is there, and keys may be more or fewer than queries", i);
  for (const int i : limits.alike) {
    const Facts *first = input_of(site, limits.alike.front()), *other = input_of(site, i);
    if (first && other && site.dims && !have_one_shape(*first, *other, *site.dims))
      return fmt::format("inputs {} may have several shapes, wanted one", fmt::join(limits.alike, " and "));
  }
  return "";
}

std::string refuse_dtypes_of_inputs(const std::map<int, std::vector<std::string>>& allowed, const OpSite& site) {
  for (const auto& [place, dtypes] : allowed)
    if (const Facts* f = input_of(site, place))
      if (std::string wrong = refuse_dtype(dtypes, {f}, fmt::format("input {}", place)); !wrong.empty()) return wrong;
  return "";
}

// Of a normalization: what it takes the mean of.
std::string refuse_normalized(std::int64_t least, const OpSite& site) {
  const Facts* x = input_of(site, 0);
  if (!x || !x->shape || !site.dims) return "";
  const Attribute* a = find_attribute(site.key.attributes, "axis");
  const std::int64_t given = a ? a->i() : -1, first = given < 0 ? given + x->rank() : given;
  std::int64_t size = 1;
  for (std::int64_t axis = std::max<std::int64_t>(first, 0); axis < x->rank(); ++axis) {
    const auto dim = site.dims->value((*x->shape)[static_cast<std::size_t>(axis)]);
    if (!dim) return "";
    size *= *dim;
  }
  return size >= least ? "" : fmt::format("it normalizes {} element{} at a time, wanted at least {}", size, size == 1 ? "" : "s", least);
}

std::string refuse_site(const OperatorLimits& limits, const OpSite& site, const std::map<int, Ranks>& index_ranks) {
  for (const OperatorLimits& when : limits.when)
    if (!refuse_site(when, site, index_ranks).empty()) return "";
  if (std::string wrong = refuse_attributes(limits.attributes, site.key.attributes); !wrong.empty()) return wrong;
  for (const std::string& name : limits.required_attributes)
    if (!find_attribute(site.key.attributes, name)) return fmt::format("{} is absent", name);
  if (std::string wrong = refuse_dtype(limits.input_dtypes, site.inputs, "input"); !wrong.empty()) return wrong;
  if (std::string wrong = refuse_dtype(limits.output_dtypes, site.outputs, "output"); !wrong.empty()) return wrong;
  if (std::string wrong = refuse_dtypes_of_inputs(limits.dtypes_of_inputs, site); !wrong.empty()) return wrong;
  if (limits.min_normalized)
    if (std::string wrong = refuse_normalized(*limits.min_normalized, site); !wrong.empty()) return wrong;
  if (std::string wrong = refuse_ranges(limits.attribute_ranges, site); !wrong.empty()) return wrong;
  if (std::string wrong = refuse_axis(limits.axis, site); !wrong.empty()) return wrong;
  if (std::string wrong = refuse_inputs(limits, site); !wrong.empty()) return wrong;
  if (limits.max_heads && site.egraph)
    if (const std::int64_t heads = heads_at_once(*site.egraph, *site.node); heads > *limits.max_heads)
      return fmt::format("it works on {} head{} at once, wanted {}", heads, heads == 1 ? "" : "s",
                         *limits.max_heads == 0 ? "none" : fmt::format("at most {}", *limits.max_heads));
  if (limits.max_constant && site.egraph)
    for (const Id child : site.node->children)
      if (const auto number = largest_number(*site.egraph, child); number && *number > *limits.max_constant)
        return fmt::format("a constant holds {}, wanted at most {}", *number, *limits.max_constant);
  if (!site.dims) return "";
  for (const Carried& c : carried(site, index_ranks))
    if (std::string wrong = refuse_tensor(limits, c, *site.dims); !wrong.empty()) return wrong;
  return "";
}

bool concerns(const OperatorLimits& limits, const std::string& op) {
  return (limits.operators.empty() || limits.operators.contains(op)) && !limits.except.contains(op);
}

}  // namespace

bool is_in_opset(const std::string& op_type, std::int64_t opset) {
  const OpSchema* form = find_schema("", op_type, opset);
  return form && !form->deprecated;
}

DType data_dtype(const OpSite& site) {
  if (site.inputs.empty()) return DType::kUndefined;
  const auto first = std::find_if(site.inputs.begin(), site.inputs.end(), [](const Facts* f) { return f->dtype != DType::kBool; });
  return (first == site.inputs.end() ? site.inputs[0] : *first)->dtype;
}

OpSite site_of(const OnnxEGraph& g, const ENode& node, Id id) {
  OpSite site{g.key(node.op), {}, {&g.facts(id)}, &g.dims()};
  for (const Id c : node.children) site.inputs.push_back(&g.facts(c));
  site.egraph = &g;
  site.node = node;
  return site;
}

bool Target::has_dtype(const std::string& op, const OpSite& site, const std::string& dtype) const {
  if (const auto it = dtypes.find(op); it != dtypes.end())
    return std::find(it->second.begin(), it->second.end(), dtype) != it->second.end();
  const std::set<std::string>* of_kernels = cpu_kernels && is_standard(site.key) ? kernel_dtypes(op, release_for(site)) : nullptr;
  return of_kernels == nullptr || of_kernels->contains(dtype);
}

bool Target::allows(const OpSite& site, std::string* why) const {
  auto refuse = [&](std::string reason) {
    if (why) *why = std::move(reason);
    return false;
  };
  const std::string op = operator_name(site.key.domain, site.key.op_type);
  if (forbidden.contains(op)) return refuse(fmt::format("target {} forbids {}", name, op));
  if (release && release->lacks.contains(op)) return refuse(fmt::format("{} {} has no {}", runtime.name, release->version, op));
  if (!is_standard(site.key)) {
    const auto it = operators.find(site.key.domain);
    const bool listed = it != operators.end() && (it->second.contains("*") || it->second.contains(site.key.op_type));
    if (!listed && !(cpu_kernels && site.of_model && has_kernel_of(op, release_for(site))))
      return refuse(fmt::format("target {} has no {}", name, op));
  } else if (!standard.empty()) {
    const auto it = standard.find(op);
    if (it == standard.end()) return refuse(fmt::format("target {} has no {}", name, op));
    if (!has_version(site, it->second))
      return refuse(fmt::format("target {} has {} only in versions {}", name, op, versions_text(it->second)));
  }
  if (const auto it = newest_opset.find(op);
      it != newest_opset.end() && site.highest_opset > it->second && site.highest_opset != std::numeric_limits<std::int64_t>::max())
    return refuse(fmt::format("target {} has {} only up to opset {}", name, op, it->second));
  if (const DType dtype = data_dtype(site); dtype != DType::kUndefined && !has_dtype(op, site, dtype_name(dtype)))
    return refuse(fmt::format("target {} has no {} for {}", name, op, dtype_name(dtype)));
  if (site.at_border && border.contains(op)) return true;
  static const std::map<int, Ranks> none;
  const auto listed = index_ranks.find(op);
  const std::map<int, Ranks>& indices = listed == index_ranks.end() ? none : listed->second;
  for (const OperatorLimits& l : limits)
    if (concerns(l, op))
      if (std::string wrong = refuse_site(l, site, indices); !wrong.empty())
        return refuse(fmt::format("target {}, {}: {}{}", name, op, wrong, l.because.empty() ? "" : fmt::format(" ({})", l.because)));
  return true;
}

double Target::wish_price(const OpSite& site, std::string* why) const {
  if (wishes.empty()) return 1;
  const std::string op = operator_name(site.key.domain, site.key.op_type);
  double price = 1;
  for (const Wish& wish : wishes)
    if (concerns(wish.limits, op))
      if (const std::string wrong = refuse_site(wish.limits, site, {}); !wrong.empty()) {
        price *= wish.price;
        if (why) *why = wish.limits.because.empty() ? wrong : wish.limits.because;
      }
  return price;
}

bool Target::limits_by_place(const std::string& op) const {
  return std::any_of(limits.begin(), limits.end(), [&](const OperatorLimits& l) { return l.operators.contains(op); });
}

bool Target::takes_empty(const std::string& op) const {
  return std::none_of(limits.begin(), limits.end(), [&](const OperatorLimits& l) { return l.not_empty && concerns(l, op); });
}

Ranks Target::ranks(const std::string& op) const {
  Ranks out;
  for (const OperatorLimits& l : limits)
    if (concerns(l, op)) {
      out.low = std::max(out.low, l.ranks().low);
      out.high = std::min(out.high, l.ranks().high);
    }
  return out;
}

namespace {

class TargetRefusals : public Refusals {
 public:
  TargetRefusals(const Target& target, std::int64_t opset_limit)
      : target_(target),
        opset_limit_(opset_limit),
        of_any_operator_(some_limit_names_none(target)),
        counts_heads_(some_limit_counts_heads(target)) {}

  bool refuses(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const OpKey& key = g.key(node.op);
    if (key.domain == "#" || !(of_any_operator_ || by_place(key))) return false;
    if (is_standard(key) && !is_in_opset(key.op_type, opset_limit_)) return true;
    OpSite site = site_of(g, node, id);
    if (key.domain.empty()) site.highest_opset = opset_limit_;
    return !target_.allows(site) || target_.wish_price(site) > 1;
  }

  Ranks ranks(const OpKey& key) const override { return target_.ranks(operator_name(key.domain, key.op_type)); }
  bool by_place(const OpKey& key) const override { return target_.limits_by_place(operator_name(key.domain, key.op_type)); }

  bool takes_empty(const OpKey& key) const override { return target_.takes_empty(operator_name(key.domain, key.op_type)); }

  bool prefers_images() const override { return target_.images_in_blocks; }
  bool prefers_image(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const Facts &made = g.facts(id), &weights = g.facts(node.children[1]);
    if (!prefers_images() || made.dtype != DType::kFloat || !weights.constant || !weights.shape) return false;
    std::vector<std::int64_t> sizes;
    for (const Dim d : *weights.shape) sizes.push_back(g.dims().value(d).value_or(0));
    const Attribute* groups = find_attribute(g.key(node.op).attributes, "group");
    return sizes.size() == 3 && runs_in_blocks({sizes[0], sizes[1], groups ? groups->i() : 1});
  }

  bool of_any_operator() const override { return of_any_operator_; }
  bool counts_heads() const override { return counts_heads_; }

 private:
  static bool some_limit_names_none(const Target& target) {
    return !target.wishes.empty() ||
           std::any_of(target.limits.begin(), target.limits.end(), [](const OperatorLimits& l) { return l.operators.empty(); });
  }

  static bool some_limit_counts_heads(const Target& target) {
    const auto counts = [](const OperatorLimits& l) { return l.max_heads || l.max_batch; };
    return std::any_of(target.limits.begin(), target.limits.end(), counts) ||
           std::any_of(target.wishes.begin(), target.wishes.end(), [&](const Wish& w) { return counts(w.limits); });
  }

  const Target& target_;
  std::int64_t opset_limit_;
  bool of_any_operator_, counts_heads_;
};

}  // namespace

std::shared_ptr<const Refusals> refusals_of(const Target& target, std::int64_t opset_limit) {
  return target.limits.empty() && target.wishes.empty() && !target.images_in_blocks ? nullptr
                                                                                    : std::make_shared<TargetRefusals>(target, opset_limit);
}

std::int64_t Target::newest_opset_with(const std::map<std::string, std::size_t>& operators_of_model, std::int64_t highest) const {
  std::int64_t newest = highest;
  for (const auto& [op, opset] : newest_opset)
    if (operators_of_model.contains(op)) newest = std::min(newest, opset);
  return newest;
}

namespace {

// A target file is data: it names a built-in cost model, or a file of costs beside it. Libraries run code and are only taken from the user.
absl::Status find_cost_model(Target& target, const std::string& path) {
  const auto built_in = builtin_cost_models();
  std::string& cost = target.cost_model;
  if (std::find(built_in.begin(), built_in.end(), cost) != built_in.end()) return absl::OkStatus();
  if (!is_cost_data(cost) || cost.find('/') != std::string::npos)
    return absl::InvalidArgumentError(
        fmt::format("{}: cost_model: '{}' is neither built in ({}) nor a .json or .jsonl file beside the target; give it by --cost", path,
                    cost, fmt::join(built_in, ", ")));
  if (const std::size_t slash = path.rfind('/'); slash != std::string::npos) cost = path.substr(0, slash + 1) + cost;
  if (const std::string why = no_data_file(cost, kMostNamedText); !why.empty())
    return absl::InvalidArgumentError(fmt::format("{}: cost_model: '{}': {}", path, cost, why));
  return absl::OkStatus();
}

// What others call what we have, and runtimes that have no target of their own: execution providers of ONNX Runtime, without their
// ending, and other words for them.
struct OtherName {
  std::string_view name, ours;
  bool is_provider = true;
};
constexpr OtherName kOtherNames[] = {{"cpu", "ort-cpu"},
                                     {"xnnpack", "ort-cpu"},
                                     {"dnnl", "ort-cpu"},
                                     {"acl", "ort-cpu"},
                                     {"ort", "ort-cpu", false},
                                     {"onnxruntime", "ort-cpu", false},
                                     {"cuda", "ort-cuda"},
                                     {"gpu", "ort-cuda"},
                                     {"web", "ort-web", false},
                                     {"wasm", "ort-web"},
                                     {"webgpu", "ort-web"},
                                     {"webnn", "ort-web"},
                                     {"js", "ort-web"},
                                     {"npu", "npu-4d", false},
                                     {"qnn", "qnn-htp"},
                                     {"coreml", "coreml"},
                                     {"coremltools", "coreml", false},
                                     {"openvino", "openvino"},
                                     {"tensorrt", "onnx"},
                                     {"trt", "onnx"},
                                     {"nvtensorrtrtx", "onnx"},
                                     {"dla", "trt-dla", false},
                                     {"tensorrt-dla", "trt-dla", false},
                                     {"dml", "onnx"},
                                     {"directml", "onnx"},
                                     {"nnapi", "onnx"},
                                     {"rocm", "onnx"},
                                     {"migraphx", "onnx"},
                                     {"tflite", "onnx", false}};

// By "CUDAExecutionProvider", "cuda", in any case; null: none of them.
const OtherName* find_other_name(std::string_view word) {
  std::string lower(word);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kProvider = "executionprovider";
  if (lower.ends_with(kProvider)) lower.resize(lower.size() - kProvider.size());
  const auto* found = std::ranges::find(kOtherNames, lower, &OtherName::name);
  return found == std::end(kOtherNames) ? nullptr : found;
}

// "ort-cpu:1.31" as "ort-cpu@1.31"; "" where no target's name and a version stand there.
std::string with_release(const std::string& name) {
  for (const std::string& target : builtin_targets()) {
    if (!name.starts_with(target)) continue;
    const std::size_t version = name.find_first_of("0123456789", target.size());
    if (version != std::string::npos && version <= target.size() + 2) return target + "@" + name.substr(version);
  }
  return "";
}

std::string other_target(const std::string& name) {
  const auto built_in = builtin_targets();
  if (name.find(',') != std::string::npos) return "a result is for one target: run the command for each";
  const OtherName* other = find_other_name(name);
  if (!other || std::find(built_in.begin(), built_in.end(), other->ours) == built_in.end()) return what_instead(name, built_in);
  const bool is_other = other->ours == "onnx";
  return fmt::format("{}'{}'{} There are {}", is_other ? "for a runtime with fusions of its own take " : "did you mean ", other->ours,
                     is_other ? "." : "?", fmt::join(built_in, ", "));
}

}  // namespace

std::string target_of_provider(const std::string& word) {
  const OtherName* other = find_other_name(word);
  return other && other->is_provider ? std::string(other->ours) : word;
}

absl::StatusOr<Target> builtin_target(std::string_view name) {
  struct Read {
    Once once;
    absl::StatusOr<Target> target;
  };
  static std::array<Read, kBuiltinTargets.size()> targets;  // who settles a release and who is held to it ask for the same
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto& [known, text] = kBuiltinTargets[i];
    if (known != name) continue;
    targets[i].once.call([&, &text = text] { targets[i].target = parse_target(std::string(text), std::string(name)); });
    return targets[i].target;
  }
  return wrong_usage(fmt::format("'{}' is no built-in target; {}", name, what_instead(name, builtin_targets())));
}

namespace {

bool is_builtin(std::string_view name) {
  return std::any_of(std::begin(kBuiltinTargets), std::end(kBuiltinTargets), [&](const auto& target) { return target.first == name; });
}

}  // namespace

absl::StatusOr<Target> load_any_release(const std::string& name_or_path) {
  if (is_builtin(name_or_path)) return builtin_target(name_or_path);
  const absl::StatusOr<std::string> text = read_data_file(name_or_path);
  if (const std::string meant = with_release(name_or_path); absl::IsNotFound(text.status()) && !meant.empty())
    return wrong_usage(fmt::format("{}: no such target; did you mean '{}'?", name_or_path, meant));
  if (absl::IsNotFound(text.status()))
    return no_name_or_file(name_or_path, fmt::format("{}: no such target or file; {}", name_or_path, other_target(name_or_path)));
  if (!text.ok()) return text.status();
  absl::StatusOr<Target> target = parse_target(*text, name_or_path);
  if (!target.ok()) return target;
  if (const absl::Status s = find_cost_model(*target, name_or_path); !s.ok()) return s;
  return target;
}

namespace {

// Holds a target to a release: what a newer one lifted counts, what it has lifted itself does not.
void hold_to(Target& target, RuntimeRelease release) {
  std::erase_if(target.limits, [&](const OperatorLimits& l) { return !l.before.empty() && !is_before(release.version, l.before); });
  for (NodeUnit& unit : target.node_units)
    if (!unit.quantizes_since.empty() && is_before(release.version, unit.quantizes_since)) unit.quantized_at_load.clear();
  target.release = std::move(release);
}

}  // namespace

GivenTarget split_release(const std::string& given) {
  std::error_code ignored;
  const std::size_t at = is_builtin(given) || std::filesystem::exists(given, ignored) ? std::string::npos : given.rfind('@');
  if (at == std::string::npos) return {given, ""};
  return {given.substr(0, at), given.substr(at + 1)};
}

absl::StatusOr<Target> load_target(const std::string& given) {
  const auto [name_or_path, asked] = split_release(given);
  absl::StatusOr<Target> target = load_any_release(name_or_path);
  if (!target.ok()) return target;
  if (name_or_path == given) {
    if (!target->runtime.releases.empty()) hold_to(*target, target->runtime.usual());
    return target;
  }
  absl::StatusOr<RuntimeRelease> release = target->runtime.at(asked);
  if (!release.ok()) return wrong_usage(fmt::format("{}: {}", given, std::string(release.status().message())));
  target->name += "@" + asked;
  hold_to(*target, *std::move(release));
  target->release_is_asked_for = true;
  return target;
}

std::vector<std::string> builtin_targets() {
  std::vector<std::string> names;
  for (const auto& [name, text] : kBuiltinTargets) names.emplace_back(name);
  return names;
}

}  // namespace saturate
