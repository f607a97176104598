// Measured times: rows of operator, shapes and seconds; between them a physical fit whose error is interpolated.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/fit/cost_quality.h"
#include "extract/sizes/op_sizes.h"

namespace saturate {

// The logarithm of a time is that of a sum of sizes (extract/fit/time_fit.h, by family of operator) plus a Gaussian process. The process
// is over logarithms of sizes and over what else picks the kernel (extract/sizes/op_features.h). It is conditioned on the rows (Rasmussen
// and Williams, Gaussian Processes for Machine Learning, 2006, 2.2). So rows are met up to their noise, sizes between them lie between, and
// far from all of them the sum alone counts.
class MeasuredTable {
 public:
  // Rows as JSON lines: the first object describes the machine; others as bench/runtime/gather_ort.py writes them. `place` names them in
  // errors.
  static absl::StatusOr<MeasuredTable> parse(const std::string& text, const std::string& place);
  explicit MeasuredTable(TimedRows rows);
  // What to_fitted() made: the same predictions to the last bit, without rows and fits. Families are read when their operator is first
  // asked for; `text` must outlive the table.
  static absl::StatusOr<MeasuredTable> parse_fitted(std::string_view text, const std::string& place);
  std::string to_fitted() const;
  // The rows by operator, without what a table has no use for.
  static std::string to_text(const TimedRows& rows);

  // Seconds of an operator. One that was never measured gets the roofline's, `estimated` says so. Families are fitted when they are first
  // asked for; safe from several threads.
  double seconds(const OpUse& use, bool* estimated = nullptr) const;
  const Roofline& roofline() const { return roofline_; }
  const std::string& machine() const { return machine_; }
  std::size_t num_rows() const { return num_rows_; }

 private:
  struct Family;
  struct Group;
  MeasuredTable() = default;
  const Group* group(const std::string& comparable) const;
  // A product and its bias: the difference decides between Gemm and MatMul with Add, and is less than what two rows of products differ by.
  double gemm_seconds(const OpUse& use, bool* estimated) const;
  // DynamicQuantizeMatMul quantizes its rows and multiplies, and takes as long as these two: a choice between both spellings is no row's.
  double dynamic_product_seconds(const OpUse& use, bool* estimated) const;
  // FusedConv(X, W, b, Z). ONNX Runtime runs Conv, Add and an activation as one kernel in its blocked layout where Z lies in that layout,
  // which its own fusion knows at load; written as one operator they leave that layout where Z does not, and are copied into it and back.
  double conv_with_summand_seconds(const OpUse& use, bool* estimated) const;
  double activation_seconds(const OpUse& use) const;

  Roofline roofline_;
  std::map<std::string, std::shared_ptr<Group>> groups_;  // by the operator whose times are comparable: FusedMatMul is in MatMul
  std::string machine_;
  std::size_t num_rows_ = 0;
  double usual_ratio_ = 1;  // the median of measured to roofline: for operators that were never measured
};

// Each row's measured time beside the one predicted by a table of the rows of all other folds; operators that only give another shape are
// left out. `row_of` gets the number of each one's row.
std::vector<Compared> cross_validated(const TimedRows& rows, std::size_t folds, std::vector<std::size_t>& row_of);

}  // namespace saturate
