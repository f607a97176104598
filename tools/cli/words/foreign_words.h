// What people type who come from other tools, as data: verbs, flags of single verbs, passes and formats of results.
#pragma once

#include <string>
#include <string_view>

namespace saturate {

// What to type in the place of a verb of others; "" where the word is none. "did you mean 'optimize'? ..."
std::string_view instead_of_verb(std::string_view word);
// A flag that a verb has not, and what to type there.
std::string_view instead_of_flag(std::string_view verb, std::string_view flag);
// A pass of transform.
std::string_view instead_of_pass(std::string_view pass);
// Why a result can't have this name: "out.ort".
std::string wrong_result(const std::string& path);
// What is wrong with a word in the place of a model: an address, a name of a hub. "" where nothing is.
std::string wrong_model(const std::string& word);

}  // namespace saturate
