// The library: load, optimize, verify and run ONNX models. Only the standard library is needed to include this.
//   namespace sat = saturate::api;
//   const auto model = sat::Model::load("in.onnx");
//   const auto result = sat::optimize(*model, {.target = "ort-cpu"});
//   if (!result || !result->model.save("out.onnx")) ...
// Nothing here throws but std::bad_alloc (and what a caller's own function throws). Values may be used from several threads at once; a
// Model, RuleSet or Report is a handle whose copies share one immutable state. Results don't depend on threads, time or machine, but with
// `measure`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace saturate::api {

// The exit statuses of the command.
enum class Code : int {
  kFile = 1,         // a model, rule or other file can't be read, is invalid or can't be written
  kUsage = 2,        // an option makes no sense
  kDifferent = 3,    // verification failed
  kUnsupported = 5,  // something that can't be run here, so nothing can be verified
  kInterrupted = 130,
};

// What was done, for people and for programs.
class Report {
 public:
  std::string table(int verbosity = 0) const;  // 1: with the rules that fired
  std::string json() const;                    // everything; the keys of `saturate --report`
  struct Impl;
  explicit Report(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

// `message`: "place: what is wrong; what to do", one line.
struct Error {
  Code code = Code::kFile;
  std::string message;
  std::optional<Report> report = {};  // where verification failed
};

// A value or an error. Taking the value where there is none throws std::bad_variant_access.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : v_(std::move(value)) {}
  Expected(Error error) : v_(std::move(error)) {}
  explicit operator bool() const { return v_.index() == 0; }
  const T& operator*() const& { return std::get<0>(v_); }
  T& operator*() & { return std::get<0>(v_); }
  T&& operator*() && { return std::get<0>(std::move(v_)); }
  const T* operator->() const { return &std::get<0>(v_); }
  T* operator->() { return &std::get<0>(v_); }
  const Error& error() const { return std::get<1>(v_); }

 private:
  std::variant<T, Error> v_;
};
using Done = Expected<std::monostate>;

// Elements in C order, little-endian; types of fewer than 8 bits are packed, low bits first (as in TensorProto.raw_data).
struct Tensor {
  std::int32_t dtype = 0;  // onnx.TensorProto.DataType
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  std::vector<std::string> strings;   // instead of data, for strings
  std::shared_ptr<const void> owner;  // keeps `data` alive; null: the caller does, as long as anything that was made from it lives
  bool writable = false;              // of results: nobody else sees `data`
};

struct Value;
struct Sequence {
  std::vector<Value> items;
  std::int32_t dtype = 0;  // of its tensors, for empty ones
};
struct Maybe {
  std::shared_ptr<const Value> value;  // null: an optional without a value
};
struct Value {
  std::variant<Tensor, Sequence, Maybe> v;
};
using Values = std::map<std::string, Value>;

// An ONNX model that passed the loader's checks.
class Model {
 public:
  // .onnx, or .onnxtxt (ONNX text). External data and large weights are mapped, not read: while the model lives, its files may be replaced
  // but not written into (sessions hold weights of the .onnx file in memory). Nothing is taken from outside the model's folder.
  static Expected<Model> load(const std::string& path);
  // Data of the graph's initializer number `index` that lies outside of the bytes, whose tensor has neither raw_data nor typed data.
  struct Weight {
    std::size_t index = 0;
    std::span<const std::byte> data;
    std::shared_ptr<const void> owner;
  };
  // A serialized ModelProto. `folder`: where external data lies ("": refused).
  static Expected<Model> parse(std::string_view bytes, const std::string& folder = "", std::vector<Weight> weights = {});

  struct SaveOptions {
    bool external_data = false;             // tensors of at least `external_threshold` bytes go to `<path>.data`
    std::size_t external_threshold = 1024;  // (those of a model that had external data do anyway)
    std::string external_format;            // "raw", or "safetensors", which go to `<path>.safetensors`; "": as the model's data
  };
  // To temporary files, then renamed: a failed save leaves what was there.
  Done save(const std::string& path) const { return save(path, SaveOptions()); }
  Done save(const std::string& path, const SaveOptions& options) const;
  Expected<std::string> serialize() const;
  // The same without the data of initializers of at least `threshold` bytes, which `weights` points to.
  Expected<std::string> serialize(std::size_t threshold, std::vector<Weight>* weights) const;

  std::string inspect() const;  // JSON; the keys of `saturate inspect --json`
  std::string text() const;     // ONNX text
  struct Impl;
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

class RuleSet {
 public:
  static Expected<RuleSet> builtin();
  static RuleSet none();  // nodes are written back as they came, but equal ones become one, and those that no output needs go
  // This set and the rules of a file or of a text in its language (rules/README.md); a name that is taken is an error.
  Expected<RuleSet> with_file(const std::string& path) const;
  Expected<RuleSet> with_text(std::string_view text, const std::string& name) const;
  // Names that don't exist are an error.
  Expected<RuleSet> without(const std::vector<std::string>& names) const;
  std::vector<std::string> names() const;
  std::string show(std::string_view name) const;  // a rule's text, "" where there is none of this name
  struct Impl;
  explicit RuleSet(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// An operator to be priced.
struct Operator {
  using Dim = std::variant<std::int64_t, std::string>;  // a number, or an expression over the model's symbols
  struct Type {
    std::int32_t dtype = 0;                 // 0: unknown, or no tensor
    std::optional<std::vector<Dim>> shape;  // nullopt: unknown rank
  };
  using Attribute = std::variant<std::monostate, double, std::int64_t, std::string, std::vector<double>, std::vector<std::int64_t>,
                                 std::vector<std::string>>;  // monostate: of another type
  std::string domain, op_type;                               // domain "" is ai.onnx
  std::vector<std::pair<std::string, Attribute>> attributes;
  std::vector<Type> inputs, outputs;
};
// A finite number that isn't negative; anything else is an error. Asked once or more for every e-node, from one thread.
using CostModel = std::function<double(const Operator&)>;

// Where a run stands: lower, saturate, extract, emit, measure, verify; of saturate, after each iteration.
struct Progress {
  std::string stage;
  std::size_t iteration = 0, nodes = 0;  // of saturate
};

// Dim sizes at which costs are evaluated, and how much they count.
struct CostAt {
  std::map<std::string, std::int64_t> dims;
  double weight = 1;
};

// Another runtime than ours, for models with operators that ours has not.
struct Ran {
  std::vector<Value> outputs;  // in the graph's order
  double seconds = 0;          // that the run itself took
};
// Runs a model once: inputs by name; `seconds`, if any, after which it gives up.
using Run = std::function<Expected<Ran>(const Values& inputs, std::optional<double> seconds)>;
struct Runtime {
  std::string name = {};
  std::function<Expected<Run>(const Model&)> open = {};  // an error that is kUnsupported: it can't run this model
};

struct Options {
  std::string target = "ort-cpu";              // a built-in one (`saturate targets list`) or a JSON file
  std::vector<std::string> prefer = {};        // what it would rather have, beside its own wishes: "single-heads"
  std::string cost = {};                       // nodes, flops, bytes, roofline, measured or a file; "": the target's own
  CostModel cost_model = {};                   // instead of `cost`
  std::vector<CostAt> cost_at = {};            // the weighted mean counts; empty: by what inputs hold (docs/sizes.md)
  double memory_slack = 0;                     // how much dearer the result may be for a lower peak of memory, as a share of the cost
  std::optional<double> max_growth = {};       // how many times the model's weights the result's may take, 1 or more
  double constant_cost = 1.0 / 65536;          // of a byte of a new constant, for `cost_model`
  std::optional<RuleSet> rules = {};           // nullopt: the built-in ones
  std::vector<std::string> skip_fusions = {};  // operators (with or without domain) that no rule may make of what holds none
  std::vector<std::string> assumed = {};       // risky assumptions to make, too (`saturate optimize --help` names them)
  std::vector<std::string> not_assumed = {};   // assumptions that no rule may make, or "all"; these win
  std::string extractor = "search";            // how the cheapest choice is looked for (`saturate optimize --help`)
  bool approximate = false;                    // also rules that approximate
  bool rescale = false;                        // also rules that move the scales of quantized numbers
  // Rules that move quantized numbers by a step at most; without a value where the target's runtime does the same when it loads a model.
  std::optional<bool> within_one_step = {};
  std::optional<std::int64_t> opset = {};
  bool keep_opset = false;
  bool keep_functions = false;                                         // that the target names; OUT holds them
  std::map<std::string, std::int64_t> dims = {};                       // sizes of symbolic dims
  std::map<std::string, std::vector<std::int64_t>> input_shapes = {};  // dims of inputs; -1 leaves one as it is
  bool allow_empty = false;                                            // whether they may be 0
  // Rank of the result's inputs and outputs: ones stand in front of their dims, the report tells which changed (docs/targets.md).
  // `inputs` keep the shapes of the model itself.
  std::optional<std::int64_t> io_rank = {};

  std::size_t iterations = 30;
  std::optional<std::size_t> node_limit = {};    // e-nodes that rules may make; nullopt: 60 for each of the model's, 10,000 to 1,000,000
  std::optional<std::size_t> memory_limit = {};  // bytes of the e-graph
  // Seconds of rewriting, and again of verifying; nullopt: 60. Where it is given, of the whole run: until half of them are over of
  // rewriting, until three quarters of all stages, then of verifying, and 2 more of judges. Where it is hit the result depends on the
  // machine.
  std::optional<double> time_limit = {};
  std::optional<std::size_t> max_memory = {};  // bytes that the tensors of one run, or of what is folded, may take; nullopt: 4 GB, 256 MB
  int threads = 1;                             // 0: all cores

  bool verify = true;          // run original and result on the same inputs
  bool debug_rules = false;    // where they differ: an error that tells which application of which rule is to blame
  bool annotate = false;       // write the rules behind new nodes, and what they stand for, into their metadata_props
  bool not_fused = false;      // the report also tells where something might have been fused and was not, and why
  bool strict_verify = false;  // where they differ: an error; else the rule that is to blame is left out, and a warning says so
  std::optional<double> rtol = {}, atol = {};
  int steps = 0;  // that quantized values may differ by; what is computed of them may then differ by what a step of some makes
  std::uint64_t seed = 0;
  std::optional<Values> inputs = {};     // these instead of random ones
  std::vector<Values> more_inputs = {};  // and these, one case each
  std::optional<Runtime> runtime = {};   // that runs the models when they are compared; nullopt: ours. `max_memory` does not bind it
  // Who judges: "saturate", "onnxruntime" (in a process of its own), "onnxruntime=PATH" of its shared library. None: saturate, and
  // onnxruntime where `onnxruntime` or the variable SATURATE_ONNXRUNTIME names it: a shared library, or the folder of the Python package.
  // It is code, and trusted. It also tells the release that a target without one means.
  std::vector<std::string> judges = {};
  std::string onnxruntime = {};

  // Seconds for which graphs and the original are timed in ONNX Runtime (the first of the judges) in turns, on the sizes of `cost_at` or on
  // `inputs`; the fastest is taken, and the original where nothing is faster. `measured`: a file that keeps what was measured.
  std::optional<double> measure = {};
  std::string measured = {};

  const std::atomic<bool>* stop = nullptr;   // ends the rewriting: the best result so far
  const std::atomic<bool>* abort = nullptr;  // gives up: kInterrupted (set `stop` too)
  std::function<void(const Progress&)> progress = {};
};

struct Result {
  Model model;
  Report report;
};
// An equal, cheaper model that the target can run; the model itself is never changed. An error where the two don't compute the same.
Expected<Result> optimize(const Model& model, const Options& options = {});

// The model that passes make of this one (docs/transforms.md). `passes`: the JSON of `saturate transform --passes`. Of the options: verify,
// rtol, atol, steps, seed, inputs, more_inputs, time_limit, max_memory, threads, abort.
struct Transformed {
  Model model;
  std::string table;  // what was done, for people
  std::string json;   // the keys of `saturate transform --report`
};
Expected<Transformed> transform(const Model& model, std::string_view passes, const Options& options = {});
// For each part of a chain that the model is split into at these values: the passes that make it of the whole model.
Expected<std::vector<std::string>> split_passes(const Model& model, const std::vector<std::string>& values);
// The passes and their fields as JSON, as `saturate transform --list-passes --json` prints them.
std::string passes();

// Does `other` compute the same? Of the options: dims, input_shapes, allow_empty, rtol, atol, steps, seed, inputs,
// more_inputs, runtime, time_limit, max_memory, threads, abort.
struct Verification {
  bool equal = false;
  std::string message;  // one line: how equal, or why not
  std::string json;     // the keys of `saturate verify --json`
};
Expected<Verification> verify(const Model& original, const Model& other, const Options& options = {});

// What differs between two models, region by region: a region is what lies between values that both have. Of the options: dims,
// input_shapes, seed, time_limit, max_memory, threads, abort; target, cost, cost_model for what is predicted.
struct Difference {
  bool equal = false;  // but for names of inner values
  std::string text;    // as `saturate diff` prints it
  std::string json;    // the keys of `saturate diff --json`
};
Expected<Difference> diff(const Model& first, const Model& second, const Options& options = {});

// Whether two models are the same, shown by the rules' laws in one e-graph; where no proof is found both are run on drawn inputs. Of the
// options: rules, assumptions, effects and budgets; those of diff() for the runs.
struct Proof {
  std::string verdict;  // "proven", "different" or "open"
  std::string text;     // as `saturate prove` prints it
  std::string json;     // the keys of `saturate prove --json`
};
Expected<Proof> prove(const Model& first, const Model& second, const Options& options = {});

// Which rules made which operators of the optimized model, and why others were not made, as JSON (the keys of `saturate explain --json`).
struct Question {  // of at most one: an operator type (with or without domain), a rule, a value of the model
  std::string op = {}, rule = {}, value = {};
};
// JSON; the keys of `saturate inspect --json`, with `after_load`: what ONNX Runtime makes of the model when it loads it. Of the options:
// who judges, the one runtime that is asked.
Expected<std::string> inspect_after_load(const Model& model, const Options& options = {});
Expected<std::string> explain(const Model& model, const Question& question = {}, const Options& options = {});

// Names of the built-in targets.
std::vector<std::string> targets();
// What to type instead of a name that is none of the known ones: "did you mean 'batch'? There are batch, seq".
std::string what_instead(std::string_view name, const std::vector<std::string>& known);

// Runs a model on the CPU: for verification and measurement, not for serving.
class Session {
 public:
  // kUnsupported, naming node and operator, where something can't be run. `reference`: the slow kernels that the fast ones are judged by.
  static Expected<Session> create(const Model& model, int threads = 1, bool reference = false);
  // Inputs by name; those with an initializer may be left out. Outputs in the graph's order. Tensors are used where they lie.
  Expected<std::vector<std::pair<std::string, Value>>> run(const Values& inputs) const;
  struct Impl;
  explicit Session(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

// Runs a model instead of our runtime: inputs by name, outputs in the graph's order.
using RunElsewhere = std::function<Expected<std::vector<Value>>(const Values&)>;

// What a language model makes of prompts of tokens (docs/generate.md).
struct Generating {
  std::optional<std::int64_t> max_new_tokens = {};  // default: 64, or as many as the model holds
  std::int64_t min_new_tokens = 0;
  std::vector<std::int64_t> eos_ids = {};
  std::optional<std::int64_t> max_context = {};
  std::optional<double> temperature = {}, top_p = {};  // without these two and `top_k` the likeliest token is taken
  std::optional<std::int64_t> top_k = {};
  std::uint64_t seed = 0;
  std::string input_ids = {}, attention_mask = {}, position_ids = {}, logits = {};  // names; "": found
  std::vector<std::string> past_names = {}, present_names = {};                     // patterns with %d for the layer
  std::vector<std::string> given = {};            // inputs that an encoder gives, beside those whose names tell it
  std::string cache = {};                         // growing, sliding or in-place; "": found
  std::map<std::string, std::int64_t> dims = {};  // sizes of symbolic dims
  int threads = 1;
  const std::atomic<bool>* abort = nullptr;
  RunElsewhere run = {};
  // Of an encoder-decoder: models that run once in front, what they read as tokens (a row for each prompt, or one), and arrays by name.
  std::vector<Model> encoders = {};
  std::vector<std::vector<std::int64_t>> encoder_ids = {};
  Values encoder_inputs = {};
  std::vector<RunElsewhere> run_encoders = {};  // instead of our runtime: as many as `encoders`, or none
};
// The keys of `saturate generate --json`, without `peak_bytes`.
Expected<std::string> generate(const Model& model, const std::vector<std::vector<std::int64_t>>& prompts, const Generating& options = {});

std::string version();

}  // namespace saturate::api
