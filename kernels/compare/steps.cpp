#include "kernels/compare/steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/operators/integer_kernels.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

constexpr double kShareOften = 0.25;  // of what may be left out, and is not followed by a DequantizeLinear of its own

bool is_plain(const Node& node, std::string_view op_type) { return node.domain.empty() && node.op_type == op_type; }

// Operators that give elements of their inputs, or the largest of some: what lies between them and is rounded as they are is one of them.
bool hands_on(const Node& node) {
  return has(Trait::kSelection, node) || (has(Trait::kBetween, node) && has(Trait::kCommutesWithRounding, node));
}

bool is_step_integer(DType dtype) { return is_integer(dtype) && bit_width(dtype) <= 16; }

struct Range {
  std::int64_t low, high;
};
Range range_of(DType dtype) {
  const int bits = bit_width(dtype);
  if (!has_sign(dtype)) return {0, (std::int64_t{1} << bits) - 1};
  return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
}

// Element `i` of integers that are packed where they have less than 8 bits, the first into the lowest.
void put(Tensor& tensor, std::int64_t i, std::int64_t value) {
  const int bits = bit_width(tensor.dtype());
  auto* bytes = reinterpret_cast<std::uint8_t*>(tensor.mutable_data());
  if (bits >= 8) {
    const auto narrow = static_cast<std::uint16_t>(value);
    std::memcpy(bytes + i * (bits / 8), &narrow, static_cast<std::size_t>(bits / 8));
    return;
  }
  const int shift = static_cast<int>(i * bits % 8), mask = ((1 << bits) - 1) << shift;
  std::uint8_t& byte = bytes[i * bits / 8];
  byte = static_cast<std::uint8_t>((byte & ~mask) | ((static_cast<int>(value) << shift) & mask));
}

// Moves some of the elements that quantizers make, up or down.
class Mover {
 public:
  Mover(std::uint64_t seed, std::set<std::string> often) : random_(seed), often_(std::move(often)) {}

  void see(const Node& node, std::vector<Value>& made) {
    if (!is_quantizer(node) || made.empty() || !made[0].is_tensor()) return;
    const Tensor& t = made[0].tensor();
    if (is_step_integer(t.dtype()) && t.size() > 0) made[0] = moved(t, often_.contains(node.outputs[0]) ? kShareOften : kShareMoved);
  }

 private:
  Tensor moved(const Tensor& t, double share) {
    Tensor out(t.dtype(), t.dims());
    std::memcpy(out.mutable_data(), t.bytes().data(), t.bytes().size());
    const Range range = range_of(t.dtype());
    for (auto left = std::max<std::int64_t>(std::llround(share * static_cast<double>(t.size())), 1); left > 0; --left) {
      const std::int64_t i = random_.below(t.size()), old = element_as_int(t, i).value_or(0);
      const std::int64_t by = old == range.low ? 1 : old == range.high ? -1 : random_.below(2) == 0 ? 1 : -1;
      put(out, i, old + by);
    }
    return out;
  }

  Random random_;
  std::set<std::string> often_;
};

// The values of a graph by what makes them.
class Makers {
 public:
  explicit Makers(const Graph& graph) : view_(graph) {
    for (const Initializer& i : graph.initializers) constants_[i.name] = &i.tensor;
    for (const Node& node : graph.nodes) {
      const Attribute* value = is_plain(node, "Constant") ? find_attribute(node.attributes, "value") : nullptr;
      if (value && std::holds_alternative<Tensor>(value->value)) constants_[node.outputs[0]] = &value->t();
    }
  }

  const Node* of(const std::string& value) const { return view_.producer(value); }

  const Tensor* constant(const Node& node, std::size_t input) const {
    const auto it = input < node.inputs.size() ? constants_.find(node.inputs[input]) : constants_.end();
    return it == constants_.end() ? nullptr : it->second;
  }

  // Whether a quantizer makes what the value holds.
  bool is_quantized(const std::string& value) {
    const Node* node = of(value);
    if (!node || !seen_.insert(value).second) return false;
    if (is_quantizer(*node)) return node->outputs[0] == value;
    return hands_on(*node) &&
           std::any_of(node->inputs.begin(), node->inputs.end(), [&](const std::string& input) { return is_quantized(input); });
  }
  void forget() { seen_.clear(); }

  // Absent, or the same value, or equal constants.
  bool same(const Node& a, const Node& b, std::size_t input) const {
    const std::string x = input < a.inputs.size() ? a.inputs[input] : "", y = input < b.inputs.size() ? b.inputs[input] : "";
    if (x == y) return true;
    const Tensor *left = constant(a, input), *right = constant(b, input);
    return left && right && identical(*left, *right);
  }

 private:
  GraphView view_;
  std::map<std::string, const Tensor*> constants_;
  std::set<std::string> seen_;
};

// The DequantizeLinear behind quantizers with the same parameters, with the operators between that only move elements: first the one that
// reads the quantizer.
struct Pair {
  const Node *quantize = nullptr, *dequantize = nullptr;
  std::vector<const Node*> between;
};

std::vector<Pair> pairs_of(const Graph& graph, const Makers& makers) {
  std::vector<Pair> out;
  for (const Node& node : graph.nodes) {
    if (!is_plain(node, "DequantizeLinear")) continue;
    Pair pair{nullptr, &node, {}};
    const Node* of = makers.of(node.inputs[0]);
    while (of && has(Trait::kMovement, *of) && of->outputs.size() == 1) {
      pair.between.insert(pair.between.begin(), of);
      of = makers.of(of->inputs[0]);
    }
    if (!of || !is_plain(*of, "QuantizeLinear") || !makers.same(*of, node, 1) || !makers.same(*of, node, 2)) continue;
    const Tensor* scale = makers.constant(node, 1);
    if (!pair.between.empty() && !(scale && scale->size() == 1)) continue;
    pair.quantize = of;
    out.push_back(std::move(pair));
  }
  return out;
}

// The model with those of the pairs left out that `wanted` chooses: what is quantized is read as it was.
Model without(const Model& model, const std::vector<Pair>& pairs, const std::function<bool()>& wanted) {
  std::map<const Node*, const Pair*> chosen;
  for (const Pair& pair : pairs)
    if (wanted()) chosen[pair.dequantize] = &pair;
  Model out = model;
  out.graph.nodes.clear();
  for (const Node& node : model.graph.nodes) {
    const auto it = chosen.find(&node);
    if (it == chosen.end()) {
      out.graph.nodes.push_back(node);
      continue;
    }
    std::string value = it->second->quantize->inputs[0];
    for (const Node* moves : it->second->between) {
      Node again = *moves;
      again.inputs[0] = value;
      value = again.outputs[0] = node.outputs[0] + "/" + moves->outputs[0];
      out.graph.nodes.push_back(std::move(again));
    }
    Node same = node;
    same.op_type = "Identity";
    same.attributes.clear();
    same.inputs = {value};
    out.graph.nodes.push_back(std::move(same));
  }
  return out;
}

// What quantizers make that no pair leaves out: rules may find the DequantizeLinear in an integer operator.
std::set<std::string> without_pair(const Graph& graph, const std::vector<Pair>& pairs) {
  std::set<std::string> out;
  for (const Node& node : graph.nodes)
    if (is_quantizer(node)) out.insert(node.outputs[0]);
  for (const Pair& pair : pairs) out.erase(pair.quantize->outputs[0]);
  for (const ValueInfo& output : graph.outputs) out.erase(output.name);
  return out;
}

}  // namespace

bool is_quantizer(const Node& node) {
  const bool standard = node.domain.empty();
  if (!standard && node.domain != "com.microsoft") return false;
  if (node.op_type == "QuantizeLinear" || (standard && node.op_type == "DynamicQuantizeLinear")) return true;
  return node.op_type.starts_with("QLinear") || node.op_type == "QGemm" ||
         integer_kernel(operator_name(node.domain, node.op_type)) != nullptr;
}

bool has_quantizers(const Model& model) { return std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(), is_quantizer); }

std::map<std::string, double> steps_of_outputs(const Model& model) {
  Makers makers(model.graph);
  std::map<std::string, double> out;
  for (const ValueInfo& output : model.graph.outputs) {
    makers.forget();
    if (makers.is_quantized(output.name)) out[output.name] = 1;
    const Node* node = makers.of(output.name);
    while (node && has(Trait::kMovement, *node)) node = makers.of(node->inputs[0]);
    if (!node || !is_plain(*node, "DequantizeLinear") || !makers.is_quantized(node->inputs[0])) continue;
    const Tensor* scale = makers.constant(*node, 1);
    const double size = scale && scale->size() == 1 ? std::abs(element_as_double(*scale, 0).value_or(0)) : 0;
    if (size > 0 && std::isfinite(size)) out[output.name] = size;
  }
  return out;
}

std::optional<CutOff> most_cut_off(const NoiseOf& original) {
  constexpr double kMostLeftOut = 1.0 / 64;
  constexpr std::int64_t kFewest = 8;  // elements: less than that are no share
  const Makers makers(original.model.graph);
  std::map<std::string, Range> inner;  // by output of a quantizer: the ends of the range that stand for numbers other than zero
  for (const Pair& pair : pairs_of(original.model.graph, makers)) {
    const Tensor* zero = makers.constant(*pair.quantize, 2);
    if (!zero || zero->size() != 1 || !is_step_integer(zero->dtype())) continue;
    Range ends = range_of(zero->dtype());
    const std::int64_t at = element_as_int(*zero, 0).value_or(ends.low);
    if (at == ends.low) ends.low -= 1;
    if (at == ends.high) ends.high += 1;
    inner.emplace(pair.quantize->outputs[0], ends);
  }
  CutOff most;
  SessionOptions options = original.options;
  options.prepare = false;
  options.after_node = [&](const Node& node, std::vector<Value>& made) {
    const auto it = node.outputs.empty() ? inner.end() : inner.find(node.outputs[0]);
    if (it == inner.end() || made.empty() || !made[0].is_tensor()) return;
    const Tensor& t = made[0].tensor();
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const std::int64_t x = element_as_int(t, i).value_or(0);
      count += x == it->second.low || x == it->second.high;
    }
    const double share = t.size() > 0 ? static_cast<double>(count) / static_cast<double>(t.size()) : 0;
    if (count >= kFewest && share > std::max(kMostLeftOut, most.share)) most = {it->first, share};
  };
  if (inner.empty()) return std::nullopt;
  const auto session = Session::create(original.model, options);
  if (!session.ok() || !session->run(original.inputs, nullptr, original.limits).ok() || most.quantizer.empty()) return std::nullopt;
  return most;
}

void measure_steps(const NoiseOf& original, StepMoves moves, std::vector<Noise>& noise, const std::function<bool()>& enough) {
  constexpr std::uint64_t kRuns = 12;
  const Makers makers(original.model.graph);
  const std::vector<Pair> pairs = moves == StepMoves::kLeftOut ? pairs_of(original.model.graph, makers) : std::vector<Pair>();
  std::set<std::string> often;
  if (moves == StepMoves::kLeftOut) often = without_pair(original.model.graph, pairs);
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    Random choice(run + 1);
    const auto wanted = [&] { return run == 0 || choice.below(2) == 0; };
    Mover mover(run + 1, often);
    SessionOptions options = original.options;
    options.prepare = false;
    options.after_node = [&](const Node& node, std::vector<Value>& made) { mover.see(node, made); };
    const auto session = Session::create(pairs.empty() ? original.model : without(original.model, pairs, wanted), options);
    if (!session.ok()) return;
    const auto values =
        session->run(run % 2 == 0 ? original.inputs : moved_inputs(original.inputs, static_cast<int>(run)), nullptr, original.limits);
    if (!values.ok()) return;
    for (std::size_t i = 0; i < original.outputs.size(); ++i) noise[i].learn(original.outputs[i], (*values)[i]);
    if (enough()) return;
  }
}

}  // namespace saturate
