// Targets as JSON text, and the spellings that it uses.
#pragma once

#include "extract/target/target.h"

namespace saturate {

// kInvalidArgument: `place`, the key and what is wrong with it.
absl::StatusOr<Target> parse_target(const std::string& text, const std::string& place);

// An attribute's value as compact JSON: 1, "DCR", [0,2,1,3].
std::string attribute_text(const Attribute& attribute);
// Why an operator with these attributes is none of those that are allowed; "": it is. One that is absent is allowed.
std::string refuse_attributes(const std::map<std::string, std::vector<std::string>>& allowed, const std::vector<Attribute>& attributes);

}  // namespace saturate
