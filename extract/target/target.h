// A target: what can run, and what it costs. Readable JSON; built-in ones are embedded, a user's own is a file.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/target/runtime.h"
#include "extract/target/versions.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// Whether this opset of the standard has the operator. A form that is deprecated means something else: GroupNormalization of opset 18
// scales groups, not channels.
bool is_in_opset(const std::string& op_type, std::int64_t opset);

// Whether the ONNX standard has the operator. ONNX Runtime registers one of its own in the standard's domain (tools/generate_op_table.py).
inline bool is_standard(const OpKey& key) { return key.domain.empty() && key.op_type != "SimplifiedLayerNormalization"; }

// A pair of operators that the target's runtime fuses when it loads the model. `consumer` reads, as its first input, a value that
// `producer` makes and nothing else reads. Extraction prices the pair as `becomes`; an equal producer of another name is left alone.
struct LoadTimeFusion {
  std::string producer, consumer, becomes;
  bool constant_operand = false;  // only where one input of the producer is a constant
  std::string versions;           // of the runtime, as text
};

// An operator between DequantizeLinear and QuantizeLinear that the target's runtime computes in integers: it replaces them all when it
// loads the model. Extraction prices them together, as `becomes`. Its last value is read by the QuantizeLinear alone.
struct NodeUnit {
  std::set<std::string> operators;               // "Op", "domain::Op"
  std::string becomes;                           // the integer kernel; empty: the operator itself
  std::vector<std::vector<std::string>> inputs;  // by input: dtypes of the integers that are dequantized for it; empty: read as it is
  bool variadic = false;                         // further inputs are as the last one
  // QuantizeLinear of the first input's dtype behind it, where int8 and uint8 count as one; false: its result stays a float.
  bool quantized = true;
  bool same_parameters = false;     // it quantizes with the scale and the zero point of its input
  std::set<int> constant_inputs;    // whose integers are constants
  std::set<int> quantized_at_load;  // that may be constant floats, which the runtime quantizes when it loads the model
  std::string quantizes_since;      // the first release of the runtime that does so; empty: all
  bool coarse = false;              // the kernel quantizes floats for itself: rules make no such unit (coarse_units.h)
  std::map<std::string, std::vector<std::string>> attributes;  // what these of the operator's may be, each as JSON
  std::vector<Attribute> kernel_attributes;                    // what the integer kernel gets beside the operator's own
  std::string versions;                                        // of the runtime, as text
};

// What the runtime makes one operator of before it looks for units: `op` whose result `reader` reads beside a vector or a matrix, where the
// result is a matrix or of known size. ONNX Runtime makes Gemm of MatMul and Add, so that MatMul is in no unit whose result is a float.
struct JoinedAtLoad {
  std::string op, reader, becomes;
  std::string versions;  // of the runtime, as text
};

// Operators between DequantizeLinear and QuantizeLinear whose constant float weights (input 1) the target's runtime quantizes to 8 bits
// when it loads the model. Rules do not fold a dequantized weight for these: the runtime would round it anew, and dequantize it in each
// run.
struct WeightsQuantizedAtLoad {
  std::set<std::string> operators;
  std::string versions;  // of the runtime, as text
};

// Limits for a set of operators, where `when` holds. They apply to tensors that carry data, not to constants (a weight is stored as the
// target likes it) or shape computations.
struct OperatorLimits {
  std::set<std::string> operators;  // "Op", "domain::Op"; empty: every operator but `except`
  std::set<std::string> except;
  std::optional<int> min_rank, max_rank;
  std::optional<std::int64_t> max_dim;
  std::optional<std::int64_t> max_batch;                 // product of all dims but the last two
  std::optional<std::int64_t> max_heads;                 // of attention, that it works on at once (heads_at_once in rules/values/heads.h)
  std::optional<double> max_constant;                    // magnitude of the floats of small constants that it reads
  std::vector<std::string> dtypes;                       // of all tensors; empty: any
  std::vector<std::string> input_dtypes, output_dtypes;  // of the first input that is there, and of the first output
  std::map<int, std::vector<std::string>> dtypes_of_inputs;    // of inputs by place, where they are there
  std::optional<std::int64_t> min_normalized;                  // elements of the axes from `axis` (-1) on, of the first input, where known
  bool static_shapes = false;                                  // every dim is a number
  bool not_empty = false;                                      // no dim is 0; rules assume it where a dim may be (Refusals::takes_empty)
  std::vector<int> constant_inputs;                            // must be constants where they are there
  std::vector<int> absent_inputs;                              // must not be there
  std::vector<int> own_heads;                                  // [batch,heads,...]: one of a batch has its own row for each of `num_heads`
  std::vector<int> of_self_attention;                          // of attention, there only where there are as many keys as queries
  std::vector<int> alike;                                      // must be known to have one shape
  std::string before;                                          // the first release of the runtime that has this limit no more
  std::map<std::string, std::vector<std::string>> attributes;  // allowed values, as JSON text: {"group": ["1"], "perm": ["[0,2,3,1]"]}
  std::vector<std::string> required_attributes;                // that a node must have; without a default in the schema
  std::map<std::string, std::pair<double, double>> attribute_ranges;  // least and most, of each element where it is a list
  std::vector<int> axis;                                              // what `axis` may be, counted from the end: -1 is the last
  std::vector<OperatorLimits> when;                                   // at most one, of which all must be met for this one to apply
  std::string because;                                                // added to the reason
  Ranks ranks() const { return {min_rank.value_or(Ranks{}.low), max_rank.value_or(Ranks{}.high)}; }
};

// What a target would rather not have: it takes an operator beyond these limits, at a price.
struct Wish {
  OperatorLimits limits;
  double price = 2;  // how many times as much as the cost model says such an operator costs
};

// An operator where it stands.
struct OpSite {
  const OpKey& key;
  std::vector<const Facts*> inputs = {}, outputs = {};
  const DimTable* dims = nullptr;
  std::int64_t lowest_opset = 1, highest_opset = std::numeric_limits<std::int64_t>::max();  // of ai.onnx, that it may be written in
  const OnnxEGraph* egraph = nullptr;                                                       // in which it stands, and as which e-node
  std::optional<ENode> node = {};
  bool of_model = false;   // the model came with it
  bool at_border = false;  // it would be at the border of the graph (border.h), were it an operator that may be there
};

// What a kernel is chosen by: of the first input that is not bool, else of the first.
DType data_dtype(const OpSite& site);
// Where an e-node of class `id` stands.
OpSite site_of(const OnnxEGraph& egraph, const ENode& node, Id id);

struct LoadFusion;  // load_pattern.h

struct Target {
  std::string name, description;
  std::vector<std::string> sources;                           // where what is said of it was found
  std::int64_t min_opset = 7, max_opset = 23;                 // of ai.onnx; extraction may raise the model's opset up to max_opset
  std::string cost_model = "roofline";                        // default of `--cost`
  std::map<std::string, std::set<std::string>> operators;     // operators beyond the standard by domain ("*": all)
  std::map<std::string, std::vector<VersionRange>> standard;  // the standard's operators that the target has; empty: all
  std::map<std::string, std::int64_t> newest_opset;           // the standard's operators that it has in no newer opset of ai.onnx
  std::set<std::string> forbidden;                            // "domain::Op" or "Op"
  std::map<std::string, std::vector<std::string>>
      dtypes;  // "domain::Op" -> element types that have a kernel, of the first input that is not bool
  // Operators of other domains that a model has, and element types of the standard's, are those of ONNX Runtime's CPU kernels (kernels.h).
  bool cpu_kernels = false;
  std::vector<OperatorLimits> limits;
  std::vector<Wish> wishes;
  std::set<std::string> border;                             // operators that no limits concern at the border of a graph (border.h)
  std::map<std::string, std::map<int, Ranks>> index_ranks;  // "Op" -> inputs that hold indices, whose ranks these are in place of `limits`
  std::vector<LoadTimeFusion> load_time_fusions;
  std::shared_ptr<const std::vector<LoadFusion>> fusions;  // of a runtime of its own, in place of ONNX Runtime's
  std::vector<NodeUnit> node_units;
  bool fuses_at_load = false;     // its models are run by ONNX Runtime's CPU kernels, after the fusions of load_pattern.h
  bool images_in_blocks = false;  // it runs convolutions of images in blocks of channels (extract/sizes/blocks.h), those along one axis not
  std::vector<JoinedAtLoad> joins;
  WeightsQuantizedAtLoad quantizes_weights;
  // "always" or "unless_approximate": its compiler finds integer kernels by the quantizers of a graph (kept_quantizers.h). "": it does not.
  std::string keeps_quantizers;
  bool for_quantizers = false;            // another tool quantizes the result (quantizers.h)
  bool keep_functions = false;            // functions of these operators stay functions, and the file holds them
  std::vector<std::string> assumes;       // risky assumptions that rules may make for this target (onnx_bridge/operators/assumptions.h)
  Runtime runtime;                        // that it stands for, if any
  std::optional<RuntimeRelease> release;  // the release that it is held to
  bool release_is_asked_for = false;      // "ort-cpu@1.20": what cannot be brought to it gets a warning
  // Whether an operator may be emitted; `why` gets the reason if not. Without inputs: whether it may be anywhere.
  bool allows(const OpSite& site, std::string* why = nullptr) const;
  bool has_dtype(const std::string& op, const OpSite& site, const std::string& dtype) const;
  // The release whose kernels an operator needs: what a model came with has one in some release. Empty: any.
  std::string release_for(const OpSite& site) const { return !release || (site.of_model && !release_is_asked_for) ? "" : release->version; }
  // How many times its cost an operator counts for what it is wished to be otherwise; 1 where no wish concerns it. `why` gets the wish.
  double wish_price(const OpSite& site, std::string* why = nullptr) const;
  // Whether some limit names the operator ("Op", "domain::Op"), so that it may be taken here and refused there.
  bool limits_by_place(const std::string& op) const;
  // Whether an operator ("Op", "domain::Op") may have sizes of 0 here.
  bool takes_empty(const std::string& op) const;
  // The ranks of tensors that an operator ("Op", "domain::Op") may have wherever it stands.
  Ranks ranks(const std::string& op) const;
  // The newest opset of ai.onnx that a model may be raised to: of the target, and of the release that it is held to.
  std::int64_t highest_opset() const { return release ? std::min(max_opset, release->opset) : max_opset; }
  // The same for a model which holds these operators ("Op").
  std::int64_t newest_opset_with(const std::map<std::string, std::size_t>& operators_of_model) const {
    return newest_opset_with(operators_of_model, highest_opset());
  }
  std::int64_t newest_opset_with(const std::map<std::string, std::size_t>& operators_of_model, std::int64_t highest) const;
  // Whether there are operators of the standard that it does not take.
  bool is_restricted() const { return !standard.empty() || !limits.empty() || !forbidden.empty(); }
};

// What the target refuses where it stands, for rules to ask (OnnxEGraph::refuse_by); null where it has no limits by place. It must outlive
// this. `opset_limit`: the highest opset of ai.onnx that the result may have.
std::shared_ptr<const Refusals> refusals_of(const Target& target, std::int64_t opset_limit);

// Wishes that can be added to any target by name ("single-heads").
std::vector<std::string> known_wishes();
absl::Status add_wishes(const std::string& name, Target& target);

// Name of a built-in target or path of a JSON file, held to the release of its runtime that stands behind an @ ("ort-cpu@1.23"), else to
// Runtime::usual(). What is installed is not looked at: settle_target() in extract/optimize/settle.h does.
absl::StatusOr<Target> load_target(const std::string& given);
// The same without a release, held to none.
absl::StatusOr<Target> load_any_release(const std::string& name_or_path);
// "mine.json@1.23" in its two parts; the second is empty where no release is given.
struct GivenTarget {
  std::string name_or_path, release;
};
GivenTarget split_release(const std::string& given);
// Held to none.
absl::StatusOr<Target> builtin_target(std::string_view name);
std::vector<std::string> builtin_targets();
// "CUDAExecutionProvider", "cuda", "cpu": the built-in target for it; the word itself where it is no execution provider of ONNX Runtime.
std::string target_of_provider(const std::string& word);
// A target as the JSON that load_target() reads.
std::string target_text(const Target& target);

}  // namespace saturate
