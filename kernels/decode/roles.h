// Small questions about a graph's inputs and outputs, by which their roles in a decoder are found.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/model/model.h"

namespace saturate::roles {

using Places = std::vector<std::size_t>;

inline absl::Status no_decoder(const std::string& what) { return absl::InvalidArgumentError(what); }

inline std::string lower(const std::string& text) {
  std::string out = text;
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

inline bool holds(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

inline std::size_t rank_of(const ValueInfo& value) { return value.type.shape ? value.type.shape->size() : 0; }

inline bool is_tensor(const ValueInfo& value) { return value.type.kind == ValueType::Kind::kTensor; }

inline bool is_index(const ValueInfo& value) {
  return is_tensor(value) && (value.type.dtype == DType::kInt64 || value.type.dtype == DType::kInt32);
}

inline const DimSpec* dim_of(const ValueInfo& value, std::size_t axis) {
  return axis < rank_of(value) ? &(*value.type.shape)[axis] : nullptr;
}

inline std::optional<std::int64_t> fixed_dim(const ValueInfo& value, std::size_t axis) {
  const DimSpec* dim = dim_of(value, axis);
  const auto* number = dim ? std::get_if<std::int64_t>(dim) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

inline std::string names_of(const std::vector<ValueInfo>& values, const Places& places) {
  std::vector<std::string> out;
  for (const std::size_t i : places) out.push_back(values[i].name);
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace saturate::roles
