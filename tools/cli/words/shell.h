// What shells and `man` read of the command: made by walking the definitions that it is parsed by, and its help printed from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace saturate {

inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};
// The script that completes words of the command. `app` has all verbs.
std::string completion(std::string_view shell, const CLI::App& app);
// A man page: the help text of the command (`verb` is "") or of a verb, as roff.
std::string man_page(const std::string& help, const std::string& verb, const std::string& version);

}  // namespace saturate
