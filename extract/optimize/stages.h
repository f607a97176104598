// The stages between load and save, as functions over values: grow (lower and saturate), choose, emit. extract/optimize/optimize.cpp runs
// one after the other, and again with less where one of them says so.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "egraph/stop.h"
#include "extract/onnx_problem.h"
#include "extract/optimize/optimize.h"
#include "extract/prepare/assumed_sizes.h"
#include "extract/prepare/own_operators.h"

namespace saturate {

// What all graphs of a model have in common while it is optimized.
struct Task {
  const RuleSet& rules;
  const Target& target;
  const CostModel& cost;
  const OptimizeOptions& options;
  const Evaluator& evaluator;
  const OwnOperators& own;
  std::int64_t newest_opset;               // that the target takes the model's operators in
  AssumedSizes& sizes;                     // of the model's inputs, where the user gives none; there once it is lowered
  std::map<std::string, double>& seconds;  // by stage; grows
  bool wants_provenance = false;
  const Variant* variant = nullptr;  // to be chosen; null: the cheapest
  // Without rules every node is written back as it came: no folding either.
  bool has_rules() const { return !rules.empty(); }
  void progress(const char* stage) const;
};

// Whether quantized graphs stay as they came (extract/units/kept_quantizers.h).
inline bool keeps_quantizers(const Task& task) {
  return task.target.keeps_quantizers == "always" || (task.target.keeps_quantizers == "unless_approximate" && !task.options.max_growth);
}

// The highest opset of ai.onnx that the result may have.
std::int64_t opset_limit(const Model& model, const Task& task);

// Whether the model as it came is a result: it has the opset that was asked for, and one that the target's runtime loads.
bool may_return(const Model& model, const Task& task);
// Of sizes at which costs are evaluated: those of dims that no input has.
struct UnknownSymbol {
  std::string text;      // a sentence
  bool is_slip = false;  // it is nearly the name of one
};
std::vector<UnknownSymbol> unknown_symbols(const Model& model, const std::vector<CostPoint>& points);
// Adds warnings (model_warnings.cpp).
void warn_of_the_model(const Model& model, const OptimizeOptions& options, OptimizeReport& report);

// ---- grow (grow.cpp): a graph, the main one or a body of If, Loop or Scan, as a saturated e-graph
struct Grown {
  std::string where;  // as in FinishedRun
  const Model* model = nullptr;
  std::unique_ptr<const Model> body_model;  // of a body: the model with the body in the place of its graph
  std::unique_ptr<OnnxEGraph> g;
  Lowered lowered;
  RunReport run;
  std::vector<Rewrite> rewrites;                                        // kept for `observe`
  std::vector<std::string> rule_names;                                  // of the e-graph's made_by()
  std::vector<std::pair<const Graph*, std::unique_ptr<Grown>>> bodies;  // each an e-graph of its own
};
// What a rule has made contradicts what is known.
struct Contradicted {
  std::string rule, what;  // rule: "" where no rule is to blame
};
using GrowResult = std::variant<std::unique_ptr<Grown>, Contradicted>;
// `without`: rules that are not applied.
absl::StatusOr<GrowResult> grow(const Model& model, const std::set<std::string>& without, const Task& task);

// What runs once the target's runtime has loaded a model as it is: its main graph, and each body once.
absl::StatusOr<AtLoad> load(const Model& model, const Task& task);

// ---- choose (choose.cpp): what stands for each class, in a graph and in its bodies
struct Chosen {
  Selection selection;
  ExtractOptions options;
  std::vector<std::unique_ptr<Chosen>> bodies;  // as in Grown
};
// What earlier choices have shown.
struct Learned {
  std::map<const Grown*, std::set<Id>> not_computed;  // constant classes whose value cannot be computed here, by graph
  int choices_of_not_computed = 0;                    // that wanted any of them
  bool is_raised = false;                             // into an opset in which ONNX Runtime refuses shapes that the model itself has
};
// `limit`: the highest opset.
absl::StatusOr<std::unique_ptr<Chosen>> choose(const Grown& grown, std::int64_t limit, const Learned& learned, const Task& task);
// Adds the values that the choice wants and that cannot be computed; whether there are any. After some choices all constants are asked,
// since those that stand in for one that is too large may be as large.
bool note_not_computed(const Grown& grown, const Chosen& chosen, Learned& learned);
// Why ONNX Runtime refuses what is written in this opset, where the model in its own has nothing of the kind; "" where it does not.
std::string refused_once_raised(const Grown& grown, const Chosen& chosen, std::int64_t opset, const Target& target);
// Of the operators that the result is made of: which break a wish of the target.
void note_unwanted(const Grown& grown, const Chosen& chosen, const Target& target, OptimizeReport& report);

// ---- emit (emit.cpp): a choice as a model
struct EmitOptions {
  std::optional<std::int64_t> opset;  // of all graphs; nullopt: each the lowest that expresses it
  std::int64_t limit = 0;
  std::unordered_set<std::string> names;  // of the whole model: scopes are nested, so new names differ from all
};
struct Emitted {
  Model model;
  std::set<std::int64_t> opsets;  // that its graphs were written in
  std::vector<OptimizeReport::Made> made;
  std::vector<Provenance> provenance;     // where it is asked for, or needed
  std::size_t cut_metadata = 0;           // nodes that could not take over all metadata
  std::unordered_set<std::string> names;  // with those that are new
};
absl::StatusOr<Emitted> emit(const Grown& grown, const Chosen& chosen, EmitOptions options, const Task& task);
// The options of writing the main graph alone, its bodies written before.
absl::StatusOr<EmitModelOptions> emit_model_options(const Grown& grown, const Chosen& chosen, const EmitOptions& options, Emitted& emitted,
                                                    const Task& task);

// A graph and its bodies, outermost first.
template <typename Visit>
void visit_graphs(const Grown& grown, const Chosen& chosen, const Visit& visit) {
  visit(grown, chosen);
  for (std::size_t i = 0; i < grown.bodies.size(); ++i) visit_graphs(*grown.bodies[i].second, *chosen.bodies[i], visit);
}

bool has_bodies(const Graph& graph);

// Adds the time until it goes out of scope.
class StageTimer {
 public:
  StageTimer(const Task& task, const std::string& stage);
  ~StageTimer();
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  double& total_;
  double start_;
};

// Bodies that lie deeper, or come later, stay as they are: each takes an e-graph of its own.
inline constexpr int kMaxBodyDepth = 16;
inline constexpr std::size_t kMostBodies = 1000;

// While it lives, the stage throws Stopped once all stages took twice the seconds of --time-limit, and where the caller ends all. The usual
// limit is one of rewriting alone. Each variant has the time anew.
class StageBound {
 public:
  explicit StageBound(const Task& task);

 private:
  StopSign sign_;
  StopScope scope_;
};

}  // namespace saturate
