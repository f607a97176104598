#include "extract/sizes/op_features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "extract/sizes/blocks.h"
#include "onnx_bridge/operators/integer_kernels.h"
#include "onnx_bridge/operators/op_questions.h"

namespace saturate {
namespace {

template <std::size_t N>
bool is_one_of(std::string_view op, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

constexpr std::array<std::string_view, 2> kQuantizers{"QuantizeLinear", "DequantizeLinear"};

float doublings(double v) { return static_cast<float>(std::log2(std::max(v, 1.0))); }

double product(std::span<const double> shape) {
  double n = 1;
  for (const double d : shape) n *= d;
  return n;
}

// All but the first `begin` dims.
double product_from(std::span<const double> shape, std::size_t begin) { return product(shape.subspan(std::min(begin, shape.size()))); }

// The i-th from the end, counted from 1; 1 where there is none.
double from_end(const Sizes1D& shape, std::size_t i) { return i >= 1 && i <= shape.size() ? shape[shape.size() - i] : 1; }

// The order that Transpose takes the axes in; what is no permutation of them counts as the default.
std::vector<std::size_t> axes_in_order(const OpUse& use, std::size_t rank) {
  std::vector<std::size_t> out;
  std::vector<bool> seen(rank, false);
  for (const std::int64_t p : ints_attribute(use, "perm")) {
    if (p < 0 || p >= static_cast<std::int64_t>(rank) || seen[static_cast<std::size_t>(p)]) break;
    seen[static_cast<std::size_t>(p)] = true;
    out.push_back(static_cast<std::size_t>(p));
  }
  if (out.size() == rank) return out;
  for (out.clear(); out.size() < rank;) out.push_back(rank - 1 - out.size());
  return out;
}

const Sizes1D& input(const OpUse& use, std::size_t i) {
  static const Sizes1D none;
  return i < use.inputs.size() ? use.inputs[i] : none;
}

bool is_positive(const OpUse& use, std::string_view name) {
  const Attribute* a = find_attribute(use.attributes, name);
  return a && a->type == AttributeType::kFloat && a->f() > 0;
}

bool is_constant(const OpUse& use, std::size_t i) { return i < use.constant.size() && use.constant[i]; }

const Sizes1D& output(const OpUse& use) {
  static const Sizes1D none;
  return use.outputs.empty() ? none : use.outputs[0];
}

// An elementwise operator goes over runs of elements within which each operand is either a whole vector or one scalar.
struct Runs {
  double length = 1;
  bool scalar = false;  // some operand is one number within a run
};

Runs runs_of(const OpUse& use) {
  const Sizes1D& out = output(use);
  Runs runs;
  std::vector<char> first, now(use.inputs.size());  // by operand: has this dim
  for (std::size_t i = 1; i <= out.size(); ++i) {
    if (from_end(out, i) <= 1) continue;
    for (std::size_t k = 0; k < use.inputs.size(); ++k)
      now[k] = i <= use.inputs[k].size() && from_end(use.inputs[k], i) == from_end(out, i);
    if (first.empty()) first = now;
    if (now != first) break;
    runs.length *= from_end(out, i);
  }
  runs.scalar = std::find(first.begin(), first.end(), 0) != first.end();
  return runs;
}

void elementwise(const OpUse& use, OpFeatures& f) {
  const double total = product(output(use));
  const Runs runs = runs_of(use);
  f.logs = {doublings(total), doublings(total / std::max(1.0, runs.length))};
  f.kinds = {runs.scalar, static_cast<int>(use.inputs.size())};
}

void matrix_product(const OpUse& use, OpFeatures& f) {
  const Sizes1D &a = input(use, 0), &b = input(use, 1), &out = output(use);
  const bool trans_a = int_attribute(use, "transA") != 0, trans_b = int_attribute(use, "transB") != 0;
  const double inner = from_end(a, trans_a ? 2 : 1), columns = from_end(out, 1);
  const double batch = b.size() > 2 ? product(std::span(b).first(b.size() - 2)) : 1;
  const double rows = product(out) / std::max(1.0, columns) / std::max(1.0, batch);
  f.logs = {doublings(rows), doublings(inner), doublings(columns), doublings(batch)};
  // A constant operand is packed at load, whether transposed or not.
  const bool batch_moved = int_attribute(use, "transBatchA") != 0 || int_attribute(use, "transBatchB") != 0;
  const bool packed = is_constant(use, 1) && !batch_moved;
  const Attribute* alpha = find_attribute(use.attributes, "alpha");
  const bool scaled =
      alpha && alpha->type == AttributeType::kFloat && alpha->f() != 1;  // one row times a matrix has its own kernel otherwise
  const bool in_bytes = int_attribute(use, "accuracy_level") == 4;       // of weights of few bits: the activations are quantized for it
  f.kinds = {packed,    packed ? 0 : trans_b, trans_a, static_cast<int>(use.inputs.size()), !packed && scaled,
             rows == 1, batch_moved,          in_bytes};
}

void convolution(const OpUse& use, OpFeatures& f) {
  const Sizes1D &w = input(use, 1), &out = output(use);
  const double groups = static_cast<double>(int_attribute(use, "group", 1));
  const double spatial = out.size() > 2 ? product_from(out, 2) : 1;
  f.logs = {doublings(spatial * from_end(out, out.size())), doublings(w.size() > 1 ? w[1] : 1), doublings(w.empty() ? 1 : w[0]),
            doublings(w.size() > 2 ? product_from(w, 2) : 1)};
  const auto whole = [&w](std::size_t i) { return static_cast<std::int64_t>(i < w.size() ? w[i] : 1); };
  const bool blocks = input(use, 0).size() == 4 && runs_in_blocks({whole(0), whole(1), int_attribute(use, "group", 1)});
  f.kinds = {groups > 1, w.size() > 2 && product_from(w, 2) == 1, blocks};
}

// X (N, C, ...), W (C, M / groups, ...).
void transposed_convolution(const OpUse& use, OpFeatures& f) {
  const Sizes1D &x = input(use, 0), &w = input(use, 1);
  f.logs = {doublings(x.size() > 2 ? product_from(x, 2) * x[0] : 1), doublings(w.empty() ? 1 : w[0]), doublings(w.size() > 1 ? w[1] : 1),
            doublings(w.size() > 2 ? product_from(w, 2) : 1)};
  f.kinds = {int_attribute(use, "group", 1) > 1, static_cast<int>(w.size())};
}

// X (steps, batch, width); Y (steps, directions, batch, hidden), which a model may leave out.
void recurrence(const OpUse& use, OpFeatures& f) {
  const Sizes1D &x = input(use, 0), &w = input(use, 1);
  const double hidden = static_cast<double>(int_attribute(use, "hidden_size", 1));
  f.logs = {doublings(from_end(x, 3)), doublings(from_end(x, 2)), doublings(from_end(x, 1)), doublings(hidden)};
  f.kinds = {w.empty() || w[0] <= 1 ? 1 : 2};
}

// Q, K and V (batch, tokens, heads * size): a state of each head, one token after the other.
void linear_attention(const OpUse& use, OpFeatures& f) {
  const Sizes1D &q = input(use, 0), &v = input(use, 2);
  const double heads = std::max(1.0, static_cast<double>(int_attribute(use, "kv_num_heads", 1)));
  const double key = from_end(q, 1) / std::max(1.0, static_cast<double>(int_attribute(use, "q_num_heads", 1))),
               value = from_end(v, 1) / heads;
  f.logs = {doublings(from_end(q, 2)), doublings(from_end(q, 3) * heads), doublings(key), doublings(value)};
  f.kinds = {use.inputs.size() > 5, key * value >= 4096};
}

// X (batch, channels, tokens) and W (channels, 1, width).
void causal_convolution(const OpUse& use, OpFeatures& f) {
  const Sizes1D &x = input(use, 0), &w = input(use, 1);
  f.logs = {doublings(from_end(x, 1)), doublings(from_end(x, 2) * from_end(x, 3)), doublings(from_end(w, 1))};
  const std::string activation = string_attribute(use, "activation");
  f.kinds = {activation == "silu" || activation == "swish"};
}

void by_rows(const OpUse& use, OpFeatures& f) {
  const Sizes1D& x = input(use, 0);
  const double width = from_end(x, 1);
  f.logs = {doublings(product(x) / std::max(1.0, width)), doublings(width)};
  f.kinds = {static_cast<int>(use.outputs.size()), static_cast<int>(use.inputs.size())};
}

void reduction(const OpUse& use, OpFeatures& f) {
  const Sizes1D &x = input(use, 0), &out = output(use);
  const double kept = product(out), reduced = product(x) / std::max(1.0, kept);
  f.logs = {doublings(kept), doublings(reduced)};
  f.kinds = {from_end(x, 1) == reduced || (from_end(out, 1) == 1 && out.size() == x.size()),
             from_end(out, 1) == 1 && from_end(out, 2) == 1};
}

// Whether two blocks of neighbouring axes change places, and all others stay: a matrix, or matrices, transposed.
bool swaps_two_blocks(std::span<const std::size_t> order) {
  std::size_t begin = 0;
  while (begin < order.size() && order[begin] == begin) ++begin;
  if (begin == order.size()) return true;
  const std::size_t second = order[begin];  // where the second block was
  std::size_t length = 0;
  while (begin + length < order.size() && order[begin + length] == second + length) ++length;
  for (std::size_t i = begin + length; i < order.size(); ++i)
    if (order[i] != (i < second + length ? i - length : i)) return false;
  return true;
}

// ONNX Runtime transposes matrices by tiles, copies runs where the last axes stay, and takes elements one by one else. Axes of one element
// count for it: [56, 1, 56, 256] by {1, 3, 0, 2} takes 8 times as long as [56, 56, 1, 256] by {2, 3, 0, 1}.
void transposition(const OpUse& use, OpFeatures& f) {
  const Sizes1D &x = input(use, 0), &out = output(use);
  const std::vector<std::size_t> order = axes_in_order(use, x.size());
  // What moves: the order of dims longer than 1.
  std::vector<std::size_t> moved;
  for (const std::size_t p : order)
    if (x[p] > 1) moved.push_back(p);
  double run = 1;  // elements that stay together
  for (std::size_t i = x.size(), last = moved.size(); i-- > 0;) {
    if (x[i] <= 1) continue;
    if (last == 0 || moved[--last] != i) break;
    run *= x[i];
  }
  const bool still = std::is_sorted(moved.begin(), moved.end());
  f.logs = {doublings(product(out)), still ? 0 : doublings(run), run > 1 || still ? 0 : 0.5f * doublings(from_end(out, 1))};
  enum { kTiles, kRuns, kNothing, kElements };
  f.kinds = {still ? kNothing : run > 1 ? kRuns : swaps_two_blocks(order) ? kTiles : kElements};
}

// How many elements stay together where Concat joins, Split cuts, or a Slice or Pad changes one axis: those from that axis on.
double elements_of_one_copy(const OpUse& use, std::size_t same) {
  const Sizes1D &x = input(use, 0), &out = output(use);
  if (use.op == "Concat" || use.op == "Split") {
    const std::int64_t axis = int_attribute(use, "axis"), rank = static_cast<std::int64_t>(out.size());
    const auto at =
        static_cast<std::size_t>(std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, std::max<std::int64_t>(rank - 1, 0)));
    double most = 0;  // of the longest
    for (const Sizes1D& part : use.op == "Split" ? use.outputs : use.inputs) most = std::max(most, product_from(part, at));
    return most;
  }
  const Sizes1D& least = use.op == "Pad" ? x : out;
  const bool along_axis = use.op == "Pad" || use.op == "Slice";
  return product_from(least, least.size() - std::min(least.size(), same + (along_axis ? 1 : 0)));
}

// Concat, Split, Slice, Pad, Gather, Expand, Tile: copies of runs of equal length.
void copies(const OpUse& use, OpFeatures& f) {
  double total = 0;
  for (const Sizes1D& o : use.outputs) total += product(o);
  const Sizes1D &x = input(use, 0), &out = output(use);
  std::size_t same = 0;
  while (same < std::min(x.size(), out.size()) && from_end(x, same + 1) == from_end(out, same + 1)) ++same;
  f.logs = {doublings(total), 0.5f * doublings(elements_of_one_copy(use, same))};
  const std::string mode = string_attribute(use, "mode");  // of Pad
  f.kinds = {static_cast<int>(std::max(use.outputs.size(), use.op == "Concat" ? use.inputs.size() : 1)),
             !mode.empty() && mode != "constant"};
}

// Q is (B, S, H) or (B, heads, S, D), K likewise; the past is rows of keys, too.
void attention(const OpUse& use, OpFeatures& f) {
  const Sizes1D &q = input(use, 0), &k = input(use, 1).empty() ? q : input(use, 1);
  const bool grouped = use.op.ends_with("GroupQueryAttention"), flat = q.size() == 3;
  double heads = static_cast<double>(int_attribute(use, use.op == "Attention" ? "q_num_heads" : "num_heads", 1));
  if (!flat) heads = from_end(q, 3);
  const double rows = from_end(q, 2), size = flat ? from_end(q, 1) / std::max(1.0, heads) : from_end(q, 1);
  double keys = from_end(k, 2), groups = k.size() == 4 ? from_end(k, 3) : from_end(k, 1) / std::max(1.0, size);
  const bool past = use.outputs.size() > 1 && use.outputs[1].size() == 4;
  if (past) keys = from_end(use.outputs[1], 2), groups = from_end(use.outputs[1], 3);
  const double batch = from_end(q, q.size());
  f.logs = {doublings(rows), doublings(keys), doublings(heads * batch), doublings(size), 0.5f * doublings(heads / std::max(1.0, groups))};
  const bool rotates = int_attribute(use, "do_rotary") != 0;
  const std::size_t plain = (grouped ? 5 : 3) + (rotates ? 2 : 0);
  const bool masked = use.inputs.size() > plain + (past ? 2 : 0);
  const bool bias = !grouped && use.inputs.size() > 3 && input(use, 3).size() == 1;
  const bool causal = int_attribute(use, "is_causal") != 0 || int_attribute(use, "unidirectional") != 0;
  const bool capped = is_positive(use, "softcap"), tells_scores = use.outputs.size() > 3;
  f.kinds = {flat, masked && !bias, bias, past, causal, k.size() == 4, capped, rotates, tells_scores};
}

// The past is (2, B, heads, P, D).
void packed_attention(const OpUse& use, OpFeatures& f) {
  const Sizes1D &x = input(use, 0), &w = input(use, 1);
  const auto past = std::find_if(use.inputs.begin(), use.inputs.end(), [](const Sizes1D& in) { return in.size() == 5; });
  const bool cached = past != use.inputs.end();
  const double heads = static_cast<double>(int_attribute(use, "num_heads", 1)), width = from_end(w, 1) / 3, rows = from_end(x, 2);
  const double keys = rows + (cached ? from_end(*past, 2) : 0);
  f.logs = {doublings(rows * from_end(x, 3)), doublings(from_end(x, 1)), doublings(heads), doublings(width / std::max(1.0, heads)),
            doublings(keys / std::max(1.0, rows))};
  f.kinds = {use.inputs.size() > (cached ? 4U : 3U), use.outputs.size() > 1, int_attribute(use, "unidirectional") != 0};
}

// Scatter and Gather by places: what lies there, and what is put or taken.
void places(const OpUse& use, OpFeatures& f) {
  const double at = product(input(use, 1));
  f.logs = {doublings(product(output(use))), doublings(at), doublings(std::max(at, product(input(use, 2))))};
  f.kinds = {!string_attribute(use, "reduction").empty()};
}

// Attributes by which a kernel takes another loop than without them (bench/runtime/attribute_times.py).
bool has_own_loop(const OpUse& use) {
  const auto is_wide = [](std::int64_t step) { return step > 1; };
  return std::ranges::any_of(ints_attribute(use, "dilations"), is_wide) || int_attribute(use, "block_size") > 0 ||
         int_attribute(use, "select_last_index") != 0 || find_attribute(use.attributes, "ignore_index") != nullptr;
}

void plain(const OpUse& use, OpFeatures& f) {
  const OpSizes s = sizes_of(use);
  f.logs = {doublings(s.flops), doublings(s.bytes), 0.5f * doublings(s.last)};
  const Attribute* approximate = find_attribute(use.attributes, "approximate");
  const bool by_axis = is_one_of(use.op, kQuantizers) && input(use, 1).size() == 1 && product(input(use, 1)) > 1;
  f.kinds = {static_cast<int>(s.arity), by_axis, approximate && approximate->type == AttributeType::kString && approximate->s() != "none",
             int_attribute(use, "interleaved") != 0, has_own_loop(use)};
}

constexpr std::array<std::string_view, 16> kBroadcast{"Add",   "Sub", "Mul", "Div",   "Sum",  "Pow", "Max",   "Min",
                                                      "Where", "And", "Or",  "Equal", "Less", "Mod", "PRelu", "Gemm/bias"};
constexpr std::array<std::string_view, 7> kCopies{"Concat", "Split", "Slice", "Pad", "Gather", "Expand", "Tile"};
constexpr std::array<std::string_view, 4> kPlaces{"GatherElements", "GatherND", "ScatterElements", "ScatterND"};
constexpr std::array<std::string_view, 9> kByRows{"LayerNormalization",
                                                  "RMSNormalization",
                                                  "SimplifiedLayerNormalization",
                                                  "com.microsoft::SkipLayerNormalization",
                                                  "com.microsoft::SkipSimplifiedLayerNormalization",
                                                  "Softmax",
                                                  "LogSoftmax",
                                                  "com.microsoft::BiasGelu",
                                                  "com.microsoft::FastGelu"};

}  // namespace

std::string comparable_op(std::string_view op) {
  constexpr std::string_view kFused = "com.microsoft::Fused", kRuntimes = "com.microsoft::";
  if (op.ends_with("::QuantizeLinear") || op.ends_with("::DequantizeLinear")) return std::string(op.substr(kRuntimes.size()));
  // One loop of a runtime does them all, and which side stands first is a matter of spelling.
  if (op == "Greater" || op == "GreaterOrEqual" || op == "LessOrEqual") return "Less";
  return std::string(op.starts_with(kFused) ? op.substr(kFused.size()) : op);
}

OpFeatures features_of(const OpUse& use) {
  OpFeatures f;
  f.family = comparable_op(use.op);
  const IntegerKernel* integer = integer_kernel(use.op);
  const std::string_view op = integer ? integer->plain : std::string_view(use.op), kind = integer ? op : std::string_view(f.family);
  if (kind == "MatMul" || kind == "Gemm") {
    matrix_product(use, f);
  } else if (kind == "Conv") {
    convolution(use, f);
  } else if (op == "ConvTranspose") {
    transposed_convolution(use, f);
  } else if (is_recurrent(kind)) {
    recurrence(use, f);
  } else if (op == "LinearAttention" || op == "com.microsoft::LinearAttention") {
    linear_attention(use, f);
  } else if (op == "CausalConvWithState" || op == "com.microsoft::CausalConvWithState") {
    causal_convolution(use, f);
  } else if (const auto experts = experts_of(use)) {
    f.logs = {doublings(experts->pairs), doublings(experts->pairs / std::max(1.0, experts->met)), doublings(experts->hidden),
              doublings(experts->inter)};
    f.kinds = {string_attribute(use, "activation_type") == "swiglu"};
  } else if (op == "com.microsoft::Attention") {
    packed_attention(use, f);
  } else if (op == "Attention" || op == "com.microsoft::MultiHeadAttention" || op == "com.microsoft::GroupQueryAttention") {
    attention(use, f);
  } else if (op == "Transpose") {
    transposition(use, f);
  } else if (is_one_of(op, kCopies)) {
    copies(use, f);
  } else if (is_one_of(op, kPlaces)) {
    places(use, f);
  } else if (is_one_of(op, kByRows)) {
    by_rows(use, f);
  } else if (op.starts_with("Reduce") || op.starts_with("Arg")) {
    reduction(use, f);
    f.kinds.push_back(has_own_loop(use));
  } else if (is_one_of(kind, kBroadcast)) {
    elementwise(use, f);
  } else {
    f.family = sizes_of(use).key;
    plain(use, f);
  }
  if (use.dtype != "float") f.family += "/" + use.dtype;
  return f;
}

}  // namespace saturate
