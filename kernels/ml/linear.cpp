// Linear models and scalings (ONNX Operators-ml: LinearRegressor, LinearClassifier, Scaler, Normalizer, Imputer).
#include <algorithm>
#include <cmath>

#include "kernels/ml/util.h"
#include "kernels/tensor/util.h"

namespace saturate {

namespace {

// Inverse of the normal distribution's error function (Giles, "Approximating the erfinv function", refined by Newton steps).
double inverse_erf(double x) {
  if (x <= -1 || x >= 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  const double a = 0.147, l = std::log(1 - x * x), b = 2 / (3.14159265358979323846 * a) + l / 2;
  double y = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), x);
  for (int k = 0; k < 3; ++k) y -= (std::erf(y) - x) / (1.12837916709551257390 * std::exp(-y * y));
  return y;
}

}  // namespace

bool transform_scores(std::string_view name, std::span<double> scores) {
  if (name == "NONE" || name.empty()) return true;
  if (name == "LOGISTIC") {
    for (double& s : scores) s = 1 / (1 + std::exp(-s));
    return true;
  }
  if (name == "PROBIT") {
    for (double& s : scores) s = 1.41421356237309504880 * inverse_erf(2 * s - 1);
    return true;
  }
  const bool keep_zero = name == "SOFTMAX_ZERO";
  if (!keep_zero && name != "SOFTMAX") return false;
  if (scores.empty()) return true;
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) {
    if (!keep_zero || s != 0) s = std::exp(s - largest);
    sum += s;
  }
  for (double& s : scores) s /= sum == 0 ? 1 : sum;
  return true;
}

absl::StatusOr<Scores> matrix_of(const KernelContext& ctx, const Tensor& x) {
  if (x.rank() < 1 || x.rank() > 2) return ctx.invalid("a vector or matrix is expected");
  auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  Scores m{x.rank() == 2 ? x.dims()[0] : 1, x.dims().back(), {}};
  m.values = *std::move(values);
  return m;
}

ClassLabels::ClassLabels(const KernelContext& ctx)
    : names(ctx.attr_strings("classlabels_strings")), ids(ctx.attr_ints("classlabels_ints")) {
  if (ids.empty()) ids = ctx.attr_ints("classlabels_int64s");
}

Tensor ClassLabels::tensor(std::span<const std::size_t> chosen) const {
  std::vector<std::string> strings;
  std::vector<std::int64_t> numbers;
  for (std::size_t k : chosen) names.empty() ? numbers.push_back(ids[k]) : strings.push_back(names[k]);
  if (names.empty()) return Tensor::vector_int64(numbers);
  return Tensor::strings({static_cast<std::int64_t>(chosen.size())}, std::move(strings));
}

absl::StatusOr<Tensor> scores_tensor(const KernelContext& ctx, DType to, const Scores& scores) {
  return from_doubles(ctx, to, {scores.rows, scores.cols}, scores.values);
}

Outputs classified(const KernelContext& ctx, const ClassLabels& labels, std::span<const std::size_t> chosen, const Scores& scores) {
  auto out = scores_tensor(ctx, DType::kFloat, scores);
  if (!out.ok()) return out.status();
  if (labels.names.empty()) return outputs_of(labels.tensor(chosen), *std::move(out));
  absl::StatusOr<Tensor> names = ctx.copies({static_cast<std::int64_t>(chosen.size())}, chosen.size(),
                                            [&](std::size_t i) -> const std::string& { return labels.names[chosen[i]]; });
  if (!names.ok()) return names.status();
  return outputs_of(*std::move(names), *std::move(out));
}

namespace {

// X W' + b with one row of W per target.
absl::StatusOr<Scores> linear(const KernelContext& ctx, const Scores& x, std::int64_t targets) {
  const std::vector<float> w = ctx.attr_floats("coefficients"), b = ctx.attr_floats("intercepts");
  if (targets <= 0 || static_cast<std::int64_t>(w.size()) != targets * x.cols ||
      (!b.empty() && static_cast<std::int64_t>(b.size()) != targets))
    return ctx.invalid("the coefficients do not fit");
  if (const auto room = ctx.allocate(DType::kDouble, {x.rows, targets}); !room.ok()) return room.status();
  Scores y{x.rows, targets, std::vector<double>(static_cast<std::size_t>(x.rows * targets))};
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t t = 0; t < targets; ++t) {
      double sum = b.empty() ? 0.0 : b[static_cast<std::size_t>(t)];
      for (std::int64_t k = 0; k < x.cols; ++k)
        sum += x.values[static_cast<std::size_t>(r * x.cols + k)] * w[static_cast<std::size_t>(t * x.cols + k)];
      y.values[static_cast<std::size_t>(r * targets + t)] = sum;
    }
  }
  return y;
}

absl::Status transform_rows(const KernelContext& ctx, Scores& y) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    if (!transform_scores(ctx.attr_s("post_transform", "NONE"), y.row(r))) return ctx.invalid("the post_transform is not known");
  }
  return absl::OkStatus();
}

Outputs linear_regressor(KernelContext& ctx) {
  const auto x = matrix_of(ctx, ctx.tensor(0));
  if (!x.ok()) return x.status();
  auto y = linear(ctx, *x, ctx.attr_i("targets", 1));
  if (!y.ok()) return y.status();
  if (const absl::Status s = transform_rows(ctx, *y); !s.ok()) return s;
  return one_output(from_doubles(ctx, DType::kFloat, {y->rows, y->cols}, y->values));
}

Outputs linear_classifier(KernelContext& ctx) {
  const auto x = matrix_of(ctx, ctx.tensor(0));
  if (!x.ok()) return x.status();
  const ClassLabels labels(ctx);
  const auto classes = static_cast<std::int64_t>(labels.size());
  const auto targets = static_cast<std::int64_t>(ctx.attr_floats("intercepts").size());
  auto y = linear(ctx, *x, std::max<std::int64_t>(targets, 1));
  if (!y.ok()) return y.status();
  const std::string transform = ctx.attr_s("post_transform", "NONE");
  if (y->cols == 1 && classes == 2) {  // one score decides between two classes
    Scores both{y->rows, 2, {}};
    for (double s : y->values) {
      if (transform == "NONE")
        both.values.insert(both.values.end(), {-s, s});
      else if (transform == "LOGISTIC")
        both.values.insert(both.values.end(), {-s, s});
      else
        both.values.insert(both.values.end(), {0.0, s});
    }
    y = std::move(both);
  }
  if (y->cols != classes) return ctx.invalid("labels and scores differ in number");
  if (const absl::Status s = transform_rows(ctx, *y); !s.ok()) return s;
  std::vector<std::size_t> chosen;
  for (std::int64_t r = 0; r < y->rows; ++r)
    chosen.push_back(static_cast<std::size_t>(std::max_element(y->row(r).begin(), y->row(r).end()) - y->row(r).begin()));
  return classified(ctx, labels, chosen, *y);
}

Outputs scaler(KernelContext& ctx) {
  const Tensor& t = ctx.tensor(0);
  auto x = matrix_of(ctx, t);
  if (!x.ok()) return x.status();
  const std::vector<float> offset = ctx.attr_floats("offset"), scale = ctx.attr_floats("scale");
  const auto cols = static_cast<std::size_t>(x->cols);
  for (const auto* v : {&offset, &scale}) {
    if (v->size() != 1 && v->size() != cols) return ctx.invalid("offset or scale has the wrong length");
  }
  for (std::size_t i = 0; i < x->values.size(); ++i) {
    const std::size_t k = i % cols;
    x->values[i] = (x->values[i] - offset[offset.size() == 1 ? 0 : k]) * scale[scale.size() == 1 ? 0 : k];
  }
  return one_output(from_doubles(ctx, DType::kFloat, t.dims(), x->values));
}

Outputs normalizer(KernelContext& ctx) {
  const Tensor& t = ctx.tensor(0);
  auto x = matrix_of(ctx, t);
  if (!x.ok()) return x.status();
  const std::string norm = ctx.attr_s("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") return ctx.invalid("the norm is not known");
  for (std::int64_t r = 0; r < x->rows; ++r) {
    const std::span<double> row = std::span(x->values).subspan(static_cast<std::size_t>(r * x->cols), static_cast<std::size_t>(x->cols));
    double size = 0;
    for (double v : row) size = norm == "MAX" ? std::max(size, std::fabs(v)) : size + (norm == "L1" ? std::fabs(v) : v * v);
    if (norm == "L2") size = std::sqrt(size);
    for (double& v : row) v /= size == 0 ? 1 : size;
  }
  return one_output(from_doubles(ctx, DType::kFloat, t.dims(), x->values));
}

Outputs imputer(KernelContext& ctx) {
  const Tensor& t = ctx.tensor(0);
  auto x = matrix_of(ctx, t);
  if (!x.ok()) return x.status();
  std::vector<double> with;
  for (float f : ctx.attr_floats("imputed_value_floats")) with.push_back(f);
  for (std::int64_t i : ctx.attr_ints("imputed_value_int64s")) with.push_back(static_cast<double>(i));
  const bool whole = ctx.has_attr("imputed_value_int64s");
  const double missing =
      whole ? static_cast<double>(ctx.attr_i("replaced_value_int64", 0)) : static_cast<double>(ctx.attr_f("replaced_value_float", 0.0f));
  const auto cols = static_cast<std::size_t>(x->cols);
  if (with.size() != 1 && with.size() != cols) return ctx.invalid("the imputed values have the wrong length");
  for (std::size_t i = 0; i < x->values.size(); ++i) {
    double& v = x->values[i];
    if (v == missing || (std::isnan(v) && std::isnan(missing))) v = with[with.size() == 1 ? 0 : i % cols];
  }
  return one_output(from_doubles(ctx, t.dtype(), t.dims(), x->values));
}

}  // namespace

void register_ml_linear(Registry& registry) {
  registry.add(kMlDomain, "LinearRegressor", linear_regressor);
  registry.add(kMlDomain, "LinearClassifier", linear_classifier);
  registry.add(kMlDomain, "Scaler", scaler);
  registry.add(kMlDomain, "Normalizer", normalizer);
  registry.add(kMlDomain, "Imputer", imputer);
}

}  // namespace saturate
