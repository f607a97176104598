// Rules as rewrites of an e-graph: the left side becomes a pattern with tests, the right side a plan to build.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "egraph/rewrite.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "rules/stored/stored_rule.h"
#include "rules/terms/rule.h"

namespace saturate {

// Unions that rules wanted and that cannot be: the two sides provably differ in dtype or shape. Each is a bug in a rule.
class RuleLog {
 public:
  struct Refusal {
    std::string rule, what;
  };
  void refuse(const std::string& rule, std::string what);
  std::vector<Refusal> refusals() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Refusal> refusals_;
};

// The applier of a compiled rule; it can say why it does not apply to a match ("" : it does).
class RuleApplier : public Applier {
 public:
  virtual std::string why_not(const Match& match) const = 0;
  // "1.41421", "[0, 1]": the constant that a node of the pattern must be; "" where it is none.
  virtual std::string constant_at(std::uint32_t slot) const = 0;
};

// The rewrites of one rule: one for each operand list that its optional inputs allow, twice as many of a `<=>` rule (`name`, `name.back`).
// `rule` and `g` must outlive them; `g` is the one that they run on.
std::vector<Rewrite> compile_rule(const Rule& rule, OnnxEGraph& g, std::shared_ptr<RuleLog> log = nullptr);
// OnnxEGraph::kind of operators of rules, remembered.
class KnownKinds {
 public:
  explicit KnownKinds(OnnxEGraph& g) : g_(g) {}
  Kind of(const RuleOp& op);

 private:
  OnnxEGraph& g_;
  // By where its names lie: the built-in rules have each name once.
  absl::flat_hash_map<std::tuple<const char*, const char*, std::size_t>, Kind> known_;
};
// The same rewrites, each made when it is wanted first (Rewrite::make), of a rule that they keep. `kinds` knows those asked for before.
void compile_when_wanted(const std::shared_ptr<const StoredRule>& rule, OnnxEGraph& g, KnownKinds& kinds, std::vector<Rewrite>& out);

// "dtype float and int64", "rank 2 and 3", "dim 1: 4 and 5" where the facts exclude each other, else "".
std::string clash(const Facts& a, const Facts& b, const DimTable& dims);

}  // namespace saturate
