#include "tools/transform/clamp_values.h"

#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "onnx_bridge/graph/floats.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/graph/questions.h"

namespace saturate {
namespace {

constexpr std::int64_t kFirstWithBoundsAsInputs = 11;  // Clip

class Clamper {
 public:
  Clamper(Model& model, const std::map<std::string, double>& most) : model_(model), graph_(model.graph), most_(most), fresh_(graph_) {}

  void run() && {
    for (const auto& [value, most] : most_)
      if (find_named(graph_.inputs, value)) clamp_input(value, most);
    for (Initializer& i : graph_.initializers)
      if (const auto most = bound_of(i.name); most && !find_named(graph_.inputs, i.name))
        if (auto tensor = clamped(i.tensor, *most)) i = {i.name, *std::move(tensor), nullptr, false};
    std::vector<Node> before = std::exchange(graph_.nodes, std::move(in_front_));
    for (Node& node : before) clamp_results(std::move(node));
  }

 private:
  std::optional<double> bound_of(const std::string& value) const {
    const auto it = most_.find(value);
    return it == most_.end() ? std::nullopt : std::optional(it->second);
  }

  static std::optional<Tensor> clamped(const Tensor& tensor, double most) {
    auto below = replaced(
        tensor, [&](double x) { return std::isfinite(x) && x > most; }, most);
    auto both = replaced(
        below ? *below : tensor, [&](double x) { return std::isfinite(x) && x < -most; }, -most);
    return both ? both : below;
  }

  // An input keeps its name, and so does an output that it is.
  void clamp_input(const std::string& value, double most) {
    const std::string inside = fresh_(value + "_clamped");
    rename_values(graph_, {{value, inside}}, fresh_);
    find_named(graph_.inputs, inside)->name = value;
    if (Initializer* fallback = find_named(graph_.initializers, inside)) fallback->name = value;
    if (ValueInfo* output = find_named(graph_.outputs, inside)) output->name = value;
    add_clip(value, inside, most, in_front_);
  }

  void clamp_results(Node node) {
    std::vector<Node> clips;
    for (std::string& made : node.outputs) {
      const auto most = bound_of(made);
      if (!most) continue;
      if (is_operator(node, "Constant")) {
        clamp_constant(node, *most);
        continue;
      }
      const std::string value = std::exchange(made, fresh_(made + "_beyond"));
      add_clip(made, value, *most, clips);
    }
    graph_.nodes.push_back(std::move(node));
    std::move(clips.begin(), clips.end(), std::back_inserter(graph_.nodes));
  }

  static void clamp_constant(Node& node, double most) {
    for (Attribute& a : node.attributes) {
      const auto* held = std::get_if<Tensor>(&a.value);
      auto tensor = held ? clamped(*held, most) : std::nullopt;
      if (!tensor) continue;
      a = Attribute::of(a.name, *std::move(tensor));
      node.origin = nullptr;
    }
  }

  void add_clip(const std::string& from, const std::string& to, double most, std::vector<Node>& nodes) {
    const auto high = static_cast<float>(most);
    Node clip = make_node("Clip", {from}, to);
    clip.name = fresh_("clamp_" + to);
    if (model_.opset("") < kFirstWithBoundsAsInputs) {
      clip.attributes = {Attribute::of("min", -high), Attribute::of("max", high)};
    } else {
      for (const auto& [what, bound] : {std::pair("_least", -high), std::pair("_most", high)}) {
        clip.inputs.push_back(fresh_(to + what));
        graph_.initializers.push_back({clip.inputs.back(), Tensor::of<float>(DType::kFloat, {}, std::span(&bound, 1)), nullptr, false});
      }
    }
    nodes.push_back(std::move(clip));
  }

  Model& model_;
  Graph& graph_;
  const std::map<std::string, double>& most_;
  FreshNames fresh_;
  std::vector<Node> in_front_;
};

}  // namespace

void clamp_values(Model& model, const std::map<std::string, double>& most) { Clamper(model, most).run(); }

}  // namespace saturate
