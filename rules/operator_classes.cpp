#include "rules/operator_classes.h"

namespace saturate {

std::optional<std::vector<std::string>> operators_of_class(std::string_view) { return std::nullopt; }

std::string operator_classes() { return {}; }

}  // namespace saturate
