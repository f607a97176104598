// The text of the built-in rules, and what is proven of them.
#pragma once

#include <span>
#include <string_view>

namespace saturate {

// The built-in files: name and text (generated at build time).
struct EmbeddedRules {
  std::string_view name, text;
};
std::span<const EmbeddedRules> embedded_rules();
// library/proofs.json, which bench/prove_rules writes: by law, whether it is proven and of what.
std::string_view embedded_proofs();

}  // namespace saturate
