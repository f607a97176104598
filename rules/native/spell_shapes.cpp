// Spellings of shape literals that nothing in the model computes.
#include <algorithm>
#include <array>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "onnx_bridge/convert/op_key.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

// Where each dim can be read off: a class and an axis of it.
using DimSources = std::map<Dim, std::pair<Id, int>>;

// Of graph inputs, or of all other classes.
DimSources find_dims(const OnnxEGraph& g, const std::vector<Id>& classes, bool inputs) {
  DimSources sources;
  for (Id id : classes) {
    const Facts& f = g.facts(id);
    if (f.kind != Facts::Kind::kTensor || !f.shape) continue;
    const auto members = g.egraph().class_nodes(id);
    const bool is_input =
        std::any_of(members.begin(), members.end(), [&](NodeId n) { return g.key(g.egraph().node(n).op).op_type == kInputOp; });
    if (is_input != inputs) continue;
    for (int axis = 0; axis < f.rank(); ++axis) {
      const Dim d = g.dims().canonical((*f.shape)[axis]);
      if (!g.dims().value(d)) sources.try_emplace(d, id, axis);
    }
  }
  return sources;
}

class ShapeSpeller {
 public:
  ShapeSpeller(OnnxEGraph& g, const std::vector<Id>& classes)
      : g_(g), inputs_(find_dims(g, classes, true)), others_(find_dims(g, classes, false)) {}

  // An int64 vector of these dims; nullopt where one has no spelling. `compose`: by sums and products of the dims of graph inputs where
  // possible.
  enum class How { kInputs, kMixed, kReadOff };
  std::optional<Id> vector(std::span<const Dim> dims, How how) {
    std::vector<Id> parts;
    std::vector<std::int64_t> numbers;
    const auto flush = [&] {
      if (!numbers.empty()) parts.push_back(g_.constant(Tensor::vector_int64(numbers)));
      numbers.clear();
    };
    for (Dim d : dims) {
      if (const auto n = g_.dims().value(d)) {
        numbers.push_back(*n);
        continue;
      }
      std::optional<Id> part;
      if (how != How::kReadOff) part = of_inputs(g_.dims().canonical(d), 2);
      if (!part && how != How::kInputs) part = read_off(g_.dims().canonical(d));
      if (!part) return std::nullopt;
      flush();
      parts.push_back(*part);
    }
    flush();
    return parts.size() == 1 ? parts[0] : g_.add(make_key("", "Concat", {Attribute::of("axis", std::int64_t{0})}, 1, 1), parts);
  }

 private:
  Id shape_of(const std::pair<Id, int>& source) {
    const auto [from, axis] = source;
    return g_.add(make_key("", "Shape", {Attribute::of("start", std::int64_t{axis}), Attribute::of("end", std::int64_t{axis + 1})}, 1,
                           g_.facts(from).rank()),
                  std::array{from});
  }

  std::optional<Id> read_off(Dim d) {
    for (const DimSources* sources : {&inputs_, &others_})
      if (auto it = sources->find(d); it != sources->end()) return shape_of(it->second);
    return std::nullopt;
  }

  std::optional<Id> of_inputs(Dim d, int depth) {
    if (const auto n = g_.dims().value(d)) return g_.constant(Tensor::vector_int64(std::array{*n}));
    if (auto it = inputs_.find(d); it != inputs_.end()) return shape_of(it->second);
    if (depth == 0) return std::nullopt;
    for (const auto& [part, source] : inputs_)
      if (const auto rest = g_.dims().exact_div(d, part))
        if (const auto other = of_inputs(g_.dims().canonical(*rest), depth - 1)) return over("Mul", shape_of(source), *other);
    for (const auto& [part, source] : inputs_) {
      const Dim rest = g_.dims().canonical(g_.dims().sub(d, part));
      if (!g_.dims().value(rest) && !inputs_.contains(rest)) continue;
      if (const auto other = of_inputs(rest, 0)) return over("Add", shape_of(source), *other);
    }
    return std::nullopt;
  }

  Id over(const char* op, Id a, Id b) { return g_.add(make_key("", op, {}, 1, std::nullopt), std::array{a, b}); }

  OnnxEGraph& g_;
  DimSources inputs_, others_;
};

}  // namespace

void spell_literals(OnnxEGraph& g) {
  const std::vector<Id> classes = g.egraph().classes();
  ShapeSpeller speller(g, classes);
  // Looked up before the first spelling: each change makes the classes' lists of e-nodes anew.
  absl::flat_hash_set<Id> literals, computed;  // classes that hold a literal, and of these those that hold more
  for (Id id : classes) {
    const auto members = g.egraph().class_nodes(id);
    if (std::none_of(members.begin(), members.end(), [&](NodeId n) { return g.key(g.egraph().node(n).op).op_type == kLiteralOp; }))
      continue;
    literals.insert(id);
    if (members.size() > 1) computed.insert(id);
  }
  for (Id id : classes) {
    const Id now = g.egraph().find(id);
    if (!literals.contains(now)) continue;
    const Facts facts = g.facts(id);
    if (!facts.shape || facts.shape->empty() || !facts.content || facts.content->empty()) continue;
    using enum ShapeSpeller::How;
    // What is computed already is spelled by graph inputs or not at all. A class that has a dim may itself need the literal: so two
    // spellings else.
    for (ShapeSpeller::How how : computed.contains(now) ? std::vector{kInputs} : std::vector{kMixed, kReadOff})
      if (const auto spelled = speller.vector(*facts.content, how); spelled && g.egraph().find(*spelled) != g.egraph().find(id)) {
        g.egraph().merge(id, *spelled);
        literals.insert(g.egraph().find(id));
        computed.insert(g.egraph().find(id));
      }
  }
  g.egraph().rebuild();
}

}  // namespace saturate
