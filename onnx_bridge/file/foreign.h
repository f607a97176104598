// Files that are taken for ONNX models and are none: what they are, and how one comes to a model.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace saturate {

// How much of a file is looked at.
inline constexpr std::size_t kHeadBytes = 4096;

// By the first bytes of a file: "this is a safetensors file, weights without a graph; export ...", or "" where it may be a model.
std::string foreign_format(std::string_view head);

// Why there is no model at a path that can't be opened: what is there that may be meant.
std::string no_file(const std::string& path, int error);
// The same of a folder: the model in it.
std::string folder_for_model(const std::string& path);

}  // namespace saturate
