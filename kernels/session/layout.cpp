// Channels last around convolutions: a walk over the nodes that keeps, for every value, its [N, H, W, C] twin where there is one.
#include <algorithm>
#include <array>
#include <optional>

#include "kernels/conv/channels_last.h"
#include "kernels/session/graph.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

const Shape kToLast{0, 2, 3, 1}, kToFirst{0, 3, 1, 2};

std::vector<Attribute> attributes_of(const Node& node, std::initializer_list<std::string_view> names) {
  std::vector<Attribute> out;
  for (const Attribute& a : node.attributes)
    if (one_of(a.name, names)) out.push_back(a);
  return out;
}

class ChannelsLast {
 public:
  explicit ChannelsLast(SessionGraph& g) : g_(g) {}

  void run() {
    std::vector<Node> nodes = std::move(g_.graph.nodes);
    for (Node& node : nodes) {
      if (!convert(node)) keep(std::move(node));
    }
    for (const ValueInfo& output : g_.graph.outputs) need_first(output.name);
    g_.graph.nodes = std::move(out_);
    g_.count_uses();
  }

 private:
  bool convert(const Node& node) {
    if (!node.domain.empty() && node.domain != "ai.onnx") return false;
    if (node.outputs.size() != 1 || node.inputs.empty()) return false;
    if (node.op_type == "Conv") return conv(node);
    if (node.op_type.ends_with("MaxPool") || node.op_type.ends_with("AveragePool")) return pool(node);
    if (node.op_type == "ReduceMean") return mean(node);
    if (node.op_type == "Concat") return concat(node);
    if (has(Trait::kGivesBool, node)) return false;
    if (has(Trait::kBinaryElementwise, node)) return g_.opset >= 7 && binary(node);
    return has(Trait::kLikeFirst, node) && (has(Trait::kUnaryElementwise, node) || node.op_type == "Clip") && unary(node);
  }

  bool conv(const Node& node) {
    const Tensor* w = node.inputs.size() > 1 ? g_.constant(node.inputs[1]) : nullptr;
    if (w == nullptr || w->rank() != 4 || w->dtype() != DType::kFloat || w->size() == 0) return false;
    const Attribute* group = find_attribute(node.attributes, "group");
    if (group != nullptr && group->type != AttributeType::kInt) return false;
    const std::int64_t groups = group == nullptr ? 1 : group->i();
    if (groups != 1 && (groups != w->dims()[0] || w->dims()[1] != 1)) return false;  // one filter a channel, or no groups
    Node made{node.name, "Conv", std::string(kSessionDomain), "", node.inputs, {}, node.attributes, nullptr};
    std::erase_if(made.attributes, [](const Attribute& a) { return one_of(a.name, {"activation", "low", "high"}); });
    made.inputs[0] = last(node.inputs[0], true);
    if (groups == 1 && w->dims()[2] == 1 && w->dims()[3] == 1) take_product(node.inputs[0], made);
    emit(node, std::move(made));
    return true;
  }

  // x * factors, which nothing else reads, under a convolution of single positions: as inputs 0 and 4, the kernel multiplies what is
  // smaller.
  void take_product(const std::string& name, Node& conv) {
    if (g_.uses(name) != 1 || conv.inputs.size() > 3) return;
    const auto is_product = [&](const Node& n) {
      return !n.outputs.empty() && n.outputs[0] == conv.inputs[0] && is_standard(n, "Mul") && n.inputs[0] != n.inputs[1];
    };
    const auto it = std::find_if(out_.rbegin(), out_.rend(), is_product);
    if (it == out_.rend() ||
        std::any_of(it->inputs.begin(), it->inputs.end(), [&](const std::string& n) { return g_.constant(n) != nullptr; }))
      return;
    conv.inputs.resize(5);
    conv.inputs[0] = it->inputs[0];
    conv.inputs[4] = it->inputs[1];
    remove(static_cast<std::size_t>(out_.rend() - it) - 1);
  }
  Node remove(std::size_t at) {
    Node node = std::move(out_[at]);
    out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(at));
    std::erase_if(made_by_, [at](const auto& entry) { return entry.second == at; });
    for (auto& [name, index] : made_by_) index -= index > at;
    return node;
  }

  bool pool(const Node& node) {
    if (!last_.contains(node.inputs[0])) return false;
    const bool global = node.op_type.starts_with("Global");
    Node made{node.name,
              node.op_type.ends_with("MaxPool") ? "MaxPool" : "AveragePool",
              std::string(kSessionDomain),
              "",
              {last(node.inputs[0])},
              {},
              {},
              nullptr};
    if (global)
      made.attributes.push_back(Attribute::of("global", std::int64_t{1}));
    else
      made.attributes = attributes_of(node, {"kernel_shape", "strides", "dilations", "pads", "auto_pad", "ceil_mode", "count_include_pad"});
    emit(node, std::move(made));
    return true;
  }

  // Over height and width.
  bool mean(const Node& node) {
    if (!last_.contains(node.inputs[0])) return false;
    std::vector<std::int64_t> axes;
    if (const Attribute* a = find_attribute(node.attributes, "axes")) {
      if (a->type != AttributeType::kInts) return false;
      axes = a->ints();
    } else if (node.inputs.size() > 1) {
      const Tensor* t = g_.constant(node.inputs[1]);
      if (t == nullptr || t->dtype() != DType::kInt64) return false;
      axes.assign(t->data<std::int64_t>(), t->data<std::int64_t>() + t->size());
    }
    for (std::int64_t& a : axes) a = a < 0 ? a + 4 : a;
    std::sort(axes.begin(), axes.end());
    if (axes != std::vector<std::int64_t>{2, 3}) return false;
    const Attribute* keep = find_attribute(node.attributes, "keepdims");
    Node made{
        node.name, "AveragePool", std::string(kSessionDomain), "", {last(node.inputs[0])}, {}, {Attribute::of("global", std::int64_t{1})},
        nullptr};
    if (keep == nullptr || keep->type != AttributeType::kInt || keep->i() == 1) {
      emit(node, std::move(made));
      return true;
    }
    const std::string pooled = g_.fresh(node.outputs[0]), shape = g_.fresh(node.outputs[0]);
    made.outputs = {pooled};
    out_.push_back(std::move(made));
    g_.add_constant(shape, Tensor::vector_int64(std::array<std::int64_t, 2>{0, -1}));
    out_.push_back({node.name, "Reshape", "", "", {pooled, shape}, node.outputs, {}, nullptr});
    return true;
  }

  bool concat(const Node& node) {
    const Attribute* axis = find_attribute(node.attributes, "axis");
    if (axis == nullptr || axis->type != AttributeType::kInt || (axis->i() != 1 && axis->i() != -3)) return false;
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& n) { return last_.contains(n); })) return false;
    Node made{node.name, "Concat", "", "", {}, {}, {Attribute::of("axis", std::int64_t{3})}, nullptr};
    for (const std::string& name : node.inputs) made.inputs.push_back(last(name));
    emit(node, std::move(made));
    return true;
  }

  bool unary(const Node& node) {
    if (!last_.contains(node.inputs[0])) return false;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {  // bounds of Clip
      const Tensor* t = node.inputs[i].empty() ? nullptr : g_.constant(node.inputs[i]);
      if (!node.inputs[i].empty() && (t == nullptr || t->size() != 1 || t->dtype() != DType::kFloat)) return false;
    }
    if (fuse_activation(node)) return true;
    Node made = node;
    made.inputs[0] = last(node.inputs[0]);
    emit(node, std::move(made));
    return true;
  }

  bool binary(const Node& node) {
    if (node.inputs.size() != 2) return false;
    if (!last_.contains(node.inputs[0]) && !last_.contains(node.inputs[1])) return false;
    if (fuse_residual(node)) return true;
    Node made = node;
    for (std::string& input : made.inputs) {
      if (last_.contains(input)) {
        input = last(input);
        continue;
      }
      const std::optional<std::string> moved = moved_constant(input);
      if (!moved) return false;
      input = *moved;
    }
    emit(node, std::move(made));
    return true;
  }

  // A constant that broadcasts over [N, C, H, W] as one that does so over [N, H, W, C].
  std::optional<std::string> moved_constant(const std::string& name) {
    const Tensor* t = g_.constant(name);
    if (t == nullptr || t->rank() > 4) return std::nullopt;
    if (t->size() == 1) return name;
    Shape dims(static_cast<std::size_t>(4 - t->rank()), 1);
    dims.insert(dims.end(), t->dims().begin(), t->dims().end());
    if (dims[0] != 1 || dims[2] != 1 || dims[3] != 1) return std::nullopt;
    const std::string moved = g_.fresh(name);
    g_.add_constant(moved, t->reshaped({dims[1]}));
    return moved;
  }

  // The convolution that made a value which nothing else reads, if it can still take `what`.
  Node* open_conv(const std::string& name, std::string_view what) {
    if (g_.uses(name) != 1) return nullptr;
    const auto it = made_by_.find(name);
    if (it == made_by_.end()) return nullptr;
    Node& conv = out_[it->second];
    if (find_attribute(conv.attributes, "activation") != nullptr ||
        (what == "residual" && conv.inputs.size() > 3 && !conv.inputs[3].empty()))
      return nullptr;
    return &conv;
  }

  bool fuse_activation(const Node& node) {
    if (epilogue_named(node.op_type) == Epilogue::kNone) return false;
    if (const Attribute* a = find_attribute(node.attributes, "approximate");
        a != nullptr && a->type == AttributeType::kString && a->s() != "none")
      return false;
    if (const Attribute* a = find_attribute(node.attributes, "alpha"); a != nullptr) return false;
    Node* conv = open_conv(node.inputs[0], "activation");
    if (conv == nullptr) return false;
    if (node.op_type == "Clip") {
      const char *names[] = {"low", "high"}, *old_names[] = {"min", "max"};
      for (std::size_t i = 0; i < 2; ++i) {
        if (i + 1 < node.inputs.size() && !node.inputs[i + 1].empty())
          conv->attributes.push_back(Attribute::of(names[i], *g_.constant(node.inputs[i + 1])->data<float>()));
        if (const Attribute* a = find_attribute(node.attributes, old_names[i]); a != nullptr && a->type == AttributeType::kFloat)
          conv->attributes.push_back(Attribute::of(names[i], a->f()));
      }
    }
    conv->attributes.push_back(Attribute::of("activation", node.op_type));
    alias(node, node.inputs[0]);
    return true;
  }

  // Conv + Z: the convolution moves to where Z is known.
  bool fuse_residual(const Node& node) {
    if (node.op_type != "Add" || node.inputs[0] == node.inputs[1] || !last_.contains(node.inputs[0]) || !last_.contains(node.inputs[1]))
      return false;
    for (int side : {1, 0}) {
      Node* conv = open_conv(node.inputs[side], "residual");
      if (conv == nullptr) continue;
      Node moved = remove(static_cast<std::size_t>(conv - out_.data()));
      moved.inputs.resize(std::max<std::size_t>(4, moved.inputs.size()));
      moved.inputs[3] = last(node.inputs[1 - side]);
      last_[node.outputs[0]] = moved.outputs[0];
      out_.push_back(std::move(moved));
      made_by_[node.outputs[0]] = out_.size() - 1;
      return true;
    }
    return false;
  }

  void alias(const Node& node, const std::string& input) {
    last_[node.outputs[0]] = last_[input];
    if (const auto it = made_by_.find(input); it != made_by_.end()) made_by_[node.outputs[0]] = it->second;
  }

  // The twin of a value; made by a Transpose where there is none and `make` says so.
  std::string last(const std::string& name, bool make = false) {
    if (const auto it = last_.find(name); it != last_.end()) return it->second;
    if (!make) return {};
    const std::string twin = g_.fresh(name);
    out_.push_back({twin, "Transpose", "", "", {name}, {twin}, {Attribute::of("perm", kToLast)}, nullptr});
    have_first_.insert(name);
    return last_[name] = twin;
  }

  void emit(const Node& node, Node made) {
    const std::string twin = g_.fresh(node.outputs[0]);
    made.outputs = {twin};
    out_.push_back(std::move(made));
    last_[node.outputs[0]] = twin;
    if (node.op_type == "Conv") made_by_[node.outputs[0]] = out_.size() - 1;
  }

  // Values that only exist with channels last are brought back where somebody else reads them.
  void need_first(const std::string& name) {
    const auto it = last_.find(name);
    if (it == last_.end() || !have_first_.insert(name).second) return;
    out_.push_back({name, "Transpose", "", "", {it->second}, {name}, {Attribute::of("perm", kToFirst)}, nullptr});
  }

  void keep(Node node) {
    for (const std::string& name : node.inputs) need_first(name);
    for (const Attribute& a : node.attributes) {
      if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value); g != nullptr && *g != nullptr)
        for (const std::string& name : captured_names(**g)) need_first(name);
      if (const auto* gs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
        for (const auto& g : *gs)
          for (const std::string& name : captured_names(*g)) need_first(name);
    }
    out_.push_back(std::move(node));
  }

  SessionGraph& g_;
  std::vector<Node> out_;
  std::unordered_map<std::string, std::string> last_;     // value -> its twin
  std::unordered_map<std::string, std::size_t> made_by_;  // value -> the convolution in out_ whose result its twin is
  std::set<std::string> have_first_;                      // values that exist as they were
};

}  // namespace

void lay_out_channels_last(SessionGraph& g) {
  if (std::any_of(g.graph.nodes.begin(), g.graph.nodes.end(), [](const Node& n) { return is_standard(n, "Conv"); })) ChannelsLast(g).run();
}

}  // namespace saturate
