#include "tools/explain/quantization.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "extract/prepare/assumed_sizes.h"
#include "extract/sizes/op_sizes.h"
#include "extract/units/node_units.h"
#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/operators/integer_kernels.h"
#include "rules/compile/near_miss.h"
#include "tools/io/table.h"

namespace saturate {
namespace {

enum class Part { kOther, kQuantizer, kDequantizer, kInteger, kFloat };

// Where an integer operator holds a quantized tensor, its scale and its zero point; -1: not at all.
struct Place {
  int tensor, scale, zero;
};

std::vector<Place> places_of(std::string_view op) {
  if (op == "MatMulInteger" || op == "ConvInteger") return {{1, -1, 3}};
  if (op == "com.microsoft::DynamicQuantizeMatMul") return {{1, 2, 3}};
  if (op == "com.microsoft::MatMulIntegerToFloat") return {{1, 3, 5}};
  if (op.ends_with("QLinearConcat")) return {{2, 3, 4}};
  const bool two = op.ends_with("QLinearMatMul") || op.ends_with("QLinearConv") || op.ends_with("QLinearAdd") ||
                   op.ends_with("QLinearMul") || op.ends_with("QGemm");
  if (two) return {{0, 1, 2}, {3, 4, 5}};
  if (op.ends_with("QLinearWhere")) return {{1, 2, 3}, {4, 5, 6}};
  return op.find("QLinear") != std::string_view::npos ? std::vector<Place>{{0, 1, 2}} : std::vector<Place>();
}

bool computes_in_integers(std::string_view op) {
  static constexpr std::string_view kOthers[] = {"com.microsoft::GatherBlockQuantized", "com.microsoft::QMoE"};
  return integer_kernel(op) || op.find("QLinear") != std::string_view::npos ||
         std::find(std::begin(kOthers), std::end(kOthers), op) != std::end(kOthers);
}

std::string scheme_of(std::string_view op) {
  if (op == "com.microsoft::MatMulNBits" || op == "com.microsoft::GatherBlockQuantized" || op == "com.microsoft::QMoE")
    return "weight-only";
  const bool is_static = op.find("QLinear") != std::string_view::npos || op == "com.microsoft::QGemm" || op == "com.microsoft::QAttention";
  return is_static ? "integer operators, static" : "integer operators, dynamic";
}

class Quantized {
 public:
  Quantized(const OnnxEGraph& g, const Lowered& lowered, const Target& target)
      : g_(g), e_(g.egraph()), lowered_(lowered), target_(target), answers_(g, lowered, target) {
    for (const Source& s : lowered.sources)
      if (s.node && s.op != kNone)
        for (const Id id : s.outputs)
          if (id != kNone) makers_.try_emplace(e_.find(id), &s);
  }

  std::map<std::string, UnitAnswer> answers() const {
    std::map<Id, std::string> names;
    for (const auto& [name, id] : lowered_.values) names.try_emplace(e_.find(id), name);
    const auto name = [&](Id id) {
      const auto it = names.find(e_.find(id));
      return fmt::format("{} ({})", it == names.end() ? "" : "'" + it->second + "'", operators_of(g_, id));
    };
    std::map<std::string, UnitAnswer> out;
    bool any = false;
    for (const Source& s : lowered_.sources) {
      const Part part = part_of(s);
      any = any || part == Part::kQuantizer || part == Part::kDequantizer;
      if (part == Part::kFloat) out[first_name(*s.node)] = answers_.of(s, name);
    }
    return any ? out : std::map<std::string, UnitAnswer>();
  }

  Quantization run(const CostOptions& sizes) {
    out_.target = target_.name;
    for (const Source& s : lowered_.sources) {
      Operator op{&s, part_of(s), "", ""};
      if (op.part == Part::kFloat) {
        const UnitAnswer answer =
            answers_.of(s, [&](Id id) { return facts(id).constant ? "(a constant)" : fmt::format("({})", operators_of(g_, id)); });
        op.kernel = answer.kernel;
        op.why = answer.why;
        if (!op.kernel.empty()) op.part = Part::kInteger;
      } else if (op.part == Part::kInteger) {
        op.kernel = name_of(s);
      }
      count(op, sizes);
      operators_.push_back(std::move(op));
    }
    find_islands();
    return std::move(out_);
  }

 private:
  struct Operator {
    const Source* source;
    Part part;
    std::string kernel, why;
  };

  std::string name_of(const Source& s) const { return operator_name(g_.key(s.op).domain, g_.key(s.op).op_type); }
  const Facts& facts(Id id) const { return g_.facts(e_.find(id)); }
  bool is_constant(Id id) const { return id != kNone && facts(id).constant; }

  static Id first_output(const Source& s) {
    const auto it = std::find_if(s.outputs.begin(), s.outputs.end(), [](Id id) { return id != kNone; });
    return it == s.outputs.end() ? kNone : *it;
  }

  static std::string first_name(const Node& node) {
    const auto it = std::find_if(node.outputs.begin(), node.outputs.end(), [](const std::string& o) { return !o.empty(); });
    return it == node.outputs.end() ? "" : *it;
  }
  bool is_float_data(Id id) const {
    return id != kNone && facts(id).kind == Facts::Kind::kTensor && is_floating(facts(id).dtype) && !facts(id).constant;
  }

  Part part_of(const Source& s) const {
    if (s.op == kNone || !s.node || first_output(s) == kNone) return Part::kOther;
    const std::string name = name_of(s);
    if (name == "QuantizeLinear" || name == "DynamicQuantizeLinear" || name == "com.microsoft::QuantizeLinear") return Part::kQuantizer;
    if (name == "DequantizeLinear" || name == "com.microsoft::DequantizeLinear") return Part::kDequantizer;
    if (computes_in_integers(name)) return Part::kInteger;
    const auto data = [&](Id id) { return is_float_data(id); };
    const bool constant = facts(first_output(s)).constant;
    const bool computes = std::any_of(s.children.begin(), s.children.end(), data) || std::any_of(s.outputs.begin(), s.outputs.end(), data);
    return computes && !constant ? Part::kFloat : Part::kOther;
  }

  void count(const Operator& op, const CostOptions& sizes) {
    const Source& s = *op.source;
    if (op.part == Part::kQuantizer) see_quantizer(s);
    if (op.part == Part::kDequantizer) see(child(s, 0), child(s, 1), child(s, 2), int_of(s, "block_size"), int_of(s, "axis", 1));
    if (op.part != Part::kInteger && op.part != Part::kFloat) return;
    const bool in_integers = op.part == Part::kInteger;
    ++out_.operators;
    out_.integer_operators += in_integers;
    if (in_integers) ++out_.kernels[op.kernel];
    const OpSizes size =
        sizes_of(use_of(g_, {name_of(s), g_.key(s.op).attributes}, tensors_of(name_of(s), s.children), first_output(s), sizes));
    if (is_product(name_of(s))) {
      out_.macs += size.flops / 2;
      out_.integer_macs += in_integers ? size.flops / 2 : 0;
    }
    see_operator(s);
  }

  static bool is_product(const std::string& name) {
    const IntegerKernel* kernel = integer_kernel(name);
    const std::string_view plain = kernel ? kernel->plain : std::string_view(name);
    return plain.ends_with("MatMul") || plain.ends_with("Gemm") || plain.ends_with("Conv") || plain.ends_with("Attention");
  }

  Id child(const Source& s, int i) const {
    return i >= 0 && static_cast<std::size_t>(i) < s.children.size() ? s.children[static_cast<std::size_t>(i)] : kNone;
  }

  std::int64_t int_of(const Source& s, const char* name, std::int64_t otherwise = 0) const {
    const Attribute* a = find_attribute(g_.key(s.op).attributes, name);
    return a && a->type == AttributeType::kInt ? a->i() : otherwise;
  }

  void see_quantizer(const Source& s) {
    if (name_of(s) != "DynamicQuantizeLinear")
      return see(s.outputs[0], child(s, 1), child(s, 2), int_of(s, "block_size"), int_of(s, "axis", 1));
    if (s.outputs[0] != kNone && seen_.insert(e_.find(s.outputs[0])).second)
      ++out_.kinds[{"activations", "uint8", "per tensor, dynamic", "no"}];
  }

  // A tensor of quantized values, once.
  void see(Id tensor, Id scale, Id zero, std::int64_t block, std::int64_t axis) {
    if (tensor == kNone || facts(tensor).kind == Facts::Kind::kAbsent || !seen_.insert(e_.find(tensor)).second) return;
    const Facts& f = facts(tensor);
    QuantizedKind kind;
    kind.role = !f.constant ? "activations" : f.dtype == DType::kInt32 ? "biases" : "weights";
    kind.dtype = dtype_name(f.dtype);
    kind.granularity = granularity(scale == kNone ? zero : scale, block, axis);
    if (scale != kNone && !facts(scale).constant) kind.granularity += ", dynamic";
    kind.symmetric = symmetric(f.dtype, zero);
    ++out_.kinds[kind];
  }

  std::string granularity(Id of, std::int64_t block, std::int64_t axis) const {
    if (block > 0) return fmt::format("blocks of {} along axis {}", block, axis);
    if (of == kNone || !facts(of).shape) return of == kNone ? "per tensor" : "?";
    const auto& shape = *facts(of).shape;
    const bool one = std::all_of(shape.begin(), shape.end(), [&](Dim d) { return g_.dims().evaluate(d, {}) == 1; });
    return one ? "per tensor" : fmt::format("per axis {}", axis);
  }

  std::string symmetric(DType dtype, Id zero) const {
    if (!is_integer(dtype)) return "yes";
    const std::int64_t middle = has_sign(dtype) ? 0 : std::int64_t{1} << (bit_width(dtype) - 1);
    if (zero == kNone || facts(zero).kind == Facts::Kind::kAbsent) return middle == 0 ? "yes" : "no";
    const auto& value = facts(zero).value;
    if (!value) return "?";
    for (std::int64_t i = 0; i < value->size(); ++i)
      if (element_as_int(*value, i) != middle) return "no";
    return "yes";
  }

  // Scheme of an operator, and what integer operators hold themselves.
  void see_operator(const Source& s) {
    const std::string name = name_of(s);
    if (computes_in_integers(name)) {
      ++out_.schemes[scheme_of(name)];
      if (name == "com.microsoft::MatMulNBits") return see_blocks(s);
      for (const Place& p : places_of(name))
        see(child(s, p.tensor), child(s, p.scale), child(s, p.zero), 0, name.ends_with("Conv") ? 0 : 1);
      return;
    }
    bool activation = false, weight = false, dynamic = false;
    for (const Id id : s.children) {
      const Source* maker = maker_of(id);
      if (maker && part_of(*maker) == Part::kDequantizer && !is_constant(child(*maker, 0))) {
        activation = true;
        dynamic = dynamic || !is_constant(child(*maker, 1));
      }
      weight = weight || is_quantized_weight(id, 0);
    }
    if (activation)
      ++out_.schemes[dynamic ? "quantizers around operators (QDQ), dynamic" : "quantizers around operators (QDQ), static"];
    else if (weight)
      ++out_.schemes["weight-only"];
  }

  void see_blocks(const Source& s) {
    const std::int64_t bits = int_of(s, "bits", 4);
    const Id zero = child(s, 3);
    const bool given = zero != kNone && facts(zero).kind != Facts::Kind::kAbsent;
    if (child(s, 1) != kNone && seen_.insert(e_.find(child(s, 1))).second)
      ++out_.kinds[{"weights", fmt::format("uint{}", bits), fmt::format("blocks of {} along axis 0", int_of(s, "block_size")),
                    given ? "no" : "yes"}];
  }

  const Source* maker_of(Id id) const {
    const auto it = id == kNone ? makers_.end() : makers_.find(e_.find(id));
    return it == makers_.end() ? nullptr : it->second;
  }

  bool is_quantized_weight(Id id, int depth) const {
    const Source* maker = maker_of(id);
    if (!maker || !facts(id).constant || depth > 8) return false;
    return part_of(*maker) == Part::kDequantizer ||
           std::any_of(maker->children.begin(), maker->children.end(), [&](Id of) { return is_quantized_weight(of, depth + 1); });
  }

  // Float operators that integers lead to, and that lead to integers.
  void find_islands() {
    std::set<Id> after, before;
    for (const Operator& op : operators_) {
      const auto is_after = [&](Id id) { return after.contains(e_.find(id)); };
      const bool starts = op.part == Part::kInteger || (op.part == Part::kDequantizer && !is_constant(child(*op.source, 0)));
      if (starts || (op.part == Part::kFloat && std::any_of(op.source->children.begin(), op.source->children.end(), is_after)))
        for (const Id id : op.source->outputs)
          if (is_float_data(id)) after.insert(e_.find(id));
    }
    for (auto op = operators_.rbegin(); op != operators_.rend(); ++op) {
      const auto is_before = [&](Id id) { return id != kNone && before.contains(e_.find(id)); };
      const bool ends = op->part == Part::kQuantizer || op->part == Part::kInteger;
      if (ends || (op->part == Part::kFloat && std::any_of(op->source->outputs.begin(), op->source->outputs.end(), is_before)))
        for (const Id id : op->source->children)
          if (is_float_data(id)) before.insert(e_.find(id));
    }
    std::vector<const Operator*> all;
    for (const Operator& op : operators_) {
      const auto in = [&](const std::set<Id>& values) { return [&](Id id) { return id != kNone && values.contains(e_.find(id)); }; };
      if (op.part == Part::kFloat && std::any_of(op.source->children.begin(), op.source->children.end(), in(after)) &&
          std::any_of(op.source->outputs.begin(), op.source->outputs.end(), in(before)))
        all.push_back(&op);
    }
    number(all);
  }

  void number(const std::vector<const Operator*>& all) {
    std::vector<std::size_t> island(all.size());
    std::iota(island.begin(), island.end(), std::size_t{0});
    std::map<Id, std::size_t> made_by;
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const Id id : all[i]->source->children)
        if (const auto it = made_by.find(e_.find(id)); it != made_by.end()) {
          const std::size_t from = island[i], to = island[it->second];
          std::replace(island.begin(), island.end(), std::max(from, to), std::min(from, to));
        }
      for (const Id id : all[i]->source->outputs)
        if (id != kNone) made_by[e_.find(id)] = i;
    }
    std::map<std::size_t, std::size_t> numbers;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t number = numbers.try_emplace(island[i], numbers.size() + 1).first->second;
      const Node& node = *all[i]->source->node;
      out_.islands.push_back({number, operator_name(node.domain, node.op_type), first_name(node), all[i]->why});
    }
    std::stable_sort(out_.islands.begin(), out_.islands.end(), [](const auto& a, const auto& b) { return a.island < b.island; });
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const Lowered& lowered_;
  const Target& target_;
  UnitAnswers answers_;
  std::map<Id, const Source*> makers_;
  std::set<Id> seen_;  // quantized tensors
  std::vector<Operator> operators_;
  Quantization out_;
};

std::string share(double part, double whole) { return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "none"; }

}  // namespace

std::map<std::string, UnitAnswer> integer_kernels(const Model& model, const Target& target) {
  if (target.node_units.empty() || !is_quantized(model)) return {};
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const auto lowered = lower(model, g, {});
  return lowered.ok() ? Quantized(g, *lowered, target).answers() : std::map<std::string, UnitAnswer>();
}

bool is_quantized(const Model& model) {
  const auto quantizes = [](const Node& n) {
    const std::string name = operator_name(n.domain, n.op_type);
    return n.op_type.find("QuantizeLinear") != std::string::npos || n.op_type == "DequantizeLinear" || computes_in_integers(name);
  };
  const auto any = [&](const std::vector<Node>& nodes) { return std::any_of(nodes.begin(), nodes.end(), quantizes); };
  return any(model.graph.nodes) ||
         std::any_of(model.functions.begin(), model.functions.end(), [&](const Function& f) { return any(f.nodes); });
}

absl::StatusOr<Quantization> quantization(const Model& model, const Target& target) {
  if (!is_quantized(model)) return Quantization{};
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const auto lowered = lower(model, g, {});
  if (!lowered.ok()) return lowered.status();
  const CostOptions sizes = with_all_symbols({}, g, numbers_of(assumed_sizes(model, g, *lowered)));
  return Quantized(g, *lowered, target).run(sizes);
}

std::string format_quantization(const Quantization& q) {
  std::vector<std::vector<std::string>> rows{{"quantized by", "operators"}};
  for (const auto& [scheme, n] : q.schemes) rows.push_back({scheme, fmt::format("{}", n)});
  std::string out = format_table(rows) + "\n";
  rows = {{"quantized", "type", "granularity", "symmetric", "tensors"}};
  for (const auto& [kind, n] : q.kinds) rows.push_back({kind.role, kind.dtype, kind.granularity, kind.symmetric, fmt::format("{}", n)});
  out += format_table(rows, 4) + "\n";
  rows = {{fmt::format("integer kernel of {}", q.target), "operators"}};
  for (const auto& [kernel, n] : q.kernels) rows.push_back({kernel, fmt::format("{}", n)});
  if (rows.size() > 1) out += format_table(rows) + "\n";
  out += fmt::format("in integer kernels of {}: {} of {} operators ({}), {} of the multiply-accumulates\n", q.target, q.integer_operators,
                     q.operators, share(static_cast<double>(q.integer_operators), static_cast<double>(q.operators)),
                     share(q.integer_macs, q.macs));
  if (q.islands.empty()) return out;
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, std::string>> alike;  // count and the first value
  for (const FloatOperator& f : q.islands) {
    auto& [n, first] = alike[{f.why, f.op_type}];
    if (n++ == 0) first = f.value;
  }
  rows = {{"float between integers", "operators", "why it is no integer kernel", "the first"}};
  for (const auto& [key, found] : alike) rows.push_back({key.second, fmt::format("{}", found.first), key.first, found.second});
  return out +
         fmt::format("float islands between integers: {}, of {} operators (--json lists them)\n\n", q.islands.back().island,
                     q.islands.size()) +
         format_table(rows, 4);
}

nlohmann::json to_json(const Quantization& q) {
  using nlohmann::json;
  json kinds = json::array(), islands = json::array();
  for (const auto& [k, n] : q.kinds)
    kinds.push_back({{"role", k.role}, {"type", k.dtype}, {"granularity", k.granularity}, {"symmetric", k.symmetric}, {"tensors", n}});
  for (const FloatOperator& f : q.islands)
    islands.push_back({{"island", f.island}, {"op_type", f.op_type}, {"value", f.value}, {"why", f.why}});
  return {{"schemes", q.schemes},
          {"tensors", kinds},
          {"target", q.target},
          {"operators", q.operators},
          {"integer_operators", q.integer_operators},
          {"macs", q.macs},
          {"integer_macs", q.integer_macs},
          {"kernels", q.kernels},
          {"float_islands", islands}};
}

}  // namespace saturate
