// Why two classes are equal, and where an e-node comes from: rule applications that an independent checker replays.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "egraph/egraph.h"
#include "egraph/rewrite.h"

namespace saturate {

struct ExplainStep {
  enum class Kind : std::uint8_t {
    kRule,        // an instance of a rewrite with a template: left side = right side under the substitution
    kNative,      // what an Applier united at this match (trusted by the checker)
    kCongruence,  // same operator, children equal by earlier steps
    kGiven,       // merged by the caller, outside of run()
    kAnalysis,    // merged by Analysis::modify()
  };
  Kind kind = Kind::kGiven;
  std::string rule;                    // its name
  std::uint32_t rule_index = kNone;    // among the rules of explained_rules()
  bool forward = true;                 // in a chain: from `left` to `right`, else the other way
  NodeId left = kNone, right = kNone;  // the e-nodes made equal: terms, see term()
  std::vector<NodeId> slots;  // substitution by pattern slot: an e-node standing for its class; the matched e-node where it is an operator
};

struct Explanation {
  std::vector<ExplainStep> chain;    // from a to b, one step after the other
  std::vector<ExplainStep> support;  // what matches and congruences of the chain rest on, oldest first; each once
  // All steps in the order of their age.
  std::vector<ExplainStep> replay;
};

// Keep reasons from now on: called before the first union (false: too late). Costs memory and time.
bool record_explanations(EGraph& egraph);
bool records_explanations(const EGraph& egraph);

// nullopt: not equal, or no reasons are kept. Time and size are linear in the number of unions at worst.
std::optional<Explanation> explain(const EGraph& egraph, Id a, Id b);

// The application that made an e-node; nullopt: given, or made by the analysis.
std::optional<ExplainStep> explain_added(const EGraph& egraph, NodeId node);

// The rules behind an e-node, those that fired first coming first, each once; of so many e-nodes at most.
std::vector<std::string> rules_behind(const EGraph& egraph, NodeId node, std::size_t most_nodes = 60);

// Replays all steps on a fresh e-graph: each rule step must be an instance of its rule, each step must equate what it says, and at the end
// a = b. Empty, or what is wrong.
std::string check_explanation(const EGraph& egraph, const Explanation& explanation, Id a, Id b);

// The e-node as it was made: its children name e-nodes. (EGraph::node() has canonical classes instead.)
ENode term(const EGraph& egraph, NodeId node);

std::string to_string(const EGraph& egraph, const ExplainStep& step, const std::function<std::string(OpId)>& op_name);
std::string to_string(const EGraph& egraph, const Explanation& explanation, const std::function<std::string(OpId)>& op_name);

}  // namespace saturate
