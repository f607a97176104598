#include "onnx_bridge/convert/body_facts.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace saturate {
namespace {

// A value that one turn hands to the next.
struct State {
  const ValueInfo* input = nullptr;  // of the body
  Id before = kNone;                 // what the first turn gets; kNone: unknown
  std::size_t output = 0;            // of the body: what the next turn gets
  enum class Rank : std::uint8_t { kKept, kUnproven, kChanges } rank = Rank::kKept;
  std::vector<bool> kept = {};  // by axis: of one size in all turns
};

// A part of a value outside along one axis.
struct Part {
  const ValueInfo* input = nullptr;
  Id whole = kNone;
  std::int64_t axis = 0;
};

struct Turns {
  std::vector<State> states;
  std::vector<Part> parts;
};

std::size_t number_of_parts(const Node& scan) {
  const Attribute* scanned = find_attribute(scan.attributes, "num_scan_inputs");
  return scanned ? static_cast<std::size_t>(std::max<std::int64_t>(scanned->i(), 0)) : scan.inputs.size();
}

// The inputs that a body gets from turn to turn; empty where the numbers of inputs and outputs do not fit (Scan of opset 8 among them).
Turns turns_of(const Node& node, const Graph& body, const Lowered& values) {
  Turns out;
  const std::size_t given = node.inputs.size();
  const auto outside = [&](std::size_t i) {
    const auto it = values.values.find(node.inputs[i]);
    return it == values.values.end() ? kNone : it->second;
  };
  if (!node.domain.empty() || body.inputs.size() != given) return out;
  if (node.op_type == "Loop") {
    if (body.outputs.size() + 1 < given) return out;
    for (std::size_t i = 2; i < given; ++i) out.states.push_back({&body.inputs[i], outside(i), i - 1});
  } else if (node.op_type == "Scan") {
    const std::size_t parts = number_of_parts(node);
    if (parts > given || body.outputs.size() + parts < given) return out;
    const Attribute* axes = find_attribute(node.attributes, "scan_input_axes");
    for (std::size_t i = 0; i + parts < given; ++i) out.states.push_back({&body.inputs[i], outside(i), i});
    for (std::size_t i = 0; i < parts; ++i) {
      const bool told = axes && i < axes->ints().size();
      out.parts.push_back({&body.inputs[given - parts + i], outside(given - parts + i), told ? axes->ints()[i] : 0});
    }
  }
  return out;
}

// Without numbers that the first turn does not get.
void believe(std::optional<std::vector<Dim>>& declared, const std::vector<Dim>& before, const DimTable& of_before, std::string_view name,
             DimTable& dims) {
  if (!declared || declared->size() != before.size()) return declared.reset();
  for (std::size_t axis = 0; axis < before.size(); ++axis)
    if (of_before.value(before[axis]) != dims.value((*declared)[axis])) (*declared)[axis] = dims.fresh(name);
}

// Names of dims inside a graph prove nothing, so they are dropped.
Facts declared_facts(const ValueInfo& input, DimTable& dims) {
  ValueType type = input.type;
  if (type.shape)
    for (DimSpec& d : *type.shape)
      if (std::holds_alternative<std::string>(d)) d = std::monostate{};
  return facts_of_type(type, dims, input.name);
}

class BodyInputs {
 public:
  BodyInputs(const Node& node, const Model& body, const OnnxEGraph& outside, const Lowered& values, const BodyLowering& lowering)
      : body_(body), outside_(outside), values_(values), lowering_(lowering), turns_(turns_of(node, body.graph, values)) {
    for (State& s : turns_.states) {
      const auto* shape = shape_of(s.before);
      if (shape)
        s.kept.assign(shape->size(), true);
      else
        s.rank = State::Rank::kUnproven;
    }
  }

  // Leaves no axis as one of one size that a turn may change.
  void prove() {
    if (std::none_of(turns_.states.begin(), turns_.states.end(), [](const State& s) { return s.rank == State::Rank::kKept; })) return;
    constexpr int kRounds = 4;  // in which single axes are given up
    for (int round = 0; round < 2 * kRounds; ++round) {
      if (round == kRounds)
        for (State& s : turns_.states) s.kept.assign(s.kept.size(), false);
      if (one_turn()) return;
    }
    give_up();
  }

  std::map<std::string, Facts> facts(DimTable& dims) const {
    std::map<std::string, Facts> out;
    // What stands outside comes first: what is made up here then gets other names.
    for (const State& s : turns_.states)
      if (const auto* shape = s.rank == State::Rank::kKept ? shape_of(s.before) : nullptr)
        out[s.input->name] = tensor(s.before, *shape, dims);
    for (const Part& p : turns_.parts)
      if (auto shape = part_shape(p)) out[p.input->name] = tensor(p.whole, *shape, dims);
    for (const State& s : turns_.states) {
      const auto it = out.find(s.input->name);
      if (it == out.end()) {
        out[s.input->name] = believed(s, dims);
        continue;
      }
      for (std::size_t axis = 0; axis < s.kept.size(); ++axis)
        if (!s.kept[axis]) (*it->second.shape)[axis] = dims.fresh(s.input->name);
    }
    for (const ValueInfo& input : body_.graph.inputs)
      if (!out.contains(input.name)) out[input.name] = declared_facts(input, dims);
    return out;
  }

 private:
  const std::vector<Dim>* shape_of(Id id) const {
    if (id == kNone) return nullptr;
    const Facts& f = outside_.facts(outside_.egraph().find(id));
    return f.kind == Facts::Kind::kTensor && f.shape ? &*f.shape : nullptr;
  }

  std::optional<std::vector<Dim>> part_shape(const Part& p) const {
    const auto* whole = shape_of(p.whole);
    if (!whole) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(whole->size()), axis = p.axis < 0 ? p.axis + rank : p.axis;
    if (axis < 0 || axis >= rank) return std::nullopt;
    std::vector<Dim> out = *whole;
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
    return out;
  }

  Facts tensor(Id of, const std::vector<Dim>& shape, DimTable& dims) const {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = outside_.facts(outside_.egraph().find(of)).dtype;
    f.shape.emplace();
    for (const Dim d : shape) f.shape->push_back(dims.imported(outside_.dims(), d));
    return f;
  }

  // What the body declares, as far as the first turn does not get something else.
  Facts believed(const State& s, DimTable& dims) const {
    Facts f = declared_facts(*s.input, dims);
    if (s.rank == State::Rank::kChanges) f.shape.reset();
    if (const auto* before = shape_of(s.before)) believe(f.shape, *before, outside_.dims(), s.input->name, dims);
    return f;
  }

  // Whether a turn that gets what is believed hands it on; what it does not is believed no longer.
  bool one_turn() {
    const std::unique_ptr<OnnxEGraph> g = lowering_.make_graph();
    LowerOptions options = lowering_.options;
    options.captured = capture(body_.graph, outside_, values_, g->dims());
    options.inputs = facts(g->dims());
    const auto lowered = lower(body_, *g, options);
    if (!lowered.ok()) {
      give_up();
      return true;
    }
    bool same = true;
    for (State& s : turns_.states) {
      if (s.rank != State::Rank::kKept) continue;
      const std::vector<Dim>& before = *options.inputs.at(s.input->name).shape;
      const Facts& after = g->facts(g->egraph().find(lowered->roots[s.output]));
      if (!after.shape || after.shape->size() != before.size()) {
        s.rank = after.shape ? State::Rank::kChanges : State::Rank::kUnproven;
        same = false;
        continue;
      }
      for (std::size_t axis = 0; axis < before.size(); ++axis)
        if (s.kept[axis] && !g->dims().equal(before[axis], (*after.shape)[axis])) s.kept[axis] = same = false;
    }
    return same;
  }

  void give_up() {
    for (State& s : turns_.states) s.rank = State::Rank::kUnproven;
  }

  const Model& body_;
  const OnnxEGraph& outside_;
  const Lowered& values_;
  const BodyLowering& lowering_;
  Turns turns_;
};

}  // namespace

std::map<std::string, Facts> body_input_facts(const Node& node, const Model& body, const OnnxEGraph& outside, const Lowered& values,
                                              const BodyLowering& lowering, DimTable& dims) {
  BodyInputs inputs(node, body, outside, values, lowering);
  inputs.prove();
  return inputs.facts(dims);
}

Facts believed_output(const Node& node, std::size_t output, Facts declared, std::span<const Facts* const> inputs, DimTable& dims) {
  const bool loop = node.op_type == "Loop";
  if (!node.domain.empty() || (!loop && node.op_type != "Scan") || !declared.shape) return declared;
  const std::size_t own = loop ? 2 : number_of_parts(node), given = node.inputs.size(), states = given - std::min(given, own);
  const std::string& name = node.outputs[output];
  if (output < states) {
    const Facts& before = *inputs[loop ? output + own : output];
    if (before.kind == Facts::Kind::kTensor && before.shape) believe(declared.shape, *before.shape, dims, name, dims);
  } else if (loop && !declared.shape->empty()) {
    const auto turns = inputs[0]->content && inputs[0]->content->size() == 1 ? dims.value(inputs[0]->content->front()) : std::nullopt;
    if (!turns || turns != dims.value(declared.shape->front())) declared.shape->front() = dims.fresh(name);
  }
  return declared;
}

}  // namespace saturate
