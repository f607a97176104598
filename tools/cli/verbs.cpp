#include "tools/cli/verbs.h"

#include <algorithm>
#include <array>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/cli/verb_options.h"
#include "tools/cli/words/shell.h"
#include "tools/io/option_checks.h"
#include "tools/pipeline/stage_dumps.h"

namespace saturate {

using namespace verb_options;

namespace {

void add_measure(CLI::App* verb, OptimizeArgs& args) {
  verb->add_option("--measure", args.measure,
                   "time the best different graphs and the original in ONNX Runtime in turns, for so many seconds at most, on the sizes of "
                   "--cost-at and --threads; the fastest is written, and the original where nothing is faster")
      ->type_name("SECONDS")
      ->check([](const std::string& text) { return not_a_number_in(text, 0.001, 1e6, "seconds"); }, "");
  verb->add_option("--measured", args.measured, "with --measure: read and keep here what was measured, for this model and others")
      ->type_name("FILE.jsonl")
      ->needs("--measure");
}

}  // namespace

void add_optimize(CLI::App& app, OptimizeArgs& args, std::string& output_option) {
  CLI::App* verb =
      app.add_subcommand("optimize",
                         "rewrite a model into an equal, cheaper one\n\nReads IN.onnx (.onnx or .onnxtxt), grows an e-graph "
                         "of equal models by rules, takes the cheapest one that the target\n"
                         "can run, verifies it against the original on random inputs of several sizes, and writes it "
                         "(IN.opt.onnx unless named).\nThe verb may be left out. IN.onnx may be -, standard input; the result then goes to "
                         "standard output.\nOUT.onnx "
                         "is replaced if saturate wrote it (an extended attribute of the file says so); -o replaces any file.\nFlags of "
                         "onnxsim, onnxslim and onnxruntime.transformers.optimizer work, or say what to type.");
  add_places(verb, args, output_option);
  add_saturate(verb, args.saturate);
  add_shapes(verb, args.shapes, "fix the size");
  add_io_rank(verb, args.io_rank, "; the report tells which changed, and --inputs keep the shapes of IN.onnx");
  for (const auto& [name, files, when] : {std::tuple("--before", &args.before, "before"), std::tuple("--after", &args.after, "after")})
    add_list(verb, name, *files, "FILE",
             fmt::format("passes of `saturate transform` to run {} optimizing, as JSON; may be repeated", when));
  verb->add_flag("--diff", args.diff, "tell what differs in the result, region by region, and by which rules (`saturate diff`)");
  verb->add_flag(
      "--annotate", args.annotate,
      "write into the metadata_props of new nodes which rules made them (saturate.rules) and which nodes of the model they stand "
      "for (saturate.replaces)");
  verb->add_flag("!--no-verify", args.verify, "write the result without running it");
  add_measure(verb, args);
  add_check(verb, args.check);
  verb->add_flag("--debug-rules", args.debug_rules,
                 "where verification fails, give up and tell which application of which rule brings the difference");
  verb->add_flag("--strict-verify", args.strict_verify,
                 "where verification fails, give up; without, the rule that is to blame is left out, and a warning says so");
  verb->add_flag("--strict-budget", args.strict_budget, "exit with 4 where a budget ended the rewriting before nothing was left to do");
  verb->add_option("--dump-egraph", args.dump_egraph, "write the e-graph with its costs, as egraph-serialize's JSON")->type_name("G.json");
  verb->add_option("--dump", args.dumps,
                   "print, or write to a file, what a stage has made: load or emit (ONNX text), lower or saturate (the e-graph as text, "
                   ".dot or .json), extract (the choice as text or .json)")
      ->type_name("STAGE[=FILE]")
      ->allow_extra_args(false);
  verb->add_option("--stop-after", args.stop_after, "end after this stage, without a result: load, lower, saturate, extract or emit")
      ->type_name("STAGE")
      ->check([](const std::string& stage) { return not_a_stage(stage); }, "");
  verb->add_option("--report", args.report, "write all that is known of the run as JSON")->type_name("R.json");
  verb->add_option(
          "--save-repro", args.save_repro,
          "before the run, write what repeats it to this folder, a new or empty one: the model, its data, the inputs and other files "
          "given, and the command")
      ->type_name("DIR");
  verb->add_flag("--external-data,--save-as-external-data,--save-external-data", args.external_data,
                 "write tensors to OUT.onnx.data even where the input has them inline");
  verb->add_option("--external-data-threshold", args.external_threshold, "smallest tensor to write there (default 1024)")
      ->type_name("BYTES");
  add_data_format(verb, args.data_format);
  add_common(verb, args.common, true);
  verb->add_flag_function(
          "--model-check", [](std::int64_t) {}, "verification is the default")
      ->group("");
  verb->footer(
      "saturate bart.onnx\nsaturate bart.onnx fused.onnx --target ort-cpu --cost nodes --report r.json\nsaturate optimize bart.onnx -o "
      "bart23.onnx --target onnx --opset 23");
}

void add_transform(CLI::App& app, TransformArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "transform",
      "change what a model is, exactly as asked\n\nRuns passes over IN.onnx one after the other: names, order and number of inputs and "
      "outputs, their types,\ndims and layout, constants, shapes, a part of a model, two models as one. Each pass states how its result is "
      "verified,\nand nothing is written where that fails. Lists of passes are JSON: [{\"pass\": NAME, FIELD: VALUE, ...}, ...], or "
      "surgeries of Olive.\n--list-passes tells them all (docs/transforms.md).");
  verb->add_option("IN.onnx", args.input, "the model");
  verb->add_option("-o,--output", args.output, "the result (default: IN.out.onnx)")->type_name("OUT.onnx");
  add_list(verb, "--passes", args.files, "FILE", "a list of passes as JSON; may be repeated");
  add_list(verb, "--pass", args.passes, "PASS",
           "one pass, behind those of --passes: NAME, NAME:VALUE of its first field, NAME:FIELD=VALUE;FIELD=VALUE, or "
           "NAME:{JSON}; may be repeated");
  verb->add_option("--cut-inputs", args.cut_inputs, "at the end, cut out the part behind these values")->type_name("NAMES")->delimiter(',');
  verb->add_option("--cut-outputs", args.cut_outputs, "at the end, cut out the part that makes these values")
      ->type_name("NAMES")
      ->delimiter(',');
  verb->add_option(
          "--split-at", args.split_at,
          "at the end, split the model into a chain of parts, each of which ends with one of these values: OUT.1.onnx, OUT.2.onnx ...")
      ->type_name("NAMES")
      ->delimiter(',');
  verb->add_flag("--list-passes", args.list, "print the passes and their fields, and do nothing");
  verb->add_flag("!--no-verify", args.verify, "write the result without running it");
  add_check(verb, args.check);
  add_time(verb, args.check.seconds, "seconds after which a verification begins no new case; 1 at least (default 60)");
  verb->add_option("--report", args.report, "write all that is known of the run as JSON")->type_name("R.json");
  verb->add_flag("--external-data", args.external_data, "write tensors to OUT.onnx.data even where the input has them inline");
  add_data_format(verb, args.data_format);
  add_common(verb, args.common, true);
  verb->footer(
      "saturate transform bart.onnx -o renamed.onnx --pass rename_inputs:input_ids=ids\n"
      "saturate transform bart.onnx -o small.onnx --pass int32_inputs --pass strip_metadata");
}

void add_slm(CLI::App& app, SlmArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "slm",
      "make a small language model ready for an accelerator\n\nGives a decoder-only model, exported without a cache, one of keys and "
      "values, "
      "lets it work in half precision, and writes\noperators of an opset or target. With --window, --sequence or --max-context the cache "
      "slides and all sizes are fixed;\nwithout, it grows. These are passes of `saturate transform`, and --print-passes prints them. The "
      "result is run step by step\nagainst the original, and nothing is written where they differ.");
  verb->add_option("IN.onnx", args.input, "the model, without a cache")->required();
  verb->add_option("-o,--output", args.output, "the result (default: IN.slm.onnx); its folder is made")->type_name("OUT.onnx");
  for (const auto& [name, into, what] : {std::tuple("--window", &args.window, "tokens of a run (default 1)"),
                                         std::tuple("--sequence", &args.sequence,
                                                    "tokens that are seen at once, those of the run with them (default: "
                                                    "--max-context, or 256)"),
                                         std::tuple("--max-context", &args.max_context, "tokens that caches hold (default: --sequence)")})
    verb->add_option(name, *into, what)->type_name("N")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  verb->add_option("--cache", args.cache,
                   "how it is kept: growing, window (of fixed sizes, the default where one is given) or buffer (of --max-context tokens, "
                   "written in place)")
      ->type_name("MODE")
      ->check(CLI::IsMember({"growing", "window", "buffer"}));
  verb->add_option("--dtype", args.dtype, "fp16, bf16, or fp32 (default): as it is")
      ->type_name("T")
      ->check(CLI::IsMember({"fp16", "bf16", "fp32", "float16", "bfloat16", "float32"}));
  verb->add_option("--max-error", args.max_error,
                   "of half precision, relative to the largest number of an output: operators stay in float until it is reached")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  verb->add_option(
          "--calibrate", args.calibrate,
          "tokens by the name of their input, on which values are looked for that are too large for half precision (default: drawn "
          "inputs)")
      ->type_name("X.npz");
  verb->add_flag("--clamp", args.clamp, "clamp such values, instead of keeping operators in float for them");
  verb->add_option("--opset", args.opset, "write this opset of ai.onnx (default: as the result needs)")
      ->type_name("N")
      ->check(not_a_known_opset, "");
  verb->add_option("--target", args.target, "what shall run it, a built-in target or a file (default onnx: any runtime)")
      ->type_name("TARGET");
  add_list(verb, "--dim", args.shapes.dims, "SYMBOL=SIZE", "the size of a symbolic dim; may be repeated");
  verb->add_flag("!--no-external-data", args.external_data, "keep weights in OUT.onnx, where they fit, instead of OUT.onnx.data");
  add_data_format(verb, args.data_format);
  verb->add_flag("!--no-verify", args.verify, "write the result without running it");
  verb->add_flag("--print-passes", args.print_passes, "print the passes for `saturate transform --passes`, and do nothing");
  add_check(verb, args.check);
  add_time(verb, args.check.seconds, "seconds after which a verification begins no new case; 1 at least (default 60)");
  verb->add_option("--report", args.report, "write all that is known of the run as JSON")->type_name("R.json");
  add_common(verb, args.common, true);
  verb->footer(
      "saturate slm whole.onnx -o out/model.onnx --window 1 --sequence 24 --max-context 32 --dtype fp16 --opset 14\n"
      "saturate slm whole.onnx --print-passes --dtype fp16");
}

namespace {

// Of a decoder's inputs and outputs.
void add_decoder(CLI::App* app, DecoderArgs& args) {
  const std::string group = "The model's inputs and outputs, where they are not found by themselves";
  for (const auto& [name, into, what] :
       {std::tuple("--input-ids", &args.input_ids, "input of tokens"),
        std::tuple("--attention-mask", &args.attention_mask, "input of the mask"),
        std::tuple("--position-ids", &args.position_ids, "input of positions"), std::tuple("--logits", &args.logits, "output of logits")})
    app->add_option(name, *into, what)->type_name("NAME")->group(group);
  for (const auto& [name, into, what] :
       {std::tuple("--past-names", &args.past, "inputs of the past"),
        std::tuple("--present-names", &args.present, "outputs that the next run gets as its past, in the same order")})
    app->add_option(name, *into, fmt::format("{}, with %d for the layer: past_key_values.%d.key,past_key_values.%d.value", what))
        ->type_name("PATTERNS")
        ->delimiter(',')
        ->group(group);
  app->add_option("--cache", args.cache,
                  "how the past is kept: growing, sliding (of a fixed length, ending where the sequence ends) or in-place (a buffer "
                  "filled from the front); default: as shapes and operators tell")
      ->type_name("KIND")
      ->check(CLI::IsMember({"growing", "sliding", "in-place"}))
      ->group(group);
  app->add_option("--given", args.given, "inputs that an encoder gives, beside those with \"encoder\" or \"cross\" in their names")
      ->type_name("NAMES")
      ->delimiter(',')
      ->group(group);
  add_list(app, "--encoder", args.encoders, "MODEL",
           "a model that runs once in front: an encoder, or what `--pass kv_cache:model=cross` wrote; may be repeated, in their order")
      ->group("Encoder-decoders");
}

}  // namespace

void add_inspect(CLI::App& app, InspectArgs& inspect) {
  CLI::App* verb =
      app.add_subcommand("inspect",
                         "show what is in a model\n\nOpsets, inputs and outputs, operators, fused operators, parameters.\nOf a quantized "
                         "model also its schemes, types and granularity, the share of operators that the target computes in "
                         "integers (by count and by multiply-accumulates, symbolic dims at usual sizes), and the float operators "
                         "between integer ones with the reason why each is no integer kernel.");
  verb->add_option("IN.onnx", inspect.input, "the model")->required();
  verb->add_option("--target", inspect.target, "whose integer kernels are meant, a built-in target or a file (default ort-cpu)")
      ->type_name("T");
  auto* after_load = verb->add_flag("--after-load", inspect.after_load,
                                    "also the operators that ONNX Runtime makes of them when it loads the model, as it saves them itself");
  add_judge(verb, inspect.check, "with --after-load: onnxruntime or onnxruntime=PATH of its shared library (default: the installed one)");
  for (const char* option : {"--judge", "--onnxruntime"}) verb->get_option(option)->needs(after_load);
  add_common(verb, inspect.common, true, false);
  verb->footer("saturate inspect bart.onnx\nsaturate inspect bart.onnx --json\nsaturate inspect bart.onnx --after-load");
}

void add_verify(CLI::App& app, VerifyCommandArgs& verify) {
  CLI::App* verb =
      app.add_subcommand("verify",
                         "tell whether two models compute the same\n\nRuns both on the same inputs, random ones of several sizes unless "
                         "--inputs gives them, and compares every output.\n"
                         "NaN equals NaN; integers must be equal, or quantized ones within --steps; outputs of random operators without a "
                         "seed are not compared.");
  verb->add_option("A.onnx", verify.original, "the original")->required();
  verb->add_option("B.onnx", verify.optimized, "the other")->required();
  add_check(verb, verify.check);
  add_time(verb, verify.check.seconds,
           "seconds after which no new case is begun and the one that runs is given up; 1 at least (default 60)");
  add_shapes(verb, verify.shapes, "try only this size");
  verb->add_flag("--stepping", verify.stepping,
                 "A is a decoder without a cache, B one with a cache: run B step by step, with several lengths, steps and paddings, and "
                 "compare its logits with A's of the whole sequence (default tolerance: 1e-3 of what is usual in a row)");
  for (const auto& [name, into, what] :
       {std::tuple("--lengths", &verify.lengths, "tokens of the sequences to try (default: some to 32, and as many as the models hold)"),
        std::tuple("--windows", &verify.windows, "tokens of a step to try (default: 1, 3, and single ones behind a long one)")})
    verb->add_option(name, *into, fmt::format("of --stepping: {}", what))
        ->type_name("N,N")
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  add_decoder(verb, verify.decoder);
  add_common(verb, verify.common, true);
  verb->footer(
      "saturate verify bart.onnx bart.opt.onnx\nsaturate verify bart.onnx bart.opt.onnx --inputs x.npz --check-rtol 1e-5\nsaturate "
      "verify whole.onnx cached.onnx --stepping");
}

void add_diff(CLI::App& app, DiffArgs& diff) {
  CLI::App* verb = app.add_subcommand(
      "diff",
      "show what differs between two models\n\nRegion by region: a region is what lies between values that both models have. Values are "
      "matched by structure, and by names\nwhere both models, run on the same random inputs, make the same of them. Regions that are "
      "alike are shown once. Also interface,\nopsets, functions, types and weights (by content). Names of inner values are no difference.\n"
      "The exit status is 3 where the models differ.");
  verb->add_option("A.onnx", diff.first, "the original")->required();
  verb->add_option("B.onnx", diff.second, "the other, made by whatever tool")->required();
  verb->add_option("--target", diff.saturate.target, "whose costs are predicted: ort-cpu (default), onnx, or a JSON file")
      ->type_name("TARGET");
  verb->add_option("--cost", diff.saturate.cost, "cost model (default: the target's own)")->type_name("MODEL");
  add_list(verb, "--cost-at", diff.saturate.cost_at, "SYMBOL=SIZE,...[:WEIGHT]", "dim sizes at which costs are evaluated (as of optimize)");
  verb->add_option("--seed", diff.check.seed, "seed of the random inputs (default 0)")->type_name("N");
  add_max_memory(verb, diff.check.max_memory, "memory in MB that the tensors of one run may take together (default: 4096)");
  add_time(verb, diff.check.seconds, "seconds after which no new run is begun (default 60)");
  add_runtime(verb, diff.check.runtime, "what runs the models");
  add_shapes(verb, diff.shapes, "run at this size");
  add_common(verb, diff.common, true);
  verb->footer("saturate diff bart.onnx bart.opt.onnx\nsaturate diff bart.onnx bart.opt.onnx --json");
}

void add_prove(CLI::App& app, ProveArgs& prove) {
  CLI::App* verb = app.add_subcommand("prove",
                                      "show that two models are the same, whatever the inputs\n\nBoth are rewritten in one e-graph over "
                                      "the same inputs and weights: outputs "
                                      "that come to be one class are equal by the rules'\nlaws, which are told with what they assume and "
                                      "round. Where a proof is missing, the "
                                      "places are told at which the models part,\nand both models are run on drawn inputs. The exit status "
                                      "is 0 with a proof, 3 where numbers "
                                      "differ, 5 where neither was found.");
  verb->add_option("A.onnx", prove.first, "a model")->required();
  verb->add_option("B.onnx", prove.second, "the other, made by whatever tool")->required();
  verb->add_flag("!--no-compare", prove.compares_numbers, "where no proof is found, don't run the models");
  add_rule_options(verb, prove.saturate, "Laws");
  add_budgets(verb, prove.saturate);
  add_check(verb, prove.check);
  add_shapes(verb, prove.shapes, "where the models are run: only this size");
  add_common(verb, prove.common, true);
  verb->footer("saturate prove bart.onnx bart.opt.onnx\nsaturate prove bart.onnx bart.opt.onnx --json");
}

void add_run(CLI::App& app, RunArgs& run) {
  CLI::App* verb = app.add_subcommand(
      "run",
      "run a model on the CPU\n\nIntegers, floats and strings come from a .npz named after the model's inputs; the outputs go to another.");
  verb->add_option("IN.onnx", run.input, "the model")->required();
  verb->add_option("--inputs", run.inputs, "its inputs")->type_name("X.npz");
  verb->add_flag("--random", run.random, "draw inputs; dims that nobody gives a size are 1");
  add_shapes(verb, run.shapes, "with --random: the size");
  verb->add_option("--seed", run.seed, "with --random: of the inputs (default 0)")->type_name("N");
  verb->add_option("-o,--output", run.output, "where the outputs go")->type_name("OUT.npz");
  add_runtime(verb, run.runtime, "what runs the model");
  verb->add_flag("--profile", run.profile, "time by operator");
  verb->add_flag("--check-finite", run.check_finite, "fail at the first node that makes a NaN or infinity of finite inputs, and name it");
  add_bounds(verb, run.bounds);
  add_common(verb, run.common, true);
  verb->footer("saturate run bart.onnx --inputs x.npz -o y.npz\nsaturate run bart.onnx --random --dim batch=2");
}

void add_bench(CLI::App& app, BenchArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "bench",
      "measure how long a model takes, or two against each other\n\nRuns in our runtime unless --runtime names another, on the same "
      "inputs, two models in turns so that what disturbs the machine disturbs both.\nMedian, 90th "
      "percentile, spread, and the time by operator from separate runs.");
  verb->add_option("MODEL.onnx", args.models, "one model, or two to compare")->required()->expected(1, 2);
  verb->add_option("--inputs", args.inputs, "measure on these inputs instead of random ones")->type_name("X.npz");
  add_shapes(verb, args.shapes, "the size");
  verb->add_option("--iterations", args.iterations, "measured runs of each model (default: as many as fit into 2 s, 10 to 1000)")
      ->type_name("N")
      ->check(whole_in(1, 1'000'000'000), "");
  verb->add_option("--warmup", args.warmup, "runs before (default 3)")->type_name("N")->check(whole_in(0, 1'000'000'000), "");
  verb->add_option("--seed", args.seed, "seed of the random inputs (default 0)")->type_name("N");
  verb->add_option("--profile", args.profile, "write every node's time as a Chrome trace (chrome://tracing, Perfetto)")
      ->type_name("TRACE.json");
  verb->add_flag("!--no-table", args.table, "without the time by operator");
  verb->add_flag("--as-is", args.as_is, "run every node as it stands: nothing folded, fused or laid out otherwise beforehand");
  verb->add_flag("--check-finite", args.check_finite,
                 "run each model once before, node by node: the first that makes a NaN or infinity of finite inputs is named");
  add_bounds(verb, args.bounds);
  add_runtime(verb, args.runtime, "what runs the models; the time by operator is of saturate's own alone");
  verb->add_flag("--pin", args.pin, "pin to as many CPUs as there are threads");
  add_common(verb, args.common, true);
  verb->footer(
      "saturate bench bart.onnx --dim batch=1 --dim seq=16\nsaturate bench bart.onnx bart.opt.onnx --threads 2 --profile trace.json");
}

namespace {

void add_drawing(CLI::App* verb, GenerateArgs& args) {
  const std::string drawing = "Drawing tokens";
  verb->add_option("--temperature", args.temperature, "what logits are divided by (default 1)")
      ->type_name("T")
      ->check(not_a_number_above_0, "")
      ->group(drawing);
  verb->add_option("--top-k", args.top_k, "draw among the K likeliest")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->group(drawing);
  verb->add_option("--top-p", args.top_p, "draw among the likeliest that are together as likely as this")
      ->type_name("P")
      ->check(CLI::Range(0.0, 1.0))
      ->group(drawing);
  verb->add_option("--seed", args.seed, "the same seed draws the same tokens (default 0)")->type_name("N")->group(drawing);
}

}  // namespace

void add_generate(CLI::App& app, GenerateArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "generate",
      "let a language model go on from a prompt\n\nRuns a decoder in our runtime, with its cache fed back from run to run, or the "
      "whole sequence again where it has\nnone. What an encoder gives it is computed once (--encoder). Tokens are numbers; `python -m "
      "onnx_saturate.generate` takes text. The likeliest token is "
      "taken unless --temperature,\n--top-k or --top-p say to draw one. Prints the tokens of each prompt, and how fast they came "
      "(docs/generate.md).");
  verb->add_option("MODEL.onnx", args.input, "the model")->required();
  add_list(verb, "--prompt-ids", args.prompts, "IDS", "the tokens of a prompt: 1,2,3; may be repeated for a batch");
  add_list(verb, "--encoder-ids", args.encoder_ids, "IDS", "the tokens that an encoder reads: 5,6,7; may be repeated for a batch")
      ->group("Encoder-decoders");
  verb->add_option("--inputs", args.inputs, "arrays that an encoder reads, or gives, by name of the input; a row for each text")
      ->type_name("X.npz")
      ->group("Encoder-decoders");
  verb->add_option("--max-new-tokens", args.max_new_tokens, "how many to make of each prompt (default: 64, or as many as the model holds)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  verb->add_option("--min-new-tokens", args.min_new_tokens, "how many there are before one of --eos-id may come (default 0)")
      ->type_name("N");
  add_list(verb, "--eos-id", args.eos_ids, "IDS", "tokens that end a text: 2 or 2,32000; may be repeated");
  verb->add_option("--max-context", args.max_context, "tokens of a prompt and what follows together, where the model does not tell")
      ->type_name("N");
  add_drawing(verb, args);
  verb->add_option("--genai-config", args.genai_config,
                   "write the configuration with which onnxruntime-genai runs the model; the name it looks for is genai_config.json; "
                   "without --prompt-ids nothing is run")
      ->type_name("FILE");
  verb->add_option("--genai-type", args.genai_type,
                   "the type of model that --genai-config tells, as onnxruntime-genai names it: qwen2, gemma3_text, ... (default: llama)")
      ->type_name("TYPE");
  verb->add_option("--bos-id", args.bos_id, "the token that begins a text, for --genai-config (default: none is told)")
      ->type_name("N")
      ->check(whole_in(0, 1'000'000'000), "");
  add_decoder(verb, args.decoder);
  add_list(verb, "--dim", args.shapes.dims, "SYMBOL=SIZE", "the size of a symbolic dim of the past; may be repeated");
  add_time(verb, args.bounds.seconds, "seconds that all runs together may take (default: no limit)");
  add_max_memory(verb, args.bounds.max_memory, "memory in MB that the tensors of a run may take together (default: no limit)");
  add_common(verb, args.common, true);
  verb->footer(
      "saturate generate llama.onnx --prompt-ids 1,15,36 --max-new-tokens 32 --eos-id 2\n"
      "saturate generate llama.onnx --prompt-ids 46 --prompt-ids 40,58 --top-k 50 --temperature 0.8 --seed 7 --json\n"
      "saturate generate step.onnx --encoder encoder.onnx --encoder cross.onnx --encoder-ids 17,24,1 --prompt-ids 0 --eos-id 1");
}

// Verbs with nested actions: `rules list`, `targets show NAME`.
void add_rules(CLI::App& app, RulesArgs& args) {
  CLI::App* verb = app.add_subcommand("rules",
                                      "list, show and check rules\n\nlist [WORD]: all rules with their effects, or those that tell of a "
                                      "word. show NAME: one rule's text. check [FILE]: parse and run the built-in rules' or a file's\n"
                                      "examples, both sides against each other. examples FOLDER: what rules look for, as models.\nexport "
                                      "[WORD]: rules as JSON, both sides as nodes and conditions as terms.");
  verb->add_option("ACTION", args.action, "list, show, check, examples or export")
      ->required()
      ->check(choice({"list", "show", "check", "examples", "export"}));
  verb->add_option(
      "NAME|WORD|FILE|FOLDER", args.name,
      "the rule to show, the word to list rules by (name, file, effect, assumption), the file to check, the folder for examples");
  add_list(verb, "--rules", args.rules, "FILE", "rules beside the built-in ones; may be repeated");
  verb->add_flag("--functions", args.functions, "list: the functions that `where` and `let` may call");
  verb->add_flag("--proven", args.proven, "list: only what is proven, and of what numbers and ranks");
  verb->add_option("--instances", args.instances, "check, examples: random instances for each example of a rule")
      ->check(whole_in(0, 1000), "");
  verb->add_option("--seed", args.seed, "check, examples: of the random instances");
  add_common(verb, args.common, true);
  verb->footer("saturate rules list\nsaturate rules list no_empty_row\nsaturate rules show rms_by_length\nsaturate rules check my.rules");
}

void add_extract(CLI::App& app, ExtractArgs& args) {
  CLI::App* verb =
      app.add_subcommand("extract",
                         "write several equal graphs of a model, to experiment with costs\n\nOptimizes the model, then draws "
                         "other graphs from the same e-graph: near the chosen one and far from it. Each is valid and verified.\n"
                         "The first is what `optimize` would write. The same seed gives the same graphs.");
  verb->add_option("IN.onnx", args.input, "the model")->required();
  verb->add_option("-o,--output", args.output, "write them to this folder as IN.0000.onnx, IN.0001.onnx, ... (default: only list them)")
      ->type_name("FOLDER");
  verb->add_option("--sample", args.samples, "how many others to draw (default 8)")->type_name("K")->check(whole_in(0, 100000), "");
  verb->add_option("--dump-egraph", args.dump_egraph, "write the e-graph with its costs, as egraph-serialize's JSON")->type_name("G.json");
  add_saturate(verb, args.saturate);
  add_shapes(verb, args.shapes, "fix the size");
  verb->add_flag("!--no-verify", args.verify, "don't run them");
  add_check(verb, args.check);
  add_common(verb, args.common, true);
  verb->footer("saturate extract bart.onnx --sample 20 --seed 7 -o graphs\nsaturate extract bart.onnx --sample 0 --dump-egraph bart.json");
}

void add_cost(CLI::App& app, CostArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "cost",
      "measure operators, fit cost models, and judge them\n\ngather MODEL...: time every different operator of the "
      "models in our runtime (bench/runtime/gather_ort.py does it in ONNX Runtime), or whole\ngraphs with --graphs. "
      "fit ROWS...: a cost model from such rows. eval [GRAPHS...] [--rows ROWS]: how far a cost model is off, by operator "
      "and\nfor graphs that are equal: do they rank as they run? calibrate: fit the shipped prices to this machine and --threads, by rows "
      "of them\nthat are timed in the installed ONNX Runtime; --cost takes the file.");
  verb->add_option("ACTION", args.action, "gather, fit, eval or calibrate")
      ->required()
      ->check(choice({"gather", "fit", "eval", "calibrate"}));
  verb->add_option("FILES", args.inputs, "gather: models; fit: rows; eval: times of graphs")->expected(1, 1 << 20);
  verb->add_option("-o,--output", args.output,
                   "gather: the rows (JSON lines); fit: the cost model (JSON); calibrate: the prices (JSON lines)")
      ->type_name("FILE");
  verb->add_flag("--graphs", args.graphs, "gather: times of whole graphs, such as `saturate extract` writes");
  verb->add_option("--seconds", args.seconds, "gather: for each row (default 0.05); calibrate: for all of them (default 120, at most 600)")
      ->type_name("S")
      ->check(not_a_number_above_0, "");
  verb->add_option("--kind", args.kind,
                   "fit: fitted (least squares by kind of operator), measured (the rows themselves, in order), roofline, or npu: an "
                   "accelerator's figures of whole graphs, as prices of launches, multiply-adds, bytes and spills (default fitted)")
      ->type_name("KIND")
      ->check(choice({"fitted", "measured", "roofline", "npu"}));
  verb->add_option("--machine", args.machine, "fit --kind npu: of which of the figures' machines the file tells (default: the last one's)")
      ->type_name("NAME");
  verb->add_option("--precision", args.precision, "fit --kind npu: in which of their precisions (default: the last one's)")
      ->type_name("NAME");
  verb->add_option("--rows", args.rows, "eval: times of operators to compare with; calibrate: how many are timed (default and at most 300)")
      ->type_name("ROWS.jsonl|N");
  add_judge(verb, args.check, "calibrate: onnxruntime or onnxruntime=PATH of its shared library (default: the installed one)");
  verb->add_option("--folds", args.folds, "eval: judge the interpolation of --rows by itself, each of N parts predicted from the others")
      ->type_name("N")
      ->check(whole_in(2, 1000), "");
  add_saturate(verb, args.saturate);
  add_shapes(verb, args.shapes, "the size");
  add_common(verb, args.common, true);
  verb->footer(
      "saturate cost gather bart.onnx --dim batch=1 --dim seq=16 -o rows.jsonl\nsaturate cost fit rows.jsonl -o mine.json\nsaturate cost "
      "eval "
      "graphs.jsonl --cost mine.json --rows others.jsonl\nsaturate cost calibrate -o here.jsonl --rows 60 --seconds 10");
}

void add_explain(CLI::App& app, ExplainArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "explain",
      "tell what was fused, what was not, and why\n\nOptimizes the model without writing it, and tells of each kind of block "
      "(attention, norms, activations, rotary, convolutions, experts, quantized) how many of its places were fused, "
      "and why the others were not. Asked of one of them, in your words (SDPA, LayerNorm, RoPE), of a value, an operator or a "
      "rule, it goes to each place and tells the chain of rules, what the alternative would cost, or the rules that come "
      "nearest and the condition that fails there. -v: the operators made, and the rules that fired.");
  verb->add_option("IN.onnx", args.input, "the model")->required();
  verb->add_option("QUESTION", args.question, "a kind of block, or a value, an operator or a rule");
  auto* op = verb->add_option("--op", args.op, "operators of this type, with or without domain")->type_name("OP");
  auto* rule = verb->add_option("--rule", args.rule, "where this rule applies or nearly does")->type_name("NAME")->excludes(op);
  verb->add_option("--value", args.value, "what is known of this value of the model")->type_name("NAME")->excludes(op)->excludes(rule);
  add_saturate(verb, args.saturate);
  add_shapes(verb, args.shapes, "fix the size");
  add_io_rank(verb, args.io_rank, ", as for `saturate --io-rank`");
  add_common(verb, args.common, true);
  verb->footer("saturate explain bart.onnx\nsaturate explain bart.onnx attention");
}

void add_targets(CLI::App& app, TargetsArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "targets",
      "list and show targets, and check models against them\n\nlist: the built-in targets. show NAME: one of them, or a file, "
      "as JSON to start a target of your own from.\ncheck MODEL: each node that the target can't express, "
      "why, and what equal form it takes (or what stands in its way); exit status 1 if there is one.");
  verb->add_option("ACTION", args.action, "list, show or check")->required()->check(choice({"list", "show", "check"}));
  verb->add_option("NAME|FILE", args.name, "the target to show, the model to check");
  verb->add_option("--target", args.target, "check: for this target, a built-in one or a file")->type_name("T");
  verb->add_flag("!--no-forms", args.forms, "check: don't look for equal forms, which takes as long as `optimize`");
  add_shapes(verb, args.shapes, "check: fix the size");
  add_common(verb, args.common, true, false);
  verb->footer(
      "saturate targets list\nsaturate targets show ort-cpu > mine.json\nsaturate targets check bart.onnx --target npu-4d --dim batch=1");
}

void add_reduce(CLI::App& app, ReduceArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "reduce",
      "make a model that shows a failure as small as possible\n\nRemoves nodes, outputs, bodies, attributes and sizes from MODEL as long "
      "as "
      "`optimize` still fails on it in the same way.\nEach try runs in a process of its own. The words behind -- are options of optimize. "
      "FAILURE is one of\n"
      "  wrong          verification finds a difference (--strict-verify is added)\n"
      "  exit N         optimize ends with this status and, for 1 and 5, the same message but for names and numbers\n"
      "  signal         the same signal ends it; `signal N`: this one\n"
      "  hang           it takes longer than --trial-limit\n"
      "  warning: TEXT  a warning holds TEXT; error: TEXT: an error does\n"
      "  no OP          the result holds no OP, while what --keep names stays, or the program of --good finds one,\n"
      "                 or (without these two) the nearest miss of `explain --op OP` stays the same");
  verb->add_option("MODEL", args.input, "the model")->required();
  verb->add_option("-o,--output", args.output, "the small model (default: MODEL.reduced.onnx)")->type_name("SMALL.onnx");
  verb->add_option("--because", args.because, "what the failure looks like")->type_name("FAILURE")->required();
  add_list(verb, "--keep", args.keep, "OP",
           "for `no OP`: an operator that must stay, or OP:N for N of them; all of them feed one output; may be repeated");
  verb->add_option("--good", args.good, "a saturate that does not fail: models on which it fails, too, do not count")->type_name("PROGRAM");
  verb->add_option("--command", args.command, "the saturate that fails (default: this one)")->type_name("PROGRAM");
  verb->add_flag("--strict-verify", args.strict_verify, "as `-- --strict-verify`");
  verb->add_option("--seed", args.seed, "as `-- --seed`")->type_name("N");
  verb->add_option("--time-limit", args.seconds, "seconds after which the smallest model so far is taken (default 300)")->type_name("S");
  verb->add_option("--trial-limit", args.trial_seconds,
                   "seconds that a run of optimize may take (default: ten times what the first took, 10 at least; for hang 20)")
      ->type_name("S");
  add_common(verb, args.common, true, false);
  verb->footer(
      "saturate reduce bart.onnx --because wrong -- --rules my.rules\nsaturate reduce bart.onnx -o small.onnx --because 'no Attention' "
      "--keep "
      "MatMul:2 --keep Softmax");
}

void add_completion(CLI::App& app, ShellArgs& args) {
  CLI::App* verb = app.add_subcommand(
      "completion",
      "print the script by which a shell completes words of the command\n\nVerbs, options, what options take, and files. "
      "`cmake --install` puts the scripts where the shells look for them.");
  verb->add_option("SHELL", args.shell, "bash, zsh or fish")->required()->check(choice({std::begin(kShells), std::end(kShells)}));
  add_common(verb, args.common, false, false);
  verb->footer("saturate completion bash > saturate.bash\nsaturate completion zsh > _saturate");
}

void add_man(CLI::App& app, ShellArgs& args) {
  CLI::App* verb =
      app.add_subcommand("man",
                         "print the help of the command or of a verb as a man page\n\nIt is roff, for `man -l` and for a folder "
                         "man1; `cmake --install` puts all pages there.");
  verb->add_option("VERB", args.verb, "the verb (default: the command itself)");
  verb->add_option("--folder", args.folder, "write all pages into this folder, as saturate.1, saturate-VERB.1")->type_name("FOLDER");
  add_common(verb, args.common, false, false);
  verb->footer("saturate man optimize > saturate-optimize.1");
}

}  // namespace saturate
