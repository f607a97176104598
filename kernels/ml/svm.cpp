// Support vector machines (ONNX Operators-ml: SVMClassifier, SVMRegressor).
#include <algorithm>
#include <cmath>

#include "kernels/ml/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

// The kernel function of kernel_type and kernel_params (gamma, coef0, degree).
class Similarity {
 public:
  static absl::StatusOr<Similarity> of(const KernelContext& ctx) {
    Similarity s;
    s.kind_ = ctx.attr_s("kernel_type", "LINEAR");
    const std::vector<float> params = ctx.attr_floats("kernel_params");
    if (s.kind_ != "LINEAR" && s.kind_ != "POLY" && s.kind_ != "RBF" && s.kind_ != "SIGMOID")
      return ctx.invalid("the kernel_type is not known");
    if (!params.empty() && params.size() != 3) return ctx.invalid("kernel_params needs gamma, coef0 and degree");
    if (!params.empty()) s.gamma_ = params[0], s.coef0_ = params[1], s.degree_ = params[2];
    return s;
  }

  double operator()(std::span<const double> x, std::span<const float> v) const {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += kind_ == "RBF" ? (x[i] - v[i]) * (x[i] - v[i]) : x[i] * v[i];
    if (kind_ == "RBF") return std::exp(-gamma_ * sum);
    if (kind_ == "POLY") return std::pow(gamma_ * sum + coef0_, degree_);
    return kind_ == "SIGMOID" ? std::tanh(gamma_ * sum + coef0_) : sum;
  }

 private:
  std::string kind_;
  double gamma_ = 0, coef0_ = 0, degree_ = 0;
};

Outputs svm_regressor(KernelContext& ctx) {
  auto x = matrix_of(ctx, ctx.tensor(0));
  if (!x.ok()) return x.status();
  const auto similarity = Similarity::of(ctx);
  if (!similarity.ok()) return similarity.status();
  const std::vector<float> coefficients = ctx.attr_floats("coefficients"), vectors = ctx.attr_floats("support_vectors"),
                           rho = ctx.attr_floats("rho");
  const auto supports = static_cast<std::size_t>(std::max<std::int64_t>(ctx.attr_i("n_supports", 0), 0));
  const auto cols = static_cast<std::size_t>(x->cols);
  if (rho.empty() || coefficients.size() != (supports == 0 ? cols : supports) || vectors.size() != supports * cols)
    return ctx.invalid("the coefficients or the support vectors do not fit");
  Scores y{x->rows, 1, {}};
  for (std::int64_t r = 0; r < x->rows; ++r) {
    double sum = rho[0];
    if (supports == 0) sum += (*similarity)(x->row(r), coefficients);
    for (std::size_t s = 0; s < supports; ++s)
      sum += coefficients[s] * (*similarity)(x->row(r), std::span(vectors).subspan(s * cols, cols));
    if (ctx.attr_i("one_class", 0) != 0) sum = sum > 0 ? 1 : -1;
    if (!transform_scores(ctx.attr_s("post_transform", "NONE"), std::span(&sum, 1))) return ctx.invalid("the post_transform is not known");
    y.values.push_back(sum);
  }
  return one_output(scores_tensor(ctx, DType::kFloat, y));
}

// Probabilities of k classes from those of each pair, p[i * k + j] = P(i | i or j): the fixed point iteration of
// Wu, Lin, Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling" (2004), section 4.
std::vector<double> coupled(const std::vector<double>& p, std::size_t k) {
  std::vector<double> q(k * k), out(k, 1.0 / static_cast<double>(k)), qp(k);
  for (std::size_t t = 0; t < k; ++t) {
    for (std::size_t j = 0; j < k; ++j) {
      if (j == t) continue;
      q[t * k + t] += p[j * k + t] * p[j * k + t];
      q[t * k + j] = -p[j * k + t] * p[t * k + j];
    }
  }
  for (int round = 0; round < 100; ++round) {
    double total = 0, worst = 0;
    for (std::size_t t = 0; t < k; ++t) {
      qp[t] = 0;
      for (std::size_t j = 0; j < k; ++j) qp[t] += q[t * k + j] * out[j];
      total += out[t] * qp[t];
    }
    for (double v : qp) worst = std::max(worst, std::fabs(v - total));
    if (worst < 0.005 / static_cast<double>(k)) break;
    for (std::size_t t = 0; t < k; ++t) {
      const double step = (total - qp[t]) / q[t * k + t];
      out[t] += step;
      total = (total + step * (step * q[t * k + t] + 2 * qp[t])) / (1 + step) / (1 + step);
      for (std::size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + step * q[t * k + j]) / (1 + step);
        out[j] /= 1 + step;
      }
    }
  }
  return out;
}

struct Machine {
  std::vector<float> coefficients, vectors, rho, prob_a, prob_b;
  std::vector<std::int64_t> per_class;
  std::size_t supports = 0;
};

absl::StatusOr<Machine> machine_of(const KernelContext& ctx, std::size_t cols, std::size_t classes) {
  Machine m{ctx.attr_floats("coefficients"),
            ctx.attr_floats("support_vectors"),
            ctx.attr_floats("rho"),
            ctx.attr_floats("prob_a"),
            ctx.attr_floats("prob_b"),
            ctx.attr_ints("vectors_per_class"),
            0};
  for (std::int64_t n : m.per_class) {
    if (n < 0 || n > static_cast<std::int64_t>(m.vectors.size())) return ctx.invalid("vectors_per_class is out of range");
    m.supports += static_cast<std::size_t>(n);
  }
  const std::size_t pairs = classes * (classes - 1) / 2;
  const bool fits = classes >= 2 && m.per_class.size() == classes && m.vectors.size() == m.supports * cols &&
                    m.coefficients.size() == (classes - 1) * m.supports && m.rho.size() == pairs && m.prob_a.size() == m.prob_b.size() &&
                    (m.prob_a.empty() || m.prob_a.size() == pairs);
  if (!fits) return ctx.invalid("the coefficients or the support vectors do not fit");
  return m;
}

// One decision value for each pair of classes: above 0 for the first.
std::vector<double> decide(const Machine& m, const Similarity& similarity, std::span<const double> x) {
  const std::size_t classes = m.per_class.size();
  std::vector<double> k(m.supports), out;
  for (std::size_t s = 0; s < m.supports; ++s) k[s] = similarity(x, std::span(m.vectors).subspan(s * x.size(), x.size()));
  std::vector<std::size_t> first(classes + 1);
  for (std::size_t c = 0; c < classes; ++c) first[c + 1] = first[c] + static_cast<std::size_t>(m.per_class[c]);
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j) {
      double sum = m.rho[out.size()];
      for (std::size_t s = first[i]; s < first[i + 1]; ++s) sum += m.coefficients[(j - 1) * m.supports + s] * k[s];
      for (std::size_t s = first[j]; s < first[j + 1]; ++s) sum += m.coefficients[i * m.supports + s] * k[s];
      out.push_back(sum);
    }
  }
  return out;
}

std::vector<double> probabilities(const Machine& m, std::span<const double> decisions) {
  const std::size_t classes = m.per_class.size();
  std::vector<double> p(classes * classes);
  for (std::size_t i = 0, n = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j, ++n) {
      const double one = 1 / (1 + std::exp(decisions[n] * m.prob_a[n] + m.prob_b[n]));
      p[i * classes + j] = std::clamp(one, 1e-7, 1 - 1e-7);
      p[j * classes + i] = 1 - p[i * classes + j];
    }
  }
  return coupled(p, classes);
}

std::size_t voted(std::span<const double> decisions, std::size_t classes) {
  std::vector<int> votes(classes);
  for (std::size_t i = 0, n = 0; i < classes; ++i)
    for (std::size_t j = i + 1; j < classes; ++j, ++n) ++votes[decisions[n] > 0 ? i : j];
  return static_cast<std::size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

Outputs svm_classifier(KernelContext& ctx) {
  auto x = matrix_of(ctx, ctx.tensor(0));
  if (!x.ok()) return x.status();
  if (ctx.attr_ints("vectors_per_class").empty()) return ctx.unsupported("a linear machine without support vectors");
  const auto similarity = Similarity::of(ctx);
  if (!similarity.ok()) return similarity.status();
  const ClassLabels labels(ctx);
  const auto m = machine_of(ctx, static_cast<std::size_t>(x->cols), labels.size());
  if (!m.ok()) return m.status();
  std::vector<std::size_t> chosen;
  Scores y{x->rows, 0, {}};
  for (std::int64_t r = 0; r < x->rows; ++r) {
    std::vector<double> scores = decide(*m, *similarity, x->row(r));
    chosen.push_back(voted(scores, labels.size()));
    if (!m->prob_a.empty())
      scores = probabilities(*m, scores);
    else if (scores.size() == 1)
      scores = {-scores[0], scores[0]};
    if (!transform_scores(ctx.attr_s("post_transform", "NONE"), scores)) return ctx.invalid("the post_transform is not known");
    y.cols = static_cast<std::int64_t>(scores.size());
    y.values.insert(y.values.end(), scores.begin(), scores.end());
  }
  return classified(ctx, labels, chosen, y);
}

}  // namespace

void register_ml_svm(Registry& registry) {
  registry.add(kMlDomain, "SVMClassifier", svm_classifier);
  registry.add(kMlDomain, "SVMRegressor", svm_regressor);
}

}  // namespace saturate
