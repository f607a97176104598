// Each fold of a graph as boxes with their places.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/page/folds.h"
#include "tools/page/words.h"

namespace saturate {

// What the boxes of a graph say. Nodes are numbered as on the page; `numbers` are those of the graph.
struct FoldView {
  const std::vector<int>& numbers;
  const std::vector<std::vector<int>>& reads;  // nodes; ~word: a value from outside
  const std::vector<std::string>&op_types, &scopes;
  const std::unordered_map<int, std::vector<std::string>>& given;  // outputs of the graph
  const nlohmann::json& region;
  std::function<bool(int read)> is_weight;
  PageWords& words;
};

class FoldBoxes {
 public:
  // The number of the whole.
  int add(const std::vector<Fold>& folds, const FoldView& view);
  const nlohmann::json& folds() const { return folds_; }
  const nlohmann::json& layouts() const { return layouts_; }

 private:
  friend class FoldWriter;
  nlohmann::json folds_ = nlohmann::json::array(), layouts_ = nlohmann::json::array();
  std::unordered_map<std::string, int> layout_numbers_;
};

}  // namespace saturate
