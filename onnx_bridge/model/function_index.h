// A model's functions by their names: there may be as many as nodes.
#pragma once

#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Refers to the functions: they stay where they are while it lives.
class FunctionIndex {
 public:
  FunctionIndex() = default;
  explicit FunctionIndex(std::span<const Function> functions) {
    for (const Function& f : functions) {
      by_name_.try_emplace({plain(f.domain), f.name, f.overload}, &f);
      names_.emplace(plain(f.domain), f.name);
    }
  }

  // The one that the node calls; null where it calls none.
  const Function* called(const Node& node) const {
    if (by_name_.empty()) return nullptr;
    const auto found = by_name_.find({plain(node.domain), node.op_type, node.overload});
    return found == by_name_.end() ? nullptr : found->second;
  }
  // Whether one has this name, of any overload.
  bool has(std::string_view domain, std::string_view name) const { return names_.contains({plain(domain), name}); }

 private:
  using Name = std::tuple<std::string_view, std::string_view, std::string_view>;  // domain, name, overload
  static std::string_view plain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

  std::unordered_map<Name, const Function*, absl::Hash<Name>> by_name_;
  std::set<std::pair<std::string_view, std::string_view>> names_;
};

}  // namespace saturate
