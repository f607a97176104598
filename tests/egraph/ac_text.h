// A sum of n variables with the rules of commutativity and associativity, as text of a workload.
#pragma once

#include <string>

namespace saturate {

inline std::string ac_text(int n) {
  std::string term = "v" + std::to_string(n);
  for (int i = n - 1; i >= 1; --i) term = "(+ v" + std::to_string(i) + " " + term + ")";
  return "(rule comm (+ ?a ?b) (+ ?b ?a)) (rule assoc (+ ?a (+ ?b ?c)) (+ (+ ?a ?b) ?c)) (root " + term + ")";
}

}  // namespace saturate
