#include "onnx_bridge/convert/emit.h"

#include <algorithm>
#include <climits>
#include <queue>
#include <set>
#include <unordered_set>

#include "fmt/format.h"
#include "onnx_bridge/convert/zero_dims.h"
#include "onnx_bridge/model/constant_inputs.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/model/uncalled_functions.h"
#include "onnx_bridge/operators/canonical.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.name != b.name || a.value.index() != b.value.index()) return false;
  switch (a.type) {
    case AttributeType::kFloat:
      return a.f() == b.f();
    case AttributeType::kInt:
      return a.i() == b.i();
    case AttributeType::kString:
      return a.s() == b.s();
    case AttributeType::kInts:
      return a.ints() == b.ints();
    case AttributeType::kFloats:
      return a.floats() == b.floats();
    case AttributeType::kStrings:
      return a.strings() == b.strings();
    case AttributeType::kTensor:
      return identical(a.t(), b.t());
    default:
      return false;
  }
}

class ModelEmitter {
 public:
  ModelEmitter(const OnnxEGraph& g, const Lowered& lowered, const Selection& selection, const EmitModelOptions& options)
      : g_(g), e_(g.egraph()), lowered_(lowered), model_(*lowered.model), selection_(selection), options_(options) {}

  absl::StatusOr<Model> run() {
    collect_names(model_.graph, used_names_);
    for (const ValueInfo& o : model_.graph.outputs) output_names_.insert(o.name);
    collect_units();
    if (auto s = choose_opset(); !s.ok()) return s;
    take_dropped_inputs();
    name_classes();
    Model out = model_;
    out.graph.nodes.clear();
    out.graph.initializers.clear();
    if (auto s = write_constants(out.graph); !s.ok()) return s;
    for (std::size_t u : order_units())
      if (auto s = write_unit(units_[u], out.graph); !s.ok()) return s;
    write_output_copies(out.graph);
    drop_unread(out.graph);
    if (opset_ > model_.opset("")) out.ir_version = std::max<std::int64_t>(out.ir_version, ir_version_for_opset(opset_));
    settle_constant_inputs(out, model_);
    made_nodes_ = std::any_of(units_.begin(), units_.end(), [](const Unit& unit) { return !unit.source; });
    keep_value_info(out.graph);
    describe_values(out.graph);
    out.opset_imports[""] = opset_;
    for (const std::string& domain : new_domains_) out.opset_imports.try_emplace(domain, 1);
    out.opset_imports.insert(options_.body_imports.begin(), options_.body_imports.end());
    return without_uncalled_functions(std::move(out), model_);
  }

 private:
  struct Unit {
    Id id = kNone;  // class of the e-node (the tuple's, for several outputs)
    NodeId node = kNone;
    const Source* source = nullptr;
    std::size_t position = 0;  // where it would like to stand
    std::vector<Id> children;
    std::map<int, Id> outputs;  // selected values by output index
    bool canonical = false;     // can't be written as its source
  };

  const Choice& choice(Id id) const {
    const auto it = dropped_.find(e_.find(id));
    return it != dropped_.end() ? it->second : selection_.by_class[e_.find(id)];
  }

  const Source* source_of(const ENode& node, std::size_t* index) const {
    auto it = lowered_.by_op.find(node.op);
    if (it == lowered_.by_op.end()) return nullptr;
    const auto wanted = node_signature(e_, node.op, node.children);
    const Source* found = nullptr;
    for (std::size_t s : it->second) {
      if (node_signature(e_, node.op, lowered_.sources[s].children) != wanted) continue;
      const auto& outputs = lowered_.sources[s].node->outputs;
      const bool makes_output = std::any_of(outputs.begin(), outputs.end(), [this](const std::string& o) { return is_output(o); });
      if (found && !makes_output) continue;  // of duplicates, the one whose name must stay
      *index = s;
      found = &lowered_.sources[s];
      if (makes_output) break;
    }
    return found;
  }

  // Walks the selection from the roots; leaves become constants or inputs, the rest units, children before parents.
  void collect_units() {
    std::vector<std::pair<Id, std::size_t>> stack;
    std::unordered_set<Id> done;
    for (Id r : lowered_.roots) stack.emplace_back(e_.find(r), 0);
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      const Choice& c = choice(id);
      const auto children = c.folded ? std::span<const Id>() : e_.node(c.node).children;
      if (done.contains(id)) {
        stack.pop_back();
        continue;
      }
      if (next < children.size()) {
        stack.emplace_back(e_.find(children[next++]), 0);
        continue;
      }
      done.insert(id);
      add_class(id, c);
      stack.pop_back();
    }
  }

  void add_class(Id id, const Choice& c) {
    classes_.push_back(id);
    if (c.folded) {
      constants_.push_back(id);
      return;
    }
    const ENode node = e_.node(c.node);
    const OpKey& key = g_.key(node.op);
    if (key.op_type == kConstantOp) constants_.push_back(id);
    if (key.op_type == kProjOp) {
      Unit& unit = units_[unit_of_.at(e_.find(node.children[0]))];
      unit.outputs[static_cast<int>(key.attributes[0].i())] = id;
    }
    if (key.domain == "#") return;
    Unit unit{id, c.node, nullptr, 0, {}, {}, false};
    for (Id child : node.children) {
      unit.children.push_back(e_.find(child));
      if (auto it = unit_of_.find(producer(e_.find(child))); it != unit_of_.end())
        unit.position = std::max(unit.position, units_[it->second].position);
    }
    std::size_t index = 0;
    unit.source = source_of(node, &index);
    if (unit.source) unit.position = std::max(unit.position, index);
    if (key.outputs == 1) unit.outputs[0] = id;
    unit_of_[id] = units_.size();
    units_.push_back(std::move(unit));
  }

  // The class whose unit computes a value: the tuple's for projections.
  Id producer(Id id) const {
    const Choice& c = choice(id);
    if (c.folded) return id;
    const ENode node = e_.node(c.node);
    return g_.key(node.op).op_type == kProjOp ? e_.find(node.children[0]) : id;
  }

  Node canonical_node(const Unit& unit) const {
    const ENode node = e_.node(unit.node);
    const OpKey& key = g_.key(node.op);
    Node out;
    out.op_type = key.op_type;
    out.domain = key.domain;
    out.overload = key.overload;
    out.attributes = key.attributes;
    for (std::size_t i = 0; i < node.children.size(); ++i) out.inputs.push_back(is_absent(node.children[i]) ? "" : fmt::format("i{}", i));
    for (int i = 0; i < key.outputs; ++i) out.outputs.push_back(fmt::format("o{}", i));
    return out;
  }

  bool is_absent(Id id) const { return g_.facts(id).kind == Facts::Kind::kAbsent; }

  std::vector<const Facts*> input_facts(const Unit& unit) const {
    std::vector<const Facts*> facts;
    for (Id c : e_.node(unit.node).children) facts.push_back(&g_.facts(c));
    return facts;
  }

  absl::Status choose_opset() {
    const std::int64_t given = model_.opset("");
    opset_ = options_.opset.value_or(given);
    if (options_.opset) return absl::OkStatus();
    for (const Unit& unit : units_) {
      const OpKey& key = g_.key(e_.node(unit.node).op);
      if (unit.source || !key.domain.empty()) continue;
      const auto lowest = lowest_opset(canonical_node(unit), input_facts(unit));
      if (!lowest) return absl::InternalError(fmt::format("no opset expresses the selected {}", key.op_type));
      opset_ = std::max(opset_, *lowest);
      if (options_.max_opset >= 14 && wants_zeros(unit)) opset_ = std::max<std::int64_t>(opset_, 14);
    }
    if (opset_ <= std::max(given, options_.max_opset)) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format("the result needs opset {}, more than {} allows", opset_, options_.max_opset));
  }

  // Whether this is a Reshape that rules made and that must not take a size of 0 for a copy.
  bool wants_zeros(const Unit& unit) const {
    const ENode node = e_.node(unit.node);
    return !unit.source && key_name(unit) == "Reshape" && node.children.size() == 2 &&
           may_make_empty(g_, node.children[0], node.children[1], unit.outputs.at(0));
  }

  // Inputs that a message names and its canonical form does not, as the roi of a Resize that takes none: constants are written for it.
  void take_dropped_inputs() {
    std::unordered_set<Id> taken(classes_.begin(), classes_.end());
    for (Unit& unit : units_) {
      if (!unit.source || !keeps_meaning(*unit.source->node)) continue;
      for (std::size_t i = 0; i < unit.source->inputs.size(); ++i) {
        const Id id = e_.find(unit.source->inputs[i]);
        const bool dropped = i >= unit.children.size() || is_absent(unit.children[i]);
        if (is_absent(id) || (taken.contains(id) && !dropped)) continue;
        const auto leaf = constant_leaf(id);
        if (!leaf && !g_.facts(id).value) {  // computed, perhaps after this node
          unit.canonical = true;
        } else if (taken.insert(id).second) {
          dropped_[id] = leaf ? Choice{*leaf, false} : Choice{kNone, true};
          classes_.push_back(id);
          constants_.push_back(id);
        }
      }
    }
  }

  std::optional<NodeId> constant_leaf(Id id) const {
    for (const NodeId n : e_.class_nodes(id))
      if (g_.key(e_.node(n).op).op_type == kConstantOp) return n;
    return std::nullopt;
  }

  // Whether the original message means the same in the result's opset.
  bool keeps_meaning(const Node& node) const {
    if (opset_ == model_.opset("")) return true;
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph && !options_.bodies.contains(&a.g()) &&
          !std::all_of(a.g().nodes.begin(), a.g().nodes.end(), [this](const Node& n) { return keeps_meaning(n); }))
        return false;
    if (!node.domain.empty() || is_control_flow(node)) return true;
    const OpSchema* before = find_schema("", node.op_type, model_.opset(""));
    const OpSchema* after = find_schema("", node.op_type, opset_);
    if (!before || !after || after->deprecated) return before == after;
    return before->since_version == after->since_version || keeps_canonical_form(node);
  }

  // Whether an older opset has the node's types.
  bool takes_types(const Unit& unit) const {
    const OpKey& key = g_.key(e_.node(unit.node).op);
    if (opset_ >= model_.opset("") || !key.domain.empty() || key.version != 0 || is_control_flow(*unit.source->node)) return true;
    return from_canonical(canonical_node(unit), opset_, input_facts(unit), g_.dims(), "c").ok();
  }

  // Later versions of these only take more types.
  bool is_control_flow(const Node& node) const {
    return has(Trait::kControlFlow, node) && (node.op_type != "Scan" || model_.opset("") >= 9);
  }

  bool keeps_canonical_form(const Node& node) const {
    std::vector<Facts> unknown(node.inputs.size());
    std::vector<const Facts*> facts;
    for (const Facts& f : unknown) facts.push_back(&f);
    const auto a = to_canonical(node, model_.opset(""), facts, g_.dims(), "c");
    const auto b = to_canonical(node, opset_, facts, g_.dims(), "c");
    if (!a || !b || a->nodes.size() != 1 || b->nodes.size() != 1 || !a->constants.empty() || !b->constants.empty()) return false;
    return a->nodes[0].op_type == b->nodes[0].op_type && a->nodes[0].inputs == b->nodes[0].inputs &&
           std::ranges::equal(a->nodes[0].attributes, b->nodes[0].attributes, same_attribute);
  }

  void claim(Id id, const std::string& name) {
    if (!name_.contains(id) && claimed_.insert(name).second) name_[id] = name;
  }

  // Graph outputs first, then the names that the nodes of the model gave, then other names of the class, then fresh ones.
  void name_classes() {
    for (const auto& [id, names] : lowered_.names) {
      auto& all = names_of_[e_.find(id)];
      all.insert(all.end(), names.begin(), names.end());
    }
    for (Id id : classes_) {
      const Choice& c = choice(id);
      if (c.folded) continue;
      const ENode node = e_.node(c.node);
      const OpKey& key = g_.key(node.op);
      if (key.op_type == kInputOp) claim(id, key.attributes[0].s());
      if (key.op_type != kConstantOp) continue;
      if (auto it = lowered_.initializers.find(node.op); it != lowered_.initializers.end())
        claim(id, it->second->name);
      else if (auto n = lowered_.constant_nodes.find(node.op); n != lowered_.constant_nodes.end() && !is_output(n->second->outputs[0]))
        claim(id, n->second->outputs[0]);
      else if (auto c = lowered_.captured_constants.find(node.op); c != lowered_.captured_constants.end())
        claim(id, c->second);
    }
    for (std::size_t i = 0; i < lowered_.roots.size(); ++i) claim(e_.find(lowered_.roots[i]), model_.graph.outputs[i].name);
    for (const ValueInfo& o : model_.graph.outputs) claimed_.insert(o.name);
    for (const Unit& unit : units_)
      if (unit.source)
        for (const auto& [o, id] : unit.outputs)
          if (o < static_cast<int>(unit.source->node->outputs.size()) && !unit.source->node->outputs[o].empty())
            claim(id, unit.source->node->outputs[o]);
    for (Id id : classes_)
      if (auto it = names_of_.find(id); it != names_of_.end())
        for (const std::string& name : it->second) claim(id, name);
    for (Id id : classes_)
      if (!name_.contains(id)) name_[id] = fresh_name(label(id));
  }

  bool is_output(const std::string& name) const { return output_names_.contains(name); }

  std::string label(Id id) const {
    const Choice& c = choice(id);
    if (c.folded) return "constant";
    const OpKey& key = g_.key(e_.node(c.node).op);
    if (key.op_type == kProjOp) return g_.key(e_.node(choice(e_.node(c.node).children[0]).node).op).op_type + "_out";
    return key.domain == "#" ? "constant" : key.op_type;
  }

  std::string fresh_name(const std::string& base) {
    for (;;) {
      std::string name = fmt::format("{}_{}", base, counter_[base]++);
      if (options_.reserved && !options_.reserved->insert(name).second) continue;
      if (used_names_.insert(name).second && claimed_.insert(name).second) return name;
    }
  }

  const std::string& value_name(Id id) const {
    static const std::string absent;
    return is_absent(id) ? absent : name_.at(e_.find(id));
  }

  absl::Status write_constants(Graph& graph) {
    std::set<const Initializer*> written;
    std::vector<const Initializer*> kept;
    for (Id id : classes_) {
      const Choice& c = choice(id);
      if (c.folded) continue;
      const ENode node = e_.node(c.node);
      const OpKey& key = g_.key(node.op);
      if (key.op_type == kInputOp) {
        for (const Initializer& i : model_.graph.initializers)
          if (i.name == key.attributes[0].s()) kept.push_back(&i);
      } else if (key.op_type == kConstantOp) {
        if (auto it = lowered_.initializers.find(node.op); it != lowered_.initializers.end()) kept.push_back(it->second);
      }
    }
    written.insert(kept.begin(), kept.end());
    for (const ValueInfo& input : model_.graph.inputs)  // defaults of inputs belong to the interface, used or not
      for (const Initializer& i : model_.graph.initializers)
        if (i.name == input.name && model_.ir_version >= 4) written.insert(&i);
    for (const Initializer& i : model_.graph.initializers)
      if (written.contains(&i)) graph.initializers.push_back(i);
    for (Id id : constants_)
      if (auto s = write_constant(id, graph); !s.ok()) return s;
    return absl::OkStatus();
  }

  absl::Status write_constant(Id id, Graph& graph) {
    const Choice& c = choice(id);
    if (c.folded) {
      auto value = g_.value(id, ~std::size_t{0});
      if (!value) return absl::FailedPreconditionError(fmt::format("class {} cannot be folded", id));
      graph.initializers.push_back({value_name(id), *value, nullptr, false});
      return absl::OkStatus();
    }
    const OpId op = e_.node(c.node).op;
    if (auto it = lowered_.initializers.find(op); it != lowered_.initializers.end()) return absl::OkStatus();
    if (auto it = lowered_.constant_nodes.find(op); it != lowered_.constant_nodes.end()) {
      Node node = *it->second;
      node.outputs[0] = value_name(id);
      graph.nodes.push_back(std::move(node));
      return absl::OkStatus();
    }
    if (lowered_.captured_constants.contains(op)) return absl::OkStatus();
    graph.initializers.push_back({value_name(id), g_.constant_tensor(op), nullptr, false});
    return absl::OkStatus();
  }

  // Constants of canonical forms (axes and the like) that no written node names: their reader was written back as it was. Where bodies were
  // optimized, also what they no longer take from here.
  void drop_unread(Graph& graph) const {
    std::unordered_set<std::string> kept;
    if (model_.ir_version >= 4)
      for (const ValueInfo& input : model_.graph.inputs) kept.insert(input.name);  // their defaults
    if (options_.bodies.empty()) {
      for (const Initializer& i : model_.graph.initializers) kept.insert(i.name);
      for (const Node& node : graph.nodes) kept.insert(node.outputs.begin(), node.outputs.end());
    }
    erase_unread(graph, kept);
  }

  // Topological, and as near to the model's own order as that allows.
  std::vector<std::size_t> order_units() const {
    std::vector<std::vector<std::size_t>> parents(units_.size());
    std::vector<std::size_t> missing(units_.size(), 0), order;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      std::set<std::size_t> needs;
      for (Id child : units_[u].children)
        if (auto it = unit_of_.find(producer(child)); it != unit_of_.end()) needs.insert(it->second);
      missing[u] = needs.size();
      for (std::size_t n : needs) parents[n].push_back(u);
    }
    using Entry = std::pair<std::size_t, std::size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (missing[u] == 0) ready.emplace(units_[u].position, u);
    while (!ready.empty()) {
      const std::size_t u = ready.top().second;
      ready.pop();
      order.push_back(u);
      for (std::size_t p : parents[u])
        if (--missing[p] == 0) ready.emplace(units_[p].position, p);
    }
    return order;
  }

  absl::Status write_unit(const Unit& unit, Graph& graph) {
    const OpKey& key = g_.key(e_.node(unit.node).op);
    if (unit.source && !unit.canonical && keeps_meaning(*unit.source->node) && takes_types(unit)) {
      write_original(unit, graph);
      return absl::OkStatus();
    }
    if (key.version != 0) {
      const std::string& name = unit.source ? unit.source->node->name : key.op_type;
      return absl::FailedPreconditionError(fmt::format("node '{}': {} of opset {} has no form in opset {}; --keep-opset keeps the model's",
                                                       name, key.op_type, model_.opset(key.domain), opset_));
    }
    return write_canonical(unit, graph);
  }

  void write_original(const Unit& unit, Graph& graph) {
    Node node = *unit.source->node;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty()) node.inputs[i] = value_name(unit.source->inputs[i]);
    std::map<std::string, std::string> renamed;
    for (std::size_t i = 0; i < unit.source->captures.size(); ++i) {
      const Id id = unit.source->inputs[node.inputs.size() + i];
      if (!is_absent(id) && value_name(id) != unit.source->captures[i]) renamed[unit.source->captures[i]] = value_name(id);
    }
    for (Attribute& a : node.attributes) {
      if (a.type != AttributeType::kGraph) continue;
      if (auto it = options_.bodies.find(&a.g()); it != options_.bodies.end()) a.value = it->second;
      if (!renamed.empty()) a.value = rename_captures(a.g(), renamed);
    }
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
      if (auto it = unit.outputs.find(i); it != unit.outputs.end())
        node.outputs[i] = value_name(it->second);
      else if (!node.outputs[i].empty() && !claimed_.insert(node.outputs[i]).second)
        node.outputs[i] = fresh_name("unused");
    }
    note_domain(node.domain);
    graph.nodes.push_back(std::move(node));
  }

  // How many outputs an attention operator names where it is given a cache. The later ones, the grown cache, are optional by their schemas,
  // but ONNX Runtime fails without them (Attention), or is silently wrong (MultiHeadAttention).
  static std::size_t cache_outputs(const Node& node) {
    auto given = [&](std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); };
    if (node.op_type == "Attention" && given(4)) return node.domain.empty() ? 3 : 2;
    if (node.op_type == "MultiHeadAttention" && given(6)) return 3;
    return 0;
  }

  absl::Status write_canonical(const Unit& unit, Graph& graph) {
    Node node = canonical_node(unit);
    const ENode enode = e_.node(unit.node);
    if (opset_ >= 14 && wants_zeros(unit)) node.attributes = {Attribute::of("allowzero", std::int64_t{1})};
    for (std::size_t i = 0; i < enode.children.size(); ++i) node.inputs[i] = value_name(enode.children[i]);
    while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
      auto it = unit.outputs.find(i);
      node.outputs[i] = it == unit.outputs.end() ? "" : value_name(it->second);
    }
    const OpSchema* schema = find_schema(node.domain, node.op_type, node.domain.empty() ? opset_ : INT_MAX);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {  // every output of a variadic operator and the required ones need a name
      const bool variadic = schema && !schema->outputs.empty() && schema->outputs.back().variadic;
      const bool needed = i == 0 || (schema && i < static_cast<std::size_t>(schema->min_outputs)) ||
                          (variadic && i + 1 >= schema->outputs.size()) || i < cache_outputs(node);
      if (node.outputs[i].empty() && needed) node.outputs[i] = fresh_name("unused");
    }
    while (node.outputs.size() > 1 && node.outputs.back().empty()) node.outputs.pop_back();
    if (options_.made && !unit.source) options_.made->push_back({key_name(unit), node.outputs[0], unit.node});
    auto written = from_canonical(node, opset_, input_facts(unit), g_.dims(), node.outputs[0]);
    if (!written.ok()) return written.status();
    for (Initializer& c : written->constants) graph.initializers.push_back(std::move(c));
    for (Node& part : written->nodes) {
      part.origin = nullptr;
      if (part.name.empty())
        part.name =
            unit.source && written->nodes.size() == 1 ? unit.source->node->name : fmt::format("{}/{}", part.outputs[0], part.op_type);
      note_domain(part.domain);
      graph.nodes.push_back(std::move(part));
    }
    return absl::OkStatus();
  }

  std::string key_name(const Unit& unit) const {
    const OpKey& key = g_.key(e_.node(unit.node).op);
    return key.domain.empty() ? key.op_type : key.domain + "." + key.op_type;
  }

  void note_domain(const std::string& domain) {
    if (!domain.empty() && !model_.opset_imports.contains(domain)) new_domains_.insert(domain);
  }

  // Outputs whose value already bears another name.
  void write_output_copies(Graph& graph) const {
    for (std::size_t i = 0; i < lowered_.roots.size(); ++i) {
      const std::string& from = value_name(lowered_.roots[i]);
      const std::string& to = model_.graph.outputs[i].name;
      if (from == to) continue;
      bool again = false;  // the same output listed twice
      for (std::size_t j = 0; j < i; ++j) again = again || model_.graph.outputs[j].name == to;
      if (again) continue;
      Node copy;
      copy.op_type = "Identity";
      copy.name = to + "/Identity";
      copy.inputs = {from};
      copy.outputs = {to};
      graph.nodes.push_back(std::move(copy));
    }
  }

  void keep_value_info(Graph& graph) const {
    std::unordered_set<std::string> alive;
    for (const auto& [id, name] : name_) {
      auto it = lowered_.values.find(name);
      if (it != lowered_.values.end() && e_.find(it->second) == id) alive.insert(name);
    }
    std::erase_if(graph.value_info,
                  [&](const ValueInfo& v) { return !alive.contains(v.name) || has_dim_apart(lowered_.values.at(v.name)); });
  }

  // Whether (in a model that rules changed) two inputs declare one name for a dim of this class and nothing makes it one size.
  bool has_dim_apart(Id id) const {
    const Facts& f = g_.facts(id);
    return made_nodes_ && f.shape &&
           std::any_of(f.shape->begin(), f.shape->end(), [&](Dim d) { return g_.dims().name_apart(d).has_value(); });
  }

  // Types of what goes into and comes out of nodes made by rules: runtimes infer less than the facts know (a Reshape to a computed shape).
  // ONNX Runtime's inference of the standard's Attention goes wrong where V's last dim is unknown. And of what has a dim whose name another
  // dim of the inputs has, too: ONNX Runtime takes values of one name for equally large and reuses their memory. Where they are not, the
  // order of nodes would decide whether the model runs.
  void describe_values(Graph& graph) const {
    std::set<std::string> known;
    for (const auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
      for (const ValueInfo& v : *list) known.insert(v.name);
    for (const Initializer& i : graph.initializers) known.insert(i.name);
    for (const Unit& unit : units_) {
      std::vector<Id> values;
      if (!unit.source) values = unit.children;
      for (const auto& [index, id] : unit.outputs)
        if (!unit.source || has_dim_apart(id)) values.push_back(id);
      for (Id id : values) {
        const Facts& f = g_.facts(id);
        if (f.kind != Facts::Kind::kTensor || f.dtype == DType::kUndefined || !f.shape || !known.insert(value_name(id)).second) continue;
        ValueInfo info{value_name(id), {ValueType::Kind::kTensor, f.dtype, std::vector<DimSpec>{}, nullptr}, nullptr};
        for (Dim d : *f.shape) info.type.shape->push_back(dim_spec(d));
        graph.value_info.push_back(std::move(info));
      }
    }
  }

  // Numbers and the names that inputs declare; names of our own say nothing to others.
  DimSpec dim_spec(Dim d) const {
    if (const auto v = g_.dims().value(d)) return *v;
    if (const auto apart = g_.dims().name_apart(d)) return *apart;
    const auto name = g_.dims().symbol_name(d);
    for (const ValueInfo& input : model_.graph.inputs)
      if (name && input.type.shape)
        for (const DimSpec& declared : *input.type.shape)
          if (declared == DimSpec(*name)) return *name;
    return std::monostate{};
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const Lowered& lowered_;
  const Model& model_;
  const Selection& selection_;
  const EmitModelOptions& options_;
  std::vector<Id> classes_, constants_;     // selected, children first
  std::unordered_map<Id, Choice> dropped_;  // taken for messages that are written as they were
  std::vector<Unit> units_;
  std::unordered_map<Id, std::size_t> unit_of_;
  std::map<Id, std::vector<std::string>> names_of_;
  std::unordered_map<Id, std::string> name_;
  std::unordered_set<std::string> used_names_, claimed_, output_names_;
  std::map<std::string, int> counter_;
  std::set<std::string> new_domains_;
  std::int64_t opset_ = 0;
  bool made_nodes_ = false;  // by rules
};

}  // namespace

absl::StatusOr<Model> emit_model(const OnnxEGraph& egraph, const Lowered& lowered, const Selection& selection,
                                 const EmitModelOptions& options) {
  return ModelEmitter(egraph, lowered, selection, options).run();
}

}  // namespace saturate
