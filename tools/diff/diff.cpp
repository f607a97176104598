#include "tools/diff/diff.h"

#include <algorithm>
#include <map>
#include <set>

#include "extract/optimize/prediction.h"
#include "extract/optimize/provenance.h"
#include "extract/optimize/stages.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/node_text.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/subgraphs.h"
#include "tools/diff/evidence.h"
#include "tools/diff/interface.h"
#include "tools/diff/labels.h"
#include "tools/diff/matching.h"
#include "tools/diff/regions.h"
#include "tools/io/dims.h"

namespace saturate {
namespace {

constexpr int kMaxDepth = 16;

std::string declared_type(const ValueType& type) {
  std::vector<std::string> dims;
  if (type.shape)
    for (const DimSpec& d : *type.shape) dims.push_back(dim_text(d));
  const std::string shape = type.shape ? fmt::format("[{}]", fmt::join(dims, ",")) : "";
  switch (type.kind) {
    case ValueType::Kind::kTensor:
      return dtype_name(type.dtype) + shape;
    case ValueType::Kind::kSparseTensor:
      return "sparse " + std::string(dtype_name(type.dtype)) + shape;
    case ValueType::Kind::kSequence:
      return "sequence of " + (type.element ? declared_type(*type.element) : "?");
    case ValueType::Kind::kOptional:
      return "optional " + (type.element ? declared_type(*type.element) : "?");
    case ValueType::Kind::kMap:
      return fmt::format("map {} to {}", dtype_name(type.dtype), type.element ? declared_type(*type.element) : "?");
    default:
      return "unknown";
  }
}

void compare_infos(const char* what, const std::vector<const ValueInfo*>& first, const std::vector<const ValueInfo*>& second,
                   std::vector<std::string>& lines) {
  const auto pairs = partners(first, second);
  std::map<std::string, std::vector<const ValueInfo*>> by_name;  // a value may be an output twice, with a type for each
  for (const ValueInfo* b : second) by_name[b->name].push_back(b);
  std::map<std::string, std::size_t> times;
  std::set<std::string> met;
  for (const ValueInfo* a : first) {
    const auto pair = pairs.find(a->name);
    if (pair == pairs.end()) {
      lines.push_back(fmt::format("{} '{}' is gone", what, a->name));
      continue;
    }
    met.insert(pair->second);
    if (pair->second != a->name) lines.push_back(fmt::format("{} '{}' is named '{}'", what, a->name, pair->second));
    const auto& named = by_name.at(pair->second);
    const std::string x = declared_type(a->type), y = declared_type(named[std::min(times[pair->second]++, named.size() - 1)]->type);
    if (x != y) lines.push_back(fmt::format("{} '{}' {} -> {}", what, a->name, x, y));
  }
  for (const ValueInfo* b : second)
    if (!met.contains(b->name)) lines.push_back(fmt::format("{} '{}' is new", what, b->name));
  std::vector<std::string> places, order;
  for (const ValueInfo* a : first)
    if (const auto pair = pairs.find(a->name); pair != pairs.end()) places.push_back(pair->second);
  for (const ValueInfo* b : second)
    if (met.contains(b->name)) order.push_back(b->name);
  if (places != order) lines.push_back(fmt::format("{}s stand in another order", what));
}

std::string import_name(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

void compare_imports(const Model& first, const Model& second, std::vector<std::string>& lines) {
  std::set<std::string> domains;
  for (const Model* m : {&first, &second})
    for (const auto& [domain, version] : m->opset_imports) domains.insert(domain);
  const auto version = [](const Model& m, const std::string& domain) {
    const auto it = m.opset_imports.find(domain);
    return it == m.opset_imports.end() ? std::string("none") : fmt::format("{}", it->second);
  };
  for (const std::string& d : domains)
    if (version(first, d) != version(second, d))
      lines.push_back(fmt::format("{} {} -> {}", import_name(d), version(first, d), version(second, d)));
  if (first.ir_version != second.ir_version) lines.push_back(fmt::format("IR version {} -> {}", first.ir_version, second.ir_version));
}

void compare_functions(const Model& first, const Model& second, std::vector<std::string>& lines) {
  const auto texts = [](const Model& m) {
    std::map<std::string, std::string> out;
    for (const Function& f : m.functions)
      out[qualified_name(f.domain, f.name) + (f.overload.empty() ? "" : ":" + f.overload)] = function_text(f);
    return out;
  };
  const auto a = texts(first), b = texts(second);
  for (const auto& [name, text] : a)
    if (const auto it = b.find(name); it == b.end() || it->second != text)
      lines.push_back(fmt::format("{} {}", name, it == b.end() ? "is gone" : "is another"));
  for (const auto& [name, text] : b)
    if (!a.contains(name)) lines.push_back(fmt::format("{} is new", name));
}

// ---- weights

// What a graph holds as constants: initializers and Constant nodes.
std::map<std::string, Tensor> weights_of(const Graph& graph) {
  std::map<std::string, Tensor> out;
  for (const Initializer& i : graph.initializers)
    if (!i.sparse) out[i.name] = i.tensor;
  for (const Node& node : graph.nodes) {
    const Attribute* value = node.domain.empty() && node.op_type == "Constant" ? find_attribute(node.attributes, "value") : nullptr;
    if (value && value->type == AttributeType::kTensor && value->ref.empty()) out[node.outputs[0]] = value->t();
  }
  return out;
}

DiffWeights compare_weights(const Model& first, const Model& second) {
  DiffWeights out;
  const auto a = weights_of(first.graph), b = weights_of(second.graph);
  std::set<std::string> contents[2];
  std::map<std::string, std::string> texts[2];
  const std::map<std::string, Tensor>* sides[2] = {&a, &b};
  for (int side : {0, 1})
    for (const auto& [name, tensor] : *sides[side]) contents[side].insert(texts[side][name] = tensor_text(tensor));
  for (const auto& [name, tensor] : a) {
    if (contents[1].contains(texts[0][name])) {
      ++out.equal;
      continue;
    }
    const auto other = b.find(name);
    const bool like = other != b.end() && other->second.dtype() == tensor.dtype() && other->second.dims() == tensor.dims();
    (like ? out.changed : out.removed).push_back(name);
    if (!like) out.removed_bytes += tensor.bytes().size();
  }
  for (const auto& [name, tensor] : b) {
    if (contents[0].contains(texts[1][name]) || std::find(out.changed.begin(), out.changed.end(), name) != out.changed.end()) continue;
    out.added.push_back(name);
    out.added_bytes += tensor.bytes().size();
  }
  return out;
}

// The second model with the first one's weights where both have one of a name, type and size.
Model with_weights(const Model& second, const Model& first, const std::vector<std::string>& changed) {
  Model out = second;
  const auto from = weights_of(first.graph);
  const std::set<std::string> names(changed.begin(), changed.end());
  for (Initializer& i : out.graph.initializers)
    if (names.contains(i.name)) i = {i.name, from.at(i.name), nullptr, false};
  for (Node& node : out.graph.nodes)
    if (node.op_type == "Constant" && names.contains(node.outputs[0])) node.attributes = {Attribute::of("value", from.at(node.outputs[0]))};
  return out;
}

// ---- graphs

class Differ {
 public:
  Differ(const DiffOptions& options, ModelDiff& out) : options_(options), out_(out), evaluator_(make_evaluator()) {
    for (const Provenance& p : options.made)
      for (const std::string& value : p.values) made_[p.where][value] = &p;
  }

  absl::Status look(const Model& model) {
    auto graph = lowered_graph(model, *evaluator_, nullptr);
    if (!graph.ok()) return graph.status();
    out_.nodes[0] = model.graph.nodes.size();
    out_.graphs.emplace_back().nodes[0] = known_nodes(*graph, node_prices(*graph));
    return absl::OkStatus();
  }

  absl::Status run(const Model& first, const Model& second, const Evidence& evidence) {
    const auto inputs = partners(given_inputs(first), given_inputs(second));
    return compare(first, second, nullptr, "", 0, inputs, &evidence);
  }

 private:
  struct Around {
    const LoweredGraph *first, *second;
    const Matching* matching;
    std::size_t graph, nodes[2];  // of ModelDiff::graphs, and which nodes of it
    std::string attribute;
  };

  // `evidence`: null in bodies, of which nothing is known but their structure.
  absl::Status compare(const Model& first, const Model& second, const Around* around, const std::string& where, int depth,
                       const std::map<std::string, std::string>& inputs, const Evidence* evidence) {
    auto a = lowered_graph(first, *evaluator_, around ? around->first : nullptr);
    if (!a.ok()) return a.status();
    auto b = lowered_graph(second, *evaluator_, around ? around->second : nullptr);
    if (!b.ok()) return b.status();
    Matching matching(*a, *b, inputs);
    matching.match(evidence ? *evidence : Evidence());
    const NodeRegions found = node_regions(*a, *b, matching);
    const LoweredGraph* sides[2] = {&*a, &*b};
    std::vector<double> prices[2];
    for (int side : {0, 1}) {
      prices[side] = node_prices(*sides[side]);
      out_.nodes[side] += sides[side]->model->graph.nodes.size();
    }
    for (int side : {0, 1}) out_.equal_nodes[side] += found.equal.size() + found.constants[side];
    compare_types(*a, *b, matching);
    const std::size_t graph = out_.graphs.size();
    out_.graphs.push_back({where,
                           around ? around->graph : 0,
                           {around ? around->nodes[0] : 0, around ? around->nodes[1] : 0},
                           around ? around->attribute : "",
                           {}});
    if (options_.knows_nodes)
      for (int side : {0, 1}) out_.graphs.back().nodes[side] = known_nodes(*sides[side], prices[side]);
    if (options_.knows_nodes) tell_origins(second.graph, where, out_.graphs.back().nodes[1]);
    std::vector<NodeRegions::Region> regions = found.regions;
    for (const auto& [i, j] : bodies_apart(*a, *b, matching, regions))
      if (absl::Status s = compare_bodies(*a, *b, matching, i, j, graph, depth); !s.ok()) return s;
    for (const NodeRegions::Region& region : regions)
      if (!region.nodes[0].empty() || !region.nodes[1].empty()) add(region, sides, matching, prices, graph);
    return absl::OkStatus();
  }

  // At the sizes that costs are predicted for.
  std::map<std::string, std::int64_t> sizes_of(const LoweredGraph& graph) const {
    std::map<std::string, std::int64_t> sizes =
        out_.predicted ? numbers_of(out_.predicted->assumed) : std::map<std::string, std::int64_t>();
    sizes.merge(numbers_of(sizes_of_table(*graph.model)));
    return sizes;
  }

  std::vector<DiffGraph::Known> known_nodes(const LoweredGraph& graph, const std::vector<double>& prices) const {
    std::map<std::string, std::int64_t> sizes = sizes_of(graph);
    if (!options_.points.empty())
      for (const auto& [symbol, size] : options_.points[0].symbols) sizes[symbol] = size;
    for (const auto& [symbol, size] : options_.run.sizes) sizes[symbol] = size;
    const OnnxEGraph& g = *graph.g;
    std::vector<DiffGraph::Known> out(graph.lowered.sources.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].cost = prices[i];
      for (const Id id : graph.lowered.sources[i].outputs) {
        if (id == kNone) continue;
        Facts facts = g.facts(g.egraph().find(id));
        facts.content.reset();
        facts.counts_from.reset();
        if (out[i].type.empty()) out[i].type = to_string(facts, g.dims());
        out[i].bytes += bytes_of(facts, g.dims(), sizes);
      }
    }
    return out;
  }

  // 0 where a size is not known.
  static double bytes_of(const Facts& facts, const DimTable& dims, const std::map<std::string, std::int64_t>& sizes) {
    if (facts.kind != Facts::Kind::kTensor || !facts.shape || facts.constant) return 0;
    double bytes = static_cast<double>(bit_width(facts.dtype)) / 8;
    for (const Dim d : *facts.shape) {
      const std::optional<std::int64_t> size = dims.evaluate(d, sizes);
      if (!size || *size < 0) return 0;
      bytes *= static_cast<double>(*size);
    }
    return bytes;
  }

  std::vector<double> node_prices(const LoweredGraph& graph) const {
    std::vector<double> out(graph.lowered.sources.size());
    if (!options_.setup) return out;
    const OnnxEGraph& g = *graph.g;
    const CostModel& given = *options_.setup->cost;
    const std::unique_ptr<CostModel> ready = given.for_graph(g, sizes_of(graph));
    const CostModel& cost = ready ? *ready : given;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Source& s = graph.lowered.sources[i];
      if (s.op == kNone) continue;
      std::vector<Id> children;
      for (const Id child : s.children) children.push_back(g.egraph().find(child));
      const Id made = g.egraph().lookup(s.op, children);
      if (made == kNone || g.facts(g.egraph().find(made)).constant) continue;
      out[i] = cost.cost(g, ENode{s.op, children}, g.egraph().find(made));
    }
    return out;
  }

  void compare_types(const LoweredGraph& a, const LoweredGraph& b, const Matching& matching) {
    std::map<std::string, const ValueType*> declared;
    for (const ValueInfo& info : b.model->graph.value_info) declared[info.name] = &info.type;
    for (const ValueInfo& info : a.model->graph.value_info) {
      const auto other = declared.find(info.name);
      const auto x = matching.of(0, info.name), y = matching.of(1, info.name);
      if (other == declared.end() || !x || !y || *x != *y) continue;
      const std::string before = declared_type(info.type), after = declared_type(*other->second);
      if (before != after) out_.types.push_back(fmt::format("'{}' {} -> {}", info.name, before, after));
    }
  }

  // Of a region that has one If, Loop or Scan on each side, with the same inputs and outputs, what differs lies in the bodies: the two
  // leave the region, and the bodies are compared.
  static std::vector<std::pair<std::size_t, std::size_t>> bodies_apart(const LoweredGraph& a, const LoweredGraph& b,
                                                                       const Matching& matching,
                                                                       std::vector<NodeRegions::Region>& regions) {
    std::vector<std::pair<std::size_t, std::size_t>> out;
    const auto names = [](const Node& node) {
      std::vector<std::string> bodies;
      for (const Attribute& attribute : node.attributes)
        if (attribute.type == AttributeType::kGraph) bodies.push_back(attribute.name);
      std::sort(bodies.begin(), bodies.end());
      return bodies;
    };
    for (NodeRegions::Region& region : regions) {
      if (region.nodes[0].size() != 1 || region.nodes[1].size() != 1) continue;
      const std::size_t i = region.nodes[0][0], j = region.nodes[1][0];
      const Node &x = a.model->graph.nodes[i], &y = b.model->graph.nodes[j];
      if (x.op_type != y.op_type || x.domain != y.domain || names(x).empty() || names(x) != names(y) ||
          x.inputs.size() != y.inputs.size() || x.outputs.size() != y.outputs.size())
        continue;
      bool same = true;
      for (std::size_t k = 0; k < x.inputs.size(); ++k) same = same && matching.of(0, x.inputs[k]) == matching.of(1, y.inputs[k]);
      if (!same) continue;
      out.emplace_back(i, j);
      region.nodes[0].clear();
      region.nodes[1].clear();
    }
    return out;
  }

  absl::Status compare_bodies(const LoweredGraph& a, const LoweredGraph& b, const Matching& matching, std::size_t i, std::size_t j,
                              std::size_t graph, int depth) {
    const std::string where = out_.graphs[graph].where;
    const Node &x = a.model->graph.nodes[i], &y = b.model->graph.nodes[j];
    for (std::size_t& equal : out_.equal_nodes) ++equal;
    if (depth >= kMaxDepth) return absl::OkStatus();
    for (const Attribute& attribute : x.attributes) {
      const Attribute* other = find_attribute(y.attributes, attribute.name);
      if (attribute.type != AttributeType::kGraph || !other || other->type != AttributeType::kGraph) continue;
      const Model first = model_of_body(*a.model, attribute.g()), second = model_of_body(*b.model, other->g());
      const Around around{&a, &b, &matching, graph, {i, j}, attribute.name};
      const std::string inner =
          fmt::format("{} of '{}'{}", attribute.name, x.name.empty() ? first_output(x) : x.name, where.empty() ? "" : " in " + where);
      if (absl::Status s = compare(first, second, &around, inner, depth + 1, inner_names(first.graph, second.graph, around), nullptr);
          !s.ok())
        return s;
    }
    return absl::OkStatus();
  }

  // Inputs of bodies by their places, and what bodies take from outside by what is the same there.
  static std::map<std::string, std::string> inner_names(const Graph& first, const Graph& second, const Around& around) {
    std::map<std::string, std::string> out;
    for (std::size_t i = 0; i < std::min(first.inputs.size(), second.inputs.size()); ++i) out[first.inputs[i].name] = second.inputs[i].name;
    std::map<Matching::Class, std::string> outside;
    for (const std::string& name : captured_names(second))
      if (const auto c = around.matching->of(1, name)) outside[*c] = name;
    for (const std::string& name : captured_names(first))
      if (const auto c = around.matching->of(0, name); c && outside.contains(*c)) out[name] = outside[*c];
    return out;
  }

  void add(const NodeRegions::Region& found, const LoweredGraph* const (&sides)[2], const Matching& matching,
           const std::vector<double> (&prices)[2], std::size_t graph) {
    DiffRegion region;
    region.graph = graph;
    const std::string& where = region.where = out_.graphs[graph].where;
    region.outputs = found.outputs;
    region.shared = found.shared;
    region.unproven = found.unproven;
    region.shape = found.shape;
    for (int side : {0, 1})
      for (const std::size_t i : found.nodes[side]) {
        const Node& node = sides[side]->model->graph.nodes[i];
        region.nodes[side].push_back(i);
        (side == 0 ? region.before : region.after)
            .push_back({qualified_name(node.domain, node.op_type), node.name, first_output(node), short_attributes(node), prices[side][i]});
        for (const std::string& output : node.outputs)
          if (const auto c = output.empty() ? std::nullopt : matching.of(side, output); c && !matching.common(*c))
            region.inside[side].push_back(output);
        if (side == 1) add_rules(node, where, region.why);
      }
    region.scope = scope_of(*sides[0], found.nodes[0], *sides[1], found.nodes[1]);
    out_.regions.push_back(std::move(region));
  }

  const Provenance* provenance_of(const Node& node, const std::string& where) const {
    const auto graph = made_.find(where);
    if (graph == made_.end()) return nullptr;
    const auto it = graph->second.find(first_output(node));
    return it == graph->second.end() ? nullptr : it->second;
  }

  std::vector<std::string> rules_of(const Node& node, const std::string& where) const {
    if (const Provenance* made = provenance_of(node, where)) return made->rules;
    if (!made_.empty()) return {};
    const Metadata metadata = metadata_of(node);
    const auto it = metadata.find(std::string(kRulesKey));
    return it == metadata.end() ? std::vector<std::string>() : split_names(it->second);
  }

  void add_rules(const Node& node, const std::string& where, std::vector<std::string>& why) const {
    for (std::string& rule : rules_of(node, where))
      if (std::find(why.begin(), why.end(), rule) == why.end()) why.push_back(std::move(rule));
  }

  void tell_origins(const Graph& graph, const std::string& where, std::vector<DiffGraph::Known>& nodes) const {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].rules = rules_of(graph.nodes[i], where);
      if (const Provenance* made = provenance_of(graph.nodes[i], where))
        for (const auto& gone : made->replaces) nodes[i].replaces.push_back(gone->output);
    }
  }

  static std::string scope_of(const LoweredGraph& a, const std::vector<std::size_t>& before, const LoweredGraph& b,
                              const std::vector<std::size_t>& after) {
    std::vector<std::string> scopes;
    for (const std::size_t i : before) scopes.push_back(scope_of_node(a.model->graph.nodes[i]));
    if (before.empty())
      for (const std::size_t i : after) scopes.push_back(scope_of_node(b.model->graph.nodes[i]));
    return common_scope(scopes);
  }

  const DiffOptions& options_;
  ModelDiff& out_;
  std::unique_ptr<Evaluator> evaluator_;
  std::map<std::string, std::map<std::string, const Provenance*>> made_;  // by graph and value
};

// ---- groups

void group(ModelDiff& diff) {
  std::map<std::pair<std::string, std::string>, std::size_t> place;
  for (std::size_t r = 0; r < diff.regions.size(); ++r) {
    const DiffRegion& region = diff.regions[r];
    const auto [it, added] = place.try_emplace({region.where, region.shape}, diff.groups.size());
    if (added) diff.groups.emplace_back();
    diff.groups[it->second].regions.push_back(r);
  }
  for (DiffGroup& g : diff.groups) {
    std::vector<std::string> names;
    for (const std::size_t r : g.regions) {
      const DiffRegion& region = diff.regions[r];
      const std::string value = !region.outputs.empty()  ? region.outputs[0]
                                : !region.before.empty() ? region.before[0].output
                                                         : region.after[0].output;
      const bool tells = region.scope.find_first_of("./") != std::string::npos;  // "model" alone does not
      names.push_back(tells ? region.scope : value);
    }
    g.label = folded_names(names);
  }
  const auto size = [&](const DiffGroup& g) {
    std::size_t nodes = 0;
    for (const std::size_t r : g.regions) nodes += diff.regions[r].before.size() + diff.regions[r].after.size();
    return nodes;
  };
  std::stable_sort(diff.groups.begin(), diff.groups.end(), [&](const DiffGroup& a, const DiffGroup& b) { return size(a) > size(b); });
}

// Both at the sizes of the first.
std::optional<Prediction> predict(const Model& first, const Model& second, const DiffOptions& options) {
  const Setup& setup = *options.setup;
  Prediction out;
  out.cost_model = setup.cost->name(), out.unit = setup.cost->unit(), out.target = setup.target.name;
  out.given = options.points;
  std::map<std::string, std::int64_t> given(options.run.sizes.begin(), options.run.sizes.end());
  if (!options.points.empty()) given.insert(options.points[0].symbols.begin(), options.points[0].symbols.end());
  out.assumed = assumed_sizes(first, given);
  for (const auto& [symbol, size] : assumed_sizes(second, given)) out.assumed.try_emplace(symbol, size);
  AssumedSizes all = out.assumed;
  for (const auto& [symbol, size] : options.run.sizes) all[symbol] = {size, ""};
  const auto before = predicted_price(first, setup.rules, setup.target, *setup.cost, all);
  const auto after = predicted_price(second, setup.rules, setup.target, *setup.cost, all);
  if (!before.ok() || !after.ok()) return std::nullopt;
  out.before = before->price.cost, out.after = after->price.cost;
  const double error = setup.cost->relative_error();
  if (error > 0 && setup.target.fuses_at_load && prices_fusions(*setup.cost)) out.ratio = ratio_range(*before, *after, error);
  return out;
}

}  // namespace

bool ModelDiff::equal() const {
  return regions.empty() && interface.empty() && imports.empty() && functions.empty() && types.empty() && weights.changed.empty() &&
         weights.removed.empty() && weights.added.empty();
}

absl::StatusOr<ModelDiff> known_of(const Model& model, const DiffOptions& options) {
  ModelDiff out;
  if (options.setup) out.predicted = predict(model, model, options);
  if (absl::Status s = Differ(options, out).look(model); !s.ok()) return s;
  return out;
}

absl::StatusOr<ModelDiff> diff_models(const Model& first, const Model& second, const DiffOptions& options) {
  ModelDiff out;
  if (options.setup) out.predicted = predict(first, second, options);
  compare_infos("input", given_inputs(first), given_inputs(second), out.interface);
  compare_infos("output", outputs_of(first), outputs_of(second), out.interface);
  compare_imports(first, second, out.imports);
  compare_functions(first, second, out.functions);
  out.weights = compare_weights(first, second);
  const auto inputs = partners(given_inputs(first), given_inputs(second));
  Evidence evidence = Evidence::collect(first, second, inputs, options.run);
  // Of models that compute something else because of their weights alone, the rest is compared with equal weights.
  const Model* other = &second;
  Model alike;
  if (!out.weights.changed.empty() && evidence.ran()) {
    const auto outputs = partners(outputs_of(first), outputs_of(second));
    const bool differ =
        std::any_of(outputs.begin(), outputs.end(), [&](const auto& o) { return evidence.same(o.first, o.second) == false; });
    if (differ) {
      alike = with_weights(second, first, out.weights.changed);
      Evidence again = Evidence::collect(first, alike, inputs, options.run);
      const bool equal = again.ran() && std::none_of(outputs.begin(), outputs.end(),
                                                     [&](const auto& o) { return again.same(o.first, o.second) == false; });
      if (equal) evidence = std::move(again), other = &alike;
    }
  }
  out.proven = evidence.ran();
  out.runtime = options.run.runtime.name;
  out.why_not_proven = evidence.ran() ? "" : evidence.why_not();
  Differ differ(options, out);
  if (absl::Status s = differ.run(first, *other, evidence); !s.ok()) return s;
  group(out);
  return out;
}

}  // namespace saturate
