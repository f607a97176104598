#include "kernels/verify/parts.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/inputs/types.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/node_text.h"
#include "onnx_bridge/graph/model_edits.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/graph/questions.h"
#include "onnx_bridge/model/function_index.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/random_nodes.h"

namespace saturate {
namespace {

constexpr int kMostCalls = 1000;  // of functions that are written out

absl::Status no_parts(const std::string& why) { return absl::UnimplementedError(why); }

// Looks for nodes without a kernel.
class UnknownOperators {
 public:
  explicit UnknownOperators(const Model& model) : functions_(model.functions) {}

  bool is_call(const Node& node) const { return functions_.called(node) != nullptr; }
  // The node itself, or the first in its bodies or in functions that it calls; null: it can be run.
  const Node* in(const Node& node) {
    if (const Function* f = functions_.called(node)) return in_function(*f);
    if (!has_kernel(node.domain, node.op_type)) return &node;
    const Node* inside = nullptr;
    for_each_body(node, [&](const Graph& body) { inside = inside ? inside : among(body.nodes); });
    return inside;
  }

 private:
  const Node* among(const std::vector<Node>& nodes) {
    const Node* found = nullptr;
    for (std::size_t i = 0; i < nodes.size() && !found; ++i) found = in(nodes[i]);
    return found;
  }

  const Node* in_function(const Function& f) {
    const auto [at, is_new] = found_.try_emplace(&f, nullptr);
    if (is_new) found_[&f] = among(f.nodes);
    return found_[&f];
  }

  const FunctionIndex functions_;
  std::map<const Function*, const Node*> found_;
};

std::string with_name(const Node& node) {
  const std::string& name = node.name.empty() ? first_output(node) : node.name;
  return fmt::format("{} '{}'", qualified_name(node.domain, node.op_type), name);
}

// The model without nodes that no output needs; calls of functions that hold such operators are written out.
absl::StatusOr<Model> flattened(Model model) {
  erase_unread(model.graph, {});
  for (int calls = 0; calls < kMostCalls; ++calls) {
    heed_stop();
    const auto& nodes = model.graph.nodes;
    UnknownOperators unknown(model);
    const auto is_call = [&](const Node& n) { return unknown.is_call(n) && unknown.in(n); };
    const auto call = std::find_if(nodes.begin(), nodes.end(), is_call);
    if (call == nodes.end()) break;
    std::optional<Model> inlined = with_call_inlined(model, static_cast<std::size_t>(call - nodes.begin()));
    if (!inlined) return no_parts(fmt::format("it stands in function {} of another opset", with_name(*call)));
    model = *std::move(inlined);
    erase_unread(model.graph, {});
  }
  UnknownOperators unknown(model);
  for (const Node& node : model.graph.nodes) {
    const Node* found = unknown.in(node);
    if (found && found != &node) return no_parts(fmt::format("{} stands in the body of {}", with_name(*found), with_name(node)));
    if (!found) continue;
    bool has_body = false;
    for_each_body(node, [&](const Graph&) { has_body = true; });
    if (has_body) return no_parts(fmt::format("{} has a body of its own", with_name(node)));
  }
  return model;
}

// Nodes that compute the same from the same, seen by their structure: each gets the number of the first.
class UnknownClasses {
 public:
  explicit UnknownClasses(const Model& model) : model_(model), is_unknown_(model) {
    for (const Node& node : model.graph.nodes) see(node);
  }

  // The first node of each class of unknown operators, and the outputs of all its nodes.
  struct Class {
    const Node* first = nullptr;
    std::string op;  // what must be the same in the other model
    std::vector<const Node*> all = {};
  };
  const std::vector<Class>& unknown() const { return unknown_; }

 private:
  void see(const Node& node) {
    const bool is_unknown = is_unknown_.in(node) != nullptr;
    std::string op =
        fmt::format("{}.{}.{}@{}/{}", node.domain, node.op_type, node.overload, model_.opset(node.domain), node.outputs.size());
    op += attributes_text(node.attributes);
    for (const std::string& input : node.inputs) op += input.empty() ? "-" : "+";
    std::string key = op;
    for (const std::string& input : node.inputs) key += "|" + number_of(input);
    bool alone = may_draw(node);  // equal to nothing but itself
    for_each_body(node, [&](const Graph&) { alone = true; });
    if (alone) key += fmt::format("|{}", seen_.size());
    const auto [at, is_new] = seen_.try_emplace(std::move(key), seen_.size());
    for (std::size_t o = 0; o < node.outputs.size(); ++o) numbers_[node.outputs[o]] = fmt::format("{}.{}", at->second, o);
    if (!is_unknown) return;
    const auto [place, fresh] = places_.try_emplace(at->second, unknown_.size());
    if (fresh) unknown_.push_back({&node, std::move(op)});
    unknown_[place->second].all.push_back(&node);
  }

  std::string number_of(const std::string& value) const {
    const auto it = numbers_.find(value);
    return it == numbers_.end() ? "=" + value : it->second;
  }

  const Model& model_;
  UnknownOperators is_unknown_;
  std::map<std::string, std::size_t> seen_;
  std::map<std::string, std::string> numbers_;
  std::map<std::size_t, std::size_t> places_;
  std::vector<Class> unknown_;
};

using UnknownClass = UnknownClasses::Class;

// Where to find those of a list of classes that no other class has been matched with.
class Unmatched {
 public:
  explicit Unmatched(const std::vector<UnknownClass>& classes) : classes_(classes), taken_(classes.size()) {
    for (std::size_t k = 0; k < classes.size(); ++k) {
      in_order_[classes[k].op].push_back(k);
      for (const Node* node : classes[k].all)
        for (std::size_t o = 0; o < node->outputs.size(); ++o)
          if (!node->outputs[o].empty()) by_output_[{node->outputs[o], o}] = k;
    }
  }

  // One that gives a value of the same name at the same place.
  std::optional<std::size_t> of_output(const UnknownClass& like) {
    for (const Node* node : like.all)
      for (std::size_t o = 0; o < node->outputs.size(); ++o)
        if (const auto it = by_output_.find({node->outputs[o], o}); it != by_output_.end() && fits(it->second, like))
          return take(it->second);
    return std::nullopt;
  }
  std::optional<std::size_t> first(const UnknownClass& like) {
    const auto it = in_order_.find(like.op);
    if (it == in_order_.end()) return std::nullopt;
    std::deque<std::size_t>& rest = it->second;
    while (!rest.empty() && taken_[rest.front()]) rest.pop_front();
    return rest.empty() ? std::nullopt : take(rest.front());
  }
  const UnknownClass* left() const {
    const auto it = std::find(taken_.begin(), taken_.end(), false);
    return it == taken_.end() ? nullptr : &classes_[static_cast<std::size_t>(it - taken_.begin())];
  }

 private:
  bool fits(std::size_t k, const UnknownClass& like) const { return classes_[k].op == like.op && !taken_[k]; }
  std::optional<std::size_t> take(std::size_t k) {
    taken_[k] = true;
    return k;
  }

  const std::vector<UnknownClass>& classes_;
  std::vector<bool> taken_;
  std::unordered_map<std::string, std::deque<std::size_t>> in_order_;
  std::map<std::pair<std::string, std::size_t>, std::size_t> by_output_;
};

// For each class of the first the one of the second that is the same: by the name of a value, then in order.
absl::StatusOr<std::vector<std::size_t>> matched(const std::vector<UnknownClass>& first, const std::vector<UnknownClass>& second) {
  std::vector<std::optional<std::size_t>> partner(first.size());
  Unmatched unmatched(second);
  for (std::size_t i = 0; i < first.size(); ++i) partner[i] = unmatched.of_output(first[i]);
  for (std::size_t i = 0; i < first.size(); ++i)
    if (!partner[i]) partner[i] = unmatched.first(first[i]);
  if (const UnknownClass* left = unmatched.left())
    return no_parts(fmt::format("the original has no such {} as the other model", with_name(*left->first)));
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!partner[i]) return no_parts(fmt::format("the other model has no such {}", with_name(*first[i].first)));
    out.push_back(*partner[i]);
  }
  return out;
}

// What takes the place of a class in both models: names of its outputs that come in, and of its inputs that go out.
struct PlaceOfCut {
  std::vector<std::string> in, out;
};

PlaceOfCut cut_of(const Node& node, std::size_t number) {
  PlaceOfCut cut;
  const std::string of = fmt::format("of {}", with_name(node));
  for (std::size_t o = 0; o < node.outputs.size(); ++o) cut.in.push_back(fmt::format("output {} {} (cut {})", o, of, number));
  for (std::size_t i = 0; i < node.inputs.size(); ++i) cut.out.push_back(fmt::format("input {} {} (cut {})", i, of, number));
  return cut;
}

struct Cut {
  const UnknownClass* of = nullptr;
  PlaceOfCut place;
};

// Identities in the place of the classes, and the values that they read as outputs.
void cut_out(Model& model, const std::vector<Cut>& cuts) {
  std::unordered_map<std::string, const PlaceOfCut*> place_of;  // by the first output of a node
  for (const Cut& cut : cuts)
    for (const Node* node : cut.of->all) place_of[first_output(*node)] = &cut.place;
  std::vector<Node> nodes;
  for (Node& node : model.graph.nodes) {
    const auto it = place_of.find(first_output(node));
    if (it == place_of.end()) {
      nodes.push_back(std::move(node));
      continue;
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (!node.outputs[o].empty()) nodes.push_back(make_node("Identity", {it->second->in[o]}, node.outputs[o]));
  }
  for (const auto& [of, place] : cuts) {
    const std::vector<std::string>& read = of->first->inputs;
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i].empty()) continue;
      nodes.push_back(make_node("Identity", {read[i]}, place.out[i]));
      model.graph.outputs.push_back({place.out[i], {}, nullptr});
    }
  }
  model.graph.nodes = std::move(nodes);
  model.graph.origin = nullptr;
}

using TypesOfValues = std::map<std::string, ValueType>;

// What is known of the values of a model.
class KnownValues {
 public:
  explicit KnownValues(const Model& model) : model_(model), types_(inferred_types(model).value_or(TypesOfValues())) {
    for (const auto* list : {&model.graph.outputs, &model.graph.value_info})
      for (const ValueInfo& info : *list) written_.try_emplace(info.name, &info.type);
    for (const ValueInfo& input : model.graph.inputs) dtypes_.try_emplace(input.name, input.type.dtype);
    for (const Initializer& i : model.graph.initializers) dtypes_[i.name] = i.tensor.dtype();
    for (const Node& node : model.graph.nodes)
      for (std::size_t i = 0; i < node.inputs.size(); ++i) readers_[node.inputs[i]].emplace_back(&node, i);
  }

  // What is written of a value, or inferred.
  const ValueType* type(const std::string& value) const {
    if (const auto it = written_.find(value); it != written_.end() && it->second->kind != ValueType::Kind::kUnknown) return it->second;
    const auto it = types_.find(value);
    return it == types_.end() ? nullptr : &it->second;
  }
  // By those who read it, then as floats are.
  DType guessed_dtype(const std::string& value) const {
    if (const auto it = readers_.find(value); it != readers_.end())
      for (const auto& [node, place] : it->second)
        if (const auto wanted = wanted_by(*node, place)) return *wanted;
    return DType::kFloat;
  }

 private:
  std::optional<DType> dtype(const std::string& value) const {
    if (const auto it = dtypes_.find(value); it != dtypes_.end()) return it->second;
    const ValueType* known = type(value);
    return known && known->dtype != DType::kUndefined ? std::optional(known->dtype) : std::nullopt;
  }

  // The type that a reader's schema wants of its input, or that another of its inputs shares with it.
  std::optional<DType> wanted_by(const Node& reader, std::size_t place) const {
    const OpSchema* schema = find_schema(reader.domain, reader.op_type, model_.opset(reader.domain));
    if (!schema || schema->inputs.empty()) return std::nullopt;
    const auto formal = [&](std::size_t i) { return schema->inputs[std::min(i, schema->inputs.size() - 1)].type; };
    if (const auto only = dtype_of_tensor(formal(place))) return only;
    for (const OpSchema::TypeConstraint& c : schema->constraints)
      if (c.name == formal(place) && c.types.size() == 1) return dtype_of_tensor(c.types[0]);
    for (std::size_t i = 0; i < reader.inputs.size(); ++i)
      if (i != place && formal(i) == formal(place))
        if (const auto known = dtype(reader.inputs[i])) return known;
    if (reader.domain.empty() && reader.op_type == "Gather" && place == 1) return DType::kInt64;
    return std::nullopt;
  }

  const Model& model_;
  const TypesOfValues types_;
  std::unordered_map<std::string, const ValueType*> written_;
  std::unordered_map<std::string, DType> dtypes_;  // of inputs and initializers
  std::unordered_map<std::string, std::vector<std::pair<const Node*, std::size_t>>> readers_;
};

class PartsCutter {
 public:
  PartsCutter(Model original, Model optimized) : first_(std::move(original)), second_(std::move(optimized)) {}

  absl::StatusOr<Parts> run() {
    const UnknownClasses mine(first_), others(second_);
    const auto partner = matched(mine.unknown(), others.unknown());
    if (!partner.ok()) return partner.status();
    if (partner->empty()) return no_parts("");
    first_values_.emplace(first_);
    second_values_.emplace(second_);
    Parts parts{first_, second_, {}, {}};
    std::set<std::string> around;
    std::vector<Cut> cuts, other_cuts;
    for (std::size_t i = 0; i < mine.unknown().size(); ++i) {
      const UnknownClass &a = mine.unknown()[i], &b = others.unknown()[(*partner)[i]];
      around.insert(qualified_name(a.first->domain, a.first->op_type));
      PlaceOfCut place = cut_of(*a.first, i);
      if (absl::Status s = add_inputs(a, b, place, parts); !s.ok()) return s;
      cuts.push_back({&a, place});
      other_cuts.push_back({&b, std::move(place)});
    }
    cut_out(parts.original, cuts);
    cut_out(parts.optimized, other_cuts);
    parts.around = {around.begin(), around.end()};
    for (Model* model : {&parts.original, &parts.optimized}) {
      if (model->opset("") == 0) model->opset_imports[""] = kNewestOpset;
      model->origin = nullptr;
    }
    return parts;
  }

 private:
  absl::Status add_inputs(const UnknownClass& a, const UnknownClass& b, const PlaceOfCut& cut, Parts& parts) const {
    for (std::size_t o = 0; o < cut.in.size(); ++o) {
      if (a.first->outputs[o].empty() && b.first->outputs[o].empty()) continue;
      ValueInfo info{cut.in[o], type_of(a, b, o, parts), nullptr};
      if (info.type.kind != ValueType::Kind::kTensor)
        return no_parts(fmt::format("{} gives what is no tensor, and nothing else is drawn", with_name(*a.first)));
      parts.original.graph.inputs.push_back(info);
      parts.optimized.graph.inputs.push_back(std::move(info));
    }
    return absl::OkStatus();
  }

  // The fullest that is written anywhere.
  ValueType type_of(const UnknownClass& a, const UnknownClass& b, std::size_t o, Parts& parts) const {
    const ValueType* best = nullptr;
    const auto look = [&](const KnownValues& values, const UnknownClass& c) {
      for (const Node* node : c.all)
        if (const ValueType* type = values.type(node->outputs[o]))
          if (!best || (!best->shape && type->shape)) best = type;
    };
    look(*first_values_, a);
    look(*second_values_, b);
    if (best) return *best;
    ValueType guess;
    guess.kind = ValueType::Kind::kTensor;
    guess.dtype = first_values_->guessed_dtype(a.first->outputs[o]);
    parts.taken_for.push_back(fmt::format("'{}' for {}", a.first->outputs[o], dtype_name(guess.dtype)));
    return guess;
  }

  Model first_, second_;
  std::optional<KnownValues> first_values_, second_values_;
};

}  // namespace

absl::StatusOr<Parts> cut_around_unknown(const Model& original, const Model& optimized) {
  absl::StatusOr<Model> first = flattened(original), second = flattened(optimized);
  if (!first.ok()) return first.status();
  if (!second.ok()) return second.status();
  return PartsCutter(*std::move(first), *std::move(second)).run();
}

namespace {

// What the user gave for the original, with numbers drawn for the inputs that were cut; those that the parts have not are left out.
absl::StatusOr<Inputs> inputs_of_parts(const Parts& parts, const Inputs& given, std::uint64_t seed) {
  Sizes sizes;  // that the given ones have
  for (const ValueInfo& input : parts.original.graph.inputs) {
    const auto it = given.find(input.name);
    if (it == given.end() || !it->second.is_tensor() || !input.type.shape) continue;
    const Shape& dims = it->second.tensor().dims();
    for (std::size_t axis = 0; axis < std::min(dims.size(), input.type.shape->size()); ++axis)
      if (const auto* name = std::get_if<std::string>(&(*input.type.shape)[axis])) sizes.try_emplace(*name, dims[axis]);
  }
  const InputDrawer drawer(parts.original, sizes);
  Sizes ones;
  for (const std::string& symbol : drawer.symbols()) ones[symbol] = 1;
  absl::StatusOr<Inputs> inputs = drawer.draw(ones, {}, seed);
  if (!inputs.ok()) return inputs.status();
  for (auto& [name, value] : *inputs)
    if (const auto it = given.find(name); it != given.end()) value = it->second;
  for (const ValueInfo& input : parts.original.graph.inputs)  // with a default
    if (const auto it = given.find(input.name); it != given.end()) inputs->insert_or_assign(input.name, it->second);
  return inputs;
}

std::size_t equal_in_all(const VerifyReport& report, std::size_t outputs) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < outputs; ++i)
    equal += std::all_of(report.cases.begin(), report.cases.end(), [&](const VerifyCase& c) { return c.outputs[i].ok; });
  return equal;
}

}  // namespace

VerifyReport verify_in_parts(const Model& original, const Model& optimized, const VerifyOptions& given, VerifyReport whole) {
  const absl::StatusOr<Parts> parts = cut_around_unknown(original, optimized);
  if (!parts.ok()) {
    if (!parts.status().message().empty())
      whole.message += fmt::format(", nor could the parts around it be compared: {}", std::string(parts.status().message()));
    return whole;
  }
  VerifyOptions options = given;
  if (options.ends_in_time) options.seconds = std::max(1.0, given.seconds - whole.seconds);
  for (Inputs& inputs : options.inputs) {
    absl::StatusOr<Inputs> all = inputs_of_parts(*parts, inputs, given.seed);
    if (!all.ok()) return whole;
    inputs = *std::move(all);
  }
  VerifyReport report = verify(parts->original, parts->optimized, options);
  report.around = parts->around;
  const std::string around = fmt::format("{}", fmt::join(parts->around, ", "));
  if (report.status == VerifyStatus::kNotRun || report.status == VerifyStatus::kUnsupported)
    report.message = fmt::format("{}, and in parts around it: {}", whole.message, report.message);
  if (report.cases.empty()) return report;
  const std::size_t outputs = parts->original.graph.outputs.size();
  std::string note = fmt::format("verified in parts around {}: {} of {} values equal; what it computes was drawn, not run", around,
                                 equal_in_all(report, outputs), outputs);
  if (!parts->taken_for.empty()) note += fmt::format("; no type is written of it, taken were {}", fmt::join(parts->taken_for, ", "));
  report.notes.insert(report.notes.begin(), std::move(note));
  return report;
}

}  // namespace saturate
