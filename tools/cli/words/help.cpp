#include "tools/cli/words/help.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "CLI/CLI.hpp"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr const char* kExitText =
    "EXIT STATUS\n"
    "  0    all went well\n"
    "  1    a model, rule or other file can't be read, is invalid or can't be written\n"
    "  2    wrong usage\n"
    "  3    verification failed: the result differs; no output file. verify, diff, prove: the models differ\n"
    "  4    a budget was exhausted under --strict-budget; the best valid result is written\n"
    "  5    the model needs something that can't be run here, so that it can't be verified\n"
    "  6    reduce: the model does not show the failure; nothing is written\n"
    "  130  interrupted; nothing is written\n";

// Help in the manner of a man page. The app's description is "one line\n\nparagraphs"; its footer is the examples.
class ManFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    const std::string description = app->get_description();
    const std::size_t line = std::min(description.find('\n'), description.size());
    const bool top = app->get_parent() == nullptr;
    const std::string name = top ? "saturate" : "saturate " + app->get_name();
    std::string out = fmt::format("NAME\n  {} - {}\n\nSYNOPSIS\n", name, description.substr(0, line));
    out += top ? "  saturate VERB [ARGUMENTS] [OPTIONS]\n  saturate IN.onnx [OUT.onnx] [OPTIONS]\n" : synopsis(app, name);
    if (line < description.size()) out += "\nDESCRIPTION\n" + indented(description.substr(line + 2));
    if (top) out += "\nVERBS\n" + verbs(app);
    out += make_groups(app, CLI::AppFormatMode::Normal);
    out += fmt::format("\n{}", kExitText);
    if (!app->get_footer().empty()) out += "\nEXAMPLES\n" + indented(app->get_footer());
    return out;
  }
  std::string make_group(std::string group, bool, std::vector<const CLI::Option*> options) const override {
    std::string title = group == "Options" ? "OPTIONS" : group;
    std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
    std::string out = fmt::format("\n{}\n", title);
    for (const CLI::Option* option : options) {
      const std::string type = option->get_type_name();         // with the check's words after a colon
      const std::string names = option->get_name(false, true);  // of a flag that turns something off with "{false}"
      out += fmt::format("  {}", names.substr(0, names.find('{')));
      out += fmt::format("{}{}\n", type.empty() ? "" : " ", type.substr(0, type.find(':')));
      out += fmt::format("      {}\n", option->get_description());
    }
    return out;
  }

 private:
  static std::string indented(const std::string& text) {
    std::string out = "  ";
    for (char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
    return out + "\n";
  }
  static std::string synopsis(const CLI::App* app, const std::string& name) {
    std::string out = "  " + name;
    for (const CLI::Option* option : app->get_options(nullptr)) {
      if (!option->get_positional() || option->get_group().empty()) continue;
      out += option->get_required() ? fmt::format(" {}", option->get_name(true)) : fmt::format(" [{}]", option->get_name(true));
    }
    return out + " [OPTIONS]\n";
  }
  static std::string verbs(const CLI::App* app) {
    std::string out;
    for (const CLI::App* verb : app->get_subcommands(nullptr)) {
      const std::string description = verb->get_description();
      out += fmt::format("  {:<12}{}\n", verb->get_name(), description.substr(0, description.find('\n')));
    }
    return out + "  `saturate VERB --help` tells each one's options.\n";
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> man_formatter() { return std::make_shared<ManFormatter>(); }

}  // namespace saturate
