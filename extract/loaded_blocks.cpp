// Blocks of channels, in which a runtime runs convolutions of images (extract/sizes/blocks.h): at each border between what works in them
// and what does not, the runtime lays a value out anew when it loads a model.
#include <algorithm>
#include <string>
#include <string_view>

#include "extract/loaded_graph.h"
#include "extract/sizes/blocks.h"

namespace saturate {
namespace {

std::optional<std::int64_t> size_of(const OnnxEGraph& g, const Facts& f, std::size_t axis) {
  return f.shape && axis < f.shape->size() ? g.dims().value((*f.shape)[axis]) : std::nullopt;
}

bool is_image(const Facts& f) { return f.dtype == DType::kFloat && f.shape && f.shape->size() == 4; }

std::string_view role_of(const OpKey& key) {
  const bool known = key.domain.empty() || key.domain == "com.microsoft";
  return known ? role_in_blocks(key.op_type) : std::string_view();
}

}  // namespace

// Which values lie in blocks, and which operators work in them.
class LoadedGraph::Blocks {
 public:
  explicit Blocks(const LoadedGraph& graph) : graph_(graph), known_(graph.classes_.size(), kNotAsked) {}

  bool works_in(int n) {
    const LoadedNode& node = graph_.nodes_[at(n)];
    const std::string_view role = role_of(node.key);
    if (role.empty() || node.inputs.empty() || node.outputs.empty() || node.inputs[0] < 0 || !is_image(graph_.facts(node.inputs[0])))
      return false;
    if (role == kBlocksOfFilters) return convolves_in_blocks(node);
    if (role == kBlocksOfChannels) return size_of(graph_.g_, graph_.facts(node.inputs[0]), 1).value_or(1) % kLargestBlock == 0;
    return stays_in_blocks(node, role);
  }

  bool has(int v) {
    if (v < 0) return false;
    signed char& known = known_[at(v)];
    if (known == kNotAsked) {
      known = 0;  // of a value that hangs on itself
      const std::vector<int> maker = graph_.nodes_of(v);
      known = !maker.empty() && works_in(maker[0]) ? 1 : 0;
    }
    return known == 1;
  }

 private:
  bool convolves_in_blocks(const LoadedNode& node) const {
    if (node.inputs.size() < 2 || !graph_.is_known(node.inputs[1])) return false;
    const Facts& filters = graph_.facts(node.inputs[1]);
    const auto made = size_of(graph_.g_, filters, 0), read = size_of(graph_.g_, filters, 1);
    const Attribute* groups = find_attribute(node.key.attributes, "group");
    return made && read && runs_in_blocks({*made, *read, groups ? groups->i() : 1});
  }

  // Whether what lies in blocks may stay so: `node` has a kernel for them, and all that it reads lies so.
  bool stays_in_blocks(const LoadedNode& node, std::string_view role) {
    const int made = node.outputs.front();
    if (role == kBlocksOfOne) return has(node.inputs[0]);
    if (!std::ranges::all_of(node.inputs, [&](int v) { return has(v) && is_image(graph_.facts(v)); })) return false;
    const bool joins = node.key.op_type == "Concat";
    return std::ranges::all_of(node.inputs, [&](int v) {
      return joins ? size_of(graph_.g_, graph_.facts(v), 1).value_or(1) % kLargestBlock == 0
                   : graph_.facts(v).shape == graph_.facts(made).shape;
    });
  }

  static constexpr signed char kNotAsked = -1;
  const LoadedGraph& graph_;
  std::vector<signed char> known_;  // by value
};

// A value in blocks that something reads as it is in the file, and a value of the file that an operator in blocks reads: each once.
double LoadedGraph::laid_out_anew(const CostModel& cost) const {
  Blocks blocks(*this);
  std::vector<bool> read_in_blocks(classes_.size()), read_elsewhere(classes_.size());
  for (const int v : outputs_)
    if (v >= 0) read_elsewhere[at(v)] = true;
  for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
    const LoadedNode& node = nodes_[at(n)];
    if (node.gone) continue;
    const bool in_blocks = blocks.works_in(n), filters = in_blocks && role_of(node.key) == kBlocksOfFilters;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int v = node.inputs[i];
      if (v < 0 || is_known(v)) continue;
      // A convolution of few channels reads an image as it is.
      const bool as_it_is = filters && i == 0 && size_of(g_, facts(v), 1).value_or(1) < kSmallestBlock;
      (in_blocks && !as_it_is ? read_in_blocks : read_elsewhere)[at(v)] = true;
    }
  }
  double sum = 0;
  for (int v = 0; v < static_cast<int>(classes_.size()); ++v) {
    const bool into = read_in_blocks[at(v)] && !blocks.has(v), out_of = read_elsewhere[at(v)] && blocks.has(v);
    if (!into && !out_of) continue;
    sum += cost.cost_of_reorder(g_, classes_[at(v)], into);
  }
  return sum;
}

}  // namespace saturate
