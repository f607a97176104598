// com.microsoft.MoE as its CPU kernel computes it (ONNX Runtime 1.23 to 1.32; bench/fine_print/products.py): the router's scores are logits,
// of whose softmax the `k` largest are the weights; of equal ones the expert of the higher number is taken.
#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/linear/matmul.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

template <typename T>
double number(T x) {
  return static_cast<double>(static_cast<Compute<T>>(x));
}

struct Experts {
  std::int64_t tokens = 0, experts = 0, hidden = 0, inter = 0, wide = 0, k = 0;  // wide: what the first product of an expert gives
  bool gated = false, normalized = false;
  double alpha = 1, beta = 0, limit = HUGE_VAL;
  std::string activation;
};

template <typename T>
struct Numbers {
  const T *x = nullptr, *logits = nullptr, *fc1 = nullptr, *bias1 = nullptr, *fc2 = nullptr, *bias2 = nullptr;
};

// An expert that a token goes to.
struct Chosen {
  double weight;
  std::int64_t expert;
};

template <typename T>
std::vector<Chosen> chosen_of(const Experts& e, const T* logits) {
  std::vector<Chosen> all;
  double most = -HUGE_VAL, sum = 0;
  for (std::int64_t i = 0; i < e.experts; ++i) most = std::max(most, number(logits[i]));
  for (std::int64_t i = 0; i < e.experts; ++i) {
    all.push_back({std::exp(number(logits[i]) - most), i});
    sum += all.back().weight;
  }
  std::partial_sort(all.begin(), all.begin() + e.k, all.end(), [](const Chosen& a, const Chosen& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.expert > b.expert;
  });
  all.resize(static_cast<std::size_t>(e.k));
  if (e.normalized) {
    sum = 0;
    for (const Chosen& c : all) sum += c.weight;
  }
  for (Chosen& c : all) c.weight /= sum;
  return all;
}

double activated(const Experts& e, double x) {
  if (e.activation == "relu") return std::max(x, 0.0);
  if (e.activation == "silu") return x / (1 + std::exp(-x));
  if (e.activation == "gelu") return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

double gated(const Experts& e, double gate, double linear) {
  gate = std::min(gate, e.limit);
  linear = std::clamp(linear, -e.limit, e.limit);
  return gate / (1 + std::exp(-e.alpha * gate)) * (linear + e.beta);
}

template <typename T>
double product_of(const T* row, std::span<const double> x, const T* bias, std::int64_t at) {
  double sum = bias == nullptr ? 0 : number(bias[at]);
  for (std::size_t i = 0; i < x.size(); ++i) sum += number(row[i]) * x[i];
  return sum;
}

template <typename T>
void run_token(const Experts& e, const Numbers<T>& n, std::int64_t token, double* out) {
  std::vector<double> x(static_cast<std::size_t>(e.hidden)), wide(static_cast<std::size_t>(e.wide)), inter(static_cast<std::size_t>(e.inter));
  std::transform(n.x + token * e.hidden, n.x + (token + 1) * e.hidden, x.begin(), number<T>);
  for (const Chosen& c : chosen_of(e, n.logits + token * e.experts)) {
    if (c.weight == 0) continue;
    const T *fc1 = n.fc1 + c.expert * e.wide * e.hidden, *fc2 = n.fc2 + c.expert * e.hidden * e.inter;
    for (std::int64_t i = 0; i < e.wide; ++i)
      wide[static_cast<std::size_t>(i)] = product_of<T>(fc1 + i * e.hidden, x, n.bias1, c.expert * e.wide + i);
    for (std::size_t i = 0; i < inter.size(); ++i) inter[i] = e.gated ? gated(e, wide[2 * i], wide[2 * i + 1]) : activated(e, wide[i]);
    for (std::int64_t i = 0; i < e.hidden; ++i)
      out[i] += c.weight * product_of<T>(fc2 + i * e.inter, inter, n.bias2, c.expert * e.hidden + i);
  }
}

absl::StatusOr<Experts> experts_of(const KernelContext& ctx) {
  Experts e;
  const Tensor &x = ctx.tensor(0), &logits = ctx.tensor(1), &fc1 = ctx.tensor(2), &fc2 = ctx.tensor(4);
  if (ctx.has_input(6) || ctx.has_input(7)) return ctx.unsupported("a third product");
  if (ctx.attr_i("use_sparse_mixer", 0) != 0) return ctx.unsupported("a sparse mixer");
  if ((x.rank() != 2 && x.rank() != 3) || logits.rank() != 2 || fc1.rank() != 3 || fc2.rank() != 3)
    return ctx.invalid("tokens must be of rank 2 or 3, the router's scores of rank 2, and weights of rank 3");
  e.activation = ctx.attr_s("activation_type", "relu");
  e.gated = e.activation == "swiglu";
  if (e.gated && ctx.attr_i("swiglu_fusion", 0) != 1) return ctx.unsupported("swiglu whose gates are not interleaved");
  if (!e.gated && e.activation != "relu" && e.activation != "gelu" && e.activation != "silu" && e.activation != "identity")
    return ctx.invalid("unknown activation_type");
  e.hidden = x.dims().back(), e.experts = fc1.dims()[0], e.wide = fc1.dims()[1], e.inter = fc2.dims()[2];
  e.tokens = e.hidden == 0 ? 0 : x.size() / e.hidden;
  e.k = ctx.attr_i("k", 1);
  if (e.k < 1 || e.k > e.experts) return ctx.invalid("k must be from 1 to the number of experts");
  if (logits.dims() != Shape{e.tokens, e.experts} || fc1.dims()[2] != e.hidden || fc2.dims() != Shape{e.experts, e.hidden, e.inter} ||
      e.wide != (e.gated ? 2 : 1) * e.inter)
    return ctx.invalid("tokens, scores and weights do not fit");
  if ((ctx.has_input(3) && ctx.tensor(3).dims() != Shape{e.experts, e.wide}) ||
      (ctx.has_input(5) && ctx.tensor(5).dims() != Shape{e.experts, e.hidden}))
    return ctx.invalid("a bias has the wrong shape");
  e.normalized = ctx.attr_i("normalize_routing_weights", 0) != 0;
  e.alpha = static_cast<double>(ctx.attr_f("activation_alpha", 1)), e.beta = static_cast<double>(ctx.attr_f("activation_beta", 0));
  if (ctx.has_attr("swiglu_limit")) e.limit = static_cast<double>(ctx.attr_f("swiglu_limit", 0));
  return e;
}

Outputs mixture_of_experts(KernelContext& ctx) {
  absl::StatusOr<Experts> e = experts_of(ctx);
  if (!e.ok()) return e.status();
  for (std::size_t i = 1; i < 6; ++i)
    if (ctx.has_input(i) && ctx.tensor(i).dtype() != ctx.tensor(0).dtype()) return ctx.invalid("inputs differ in element type");
  std::vector<double> out(static_cast<std::size_t>(ctx.tensor(0).size()), 0.0);
  Outputs done = dispatch(FloatTypes{}, ctx, ctx.tensor(0).dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const auto data = [&](std::size_t i) { return ctx.has_input(i) ? ctx.tensor(i).data<T>() : nullptr; };
    const Numbers<T> n{data(0), data(1), data(2), data(3), data(4), data(5)};
    parallel_for(ctx, e->tokens, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) run_token(*e, n, t, out.data() + t * e->hidden);
    });
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return one_output(from_doubles(ctx, ctx.tensor(0).dtype(), ctx.tensor(0).dims(), out));
}

}  // namespace

void register_experts(Registry& registry) { registry.add(kMicrosoft, "MoE", mixture_of_experts); }

}  // namespace saturate
