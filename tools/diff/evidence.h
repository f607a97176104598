// What the values of two models are on the same random inputs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/verify/verify.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

class Evidence {
 public:
  // Runs both models on inputs that both accept. `input_names`: of the second model's inputs, by those of the first. Of `options`: sizes,
  // seed, threads, seconds, memory, cancel, runtime.
  static Evidence collect(const Model& first, const Model& second, const std::map<std::string, std::string>& input_names,
                          const VerifyOptions& options);
  bool ran() const { return cases_ > 0; }
  const std::string& why_not() const { return why_not_; }
  // Whether a value of the first model's graph and one of the second's (inputs, and what nodes make) were the same but for rounding;
  // nullopt: one of them was not seen.
  std::optional<bool> same(const std::string& first, const std::string& second) const;
  // The size and type that the value had in the first run; "" where it was not seen.
  std::string kind(int model, const std::string& value) const;
  // Whether the value is a float tensor of many different numbers: none that is equal by chance.
  bool is_telling(int model, const std::string& value) const;

 private:
  // Elements of a value: all of a small one, evenly spread ones of a large one.
  struct Sample {
    DType dtype = DType::kUndefined;
    Shape dims;
    std::vector<double> elements;
    std::vector<std::string> strings;
  };
  using Samples = std::unordered_map<std::string, Sample>;
  friend class EvidenceRuns;
  static bool same(const Sample& a, const Sample& b);

  std::size_t cases_ = 0;
  std::vector<Samples> samples_[2];  // by case
  std::string why_not_;
};

}  // namespace saturate
