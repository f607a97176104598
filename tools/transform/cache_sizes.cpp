#include "tools/transform/cache_sizes.h"

#include <array>

#include "tools/transform/edit.h"

namespace saturate {
namespace {

// Sizes at which two different products differ: small, so that they stay below any bound ("min(tokens, 1024)").
struct Probe {
  std::int64_t batch, tokens;
};
constexpr std::array<Probe, 3> kProbes{{{2, 3}, {5, 7}, {3, 11}}};

std::int64_t power(std::int64_t base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

}  // namespace

std::optional<std::int64_t> Extents::at(Dim dim, std::int64_t batch, std::int64_t tokens) const {
  std::map<std::string, std::int64_t> symbols{{tokens_, tokens}};
  if (!batch_.empty()) symbols[batch_] = batch;
  return dims_->evaluate(dim, symbols);
}

std::optional<Extent> Extents::of(Dim dim) const {
  for (const int batches : {0, 1})
    for (const int tokens : {0, 1, 2}) {
      std::optional<std::int64_t> factor;
      bool fits = true;
      for (const Probe& p : kProbes) {
        const auto size = at(dim, p.batch, p.tokens);
        if (!size) return std::nullopt;
        const std::int64_t unit = power(p.batch, batches) * power(p.tokens, tokens);
        fits = fits && *size % unit == 0 && (!factor || *factor == *size / unit);
        factor = *size / unit;
      }
      if (fits) return Extent{*factor, batches, tokens};
    }
  return std::nullopt;
}

std::optional<bool> Extents::spans(Dim dim) const {
  const auto few = at(dim, 2, 3), more = at(dim, 2, 7);
  return few && more ? std::optional(*few != *more) : std::nullopt;
}

std::int64_t Extents::elements(const std::vector<Dim>& shape) const {
  std::int64_t count = 1;
  for (const Dim d : shape) count *= at(d, kProbes[0].batch, kProbes[0].tokens).value_or(1);
  return count;
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
