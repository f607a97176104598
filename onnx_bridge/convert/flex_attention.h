// FlexAttention-1 of ai.onnx.preview (ONNX Operators), spelled out around the graphs that change its scores and probabilities.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx_bridge/facts/facts.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Nodes of ai.onnx from opset 15 on. They read `query`, `key` and `value`; names of values are a few words with a leading space, which no
// graph beside them is likely to have.
struct FlexAttentionBody {
  std::vector<std::pair<std::string, Tensor>> constants;
  std::vector<Node> scores;         // makes `scores`
  std::vector<Node> probabilities;  // of `scores`, perhaps changed: `probabilities`
  std::vector<Node> result;         // of `probabilities`, perhaps changed: `result`

  static constexpr const char *kQuery = " query", *kKey = " key", *kValue = " value", *kScores = " scores",
                              *kProbabilities = " probabilities", *kResult = " result";
  static constexpr std::array kSides{kQuery, kKey, kValue};
};

bool is_flex_attention(const Node& node);
// Of such a node; nullopt where dtypes or ranks are not known, or not those of the operator, or the opset is too old.
std::optional<FlexAttentionBody> flex_attention_body(const Node& node, const Facts& query, const Facts& key, const DimTable& dims,
                                                     const std::map<std::string, std::int64_t>& opsets);

}  // namespace saturate
