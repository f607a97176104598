// The ai.onnx.ml family's simple operators (ONNX Operators-ml: Binarizer, ArrayFeatureExtractor, ...).
#include "kernels/data_util.h"
#include "kernels/registry.h"

namespace saturate {
namespace {

Outputs binarizer(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const double threshold = ctx.attr_f("threshold", 0.0f);
  auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  for (double& v : *values) v = v > threshold ? 1 : 0;
  return one_output(from_doubles(ctx, x.dtype(), x.dims(), *values));
}

}  // namespace

void register_ml(Registry& registry) { registry.add(kMlDomain, "Binarizer", binarizer); }

}  // namespace saturate
