// Weights that are held twice, or in more bits than asked for.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "fmt/format.h"
#include "kernels/inputs/types.h"
#include "tools/transform/edit.h"
#include "tools/transform/passes/passes.h"

namespace saturate::passes {
namespace {

constexpr std::int64_t kFirstWithAllowZero = 14;  // opset of Reshape

// ---- one weight for a table and a product

bool is_transposed(const Tensor& a, const Tensor& b) {
  if (a.rank() != 2 || b.rank() != 2 || a.dtype() != b.dtype() || !is_floating(a.dtype()) || a.dims()[0] != b.dims()[1] ||
      a.dims()[1] != b.dims()[0] || a.size() == 0)
    return false;
  const std::size_t rows = static_cast<std::size_t>(a.dims()[0]), columns = static_cast<std::size_t>(a.dims()[1]);
  const std::size_t width = a.bytes().size() / (rows * columns);
  const std::byte *from = a.bytes().data(), *to = b.bytes().data();
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      if (std::memcmp(from + (r * columns + c) * width, to + (c * rows + r) * width, width) != 0) return false;
  return true;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.bytes().size() == b.bytes().size() &&
         std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

// The nodes for Y = MatMul(X, W) where W is the transposed of `table`: a Gemm over all rows of X.
std::vector<Node> product_with_table(Work& work, const Node& product, const std::string& table, const Shape& table_dims,
                                     const std::map<std::string, ValueType>& types) {
  const std::string &x = product.inputs[0], &y = product.outputs[0];
  const std::vector<Attribute> transposed{Attribute::of("transB", std::int64_t{1})};
  if (rank_of(types, x) == 2) return {make_node("Gemm", {x, table}, y, transposed)};
  if (work.model.opset("") < kFirstWithAllowZero && !static_dims(types, x)) {  // no Reshape there gives any dims, 0 too
    const std::string turned = work.fresh(y + "_turned");
    return {make_node("Transpose", {table}, turned, {Attribute::of("perm", std::vector<std::int64_t>{1, 0})}),
            make_node("MatMul", {x, turned}, y)};
  }
  const std::string rows = work.fresh(y + "_rows"), flat = work.fresh(y + "_flat"), shape = work.fresh(y + "_shape"),
                    lead = work.fresh(y + "_lead"), whole = work.fresh(y + "_whole");
  std::vector<Node> nodes{make_node("Reshape", {x, add_ints(work, y + "_row", {-1, table_dims[1]})}, rows),
                          make_node("Gemm", {rows, table}, flat, transposed)};
  if (auto dims = static_dims(types, x)) {
    dims->back() = table_dims[0];
    nodes.push_back(make_node("Reshape", {flat, add_ints(work, y + "_dims", *dims)}, y));
    return nodes;
  }
  nodes.push_back(make_node("Shape", {x}, shape));
  nodes.push_back(make_node("Slice", {shape, add_ints(work, y + "_first", {0}), add_ints(work, y + "_last", {-1})}, lead));
  nodes.push_back(
      make_node("Concat", {lead, add_ints(work, y + "_width", {table_dims[0]})}, whole, {Attribute::of("axis", std::int64_t{0})}));
  nodes.push_back(make_node("Reshape", {flat, whole}, y, {Attribute::of("allowzero", std::int64_t{1})}));
  return nodes;
}

// The names of constants that nodes of this operator look rows up in.
std::vector<std::string> tables_of(const Graph& graph, std::string_view op_type, std::string_view domain, const char* axis) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes)
    if (is_operator(node, op_type, domain) && int_attribute(node, axis, 0) == 0 && constant_tensor(graph, node.inputs[0]) &&
        std::find(names.begin(), names.end(), node.inputs[0]) == names.end())
      names.push_back(node.inputs[0]);
  return names;
}

std::size_t tie_products(Work& work, const std::map<std::string, ValueType>& types) {
  const std::vector<std::string> tables = tables_of(work.graph(), "Gather", "", "axis");
  std::vector<Node> nodes;
  std::size_t count = 0;
  for (const Node& node : std::vector(work.graph().nodes)) {
    const Tensor* weight = is_operator(node, "MatMul") ? constant_tensor(work.graph(), node.inputs[1]) : nullptr;
    const auto table = std::find_if(tables.begin(), tables.end(), [&](const std::string& name) {
      return weight && name != node.inputs[1] && is_transposed(*constant_tensor(work.graph(), name), *weight);
    });
    if (table == tables.end()) {
      nodes.push_back(node);
      continue;
    }
    const Shape dims = constant_tensor(work.graph(), *table)->dims();
    for (Node& made : product_with_table(work, node, *table, dims, types)) nodes.push_back(std::move(made));
    ++count;
  }
  work.graph().nodes = std::move(nodes);
  return count;
}

// ---- the same of weights of few bits

struct Blocks {
  const Node* node = nullptr;
  const Tensor *data = nullptr, *scales = nullptr, *zeros = nullptr;
  std::int64_t bits = 4, block = 0;
};

std::optional<Blocks> blocks_of(const Graph& graph, const Node& node, std::size_t data, std::size_t scales, std::size_t zeros) {
  Blocks b{&node, constant_tensor(graph, node.inputs[data]), constant_tensor(graph, node.inputs[scales])};
  if (node.inputs.size() > zeros && !node.inputs[zeros].empty()) {
    b.zeros = constant_tensor(graph, node.inputs[zeros]);
    if (!b.zeros) return std::nullopt;
  }
  b.bits = int_attribute(node, "bits", 4);
  b.block = int_attribute(node, "block_size", 128);
  if (!b.data || !b.scales || b.data->dtype() != DType::kUint8) return std::nullopt;
  return b;
}

std::optional<Blocks> table_of_blocks(const Graph& graph, const Node& node) {
  if (!is_operator(node, "GatherBlockQuantized", kMicrosoftDomain) || int_attribute(node, "gather_axis", 0) != 0) return std::nullopt;
  auto b = blocks_of(graph, node, 0, 2, 3);
  if (!b || b->data->rank() != 2 || int_attribute(node, "quantize_axis", 1) % 2 == 0) return std::nullopt;
  return b;
}

std::optional<Blocks> product_of_blocks(const Graph& graph, const Node& node) {
  if (!is_operator(node, "MatMulNBits", kMicrosoftDomain)) return std::nullopt;
  if (node.inputs.size() > 4 && !node.inputs[4].empty()) return std::nullopt;  // columns in another order
  return blocks_of(graph, node, 1, 2, 3);
}

bool are_the_same(const Blocks& a, const Blocks& b) {
  return a.bits == b.bits && a.block == b.block && same_bytes(*a.data, *b.data) && same_bytes(*a.scales, *b.scales) &&
         (a.zeros ? b.zeros && same_bytes(*a.zeros, *b.zeros) : !b.zeros);
}

// MatMulNBits reads what the table holds, under the dims that it wants.
Node product_by_table(Work& work, const Node& product, const Blocks& table, const Shape& dims, std::vector<Node>& nodes) {
  const std::string &y = product.outputs[0], packed = work.fresh(y + "_packed");
  nodes.push_back(make_node("Reshape", {table.node->inputs[0], add_ints(work, y + "_blocks", dims)}, packed));
  Node node = product;
  node.origin = nullptr;
  node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 4));
  node.inputs[1] = packed;
  node.inputs[2] = table.node->inputs[2];
  node.inputs[3] = table.zeros ? table.node->inputs[3] : "";
  while (node.inputs.back().empty()) node.inputs.pop_back();
  return node;
}

template <typename Fits>
std::size_t share_blocks(Work& work, Fits fits) {
  const Graph before = work.graph();  // what tables and products point into, while initializers are added
  std::vector<Blocks> tables;
  for (const Node& node : before.nodes)
    if (auto table = table_of_blocks(before, node)) tables.push_back(*table);
  std::vector<Node> nodes;
  std::size_t count = 0;
  for (const Node& node : before.nodes) {
    const auto product = product_of_blocks(before, node);
    const auto table = std::find_if(tables.begin(), tables.end(),
                                    [&](const Blocks& t) { return product && node.inputs[1] != t.node->inputs[0] && fits(t, *product); });
    if (table == tables.end()) {
      nodes.push_back(node);
      continue;
    }
    const std::int64_t row = table->data->dims()[1], blob = table->block * table->bits / 8;
    Node made = product_by_table(work, node, *table, {table->data->dims()[0], row / blob, blob}, nodes);
    for (const char* name : {"bits", "block_size"}) {
      std::erase_if(made.attributes, [&](const Attribute& a) { return a.name == name; });
      made.attributes.push_back(Attribute::of(name, std::string_view(name) == "bits" ? table->bits : table->block));
    }
    nodes.push_back(std::move(made));
    ++count;
  }
  work.graph().nodes = std::move(nodes);
  return count;
}

// ---- numbers of weights of few bits

std::uint32_t packed_number(const std::byte* row, std::int64_t i, std::int64_t bits) {
  return (std::to_integer<std::uint32_t>(row[i * bits / 8]) >> (i * bits % 8)) & ((1u << bits) - 1);
}

struct Numbers {
  std::vector<double> value, step;
};

std::optional<Numbers> numbers_of(const Blocks& b, std::int64_t rows, std::int64_t columns) {
  const std::int64_t blocks = (columns + b.block - 1) / b.block, stride = static_cast<std::int64_t>(b.data->bytes().size()) / rows;
  const std::int64_t zero_row = (blocks * b.bits + 7) / 8;
  if (!is_floating(b.scales->dtype()) || b.scales->size() != rows * blocks || stride * 8 < columns * b.bits) return std::nullopt;
  if (b.zeros && (b.zeros->dtype() != DType::kUint8 || b.zeros->size() != rows * zero_row)) return std::nullopt;
  Numbers out;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const double scale = element_as_double(*b.scales, r * blocks + c / b.block).value_or(0);
      const double zero = b.zeros ? packed_number(b.zeros->bytes().data() + r * zero_row, c / b.block, b.bits) : 1 << (b.bits - 1);
      out.value.push_back((packed_number(b.data->bytes().data() + r * stride, c, b.bits) - zero) * scale);
      out.step.push_back(std::abs(scale));
    }
  return out;
}

// Whether both hold the same numbers, within what their steps make.
bool are_near(const Blocks& table, const Blocks& product) {
  const std::int64_t k = int_attribute(*product.node, "K", 0), n = int_attribute(*product.node, "N", 0);
  if (k <= 0 || n <= 0 || table.bits != 8 || table.data->dims() != Shape{n, k} || k % table.block != 0) return false;
  const auto one = numbers_of(table, n, k), other = numbers_of(product, n, k);
  if (!one || !other) return false;
  for (std::size_t i = 0; i < one->value.size(); ++i)
    if (!(std::abs(one->value[i] - other->value[i]) <= one->step[i] + other->step[i])) return false;
  return true;
}

// ---- a table of fewer bits

bool is_table(const Tensor& t, std::int64_t block) {
  return t.rank() == 2 && one_of(dtype_name(t.dtype()), {"float", "float16"}) && t.size() > 0 && t.dims()[1] % block == 0;
}

struct Quantized {
  Tensor data, scales, zeros;
};

// Of each block of a row the largest magnitude is 127 steps from the middle, 128. nullopt where a number is not finite.
std::optional<Quantized> quantized(const Tensor& table, std::int64_t block) {
  const std::int64_t rows = table.dims()[0], blocks = table.dims()[1] / block;
  Quantized out{Tensor(DType::kUint8, table.dims()), Tensor(table.dtype(), {rows, blocks}), Tensor(DType::kUint8, {rows, blocks})};
  auto *data = out.data.mutable_as<std::uint8_t>(), *zeros = out.zeros.mutable_as<std::uint8_t>();
  std::vector<double> numbers(static_cast<std::size_t>(block));
  for (std::int64_t b = 0; b < rows * blocks; ++b) {
    double largest = 0;
    for (std::int64_t i = 0; i < block; ++i) {
      const double x = numbers[static_cast<std::size_t>(i)] = *element_as_double(table, b * block + i);
      if (!std::isfinite(x)) return std::nullopt;
      largest = std::max(largest, std::abs(x));
    }
    store_double(out.scales, b, largest / 127);
    const double scale = *element_as_double(out.scales, b);
    zeros[b] = 128;
    for (std::int64_t i = 0; i < block; ++i)
      data[b * block + i] = static_cast<std::uint8_t>(
          scale == 0 ? 128 : std::clamp(std::nearbyint(numbers[static_cast<std::size_t>(i)] / scale) + 128, 0.0, 255.0));
  }
  return out;
}

}  // namespace

absl::Status tie_weights(Work& work, const Arguments&) {
  const auto types = inferred_types(work.model);
  if (!types.ok()) return types.status();
  const std::size_t count = tie_products(work, *types) + share_blocks(work, are_the_same);
  drop_unread_nodes(work);
  work.notes.push_back(fmt::format("{} products read the weights of a table", count));
  return absl::OkStatus();
}

absl::Status share_quantized_weights(Work& work, const Arguments&) {
  const std::size_t count = share_blocks(work, are_near);
  drop_unread_nodes(work);
  work.notes.push_back(fmt::format("{} products read the weights of a table, all of which were a step apart at most", count));
  return absl::OkStatus();
}

absl::Status quantize_tables(Work& work, const Arguments& args) {
  const std::int64_t block = args.whole("block_size");
  if (block < 16 || (block & (block - 1)) != 0)
    return args.wrong("block_size", fmt::format("{}", block), "give a power of two, 16 or more");
  const auto ranges = measure_ranges(work.model, {}, false);
  allow(work, ranges.ok() ? *ranges : Ranges(), kApproximateRtol);
  Graph& graph = work.graph();
  std::map<std::string, std::vector<std::string>> made;  // by table: data, scales, zero points
  std::size_t count = 0;
  for (Node& node : graph.nodes) {
    if (!is_operator(node, "Gather") || int_attribute(node, "axis", 0) != 0) continue;
    const Tensor* table = constant_tensor(graph, node.inputs[0]);
    if (!table || !is_table(*table, block)) continue;
    auto& names = made[node.inputs[0]];
    if (names.empty()) {
      auto q = quantized(*table, block);
      if (!q) continue;
      const std::string& like = node.inputs[0];
      names = {add_constant(work, like + "_Q8", std::move(q->data)), add_constant(work, like + "_scales", std::move(q->scales)),
               add_constant(work, like + "_zp", std::move(q->zeros))};
    }
    node = Node{node.name,
                "GatherBlockQuantized",
                kMicrosoftDomain,
                "",
                {names[0], node.inputs[1], names[1], names[2]},
                node.outputs,
                {Attribute::of("bits", std::int64_t{8}), Attribute::of("block_size", block), Attribute::of("gather_axis", std::int64_t{0}),
                 Attribute::of("quantize_axis", std::int64_t{1})},
                nullptr};
    ++count;
  }
  if (count > 0) work.model.opset_imports.try_emplace(kMicrosoftDomain, 1);
  drop_unread_nodes(work);
  work.notes.push_back(fmt::format("{} look-ups read a table of 8 bits in blocks of {}", count, block));
  return absl::OkStatus();
}

absl::Status drop_group_indices(Work& work, const Arguments&) {
  std::size_t count = 0, others = 0;
  for (Node& node : work.graph().nodes) {
    if (!is_operator(node, "MatMulNBits", kMicrosoftDomain) || node.inputs.size() < 5 || node.inputs[4].empty()) continue;
    const Tensor* groups = constant_tensor(work.graph(), node.inputs[4]);
    const std::int64_t block = int_attribute(node, "block_size", 0), k = int_attribute(node, "K", 0);
    bool in_order = groups && groups->dtype() == DType::kInt32 && is_aligned(*groups) && block > 0 && groups->size() >= k;
    for (std::int64_t i = 0; in_order && i < k; ++i) in_order = groups->span<std::int32_t>()[static_cast<std::size_t>(i)] == i / block;
    others += in_order ? 0 : 1;
    if (!in_order) continue;
    node.inputs[4] = "";
    node.origin = nullptr;
    while (node.inputs.back().empty()) node.inputs.pop_back();
    ++count;
  }
  drop_unread_nodes(work);
  work.notes.push_back(fmt::format("{} MatMulNBits had their columns in order", count));
  if (others > 0)
    work.notes.push_back(fmt::format("{} MatMulNBits keep their g_idx: it is no constant, or columns are in another order", others));
  return absl::OkStatus();
}

}  // namespace saturate::passes
