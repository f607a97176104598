// Random operators (ONNX Operators: RandomNormal, RandomUniform, their Like forms, Bernoulli, Multinomial). The generator is ours: the same
// seed gives the same numbers here, not those of another runtime; without a seed the numbers are drawn from the node's name and output, the
// same in every run.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "egraph/stop.h"
#include "kernels/core/registry.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
class Generator {
 public:
  explicit Generator(const KernelContext& ctx) {
    if (ctx.has_attr("seed")) {
      const float seed = ctx.attr_f("seed", 0.0f);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &seed, sizeof bits);
      state_ = bits;
      return;
    }
    state_ = 0xcbf29ce484222325u;  // FNV-1a
    for (const std::string* s : {&ctx.node.name, ctx.node.outputs.empty() ? &ctx.node.op_type : &ctx.node.outputs[0]}) {
      for (char c : *s) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
  }
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  std::uint64_t state_ = 0;
};

Outputs drawn(const KernelContext& ctx, DType dtype, const Shape& dims, bool normal) {
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<double> values(static_cast<std::size_t>(product(dims)));
  Generator random(ctx);
  const double mean = ctx.attr_f("mean", 0.0f), scale = ctx.attr_f("scale", 1.0f), low = ctx.attr_f("low", 0.0f),
               high = ctx.attr_f("high", 1.0f);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % (1u << 16) == 0) heed_stop();
    values[i] = normal ? mean + scale * random.normal() : low + (high - low) * random.uniform();
  }
  return one_output(from_doubles(ctx, dtype, dims, values));
}

DType dtype_or(const KernelContext& ctx, DType fallback) {
  return static_cast<DType>(ctx.attr_i("dtype", static_cast<std::int64_t>(fallback)));
}

template <bool kNormal>
Outputs random_of_shape(KernelContext& ctx) {
  return drawn(ctx, dtype_or(ctx, DType::kFloat), ctx.attr_ints("shape"), kNormal);
}

template <bool kNormal>
Outputs random_like(KernelContext& ctx) {
  if (!ctx.is_tensor(0)) return ctx.invalid("the input is not a tensor");
  const DType own = is_floating(ctx.tensor(0).dtype()) ? ctx.tensor(0).dtype() : DType::kFloat;
  return drawn(ctx, dtype_or(ctx, own), ctx.tensor(0).dims(), kNormal);
}

Outputs bernoulli(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  auto p = to_doubles(ctx, x);
  if (!p.ok()) return p.status();
  Generator random(ctx);
  for (double& v : *p) v = random.uniform() < v ? 1 : 0;
  return one_output(from_doubles(ctx, dtype_or(ctx, x.dtype()), x.dims(), *p));
}

// Class numbers drawn by unnormalized log-probabilities.
Outputs multinomial(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::int64_t samples = ctx.attr_i("sample_size", 1);
  if (x.rank() != 2 || samples < 0 || x.dims()[1] == 0) return ctx.invalid("a matrix of log-probabilities is expected");
  const auto logs = to_doubles(ctx, x);
  if (!logs.ok()) return logs.status();
  const std::int64_t rows = x.dims()[0], classes = x.dims()[1];
  const Shape dims = {rows, samples};
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<double> out;
  Generator random(ctx);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* row = logs->data() + r * classes;
    const double largest = *std::max_element(row, row + classes);
    std::vector<double> sums;
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sums.push_back(sum += std::exp(row[c] - largest));
    for (std::int64_t s = 0; s < samples; ++s) {
      const auto it = std::upper_bound(sums.begin(), sums.end(), random.uniform() * sum);
      out.push_back(static_cast<double>(std::min<std::int64_t>(it - sums.begin(), classes - 1)));
    }
  }
  return one_output(from_doubles(ctx, dtype_or(ctx, DType::kInt32), dims, out));
}

}  // namespace

void register_random(Registry& registry) {
  registry.add("", "RandomNormal", random_of_shape<true>);
  registry.add("", "RandomUniform", random_of_shape<false>);
  registry.add("", "RandomNormalLike", random_like<true>);
  registry.add("", "RandomUniformLike", random_like<false>);
  registry.add("", "Bernoulli", bernoulli);
  registry.add("", "Multinomial", multinomial);
}

}  // namespace saturate
