// Small questions about a graph, and the node that answers them: what a value is, how often it is read, which rank it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

inline constexpr const char* kMicrosoftDomain = "com.microsoft";

bool is_operator(const Node& node, std::string_view op_type, std::string_view domain = "");
// How often nodes (their bodies too) and outputs read a value.
std::size_t reads_of(const Graph& graph, const std::string& value);
// What a value is where it is an initializer that no input overrides, or a Constant, also behind Identity; null elsewhere.
const Tensor* constant_tensor(const Graph& graph, const std::string& value);
std::optional<std::vector<std::int64_t>> constant_ints(const Graph& graph, const std::string& value);
// The dims of a value where all are numbers.
std::optional<std::vector<std::int64_t>> static_dims(const std::map<std::string, ValueType>& types, const std::string& value);
std::optional<std::size_t> rank_of(const std::map<std::string, ValueType>& types, const std::string& value);

// An error where the model's opset of ai.onnx is older.
absl::Status wants_opset(const Model& model, std::int64_t least);

// A node of one output, whose name is made of `like`.
Node make_node(std::string op_type, std::vector<std::string> inputs, std::string output, std::vector<Attribute> attributes = {},
               std::string domain = "");

}  // namespace saturate
