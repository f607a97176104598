// What each verb takes: its options, their words in the help, and examples. Each function adds its verb to the parser.
#pragma once

#include <atomic>
#include <string>

#include "tools/cli/cli.h"

namespace CLI {
class App;
}

namespace saturate {

// What a signal handler may touch: ends the verb that runs.
inline std::atomic<bool> asked_to_stop{false};

// What shells read.
struct ShellArgs {
  CommonArgs common;
  std::string shell, verb, folder;
};

void add_optimize(CLI::App& app, OptimizeArgs& args, std::string& output_option);
void add_transform(CLI::App& app, TransformArgs& args);
void add_slm(CLI::App& app, SlmArgs& args);
void add_inspect(CLI::App& app, InspectArgs& inspect);
void add_verify(CLI::App& app, VerifyCommandArgs& verify);
void add_diff(CLI::App& app, DiffArgs& diff);
void add_prove(CLI::App& app, ProveArgs& prove);
void add_run(CLI::App& app, RunArgs& run);
void add_bench(CLI::App& app, BenchArgs& args);
void add_generate(CLI::App& app, GenerateArgs& args);
void add_rules(CLI::App& app, RulesArgs& args);
void add_extract(CLI::App& app, ExtractArgs& args);
void add_cost(CLI::App& app, CostArgs& args);
void add_explain(CLI::App& app, ExplainArgs& args);
void add_targets(CLI::App& app, TargetsArgs& args);
void add_reduce(CLI::App& app, ReduceArgs& args);
void add_completion(CLI::App& app, ShellArgs& args);
void add_man(CLI::App& app, ShellArgs& args);

}  // namespace saturate
