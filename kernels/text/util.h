// Case changes of UTF-8 text for the scripts that have simple one-to-one case pairs (Unicode, UnicodeData.txt).
#pragma once

#include <string>

#include "kernels/core/registry.h"

namespace saturate {

std::string change_case(const std::string& text, bool upper);

void register_string_regex(Registry& registry);
void register_string_tfidf(Registry& registry);

}  // namespace saturate
