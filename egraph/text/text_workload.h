// Text workloads of equality saturation: rules and start terms as s-expressions (format: data/egraph_workloads/README.md of the
// measurements).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "egraph/egraph.h"
#include "egraph/rewrite.h"

namespace saturate {

// An e-graph filled with the start terms, its rules, and names to print it by.
struct Workload {
  struct Options {
    bool reverse_rules = false;         // the same rules in the opposite order
    bool commutative_matching = false;  // rules of the form (f ?a ?b) -> (f ?b ?a) become a trait of f
  };

  std::unique_ptr<Analysis> leaves;  // what leaves a class holds; for the conditions
  std::unique_ptr<EGraph> egraph;
  std::vector<Rewrite> rules;
  std::vector<std::string> op_names;  // by OpId; of leaves "<num>" or "<sym>"
  std::vector<std::string> op_texts;  // by OpId, as written
  std::map<std::string, OpId> ops;    // "name/arity"
  std::size_t iterations = 30;
  std::vector<Id> roots;

  // Adds a term of operators that occur in the text; kInvalidArgument where one does not, or the text is no term.
  absl::StatusOr<Id> add_term(std::string_view text);

  // Line and reason where the text is no workload.
  static absl::StatusOr<Workload> parse(std::string_view text, const Options& options);
  static absl::StatusOr<Workload> parse(std::string_view text) { return parse(text, Options{}); }
};

// FNV-1a (with the offset basis of expected.json) of "size:count,size:count,..." over the class sizes, 16 hexadecimal digits.
std::string class_sizes_fnv1a64(const EGraph& egraph);

}  // namespace saturate
