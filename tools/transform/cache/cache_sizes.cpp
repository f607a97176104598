#include "tools/transform/cache/cache_sizes.h"

#include <array>
#include <limits>

#include "tools/transform/edit.h"

namespace saturate {
namespace {

// Sizes at which two different products differ: small, so that they stay below any bound ("min(tokens, 1024)").
struct Probe {
  std::int64_t batch, tokens, given;
};
constexpr std::array<Probe, 3> kProbes{{{2, 3, 13}, {5, 7, 17}, {3, 11, 19}}};

std::int64_t power(std::int64_t base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

// That makes these sizes of the powers; nullopt: there is none.
std::optional<std::int64_t> factor_of(const std::array<std::int64_t, kProbes.size()>& sizes, int batches, int tokens, int given) {
  std::optional<std::int64_t> factor;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t unit = power(kProbes[i].batch, batches) * power(kProbes[i].tokens, tokens) * power(kProbes[i].given, given);
    if (sizes[i] % unit != 0 || (factor && *factor != sizes[i] / unit)) return std::nullopt;
    factor = sizes[i] / unit;
  }
  return factor;
}

}  // namespace

std::optional<std::int64_t> Extents::at(Dim dim, std::int64_t batch, std::int64_t tokens, std::int64_t given) const {
  std::map<std::string, std::int64_t> symbols{{names_.tokens, tokens}};
  if (!names_.batch.empty()) symbols[names_.batch] = batch;
  if (!names_.given.empty()) symbols[names_.given] = given;
  return dims_->evaluate(dim, symbols);
}

std::optional<Extent> Extents::of(Dim dim) const {
  std::array<std::int64_t, kProbes.size()> sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto size = at(dim, kProbes[i].batch, kProbes[i].tokens, kProbes[i].given);
    if (!size) return std::nullopt;
    sizes[i] = *size;
  }
  for (const int batches : {0, 1})
    for (const int tokens : {0, 1, 2})
      for (const int given : {0, 1})
        if (const auto factor = factor_of(sizes, batches, tokens, given)) return Extent{*factor, batches, tokens, given};
  return std::nullopt;
}

std::optional<bool> Extents::spans(Dim dim) const {
  const auto few = at(dim, 2, 3, 13), more = at(dim, 2, 7, 13);
  return few && more ? std::optional(*few != *more) : std::nullopt;
}

std::int64_t Extents::elements(const std::vector<Dim>& shape) const {
  Shape dims;
  for (const Dim d : shape) dims.push_back(at(d, kProbes[0].batch, kProbes[0].tokens, kProbes[0].given).value_or(1));
  return checked_elements(dims).value_or(std::numeric_limits<std::int64_t>::max());
}

std::string GraphWriter::node(const char* op, std::vector<std::string> inputs, const std::string& hint, std::vector<Attribute> attributes,
                              const std::string& name) {
  if (!name.empty()) fresh_->take(name);
  graph_->nodes.push_back(make_node(op, std::move(inputs), name.empty() ? (*fresh_)(hint) : name, std::move(attributes)));
  return graph_->nodes.back().outputs[0];
}

const Node& GraphWriter::copy(Node node) {
  node.origin = nullptr;
  node.name = "";
  for (std::string& output : node.outputs)
    if (!output.empty()) output = (*fresh_)(output);
  graph_->nodes.push_back(std::move(node));
  return graph_->nodes.back();
}

std::string GraphWriter::ints(const std::vector<std::int64_t>& values) {
  std::string& name = ints_[values];
  if (name.empty()) {
    name = (*fresh_)("sizes");
    graph_->initializers.push_back({name, Tensor::vector_int64(values), nullptr, false});
  }
  return name;
}

std::string GraphWriter::scalar(std::int64_t value) {
  std::string& name = scalars_[value];
  if (name.empty()) {
    name = (*fresh_)("number");
    graph_->initializers.push_back({name, Tensor::scalar_int64(value), nullptr, false});
  }
  return name;
}

}  // namespace saturate
