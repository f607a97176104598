// The verbs of the `saturate` command: plain arguments in, exit code out. command_line.cpp parses the command line into these.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "egraph/rewrite.h"
#include "extract/optimize/optimize.h"
#include "extract/price/cost.h"
#include "kernels/compare/other_runtime.h"
#include "kernels/decode/decoder.h"
#include "kernels/inputs/draw_inputs.h"
#include "kernels/runtime/runtime.h"
#include "kernels/verify/choice.h"
#include "kernels/verify/trial.h"
#include "kernels/verify/verify.h"
#include "onnx_bridge/model/data_format.h"
#include "onnx_bridge/model/model.h"
#include "tools/io/files.h"
#include "tools/io/style.h"
#include "tools/pipeline/failure.h"
#include "tools/pipeline/setup.h"
#include "tools/transform/pass.h"

namespace saturate {

inline constexpr std::string_view kOurRuntime = "saturate";

struct CommonArgs {
  int verbosity = 0;  // -q: -1, -v: 1, -vv: 2
  ColorChoice color = ColorChoice::kAuto;
  bool json = false;
  int threads = 1;  // 0: all cores
  const std::atomic<bool>* cancel = nullptr;
  bool quiet() const { return verbosity < 0; }
  Look look() const { return look_of_stdout(color); }
};

struct ShapeArgs {
  std::vector<std::string> input_shapes;  // NAME:1,3,224,224
  std::vector<std::string> dims;          // SYMBOL=SIZE
  bool allow_empty = false;               // a size may be 0
  bool of_several_models = false;         // not each must have the dims
};

// What executes models.
struct RuntimeArgs {
  std::optional<std::string> asked;
  std::vector<std::string> custom_op_libraries;
  const OtherRuntimes* others = nullptr;  // that this process has beside ours
  std::string name() const { return asked.value_or(std::string(kOurRuntime)); }
};

struct VerifyArgs {
  RuntimeArgs runtime;
  std::vector<std::string> judges;  // words of --judge
  std::string onnxruntime;          // a file or a folder
  std::vector<std::string> inputs;  // .npz
  std::optional<double> rtol, atol;
  int steps = 0;
  std::uint64_t seed = 0;
  std::optional<std::size_t> max_memory;  // MB
  std::optional<double> seconds;          // of one verification
};

// Of one run of a model, whatever it is run for.
struct RunBounds {
  std::optional<std::size_t> max_memory;  // MB
  std::optional<double> seconds;
};

struct SaturateArgs {
  std::string target = "ort-cpu";
  std::vector<std::string> prefer;       // wishes by name
  std::string cost;                      // empty: the target's own
  std::string extractor = "search";      // of extract/solve/extractors.h
  std::vector<std::string> cost_at;      // SYMBOL=SIZE,...[:WEIGHT]
  double memory_slack = 0;               // share of the cost
  std::optional<double> max_growth;      // of the weights, as a factor
  std::vector<std::string> rules;        // files, or "none"
  std::vector<std::string> skip_rules;   // names
  std::vector<std::string> not_made;     // operators
  std::vector<std::string> assumed;      // names of risky assumptions
  std::vector<std::string> not_assumed;  // names of assumptions, or "all"
  EffectChoice effects;
  std::optional<std::int64_t> opset;
  bool keep_opset = false;
  bool keep_functions = false;
  Budgets limits;
};

// A word of the command line as it was given. `name` is "--rules", or the place of a word without a name ("IN.onnx").
// A flag has no value.
struct GivenOption {
  std::string name;
  std::optional<std::string> value;
};

// One page to look at.
struct PageArgs {
  std::string html;     // a file; empty: none is asked for
  std::string command;  // that makes it again
  std::string svg;      // of diff: a folder for pictures of changes
};

struct OptimizeArgs {
  CommonArgs common;
  PageArgs page;
  ShapeArgs shapes;
  VerifyArgs check;
  SaturateArgs saturate;
  std::string input, output, report, dump_egraph;
  std::vector<std::string> more;   // inputs and an output by place, behind the first two
  std::string output_dir;          // for several inputs
  std::string report_dir;          // likewise
  int jobs = 1;                    // processes; 0: one for each core
  bool of_many = false;            // one of several: nobody looks at its progress
  bool in_a_line = false;          // is told so, not on a screen
  bool force = false;              // what is there may be replaced
  std::vector<std::string> dumps;  // STAGE or STAGE=FILE
  std::string stop_after;          // a stage
  std::string save_repro;          // a folder
  std::vector<GivenOption> given;  // all of the above, for what repeats the command
  bool output_by_place = false;    // the second argument, not -o
  bool verify = true, strict_verify = false, strict_budget = false, debug_rules = false, external_data = false;
  bool diff = false, annotate = false;
  std::optional<std::size_t> external_threshold;
  std::optional<DataFormat> data_format;
  std::optional<std::int64_t> io_rank;
  std::vector<std::string> before, after;  // files of passes
  std::optional<double> measure;           // seconds
  std::string measured;                    // a file of answers
};

struct TransformArgs {
  CommonArgs common;
  VerifyArgs check;
  std::string input, output, report;
  std::vector<std::string> files, passes;            // --passes, then --pass
  std::vector<std::string> cut_inputs, cut_outputs;  // of a last pass
  std::vector<std::string> split_at;                 // values
  bool list = false, verify = true, external_data = false;
  std::optional<DataFormat> data_format;
};

struct SlmArgs {
  CommonArgs common;
  ShapeArgs shapes;
  VerifyArgs check;
  std::string input, output, report, cache, dtype = "fp32", target = "onnx";
  std::optional<std::int64_t> window, sequence, max_context, opset;
  double max_error = 0;
  std::string calibrate;
  bool clamp = false, verify = true, external_data = true, print_passes = false;
  std::optional<DataFormat> data_format;
};

struct InspectArgs {
  CommonArgs common;
  VerifyArgs check;  // the runtime that is asked
  std::string input, target = "ort-cpu";
  bool after_load = false;
};

// Of a decoder, what is not found by itself.
struct DecoderArgs {
  std::string input_ids, attention_mask, position_ids, logits, cache;  // names; a CacheKind
  std::vector<std::string> past, present;                              // patterns
  std::vector<std::string> given;                                      // names
  std::vector<std::string> encoders;                                   // files of models that run once, in front
};

struct VerifyCommandArgs {
  CommonArgs common;
  PageArgs page;
  ShapeArgs shapes;
  VerifyArgs check;
  DecoderArgs decoder;  // of the one with a cache
  std::string original, optimized;
  std::vector<std::int64_t> lengths, windows;  // of stepping
  bool stepping = false;
};

struct DiffArgs {
  CommonArgs common;
  PageArgs page;
  ShapeArgs shapes;
  VerifyArgs check;
  SaturateArgs saturate;  // target and cost
  std::string first, second;
};

struct ProveArgs {
  CommonArgs common;
  PageArgs page;
  ShapeArgs shapes;
  VerifyArgs check;
  SaturateArgs saturate;  // rules, assumptions and budgets
  std::string first, second;
  bool compares_numbers = true;
};

struct RunArgs {
  CommonArgs common;
  RunBounds bounds;
  RuntimeArgs runtime;
  std::string input, inputs, output;
  ShapeArgs shapes;
  std::uint64_t seed = 0;
  bool random = false, profile = false, check_finite = false;
};

struct BenchArgs {
  CommonArgs common;
  PageArgs page;
  ShapeArgs shapes;
  RunBounds bounds;
  RuntimeArgs runtime;
  std::vector<std::string> models;  // one or two
  std::string inputs, profile;
  std::optional<std::size_t> iterations;
  std::size_t warmup = 3;
  std::uint64_t seed = 0;
  bool table = true, pin = false, as_is = false, check_finite = false;
};

struct GenerateArgs {
  CommonArgs common;
  ShapeArgs shapes;
  RunBounds bounds;
  DecoderArgs decoder;
  std::string input, inputs, genai_config, genai_type;
  std::optional<std::int64_t> bos_id;
  std::vector<std::string> prompts, eos_ids, encoder_ids;  // lists of numbers with commas between
  std::int64_t min_new_tokens = 0;
  std::optional<std::int64_t> max_new_tokens, max_context, top_k;
  std::optional<double> temperature, top_p;
  std::uint64_t seed = 0;
};

struct RulesArgs {
  CommonArgs common;
  std::string action, name;  // list; show NAME; check [FILE]; examples FOLDER
  int instances = 24;        // examples: random ones for each example
  std::uint64_t seed = 1;
  std::vector<std::string> rules;
  bool functions = false;  // list: the functions that rules may call
  bool proven = false;     // list: only what is proven
};

struct ExplainArgs {
  CommonArgs common;
  PageArgs page;
  SaturateArgs saturate;
  ShapeArgs shapes;
  std::string input, question, op, rule, value;
  std::optional<std::int64_t> io_rank;
};

struct TargetsArgs {
  CommonArgs common;
  ShapeArgs shapes;
  std::string action, name, target;  // check MODEL --target T
  bool forms = true;                 // check: also what to write instead
};

struct ExtractArgs {
  CommonArgs common;
  ShapeArgs shapes;
  VerifyArgs check;
  SaturateArgs saturate;
  std::string input, output, dump_egraph;  // output: a folder
  std::size_t samples = 8;
  bool verify = true;
};

struct CostArgs {
  CommonArgs common;
  PageArgs page;
  ShapeArgs shapes;
  SaturateArgs saturate;
  VerifyArgs check;                 // calibrate: which ONNX Runtime
  std::string action;               // gather, fit, eval or calibrate
  std::vector<std::string> inputs;  // gather: models; fit: rows; eval: models or measured graphs
  std::string output, rows, kind = "fitted";
  std::string machine, precision;  // fit of figures of an accelerator: of which the file tells; empty: of the last figure's
  std::optional<double> seconds;   // gather: for each row; calibrate: for all
  bool graphs = false;             // gather: times of whole graphs instead of operators
  unsigned folds = 0;              // eval: cross-validation of --rows
};

struct ReduceArgs {
  CommonArgs common;
  OptimizeArgs optimize;  // the words behind `--`: options of the run that fails
  std::string input, output, because, command, good;
  std::vector<std::string> keep;  // OP[:N]
  std::optional<std::uint64_t> seed;
  bool strict_verify = false;
  double seconds = 300;
  std::optional<double> trial_seconds;
};

int optimize_command(const OptimizeArgs& args);
int transform_command(const TransformArgs& args);
int slm_command(const SlmArgs& args);
int inspect_command(const InspectArgs& args);
int verify_command(const VerifyCommandArgs& args);
int diff_command(const DiffArgs& args);
int prove_command(const ProveArgs& args);
int run_command(const RunArgs& args);
int bench_command(const BenchArgs& args);
int generate_command(const GenerateArgs& args);
int rules_command(const RulesArgs& args);
int explain_command(const ExplainArgs& args);
int targets_command(const TargetsArgs& args);
int extract_command(const ExtractArgs& args);
int cost_command(const CostArgs& args);
int calibrate_command(const CostArgs& args);
int reduce_command(const ReduceArgs& args);

// Prints `saturate: error: ` and that line on stderr and returns the code.
// From now on `fail` and `warn` print a line of JSON: {"error": {"status": 2, "place": "", "message": "..."}}, {"warning": "..."}.
void tell_errors_as_json(bool json);
// Prints a warning on stderr.
void warn(std::string_view text);
int fail(ExitCode code, std::string_view place, std::string_view message, std::string_view advice);
int fail(const absl::Status& status, std::string_view place, std::string_view advice);  // wrong usage: 2; kUnimplemented: 5; others: 1

// The model of a file, or of standard input: "-". (Its external data lies in the folder where the command runs.)
absl::StatusOr<Model> load_given(const std::string& path);
// Both, each checked where `check` is given; else the exit status of what was told.
std::optional<int> load_two(const std::string& first, const std::string& second, Model (&models)[2],
                            absl::Status (*check)(const Model&) = nullptr);
// While it lives, what is printed on standard output goes to standard error; write() is the way to what standard output was.
class ResultToStdout {
 public:
  ResultToStdout();
  ~ResultToStdout();
  ResultToStdout(const ResultToStdout&) = delete;
  ResultToStdout& operator=(const ResultToStdout&) = delete;
  absl::Status write(const Model& model) const;

 private:
  int out_ = -1;
};
// A result that has no name: `a/b.onnx` and ".opt.onnx" give `a/b.opt.onnx`.
std::string path_beside(const std::string& input, const std::string& ending);
// `onnxruntime`: what --onnxruntime names, of verbs that have it.
absl::StatusOr<Setup> set_up(const SaturateArgs& args, const ShapeArgs& shapes, const std::string& onnxruntime = "");
// Names the target with its release among the words given, for what repeats the command.
void name_target(const SettledTarget& settled, OptimizeArgs& args);
OptimizeOptions optimize_options(const SaturateArgs& args, const CommonArgs& common);
// What the words of the user say; kInvalidArgument with one line where they say nothing.
absl::StatusOr<Sizes> parse_sizes(const std::vector<std::string>& dims);
absl::StatusOr<std::vector<CostPoint>> parse_cost_points(const std::vector<std::string>& texts);
// Wrong usage where --cost-at nearly names a dim of the model's inputs. Others are told as warnings: one --cost-at may serve many models.
absl::Status check_cost_points(const SaturateArgs& args, const Model& model);
bool is_bare_shape(std::string_view word);  // "1,3,224,224"
absl::StatusOr<InputShapes> parse_shapes(const std::vector<std::string>& shapes);
absl::StatusOr<GivenShapes> given_shapes(const ShapeArgs& args);
absl::Status fix_shapes(Model& model, const ShapeArgs& args);
// A .npz as the model's inputs: every name declared, dtypes right, none missing.
// Only arrays that are inputs of the model, by name, dtype and sizes, and take at most `memory` bytes together, are unpacked.
absl::StatusOr<Inputs> load_inputs(const std::string& path, const Model& model, std::uint64_t memory);
// Inputs for a run: those of the .npz `path`, else random ones on which `run` goes well (trial.h).
using TryRun = std::function<absl::Status(const Inputs&)>;
absl::StatusOr<Trial> inputs_for(const Model& model, const std::string& path, const ShapeArgs& shapes, std::uint64_t seed,
                                 const TryRun& run, std::uint64_t memory = ~std::uint64_t{0});
// What to say of shapes that were found by trial; "" where none were.
std::string said_of(const Trial& trial);
// From now on.
RunLimits run_limits(const RunBounds& bounds);
// The runtime that was asked for; empty: ours. kUnimplemented with one line where this process has it not; wrong usage where options that
// only ours has (`of_ours`: whether they were given) were asked for with another.
using OfOurs = std::initializer_list<std::pair<std::string_view, bool>>;
inline constexpr const char* kElsewhereAdvice = "--runtime onnxruntime runs it there";
absl::StatusOr<OtherRuntime> runtime_of(const RuntimeArgs& args, const CommonArgs& common, OfOurs of_ours = {});
// The passes of JSON files. Errors begin with the file.
absl::StatusOr<std::vector<PassCall>> load_passes(const std::vector<std::string>& files);
// What to do about a run that failed.
const char* run_advice(const absl::Status& status);
absl::StatusOr<DecoderNames> decoder_names(const DecoderArgs& args, const ShapeArgs& shapes);
// The models of --encoder.
absl::StatusOr<std::vector<Model>> load_encoders(const DecoderArgs& args);
// What --judge, --onnxruntime and --runtime say. (The last is an older name of --judge where models are compared.)
JudgeWords judge_words(const VerifyArgs& args);
absl::StatusOr<VerifyOptions> verify_options(const VerifyArgs& args, const ShapeArgs& shapes, const CommonArgs& common,
                                             const Model& original);

}  // namespace saturate
