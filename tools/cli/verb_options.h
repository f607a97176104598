// Options that several verbs take, and checks of what is given for them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tools/cli/cli.h"

namespace saturate::verb_options {

// A check that a value is a whole number in these bounds.
std::function<std::string(const std::string&)> whole_in(std::int64_t least, std::int64_t most, std::string_view unit = "");
// A check that a value is one of these; its description has them in braces, for completions.
CLI::Validator choice(const std::vector<std::string>& names);
// What completions offer of values that may be others, too.
CLI::Validator hint(const std::vector<std::string>& names);
// An option that may be repeated, one value each time.
CLI::Option* add_list(CLI::App* app, const std::string& names, std::vector<std::string>& into, const std::string& type,
                      const std::string& what);
// Of optimize: where models come from and go.
void add_places(CLI::App* verb, OptimizeArgs& args, std::string& output_option);
void add_common(CLI::App* app, CommonArgs& args, bool json, bool threads = true);
void add_max_memory(CLI::App* app, std::optional<std::size_t>& megabytes, const std::string& what);
void add_runtime(CLI::App* app, RuntimeArgs& args, const std::string& what);
// The options that name runtimes; `what` tells what --judge is for.
void add_judge(CLI::App* app, VerifyArgs& args, const std::string& what);
void add_check(CLI::App* app, VerifyArgs& args);
void add_time(CLI::App* app, std::optional<double>& seconds, const std::string& what);
// --external-data-format
void add_data_format(CLI::App* app, std::optional<DataFormat>& format);
void add_bounds(CLI::App* app, RunBounds& bounds);
// --html and, of `pictures`, --svg.
void add_page(CLI::App* app, PageArgs& args, bool pictures);
void add_shapes(CLI::App* app, ShapeArgs& args, const std::string& what);
void add_io_rank(CLI::App* app, std::optional<std::int64_t>& rank, const std::string& more);
void add_budgets(CLI::App* app, SaturateArgs& args);
void add_rule_options(CLI::App* app, SaturateArgs& args, const std::string& group);
void add_saturate(CLI::App* app, SaturateArgs& args);

// A second spelling that other tools' users have in their fingers; not shown in the help.
template <typename T>
void hidden(CLI::App* app, const std::string& name, T& target) {
  app->add_option(name, target)->group("");
}

}  // namespace saturate::verb_options
