// What there is to say beside a verdict: of many outputs of which the same is to be said, one line.
#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "kernels/compare/compare.h"
#include "kernels/verify/verify.h"

namespace saturate {

class VerifyNotes {
 public:
  void add(std::string text) { texts_.push_back(std::move(text)); }
  // The output differs by more than its tolerance, and may: `why` says by what, and what shows it.
  void allow(const OutputComparison& output, CaseKind kind, std::string_view why);
  // Something else that is true of single outputs, with its verb in front: "names other elements than the original".
  void tell(const std::string& output, std::string_view what);
  // All of them, in the order in which they came first.
  std::vector<std::string> lines() const;

 private:
  struct Of {
    void name(const std::string& output) {
      if (known.insert(output).second) outputs.push_back(output);
    }
    std::vector<std::string> outputs;  // each once
    std::unordered_set<std::string> known;
    std::vector<std::string> kinds;  // of cases, each once
    OutputComparison most;           // the largest difference
  };
  static std::string allowed_line(const Of& of, const std::string& why);
  std::vector<std::string> texts_;
  std::vector<std::pair<std::string, Of>> allowed_, told_;  // by what is said
};

}  // namespace saturate
