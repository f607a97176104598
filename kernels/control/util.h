// Results that a loop's body gives once per turn, kept until the loop ends and then stacked (ONNX Operators: Loop, Scan: scan_outputs).
#pragma once

#include <vector>

#include "kernels/core/kernel.h"

namespace saturate {

class ScanOutputs {
 public:
  // The outputs of `body` from number `first` on.
  ScanOutputs(const KernelContext& ctx, const Graph& body, std::size_t first);
  std::size_t size() const { return parts_.size(); }
  // One turn's outputs, all of the body's. Their sum must stay below the memory limit.
  absl::Status add(const std::vector<Value>& outputs);
  // The k-th result, turns along `axis`, the last turn first if `reversed`. Without any turn: an empty tensor of the declared type.
  absl::StatusOr<Tensor> stacked(std::size_t k, std::int64_t axis, bool reversed) const;

 private:
  const KernelContext& ctx_;
  const Graph& body_;
  std::size_t first_;
  std::size_t bytes_ = 0;
  std::vector<std::vector<Tensor>> parts_;
};

// The kernel of Scan.
Outputs scan(KernelContext& ctx);

}  // namespace saturate
