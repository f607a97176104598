// Cost models: a non-negative number per e-node. Sharing is the extractor's business.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "extract/price/measured_on.h"
#include "extract/sizes/cost_options.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string name() const = 0;
  // Of what it tells: "s" (seconds), "operators", "operations", "bytes"; "" where it is the model's own.
  virtual std::string unit() const { return ""; }
  // What running this e-node costs, its inputs given. Unit: the model's own ("nodes": operators, those that only compute shapes at a
  // quarter; "roofline": seconds).
  virtual double cost(const OnnxEGraph& egraph, const ENode& node, Id id) const = 0;
  // This model with what it asks of one e-graph looked up before; nullptr where that saves nothing.
  // `usual`: sizes of symbols that the user gave no size.
  virtual std::unique_ptr<CostModel> for_graph(const OnnxEGraph&, const std::map<std::string, std::int64_t>& usual) const {
    static_cast<void>(usual);
    return nullptr;
  }
  // What another operator would cost that takes these inputs to this output; 0 where the model can't tell.
  virtual double cost_as(const OnnxEGraph&, const OtherOperator& op, std::span<const Id> inputs, Id output) const {
    static_cast<void>(op), static_cast<void>(inputs), static_cast<void>(output);
    return 0;
  }
  // How wrong what it tells of an operator is: one standard deviation, as a share. 0: it counts.
  virtual double relative_error() const { return 0; }
  // What its times are of; nullopt where it has none, or does not say.
  virtual std::optional<MeasuredOn> measured_on() const { return std::nullopt; }
  // What it takes a runtime that runs images in blocks of channels (blocks.h) to lay a value out in them, or as it is in the file; 0: it
  // knows no blocks. The kernel alone: it reads what was just written.
  virtual double cost_of_reorder(const OnnxEGraph&, Id value, bool into_blocks) const {
    static_cast<void>(value), static_cast<void>(into_blocks);
    return 0;
  }
  // What of cost() stands for that, where a spelling is priced by itself.
  virtual double cost_of_layout(const OnnxEGraph&, const ENode& node, Id id) const {
    static_cast<void>(node), static_cast<void>(id);
    return 0;
  }
  // What storing a new constant of so many bytes costs.
  virtual double constant_cost(std::size_t bytes) const = 0;
};

// Whether a model prices operators that a file does not hold, but the runtime makes at load. A user's own tells of those that it names.
inline bool prices_fusions(const CostModel& cost) { return !cost.unit().empty(); }

// `options` with a size for every symbol of the e-graph: the user's, else the usual one, else the default.
CostOptions with_all_symbols(CostOptions options, const OnnxEGraph& egraph, const std::map<std::string, std::int64_t>& usual);

// "nodes", "flops", "bytes", "roofline", "measured" and its like (ONNX Runtime's operators on a CPU, timed); a .jsonl file of measured
// times; a .json file of a roofline, of a fit, or a table {"costs": {"Op": number, "com.microsoft::Op": number}, "default": number}; a
// shared library (extract/price/saturate_cost.h): code that is run.
absl::StatusOr<std::unique_ptr<CostModel>> load_cost_model(const std::string& name_or_path, const CostOptions& options = {});

}  // namespace saturate
