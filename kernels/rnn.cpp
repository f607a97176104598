// RNN, GRU, LSTM (ONNX spec): all opset versions; layout since 14.
#include <algorithm>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/registry.h"

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
  static constexpr std::string_view kWithAlpha[] = {"Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"};
  static constexpr std::string_view kWithBeta[] = {"Affine", "ScaledTanh", "HardSigmoid"};
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
    if (std::find(std::begin(kWithAlpha), std::end(kWithAlpha), name) != std::end(kWithAlpha) && next_alpha < alphas.size())
      alpha = alphas[next_alpha++];
    if (std::find(std::begin(kWithBeta), std::end(kWithBeta), name) != std::end(kWithBeta) && next_beta < betas.size())
      beta = betas[next_beta++];
    std::optional<Activation> f = activation_function(name, alpha, beta);
    if (!f) return ctx.unsupported("activation '" + name + "'");
    out.push_back(*std::move(f));
  }
  return out;
}

template <typename C>
absl::StatusOr<Recurrent<C>> read_recurrent(const KernelContext& ctx, Cell cell) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() != 3 || ctx.tensor(1).rank() != 3 || ctx.tensor(2).rank() != 3) return ctx.invalid("X, W and R must be of rank 3");
  const bool batch_first = ctx.attr_i("layout", 0) != 0;
  const int gates = gates_of(cell);
  Recurrent<C> p;
  p.steps = x.dims()[batch_first ? 1 : 0];
  p.batch = x.dims()[batch_first ? 0 : 1];
  p.input = x.dims()[2];
  p.hidden = ctx.tensor(2).dims()[2];
  const std::string direction = ctx.attr_s("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") return ctx.invalid("unknown direction");
  p.directions = direction == "bidirectional" ? 2 : 1;
  const std::int64_t d = p.directions, h = p.hidden;
  const Shape state = batch_first ? Shape{p.batch, d, h} : Shape{d, p.batch, h};
  for (absl::Status s : {read(ctx, 0, x.dims(), p.x), read(ctx, 1, {d, gates * h, p.input}, p.w), read(ctx, 2, {d, gates * h, h}, p.r),
                         read(ctx, 3, {d, 2 * gates * h}, p.bias), read(ctx, 5, state, p.h0)}) {
    if (!s.ok()) return s;
  }
  if (cell == Cell::kLstm) {
    for (absl::Status s : {read(ctx, 6, state, p.c0), read(ctx, 7, {d, 3 * h}, p.peephole)}) {
      if (!s.ok()) return s;
    }
  }
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
struct Step {
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

// y [steps, directions, batch, hidden]; h and c [directions, batch, hidden] hold the initial states and end as the last ones.
template <typename C>
void run_direction(const KernelContext& ctx, const Recurrent<C>& p, Cell cell, std::size_t direction, bool reverse, C* y, C* h, C* c) {
  const std::int64_t n = p.hidden, g = gates_of(cell) * n, d = static_cast<std::int64_t>(direction);
  const C *w = p.w.data() + d * g * p.input, *r = p.r.data() + d * g * n;
  const C *wb = p.bias.empty() ? nullptr : p.bias.data() + d * 2 * g, *rb = wb == nullptr ? nullptr : wb + g;
  std::vector<C> gates(static_cast<std::size_t>(p.steps * p.batch * g)), rec(static_cast<std::size_t>(p.batch * g));
  gemm_any<C>(ctx, p.steps * p.batch, g, p.input, {p.x.data(), p.input, 1}, {w, 1, p.input}, gates.data(), g);
  if (wb != nullptr) {
    for (std::int64_t i = 0; i < p.steps * p.batch; ++i) {
      for (std::int64_t j = 0; j < g; ++j) gates[static_cast<std::size_t>(i * g + j)] += wb[j];
    }
  }
  const Step<C> step{p, direction};
  for (std::int64_t t = 0; t < p.steps; ++t) {
    gemm_any<C>(ctx, p.batch, g, n, {h, n, 1}, {r, 1, n}, rec.data(), g);
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
          gemm_any<C>(ctx, 1, n, n, {reset, n, 1}, {r + 2 * n * n, 1, n}, out, n);
          for (std::int64_t j = 0; j < n && rb != nullptr; ++j) out[j] += rb[2 * n + j];
        });
      }
      std::copy_n(state, n, y + ((at * p.directions + d) * p.batch + b) * n);
    }
  }
}

template <typename T, typename C>
absl::StatusOr<Value> as_output(const KernelContext& ctx, const Shape& dims, const std::vector<C>& values) {
  absl::StatusOr<Tensor> t = ctx.allocate(dtype_of<T>(), dims);
  if (!t.ok()) return t.status();
  for (std::size_t i = 0; i < values.size(); ++i) write<T>(*t)[i] = static_cast<T>(values[i]);
  return Value(*std::move(t));
}

template <typename T, typename C>
Outputs recurrent_as(const KernelContext& ctx, Cell cell) {
  absl::StatusOr<Recurrent<C>> p = read_recurrent<C>(ctx, cell);
  if (!p.ok()) return p.status();
  const std::int64_t d = p->directions, n = p->hidden, states = d * p->batch * n;
  std::vector<C> y(static_cast<std::size_t>(p->steps * states), C(0)), h = p->h0, c = p->c0;
  h.resize(static_cast<std::size_t>(states), C(0));
  c.resize(static_cast<std::size_t>(states), C(0));
  const bool reverse = ctx.attr_s("direction", "forward") == "reverse";
  for (std::int64_t k = 0; k < d; ++k) {
    run_direction(ctx, *p, cell, static_cast<std::size_t>(k), reverse || k == 1, y.data(), h.data() + k * p->batch * n,
                  c.data() + k * p->batch * n);
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
    absl::StatusOr<Value> v = as_output<T, C>(ctx, i == 0 ? y_dims : state_dims, *values[i]);
    if (!v.ok()) return v.status();
    out[i] = *std::move(v);
  }
  return out;
}

template <Cell kCell>
Outputs recurrent(KernelContext& ctx) {
  return dispatch(FloatTypes{}, ctx, ctx.tensor(0).dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    if (std::is_same_v<T, double> || ctx.options.reference) return recurrent_as<T, double>(ctx, kCell);
    return recurrent_as<T, float>(ctx, kCell);
  });
}

}  // namespace

void register_rnn(Registry& registry) {
  registry.add("", "RNN", recurrent<Cell::kRnn>);
  registry.add("", "GRU", recurrent<Cell::kGru>);
  registry.add("", "LSTM", recurrent<Cell::kLstm>);
}

}  // namespace saturate
