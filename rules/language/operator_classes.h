// Classes of operators that a law is for: `forall op in unary_elementwise`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saturate {

// The operators of a class, as rules write them; nullopt where there is no class of this name.
std::optional<std::vector<std::string>> operators_of_class(std::string_view name);
// The names of all classes, for messages.
std::string operator_classes();

}  // namespace saturate
