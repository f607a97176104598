// The straight line: lower -> saturate -> extract -> emit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "egraph/rewrite.h"
#include "egraph/stop.h"
#include "extract/extract.h"
#include "extract/optimize/measured.h"
#include "extract/optimize/needs.h"
#include "extract/optimize/node_costs.h"
#include "extract/optimize/settle.h"
#include "extract/optimize/variants.h"
#include "extract/prepare/assumed_sizes.h"
#include "extract/prepare/graph_stats.h"
#include "extract/prepare/io_rank.h"
#include "extract/price/cost.h"
#include "extract/target/target.h"
#include "onnx_bridge/model/model.h"
#include "rules/compile/rule_set.h"

namespace saturate {

// A finished run of one graph, for those who ask why: valid during the call only.
struct FinishedRun {
  const std::string& where;  // "" of the main graph, else "then_branch of 'If_3'"
  const OnnxEGraph& g;
  const Lowered& lowered;
  const Selection& selection;
  std::span<const Rewrite> rewrites;
  const ExtractOptions& extract_options;
};

// What a stage has made of one graph: valid during the call only.
struct StageView {
  std::string_view stage;  // lower, saturate or extract
  const std::string& where;
  const OnnxEGraph& g;
  const Lowered& lowered;
  const Selection* selection = nullptr;  // of extract
};

// What bounds the work. A bound that was not given follows the model, and no number stands for it: a user may give each.
struct Budgets {
  std::size_t iterations = Limits{}.iterations;
  std::optional<std::size_t> nodes;         // e-nodes that rules may make; nullopt: kNodesPerNode for each of the model's, within bounds
  std::optional<std::size_t> memory_bytes;  // of the e-graph
  // Of a run as a whole, divided as TimeGiven says. nullopt: kSecondsOfRewriting, and no bound of what is no rewriting.
  std::optional<double> seconds;
  double began = 0;                           // the run, by steady_seconds(); 0: where optimize() begins
  int threads = 1;                            // 0: as many as there are cores
  const std::atomic<bool>* cancel = nullptr;  // ends the rewriting
};
// The models of the zoo come to 5 e-nodes for each of their nodes on average; rules of views, which feed each other, went to 280 on a
// window attention, for the same result.
inline constexpr std::size_t kNodesPerNode = 60, kLeastNodes = 10'000, kMostNodes = Limits{}.nodes;
inline constexpr double kSecondsOfRewriting = Limits{}.seconds;

// When the parts of a run are to end, by steady_seconds(); kNoDeadline where no time was given. The later parts can't be left out: each has
// what those before it leave, and that is never nothing.
struct TimeGiven {
  double rewriting = kNoDeadline;
  double stages = kNoDeadline;  // all from lowering to emitting; then the model is returned as it came
  double told = kNoDeadline;    // prices and what else the report says of the result
  double verifying = kNoDeadline;
  double judges = kNoDeadline;
};
TimeGiven time_given(const Budgets& budgets);

// Of rewriting this e-graph as it is now.
Limits limits_of(const Budgets& given, const EGraph& egraph);

struct OptimizeOptions {
  Budgets limits;
  std::optional<std::int64_t> opset;  // --opset N
  bool keep_opset = false;            // --keep-opset
  std::string extractor = "search";   // as in ExtractOptions
  double memory_slack = 0;            // as in ExtractOptions
  std::optional<double> max_growth;   // how many times the constants of each graph its result's may take
  std::size_t samples = 0;            // other graphs of the same e-graph to return, for experiments with costs
  std::uint64_t sample_seed = 0;
  std::set<std::string> left_out;  // names of rules that are not applied, though the rule set holds them
  // Bytes that folding may take in all; nullopt: some hundred MB, or a few times the model's weights where that is more.
  std::optional<std::size_t> max_memory;
  const std::atomic<bool>* abort = nullptr;  // ends also what is being folded
  std::vector<CostPoint> cost_points;        // what costs were given sizes for; a warning names a dim that the model has not
  bool dump_egraph = false;                  // return the main graph's extraction problem as egraph-serialize's JSON
  std::function<void(const std::string& stage, const IterationStats* iteration)> progress;
  std::function<void(const StageView&)> after_stage;      // of the main graph and each body; again where a stage runs again
  std::string stop_after;                                 // lower, saturate or extract: there is no result then; "": the end
  std::function<void(std::vector<Rewrite>&)> instrument;  // may wrap the appliers of the rules before each run
  std::function<void(const FinishedRun&)> observe;        // of the main graph, then of each body; given, e-graphs keep reasons
  bool glances = false;                                   // observe wants neither reasons nor rewrites, so they are not kept for it
  bool observes_all() const { return observe && !glances; }
  bool provenance = false;           // fill OptimizeReport::provenance, also where no node has metadata_props
  bool reasons = false;              // e-graphs keep reasons, so that all rules behind a node are known
  bool annotate = false;             // write them, and what nodes stand for, into the result's metadata_props
  Decide decide;                     // where given, which of the e-graph's graphs is taken; the cheapest where it is not given
  CostOptions sizes;                 // of symbols, by which regions are told apart for it
  bool has_other_interface = false;  // views were put in front of the model and behind it (io_rank): what they stand beside is not its own
  bool newer_release = false;        // also what the result would cost for a newer release: a second choice
};

// A node of the result, and what it stands for.
struct Provenance {
  std::string where;                // the graph, as in FinishedRun
  std::string op_type, output;      // as in OptimizeReport::Made
  std::vector<std::string> values;  // a value of each node that it was written as: several where an older opset has no such operator
  bool kept = false;                // the model's own node was written back
  struct Replaced {
    std::string name, op_type, output;  // name: the output's where it has none
    Metadata metadata;
    Devices devices;
  };
  // Nodes of the model that are gone and whose work it does, in the model's order. A node that several new ones replace together is named
  // by each of them. Of a kept node: those that computed the same value.
  std::vector<std::shared_ptr<const Replaced>> replaces;
  // That led to it, the first to fire first; where no reasons were kept (OptimizeOptions::reasons), the one that made it.
  std::vector<std::string> rules;
};

struct FiredRule {
  std::string rule;
  std::uint64_t applied = 0;
};

struct OptimizeReport {
  GraphStats before, after;
  double cost_before = 0, cost_after = 0;  // of what runs after load, in the main graph, and in each body once
  // What of cost_after / cost_before is to be expected with 90 % confidence: least and most; absent where costs are no times.
  std::optional<std::pair<double, double>> cost_ratio;
  bool dearer = false;      // beyond the error of prices alone
  bool proved = true;       // no other choice of the e-graphs costs less by the prices of operators (Selection::proved), in any graph
  bool given_back = false;  // what the rules made would be dearer once the runtime has loaded it: it is the model as it came
  bool late = false;        // the time was over before there was a result: it is the model as it came, and needs no verifying
  // Operators that run once the target's runtime has loaded the model, by the same count: what it fuses and computes then is done.
  std::map<std::string, std::size_t> before_at_load, after_at_load;
  // Nodes that the target refuses; absent for targets that take everything.
  std::optional<std::size_t> refused_before, refused_after;
  // Operators of the result that the target would rather not have, by the wish that they break; and how often they stand there.
  struct Unwanted {
    std::string op, wish;
    std::size_t count = 0;
  };
  std::vector<Unwanted> unwanted;
  std::string cost_model, target;
  SettledTarget settled;                      // how the target got its release
  std::string cost_unit;                      // CostModel::unit()
  std::optional<MeasuredBesideHere> cost_of;  // CostModel::measured_on()
  AssumedSizes assumed_sizes;                 // of symbols, where the user gave no size
  std::vector<CostPoint> cost_points;         // the sizes that he gave
  Needs needs;                                // what loads the result
  // A newer release of the target's runtime, and what the result would cost for it.
  struct Newer {
    std::string release;
    double cost = 0;
  };
  std::optional<Newer> newer;
  std::map<std::string, double> seconds;  // by stage: lower, saturate, extract, emit
  RunReport run;  // with bodies: the sums of all graphs; `stop` is the first that is no saturation, `iterations` are of the longest run
  std::size_t egraph_nodes = 0, egraph_classes = 0;
  // Operators of the result that rules made: operator, output name, rule that made the e-node.
  struct Made {
    std::string op_type, output, rule;
  };
  std::vector<Made> made;
  std::vector<Provenance> provenance;  // of each node of the result, graph by graph; bodies first
  std::size_t cut_metadata = 0;        // nodes that stand for more metadata_props than a node takes over (provenance.h)
  // What the rules that were applied take for granted (rules/terms/rule.h, Assumption), and which rules do.
  struct Assumed {
    std::string assumption;
    std::vector<std::string> rules;
  };
  std::vector<Assumed> assumed;
  // Which rules that were applied do more than round floats otherwise: of effects within_one_step, rescales and approximates.
  struct Effected {
    Effect effect;
    std::vector<std::string> rules;
  };
  std::vector<Effected> effects;
  bool reassociated = false;       // rules were applied that round floats otherwise
  std::vector<std::string> risks;  // risky assumptions that the user asked for, whether a rule used them or not
  // What a failed verification put the blame on, and what the result does without: a rule, or all rules of an assumption.
  struct LeftOut {
    std::string rule, assumption;  // one of them
    std::string because;           // what differed
    bool built_in = false;         // the rule is one of saturate's own
    bool approximates = false;     // as the user allowed
  };
  std::vector<LeftOut> left_out;
  std::vector<NodeCost> nodes_before, nodes_after;  // of the main graph (PipelineOptions::details)
  std::vector<std::string> vanished;                // values of the original's main graph that the result has not
  std::optional<Measured> measured;                 // where the choice was measured
  std::optional<IoRank> io_rank;                    // what became of inputs and outputs, where a rank was asked for
  std::vector<std::string> warnings;
};

struct OptimizeResult {
  Model model;
  OptimizeReport report;
  struct Sample {
    Model model;
    double cost = 0;  // as the report's
  };
  std::vector<Sample> samples;  // differ from `model` and from each other in the e-nodes they take
  std::string egraph;           // JSON, where asked for
  bool stopped = false;         // after options.stop_after: there is no model
  bool unchanged = false;       // options.decide took the original: `model` is it
};

absl::StatusOr<OptimizeResult> optimize(const Model& model, const RuleSet& rules, const Target& target, const CostModel& cost,
                                        const OptimizeOptions& options);

}  // namespace saturate
