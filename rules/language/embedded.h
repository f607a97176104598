// The text of the built-in rules.
#pragma once

#include <span>
#include <string_view>

namespace saturate {

// The built-in files: name and text (generated at build time).
struct EmbeddedRules {
  std::string_view name, text;
};
std::span<const EmbeddedRules> embedded_rules();

}  // namespace saturate
