// What a run is set up with: rules, a target, a cost model, and the shapes that the user fixes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "extract/optimize/settle.h"
#include "extract/price/cost.h"
#include "extract/target/target.h"
#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/model.h"
#include "rules/compile/rule_set.h"

namespace saturate {

struct Setup {
  RuleSet rules;
  Target target;
  std::unique_ptr<CostModel> cost;
  std::vector<std::string> risks = {};  // risky assumptions that the user or his target asked for
  SettledTarget settled = {};
};

struct SetupOptions {
  std::string target = "ort-cpu";   // a built-in one or a file; settle_target() gives it its release
  std::vector<std::string> prefer;  // wishes by name, beside the target's own (known_wishes())
  std::string cost;                 // empty: the target's own
  CostOptions cost_options;
  std::vector<std::string> rule_files;  // beside the built-in ones; "none" leaves those out
  RuleFilter filter;                    // the target may assume more
  bool keep_functions = false;          // as in Target
  std::string onnxruntime = {};         // as settle_target() takes it
};
absl::StatusOr<Setup> set_up(const SetupOptions& options);

// Lets rules do what the target's runtime does when it loads a model, and assume what the target assumes; lets units break that the user
// allows to break. Before a quantizer, rules hide nothing that it knows.
void fit_to_target(RuleFilter& filter, Target& target);

absl::StatusOr<RuleSet> load_rules(const std::vector<std::string>& files, const RuleFilter& filter);
// "no such rule; did you mean ...".
std::string no_such_rule(const RuleSet& rules, const std::string& name);
// What the filter lets through; the rules and assumptions that it names must exist.
absl::StatusOr<RuleSet> filter_rules(RuleSet rules, const RuleFilter& filter);

// Sizes that the user gives to symbolic dims and to inputs; -1 leaves a dim of an input as it is.
using InputShapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;
struct GivenShapes {
  Sizes dims;
  InputShapes input_shapes;
  bool allow_empty = false;        // a size may be 0
  bool of_several_models = false;  // not each must have the dims
};
inline constexpr std::int64_t kLargestSize = 1'000'000'000'000;
// The same with names of the model: wrong_usage() where it has no such dim or input. A shape without a name ("") is that of its one input.
absl::StatusOr<GivenShapes> fitting(GivenShapes shapes, const Model& model);
// Writes them into the model's inputs; wrong_usage() with one line where they do not fit.
absl::Status fix_shapes(Model& model, const GivenShapes& shapes);
// An error where a size is 0 and must not be, or none that a tensor can have.
absl::Status check_not_empty(const GivenShapes& shapes);

}  // namespace saturate
