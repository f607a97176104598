// A batch that is a number becomes a name. Sizes that exporters have written into Reshapes and constants follow.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "fmt/format.h"
#include "kernels/inputs/types.h"
#include "kernels/verify/verify.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/edit.h"
#include "tools/transform/passes/passes.h"
#include "tools/transform/two_batches.h"

namespace saturate::passes {
namespace {

using Types = std::map<std::string, ValueType>;
using Dims = std::vector<std::optional<std::int64_t>>;  // nullopt: open

constexpr std::int64_t kMost = std::int64_t{1} << 31;  // of a batch
constexpr std::int64_t kTimes = 3;                     // the batch that types are inferred at besides the model's own, in multiples of it

std::optional<Dims> dims_of(const Types& types, const std::string& value) {
  const auto it = types.find(value);
  if (it == types.end() || it->second.kind != ValueType::Kind::kTensor || !it->second.shape) return std::nullopt;
  Dims dims;
  for (const DimSpec& dim : *it->second.shape) {
    const auto* number = std::get_if<std::int64_t>(&dim);
    dims.push_back(number ? std::optional(*number) : std::nullopt);
  }
  return dims;
}

// The product of the first dims; nullopt: one of them is open.
std::optional<std::int64_t> product_of_first(const Dims& dims, std::size_t count) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (!dims[i]) return std::nullopt;
    product *= *dims[i];
  }
  return product;
}

class BatchOpener {
 public:
  BatchOpener(Work& work, const Arguments& args) : work_(work), args_(args), before_(work.model) {}

  absl::Status run() {
    for (const auto step :
         {&BatchOpener::find_axes, &BatchOpener::infer_own, &BatchOpener::mend, &BatchOpener::name_dims, &BatchOpener::compare_entries})
      if (absl::Status s = (this->*step)(); !s.ok()) return s;
    if (mended_ > 0) work_.notes.push_back(fmt::format("{} sizes that were written into nodes follow the batch", mended_));
    return absl::OkStatus();
  }

 private:
  absl::Status find_axes() {
    const auto given = args_.sizes("axes");
    for (const auto& [name, axis] : given) {
      const ValueInfo* input = work_.input(name);
      if (!input || work_.initializer(name)) return args_.wrong("axes", name, "the model has no such input");
      if (!input->type.shape || axis >= static_cast<std::int64_t>(input->type.shape->size()))
        return args_.wrong("axes", name, fmt::format("it has no dim {}", axis));
      axes_[name] = static_cast<std::size_t>(axis);
    }
    if (given.empty())
      for (const ValueInfo& input : work_.graph().inputs)
        if (!work_.initializer(input.name) && input.type.kind == ValueType::Kind::kTensor && input.type.shape && !input.type.shape->empty())
          axes_[input.name] = 0;
    for (const auto& [name, axis] : axes_) {
      const auto* size = std::get_if<std::int64_t>(&(*work_.input(name)->type.shape)[axis]);
      if (!size) return args_.wrong("axes", name, fmt::format("dim {} is no number; rename_dims changes names", axis));
      if (size_ != 0 && *size != size_)
        return args_.wrong(
            "axes", name,
            fmt::format("dim {} is {}, but {} in another input; axes names the inputs that have a batch", axis, *size, size_));
      if (*size == 0) return args_.wrong("axes", name, fmt::format("dim {} is 0", axis));
      if (*size > kMost) return args_.wrong("axes", name, fmt::format("dim {} is {}, and no batch is above {}", axis, *size, kMost));
      size_ = *size;
    }
    if (axes_.empty()) return args_.wrong("axes", "", "no input has dims");
    const std::string name = args_.text("name");
    if (name.empty()) return args_.wrong("name", name, "give a name");
    for (const auto* infos : {&work_.graph().inputs, &work_.graph().outputs})
      for (const ValueInfo& info : *infos)
        if (info.type.shape && std::count(info.type.shape->begin(), info.type.shape->end(), DimSpec(name)) > 0)
          return args_.wrong("name", name, "another dim has this name; take another");
    return absl::OkStatus();
  }

  // Types at the model's own batch, and without what the file says of values behind its inputs.
  absl::Status infer_own() {
    forget_types(work_.graph());
    absl::StatusOr<Types> own = inferred_types(work_.model);
    if (!own.ok()) return own.status();
    own_ = *std::move(own);
    return absl::OkStatus();
  }

  void forget_types(Graph& graph) const {
    graph.value_info.clear();
    for (ValueInfo& output : graph.outputs)
      if (output.type.kind == ValueType::Kind::kTensor) output.type.shape.reset();
  }

  absl::StatusOr<Types> types_of_more() const {
    Model more = work_.model;
    for (const auto& [name, axis] : axes_) (*find_named(more.graph.inputs, name)->type.shape)[axis] = size_ * kTimes;
    return inferred_types(more);
  }

  // The dim that is kTimes as large with more entries; nullopt: none, or the value's dims are not known.
  std::optional<std::size_t> grown(const Types& more, const std::string& value) const {
    const auto own = dims_of(own_, value), after = dims_of(more, value);
    if (!own || !after || own->size() != after->size()) return std::nullopt;
    for (std::size_t i = 0; i < own->size(); ++i)
      if ((*own)[i] && (*after)[i] && *(*after)[i] % kTimes == 0 && *(*own)[i] == *(*after)[i] / kTimes && *(*own)[i] != 0) return i;
    return std::nullopt;
  }

  // Each round mends what is known to be reached by the batch; what stands behind it is known better in the next one.
  absl::Status mend() {
    for (;;) {
      absl::StatusOr<Types> more = types_of_more();
      if (!more.ok()) return more.status();
      const int before = mended_;
      std::unordered_set<std::string> stale;
      const Graph round = work_.graph();  // where constants are looked up, while nodes come and go
      std::vector<Node> nodes;
      for (Node node : round.nodes) {
        const bool reads_stale =
            std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& v) { return stale.contains(v); });
        const int count = mended_;
        if (!reads_stale)
          if (absl::Status s = mend(node, *more, round, nodes); !s.ok()) return s;
        if (reads_stale || mended_ != count) stale.insert(node.outputs.begin(), node.outputs.end());
        nodes.push_back(std::move(node));
      }
      work_.graph().nodes = std::move(nodes);
      more_ = *std::move(more);
      if (mended_ != before) continue;
      if (mended_ > 0) drop_unread_nodes(work_);
      return absl::OkStatus();
    }
  }

  absl::Status mend(Node& node, const Types& more, const Graph& round, std::vector<Node>& nodes) {
    if (!node.domain.empty()) return absl::OkStatus();
    if (node.op_type == "Reshape" && node.inputs.size() == 2) return mend_reshape(node, more, round);
    if (node.op_type == "Expand") mend_expand(node, more, round);
    if (node.op_type == "Concat") mend_concat(node, more, nodes);
    if (broadcasts(node)) mend_operands(node, more, nodes);
    return absl::OkStatus();
  }

  absl::Status mend_reshape(Node& node, const Types& more, const Graph& round) {
    const std::optional<std::vector<std::int64_t>> shape = constant_ints(round, node.inputs[1]);
    const auto axis = grown(more, node.inputs[0]);
    const auto in = dims_of(own_, node.inputs[0]), out = dims_of(own_, node.outputs[0]);
    if (!shape || !axis || !in || !out || out->size() != shape->size()) return absl::OkStatus();
    const auto outer = product_of_first(*in, *axis);
    const auto place = outer ? place_of_batch(*outer, size_, *out) : std::nullopt;
    const bool all_one = int_attribute(node, "allowzero", 0) != 0;
    if (!place)
      return args_.wrong(
          "axes", "", fmt::format("node '{}' (Reshape making '{}') mixes the batch with dims outside of it", node.name, node.outputs[0]));
    const std::int64_t written = (*shape)[*place];
    if (written == -1 || (written == 0 && !all_one && *place == *axis)) return absl::OkStatus();
    std::vector<std::int64_t> mended = *shape;
    const bool copies = !all_one && *place == *axis && (*out)[*place] == (*in)[*axis];
    mended[*place] = copies ? 0 : -1;
    if (!copies)
      for (std::size_t i = 0; i < mended.size(); ++i) {
        if (i == *place || mended[i] != -1) continue;
        if (!(*out)[i])
          return args_.wrong(
              "axes", "",
              fmt::format("node '{}' (Reshape making '{}') has two dims that its sizes leave open", node.name, node.outputs[0]));
        mended[i] = *(*out)[i];
      }
    replace_shape(node, mended);
    return absl::OkStatus();
  }

  // The dim of a Reshape's result that the batch goes into, of a batch with so many rows outside of it.
  static std::optional<std::size_t> place_of_batch(std::int64_t outer, std::int64_t size, const Dims& out) {
    std::optional<std::size_t> holds;
    std::int64_t before = 1;
    for (std::size_t i = 0; i < out.size() && out[i]; before *= *out[i], ++i) {
      if (before == outer && *out[i] == size) return i;  // alone in its dim
      if (!holds && before != 0 && outer % before == 0 && before * *out[i] % (outer * size) == 0) holds = i;
    }
    return holds;
  }

  // A size of the batch that is written into an Expand of something that has it already.
  void mend_expand(Node& node, const Types& more, const Graph& round) {
    std::optional<std::vector<std::int64_t>> shape = constant_ints(round, node.inputs[1]);
    const auto axis = grown(more, node.inputs[0]);
    if (!shape || !axis) return;
    const std::size_t behind = dims_of(own_, node.inputs[0])->size() - *axis;
    if (behind > shape->size() || (*shape)[shape->size() - behind] == 1) return;
    (*shape)[shape->size() - behind] = 1;
    replace_shape(node, *shape);
  }

  // The grown operand whose batch stands most to the left, with the batch's place counted from the end; {}: none.
  std::pair<std::string, std::size_t> grown_operand(const Node& node, const Types& more) const {
    std::pair<std::string, std::size_t> found{"", 0};
    for (const std::string& input : node.inputs) {
      const auto axis = grown(more, input);
      const std::size_t from_end = axis ? dims_of(own_, input)->size() - *axis : 0;
      if (from_end > found.second) found = {input, from_end};
    }
    return found;
  }

  // The operand has as many entries as the model's batch, whatever the batch is.
  bool is_fixed(const std::string& operand, std::size_t from_end, const Types& more) const {
    const auto own = dims_of(own_, operand), after = dims_of(more, operand);
    return own && own == after && own->size() >= from_end && (*own)[own->size() - from_end] == size_;
  }

  // Operands that are written for each entry of the batch become those of the first entry, which is repeated. That the entries are alike
  // is what comparing them shows.
  void mend_operands(Node& node, const Types& more, std::vector<Node>& nodes) {
    const auto [like, from_end] = grown_operand(node, more);
    if (like.empty() || size_ == 1) return;
    for (std::string& input : node.inputs)
      if (is_fixed(input, from_end, more)) input = first_entry(input, from_end, nodes);
  }

  std::string first_entry(const std::string& value, std::size_t from_end, std::vector<Node>& nodes) {
    const auto axis = static_cast<std::int64_t>(dims_of(own_, value)->size() - from_end);
    const std::string first = work_.fresh(value + "_first");
    nodes.push_back(make_node("Gather", {value, add_ints(work_, value + "_index", {0})}, first, {Attribute::of("axis", axis)}));
    ++mended_;
    return first;
  }

  // The same beside values that have an entry each, which they are joined with.
  void mend_concat(Node& node, const Types& more, std::vector<Node>& nodes) {
    const auto [like, from_end] = grown_operand(node, more);
    if (like.empty()) return;
    const std::size_t rank = dims_of(own_, like)->size(), axis = rank - from_end;
    const std::int64_t joined = int_attribute(node, "axis", 0);
    if (static_cast<std::size_t>(joined < 0 ? joined + static_cast<std::int64_t>(rank) : joined) == axis) return;
    for (std::string& input : node.inputs) {
      if (!is_fixed(input, from_end, more)) continue;
      const std::string one = size_ == 1 ? input : first_entry(input, from_end, nodes);
      const std::string whole = work_.fresh(like + "_dims"), batch = work_.fresh(like + "_batch"), spread = work_.fresh(input + "_shape"),
                        repeated = work_.fresh(input + "_of_batch");
      std::vector<std::string> sizes;
      const auto ones = [&](std::size_t count) {
        if (count > 0) sizes.push_back(add_ints(work_, input + "_ones", std::vector<std::int64_t>(count, 1)));
      };
      ones(axis);
      sizes.push_back(batch);
      ones(rank - axis - 1);
      nodes.push_back(make_node("Shape", {like}, whole));
      nodes.push_back(make_node("Gather", {whole, add_ints(work_, input + "_axis", {static_cast<std::int64_t>(axis)})}, batch,
                                {Attribute::of("axis", std::int64_t{0})}));
      nodes.push_back(make_node("Concat", sizes, spread, {Attribute::of("axis", std::int64_t{0})}));
      nodes.push_back(make_node("Expand", {one, spread}, repeated));
      input = repeated;
      ++mended_;
    }
  }

  absl::Status name_dims() {
    const DimSpec name = args_.text("name");
    BatchAxes outputs;
    for (const ValueInfo& output : work_.graph().outputs) {
      const auto axis = grown(more_, output.name);
      if (!axis) return args_.wrong("axes", "", why_not(output.name));
      outputs[output.name] = *axis;
    }
    for (const auto& [input, axis] : axes_) (*find_named(work_.graph().inputs, input)->type.shape)[axis] = name;
    for (ValueInfo& output : work_.graph().outputs) {
      output.type.shape = own_.at(output.name).shape;
      (*output.type.shape)[outputs.at(output.name)] = name;
    }
    out_axes_ = std::move(outputs);
    return absl::OkStatus();
  }

  std::string why_not(const std::string& output) const {
    for (const Node& node : work_.graph().nodes) {
      const auto known = [&](const Types& types) {
        return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& v) { return v.empty() || dims_of(types, v); });
      };
      if (known(more_) && !dims_of(more_, node.outputs[0]) && dims_of(own_, node.outputs[0]))
        return fmt::format("node '{}' ({} making '{}') takes no other batch than {}", node.name, node.op_type, node.outputs[0], size_);
    }
    return fmt::format("output '{}' has no dim that grows with the batch", output);
  }

  // Two batches at once must give what each gives alone.
  absl::Status compare_entries() {
    if (!work_.verify) return absl::OkStatus();
    TwoBatches two = two_batches(before_, axes_, out_axes_);
    forget_types(two.apart.graph);
    Model together = work_.model;
    together.graph.inputs = std::move(two.inputs);
    together.graph.nodes.insert(together.graph.nodes.begin(), two.joins.begin(), two.joins.end());
    const VerifyReport report = saturate::verify(two.apart, together, work_.check);
    if (report.status == VerifyStatus::kEqual) return absl::OkStatus();
    const absl::Status said =
        args_.wrong("axes", "", fmt::format("entries of the batch do not stay apart, or can't be verified: {}", report.message));
    return absl::Status(report.status == VerifyStatus::kDifferent ? absl::StatusCode::kDataLoss : absl::StatusCode::kUnimplemented,
                        said.message());
  }

  void replace_shape(Node& node, const std::vector<std::int64_t>& shape) {
    node.inputs[1] = add_ints(work_, node.outputs[0] + "_shape", shape);
    ++mended_;
  }

  Work& work_;
  const Arguments& args_;
  const Model before_;
  BatchAxes axes_, out_axes_;  // the batch's, by inputs and by outputs
  std::int64_t size_ = 0;
  Types own_, more_;
  int mended_ = 0;
};

}  // namespace

absl::Status open_batch(Work& work, const Arguments& args) { return BatchOpener(work, args).run(); }

}  // namespace saturate::passes
