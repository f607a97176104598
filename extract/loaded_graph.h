// A lowered model as the target's runtime loads it (load_as_it_is in extract/onnx_problem.h): node by node, since equal values of a model
// are one class, and the runtime computes each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "extract/onnx_problem.h"
#include "extract/target/load_match.h"

namespace saturate {

struct LoadedNode {
  OpKey key;
  OpId op = kNone;          // of its e-node; kNone where the runtime made it
  std::vector<Id> classes;  // children of that
  std::vector<int> inputs, outputs;
  std::map<std::string, int> beside;
  bool gone = false, guesses_size = false;   // a Reshape to a shape with -1, which was a size that the runtime knew by its name
  const ::saturate::Node* source = nullptr;  // of the model, where it has a body
  bool in_integers = false;                  // the kernel of a unit (node_units.h): `op` is what it computes as floats
};

class LoadedGraph {
 public:
  // As a view of LoadMatcher.
  using Value = int;
  using Node = int;

  LoadedGraph(const OnnxEGraph& g, const Lowered& lowered);

  void fuse(const LoadFusion& fusion);
  // Operators between quantizers become integer kernels.
  void join_units(const Target& target);
  AtLoad sum(const CostModel& cost) const;

  std::vector<int> nodes_of(int v) const {
    const int maker = makers_[at(v)];
    return maker < 0 || nodes_[at(maker)].gone ? std::vector<int>() : std::vector<int>{maker};
  }
  std::uint64_t bits_of(int v) const {
    const std::vector<int> maker = nodes_of(v);
    return maker.empty() ? 0 : operator_bit(key(maker[0]).domain, key(maker[0]).op_type);
  }
  const OpKey& key(int n) const { return nodes_[at(n)].key; }
  const std::vector<int>& inputs(int n) const { return nodes_[at(n)].inputs; }
  int value_of(int n) const { return nodes_[at(n)].outputs.front(); }
  std::optional<int> output_of(int n, std::size_t i) const {
    return i < nodes_[at(n)].outputs.size() ? std::optional(nodes_[at(n)].outputs[i]) : std::nullopt;
  }
  const Facts& facts(int v) const { return g_.facts(classes_[at(v)]); }
  // Of what the runtime has as a constant, not of what we can prove.
  std::optional<double> number(int v) const { return nodes_of(v).empty() ? number_of(g_, classes_[at(v)]) : std::nullopt; }
  bool is_commutative(int n) const { return nodes_[at(n)].op != kNone && e_.op(nodes_[at(n)].op).commutative; }
  bool is_shape_known(int v) const { return shape_known_[at(v)]; }
  bool is_rank_known(int v) const { return rank_known_[at(v)]; }
  static void add_node(int n, LoadMatch<LoadedGraph>& m) { m.nodes.push_back(n); }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  struct Cut {
    std::int64_t axis, begin, end;
  };

  // The graph as it was lowered.
  void add(const Source& s);
  int new_value(Id id, int maker);
  int value_named(const std::string& name, Id id);
  int value_of_class(Id id);
  std::vector<int> inputs_of(const Source& s);

  // What the runtime computes, and what it knows (loaded_shapes.cpp).
  void settle(const Model& model);
  bool is_computed(const LoadedNode& node, const std::vector<bool>& constant) const;
  void drop_what_is_computed();
  void join_equal();
  std::string constant_key(int v) const;
  void note_known_shapes(const Model& model);
  bool is_told(int v, const ValueInfo& info) const;
  void join_shapes();
  bool joins_shape(LoadedNode& node);
  bool is_known(int v) const { return facts(v).constant && nodes_of(v).empty(); }
  std::optional<std::int64_t> length_of(int v) const;
  bool is_size_of(int v, int x, std::int64_t place) const;
  void join_pieces();
  std::optional<Cut> cut_of(int n) const;
  std::size_t count_gone() const;

  std::optional<bool> branch_of(const LoadedNode& node) const;

  void drop_with_makers(int n);
  bool drop_if_unread(int n);

  bool is_alone(const LoadMatch<LoadedGraph>& m, const LoadFusion& fusion) const;
  bool fuse_at(int n, const LoadFusion& fusion, const LoadMatcher<LoadedGraph>& matcher, const LoadGuards<LoadedGraph>& guards);
  void take_out(const LoadMatch<LoadedGraph>& m, const LoadFusion& fusion);
  int make(MadeAtLoad<LoadedGraph> made);
  bool replace(const LoadMatch<LoadedGraph>& m, const LoadFusion& fusion, int by);

  // loaded_transposes.cpp
  void move_transposes();
  int transpose_of(int v) const;
  bool is_link(const LoadedNode& node) const;
  void read_in_place_of(int n, int was, int now);
  bool joins_transposes(int n);
  void bypass(int n);
  void read_everywhere(int was, int now);
  void hand_over_readers(int was, int now);  // the lists of readers alone
  bool leaves_transpose(int n);
  void pass_transpose(int n);

  // Units (loaded_units.cpp).
  struct Unit {
    const NodeUnit* unit = nullptr;
    std::vector<int> dequantizers;  // by input; -1: read as it is
    int quantize = -1;
  };
  std::optional<Unit> unit_of(int n, const NodeUnit& unit, const Target& target) const;
  bool closes(int n, Unit& found) const;
  void join_unit(int n, const Unit& found);
  int only_reader(int v) const;

  // loaded_blocks.cpp
  class Blocks;
  double laid_out_anew(const CostModel& cost) const;

  double price(const LoadedNode& node, const CostModel& cost) const;

  const OnnxEGraph& g_;
  const EGraph& e_;
  std::vector<LoadedNode> nodes_;
  std::vector<Id> classes_;  // by value, as are these
  std::vector<int> makers_, readers_;
  std::vector<bool> shape_known_, rank_known_, is_input_;  // is_input_: of the graph itself
  std::vector<std::vector<int>> users_;                    // nodes; also such as are gone
  std::vector<int> outputs_;
  std::int64_t opset_ = 0;  // of the model
  std::unordered_map<std::string, int> names_;
  std::map<Id, int> others_;
};

}  // namespace saturate
