// Mistakes in what a user typed, and what he may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace saturate {

// An error in an option or a name that was given: exit status 2 of the command, OptionError in Python. Other errors are about files.
absl::Status wrong_usage(const std::string& message);
// The same of a name that nobody knows; of what looks like the path of a file that is not there (a dot or a slash in it) an error of files.
absl::Status no_name_or_file(std::string_view name, const std::string& message);
bool is_wrong_usage(const absl::Status& status);

// The name among `known` that `name` was most likely meant to be; "" where none is near.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

// What to type instead of `name`, which is none of `known`: "did you mean 'batch'? There are batch, seq". In the place of a long list
// stands `lister`, the command that shows it ("`saturate rules list` names them").
std::string what_instead(std::string_view name, const std::vector<std::string>& known, std::string_view lister = "");

}  // namespace saturate
