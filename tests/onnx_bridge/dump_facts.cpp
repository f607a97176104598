// For infer_vs_onnx.py. `dump_facts facts MODEL [--egraph] [INPUT=2,3 ...]`: the facts of every value as JSON, dims as numbers where
// the inputs' actual sizes tell them. `dump_facts convert MODEL OUT OPSET`: every node brought to canonical form and written as OPSET.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/opsets/canonical.h"

namespace saturate {
namespace {

using Symbols = std::map<std::string, std::int64_t>;

// Facts of every value of a graph, node by node, without an e-graph.
class Propagation {
 public:
  Propagation(const Model& model, DimTable& dims) : model_(model), dims_(dims), evaluator_(make_evaluator({.reference = true})) {
    facts_[""].kind = Facts::Kind::kAbsent;
    for (const ValueInfo& i : model.graph.inputs) facts_[i.name] = facts_of_type(i.type, dims, i.name);
    for (const Initializer& i : model.graph.initializers)
      if (!i.sparse) facts_[i.name] = facts_of_tensor(i.tensor, dims);
  }
  const std::map<std::string, Facts>& facts() const { return facts_; }
  std::vector<const Facts*> inputs_of(const Node& node) {
    std::vector<const Facts*> all;
    for (const std::string& name : node.inputs) all.push_back(&facts_[name]);
    return all;
  }
  // The node's canonical form, or the node itself where it has none.
  Canonical canonical(const Node& node) {
    auto c = to_canonical(node, model_.opset(node.domain), inputs_of(node), dims_, node.outputs[0]);
    return c ? *std::move(c) : Canonical{{node}, {}};
  }
  absl::Status run(const Node& original) {
    const Canonical c = canonical(original);
    for (const Initializer& i : c.constants) facts_[i.name] = facts_of_tensor(i.tensor, dims_);
    for (const Node& node : c.nodes)
      if (auto s = run_one(node); !s.ok()) return s;
    return absl::OkStatus();
  }

 private:
  absl::Status run_one(const Node& node) {
    const auto inputs = inputs_of(node);
    std::map<std::pair<int, int>, Dim> made;
    InferContext context{dims_, [&](int o, int a) {
                           auto [it, added] = made.try_emplace({o, a});
                           if (added) it->second = dims_.fresh(node.outputs[static_cast<std::size_t>(o)]);
                           return it->second;
                         }};
    auto out = infer(node, inputs, static_cast<int>(node.outputs.size()), context);
    if (!out.ok()) return out.status();
    fold(node, inputs, *out);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (!node.outputs[o].empty()) facts_[node.outputs[o]] = (*out)[o];
    return absl::OkStatus();
  }
  // Small constants, as the e-graph folds them.
  void fold(const Node& node, const std::vector<const Facts*>& inputs, std::vector<Facts>& out) {
    if (out.empty() || !out[0].constant || out[0].value) return;
    std::vector<Value> values;
    for (const Facts* f : inputs) {
      if (f->kind != Facts::Kind::kAbsent && !f->value) return;
      values.push_back(f->value && f->value->size() < 4096 ? Value(*f->value) : Value());
      if (f->value && f->value->size() >= 4096) return;
    }
    auto result = evaluator_->evaluate(node, node.domain.empty() ? kNewestOpset : 1, values);
    if (!result.ok()) return;
    for (std::size_t o = 0; o < out.size() && o < result->size(); ++o) {
      if (!(*result)[o].is_tensor()) continue;
      bool changed = false;
      std::string why;
      if (!join_facts(out[o], facts_of_tensor((*result)[o].tensor(), dims_), dims_, changed, why))
        fmt::print(stderr, "WRONG {} ({}): {}\n", node.outputs[o], node.op_type, why);
    }
  }

  const Model& model_;
  DimTable& dims_;
  std::unique_ptr<Evaluator> evaluator_;
  std::map<std::string, Facts> facts_;
};

nlohmann::json to_json(const Facts& f, const DimTable& dims, const Symbols& symbols) {
  nlohmann::json j{
      {"text", to_string(f, dims)}, {"kind", static_cast<int>(f.kind)}, {"dtype", static_cast<int>(f.dtype)}, {"constant", f.constant}};
  auto list = [&](const std::vector<Dim>& all) {
    auto a = nlohmann::json::array();
    for (Dim d : all) {
      const auto v = dims.evaluate(d, symbols);
      a.push_back(v ? nlohmann::json(*v) : nlohmann::json());
    }
    return a;
  };
  if (f.shape) j["shape"] = list(*f.shape);
  if (f.content) j["content"] = list(*f.content);
  if (f.value && f.value->dtype() == DType::kBool) {
    j["bools"] = nlohmann::json::array();
    for (bool b : f.value->span<bool>()) j["bools"].push_back(b);
  }
  return j;
}

// Sizes of the symbols that the inputs' dims are. A table made beforehand, before anything is unified, tells their names.
Symbols sizes_of_symbols(const Model& model, std::span<char* const> sizes) {
  DimTable dims;
  std::map<std::string, Facts> facts;
  for (const ValueInfo& i : model.graph.inputs) facts[i.name] = facts_of_type(i.type, dims, i.name);
  Symbols symbols;
  for (const char* text : sizes) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    auto it = facts.find(parts[0]);
    if (parts.size() != 2 || it == facts.end() || !it->second.shape) continue;
    const std::vector<std::string> numbers = absl::StrSplit(parts[1], ',', absl::SkipEmpty());
    for (std::size_t a = 0; a < numbers.size() && a < it->second.shape->size(); ++a) {
      std::int64_t n = 0;
      const auto name = dims.symbol_name((*it->second.shape)[a]);
      if (name && absl::SimpleAtoi(numbers[a], &n)) symbols[*name] = n;
    }
  }
  return symbols;
}

int dump(const Model& model, bool egraph, std::span<char* const> sizes) {
  nlohmann::json all = nlohmann::json::object();
  if (egraph) {
    const auto evaluator = make_evaluator({.reference = true});
    OnnxEGraph g(*evaluator);
    auto lowered = lower(model, g);
    if (!lowered.ok()) {
      fmt::print(stderr, "{}\n", lowered.status().ToString());
      return 1;
    }
    if (g.egraph().contradiction()) fmt::print(stderr, "contradiction: {}\n", g.egraph().contradiction()->what);
    std::map<std::string, Facts> facts;
    for (const auto& [name, id] : lowered->values) facts[name] = g.facts(id);
    const Symbols symbols = sizes_of_symbols(model, sizes);
    for (const auto& [name, f] : facts) all[name] = to_json(f, g.dims(), symbols);
  } else {
    DimTable dims;
    Propagation p(model, dims);
    const Symbols symbols = sizes_of_symbols(model, sizes);
    for (const Node& node : model.graph.nodes)
      if (auto s = p.run(node); !s.ok()) {
        fmt::print(stderr, "{} '{}': {}\n", node.op_type, node.outputs[0], s.ToString());
        return 1;
      }
    for (const auto& [name, f] : p.facts()) all[name] = to_json(f, dims, symbols);
  }
  fmt::print("{}\n", all.dump());
  return 0;
}

int convert(Model model, const std::string& path, std::int64_t opset) {
  DimTable dims;
  Propagation p(model, dims);
  std::vector<Node> nodes;
  std::vector<Initializer> constants;
  for (const Node& original : model.graph.nodes) {
    if (auto s = p.run(original); !s.ok()) {
      fmt::print(stderr, "{}\n", s.ToString());
      return 1;
    }
    Canonical c = p.canonical(original);
    for (Initializer& i : c.constants) constants.push_back(std::move(i));
    for (const Node& node : c.nodes) {
      auto written = from_canonical(node, opset, p.inputs_of(node), dims, node.outputs[0] + "_" + node.op_type);
      if (!written.ok()) {
        fmt::print(stderr, "{}\n", written.status().ToString());
        return 3;
      }
      for (Initializer& i : written->constants) constants.push_back(std::move(i));
      for (Node& n : written->nodes) nodes.push_back(std::move(n));
    }
  }
  model.graph.nodes = std::move(nodes);
  for (Initializer& i : constants) model.graph.initializers.push_back(std::move(i));
  model.opset_imports[""] = opset;
  model.ir_version = std::max<std::int64_t>(model.ir_version, ir_version_for_opset(opset));
  const auto s = save_model(model, path);
  if (!s.ok()) fmt::print(stderr, "{}\n", s.ToString());
  return s.ok() ? 0 : 1;
}

int run(std::span<char* const> arguments) {
  if (arguments.size() < 2) return 2;
  auto model = load_model(arguments[1]);
  if (!model.ok()) {
    fmt::print(stderr, "{}\n", model.status().ToString());
    return 1;
  }
  if (std::string_view(arguments[0]) == "convert" && arguments.size() == 4)
    return convert(*std::move(model), arguments[2], std::stoll(arguments[3]));
  const bool egraph = arguments.size() > 2 && std::string_view(arguments[2]) == "--egraph";
  return dump(*model, egraph, arguments.subspan(egraph ? 3 : 2));
}

}  // namespace
}  // namespace saturate

int main(int count, char** arguments) { return saturate::run({arguments + 1, static_cast<std::size_t>(count - 1)}); }
