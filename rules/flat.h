// Rules as bytes: the built-in files are read and checked when saturate is built, and what came of them is loaded without a parser.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/rule.h"

namespace saturate {

// What running a rule needs: all but its documentation, its text, its examples and the places inside of it.
std::string flatten(std::span<const Rule> rules);
// Of bytes that flatten() of this very build wrote: nothing is checked.
std::vector<Rule> unflatten(std::string_view bytes);

}  // namespace saturate
