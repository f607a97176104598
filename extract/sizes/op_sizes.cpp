#include "extract/sizes/op_sizes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/operators/integer_kernels.h"
#include "onnx_bridge/operators/op_questions.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

double product(const Sizes1D& shape) {
  double n = 1;
  for (double d : shape) n *= d;
  return n;
}

double at(const Sizes1D& shape, std::size_t from_end, double otherwise = 1) {
  return shape.size() >= from_end ? shape[shape.size() - from_end] : otherwise;
}

bool ends_with(std::string_view op, std::string_view name) {
  return op == name || (op.ends_with(name) && op[op.size() - name.size() - 1] == ':');
}

// Q is (B, S, H) or (B, heads, S, D), K likewise.
double attention_flops(const OpUse& use) {
  if (use.inputs.empty()) return 0;
  if (use.op == "com.microsoft::Attention") {  // X (B, S, C), W (C, 3H)
    const Sizes1D &x = use.inputs[0], &w = use.inputs.size() > 1 ? use.inputs[1] : use.inputs[0];
    const double rows = product(x) / std::max(1.0, at(x, 1)), width = at(w, 1);
    return 2 * product(x) * width + 4 * rows * at(x, 2) * width / 3;
  }
  const Sizes1D& q = use.inputs[0];
  const Sizes1D& k = use.inputs.size() > 1 && !use.inputs[1].empty() ? use.inputs[1] : q;
  double keys = at(k, 2);
  if (use.outputs.size() > 1 && use.outputs[1].size() == 4) keys = at(use.outputs[1], 2);  // past and present
  return 4 * product(q) * keys;
}

double flops_of(const OpUse& use) {
  if (const IntegerKernel* kernel = integer_kernel(use.op)) {
    OpUse plain = use;
    plain.op = kernel->plain;
    return flops_of(plain);
  }
  const double out = use.outputs.empty() ? 0 : product(use.outputs[0]);
  auto input = [&](std::size_t i) -> const Sizes1D& {
    static const Sizes1D none;
    return i < use.inputs.size() ? use.inputs[i] : none;
  };
  if (ends_with(use.op, "MatMul") || ends_with(use.op, "FusedMatMul") || ends_with(use.op, "MatMulInteger") || ends_with(use.op, "Gemm") ||
      ends_with(use.op, "FusedGemm"))
    return 2 * out * at(input(0), int_attribute(use, "transA") != 0 ? 2 : 1);
  if (ends_with(use.op, "Conv") || ends_with(use.op, "FusedConv"))
    return 2 * out * product(input(1)) / std::max(1.0, input(1).empty() ? 1 : input(1)[0]);
  if (use.op == "ConvTranspose")  // each number of X goes into all places that the filters reach
    return 2 * product(input(0)) * product(input(1)) / std::max(1.0, input(1).empty() ? 1 : input(1)[0]);
  if (use.op.starts_with("Scatter")) return product(input(2));  // what is put into a copy
  if (is_recurrent(use.op))                                     // X (steps, batch, width) by W, and each state by R
    return 2 * product(input(0)) / std::max(1.0, at(input(0), 1)) * (product(input(1)) + product(input(2)));
  if (ends_with(use.op, "CausalConvWithState")) return 2 * out * at(input(1), 1);
  if (ends_with(use.op, "LinearAttention") && use.inputs.size() > 2) {  // the state of each head decays, is read, written and read again
    const double key = at(use.inputs[0], 1) / std::max(1.0, static_cast<double>(int_attribute(use, "q_num_heads", 1)));
    return 7 * product(use.inputs[2]) * key;
  }
  if (const auto experts = experts_of(use)) return 2 * experts->pairs * experts->weights;
  if (ends_with(use.op, "Attention") || ends_with(use.op, "MultiHeadAttention") || ends_with(use.op, "GroupQueryAttention"))
    return attention_flops(use);
  double all = 0;
  for (const Sizes1D& o : use.outputs) all += product(o);
  return all;
}

// How many numbers along an axis each new number of an image is made of.
int neighbours(const OpUse& use) {
  const std::string mode = string_attribute(use, "mode");
  if (mode.ends_with("cubic")) return 4;
  return mode.ends_with("linear") || (mode.empty() && use.op == "GridSample") ? 2 : 1;
}

std::string key_of(const OpUse& use) {
  if (use.op == "Transpose") {
    const auto axes = ints_attribute(use, "perm");
    return axes.empty() || axes.back() != static_cast<std::int64_t>(axes.size()) - 1 ? "Transpose/inner" : "Transpose";
  }
  const bool weights = use.constant.size() > 1 && use.constant[1];
  if (use.op == "MatMul" && weights) return "MatMul/weights";
  if (use.op == "com.microsoft::FusedMatMul" && weights) {  // the same kernel, which packs them at load
    if (int_attribute(use, "transBatchB") == 0) return "MatMul/weights";
  }
  if (use.op == "Resize" || use.op == "GridSample") return fmt::format("{}/{}", use.op, neighbours(use));
  if (use.op == "com.microsoft::QuickGelu") {
    const Attribute* alpha = find_attribute(use.attributes, "alpha");
    return alpha && alpha->type == AttributeType::kFloat && alpha->f() == 1 ? use.op + "/1" : use.op;
  }
  return use.op;
}

double size(const OnnxEGraph& g, Dim d, const CostOptions& options) {
  if (const auto v = g.dims().value(d)) return static_cast<double>(*v);
  if (const auto v = g.dims().evaluate(d, options.symbols)) return std::max(0.0, static_cast<double>(*v));
  return static_cast<double>(options.default_symbol);
}

Sizes1D shape(const OnnxEGraph& g, const Facts& f, const CostOptions& options) {
  if (!f.shape) return {static_cast<double>(options.default_symbol)};
  return sizes_of(g, *f.shape, options);
}

void add_outputs(const OnnxEGraph& g, const Facts& f, const CostOptions& options, OpUse& use) {
  if (f.kind == Facts::Kind::kTuple) {
    for (const Facts& e : f.elements) add_outputs(g, e, options, use);
  } else if (f.kind == Facts::Kind::kTensor) {
    use.outputs.push_back(shape(g, f, options));
  }
}

}  // namespace

std::int64_t int_attribute(const OpUse& use, std::string_view name, std::int64_t otherwise) {
  const Attribute* a = find_attribute(use.attributes, name);
  const auto* v = a ? std::get_if<std::int64_t>(&a->value) : nullptr;
  return v ? *v : otherwise;
}

std::optional<ExpertSizes> experts_of(const OpUse& use) {
  if (use.op != "com.microsoft::MoE") return std::nullopt;
  std::vector<const Sizes1D*> weights;
  for (std::size_t i = 2; i < use.inputs.size(); ++i)
    if (use.inputs[i].size() == 3) weights.push_back(&use.inputs[i]);
  if (weights.size() < 2) return std::nullopt;
  const double experts = std::max(1.0, at(*weights[0], 3)), hidden = std::max(1.0, at(*weights[0], 1));
  const double tokens = product(use.inputs[0]) / hidden, chosen = static_cast<double>(int_attribute(use, "k", 1));
  ExpertSizes out{hidden, at(*weights[1], 1), tokens * chosen, experts * (1 - std::pow(1 - std::min(1.0, chosen / experts), tokens)), 0};
  out.weights = (product(*weights[0]) + product(*weights[1])) / experts;
  return out;
}

std::vector<std::int64_t> ints_attribute(const OpUse& use, std::string_view name) {
  const Attribute* a = find_attribute(use.attributes, name);
  const auto* v = a ? std::get_if<std::vector<std::int64_t>>(&a->value) : nullptr;
  return v ? *v : std::vector<std::int64_t>{};
}

std::string string_attribute(const OpUse& use, std::string_view name) {
  const Attribute* a = find_attribute(use.attributes, name);
  const auto* v = a ? std::get_if<std::string>(&a->value) : nullptr;
  return v ? *v : std::string();
}

bool is_view(std::string_view op) { return has(Trait::kView, op) || op == "Shape" || op == "Size"; }

Sizes1D sizes_of(const OnnxEGraph& g, std::span<const Dim> dims, const CostOptions& options) {
  Sizes1D out;
  for (const Dim d : dims) out.push_back(size(g, d, options));
  return out;
}

OpSizes sizes_of(const OpUse& use) {
  OpSizes s;
  s.key = key_of(use);
  s.flops = flops_of(use);
  for (const auto* side : {&use.inputs, &use.outputs})
    for (const Sizes1D& t : *side) s.bytes += product(t) * use.element_bytes;
  s.arity = use.inputs.size();
  if (use.op == "Gather" && use.inputs.size() == 2 && !use.outputs.empty())  // reads what it takes, not the table
    s.bytes = (2 * product(use.outputs[0]) + 2 * product(use.inputs[1])) * use.element_bytes;
  if (const auto experts = experts_of(use))  // reads the weights that a token meets
    s.bytes = (2 * product(use.inputs[0]) + product(use.inputs[1]) + experts->met * experts->weights) * use.element_bytes;
  if (!use.outputs.empty()) s.last = at(use.outputs[0], 1), s.outputs = product(use.outputs[0]);
  s.dtype = use.dtype;
  return s;
}

OpUse use_of(const OnnxEGraph& g, OtherOperator op, std::span<const Id> inputs, Id output, const CostOptions& options) {
  OpUse use;
  use.op = std::move(op.name);
  use.attributes = std::move(op.attributes);
  for (Id c : inputs) {
    const Facts& f = g.facts(c);
    if (f.kind == Facts::Kind::kAbsent) continue;
    use.inputs.push_back(shape(g, f, options));
    use.constant.push_back(f.constant);
  }
  add_outputs(g, g.facts(output), options, use);
  const Facts& f = inputs.empty() ? g.facts(output) : g.facts(inputs[0]);
  if (const int bits = bit_width(f.dtype); bits > 0) use.element_bytes = bits / 8.0, use.dtype = dtype_name(f.dtype);
  return use;
}

std::vector<Id> tensors_of(std::string_view op, std::span<const Id> inputs) {
  const IntegerKernel* kernel = integer_kernel(op);
  std::vector<Id> out;
  out.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!kernel || kernel->reads(i)) out.push_back(inputs[i]);
  return out;
}

OpUse use_of(const OnnxEGraph& g, const ENode& node, Id id, const CostOptions& options) {
  const OpKey& key = g.key(node.op);
  OtherOperator op{operator_name(key.domain, key.op_type), key.attributes};
  if (!integer_kernel(op.name)) return use_of(g, std::move(op), node.children, id, options);
  const std::vector<Id> tensors = tensors_of(op.name, node.children);
  return use_of(g, std::move(op), tensors, id, options);
}

std::optional<OpUse> use_of(const nlohmann::json& row) {
  if (!row.is_object() || !row.contains("op") || !row.contains("in") || !row.contains("out")) return std::nullopt;
  OpUse use;
  use.op = row["op"];
  const auto constants = row.value("const", std::vector<std::size_t>{});
  const IntegerKernel* kernel = integer_kernel(use.op);
  for (std::size_t i = 0; i < row["in"].size(); ++i) {
    if (row["in"][i].is_null() || (kernel && !kernel->reads(i))) continue;
    use.inputs.push_back(row["in"][i].get<Sizes1D>());
    use.constant.push_back(std::find(constants.begin(), constants.end(), i) != constants.end());
  }
  for (const auto& o : row["out"]) use.outputs.push_back(o.get<Sizes1D>());
  use.dtype = row.value("dtype", std::string("float"));
  if (const auto dtype = parse_dtype(use.dtype); dtype && bit_width(*dtype) > 0) use.element_bytes = bit_width(*dtype) / 8.0;
  if (row.contains("attrs"))
    for (const auto& [name, value] : row["attrs"].items()) {
      if (value.is_number_integer())
        use.attributes.push_back(Attribute::of(name, value.get<std::int64_t>()));
      else if (value.is_number())
        use.attributes.push_back(Attribute::of(name, value.get<float>()));
      else if (value.is_string())
        use.attributes.push_back(Attribute::of(name, value.get<std::string>()));
      else if (value.is_array())
        use.attributes.push_back(Attribute::of(name, value.get<std::vector<std::int64_t>>()));
    }
  return use;
}

std::optional<TimedUse> timed_row(const nlohmann::json& row) {
  try {
    auto use = use_of(row);
    if (!use) return std::nullopt;
    const double seconds = row.at("seconds").get<double>();
    if (!std::isfinite(seconds) || seconds < 0) return std::nullopt;
    return TimedUse{*std::move(use), seconds};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

absl::StatusOr<TimedRows> read_timed_rows(const std::string& text, const std::string& place) {
  TimedRows out;
  const auto take = [&](const nlohmann::json& row, std::size_t number, std::string_view line) {
    if (row.is_object() && row.contains("graph")) return absl::OkStatus();
    if (row.is_object() && row.contains("machine")) {
      out.machine = row.dump();
      return absl::OkStatus();
    }
    auto timed = timed_row(row);
    if (!timed)
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: not a row of measured times; wanted {{\"op\", \"in\", \"out\", \"seconds\"}}", place, number));
    out.rows.push_back(*std::move(timed));
    out.lines.emplace_back(line);
    return absl::OkStatus();
  };
  if (absl::Status read = each_json_line(text, place, take); !read.ok()) return read;
  if (out.rows.empty()) return absl::InvalidArgumentError(fmt::format("{}: no measured times; `saturate cost gather` makes some", place));
  return out;
}

}  // namespace saturate
