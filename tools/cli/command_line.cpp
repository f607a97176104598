// The command line: words into the argument structs of cli.h.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <cstring>
#include <iostream>

#include "tools/cli/command_line.h"
#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "kernels/verify/choice.h"
#include "onnx_bridge/file/mapped_files.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/cli/cli.h"
#include "tools/cli/repro.h"
#include "tools/cli/verb_options.h"
#include "tools/cli/verbs.h"
#include "tools/cli/words/foreign_words.h"
#include "tools/cli/words/help.h"
#include "tools/cli/words/shell.h"
#include "tools/cli/words/words.h"
#include "tools/io/files.h"
#include "tools/io/option_checks.h"
#include "tools/io/terminal.h"

namespace {

using namespace saturate;

void on_interrupt(int signal) {
  asked_to_stop = true;
  std::signal(signal, SIG_DFL);  // a second Ctrl-C kills
}

void write_error(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) ::_exit(kExitFile);
}

// A file that is mapped was cut, or its disk is gone. What was being written has no name yet.
void on_bus_error(int signal, siginfo_t* info, void*) {
  const char* path = mapped_path(info->si_addr);
  if (path == nullptr) {
    std::signal(signal, SIG_DFL);  // happens again, and kills
    return;
  }
  write_error("saturate: error: ");
  write_error(path);
  write_error(": has become shorter while it was read, or can't be read any more; nothing was written; leave it alone until the end\n");
  ::_exit(kExitFile);
}

void take_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, on_interrupt) == SIG_IGN) std::signal(signal, SIG_IGN);  // nohup, or a job in the background
  std::signal(SIGXFSZ, SIG_IGN);                                                     // the write fails instead
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

// What was printed must have arrived: a full disk is an error, a reader that has had enough (`| head`) and a closed
// output are none.
int finish_output(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::clearerr(stdout);
  pollfd out{STDOUT_FILENO, 0, 0};
  if (::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return code;
  fail(kExitFile, "standard output", "could not be written", "check the free space");
  return code == kExitOk ? kExitFile : code;
}

// What is written there is told by the option, not by the file's name.
std::string of_another_kind(const std::string& text, std::string_view wants) {
  for (const auto& [ending, what] : {std::pair(".html", "a page, which --html writes"), std::pair(".json", "JSON, which --report writes")})
    if (ending != wants && text.ends_with(ending)) return fmt::format("{} is the name of {}; give one that ends in {}", text, what, wants);
  return "";
}

// By what an option's value is called in the help.
void check_values(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands(nullptr))
    for (CLI::Option* option : verb->get_options()) {
      const std::string named = option->get_type_name(), kind = named.substr(0, named.find(':'));
      const bool whole = one_of(kind, {"N", "BYTES", "K"}), number = one_of(kind, {"A", "R", "SHARE"});
      if (kind == "R.json") option->check([](const std::string& text) { return of_another_kind(text, ".json"); }, "");
      if (kind == "PAGE.html") option->check([](const std::string& text) { return of_another_kind(text, ".html"); }, "");
      option->check(whole ? not_a_whole_number : kind == "S" ? not_a_time : number ? not_a_number_from_0 : empty_value, "");
    }
}

// What was given of a verb's options, in the order of its help.
std::vector<GivenOption> given_options(const CLI::App& verb) {
  std::vector<GivenOption> out;
  for (const CLI::Option* option : verb.get_options(nullptr)) {
    const bool flag = option->get_expected_max() == 0;
    const std::string name = option->get_positional() ? option->get_name(true) : option->get_name();
    for (const std::string& value : option->results()) {
      const bool plain = flag && value != "0" && value.find_first_not_of("0123456789") == std::string::npos;
      out.push_back({name, flag && (plain || one_of(value, {"true", "false"})) ? std::nullopt : std::optional(value)});
    }
  }
  return out;
}

int usage(const std::string& what, const std::string& verb = "") {
  const bool advises = what.find('`') != std::string::npos;
  const std::string help = fmt::format("{}ee `saturate {}{}--help`", what.ends_with('?') ? " S" : "; s", verb, verb.empty() ? "" : " ");
  return fail(kExitUsage, "command line", advises ? what : what + help, "");
}

struct Everything {
  OptimizeArgs optimize;
  TransformArgs transform;
  SlmArgs slm;
  InspectArgs inspect;
  VerifyCommandArgs verify;
  DiffArgs diff;
  ProveArgs prove;
  RunArgs run;
  BenchArgs bench;
  GenerateArgs generate;
  RulesArgs rules;
  ExplainArgs explain;
  ExtractArgs extract;
  CostArgs cost;
  TargetsArgs targets;
  ReduceArgs reduce;
  ShellArgs shell;
  std::string output_option;
  std::vector<std::string> behind;  // reduce: the words behind `--`
  std::string verb;
};

// CLI11's errors in our words.
std::string told(const CLI::ParseError& error, const CLI::App& app) {
  const std::string said = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    const CLI::App* verb = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
    return unknown_words(verb->remaining(), *verb);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error))
    if (const std::size_t colon = said.find(": "), required = said.find(" required "); required != std::string::npos && required > colon)
      return fmt::format("{} needs a value", said.substr(0, colon));
  return said;
}

// The options behind `--` as those of optimize; a sentence where they are none.
std::string take_options_behind(ReduceArgs& args, const std::vector<std::string>& behind) {
  CLI::App app;
  std::string output;
  add_optimize(app, args.optimize, output);
  check_values(app);
  std::vector<std::string> words{"optimize", args.input};
  words.insert(words.end(), behind.begin(), behind.end());
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::Success&) {
    return "behind -- stand options of the run that fails";
  } catch (const CLI::ParseError& error) {
    return fmt::format("behind --: {}", told(error, app));
  }
  args.optimize.given = given_options(*app.get_subcommands().front());
  const bool writes = !output.empty() || !args.optimize.output.empty() || !args.optimize.report.empty() ||
                      !args.optimize.dump_egraph.empty() || !args.optimize.save_repro.empty() || !args.optimize.dumps.empty() ||
                      !args.optimize.output_dir.empty() || !args.optimize.measured.empty();
  if (writes) return "behind --: runs on smaller models write no files; leave -o, --report, --measured, --dump-egraph and --save-repro out";
  if (args.optimize.check.runtime.name() != kOurRuntime)
    return "behind --: runs on smaller models have saturate's own runtime; leave --runtime out";
  if (!args.optimize.check.inputs.empty())
    return "behind --: inputs of a model do not fit smaller ones; leave --inputs out, --seed draws others";
  return "";
}

// A pipe where there can be none: models alone come and go through pipes.
std::string no_pipe(const CLI::App& verb) {
  const bool writes = one_of(verb.get_name(), {"optimize", "transform"});
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& value : option->results())
      if (value == kPipe && !option->get_positional() && !(writes && option->check_lname("output")))
        return fmt::format("{} -: this is no model that goes through a pipe; name a file, ./- for one of this name", option->get_name());
  return "";
}

// Of verbs that write a page; null: of one that does not.
PageArgs* page_of(std::string_view verb, Everything& all) {
  if (verb == "optimize") return &all.optimize.page;
  if (verb == "diff") return &all.diff.page;
  if (verb == "explain") return &all.explain.page;
  if (verb == "verify") return &all.verify.page;
  if (verb == "prove") return &all.prove.page;
  if (verb == "bench") return &all.bench.page;
  if (verb == "cost") return &all.cost.page;
  return nullptr;
}

// The command, with all that was given.
std::string command_given(const CLI::App& verb) {
  std::string out = "saturate " + verb.get_name();
  for (const GivenOption& option : given_options(verb)) {
    if (option.name.starts_with('-')) out += " " + option.name;
    if (option.value) out += " " + shell_word(*option.value);
  }
  return out;
}

// What is wrong with the outputs and inputs of optimize, in a sentence.
std::string wrong_places(const OptimizeArgs& args, const std::string& output) {
  if (args.output_dir.empty() && !args.more.empty())
    return fmt::format("{} arguments: one model and its result, or --output-dir DIR for many models", args.more.size() + 2);
  if (args.output_dir.empty() && !output.empty() && !args.output.empty())
    return fmt::format("two outputs, {} and {}: --output-dir DIR takes many models", args.output, output);
  if (args.output_dir.empty() && !args.report_dir.empty())
    return "--report-dir: --output-dir DIR takes many models; --report R.json tells of one";
  if (args.output_dir.empty() && args.jobs != 1) return "--jobs: --output-dir DIR takes many models; --threads N is for one";
  if (args.output_dir.empty()) return "";
  if (!output.empty()) return "--output and --output-dir: give one of them";
  const bool tells =
      !args.page.html.empty() || !args.report.empty() || !args.dump_egraph.empty() || !args.save_repro.empty() || !args.dumps.empty();
  if (tells) return "--output-dir: --html, --report, --dump, --dump-egraph and --save-repro tell of one model; --report-dir DIR of each";
  const bool piped = one_of(kPipe, {args.input, args.output}) || std::find(args.more.begin(), args.more.end(), kPipe) != args.more.end();
  return piped ? "--output-dir: standard input has no name; give paths" : "";
}

int run_optimize(const CLI::App& verb, Everything& all) {
  OptimizeArgs& args = all.optimize;
  if (const std::string wrong = wrong_places(args, all.output_option); !wrong.empty()) return usage(wrong, "optimize");
  args.output_by_place = !args.output.empty();
  if (args.output_by_place && args.output_dir.empty() && std::filesystem::path(args.output).extension().empty() && args.output != kPipe)
    return usage(fmt::format("{}: there is no place for this word; -o {} writes a result of this name", args.output, args.output),
                 "optimize");
  if (!all.output_option.empty()) args.output = all.output_option;
  if (const std::string wrong = wrong_result(args.output); !wrong.empty()) return usage(wrong, "optimize");
  args.given = given_options(verb);
  return optimize_command(args);
}

// Whether standard input would be read twice.
bool two_pipes(const Everything& all) {
  std::vector<std::string> models{all.verify.original, all.verify.optimized, all.diff.first,
                                  all.diff.second,     all.prove.first,      all.prove.second};
  models.insert(models.end(), all.bench.models.begin(), all.bench.models.end());
  models.insert(models.end(), all.cost.inputs.begin(), all.cost.inputs.end());
  return std::count(models.begin(), models.end(), kPipe) > 1;
}

int dispatch(const CLI::App& app, Everything& all) {
  const std::string verb = app.get_subcommands().front()->get_name();
  if (const std::string wrong = no_pipe(*app.get_subcommands().front()); !wrong.empty()) return usage(wrong, verb);
  if (two_pipes(all)) return usage("-: standard input is one model; give the other by its path", verb);
  if (PageArgs* page = page_of(verb, all)) page->command = command_given(*app.get_subcommands().front());
  if (verb == "optimize") return run_optimize(*app.get_subcommands().front(), all);
  if (verb == "transform" && !all.transform.list && all.transform.input.empty()) return usage("transform: which model?", verb);
  const TransformArgs& t = all.transform;
  if (verb == "transform" && !t.list && t.files.empty() && t.passes.empty() && t.cut_inputs.empty() && t.cut_outputs.empty() &&
      t.split_at.empty())
    return usage("transform: which pass? --pass NAME, or --cut-inputs and --cut-outputs; --list-passes lists them", verb);
  if (const std::string wrong = wrong_result(t.output); verb == "transform" && !wrong.empty()) return usage(wrong, verb);
  if (verb == "run" && !all.run.output.empty() && !all.run.output.ends_with(".npz"))
    return usage(fmt::format("{}: results are arrays, in a .npz; --json prints them", all.run.output), verb);
  if (verb == "transform") return transform_command(all.transform);
  if (verb == "slm") return slm_command(all.slm);
  if (verb == "inspect") return inspect_command(all.inspect);
  if (verb == "verify") return verify_command(all.verify);
  if (verb == "run" && all.run.random && !all.run.inputs.empty()) return usage("--random and --inputs: give one of them", verb);
  if (verb == "diff") return diff_command(all.diff);
  if (verb == "prove") return prove_command(all.prove);
  if (verb == "run") return run_command(all.run);
  if (verb == "bench") return bench_command(all.bench);
  if (verb == "generate") return generate_command(all.generate);
  if (verb == "explain") return explain_command(all.explain);
  if (verb == "extract") return extract_command(all.extract);
  if (verb == "cost" && all.cost.action != "eval" && !all.cost.page.html.empty()) return usage("--html: of cost eval", verb);
  if (verb == "cost" && all.cost.action == "calibrate") return cost_command(all.cost);
  if (verb == "cost" && all.cost.action != "eval" && all.cost.inputs.empty())
    return usage(fmt::format("cost {}: of which files?", all.cost.action), verb);
  if (verb == "cost" && all.cost.inputs.empty() && all.cost.rows.empty()) return usage("cost eval: against which graphs, or --rows?", verb);
  if (verb == "cost" && all.cost.folds > 0 && all.cost.rows.empty()) return usage("cost eval --folds: of which --rows?", verb);
  all.cost.shapes.of_several_models = all.cost.action == "eval" || all.cost.inputs.size() > 1;
  if (verb == "cost") return cost_command(all.cost);
  if (verb == "reduce") {
    const std::string wrong = take_options_behind(all.reduce, all.behind);
    return wrong.empty() ? reduce_command(all.reduce) : usage(wrong, verb);
  }
  if (verb == "rules")
    return all.rules.name.empty() && all.rules.action == "show"       ? usage("rules show: which rule?", verb)
           : all.rules.name.empty() && all.rules.action == "examples" ? usage("rules examples: which folder?", verb)
                                                                      : rules_command(all.rules);
  if (all.targets.action == "show" && all.targets.name.empty()) return usage("targets show: which target?", verb);
  if (all.targets.action == "check" && all.targets.name.empty()) return usage("targets check: which model?", verb);
  if (all.targets.action == "check" && all.targets.target.empty()) return usage("targets check: for which --target?", verb);
  return targets_command(all.targets);
}

// In the order of the help.
struct Verb {
  std::string_view name;
  void (*add)(CLI::App& app, Everything& all);
};
constexpr std::array kVerbs{
    Verb{"optimize", [](CLI::App& app, Everything& all) { add_optimize(app, all.optimize, all.output_option); }},
    Verb{"transform", [](CLI::App& app, Everything& all) { add_transform(app, all.transform); }},
    Verb{"slm", [](CLI::App& app, Everything& all) { add_slm(app, all.slm); }},
    Verb{"inspect", [](CLI::App& app, Everything& all) { add_inspect(app, all.inspect); }},
    Verb{"verify", [](CLI::App& app, Everything& all) { add_verify(app, all.verify); }},
    Verb{"diff", [](CLI::App& app, Everything& all) { add_diff(app, all.diff); }},
    Verb{"prove", [](CLI::App& app, Everything& all) { add_prove(app, all.prove); }},
    Verb{"run", [](CLI::App& app, Everything& all) { add_run(app, all.run); }},
    Verb{"bench", [](CLI::App& app, Everything& all) { add_bench(app, all.bench); }},
    Verb{"generate", [](CLI::App& app, Everything& all) { add_generate(app, all.generate); }},
    Verb{"rules", [](CLI::App& app, Everything& all) { add_rules(app, all.rules); }},
    Verb{"explain", [](CLI::App& app, Everything& all) { add_explain(app, all.explain); }},
    Verb{"extract", [](CLI::App& app, Everything& all) { add_extract(app, all.extract); }},
    Verb{"cost", [](CLI::App& app, Everything& all) { add_cost(app, all.cost); }},
    Verb{"targets", [](CLI::App& app, Everything& all) { add_targets(app, all.targets); }},
    Verb{"reduce", [](CLI::App& app, Everything& all) { add_reduce(app, all.reduce); }},
    Verb{"completion", [](CLI::App& app, Everything& all) { add_completion(app, all.shell); }},
    Verb{"man", [](CLI::App& app, Everything& all) { add_man(app, all.shell); }},
};

void add_verb(const Verb& verb, CLI::App& app, Everything& all) {
  verb.add(app, all);
  if (PageArgs* page = page_of(verb.name, all))
    verb_options::add_page(app.get_subcommand(std::string(verb.name)), *page, verb.name == "diff");
}

std::vector<std::string> verb_names() {
  std::vector<std::string> out;
  for (const Verb& verb : kVerbs) out.emplace_back(verb.name);
  return out;
}

// The words of a command line, made ready for the parser; or a sentence about a mistake.
struct Given {
  std::vector<std::string> words;
  std::string wrong;
};

// The words given, and the options of the verb that they begin with: `saturate in.onnx` is `saturate optimize in.onnx`. All verbs' where
// none is given.
Given words(int argc, char** argv, CLI::App& app, Everything& all) {
  Given given{{argv + 1, argv + argc}, ""};
  std::vector<std::string>& out = given.words;
  given.wrong = put_verb_first(out, verb_names());
  if (!given.wrong.empty()) return given;
  const bool none = out.empty() || one_of(out[0], {"-h", "--help", "--version", "-V"});
  const auto is_first = [&](const Verb& verb) { return verb.name == out[0]; };
  if (!none && std::none_of(kVerbs.begin(), kVerbs.end(), is_first)) out.insert(out.begin(), "optimize");
  for (const Verb& verb : kVerbs)
    if (none || is_first(verb)) add_verb(verb, app, all);
  check_values(app);
  if (none) return given;
  all.verb = out[0];
  const auto behind = out[0] != "reduce" ? out.end() : std::find(out.begin(), out.end(), "--");
  if (behind != out.end()) all.behind.assign(behind + 1, out.end());
  out.erase(behind, out.end());
  given.wrong = take_foreign_flags(out, *app.get_subcommands(nullptr).front());
  return given;
}

}  // namespace

namespace {

// No exception goes further: what is thrown below is a lack of memory, or a mistake of ours.
template <typename F>
int guarded(F run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return fail(kExitFile, "", "not enough memory", "give more (ulimit -v, ulimit -d, the job's limit), or take a smaller model");
  } catch (const std::exception& e) {
    return fail(kExitFile, "", fmt::format("internal error: {}", e.what()), "this is a bug in saturate: please report it with the model");
  }
}

void describe(CLI::App& app) {
  app.description(
      "optimize ONNX models by equality saturation\n\nRules say which models are equal; an e-graph holds all that follow from them at "
      "once; the cheapest one that the target can run is\n"
      "taken, verified against the original, and written.\n\nThe Python package's command (python3 -m onnx_saturate) has the verbs study, "
      "tune, vet and pre_post, and text for generate, too.\n\nIf a result is wrong, slow or no model at all: --save-repro DIR keeps what "
      "repeats the run, and reduce makes "
      "the model small to report it.");
  app.formatter(man_formatter());
  app.set_help_flag("-h,--help", "this text");
  app.set_version_flag("-V,--version", std::string("saturate ") + SATURATE_VERSION, "the version");
  app.require_subcommand(1);
  app.footer("saturate bart.onnx\nsaturate verify bart.onnx bart.opt.onnx");
}

// Of all verbs, whatever was asked for.
int shell_command(const std::string& asked, const ShellArgs& args) {
  CLI::App app;
  Everything all;
  describe(app);
  for (const Verb& verb : kVerbs) add_verb(verb, app, all);
  if (asked == "completion") {
    print_text(completion(args.shell, app));
    return kExitOk;
  }
  std::vector<std::string> verbs = verb_names();
  if (!args.verb.empty() && std::find(verbs.begin(), verbs.end(), args.verb) == verbs.end())
    return usage(fmt::format("man {}: no such verb; {}", args.verb, what_instead(args.verb, verbs, "`saturate --help` lists the verbs")),
                 asked);
  const auto page = [&](const std::string& verb) {
    return man_page((verb.empty() ? app : *app.get_subcommand(verb)).help(), verb, SATURATE_VERSION);
  };
  if (args.folder.empty()) {
    print_text(page(args.verb));
    return kExitOk;
  }
  verbs.emplace_back();
  for (const std::string& verb : verbs) {
    const std::string path = fmt::format("{}/saturate{}{}.1", args.folder, verb.empty() ? "" : "-", verb);
    if (const absl::Status s = write_file(path, page(verb)); !s.ok()) return fail(s, path, "");
  }
  return kExitOk;
}

int parse_and_run(int argc, char** argv, const OtherRuntimes* others) {
  CLI::App app;
  Everything all;
  for (VerifyArgs* args : {&all.optimize.check, &all.transform.check, &all.slm.check, &all.verify.check, &all.diff.check, &all.prove.check,
                           &all.extract.check, &all.inspect.check, &all.cost.check})
    args->runtime.others = others;
  for (RuntimeArgs* args : {&all.run.runtime, &all.bench.runtime}) args->others = others;
  describe(app);
  Given given = words(argc, argv, app, all);
  std::vector<std::string>& arguments = given.words;
  tell_errors_as_json(std::find(arguments.begin(), std::find(arguments.begin(), arguments.end(), "--"), "--json") != arguments.end() ||
                      std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; }));
  if (!given.wrong.empty()) return usage(given.wrong, all.verb);
  if (arguments.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kExitUsage;
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::Success& success) {  // --help and --version
    app.exit(success);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return usage(told(error, app), all.verb);
  }
  if (one_of(all.verb, {"completion", "man"})) return shell_command(all.verb, all.shell);
  return dispatch(app, all);
}

}  // namespace

int saturate::command_line(int argc, char** argv, const OtherRuntimes* others) {
  if (others) tell_installed_onnxruntime(others->onnxruntime);
  take_signals();
  return guarded([&] { return finish_output(guarded([&] { return parse_and_run(argc, argv, others); })); });
}
