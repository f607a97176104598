// What each stage of optimizing has made, as text: for `--dump STAGE[=FILE]` and `--stop-after STAGE`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "extract/optimize/optimize.h"

namespace saturate {

// A stage and where its text goes: "" is standard output. The file's name tells the form: .dot, .json, else text.
struct DumpRequest {
  std::string stage, file;
};
// kInvalidArgument: no such stage, or it has no such form.
absl::StatusOr<DumpRequest> parse_dump(const std::string& text);
// "" or what is wrong with the name of a stage to stop after.
std::string not_a_stage(const std::string& stage);

// Collects the texts while a model is optimized; a stage that runs again replaces what it had made.
class StageDumps {
 public:
  explicit StageDumps(std::vector<DumpRequest> requests) : requests_(std::move(requests)) {}
  bool empty() const { return requests_.empty(); }
  const std::vector<DumpRequest>& requests() const { return requests_; }
  // A model that was read or is to be written, as ONNX text (stage load or emit).
  void add(std::string_view stage, const Model& model);
  // An e-graph (stages lower and saturate), or what was chosen of one (extract).
  void add(const StageView& made);
  // Writes the files, and prints the others in the order of the stages.
  absl::Status write() const;

 private:
  std::vector<DumpRequest> requests_;
  std::map<std::size_t, std::string> texts_;  // by request
};

}  // namespace saturate
