// RNN, GRU, LSTM (ONNX spec): all opset versions; layout since 14. com.microsoft's DynamicQuantizeLSTM.
#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/attention/attention.h"
#include "kernels/core/registry.h"
#include "kernels/elementwise/activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/quantized/fast.h"
#include "kernels/tensor/util.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

using Activation = std::function<double(double)>;
enum class Cell { kRnn, kGru, kLstm };

constexpr int gates_of(Cell cell) { return cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 3 : 4; }

template <typename C>
struct Recurrent {
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 1;
  std::vector<C> x, w, r, bias, h0, c0, peephole;  // x as [steps, batch, input]; bias, h0, c0, peephole may be empty
  std::vector<std::int64_t> lengths;
  std::vector<Activation> activations;  // in the order of the attribute, all directions
  double clip = 0;
  bool linear_before_reset = false, input_forget = false;
  bool quantized = false;  // x and each h go through 8 bits before their products
};

template <typename C>
absl::Status read(const KernelContext& ctx, std::size_t i, const Shape& dims, std::vector<C>& out) {
  if (!ctx.has_input(i)) return absl::OkStatus();
  if (ctx.tensor(i).dims() != dims) return ctx.invalid("an input has the wrong shape");
  std::vector<C> store;
  absl::StatusOr<const C*> data = as_compute<C>(ctx, ctx.tensor(i), store);
  if (!data.ok()) return data.status();
  out = store.empty() ? std::vector<C>(*data, *data + ctx.tensor(i).size()) : std::move(store);
  return absl::OkStatus();
}

// Swaps the two leading dims of [a, b, n].
template <typename C>
std::vector<C> swapped(const std::vector<C>& x, std::int64_t a, std::int64_t b, std::int64_t n) {
  std::vector<C> y(x.size());
  for (std::int64_t i = 0; i < a; ++i) {
    for (std::int64_t j = 0; j < b; ++j) std::copy_n(x.data() + (i * b + j) * n, n, y.data() + (j * a + i) * n);
  }
  return y;
}

// Alphas and betas are consumed in order by the functions that take them.
absl::StatusOr<std::vector<Activation>> activations_of(const KernelContext& ctx, Cell cell, std::int64_t directions) {
  const auto takes = [](const std::string& function, std::string_view parameter) {
    if (function == "Affine" || function == "ScaledTanh") return true;  // no operators any more
    const OpSchema* schema = find_schema("", function, kNewestOpset);
    return schema != nullptr && schema->attribute(parameter) != nullptr;
  };
  std::vector<std::string> fallback;
  for (std::int64_t d = 0; d < directions; ++d) {
    if (cell != Cell::kRnn) fallback.emplace_back("Sigmoid");
    fallback.emplace_back("Tanh");
    if (cell == Cell::kLstm) fallback.emplace_back("Tanh");
  }
  std::vector<std::string> names = ctx.attr_strings("activations", fallback);
  if (names.size() * static_cast<std::size_t>(directions) == fallback.size() && names.size() != fallback.size())
    names.insert(names.end(), names.begin(), names.end());
  if (names.size() != fallback.size()) return ctx.invalid("activations has the wrong number of names");
  const std::vector<float> alphas = ctx.attr_floats("activation_alpha"), betas = ctx.attr_floats("activation_beta");
  std::size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> out;
  for (const std::string& name : names) {
    std::optional<float> alpha, beta;
    if (takes(name, "alpha") && next_alpha < alphas.size()) alpha = alphas[next_alpha++];
    if (takes(name, "beta") && next_beta < betas.size()) beta = betas[next_beta++];
    std::optional<Activation> f = activation_function(name, alpha, beta);
    if (!f) return ctx.unsupported("activation '" + name + "'");
    out.push_back(*std::move(f));
  }
  return out;
}

// To the 8 bits of DynamicQuantizeLinear and back.
template <typename C>
void round_to_bytes(std::span<C> values) {
  float low = 0, high = 0;
  for (C v : values) low = std::min(low, static_cast<float>(v)), high = std::max(high, static_cast<float>(v));
  const auto [scale, zero] = byte_scale(low, high);
  for (C& v : values) v = static_cast<C>((std::clamp(std::nearbyint(static_cast<float>(v) / scale) + zero, 0.0f, 255.0f) - zero) * scale);
}

// A weight of DynamicQuantizeLSTM, [directions, in, 4 * hidden] in 8 bits with a scale and a zero point for each direction or column, as
// LSTM takes it: [directions, 4 * hidden, in].
template <typename C>
absl::Status read_quantized(const KernelContext& ctx, std::size_t i, std::size_t scale_at, const Shape& dims, std::vector<C>& out) {
  const std::int64_t d = dims[0], columns = dims[1], rows = dims[2];
  if (ctx.tensor(i).dims() != Shape{d, rows, columns}) return ctx.invalid("a weight has the wrong shape");
  const auto weight = to_doubles(ctx, ctx.tensor(i)), scale = to_doubles(ctx, ctx.tensor(scale_at)),
             zero = to_doubles(ctx, ctx.tensor(scale_at + 1));
  for (const auto* v : {&weight, &scale, &zero})
    if (!v->ok()) return v->status();
  const auto size = static_cast<std::int64_t>(scale->size());
  if ((size != d && size != d * columns) || zero->size() != scale->size()) return ctx.invalid("a scale or zero point has the wrong shape");
  out.resize(static_cast<std::size_t>(d * rows * columns));
  for (std::int64_t k = 0; k < d; ++k)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto q = static_cast<std::size_t>(size == d ? k : k * columns + c);
        const double v = (*weight)[static_cast<std::size_t>((k * rows + r) * columns + c)];
        out[static_cast<std::size_t>((k * columns + c) * rows + r)] = static_cast<C>((v - (*zero)[q]) * (*scale)[q]);
      }
  return absl::OkStatus();
}

// W and R, as [directions, gates * hidden, in].
template <typename C>
absl::Status read_weights(const KernelContext& ctx, int gates, Recurrent<C>& p) {
  const Shape w{p.directions, gates * p.hidden, p.input}, r{p.directions, gates * p.hidden, p.hidden};
  absl::Status status = p.quantized ? read_quantized(ctx, 1, 8, w, p.w) : read(ctx, 1, w, p.w);
  if (status.ok()) status = p.quantized ? read_quantized(ctx, 2, 10, r, p.r) : read(ctx, 2, r, p.r);
  return status;
}

template <typename C>
absl::StatusOr<Recurrent<C>> read_recurrent(const KernelContext& ctx, Cell cell, bool quantized) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() != 3 || ctx.tensor(1).rank() != 3 || ctx.tensor(2).rank() != 3) return ctx.invalid("X, W and R must be of rank 3");
  const bool batch_first = ctx.attr_i("layout", 0) != 0;
  const int gates = gates_of(cell);
  Recurrent<C> p;
  p.steps = x.dims()[batch_first ? 1 : 0];
  p.batch = x.dims()[batch_first ? 0 : 1];
  p.input = x.dims()[2];
  p.quantized = quantized;
  p.hidden = ctx.tensor(2).dims()[quantized ? 1 : 2];
  const std::string direction = ctx.attr_s("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") return ctx.invalid("unknown direction");
  p.directions = direction == "bidirectional" ? 2 : 1;
  const std::int64_t d = p.directions, h = p.hidden;
  const Shape state = batch_first ? Shape{p.batch, d, h} : Shape{d, p.batch, h};
  for (absl::Status s :
       {read(ctx, 0, x.dims(), p.x), read_weights(ctx, gates, p), read(ctx, 3, {d, 2 * gates * h}, p.bias), read(ctx, 5, state, p.h0)}) {
    if (!s.ok()) return s;
  }
  if (cell == Cell::kLstm) {
    for (absl::Status s : {read(ctx, 6, state, p.c0), read(ctx, 7, {d, 3 * h}, p.peephole)}) {
      if (!s.ok()) return s;
    }
  }
  if (quantized) round_to_bytes(std::span(p.x));
  if (batch_first) {
    p.x = swapped(p.x, p.batch, p.steps, p.input);
    if (!p.h0.empty()) p.h0 = swapped(p.h0, p.batch, d, h);
    if (!p.c0.empty()) p.c0 = swapped(p.c0, p.batch, d, h);
  }
  p.lengths.assign(static_cast<std::size_t>(p.batch), p.steps);
  if (ctx.has_input(4)) {
    absl::StatusOr<std::vector<std::int64_t>> lengths = int_values(ctx, ctx.tensor(4));
    if (!lengths.ok()) return lengths.status();
    if (lengths->size() != p.lengths.size()) return ctx.invalid("sequence_lens needs one number a batch entry");
    for (std::int64_t n : *lengths) {
      if (n < 0 || n > p.steps) return ctx.invalid("a sequence length is out of range");
    }
    p.lengths = *std::move(lengths);
  }
  absl::StatusOr<std::vector<Activation>> activations = activations_of(ctx, cell, d);
  if (!activations.ok()) return activations.status();
  p.activations = *std::move(activations);
  p.clip = ctx.attr_f("clip", 0.0f);
  p.linear_before_reset = ctx.attr_i("linear_before_reset", 0) != 0;
  p.input_forget = ctx.attr_i("input_forget", 0) != 0;
  return p;
}

// One direction of one cell type. `gate` holds x W^T + Wb for a row, `rec` h R^T + Rb.
template <typename C>
struct RecurrentStep {
  const Recurrent<C>& p;
  std::size_t direction;
  const Activation& f(std::size_t i, std::size_t per_direction) const { return p.activations[direction * per_direction + i]; }
  double clipped(double v) const { return p.clip > 0 ? std::clamp(v, -p.clip, p.clip) : v; }

  void rnn(const C* gate, const C* rec, C* h) const {
    for (std::int64_t j = 0; j < p.hidden; ++j)
      h[j] = static_cast<C>(f(0, 1)(clipped(static_cast<double>(gate[j]) + static_cast<double>(rec[j]))));
  }

  void lstm(const C* gate, const C* rec, C* h, C* c) const {
    const std::int64_t n = p.hidden;
    const C* peep = p.peephole.empty() ? nullptr : p.peephole.data() + static_cast<std::int64_t>(direction) * 3 * n;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto sum = [&](std::int64_t g) { return static_cast<double>(gate[g * n + j]) + static_cast<double>(rec[g * n + j]); };
      const auto look = [&](std::int64_t k, double cell) { return peep == nullptr ? 0.0 : static_cast<double>(peep[k * n + j]) * cell; };
      const auto before = static_cast<double>(c[j]);
      const double i = f(0, 3)(clipped(sum(0) + look(0, before)));
      const double forget = p.input_forget ? 1 - i : f(0, 3)(clipped(sum(2) + look(2, before)));
      const double cell = forget * before + i * f(1, 3)(clipped(sum(3)));
      const double o = f(0, 3)(clipped(sum(1) + look(1, cell)));
      c[j] = static_cast<C>(cell);
      h[j] = static_cast<C>(o * f(2, 3)(cell));
    }
  }

  // `rec` has z and r, and for linear_before_reset also h; `reset_product` makes (r . h) Rh^T + Rbh otherwise.
  template <typename F>
  void gru(const C* gate, const C* rec, C* h, F reset_product) const {
    const std::int64_t n = p.hidden;
    std::vector<double> z(static_cast<std::size_t>(n)), r(z.size());
    std::vector<C> reset(z.size()), hidden(z.size());
    for (std::int64_t j = 0; j < n; ++j) {
      z[static_cast<std::size_t>(j)] = f(0, 2)(clipped(static_cast<double>(gate[j]) + static_cast<double>(rec[j])));
      r[static_cast<std::size_t>(j)] = f(0, 2)(clipped(static_cast<double>(gate[n + j]) + static_cast<double>(rec[n + j])));
      reset[static_cast<std::size_t>(j)] = static_cast<C>(r[static_cast<std::size_t>(j)] * static_cast<double>(h[j]));
    }
    if (!p.linear_before_reset) reset_product(reset.data(), hidden.data());
    for (std::int64_t j = 0; j < n; ++j) {
      const auto k = static_cast<std::size_t>(j);
      const double inner = p.linear_before_reset ? r[k] * static_cast<double>(rec[2 * n + j]) : static_cast<double>(hidden[k]);
      const double candidate = f(1, 2)(clipped(static_cast<double>(gate[2 * n + j]) + inner));
      h[j] = static_cast<C>((1 - z[k]) * candidate + z[k] * static_cast<double>(h[j]));
    }
  }
};

// One direction: h and c [batch, hidden] hold the initial states and end as the last ones.
template <typename C>
struct Direction {
  std::size_t index;
  bool reverse;
  C *h, *c;
};

// y [steps, directions, batch, hidden].
template <typename C>
void run_direction(const KernelContext& ctx, const Recurrent<C>& p, Cell cell, const Direction<C>& of, C* y) {
  const auto [direction, reverse, h, c] = of;
  const std::int64_t n = p.hidden, g = gates_of(cell) * n, d = static_cast<std::int64_t>(direction);
  const C *w = p.w.data() + d * g * p.input, *r = p.r.data() + d * g * n;
  const C *wb = p.bias.empty() ? nullptr : p.bias.data() + d * 2 * g, *rb = wb == nullptr ? nullptr : wb + g;
  std::vector<C> gates(static_cast<std::size_t>(p.steps * p.batch * g)), rec(static_cast<std::size_t>(p.batch * g));
  gemm_any<C>(ctx, {p.steps * p.batch, g, p.input}, {p.x.data(), p.input, 1}, {w, 1, p.input}, {gates.data(), g});
  if (wb != nullptr) {
    for (std::int64_t i = 0; i < p.steps * p.batch; ++i) {
      for (std::int64_t j = 0; j < g; ++j) gates[static_cast<std::size_t>(i * g + j)] += wb[j];
    }
  }
  const RecurrentStep<C> step{p, direction};
  std::vector<C> rounded;
  for (std::int64_t t = 0; t < p.steps; ++t) {
    if (p.quantized) {
      rounded.assign(h, h + p.batch * n);
      round_to_bytes(std::span(rounded));
    }
    gemm_any<C>(ctx, {p.batch, g, n}, {p.quantized ? rounded.data() : h, n, 1}, {r, 1, n}, {rec.data(), g});
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const std::int64_t length = p.lengths[static_cast<std::size_t>(b)];
      if (t >= length) continue;
      const std::int64_t at = reverse ? length - 1 - t : t;
      const C* gate = gates.data() + (at * p.batch + b) * g;
      C *state = h + b * n, *sums = rec.data() + b * g;
      if (rb != nullptr) {
        for (std::int64_t j = 0; j < g; ++j) sums[j] += rb[j];
      }
      if (cell == Cell::kRnn) step.rnn(gate, sums, state);
      if (cell == Cell::kLstm) step.lstm(gate, sums, state, c + b * n);
      if (cell == Cell::kGru) {
        step.gru(gate, sums, state, [&](const C* reset, C* out) {
          gemm_any<C>(ctx, {1, n, n}, {reset, n, 1}, {r + 2 * n * n, 1, n}, {out, n});
          for (std::int64_t j = 0; j < n && rb != nullptr; ++j) out[j] += rb[2 * n + j];
        });
      }
      std::copy_n(state, n, y + ((at * p.directions + d) * p.batch + b) * n);
    }
  }
}

template <typename C>
Outputs recurrent_as(const KernelContext& ctx, Cell cell, bool quantized = false) {
  absl::StatusOr<Recurrent<C>> p = read_recurrent<C>(ctx, cell, quantized);
  if (!p.ok()) return p.status();
  const std::int64_t d = p->directions, n = p->hidden, states = d * p->batch * n;
  std::vector<C> y(static_cast<std::size_t>(p->steps * states), C(0)), h = p->h0, c = p->c0;
  h.resize(static_cast<std::size_t>(states), C(0));
  c.resize(static_cast<std::size_t>(states), C(0));
  const bool reverse = ctx.attr_s("direction", "forward") == "reverse";
  for (std::int64_t k = 0; k < d; ++k) {
    const Direction<C> of{static_cast<std::size_t>(k), reverse || k == 1, h.data() + k * p->batch * n, c.data() + k * p->batch * n};
    run_direction(ctx, *p, cell, of, y.data());
  }
  Shape y_dims{p->steps, d, p->batch, n}, state_dims{d, p->batch, n};
  if (ctx.attr_i("layout", 0) != 0) {
    // [steps, directions, batch, n] to [batch, steps, directions, n]
    y = swapped(y, p->steps * d, p->batch, n);
    h = swapped(h, d, p->batch, n);
    c = swapped(c, d, p->batch, n);
    y_dims = {p->batch, p->steps, d, n};
    state_dims = {p->batch, d, n};
  }
  std::vector<Value> out(cell == Cell::kLstm ? 3 : 2);
  const std::array<const std::vector<C>*, 3> values{&y, &h, &c};
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!ctx.wants(static_cast<int>(i))) continue;
    absl::StatusOr<Tensor> t = narrowed(ctx, quantized ? DType::kFloat : ctx.tensor(0).dtype(), i == 0 ? y_dims : state_dims, *values[i]);
    if (!t.ok()) return t.status();
    out[i] = *std::move(t);
  }
  return out;
}

template <Cell kCell>
Outputs recurrent(KernelContext& ctx) {
  const DType dtype = ctx.tensor(0).dtype();
  if (!names(FloatTypes{}, dtype)) return ctx.unsupported_dtype(dtype);
  return dtype == DType::kDouble || ctx.options.reference ? recurrent_as<double>(ctx, kCell) : recurrent_as<float>(ctx, kCell);
}

// Every row of the batch is rounded with one scale, as ONNX Runtime does on one thread.
Outputs dynamic_quantize_lstm(KernelContext& ctx) {
  return ctx.options.reference ? recurrent_as<double>(ctx, Cell::kLstm, true) : recurrent_as<float>(ctx, Cell::kLstm, true);
}

}  // namespace

void register_rnn(Registry& registry) {
  registry.add("", "RNN", recurrent<Cell::kRnn>);
  registry.add("", "GRU", recurrent<Cell::kGru>);
  registry.add("", "LSTM", recurrent<Cell::kLstm>);
  registry.add("com.microsoft", "DynamicQuantizeLSTM", dynamic_quantize_lstm);
}

}  // namespace saturate
