// Names of regions: what names have in common, and many names as one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

// The module that a node belongs to, by PyTorch's name scopes or by the path in its name; "" where nothing tells.
std::string scope_of_node(const Node& node);
// What all of them begin with, by whole parts; those that are empty do not count.
std::string common_scope(const std::vector<std::string>& scopes);
// "layer.0.x", "layer.1.x", "layer.2.x" as "layer.{0..2}.x"; others as the first "and n more".
std::string folded_names(const std::vector<std::string>& names);
// "a, b, c" as its parts.
std::vector<std::string> split_names(std::string_view text);

}  // namespace saturate
