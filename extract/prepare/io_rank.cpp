#include "extract/prepare/io_rank.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <unordered_set>

#include "extract/prepare/first_versions.h"
#include "extract/sizes/op_sizes.h"
#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

// Inputs of operators that hold indices, shapes, axes or counts: bit i is input i.
struct IndexInputs {
  std::string_view op;
  unsigned inputs;
};
constexpr auto kIndexInputs = std::to_array<IndexInputs>({
    {"Gather", 0b10},
    {"GatherND", 0b10},
    {"ScatterND", 0b10},
    {"Reshape", 0b10},
    {"Expand", 0b10},
    {"Tile", 0b10},
    {"Squeeze", 0b10},
    {"Unsqueeze", 0b10},
    {"ConstantOfShape", 0b1},
    {"Range", 0b111},
    {"Slice", 0b11110},
    {"Pad", 0b1010},
    {"Resize", 0b1000},
    {"Split", 0b10},
    {"TopK", 0b10},
    {"OneHot", 0b10},
    {"CumSum", 0b10},
    {"Loop", 0b1},
    {"com.microsoft::EmbedLayerNormalization", 0b11},
});

bool holds_indices(const Node& node, std::size_t position) {
  const std::string name = operator_name(node.domain, node.op_type);
  return std::any_of(kIndexInputs.begin(), kIndexInputs.end(),
                     [&](const IndexInputs& known) { return known.op == name && (known.inputs >> position & 1) != 0; });
}

template <typename Infos>
bool lists(const Infos& infos, const std::string& name) {
  return std::any_of(infos.begin(), infos.end(), [&](const auto& info) { return info.name == name; });
}

// How an integer value is read: as indices alone, or also as numbers.
struct Reads {
  bool indices = false, numbers = false;
};

class Readers {
 public:
  explicit Readers(const Graph& graph) : view_(graph) {}

  bool only_indexes(const ValueInfo& input) const {
    if (input.type.dtype != DType::kInt64 && input.type.dtype != DType::kInt32) return false;
    Reads reads;
    see(input.name, reads);
    return reads.indices && !reads.numbers;
  }

 private:
  void see(const std::string& value, Reads& reads) const {
    if (view_.is_read_by_body(value) || view_.is_output(value)) reads.numbers = true;
    if (reads.numbers) return;
    for (const auto& [node, position] : view_.uses(value)) {
      if (node->domain.empty() && one_of(node->op_type, {"Shape", "Size"})) continue;  // reads no element
      if (holds_indices(*node, position)) {
        reads.indices = true;
      } else if (node->domain.empty() && one_of(node->op_type, {"Cast", "Identity"}) && !node->outputs.empty()) {
        see(node->outputs[0], reads);
      } else {
        reads.numbers = true;
      }
    }
  }

  GraphView view_;
};

// Shapes of outputs whose rank the model does not say, as far as they can be inferred.
class InferredShapes {
 public:
  explicit InferredShapes(const Model& model) : model_(model) {}

  absl::StatusOr<std::optional<std::vector<DimSpec>>> of(std::size_t output) {
    if (!ranks_) {
      const auto evaluator = make_evaluator();
      OnnxEGraph g(*evaluator);
      const auto lowered = lower(model_, g);
      if (!lowered.ok()) return lowered.status();
      ranks_.emplace();
      for (const Id root : lowered->roots) {
        const Facts& facts = g.facts(root);
        ranks_->push_back(facts.has_rank() ? std::optional(facts.shape->size()) : std::nullopt);
      }
    }
    const auto& rank = ranks_->at(output);
    if (!rank) return std::optional<std::vector<DimSpec>>();
    return std::optional(std::vector<DimSpec>(*rank));
  }

 private:
  const Model& model_;
  std::optional<std::vector<std::optional<std::size_t>>> ranks_;
};

class Planner {
 public:
  Planner(const Model& model, std::int64_t rank) : model_(model), graph_(model.graph), inferred_(model) { io_.rank = rank; }

  absl::StatusOr<IoRank> plan() && {
    const Readers readers(graph_);
    for (const ValueInfo& input : graph_.inputs) {
      if (lists(graph_.initializers, input.name))
        keep_initializer(input);
      else if (readers.only_indexes(input))
        keep(input, "only read as indices or shapes");
      else if (absl::Status s = see("input", input, input.type.shape, io_.inputs); !s.ok())
        return s;
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
      if (absl::Status s = see_output(i); !s.ok()) return s;
    if (absl::Status s = check_bodies(); !s.ok()) return s;
    return std::move(io_);
  }

 private:
  void keep(const ValueInfo& value, std::string because) {
    const bool as_asked = value.type.kind == ValueType::Kind::kTensor && value.type.shape && is_asked(value.type.shape->size());
    if (!as_asked && !lists(io_.kept, value.name)) io_.kept.push_back({value.name, std::move(because)});
  }

  // Before IR 4 it is a constant, and no input at all.
  void keep_initializer(const ValueInfo& input) {
    if (model_.ir_version >= kFirstWithDefaults || lists(graph_.outputs, input.name)) keep(input, "has a default");
  }

  bool is_asked(std::size_t rank) const { return static_cast<std::int64_t>(rank) == io_.rank; }

  absl::Status see_output(std::size_t i) {
    const ValueInfo& output = graph_.outputs[i];
    if (lists(io_.kept, output.name)) return absl::OkStatus();  // an input that stays
    if (lists(io_.outputs, output.name)) return absl::OkStatus();
    const auto input = std::find_if(graph_.inputs.begin(), graph_.inputs.end(), [&](const ValueInfo& v) { return v.name == output.name; });
    if (input != graph_.inputs.end()) return see("output", output, input->type.shape, io_.outputs);
    std::optional<std::vector<DimSpec>> shape = output.type.shape;
    if (output.type.kind == ValueType::Kind::kTensor && !shape) {
      auto inferred = inferred_.of(i);
      if (!inferred.ok()) return inferred.status();
      shape = *std::move(inferred);
    }
    return see("output", output, shape, io_.outputs);
  }

  absl::Status see(std::string_view what, const ValueInfo& value, const std::optional<std::vector<DimSpec>>& shape,
                   std::vector<IoRank::Changed>& changed) {
    if (value.type.kind != ValueType::Kind::kTensor) {
      keep(value, "is no tensor");
      return absl::OkStatus();
    }
    if (!shape)
      return absl::InvalidArgumentError(
          fmt::format("--io-rank {}: the rank of {} '{}' is not known; --input-shapes gives those of inputs", io_.rank, what, value.name));
    const auto rank = static_cast<std::int64_t>(shape->size());
    if (rank > io_.rank)
      return absl::InvalidArgumentError(
          fmt::format("--io-rank {}: {} '{}' has rank {}; give {} or more", io_.rank, what, value.name, rank, rank));
    if (is_asked(shape->size())) return absl::OkStatus();
    IoRank::Changed change{value.name, value.type, value.type};
    change.before.shape = shape;
    change.after.shape = std::vector<DimSpec>(static_cast<std::size_t>(io_.rank - rank), DimSpec(std::int64_t{1}));
    change.after.shape->insert(change.after.shape->end(), shape->begin(), shape->end());
    changed.push_back(std::move(change));
    return absl::OkStatus();
  }

  // A body that gives away a value from outside as it is can't be told another name for it.
  absl::Status check_bodies() const {
    std::map<std::string, std::string> renamed;
    for (const auto* changed : {&io_.inputs, &io_.outputs})
      for (const IoRank::Changed& c : *changed) renamed[c.name] = "";
    for (const Node& node : graph_.nodes) {
      std::string given_away;
      for_each_body(node, [&](const Graph& body) {
        for (const std::string& name : captured_names(*rename_captures(body, renamed)))
          if (renamed.contains(name)) given_away = name;
      });
      if (!given_away.empty())
        return absl::InvalidArgumentError(fmt::format(
            "--io-rank {}: a body of the {} that makes '{}' has the outer value '{}' as its own output; put an Identity between", io_.rank,
            node.op_type, first_output(node), given_away));
    }
    return absl::OkStatus();
  }

  const Model& model_;
  const Graph& graph_;
  InferredShapes inferred_;
  IoRank io_;
};

// Puts views between the values of a graph and its inputs and outputs.
class Rewirer {
 public:
  Rewirer(Model model, Interface to) : model_(std::move(model)), graph_(model_.graph), to_(to), fresh_(model_.graph) {
    if (model_.opset("") == 0) model_.opset_imports[""] = kOpsetOfNone;
  }

  Model run(const IoRank& io) && {
    for (const IoRank::Changed& c : io.inputs) add_input(c);
    for (const IoRank::Changed& c : io.outputs) add_output(c);
    rename();
    graph_.nodes.insert(graph_.nodes.begin(), std::make_move_iterator(in_front_.begin()), std::make_move_iterator(in_front_.end()));
    graph_.nodes.insert(graph_.nodes.end(), std::make_move_iterator(behind_.begin()), std::make_move_iterator(behind_.end()));
    return std::move(model_);
  }

 private:
  void set_type(std::vector<ValueInfo>& infos, const IoRank::Changed& change) const {
    for (ValueInfo& info : infos) {
      if (info.name != change.name) continue;
      info.type = to_ == Interface::kAsked ? change.after : change.before;
      info.origin = nullptr;
    }
  }

  void add_view(std::vector<Node>& nodes, const char* op, const std::string& from, const std::string& to, std::size_t ones) {
    std::vector<std::int64_t> axes(ones);
    std::iota(axes.begin(), axes.end(), 0);
    Node view;
    view.op_type = op;
    view.inputs = {from};
    view.outputs = {to};
    if (model_.opset("") < kFirstWithAxesAsInput) {
      view.attributes = {Attribute::of("axes", axes)};
    } else {
      Node constant;
      constant.op_type = "Constant";
      constant.outputs = {fresh_(to + "_axes_inside")};
      constant.attributes = {Attribute::of("value", Tensor::of<std::int64_t>(DType::kInt64, {static_cast<std::int64_t>(ones)}, axes))};
      view.inputs.push_back(constant.outputs[0]);
      nodes.push_back(std::move(constant));
    }
    nodes.push_back(std::move(view));
  }

  void add_input(const IoRank::Changed& change) {
    set_type(graph_.inputs, change);
    const std::string inside = renamed_[change.name] = fresh_(change.name + "_inside");
    add_view(in_front_, to_ == Interface::kAsked ? "Squeeze" : "Unsqueeze", change.name, inside, change.ones());
  }

  void add_output(const IoRank::Changed& change) {
    set_type(graph_.outputs, change);
    if (lists(graph_.inputs, change.name)) return;  // it has changed as an input
    const std::string inside = renamed_[change.name] = fresh_(change.name + "_inside");
    add_view(behind_, to_ == Interface::kAsked ? "Unsqueeze" : "Squeeze", inside, change.name, change.ones());
  }

  void rename() {
    const auto change = [&](std::string& name) {
      if (const auto it = renamed_.find(name); it != renamed_.end()) name = it->second;
    };
    for (Node& node : graph_.nodes) {
      std::for_each(node.inputs.begin(), node.inputs.end(), change);
      std::for_each(node.outputs.begin(), node.outputs.end(), change);
      for (Attribute& a : node.attributes)
        if (a.type == AttributeType::kGraph) a.value = rename_captures(a.g(), renamed_);
    }
    for (Initializer& i : graph_.initializers) change(i.name);
    std::erase_if(graph_.value_info, [&](const ValueInfo& v) { return renamed_.contains(v.name); });
  }

  Model model_;
  Graph& graph_;
  Interface to_;
  FreshNames fresh_;
  std::map<std::string, std::string> renamed_;
  std::vector<Node> in_front_, behind_;
};

}  // namespace

absl::StatusOr<IoRank> plan_io_rank(const Model& model, std::int64_t rank) { return Planner(model, rank).plan(); }

Model with_interface(Model model, const IoRank& io, Interface to) { return Rewirer(std::move(model), to).run(io); }

absl::StatusOr<Model> with_io_rank(Model model, std::int64_t rank) {
  absl::StatusOr<IoRank> plan = plan_io_rank(model, rank);
  if (!plan.ok()) return plan.status();
  return with_interface(std::move(model), *plan, Interface::kAsked);
}

}  // namespace saturate
