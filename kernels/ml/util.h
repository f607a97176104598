// The parts of the ai.onnx.ml family: one function per source file; what classifiers and regressors share.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/core/registry.h"

namespace saturate {

// "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" applied to one row of scores; false: not known.
bool transform_scores(std::string_view name, std::span<double> scores);

// One row of numbers per sample.
struct Scores {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;
  std::span<double> row(std::int64_t r) {
    return std::span(values).subspan(static_cast<std::size_t>(r * cols), static_cast<std::size_t>(cols));
  }
};

// A vector is a single row.
absl::StatusOr<Scores> matrix_of(const KernelContext& ctx, const Tensor& x);
absl::StatusOr<Tensor> scores_tensor(const KernelContext& ctx, DType to, const Scores& scores);

// The classes of a classifier, named or numbered (classlabels_*).
struct ClassLabels {
  explicit ClassLabels(const KernelContext& ctx);
  std::size_t size() const { return names.empty() ? ids.size() : names.size(); }
  // The labels of the classes `chosen`, all below size().
  Tensor tensor(std::span<const std::size_t> chosen) const;

  std::vector<std::string> names;
  std::vector<std::int64_t> ids;
};

// What a classifier gives: the label of each sample and its scores.
Outputs classified(const KernelContext& ctx, const ClassLabels& labels, std::span<const std::size_t> chosen, const Scores& scores);

void register_ml_encode(Registry& registry);
void register_ml_linear(Registry& registry);
void register_ml_tree(Registry& registry);
void register_ml_svm(Registry& registry);
void register_ml_training(Registry& registry);
void register_random(Registry& registry);

}  // namespace saturate
