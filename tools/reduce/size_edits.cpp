#include "tools/reduce/size_edits.h"

#include <algorithm>
#include <set>

#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

constexpr std::int64_t kMostContent = 64;  // elements of an integer constant that may be sizes

struct SizeChange {
  std::int64_t from, to;
  bool exactly;
  std::int64_t of(std::int64_t v) const {
    if (exactly) return v == from ? to : v;
    return v >= from && v % from == 0 ? v / from * to : v;
  }
};

bool may_hold_sizes(const Tensor& t) {
  return (t.dtype() == DType::kInt64 || t.dtype() == DType::kInt32) && t.rank() <= 1 && t.size() <= kMostContent;
}

// The part of a tensor that dims which are none of them larger leave.
Tensor cut_tensor(const Tensor& t, const Shape& dims) {
  if (dims == t.dims()) return t;
  const bool strings = t.dtype() == DType::kString;
  Tensor out = strings ? Tensor::strings(dims, std::vector<std::string>(static_cast<std::size_t>(*checked_elements(dims))))
                       : Tensor(t.dtype(), dims);
  std::vector<std::int64_t> at(dims.size(), 0);
  const std::size_t bytes = static_cast<std::size_t>(bit_width(t.dtype())) / 8;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    std::int64_t from = 0;
    for (std::size_t a = 0; a < dims.size(); ++a) from = from * t.dims()[a] + at[a];
    if (strings)
      out.mutable_strings()[static_cast<std::size_t>(i)] = t.string_data()[static_cast<std::size_t>(from)];
    else if (bytes > 0)
      std::memcpy(out.mutable_data() + static_cast<std::size_t>(i) * bytes, t.bytes().data() + static_cast<std::size_t>(from) * bytes,
                  bytes);
    else
      store_bits(out, i, element_bits(t, from));
    for (std::size_t a = dims.size(); a-- > 0;) {
      if (++at[a] < dims[a]) break;
      at[a] = 0;
    }
  }
  return out;
}

Tensor resized(const Tensor& t, const SizeChange& change) {
  Shape dims = t.dims();
  for (std::int64_t& d : dims) d = change.of(d);
  Tensor out = cut_tensor(t, dims);
  if (!may_hold_sizes(out)) return out;
  Tensor changed(out.dtype(), out.dims());
  for (std::int64_t i = 0; i < out.size(); ++i) store_int(changed, i, change.of(*element_as_int(out, i)));
  return changed;
}

void resize_nodes(std::vector<Node>& nodes, const SizeChange& change);

void resize_graph(Graph& graph, const SizeChange& change) {
  graph.value_info.clear();
  for (Initializer& i : graph.initializers) {
    if (i.sparse) continue;
    i.tensor = resized(i.tensor, change);
    i.origin = nullptr;
  }
  for (auto* infos : {&graph.inputs, &graph.outputs})
    for (ValueInfo& info : *infos) {
      if (info.type.kind != ValueType::Kind::kTensor || !info.type.shape) continue;
      info.origin = nullptr;
      if (infos == &graph.outputs) {
        info.type.shape.reset();
        continue;
      }
      for (DimSpec& dim : *info.type.shape)
        if (auto* number = std::get_if<std::int64_t>(&dim)) *number = change.of(*number);
    }
  resize_nodes(graph.nodes, change);
}

void resize_nodes(std::vector<Node>& nodes, const SizeChange& change) {
  for (Node& node : nodes)
    for (Attribute& a : node.attributes) {
      node.origin = nullptr;
      if (a.type == AttributeType::kInt && a.ref.empty()) a.value = change.of(a.i());
      if (a.type == AttributeType::kTensor && a.ref.empty()) a.value = resized(a.t(), change);
      if (a.type == AttributeType::kInts && a.ref.empty()) {
        std::vector<std::int64_t> values = a.ints();
        for (std::int64_t& v : values) v = change.of(v);
        a.value = std::move(values);
      }
      if (a.type == AttributeType::kGraph) {
        auto body = std::make_shared<Graph>(a.g());
        resize_graph(*body, change);
        a.value = std::shared_ptr<const Graph>(std::move(body));
      }
    }
}

void collect_sizes(const Tensor& t, std::set<std::int64_t>& sizes) {
  sizes.insert(t.dims().begin(), t.dims().end());
  if (!may_hold_sizes(t)) return;
  for (std::int64_t i = 0; i < t.size(); ++i) sizes.insert(*element_as_int(t, i));
}

}  // namespace

Model with_size(const Model& model, std::int64_t from, std::int64_t to, bool exactly) {
  const SizeChange change{from, to, exactly};
  Model out = model;
  resize_graph(out.graph, change);
  for (Function& f : out.functions) {
    f.origin = nullptr;
    resize_nodes(f.nodes, change);
  }
  return out;
}

std::vector<std::int64_t> sizes_in(const Model& model) {
  std::set<std::int64_t> sizes;
  for (const ValueInfo& info : model.graph.inputs)
    if (info.type.shape)
      for (const DimSpec& dim : *info.type.shape)
        if (const auto* number = std::get_if<std::int64_t>(&dim)) sizes.insert(*number);
  for (const Initializer& i : model.graph.initializers)
    if (!i.sparse) collect_sizes(i.tensor, sizes);
  for (const Node& node : model.graph.nodes)
    for (const Attribute& a : node.attributes)
      if (std::holds_alternative<Tensor>(a.value)) collect_sizes(a.t(), sizes);
  std::vector<std::int64_t> out;
  for (auto size = sizes.rbegin(); size != sizes.rend() && *size > 2; ++size) out.push_back(*size);
  return out;
}

Model with_symbols(const Model& model, const std::map<std::string, std::int64_t>& sizes) {
  Model out = model;
  out.graph.value_info.clear();
  for (auto* infos : {&out.graph.inputs, &out.graph.outputs})
    for (ValueInfo& info : *infos) {
      if (info.type.kind != ValueType::Kind::kTensor || !info.type.shape) continue;
      bool known = true;
      for (DimSpec& dim : *info.type.shape) {
        if (std::holds_alternative<std::int64_t>(dim)) continue;
        info.origin = nullptr;
        const auto* name = std::get_if<std::string>(&dim);
        const auto nameless = sizes.find("");
        const auto size = name ? evaluate_dim(*name, sizes) : nameless == sizes.end() ? std::nullopt : std::optional(nameless->second);
        if (size && *size >= 0)
          dim = *size;
        else
          known = false;
      }
      if (!known && infos == &out.graph.outputs) info.type.shape.reset();
    }
  return out;
}

std::vector<std::string> symbols_in(const Model& model) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const ValueInfo& info : model.graph.inputs)
    if (info.type.kind == ValueType::Kind::kTensor && info.type.shape)
      for (const DimSpec& dim : *info.type.shape) {
        if (std::holds_alternative<std::int64_t>(dim)) continue;
        const auto* text = std::get_if<std::string>(&dim);
        for (const std::string& name : text ? dim_names(*text) : std::vector<std::string>{""})
          if (seen.insert(name).second) out.push_back(name);
      }
  return out;
}

}  // namespace saturate
