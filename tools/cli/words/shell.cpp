#include "tools/cli/words/shell.h"

#include <algorithm>
#include <cctype>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace saturate {
namespace {

using Words = std::vector<std::string>;

// An option or an argument as a shell completes it.
struct ShellWord {
  Words names;  // "--threads", "-o"; none of an argument
  std::string what, type;
  bool takes = false;  // a value
  bool files = false, folders = false;
  Words choices;
};
struct ShellVerb {
  std::string name, what;
  std::vector<ShellWord> options, arguments;
};

std::string headline(const std::string& text) { return text.substr(0, text.find('\n')); }

Words split_at_commas(std::string_view text) {
  Words out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A type is "KIND" or "KIND:{a,b}"; kinds that name files have the word or an ending.
ShellWord word_of(const CLI::Option& option) {
  ShellWord out;
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  out.takes = option.get_expected_max() != 0;
  std::string type = option.get_type_name();
  if (const std::size_t brace = type.find('{'); brace != std::string::npos)
    out.choices = split_at_commas(std::string_view(type).substr(brace + 1, type.rfind('}') - brace - 1));
  out.type = type.substr(0, type.find(':'));
  const std::string kind = option.get_positional() ? option.get_name(true) : out.type;
  out.folders = out.takes && (kind == "DIR" || kind == "FOLDER");
  out.files =
      out.takes && !out.folders && (mentions(kind, ".") || mentions(kind, "FILE") || kind == "TARGET" || kind == "T" || kind == "MODEL");
  out.what = headline(option.get_description());
  return out;
}

std::vector<ShellVerb> verbs_of(const CLI::App& app) {
  std::vector<ShellVerb> out;
  for (const CLI::App* app_of : app.get_subcommands(nullptr)) {
    ShellVerb verb{app_of->get_name(), headline(app_of->get_description()), {}, {}};
    for (const CLI::Option* option : app_of->get_options(nullptr)) {
      if (option->get_group().empty()) continue;
      (option->get_positional() ? verb.arguments : verb.options).push_back(word_of(*option));
    }
    out.push_back(std::move(verb));
  }
  return out;
}

Words verb_words(const std::vector<ShellVerb>& verbs) {
  Words out;
  for (const ShellVerb& verb : verbs) out.push_back(verb.name);
  return out;
}

// In single quotes of a shell.
std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash_values(const ShellWord& word) {
  std::string out;
  if (!word.choices.empty())
    out += fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\"))", single_quoted(fmt::format("{}", fmt::join(word.choices, " "))));
  const char* const paths = word.folders ? "-d" : "-f";
  if (word.folders || word.files) out += fmt::format("{}COMPREPLY+=($(compgen {} -- \"$cur\"))", out.empty() ? "" : "; ", paths);
  return out.empty() ? ":" : out;
}

std::string bash_script(const std::vector<ShellVerb>& verbs) {
  std::string out =
      "# bash completion of saturate, made by `saturate completion bash`.\n"
      "_saturate() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev= verb= at=0 i\n"
      "  COMPREPLY=()\n"
      "  ((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in\n";
  out += fmt::format("      {}) verb=${{COMP_WORDS[i]}} at=$i; break ;;\n    esac\n  done\n", fmt::join(verb_words(verbs), "|"));
  out += fmt::format("  if [[ -z $verb && $COMP_CWORD -eq 1 ]]; then COMPREPLY=($(compgen -W {} -- \"$cur\")); fi\n",
                     single_quoted(fmt::format("{} --help --version", fmt::join(verb_words(verbs), " "))));
  out += "  case ${verb:-optimize} in\n";
  for (const ShellVerb& verb : verbs) {
    out += fmt::format("    {})\n      case $prev in\n", verb.name);
    Words flags;
    for (const ShellWord& option : verb.options) {
      flags.insert(flags.end(), option.names.begin(), option.names.end());
      if (option.takes) out += fmt::format("        {}) {}; return ;;\n", fmt::join(option.names, "|"), bash_values(option));
    }
    out += "      esac\n";
    out += fmt::format("      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W {} -- \"$cur\")); return; fi\n",
                       single_quoted(fmt::format("{}", fmt::join(flags, " "))));
    if (!verb.arguments.empty() && !verb.arguments[0].choices.empty())
      out += fmt::format("      if ((COMP_CWORD == at + 1)); then {}; return; fi\n", bash_values(verb.arguments[0]));
    out += "      COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n";
  }
  return out + "  esac\n}\ncomplete -o filenames -F _saturate saturate onnx-saturate\n";
}

// In a specification of _arguments: brackets and colons are its own.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string zsh_values(const ShellWord& word) {
  const std::string paths = word.folders ? "_files -/" : "_files";
  if (word.choices.empty()) return word.folders || word.files ? paths : " ";
  const std::string words = fmt::format("{}", fmt::join(word.choices, " "));
  return word.files || word.folders ? " _saturate_words_or_files " + words : "(" + words + ")";
}

std::string zsh_script(const std::vector<ShellVerb>& verbs) {
  std::string out =
      "#compdef saturate onnx-saturate\n"
      "# zsh completion of saturate, made by `saturate completion zsh`.\n"
      "_saturate_words_or_files() { _alternative \"words:word:($*)\" 'files:file:_files' }\n"
      "_saturate() {\n"
      "  local verb= i\n"
      "  local -a verbs\n"
      "  verbs=(\n";
  for (const ShellVerb& verb : verbs) out += fmt::format("    {}\n", single_quoted(verb.name + ":" + zsh_text(verb.what)));
  out += fmt::format(
      "  )\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    case ${{words[i]}} in\n"
      "      ({}) verb=${{words[i]}}; words[i]=(); ((CURRENT--)); break ;;\n"
      "    esac\n"
      "  done\n"
      "  if [[ -z $verb && $CURRENT -eq 2 && ${{words[2]}} != -* ]]; then _describe verb verbs; fi\n"
      "  case ${{verb:-optimize}} in\n",
      fmt::join(verb_words(verbs), "|"));
  for (const ShellVerb& verb : verbs) {
    out += fmt::format("    ({})\n      _arguments -s", verb.name);
    for (const ShellWord& option : verb.options)
      for (const std::string& name : option.names) {
        const std::string value = option.takes ? fmt::format(":{}:{}", zsh_text(option.type), zsh_values(option)) : "";
        out += " \\\n        " + single_quoted(fmt::format("*{}[{}]{}", name, zsh_text(option.what), value));
      }
    const bool action = !verb.arguments.empty() && !verb.arguments[0].choices.empty();
    if (action) out += " \\\n        " + single_quoted(fmt::format("1:action:{}", zsh_values(verb.arguments[0])));
    out += " \\\n        '*:file:_files' ;;\n";
  }
  return out +
         "  esac\n}\nif [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then _saturate \"$@\"; else compdef _saturate saturate "
         "onnx-saturate; fi\n";
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish_option(const ShellWord& option, const std::string& when) {
  std::string out = fmt::format("    complete -c $command -n {}", fish_quoted(when));
  for (const std::string& name : option.names)
    out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
  out += " -d " + fish_quoted(option.what);
  if (option.takes) out += option.files ? " -r" : " -x";
  if (!option.choices.empty()) out += " -a " + fish_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
  if (option.folders) out += " -a '(__fish_complete_directories (commandline -ct))'";
  return out + "\n";
}

std::string fish_script(const std::vector<ShellVerb>& verbs) {
  std::string out = "# fish completion of saturate, made by `saturate completion fish`.\n";
  out += "for command in saturate onnx-saturate\n";
  for (const ShellVerb& verb : verbs)
    out += fmt::format("    complete -c $command -n __fish_use_subcommand -a {} -d {}\n", verb.name, fish_quoted(verb.what));
  for (const ShellVerb& verb : verbs) {
    // The verb `optimize` may be left out.
    Words others = verb_words(verbs);
    std::erase(others, verb.name);
    const std::string when = verb.name == "optimize" ? fmt::format("not __fish_seen_subcommand_from {}", fmt::join(others, " "))
                                                     : fmt::format("__fish_seen_subcommand_from {}", verb.name);
    for (const ShellWord& option : verb.options) out += fish_option(option, when);
    for (const ShellWord& argument : verb.arguments)
      if (!argument.choices.empty())
        out += fmt::format("    complete -c $command -n {} -a {}\n", fish_quoted(when),
                           fish_quoted(fmt::format("{}", fmt::join(argument.choices, " "))));
  }
  return out + "end\n";
}

// Text that roff takes as it is.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

}  // namespace

std::string completion(std::string_view shell, const CLI::App& app) {
  const std::vector<ShellVerb> verbs = verbs_of(app);
  return shell == "bash" ? bash_script(verbs) : shell == "zsh" ? zsh_script(verbs) : fish_script(verbs);
}

std::string man_page(const std::string& help, const std::string& verb, const std::string& version) {
  std::string title = verb.empty() ? "saturate" : "saturate-" + verb;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string out = fmt::format(".TH {} 1 \"\" \"saturate {}\" \"saturate\"\n", roff(title), version), section;
  for (std::size_t at = 0; at < help.size();) {
    const std::size_t end = std::min(help.find('\n', at), help.size());
    const std::string line = help.substr(at, end - at);
    at = end + 1;
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    if (line.empty()) continue;
    const std::string text = line.substr(indent);
    const bool example = section == "EXAMPLES", tagged = section == "EXIT STATUS" || section == "VERBS";
    const std::size_t gap = text.find("  ");
    if (indent == 0) {
      if (example) out += ".EE\n";
      section = line;
      out += fmt::format(".SH {}\n", roff(line));
      if (section == "EXAMPLES") out += ".EX\n";
    } else if (tagged && gap != std::string::npos) {
      out += fmt::format(".TP\n.B {}\n{}\n", roff(text.substr(0, gap)), roff(text.substr(text.find_first_not_of(' ', gap))));
    } else if (!example && indent == 2 && text.starts_with('-')) {
      out += fmt::format(".TP\n.B {}\n", roff(text));
    } else if (example || section == "NAME") {
      out += roff(text) + "\n";
    } else {
      if (section == "DESCRIPTION" && indent > 2) out += ".br\n";
      out += roff(text) + (section == "SYNOPSIS" ? "\n.br\n" : "\n");
    }
  }
  return out + (section == "EXAMPLES" ? ".EE\n" : "");
}

}  // namespace saturate
