// com.microsoft.MoE as its CPU kernel computes it (ONNX Runtime 1.23 to 1.32; bench/fine_print/products.py): the router's scores are
// logits, of whose softmax the `k` largest are the weights; of equal ones the expert of the higher number is taken.
#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/linear/matmul.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

struct Experts {
  std::int64_t tokens = 0, experts = 0, hidden = 0, inter = 0, wide = 0, k = 0;  // wide: what the first product of an expert gives
  bool gated = false, normalized = false;
  double alpha = 1, beta = 0, limit = HUGE_VAL;
  std::string activation;
};

// An expert that a token goes to.
struct Chosen {
  double weight;
  std::int64_t expert;
};

std::vector<Chosen> chosen_of(const Experts& e, const double* logits) {
  std::vector<Chosen> all;
  double most = -HUGE_VAL, sum = 0;
  for (std::int64_t i = 0; i < e.experts; ++i) most = std::max(most, logits[i]);
  for (std::int64_t i = 0; i < e.experts; ++i) {
    all.push_back({std::exp(logits[i] - most), i});
    sum += all.back().weight;
  }
  std::partial_sort(all.begin(), all.begin() + e.k, all.end(),
                    [](const Chosen& a, const Chosen& b) { return a.weight != b.weight ? a.weight > b.weight : a.expert > b.expert; });
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

// Rows times the matrix of an expert, and its bias, in double.
absl::StatusOr<std::vector<double>> layer(const KernelContext& ctx, const Tensor& rows, std::size_t weights, std::int64_t expert) {
  absl::StatusOr<Tensor> matrix = select(ctx, ctx.tensor(weights), 0, expert);
  if (!matrix.ok()) return matrix.status();
  absl::StatusOr<Tensor> y = matmul(ctx, rows, *matrix, {false, true, 1.0f});
  if (!y.ok()) return y.status();
  absl::StatusOr<std::vector<double>> out = to_doubles(ctx, *y);
  if (!out.ok() || !ctx.has_input(weights + 1)) return out;
  absl::StatusOr<Tensor> bias = select(ctx, ctx.tensor(weights + 1), 0, expert);
  if (!bias.ok()) return bias.status();
  const absl::StatusOr<std::vector<double>> b = to_doubles(ctx, *bias);
  if (!b.ok()) return b.status();
  for (std::size_t i = 0; i < out->size(); ++i) (*out)[i] += (*b)[i % b->size()];
  return out;
}

// A token that goes to an expert.
struct Visit {
  std::int64_t token;
  double weight;
};

absl::Status run_expert(const KernelContext& ctx, const Experts& e, std::int64_t expert, std::span<const Visit> visits,
                        std::span<double> out) {
  const Tensor& x = ctx.tensor(0);
  const std::size_t row = x.bytes().size() / static_cast<std::size_t>(e.tokens), rows = visits.size();
  absl::StatusOr<Tensor> in = ctx.allocate(x.dtype(), {static_cast<std::int64_t>(rows), e.hidden});
  if (!in.ok()) return in.status();
  for (std::size_t i = 0; i < rows; ++i)
    std::copy_n(x.bytes().data() + static_cast<std::size_t>(visits[i].token) * row, row, write<std::byte>(*in) + i * row);
  const absl::StatusOr<std::vector<double>> wide = layer(ctx, *in, 2, expert);
  if (!wide.ok()) return wide.status();
  std::vector<double> inter(rows * static_cast<std::size_t>(e.inter));
  for (std::size_t i = 0; i < inter.size(); ++i)
    inter[i] = e.gated ? gated(e, (*wide)[2 * i], (*wide)[2 * i + 1]) : activated(e, (*wide)[i]);
  const absl::StatusOr<Tensor> between = from_doubles(ctx, x.dtype(), {static_cast<std::int64_t>(rows), e.inter}, inter);
  if (!between.ok()) return between.status();
  const absl::StatusOr<std::vector<double>> y = layer(ctx, *between, 4, expert);
  if (!y.ok()) return y.status();
  const auto hidden = static_cast<std::size_t>(e.hidden);
  for (std::size_t i = 0; i < y->size(); ++i)
    out[static_cast<std::size_t>(visits[i / hidden].token) * hidden + i % hidden] += visits[i / hidden].weight * (*y)[i];
  return absl::OkStatus();
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
  const absl::StatusOr<std::vector<double>> logits = to_doubles(ctx, ctx.tensor(1));
  if (!logits.ok()) return logits.status();
  std::vector<std::vector<Visit>> visits(static_cast<std::size_t>(e->experts));
  for (std::int64_t t = 0; t < e->tokens; ++t)
    for (const Chosen& c : chosen_of(*e, logits->data() + t * e->experts))
      if (c.weight != 0) visits[static_cast<std::size_t>(c.expert)].push_back({t, c.weight});
  std::vector<double> out(static_cast<std::size_t>(ctx.tensor(0).size()), 0.0);
  for (std::size_t i = 0; i < visits.size() && e->inter > 0; ++i)
    if (!visits[i].empty())
      if (absl::Status s = run_expert(ctx, *e, static_cast<std::int64_t>(i), visits[i], out); !s.ok()) return s;
  return one_output(from_doubles(ctx, ctx.tensor(0).dtype(), ctx.tensor(0).dims(), out));
}

}  // namespace

void register_experts(Registry& registry) { registry.add(kMicrosoft, "MoE", mixture_of_experts); }

}  // namespace saturate
