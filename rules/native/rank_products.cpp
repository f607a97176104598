// Transpose, products, and operators over channels, at a rank that the target takes (rank.cpp).
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/regroup.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace native;
using Order = std::vector<std::size_t>;

// ---- Transpose

// Transpose(x), its axes seen as `dims`, behind as many of size 1 as the target wants.
Id transposed(const Operation& op, Id x, const Dims& dims, const Order& perm) {
  const std::size_t rank = std::max<std::size_t>(dims.size(), static_cast<std::size_t>(op.ranks.low)), lead = rank - dims.size();
  std::vector<std::int64_t> places(rank);
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t i = 0; i < perm.size(); ++i) places[lead + i] = static_cast<std::int64_t>(lead + perm[i]);
  return op.v.transpose(with_dims(op.v, x, padded(op.v.g.dims(), dims, rank)), std::move(places));
}

// One Transpose of few axes: which runs of an order it takes as its axes, and how it permutes them.
struct Move {
  std::vector<std::size_t> ends;  // of the runs
  Order perm;
};

Order moved(const Order& order, const Move& move) {
  Order out;
  for (const std::size_t run : move.perm) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(run == 0 ? 0 : move.ends[run - 1]);
    out.insert(out.end(), begin, order.begin() + static_cast<std::ptrdiff_t>(move.ends[run]));
  }
  return out;
}

// Every way to cut `size` things into at most `most` runs and to permute these.
std::vector<Move> all_moves(std::size_t size, std::size_t most) {
  std::vector<Move> out;
  for (std::size_t cuts = 1; cuts < std::size_t{1} << (size - 1); ++cuts) {
    Move move;
    for (std::size_t i = 1; i < size; ++i)
      if (cuts >> (i - 1) & 1) move.ends.push_back(i);
    move.ends.push_back(size);
    if (move.ends.size() > most) continue;
    move.perm.resize(move.ends.size());
    std::iota(move.perm.begin(), move.perm.end(), std::size_t{0});
    while (std::next_permutation(move.perm.begin(), move.perm.end())) out.push_back(move);
  }
  return out;
}

// The fewest moves that bring 0, 1, ... into this order; empty where there are none.
std::vector<Move> moves_to(const Order& wanted, std::size_t most) {
  Order start(wanted.size());
  std::iota(start.begin(), start.end(), std::size_t{0});
  const std::vector<Move> all = all_moves(wanted.size(), most);
  std::map<Order, std::pair<Order, std::size_t>> from;  // the order before, and the move
  std::vector<Order> reached{start};
  for (std::size_t next = 0; next < reached.size() && !from.contains(wanted); ++next)
    for (std::size_t i = 0; i < all.size(); ++i) {
      Order to = moved(reached[next], all[i]);
      if (to != start && from.try_emplace(to, reached[next], i).second) reached.push_back(std::move(to));
    }
  std::vector<Move> out;
  for (Order at = wanted; from.contains(at); at = from.at(at).first) out.insert(out.begin(), all[from.at(at).second]);
  return out;
}

// Blocks of these sizes in another order, by several Transposes that each take runs of them as one axis.
std::optional<Id> transposed_by_moves(const Operation& op, Id x, const Dims& sizes, const Order& wanted) {
  const std::vector<Move> moves = moves_to(wanted, static_cast<std::size_t>(op.ranks.high));
  if (moves.empty()) return std::nullopt;
  Order order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const Move& move : moves) {
    Dims dims;
    std::size_t begin = 0;
    for (const std::size_t end : move.ends) {
      Dim run = op.v.g.dims().constant(1);
      for (; begin < end; ++begin) run = op.v.g.dims().mul(run, sizes[order[begin]]);
      dims.push_back(run);
    }
    x = transposed(op, x, dims, move.perm);
    order = moved(order, move);
  }
  return x;
}

void transpose(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  const auto perm = from ? permutation_of(op.key, from->size()) : std::nullopt;
  if (!perm) return;
  const Dims dims = *from;
  if (std::ssize(dims) < op.ranks.low) return unite(op, transposed(op, op.inputs[0], dims, Order(perm->begin(), perm->end())), unions);
  std::vector<std::size_t> order, place(dims.size());  // without axes of size 1: in which order the axes come, and where each goes
  for (const std::int64_t axis : *perm)
    if (!op.is_one(dims[static_cast<std::size_t>(axis)])) {
      place[static_cast<std::size_t>(axis)] = order.size();
      order.push_back(static_cast<std::size_t>(axis));
    }
  Dims sizes;
  std::vector<std::size_t> block(dims.size()), first;  // neighbours before and behind are one block
  std::optional<std::size_t> before;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (op.is_one(dims[axis])) continue;
    if (before && op.v.guard("axes that stay neighbours move together", place[axis] == place[*before] + 1)) {
      sizes.back() = op.v.g.dims().mul(sizes.back(), dims[axis]);
    } else {
      sizes.push_back(dims[axis]);
      first.push_back(axis);
    }
    block[axis] = sizes.size() - 1;
    before = axis;
  }
  Order wanted;
  for (const std::size_t axis : order)
    if (first[block[axis]] == axis) wanted.push_back(block[axis]);
  if (std::ssize(sizes) <= op.ranks.high) return unite(op, transposed(op, op.inputs[0], sizes, wanted), unions);
  if (!useful(sizes.size() <= 7)) return;
  if (const auto made = transposed_by_moves(op, op.inputs[0], sizes, wanted)) unite(op, *made, unions);
}

// ---- MatMul

// A factor as matrices: a vector is a row on the left, a column on the right.
Dims as_matrices(const Operation& op, std::size_t side) {
  Dims out = *op.shape(side);
  if (out.size() == 1) out.insert(side == 0 ? out.begin() : out.end(), op.v.g.dims().constant(1));
  return out;
}

void matmul(const Operation& op, Unions& unions) {
  const Dims *left = op.shape(0), *right = op.shape(1), *to = op.v.shape(op.result);
  if (!left || !right || !to || left->empty() || right->empty()) return;
  DimTable& table = op.v.g.dims();
  const std::size_t given = to->size() - (left->size() > 1 ? 1 : 0) - (right->size() > 1 ? 1 : 0);  // axes that count matrices
  Dims whole(to->begin(), to->begin() + static_cast<std::ptrdiff_t>(given));
  Dims a = as_matrices(op, 0), b = as_matrices(op, 1);
  whole.push_back(a[a.size() - 2]);
  whole.push_back(b.back());
  a = padded(table, a, whole.size());
  b = padded(table, b, whole.size());
  const auto regrouped = regrouped_operands(op, whole, std::array{a, b}, given);
  if (!regrouped) return;
  const Id x = operand_with_dims(op, op.inputs[0], regrouped->dims(table, a), 2);
  const Id y = operand_with_dims(op, op.inputs[1], regrouped->dims(table, b), 2);
  unite(op, op.v.g.add(op.key, std::array{x, y}), unions);
}

// ---- channels and places

void over_places(const Operation& op, Unions& unions) {
  const Dims* from = op.shape(0);
  if (!from || from->size() < kPlaces || std::ssize(*from) >= op.ranks.low) return;
  const Dims dims = *from;
  const std::size_t more = static_cast<std::size_t>(op.ranks.low) - dims.size();
  std::vector<Id> inputs = op.inputs;
  inputs[0] = with_dims(op.v, inputs[0], with_places(op.v, dims, more));
  if (op.key.op_type == "Conv" || op.key.op_type == "ConvTranspose") {
    const Dims* weights = op.shape(1);
    if (!weights || weights->size() != dims.size()) return;
    inputs[1] = with_dims(op.v, inputs[1], with_places(op.v, Dims(*weights), more));
  }
  unite(op, op.v.g.add(with_places(op.key, more), inputs), unions);
}

std::vector<ViewRule> rank_product_rules() {
  return {
      regrouping("rank_of_transpose", "Transpose(X) = Reshape(Transpose(Reshape(X))), or several, at a rank that the target takes",
                 Effect::kExact, {{"Transpose", 1, 1}}, transpose),
      regrouping("rank_of_matmul", "MatMul(A, B) = Reshape(MatMul(Reshape(A), Reshape(B))) at a rank that the target takes", Effect::kExact,
                 {{"MatMul", 2, 2}}, matmul),
      regrouping("rank_of_places", "Conv(X, W) = Reshape(Conv(Reshape(X), Reshape(W))) with an axis of size 1 behind the channels",
                 Effect::kReassociates,
                 {{"Conv", 2, 3},
                  {"ConvTranspose", 2, 3},
                  {"MaxPool", 1, 1},
                  {"AveragePool", 1, 1},
                  {"LpPool", 1, 1},
                  {"GlobalAveragePool", 1, 1},
                  {"GlobalMaxPool", 1, 1},
                  {"GlobalLpPool", 1, 1},
                  {"InstanceNormalization", 3, 3},
                  {"BatchNormalization", 5, 5},
                  {"GroupNormalization", 3, 3},
                  {"LRN", 1, 1}},
                 over_places),
  };
}

}  // namespace

std::vector<NativeRule> native_rank_product_rules() { return to_native(rank_product_rules()); }

}  // namespace saturate
